"""Running headers, footers and page numbers: lines at the edges of many pages, which are no text of these pages.

The lines at the top and at the bottom of a page are compared with those of the pages around it. A line runs where some of
these pages have the same line at the same height, whatever numbers are in it. A line that is a number alone must count the
pages, which the numbers of a table do not, or stand apart from the text. The outermost line also runs where it is a heading of
the outline that stands on an earlier page.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wordpipe.corpus.binary.pdf_layout import Piece

AROUND = 6
"""Pages before and after a page that its edges are compared with: headers of left and right pages, of a chapter."""
_LONGEST = 300  # characters of a line that are compared
_DEEP = 3  # lines at each edge of a page that may run
_APART = 1.7  # times the height of a line, from the middle of one to that of the next
_NEAR = 4.0  # points that the same line may be higher or lower
_OFTEN = 2  # other pages that have it
_ROMAN = r"[ivxlc]{1,7}"
_NUMBER = re.compile(
    rf"\W*(?:(?:page|seite|página|pagina|p\.|s\.)\s*)?(\d{{1,5}}|{_ROMAN})\s*(?:(?:/|of|von|de|sur|di|\|)\s*\d{{1,5}})?\W*",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_LONE_ROMAN = re.compile(rf"\b{_ROMAN}\b")
_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


@dataclass(frozen=True, slots=True)
class Edge:
    """A line at an edge of a page."""

    is_top: bool
    y: float
    key: str  # its text without the numbers
    number: int | None  # where it is a page number and nothing else
    is_apart: bool  # the outermost line, and away from the next one
    pieces: tuple[int, ...]  # places of its pieces among those of the page


def edges_of(pieces: Sequence[Piece]) -> list[Edge]:
    """Return the lines at the top and at the bottom of a page."""
    upright = [place for place, one in enumerate(pieces) if not one.is_aside]
    upright.sort(key=lambda place: -(pieces[place].y0 + pieces[place].y1))
    found: list[Edge] = []
    for is_top, lines in ((True, _lines(pieces, upright)), (False, _lines(pieces, upright[::-1]))):
        for place, line in enumerate(lines):
            first = pieces[line[0]]
            after = pieces[lines[1][0]] if place == 0 and len(lines) > 1 else None
            way = float("inf") if after is None else abs(first.y0 + first.y1 - after.y0 - after.y1) / 2
            is_apart = place == 0 and way > _APART * first.size
            found.append(_edge(pieces, line, is_top=is_top, is_apart=is_apart))
    return found


def _lines(pieces: Sequence[Piece], places: Sequence[int]) -> list[list[int]]:
    """Return the first lines of pieces that come by height."""
    lines: list[list[int]] = []
    for place in places:
        one = pieces[place]
        if lines:
            first = pieces[lines[-1][0]]
            if abs(first.y0 + first.y1 - one.y0 - one.y1) < first.size:
                lines[-1].append(place)
                continue
            if len(lines) == _DEEP:
                break
        lines.append([place])
    return lines


def _edge(pieces: Sequence[Piece], line: Sequence[int], *, is_top: bool, is_apart: bool) -> Edge:
    """Return a line at the edge of a page."""
    places = sorted(line, key=lambda place: pieces[place].x0)
    text = " ".join(pieces[place].text for place in places).lower()
    found = _NUMBER.fullmatch(text) if len(text) < 40 else None
    number = None if found is None else _value(found[1])
    return Edge(is_top, pieces[line[0]].y0, edge_key(text), number, is_apart, tuple(places))


def edge_key(text: str) -> str:
    """Return a line without its numbers, for comparison with other lines and with headings."""
    text = text.lower()[:_LONGEST]
    return " ".join(_LONE_ROMAN.sub(" ", _DIGITS.sub(" ", text)).split())


def _value(digits: str) -> int:
    """Return the value of a number in digits, or in Roman letters."""
    if digits.isdecimal():
        return int(digits)
    values = [_VALUES[one] for one in digits.lower()]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))


def running(
    edges: Sequence[Sequence[Edge]], at: int, page: int, pages: int, titles: Mapping[str, int]
) -> tuple[set[int], list[Edge], int]:
    """Return which pieces of a page are no text: headers, footers, its number.

    Args:
        edges: of some pages one after the other.
        at: the place of the page among them.
        page: its number.
        pages: of the whole document.
        titles: heading, as a key → the page on which it stands.

    Returns:
        places of pieces; the lines that run; how many page numbers there are.
    """
    others = [(other, place - at) for place, other in enumerate(edges) if 0 < abs(place - at) <= AROUND]
    often = _OFTEN if pages > 3 else 1
    pieces: set[int] = set()
    lines: list[Edge] = []
    numbers = 0
    for edge in edges[at]:
        if pieces.issuperset(edge.pieces):
            continue
        same = [
            (one, way)
            for other, way in others
            for one in other
            if one.is_top == edge.is_top and one.key == edge.key and abs(one.y - edge.y) <= _NEAR
        ]
        if edge.number is not None:
            counting = sum(one.number is not None and one.number - edge.number == way for one, way in same)
            if counting or (edge.is_apart and pages > 1):
                pieces.update(edge.pieces)
                numbers += 1
        elif (len({way for _, way in same}) >= often and any(map(str.isalpha, edge.key))) or (
            edge.is_apart and titles.get(edge.key, page) < page
        ):
            pieces.update(edge.pieces)
            lines.append(edge)
    return pieces, lines, numbers
