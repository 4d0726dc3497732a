"""What a normalizer makes of each code point, and where the neighbours of a code point have a say in it.

A normal form puts combining marks in order and composes them with the character before them; all other steps of a normalizer
look at one character at a time. So the result for a text is that of its characters, one after the other, but where a mark
stands out of order or could be composed. Which these are is read from Python's Unicode data; combining classes and
compositions of assigned characters never change (Unicode's stability policy), and what Python does not know is never sure.
Source: Unicode Standard Annex #15, sections 9 (quick check) and 12 (stability).
"""

import json
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from tokenizers import normalizers

ANCHOR = 1  # text may be cut before it: each part is then normalised as it would be in the whole
UNSURE = 2  # what becomes of it depends on what stands before it
HEAD = 4  # bytes before the text of an entry: flags, first and last combining class, length of the text
LONGEST = 200  # bytes of an entry's text: eighteen characters, and a few spaces that become longer, are far less
_CODE_POINTS = 0x110000
_PAGE = 256
_FORMS = {"NFC", "NFD", "NFKC", "NFKD"}


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
        self.table = (np.full(_CODE_POINTS, -1, np.int32), np.zeros(0, np.uint8))
        self.make(0)

    def normalise(self, text: str) -> str:
        """What the tokenizer makes of a text."""
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
        """Flags, and the combining classes of the first and the last of what the normal forms see of a character."""
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
        """What each normal form gets of a character that stands alone, and what is left in the end."""
        seen, text = [], character
        for step, form in self._steps:
            if form is not None:
                seen.append(text)
            text = step.normalize_str(text)
        return seen, text


def _flat(state: dict[str, Any]) -> Iterator[tuple[normalizers.Normalizer, str | None]]:
    """The steps of a normalizer, and the normal form in each."""
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
    """Combining classes of the marks that a text begins with, and whether one of these or the next may be composed."""
    classes, joined = [], False
    for character in unicodedata.normalize("NFKD", text):
        joined |= character in _seconds()
        if not unicodedata.combining(character):
            break
        classes.append(unicodedata.combining(character))
    assert all(low <= high for low, high in pairwise(classes))
    return tuple(classes), joined


@cache
def _seconds() -> frozenset[str]:
    """Characters that can be composed with one before them."""
    found = {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # of Korean syllables
    for point in range(0x30000):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)
