"""Groups of vectors that are nearly the same: linked wherever two are near, so a group may be a chain."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Groups", "group_all", "group_by_index"]

_BLOCK = 4_096  # rows compared at a time: 64 MiB of scores
_LINKS = 1 << 18  # taken at a time, about 35 MB: all links of 9,000 rows that were all near took 2.4 GB
_NEIGHBOURS = 32  # of a row that an index is asked for
_ROUNDING = 1e-6  # a vector's product with itself may be so much below 1

Report = Callable[[int], None]
Vectors = npt.NDArray[np.float32]


@dataclass
class Groups:
    """N rows, each in a group with those that it was linked to.

    Attributes:
        labels: (N,) the lowest row of each row's group.
        pairs: links counted.
    """

    labels: npt.NDArray[np.int64]
    pairs: int = 0

    @classmethod
    def apart(cls, rows: int) -> "Groups":
        """Every row by itself."""
        return cls(np.arange(rows))

    def link(self, one_P: npt.NDArray[np.int64], other_P: npt.NDArray[np.int64]) -> None:
        """Put the groups of linked rows together; each link counts once."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        self.pairs += len(one_P)
        one, other = self.labels[one_P], self.labels[other_P]
        one, other = one[one != other], other[one != other]
        if not len(one):
            return
        nodes, at = np.unique(np.concatenate([one, other]), return_inverse=True)
        ends = (at[: len(one)], at[len(one) :])
        graph = coo_array((np.ones(len(one), dtype=np.int8), ends), shape=(len(nodes), len(nodes)))
        parts = connected_components(graph, directed=False)[1]
        lowest = np.full(parts.max() + 1, len(self.labels))
        np.minimum.at(lowest, parts, nodes)
        renamed = np.arange(len(self.labels))
        renamed[nodes] = lowest[parts]
        self.labels = renamed[self.labels]

    def members(self) -> list[npt.NDArray[np.int64]]:
        """The rows of every group of two or more, ascending; the largest group first, then by their lowest rows."""
        order = np.argsort(self.labels, kind="stable")
        starts = np.flatnonzero(np.diff(self.labels[order], prepend=-1))
        groups = [group for group in np.split(order, starts[1:]) if len(group) > 1] if len(order) else []
        return sorted(groups, key=lambda group: (-len(group), int(group[0])))


def group_all(vectors_ND: Vectors, threshold: float, report: Report) -> Groups:
    """Link all pairs whose cosine is at least the threshold, each compared.

    Memory holds the vectors, one block of scores and some links, whatever the threshold.

    Args:
        vectors_ND: unit vectors.
        threshold: of the cosine.
        report: told how many rows are done.
    """
    groups = Groups.apart(len(vectors_ND))
    for first in range(0, len(vectors_ND), _BLOCK):
        block_BD = vectors_ND[first : first + _BLOCK]
        for second in range(first, len(vectors_ND), _BLOCK):
            scores_BC = block_BD @ vectors_ND[second : second + _BLOCK].T
            near_BC = scores_BC >= threshold - _ROUNDING
            if first == second:  # each pair once, and no row with itself
                near_BC = np.triu(near_BC, 1)
            for one, other in _links(near_BC):
                groups.link(one + first, other + second)
        report(min(first + _BLOCK, len(vectors_ND)))
    return groups


def _links(near_BC: npt.NDArray[np.bool_]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Where the matrix is true, row by row; about `_LINKS` places at a time, and whole rows."""
    parts_B = np.cumsum(np.count_nonzero(near_BC, axis=1)) // _LINKS
    bounds = [0, *(np.flatnonzero(np.diff(parts_B)) + 1).tolist(), len(near_BC)]
    for begin, end in pairwise(bounds):
        one, other = np.nonzero(near_BC[begin:end])
        yield one + begin, other


def group_by_index(index: Any, blocks: Iterator[Vectors], rows: int, threshold: float, report: Report) -> Groups:
    """Link every row with those of its neighbours in the index that are near enough; what the index misses is missed.

    Args:
        index: a faiss index of the same rows, under inner product.
        blocks: (B, D) unit vectors, in order.
        rows: how many.
        threshold: of the cosine.
        report: told how many rows are done.
    """
    groups, first = Groups.apart(rows), 0
    seen: list[npt.NDArray[np.int64]] = []
    for block_BD in blocks if rows else ():
        scores_BK, rows_BK = index.search(np.ascontiguousarray(block_BD), min(_NEIGHBOURS, rows))
        at, place = np.nonzero((scores_BK >= threshold - _ROUNDING) & (rows_BK >= 0))
        one, other = at + first, rows_BK[at, place]
        different = one != other
        seen.append(np.minimum(one, other)[different] * rows + np.maximum(one, other)[different])
        first += len(block_BD)
        report(first)
    if seen:
        links = np.unique(np.concatenate(seen))  # two rows may each have found the other
        groups.link(links // rows, links % rows)
    return groups
