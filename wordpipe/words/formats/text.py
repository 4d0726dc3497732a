"""Word vectors as text: a line per word, with its numbers, and before them (word2vec) or not (GloVe) a line of two sizes.

GloVe's larger files have words with spaces in them (". . ."), so the last D fields of a line are its numbers, whatever
stands before them is the word.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from wordpipe.errors import InputError

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""A decimal number, finite as written."""

CUT_SHORT = "the file is cut short: fetch or make it again"

_LONGEST = 64 << 20  # bytes of a line; 65,536 numbers in full take 1.6 MB
_is_number = re.compile(NUMBER.encode()).fullmatch
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_FIELD = re.compile(rb"[^ \t\r]+")
_GAP = b" \t\r"  # a carriage return is one too: some write it before the line end


class WordRows(NamedTuple):
    """Some words of a file, one after the other, as the file has them."""

    words: list[bytes]  # R words as bytes, UTF-8 if the file is right
    vectors: NDArray[np.float32]  # (R, D) float32, all finite
    places: list[int]  # the line, or the number of the word, that each stands at, from 1 on
    counts: NDArray[np.int64] | None = None  # how often each occurs, int64; None where the file does not say

    def first(self, n: int) -> "WordRows":
        """The first `n`."""
        counts = None if self.counts is None else self.counts[:n]
        return WordRows(self.words[:n], self.vectors[:n], self.places[:n], counts)

    def up_to_bad(self) -> tuple["WordRows", int | None]:
        """Those before the first that has a number which is not finite, and which that is."""
        bad = np.flatnonzero(~np.isfinite(self.vectors).all(axis=1))
        return (self.first(int(bad[0])), int(bad[0])) if len(bad) else (self, None)


def dim_of_line(line: bytes) -> int:
    """The numbers that a line ends with, leaving at least one field for the word; 0 where there are none."""
    fields = _FIELD.findall(line)
    dim = 0
    while dim < len(fields) - 1 and _is_number(fields[-1 - dim]):
        dim += 1
    return dim


def refuse_other_number(found: int, promised: int, where: str) -> None:
    """Refuse a file with more or fewer words than its header says."""
    if found != promised:
        few = found < promised
        what = f"the file {'ends before it holds' if few else 'goes on after'} all the words that its header promises"
        hint = CUT_SHORT if few else "--limit reads so many words only"
        got = f"{found:,} words" if few else "more"
        raise InputError(what, where=where, got=got, expected=f"{promised:,} words", hint=hint)


def read_text(
    blocks: Iterator[bytes], dim: int, *, size: int | None = None, first_line: int, name: str
) -> Iterator[WordRows]:
    """Read lines of a word and `dim` numbers, about as many at a time as a block holds, from line `first_line` of a file on.

    A header before it promised `size` of them, or there is none.

    Raises:
        InputError: a line is malformed (a wrong number of numbers, one that is none or is not finite, no word), or there are
            more or fewer lines than promised; names the line.
    """
    found, line = 0, first_line
    for lines in _whole_lines(blocks, name, dim):
        for rows in _read_lines(lines, dim, line, name):
            if size is not None and found + len(rows.words) > size:
                yield rows.first(size - found)
                refuse_other_number(found + len(rows.words), size, f"{name}, line {rows.places[size - found]}")
            found += len(rows.words)
            yield rows
        line += len(lines)
    if size is not None:
        refuse_other_number(found, size, f"{name}, line {line}")


def _whole_lines(blocks: Iterator[bytes], name: str, dim: int) -> Iterator[list[bytes]]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        if lines:
            yield lines
        elif len(rest) > _LONGEST:
            expected = f"a line of a word and {dim} numbers"
            raise InputError("no line ends here", where=name, got=f"{len(rest):,} bytes", expected=expected)
    if rest:
        yield [rest]


def _read_lines(lines: list[bytes], dim: int, first_line: int, name: str) -> Iterator[WordRows]:
    words: list[bytes] = []
    numbers: list[bytes] = []  # those of a line, parted by single spaces
    places: list[int] = []
    wrong: int | None = None  # the first line that is malformed
    for place, raw in enumerate(lines, start=first_line):
        line = raw.strip(_GAP)
        if not line:
            continue
        word, _, rest = line.partition(b" ")
        if rest.count(b" ") != dim - 1 or b"\t" in line or b"\r" in line:
            fields = [*_FIELD.finditer(line)]
            last = [field[0] for field in fields[-dim:]]
            # where the word has spaces, its end is no number: "a 0.1" is no word, but a line with a number too many
            too_many = len(fields) > dim + 1 and (_is_number(fields[-dim - 1][0]) or not all(map(_is_number, last)))
            if len(fields) <= dim or too_many:
                wrong = place
                break
            word, rest = line[: fields[-dim].start()].rstrip(_GAP), b" ".join(last)
        words.append(word)
        numbers.append(rest)
        places.append(place)
    vectors_RD = _floats(b"\n".join(numbers).replace(b" ", b"\n"), len(words), dim)
    if vectors_RD is None:  # one is not finite, or is none, or is written in a way that the fast reader does not know
        fields_R = [rest.split(b" ") for rest in numbers]
        right = next((row for row, some in enumerate(fields_R) if not all(map(_is_number, some))), len(words))
        if right < len(words):
            words, fields_R, places, wrong = words[:right], fields_R[:right], places[:right], places[right]
        written = [field.removeprefix(b"+").decode() for some in fields_R for field in some]
        vectors_RD = pa.array(written, pa.string()).cast(pa.float32()).to_numpy(zero_copy_only=False).reshape(-1, dim)
    if words or wrong is None:
        rows, bad = WordRows(words, vectors_RD, places).up_to_bad()
        yield rows
        if bad is not None:
            raise InputError("a number is too large for float32", where=f"{name}, line {places[bad]}")
    if wrong is not None:
        raise _malformed(lines[wrong - first_line], dim, f"{name}, line {wrong}")


def _floats(data: bytes, size: int, dim: int) -> NDArray[np.float32] | None:
    """A finite number per line, rounded to the nearest float32, (size, dim); None where it is not as simple as that.

    200 MB a second. A compiled loop of our own read 400, but took 0.3 s to load numba, so that `wordpipe import` of 50 MB was
    no faster: 1.0 s of CPU with it and 0.9 with this.
    """
    if not size or data.startswith(b"\xef\xbb\xbf"):  # a mark that the reader would leave out
        return None
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=["number"]),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types={"number": pa.float32()}, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    found: NDArray[np.float32] = table["number"].to_numpy()
    return found.reshape(size, dim) if len(found) == size * dim and np.isfinite(found).all() else None


def _malformed(line: bytes, dim: int, where: str) -> InputError:
    """What is wrong with a line."""
    fields = _FIELD.findall(line)
    wrong = [field for field in fields[1:][-dim:] if not _is_number(field)]
    if len(fields) <= dim or not wrong:
        return InputError("wrong number of numbers", where=where, got=len(fields) - 1, expected=dim)
    shown = wrong[0][:40].decode(errors="backslashreplace")
    if _NOT_FINITE.fullmatch(wrong[0]):
        return InputError("a number is not finite", where=where, got=shown)
    return InputError("not a number", where=where, got=repr(shown), expected=f"a word and {dim} numbers")
