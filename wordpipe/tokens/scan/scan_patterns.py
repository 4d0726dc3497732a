r"""The scanners of the two patterns that byte-level tokenizers cut by.

gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
digits  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
"""

from wordpipe.compiled import kernel
from wordpipe.tokens.scan.codepoints import LETTER, NUMBER, SPACE
from wordpipe.tokens.scan.scan_steps import Bytes, Counts, Positions, run_end, step, worded_end

__all__ = ["gpt2", "digits"]

KINDS = LETTER | NUMBER | SPACE  # of these three a code point has one or none
OTHER = 0


@kernel
def _space_end(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    r"""Where `\s+(?!\S)|\s+` ends: before the last space of several, if something follows it."""
    last = at
    after = at
    while after < stop:
        seen, following = step(data, after, classes)
        if not seen & SPACE:
            return last if last > at else after
        last = after
        after = following
    return after


@kernel
def _contraction(data: Bytes, at: int, stop: int) -> int:
    """The length of 's 't 'm 'd 're 've 'll at `at`, where an apostrophe stands; else 0."""
    if at + 1 >= stop:
        return 0
    first = data[at + 1]
    if first == 0x73 or first == 0x74 or first == 0x6D or first == 0x64:
        return 2
    if at + 2 >= stop:
        return 0
    second = data[at + 2]
    if ((first == 0x72 or first == 0x76) and second == 0x65) or (first == 0x6C and second == 0x6C):
        return 3
    return 0


@kernel
def gpt2(data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts) -> int:
    """The pattern of GPT-2: letters, numbers or signs, each with the space before them."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            starts[spans] = at
            begin = at
            seen, at = step(data, at, classes)
            if seen & SPACE and data[begin] == 0x20 and at < stop:
                seen, at = step(data, at, classes)
            if seen & SPACE:
                at = _space_end(data, begin, stop, classes)
            elif data[begin] == 0x27 and _contraction(data, begin, stop):
                at = begin + _contraction(data, begin, stop)
            elif seen & LETTER:
                at = worded_end(data, at, stop, classes, KINDS, LETTER)
            else:
                at = run_end(data, at, stop, classes, KINDS, seen & KINDS)
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def _folded_contraction(data: Bytes, at: int, stop: int) -> int:
    """As `_contraction`, in any case; Oniguruma takes the long s (ſ) for an s, too."""
    if at + 1 >= stop:
        return 0
    if data[at + 1] == 0xC5 and data[at + 2] == 0xBF:
        return 3
    first = data[at + 1] | 0x20
    if first == 0x73 or first == 0x74 or first == 0x6D or first == 0x64:
        return 2
    if at + 2 >= stop:
        return 0
    second = data[at + 2] | 0x20
    if ((first == 0x72 or first == 0x76) and second == 0x65) or (first == 0x6C and second == 0x6C):
        return 3
    return 0


@kernel
def _newlines_end(data: Bytes, at: int, stop: int) -> int:
    while at < stop and (data[at] == 0x0A or data[at] == 0x0D):
        at += 1
    return at


@kernel
def _blank_end(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    r"""Where `\s*[\r\n]+|\s+(?!\S)|\s+` ends."""
    after = run_end(data, at, stop, classes, SPACE, SPACE)
    while after > at:
        after -= 1
        if data[after] == 0x0A or data[after] == 0x0D:
            return after + 1
    return _space_end(data, at, stop, classes)


@kernel
def _three_end(data: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """Behind two more numbers at most."""
    for _ in range(2):
        if at < stop:
            seen, after = step(data, at, classes)
            if seen & NUMBER:
                at = after
    return at


@kernel
def digits(data: Bytes, offsets: Counts, classes: Bytes, starts: Positions, ends: Positions, row_ends: Counts) -> int:
    """The pattern of cl100k and Llama 3: numbers in threes, one sign before letters, line ends together."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            first = data[at]
            seen, at = step(data, at, classes)
            kind = seen & KINDS
            following, after = kind, at
            if at < stop and kind != LETTER and kind != NUMBER:
                following, after = step(data, at, classes)
                following &= KINDS
            if first == 0x27 and _folded_contraction(data, begin, stop):
                at = begin + _folded_contraction(data, begin, stop)
            elif following == LETTER and first != 0x0A and first != 0x0D:
                at = worded_end(data, after, stop, classes, KINDS, LETTER)
            elif kind == NUMBER:
                at = _three_end(data, at, stop, classes)
            elif kind == OTHER or (first == 0x20 and following == OTHER):
                at = run_end(data, at, stop, classes, KINDS, OTHER)
                at = _newlines_end(data, at, stop)
            else:
                at = _blank_end(data, begin, stop, classes)
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans
