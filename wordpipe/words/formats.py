"""Word vectors in the formats of the original word2vec tool, which gensim, fastText and many others read.

Both begin with a line of the number of words and of dimensions. The text format has a line per word; the binary format
has the word, a space, the numbers as little-endian float32, and a newline. A space ends the word in both, so a word with
a space in it cannot be written.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.errors import InputError
from wordpipe.words.table import WordVectors

__all__ = ["word2vec_binary", "word2vec_text"]

_ROWS = 4_096  # words per chunk
_SEPARATOR = re.compile(r"[ \t\n\r\v\f]")


def word2vec_text(table: WordVectors) -> Iterator[bytes]:
    """The text format, in chunks; numbers have the digits that give the same float32 back.

    Raises:
        InputError: a word is empty or has a space in it; raised before the first chunk.
    """
    _check_words(table.words)
    yield _header(table)
    for first in range(0, len(table), _ROWS):
        vectors_RD = table.vectors[first : first + _ROWS]
        numbers = pa.array(vectors_RD.astype(np.float32).ravel()).cast(pa.string())
        rows = pa.ListArray.from_arrays(np.arange(len(vectors_RD) + 1, dtype=np.int32) * table.dim, numbers)
        words = pa.array(table.words[first : first + _ROWS], pa.string())
        lines = pc.binary_join_element_wise(words, pc.binary_join(rows, " "), " ")
        yield "\n".join([*lines.to_pylist(), ""]).encode()


def word2vec_binary(table: WordVectors) -> Iterator[bytes]:
    """The binary format, in chunks.

    Raises:
        InputError: a word is empty or has a space in it; raised before the first chunk.
    """
    _check_words(table.words)
    yield _header(table)
    for first in range(0, len(table), _ROWS):
        vectors_RD = table.vectors[first : first + _ROWS].astype("<f4")
        words = table.words[first : first + _ROWS]
        yield b"".join(
            b"%s %s\n" % (word.encode(), vector.tobytes()) for word, vector in zip(words, vectors_RD, strict=True)
        )


def _header(table: WordVectors) -> bytes:
    return f"{len(table)} {table.dim}\n".encode()


def _check_words(words: Sequence[str]) -> None:
    for row, word in enumerate(words):
        if not word or _SEPARATOR.search(word):
            raise InputError(
                "the word2vec formats cannot hold a word that is empty or has a space in it",
                where=f"row {row}",
                got=repr(word),
                hint="use the Parquet file of the artifact itself, which any Parquet reader opens",
            )
