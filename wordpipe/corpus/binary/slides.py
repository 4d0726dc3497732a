"""Slides (PPTX, ODP) as sections: one slide, one section, with its title as heading and its number in the column `slide`.

The text of a slide comes in the order of its boxes; an item of a list has its mark, and a row of a table is one line. What the
speaker wrote for himself follows after "Notes:". The numbers of slides count hidden ones, too, as the programs show them.

Left out, and counted: hidden slides, hidden text, comments, charts, and what stands on every slide: date, number, footer. A
slide that has only a title has it as text.

Sources: ECMA-376 part 1, chapters 19 (PresentationML) and 21.1 (DrawingML text); OpenDocument 1.3 part 3, section 10.9.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from wordpipe.corpus.binary.opendocument import Content, Looks, Paragraph, content_records
from wordpipe.corpus.binary.packages import Package, Relations, title_in
from wordpipe.corpus.binary.word import LEFT_OUT, add_lines, numeral
from wordpipe.corpus.documents import Record
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


@dataclass(slots=True)
class Slide:
    """A slide, as far as it has been read."""

    number: int  # from 1
    title: list[str] = field(default_factory=list)
    parts: list[tuple[Literal["text", "row", "note"], str, str]] = field(
        default_factory=list
    )  # with text, and mark of an item
    cells: list[str] = field(default_factory=list)  # of the row that is open

    def end_row(self) -> None:
        """End the row of a table."""
        if text := " | ".join(filter(None, (" ".join(cell.split()) for cell in self.cells))):
            self.parts.append(("row", text, ""))
        self.cells = []

    def tell(self, outline: Outline) -> None:
        """Report the slide to the outline of its source, as a section of its own."""
        inner = Outline(outline.ledger)
        inner.line = self.number
        title = " ".join(" ".join(self.title).split())
        if self.parts:
            inner.heading(1, title, None, self.number)
        else:
            inner.words(title)
        is_noted = False
        for kind, text, mark in self.parts:
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
        for kind in ("comments", "chart"):
            ledger.add_named(LEFT_OUT, f"{kind.rstrip('s')}s", len(beside.of(kind)))
        for drawing in beside.of("diagramData"):
            package.parse(drawing, _Boxes(slide))
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
        elif tag == "a:tc":
            self._cell = []
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
            self._slide.cells.append(" ".join(self._cell))
            self._cell = None
        elif tag == "a:tr":
            self._slide.end_row()

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

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        before = self._number
        super().start(tag, attributes)
        if tag == "draw:page" and self._number > before:
            self._slide = Slide(self._number)
        elif tag == "draw:frame":
            self._kind = attributes.get("presentation:class", "")
        elif tag == "presentation:notes":
            self._in_notes = True

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
        self._slide.end_row()

    def cell(self) -> None:
        self._slide.cells.append(" ".join(self._cell))
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
