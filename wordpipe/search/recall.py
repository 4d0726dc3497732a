"""How much of the truth an index finds: rows that it does not hold, asked both ways."""

import time
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.metrics.vectors import recall_at_k
from wordpipe.search.kinds import Width

__all__ = ["K", "ExactNeighbours", "Measurement", "measure"]

K = 10


@dataclass(frozen=True, slots=True)
class Measurement:
    """One width of search, measured.

    Attributes:
        width: how wide.
        recall_at_10: share of the true ten nearest found.
        queries_per_s: answered in one batch.
    """

    width: Width
    recall_at_10: float
    queries_per_s: float


class ExactNeighbours:
    """The true nearest rows of some queries, found while the vectors stream by.

    Args:
        queries_QD: unit vectors.
        rows_Q: their row numbers where the index holds the queries themselves, which are then left out of the answers.
        depth: how many are kept of each, at least ten.

    Attributes:
        scores: (Q, depth) float32, the largest first; -inf where there are not so many.
        near: (Q, depth) int64, their rows; -1 there.
        timed: whether all rows were looked at; where some were known already, the speed tells nothing.
    """

    def __init__(
        self, queries_QD: npt.NDArray[np.float32], rows_Q: npt.NDArray[np.int64] | None = None, *, depth: int = K
    ) -> None:
        self.queries = queries_QD
        self.rows = rows_Q if rows_Q is not None else np.full(len(queries_QD), -1)
        self.scores = np.full((len(queries_QD), depth), -np.inf, dtype=np.float32)
        self.near = np.full((len(queries_QD), depth), -1, dtype=np.int64)
        self.timed = True
        self._depth = depth
        self._seconds = 0.0

    def look_at(self, rows_B: npt.NDArray[np.int64], block_BD: npt.NDArray[np.float32]) -> None:
        """Take the vectors of these rows into account."""
        if not len(block_BD):
            return
        start = time.perf_counter()
        scores_QK, found_QK = faiss.knn(
            self.queries, block_BD, min(self._depth + 1, len(block_BD)), metric=faiss.METRIC_INNER_PRODUCT
        )
        near_QK = rows_B[found_QK]
        scores_QM = np.concatenate([self.scores, _without_self(scores_QK, near_QK, self.rows)], axis=1)
        near_QM = np.concatenate([self.near, near_QK], axis=1)
        best_QM = np.argsort(-scores_QM, axis=1, kind="stable")[:, : self._depth]
        self.scores = np.take_along_axis(scores_QM, best_QM, axis=1)
        self.near = np.where(np.isneginf(self.scores), -1, np.take_along_axis(near_QM, best_QM, axis=1))
        self._seconds += time.perf_counter() - start

    def of(self, some: npt.NDArray[np.int64]) -> "ExactNeighbours":
        """What is known of some of the queries, by their places."""
        part = ExactNeighbours(self.queries[some], self.rows[some], depth=self._depth)
        part.scores, part.near = self.scores[some], self.near[some]
        return part

    @property
    def queries_per_s(self) -> float | None:
        """The speed of the exact search; None where there was none over all rows."""
        return len(self.queries) / self._seconds if self.timed and self._seconds else None


def measure(index: Any, width: Width, truth: ExactNeighbours) -> Measurement:
    """Ask the index the same queries, and compare.

    Args:
        index: a faiss index tuned to `width`.
        width: what the measurement is of.
        truth: the queries and the true scores.
    """
    own = bool((truth.rows >= 0).any())
    start = time.perf_counter()
    scores_QK, rows_QK = index.search(truth.queries, K + own)
    seconds = time.perf_counter() - start
    scores_QK = _without_self(scores_QK, rows_QK, truth.rows)
    found_QK = -np.sort(-scores_QK, axis=1)[:, :K]
    recall = recall_at_k(found_QK, truth.scores[:, :K])
    return Measurement(width, recall, len(truth.queries) / max(seconds, 1e-9))


def _without_self(
    scores_QK: npt.NDArray[np.float32], rows_QK: npt.NDArray[np.int64], rows_Q: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """The scores, with -inf for the query's own row and where faiss had no answer (row -1)."""
    missing_QK = (rows_QK == rows_Q[:, None]) | (rows_QK < 0)
    return np.where(missing_QK, np.float32(-np.inf), scores_QK)
