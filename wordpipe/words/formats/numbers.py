"""Lines of a word and its numbers, read in one pass over their bytes.

A number is taken as a whole number of up to 19 digits times a power of ten, in double precision. That is off by less than
two units in the last place, so it rounds to the right float32 unless it lies within 16 of them of the middle between two.
Those few, and what is too large or too small for such a sum, are left to a parser that is always right.

Places in the text are unsigned, as numba asks of every signed one whether it counts from the end: 280 MB of text a second
against 90.
"""

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import inlined, kernel

__all__ = ["read_lines"]

_LARGEST_POWER = 40  # float32 ends at 3.4e38
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(_LARGEST_POWER + 1)])  # each correctly rounded
_LEAST, _MOST = float(2.0**-126), float(2.0**127)  # float32 has all its 24 bits between these
_BELOW = np.int64((1 << 29) - 1)  # the bits of a double that a float32 lacks
_MIDDLE, _MARGIN = np.int64(1 << 28), np.int64(16)
_HUGE = 10_000
_DIGITS = 19  # more may not fit 64 bits

_NONE, _ONE, _NINE, _TEN = np.uint64(0), np.uint64(1), np.uint64(9), np.uint64(10)
_ZERO = np.uint64(48)
_TAB, _LINE_END, _RETURN, _SPACE = 9, 10, 13, 32
_PLUS, _MINUS, _POINT, _CAPITAL_E, _SMALL_E = 43, 45, 46, 69, 101
_SURE, _SLOW, _WRONG = 0, 1, 2


@kernel
def read_lines(
    text: NDArray[np.uint8],
    first: int,
    vectors_RD: NDArray[np.float32],
    words_R2: NDArray[np.int64],
    lines_R: NDArray[np.int64],
    slow_S3: NDArray[np.int64],
) -> tuple[int, int, int, int, bool]:
    """Read lines from `first` on until the text ends, the arrays are full, or a line is wrong.

    The last D fields of a line are its numbers, what stands before them is the word. Fields are parted by spaces and tabs.

    Args:
        text: whole lines, each with its line end.
        first: where to begin.
        vectors_RD: gets the numbers.
        words_R2: gets where in the text each word begins and ends.
        lines_R: gets how many lines from `first` on stand before each row's.
        slow_S3: gets the numbers that are to be read by other means: their place in the flat vectors, beginning and end.

    Returns:
        rows; lines read, blank ones included; slow numbers; where reading stopped; whether the line there is right.
    """
    at, size = np.uint64(first), np.uint64(len(text))
    rows, lines, slow = 0, 0, 0
    while at < size and rows < len(vectors_RD) and slow + vectors_RD.shape[1] <= len(slow_S3):
        begin = stop = at
        while not _is_gap(text[stop]) and text[stop] != _LINE_END:
            stop += _ONE
        end, found = _read_numbers(text, stop, rows, vectors_RD, slow_S3, slow)
        if found < 0 or stop == begin:  # the word has spaces, or the line none, or something is wrong
            end, stop, is_blank = _word_before_numbers(text, begin, vectors_RD.shape[1])
            if not is_blank:
                _, found = _read_numbers(text, stop, rows, vectors_RD, slow_S3, slow)
                if found < 0 or stop == begin:
                    return rows, lines, slow, int(begin), False
        if stop > begin:
            words_R2[rows, 0], words_R2[rows, 1], lines_R[rows] = begin, stop, lines
            rows, slow = rows + 1, found
        lines, at = lines + 1, end + _ONE
    return rows, lines, slow, int(at), True


@kernel
def _read_numbers(
    text: NDArray[np.uint8],
    at: np.uint64,
    row: int,
    vectors_RD: NDArray[np.float32],
    slow_S3: NDArray[np.int64],
    slow: int,
) -> tuple[np.uint64, int]:
    """Read the numbers that follow the word ending at `at`: where the line ends, and the slow numbers, -1 if it is wrong."""
    dim = vectors_RD.shape[1]
    for column in range(dim):
        while _is_gap(text[at]):
            at += _ONE
        start = at
        value, state, at = _number(text, at)
        if state == _WRONG or not (_is_gap(text[at]) or text[at] == _LINE_END):
            return at, -1
        vectors_RD[row, column] = value
        if state == _SLOW:
            slow_S3[slow, 0], slow_S3[slow, 1], slow_S3[slow, 2] = row * dim + column, start, at
            slow += 1
    while _is_gap(text[at]):
        at += _ONE
    return at, slow if text[at] == _LINE_END else -1


@kernel
def _word_before_numbers(text: NDArray[np.uint8], begin: np.uint64, dim: int) -> tuple[np.uint64, np.uint64, bool]:
    """The line's end, the end of what stands before its last `dim` fields (`begin`: nothing), and whether it is blank."""
    end = begin
    while text[end] != _LINE_END:
        end += _ONE
    stop = _before_gap(text, begin, end)
    is_blank = stop == begin
    for _ in range(dim):
        while stop > begin and not _is_gap(text[stop - _ONE]):
            stop -= _ONE
        stop = _before_gap(text, begin, stop)
    return end, stop, is_blank


@inlined
def _is_gap(byte):  # type: ignore[no-untyped-def]
    """A carriage return is one too: some write it before the line end."""
    return byte in (_SPACE, _TAB, _RETURN)


@inlined
def _before_gap(text, begin, end):  # type: ignore[no-untyped-def]
    """Where the field ends that stands before `end`."""
    while end > begin and _is_gap(text[end - _ONE]):
        end -= _ONE
    return end


@inlined
def _number(text, at):  # type: ignore[no-untyped-def]
    """A number beginning at `at`; whether it is sure, slow (another parser must read it) or wrong; and where it ends."""
    is_negative = text[at] == _MINUS
    if is_negative or text[at] == _PLUS:
        at += _ONE
    start = at
    whole, at, digits = _more_digits(text, _NONE, at)
    seen = at - start
    power = np.int64(0)
    if text[at] == _POINT:
        after = at + _ONE
        whole, at, more = _more_digits(text, whole, after)
        power, digits = np.int64(after) - np.int64(at), digits + more
        seen += at - after
    state = _SURE if seen > _NONE else _WRONG
    if text[at] == _SMALL_E or text[at] == _CAPITAL_E:
        exponent, at, is_good = _exponent(text, at + _ONE)
        power += exponent
        if not is_good:
            state = _WRONG
    value = np.float64(whole)
    if whole > _NONE and state == _SURE:
        if digits > _DIGITS or power > _LARGEST_POWER or power < -_LARGEST_POWER:
            state = _SLOW
        else:
            value = value / _POWERS[-power] if power < 0 else value * _POWERS[power]
            if not _rounds_surely(value):
                state = _SLOW
    return (-value if is_negative else value), state, at


@inlined
def _more_digits(text, whole, at):  # type: ignore[no-untyped-def]
    """Digits appended to a whole number; where they end; how many there are, without zeros that lead the number."""
    if whole == _NONE:
        while text[at] == _ZERO:
            at += _ONE
    start = at
    digit = np.uint64(text[at]) - _ZERO
    while digit <= _NINE:
        whole = whole * _TEN + digit
        at += _ONE
        digit = np.uint64(text[at]) - _ZERO
    return whole, at, np.int64(at) - np.int64(start)


@inlined
def _exponent(text, at):  # type: ignore[no-untyped-def]
    """The number behind an e, which stops growing where it is out of all bounds; where it ends; and whether it is one."""
    is_negative = text[at] == _MINUS
    if is_negative or text[at] == _PLUS:
        at += _ONE
    start, exponent = at, np.int64(0)
    digit = np.uint64(text[at]) - _ZERO
    while digit <= _NINE:
        if exponent < _HUGE:
            exponent = exponent * 10 + np.int64(digit)
        at += _ONE
        digit = np.uint64(text[at]) - _ZERO
    return (-exponent if is_negative else exponent), at, at > start


@inlined
def _rounds_surely(value):  # type: ignore[no-untyped-def]
    """Whether a double that may be off by a few units in the last place rounds to one float32 all the same."""
    if value < _LEAST or value > _MOST:
        return False
    below = np.float64(value).view(np.int64) & _BELOW
    return abs(below - _MIDDLE) > _MARGIN
