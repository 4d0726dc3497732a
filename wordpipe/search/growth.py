"""Filling an index with rows, some of which are withheld until the search has been tuned on them.

Queries that the index has never seen are the honest ones: a graph knows the way to its own rows. So a sample of the rows is
kept out, asked for as queries, and added at the end. In whatever order rows are added, the finished index numbers them as
they came.
"""

from typing import Any, Protocol

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import InputError
from wordpipe.search.graphs import renumber
from wordpipe.search.kinds import Kind

__all__ = ["FlatGrowth", "GraphGrowth", "Growth", "ListGrowth", "WholeGraphGrowth", "growth_of"]

_EQUAL = 1e-6  # a cosine this near to 1 is that of equal vectors

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


class Growth(Protocol):
    """An index being filled.

    Attributes:
        index: the faiss index; what was added can be searched, whole graphs after `close` alone.
        withholds: whether the rows withheld are really left out until `close`; else they are in from the beginning.
    """

    index: Any
    withholds: bool

    def add(self, first: int, block_BD: Vectors, within_B: npt.NDArray[np.bool_]) -> None:
        """Take the unit vectors of the rows from `first` on; those not `within` are withheld, or are there already."""
        ...

    def ready(self) -> None:
        """All rows have come; make the index searchable."""
        ...

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Add the rows that were withheld."""
        ...


def growth_of(kind: Kind, index: Any, n: int) -> Growth:
    """The way to fill a trained index of this kind with `n` rows."""
    if kind.family == "lists":
        return ListGrowth(index, n)
    if kind.family == "graph":
        _reserve(faiss.downcast_index(index.storage), n)
        return GraphGrowth(index)
    if kind.family == "flat":
        _reserve(index, n)
    return WholeGraphGrowth(index, n) if kind.family == "whole graph" else FlatGrowth(index)


def _rows_of(store: Any, n: int) -> Vectors:
    """The memory of n vectors in a store, to be written to: what `add` copies there would be touched twice."""
    held: Any = faiss
    store.reset()
    store.codes.resize(n * store.code_size)
    rows_ND: Vectors = held.rev_swig_ptr(store.codes.data(), n * store.code_size).view(np.float32).reshape(n, -1)
    return rows_ND


def _reserve(store: Any, n: int) -> None:
    """Take the memory of n vectors at once: growing by doubling would hold up to three times as much for a moment."""
    store.codes.resize(n * store.code_size)
    store.codes.resize(0)


class FlatGrowth:
    """Vectors and nothing else: exact, so nothing needs to be withheld."""

    withholds = False

    def __init__(self, index: Any) -> None:
        self.index = index

    def add(self, first: int, block_BD: Vectors, within_B: npt.NDArray[np.bool_]) -> None:
        """Add all."""
        self.index.add(block_BD)

    def ready(self) -> None:
        """It is."""

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """All are in."""


class ListGrowth:
    """Lists of rows, perhaps with the vectors of all rows beside them, to compare candidates by.

    Args:
        index: trained. Rows that it holds already stay in the lists; the vectors beside them are taken anew.
        n: rows that it will hold.
    """

    withholds = True

    def __init__(self, index: Any, n: int) -> None:
        self.index = index
        refined = isinstance(index, faiss.IndexRefine)
        self.lists: Any = faiss.downcast_index(index.base_index) if refined else index
        self._store = faiss.downcast_index(index.refine_index) if refined else None
        self._beside_ND = None if self._store is None else _rows_of(self._store, n)

    def add(self, first: int, block_BD: Vectors, within_B: npt.NDArray[np.bool_]) -> None:
        """Put the rows that are `within` into the lists, and all vectors into the store."""
        if self._beside_ND is not None:
            self._beside_ND[first : first + len(block_BD)] = block_BD
        if within_B.any():
            self.lists.add_with_ids(block_BD[within_B], first + np.flatnonzero(within_B))

    def ready(self) -> None:
        """All vectors are beside the lists now."""
        if self._store is not None and self._beside_ND is not None:
            self._store.ntotal = self.index.ntotal = len(self._beside_ND)

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Put the rest into the lists."""
        if len(rows_Q):
            self.lists.add_with_ids(vectors_QD, rows_Q)


class GraphGrowth:
    """A graph that rows are added to; it is renumbered at the end, as those withheld come last."""

    withholds = True

    def __init__(self, index: Any, rows: Rows | None = None) -> None:
        self.index = index
        self._rows = [] if rows is None else [rows]

    def add(self, first: int, block_BD: Vectors, within_B: npt.NDArray[np.bool_]) -> None:
        """Add the rows that are `within` to the graph."""
        if within_B.any():
            self.index.add(np.ascontiguousarray(block_BD[within_B]))
            self._rows.append(first + np.flatnonzero(within_B))

    def ready(self) -> None:
        """It is."""

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Add the rest, and number all as they came."""
        if len(rows_Q):
            self.index.add(np.ascontiguousarray(vectors_QD))
        renumber(self.index, np.concatenate([*self._rows, rows_Q]).astype(np.int64))


class WholeGraphGrowth:
    """A graph made of all vectors at once, from the nearest neighbours of each; holds them all in memory.

    The neighbours are exact. (Fu et al., "Fast Approximate Nearest Neighbor Search With The Navigating Spreading-out Graph",
    VLDB 2019.)
    """

    withholds = False

    def __init__(self, index: Any, n: int) -> None:
        self.index = index
        self._vectors_ND = np.empty((n, index.d), dtype=np.float32)

    def add(self, first: int, block_BD: Vectors, within_B: npt.NDArray[np.bool_]) -> None:
        """Keep all for the building."""
        self._vectors_ND[first : first + len(block_BD)] = block_BD

    def ready(self) -> None:
        """Build.

        Raises:
            InputError: so many vectors are equal that no way leads out of them; faiss would look for one for ever.
        """
        near = min(2 * self.index.nsg.R, len(self._vectors_ND) - 1)
        scores_NK, graph_NK = faiss.knn(self._vectors_ND, self._vectors_ND, near + 1, metric=faiss.METRIC_INNER_PRODUCT)
        if closed := int((scores_NK[:, -1] > 1 - _EQUAL).sum()):
            raise InputError(
                "an nsg graph cannot be made of so many equal vectors",
                got=f"{closed} vectors with {near} or more like them",
                hint="build another kind: wordpipe index … --type auto",
            )
        self.index.build(self._vectors_ND, np.ascontiguousarray(_without_self(graph_NK)))
        self._vectors_ND = self._vectors_ND[:0]

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """All are in."""


def _without_self(graph_NK: Rows) -> Rows:
    """The neighbours of every row but itself; where equal vectors hide it, the farthest is left out."""
    own = graph_NK == np.arange(len(graph_NK))[:, None]
    own[~own.any(axis=1), -1] = True
    others: Rows = graph_NK[~own].reshape(len(graph_NK), -1)
    return others
