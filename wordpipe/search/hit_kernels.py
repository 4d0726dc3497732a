"""Compiled loops over hits and the terms of texts: the best in order, two lists fused; the same bits as by `loops`.

Shapes: K hits, M rows or pairs of a term and a text, T terms, S slots of a table, R texts.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, short_kernel
from wordpipe.search.hits import Hits
from wordpipe.search.loops import CANDIDATES

Rows = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@inlined
def _place_in(table_S: Ints, keys_M: Any, key: int) -> int:
    """Return the slot of a key in a table of numbers of keys, -1 in slots that are free (compiled kernel)."""
    slot = (key * 0x9E3779B1 >> 7) & (len(table_S) - 1)
    while table_S[slot] >= 0 and keys_M[table_S[slot]] != key:
        slot = (slot + 1) & (len(table_S) - 1)
    return slot


@inlined
def _table_for(n: int) -> Ints:
    """Return a table with twice as many slots as keys, a power of two (compiled kernel)."""
    slots = 4
    while slots < 2 * n:
        slots *= 2
    return np.full(slots, -1)


@short_kernel
def _distinct(rows_M: Ints, found_M: Ints) -> int:
    """Write the rows, each once; return how many these are (compiled kernel)."""
    table_S, n = _table_for(len(rows_M)), 0
    for at in range(len(rows_M)):
        slot = _place_in(table_S, found_M, rows_M[at])
        if table_S[slot] < 0:
            table_S[slot], found_M[n] = n, rows_M[at]
            n += 1
    return n


def distinct(rows_M: Ints) -> Ints:
    """Return the rows, each once, as they first come; see `loops.distinct`."""
    found_M = np.empty_like(rows_M)
    return found_M[: _distinct(rows_M, found_M)]


@short_kernel
def _term_gains(at_M: Ints, numbers_M: Rows, counts_M: Floats, damping_R: Floats, numbers_T: Rows, gains_T: Any) -> int:
    """Write the terms of texts and their gains; return how many terms these are (compiled kernel)."""
    table_S, n = _table_for(len(numbers_M)), 0
    for pair in range(len(numbers_M)):
        if counts_M[pair] > 0:
            slot = _place_in(table_S, numbers_T, numbers_M[pair])
            if table_S[slot] < 0:
                table_S[slot], numbers_T[n], gains_T[n] = n, numbers_M[pair], 0.0
                n += 1
            share = counts_M[pair] / (counts_M[pair] + damping_R[at_M[pair]])
            gains_T[table_S[slot]] += np.float64(share) / (at_M[pair] + 1)
    return n


def term_gains(
    at_M: Ints, numbers_M: Rows, counts_M: Floats, damping_R: Floats
) -> tuple[Rows, npt.NDArray[np.float64]]:
    """Return the terms of texts, as they first come, and what each adds to the scores; see `loops.term_gains`."""
    numbers_T, gains_T = np.empty_like(numbers_M), np.empty(len(numbers_M))
    n = _term_gains(at_M, numbers_M, counts_M, damping_R, numbers_T, gains_T)
    return numbers_T[:n], gains_T[:n]


@inlined
def _is_behind(one: int, other: int, scores_M: Floats, ranks_M: Ints, rows_M: Any) -> bool:
    """True if a hit comes behind another one: by its score, else by its rank, else by its row (compiled kernel)."""
    behind: bool = rows_M[one] > rows_M[other]
    if scores_M[one] != scores_M[other]:
        behind = scores_M[one] < scores_M[other]
    elif len(ranks_M) and ranks_M[one] != ranks_M[other]:
        behind = ranks_M[one] > ranks_M[other]
    return behind


@inlined
def _sift_hits(heap_K: Ints, at: int, n: int, scores_M: Floats, ranks_M: Ints, rows_M: Any) -> None:
    """Move a hit of a heap of n down to where none below it comes behind it (compiled kernel)."""
    hit = heap_K[at]
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _is_behind(heap_K[below + 1], heap_K[below], scores_M, ranks_M, rows_M):
            below += 1
        if not _is_behind(heap_K[below], hit, scores_M, ranks_M, rows_M):
            break
        heap_K[at] = heap_K[below]
        at = below
    heap_K[at] = hit


@inlined
def take_best(rows_M: Any, scores_M: Floats, ranks_M: Ints, m: int, rows_K: Ints, scores_K: Floats) -> None:
    """Write the best of m hits in order, as many as there is room for (compiled kernel).

    The best so far stand in a heap with the last of them at its root.
    """
    heap_K, k = np.arange(len(rows_K)), len(rows_K)
    for root in range(k // 2 - 1, -1, -1):
        _sift_hits(heap_K, root, k, scores_M, ranks_M, rows_M)
    for at in range(k, m if k else 0):
        if scores_M[at] >= scores_M[heap_K[0]] and _is_behind(heap_K[0], at, scores_M, ranks_M, rows_M):
            heap_K[0] = at
            _sift_hits(heap_K, 0, k, scores_M, ranks_M, rows_M)
    for n in range(k - 1, -1, -1):
        last = heap_K[0]
        heap_K[0] = heap_K[n]
        _sift_hits(heap_K, 0, n, scores_M, ranks_M, rows_M)
        rows_K[n], scores_K[n] = rows_M[last], scores_M[last]


@short_kernel
def _best(rows_M: Any, scores_M: Floats, rows_K: Ints, scores_K: Floats) -> None:
    """Write the best hits in order (compiled kernel)."""
    take_best(rows_M, scores_M, np.empty(0, np.int64), len(rows_M), rows_K, scores_K)


def best_of(rows_N: npt.NDArray[np.integer[Any]], scores_N: Floats, k: int) -> Hits:
    """Return the k best of some rows with their scores; of equal scores the lowest rows; see `knn.best_of`."""
    k = max(0, min(k, len(rows_N)))
    found = Hits(np.empty(k, np.int64), np.empty(k, np.float32))
    _best(rows_N, scores_N, found.rows, found.scores)
    return found


@inlined
def _add_normalised(
    rows_K: Ints, scores_K: Floats, share: np.float32, candidates: int, table_S: Ints, rows_M: Ints, sums_M: Any,
    ranks_M: Ints, m: int,
) -> int:  # fmt: skip
    """Add the hits of one side to those that are fused; return how many rows these are then (compiled kernel)."""
    low, high = np.float32(0), np.float32(0)
    for at in range(min(len(scores_K), candidates)):
        low = scores_K[at] if at == 0 or scores_K[at] < low else low
        high = scores_K[at] if at == 0 or scores_K[at] > high else high
    for at in range(len(rows_K)):
        score = np.float32(scores_K[at] >= low)
        if high > low:
            score = max((scores_K[at] - low) / (high - low), np.float32(0))
        slot = _place_in(table_S, rows_M, rows_K[at])
        if table_S[slot] < 0:
            table_S[slot], rows_M[m], sums_M[m], ranks_M[m] = m, rows_K[at], 0.0, at
            m += 1
        own = table_S[slot]
        sums_M[own] += np.float64(share * score)
        ranks_M[own] = min(ranks_M[own], at)
    return m


@short_kernel
def _fuse(
    dense_K: Ints, dense_scores_K: Floats, share: np.float32, lexical_K: Ints, lexical_scores_K: Floats,
    other_share: np.float32, candidates: int, rows_K: Ints, scores_K: Floats,
) -> int:  # fmt: skip
    """Write the best of two lists of hits, each with its share; return how many these are (compiled kernel)."""
    most = len(dense_K) + len(lexical_K)
    table_S, rows_M, sums_M, ranks_M = (
        _table_for(most),
        np.empty(most, np.int64),
        np.empty(most),
        np.empty(most, np.int64),
    )
    m = _add_normalised(dense_K, dense_scores_K, share, candidates, table_S, rows_M, sums_M, ranks_M, 0)
    m = _add_normalised(lexical_K, lexical_scores_K, other_share, candidates, table_S, rows_M, sums_M, ranks_M, m)
    scores_M = sums_M[:m].astype(np.float32)
    for at in range(m):
        if scores_M[at] > 0:
            ranks_M[at] = 0
    k = min(m, len(rows_K))
    take_best(rows_M, scores_M, ranks_M, m, rows_K[:k], scores_K[:k])
    return k


def fuse(dense: Hits, lexical: Hits, weight: float, k: int, *, candidates: int = CANDIDATES) -> Hits:
    """Return the k best by weight · dense + (1 - weight) · lexical; see `loops.fuse`."""
    sides = [hits if share > 0 else Hits.none() for hits, share in ((dense, weight), (lexical, 1 - weight))]
    k = max(0, min(k, sum(map(len, sides))))
    found, shares = Hits(np.empty(k, np.int64), np.empty(k, np.float32)), (np.float32(weight), np.float32(1 - weight))
    (one, other) = sides
    n = _fuse(
        one.rows, one.scores, shares[0], other.rows, other.scores, shares[1], candidates, found.rows, found.scores
    )
    return found.first(n)
