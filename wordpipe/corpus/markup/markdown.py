"""Markdown as an outline: CommonMark with tables and strikethrough, read by pulldown-cmark (pyromark).

Links and emphasis leave their text, images their description, code its lines; HTML in it is read as HTML, comments are
no text. The front matter at the head of a file gives the outline's fields. Lines are exact, but for words behind a line end
inside a code span or the target of a link, which count from the line before.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from wordpipe.corpus.markup.front_matter import read_front_matter
from wordpipe.corpus.markup.html_pages import read_html, shown_inline
from wordpipe.corpus.markup.outline import Outline

_DEEPEST = 60  # quotes and lists in each other
_OWN_ANCHOR = re.compile(r"\s*\{#(?P<anchor>[^\s{}]+)\}\s*\Z")  # kramdown, Pandoc, MyST
_ALERT = re.compile(r"\A\[!(?P<kind>NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]", re.IGNORECASE)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_INLINE = frozenset(("Emphasis", "Strong", "Strikethrough", "Link", "Image"))
_CONTAINERS = frozenset(("BlockQuote", "List", "Item"))


class TooDeepError(ValueError):
    """More in each other than anyone writes."""


def read_markdown(text: str, line: int, outline: Outline) -> None:
    """Tell the outline what a Markdown text, which begins in this line of the source, holds.

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
    """One walk over the events of a text."""

    def __init__(self, text: str, line: int, outline: Outline) -> None:
        self.text, self.first, self.outline = text, line, outline
        self._data = text.encode()
        self._line_ends = [found.start() for found in re.finditer(b"\n", self._data)]
        self._lists: list[int | None] = []  # the next number of each list that is open, None where it has bullets
        self._depth = 0
        self._pieces: list[str] = []  # of the open paragraph, heading, cell or code
        self._from = 0  # where they begin

    def over(self) -> None:
        """Tell of all events in order."""
        from pyromark import Options, events_with_range

        options = Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH
        events: Iterable[tuple[Any, Any]] = events_with_range(self.text, options=options, merge_text=False)
        for event, span in events:
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
                self._pieces.append("\n" if value is None else value)

    def _start(self, name: str, value: Any, span: dict[str, int]) -> None:
        if name in _INLINE:
            self._tilde(name, span)
            return
        self._loose_words()
        out = self.outline
        out.line = self._line_at(span["start"])
        if name in _CONTAINERS:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise TooDeepError
        if name == "List":
            self._lists.append(value)
        elif name == "Item":
            number = self._lists[-1]
            out.block(tight=True, mark="  " * (len(self._lists) - 1) + ("- " if number is None else f"{number}. "))
            self._lists[-1] = None if number is None else number + 1
        elif name in ("TableHead", "TableRow"):
            out.row()
        elif name in ("Paragraph", "BlockQuote"):
            out.block()
        elif name == "CodeBlock":
            out.line += value != "Indented"

    def _end(self, name: str, value: Any, span: dict[str, int]) -> None:
        out = self.outline
        if name in _INLINE:
            self._tilde(name, span)
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
        elif name in ("TableHead", "TableRow"):
            out.row()
        elif name in _CONTAINERS:
            self._loose_words()
            self._depth -= 1
            if name == "List":
                self._lists.pop()
                out.end_list()

    def _tilde(self, name: str, span: dict[str, int]) -> None:
        """One tilde on each side strikes nothing through."""
        if name == "Strikethrough" and self._data[span["start"] + 1] != ord("~"):
            self._pieces.append("~")

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
        return self.first + bisect_left(self._line_ends, offset)


def slug(text: str) -> str:
    """The anchor that GitHub gives a heading of this text, before it numbers those that come again.

    >>> slug("What's new in `2.0`?")
    'whats-new-in-20'
    """
    return _NOT_IN_SLUG.sub("", text.strip().lower()).replace(" ", "-")


def _heading(title: str, level: int, outline: Outline) -> None:
    if own := _OWN_ANCHOR.search(title):
        title, anchor = title[: own.start()], own["anchor"]
    else:
        anchor = outline.anchor(slug(title)) or None
    outline.heading(level, title, anchor, outline.line)


def _named(event: Any) -> tuple[str, Any]:
    """The name of an event or tag, and what is told with it."""
    return (event, None) if isinstance(event, str) else next(iter(event.items()))


def _alert(text: str) -> str:
    return _ALERT.sub(lambda found: f"{found['kind'].capitalize()}:", text)
