"""The hits of a query: rows with their scores, in one order whatever found them, and the best of many.

Shapes: N rows, K hits.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Doublings = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hits:
    """The hits of one query, best first, equal scores in the order of rows."""

    rows: Rows  # row numbers, int64, as many as were found
    # float32: cosines from -1 to 1 of a dense search, BM25 above 0 of a lexical one, 0 to 1 of a hybrid one
    scores: Vectors

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, k: int) -> "Hits":
        """Return the best k hits."""
        return Hits(self.rows[:k], self.scores[:k])

    def after(self, offset: int) -> "Hits":
        """Return the hits without the first ones."""
        return Hits(self.rows[offset:], self.scores[offset:])

    def where(self, keep: Mask) -> "Hits":
        """Return the hits that `keep`, (K,), names."""
        return Hits(self.rows[keep], self.scores[keep])

    def one_of_each(self, groups_N: npt.NDArray[np.integer]) -> "Hits":
        """Return the first hit of each group of rows, such as a document, in their order; the rows' groups are given."""
        _, first = np.unique(groups_N[self.rows], return_index=True)
        first = np.sort(first)
        return Hits(self.rows[first], self.scores[first])

    def at_least(self, score: float | None) -> "Hits":
        """Return the hits that score so much; all where None."""
        return self if score is None else self.where(self.scores >= score)

    @classmethod
    def none(cls) -> "Hits":
        """Return hits of nothing found."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))


def best_of(rows_N: npt.NDArray[np.integer], scores_N: Vectors, k: int) -> Hits:
    """Return the k exactly nearest of some rows with their scores; of equal scores the lowest rows.

    Among equal scores at the border the lowest rows.
    """
    if 0 < k < len(scores_N):
        border = np.partition(scores_N, len(scores_N) - k)[len(scores_N) - k]
        near = np.flatnonzero(scores_N >= border)
        rows_N, scores_N = rows_N[near], scores_N[near]
    order = np.lexsort((rows_N, -scores_N))[: max(k, 0)]
    return Hits(rows_N[order].astype(np.int64), scores_N[order].astype(np.float32))


def weighed(hits: Hits, doublings_N: Doublings, first: int) -> Hits:
    """Return hits in the order of their scores times 2 to the power of a number of each row: newer or popular rows come first.

    Only the `first` hits change places; the others follow, none with more than the last of these. Scores that are not above 0
    stay as they are and come last. The order is that of the logarithms, in which no factor is too small.

    Args:
        hits: the best first.
        doublings_N: (N,) float64, how often the score of each row is doubled; negative where it is halved.
        first: hits that are compared anew.
    """
    head, tail = hits.first(first), hits.after(first)
    real, others = head.where(head.scores > 0), head.where(head.scores <= 0)
    powers = np.log2(real.scores.astype(np.float64)) + doublings_N[real.rows]
    order = np.lexsort((real.rows, -powers))
    rows = np.concatenate([real.rows[order], others.rows, tail.rows])
    scores = np.concatenate([np.exp2(powers[order]).astype(np.float32), others.scores])
    low = scores[-1:] if len(scores) else np.full(1, np.inf, np.float32)
    later = np.minimum(tail.scores, low)
    return Hits(rows, np.concatenate([scores, later]))
