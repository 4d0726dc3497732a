"""Asking an index: every answer is a real row with a real score."""

from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.search.hits import Hits, best_of
from wordpipe.search.kinds import K
from wordpipe.search.vectors import faiss_threads, unit_vectors

EXACT_BELOW = 50_000  # allowed rows that are compared one by one: of 384 numbers a query takes 5 ms
_PRODUCT_FROM = 8
"""Queries: one was compared with 24,000 rows in 13 ms in their place and in 31 copied, 64 in 584 and 328."""

Vectors = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]]
"""Gives the (R, D) unit vectors of R rows, ascending."""


def search(
    index: Any,
    queries_QD: npt.NDArray[np.float32],
    k: int,
    allowed: npt.NDArray[np.bool_] | None = None,
    *,
    vectors: Vectors | None = None,
    threads: int = 0,
) -> list[Hits]:
    """The k nearest rows of every query.

    An exact index compares the allowed rows that it holds. Of any other, few allowed rows are compared exactly; of many it is
    asked for so many neighbours that k of them are allowed, up to all it finds.

    Args:
        index: a faiss index of unit vectors under inner product.
        queries_QD: vectors of any length but zero.
        k: answers wanted; fewer come where the index has fewer or finds fewer.
        allowed: (N,) which rows may be found; all where None.
        vectors: the vectors of rows, for the exact comparison where the index is not exact; none is made without it.
        threads: 0 for one per core.

    Raises:
        InputError: a query is zero or not finite, or is not as wide as the index.
    """
    if queries_QD.shape[1] != index.d:
        raise InputError("query and index are of different width", got=queries_QD.shape[1], expected=index.d)
    wanted = min(k, index.ntotal if allowed is None else int(allowed.sum()))
    if wanted <= 0 or not len(queries_QD):
        return [Hits.none()] * len(queries_QD)
    queries_QD = unit_vectors(queries_QD, error=InputError)
    with faiss_threads(threads):
        if allowed is None or allowed.all():
            return _asked(index, queries_QD, wanted)
        few = allowed.sum() <= EXACT_BELOW
        if isinstance(index, faiss.IndexFlat):
            if few and len(queries_QD) >= _PRODUCT_FROM:
                return _compared(index.reconstruct_batch, np.flatnonzero(allowed), queries_QD, wanted)
            return _asked(index, queries_QD, wanted, _selection(allowed))
        if few and vectors is not None:
            return _compared(vectors, np.flatnonzero(allowed), queries_QD, wanted)
        return _sifted(index, queries_QD, wanted, allowed)


def row_vectors(index: Any, rows_R: npt.NDArray[np.int64], vectors: Vectors) -> npt.NDArray[np.float32]:
    """The unit vectors of some rows, ascending, as they were added: from the index where it holds them in order, or `vectors`.

    To read three rows from the files takes three row groups of 16 MiB; codes with vectors beside them have these in memory.

    Args:
        index: a faiss index.
        rows_R: rows that it has.
        vectors: reads them where the index has only codes of them, or in another order.
    """
    store: Any = faiss.downcast_index(index.refine_index) if isinstance(index, faiss.IndexRefine) else index
    return store.reconstruct_batch(rows_R) if isinstance(store, faiss.IndexFlat) else vectors(rows_R)


def _asked(index: Any, queries_QD: npt.NDArray[np.float32], k: int, parameters: Any = None) -> list[Hits]:
    """The index's own answers.

    It is asked for ten at least: refinement compares some times k candidates exactly, and its recall was measured at ten.
    """
    scores_QK, rows_QK = index.search(queries_QD, min(max(k, K), index.ntotal), params=parameters)
    return [_in_order(scores_K, rows_K).first(k) for scores_K, rows_K in zip(scores_QK, rows_QK, strict=True)]


def _selection(allowed: npt.NDArray[np.bool_]) -> Any:
    """Search parameters under which only allowed rows are looked at."""
    bits: Any = faiss
    return bits.SearchParameters(sel=bits.IDSelectorBitmap(np.packbits(allowed, bitorder="little")))


def _compared(
    vectors: Vectors, rows_R: npt.NDArray[np.int64], queries_QD: npt.NDArray[np.float32], k: int
) -> list[Hits]:
    """All rows allowed, compared one by one."""
    scores_QK, at_QK = faiss.knn(queries_QD, vectors(rows_R), k, metric=faiss.METRIC_INNER_PRODUCT)
    return [_in_order(scores_K, rows_R[at_K]) for scores_K, at_K in zip(scores_QK, at_QK, strict=True)]


def _sifted(index: Any, queries_QD: npt.NDArray[np.float32], k: int, allowed: npt.NDArray[np.bool_]) -> list[Hits]:
    """Ask for more and more neighbours until k of every query are allowed, or the index has no more to give.

    It works for every kind of index; some of them take no selection, and a graph that may not step on forbidden rows finds
    less through them.
    """
    depth = min(index.ntotal, max(k, int(2 * k * len(allowed) / allowed.sum())))
    found: list[Hits] = [Hits.none()] * len(queries_QD)
    waiting = np.arange(len(queries_QD))
    while len(waiting):
        for number, hits in zip(waiting.tolist(), _asked(index, queries_QD[waiting], depth), strict=True):
            found[number] = hits.where(allowed[hits.rows]).first(k)
        if depth == index.ntotal:
            break
        waiting = np.array([number for number in waiting.tolist() if len(found[number]) < k], dtype=np.int64)
        depth = min(index.ntotal, 4 * depth)
    return found


def _in_order(scores_K: npt.NDArray[np.float32], rows_K: npt.NDArray[np.int64]) -> Hits:
    """Leave out what faiss did not find (row -1), keep cosines in their range, order ties."""
    there = (rows_K >= 0) & np.isfinite(scores_K)
    return best_of(rows_K[there], scores_K[there].clip(-1, 1), len(rows_K))
