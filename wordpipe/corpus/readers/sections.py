"""Sections of structured documents: the outline to which parsers of markup report, and the records made of an outline.

A parser of a format tells an `Outline`, in order, of headings, words, code, and where blocks end. The outline makes plain text
of it (a paragraph is one line, a list item begins with "- ", a row of a table is one line with bars between its cells) and
remembers which line of the source each stretch came from. A record is a section, or the file.

A source is parsed in parts of at most 1 MiB of Markdown, 512 KiB of reStructuredText and 4 MiB of HTML (less where the
longest document is shorter), cut before a heading or at a blank line where there is one: so much is held, with what its parser
makes of it. The levels of headings in reStructuredText begin anew in each part. A part that no parser takes (thousands of
things in each other, a line of 100,000 characters) is read as plain text; both are counted.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from wordpipe.corpus.documents import LONGEST_TITLE, Ledger, Record
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.reading import Opened

_JOIN = " › "  # between the headings of a path
_LONGEST_ANCHOR = 500  # characters; a longer one names nothing that anyone links to
_BETWEEN = re.compile(r"\s*[-–—|·:•»›]+\s*")  # the name of a page and of its site
_END = re.compile(rf"{_BETWEEN.pattern}\Z")
_CELL = " | "
_NEXT = "; "  # between the cells of a row with named columns
_LONGEST_COLUMN = 60  # characters of its name
_NO_TITLE = re.compile(  # what programs write as the title of a document that nobody gave one
    r"(?i)\W*(?:(?:untitled(?: (?:document|page|presentation|spreadsheet))?|(?:no|ohne|sans|sin|senza|без) (?:title|titel"
    r"|titre|t[ií]tulo|titolo|названия)|title|anonymous|unknown|unspecified|new (?:page|document)|document|dokument"
    r"|presentation|pr[äé]sentation|powerpoint[ -]pr[eäé]sentation|slide|folie|無題(?:ドキュメント)?|无标题)[\W\d]*)?"
    r"|microsoft (?:word|excel|powerpoint|publisher)(?: - .*)?|(?:file|https?):.*"
    r"|.*\.(?:docx?|pptx?|xlsx?|odt|odp|rtf|tex|dvi|indd|qxd|wpd|pdf|html?)"
)


def title_of_properties(title: str) -> str | None:
    """Return the title that the properties of a document say; None where it is only what a program writes there.

    >>> title_of_properties("Tide tables"), title_of_properties("(anonymous)"), title_of_properties("Microsoft Word - a.doc")
    ('Tide tables', None, None)
    """
    title = " ".join(title.split())
    return None if _NO_TITLE.fullmatch(title) else title


@dataclass(slots=True)
class Section:
    """A section of a source: the text below one heading and above the next."""

    path: tuple[str, ...]  # the headings above the text, the highest first; () before the first
    anchor: str | None  # what follows "#" in a link to it
    line: int  # 1-based line of the source where its heading stands, or its text where it has none
    text: str = ""  # plain text, without the headings
    places: list[tuple[int, int]] = field(default_factory=list)  # offset in the text → line of the source, ascending
    columns: dict[str, Any] = field(default_factory=dict)  # further columns of its record: a slide, a chapter

    def record(self, source: str, title: str | None) -> Record:
        """Return the section as a record, in a document of that title."""
        line = self.places[0][1] if self.places else self.line
        return Record(
            self.text, source, line, title=_joined(title, self.path), newline="space", lines_follow=False,
            own={} if self.anchor is None else {"anchor": self.anchor}, places=self.places,
        )  # fmt: skip


class Outline:
    """The outline of one source, as its parser reports headings, words, code and ends of blocks.

    Args:
        ledger: counts headings without text, and what a parser leaves out.

    Attributes:
        title: the title of the whole document, where the source says one beside its headings.
        fields: of the front matter of the source.
        line: the line of the source that the next words come from; newlines in words count it on.
        sections: those that are complete, to be taken away.
        columns: further columns of the sections that begin from now on.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.title: str | None = None
        self.fields: dict[str, Any] = {}
        self.line = 1
        self.sections: list[Section] = []
        self.columns: dict[str, Any] = {}
        self.ledger = ledger
        self._levels: list[tuple[int, str]] = []
        self._anchors: dict[str, int] = {}
        self._open, self._is_new = Section((), None, 1), False
        self._names: list[str] = []  # of the columns of the open table
        self._has_spans = False  # a cell of the table covers several
        self._row: list[str] = []  # the cells of the open row so far
        self._is_first = False  # the next words are the first of a cell
        self._clear()

    def _clear(self) -> None:
        """Begin a section without text."""
        self._pieces: list[str] = []
        self._length = 0
        self._gap, self._mark, self._cell = "", "", False
        self._space = False
        self._cell_at = 0  # of the pieces, the first of the open cell

    @property
    def length(self) -> int:
        """Characters of the open section so far."""
        return self._length

    def heading(self, level: int, title: str, anchor: str | None, line: int) -> None:
        """Begin the section of a heading of this level (1 is the highest), and end the section before."""
        self.finish()
        whole = " ".join(title.split())
        cut = len(whole) if len(whole) <= LONGEST_TITLE else max(whole.rfind(" ", 0, LONGEST_TITLE), 0) or LONGEST_TITLE
        if not (title := whole[:cut]):
            return
        while self._levels and self._levels[-1][0] >= level:
            self._levels.pop()
        self._levels.append((level, title))
        if anchor is not None and not 0 < len(anchor) <= _LONGEST_ANCHOR:
            anchor = None
        path = tuple(name for _, name in self._levels)
        self._open, self._is_new = Section(path, anchor, line, columns=self.columns), True
        self.line = line
        self.words(whole[cut:])  # of a title as long as a page the rest is text

    def words(self, text: str) -> None:
        """Add words of a paragraph to the open section, white space as it comes: a row of it is one space."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self.line += 1
                self._space = True
            if words := line.split():
                self._space |= line[0].isspace()
                self._begin()
                self._add(" ".join(words))
                self._space = line[-1].isspace()
            elif line:
                self._space = True

    def verbatim(self, text: str) -> None:
        r"""Add code to the open section, without the blank lines around the code and otherwise unchanged.

        An "\r" ends a line that goes on in the source.
        """
        self.block()
        body = text.rstrip()
        start = body.rfind("\n", 0, len(body) - len(body.lstrip())) + 1  # its first line may be indented
        self.line += text.count("\n", 0, start)
        for number, line in enumerate(body[start:].lstrip("\r").split("\n") if body else ()):
            if number:
                self.line += 1
                self._add("\n")
                self._place()
            else:
                self._begin()
            self._add("\n".join(part.rstrip() for part in line.split("\r")))
        self.line += text.count("\n", len(body))
        self.block()

    def block(self, *, tight: bool = False, mark: str = "") -> None:
        """End the paragraph of a section. The next follows without a blank line where it is `tight`."""
        if mark:
            self._gap, self._mark = "\n" if tight else "\n\n", mark
        elif not self._mark:  # the first paragraph of a list item stands beside its mark
            self._gap = "\n" if tight and self._gap != "\n\n" else "\n\n"
        self._space = False

    def row(self) -> None:
        """A row of a table begins or ends here."""
        self.block()
        self._cell, self._is_first = False, True
        self._row, self._cell_at = [], len(self._pieces)

    def header(self) -> None:
        """A row ends here that names the columns: each cell of the rows below it stands behind the name of its column."""
        names = self._row
        are_names = len(names) > 1 and all(len(name) <= _LONGEST_COLUMN and "\n" not in name for name in names)
        self._names = names if are_names and any(names) and not self._has_spans else []
        self.row()

    def spans(self) -> None:
        """A cell of the open table covers several columns or rows, so the cells below have no names."""
        self._names, self._has_spans = [], True

    def table(self) -> None:
        """A table begins or ends here."""
        self._names, self._has_spans = [], False
        self.row()
        self._is_first = False

    def end_list(self) -> None:
        """A mark that nothing followed is forgotten."""
        self._mark = ""
        self.block()

    def cell(self) -> None:
        """A cell of a table's row ends here."""
        self._row.append("".join(self._pieces[self._cell_at :]).strip().removeprefix(_CELL.strip()).strip())
        self._cell = self._cell or bool(self._row[-1])  # before the first words of a row there is no bar
        self._space, self._is_first, self._cell_at = False, True, len(self._pieces)

    def anchor(self, name: str) -> str:
        """Return the anchor of a section's heading, with -1, -2 … behind it where it was given before."""
        number = self._anchors.get(name)
        self._anchors[name] = 0 if number is None else number
        if number is None:
            return name
        while f"{name}-{(number := number + 1)}" in self._anchors:
            pass
        self._anchors[name] = number
        self._anchors[f"{name}-{number}"] = 0
        return f"{name}-{number}"

    def finish(self) -> None:
        """End the open section; words that follow without a heading would be a further part of the same section."""
        self._open.text = "".join(self._pieces)
        if self._open.text:
            self.sections.append(self._open)
        else:
            self.ledger.add("headings_without_text", self._is_new)
        self._open = Section(self._open.path, self._open.anchor, self.line, columns=self.columns)
        self._is_new = False
        self._clear()

    def take(self) -> Iterator[Section]:
        """Yield the complete sections, which are forgotten."""
        yield from self.sections
        self.sections.clear()

    def _begin(self) -> None:
        """Append the separator before the next words of a section, and note their line."""
        column = len(self._row)
        name = self._names[column] if self._is_first and column < len(self._names) else ""
        if self._pieces:
            self._add((_NEXT if name else _CELL) if self._cell else self._gap or " " * self._space)
        self._place()
        self._add(self._mark + (f"{name.removesuffix(':')}: " if name else ""))
        self._is_first = False
        self._gap, self._mark, self._cell, self._space = "", "", False, False

    def _place(self) -> None:
        """Note the source line of the text that comes next in the open section."""
        places = self._open.places
        if not places or places[-1][1] != self.line:
            places.append((self._length, self.line))

    def _add(self, text: str) -> None:
        """Add text to the open section."""
        self._pieces.append(text)
        self._length += len(text)


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def _joined(title: str | None, path: tuple[str, ...]) -> str | None:
    """Return the headings of a section as one title, after the document's own where it says something more.

    >>> _joined("Queues - Handbook", ("Queues", "Limits"))
    'Handbook › Queues › Limits'
    """
    rest = " ".join((title or "").split())[:LONGEST_TITLE]
    if path and rest.startswith(path[0]) and (mark := _BETWEEN.match(rest, len(path[0]))):
        rest = rest[mark.end() :]
    elif path and rest.endswith(path[0]) and (before := _END.sub("", rest[: -len(path[0])])) != rest[: -len(path[0])]:
        rest = before
    is_news = rest.casefold() not in " ".join(path).casefold()
    return _JOIN.join([rest, *path] if is_news else path) or None


@dataclass(frozen=True, slots=True)
class Markup:
    """A markup language: its parser, and how long sources of it are parted."""

    name: str
    parse: Callable[[str, int, "Outline"], None]  # a text, its first line, and what is to be told of it
    begins: re.Pattern[str]  # a line that may begin a part
    part_bytes: int


def read_sections(opened: Opened, markup: Markup, blocks: Iterator[bytes] | None = None) -> Iterator[Record]:
    """Return the records of a source in a markup; `blocks` are its bytes where they are not as they were read."""
    documents = opened.settings.documents
    return section_records(
        opened.lines(blocks),
        markup,
        source=opened.source.name,
        documents="section" if documents == "auto" else documents,
        max_bytes=opened.settings.max_document_bytes,
        ledger=opened.ledger,
        carry=lambda values: _front_record(values, opened.fields, is_whole=documents == "file"),
    )


def outline_records(outline: Outline, steps: Iterable[object], opened: Opened) -> Iterator[Record]:
    """Yield the records of a source that a parser reports to an outline: what is complete after each step of the parser.

    A document is a section, unless settings say that it is the file, a paragraph or a line.
    """
    documents, source = opened.settings.documents, opened.source.name
    documents = "section" if documents == "auto" else documents
    held: list[Section] = []  # all of them, where the file is one document
    for is_end in chain((False for _ in steps), [True]):
        if is_end or outline.length > opened.settings.max_document_bytes:
            outline.finish()
        sections = list(outline.take())
        outline.ledger.add("sections_read", len(sections))
        if documents == "file":
            held += sections
            continue
        for section in sections:
            record = section.record(source, outline.title)
            record.metadata = opened.fields.metadata_of(section.columns, record.line)
            yield from [record] if documents == "section" else pieces_of(record, documents)
    for section in _joined_sections(held):
        yield section.record(source, outline.title)


def joined_text(outline: Outline) -> str:
    """Return the text of all complete sections of an outline, with their headings, which are forgotten."""
    return "\n\n".join(section.text for section in _joined_sections([Section((), None, 1), *outline.take()])).strip()


def section_records(
    lines: Iterable[tuple[int, str]],
    markup: Markup,
    *,
    source: str,
    documents: Literal["section", "file", "block", "line"],
    max_bytes: int,
    ledger: Ledger,
    carry: Callable[[dict[str, Any]], Record | None] = lambda fields: None,
) -> Iterator[Record]:
    """Yield the records of the sections of a document, from numbered lines with their newline.

    Each line has its newline, as from `Decoder.lines`.

    Args:
        lines: of the source.
        markup: that they are in.
        source: value of the `source` column.
        documents: what one record is: a section, the whole file without its markup (of a long one, each part that was parsed),
            or a paragraph or line of a section's text.
        max_bytes: a longer source is parsed in parts.
        ledger: counts headings without text, what is left out, and parts.
        carry: makes a record of the fields of front matter, whose title and columns all records of the source have.
    """
    head: Record | None = None
    outline = Outline(ledger)
    for number, (first, text) in enumerate(parts(lines, markup.begins, min(max_bytes, markup.part_bytes))):
        ledger.add("files_parsed_in_parts", number == 1)
        try:
            markup.parse(text, first, outline)
        except (ValueError, RecursionError):  # of our parsers and docutils
            outline = Outline(ledger)  # what it was told before it broke is in the text below, too
            ledger.add("parts_read_as_plain_text")
            ledger.warn(
                "markup",
                f"a part in {markup.name} is too deeply nested or too long and was read as plain text: {source}, line {first}",
            )
            yield Record(text, source, first, newline="space")
            continue
        # front matter, at the beginning of the first part, says something of all records
        outline.finish()
        if number == 0 and outline.fields and (head := carry(outline.fields)) is not None:
            outline.title = head.title
        # sections become records
        sections = list(outline.take())
        ledger.add("sections_read", len(sections))
        if documents == "file":
            sections = _joined_sections(sections)
        for section in sections:
            record = section.record(source, outline.title)
            if head is not None:
                record.metadata, record.own = dict(head.metadata), {**record.own, **head.own}
                record.width, record.beside = head.width, head.beside
            yield from [record] if documents in ("section", "file") else pieces_of(record, documents)


def _front_record(values: dict[str, Any], fields: Fields, *, is_whole: bool) -> Record | None:
    """Return what the fields of front matter say of all records of a file: an id only if the file is one record."""
    settings, width = fields.settings, len(str(values))
    taken = {settings.text_field} if is_whole else {settings.text_field, settings.id_field} - {settings.title_field}
    kept = {name: value for name, value in values.items() if name in taken}
    record = fields.record({**{n: v for n, v in values.items() if n not in kept}, settings.text_field: ""}, 1, width)
    if record is not None and not is_whole:
        record.own.pop("record_id", None)
    if record is not None and not settings.metadata and not settings.no_metadata:
        record.metadata |= kept
    return record


def parts(lines: Iterable[tuple[int, str]], begins: re.Pattern[str], limit: int) -> Iterator[tuple[int, str]]:
    """Yield number of the first line, and text, of each part of a document with sections.

    Lines that are missing, as they were no UTF-8, are blank.
    """
    held: list[str] = []
    size, first, after, cut = 0, 1, 1, 0
    for number, line in lines:
        if number > after:
            held.append("\n" * (number - after))
        if size > limit // 2 and (begins.match(line) or not (cut or line.strip())):
            cut = len(held)
        held.append(line)
        size += len(line)
        after = number + line.endswith("\n")
        if size * 4 > limit and size > limit:
            cut = cut or len(held)
            text = "".join(held[:cut])
            yield first, text
            first += text.count("\n")
            held = held[cut:]
            size, cut = sum(map(len, held)), 0
    if held:
        yield first, "".join(held)


def _joined_sections(sections: list[Section]) -> list[Section]:
    """Return all sections as one: the headings stand in the text, but for the document's title."""
    if not sections:
        return []
    top = sections[0].path[:1] if all(one.path[:1] == sections[0].path[:1] for one in sections) else ()
    whole = Section(top, None, sections[0].line)
    pieces: list[str] = []
    length = 0
    before: tuple[str, ...] = top
    for section in sections:
        new = [name for at, name in enumerate(section.path) if section.path[: at + 1] != before[: at + 1]]
        before = section.path
        for piece, places in [(name, [(0, section.line)]) for name in new] + [(section.text, section.places)]:
            if pieces:
                pieces.append("\n\n")
                length += 2
            whole.places += [(length + at, line) for at, line in places]
            pieces.append(piece)
            length += len(piece)
    whole.text = "".join(pieces)
    return [whole]


def pieces_of(record: Record, documents: Literal["auto", "section", "file", "block", "line"]) -> Iterator[Record]:
    """Yield the paragraphs of a section's text, or its lines, as records of their own."""
    parts = re.split(r"(\n\n+)" if documents == "block" else r"(\n+)", record.text)
    offset = 0
    lines = record.lines_from(0, record.line, parts)
    for part, line in zip(parts, lines, strict=False):
        if part.strip():
            places = [(max(at - offset, 0), where) for at, where in record.places if at < offset + len(part)]
            yield Record(
                part, record.source, line, title=record.title, newline="space", lines_follow=False,
                own=record.own, places=places, metadata=dict(record.metadata), width=record.width, beside=record.beside,
            )  # fmt: skip
        offset += len(part)
