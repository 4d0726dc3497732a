"""A graph of neighbours that is walked towards the query (HNSW; Malkov and Yashunin, arXiv 1603.09320)."""

from typing import Any

import faiss
import numpy as np

from wordpipe.search.hits import Mask, Rows, Vectors
from wordpipe.search.settings import IndexSettings
from wordpipe.search.vectors.faiss_index import RANDOM_READ, Flat, Width, check_structure, need, numbers_of, same_size

_WIDEST = 1 << 20  # candidates of a search
_LEVELS = 64  # of a graph; they grow with the logarithm of its size


def check_graph(index: Any) -> None:
    """Check a graph of neighbours: every link leads to a row that has links of that level."""
    graph, n = index.hnsw, int(index.ntotal)
    need(index.storage is not None, "the vectors are missing")
    same_size(index, index.storage, "the vectors")
    check_structure(index.storage)
    need(1 <= graph.efSearch <= _WIDEST, f"{graph.efSearch} candidates")
    # levels: as many as rows, and room for links on each
    levels, offsets, links, room = (
        numbers_of(vector) for vector in (graph.levels, graph.offsets, graph.neighbors, graph.cum_nneighbor_per_level)
    )
    need(len(levels) == n and len(offsets) == n + 1, f"the graph has {len(levels)} rows")
    need(0 < len(room) <= _LEVELS and room[0] == 0 and bool((np.diff(room) >= 0).all()), "invalid levels")
    if not n:
        return
    # the entry, and where the links of every row are
    need(
        bool(levels.min() >= 1 and levels.max() < len(room)),
        f"the rows have levels from {levels.min()} to {levels.max()}, and the graph has {len(room)} levels",
    )
    need(graph.max_level == levels.max() - 1, f"{graph.max_level} levels")
    need(0 <= graph.entry_point < n, f"the entry point is row {graph.entry_point}, and the index has {n} rows")
    need(levels[graph.entry_point] == levels.max(), "the entry point is not on the highest level")
    steps = np.diff(offsets.astype(np.int64))
    need(
        offsets[0] == 0 and offsets[-1] == len(links) and bool((steps == room[levels]).all()),
        "the positions of the links are invalid",
    )
    # links lead to rows, on a level to rows of that level
    need(
        bool(links.min() >= -1 and links.max() < n),
        f"the links lead to rows from {links.min()} to {links.max()}, and the index has {n} rows",
    )
    for level in range(1, int(levels.max())):
        rows = np.flatnonzero(levels > level)
        places = offsets[rows].astype(np.int64)[:, None] + np.arange(room[level], room[level + 1])
        near = links[places]
        need(
            bool((levels[near[near >= 0]] > level).all()),
            f"a link on level {level} leads to a row that is not on this level",
        )


class Graph(Flat):
    """A kind of index: a graph of neighbours (hnsw)."""

    name = "hnsw"
    withholds, is_exact, compares_stored = True, False, False  # each step is to where the vectors are nearer
    checks = {"IndexHNSW": check_graph}  # noqa: RUF012

    def __init__(self, n: int, dim: int, settings: IndexSettings) -> None:
        super().__init__(n, dim, settings)
        self._rows: list[Rows] = []

    def _made(self) -> Any:
        index: Any = faiss.IndexHNSWFlat(self.dim, self.settings.hnsw_m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.settings.ef_construction
        index.hnsw.rng = faiss.RandomGenerator(self.settings.seed)  # type: ignore[attr-defined]
        return index

    def _vector_bytes(self) -> float:
        """Return the bytes of a vector in the graph, its links on all levels, and where they are."""
        links = self.settings.hnsw_m
        return 4 * self.dim + 4 * (2 * links + links / (links - 1)) + 12

    @property
    def filling_bytes(self) -> int:
        """Bytes of the vectors once more, while they are put in order."""
        return self.n * self.dim * 4

    def reach(self) -> tuple[int, int, tuple[int, ...]]:
        """Return the widths of a search of the graph: from 16 candidates to all, 8,192 at most."""
        if given := self.settings.ef_search:
            return given, given, (0,)
        return 16, min(max(self.n, 16), 8192), (0,)

    def tune(self, width: Width) -> None:
        """Set how many candidates a search of the graph compares (efSearch)."""
        self.index.hnsw.efSearch = width.search

    def work(self, width: Width) -> float:
        """Return the cost of a query of the graph: each candidate's neighbours are read from anywhere."""
        return width.search * 4.0 * self.dim * self.settings.hnsw_m * RANDOM_READ

    def _vectors(self) -> Any:
        return faiss.downcast_index(self.index.storage)

    def add(self, first: int, block_BD: Vectors, within_B: Mask) -> None:
        """Add the rows that are `within` to the graph."""
        if within_B.any():
            self.index.add(np.ascontiguousarray(block_BD[within_B]))
            self._rows.append(first + np.flatnonzero(within_B))

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Add the withheld rows to the graph, and number all as they came: faiss numbers rows in the order of adding."""
        if len(rows_Q):
            self.index.add(np.ascontiguousarray(vectors_QD))
        self.index.permute_entries(np.argsort(np.concatenate([*self._rows, rows_Q])))
