"""Which texts must be encoded: each text once, and none of those whose vector is there already."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from blake3 import blake3
from numpy.typing import NDArray

__all__ = ["VectorPlan", "no_keys", "plan_vectors", "text_keys"]

_KEY_BYTES = 16  # two of a billion texts share 128 bits once in 10**20 corpora


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """Where the vector of each of U texts comes from.

    Attributes:
        earlier: int64 (U,), the row of the earlier table that has the text, or -1.
        new: int64 (U,), its number among the texts to encode, or -1.
        encode: bool (U,), whether this is the first of the texts to encode that are the same.
        gone: rows of the earlier table whose text no longer occurs.
    """

    earlier: NDArray[np.int64]
    new: NDArray[np.int64]
    encode: NDArray[np.bool_]
    gone: int

    @property
    def to_encode(self) -> int:
        """Texts to encode."""
        return int(np.count_nonzero(self.encode))

    @property
    def reused(self) -> int:
        """Texts that have a vector already."""
        return int(np.count_nonzero(self.earlier >= 0))

    @property
    def repeated(self) -> int:
        """Texts to encode that came before."""
        return len(self.encode) - self.to_encode - self.reused


def text_keys(texts: pa.StringArray) -> NDArray[np.uint64]:
    """uint64 (N, 2): the first 128 bits of the BLAKE3 of each text; 16 bytes of memory and about 1 µs for each."""
    _, places, values = texts.buffers()
    offsets = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
    data = memoryview(values if values is not None else b"")
    digests = [blake3(data[begin:end]).digest(_KEY_BYTES) for begin, end in pairwise(offsets)]
    return np.frombuffer(b"".join(digests), np.dtype("<u8")).reshape(-1, 2)


def no_keys() -> NDArray[np.uint64]:
    """The keys of no texts."""
    return np.zeros((0, 2), np.uint64)


def plan_vectors(earlier: NDArray[np.uint64], texts: NDArray[np.uint64]) -> VectorPlan:
    """Find the texts that must be encoded. Takes about 80 bytes of memory for each text.

    Args:
        earlier: uint64 (R, 2), keys of the texts that have a vector.
        texts: uint64 (U, 2), keys of the texts that need one.
    """
    rows, units = len(earlier), len(texts)
    keys = np.concatenate([earlier, texts])
    order = np.lexsort(
        (keys[:, 1], keys[:, 0])
    )  # stable: of equal ones the first comes first, and earlier rows before all
    opens = np.ones(len(keys), np.bool_)
    opens[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    first = np.empty(len(keys), np.int64)
    first[order] = order[opens][np.cumsum(opens) - 1]
    of_unit = first[rows:]
    encode = of_unit == np.arange(rows, rows + units)
    number = np.cumsum(encode) - 1
    known = of_unit < rows
    used = np.zeros(rows, np.bool_)
    used[of_unit[known]] = True
    return VectorPlan(
        np.where(known, of_unit, -1),
        np.where(known, -1, number[np.where(known, 0, of_unit - rows)] if units else number),
        encode,
        int(np.count_nonzero(~used[first[:rows]])) if rows else 0,
    )
