"""Paragraphs of a text: what a newline means, where prose ends and a list, table, heading or code begins."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

__all__ = ["is_hard_wrapped", "paragraphs"]

_LINE = re.compile(r"[^\n]*+(?:\n(?:[^\S\n]*+\n)*+)?")  # a line, and the blank ones after it
_LINES = re.compile(  # or a row of lines of prose, which begin with a letter
    rf"(?:[^\W\d_](?!\))(?!\w*+(?:\.\w++)*+[ ]:[ ])[^\n]*+\n)++(?:[^\S\n]*+\n)*+|{_LINE.pattern}"
)
_KIND = re.compile(
    r"""(?P<indent>[ \t]*+)(?:
      (?P<code> >>>|``` )
    | (?P<rule> ([-=~^*_\#"'`+])\4{2,}+ [-=+ \t]*+ (?=\n|\Z) )
    | (?P<item> (?:[-*+•‣▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\)) [ \t]++ (?=\S) )
    | (?P<heading> \#{1,6}[ \t] )
    | (?P<table> \||\+[-=+] )
    | (?P<field> \*{0,2}\w++(?:\.\w++)*+ (?:[ ]:[ ]|[ ]\([^()\n]{1,80}\):[ ]) | (?<=[ \t])\w++:[ ] )
    | (?P<directive> \.\.[ ]|:\w+[^:\n]{0,60}:(?=\s) )
    )?""",
    re.VERBOSE,
)
_SAMPLE = 1 << 16  # characters by which a document's newlines are judged
_NARROWEST, _WIDEST = 40, 160  # margins that people and programs wrap prose at
_SHORT = 50  # a line that stops before this was not stopped by a margin
_ENDS = frozenset(".!?:;…。！？；：।॥؟\"'”’»)")


class _Line(NamedTuple):
    """One line, or a row of lines that begin with a letter (nothing can part those), with the blank ones after it.

    Attributes:
        start: where it begins in the text.
        end: where the next line that is not blank begins.
        kind: what its first characters make it; "" for prose.
        indent: characters before the first that is not blank.
        column: where its text begins, behind the mark of a list item.
        is_last: True before a blank line.
        opens: it (the last of a row) announces a block: "Args:", "x : array", "Returns".
    """

    start: int
    end: int
    kind: str
    indent: int
    column: int
    is_last: bool
    opens: bool


def paragraphs(text: str, *, wrapped: bool) -> Iterator[tuple[int, int, bool]]:
    r"""Start, end, and whether it is code, of each paragraph; together they are the whole text.

    A blank line ends a paragraph, and belongs to it.

    Args:
        text: with "\n" line ends.
        wrapped: single newlines are spaces, except around list items, tables, headings, definitions and code; otherwise
            every newline ends a paragraph.
    """
    if wrapped:
        yield from _wrapped(text)
        return
    for match in _LINE.finditer(text):
        start, end = match.span()
        if start < end:
            yield start, end, text.startswith(">>>", start)


def _wrapped(text: str) -> Iterator[tuple[int, int, bool]]:
    start, is_code, in_fence, after_blank = 0, False, False, True
    last: _Line | None = None
    for line in _lines(text):
        if last is not None and not is_code and _begins(line, last, is_first=after_blank and last.start == start):
            yield start, line.start, False
            start, last, after_blank = line.start, None, False
        is_fence = line.kind == "code" and text.startswith("```", line.start + line.indent)
        if last is None:
            is_code = line.kind == "code"
            in_fence = is_fence
        elif is_fence:
            in_fence = False
        last = line
        if line.is_last and not in_fence:
            yield start, line.end, is_code
            start, last, after_blank = line.end, None, True
    if start < len(text):
        yield start, len(text), is_code


def _lines(text: str) -> Iterator[_Line]:
    for match in _LINES.finditer(text):
        start, end = match.span()
        if start == end:
            return
        mark = _KIND.match(text, start, end)
        assert mark is not None
        kind, indent = mark.lastgroup or "", mark.end("indent") - start
        rows = text[start:end].rstrip()
        last = rows[rows.rfind("\n") + 1 :]
        yield _Line(
            start=start,
            end=end,
            kind="" if kind == "indent" else kind,
            indent=indent,
            column=mark.end() - start if kind == "item" else indent,
            is_last=text.find("\n", start + len(rows), end - 1) >= 0,
            opens=len(last) < _SHORT or last[-1] == ":" or " : " in last,
        )


def _begins(line: _Line, last: _Line, *, is_first: bool) -> bool:
    """Does `line` begin a paragraph though no blank line comes before it?

    Args:
        line: the line.
        last: the one before.
        is_first: `last` came after a blank line: prose may indent its first line.
    """
    if line.kind in ("code", "item", "field", "heading", "table", "directive") or last.kind in (
        "rule",
        "heading",
        "table",
    ):
        return True
    if line.kind == "rule":
        return False  # the underline of the heading before it
    if line.indent > last.column:
        return last.opens
    return line.indent < last.column and not is_first and last.kind != "item"


def is_hard_wrapped(text: str) -> bool:
    r"""Are single newlines of this text the work of a right margin?

    They are if most lines that are followed by another reach so far that its first word would not have fitted. Judged by
    the first 64 Ki characters.

    >>> is_hard_wrapped("This line stops because the margin is near,\nand the sentence goes on in this one.")
    True
    >>> is_hard_wrapped("One sentence a line.\nAnother one, which is a little longer than that.\nThe third.")
    False
    """
    if "\n" not in text:
        return False
    sample = text[:_SAMPLE].split("\n")
    if len(text) > _SAMPLE:
        sample.pop()
    inner = [(line.rstrip(), after) for line, after in pairwise(sample) if line.strip() and after.strip()]
    if not inner:
        return False
    widths = sorted(len(line) for line, _ in inner)
    margin = widths[(len(widths) - 1) * 19 // 20]  # one line in twenty may be a long link
    if not _NARROWEST <= margin <= _WIDEST:
        return False
    few = len(inner) < 5
    return 2 * sum(_reaches(line, after, margin, few=few) for line, after in inner) > len(inner)


def _reaches(line: str, after: str, margin: int, *, few: bool) -> bool:
    """Would the first word after `line` have crossed the margin? Among few lines, a full stop is evidence against it."""
    if few and line[-1] in _ENDS:
        return False
    word = len(after.split(maxsplit=1)[0])
    return len(line) + 1 + (word if word <= 20 else 2) > margin  # scripts without spaces break anywhere
