"""Rows of text as a tokenizer's normalizer leaves them, made by compiled code at hundreds of megabytes a second.

Characters are looked up one by one in `NormalPoints`. A stretch in which a mark stands out of order or could be composed is
given to the normalizer itself, from a place where text may be cut to the next.

Rows in which a tokenizer finds the text of an added token, such as `[MASK]`, are found here, too: they are left to tokenizers.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.compiled import character, kernel, read_only
from wordpipe.tokens.kernels.normal_points import ANCHOR, HEAD, LONGEST, UNSURE, NormalPoints
from wordpipe.tokens.ragged import offsets_of
from wordpipe.tokens.schemes import Scheme

Bytes = NDArray[np.uint8]
Counts = NDArray[np.int64]

_DONE, _FULL, _UNKNOWN = 0, 1, 2  # why the kernel has stopped: no room left, or a code point not yet in the table
_NOT_ONE = 255  # an ASCII character that becomes none or several
_REMEMBERED = 1 << 17  # stretches


class Normaliser:
    """Does to rows what a tokenizer does to them before it cuts them. Threads may share it.

    Args:
        tokenizer: its normalizer is made of steps that `scheme_of` knows.
        scheme: what `scheme_of` says about it.
    """

    def __init__(self, tokenizer: Tokenizer, scheme: Scheme) -> None:
        self._prefix = np.frombuffer(scheme.prefix.encode(), np.uint8)
        self._space = np.frombuffer(scheme.space.encode(), np.uint8)
        self._points = None
        self._stretches: dict[bytes, bytes] = {}
        if tokenizer.normalizer is not None or scheme.space != " ":
            self._points = NormalPoints(tokenizer.normalizer, scheme.space)
            self._ascii = _ascii(*self._points.table, scheme.space.encode())

    def rows(self, data: Bytes, offsets: Counts) -> tuple[Bytes, Counts]:
        """Normalise rows.

        Args:
            data: uint8, valid UTF-8 of all rows.
            offsets: int64 [rows + 1], where each begins and ends.

        Returns:
            The same of the normalised rows; the given arrays where nothing is to be done.
        """
        if self._points is not None:
            data, offsets = self._normalised(self._points, read_only(data), offsets)
        if len(self._prefix):
            out = np.empty(len(data) + len(self._prefix) * (len(offsets) - 1), np.uint8)
            new_offsets = np.zeros(len(offsets), np.int64)
            size = _prefixed(read_only(data), offsets, self._prefix, out, new_offsets)
            data, offsets = out[:size], new_offsets
        return data, offsets

    def _normalised(self, points: NormalPoints, data: Bytes, offsets: Counts) -> tuple[Bytes, Counts]:
        out = np.empty(len(data) + len(data) // 8 + 4096, np.uint8)
        new_offsets = np.zeros(len(offsets), np.int64)
        stretches = np.empty((4, 1024), np.int64)
        row = count = 0
        while True:
            slots, pool = points.table
            status, row, count, point = _normalise(
                data, offsets, row, count, self._ascii, self._space, slots, pool, out, new_offsets, stretches
            )
            if status == _DONE:
                break
            if status == _UNKNOWN:
                points.make(point)
            else:
                out = np.concatenate([out, np.empty_like(out)])
                stretches = np.concatenate([stretches, np.empty_like(stretches)], axis=1)
        out = out[: new_offsets[-1]]
        return self._filled(points, data, out, new_offsets, stretches[:, :count]) if count else (out, new_offsets)

    def _filled(
        self, points: NormalPoints, data: Bytes, out: Bytes, offsets: Counts, stretches: NDArray[np.int64]
    ) -> tuple[Bytes, Counts]:
        """The rows with the stretches that were left out."""
        bounds = zip(stretches[0].tolist(), stretches[1].tolist(), strict=True)
        texts = [self._stretch(points, data[start:end].tobytes()) for start, end in bounds]
        limits = offsets_of([len(text) for text in texts])
        filled, new_offsets = np.empty(len(out) + int(limits[-1]), np.uint8), np.zeros(len(offsets), np.int64)
        flat = np.frombuffer(b"".join(texts), np.uint8)
        _fill(read_only(out), offsets, np.ascontiguousarray(stretches), flat, limits, filled, new_offsets)
        return filled, new_offsets

    def _stretch(self, points: NormalPoints, text: bytes) -> bytes:
        known = self._stretches.get(text)
        if known is None:
            known = points.normalise(text.decode()).encode()
            if len(self._stretches) >= _REMEMBERED:
                self._stretches.clear()
            if len(text) <= 64:
                self._stretches[text] = known
        return known


def _ascii(slots: NDArray[np.int32], pool: Bytes, space: bytes) -> Bytes:
    """What each byte becomes, where it is a character that becomes one of ASCII and may be cut before: uint8 [256].

    A space stands for whatever text takes its place.
    """
    single = np.full(256, _NOT_ONE, np.uint8)
    for point in range(128):
        flags, _, last, length = pool[slots[point] : slots[point] + HEAD].tolist()
        text = pool[slots[point] + HEAD :][:length].tobytes()
        if flags == ANCHOR and last == 0 and (length == 1 or text == space):
            single[point] = 0x20 if text == space else text[0]
    return read_only(single)


@kernel
def _copy(data: Bytes, begin: int, end: int, out: Bytes, size: int) -> int:
    """Append bytes to the first `size` of `out`; how many these are then."""
    for i in range(begin, end):
        out[size] = data[i]
        size += 1
    return size


@kernel
def _next_anchor(data: Bytes, at: int, stop: int, slots: NDArray[np.int32], pool: Bytes) -> tuple[int, int]:
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
    data: Bytes, at: int, stop: int, single: Bytes, space: Bytes, out: Bytes, place: int, room: int
) -> tuple[int, int, int]:
    """Normalise single ASCII characters from `at` on; where they end, here and in `out`, and the last one's place there."""
    last = place
    while at < stop and place < room:
        byte = single[data[at]]
        if byte == _NOT_ONE:
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
def _normalise(
    data: Bytes, offsets: Counts, row: int, count: int, single: Bytes, space: Bytes, slots: NDArray[np.int32],
    pool: Bytes, out: Bytes, new_offsets: Counts, stretches: NDArray[np.int64],
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
            if single[data[at]] != _NOT_ONE and place < room:
                at, place, cut_place = _ascii_run(data, at, stop, single, space, out, place, room)
                cut, last = at - 1, 0
                continue
            if place >= room or found == stretches.shape[1]:
                return _FULL, row, count, -1
            point, after = character(data, at)
            slot = int(slots[point])
            if slot < 0:
                return _UNKNOWN, row, count, point
            first = int(pool[slot + 1])
            if pool[slot] & UNSURE or (first and first < last):
                at, point = _next_anchor(data, after, stop, slots, pool)
                if point >= 0:
                    return _UNKNOWN, row, count, point
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
    return _DONE, row, count, -1


@kernel
def _fill(
    data: Bytes, offsets: Counts, stretches: NDArray[np.int64], texts: Bytes, limits: Counts, out: Bytes,
    new_offsets: Counts,
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
def _prefixed(data: Bytes, offsets: Counts, prefix: Bytes, out: Bytes, new_offsets: Counts) -> int:
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


def added_token_patterns(tokenizer: Tokenizer) -> list[bytes] | None:
    """Texts of which a row must hold one, for tokenizers to find an added token in it.

    Returns:
        Sorted; None where that is not known: a token is looked for in text that the normalizer may have changed.
    """
    added = tokenizer.get_added_tokens_decoder().values()
    if tokenizer.normalizer is not None and any(token.normalized for token in added):
        return None
    return sorted({token.content.encode() for token in added if token.content})


class AddedTokens:
    """Finds the rows that hold one of some texts. Threads may share it.

    Args:
        patterns: the texts, none of them empty.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        flat = np.frombuffer(b"".join(patterns), np.uint8)
        offsets = offsets_of([len(pattern) for pattern in patterns])
        first = np.zeros(256, np.uint8)
        first[[pattern[0] for pattern in patterns]] = 1
        self._patterns = (read_only(first), read_only(flat), offsets)

    def marked(self, data: Bytes, offsets: Counts) -> NDArray[np.bool_]:
        """Whether each row holds one of the texts: bool [rows].

        Args:
            data: uint8, the text of all rows.
            offsets: int64 [rows + 1], where each begins and ends.
        """
        marked = np.zeros(len(offsets) - 1, np.uint8)
        mark_rows(read_only(data), offsets, *self._patterns, marked)
        return marked.view(np.bool_)


@kernel
def _stands_at(data: Bytes, at: int, stop: int, flat: Bytes, flat_offsets: Counts) -> bool:
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
def mark_rows(
    data: Bytes, offsets: Counts, first_bytes: Bytes, flat: Bytes, flat_offsets: Counts, marked: Bytes
) -> None:
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
