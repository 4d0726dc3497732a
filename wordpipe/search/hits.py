"""The answer to a query: rows and scores, the best first."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Hits:
    """The answer to one query, best first, equal scores in the order of rows."""

    rows: npt.NDArray[np.int64]  # row numbers, int64, as many as were found
    # float32: cosines from -1 to 1 of a dense search, BM25 above 0 of a lexical one, 0 to 1 of a mix
    scores: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, k: int) -> "Hits":
        """The best k."""
        return Hits(self.rows[:k], self.scores[:k])

    def where(self, keep: npt.NDArray[np.bool_]) -> "Hits":
        """Those that `keep`, (K,), names."""
        return Hits(self.rows[keep], self.scores[keep])

    def at_least(self, score: float | None) -> "Hits":
        """Those that score so much; all where None."""
        return self if score is None else self.where(self.scores >= score)

    @classmethod
    def none(cls) -> "Hits":
        """No answer."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))


def best_of(rows_N: npt.NDArray[np.integer], scores_N: npt.NDArray[np.float32], k: int) -> Hits:
    """The k best of some rows with their scores; among equal scores at the border the lowest rows."""
    if 0 < k < len(scores_N):
        border = np.partition(scores_N, len(scores_N) - k)[len(scores_N) - k]
        near = np.flatnonzero(scores_N >= border)
        rows_N, scores_N = rows_N[near], scores_N[near]
    order = np.lexsort((rows_N, -scores_N))[: max(k, 0)]
    return Hits(rows_N[order].astype(np.int64), scores_N[order].astype(np.float32))
