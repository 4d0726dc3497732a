"""Distinct pre-tokens and how often each occurs: what a tokenizer is trained from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wordpipe.tokens.ragged import offsets_of

__all__ = ["Pretokens"]


@dataclass(frozen=True)
class Pretokens:
    """A table of distinct pre-tokens in flat arrays, the commonest first, equal counts in the order of their bytes.

    Attributes:
        data: uint8 [bytes], the pre-tokens' UTF-8, joined. With byte-level pre-tokenizers this is the text itself, not the
            printable letters that stand for its bytes in a vocabulary.
        offsets: int64 [n + 1], where each begins and ends in `data`.
        counts: int64 [n], how often each occurs; at least 1.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> "Pretokens":
        """From a mapping in any order."""
        ordered = sorted(
            ((text.encode(), count) for text, count in counts.items()), key=lambda item: (-item[1], item[0])
        )
        return cls.from_sorted([text for text, _ in ordered], [count for _, count in ordered])

    @classmethod
    def from_sorted(cls, texts: Iterable[bytes], counts: Iterable[int]) -> "Pretokens":
        """From rows that are in order already."""
        texts = list(texts)
        offsets = offsets_of([len(text) for text in texts])
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets, np.fromiter(counts, np.int64, len(texts)))

    def text(self, row: int) -> str:
        """One pre-token."""
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()
