"""Searching a FAISS index: every hit is a real row with a real score."""

from typing import Any

import faiss
import numpy as np

from wordpipe.artifacts import unit_vectors
from wordpipe.errors import ArtifactError, InputError
from wordpipe.search.index import BUILD_AGAIN, K, faiss_threads
from wordpipe.search.knn import Hits, Mask, Rows, StoredVectors, Vectors, best_of

EXACT_BELOW = 50_000  # allowed rows that are compared one by one: of 384 numbers a query takes 5 ms
_ONE_THREAD_BELOW, _COMPARED_BY_OTHERS = 500_000, 10_000
"""Vectors that one thread compares, 20 ms of work, and those that an index that is not exact is taken to compare for a query.
Eight queries of an IVF index took 2 ms by one thread, and 44 by two beside other programs: each waits for the last, and the
system lets that one wait."""
_PRODUCT_FROM = 8
"""Queries: one was compared with 24,000 rows in 13 ms in their place and in 31 copied, 64 in 584 and 328."""


class VectorIndex:
    """N rows of which M have a unit vector in a faiss index, found by its inner product with a query's vector.

    Faiss numbers the vectors that it has, so that rows without one are nowhere in its graph or its lists, and none is found by
    chance; outside, all is by the number of the row.

    Args:
        index: the faiss index.
        stored: the vectors of rows, where the index itself is not exact; nothing is compared exactly without them.
        allowed: (N,) which rows may be found; all where None.
        with_vector: (M,) the row of each vector, ascending; None where all have one.
        threads: 0 for one per core, and a single one where there is little to do.
    """

    def __init__(
        self,
        index: Any,
        stored: StoredVectors | None = None,
        allowed: Mask | None = None,
        with_vector: Rows | None = None,
        *,
        threads: int = 0,
    ) -> None:
        self._index, self._stored, self._threads, self._with_vector = index, stored, threads, with_vector
        self._allowed = allowed if allowed is None or with_vector is None else allowed[with_vector]

    def search(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """The k nearest rows of every query, fewer where the index has fewer or finds fewer; none of a query that is zero.

        An exact index compares the allowed rows that it holds. Of any other, few allowed rows are compared exactly; of many
        so many neighbours are taken that k of them are allowed, up to all it finds.

        Args:
            queries_QD: vectors of any length.
            k: hits wanted.

        Raises:
            InputError: a query is not finite, or is not as wide as the index.
        """
        if queries_QD.shape[1] != self._index.d:
            raise InputError("query and index are of different width", got=queries_QD.shape[1], expected=self._index.d)
        found = [Hits.none()] * len(queries_QD)
        wanted = min(k, self._index.ntotal if self._allowed is None else int(self._allowed.sum()))
        directed = np.flatnonzero(queries_QD.any(axis=1))
        if wanted > 0 and len(directed):
            queries_AD = unit_vectors(queries_QD[directed], error=InputError)
            with faiss_threads(self._threads or self._threads_for(len(queries_AD))):
                hits = self._neighbours(queries_AD, wanted)
            for number, own in zip(directed.tolist(), hits, strict=True):
                found[number] = Hits(self._rows_of(own.rows), own.scores)
        return found

    def _rows_of(self, numbers: Rows) -> Rows:
        """The rows of faiss's numbers."""
        return numbers if self._with_vector is None else self._with_vector[numbers]

    def vectors(self, rows_R: Rows) -> Vectors:
        """The unit vectors of some rows, ascending, as they were added; zero of a row without one.

        From the index where it holds them in order: to read three rows from the files takes three row groups of 16 MiB; codes
        with vectors beside them have these in memory.
        """
        index: Any = self._index
        held: Any = faiss.downcast_index(index.refine_index) if isinstance(index, faiss.IndexRefine) else index
        if isinstance(held, faiss.IndexFlat):
            if (there := self._with_vector) is None:
                return held.reconstruct_batch(rows_R)
            vectors_RD, has_R = np.zeros((len(rows_R), held.d), np.float32), np.isin(rows_R, there)
            vectors_RD[has_R] = held.reconstruct_batch(np.searchsorted(there, rows_R[has_R]))
            return vectors_RD
        assert self._stored is not None
        return self._stored.read(rows_R)

    def _threads_for(self, queries: int) -> int:
        """1 where that many queries are little work, or else 0: one per core."""
        compared = self._index.ntotal if self._allowed is None else int(self._allowed.sum())
        if not isinstance(self._index, faiss.IndexFlat) and (self._allowed is None or compared > EXACT_BELOW):
            compared = min(compared, _COMPARED_BY_OTHERS)
        return int(queries * compared < _ONE_THREAD_BELOW)

    def _neighbours(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """The k nearest, found as suits the index and the number of rows allowed."""
        allowed = self._allowed
        if allowed is None or allowed.all():
            return self._searched(queries_QD, k)
        rows_R = np.flatnonzero(allowed) if allowed.sum() <= EXACT_BELOW else None
        if isinstance(self._index, faiss.IndexFlat):
            if rows_R is not None and len(queries_QD) >= _PRODUCT_FROM:
                return _compared(queries_QD, rows_R, self._index.reconstruct_batch(rows_R), k)
            bits: Any = faiss
            selector = bits.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            return self._searched(queries_QD, k, bits.SearchParameters(sel=selector))
        if rows_R is not None and self._stored is not None:
            return _compared(queries_QD, rows_R, self._stored(self._rows_of(rows_R)), k)
        return self._sifted(queries_QD, k, allowed)

    def _searched(self, queries_QD: Vectors, k: int, parameters: Any = None) -> list[Hits]:
        """What the index finds.

        Ten are searched for at least: refinement compares some times k candidates exactly, and its recall was measured at ten.
        """
        most = min(max(k, K), self._index.ntotal)
        try:
            scores_QK, rows_QK = self._index.search(queries_QD, most, params=parameters)
        except (RuntimeError, AssertionError) as error:  # of faiss, over a file that was forged
            got = str(error).partition("\n")[0][:200]
            raise ArtifactError("the FAISS index cannot be searched", got=got, hint=BUILD_AGAIN) from None
        if rows_QK.max(initial=-1) >= self._index.ntotal or rows_QK.min(initial=0) < -1:
            raise ArtifactError("the FAISS index gave rows that there are none of", got=rows_QK.max(), hint=BUILD_AGAIN)
        return [_in_order(scores_K, rows_K).first(k) for scores_K, rows_K in zip(scores_QK, rows_QK, strict=True)]

    def _sifted(self, queries_QD: Vectors, k: int, allowed: Mask) -> list[Hits]:
        """Search for more and more neighbours until k of every query are allowed, or the index has no more to give.

        It works for every kind of index; some of them take no selection, and a graph that may not step on forbidden rows
        finds less through them.
        """
        depth = min(self._index.ntotal, max(k, int(2 * k * len(allowed) / allowed.sum())))
        found: list[Hits] = [Hits.none()] * len(queries_QD)
        waiting = np.arange(len(queries_QD))
        while len(waiting):
            for number, hits in zip(waiting.tolist(), self._searched(queries_QD[waiting], depth), strict=True):
                found[number] = hits.where(allowed[hits.rows]).first(k)
            if depth == self._index.ntotal:
                break
            waiting = np.array([number for number in waiting.tolist() if len(found[number]) < k], dtype=np.int64)
            depth = min(self._index.ntotal, 4 * depth)
        return found


def _compared(queries_QD: Vectors, rows_R: Rows, vectors_RD: Vectors, k: int) -> list[Hits]:
    """The k nearest of some rows, compared one by one."""
    scores_QK, at_QK = faiss.knn(queries_QD, vectors_RD, k, metric=faiss.METRIC_INNER_PRODUCT)
    return [_in_order(scores_K, rows_R[at_K]) for scores_K, at_K in zip(scores_QK, at_QK, strict=True)]


def _in_order(scores_K: Vectors, rows_K: Rows) -> Hits:
    """Leave out what faiss did not find (row -1), keep cosines in their range, order ties."""
    there = (rows_K >= 0) & np.isfinite(scores_K)
    return best_of(rows_K[there], scores_K[there].clip(-1, 1), len(rows_K))
