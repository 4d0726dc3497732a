r"""Markdown as an outline: CommonMark with tables, strikethrough and footnotes, read by pulldown-cmark (pyromark).

Links and emphasis leave their text, images their description, code its lines; HTML in it is read as HTML, comments are
no text. A footnote follows the first paragraph, list or table that refers to it, with its label in brackets, wherever it is
written; one that nothing refers to stays where it is. Lines are exact, but for words behind a line end inside a code span or
the target of a link, which count from the line before.

A formula (`$…$`, `$$…$$`, `\(…\)` or `\[…\]`) stays as it is written: its backslashes, stars and underscores are its own.
Money (`$5 and $10`) and escaped brackets (`\[draft\]`) are no formulas.

Front matter, the fields at the head of a file, in YAML between `---` or in TOML between `+++`, gives the outline's fields. A
block is front matter only where it reads as such: fields (`key: value`), what goes on below them (indented lines, items of
lists), comments. A file that begins with a rule and prose loses nothing: it is text. Values are data alone: no tag makes an
object, an alias is not followed, and depth and size are bounded. A value that is no YAML is the text that stands there.
"""

import re
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.readers.html_pages import read_html, shown_inline
from wordpipe.corpus.readers.lines import read_text
from wordpipe.corpus.readers.sections import Markup, Outline, read_sections
from wordpipe.corpus.reading import Opened

_DEEPEST = 60  # quotes and lists in each other
_OWN_ANCHOR = re.compile(r"\s*\{#(?P<anchor>[^\s{}]+)\}\s*\Z")  # kramdown, Pandoc, MyST
_ALERT = re.compile(r"\A\[!(?P<kind>NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]", re.IGNORECASE)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_INLINE = frozenset(("Emphasis", "Strong", "Strikethrough", "Link", "Image"))
_NOTE = "FootnoteDefinition"
_CONTAINERS = frozenset(("BlockQuote", "List", "Item", _NOTE))
_WHOLE = frozenset(("Paragraph", "Table", *_CONTAINERS))  # blocks that notes can follow
_LONGEST_HEAD = 1 << 16  # characters of a block
_DEEPEST_VALUE = 20
_YAML = re.compile(r"\A---[ \t]*\n(?P<block>(?:(?!(?:---|\.\.\.)[ \t]*(?:\n|\Z)).*\n)*)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(?P<block>(?:(?!\+\+\+[ \t]*(?:\n|\Z)).*\n)*)\+\+\+[ \t]*(?:\n|\Z)")
_KEY = re.compile(
    r"(?P<key>\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|[^\W\d][\w.@/-]{0,60}(?: [\w.@/-]{1,40}){0,2})[ \t]*:(?=[ \t]|\n|\Z)"
)
_GOES_ON = re.compile(r"[ \t]|-(?:[ \t]|\n)|[\]}]|\n")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9]\d{0,20})?\.\d{1,30}|[1-9]\d{0,20}(?=[eE]))(?:[eE][-+]?\d{1,3})?")
_FORMULA = re.compile(
    rb"(?<![\\$])\$\$(?:\\[^\0]|[^\0$\\]){1,4000}?\$\$"
    rb"|(?<![\\$])\$(?![\s$])(?:\\[^\0]|[^\0$\\]){1,2000}?(?<!\s)\$(?![\d$])"
    rb"|(?<!\\)\\\((?P<in_line>[^\0]{1,2000}?)\\\)|(?<!\\)\\\[(?P<alone>[^\0]{1,4000}?)\\\]"
)  # NUL stands for code, and for where a block begins
_MATHS = re.compile(rb"[\\^_={]")  # in what is between brackets with backslashes, which else are escaped ones
_NEXT_LINE = re.compile(r"\n[ \t]*(?:>[ \t]?)*")
_CODE = frozenset(("Code", "InlineHtml", "CodeBlock", "HtmlBlock"))
_Event = tuple[Any, Any]  # of the parser, and the first and last byte that it is of
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}


def read(opened: Opened) -> Iterator[Record]:
    """Return the sections of a Markdown file; its blocks and lines are taken as they are."""
    settings = opened.settings
    if settings.documents in ("auto", "section", "file") and not settings.first_line_title:
        return read_sections(opened, MARKUP)
    return read_text(opened, newline="space")


class TooDeepError(ValueError):
    """The error for Markdown that is nested more deeply than anyone writes."""


def read_markdown(text: str, line: int, outline: Outline) -> None:
    """Report the headings, words and code of a Markdown text to the outline of its source.

    Raises:
        TooDeepError: over 60 quotes or lists in each other.
    """
    if line == 1:
        outline.fields, end = read_front_matter(text, outline.ledger)
        title = outline.fields.get("title")
        outline.title = title if isinstance(title, str) else None
        line += text.count("\n", 0, end)
        text = text[end:]
        outline.ledger.add("front_matter_without_text", int(end > 0 and not text.strip()))
    _Walk(text, line, outline).over()


class _Walk:
    """One walk over the events of a Markdown text."""

    def __init__(self, text: str, line: int, outline: Outline) -> None:
        self.text, self.first, self.outline = text, line, outline
        self._data = text.encode()
        self._line_ends = [found.start() for found in re.finditer(b"\n", self._data)]
        self._lists: list[int | None] = []  # the next number of each list that is open, None where it has bullets
        self._depth = 0
        self._pieces: list[str] = []  # of the open paragraph, heading, cell or code
        self._from = 0  # where they begin
        self._in_heading = False
        self._notes: dict[str, list[_Event]] = {}  # label, folded → events, of those that something refers to
        self._waiting: list[str] = []  # labels of notes that follow the open block
        self._formulas: list[tuple[int, int]] = []  # where each begins and ends
        self._begun: set[int] = set()  # formulas, by where they begin

    def over(self) -> None:
        """Report all events of a Markdown parser in order, each footnote behind the block with its mark."""
        from pyromark import Options, events_with_range

        options = Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH
        has_notes = "[^" in self.text
        options = options | Options.ENABLE_FOOTNOTES if has_notes else options
        events: Iterable[_Event] = events_with_range(self.text, options=options, merge_text=False)
        if b"$" in self._data or b"\\(" in self._data or b"\\[" in self._data:
            events = [*events]
            self._formulas = self._found_formulas(events)
        for event in [*self._without_notes([*events])] if has_notes else events:
            kind, value = _named(event[0])
            name = _named(value)[0] if kind in ("Start", "End") else ""
            if kind == "Start" and name == "Heading":
                self._say_notes()
            self._tell(*event)
            if kind == "End" and name in _WHOLE and not self._depth:
                self._say_notes()
        self._waiting += self._notes  # notes that only notes refer to
        self._say_notes()

    def _found_formulas(self, events: Iterable["_Event"]) -> list[tuple[int, int]]:
        """Return where each formula begins and ends: within one block, and not in code."""
        data = bytearray(self._data)
        for event, span in events:
            kind, value = _named(event)
            name = _named(value)[0] if kind == "Start" else kind
            if name in _CODE:
                data[span["start"] : span["end"]] = bytes(span["end"] - span["start"])
            elif kind == "Start" and name not in _INLINE:  # what is before the block, and its own sign
                first = span["start"]
                first_of_words = first + (name in ("Item", "Heading"))
                data[max(0, first - 1) : first_of_words] = bytes(first_of_words - max(0, first - 1))
        found = []
        for one in _FORMULA.finditer(data):
            inner = one["in_line"] or one["alone"]
            if inner is None or _MATHS.search(inner):
                found.append(one.span())
        return found

    def _kept(self, value: str, start: int, stop: int) -> str:
        """Return what words of a Markdown text say, a formula in them as it is written, all of it where it begins."""
        pieces, at = list[str](), start
        for number in range(bisect_right(self._formulas, start, key=lambda one: one[1]), len(self._formulas)):
            first, end = self._formulas[number]
            if first >= stop:
                break
            pieces.append(self._data[at : max(at, first)].decode())
            if first not in self._begun:
                self._begun.add(first)
                pieces.append(_NEXT_LINE.sub("\n", self._data[first:end].decode()))
            at = min(end, stop)
        return "".join([*pieces, self._data[at:stop].decode()]) if pieces else value

    def _without_notes(self, events: list["_Event"]) -> Iterator["_Event"]:
        """Yield the events of a text but for those of footnotes that something refers to, which are kept by label."""
        named = {
            str(value).casefold() for kind, value in (_named(one) for one, _ in events) if kind == "FootnoteReference"
        }
        held: list[_Event] | None = None
        depth = 0
        for event in events:
            kind, value = _named(event[0])
            name, label = _named(value) if kind in ("Start", "End") else ("", None)
            if held is None and kind == "Start" and name == _NOTE:
                key = str(label).casefold()
                if key in named and key not in self._notes:
                    held = self._notes[key] = []
            if held is None:
                yield event
                continue
            held.append(event)
            depth += (name == _NOTE) * (1 if kind == "Start" else -1)
            held = held if depth else None

    def _say_notes(self) -> None:
        """Report the footnotes that wait, in the order of their marks, and those to which they refer, each once."""
        while self._waiting:
            for event in self._notes.pop(self._waiting.pop(0), ()):
                self._tell(*event)

    def _tell(self, event: Any, span: dict[str, int]) -> None:
        """Report one event."""
        kind, value = _named(event)
        if kind == "Start":
            self._start(*_named(value), span)
        elif kind == "End":
            self._end(*_named(value), span)
        elif kind == "Rule":
            self._loose_words()
            self.outline.block()
        else:
            if not self._pieces:
                self._from = span["start"]
            if kind == "InlineHtml":
                value = shown_inline(value)
            elif kind == "FootnoteReference":
                self._waiting.append(value.casefold())
                value = "" if self._in_heading else f"[{value}]"
            self._pieces.append(self._kept("\n" if value is None else value, span["start"], span["end"]))

    def _start(self, name: str, value: Any, span: dict[str, int]) -> None:
        """Begin a Markdown element."""
        if name in _INLINE:
            self._tilde(name, span)
            return
        self._in_heading = name == "Heading"
        # words outside of any block come before the new one
        self._loose_words()
        out = self.outline
        out.line = self._line_at(span["start"])
        if name in _CONTAINERS:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise TooDeepError
        # what the outline is told when a block begins
        if name == "List":
            self._lists.append(value)
        elif name == "Item":
            number = self._lists[-1]
            out.block(tight=True, mark="  " * (len(self._lists) - 1) + ("- " if number is None else f"{number}. "))
            self._lists[-1] = None if number is None else number + 1
        elif name in ("TableHead", "TableRow"):
            out.row()
        elif name == "Table":
            out.table()
        elif name in ("Paragraph", "BlockQuote"):
            out.block()
        elif name == _NOTE:
            out.block(mark=f"[{value}] ")
        elif name == "CodeBlock":
            out.line += value != "Indented"

    def _end(self, name: str, value: Any, span: dict[str, int]) -> None:
        """End a Markdown element."""
        out = self.outline
        if name in _INLINE:
            self._tilde(name, span)
        # a block with words of its own: they are taken now
        elif name == "Paragraph":
            out.words(_alert(self._taken()))
            out.block()
        elif name == "Heading":
            _heading(self._taken(), int(value[1:]), out)
        elif name == "CodeBlock":
            out.verbatim(self._taken())
        elif name == "HtmlBlock":
            read_html(self._taken(), out.line, out, is_page=False)
        elif name == "TableCell":
            out.words(_alert(self._taken()))
            out.cell()
        # a block of blocks
        elif name == "TableHead":
            out.header()
        elif name == "TableRow":
            out.row()
        elif name == "Table":
            out.table()
        elif name in _CONTAINERS:
            self._loose_words()
            self._depth -= 1
            if name in ("List", _NOTE):
                del self._lists[len(self._lists) - (name == "List") :]
                out.end_list()

    def _tilde(self, name: str, span: dict[str, int]) -> None:
        """Add the tilde of a Markdown text that strikes nothing through: one on each side."""
        if name == "Strikethrough" and self._data[span["start"] + 1] != ord("~"):
            self._pieces.append(self._kept("~", span["start"], span["start"] + 1))

    def _loose_words(self) -> None:
        """The words of a list without blank lines, which are no paragraph, end here."""
        if self._pieces:
            self.outline.line = self._line_at(self._from)
            self.outline.block(tight=True)
            self.outline.words(_alert(self._taken()))
            self.outline.block(tight=True)

    def _taken(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def _line_at(self, offset: int) -> int:
        """Return the line of a place in the Markdown text."""
        return self.first + bisect_left(self._line_ends, offset)


def slug(text: str) -> str:
    """Return the anchor that GitHub gives a heading of this text, before it numbers those that come again.

    >>> slug("What's new in `2.0`?")
    'whats-new-in-20'
    """
    return _NOT_IN_SLUG.sub("", text.strip().lower()).replace(" ", "-")


def _heading(title: str, level: int, outline: Outline) -> None:
    """Report a Markdown heading to the outline, with its anchor."""
    if own := _OWN_ANCHOR.search(title):
        title, anchor = title[: own.start()], own["anchor"]
    else:
        anchor = outline.anchor(slug(title)) or None
    outline.heading(level, title, anchor, outline.line)


def _named(event: Any) -> tuple[str, Any]:
    """Return the name of an event or tag of Markdown, and its value."""
    return (event, None) if isinstance(event, str) else next(iter(event.items()))


def _alert(text: str) -> str:
    """Return the text of a Markdown quotation with its kind (note, warning) as a word."""
    return _ALERT.sub(lambda found: f"{found['kind'].capitalize()}:", text)


def read_front_matter(text: str, ledger: Ledger) -> tuple[dict[str, Any], int]:
    """Return the fields at the head of a Markdown text, by name, and where the text itself begins.

    No fields and 0 where it has none.

    Comments, and fields that come again, are counted.
    """
    head = text[:_LONGEST_HEAD]
    if (found := _TOML.match(head)) is not None:
        try:
            return _plain(tomllib.loads(found["block"])), found.end()
        except (ValueError, RecursionError):
            return {}, 0
    found = _YAML.match(head)
    if found is None or (chunks := _chunks(found["block"])) is None:
        return {}, 0
    fields: dict[str, Any] = {}
    for key, lines in chunks:
        if key in fields:
            ledger.add_named("front_matter_repeated", key)
            ledger.warn(
                "front_matter", f"the field {key} occurs twice in the front matter; only its first value is kept"
            )
        else:
            fields[key] = _value(lines)
    ledger.add("front_matter_comments", found["block"].count("\n#") + found["block"].startswith("#"))
    return fields, found.end()


def _chunks(block: str) -> list[tuple[str, str]] | None:
    """Return the name and the text of each field of YAML front matter; None where a line is no part of a field."""
    chunks: list[tuple[str, list[str]]] = []
    if block.startswith("\n"):  # a rule with a blank line below it
        return None
    for line in block.splitlines(keepends=True):
        if (found := _KEY.match(line)) is not None:
            key = found["key"]
            chunks.append((key[1:-1] if key[0] in "\"'" else key, [line[found.end() :]]))
        elif line.startswith("#"):
            continue
        elif not chunks or not _GOES_ON.match(line):
            return None
        else:
            chunks[-1][1].append(line)
    return None if block and not chunks else [(key, "".join(lines)) for key, lines in chunks]


def _value(text: str) -> Any:
    """Return the value of a field of front matter, read as YAML; the text itself if it is no YAML."""
    try:
        return _of_events(f"value:{text if text[:1].isspace() or not text else f' {text}'}")
    except (yaml.YAMLError, ValueError, RecursionError):
        return " ".join(text.split()) or None


def _of_events(text: str) -> Any:
    """Return the value of a field of front matter from YAML, without recursion. Raises ValueError: an alias, or too deep."""
    stack: list[list[Any]] = [[]]
    kinds = ["document"]
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("an alias")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].append(_scalar(event))
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            kinds.append("list" if isinstance(event, yaml.SequenceStartEvent) else "dict")
            stack.append([])
            if len(stack) > _DEEPEST_VALUE:
                raise ValueError("too deep")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            items = stack.pop()
            names = (one if isinstance(one, str) else str(one) for one in items[::2])
            made = items if kinds.pop() == "list" else dict(zip(names, items[1::2], strict=True))
            stack[-1].append(made)
    return stack[0][0]["value"]


def _scalar(event: yaml.ScalarEvent) -> Any:
    """Return the text, number or truth value of a scalar of YAML."""
    text = str(event.value)
    if event.style is not None:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _plain(value: Any) -> Any:
    """Return a value of front matter in TOML as JSON has values: times as text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, bool, int, float)) else value.isoformat()


MARKUP = Markup("md", read_markdown, re.compile(r"#{1,6}[ \t]"), 1 << 20)
