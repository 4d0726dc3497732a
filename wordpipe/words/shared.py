"""The words that two tables have in common, found without reading their vectors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts.vectors import matrix_of
from wordpipe.words.movement import joint_counts
from wordpipe.words.vocabulary import WordList

__all__ = ["Listing", "Shared", "shared_words", "unshared_words", "vectors_of"]


@dataclass(frozen=True, slots=True)
class Listing:
    """The words of a table and their counts, the commonest first, without vectors.

    Attributes:
        words: V different strings.
        counts: (V,) int64.
    """

    words: WordList
    counts: npt.NDArray[np.int64]

    @classmethod
    def from_batches(cls, batches: Iterable[pa.RecordBatch]) -> "Listing":
        """From batches with the columns word and count."""
        some = list(batches)
        words = pa.chunked_array([batch.column("word") for batch in some], pa.string())
        counts = [batch.column("count").to_numpy(zero_copy_only=False) for batch in some]
        return cls(WordList(words), np.concatenate([np.zeros(0, np.int64), *counts]))

    def __len__(self) -> int:
        return len(self.counts)

    def often(self, min_count: int) -> npt.NDArray[np.bool_]:
        """Which words occur `min_count` times or more: all of them, where nobody counted and every count is 0, (V,)."""
        enough: npt.NDArray[np.bool_] = (self.counts >= min_count) | ~self.counts.any()
        return enough


@dataclass(frozen=True, slots=True)
class Shared:
    """N words that are in two tables, the commonest first.

    Attributes:
        rows_a: their rows in the first table, (N,) int64.
        rows_b: their rows in the second table.
        all: how many words the tables share.
        rare: how many of these are left out because a count is below the least.
        beyond: how many are left out because the list is full.
    """

    rows_a: npt.NDArray[np.int64]
    rows_b: npt.NDArray[np.int64]
    all: int
    rare: int
    beyond: int


def shared_words(a: Listing, b: Listing, *, most: int, min_count: int, asked: Sequence[int] = ()) -> Shared:
    """The `most` commonest words that are spelled the same in both, common in both (see `joint_counts`).

    Args:
        a: the first table.
        b: the second table.
        most: so many at most.
        min_count: words that occur fewer times in either text are left out.
        asked: rows of `a` that are not left out where `b` has the word, for whichever reason.
    """
    found = pc.index_in(a.words.array, value_set=b.words.array).to_numpy(zero_copy_only=False)
    rows_a = np.flatnonzero(~np.isnan(found))
    rows_b = found[rows_a].astype(np.int64)
    counts_a, counts_b = a.counts[rows_a], b.counts[rows_b]
    order = np.argsort(-joint_counts(counts_a, counts_b), kind="stable")
    common = (a.often(min_count)[rows_a] & b.often(min_count)[rows_b])[order]
    rank = np.cumsum(common)
    kept = (common & (rank <= most)) | np.isin(rows_a[order], np.array(asked, dtype=np.int64))
    picked = order[kept]
    rare = int((~common & ~kept).sum())
    return Shared(rows_a[picked], rows_b[picked], len(order), rare, len(order) - rare - len(picked))


def unshared_words(
    these: Listing, others: Listing, *, most: int, min_count: int
) -> tuple[int, list[dict[str, str | int]]]:
    """How many of the words that occur `min_count` times or more the others lack, and the `most` commonest: word, count."""
    lacking = ~pc.is_in(these.words.array, value_set=others.words.array).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lacking & these.often(min_count))
    first = rows[np.argsort(-these.counts[rows], kind="stable")][:most]
    words = these.words.array.take(pa.array(first)).to_pylist()
    counts = these.counts[first].tolist()
    return len(rows), [{"word": word, "count": count} for word, count in zip(words, counts, strict=True)]


def vectors_of(batches: Iterable[pa.RecordBatch], rows_N: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """The vectors of some rows, in the order asked, (N, D) float32; no others stay in memory.

    Args:
        batches: the column vector of the whole table.
        rows_N: different rows.
    """
    order_N = np.argsort(rows_N)
    sorted_N = rows_N[order_N]
    vectors_ND: npt.NDArray[np.float32] | None = None
    first = 0
    for batch in batches:
        column = batch.column("vector")
        if vectors_ND is None:
            vectors_ND = np.empty((len(rows_N), column.type.list_size), dtype=np.float32)
        low, high = np.searchsorted(sorted_N, [first, first + len(batch)])
        block_BD = matrix_of(column)
        vectors_ND[order_N[low:high]] = block_BD[sorted_N[low:high] - first]
        first += len(batch)
    assert vectors_ND is not None
    assert not len(rows_N) or sorted_N[-1] < first, "a row is beyond the table"
    return vectors_ND
