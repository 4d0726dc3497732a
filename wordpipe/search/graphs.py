"""An HNSW graph whose rows are given other numbers, or taken out.

faiss numbers the rows of a graph in the order they were added and cannot remove one. Here the arrays of the graph are
rewritten: levels (N,), the links of all nodes one after another, and the vectors. (Malkov and Yashunin, arXiv 1603.09320,
section 4.)
"""

from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

__all__ = ["renumber"]

_NODES = 1 << 15  # rewritten at a time
_GONE = -1


def renumber(index: Any, row_of_N: npt.NDArray[np.int64]) -> None:
    """Give every node of the graph its new row, and take out those that have none.

    Links to a node that is gone are dropped and not replaced: one in a hundred nodes gone costs the others one link in a
    hundred. How much is still found must be measured afterwards.

    Args:
        index: a faiss IndexHNSW over flat or scalar-quantized vectors, N nodes; changed in place.
        row_of_N: the new row of every node, -1 for one to take out; those kept are numbered 0, 1, … without a gap.
    """
    graph, kept = index.hnsw, int((row_of_N >= 0).sum())
    assert len(row_of_N) == index.ntotal
    node_of_K = np.empty(kept, dtype=np.int64)
    node_of_K[row_of_N[row_of_N >= 0]] = np.flatnonzero(row_of_N >= 0)
    levels_N = faiss.vector_to_array(graph.levels)
    old_starts = faiss.vector_to_array(graph.offsets).astype(np.int64)
    old_links = faiss.vector_to_array(graph.neighbors)
    per_level = faiss.vector_to_array(graph.cum_nneighbor_per_level).astype(np.int64)

    levels_K = levels_N[node_of_K]
    starts = np.concatenate([[0], np.cumsum(per_level[levels_K])])
    links = np.empty(starts[-1], dtype=np.int32)
    new_row = np.append(row_of_N, _GONE)  # so that link -1 finds -1
    for first in range(0, kept, _NODES):
        nodes = node_of_K[first : first + _NODES]
        sizes = per_level[levels_N[nodes]]
        begin, end = starts[first], starts[first + len(nodes)]
        at = np.arange(end - begin) - np.repeat(starts[first : first + len(nodes)] - begin, sizes)
        links[begin:end] = new_row[old_links[np.repeat(old_starts[nodes], sizes) + at]]
    if kept < len(row_of_N):
        _close_gaps(links, starts, levels_K, per_level)

    faiss.copy_array_to_vector(np.ascontiguousarray(levels_K), graph.levels)
    faiss.copy_array_to_vector(starts.astype(np.uint64), graph.offsets)
    faiss.copy_array_to_vector(links, graph.neighbors)
    _move_vectors(index, node_of_K)
    _choose_entry(graph, levels_K, new_row)
    index.ntotal = kept


def _close_gaps(
    links: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    levels_K: npt.NDArray[np.int32],
    per_level: npt.NDArray[np.int64],
) -> None:
    """Move the links of every node and level before the gaps: a search ends at the first -1."""
    for level in range(int(levels_K.max(initial=0))):
        nodes = np.flatnonzero(levels_K > level)
        size = int(per_level[level + 1] - per_level[level])
        for some in np.array_split(nodes, max(1, len(nodes) // _NODES)):
            at = (starts[some] + per_level[level])[:, None] + np.arange(size)
            block = links[at]
            order = np.argsort(block == _GONE, axis=1, kind="stable")
            links[at] = np.take_along_axis(block, order, axis=1)


def _move_vectors(index: Any, node_of_K: npt.NDArray[np.int64]) -> None:
    """Put the codes of the vectors into the new order."""
    store: Any = faiss.downcast_index(index.storage)
    held: Any = faiss
    codes = held.rev_swig_ptr(store.codes.data(), store.codes.size()).reshape(store.ntotal, store.code_size)
    codes[: len(node_of_K)] = codes[node_of_K]
    store.codes.resize(len(node_of_K) * store.code_size)
    store.ntotal = len(node_of_K)


def _choose_entry(graph: Any, levels_K: npt.NDArray[np.int32], new_row: npt.NDArray[np.int64]) -> None:
    """Enter where the search did, or, if that node is gone, at the first of the highest level."""
    entry = int(new_row[graph.entry_point])
    graph.entry_point = entry if entry >= 0 else int(levels_K.argmax()) if len(levels_K) else -1
    graph.max_level = int(levels_K[graph.entry_point]) - 1 if len(levels_K) else -1
