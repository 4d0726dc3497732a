"""Normalizers: rows of text as a tokenizer's normalizer leaves them, at hundreds of megabytes a second.

A normal form puts combining marks in order and composes them with the character before them; all other steps of a normalizer
look at one character at a time. So the result for a text is that of its characters, one after the other (`NormalPoints`, a
table in which compiled loops look them up), but where a mark stands out of order or could be composed. Such a stretch, from a
place where text may be cut to the next, is given to the normalizer itself. Which marks need it is read from Python's Unicode
data; combining classes and compositions of assigned characters never change (Unicode's stability policy), and what Python
does not know is never sure.
Source: Unicode Standard Annex #15, sections 9 (quick check) and 12 (stability).

Rows in which a tokenizer finds the text of an added token, such as `[MASK]`, are found here, too: they are left to tokenizers.
"""

import json
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from tokenizers import Tokenizer, normalizers

from wordpipe.compiled import character, kernel, read_only
from wordpipe.tokens.kernels.scan import CODE_POINTS
from wordpipe.tokens.pretokenizers import Scheme
from wordpipe.tokens.vocabulary import I32, I64, U8, Flags, offsets_of

_PAGE = 256
_FORMS = {"NFC", "NFD", "NFKC", "NFKD"}
_CACHED_STRETCHES = 1 << 17

DONE, FULL, UNKNOWN = 0, 1, 2  # why the kernel has stopped: no room left, or a code point not yet in the table
NOT_ONE = 255  # an ASCII character that becomes none or several
ANCHOR = 1  # text may be cut before it: each part is then normalised as it would be in the whole
UNSURE = 2  # what becomes of it depends on what stands before it
HEAD = 4  # bytes before the text of an entry: flags, first and last combining class, length of the text
LONGEST = 200  # bytes of an entry's text: eighteen characters, and a few spaces that become longer, are far less


class NormalPoints:
    """The entries of a normalizer's code points, made a page at a time when one is needed.

    Args:
        normalizer: made of the steps that `scheme_of` knows; None leaves text as it is.
        space: what spaces become after normalization.

    Attributes:
        table: int32 [0x110000], where the entry of a code point begins in the pool (-1: not made yet); uint8, the pool, of
            flags, first combining class, last combining class, length and text of each entry. Never written to: a longer
            table takes its place.
    """

    def __init__(self, normalizer: normalizers.Normalizer | None, space: str) -> None:
        self._normalizer = normalizer
        self._space = space
        self._steps = [] if normalizer is None else list(_flat(json.loads(normalizer.__getstate__())))
        forms = [step for step, form in self._steps if form is not None]
        self._forms = bool(forms)
        self._composes = any(form in ("NFC", "NFKC") for _, form in self._steps)
        self._lock = threading.Lock()
        self.table = (np.full(CODE_POINTS, -1, np.int32), np.zeros(0, np.uint8))
        self.make(0)

    def normalise(self, text: str) -> str:
        """Return a text as it leaves the normalizer, with the space of the scheme."""
        normal = text if self._normalizer is None else self._normalizer.normalize_str(text)
        return normal.replace(" ", self._space)

    def make(self, point: int) -> None:
        """Make the entries of the page of a code point."""
        with self._lock:
            slots, pool = self.table
            if slots[point] >= 0:
                return
            slots, entries, size = slots.copy(), [pool.tobytes()], len(pool)
            start = point - point % _PAGE
            for other in range(start, start + _PAGE):
                entry = b"\0" * HEAD if 0xD800 <= other < 0xE000 else self._entry(chr(other))
                slots[other] = size
                entries.append(entry)
                size += len(entry)
            self.table = (slots, np.frombuffer(b"".join(entries), np.uint8))

    def _entry(self, character: str) -> bytes:
        flags, first, last = self._context(character) if self._forms else (ANCHOR, 0, 0)
        text = self.normalise(character).encode()
        assert len(text) <= LONGEST
        return bytes((flags, first, last, len(text))) + text

    def _context(self, character: str) -> tuple[int, int, int]:
        """Return the flags of a character for normalizers, and its combining classes."""
        if unicodedata.category(character) == "Cn":
            return UNSURE, 0, 0
        seen, left = self._seen_by_forms(character)
        leads = [_lead(text) for text in seen if text]
        if self._composes and any(joined for _, joined in leads):
            return UNSURE, 0, 0
        classes = {lead for lead, _ in leads}
        last = max((unicodedata.combining(unicodedata.normalize("NFKD", text)[-1]) for text in seen if text), default=0)
        if classes == {()}:
            stays = left and all(seen)
            return (ANCHOR if stays else 0), 0, last
        if len(classes) > 1 or not classes:
            return UNSURE, 0, 0
        (only,) = classes
        return 0, only[0], last

    def _seen_by_forms(self, character: str) -> tuple[list[str], str]:
        """Return the text that each normal form of a normalizer gets of a character, and the text after all."""
        seen, text = [], character
        for step, form in self._steps:
            if form is not None:
                seen.append(text)
            text = step.normalize_str(text)
        return seen, text


def _flat(state: dict[str, Any]) -> Iterator[tuple[normalizers.Normalizer, str | None]]:
    """Yield the steps of a normalizer, and the normal form in each."""
    options = {name: value for name, value in state.items() if name != "type"}
    if state["type"] == "Sequence":
        for child in state["normalizers"]:
            yield from _flat(child)
    elif state["type"] == "BertNormalizer":
        strips = state["lowercase"] if state["strip_accents"] is None else state["strip_accents"]
        yield normalizers.BertNormalizer(**options), "NFD" if strips else None
    else:
        name = state["type"]
        yield getattr(normalizers, name)(**options), name if name in _FORMS else None


def _lead(text: str) -> tuple[tuple[int, ...], bool]:
    """Return the combining classes of the marks that a text begins with, and whether one of the characters may be composed."""
    classes, joined = [], False
    for mark in unicodedata.normalize("NFKD", text):
        joined |= mark in _seconds()
        if not unicodedata.combining(mark):
            break
        classes.append(unicodedata.combining(mark))
    assert all(low <= high for low, high in pairwise(classes))
    return tuple(classes), joined


@cache
def _seconds() -> frozenset[str]:
    """Return the characters that a normal form can compose with the character before."""
    found = {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # of Korean syllables
    for point in range(0x30000):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


class RowNormalizer:
    """Normalises rows as a tokenizer does before it cuts text. Threads may share one.

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

    def rows(self, data: U8, offsets: I64) -> tuple[U8, I64]:
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
            size = prefix_rows(read_only(data), offsets, self._prefix, out, new_offsets)
            data, offsets = out[:size], new_offsets
        return data, offsets

    def _normalised(self, points: NormalPoints, data: U8, offsets: I64) -> tuple[U8, I64]:
        """Return the normalised texts of rows that the compiled normalizer leaves out."""
        out = np.empty(len(data) + len(data) // 8 + 4096, np.uint8)
        new_offsets = np.zeros(len(offsets), np.int64)
        stretches = np.empty((4, 1024), np.int64)
        row = count = 0
        while True:
            slots, pool = points.table
            status, row, count, point = normalise_rows(
                data, offsets, row, count, self._ascii, self._space, slots, pool, out, new_offsets, stretches
            )
            if status == DONE:
                break
            if status == UNKNOWN:
                points.make(point)
            else:
                out = np.concatenate([out, np.empty_like(out)])
                stretches = np.concatenate([stretches, np.empty_like(stretches)], axis=1)
        out = out[: new_offsets[-1]]
        return self._filled(points, data, out, new_offsets, stretches[:, :count]) if count else (out, new_offsets)

    def _filled(self, points: NormalPoints, data: U8, out: U8, offsets: I64, stretches: I64) -> tuple[U8, I64]:
        """Return the normalised rows with the stretches that were left out."""
        bounds = zip(stretches[0].tolist(), stretches[1].tolist(), strict=True)
        texts = [self._stretch(points, data[start:end].tobytes()) for start, end in bounds]
        limits = offsets_of([len(text) for text in texts])
        filled, new_offsets = np.empty(len(out) + int(limits[-1]), np.uint8), np.zeros(len(offsets), np.int64)
        flat = np.frombuffer(b"".join(texts), np.uint8)
        fill_stretches(read_only(out), offsets, np.ascontiguousarray(stretches), flat, limits, filled, new_offsets)
        return filled, new_offsets

    def _stretch(self, points: NormalPoints, text: bytes) -> bytes:
        known = self._stretches.get(text)
        if known is None:
            known = points.normalise(text.decode()).encode()
            if len(self._stretches) >= _CACHED_STRETCHES:
                self._stretches.clear()
            if len(text) <= 64:
                self._stretches[text] = known
        return known


def _ascii(slots: I32, pool: U8, space: bytes) -> U8:
    """Return how a normalizer changes ASCII, uint8 [256]: each character's new byte, and before which text may be cut.

    A space is written for whatever text takes its place.
    """
    single = np.full(256, NOT_ONE, np.uint8)
    for point in range(128):
        flags, _, last, length = pool[slots[point] : slots[point] + HEAD].tolist()
        text = pool[slots[point] + HEAD :][:length].tobytes()
        if flags == ANCHOR and last == 0 and (length == 1 or text == space):
            single[point] = 0x20 if text == space else text[0]
    return read_only(single)


def added_token_patterns(tokenizer: Tokenizer) -> list[bytes] | None:
    """Return the texts of added tokens: in a row without one of these texts, tokenizers finds no added token.

    Returns:
        Sorted; None where that is not known: a token is looked for in text that the normalizer may have changed.
    """
    added = tokenizer.get_added_tokens_decoder().values()
    if tokenizer.normalizer is not None and any(token.normalized for token in added):
        return None
    return sorted({token.content.encode() for token in added if token.content})


class AddedTokens:
    """Finds the rows that hold one of some texts. Threads may share one.

    Args:
        patterns: the texts, none of them empty.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        flat = np.frombuffer(b"".join(patterns), np.uint8)
        offsets = offsets_of([len(pattern) for pattern in patterns])
        first = np.zeros(256, np.uint8)
        first[[pattern[0] for pattern in patterns]] = 1
        self._patterns = (read_only(first), read_only(flat), offsets)

    def marked(self, data: U8, offsets: I64) -> Flags:
        """Return whether each row to normalise holds one of the added tokens' texts: bool [rows].

        Args:
            data: uint8, the text of all rows.
            offsets: int64 [rows + 1], where each begins and ends.
        """
        marked = np.zeros(len(offsets) - 1, np.uint8)
        mark_rows(read_only(data), offsets, *self._patterns, marked)
        return marked.view(np.bool_)


@kernel
def _copy(data: U8, begin: int, end: int, out: U8, size: int) -> int:
    """Append bytes to the first `size` of the normalised text; return the new size."""
    for i in range(begin, end):
        out[size] = data[i]
        size += 1
    return size


@kernel
def _next_anchor(data: U8, at: int, stop: int, slots: I32, pool: U8) -> tuple[int, int]:
    """Return the next code point before which text to normalise may be cut; and one not in the table, or -1."""
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
    """Normalise single ASCII characters from `at` on; return their end, here and in `out`, and the last one's place there."""
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
            # a run of ASCII
            if single[data[at]] != NOT_ONE and place < room:
                at, place, cut_place = _ascii_run(data, at, stop, single, space, out, place, room)
                cut, last = at - 1, 0
                continue
            if place >= room or found == stretches.shape[1]:
                return FULL, row, count, -1
            # one character: its entry in the table
            point, after = character(data, at)
            slot = int(slots[point])
            if slot < 0:
                return UNKNOWN, row, count, point
            # where it is not sure, everything from the last cut to the next is left out
            first = int(pool[slot + 1])
            if pool[slot] & UNSURE or (first and first < last):
                at, point = _next_anchor(data, after, stop, slots, pool)
                if point >= 0:
                    return UNKNOWN, row, count, point
                stretches[0, found], stretches[1, found] = cut, at
                stretches[2, found], stretches[3, found] = cut_place, row
                found += 1
                cut, place, last = at, cut_place, 0
            # else its text is written
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
    """Put the normalised texts of the stretches into their rows, at their places."""
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
    """Copy normalised rows, with the prefix before each that is not empty; return the number of bytes."""
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
    """True if one of the patterns (added tokens, which are not normalised) stands at `at`."""
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
    """Set `marked` (uint8 [rows]) of every row to normalise that holds a pattern (an added token).

    `first_bytes`: 1 where one begins with the byte.
    """
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        found = False
        while at < stop and not found:
            while at < stop and not first_bytes[data[at]]:
                at += 1
            found = at < stop and _stands_at(data, at, stop, flat, flat_offsets)
            at += 1
        marked[row] = found
