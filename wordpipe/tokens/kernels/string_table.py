"""A table of distinct strings of bytes: each gets a number when it is first seen, and a count.

Open addressing with linear probing over flat arrays, so that a compiled loop can look up a hundred million strings a minute
without making an object of any. What is looked up are spans of a text: the pre-tokens or words that a scanner has found.
A look-up touches three places in memory: a slot (half of the hash, so that few other strings are compared, and the string's
number), the string's record (where its bytes are, how often it was seen), and its bytes.
"""

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import inlined, kernel, load_eight, read_only
from wordpipe.tokens.vocabulary import I32, I64, U8

_FIRST_STRINGS = 1 << 12
_STRING_BYTES = 8  # text bytes reserved for each string; more are taken when they are needed
_MAX_STRINGS = 1 << 30


class StringTable:
    """Distinct strings, numbered from 0 in the order in which they were first seen.

    Args:
        max_bytes: the memory the table may grow to; when it is full, `look_up` stops short.

    Attributes:
        data: uint8, the strings' bytes, joined.
        size: number of strings.
    """

    def __init__(self, max_bytes: int = 1 << 40) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self.data = np.empty(0, np.uint8)
        self._records = np.zeros((1, 2), np.int64)
        self._recent = np.zeros((1 << _RECENT, 2), np.uint64)
        self._allot(_FIRST_STRINGS, _FIRST_STRINGS * _STRING_BYTES)

    @property
    def offsets(self) -> I64:
        """int64 [strings + 1], where each string's bytes begin and end in `data`."""
        return self._records[: self.size + 1, 0]

    @property
    def counts(self) -> I64:
        """int64 [strings], how often each was looked up."""
        return self._records[: self.size, 1]

    def clear(self) -> None:
        """Forget all strings; the memory stays."""
        self.size = 0
        self._slots.fill(0)
        self._recent.fill(0)

    def look_up(
        self, data: U8, starts: I32, ends: I32, numbers: I32, first: int = 0, weights: I64 | None = None
    ) -> int:
        """Number and count the strings of a text (its spans) in the table.

        Args:
            data: uint8, the text.
            starts: int32 [spans], where each begins in `data`.
            ends: int32 [spans], where each ends.
            numbers: int32 [spans], out: the number of each span's string.
            first: the span to begin with.
            weights: int64 [spans], how often each span counts; once where it is not given.

        Returns:
            The number of spans done: less than there are when the table is full. Call `clear` and go on from there; one
            string always fits.
        """
        data, total = read_only(data), len(starts)
        weights = _ONCE if weights is None else weights
        while True:
            first, self.size = _look_up(
                data, starts, ends, weights, first, self.size, self._slots, self._records, self.data, self._recent,
                numbers,
            )  # fmt: skip
            if first == total or not self._grow(int(ends[first] - starts[first])):
                return first

    def find(self, data: U8, starts: I32, ends: I32, numbers: I32) -> None:
        """Write the number of each span's string, or -1 for an unknown string."""
        _find(read_only(data), starts, ends, self._slots, self._records, self.data, numbers)

    def parts(self, bits: int) -> I64:
        """Return the top `bits` bits of each string's hash: int64 [strings]."""
        hashes = hashes_of(self.data, np.ascontiguousarray(self.offsets))
        return (hashes >> np.uint64(64 - bits)).astype(np.int64)

    def _grow(self, new_bytes: int) -> bool:
        """Make room for one more string in the table, and then some; False when the budget is too small."""
        strings, text, used = len(self._records) - 1, len(self.data), int(self._records[self.size, 0])
        if self.size == strings:
            strings *= 2
        if used + new_bytes > text:
            text = max(2 * text, used + new_bytes)
        allowed = _table_bytes(strings, text) <= self._max_bytes and strings <= _MAX_STRINGS
        if not allowed and self.size:
            return False
        self._allot(strings, text)
        return True

    def _allot(self, strings: int, text: int) -> None:
        records, data = np.zeros((strings + 1, 2), np.int64), np.empty(text, np.uint8)
        if self.size:
            used = int(self._records[self.size, 0])
            records[: self.size + 1], data[:used] = self._records[: self.size + 1], self.data[:used]
        self._records, self.data = records, data
        self._slots = np.zeros(2 * strings, np.uint64)
        _place(self.data, self._records, self.size, self._slots)


def hashes_of(data: U8, offsets: I64) -> NDArray[np.uint64]:
    """Return the hashes of strings that lie one after the other in `data`: uint64 [strings]."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    _write_hashes(read_only(data), read_only(offsets), hashes)
    return hashes


def _table_bytes(strings: int, text: int) -> int:
    return strings * (2 * 8 + 2 * 8) + text


_RECENT = 13
_RECENT_SHIFT = np.uint64(64 - _RECENT)
_ONCE = np.zeros(0, np.int64)
_TAG = np.uint64(0xFFFFFFFF00000000)  # the half of a slot that is the hash's; the other is the string's number and one
_NUMBER = np.uint64(0x00000000FFFFFFFF)


@inlined
def _eight(data: U8, at: int, end: int) -> np.uint64:
    """Return up to eight bytes of a string of the table as one number; bytes behind `end` count as zero."""
    if at + 8 <= len(data):
        number = load_eight(data, at)
        return number if at + 8 <= end else number & (~np.uint64(0) >> np.uint64(8 * (at + 8 - end)))
    number = np.uint64(0)
    for place in range(end - at if end - at < 8 else 8):
        number |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return number


@inlined
def _hash(data: U8, start: int, end: int) -> np.uint64:
    """Hash a string of the table, eight bytes at a time; the low bits choose the slot."""
    value = np.uint64(end - start) * np.uint64(0x9E3779B97F4A7C15)
    for at in range(start, end, 8):
        value = (value ^ _eight(data, at, end)) * np.uint64(0xD6E8FEB86659FD93)
        value ^= value >> np.uint64(32)
    value *= np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(29))


@inlined
def _probe(
    data: U8, start: int, end: int, hashed: np.uint64, slots: NDArray[np.uint64], records: I64, stored: U8
) -> int:
    """Return the slot in which the span's string is, or the empty one in which it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    length = end - start
    while slots[slot] != 0:
        if slots[slot] & _TAG == hashed & _TAG:
            string = (slots[slot] & _NUMBER) - np.uint64(1)
            begin = records[string, 0]
            if records[string + np.uint64(1), 0] - begin == length:
                same = True
                for done in range(0, length, 8):
                    if _eight(stored, begin + done, begin + length) != _eight(data, start + done, end):
                        same = False
                        break
                if same:
                    break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)  # type: ignore[return-value]


@kernel
def _look_up(
    data: U8, starts: I32, ends: I32, weights: I64, first: int, size: int, slots: NDArray[np.uint64], records: I64,
    stored: U8, recent: NDArray[np.uint64], numbers: I32,
) -> tuple[int, int]:  # fmt: skip
    """Do the work of `StringTable.look_up` until a string does not fit; return the spans done and the strings there are."""
    weighted = len(weights) > 0
    for span in range(first, len(starts)):
        start, end = starts[span], ends[span]
        # a string of up to seven bytes is first looked for among the last seen: one line of memory
        key = place = np.uint64(0)
        if end - start < 8:
            key = _eight(data, start, end) | np.uint64(end - start + 1) << np.uint64(56)
            place = (key * np.uint64(0x9E3779B97F4A7C15)) >> _RECENT_SHIFT
            if recent[place, 0] == key:
                string = np.int64(recent[place, 1])
                records[string, 1] += weights[span] if weighted else 1
                numbers[span] = string
                continue
        # a new string is stored, if there is room
        hashed = _hash(data, start, end)
        slot = _probe(data, start, end, hashed, slots, records, stored)
        if slots[slot] == 0:
            top = records[size, 0] if size else 0
            if size == len(records) - 1 or top + (end - start) > len(stored):
                return span, size
            records[size, 0], records[size, 1] = top, 0
            records[size + 1, 0] = top + (end - start)
            for at in range(end - start):
                stored[top + at] = data[start + at]
            size += 1
            slots[slot] = hashed & _TAG | np.uint64(size)
        # its number and its count
        string = np.int64(slots[slot] & _NUMBER) - 1
        records[string, 1] += weights[span] if weighted else 1
        numbers[span] = string
        if key:
            recent[place, 0], recent[place, 1] = key, np.uint64(string)
    return len(starts), size


@kernel
def _find(data: U8, starts: I32, ends: I32, slots: NDArray[np.uint64], records: I64, stored: U8, numbers: I32) -> None:
    for span in range(len(starts)):
        hashed = _hash(data, starts[span], ends[span])
        slot = _probe(data, starts[span], ends[span], hashed, slots, records, stored)
        numbers[span] = np.int64(slots[slot] & _NUMBER) - 1


@kernel
def _write_hashes(data: U8, offsets: I64, hashes: NDArray[np.uint64]) -> None:
    for string in range(len(hashes)):
        hashes[string] = _hash(data, offsets[string], offsets[string + 1])


@kernel
def _place(stored: U8, records: I64, size: int, slots: NDArray[np.uint64]) -> None:
    """Put all strings into a larger table of slots."""
    mask = len(slots) - 1
    for string in range(size):
        hashed = _hash(stored, records[string, 0], records[string + 1, 0])
        slot = np.int64(hashed) & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = hashed & _TAG | np.uint64(string + 1)
