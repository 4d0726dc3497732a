"""A record: one piece of text with what its source says about it, before it becomes documents and sentences."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = ["Newline", "Record", "cut_point", "split_oversize", "split_record"]

Newline = Literal["auto", "paragraph", "space"]

_LOOK_BACK = 1 << 16  # bytes searched for a space before a word is cut


@dataclass(slots=True)
class Record:
    r"""One text of a source, or one part of a text that is too long for one document.

    Attributes:
        text: the text as the source has it, with "\n" for every line end.
        source: value of the `source` column.
        line: 1-based line (or record) of the source where the text begins.
        title: its title, or None.
        metadata: values of the further columns by name, already of the column's type.
        newline: what a single newline means here, where the format says; else "auto".
        lines_follow: True where a newline in the text is a newline of the source, so that lines can be counted.
        min_words: a text of fewer words is no document.
        part: 0 for a whole text or its first part, then 1, 2, …
    """

    text: str
    source: str
    line: int
    title: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    newline: Newline = "auto"
    lines_follow: bool = True
    min_words: int = 0
    part: int = 0


def split_record(record: Record, limit: int) -> Iterator[Record]:
    """The record in parts of at most `limit` bytes of text; nearly always the record itself."""
    if len(record.text) * 4 <= limit:
        yield record
        return
    line = record.line
    for part, text in enumerate(split_oversize(record.text, limit)):
        yield replace(record, text=text, line=line, part=record.part + part)
        line += text.count("\n") if record.lines_follow else 0


def split_oversize(text: str, limit: int) -> list[str]:
    """Cut `text` into pieces of at most `limit` bytes of UTF-8; the pieces concatenate to the text.

    >>> split_oversize("one two three", 8)
    ['one two ', 'three']
    """
    data = text.encode()
    pieces, start = [], 0
    while len(data) - start > limit:
        end = start + cut_point(data[start : start + limit + 1], limit)
        pieces.append(data[start:end].decode())
        start = end
    return [*pieces, data[start:].decode()]


def cut_point(data: bytes, limit: int) -> int:
    """Where to cut UTF-8 `data` so that at most `limit` bytes come before: after a space, else between characters.

    The space is looked for in the last 64 KiB. Bytes that are no UTF-8 are cut within three bytes of the limit. Needs
    `len(data) > limit >= 4`.
    """
    start = max(0, limit - _LOOK_BACK)
    space = max(data.rfind(mark, start, limit) for mark in (b" ", b"\n", b"\t"))
    if space >= 0:
        return space + 1
    cut = limit
    while cut > limit - 3 and data[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut
