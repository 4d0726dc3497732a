"""Groups of vectors that are nearly the same: linked wherever two are near, so a group may be a chain."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from wordpipe.search.knn import Rows, Vectors

_BLOCK = 4_096  # rows compared at a time: 64 MiB of scores
_LINKS = 1 << 18  # taken at a time, about 35 MB: all links of 9,000 rows that were all near took 2.4 GB
_NEIGHBOURS = 32  # of a row that are searched for in an index
_ROUNDING = 1e-6  # a vector's product with itself may be so much below 1

Report = Callable[[int], None]
Links = Iterator[tuple[Rows, Rows]]
"""Pairs of rows, each pair once, some thousands at a time: one end of each, and the other."""


def groups_of(links: Links, rows: int) -> tuple[list[Rows], int]:
    """The rows of every group of two or more, ascending, the largest group first, then by their lowest; how many links."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    labels_N, pairs = np.arange(rows), 0  # the lowest row of each row's group
    for ends in links:
        pairs += len(ends[0])
        one, other = (labels_N[end] for end in ends)
        nodes, at = np.unique(np.concatenate([one, other]), return_inverse=True)
        graph = coo_array((np.ones(len(one), dtype=np.int8), np.split(at, 2)), shape=(len(nodes), len(nodes)))
        parts = connected_components(graph, directed=False)[1]
        renamed_N = np.arange(rows)
        renamed_N[nodes] = nodes[np.unique(parts, return_index=True)[1]][parts]
        labels_N = renamed_N[labels_N]
    order = np.argsort(labels_N, kind="stable")
    found = np.split(order, np.flatnonzero(np.diff(labels_N[order])) + 1)
    return sorted((group for group in found if len(group) > 1), key=lambda group: (-len(group), int(group[0]))), pairs


def all_links(vectors_ND: Vectors, threshold: float, report: Report) -> Links:
    """All pairs whose cosine is at least the threshold, each compared; told how many rows are done.

    Memory holds the vectors, one block of scores and some links, whatever the threshold.
    """
    for first in range(0, len(vectors_ND), _BLOCK):
        block_BD = vectors_ND[first : first + _BLOCK]
        for second in range(first, len(vectors_ND), _BLOCK):
            near_BC = block_BD @ vectors_ND[second : second + _BLOCK].T >= threshold - _ROUNDING
            if first == second:  # each pair once, and no row with itself
                near_BC = np.triu(near_BC, 1)
            parts_B = np.cumsum(np.count_nonzero(near_BC, axis=1)) // _LINKS
            for begin, end in pairwise([0, *(np.flatnonzero(np.diff(parts_B)) + 1).tolist(), len(near_BC)]):
                one, other = np.nonzero(near_BC[begin:end])
                if len(one):
                    yield one + begin + first, other + second
        report(min(first + _BLOCK, len(vectors_ND)))


def index_links(index: Any, blocks: Iterable[Vectors], rows: int, threshold: float, report: Report) -> Links:
    """Every row and those of its neighbours in a faiss index that are near enough; what the index misses is missed."""
    first, seen = 0, [np.zeros(0, dtype=np.int64)]
    for block_BD in blocks if rows else ():
        scores_BK, rows_BK = index.search(np.ascontiguousarray(block_BD), min(_NEIGHBOURS, rows))
        at, place = np.nonzero((scores_BK >= threshold - _ROUNDING) & (rows_BK >= 0))
        one, other = at + first, rows_BK[at, place]
        different = one != other
        seen.append(np.minimum(one, other)[different] * rows + np.maximum(one, other)[different])
        first += len(block_BD)
        report(first)
    if len(links := np.unique(np.concatenate(seen))):  # two rows may each have found the other
        yield links // rows, links % rows
