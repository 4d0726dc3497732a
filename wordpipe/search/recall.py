"""How much of the truth an index finds: a sample of its own vectors asked both ways.

The queries are rows of the index, each without itself, so they are of the same kind as what is searched. That is a little
kind to a graph, which knows its own rows; foreign queries may find slightly less.
"""

import time
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.metrics.recall import recall_at_k

__all__ = ["ExactNeighbours", "Measurement", "measure"]

K = 10


@dataclass(frozen=True, slots=True)
class Measurement:
    """One search width, measured.

    Attributes:
        width: efSearch or nprobe; 0 for an exact index.
        recall_at_10: share of the true ten nearest found.
        queries_per_s: answered in one batch.
    """

    width: int
    recall_at_10: float
    queries_per_s: float


class ExactNeighbours:
    """The true ten nearest of some rows, found while the vectors stream by.

    Args:
        queries_QD: unit vectors.
        rows_Q: their row numbers, left out of the answers.
    """

    def __init__(self, queries_QD: npt.NDArray[np.float32], rows_Q: npt.NDArray[np.int64]) -> None:
        self.queries = queries_QD
        self.rows = rows_Q
        self.scores = np.full((len(queries_QD), K), -np.inf, dtype=np.float32)
        self._seconds = 0.0

    def look_at(self, first: int, block_BD: npt.NDArray[np.float32]) -> None:
        """Take the vectors of rows `first` and following into account."""
        start = time.perf_counter()
        scores_QK, rows_QK = faiss.knn(
            self.queries, block_BD, min(K + 1, len(block_BD)), metric=faiss.METRIC_INNER_PRODUCT
        )
        scores_QK = _without_self(scores_QK, rows_QK + first, self.rows)
        merged_QK = np.concatenate([self.scores, scores_QK], axis=1)
        self.scores = -np.sort(-merged_QK, axis=1)[:, :K]
        self._seconds += time.perf_counter() - start

    @property
    def queries_per_s(self) -> float:
        """The speed of the exact search."""
        return len(self.queries) / self._seconds if self._seconds else 0.0


def measure(index: Any, width: int, truth: ExactNeighbours) -> Measurement:
    """Ask the index the same queries, and compare."""
    start = time.perf_counter()
    scores_QK, rows_QK = index.search(truth.queries, K + 1)
    seconds = time.perf_counter() - start
    scores_QK = _without_self(scores_QK, rows_QK, truth.rows)
    found_QK = -np.sort(-scores_QK, axis=1)[:, :K]
    return Measurement(width, recall_at_k(found_QK, truth.scores), len(truth.queries) / seconds)


def _without_self(
    scores_QK: npt.NDArray[np.float32], rows_QK: npt.NDArray[np.int64], rows_Q: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """The scores, with -inf for the query's own row and where faiss had no answer (row -1)."""
    missing_QK = (rows_QK == rows_Q[:, None]) | (rows_QK < 0)
    return np.where(missing_QK, np.float32(-np.inf), scores_QK)
