"""The exact neighbours of a few queries, among vectors that stream by or lie in memory."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits, best_of

_SCORES_AT_ONCE = 1 << 24  # of a block of vectors: 64 MiB of float32


def nearest(queries_QD: npt.NDArray[np.float32], blocks: Iterable[npt.NDArray[np.float32]], k: int) -> list[Hits]:
    """The k rows of every query with the largest inner product, among (B, D) blocks of vectors in the order of their rows.

    A query that is zero has no direction and finds nothing.
    """
    found = [Hits.none()] * len(queries_QD)
    asked = np.flatnonzero(queries_QD.any(axis=1))
    queries_AD = queries_QD[asked]
    first = 0
    for block_BD in blocks:
        rows_B = np.arange(first, first + len(block_BD))
        for number, scores_B in zip(asked.tolist(), queries_AD @ block_BD.T, strict=True):
            found[number] = _better(found[number], rows_B, scores_B, k)
        first += len(block_BD)
    return found


def nearest_of(queries_QD: npt.NDArray[np.float32], vectors_ND: npt.NDArray[np.float32], k: int) -> list[Hits]:
    """The k rows of an array with the largest product with each query; zero vectors find nothing, and nothing finds them."""
    there = np.flatnonzero(vectors_ND.any(axis=1))
    at_once = max(1, _SCORES_AT_ONCE // max(len(queries_QD), 1))
    blocks = (vectors_ND[there[first : first + at_once]] for first in range(0, len(there), at_once))
    return [Hits(there[hits.rows], hits.scores) for hits in nearest(queries_QD, blocks, k)]


def _better(hits: Hits, rows_B: npt.NDArray[np.int64], scores_B: npt.NDArray[np.float32], k: int) -> Hits:
    """The k best of those found and those that come; most blocks bring few."""
    coming = np.flatnonzero(scores_B > hits.scores[-1]) if len(hits) == k else np.arange(len(rows_B))
    if not len(coming):
        return hits
    rows = np.concatenate([hits.rows, rows_B[coming]])
    return best_of(rows, np.concatenate([hits.scores, scores_B[coming]]), k)
