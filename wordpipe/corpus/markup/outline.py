"""The outline of a structured document: headings and the prose between them, from which sections are made.

A parser of a format tells an `Outline` what it meets, in order: headings, words, code, and where blocks end. The outline
makes plain text of it (a paragraph is one line, a list item begins with "- ", a row of a table is one line with bars between
its cells) and remembers which line of the source each stretch came from.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wordpipe.corpus.documents import LONGEST_TITLE, Ledger, Record

_JOIN = " › "  # between the headings of a path
_LONGEST_ANCHOR = 500  # characters; a longer one names nothing that anyone links to
_BETWEEN = re.compile(r"\s*[-–—|·:•»›]+\s*")  # the name of a page and of its site
_END = re.compile(rf"{_BETWEEN.pattern}\Z")
_CELL = " | "


@dataclass(slots=True)
class Section:
    """A stretch of text that stands below one heading and above the next."""

    path: tuple[str, ...]  # the headings above the text, the highest first; () before the first
    anchor: str | None  # what follows "#" in a link to it
    line: int  # 1-based line of the source where its heading stands, or its text where it has none
    text: str = ""  # plain text, without the headings
    places: list[tuple[int, int]] = field(default_factory=list)  # offset in the text → line of the source, ascending

    def record(self, source: str, title: str | None) -> Record:
        """The section as a record, in a document of that title."""
        line = self.places[0][1] if self.places else self.line
        return Record(
            self.text, source, line, title=_joined(title, self.path), newline="space", lines_follow=False,
            own={} if self.anchor is None else {"anchor": self.anchor}, places=self.places,
        )  # fmt: skip


class Outline:
    """What a parser has told of one source.

    Args:
        ledger: counts headings without text, and what a parser leaves out.

    Attributes:
        title: the title of the whole document, where the source says one beside its headings.
        fields: of the front matter of the source.
        line: the line of the source that the next words come from; newlines in words count it on.
        sections: those that are complete, to be taken away.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.title: str | None = None
        self.fields: dict[str, Any] = {}
        self.line = 1
        self.sections: list[Section] = []
        self.ledger = ledger
        self._levels: list[tuple[int, str]] = []
        self._anchors: dict[str, int] = {}
        self._open, self._is_new = Section((), None, 1), False
        self._clear()

    def _clear(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._gap, self._mark, self._cell = "", "", False
        self._space = False

    @property
    def length(self) -> int:
        """Characters of the open section so far."""
        return self._length

    def heading(self, level: int, title: str, anchor: str | None, line: int) -> None:
        """A heading of this level (1 is the highest), which ends the section before it."""
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
        self._open, self._is_new = Section(tuple(name for _, name in self._levels), anchor, line), True
        self.line = line
        self.words(whole[cut:])  # of a title as long as a page the rest is text

    def words(self, text: str) -> None:
        """Words of a paragraph, white space as it comes: a row of it is one space, and each newline in it one line further."""
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
        r"""Code, kept as it is but for the blank lines around it; an "\r" ends a line that goes on in the source."""
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
        """The paragraph ends here. The next one follows without a blank line where it is `tight`, and begins with the mark."""
        if mark:
            self._gap, self._mark = "\n" if tight else "\n\n", mark
        elif not self._mark:  # the first paragraph of a list item stands beside its mark
            self._gap = "\n" if tight and self._gap != "\n\n" else "\n\n"
        self._space = False

    def row(self) -> None:
        """A row of a table begins or ends here."""
        self.block()
        self._cell = False

    def end_list(self) -> None:
        """A mark that nothing followed is forgotten."""
        self._mark = ""
        self.block()

    def cell(self) -> None:
        """A cell of a table's row ends here."""
        self._cell, self._space = True, False

    def anchor(self, name: str) -> str:
        """The name, with -1, -2 … behind it where it was given before, as GitHub numbers headings."""
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
        """The open section is complete; more words, without a heading before them, would be a further part of it."""
        self._open.text = "".join(self._pieces)
        if self._open.text:
            self.sections.append(self._open)
        else:
            self.ledger.add("headings_without_text", self._is_new)
        self._open, self._is_new = Section(self._open.path, self._open.anchor, self.line), False
        self._clear()

    def take(self) -> Iterator[Section]:
        """The complete sections, which are forgotten."""
        yield from self.sections
        self.sections.clear()

    def _begin(self) -> None:
        """What stands before the next words, and where they are from."""
        if self._pieces:
            self._add(_CELL if self._cell else self._gap or " " * self._space)
        self._place()
        self._add(self._mark)
        self._gap, self._mark, self._cell, self._space = "", "", False, False

    def _place(self) -> None:
        places = self._open.places
        if not places or places[-1][1] != self.line:
            places.append((self._length, self.line))

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)


def names(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


def _joined(title: str | None, path: tuple[str, ...]) -> str | None:
    """The headings as one title, after the document's own where it says something that they do not.

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
