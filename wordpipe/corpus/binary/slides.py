"""Slides (PPTX, ODP) as sections: one slide, one section, with its title as heading and its number in the column `slide`.

The text of a slide comes in the order of its boxes; an item of a list has its mark, and a row of a table is one line, in which
each cell stands behind the name of its column if the first row is set off as the header. A chart is its titles, and a table of
its categories, series and values. What the speaker wrote for himself follows after "Notes:". The numbers of slides count
hidden ones, too, as the programs show them.

Left out, and counted: hidden slides, hidden text, comments, charts of kinds that only new programs draw, points of charts
after the first 200, and what stands on every slide: date, number, footer. A slide that has only a title has it as text.

Sources: ECMA-376 part 1, chapters 19 (PresentationML), 21.1 (DrawingML text, tables) and 21.2 (charts); OpenDocument 1.3 part
3, sections 10.9 (slides) and 11 (charts).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from wordpipe.corpus.binary.opendocument import Content, Looks, Paragraph, content_records
from wordpipe.corpus.binary.packages import Package, Relations, title_in
from wordpipe.corpus.binary.word import LEFT_OUT, add_lines, numeral
from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.readers.sections import Outline, outline_records
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError
from wordpipe.wording import place_anchor

_EVERYWHERE = "dates, numbers and footers of slides"
_NOTES = "Notes: "
_TITLES = frozenset(("title", "ctrTitle"))
_MARGINAL = frozenset(("dt", "ftr", "sldNum", "hdr", "sldImg"))
_LISTED = frozenset(("", "body", "obj"))  # kinds of boxes whose paragraphs are items unless they say otherwise
_FORMS = {"alpha": "Letter", "roman": "Roman"}
_DEEPEST = 9
_SPANS = frozenset(("gridSpan", "rowSpan", "hMerge", "vMerge"))
_PARTS = frozenset(("c:title", "c:ser", "c:tx", "c:cat", "c:val", "c:xVal", "c:yVal", "c:bubbleSize"))
_MOST_POINTS = 200  # of a chart: more are no words that people look for


@dataclass(slots=True)
class Table:
    """A table of a slide, or the figures of a chart."""

    has_header: bool = False  # its first row names the columns
    has_spans: bool = False  # a cell covers several
    rows: list[list[str]] = field(default_factory=lambda: [[]])

    def tell(self, outline: Outline) -> None:
        """Report the table to an outline."""
        outline.table()
        if self.has_spans:
            outline.spans()
        for number, row in enumerate(row for row in self.rows if any(map(str.strip, row))):
            outline.row()
            for cell in row:
                outline.words(cell.replace("\n", " "))
                outline.cell()
            (outline.header if self.has_header and number == 0 else outline.row)()
        outline.table()


@dataclass(slots=True)
class Slide:
    """A slide, as far as it has been read."""

    number: int  # from 1
    title: list[str] = field(default_factory=list)
    parts: list[tuple[Literal["text", "note"], str, str] | Table] = field(default_factory=list)  # text, mark of an item
    table: Table = field(default_factory=Table)  # the last one

    def begin_table(self, *, has_header: bool = False) -> None:
        """Begin a table; its rows follow."""
        self.table = Table(has_header)
        self.parts.append(self.table)

    def tell(self, outline: Outline) -> None:
        """Report the slide to the outline of its source, as a section of its own."""
        inner = Outline(outline.ledger)
        inner.line = self.number
        title = " ".join(" ".join(self.title).split())
        if any(not isinstance(one, Table) or any(one.rows) for one in self.parts):
            inner.heading(1, title, None, self.number)
        else:
            inner.words(title)
        is_noted = False
        for part in self.parts:
            if isinstance(part, Table):
                part.tell(inner)
                continue
            kind, text, mark = part
            if kind == "note" and not is_noted:
                is_noted = True
                inner.block(mark=_NOTES)
                inner.words(text.replace("\n", " "))
                inner.block()
            else:
                add_lines(inner, text, mark)
        inner.finish()
        for section in inner.take():
            section.places, section.columns = [(0, self.number)], {"slide": self.number}
            section.anchor = place_anchor("slide", self.number)
            outline.sections.append(section)


def read(opened: Opened) -> Iterator[Record]:
    """Yield the slides of a PPTX presentation.

    Raises:
        InputError: it is damaged, encrypted or a bomb, or no presentation.
    """
    package = Package(opened)
    main = Relations(package).of("officeDocument")
    if not main or main[0] not in package.names:
        raise InputError("the file contains no presentation", where=opened.source.name)
    outline = Outline(opened.ledger)
    for part in Relations(package).of("core-properties"):
        outline.title = title_in(package, part, opened.source.name)
    yield from outline_records(outline, _slides(package, main[0], outline), opened)


def _slides(package: Package, main: str, outline: Outline) -> Iterator[None]:
    """Report the slides of a presentation to an outline, one at a time."""
    order, related, ledger = _Order(), Relations(package, main), outline.ledger
    package.parse(main, order)
    paths = [related.get(one, ("", ""))[1] for one in order.ids]
    for number, part in enumerate(paths, start=1):
        slide = Slide(number)
        reading = _Boxes(slide)
        package.parse(part, reading)
        if reading.is_hidden:
            ledger.add_named(LEFT_OUT, "hidden slides")
            continue
        # what belongs to a slide stands in parts of its own
        beside = Relations(package, part)
        for kind, called in (("comments", "comments"), ("chartEx", "charts")):
            ledger.add_named(LEFT_OUT, called, len(beside.of(kind)))
        for drawing in beside.of("diagramData"):
            package.parse(drawing, _Boxes(slide))
        for drawn in beside.of("chart"):
            chart = _Chart()
            package.parse(drawn, chart)
            chart.tell(slide, ledger)
        for notes in beside.of("notesSlide"):
            package.parse(notes, _Boxes(slide, is_note=True))
        ledger.add_named(LEFT_OUT, _EVERYWHERE, reading.marginal)
        slide.tell(outline)
        yield


class _Order:
    """The part that says in which order slides come."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "p:sldId":
            self.ids.append(attributes.get("r:id", ""))

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Boxes:
    """The reading of the boxes of a slide, or of its notes."""

    def __init__(self, slide: Slide, *, is_note: bool = False) -> None:
        self.is_hidden, self.marginal = False, 0
        self._slide, self._is_note = slide, is_note
        self._skipped = 0  # elements that are open in one that is left out, with itself
        self._box: str | None = None  # the kind of the open box; None of one that is no place for a text of its own
        self._cell: list[str] | None = None
        self._words: list[str] | None = None  # of the open paragraph
        self._depth, self._bullet = (
            0,
            "",
        )  # of an item: "" as its box has it, "-" a sign, "none", else the form of a number
        self._counts = [0] * _DEEPEST
        self._is_text = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped:
            self._skipped += 1
        elif tag == "mc:Fallback":
            self._skipped = 1
        elif tag in ("p:sld", "p:notes"):
            self.is_hidden = attributes.get("show") in ("0", "false")
        elif tag == "p:sp":
            self._box, self._counts = None, [0] * _DEEPEST
        elif tag == "p:ph":
            self._box = attributes.get("type", "")
        elif tag in ("p:cNvPr", "p:txBody", "a:txBody"):
            self._picture_or_text(tag, attributes)
        elif tag in ("a:tbl", "a:tblPr", "a:tc"):
            self._in_table(tag, attributes)
        elif tag.endswith(":p") and tag != "p:p":
            self._words, self._depth, self._bullet = [], 0, ""
        elif self._words is not None:
            self._in_paragraph(tag, attributes)

    def _picture_or_text(self, tag: str, attributes: dict[str, str]) -> None:
        """Take what a box says of itself, or the start of its text: that of a date or a footer is left out."""
        if tag == "p:cNvPr":
            if (text := attributes.get("descr", "").strip()) and not self._is_note:
                self._slide.parts.append(("text", text, ""))
        elif self._box in _MARGINAL:
            self._skipped, self.marginal = 1, self.marginal + 1

    def _in_table(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the beginning of a table or of a cell, or what is said of a table."""
        if tag == "a:tbl":
            self._slide.begin_table()
        elif tag == "a:tblPr":
            self._slide.table.has_header = attributes.get("firstRow") in ("1", "true")
        else:
            self._cell = []
            self._slide.table.has_spans |= not _SPANS.isdisjoint(attributes)

    def _in_paragraph(self, tag: str, attributes: dict[str, str]) -> None:
        """Take an element of a paragraph."""
        assert self._words is not None
        if tag == "a:t" or tag == "m:t":
            self._is_text = True
        elif tag == "a:br":
            self._words.append("\n")
        elif tag == "a:tab":
            self._words.append(" ")
        elif tag == "a:pPr":
            depth = attributes.get("lvl", "0")
            self._depth = int(depth) if depth.isdigit() and depth.isascii() and len(depth) == 1 else 0
        elif tag == "a:buNone":
            self._bullet = "none"
        elif tag in ("a:buChar", "a:buBlip"):
            self._bullet = "-"
        elif tag == "a:buAutoNum":
            self._bullet = attributes.get("type", "arabicPeriod")

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag in ("a:t", "m:t"):
            self._is_text = False
        elif tag == "a:p" and self._words is not None:
            self._paragraph("".join(self._words))
            self._words = None
        elif tag == "a:tc" and self._cell is not None:
            self._slide.table.rows[-1].append(" ".join(self._cell))
            self._cell = None
        elif tag == "a:tr":
            self._slide.table.rows.append([])

    def text(self, text: str) -> None:
        if self._is_text and not self._skipped and self._words is not None:
            self._words.append(text.replace("\n", " "))

    def _paragraph(self, text: str) -> None:
        """Take a whole paragraph."""
        if not text.strip():
            return
        if self._cell is not None:
            self._cell.append(text)
        elif self._is_note:
            self._slide.parts.append(("note", text, ""))
        elif self._box in _TITLES:
            self._slide.title.append(text)
        else:
            self._slide.parts.append(("text", text, self._mark()))

    def _mark(self) -> str:
        """Return the mark of an item of a list, with spaces for its depth; nothing of a paragraph that is none."""
        is_item = self._bullet != "none" and (self._bullet or self._box in _LISTED)
        depth = min(self._depth, _DEEPEST - 1)
        if not is_item or self._bullet in ("", "-"):
            self._counts[depth:] = [0] * (_DEEPEST - depth)
            return f"{'  ' * depth}- " if is_item else ""
        self._counts[depth] += 1
        self._counts[depth + 1 :] = [0] * (_DEEPEST - depth - 1)
        form = next((kind for name, kind in _FORMS.items() if name in self._bullet), "")
        form = f"{'upper' if 'Uc' in self._bullet else 'lower'}{form}" if form else "decimal"
        after = ")" if "Paren" in self._bullet else "."
        return f"{'  ' * depth}{numeral(self._counts[depth], form)}{after} "


class _Chart:
    """The reading of a chart of a PPTX presentation."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.names: list[str] = []  # of the series
        self.categories: dict[int, str] = {}  # number of a point → what it is of
        self.values: list[dict[int, str]] = []  # of each series
        self._open: list[str] = []  # parts of the chart that are open: "c:title", "c:ser", "c:cat", …
        self._point = 0
        self._format = ""
        self._text: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _PARTS:
            self._open.append(tag)
        if tag == "c:title":
            self.titles.append("")
        elif tag == "c:ser":
            self.names.append("")
            self.values.append({})
        elif tag in ("c:strCache", "c:numCache"):
            self._format = ""
        elif tag == "c:pt":
            number = attributes.get("idx", "")
            self._point = int(number) if number.isascii() and number.isdigit() and len(number) < 8 else 0
        elif tag in ("a:t", "c:v", "c:formatCode"):
            self._text = []

    def end(self, tag: str) -> None:
        if tag in _PARTS and self._open:
            self._open.pop()
        elif tag in ("a:t", "c:v", "c:formatCode") and self._text is not None:
            self._take(tag, "".join(self._text).replace("\n", " ").strip())
            self._text = None

    def text(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _take(self, tag: str, text: str) -> None:
        """Take a whole text or value, by what it stands in."""
        inside = self._open[-1] if self._open else ""
        if tag == "c:formatCode":
            self._format = text
        elif "c:title" in self._open:
            self.titles[-1] += text
        elif inside == "c:tx" and self.names:
            self.names[-1] = text
        elif inside == "c:cat":
            self.categories.setdefault(self._point, _figure(text, self._format))
        elif inside == "c:val" and self.values:
            self.values[-1][self._point] = _figure(text, self._format)

    def tell(self, slide: Slide, ledger: Ledger) -> None:
        """Report the chart as its titles and a table."""
        for title in filter(None, map(str.strip, self.titles)):
            slide.parts.append(("text", title, ""))
        slide.begin_table(has_header=True)
        points = sorted({*self.categories, *(number for one in self.values for number in one)})
        ledger.add_named(LEFT_OUT, "points of charts", max(len(points) - _MOST_POINTS, 0))
        slide.table.rows = [["", *self.names]] + [
            [self.categories.get(number, str(number + 1)), *(one.get(number, "") for one in self.values)]
            for number in points[:_MOST_POINTS]
        ]


def _figure(text: str, form: str) -> str:
    """Return a value of a chart as people read it: without the noise of its last digits, as a share, or as a day.

    >>> _figure("0.30000000000000004", "0%"), _figure("45355", "d/m/yy"), _figure("Spring", "")
    ('30%', '2024-03-04', 'Spring')
    """
    try:
        number = float(text)
        if "y" in form.lower():
            return (date(1899, 12, 30) + timedelta(int(number))).isoformat()
        return f"{number * 100:.10g}%" if "%" in form else f"{number:.10g}"
    except (ValueError, OverflowError):
        return text


def read_odp(opened: Opened) -> Iterator[Record]:
    """Yield the slides of an OpenDocument presentation.

    Raises:
        InputError: it is damaged, encrypted or a bomb, or no presentation.
    """
    outline = Outline(opened.ledger)
    return content_records(opened, outline, lambda looks: _Deck(looks, outline))


class _Deck(Content):
    """The reading of an OpenDocument presentation."""

    def __init__(self, looks: Looks, outline: Outline) -> None:
        super().__init__(looks, outline)
        self._slide = Slide(0)
        self._number = 0
        self._kind = ""  # of the open box
        self._in_notes = False
        self._cell: list[str] = []

    def left_out(self, tag: str, attributes: dict[str, str]) -> str | None:
        self._number += tag == "draw:page"
        if tag == "draw:page" and self.looks.is_hidden("drawing-page", attributes.get("draw:style-name", "")):
            return "hidden slides"
        if tag == "draw:frame" and attributes.get("presentation:class") in (
            "date-time",
            "footer",
            "page-number",
            "header",
        ):
            return _EVERYWHERE
        return super().left_out(tag, attributes)

    def object(self, part: str) -> None:
        assert self.package is not None
        self.package.parse(part, chart := _OdfChart())
        if chart.is_chart:
            self._slide.parts += chart.slide.parts
        else:
            super().object(part)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        before = self._number
        super().start(tag, attributes)
        if tag == "draw:page" and self._number > before:
            self._slide = Slide(self._number)
        elif tag == "draw:frame":
            self._kind = attributes.get("presentation:class", "")
        elif tag == "presentation:notes":
            self._in_notes = True
        elif tag == "table:table" and self.tables == 1:
            self._slide.begin_table(has_header=attributes.get("table:use-first-row-styles") == "true")
        elif tag == "table:covered-table-cell":
            self._slide.table.has_spans = True

    def end(self, tag: str) -> None:
        super().end(tag)
        if tag == "draw:page" and self._slide.number:
            self._slide.tell(self.outline)
            self._slide = Slide(0)
        elif tag == "presentation:notes":
            self._in_notes = False
        elif tag == "draw:frame":
            self._kind = ""

    def table(self) -> None:
        pass

    def row(self) -> None:
        if self._slide.table.rows[-1]:
            self._slide.table.rows.append([])

    def cell(self) -> None:
        self._slide.table.rows[-1].append(" ".join(self._cell))
        self._cell = []

    def paragraph(self, found: Paragraph, text: str, mark: str) -> None:
        if self.tables:
            self._cell.append(text)
        elif self._in_notes:
            self._slide.parts.append(("note", text, ""))
        elif self._kind == "title":
            self._slide.title.append(text)
        else:
            self._slide.parts.append(("text", text, mark))


class _OdfChart:
    """The reading of a chart of an OpenDocument presentation, which is a part of its own; of another object nothing."""

    def __init__(self) -> None:
        self.is_chart = False
        self.slide = Slide(0)  # which holds what is to be told
        self._text: list[str] | None = None
        self._in_title = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "chart:chart":
            self.is_chart = True
        elif tag in ("chart:title", "chart:subtitle"):
            self._in_title = True
        elif tag == "table:table":
            self.slide.begin_table(has_header=True)
        if self._in_title or tag == "table:table-cell":
            self._text = self._text or []

    def end(self, tag: str) -> None:
        text = " ".join("".join(self._text or ()).split())
        if tag in ("chart:title", "chart:subtitle"):
            self.slide.parts.append(("text", text, ""))
            self._text, self._in_title = None, False
        elif tag == "table:table-cell":
            self.slide.table.rows[-1].append("" if text == "NaN" else _figure(text, ""))
            self._text = None
        elif tag == "table:table-row":
            self.slide.table.rows.append([])

    def text(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)
