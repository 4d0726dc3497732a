"""Plain text and Markdown: a file, a block between blank lines, or a line is one record."""

from collections.abc import Iterable, Iterator
from typing import Literal

from wordpipe.corpus.records import Newline, Record, split_record

__all__ = ["text_records"]

_LONGEST_TITLE = 1000  # characters; a longer first line is text


def text_records(
    lines: Iterable[tuple[int, str]],
    *,
    source: str,
    documents: Literal["file", "block", "line"],
    first_line_title: bool,
    newline: Newline,
    max_bytes: int,
) -> Iterator[Record]:
    r"""Records of numbered lines, each with its "\n"; a record beyond `max_bytes` is given in parts as it grows.

    Args:
        lines: what `Decoder.lines` gives; the pieces of one long line share its number.
        source: value of the `source` column.
        documents: what one record is.
        first_line_title: the first line of a record is its title, unless it is longer than 1,000 characters.
        newline: what a single newline means in this format.
        max_bytes: bound on the UTF-8 of one record.
    """
    growing = _Growing(source, newline, first_line_title, max_bytes)
    for number, line in lines:
        if line.isspace():
            if documents == "block":
                yield from growing.finish()
            if not growing.is_open:
                continue
        elif documents == "line" and not growing.is_open and line[-1] == "\n" and 4 * len(line) <= max_bytes:
            yield Record(line, source, number, newline=newline)  # nearly every line: no need to gather anything
            continue
        growing.add(number, line)
        if growing.size > max_bytes:
            yield from growing.full_parts()
        if documents == "line" and line[-1] == "\n":
            yield from growing.finish()
    yield from growing.finish()


class _Growing:
    """The record whose lines are being gathered; it opens with a line that is not blank."""

    def __init__(self, source: str, newline: Newline, first_line_title: bool, max_bytes: int) -> None:
        self.source, self.newline, self.first_line_title, self.max_bytes = source, newline, first_line_title, max_bytes
        self._clear()

    def _clear(self) -> None:
        self.is_open = False
        self.size = 0  # characters, at most as many as bytes: non-ASCII text is cut later, at the same places
        self.title: str | None = None
        self.line = self.part = 0
        self.lines: list[str] = []

    def add(self, number: int, line: str) -> None:
        if not self.is_open:
            self.is_open, self.line = True, number
            if self.first_line_title and len(line) <= _LONGEST_TITLE:
                self.title, self.line = line.strip(), number + 1
                return
        self.lines.append(line)
        self.size += len(line)

    def full_parts(self) -> Iterator[Record]:
        """Parts that are full; the last one stays and grows on."""
        *full, last = split_record(self._record(), self.max_bytes)
        yield from full
        self.lines, self.size, self.line, self.part = [last.text], len(last.text), last.line, last.part

    def finish(self) -> Iterator[Record]:
        """The record, if one is open, in as many parts as it needs; nothing is open then."""
        if self.is_open:
            yield from split_record(self._record(), self.max_bytes)
            self._clear()

    def _record(self) -> Record:
        text = "".join(self.lines)
        return Record(text, self.source, self.line, title=self.title, newline=self.newline, part=self.part)
