"""How often pairs of neighbours occur: exact counts, in bounded memory, whatever the size of the text.

A pair is known by its key, a uint64 that is a one-to-one mix of its two ids. The top bits of the key are its slot in an
open-addressing table, so the table read from its first slot to its last is nearly in the order of the keys: sorting what it
holds is one pass. A full table goes to disk as a sorted run, and the runs are added up afterwards, one range of keys at a
time.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import inlined, kernel

__all__ = ["TABLE_BYTES", "PairCounts", "key_of_pair", "pairs_of_keys"]

TABLE_BYTES = 64 << 20  # 650,000 pairs; four times as much was no faster on 16 million words, which have 3 million
_FIRST_BITS = 12
_TAIL = 256  # slots behind the last one, instead of going on with the first: the order of the keys is kept
_FENCE_BITS = 12  # a run is read back in ranges of keys with these top bits
_MERGE_BYTES = 64  # memory for each entry of the runs that is added up at a time: itself, its sorted copy, the order


class PairCounts:
    """Counts of pairs.

    Args:
        folder: where runs go when the table is full, an existing scratch folder.
        max_bytes: memory to use; 130 KiB are always taken.

    Attributes:
        runs: how often the table was full and went to disk.
    """

    def __init__(self, folder: Path, max_bytes: int = TABLE_BYTES) -> None:
        self.runs = 0
        self._folder = folder
        self._max_bytes = max_bytes
        self._fences: list[NDArray[np.int64]] = []
        self._bits = _FIRST_BITS
        self._table = np.zeros(((1 << self._bits) + _TAIL, 2), np.uint64)
        self._size = 0

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Count each of the keys once more."""
        done = 0
        while True:
            limit = 5 << (self._bits - 3)  # five eighths: longer chains cost more than a smaller table saves
            done, self._size = _add(keys, done, self._table, self._bits, self._size, limit)
            if done == len(keys):
                return
            if 3 * 16 << self._bits <= self._max_bytes:  # the table of twice the size, and this one while it is moved
                self._grow()
            else:
                self._spill()

    def counted(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """Every key once, ascending, with its count, in pieces of bounded size. Nothing can be added afterwards."""
        if not self._fences:
            yield self._take()
            return
        self._spill()
        self._table = np.zeros((0, 2), np.uint64)
        at_once = max(self._max_bytes // _MERGE_BYTES, 1)
        entries = np.sum(self._fences, axis=0)  # in the runs, before each fence
        first = 0
        while first < len(entries) - 1:
            last = int(np.searchsorted(entries, entries[first] + at_once, side="right")) - 1
            last = max(last, first + 1)
            yield _added_up([self._read(run, first, last) for run in range(self.runs)])
            first = last
        for run in range(self.runs):
            self._path(run).unlink()

    def _grow(self) -> None:
        entries = self._take()
        self._bits += 1
        self._table = np.zeros(((1 << self._bits) + _TAIL, 2), np.uint64)
        self._size = len(entries[0])
        _place(*entries, self._table, self._bits)

    def _take(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """What the table holds, by ascending key."""
        keys, counts = np.empty(self._size, np.uint64), np.empty(self._size, np.int64)
        _gather(self._table, keys, counts)
        return keys, counts

    def _spill(self) -> None:
        """Write what is there as a run, and forget it."""
        keys, counts = self._take()
        with self._path(self.runs).open("xb") as file:
            file.write(keys.data)
            file.write(counts.data)
        fences = np.arange(1 << _FENCE_BITS, dtype=np.uint64) << np.uint64(64 - _FENCE_BITS)
        self._fences.append(np.append(np.searchsorted(keys, fences), len(keys)))
        self.runs += 1
        self._table.fill(0)
        self._size = 0

    def _read(self, run: int, first: int, last: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The entries of a run between two fences."""
        begin, end, size = (int(self._fences[run][fence]) for fence in (first, last, -1))
        path, number = self._path(run), end - begin
        keys = np.fromfile(path, np.uint64, number, offset=8 * begin)
        return keys, np.fromfile(path, np.int64, number, offset=8 * (size + begin))

    def _path(self, run: int) -> Path:
        return self._folder / f"pairs-{run:05}"


def _added_up(
    parts: list[tuple[NDArray[np.uint64], NDArray[np.int64]]],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The counts of equal keys added up, by ascending key."""
    keys, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return keys[firsts], np.add.reduceat(counts, firsts) if len(firsts) else counts


_FIRST_FACTOR, _SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@inlined
def key_of_pair(left: int, right: int) -> np.uint64:
    """Inside kernels: the key of two ids; both multiplications and the fold between them can be undone."""
    key = (np.uint64(left) << np.uint64(32) | np.uint64(right)) * np.uint64(0x9E3779B97F4A7C15)
    return (key ^ key >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)


def pairs_of_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The left and the right ids of keys, int64."""
    first, second = (np.uint64(pow(factor, -1, 1 << 64)) for factor in (_FIRST_FACTOR, _SECOND_FACTOR))
    keys = keys * second
    pairs = (keys ^ keys >> _HALF) * first
    return (pairs >> _HALF).astype(np.int64), (pairs & _LOW).astype(np.int64)


_AHEAD = 64


@kernel
def _add(
    keys: NDArray[np.uint64], first: int, table: NDArray[np.uint64], bits: int, size: int, limit: int
) -> tuple[int, int]:
    """Count keys from `first` on; gives how many are done, less than all when the table is full, and its new size.

    The slots of the next keys are read before any of them is looked for: memory then answers all at once, which took 0.23,
    0.18 and 0.21 s where 0.37, 0.19 and 0.24 s were needed without (4.8 million keys, 1.7 million of them distinct).
    """
    shift = np.uint64(64 - bits)
    seen = np.uint64(0)
    for begin in range(first, len(keys), _AHEAD):
        end = min(begin + _AHEAD, len(keys))
        for at in range(begin, end):
            seen += table[np.int64(keys[at] >> shift), 1]
        for at in range(begin, end):
            key = keys[at]
            slot = np.int64(key >> shift)
            while table[slot, 1] != 0 and table[slot, 0] != key:
                slot += 1
            if table[slot, 1] == 0:
                if size >= limit or slot == len(table) - 1:  # the last slot stays empty and ends every search
                    return at, size
                table[slot, 0] = key
                size += 1
            table[slot, 1] += np.uint64(1)
    table[len(table) - 1, 0] = seen  # what was read has to have a use, or it is not read; an empty slot's key has none
    return len(keys), size


@kernel
def _place(keys: NDArray[np.uint64], counts: NDArray[np.int64], table: NDArray[np.uint64], bits: int) -> None:
    """Put distinct keys into an empty table, which has room: twice the slots, and no chain is longer than it was."""
    shift = np.uint64(64 - bits)
    for entry in range(len(keys)):
        slot = np.int64(keys[entry] >> shift)
        while table[slot, 1] != 0:
            slot += 1
        table[slot, 0], table[slot, 1] = keys[entry], np.uint64(counts[entry])


@kernel
def _gather(table: NDArray[np.uint64], keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Write the table's entries by ascending key; each goes back over the few that chance has put before it."""
    size = 0
    for slot in range(len(table)):
        if table[slot, 1] != 0:
            at = size
            while at > 0 and keys[at - 1] > table[slot, 0]:
                keys[at], counts[at] = keys[at - 1], counts[at - 1]
                at -= 1
            keys[at], counts[at] = table[slot, 0], np.int64(table[slot, 1])
            size += 1
