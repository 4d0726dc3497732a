"""Keys by which the rows of a table are found again in a new one: by what they say and by their vectors."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
_SEED = 0x1D2E
_LONGEST = 1 << 14  # places that count one by one; those after count as if they began again
# bytes of a last eight
_WITHIN = np.array([2**64 - 1, *(2 ** (8 * size) - 1 for size in range(1, 8))], dtype=np.uint64)
_ODD = np.uint64(0x9E3779B97F4A7C15)


def row_keys(texts: Sequence[pa.Array], vectors_ND: Vectors) -> npt.NDArray[np.uint64]:
    """Return 64 bits of every row as its key, by which an update of the index finds it again.

    By numpy and not by a real hash, which costs a call for every row.
    Nobody gains by making two rows of one key, and by chance they come once in 10^7 tables of a million rows.

    Args:
        texts: string columns of N rows, without nulls.
        vectors_ND: the vectors; of rows without any, of width 0.
    """
    keys_N = _mixed(_of_vectors(np.ascontiguousarray(vectors_ND)))
    for column in texts:
        keys_N = _mixed(keys_N * _ODD + _of_strings(column))
    return keys_N


def matched_rows(old_M: npt.NDArray[np.uint64], new_N: npt.NDArray[np.uint64]) -> Rows:
    """Return for every new row of an updated index the old row of the same key, or -1.

    Of equal rows the first takes the first, none taken twice.

    Returns:
        (N,) row numbers of the old table.
    """
    _, old_at, new_at = np.intersect1d(_numbered(old_M), _numbered(new_N), assume_unique=True, return_indices=True)
    rows_N = np.full(len(new_N), -1, dtype=np.int64)
    rows_N[new_at] = old_at
    return rows_N


def _numbered(keys_N: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the keys of an updated index's rows with their number among equal keys."""
    order = np.argsort(keys_N, kind="stable")
    ranked = keys_N[order]
    begins = np.concatenate([[True], ranked[1:] != ranked[:-1]])[: len(ranked)]
    within = np.arange(len(ranked)) - np.maximum.accumulate(np.where(begins, np.arange(len(ranked)), 0))
    numbered = np.empty_like(keys_N)
    numbered[order] = np.where(within > 0, _mixed(ranked + within.astype(np.uint64) * _ODD), ranked)
    return numbered


def _of_vectors(vectors_ND: Vectors) -> npt.NDArray[np.uint64]:
    """Return the part of an index's row keys (for updates) from vectors: the bits of every number."""
    bits_ND = vectors_ND.view(np.uint32)
    places_D = _factors("places", vectors_ND.shape[1])
    # without a 64-bit copy of them all: 0.07 s for 180,000 vectors of width 384, and 0.13 by a product and a sum
    return np.einsum("nd,d->n", bits_ND, places_D, dtype=np.uint64, casting="safe")  # type: ignore[no-any-return]


def _of_strings(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the part of an index's row keys (for updates) from texts: eight bytes at a time, scrambled.

    Byte by byte it took 0.28 s for the texts of 118,000 sentences, and so 0.1 s.
    """
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    held = np.frombuffer(column.buffers()[1], dtype=width)[column.offset : column.offset + len(column) + 1]
    offsets = held.astype(np.int64)
    lengths_N = np.diff(offsets)
    keys_N: npt.NDArray[np.uint64] = _factors("lengths", 1)[0] * lengths_N.astype(np.uint64)
    data = column.buffers()[2]
    if not lengths_N.any() or data is None:
        return keys_N
    text = np.zeros(offsets[-1] - offsets[0] + 8, dtype=np.uint8)  # so that eight bytes can be read from everywhere
    text[:-8] = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    eights_N = (lengths_N + 7) // 8
    ends_N = np.cumsum(eights_N)
    places = np.arange(ends_N[-1]) - np.repeat(ends_N - eights_N, eights_N)
    starts = np.repeat(offsets[:-1] - offsets[0], eights_N) + 8 * places
    eights = np.ndarray(len(text) - 7, dtype="<u8", buffer=text, strides=(1,))[starts]
    full = np.flatnonzero(lengths_N)  # reduceat has no empty sums
    eights[ends_N[full] - 1] &= _WITHIN[lengths_N[full] % 8]
    parts = _mixed(eights) * _factors("places", _LONGEST)[places & (_LONGEST - 1)]
    keys_N[full] += np.add.reduceat(parts, (ends_N - eights_N)[full])
    return keys_N


def _mixed(keys_N: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return keys, each bit of a key spread over all of it (the end of Murmur's hash)."""
    keys_N = (keys_N ^ (keys_N >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    keys_N = (keys_N ^ (keys_N >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return keys_N ^ (keys_N >> np.uint64(33))


@cache
def _factors(purpose: str, size: int) -> npt.NDArray[np.uint64]:
    """Return odd numbers by chance for row keys, the same in every run."""
    rng = np.random.default_rng([_SEED, *purpose.encode()])
    return rng.integers(2**63, size=size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
