"""Scanners: rows of UTF-8 text cut into pre-tokens, byte for byte as tokenizers does, at hundreds of megabytes a second.

Each scanner is one of tokenizers' pre-tokenizers, read as a left-to-right machine over the classes of code points
(`codepoints`). All are called alike:

    scan(data, offsets, classes, starts, ends, row_ends) -> number of spans

`data` uint8[bytes], `offsets` int64[rows + 1]: valid UTF-8 rows, as an Arrow string array holds them; `classes`:
`code_point_classes()`. Filled by the scanner, made by the caller: `starts` and `ends` int32[bytes + 1], positions in `data`
of the spans of all rows in order, and `row_ends` int64[rows], the number of spans up to and with each row. So a batch is
less than 2 GiB. White space that a pre-tokenizer drops lies in no span. The time is linear in the length of the data,
whatever it holds. A scanner is compiled once if all callers pass it `compiled.read_only` data.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from tokenizers import Regex, pre_tokenizers

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.kernels.codepoints import (
    CODE_POINTS,
    COUNTED,
    LETTER,
    NUMBER,
    PUNCTUATION,
    SPACE,
    SPOKEN,
    UNSPACED,
    WORD,
    code_point_classes,
    letters_end,
    run_end,
    step,
    worded_end,
)
from wordpipe.tokens.vocabulary import I32, I64, U8

KINDS = LETTER | NUMBER | SPACE  # of these three a code point has one or none
OTHER = 0


@kernel
def _space_end(data: U8, at: int, stop: int, classes: U8) -> int:
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
def _contraction(data: U8, at: int, stop: int, case: int) -> int:
    """The length of 's 't 'm 'd 're 've 'll at `at`, where an apostrophe stands; else 0.

    `case` is 0x20 where capitals are as good as small letters; Oniguruma takes the long s (ſ) for an s then, too.
    """
    if at + 1 >= stop:
        return 0
    if case and data[at + 1] == 0xC5 and data[at + 2] == 0xBF:
        return 3
    first = data[at + 1] | case
    if first == 0x73 or first == 0x74 or first == 0x6D or first == 0x64:
        return 2
    if at + 2 >= stop:
        return 0
    second = data[at + 2] | case
    if ((first == 0x72 or first == 0x76) and second == 0x65) or (first == 0x6C and second == 0x6C):
        return 3
    return 0


@kernel
def gpt2(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
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
            elif data[begin] == 0x27 and _contraction(data, begin, stop, 0):
                at = begin + _contraction(data, begin, stop, 0)
            elif seen & LETTER:
                at = worded_end(data, at, stop, classes, KINDS, LETTER)
            else:
                at = run_end(data, at, stop, classes, KINDS, seen & KINDS)
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def _newlines_end(data: U8, at: int, stop: int) -> int:
    while at < stop and (data[at] == 0x0A or data[at] == 0x0D):
        at += 1
    return at


@kernel
def _blank_end(data: U8, at: int, stop: int, classes: U8) -> int:
    r"""Where `\s*[\r\n]+|\s+(?!\S)|\s+` ends."""
    after = run_end(data, at, stop, classes, SPACE, SPACE)
    while after > at:
        after -= 1
        if data[after] == 0x0A or data[after] == 0x0D:
            return after + 1
    return _space_end(data, at, stop, classes)


@kernel
def _three_end(data: U8, at: int, stop: int, classes: U8) -> int:
    """Behind two more numbers at most."""
    for _ in range(2):
        if at < stop:
            seen, after = step(data, at, classes)
            if seen & NUMBER:
                at = after
    return at


@kernel
def digits(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
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
            if first == 0x27 and _contraction(data, begin, stop, 0x20):
                at = begin + _contraction(data, begin, stop, 0x20)
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


_SURROGATES = range(0xD800, 0xE000)


def marks(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """As `digits`, with marks among the letters; `classes` must be `code_point_classes()`."""
    return digits(data, offsets, _with_marks(), starts, ends, row_ends)


@cache
def _with_marks() -> U8:
    """The classes of code points, marks being letters: uint8 [0x110000]."""
    classes = code_point_classes().copy()
    points = np.array([point for point in range(CODE_POINTS) if point not in _SURROGATES])
    text = "".join(map(chr, points))
    for _, (start, end) in pre_tokenizers.Split(Regex(r"\p{M}+"), "removed", invert=True).pre_tokenize_str(text):
        classes[points[start:end]] |= LETTER
    return read_only(classes)


def bert(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Runs between white space, every punctuation mark alone."""
    return _between_spaces(data, offsets, classes, PUNCTUATION, starts, ends, row_ends)


def whitespace_split(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Runs between white space."""
    return _between_spaces(data, offsets, classes, 0, starts, ends, row_ends)


@kernel
def _between_spaces(data: U8, offsets: I64, classes: U8, alone: int, starts: I32, ends: I32, row_ends: I64) -> int:
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
def whitespace(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
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
def metaspace(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """A new one begins at every ▁, which is in the place of a space already."""
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


@kernel
def characters(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Every character by itself."""
    spans = 0
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            if data[at] & 0xC0 != 0x80:
                starts[spans] = at
                spans += 1
            ends[spans - 1] = at + 1
        row_ends[row] = spans
    return spans


@kernel
def _number_end(data: U8, at: int, stop: int, classes: U8) -> int:
    r"""Where `\p{N}+(?:[.,]\p{N}+)+` ends; `at` itself if it is not there."""
    end = at
    after = run_end(data, at, stop, classes, COUNTED, COUNTED)
    while after < stop and (data[after] == 0x2E or data[after] == 0x2C):
        following = run_end(data, after + 1, stop, classes, COUNTED, COUNTED)
        if following == after + 1:
            break
        after = end = following
    return end


@kernel
def _joiner(data: U8, at: int, stop: int) -> int:
    """The length of the apostrophe or hyphen (' - ’ ‐) at `at`; 0 if there is none."""
    if at >= stop:
        return 0
    if data[at] == 0x27 or data[at] == 0x2D:
        return 1
    if data[at] == 0xE2 and data[at + 1] == 0x80 and (data[at + 2] == 0x99 or data[at + 2] == 0x90):
        return 3
    return 0


@kernel
def words(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """The words of `words.WordSplitter` as they are written; a run of a script without spaces is one span."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if not seen & (SPOKEN | COUNTED | UNSPACED):
                continue
            if seen & UNSPACED:
                at = run_end(data, at, stop, classes, UNSPACED, UNSPACED)
            else:
                end = _number_end(data, begin, stop, classes) if seen & COUNTED else begin
                at = begin if end == begin else stop
                while at < stop:  # letters, again behind an apostrophe or hyphen
                    after = worded_end(data, at, stop, classes, SPOKEN, SPOKEN)
                    if after == at:
                        break
                    end = after
                    at = end + _joiner(data, end, stop)
                    if at == end:
                        break
                at = end
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


Scanner = Callable[[U8, I64, U8, I32, I32, I64], int]

SCANNERS: dict[str, Scanner] = {
    "gpt2": gpt2,
    "digits": digits,
    "bert": bert,
    "whitespace": whitespace,
    "whitespace-split": whitespace_split,
    "metaspace": metaspace,
    "characters": characters,
    "marks": marks,
    "words": words,
}
