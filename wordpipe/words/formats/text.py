"""Word vectors as text: a line per word, with its numbers, and before them (word2vec) or not (GloVe) a line of two sizes.

GloVe's larger files have words with spaces in them (". . ."), so the last D fields of a line are its numbers, whatever
stands before them is the word.
"""

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wordpipe.errors import InputError
from wordpipe.words.formats.numbers import read_lines
from wordpipe.words.formats.rows import WordRows, refuse_other_number, up_to_bad

__all__ = ["NUMBER", "dim_of_line", "is_number", "read_text"]

_LONGEST = 64 << 20  # bytes of a line; 65,536 numbers in full take 1.6 MB
_SLOW = 1 << 16  # numbers for the slow parser at a time, if no single line has more
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(NUMBER.encode())
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_FIELD = re.compile(rb"[^ \t\r]+")
_GAP = b" \t\r"


def is_number(field: bytes) -> bool:
    """Whether a field is a decimal number, finite as written."""
    return _NUMBER.fullmatch(field) is not None


def dim_of_line(line: bytes) -> int:
    """The numbers that a line ends with, leaving at least one field for the word; 0 where there are none."""
    fields = _FIELD.findall(line)
    dim = 0
    while dim < len(fields) - 1 and is_number(fields[-1 - dim]):
        dim += 1
    return dim


def read_text(
    blocks: Iterator[bytes], dim: int, *, size: int | None = None, first_line: int, name: str
) -> Iterator[WordRows]:
    """Read lines of words and numbers, about as many at a time as a block holds.

    Args:
        blocks: the file's bytes, behind the header.
        dim: numbers per line.
        size: lines that the header promises; None where there is no header.
        first_line: the number of the line that the blocks begin with.
        name: the file, for errors.

    Raises:
        InputError: a line is malformed (a wrong number of numbers, one that is none or is not finite, no word), or there are
            more or fewer lines than promised; names the line.
    """
    found, line = 0, first_line
    for text in _whole_lines(blocks, name, dim):
        for rows, lines in _read_chunk(text, dim, line, name):
            if size is not None and found + len(rows.words) > size:
                yield rows.first(size - found)
                refuse_other_number(found + len(rows.words), size, f"{name}, line {rows.places[size - found]}")
            found += len(rows.words)
            line += lines
            yield rows
    if size is not None:
        refuse_other_number(found, size, f"{name}, line {line}")


def _whole_lines(blocks: Iterator[bytes], name: str, dim: int) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
            continue
        rest += block
        if len(rest) > _LONGEST:
            expected = f"a line of a word and {dim} numbers"
            raise InputError("no line ends here", where=name, got=f"{len(rest):,} bytes", expected=expected)
    if rest:
        yield rest + b"\n"


def _read_chunk(text: bytes, dim: int, first_line: int, name: str) -> Iterator[tuple[WordRows, int]]:
    """The rows of some whole lines, with how many lines they took."""
    data = np.frombuffer(text, np.uint8)
    most = len(text) // (2 * dim + 2) + 1  # a letter, a space and a digit for each number, the line's end
    at = 0
    while at < len(text):
        vectors_RD = np.empty((most, dim), np.float32)
        words_R2, lines_R = np.empty((most, 2), np.int64), np.empty(most, np.int64)
        slow_S3 = np.empty((max(_SLOW, dim), 3), np.int64)
        n, lines, slow, at, is_good = read_lines(data, at, vectors_RD, words_R2, lines_R, slow_S3)
        places_R = first_line + lines_R[:n]
        _read_slow(text, slow_S3[:slow], vectors_RD)
        words = _words(text, words_R2[:n], places_R, dim, name)
        for rows in up_to_bad(WordRows(words, vectors_RD[:n], places_R), partial(_too_large, places_R, name)):
            if rows.words or is_good:
                yield rows, lines
        first_line += lines
        if not is_good:
            line = text[at : text.index(b"\n", at)]
            raise _malformed(line, dim, f"{name}, line {first_line}")


def _read_slow(text: bytes, slow_S3: NDArray[np.int64], vectors_RD: NDArray[np.float32]) -> None:
    """Read the numbers that were left out, by Arrow's parser, which rounds every number right."""
    numbers = pa.array([text[begin:end].decode() for _, begin, end in slow_S3.tolist()], pa.string())
    vectors_RD.reshape(-1)[slow_S3[:, 0]] = numbers.cast(pa.float32()).to_numpy(zero_copy_only=False)


def _too_large(places_R: NDArray[np.int64], name: str, row: int) -> InputError:
    return InputError("a number is too large for float32", where=f"{name}, line {places_R[row]}")


def _words(text: bytes, words_R2: NDArray[np.int64], places_R: NDArray[np.int64], dim: int, name: str) -> list[bytes]:
    words = []
    for row, (begin, end) in enumerate(words_R2.tolist()):
        word = text[begin:end]
        if b" " in word or b"\t" in word:
            word = word.strip(_GAP)
            fields = _FIELD.findall(word)
            if len(fields) > 1 and is_number(fields[-1]):  # "a 0.1" is no word, but a line with a number too many
                raise _malformed(text[begin : text.index(b"\n", begin)], dim, f"{name}, line {places_R[row]}")
        words.append(word)
    return words


def _malformed(line: bytes, dim: int, where: str) -> InputError:
    """What is wrong with a line."""
    fields = _FIELD.findall(line)
    wrong = [field for field in fields[1:][-dim:] if not is_number(field)]
    if len(fields) <= dim or not wrong:
        return InputError("wrong number of numbers", where=where, got=len(fields) - 1, expected=dim)
    shown = wrong[0][:40].decode(errors="backslashreplace")
    if _NOT_FINITE.fullmatch(wrong[0]):
        return InputError("a number is not finite", where=where, got=shown)
    return InputError("not a number", where=where, got=repr(shown), expected=f"a word and {dim} numbers")
