"""DOCX as an outline: the text of a document as a reader of its printed page sees it, with all tracked changes accepted.

A paragraph is one line, and its number, counted from the beginning of the document, is its line. Headings are those that the
style or the paragraph gives a level of the outline; lists and numbered headings have the numbers that Word shows. A row of a
table is one line. A foot- or endnote follows the paragraph that refers to it, with the same number in brackets.

Left out, and counted: deleted text, text that moved elsewhere, hidden text, comments, tables of contents, headers and footers
of pages, and documents of other formats within this one. Text boxes stand before the paragraph that holds them. A field such
as a reference to a page is read as the text that it had when the document was saved.

Source: ECMA-376 part 1 (WordprocessingML), sections 17.3 (paragraphs and runs), 17.9 (numbering), 17.11 (notes), 17.13.5
(revisions).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from wordpipe.corpus.binary.packages import Package, Relations, title_in
from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.readers.sections import Outline, outline_records
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError

LEFT_OUT = "parts_left_out"
"""The heading of counts of what is in a document and not in its text."""

_NO = frozenset(("0", "false", "off", "none"))
_HEADING = re.compile(r"heading ([1-9])\Z", re.IGNORECASE)
CONTENTS = frozenset(("toc heading", "contents heading", "toa heading"))
"""The names of styles of the title of a table of contents, in small letters."""
_BODY_TEXT = 9  # the level of the outline that is no heading
_DEEPEST_STYLE = 20  # styles that are based on each other
_DEEPEST_LIST = 9
_DEEPEST_FIELD = 100  # fields in each other
_INSTRUCTION = 200  # characters of the instruction of a field that are looked at
_NUMBER = re.compile(r"%([1-9])")
_SKIPPED = {  # with all that they hold → how they are counted
    "w:del": "deleted text", "w:moveFrom": "deleted text", "mc:Fallback": "", "w:rt": "", "w:pPrChange": "", "w:rPrChange": "",
    "w:sectPr": "", "w:tblPr": "",
}  # fmt: skip
_SIGNS = {"w:tab": " ", "w:ptab": " ", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "\u2011", "w:sym": " "}
_NOTES = {"w:footnoteReference": "footnotes", "w:endnoteReference": "endnotes"}
_NO_NOTES = frozenset(("separator", "continuationSeparator", "continuationNotice"))


def read(opened: Opened) -> Iterator[Record]:
    """Yield the sections of a DOCX document.

    Raises:
        InputError: it is damaged, encrypted or a bomb, or no document of Word.
    """
    package, ledger = Package(opened), opened.ledger
    # the parts: the document, its styles, lists and notes
    main = Relations(package).of("officeDocument")
    if not main or main[0] not in package.names:
        raise InputError("the file contains no Word document", where=opened.source.name)
    related = Relations(package, main[0])
    looks = _Looks()
    for part in (*related.of("styles"), *related.of("numbering")):
        package.parse(part, looks)
    notes: dict[tuple[str, str], str] = {}
    for kind in ("footnotes", "endnotes"):
        for part in related.of(kind):
            package.parse(part, _Notes(looks, ledger, kind, notes))
    for kind, called in (
        ("header", "headers and footers"),
        ("footer", "headers and footers"),
        ("aFChunk", "inner documents"),
    ):
        if number := len(related.of(kind)):
            ledger.add_named(LEFT_OUT, called, number)
    # the text, block by block
    outline = Outline(ledger)
    for part in Relations(package).of("core-properties"):
        outline.title = title_in(package, part, opened.source.name)
    yield from outline_records(outline, package.steps(main[0], _Body(looks, notes, outline)), opened)


@dataclass(slots=True)
class _Style:
    """A style of paragraphs or runs."""

    name: str = ""
    base: str = ""
    level: int | None = None  # of the outline, 0 is the highest
    list_id: str = ""
    list_level: int | None = None
    is_hidden: bool = False


@dataclass(slots=True)
class _Level:
    """A level of a list."""

    form: str = "decimal"  # of its numbers
    text: str = "%1."
    start: int = 1


class _Looks:
    """The styles and lists of a document, by the parts for styles and for numbering."""

    def __init__(self) -> None:
        self.styles: dict[str, _Style] = {}
        self.lists: dict[str, str] = {}  # id of a list → that of its kind
        self.starts: dict[tuple[str, int], int] = {}  # of a list that begins anew
        self._kinds: dict[str, dict[int, _Level]] = {}
        self._counts: dict[str, list[int]] = {}
        self._begun: set[tuple[str, int]] = set()
        self._style, self._level = _Style(), _Level()
        self._kind = self._list = ""
        self._depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        value = attributes.get("w:val", "")
        if tag == "w:style":
            self._style = self.styles[attributes.get("w:styleId", "")] = _Style()
        elif tag == "w:name":
            self._style.name = value
        elif tag == "w:basedOn":
            self._style.base = value
        elif tag == "w:outlineLvl":
            self._style.level = _int(value, _BODY_TEXT)
        elif tag == "w:numId":
            self._style.list_id = value
        elif tag == "w:ilvl":
            self._style.list_level = _int(value, 0)
        elif tag == "w:vanish":
            self._style.is_hidden = value not in _NO
        else:
            self._start_of_list(tag, attributes, value)

    def _start_of_list(self, tag: str, attributes: dict[str, str], value: str) -> None:
        """Take the start of an element that declares a list."""
        if tag == "w:abstractNum":
            self._kind = attributes.get("w:abstractNumId", "")
            self._kinds[self._kind] = {}
        elif tag == "w:lvl":
            self._level = _Level()
            self._kinds.setdefault(self._kind, {})[_int(attributes.get("w:ilvl", ""), 0)] = self._level
        elif tag == "w:numFmt":
            self._level.form = value
        elif tag == "w:lvlText":
            self._level.text = value
        elif tag == "w:start":
            self._level.start = _int(value, 1)
        elif tag == "w:num":
            self._list, self._kind = attributes.get("w:numId", ""), ""
        elif tag == "w:abstractNumId":
            self.lists[self._list] = value
        elif tag == "w:lvlOverride":
            self._depth = _int(attributes.get("w:ilvl", ""), 0)
        elif tag == "w:startOverride":
            self.starts[self._list, self._depth] = _int(value, 1)

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass

    def style(self, style_id: str) -> _Style:
        """Return a style with what it has from those that it is based on."""
        found, base = _Style(), self.styles.get(style_id)
        for _ in range(_DEEPEST_STYLE):
            if base is None:
                break
            found.name = found.name or base.name
            found.level = base.level if found.level is None else found.level
            if not found.list_id:
                found.list_id, found.list_level = base.list_id, base.list_level
            found.is_hidden = found.is_hidden or base.is_hidden
            base = self.styles.get(base.base)
        return found

    def mark(self, list_id: str, depth: int) -> str:
        """Return the number or sign of the next item of a list at this depth, 0 the highest; nothing of a list without any."""
        kind = self.lists.get(list_id, "")
        levels = self._kinds.get(kind, {})
        level = levels.get(depth)
        if level is None or not 0 <= depth < _DEEPEST_LIST:
            return "-" if kind else ""
        counts = self._counts.setdefault(kind, [0] * _DEEPEST_LIST)
        if (list_id, depth) in self.starts and (list_id, depth) not in self._begun:
            self._begun.add((list_id, depth))
            counts[depth] = self.starts[list_id, depth]
        else:
            counts[depth] = counts[depth] + 1 if counts[depth] else level.start
        counts[depth + 1 :] = [0] * (_DEEPEST_LIST - depth - 1)
        if level.form == "bullet":
            return "-"

        def number(found: re.Match[str]) -> str:
            at = int(found[1]) - 1
            form = levels[at].form if at in levels else "decimal"
            return numeral(counts[at] or (levels[at].start if at in levels else 1), form)

        return "" if level.form == "none" else _NUMBER.sub(number, level.text).strip()


def numeral(number: int, form: str) -> str:
    """Return a number of a list, as Word and others call its form.

    >>> numeral(4, "lowerRoman"), numeral(28, "upperLetter"), numeral(7, "decimal")
    ('iv', 'BB', '7')
    """
    if form.endswith("Letter") and number > 0:
        letters = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 20)
    elif form.endswith("Roman") and 0 < number < 4000:
        signs = zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
                    ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"), strict=True)  # fmt: skip
        letters = ""
        for value, sign in signs:
            letters += sign * (number // value)
            number %= value
    else:
        return str(number)
    return letters.upper() if form.startswith("upper") else letters


def add_lines(outline: Outline, text: str, mark: str = "") -> None:
    """Report a paragraph to an outline, with the mark of an item of a list before it; a newline breaks its lines."""
    for number, line in enumerate(text.split("\n")):
        outline.block(tight=bool(number or mark), mark="" if number else mark)
        outline.words(line)
    outline.block()


def _int(text: str, otherwise: int) -> int:
    """Return the small number that an attribute says."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else otherwise


@dataclass(slots=True)
class _Paragraph:
    """A paragraph that is open."""

    words: list[str] = field(default_factory=list)
    style: str = ""
    level: int | None = None  # of the outline
    list_id: str = ""
    list_level: int | None = None
    goes_on: bool = False  # its end was deleted: the next paragraph is a part of it


class _Runs:
    """The reading of paragraphs: those of the document, or those of its notes."""

    def __init__(self, looks: _Looks, ledger: Ledger) -> None:
        self.looks, self.ledger = looks, ledger
        self.open: list[_Paragraph] = []  # one may hold a text box with others
        self._skipped = 0  # elements that are open in one that is left out, with itself
        self._taken = ""  # which text comes: "t" of a run, "i" an instruction of a field
        self._fields: list[str] = []  # the instructions of the fields that are open
        self._of_contents: list[bool] = []  # for each of these: its text is a table of contents
        self._controls: list[bool] = []  # the same for content controls
        self._contents = 0  # how many of both
        self._is_hidden = self._in_paragraph = self._in_run = False  # of a run; the properties that are open
        self._before: list[str] = []  # the words of a paragraph that goes on

    def paragraph(self, found: _Paragraph, text: str) -> None:
        """Take a whole paragraph."""
        raise NotImplementedError

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        # in what is left out nothing is looked for but its end
        if self._skipped:
            self._skipped += 1
        elif tag == "w:del" and self._in_paragraph:
            self.open[-1].goes_on = True
        elif tag in _SKIPPED:
            self._skipped = 1
            if _SKIPPED[tag]:
                self.ledger.add_named(LEFT_OUT, _SKIPPED[tag])
        # paragraphs, runs, and their properties
        elif tag == "w:p":
            self.open.append(_Paragraph(self._before))
            self._before = []
        elif tag == "w:r":
            self._is_hidden = False
        elif tag == "w:pPr" and self.open:
            self._in_paragraph = True
        elif tag == "w:rPr":
            self._in_run = True
        elif self._in_run or self._in_paragraph:
            self._property(tag, attributes.get("w:val", ""))
        else:
            self._content(tag, attributes)

    def _property(self, tag: str, value: str) -> None:
        """Take a property of the open paragraph, or of a run."""
        if self._in_run:
            if tag == "w:vanish" and not self._in_paragraph:
                self._is_hidden = value not in _NO
            elif tag == "w:rStyle" and not self._in_paragraph:
                self._is_hidden = self.looks.style(value).is_hidden
            return
        now = self.open[-1]
        if tag == "w:pStyle":
            now.style = value
        elif tag == "w:outlineLvl":
            now.level = _int(value, _BODY_TEXT)
        elif tag == "w:numId":
            now.list_id = value
        elif tag == "w:ilvl":
            now.list_level = _int(value, 0)

    def _content(self, tag: str, attributes: dict[str, str]) -> None:
        """Take an element within a paragraph, or around paragraphs."""
        if tag in ("w:t", "m:t"):
            self._taken = "t"
        elif tag in _SIGNS:
            self.words(_SIGNS[tag])
        elif tag == "wp:docPr":
            self.words(f" {found} " if (found := attributes.get("descr")) else "")
        elif tag == "w:instrText":
            self._taken = "i"
        elif tag == "w:fldChar":
            self._field(attributes.get("w:fldCharType", ""))
        elif tag == "w:sdt":
            self._controls.append(False)
        elif tag == "w:docPartGallery" and self._controls and not self._controls[-1]:
            self._controls[-1] = attributes.get("w:val") == "Table of Contents"
            self._begin_contents(self._controls[-1])
        elif tag in ("w:commentReference", "w:altChunk"):
            self.ledger.add_named(LEFT_OUT, "comments" if tag == "w:commentReference" else "inner documents")

    def _field(self, kind: str) -> None:
        """Take a sign of a field: it begins, its text begins, or it ends."""
        if kind == "begin" and len(self._fields) < _DEEPEST_FIELD:
            self._fields.append("")
            self._of_contents.append(False)
        elif kind == "separate" and self._fields:
            self._of_contents[-1] = self._fields[-1].strip().upper().startswith("TOC")
            self._begin_contents(self._of_contents[-1])
        elif kind == "end" and self._fields:
            self._fields.pop()
            self._contents -= self._of_contents.pop()

    def _begin_contents(self, is_one: bool) -> None:
        """Note that a table of contents begins, if it is one."""
        self.ledger.add_named(LEFT_OUT, "tables of contents", is_one and not self._contents)
        self._contents += is_one

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag in ("w:t", "m:t", "w:instrText"):
            self._taken = ""
        elif tag == "w:rPr":
            self._in_run = False
        elif tag == "w:pPr":
            self._in_paragraph = False
        elif tag == "w:sdt" and self._controls:
            self._contents -= self._controls.pop()
        elif tag == "w:p" and self.open:
            found = self.open.pop()
            if found.goes_on:
                self._before = found.words
            else:
                self.paragraph(found, "".join(found.words))

    def text(self, text: str) -> None:
        if self._skipped or not self._taken:
            return
        if self._taken == "i":
            if self._fields and len(self._fields[-1]) < _INSTRUCTION:
                self._fields[-1] += text
        elif self._is_hidden:
            self.ledger.add_named(LEFT_OUT, "hidden text")
        else:
            self.words(text.replace("\n", " "))

    def words(self, text: str) -> None:
        """Add words to the open paragraph."""
        if self.open and text and not self._contents:
            self.open[-1].words.append(text)


class _Notes(_Runs):
    """The reading of foot- or endnotes, into `found`: kind and id → text."""

    def __init__(self, looks: _Looks, ledger: Ledger, kind: str, found: dict[tuple[str, str], str]) -> None:
        super().__init__(looks, ledger)
        self._kind, self._found = kind, found
        self._id: str | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("w:footnote", "w:endnote"):
            self._id = None if attributes.get("w:type") in _NO_NOTES else attributes.get("w:id")
        super().start(tag, attributes)

    def paragraph(self, found: _Paragraph, text: str) -> None:
        if self._id is not None:
            before = self._found.get((self._kind, self._id), "")
            self._found[self._kind, self._id] = f"{before} {text}"


class _Body(_Runs):
    """The reading of the document itself, reported to an outline."""

    def __init__(self, looks: _Looks, notes: dict[tuple[str, str], str], outline: Outline) -> None:
        super().__init__(looks, outline.ledger)
        self._notes, self.outline = notes, outline
        self._numbers = {"footnotes": 0, "endnotes": 0}
        self._waiting: list[tuple[str, str]] = []  # notes that follow the paragraph or table: number and text
        self._tables = 0  # in each other
        self._is_header = False  # the open row names the columns
        self._line = 0
        self._is_begun = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        super().start(tag, attributes)
        if self._skipped:
            return
        if tag in _NOTES and not self._is_hidden:
            self._note(_NOTES[tag], attributes)
        elif tag == "w:tbl":
            self._tables += 1
            self._say_table()
        elif tag == "w:tr" and self._tables == 1:
            self.outline.row()
            self._is_header = False
        elif tag in ("w:gridSpan", "w:vMerge") and self._tables == 1:
            self.outline.spans()
        elif tag == "w:tblHeader" and self._tables == 1:
            self._is_header = attributes.get("w:val", "true") not in ("0", "false", "off")

    def _say_table(self) -> None:
        """Tell that the open table begins or ends; of tables in tables, the outer one."""
        if self._tables == 1:
            self.outline.table()

    def _note(self, kind: str, attributes: dict[str, str]) -> None:
        """Take a reference to a note."""
        self._numbers[kind] += 1
        number = numeral(self._numbers[kind], "decimal" if kind == "footnotes" else "lowerRoman")
        if (text := self._notes.get((kind, attributes.get("w:id", "")))) is not None:
            self.words(f"[{number}]")
            self._waiting.append((number, text))

    def end(self, tag: str) -> None:
        is_skipped = self._skipped
        super().end(tag)
        if is_skipped or not self._tables:
            return
        if tag == "w:tc" and self._tables == 1:
            self.outline.cell()
        elif tag == "w:tr" and self._tables == 1:
            (self.outline.header if self._is_header else self.outline.row)()
        elif tag == "w:tbl":
            self._say_table()
            self._tables -= 1
            self._say_notes()

    def paragraph(self, found: _Paragraph, text: str) -> None:
        out, style = self.outline, self.looks.style(found.style)
        self._line += 1
        if not text.strip() or style.name.lower() in CONTENTS:
            return
        out.line = self._line
        if self._tables:
            out.words(" " + text.replace("\n", " ") + " ")
            return
        # a heading, the title of the document, an item of a list, or another paragraph
        level = self._level(found, style)
        mark, depth = self._mark(found, style)
        if level is not None:
            out.heading(level + 1, f"{mark} {text}" if mark not in ("", "-") else text, None, self._line)
        elif style.name.lower() == "title" and not self._is_begun:
            out.title = " ".join(text.split())
        else:
            add_lines(out, text, f"{'  ' * depth}{mark} " if mark else "")
        self._is_begun = True
        self._say_notes()

    def _level(self, found: _Paragraph, style: _Style) -> int | None:
        """Return the level of a heading, 0 the highest; None of another paragraph."""
        named = _HEADING.match(style.name)
        level = found.level if found.level is not None else style.level
        level = int(named[1]) - 1 if level is None and named else level
        return None if level is None or level >= _BODY_TEXT else level

    def _mark(self, found: _Paragraph, style: _Style) -> tuple[str, int]:
        """Return the sign or number of an item of a list, and its depth; of another paragraph nothing."""
        list_id = found.list_id or style.list_id
        depth = found.list_level if found.list_level is not None else style.list_level or 0
        return (self.looks.mark(list_id, depth), depth) if list_id not in ("", "0") else ("", 0)

    def _say_notes(self) -> None:
        """Tell of the notes that wait, unless a table is open."""
        if self._tables:
            return
        for number, text in self._waiting:
            add_lines(self.outline, f"[{number}] {text}")
        self._waiting.clear()
