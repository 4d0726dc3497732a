"""The merging loop of byte-pair encoding: which pair of neighbours is merged next, and into what.

The pair of lowest rank is merged first, the leftmost among equals (Sennrich et al. 2016). A short unit is searched again
after every merge; a long one has its pairs in a heap, so that ten million letters take n log n steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel

__all__ = ["SHORT", "MergeTable", "build_merges", "merge_long", "merge_short"]

SHORT = 40
"""Units of at most this many letters are searched anew after each merge."""

_NO_MERGE = (1 << 63) - 1
_RANK = 32
_NEW = (1 << 32) - 1
_MIX = -7046029254386353131  # 2^64 / golden ratio, as a signed number


class MergeTable(NamedTuple):
    """Merges by their pair of ids.

    Attributes:
        pairs: int64 [2 * power of two], open addressing: left << 32 | right, then rank << 32 | new id; -1 is an empty slot.
        news: int32 [merges], the new id of each rank.
    """

    pairs: NDArray[np.int64]
    news: NDArray[np.int32]


def build_merges(merges: Sequence[tuple[int, int, int]]) -> MergeTable:
    """A table of (left id, right id, new id) in the order of their ranks."""
    flat = np.array(merges, np.int64).reshape(-1, 3)
    pairs = np.full(2 << (3 * len(flat) + 16).bit_length(), -1, np.int64)
    _fill(pairs, flat)
    return MergeTable(pairs, flat[:, 2].astype(np.int32))


@kernel
def _slot(pairs: NDArray[np.int64], key: int) -> int:
    mask = len(pairs) // 2 - 1
    slot = ((key * _MIX) >> 33) & mask
    while pairs[2 * slot] != key and pairs[2 * slot] != -1:
        slot = (slot + 1) & mask
    return 2 * slot


@kernel
def _fill(pairs: NDArray[np.int64], merges: NDArray[np.int64]) -> None:
    for rank in range(len(merges)):
        key = (merges[rank, 0] << 32) | merges[rank, 1]
        slot = _slot(pairs, key)
        pairs[slot] = key
        pairs[slot + 1] = (rank << _RANK) | merges[rank, 2]


@kernel
def _merge_of(pairs: NDArray[np.int64], left: int, right: int) -> int:
    """Rank << 32 | new id of a pair of ids, or _NO_MERGE: comparing two compares their ranks."""
    key = (int(left) << 32) | int(right)
    slot = _slot(pairs, key)
    return pairs[slot + 1] if pairs[slot] == key else _NO_MERGE


@kernel
def merge_short(pairs: NDArray[np.int64], symbols: NDArray[np.int32], count: int, best: NDArray[np.int64]) -> int:
    """Merge `symbols[:count]` in place; `best` is scratch of at least `count` elements. Returns how many are left."""
    for at in range(count - 1):
        best[at] = _merge_of(pairs, symbols[at], symbols[at + 1])
    while count > 1:
        lowest, where = _NO_MERGE, 0
        for at in range(count - 1):
            if best[at] < lowest:
                lowest, where = best[at], at
        if lowest == _NO_MERGE:
            break
        symbols[where] = lowest & _NEW
        count -= 1
        for at in range(where + 1, count):
            symbols[at] = symbols[at + 1]
            best[at - 1] = best[at]
        if where > 0:
            best[where - 1] = _merge_of(pairs, symbols[where - 1], symbols[where])
        if where + 1 < count:
            best[where] = _merge_of(pairs, symbols[where], symbols[where + 1])
    return count


@kernel
def merge_long(  # noqa: C901  (one thought: a heap of pairs over a linked list)
    table: MergeTable, symbols: NDArray[np.int32], count: int, heap: NDArray[np.int64]
) -> int:
    """Merge `symbols[:count]` in place; `heap` is scratch of at least `2 * count` elements. Returns how many are left.

    An entry of the heap is rank << 32 | position. It may be out of date when its turn comes. tokenizers takes an entry for
    good if the pair that stands there now makes the same token, so this does too.
    """
    previous = np.arange(-1, count - 1).astype(np.int32)
    following = np.arange(1, count + 1).astype(np.int32)
    following[count - 1] = -1
    size = 0
    for at in range(count - 1):
        merge = _merge_of(table.pairs, symbols[at], symbols[at + 1])
        if merge != _NO_MERGE:
            heap[size] = (merge >> _RANK << _RANK) | at
            size += 1
    for hole in range((size + 2) // 4 - 1, -1, -1):
        _sink(heap, size, hole, heap[hole])
    while size > 0:
        top = heap[0]
        size -= 1
        if size > 0:
            _sink(heap, size, 0, heap[size])
        at, new = top & _NEW, table.news[top >> _RANK]
        if symbols[at] < 0 or following[at] < 0:
            continue
        right = following[at]
        merge = _merge_of(table.pairs, symbols[at], symbols[right])
        if merge == _NO_MERGE or merge & _NEW != new:
            continue
        symbols[at] = new
        symbols[right] = -1
        after, before = following[right], previous[at]
        following[at] = after
        if after >= 0:
            previous[after] = at
        if before >= 0:
            merge = _merge_of(table.pairs, symbols[before], new)
            if merge != _NO_MERGE:
                _float(heap, size, (merge >> _RANK << _RANK) | before)
                size += 1
        if after >= 0:
            merge = _merge_of(table.pairs, new, symbols[after])
            if merge != _NO_MERGE:
                _float(heap, size, (merge >> _RANK << _RANK) | at)
                size += 1
    left = 0
    for at in range(count):
        if symbols[at] >= 0:
            symbols[left] = symbols[at]
            left += 1
    return left


@kernel
def _sink(heap: NDArray[np.int64], size: int, hole: int, entry: int) -> None:
    """Put an entry into a hole of a heap (four children to a node), or below it."""
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if heap[other] < heap[least]:
                least = other
        if heap[least] >= entry:
            break
        heap[hole] = heap[least]
        hole = least
    heap[hole] = entry


@kernel
def _float(heap: NDArray[np.int64], hole: int, entry: int) -> None:
    """Put an entry at the end of a heap, or above it."""
    while hole > 0:
        parent = (hole - 1) // 4
        if heap[parent] <= entry:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = entry
