"""Compiled normalisation: characters are looked up one by one in the tables of `normalizers.NormalPoints`."""

from wordpipe.compiled import character, kernel
from wordpipe.tokens.vocabulary import I32, I64, U8

DONE, FULL, UNKNOWN = 0, 1, 2  # why the kernel has stopped: no room left, or a code point not yet in the table
NOT_ONE = 255  # an ASCII character that becomes none or several
ANCHOR = 1  # text may be cut before it: each part is then normalised as it would be in the whole
UNSURE = 2  # what becomes of it depends on what stands before it
HEAD = 4  # bytes before the text of an entry: flags, first and last combining class, length of the text
LONGEST = 200  # bytes of an entry's text: eighteen characters, and a few spaces that become longer, are far less


@kernel
def _copy(data: U8, begin: int, end: int, out: U8, size: int) -> int:
    """Append bytes to the first `size` of `out`; how many these are then."""
    for i in range(begin, end):
        out[size] = data[i]
        size += 1
    return size


@kernel
def _next_anchor(data: U8, at: int, stop: int, slots: I32, pool: U8) -> tuple[int, int]:
    """Where the next code point stands before which text may be cut; and one that is not in the table, or -1."""
    while at < stop:
        point, after = character(data, at)
        if slots[point] < 0:
            return at, point
        if pool[slots[point]] & ANCHOR:
            break
        at = after
    return at, -1


@kernel
def _ascii_run(
    data: U8, at: int, stop: int, single: U8, space: U8, out: U8, place: int, room: int
) -> tuple[int, int, int]:
    """Normalise single ASCII characters from `at` on; where they end, here and in `out`, and the last one's place there."""
    last = place
    while at < stop and place < room:
        byte = single[data[at]]
        if byte == NOT_ONE:
            break
        last = place
        if byte == 0x20 and len(space) > 1:
            place = _copy(space, 0, len(space), out, place)
        else:
            out[place] = byte
            place += 1
        at += 1
    return at, place, last


@kernel
def normalise_rows(
    data: U8, offsets: I64, row: int, count: int, single: U8, space: U8, slots: I32,
    pool: U8, out: U8, new_offsets: I64, stretches: I64,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Normalise rows from `row` on, and leave out stretches that need the normalizer: [start, end, place in `out`, row].

    Returns:
        Why it stopped, the row to go on with, the stretches before it, and the code point that is not in the table.
    """
    room = len(out) - LONGEST
    while row < len(offsets) - 1:
        at, stop, place, found = offsets[row], offsets[row + 1], new_offsets[row], count
        cut, cut_place, last = at, place, 0  # text may be cut at `cut`; `last`: combining class before `at`
        while at < stop:
            if single[data[at]] != NOT_ONE and place < room:
                at, place, cut_place = _ascii_run(data, at, stop, single, space, out, place, room)
                cut, last = at - 1, 0
                continue
            if place >= room or found == stretches.shape[1]:
                return FULL, row, count, -1
            point, after = character(data, at)
            slot = int(slots[point])
            if slot < 0:
                return UNKNOWN, row, count, point
            first = int(pool[slot + 1])
            if pool[slot] & UNSURE or (first and first < last):
                at, point = _next_anchor(data, after, stop, slots, pool)
                if point >= 0:
                    return UNKNOWN, row, count, point
                stretches[0, found], stretches[1, found] = cut, at
                stretches[2, found], stretches[3, found] = cut_place, row
                found += 1
                cut, place, last = at, cut_place, 0
            else:
                if pool[slot] & ANCHOR:
                    cut, cut_place, last = at, place, 0
                last = max(last, int(pool[slot + 2]))
                for i in range(
                    slot + HEAD, slot + HEAD + int(pool[slot + 3])
                ):  # a call would take longer than the copying
                    out[place] = pool[i]
                    place += 1
                at = after
        row += 1
        count = found
        new_offsets[row] = place
    return DONE, row, count, -1


@kernel
def fill_stretches(
    data: U8, offsets: I64, stretches: I64, texts: U8, limits: I64, out: U8,
    new_offsets: I64,
) -> None:  # fmt: skip
    """Put the texts of the stretches into their rows, at their places."""
    at = size = text = 0
    for row in range(len(offsets) - 1):
        while text < stretches.shape[1] and stretches[3, text] == row:
            size = _copy(data, at, stretches[2, text], out, size)
            at = stretches[2, text]
            size = _copy(texts, limits[text], limits[text + 1], out, size)
            text += 1
        size = _copy(data, at, offsets[row + 1], out, size)
        at = offsets[row + 1]
        new_offsets[row + 1] = size


@kernel
def prefix_rows(data: U8, offsets: I64, prefix: U8, out: U8, new_offsets: I64) -> int:
    """Copy rows and put the prefix before those that have something in them and do not begin with it; their bytes."""
    size = 0
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        same = 0
        while same < len(prefix) and begin + same < end and data[begin + same] == prefix[same]:
            same += 1
        if begin < end and same < len(prefix):
            size = _copy(prefix, 0, len(prefix), out, size)
        size = _copy(data, begin, end, out, size)
        new_offsets[row + 1] = size
    return size


@kernel
def _stands_at(data: U8, at: int, stop: int, flat: U8, flat_offsets: I64) -> bool:
    """Whether one of the patterns stands at `at`."""
    for pattern in range(len(flat_offsets) - 1):
        begin, length = flat_offsets[pattern], flat_offsets[pattern + 1] - flat_offsets[pattern]
        same = 0
        while same < length and at + same < stop and data[at + same] == flat[begin + same]:
            same += 1
        if same == length:
            return True
    return False


@kernel
def mark_rows(data: U8, offsets: I64, first_bytes: U8, flat: U8, flat_offsets: I64, marked: U8) -> None:
    """Set `marked` (uint8 [rows]) of every row that holds a pattern; `first_bytes`: 1 where one begins with the byte."""
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        found = False
        while at < stop and not found:
            while at < stop and not first_bytes[data[at]]:
                at += 1
            found = at < stop and _stands_at(data, at, stop, flat, flat_offsets)
            at += 1
        marked[row] = found
