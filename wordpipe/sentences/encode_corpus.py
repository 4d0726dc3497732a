"""Encoding a corpus once: which texts need a vector, in what chunks they are encoded, and where their vectors are stored.

Shapes: U texts of the corpus, R of an earlier artifact, N stored vectors of D numbers.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3
from numpy.typing import NDArray

from wordpipe.errors import StorageError

_KEY_BYTES = 16  # two of a billion texts share 128 bits once in 10**20 corpora
_CHUNK = 4096  # texts encoded at a time; sorted by length within
_CHUNK_BYTES = 16 << 20  # so that a chunk of books needs no more memory than one of sentences
_BLOCK_ROWS = 4096


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
    # stable: of equal ones the first comes first, and earlier rows before all
    order = np.lexsort((keys[:, 1], keys[:, 0]))
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


def chunks_of(texts: Iterable[pa.StringArray], skip: int) -> Iterator[list[str]]:
    """The texts after the first `skip` in lists of a few thousand; of long texts, fewer.

    What is encoded together depends on the texts alone, so the vectors do not tell where a run was killed.
    """
    chunk: list[str] = []
    size = 0  # bytes in the chunk
    for array in texts:
        left = array.slice(skip)
        skip = max(0, skip - len(array))
        ends = np.cumsum(pc.binary_length(left).to_numpy(zero_copy_only=False), dtype=np.int64)
        found, done = left.to_pylist(), 0
        while done < len(found):
            before = int(ends[done - 1]) if done else 0
            fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES - size, side="right"))
            stop = min(done + _CHUNK - len(chunk), max(fitting, done if chunk else done + 1))
            chunk += found[done:stop]
            if stop == len(found):
                size += int(ends[-1]) - before
                break
            yield chunk
            chunk, size, done = [], 0, stop
    if chunk:
        yield chunk


@dataclass(frozen=True)
class StoredVectors:
    """N vectors in flat files of float32, one after the other, read where they are asked for.

    They are read, not mapped: pages of a map would count as this process's memory.

    Attributes:
        paths: the files.
        counts: how many vectors are in each.
        dim: numbers per vector, D.
        figures: what was counted while they were made.
    """

    paths: Sequence[Path]
    counts: Sequence[int]
    dim: int
    figures: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(self.counts)

    def take(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of these numbers, (len(numbers), D); each is read once.

        Raises:
            StorageError: a file is shorter than it was.
        """
        wanted, back = np.unique(numbers, return_inverse=True)
        taken = np.empty((len(wanted), self.dim), np.float32)
        limits = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        bounds = np.searchsorted(wanted, limits)
        for path, start, one, end in zip(self.paths, limits, bounds, bounds[1:], strict=False):
            if one < end:
                _read_rows(path, wanted[one:end] - start, taken[one:end])
        return taken[back]

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All vectors in order, (B, D) at a time; the blocks do not depend on how they were parted into files."""
        for start in range(0, len(self), _BLOCK_ROWS):
            yield self.take(np.arange(start, min(start + _BLOCK_ROWS, len(self))))


def _read_rows(path: Path, rows: NDArray[np.int64], into: NDArray[np.float32]) -> None:
    """Read ascending rows of a flat file; those that follow one another at once."""
    size = into.shape[1] * into.itemsize
    starts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
    with path.open("rb", buffering=0) as file:
        for one, end in pairwise(starts):
            left, place = into[one:end].data.cast("B"), int(rows[one]) * size
            while left:
                read = os.preadv(file.fileno(), [left], place)
                if not read:
                    raise StorageError("the file was cut short while it was in use", where=path, hint="run it again")
                left, place = left[read:], place + read
