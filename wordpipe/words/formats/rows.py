"""What every reader gives: some words at a time, as the file has them; and how a reading is checked on its way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wordpipe.errors import InputError

__all__ = ["MAX_DIM", "WordFile", "WordRows", "checked_dim", "refuse_other_number", "up_to_bad"]

MAX_DIM = 65_536


@dataclass(frozen=True, slots=True)
class WordRows:
    """Some words of a file, one after the other.

    Attributes:
        words: R words as bytes, UTF-8 if the file is right.
        vectors: (R, D) float32, all finite.
        places: the line, or the number of the word, that each stands at, from 1 on, int64.
        counts: how often each occurs, int64; None where the file does not say.
    """

    words: list[bytes]
    vectors: NDArray[np.float32]
    places: NDArray[np.int64]
    counts: NDArray[np.int64] | None = None

    def first(self, n: int) -> "WordRows":
        """The first `n`."""
        counts = None if self.counts is None else self.counts[:n]
        return WordRows(self.words[:n], self.vectors[:n], self.places[:n], counts)


@dataclass(frozen=True, slots=True)
class WordFile:
    """An open file (or folder) of word vectors.

    Attributes:
        format: word2vec-text, word2vec-binary, glove or numpy.
        dim: numbers per vector.
        size: words that the file says it holds; None where it does not say.
        place: what `WordRows.places` counts: "line" or "word".
        rows: the words, to be read once. Raises InputError where the file is malformed, and names the place.
    """

    format: str
    dim: int
    size: int | None
    place: str
    rows: Iterator[WordRows]


def up_to_bad(rows: WordRows, error: Callable[[int], InputError]) -> Iterator[WordRows]:
    """The rows before the first that has a number which is not finite; then its error, if more are asked for.

    Raises:
        InputError: what `error` says of that row, once the rows before it were taken.
    """
    bad = np.flatnonzero(~np.isfinite(rows.vectors).all(axis=1))[:1]
    yield rows.first(int(bad[0])) if len(bad) else rows
    for row in bad:
        raise error(int(row))


def checked_dim(dim: int, where: str) -> int:
    """`dim` if vectors may be so wide.

    Raises:
        InputError: they may not.
    """
    if not 1 <= dim <= MAX_DIM:
        raise InputError("not a width of vectors", where=where, got=dim, expected=f"1 to {MAX_DIM}")
    return dim


def refuse_other_number(found: int, promised: int, where: str) -> None:
    """Refuse a file with more or fewer words than its header says.

    Raises:
        InputError: the numbers differ.
    """
    if found != promised:
        what = "ends before it holds" if found < promised else "goes on after"
        hint = (
            "the file is cut short: fetch or make it again" if found < promised else "--limit reads so many words only"
        )
        raise InputError(
            f"the file {what} all the words that its header promises",
            where=where,
            got=f"{found:,} words" if found < promised else "more",
            expected=f"{promised:,} words",
            hint=hint,
        )
