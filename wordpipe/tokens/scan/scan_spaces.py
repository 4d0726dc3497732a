"""The scanners that part text at white space, and nothing but runs."""

from wordpipe.compiled import kernel
from wordpipe.tokens.scan.codepoints import PUNCTUATION, SPACE, WORD
from wordpipe.tokens.scan.scan_steps import Bytes, Counts, Positions, letters_end, run_end, step, worded_end

__all__ = ["bert", "whitespace", "whitespace_split", "metaspace"]


def bert(data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts) -> int:
    """Runs between white space, every punctuation mark alone."""
    return _between_spaces(data, offsets, classes, PUNCTUATION, starts, ends, row_ends)


def whitespace_split(
    data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts
) -> int:
    """Runs between white space."""
    return _between_spaces(data, offsets, classes, 0, starts, ends, row_ends)


@kernel
def _between_spaces(
    data: Bytes, offsets: Counts, classes: Bytes, alone: int, starts: Positions, ends: Positions, row_ends: Counts
) -> int:
    """Runs between white space; code points of the class `alone` are each by themselves."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if seen & SPACE:
                continue
            if not seen & alone:
                at = worded_end(data, at, stop, classes, SPACE | alone, 0)
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def whitespace(
    data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts
) -> int:
    r"""Runs between white space, cut again between word characters and others: `\w+|[^\w\s]+`."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if seen & SPACE:
                continue
            if seen & WORD:
                at = worded_end(data, at, stop, classes, WORD, WORD)
            else:
                at = run_end(data, at, stop, classes, SPACE | WORD, 0)
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def metaspace(
    data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts
) -> int:
    """A new one begins at every ▁, which stands for a space already."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            starts[spans] = at
            at = letters_end(data, at + 1, stop)
            while at < stop and not (data[at] == 0xE2 and data[at + 1] == 0x96 and data[at + 2] == 0x81):
                at += 1
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans
