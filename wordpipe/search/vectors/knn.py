"""Exact nearest neighbours: every vector is compared with every query, in memory or as the vectors stream by.

Nothing here needs faiss but `ExactNeighbours`: hits are what lexical search gives, too.

Vectors that are stored as int8 stay so in memory, a byte for a number. A cosine is the product of the query with the numbers
in float32, times the scale: that of the vector itself, to rounding. Every product is summed up alone, so that equal vectors
have equal scores, and a query has the same ones alone and among others.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import unit_vectors
from wordpipe.errors import DamageError, InputError
from wordpipe.metrics import unit_rows
from wordpipe.search.hits import Hits, Mask, Rows, Vectors, best_of

DEPTH = 20  # true neighbours that are known of a held-out query: as rows go, ten are to be left
_DRAWN_AT_ONCE = 4_096  # vectors
_CHANCE_SEED = 0xC4A2CE
_SCORES_AT_ONCE = 1 << 24  # of a block of vectors: 64 MiB of float32
_NUMBERS_AT_ONCE = 1 << 17  # of stored vectors that become float32: half a MiB, which the processor has at hand
_ROUNDING = 1e-5  # by which the length of a vector may be off
COMPILED_FROM = 50_000
"""Rows of a server, from which compiled loops are worth 0.5 s at its start and 120 MB: a hybrid question takes 2.4 ms of
processor time with them and 3.3 with NumPy at 100,000 texts, 2.4 and 2.6 at 20,000. From so many on, vectors and words are
also searched at the same time: to hand one over to another thread takes 0.1 ms, which few rows do not save."""

Blocks = Callable[[], Iterator[Vectors]]
"""Gives the vectors from the beginning, as (B, D) blocks, every time it is called."""


class StoredVectors(Protocol):
    """A reader of the unit vectors of rows in a file: (R, D) of R rows, ascending."""

    def read(self, rows_R: Rows) -> Vectors:
        """Return vectors of rows."""


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


class MayCompile:
    """Rows, and loops over them: by NumPy at first, compiled ones once many queries come."""

    def __len__(self) -> int:
        raise NotImplementedError

    def compile(self) -> None:
        """Load the compiled loops, and use them from now on."""
        raise NotImplementedError

    def compile_meanwhile(self) -> None:
        """Load compiled loops in a thread when the next query comes, which does not wait; not of few rows."""
        if len(self) >= COMPILED_FROM:
            self.__dict__["_compiler"] = Thread(target=self.compile, name="compile", daemon=True)

    def begin_compiling(self) -> None:
        """Start the thread, if there is one to start: called by every query."""
        if (thread := self.__dict__.pop("_compiler", None)) is not None:
            thread.start()


class ByteVectors(MayCompile):
    """M unit vectors in memory as they are stored, as int8 with a scale for each; see `artifacts.vectors`.

    A byte is read where float32 has four. Of 200,000 vectors of width 384 a query compares all in 22 ms of processor time, two
    thirds of it for numbers to become float32, once for all queries; by the compiled loop in 4.3. FAISS takes 12 with float32
    in memory (eight queries at once: 76, 26 and 90).

    Args:
        n: how many.
        dim: their width.
    """

    def __init__(self, n: int, dim: int) -> None:
        self.dim = dim
        self.loops: Any = None  # the compiled ones
        self._stored_MB = np.empty((n, 4 + dim), np.uint8)
        self.scale_M: Vectors = self._stored_MB[:, :4].view(np.float32)[:, 0]
        self.numbers_MD: npt.NDArray[np.int8] = self._stored_MB[:, 4:].view(np.int8)

    def __len__(self) -> int:
        return len(self._stored_MB)

    @classmethod
    def read(cls, blocks: Iterable[npt.NDArray[np.uint8]], n: int, dim: int) -> "ByteVectors | None":
        """Return the vectors of some bytes, (B, 4 + D) at a time; None where there are none.

        Raises:
            DamageError: their number or width is another one, or a vector is zero or not finite.
        """
        found, first = cls(n, dim), 0
        for block_BB in blocks:
            stop = first + len(block_BB)
            if stop > n or block_BB.shape[1] != 4 + dim:
                got, expected = f"at least {stop:,} vectors of width {block_BB.shape[1] - 4}", f"{n:,} of width {dim}"
                raise DamageError("the stored vectors are not those of the index", got=got, expected=expected)
            found._stored_MB[first:stop] = block_BB
            found._check(first, stop)
            first = stop
        if first not in (0, n):
            raise DamageError("vectors are missing", got=f"{first:,}", expected=f"{n:,}")
        return found if first else None

    def _check(self, first: int, stop: int) -> None:
        """Refuse vectors that are zero or not finite, and bring to length 1 what is not."""
        step = max(1, _NUMBERS_AT_ONCE // max(1, self.dim))
        for rows in (slice(at, min(at + step, stop)) for at in range(first, stop, step)):
            numbers_BD = self.numbers_MD[rows].astype(np.float32)
            norms_B = self.scale_M[rows] * np.sqrt(np.vecdot(numbers_BD, numbers_BD))
            if (np.abs(norms_B - 1) <= _ROUNDING).all():
                continue
            unit_vectors(self.vectors(np.arange(stop)[rows]), first=rows.start, error=DamageError)  # says which is bad
            self.scale_M[rows] /= np.where(np.abs(norms_B - 1) > _ROUNDING, np.abs(norms_B), 1)

    def vectors(self, numbers_R: Rows) -> Vectors:
        """Return some vectors, (R, D) float32."""
        stored_RB = self._stored_MB[numbers_R]
        return np.multiply(stored_RB[:, 4:].view(np.int8), stored_RB[:, :4].view(np.float32), dtype=np.float32)

    def compile(self) -> None:
        """Compare by a compiled loop from now on, which is loaded here: scores differ by rounding, 3e-8 at width 384."""
        from wordpipe.search import kernels

        if len(self):
            numbers_R, query_1D = np.zeros(1, np.int64), np.zeros((1, self.dim), np.float32)
            scores_11 = np.empty((1, 1), np.float32)
            kernels.add_up(self._stored_MB, self.scale_M, numbers_R, query_1D, scores_11)
            kernels.best_of(numbers_R, scores_11[0], 1)
            counts_1 = np.empty(1, np.int64)
            kernels.nearest_of_each(
                self._stored_MB,
                self.scale_M,
                numbers_R[None],
                query_1D,
                np.empty((1, 1), np.int64),
                scores_11,
                counts_1,
            )
        self.loops = kernels

    def nearest_of_each(self, queries_QD: Vectors, k: int, numbers_QR: Rows) -> list[Hits]:
        """Return the k nearest of some vectors for every query, which are other ones for each; -1: none."""
        self.begin_compiling()
        if (loops := self.loops) is None:
            pairs = zip(queries_QD[:, None], numbers_QR, strict=True)
            return [self.nearest(query_1D, k, numbers_R[numbers_R >= 0])[0] for query_1D, numbers_R in pairs]
        shape = len(queries_QD), min(k, numbers_QR.shape[1])
        found_QK, scores_QK, kept_Q = (
            np.empty(shape, np.int64),
            np.empty(shape, np.float32),
            np.empty(shape[0], np.int64),
        )
        queries_QD = np.ascontiguousarray(queries_QD)
        loops.nearest_of_each(self._stored_MB, self.scale_M, numbers_QR, queries_QD, found_QK, scores_QK, kept_Q)
        return [Hits(found_QK[at, :n], scores_QK[at, :n]) for at, n in enumerate(kept_Q.tolist())]

    def nearest(self, queries_QD: Vectors, k: int, among_R: Rows | None = None) -> list[Hits]:
        """Return the k nearest of all vectors, or of some, for every query of length 1; the hits have their numbers."""
        n = len(self) if among_R is None else len(among_R)
        numbers_R = np.arange(n) if among_R is None else among_R
        self.begin_compiling()
        if (loops := self.loops) is not None:
            found = []
            for first in range(0, len(queries_QD), at_once := max(1, _SCORES_AT_ONCE // max(n, 1))):
                some_QD = np.ascontiguousarray(queries_QD[first : first + at_once])
                scores_QR = np.empty((len(some_QD), n), np.float32)
                loops.add_up(self._stored_MB, self.scale_M, numbers_R, some_QD, scores_QR)
                np.clip(scores_QR, -1, 1, scores_QR)
                found += [loops.best_of(numbers_R, scores_R, k) for scores_R in scores_QR]
            return found
        step = max(1, min(n, _NUMBERS_AT_ONCE // max(1, self.dim)))
        # what is read and computed lies in the same two places again and again: new ones would cost more than the products
        stored_SB, numbers_SD = np.empty((step, 4 + self.dim), np.uint8), np.empty((step, self.dim), np.float32)
        found, at_once = [], max(1, _SCORES_AT_ONCE // max(n, 1))
        for some_Q1D in (queries_QD[first : first + at_once, None] for first in range(0, len(queries_QD), at_once)):
            scores_QR = np.empty((len(some_Q1D), n), np.float32)
            for first in range(0, n, step):
                stop = min(n, first + step)
                if among_R is None:
                    stored_BB = self._stored_MB[first:stop]
                else:
                    stored_BB = np.take(self._stored_MB, among_R[first:stop], 0, stored_SB[: stop - first])
                np.copyto(numbers_BD := numbers_SD[: stop - first], stored_BB[:, 4:].view(np.int8))
                scores_QB = np.vecdot(numbers_BD, some_Q1D, scores_QR[:, first:stop])
                scores_QB *= stored_BB[:, :4].view(np.float32)[:, 0]
            np.clip(scores_QR, -1, 1, scores_QR)
            found += [best_of(numbers_R, scores_R, k) for scores_R in scores_QR]
        return found


class FoundRows:
    """N rows of which M have a unit vector, found by its inner product with a query's vector.

    The vectors are numbered by themselves, so that rows without one are nowhere in a graph or in lists, and none is found by
    chance; outside, all is by the number of the row.

    Args:
        n: M.
        dim: their width.
        allowed: (N,) which rows may be found; all where None.
        with_vector: (M,) the row of each vector, ascending; None where all have one.
    """

    _stored: ByteVectors | None = None  # the vectors as they are stored, where these are compared

    def __init__(self, n: int, dim: int, allowed: Mask | None = None, with_vector: Rows | None = None) -> None:
        self._n, self._dim, self._with_vector = n, dim, with_vector
        self._allowed = allowed if allowed is None or with_vector is None else allowed[with_vector]
        # vectors that may be found: `sum` of a million took 2 ms
        self._there = n if self._allowed is None else int(np.count_nonzero(self._allowed))

    def near(self, vector_1D: Vectors, row: int, k: int, documents_N: npt.NDArray[np.integer] | None = None) -> Hits:
        """Return the k rows nearest to a row's vector, but for that row; given documents of all rows, the best row of each."""
        depth = k + 1
        while True:
            (near,) = self.search(vector_1D, depth)
            found = near.where(near.rows != row)
            found = found if documents_N is None else found.one_of_each(documents_N)
            if len(found) >= k or len(near) < depth:
                return found.first(k)
            depth *= 4

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k nearest rows of every query, those alone that may be found; none of a query that is zero.

        Args:
            queries_QD: vectors of any length.
            k: hits wanted.

        Raises:
            InputError: a query is not finite, or is not as wide as the vectors.
        """
        if queries_QD.shape[1] != self._dim:
            raise InputError(
                "the vector of the query and the vectors of the index have different widths",
                got=queries_QD.shape[1],
                expected=self._dim,
            )
        found = [Hits.none()] * len(queries_QD)
        wanted = min(k, self._there)
        directed = np.flatnonzero(queries_QD.any(axis=1))
        if wanted > 0 and len(directed):
            queries_AD = unit_vectors(queries_QD[directed], error=InputError)
            for number, own in zip(directed.tolist(), self._neighbours(queries_AD, wanted), strict=True):
                rows = own.rows if self._with_vector is None else self._with_vector[own.rows]
                found[number] = Hits(rows, own.scores)
        return found

    def vectors(self, rows_R: Rows) -> Vectors:
        """Return the unit vectors of some rows, ascending; zero of a row without one.

        From memory: to read three rows from the files takes three row groups of 16 MiB.

        Raises:
            DamageError: a FAISS index has codes alone; no kind that is built has.
        """
        if self._with_vector is None:
            return self._vectors_of(rows_R)
        vectors_RD: Vectors = np.zeros((len(rows_R), self._dim), np.float32)
        has_R = np.isin(rows_R, self._with_vector)
        vectors_RD[has_R] = self._vectors_of(np.searchsorted(self._with_vector, rows_R[has_R]))
        return vectors_RD

    def compile_meanwhile(self) -> None:
        """Load compiled loops for many queries; see `ByteVectors.compile_meanwhile`. Nothing where faiss alone compares."""
        if self._stored is not None:
            self._stored.compile_meanwhile()

    def _neighbours(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k nearest vectors of queries of length 1, by their numbers, of those that may be found."""
        raise NotImplementedError

    def _vectors_of(self, numbers_R: Rows) -> Vectors:
        """Return some vectors by their numbers."""
        raise NotImplementedError


class ExactRows(FoundRows):
    """Rows whose vectors are all compared with a query, as they are stored; see `FoundRows`."""

    _stored: ByteVectors

    def __init__(self, stored: ByteVectors, allowed: Mask | None = None, with_vector: Rows | None = None) -> None:
        super().__init__(len(stored), stored.dim, allowed, with_vector)
        self._stored = stored

    def _neighbours(self, queries_QD: Vectors, k: int) -> list[Hits]:
        allowed = self._allowed
        among_R = None if allowed is None or self._there == self._n else np.flatnonzero(allowed)
        return self._stored.nearest(queries_QD, k, among_R)

    def _vectors_of(self, numbers_R: Rows) -> Vectors:
        return self._stored.vectors(numbers_R)


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
