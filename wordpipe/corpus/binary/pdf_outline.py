"""The outline of a PDF: the headings that a viewer shows beside the pages, and where they stand among the lines of a page."""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium

from wordpipe.corpus.binary.pdf_layout import Row

_MOST, _DEEPEST = 20_000, 12  # headings, and levels of them
_LONGEST = 1000  # characters of a heading
_LINES = 3  # that a heading has on its page at most
_NOT_WORD = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"(?:(?:chapter|part|section|appendix|kapitel|teil|chapitre|capítulo)\s+)?"
    r"(?:\d[\d.]*|[ivxlc]{1,7}|[a-z](?=\.))(?=[\s.:)–-])[\s.:)–-]*"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of an outline."""

    path: tuple[str, ...]  # it, and those above it
    y: float | None  # the height on its page that a viewer goes to; None: the top


def outline_of(document: Any, pages: int) -> dict[int, list[Heading]]:
    """Return the headings of a document by page, in the order of the outline. An outline that goes round in a circle ends."""
    found: dict[int, list[Heading]] = {}
    seen: set[int] = set()
    first = pdfium.FPDFBookmark_GetFirstChild(document, None)
    stack: list[tuple[Any, tuple[str, ...]]] = [(first, ())]
    while stack and len(seen) < _MOST:
        mark, above = stack.pop()
        address = ctypes.cast(mark, ctypes.c_void_p).value if mark else None
        if address is None or address in seen:
            continue
        seen.add(address)
        title = _title(mark)
        path = (*above, title) if title else above
        if title and (place := _place(document, mark, pages)) is not None:
            found.setdefault(place[0], []).append(Heading(path, place[1]))
        stack.append((pdfium.FPDFBookmark_GetNextSibling(document, mark), above))
        if len(path) < _DEEPEST:
            stack.append((pdfium.FPDFBookmark_GetFirstChild(document, mark), path))
    return found


def _title(mark: Any) -> str:
    """Return the text of a heading of the outline."""
    size = min(pdfium.FPDFBookmark_GetTitle(mark, None, 0), 4 * _LONGEST)
    buffer = (ctypes.c_char * max(size, 2))()
    pdfium.FPDFBookmark_GetTitle(mark, buffer, size)
    text = bytes(buffer)[:-2].decode("utf-16-le", "ignore")
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:_LONGEST]


def _place(document: Any, mark: Any, pages: int) -> tuple[int, float | None] | None:
    """Return the page that a heading stands on, from 1, and the height there; None where it leads nowhere in the document."""
    target = pdfium.FPDFBookmark_GetDest(document, mark)
    if not target:
        action = pdfium.FPDFBookmark_GetAction(mark)
        target = pdfium.FPDFAction_GetDest(document, action) if action else None
    page = pdfium.FPDFDest_GetDestPageIndex(document, target) if target else -1
    if not 0 <= page < pages:
        return None
    has_x, has_y, has_zoom = (ctypes.c_int() for _ in range(3))
    x, y, zoom = (ctypes.c_float() for _ in range(3))
    is_there = pdfium.FPDFDest_GetLocationInPage(target, has_x, has_y, has_zoom, x, y, zoom)
    return page + 1, y.value if is_there and has_y.value else None


def heading_places(headings: Sequence[Heading], rows: Sequence[Row]) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return for each heading of a page the first row of its section, the row after the heading itself, and its path.

    A heading is looked for by its words. Where the page does not have them, the section begins at the height that the outline
    says, or at the top.
    """
    found: list[tuple[int, int, tuple[str, ...]]] = []
    start = 0
    for heading in headings:
        place = _by_words(heading, rows, start) or _by_height(heading, rows, start)
        found.append((*place, heading.path))
        start = place[1]
    return found


def _by_words(heading: Heading, rows: Sequence[Row], start: int) -> tuple[int, int] | None:
    """Return the rows from `start` on that are a heading, as first and last exclusive; None where none are."""
    wanted = _key(heading.path[-1])
    if not wanted:
        return None
    for first in range(start, len(rows)):
        row = rows[first]
        if (heading.y is not None and row.y0 > heading.y + row.size) or not (part := _key(row.text)):
            continue
        # the heading may begin in this row, after its number
        if not wanted.startswith(part) and not part.endswith(wanted):
            continue
        text = part
        for last in range(first, min(first + _LINES, len(rows))):
            text = text if last == first else _key(" ".join(one.text for one in rows[first : last + 1]))
            if text == wanted:
                return first, last + 1
            if not wanted.startswith(text):
                break
    return None


def _by_height(heading: Heading, rows: Sequence[Row], start: int) -> tuple[int, int]:
    """Return where the section of a heading begins by its height on the page."""
    if heading.y is None:
        return start, start
    for place in range(start, len(rows)):
        row = rows[place]
        if row.y1 <= heading.y + 0.5 * row.size:
            return place, place
    return len(rows), len(rows)


def _key(text: str) -> str:
    """Return the words of a heading without its number, by which it is found."""
    text = text.casefold()
    return _NOT_WORD.sub("", _NUMBERING.sub("", text, count=1) if _NUMBERING.match(text) else text) or _NOT_WORD.sub(
        "", text
    )
