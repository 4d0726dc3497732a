"""Word vectors in the formats of other programs, in chunks, a few thousand words in memory at a time.

word2vec's two formats begin with a line of the number of words and of dimensions; text has a line per word, binary has the
word, a space, the numbers as little-endian float32, and a newline. A space ends the word in both. GloVe's format is the text
without the first line, and has words with spaces. NumPy and TensorBoard's embedding projector get folders.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib import format as npy

from wordpipe.artifacts.vectors import matrix_of
from wordpipe.errors import InputError
from wordpipe.words.formats.text import NUMBER

__all__ = ["COUNTS_NPY", "FILES", "FOLDERS", "FOLDER_NAMES", "VECTORS_NPY", "WORDS_TXT", "WordTable", "check_words"]

VECTORS_NPY, WORDS_TXT, COUNTS_NPY = "vectors.npy", "words.txt", "counts.npy"
_VECTORS_TSV, _METADATA_TSV = "vectors.tsv", "metadata.tsv"


@dataclass(frozen=True, slots=True)
class WordTable:
    """A table of words that is read several times, a column or two at a time.

    Attributes:
        size: words.
        dim: numbers per vector.
        counts_known: whether the counts mean anything.
        batches: the named columns (word, count, vector) as batches, from the first word on.
    """

    size: int
    dim: int
    counts_known: bool
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


def check_words(table: WordTable, form: str) -> None:
    """See that a format can hold every word, before anything is written.

    Raises:
        InputError: it cannot; names the first such word.
    """
    row = 0
    for batch in table.batches(["word"]):
        words = batch.column("word")
        for found in np.flatnonzero(pc.match_substring_regex(words, _SUSPECT).to_numpy(zero_copy_only=False)):
            _check_word(words[int(found)].as_py(), row + int(found), form)
        row += len(batch)


_SUSPECT = r"^$|[ \t\n\r\v\f]"
_SPACED = re.compile(r"$|.*[ \t\n\r\v\f]", re.DOTALL)
_CANNOT_HOLD = {  # what a word begins with that the format cannot hold
    "word2vec-text": (_SPACED, "a word that is empty or has a space in it"),
    "word2vec-binary": (_SPACED, "a word that is empty or has a space in it"),
    # its own words have spaces inside; at their ends, or before a number, the word's end could not be found again
    "glove": (
        re.compile(rf"$| |.*(?:[\t\n\r\v\f]| $| {NUMBER}$)", re.DOTALL),
        "a word that is empty, or has another gap than single spaces inside, or a number behind one",
    ),
    "numpy": (re.compile(r"$|.*[\n\r]", re.DOTALL), "a word that is empty or has a line end in it"),
    "projector": (re.compile(r"$|.*[\t\n\r]", re.DOTALL), "a word that is empty or has a tab or a line end in it"),
}


def _check_word(word: str, row: int, form: str) -> None:
    cannot, what = _CANNOT_HOLD[form]
    if cannot.match(word):
        others = [other for other, (pattern, _) in _CANNOT_HOLD.items() if not pattern.match(word)]
        hint = "the Parquet files of the artifact itself hold any word"
        hint = f"--to {' or '.join(others)} can; {hint}" if others else hint
        raise InputError(f"{form} cannot hold {what}", where=f"row {row}", got=repr(word), hint=hint)


def _word2vec_text(table: WordTable) -> Iterator[bytes]:
    yield _header(table)
    yield from _glove(table)


def _glove(table: WordTable) -> Iterator[bytes]:
    """Lines; numbers have the digits that give the same float32 back."""
    for batch in table.batches(["word", "vector"]):
        yield _lines(batch.column("word"), _joined(batch.column("vector"), " "))


def _word2vec_binary(table: WordTable) -> Iterator[bytes]:
    yield _header(table)
    for batch in table.batches(["word", "vector"]):
        vectors_RD = matrix_of(batch.column("vector")).astype("<f4")
        words = batch.column("word").to_pylist()
        rows = zip(words, vectors_RD, strict=True)
        yield b"".join(b"%s %s\n" % (word.encode(), vector.tobytes()) for word, vector in rows)


def _numpy(table: WordTable) -> Mapping[str, Iterator[bytes]]:
    """What `open_folder` reads; without counts where they are unknown."""
    files = {VECTORS_NPY: _vectors_npy(table), WORDS_TXT: _words_txt(table), COUNTS_NPY: _counts_npy(table)}
    return {name: chunks for name, chunks in files.items() if name != COUNTS_NPY or table.counts_known}


def _vectors_npy(table: WordTable) -> Iterator[bytes]:
    yield _npy_header((table.size, table.dim), "<f4")
    for batch in table.batches(["vector"]):
        yield matrix_of(batch.column("vector")).astype("<f4").tobytes()


def _words_txt(table: WordTable) -> Iterator[bytes]:
    for batch in table.batches(["word"]):
        yield _lines(batch.column("word"))


def _counts_npy(table: WordTable) -> Iterator[bytes]:
    yield _npy_header((table.size,), "<i8")
    for batch in table.batches(["count"]):
        yield batch.column("count").to_numpy(zero_copy_only=False).astype("<i8").tobytes()


def _projector(table: WordTable) -> Mapping[str, Iterator[bytes]]:
    return {_VECTORS_TSV: _vectors_tsv(table), _METADATA_TSV: _metadata_tsv(table)}


def _vectors_tsv(table: WordTable) -> Iterator[bytes]:
    for batch in table.batches(["vector"]):
        yield _lines(_joined(batch.column("vector"), "\t"))


def _metadata_tsv(table: WordTable) -> Iterator[bytes]:
    """Words and counts under their names; or words alone, which the projector wants without a name above them."""
    if not table.counts_known:
        yield from _words_txt(table)
        return
    yield b"word\tcount\n"
    for batch in table.batches(["word", "count"]):
        counts = batch.column("count").cast(pa.string())
        yield _lines(pc.binary_join_element_wise(batch.column("word"), counts, "\t"))


FILES: Mapping[str, Callable[[WordTable], Iterator[bytes]]] = {
    "word2vec-text": _word2vec_text,
    "word2vec-binary": _word2vec_binary,
    "glove": _glove,
}
"""Format → the chunks of its file."""

FOLDERS: Mapping[str, Callable[[WordTable], Mapping[str, Iterator[bytes]]]] = {
    "numpy": _numpy,
    "projector": _projector,
}
"""Format → the files of its folder, and the chunks of each."""

FOLDER_NAMES: Mapping[str, frozenset[str]] = {
    "numpy": frozenset([VECTORS_NPY, WORDS_TXT, COUNTS_NPY]),
    "projector": frozenset([_VECTORS_TSV, _METADATA_TSV]),
}
"""Format → the names of all files that its folder may have."""


def _header(table: WordTable) -> bytes:
    return f"{table.size} {table.dim}\n".encode()


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _joined(vectors: pa.FixedSizeListArray, gap: str) -> pa.Array:
    """The numbers of each vector as a text."""
    dim = vectors.type.list_size
    ends = np.arange(len(vectors) + 1, dtype=np.int32) * dim
    return pc.binary_join(pa.ListArray.from_arrays(ends, vectors.flatten().cast(pa.string())), gap)


def _lines(*columns: pa.Array) -> bytes:
    """A line per row, the columns parted by a space."""
    lines = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, " ")
    return "\n".join([*lines.to_pylist(), ""]).encode()
