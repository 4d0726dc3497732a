"""Exact nearest neighbours: every vector is compared with every query, in memory or as the vectors stream by.

Nothing here needs faiss but `ExactNeighbours`: hits are what lexical search gives, too.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wordpipe.metrics import unit_rows

DEPTH = 20  # true neighbours that are known of a held-out query: as rows go, ten are to be left
_DRAWN_AT_ONCE = 4_096  # vectors
_CHANCE_SEED = 0xC4A2CE
_SCORES_AT_ONCE = 1 << 24  # of a block of vectors: 64 MiB of float32

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Blocks = Callable[[], Iterator[Vectors]]
"""Gives the vectors from the beginning, as (B, D) blocks, every time it is called."""


class StoredVectors(Protocol):
    """A reader of the unit vectors of rows in a file: (R, D) of R rows, ascending."""

    def read(self, rows_R: Rows) -> Vectors:
        """Return vectors of rows."""


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


def nearest(queries_QD: Vectors, blocks: Iterable[Vectors], k: int) -> list[Hits]:
    """Return the k rows with the largest inner product for every query, among (B, D) blocks of vectors in row order.

    A vector that is zero has no direction: such a query finds nothing, and such a row is not found.
    """
    found = [Hits.none()] * len(queries_QD)
    directed = np.flatnonzero(queries_QD.any(axis=1))
    queries_AD = queries_QD[directed]
    first = 0
    for all_BD in blocks:
        there = np.flatnonzero(all_BD.any(axis=1))
        rows_B, block_BD = first + there, all_BD if len(there) == len(all_BD) else all_BD[there]
        for number, scores_B in zip(directed.tolist(), queries_AD @ block_BD.T, strict=True):
            hits = found[number]  # most blocks bring few that are better
            better = np.flatnonzero(scores_B > hits.scores[-1]) if len(hits) == k else np.arange(len(rows_B))
            if len(better):
                rows = np.concatenate([hits.rows, rows_B[better]])
                found[number] = best_of(rows, np.concatenate([hits.scores, scores_B[better]]), k)
        first += len(all_BD)
    return found


class VectorTable:
    """N vectors in memory, all compared with every query.

    Args:
        vectors_ND: the vectors.
    """

    def __init__(self, vectors_ND: Vectors) -> None:
        self._vectors_ND = vectors_ND

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k rows with the largest product with each query; zero vectors find nothing and are not found."""
        at_once = max(1, _SCORES_AT_ONCE // max(len(queries_QD), 1))
        every_ND = self._vectors_ND
        return nearest(queries_QD, (every_ND[first : first + at_once] for first in range(0, len(every_ND), at_once)), k)

    def vectors(self, rows_R: Rows) -> Vectors:
        """Return the vectors of some rows."""
        return self._vectors_ND[rows_R]


class VectorStream:
    """N vectors, of length 1 or 0, that are read anew for every search, and all compared with every query.

    Args:
        blocks: gives all vectors.
        stored: those of some rows.
    """

    def __init__(self, blocks: Blocks, stored: StoredVectors) -> None:
        self._blocks, self._stored = blocks, stored

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k rows with the largest product with each query, as the vectors stream by."""
        return nearest(queries_QD, self._blocks(), k)

    def vectors(self, rows_R: Rows) -> Vectors:
        """Return the vectors of some rows, ascending."""
        return self._stored.read(rows_R)


class ChanceVectors:
    """N unit vectors drawn by a seed: a control without meaning, for measuring what real vectors bring.

    They are drawn anew for every search, some thousand rows at a time, so that memory does not grow with N.

    Args:
        n: rows.
        dim: numbers of a vector.
    """

    def __init__(self, n: int, dim: int) -> None:
        self._n, self._dim = n, dim

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k rows with the largest product with each query, among vectors drawn by chance."""
        return nearest(queries_QD, (self._block(first) for first in range(0, self._n, _DRAWN_AT_ONCE)), k)

    def vectors(self, rows_R: Rows) -> Vectors:
        """Return the vectors of some rows, ascending."""
        firsts_R = rows_R - rows_R % _DRAWN_AT_ONCE
        blocks = [self._block(first)[rows_R[firsts_R == first] - first] for first in np.unique(firsts_R).tolist()]
        return np.concatenate([np.zeros((0, self._dim), np.float32), *blocks])

    def _block(self, first: int) -> Vectors:
        return chance_vectors(min(_DRAWN_AT_ONCE, self._n - first), self._dim, first)


def chance_vectors(n: int, dim: int, stream: int) -> Vectors:
    """Return unit vectors by chance, (n, dim) float32, all directions equally likely, the same for the same `stream`."""
    rng = np.random.default_rng([_CHANCE_SEED, stream])
    return unit_rows(rng.standard_normal((n, dim), dtype=np.float32), least=1e-6)[0]


class ExactNeighbours:
    """The true nearest rows of some queries (unit vectors, no rows of what streams by), found while the vectors stream by.

    Attributes:
        scores: (Q, depth) float32, the largest first; -inf where there are not so many.
        near: (Q, depth) int64, their rows; -1 there.
        timed: whether all rows were looked at; where some were known already, the speed tells nothing.
        seconds: that it took.
    """

    def __init__(self, queries_QD: Vectors, *, depth: int = DEPTH) -> None:
        self.queries = queries_QD
        self.scores = np.full((len(queries_QD), depth), -np.inf, dtype=np.float32)
        self.near = np.full((len(queries_QD), depth), -1, dtype=np.int64)
        self.timed = True
        self.seconds = 0.0

    def look_at(self, rows_B: Rows, block_BD: Vectors) -> None:
        """Compare the vectors of these rows with the queries, exactly, for their nearest neighbours."""
        import faiss

        if not len(block_BD):
            return
        start, depth = time.perf_counter(), self.near.shape[1]
        most = min(depth + 1, len(block_BD))
        scores_QK, found_QK = faiss.knn(self.queries, block_BD, most, metric=faiss.METRIC_INNER_PRODUCT)
        self._keep_best(rows_B[found_QK], scores_QK)
        self.seconds += time.perf_counter() - start

    def take(self, other: "ExactNeighbours", *, at_once: int = 1) -> None:
        """Add what another has found for the same queries among later rows; of so many that look `at_once`."""
        self._keep_best(other.near, other.scores)
        self.seconds += other.seconds / at_once

    def _keep_best(self, near_QK: Rows, scores_QK: Vectors) -> None:
        """Keep the exactly nearest of the rows so far and of these later rows."""
        scores_QM = np.concatenate([self.scores, scores_QK], axis=1)
        near_QM = np.concatenate([self.near, near_QK], axis=1)
        best_QM = np.argsort(-scores_QM, axis=1, kind="stable")[:, : self.near.shape[1]]
        self.scores = np.take_along_axis(scores_QM, best_QM, axis=1)
        self.near = np.where(np.isneginf(self.scores), -1, np.take_along_axis(near_QM, best_QM, axis=1))

    @property
    def queries_per_s(self) -> float | None:
        """The speed of the exact search, in queries per second; None where there was none over all rows."""
        return len(self.queries) / self.seconds if self.timed and self.seconds else None
