"""Asking an index: every answer is a real row with a real score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.search.vectors import faiss_threads, unit_vectors

__all__ = ["Hits", "search"]


@dataclass(frozen=True, slots=True)
class Hits:
    """The answer to one query, best first, equal scores in the order of rows.

    Attributes:
        rows: row numbers, int64, as many as were found.
        scores: cosines from -1 to 1, float32.
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)


def search(index: Any, queries_QD: npt.NDArray[np.float32], k: int, *, threads: int = 0) -> list[Hits]:
    """The k nearest rows of every query.

    Args:
        index: a faiss index of unit vectors under inner product.
        queries_QD: vectors of any length but zero.
        k: answers wanted; fewer come where the index has fewer or finds fewer.
        threads: 0 for one per core.

    Raises:
        InputError: a query is zero or not finite, or is not as wide as the index.
    """
    if queries_QD.shape[1] != index.d:
        raise InputError("query and index are of different width", got=queries_QD.shape[1], expected=index.d)
    k = min(k, index.ntotal)
    if k <= 0 or not len(queries_QD):
        nothing = Hits(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
        return [nothing] * len(queries_QD)
    queries_QD = unit_vectors(queries_QD, error=InputError)
    with faiss_threads(threads):
        scores_QK, rows_QK = index.search(queries_QD, k)
    return [_in_order(scores_K, rows_K) for scores_K, rows_K in zip(scores_QK, rows_QK, strict=True)]


def _in_order(scores_K: npt.NDArray[np.float32], rows_K: npt.NDArray[np.int64]) -> Hits:
    """Leave out what faiss did not find (row -1), keep cosines in their range, order ties."""
    there = (rows_K >= 0) & np.isfinite(scores_K)
    scores_K, rows_K = scores_K[there].clip(-1, 1), rows_K[there]
    order = np.lexsort((rows_K, -scores_K))
    return Hits(rows_K[order], scores_K[order])
