"""Word vectors in the formats of other programs: a file or a folder of arrays, read and written.

- Text: a line per word, with its numbers; before them a line of two sizes (word2vec) or not (GloVe). GloVe's larger files have
  words with spaces in them (". . ."), so the last D fields of a line are its numbers, whatever stands before them is the word.
- Binary (word2vec): two sizes in a line, then each word, a space, and its numbers as bytes.
- NumPy: a folder with vectors.npy, words.txt (a word per line) and, maybe, counts.npy.
- TensorBoard's embedding projector: a folder of two tables, which is written alone.

Vectors are read and written some thousand at a time. What a format cannot hold is refused before the first byte is written.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib import format as npy
from numpy.typing import NDArray

from wordpipe.artifacts import array_bytes, array_header, matrix_of, open_regular_file
from wordpipe.errors import ConfigError, InputError
from wordpipe.words.settings import Format
from wordpipe.words.vectors import WordVectors

VECTORS_NPY, WORDS_TXT, COUNTS_NPY = "vectors.npy", "words.txt", "counts.npy"
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""A decimal number, finite as written."""

_MAX_DIM = 65_536
_LONGEST_LINE = 64 << 20  # bytes; 65,536 numbers in full take 1.6 MB
_LONGEST_WORD = 1 << 16  # bytes, in the binary format
_NPY_HEAD = 11_000  # bytes that hold the header of an array
_AT_ONCE = 4 << 20  # bytes of numbers looked at at a time, at least
_ONE_BY_ONE = 64  # lines
_HEAD = 4 << 20  # bytes in which the first two lines must end for auto to see them; 65,536 numbers in full take 1.6 MB
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?[ \t]*(\d{1,15})[ \t]+(\d{1,9})[ \t\r]*")  # some editors put a mark before it
_is_number = re.compile(NUMBER.encode()).fullmatch
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_FIELD = re.compile(rb"[^ \t\r]+")
_GAP = b" \t\r"  # a carriage return is one too: some write it before the line end
_AS_SPACES = bytes.maketrans(b"\t\r", b"  ")
_CUT_SHORT = "the file is incomplete: download or create the file again"
_TO_WORD2VEC = "save_word2vec_format('vectors.bin', binary=True)"
_FOREIGN = (
    (
        re.compile(rb"\x80[\x02-\x05]"),
        "this is a Python pickle, the format of gensim's .save; a pickle can run any program, so wordpipe never reads pickles",
        f"if you trust the file, convert it in Python and then import vectors.bin: gensim.models.Word2Vec.load(FILE).wv."
        f"{_TO_WORD2VEC}; if the file has only vectors: gensim.models.KeyedVectors.load(FILE).{_TO_WORD2VEC}",
    ),
    (
        re.compile(rb"(?s).{4}\0{4}\{"),
        "this is a safetensors file with the weights of a model",
        "give the folder that contains this file: wordpipe import FOLDER -o ENCODER",
    ),
    (re.compile(rb"PK\x03\x04"), "this is a zip file", "unpack the zip file, and give the file inside"),
    (
        re.compile(rb"\x93NUMPY"),
        "this is an array without words",
        "give the folder that contains vectors.npy and words.txt",
    ),
    (
        re.compile(rb"\xba\x16\x4f\x2f"),
        "this is a fastText model",
        "import the .vec file that fastText wrote together with the model",
    ),
    (
        re.compile(rb"PAR1\x15"),
        "this is a Parquet file",
        "give a file of word vectors in one of the formats of --format",
    ),
)


class WordRows(NamedTuple):
    """Some words of a file with their vectors, in the order of the file."""

    words: list[bytes]  # R words as bytes, UTF-8 if the file is right
    vectors: NDArray[np.float32]  # (R, D) float32, all finite
    places: Sequence[int]  # the line, or the number of the word, that each stands at, from 1 on
    counts: NDArray[np.int64] | None = None  # how often each occurs, int64; None where the file does not say

    def first(self, n: int) -> "WordRows":
        """Return the first `n` words."""
        counts = None if self.counts is None else self.counts[:n]
        return WordRows(self.words[:n], self.vectors[:n], self.places[:n], counts)

    def up_to_bad(self) -> tuple["WordRows", int | None]:
        """Return the words before the first one that has a number which is not finite, and the place of that word."""
        bad = np.flatnonzero(~np.isfinite(self.vectors).all(axis=1))
        return (self.first(int(bad[0])), int(bad[0])) if len(bad) else (self, None)


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
        hint = "give the folder that contains vectors.npy"
        raise ConfigError("the format numpy is a folder, not a file", where="format", got=name, hint=hint)

    # the first two lines, or what shows that it is something else
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

    # a line of a word and its numbers (GloVe), or a header and then text or bytes
    line, _, rest = head.partition(b"\n")
    where, shown = f"{name}, line 1", repr(line[:60].decode(errors="backslashreplace"))
    header = _HEADER.fullmatch(line)
    if form == "glove" or (header is None and form == "auto"):
        dim = _dim_of_line(line)
        if not dim:
            expected = "a word and its numbers, or a header of two whole numbers"
            raise InputError("not a file of word vectors", where=where, got=shown, expected=expected)
        rows = read_text(chain([head], blocks), _checked_dim(dim, where), first_line=1, name=name)
        return WordFile("glove", dim, "line", rows)
    # words and dimensions of the header, then text or bytes
    if header is None:
        hint = "use --format glove for a file without a header"
        raise InputError(
            "the file has no header",
            where=where,
            got=shown,
            expected="the number of words and the number of dimensions",
            hint=hint,
        )
    size, dim = int(header[1]), _checked_dim(int(header[2]), where)
    if form == "auto":
        form = "word2vec-text" if _looks_like_text(rest, dim) else "word2vec-binary"
    behind = chain([rest], blocks)
    if form == "word2vec-text":
        return WordFile(form, dim, "line", read_text(behind, dim, size=size, first_line=2, name=name))
    return WordFile(form, dim, "word", _read_binary(behind, dim, size, name))


def _checked_dim(dim: int, where: str) -> int:
    """Refuse a number of dimensions that a file of word vectors cannot have."""
    if not 1 <= dim <= _MAX_DIM:
        raise InputError("wrong number of dimensions", where=where, got=dim, expected=f"1 to {_MAX_DIM}")
    return dim


def _looks_like_text(rest: bytes, dim: int) -> bool:
    """True if the first word behind a header has its numbers in digits; or at least is all letters, if malformed."""
    if _dim_of_line(rest.partition(b"\n")[0]) >= dim:
        return True
    some = rest[:4096]
    text = some.decode(errors="surrogateescape")[:-4]  # the last character may be cut
    return not re.search(rb"[\x00-\x08\x0e-\x1f\x7f]", some) and not re.search("[\udc80-\udcff]", text)


def _dim_of_line(line: bytes) -> int:
    """Count the numbers that a line ends with, leaving at least one field for the word."""
    fields = _FIELD.findall(line)[1:]
    return len([*takewhile(_is_number, reversed(fields))])


def _refuse_other_number(found: int, promised: int, where: str) -> None:
    """Refuse a file with more or fewer words than its header says."""
    if found != promised:
        few = found < promised
        what = f"the file has {'fewer' if few else 'more'} words than its header says"
        hint = _CUT_SHORT if few else f"use --limit {promised} to read only the first {promised:,} words"
        got = f"{found:,} words" if few else "more words"
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
                _refuse_other_number(found + len(rows.words), size, f"{name}, line {rows.places[size - found]}")
            found += len(rows.words)
            yield rows
        line += len(lines)
    if size is not None:
        _refuse_other_number(found, size, f"{name}, line {line}")


def _whole_lines(blocks: Iterator[bytes], name: str, dim: int) -> Iterator[list[bytes]]:
    """Yield the lines of a file of word vectors, some at a time, each of them whole."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        if lines:
            yield lines
        elif len(rest) > _LONGEST_LINE:
            expected = f"a line with one word and {dim} numbers"
            raise InputError("a line is too long", where=name, got=f"{len(rest):,} bytes", expected=expected)
    if rest:
        yield [rest]


def _read_lines(lines: list[bytes], dim: int, first_line: int, name: str) -> Iterator[WordRows]:
    """Read all lines at once; where a line is malformed or has no simple form, each half; of a few lines each by itself."""
    whole = [(place, line) for place, raw in enumerate(lines, first_line) if (line := raw.strip(_GAP))]
    places = [place for place, _ in whole]
    parts = [line.translate(_AS_SPACES).partition(b" ") for _, line in whole]
    if all(rest.count(b" ") == dim - 1 for _, _, rest in parts):
        numbers = b"\n".join([rest for _, _, rest in parts]).replace(b" ", b"\n")
        vectors_RD = _floats(numbers, len(parts), dim)
        if vectors_RD is not None:
            yield WordRows([word for word, _, _ in parts], vectors_RD, places)
            return
    # each half, so that one odd line costs little
    if (half := len(lines) // 2) > _ONE_BY_ONE:
        yield from _read_lines(lines[:half], dim, first_line, name)
        yield from _read_lines(lines[half:], dim, first_line + half, name)
        return
    # line by line, up to the first that is malformed
    words: list[bytes] = []
    vectors_RD, problem = np.empty((len(whole), dim), np.float32), None
    for row, (place, line) in enumerate(whole):
        try:
            word, vectors_RD[row] = _read_line(line, dim, f"{name}, line {place}")
        except InputError as error:
            problem = error
            break
        words.append(word)
    yield WordRows(words, vectors_RD[: len(words)], places[: len(words)])
    if problem is not None:
        raise problem


def _floats(data: bytes, size: int, dim: int) -> NDArray[np.float32] | None:
    """Read a finite number per line of a format of text, rounded to float32, (size, dim); None for lines of any other form.

    200 MB a second. A compiled loop of our own read 400, but took 0.3 s to load numba, so that `wordpipe import` of 50 MB was
    no faster: 1.0 s of CPU with it and 0.9 with this.
    """
    from pyarrow import csv  # not above: an export does without it

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


def _read_line(line: bytes, dim: int, where: str) -> tuple[bytes, NDArray[np.float32]]:
    """Return the word of a line, which may have spaces inside, and its numbers, (dim,) float32."""
    fields = [*_FIELD.finditer(line)]
    last = [field[0] for field in fields[-dim:]]
    wrong = [field for field in last if not _is_number(field)]
    # where the word has spaces, its end is no number: "a 0.1" is no word, but a line with a number too many
    if len(fields) <= dim or (len(fields) > dim + 1 and not wrong and _is_number(fields[-dim - 1][0])):
        raise InputError("the line has the wrong number of dimensions", where=where, got=len(fields) - 1, expected=dim)
    if wrong:
        shown = wrong[0][:40].decode(errors="backslashreplace")
        if _NOT_FINITE.fullmatch(wrong[0]):
            raise InputError("a number is not finite", where=where, got=shown)
        raise InputError("not a number", where=where, got=repr(shown), expected=f"a word and {dim} numbers")
    written = pa.array([field.removeprefix(b"+").decode() for field in last], pa.string())
    vector_D: NDArray[np.float32] = written.cast(pa.float32()).to_numpy()
    if not np.isfinite(vector_D).all():
        raise InputError("a number is too large for float32", where=where)
    return line[: fields[-dim].start()].rstrip(_GAP), vector_D


def _read_binary(blocks: Iterator[bytes], dim: int, size: int, name: str) -> Iterator[WordRows]:
    """Read words and their numbers of the binary format, some at a time.

    Raises:
        InputError: the file ends early or goes on, a word does not end, or a number is not finite; names the word.
    """
    found, width, data = 0, 4 * dim, b""
    for block in chain(blocks, [b""]):  # at the end whatever is left
        data += block
        if block and len(data) < max(_AT_ONCE, 16 * width):
            continue

        # the words that are there whole
        words: list[bytes] = []
        numbers: list[bytes] = []
        used = 0
        while found + len(words) < size:
            space = data.find(b" ", used, used + _LONGEST_WORD)
            if space < 0 and len(data) - used >= _LONGEST_WORD:
                where, expected = (
                    f"{name}, word {found + len(words) + 1}",
                    f"a space after at most {_LONGEST_WORD:,} bytes",
                )
                raise InputError("there is no space after the word", where=where, expected=expected)
            end = space + 1 + width
            if space < 0 or end > len(data):
                break
            words.append(data[used:space].lstrip(b"\n"))  # the line end behind the numbers before, which some leave out
            numbers.append(data[space + 1 : end])
            used = end
        data = data[used:]

        # up to the first number that is not finite
        vectors_RD = np.frombuffer(b"".join(numbers), "<f4").astype(np.float32).reshape(-1, dim)
        rows, bad = WordRows(words, vectors_RD, range(found + 1, found + len(words) + 1)).up_to_bad()
        yield rows
        if bad is not None:
            where, shown = f"{name}, word {found + bad + 1}", repr(words[bad][:40].decode(errors="backslashreplace"))
            hint = (
                "another possible cause is a word that contains a space, or a wrong number of dimensions in the header"
            )
            raise InputError("a number is not finite", where=where, got=shown, hint=hint)
        found += len(words)
        if found == size and data.strip(b"\n"):
            break  # it goes on: the rest need not be held
    if data.strip(b"\n") and found < size:
        what, expected = "the file ends in the middle of a word or its numbers", f"a word, a space and {width:,} bytes"
        where, got = f"{name}, word {found + 1}", f"{len(data):,} bytes"
        raise InputError(what, where=where, got=got, expected=expected, hint=_CUT_SHORT)
    _refuse_other_number(found + bool(data.strip(b"\n")), size, f"{name}, word {found + 1}")


def folder_files(folder: Path) -> list[Path]:
    """Return the files of a folder of arrays.

    Raises:
        InputError: vectors.npy or words.txt is missing.
    """
    for name in (VECTORS_NPY, WORDS_TXT):
        if not (folder / name).is_file():
            hint = f"give a file, or a folder that contains {VECTORS_NPY} and {WORDS_TXT}; {COUNTS_NPY} is optional"
            raise InputError(f"the folder has no {name}", where=folder, hint=hint)
    return [path for name in (VECTORS_NPY, WORDS_TXT, COUNTS_NPY) if (path := folder / name).is_file()]


def open_folder(folder: Path, *, name: str) -> WordFile:
    """Open a folder of arrays, which are mapped into memory.

    Raises:
        InputError: a file is missing, is no whole array of the right kind, or they hold different numbers of words.
    """
    files = {path.name: path for path in folder_files(folder)}
    vectors = _open_array(files[VECTORS_NPY], 2, "f", f"{name}/{VECTORS_NPY}")
    words = files[WORDS_TXT].read_bytes().removesuffix(b"\n").split(b"\n")
    counts = None
    if COUNTS_NPY in files:
        counts = _open_array(files[COUNTS_NPY], 1, "iu", f"{name}/{COUNTS_NPY}").astype(np.int64)
        if len(bad := np.flatnonzero(counts < 0)):
            raise InputError(
                "a count is negative or too large",
                where=f"{name}/{COUNTS_NPY}, row {bad[0]}",
                expected="0 to 2**63 - 1",
            )
    for file, found in ((WORDS_TXT, len(words)), (COUNTS_NPY, len(vectors if counts is None else counts))):
        if found != len(vectors):
            what = f"the number of rows is different from {VECTORS_NPY}"
            raise InputError(what, where=f"{name}/{file}", got=f"{found:,}", expected=f"{len(vectors):,}")
    dim = _checked_dim(vectors.shape[1], f"{name}/{VECTORS_NPY}")
    return WordFile("numpy", dim, "line", _array_rows(vectors, words, counts, f"{name}/{VECTORS_NPY}"))


def _open_array(path: Path, axes: int, kinds: str, where: str) -> NDArray[Any]:
    """Map an array of a folder's format into memory, and check type and number of axes."""
    try:
        with open_regular_file(path) as file:
            shape, by_columns, kind, begin = array_header(file.read(_NPY_HEAD))
        array_bytes(shape, kind, path.stat().st_size - begin)
        order: Literal["C", "F"] = "F" if by_columns else "C"
        array: NDArray[Any] = np.zeros(shape, kind)
        if array.size:
            array = np.memmap(path, kind, "r", begin, shape, order)
    except ValueError as error:
        raise InputError("not a complete .npy file of numbers", where=where, got=str(error).splitlines()[0]) from None
    if array.dtype.kind not in kinds or array.ndim != axes:
        expected = (
            "a matrix, words × dimensions, of float16, float32 or float64" if axes == 2 else "a list of whole numbers"
        )
        got = f"{array.dtype} {array.shape}"
        raise InputError("the array has the wrong shape or type", where=where, got=got, expected=expected)
    return array


def _array_rows(
    vectors: NDArray[Any], words: list[bytes], counts: NDArray[np.int64] | None, where: str
) -> Iterator[WordRows]:
    """Yield the words and vectors of a folder of arrays, some thousand at a time."""
    step = max(1, _AT_ONCE // (4 * vectors.shape[1]))
    for first in range(0, len(vectors), step):
        part = slice(first, first + step)
        with np.errstate(over="ignore"):  # too large for float32: not finite, which is an error
            vectors_RD = vectors[part].astype(np.float32)
        some, places = [word.rstrip(b"\r") for word in words[part]], range(first + 1, first + len(vectors_RD) + 1)
        rows, bad = WordRows(some, vectors_RD, places, None if counts is None else counts[part]).up_to_bad()
        yield rows
        if bad is not None:
            raise InputError("a number is not finite", where=f"{where}, row {first + bad}")


class WordFilter:
    """The words of a file that are kept: each once, with a vector that has a direction; and counts of what is left out.

    Only the words stay in memory, to know those that come again.

    Args:
        file: the open file.
        limit: take the first so many words of the file, 0 = all.
        skip_bad_bytes: leave out words that are not UTF-8; otherwise they are an error.
        name: of the file, for errors.

    Attributes:
        kept: words given so far; of these, capitals have an upper-case letter.
        repeated, bad_bytes: words left out as they had come before, or as they are not UTF-8.
        zero: words left out as their vector is zero, which has no direction: no neighbours, and no place in an index.
        counts_known: whether the file says how often its words occur.
    """

    def __init__(self, file: WordFile, *, limit: int = 0, skip_bad_bytes: bool = False, name: str) -> None:
        self.kept = self.repeated = self.bad_bytes = self.zero = 0
        self.capitals, self.counts_known = 0, False
        self._file, self._limit, self._skip, self._name = file, limit, skip_bad_bytes, name
        self._seen: set[str] = set()

    @property
    def keep_case(self) -> bool:
        """True if the words keep their case: one in a hundred has a capital. Fewer say nothing about the other words."""
        return 100 * self.capitals >= max(self.kept, 1)

    def tables(self) -> Iterator[WordVectors]:
        """Yield the words kept, in the file's order, some thousand at a time; their counts are 0 where the file has none.

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
            raise InputError("the file has no words", where=self._name)

    def _table(self, rows: WordRows) -> WordVectors:
        """Return the table of words kept of a file of another format, and count the words that are left out."""
        words: dict[str, int] = {}
        has_direction: list[bool] = np.any(rows.vectors, axis=1).tolist()
        for row, data in enumerate(rows.words):
            word = self._decoded(data, rows.places[row])
            if word is None:
                self.bad_bytes += 1
            elif word in self._seen:
                self.repeated += 1
            elif not has_direction[row]:
                self.zero += 1
            else:
                self._seen.add(word)
                self.capitals += word != word.lower()
                words[word] = row
        self.kept += len(words)
        kept = [*words.values()]
        counts = np.zeros(len(kept), np.int64) if rows.counts is None else rows.counts[kept]
        self.counts_known = self.counts_known or bool(counts.any())
        return WordVectors([*words], counts, rows.vectors if len(kept) == len(rows.words) else rows.vectors[kept])

    def _decoded(self, data: bytes, place: int) -> str | None:
        """Return a word of a file of another format as text, or None for a word to leave out."""
        where = f"{self._name}, {self._file.place} {place}"
        if not data:
            raise InputError("a word is empty", where=where)
        try:
            return data.decode()
        except UnicodeDecodeError:
            if self._skip:
                return None
            got = repr(data[:60].decode(errors="backslashreplace"))
            hint = "use --bad-bytes skip to skip words that are not UTF-8"
            raise InputError("the word is not UTF-8", where=where, got=got, hint=hint) from None


_VECTORS_TSV, _METADATA_TSV = "vectors.tsv", "metadata.tsv"
_SUSPECT = r"^$|[ \t\n\r\v\f]"
_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}]"
_SPACED = re.compile(r"$|.*[ \t\n\r\v\f]", re.DOTALL)
_CANNOT_HOLD = {  # what a word begins with that the format cannot hold
    "word2vec-text": (_SPACED, "a word that is empty or contains a space"),
    "word2vec-binary": (_SPACED, "a word that is empty or contains a space"),
    # its own words have spaces inside; at their ends, or before a number, the word's end could not be found again
    "glove": (
        re.compile(rf"$| |.*(?:[\t\n\r\v\f]| $| {NUMBER}$)", re.DOTALL),
        "a word that is empty, contains other white space than single spaces, or contains a space before a number",
    ),
    "numpy": (re.compile(r"$|.*[\n\r]", re.DOTALL), "a word that is empty or contains a line break"),
    "projector": (re.compile(r"$|.*[\t\n\r]", re.DOTALL), "a word that is empty or contains a tab or a line break"),
}


class WordTable(NamedTuple):
    """A table of words that is read several times, a column or two at a time."""

    size: int  # words
    dim: int  # numbers per vector
    counts_known: bool  # whether the counts mean anything
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]  # of the named columns, from the first word on


def check_words(table: WordTable, form: str) -> None:
    """Check that a format can hold every word, before anything is exported.

    Raises:
        InputError: it cannot; names the first such word.
    """
    (cannot, what), row = _CANNOT_HOLD[form], 0
    for batch in table.batches(["word"]):
        words = batch.column("word")
        for found in np.flatnonzero(pc.match_substring_regex(words, _SUSPECT).to_numpy(zero_copy_only=False)):
            word = words[int(found)].as_py()
            if cannot.match(word):
                others = [other for other, (pattern, _) in _CANNOT_HOLD.items() if not pattern.match(word)]
                hint = "the Parquet files of the artifact can contain any word"
                hint = f"use --to {' or '.join(others)}; {hint}" if others else hint
                where = f"row {row + int(found)}"
                raise InputError(f"the format {form} does not allow {what}", where=where, got=repr(word), hint=hint)
        row += len(batch)


def _array_chunks(table: WordTable, column: str, shape: tuple[int, ...], dtype: str) -> Iterator[bytes]:
    """Yield a column as a .npy file of the format with arrays."""
    head = io.BytesIO()
    npy.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    yield head.getvalue()
    for batch in table.batches([column]):
        values = batch.column(column)
        array = matrix_of(values) if column == "vector" else values.to_numpy(zero_copy_only=False)
        yield array.astype(dtype).tobytes()


def without_controls(column: pa.Array) -> pa.Array:
    """Return text for labels on a screen: control characters, which could move a terminal's cursor, become U+FFFD."""
    return pc.replace_substring_regex(column, _CONTROLS, "\N{REPLACEMENT CHARACTER}")


def _line_chunks(
    table: WordTable, columns: Sequence[str], gap: str, head: str = "", *, shown: bool = False
) -> Iterator[bytes]:
    """Yield a line per word of a format of text; numbers give the same float32 back.

    Numbers have the digits that give the same float32 back.

    What is shown and never read back is without control characters.
    """
    if head:
        yield head.encode()
    for batch in table.batches(columns):
        texts = [_texts(batch.column(name), gap) for name in columns]
        texts = [without_controls(text) for text in texts] if shown else texts
        yield "\n".join([*pc.binary_join_element_wise(*texts, gap).to_pylist(), ""]).encode()


def _texts(column: pa.Array, gap: str) -> pa.Array:
    """Return the values of a column as text for a format of text, (N,); the numbers of a vector side by side."""
    if not pa.types.is_fixed_size_list(column.type):
        return column.cast(pa.string())
    ends = np.arange(len(column) + 1, dtype=np.int32) * column.type.list_size
    return pc.binary_join(pa.ListArray.from_arrays(ends, column.flatten().cast(pa.string())), gap)


def _binary_chunks(table: WordTable, head: str) -> Iterator[bytes]:
    """Yield an export in word2vec's binary format."""
    yield head.encode()
    for batch in table.batches(["word", "vector"]):
        rows = zip(batch.column("word").to_pylist(), matrix_of(batch.column("vector")).astype("<f4"), strict=True)
        yield b"".join(b"%s %s\n" % (word.encode(), vector.tobytes()) for word, vector in rows)


FILES = ("word2vec-text", "word2vec-binary", "glove")
"""Formats that are a file."""

FOLDERS: Mapping[str, frozenset[str]] = {
    "numpy": frozenset([VECTORS_NPY, WORDS_TXT, COUNTS_NPY]),
    "projector": frozenset([_VECTORS_TSV, _METADATA_TSV]),
}
"""Format → the names of all files that its folder may have."""


def vector_files(table: WordTable, form: str) -> Mapping[str, Iterator[bytes]]:
    """Return the files of a format and the chunks of each; a format of one file has it under the format's name.

    Counts that are unknown are not written. The projector wants words alone without a name above them.
    """
    if form == "numpy":
        files = {
            VECTORS_NPY: _array_chunks(table, "vector", (table.size, table.dim), "<f4"),
            WORDS_TXT: _line_chunks(table, ["word"], ""),
        }
        return files | ({COUNTS_NPY: _array_chunks(table, "count", (table.size,), "<i8")} if table.counts_known else {})
    if form == "projector":
        metadata = _line_chunks(table, ["word"], "", shown=True)
        if table.counts_known:
            metadata = _line_chunks(table, ["word", "count"], "\t", "word\tcount\n", shown=True)
        return {_VECTORS_TSV: _line_chunks(table, ["vector"], "\t"), _METADATA_TSV: metadata}
    head = "" if form == "glove" else f"{table.size} {table.dim}\n"
    if form == "word2vec-binary":
        return {form: _binary_chunks(table, head)}
    return {form: _line_chunks(table, ["word", "vector"], " ", head)}
