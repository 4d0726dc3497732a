"""Word vectors in the formats of other programs, in chunks, a few thousand words in memory at a time.

word2vec's two formats begin with a line of the number of words and of dimensions; text has a line per word, binary has the
word, a space, the numbers as little-endian float32, and a newline. A space ends the word in both. GloVe's format is the text
without the first line, and has words with spaces. NumPy and TensorBoard's embedding projector get folders.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib import format as npy

from wordpipe.artifacts import matrix_of
from wordpipe.errors import InputError
from wordpipe.words.read import COUNTS_NPY, NUMBER, VECTORS_NPY, WORDS_TXT

_VECTORS_TSV, _METADATA_TSV = "vectors.tsv", "metadata.tsv"
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


class WordTable(NamedTuple):
    """A table of words that is read several times, a column or two at a time."""

    size: int  # words
    dim: int  # numbers per vector
    counts_known: bool  # whether the counts mean anything
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]  # of the named columns, from the first word on


def check_words(table: WordTable, form: str) -> None:
    """See that a format can hold every word, before anything is written.

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
                hint = "the Parquet files of the artifact itself hold any word"
                hint = f"--to {' or '.join(others)} can; {hint}" if others else hint
                where = f"row {row + int(found)}"
                raise InputError(f"{form} cannot hold {what}", where=where, got=repr(word), hint=hint)
        row += len(batch)


def _chunks(
    table: WordTable, columns: Sequence[str], encode: Callable[..., bytes], head: bytes | None = None
) -> Iterator[bytes]:
    """What is at the head of a file, then what `encode` makes of these columns, a batch at a time."""
    if head is not None:
        yield head
    for batch in table.batches(columns):
        yield encode(*(batch.column(name) for name in columns))


def _text_rows(words: pa.Array, vectors: pa.Array) -> bytes:
    """Lines; numbers have the digits that give the same float32 back."""
    return _lines(pc.binary_join_element_wise(words, _joined(vectors, " "), " "))


def _binary_rows(words: pa.Array, vectors: pa.Array) -> bytes:
    rows = zip(words.to_pylist(), matrix_of(vectors).astype("<f4"), strict=True)
    return b"".join(b"%s %s\n" % (word.encode(), vector.tobytes()) for word, vector in rows)


def _tab_rows(vectors: pa.Array) -> bytes:
    return _lines(_joined(vectors, "\t"))


def _floats(vectors: pa.Array) -> bytes:
    return matrix_of(vectors).astype("<f4").tobytes()


def _whole(counts: pa.Array) -> bytes:
    return bytes(counts.to_numpy(zero_copy_only=False).astype("<i8").tobytes())


def _counted_rows(words: pa.Array, counts: pa.Array) -> bytes:
    return _lines(pc.binary_join_element_wise(words, counts.cast(pa.string()), "\t"))


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _joined(vectors: pa.FixedSizeListArray, gap: str) -> pa.Array:
    """The numbers of each vector as a text."""
    ends = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.type.list_size
    return pc.binary_join(pa.ListArray.from_arrays(ends, vectors.flatten().cast(pa.string())), gap)


def _lines(rows: pa.Array) -> bytes:
    return "\n".join([*rows.to_pylist(), ""]).encode()


FILES = ("word2vec-text", "word2vec-binary", "glove")
"""Formats that are a file."""

FOLDERS: Mapping[str, frozenset[str]] = {
    "numpy": frozenset([VECTORS_NPY, WORDS_TXT, COUNTS_NPY]),
    "projector": frozenset([_VECTORS_TSV, _METADATA_TSV]),
}
"""Format → the names of all files that its folder may have."""


def vector_files(table: WordTable, form: str) -> Mapping[str, Iterator[bytes]]:
    """The files of a format and the chunks of each; where it is one file, under the format's name.

    Counts that are unknown are not written. The projector wants words alone without a name above them.
    """
    if form == "numpy":
        files = {
            VECTORS_NPY: _chunks(table, ["vector"], _floats, _npy_header((table.size, table.dim), "<f4")),
            WORDS_TXT: _chunks(table, ["word"], _lines),
            COUNTS_NPY: _chunks(table, ["count"], _whole, _npy_header((table.size,), "<i8")),
        }
        return files if table.counts_known else {name: files[name] for name in (VECTORS_NPY, WORDS_TXT)}
    if form == "projector":
        metadata = _chunks(table, ["word"], _lines)
        if table.counts_known:
            metadata = _chunks(table, ["word", "count"], _counted_rows, b"word\tcount\n")
        return {_VECTORS_TSV: _chunks(table, ["vector"], _tab_rows), _METADATA_TSV: metadata}
    head = None if form == "glove" else f"{table.size} {table.dim}\n".encode()
    return {form: _chunks(table, ["word", "vector"], _binary_rows if form == "word2vec-binary" else _text_rows, head)}
