"""Reading word vectors of other programs: a file in any of their formats, or a folder of arrays.

Binary (word2vec) is two sizes in a line, then each word, a space, and its numbers as bytes. NumPy's is a folder with
vectors.npy, words.txt (a word per line) and, maybe, counts.npy. For text see `formats.text`.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from wordpipe.errors import ConfigError, InputError
from wordpipe.words.formats.text import CUT_SHORT, WordRows, dim_of_line, read_text, refuse_other_number
from wordpipe.words.formats.writing import COUNTS_NPY, VECTORS_NPY, WORDS_TXT
from wordpipe.words.settings import Format
from wordpipe.words.table import WordVectors

_MAX_DIM = 65_536
_LONGEST_WORD = 1 << 16  # bytes, in the binary format
_AT_ONCE = 4 << 20  # bytes of numbers looked at at a time, at least
_HEAD = 4 << 20  # bytes in which the first two lines must end to be judged; 65,536 numbers in full take 1.6 MB
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?[ \t]*(\d{1,15})[ \t]+(\d{1,9})[ \t\r]*")  # some editors put a mark before it
_TO_WORD2VEC = "save_word2vec_format('vectors.bin', binary=True)"
_FOREIGN = (
    (
        re.compile(rb"\x80[\x02-\x05]"),
        "this is a Python pickle, as gensim's own .save writes; it could run any program, so it is never read",
        f"where you trust it: gensim.models.Word2Vec.load(FILE).wv.{_TO_WORD2VEC}, or for vectors alone "
        f"gensim.models.KeyedVectors.load(FILE).{_TO_WORD2VEC}; then import vectors.bin",
    ),
    (re.compile(rb"PK\x03\x04"), "this is a zip file", "unpack it and name the file inside"),
    (re.compile(rb"\x93NUMPY"), "this is an array without its words", "name the folder with vectors.npy and words.txt"),
    (re.compile(rb"\xba\x16\x4f\x2f"), "this is a fastText model", "import the .vec file beside it"),
    (re.compile(rb"PAR1\x15"), "this is a Parquet file", "name a file of word vectors in one of the formats"),
)


class WordFile(NamedTuple):
    """An open file (or folder) of word vectors."""

    format: str  # word2vec-text, word2vec-binary, glove or numpy
    dim: int  # numbers per vector
    place: str  # what `WordRows.places` counts: "line" or "word"
    rows: Iterator[WordRows]  # to be read once; raises InputError where the file is malformed, and names the place


def open_stream(blocks: Iterator[bytes], form: Format, *, name: str) -> WordFile:
    """Open a decompressed file as word vectors, in a format or (auto) in that which its first lines say.

    Raises:
        InputError: empty, none of the formats, or a malformed beginning. Later errors come as the rows are read.
        ConfigError: a format that is not a file.
    """
    if form == "numpy":
        hint = "name the folder with vectors.npy in it"
        raise ConfigError("this format is a folder", where="format", got=name, hint=hint)
    head = b""
    for block in blocks:
        head += block
        if head.count(b"\n") >= 2 or len(head) >= _HEAD:
            break
    for magic, what, hint in _FOREIGN:
        if magic.match(head):
            raise InputError(what, where=name, hint=hint)
    if not head.strip():
        raise InputError("the file is empty", where=name)
    line, _, rest = head.partition(b"\n")
    where, shown = f"{name}, line 1", repr(line[:60].decode(errors="backslashreplace"))
    header = _HEADER.fullmatch(line)
    if form == "glove" or (header is None and form == "auto"):
        dim = dim_of_line(line)
        if not dim:
            expected = "a word and its numbers, or a header of two whole numbers"
            raise InputError("not a file of word vectors", where=where, got=shown, expected=expected)
        rows = read_text(chain([head], blocks), _checked_dim(dim, where), first_line=1, name=name)
        return WordFile("glove", dim, "line", rows)
    if header is None:
        hint = "--format glove reads lines without a header"
        raise InputError("no header", where=where, got=shown, expected="words and dimensions", hint=hint)
    size, dim = int(header[1]), _checked_dim(int(header[2]), where)
    if form == "auto":
        form = "word2vec-text" if _looks_like_text(rest, dim) else "word2vec-binary"
    behind = chain([rest], blocks)
    if form == "word2vec-text":
        return WordFile(form, dim, "line", read_text(behind, dim, size=size, first_line=2, name=name))
    return WordFile(form, dim, "word", _read_binary(behind, dim, size, name))


def _checked_dim(dim: int, where: str) -> int:
    if not 1 <= dim <= _MAX_DIM:
        raise InputError("not a width of vectors", where=where, got=dim, expected=f"1 to {_MAX_DIM}")
    return dim


def _looks_like_text(rest: bytes, dim: int) -> bool:
    """Whether the first word behind a header has its numbers in digits; or at least is all letters, if malformed."""
    if dim_of_line(rest.partition(b"\n")[0]) >= dim:
        return True
    some = rest[:4096]
    text = some.decode(errors="surrogateescape")[:-4]  # the last character may be cut
    return not re.search(rb"[\x00-\x08\x0e-\x1f\x7f]", some) and not re.search("[\udc80-\udcff]", text)


def _read_binary(blocks: Iterator[bytes], dim: int, size: int, name: str) -> Iterator[WordRows]:
    """Read words and their numbers, some at a time.

    Raises:
        InputError: the file ends early or goes on, a word does not end, or a number is not finite; names the word.
    """
    found, width, data = 0, 4 * dim, b""
    for block in chain(blocks, [b""]):  # at the end whatever is left
        data += block
        if block and len(data) < max(_AT_ONCE, 16 * width):
            continue
        words: list[bytes] = []
        numbers: list[bytes] = []
        used = 0
        while found + len(words) < size:
            space = data.find(b" ", used, used + _LONGEST_WORD)
            if space < 0 and len(data) - used >= _LONGEST_WORD:
                where, expected = f"{name}, word {found + len(words) + 1}", f"a space within {_LONGEST_WORD:,} bytes"
                raise InputError("the word does not end", where=where, expected=expected)
            end = space + 1 + width
            if space < 0 or end > len(data):
                break
            words.append(data[used:space].lstrip(b"\n"))  # the line end behind the numbers before, which some leave out
            numbers.append(data[space + 1 : end])
            used = end
        data = data[used:]
        vectors_RD = np.frombuffer(b"".join(numbers), "<f4").astype(np.float32).reshape(-1, dim)
        rows, bad = WordRows(words, vectors_RD, [*range(found + 1, found + len(words) + 1)]).up_to_bad()
        yield rows
        if bad is not None:
            where, shown = f"{name}, word {found + bad + 1}", repr(words[bad][:40].decode(errors="backslashreplace"))
            hint = "a word with a space in it, or another width than the header says, looks like this too"
            raise InputError("a number is not finite", where=where, got=shown, hint=hint)
        found += len(words)
        if found == size and data.strip(b"\n"):
            break  # it goes on: the rest need not be held
    if data.strip(b"\n") and found < size:
        what, expected = "the file ends in the middle of a word or its numbers", f"a word, a space and {width:,} bytes"
        where, got = f"{name}, word {found + 1}", f"{len(data):,} bytes"
        raise InputError(what, where=where, got=got, expected=expected, hint=CUT_SHORT)
    refuse_other_number(found + bool(data.strip(b"\n")), size, f"{name}, word {found + 1}")


def folder_files(folder: Path) -> list[Path]:
    """The files of a folder of arrays.

    Raises:
        InputError: vectors.npy or words.txt is missing.
    """
    for name in (VECTORS_NPY, WORDS_TXT):
        if not (folder / name).is_file():
            files = f"{VECTORS_NPY}, {WORDS_TXT} and, maybe, {COUNTS_NPY}"
            hint = f"a folder is read where it holds {files}; or name a file"
            raise InputError(f"the folder has no {name}", where=folder, hint=hint)
    return [path for name in (VECTORS_NPY, WORDS_TXT, COUNTS_NPY) if (path := folder / name).is_file()]


def open_folder(folder: Path, stack: ExitStack, *, name: str) -> WordFile:
    """Open a folder of arrays; its files are closed with `stack`.

    Raises:
        InputError: a file is missing, is no array of the right kind, or they hold different numbers of words.
    """
    files = {path.name: stack.enter_context(path.open("rb")) for path in folder_files(folder)}
    vectors = _Array(files[VECTORS_NPY], 2, "f", f"{name}/{VECTORS_NPY}")
    counts = _Array(files[COUNTS_NPY], 1, "iu", f"{name}/{COUNTS_NPY}") if COUNTS_NPY in files else None
    size, dim = vectors.shape
    if counts is not None and counts.shape[0] != size:
        got = counts.shape[0]
        raise InputError("another number of counts than of vectors", where=counts.where, got=got, expected=size)
    rows = _read_folder(vectors, files[WORDS_TXT], counts, f"{name}/{WORDS_TXT}")
    return WordFile("numpy", _checked_dim(dim, vectors.where), "line", rows)


class _Array:
    """An array file whose header is read here, and whose numbers are read row by row."""

    def __init__(self, file: BinaryIO, axes: int, kinds: str, where: str) -> None:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            self.shape, by_column, self._dtype = read(file)
        except (ValueError, EOFError) as error:
            raise InputError("not a .npy file", where=where, got=str(error).splitlines()[0]) from None
        if self._dtype.kind not in kinds or len(self.shape) != axes:
            expected = "words × numbers, float16, float32 or float64" if axes == 2 else "a row of whole numbers"
            got = f"{self._dtype} {self.shape}"
            raise InputError("an array of another kind", where=where, got=got, expected=expected)
        if by_column and axes == 2:
            hint = "numpy.save(FILE, numpy.ascontiguousarray(vectors))"
            raise InputError("the array lies column by column, and is read row by row", where=where, hint=hint)
        self._file, self.where = file, where

    def rows(self, n: int) -> NDArray[Any]:
        """The next `n` rows."""
        shape = (n, *self.shape[1:])
        size = int(np.prod(shape)) * self._dtype.itemsize
        if len(data := self._file.read(size)) < size:
            what = "the file ends before all the numbers that its header promises"
            raise InputError(what, where=self.where, hint=CUT_SHORT)
        return np.frombuffer(data, self._dtype).reshape(shape)


def _read_folder(vectors: _Array, words: BinaryIO, counts: _Array | None, where: str) -> Iterator[WordRows]:
    size, dim = vectors.shape
    step = max(1, _AT_ONCE // (4 * dim))
    for first in range(0, size, step):
        n = min(step, size - first)
        with np.errstate(over="ignore"):  # too large for float32: not finite, which is an error
            vectors_RD = vectors.rows(n).astype(np.float32)
        found = [line.rstrip(b"\r\n") for line in islice(words, n)]
        if len(found) < n:
            got, line = f"{first + len(found):,}", first + len(found) + 1
            raise InputError("fewer words than vectors", where=f"{where}, line {line}", got=got, expected=f"{size:,}")
        number = None
        if counts is not None:
            values = counts.rows(n)
            number = values.astype(np.int64)
            for row in np.flatnonzero(number < 0)[:1]:
                place = f"{counts.where}, row {first + row}"
                raise InputError("not a count", where=place, got=values[row], expected="0 to 2**63 - 1")
        rows, bad = WordRows(found, vectors_RD, [*range(first + 1, first + n + 1)], number).up_to_bad()
        yield rows
        if bad is not None:
            raise InputError("a number is not finite", where=f"{vectors.where}, row {first + bad}")
    if words.read(1):
        raise InputError("more words than vectors", where=f"{where}, line {size + 1}", expected=f"{size:,}")


class Screen:
    """Reads a file of word vectors piece by piece and counts what is left out.

    Only the words stay in memory, to know those that come again.

    Args:
        file: the open file.
        limit: take the first so many words of the file, 0 = all.
        skip_bad_bytes: leave out words that are not UTF-8; otherwise they are an error.
        name: of the file, for errors.

    Attributes:
        kept: words given so far.
        repeated: words left out as they had come before.
        bad_bytes: words left out as they are not UTF-8.
        zero: words left out as their vector is zero, which has no direction: no neighbours, and no place in an index.
        capitals: words given that have an upper-case letter.
        counts_known: whether the file says how often its words occur.
        falls: whether no word so far was commoner than one before it.
    """

    def __init__(self, file: WordFile, *, limit: int = 0, skip_bad_bytes: bool = False, name: str) -> None:
        self.kept = self.repeated = self.bad_bytes = self.zero = 0
        self.capitals, self.counts_known, self.falls = 0, False, True
        self._file, self._limit, self._skip, self._name = file, limit, skip_bad_bytes, name
        self._seen: set[str] = set()
        self._last = np.zeros(0, np.int64)  # count that was given

    @property
    def keep_case(self) -> bool:
        """Whether the words keep their case: one in a hundred has a capital. A few odd ones do not tell of the others."""
        return 100 * self.capitals >= max(self.kept, 1)

    def tables(self) -> Iterator[WordVectors]:
        """The words kept, in the file's order, some thousand at a time; their counts are 0 where the file has none.

        Raises:
            InputError: malformed, a word is empty or is not UTF-8, or there is no word; names the place.
        """
        left = self._limit
        for rows in self._file.rows:
            table = self._table(rows.first(left) if self._limit else rows)
            if len(table):
                yield table
            left -= len(rows.words)
            if self._limit and left <= 0:
                break
        if not self.kept:
            raise InputError("there is no word in the file", where=self._name)

    def _table(self, rows: WordRows) -> WordVectors:
        words: list[str] = []
        kept: list[int] = []
        directed: list[bool] = np.any(rows.vectors, axis=1).tolist()
        for row, data in enumerate(rows.words):
            word = self._decoded(data, int(rows.places[row]))
            if word is None or word in self._seen:
                self.repeated += word is not None
                continue
            if not directed[row]:
                self.zero += 1
                continue
            self._seen.add(word)
            self.capitals += word != word.lower()
            words.append(word)
            kept.append(row)
        self.kept += len(words)
        vectors_KD = rows.vectors if len(kept) == len(rows.words) else rows.vectors[kept]
        counts = np.zeros(len(kept), np.int64) if rows.counts is None else rows.counts[kept]
        self.counts_known = self.counts_known or bool(counts.any())
        line = np.append(self._last, counts)
        self.falls, self._last = self.falls and not (np.diff(line) > 0).any(), line[-1:]
        return WordVectors(words, counts, vectors_KD)

    def _decoded(self, data: bytes, place: int) -> str | None:
        """The word, or None where it is to be left out."""
        where = f"{self._name}, {self._file.place} {place}"
        if not data:
            raise InputError("a word is empty", where=where)
        try:
            return data.decode()
        except UnicodeDecodeError:
            if not self._skip:
                got = data[:60].decode(errors="backslashreplace")
                hint = "--bad-bytes skip leaves such words out"
                raise InputError("the word is not UTF-8", where=where, got=repr(got), hint=hint) from None
            self.bad_bytes += 1
            return None
