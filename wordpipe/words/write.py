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
_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}]"
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


def _array_chunks(table: WordTable, column: str, shape: tuple[int, ...], dtype: str) -> Iterator[bytes]:
    """A column as a .npy file."""
    head = io.BytesIO()
    npy.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    yield head.getvalue()
    for batch in table.batches([column]):
        values = batch.column(column)
        array = matrix_of(values) if column == "vector" else values.to_numpy(zero_copy_only=False)
        yield array.astype(dtype).tobytes()


def without_controls(column: pa.Array) -> pa.Array:
    """Text for labels on a screen: control characters, which could move a terminal's cursor, become U+FFFD."""
    return pc.replace_substring_regex(column, _CONTROLS, "\N{REPLACEMENT CHARACTER}")


def _line_chunks(
    table: WordTable, columns: Sequence[str], gap: str, head: str = "", *, shown: bool = False
) -> Iterator[bytes]:
    """A line per word of these columns; numbers have the digits that give the same float32 back.

    What is shown and never read back is without control characters.
    """
    if head:
        yield head.encode()
    for batch in table.batches(columns):
        texts = [_texts(batch.column(name), gap) for name in columns]
        texts = [without_controls(text) for text in texts] if shown else texts
        yield "\n".join([*pc.binary_join_element_wise(*texts, gap).to_pylist(), ""]).encode()


def _texts(column: pa.Array, gap: str) -> pa.Array:
    """The values of a column as text, (N,); those of a vector side by side."""
    if not pa.types.is_fixed_size_list(column.type):
        return column.cast(pa.string())
    ends = np.arange(len(column) + 1, dtype=np.int32) * column.type.list_size
    return pc.binary_join(pa.ListArray.from_arrays(ends, column.flatten().cast(pa.string())), gap)


def _binary_chunks(table: WordTable, head: str) -> Iterator[bytes]:
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
    """The files of a format and the chunks of each; where it is one file, under the format's name.

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
