"""ODT as an outline, with all tracked changes accepted; and the content of OpenDocument files, of which slides are read, too.

A paragraph is one line, and its number, counted from the beginning of the document, is its line. A row of a table is a line.
Lists have the numbers that their style gives them. A foot- or endnote follows the paragraph or the table that refers to it,
with the same sign in brackets. Text boxes stand before the paragraph that holds them.

Left out, and counted: deleted text, hidden text, hidden sections, comments, tables of contents and indexes. Headers and
footers of pages are in another part of the file, which is not read for its text.

Source: OpenDocument 1.3 part 3 (OASIS), sections 4 (text), 5 (paragraph elements), 6.3 (notes).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wordpipe.corpus.binary.packages import Package, path_in, title_in
from wordpipe.corpus.binary.word import LEFT_OUT, add_lines, numeral
from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Outline, outline_records
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError

_CONTENT, _INDEX = "content.xml", "tables of contents"
_SKIPPED = {  # with all that they hold → how they are counted
    "text:deletion": "deleted text", "office:annotation": "comments", "text:table-of-content": _INDEX,
    "text:alphabetical-index": _INDEX, "text:illustration-index": _INDEX, "text:table-index": _INDEX,
    "text:user-index": _INDEX, "text:object-index": _INDEX, "text:hidden-text": "hidden text", "text:ruby-text": "",
    "office:forms": "", "office:scripts": "", "text:script": "", "svg:title": "", "draw:page-thumbnail": "", "text:number": "",
    "text:tracked-changes": "",
}  # fmt: skip
_SIGNS = {"text:tab": " ", "text:s": " ", "text:line-break": "\n"}
_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman", "1": "decimal"}
_DEEPEST_LIST = 10
_MOST_STYLES = 1 << 16
_DEEPEST_STYLE = 20  # styles that are based on each other


def read(opened: Opened) -> Iterator[Record]:
    """Yield the sections of an OpenDocument text.

    Raises:
        InputError: it is damaged, encrypted or a bomb, or no OpenDocument file.
    """
    outline = Outline(opened.ledger)
    return content_records(opened, outline, lambda looks: _Text(looks, outline))


def content_records(opened: Opened, outline: Outline, reading: Callable[["Looks"], "Content"]) -> Iterator[Record]:
    """Yield the records of an OpenDocument file, whose content a `reading` reports to an outline.

    Raises:
        InputError: it is damaged, encrypted or a bomb, or no OpenDocument file.
    """
    package = Package(opened)
    if b"encryption-data" in package.read("META-INF/manifest.xml"):
        hint = "save the file without a password"
        raise InputError("the file has a password", where=opened.source.name, hint=hint)
    if _CONTENT not in package.names:
        raise InputError("the file contains no OpenDocument text", where=opened.source.name)
    looks = Looks()
    package.parse("styles.xml", looks)
    outline.title = title_in(package, "meta.xml", opened.source.name)
    content = reading(looks)
    content.package = package
    yield from outline_records(outline, package.steps(_CONTENT, content), opened)


@dataclass(slots=True)
class _Level:
    """A level of a list: the form of its numbers ("" where there are signs), and the text around a number."""

    form: str = ""
    before: str = ""
    after: str = ""
    shown: int = 1  # levels whose numbers are shown
    start: int = 1
    is_silent: bool = False


class Looks:
    """The styles of a document, from the part that declares them, and from the head of its content."""

    def __init__(self) -> None:
        self.base: dict[tuple[str, str], str] = {}  # family and name of a style → what it is based on
        self.hidden: set[tuple[str, str]] = set()
        self.lists: dict[str, dict[int, _Level]] = {}
        self._style, self._list = ("", ""), ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "style:style" and len(self.base) < _MOST_STYLES:
            self._style = (attributes.get("style:family", ""), attributes.get("style:name", ""))
            self.base[self._style] = attributes.get("style:parent-style-name", "")
        elif (tag == "style:text-properties" and attributes.get("text:display") == "none") or (
            tag == "style:drawing-page-properties" and attributes.get("presentation:visibility") == "hidden"
        ):
            self.hidden.add(self._style)
        elif tag in ("text:list-style", "text:outline-style") and len(self.lists) < _MOST_STYLES:
            self._list = attributes.get("style:name", "") if tag == "text:list-style" else ""
            self.lists[self._list] = {}
        elif tag.startswith(("text:list-level-style-", "text:outline-level-style")):
            form = attributes.get("style:num-format", "")
            is_number = not tag.endswith(("-bullet", "-image"))
            self.lists.setdefault(self._list, {})[_int(attributes.get("text:level"), 1)] = _Level(
                _FORMS.get(form[:1], ""), attributes.get("style:num-prefix", ""), attributes.get("style:num-suffix", ""),
                _int(attributes.get("text:display-levels"), 1), _int(attributes.get("text:start-value"), 1),
                is_number and not form,
            )  # fmt: skip

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass

    def is_hidden(self, family: str, name: str) -> bool:
        """True if text, or a slide, of this style is hidden."""
        for _ in range(_DEEPEST_STYLE):
            if not name or (family, name) in self.hidden:
                break
            name = self.base.get((family, name), "")
        return bool(name)

    def is_title(self, name: str) -> bool:
        """True if a paragraph of this style is the title of the document."""
        return "Title" in (name, self.base.get(("paragraph", name)))

    def mark(self, name: str, depth: int, counts: list[int]) -> str:
        """Return the number or sign of an item of a list of this style, by the numbers of all levels."""
        levels = self.lists.get(name, {})
        level = levels.get(depth) or levels.get(1) or _Level()  # some programs declare the first level alone
        if level.is_silent:
            return ""
        if not level.form:
            return "-"
        shown = range(max(1, depth - level.shown + 1), depth + 1)
        numbers = [numeral(counts[at] or 1, levels.get(at, level).form or "decimal") for at in shown]
        return f"{level.before}{'.'.join(numbers)}{level.after}"


def _int(text: str | None, otherwise: int) -> int:
    """Return the small number that an attribute says."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else otherwise


@dataclass(slots=True)
class Paragraph:
    """A paragraph of an OpenDocument file."""

    level: int = 0  # of the outline, 1 is the highest; 0 of no heading
    style: str = ""
    words: list[str] = field(default_factory=list)
    is_hidden: bool = False


@dataclass(slots=True)
class _List:
    """A list that is open."""

    style: str
    is_new: bool = False  # its item has no text yet
    has_number: bool = True


@dataclass(slots=True)
class _Note:
    """A note that is open."""

    sign: str = ""
    words: list[str] = field(default_factory=list)
    in_body: bool = False


class _Formula:
    """The text of a formula, which is a part of its own; of another object nothing."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._is_open = self._is_note = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._is_open = self._is_open or tag == "math:math"
        self._is_note = tag.startswith("math:annotation")

    def end(self, tag: str) -> None:
        self._is_note = self._is_note and not tag.startswith("math:annotation")

    def text(self, text: str) -> None:
        if self._is_open and not self._is_note:
            self.words.append(text)


class Content:
    """The reading of the content of an OpenDocument file: its paragraphs, with their marks in lists, tables and notes.

    Args:
        looks: the styles, as far as another part declares them.
        outline: to which it is reported.
    """

    def __init__(self, looks: Looks, outline: Outline) -> None:
        self.looks, self.outline, self.ledger = looks, outline, outline.ledger
        self.package: Package | None = None  # in which formulas have parts of their own
        self.tables = 0  # that are open, in each other
        self.is_header = False  # the open rows name the columns
        self.line = 0  # of the last paragraph
        self._is_begun = self._is_sign = False
        self._skipped = 0  # elements that are open in one that is left out, with itself
        self._open: list[Paragraph] = []
        self._lists: list[_List] = []
        self._counts: dict[str, list[int]] = {}
        self._notes: list[_Note] = []  # that are open
        self._waiting: list[tuple[str, str]] = []  # notes that follow the paragraph or table: sign and text

    def paragraph(self, found: Paragraph, text: str, mark: str) -> None:
        """Take a whole paragraph, and its mark where it begins an item of a list."""
        raise NotImplementedError

    def table(self) -> None:
        """A table begins or ends here; of tables in tables, the outer one is told."""
        if self.tables == 1:
            self.outline.table()

    def row(self) -> None:
        """A row of a table begins or ends here."""
        (self.outline.header if self.is_header else self.outline.row)()

    def cell(self) -> None:
        """A cell of a table ends here."""
        self.outline.cell()

    def object(self, part: str) -> None:
        """Take an object of a part of its own: a formula is text."""
        assert self.package is not None
        self.package.parse(part, formula := _Formula())
        self._words(" ".join("".join(formula.words).split()))

    def left_out(self, tag: str, attributes: dict[str, str]) -> str | None:
        """Return how an element is counted that is left out with all that it holds, "" where it is not; None: it is read."""
        if tag in _SKIPPED:
            return _SKIPPED[tag]
        is_hidden = tag == "text:section" and "none" in (
            attributes.get("text:display"),
            attributes.get("text:is-hidden"),
        )
        if is_hidden or (tag == "text:span" and self.looks.is_hidden("text", attributes.get("text:style-name", ""))):
            return "hidden text"
        return None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        # the head of the part declares styles
        if not self._is_begun:
            self._is_begun = tag == "office:body"
            self.looks.start(tag, attributes)
        # in what is left out nothing is looked for but its end
        elif self._skipped:
            self._skipped += 1
            self.ledger.add_named(LEFT_OUT, "deleted text", tag == "text:deletion")
        elif (what := self.left_out(tag, attributes)) is not None:
            self._skipped = 1
            self.ledger.add_named(LEFT_OUT, what, bool(what))
        # text
        elif tag in _SIGNS:
            self._words(_SIGNS[tag])
        elif tag in ("text:p", "text:h"):
            level = _int(attributes.get("text:outline-level"), 1) if tag == "text:h" else 0
            self._open.append(Paragraph(level, attributes.get("text:style-name", "")))
        elif tag == "text:hidden-paragraph" and self._open:
            self._open[-1].is_hidden = attributes.get("text:is-hidden") == "true"
        else:
            self._start_around(tag, attributes)

    def _start_around(self, tag: str, attributes: dict[str, str]) -> None:
        """Take an element that holds paragraphs, or stands in one: a list, a table, a note."""
        if tag == "text:list":
            style = attributes.get("text:style-name") or (self._lists[-1].style if self._lists else "")
            counts = self._counts.setdefault(style, [0] * (_DEEPEST_LIST + 1))
            if self._lists or not (
                attributes.get("text:continue-numbering") == "true" or "text:continue-list" in attributes
            ):
                counts[len(self._lists) + 1 :] = [0] * max(0, _DEEPEST_LIST - len(self._lists))
            self._lists.append(_List(style))
        elif tag in ("text:list-item", "text:list-header") and self._lists:
            self._item(attributes, has_number=tag == "text:list-item")
        elif tag == "table:table":
            self.tables += 1
            self.table()
        elif tag == "table:table-header-rows" and self.tables == 1:
            self.is_header = True
        elif tag == "table:covered-table-cell" and self.tables == 1:
            self.outline.spans()
        elif tag == "table:table-row" and self.tables == 1:
            self.row()
        elif tag == "text:note":
            self._notes.append(_Note())
        elif tag == "text:note-body" and self._notes:
            self._words(f"[{self._notes[-1].sign.strip()}]")
            self._notes[-1].in_body = True
        elif tag in ("text:note-citation", "svg:desc"):
            self._is_sign = True
        elif tag == "draw:object" and self.package is not None:
            self.object(path_in("", f"{attributes.get('xlink:href', '')}/content.xml"))

    def _item(self, attributes: dict[str, str], *, has_number: bool) -> None:
        """Begin an item of the open list."""
        now, depth = self._lists[-1], len(self._lists)
        now.is_new, now.has_number = True, has_number
        if has_number and depth <= _DEEPEST_LIST:
            counts, level = self._counts[now.style], self.looks.lists.get(now.style, {}).get(depth, _Level())
            counts[depth] = _int(
                attributes.get("text:start-value"), counts[depth] + 1 if counts[depth] else level.start
            )
            counts[depth + 1 :] = [0] * (_DEEPEST_LIST - depth)

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag in ("text:p", "text:h") and self._open:
            self._end_paragraph(self._open.pop())
        elif tag == "text:list" and self._lists:
            self._lists.pop()
        elif tag == "table:table-cell" and self.tables == 1:
            self.cell()
        elif tag == "table:table-row" and self.tables == 1:
            self.row()
        elif tag == "table:table-header-rows" and self.tables == 1:
            self.is_header = False
        elif tag == "table:table" and self.tables:
            self.table()
            self.tables -= 1
            self.say_notes()
        elif tag in ("text:note-citation", "svg:desc"):
            self._is_sign = False
        elif tag == "text:note" and self._notes:
            note = self._notes.pop()
            self._waiting.append((note.sign.strip(), " ".join(" ".join(note.words).split())))

    def text(self, text: str) -> None:
        if self._skipped or not self._is_begun:
            return
        text = text.replace("\n", " ")
        if self._is_sign and self._notes and not self._notes[-1].in_body:
            self._notes[-1].sign += text
        else:
            self._words(text)

    def _words(self, text: str) -> None:
        """Add words to the open paragraph."""
        if self._open:
            self._open[-1].words.append(text)
        elif self._is_sign and text.strip():  # a picture that stands by itself
            self._end_paragraph(Paragraph(words=[text]))

    def _end_paragraph(self, found: Paragraph) -> None:
        """Take a whole paragraph: into the open note, or as text, with the mark of its item."""
        text = "".join(found.words)
        if found.is_hidden or self.looks.is_hidden("paragraph", found.style):
            self.ledger.add_named(LEFT_OUT, "hidden text", bool(text.strip()))
        elif self._notes and self._notes[-1].in_body:
            self._notes[-1].words.append(text)
        else:
            self.line += 1
            if text.strip():
                self.paragraph(found, text, self._mark())

    def _mark(self) -> str:
        """Return the mark of the paragraph that begins an item of the open list; nothing of another one."""
        depth = len(self._lists)
        if not self._lists or depth > _DEEPEST_LIST:
            return ""
        now = self._lists[-1]
        is_first, now.is_new = now.is_new and now.has_number, False
        mark = self.looks.mark(now.style, depth, self._counts[now.style]) if is_first else ""
        return f"{'  ' * (depth - 1)}{mark} " if mark else ""

    def say_notes(self) -> None:
        """Tell of the notes that wait, unless a table is open."""
        if self.tables:
            return
        for sign, text in self._waiting:
            add_lines(self.outline, f"[{sign}] {text}")
        self._waiting.clear()


class _Text(Content):
    """The reading of an OpenDocument text."""

    _has_text = False

    def paragraph(self, found: Paragraph, text: str, mark: str) -> None:
        out = self.outline
        out.line = self.line
        if self.tables:
            out.words(" " + text.replace("\n", " ") + " ")
            return
        if found.level:
            number = mark.strip().removeprefix("-")
            out.heading(found.level, f"{number} {text}" if number else text, None, self.line)
        elif self.looks.is_title(found.style) and not self._has_text:
            out.title = " ".join(text.split())
        else:
            add_lines(out, text, mark)
        self._has_text = True
        self.say_notes()
