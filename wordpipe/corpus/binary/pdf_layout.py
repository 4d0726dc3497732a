"""The layout of a page: from pieces of lines with their places to paragraphs in reading order.

Programs write a page in an order that is mostly the one in which people read it. So that order is kept, unless the pieces jump
up and down, or two columns are written across line by line: then gutters are looked for, and a page is read column by column.
A gutter is a strip that few lines cross, with lines of text on both sides: columns of short cells are a table, which is read
row by row.

In a table whose columns stand close together some gaps are as narrow as a space. Where a line has a wide gap, the lines above
and below are cut at their spaces that stand over it, if the cells line up; then all rows at what no row has a word in.

Coordinates are points, y grows upwards.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_BINS = 240  # across a page, in which gutters are looked for
_FEW_CROSS = 0.12  # of the lines of a page may cross a gutter: titles, wide figures
_COLUMN_LINES, _COLUMN_CHARS = 4, 14  # that a column of text has at least; characters in the median line
_MANY_PIECES = 3  # beside each other: then a page has a table, or columns that are written across
_ALIGNED = 3.0  # points that the edges of cells in one column may differ
_EXACT = 1.0  # points, likewise, where only a narrow gap parts the cells
_LEAST_STRIP = 0.3  # points
_MOST_OVER = 64  # strips at one gap that are looked at
_LEAST_ROWS = 3  # of a table with narrow gaps
_LIKE = 1.3  # times larger may the letters of one row be than those of the next
_NOTE = 0.89  # of the size of the text of a page: lines below it that are smaller are notes
_END = re.compile(r"[.!?:;…。！？؟։]['\"”’»)\]\d]{0,4}\Z")
_BULLET = re.compile(r"(?:[•▪◦‣●○■□–—*·-]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+\S")
_MARK = re.compile(r"[•▪◦‣●○■□–—*·-]|\(?(?:\d{1,3}|[a-zA-Z])[.)]")
_LEADERS = re.compile(r"(?:\s?[.…·_]){4,}\s*")
_WIDE = (
    "[\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]"
)
_ENDS_WIDE, _BEGINS_WIDE = re.compile(rf"{_WIDE}\Z"), re.compile(_WIDE)
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_TAIL, _LONGEST_WORD = 8, 200  # characters at the end of a text that are looked at
_LAST_WORD = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?\Z")
_FIRST_WORD = re.compile(r"[\w'’]+")
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


Gap = tuple[int, int, float, float]
"""A gap of a line: the place of its first character, of the one behind it, the edges of the text before and after."""


@dataclass(slots=True)
class Line:
    """A line of a page as it is written, before it is cut into pieces."""

    text: str  # of the page
    first: int  # the places of its first and its last character, and of what stands behind it
    last: int
    end: int
    start: float  # the edges of its text: where it is begun, and where it ends
    stop: float
    y0: float
    y1: float
    size: float
    gaps: list[Gap]  # all, and the wide ones
    cuts: list[Gap]
    is_aside: bool = False  # written up or down the page
    is_note: bool = False  # it begins with a mark above the line
    goes_left: bool = False
    is_row: bool = False  # of a table

    def is_beneath(self, other: "Line") -> bool:
        """True if the line stands right under another one of its size."""
        between = other.y0 - self.y1
        is_like = max(self.size, other.size) < _LIKE * min(self.size, other.size)
        return (
            is_like
            and -0.5 * self.size < between < 1.2 * self.size
            and self.start < other.stop
            and other.start < self.stop
        )


class _Table:
    """Lines that are rows of one table: their gaps, and the strips between the columns, in which no row has a word."""

    def __init__(self, line: Line) -> None:
        self.rows = [line]
        self.strips = [(gap[2], gap[3]) for gap in line.cuts]

    def takes(self, line: Line, beside: Line) -> bool:
        """Add a line with a gap at each strip if its cells line up with those of the row beside; True if it was added."""
        found, before = (_at(self.strips, one.gaps) for one in (line, beside))
        if found is None or before is None:
            return False
        is_sentence = len(found) > 1 and len(line.gaps) > 2 * len(found) + 1
        if is_sentence and not all(gap in line.cuts for gap in found):
            return False
        for at, (gap, other) in enumerate(zip(found, before, strict=True), 1):
            edges = [gap[3] - other[3], gap[2] - other[2]]
            if at < len(
                found
            ):  # a cell may stand at the right of its column, or in the middle; the last ends as all lines do
                edges += [found[at][2] - before[at][2], (gap[3] + found[at][2] - other[3] - before[at][2]) / 2]
            if min(map(abs, edges)) > _EXACT:
                return False
        self.strips = [(max(a, gap[2]), min(b, gap[3])) for (a, b), gap in zip(self.strips, found, strict=True)]
        self.rows.append(line)
        return True

    def cut(self) -> None:
        """Cut all rows at the strips, and between columns of numbers; unless these are lines that line up by chance."""
        self.rows.sort(key=lambda row: -row.y0)
        # a strip is as wide as letters are high behind one of its cells, which a space never is
        least = self.rows[0].size
        found = [_at(self.strips, line.gaps) or [] for line in self.rows]
        widest = [max(gap[3] - gap[2] for gap in some) for some in zip(*found, strict=False)]
        strips = [strip for strip, width in zip(self.strips, widest, strict=False) if width > least]
        wide = sum({*(_at(strips, line.gaps) or ())} <= {*line.cuts} for line in self.rows)
        if not strips or wide < 2 or len(self.rows) < _LEAST_ROWS:
            return
        strips = sorted([*strips, *self._between_numbers()])
        for line in self.rows:
            line.is_row = True
            is_code = (
                len(line.cuts) > 2 * len(strips) + 1
            )  # all of its spaces are wide, as letters of one width have them
            kept = {gap for gap in line.cuts if gap[3] - gap[2] > least or not is_code}
            kept |= {*(_at(strips, line.gaps) or ())}
            line.cuts = [gap for gap in line.gaps if gap in kept]

    def _between_numbers(self) -> list[tuple[float, float]]:
        """Return the strips at which every row has a gap beside a number, with one edge in common; no words that repeat."""
        common = [(gap[2], gap[3]) for gap in self.rows[0].gaps]
        for line in self.rows[1:]:
            both, at = list[tuple[float, float]](), 0
            for gap in line.gaps:
                while at < len(common) and common[at][1] <= gap[2]:
                    at += 1
                for left, right in common[at : at + _MOST_OVER]:
                    if left >= gap[3]:
                        break
                    both += [(max(left, gap[2]), min(right, gap[3]))] * (_overlap(gap, (left, right)) > _LEAST_STRIP)
            common = both
        chosen: list[tuple[float, float]] = []
        found = [_at(common, line.gaps) or [] for line in self.rows]
        for strip, *some in zip(common, *found, strict=False):
            lefts, rights = [gap[2] for gap in some], [gap[3] for gap in some]
            is_edge = min(max(lefts) - min(lefts), max(rights) - min(rights)) <= _EXACT
            texts = (line.text for line in self.rows[1:])  # the header has names
            sides = [
                (text[max(gap[0] - 3, 0) : gap[0]], text[gap[1] : gap[1] + 3])
                for text, gap in zip(texts, some[1:], strict=True)
            ]
            has_numbers = all(left[-1:].isdigit() or right[:1].isdigit() for left, right in sides)
            if is_edge and has_numbers and all(len({*one}) > 1 for one in zip(*sides, strict=True)):
                chosen.append(strip)
        return chosen


def _overlap(gap: Gap, strip: tuple[float, float]) -> float:
    """Return how wide a gap stands over a strip; less than 0 where it does not."""
    left, right = strip
    return (gap[3] if gap[3] < right else right) - (gap[2] if gap[2] > left else left)


def _at(strips: Iterable[tuple[float, float]], gaps: Sequence[Gap]) -> list[Gap] | None:
    """Return the gap at each strip, the widest where a cell of several words has more; None where a strip has none."""
    found: list[Gap] = []
    at = 0
    for strip in strips:
        while at < len(gaps) and gaps[at][3] <= strip[0]:
            at += 1
        best, most = at, _LEAST_STRIP
        for place in range(at, len(gaps)):
            if gaps[place][2] >= strip[1]:
                break
            if (over := _overlap(gaps[place], strip)) > most:
                best, most = place, over
        if most == _LEAST_STRIP:
            return None
        found.append(gaps[best])
    return found


def cut_cells(lines: Sequence[Line]) -> None:
    """Cut the rows of tables at gaps that are as narrow as a space, where wide ones in the rows beside them show the columns.

    The lines are those of a page, cut at their wide gaps.
    """
    done = 0  # lines that belong to a table already
    for number, line in enumerate(lines):
        is_clear = len(line.cuts) > 1 or any(gap[3] - gap[2] > line.size for gap in line.cuts)
        if number < done or not is_clear or _is_no_row(line):
            continue
        table, stop = _Table(line), number
        for step in (1, -1):
            at, beside = number + step, line
            while done <= at < len(lines) and not _is_no_row(one := lines[at]):
                upper, lower = (one, beside) if step < 0 else (beside, one)
                is_sentence = not one.cuts and one.text.count(" ", one.first, one.last) > 2 * len(table.strips) + 1
                if not lower.is_beneath(upper) or (is_sentence and len(table.strips) > 1):
                    break
                if not table.takes(one, beside):
                    break
                at, beside, stop = at + step, one, max(stop, at)
        table.cut()
        if len(table.rows) >= _LEAST_ROWS:
            done = stop + 1


def _is_no_row(line: Line) -> bool:
    """True if a line cannot be a row: it is written in another direction, or dots lead through it to a number of a page."""
    return line.is_aside or line.goes_left or _LEADERS.search(line.text, line.first, line.last) is not None


@dataclass(slots=True)
class Piece:
    """A piece of a line: what is written without a wide gap."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    is_split: bool = False  # a word goes on in the next line
    is_aside: bool = False  # written up or down the page
    is_cell: bool = False  # of a row that lines up with the next

    @property
    def size(self) -> float:
        """The height of its letters."""
        return self.y1 - self.y0

    def is_beside(self, other: "Piece | Row") -> bool:
        """True if the two stand on one line, none over the other."""
        overlap = min(self.y1, other.y1) - max(self.y0, other.y0)
        if overlap <= 0.0 or not (self.x0 >= other.x1 - 1 or self.x1 <= other.x0 + 1):
            return False
        return overlap > 0.5 * min(self.size, other.size)


@dataclass(slots=True)
class Row:
    """Pieces that stand on one line and are read one after the other."""

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    pieces: list[Piece]
    is_split: bool
    is_table: bool = False

    @property
    def text(self) -> str:
        """The text of the line; of a row of a table with bars between its cells."""
        return (" | " if self.is_table else " ").join(one.text for one in self.pieces)

    def is_above(self, other: "Row") -> bool:
        """True if the cells of the two stand one over the other, as those of a table do; not by chance, as in wide lines.

        Between two columns the gap must be wide. With more of them the cells must have an edge or the middle in common.
        """
        if self.y0 < other.y0 or len(self.pieces) != len(other.pieces):
            return False
        cells, others = (sorted(row.pieces, key=lambda piece: piece.x0) for row in (self, other))
        if any(_MARK.fullmatch(some[0].text) for some in (cells, others)):  # items of a list
            return False
        gaps, below = ([(one.x1, two.x0) for one, two in pairwise(some)] for some in (cells, others))
        if not all(max(one[0], two[0]) < min(one[1], two[1]) for one, two in zip(gaps, below, strict=True)):
            return False
        if min(right - left for left, right in gaps + below) > self.size:
            return True
        pairs = zip(cells[1:], others[1:], strict=True)
        ways = ((one.x0 - two.x0, one.x1 - two.x1, (one.x0 + one.x1 - two.x0 - two.x1) / 2) for one, two in pairs)
        return len(gaps) > 1 and all(min(map(abs, some)) <= _ALIGNED for some in ways)


def in_order(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces of a page in the order in which people read them; what is written up the page comes last."""
    upright = [one for one in pieces if not one.is_aside]
    aside = [one for one in pieces if one.is_aside]
    jumps = sum(later.y0 > before.y1 for before, later in pairwise(upright))
    beside = sum(later.is_beside(before) for before, later in pairwise(upright))
    is_wild = jumps > 3 + len(upright) // 10
    if is_wild or beside >= _MANY_PIECES:
        columns = _in_columns(upright)
        if columns is not None:
            return columns + aside
    return (down(upright) if is_wild else upright) + aside


def _in_columns(pieces: list[Piece]) -> list[Piece] | None:
    """Return the pieces of a page with columns of text column by column; a piece across the gutter ends both columns."""
    if len(pieces) < 2 * _COLUMN_LINES or (middle := _gutter(pieces)) is None:
        return None
    left = [one for one in pieces if one.x1 <= middle]
    right = [one for one in pieces if one.x0 >= middle]
    if not _are_columns(left, right):
        return None
    # a page of Hebrew or Arabic begins at the right
    sides = (left, right)
    if 2 * sum(RIGHT_TO_LEFT.search(one.text) is not None for one in pieces) > len(pieces):
        sides = (right, left)
    # bands between what crosses the gutter
    across = sorted((one for one in pieces if one.x0 < middle < one.x1), key=lambda one: -one.y1)
    found: list[Piece] = []
    top = float("inf")
    for one in [*across, None]:
        bottom = float("-inf") if one is None else one.y1
        for side in sides:
            band = [piece for piece in side if bottom < (piece.y0 + piece.y1) / 2 <= top]
            found += _in_columns(band) or down(band)
        if one is not None:
            found.append(one)
            top = bottom
    return found


def _gutter(pieces: Sequence[Piece]) -> float | None:
    """Return the middle of the strip that the fewest pieces cross; None where too many cross each."""
    left, right = min(one.x0 for one in pieces), max(one.x1 for one in pieces)
    if (scale := (right - left) / _BINS) <= 0:
        return None
    steps = [0] * (_BINS + 2)
    for one in pieces:
        steps[int((one.x0 - left) / scale)] += 1
        steps[int((one.x1 - left) / scale) + 1] -= 1
    crossed, over = [], 0
    for step in steps[:_BINS]:
        over += step
        crossed.append(over)
    # the widest strip of the least crossed, away from the edges
    limit = int(_FEW_CROSS * len(pieces))
    best: tuple[int, int, int] | None = None
    start = _BINS // 10
    for end in range(start, _BINS * 9 // 10 + 1):
        if crossed[start] != crossed[end] or end == _BINS * 9 // 10:
            if crossed[start] <= limit:
                best = max(best or (-_BINS, 0, 0), (-crossed[start], end - start, start))
            start = end
    if best is None or best[1] * scale < 0.5 * median(one.size for one in pieces):
        return None
    return left + (best[2] + best[1] / 2) * scale


def _are_columns(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """True if these are columns of text beside each other, and not the cells of a table."""
    if min(len(left), len(right)) < _COLUMN_LINES:
        return False
    if min(median(len(one.text) for one in side) for side in (left, right)) < _COLUMN_CHARS:
        return False
    tops = [max(one.y1 for one in side) for side in (left, right)]
    bottoms = [min(one.y0 for one in side) for side in (left, right)]
    shorter = min(top - bottom for top, bottom in zip(tops, bottoms, strict=True))
    return min(tops) - max(bottoms) > 0.5 * shorter


def down(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces from the top down, and on one line from the left."""
    found: list[Piece] = []
    line: list[Piece] = []
    for one in sorted(pieces, key=lambda piece: -(piece.y0 + piece.y1)):
        if line and (line[0].y0 + line[0].y1 - one.y0 - one.y1) / 2 > 0.5 * line[0].size:
            found += sorted(line, key=lambda piece: piece.x0)
            line = []
        line.append(one)
    return found + sorted(line, key=lambda piece: piece.x0)


def rows_of(pieces: Iterable[Piece]) -> list[Row]:
    """Return the rows of pieces in reading order: neighbours on one line are one. Cells over each other make tables."""
    rows: list[Row] = []
    for one in pieces:
        last = rows[-1] if rows else None
        if last is not None and not one.is_aside and not last.is_split and one.is_beside(last):
            last.pieces.append(one)
            last.x0, last.x1 = min(last.x0, one.x0), max(last.x1, one.x1)
            last.y0, last.y1 = min(last.y0, one.y0), max(last.y1, one.y1)
            last.is_split = one.is_split
        else:
            rows.append(Row(one.x0, one.y0, one.x1, one.y1, one.size, [one], one.is_split))
    for row in rows:
        if len(row.pieces) > 1 and all(one.is_cell for one in row.pieces):
            row.is_table = not (_MARK.fullmatch(row.pieces[0].text) or _LEADERS.search(row.text))
    for before, row in pairwise(rows):
        if (
            len(row.pieces) > 1
            and before.is_above(row)
            and not (_LEADERS.search(row.text) or _LEADERS.search(before.text))
        ):
            before.is_table = row.is_table = True
    return rows


@dataclass(slots=True)
class Paragraph:
    """A paragraph of a page."""

    text: str
    y1: float  # its upper edge
    size: float
    lines: int
    is_note: bool = False  # at the foot of a column, in smaller letters
    is_open: bool = False  # its last line ends in the middle of a word
    is_table: bool = False

    @property
    def is_ended(self) -> bool:
        """True if it ends as a sentence does."""
        return not self.is_open and _END.search(self.text[-_TAIL:]) is not None


def paragraphs_of(rows: Sequence[Row], words: "Words") -> list[Paragraph]:
    """Return the paragraphs of a page in reading order, its notes at the end.

    Args:
        rows: of the page.
        words: of the document, by which split words are joined.
    """
    if not rows:
        return []
    runs = _runs(rows)
    notes = {id(row) for run in runs for row in _notes(run, _text_size(rows))}
    pitches = [before.y0 - row.y0 for run in runs for before, row in pairwise(run) if before.y0 > row.y0 + 1]
    pitch = median(pitches) if pitches else 0.0
    found: list[Paragraph] = []
    for is_note in (False, True):
        last: Row | None = None
        for run in runs:
            edges = min(row.x0 for row in run), max(row.x1 for row in run)
            is_new_run = True
            for row in run:
                if (id(row) in notes) != is_note:
                    continue
                text = _LEADERS.sub(" ", row.text).strip()
                if last is None or _parts(found[-1], last, row, edges, pitch, is_new_run=is_new_run):
                    found.append(Paragraph(text, row.y1, row.size, 1, is_note, row.is_split, row.is_table))
                else:
                    one = found[-1]
                    one.text = words.joined(one.text, text, is_split=one.is_open)
                    one.lines, one.is_open = one.lines + 1, row.is_split
                last, is_new_run = row, False
    return found


def _runs(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows in runs that go down: of each column one."""
    runs = [[rows[0]]]
    for before, row in pairwise(rows):
        if row.y0 > before.y1:
            runs.append([])
        runs[-1].append(row)
    return runs


def _text_size(rows: Sequence[Row]) -> float:
    """Return the size of the letters in which most of a page is written."""
    sizes: dict[float, int] = {}
    for row in rows:
        size = round(row.size * 2) / 2
        sizes[size] = sizes.get(size, 0) + len(row.text)
    return max(sizes, key=lambda size: (sizes[size], size))


def _notes(run: Sequence[Row], size: float) -> list[Row]:
    """Return the rows at the end of a column that are notes."""
    found: list[Row] = []
    for row in reversed(run):
        if row.is_table or row.size > _NOTE * size:
            break
        found.append(row)
    return found if len(found) < len(run) else []


def _parts(
    paragraph: Paragraph, before: Row, row: Row, edges: tuple[float, float], pitch: float, *, is_new_run: bool
) -> bool:
    """True if a new paragraph begins with a row.

    Args:
        paragraph: as far as it goes.
        before: its last row.
        row: that comes next.
        edges: left and right edge of the column.
        pitch: the usual way from line to line.
        is_new_run: the row is the first of another column.
    """
    if before.is_table or row.is_table or max(before.size, row.size) > 1.15 * min(before.size, row.size):
        return not (before.is_split and is_new_run)
    if before.is_split:
        return False
    is_ended = paragraph.is_ended
    if is_new_run:
        return is_ended or _BULLET.match(row.text) is not None
    if before.y0 - row.y0 > 1.4 * pitch or _BULLET.match(row.text) is not None:
        return True
    # an indented line, or one that is not as long as it could be
    left, right = edges
    is_short = before.x1 < right - 0.15 * (right - left)
    indent = (row.x0 - before.x0) / row.size
    if 0.7 < indent < 8 and before.x0 < left + 0.7 * row.size:
        return is_ended or is_short
    if indent < -0.7 and paragraph.lines > 1:
        return is_ended or is_short
    return is_ended and is_short


class Words:
    """The words of a document, by which the words that a line end has split are joined."""

    _MOST = 200_000

    def __init__(self) -> None:
        self._known: set[str] = set()

    def add(self, text: str) -> None:
        """Learn the words of a text, those with a hyphen inside too."""
        if len(self._known) < self._MOST:
            self._known.update(_WORDS.findall(text.lower()))

    def joined(self, text: str, more: str, *, is_split: bool) -> str:
        """Return a text with its next line: a split word is joined, Chinese and Japanese go on without a space.

        A hyphen stays where the document has the word with it, in words that have another one, and before capitals and
        digits: "well-known", "state-of-the-art", "Franco-German", "COVID-19".
        """
        if not is_split:
            wide = _ENDS_WIDE.search(text[-1:]) and _BEGINS_WIDE.match(more)
            return f"{text}{more}" if wide or not text or not more else f"{text} {more}"
        first, second = _LAST_WORD.search(text[-_LONGEST_WORD:]), _FIRST_WORD.match(more)
        if first is None or second is None:
            return f"{text}-{more}"
        a, b = first[0].lower(), second[0].lower()
        is_whole, is_compound = a + b in self._known, f"{a}-{b}" in self._known
        keeps = "-" in a or not second[0][0].islower() or not first[0][-1].isalpha()
        if second[0][0].isalpha() and not (second[0][0].islower() or second[0][0].isupper()):
            keeps = False  # a script without capitals
        return f"{text}-{more}" if (is_compound and not is_whole) or (keeps and not is_whole) else text + more
