"""One search library in a process of its own: `python -m peers.search_sides TASK.json` builds, asks and measures.

The task names the vectors and the queries (.npy, unit length, float32), the side, its settings and where the answers and the
figures go. Widths are tried from narrow to wide until the recall is reached; the speed is of the fastest batch of several at
that width. Peak memory is of the whole process, less what it held before the vectors were added (the library itself, and
the vectors where the process maps them).
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

K = 10
_BATCHES = 3
_BLOCK = 8192

Vectors = npt.NDArray[np.float32]
Search = Callable[[Vectors], npt.NDArray[np.int64]]


@dataclass
class Side:
    """A built index of some library.

    Attributes:
        widths: how wide it can search, narrow to wide.
        widen: set the width.
        search: (Q, D) queries to (Q, 10) rows.
    """

    widths: list[Any]
    widen: Callable[[Any], None]
    search: Search


def build_wordpipe(vectors_ND: Vectors, task: dict[str, Any]) -> Side:
    """Ours: it has found its width itself, so there is one."""
    from wordpipe.search import build_index
    from wordpipe.search.settings import IndexSettings

    settings = IndexSettings(type=task.get("kind", "auto"), recall=task["recall"], threads=task["threads"])
    built = build_index(lambda: _blocks(vectors_ND), *vectors_ND.shape, settings)
    index = built.index
    return Side([str(built.chosen.width)], lambda _: None, lambda queries: index.search(queries, K)[1])


def build_faiss(vectors_ND: Vectors, task: dict[str, Any]) -> Side:
    """A plain recipe of faiss: index_factory, train on a sample, add, widen."""
    import faiss

    recipe = task["recipe"].format(lists=int(4 * len(vectors_ND) ** 0.5))
    index = faiss.index_factory(vectors_ND.shape[1], recipe, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        sample = np.random.default_rng(1).choice(len(vectors_ND), min(len(vectors_ND), 256_000), replace=False)
        index.train(np.ascontiguousarray(vectors_ND[np.sort(sample)]))
    for block in _blocks(vectors_ND):
        index.add(block)
    space = faiss.ParameterSpace()
    name = "efSearch" if recipe.startswith("HNSW") else "nprobe"
    widths = [0] if recipe == "Flat" else [2**power for power in range(0 if name == "nprobe" else 4, 12)]
    return Side(
        widths,
        lambda width: space.set_index_parameter(index, name, width) if width else None,
        lambda queries: index.search(queries, K)[1],
    )


def build_hnswlib(vectors_ND: Vectors, task: dict[str, Any]) -> Side:
    """Hnswlib with its documented defaults, 16 links and 200 candidates."""
    import hnswlib

    index = hnswlib.Index(space="ip", dim=vectors_ND.shape[1])
    index.init_index(max_elements=len(vectors_ND), ef_construction=200, M=16, random_seed=1)
    index.set_num_threads(task["threads"])
    for block in _blocks(vectors_ND):
        index.add_items(block)
    return Side(
        [2**power for power in range(4, 12)],
        index.set_ef,
        lambda queries: index.knn_query(queries, K)[0].astype(np.int64),
    )


def build_usearch(vectors_ND: Vectors, task: dict[str, Any]) -> Side:
    """Usearch with its defaults, 32-bit numbers."""
    from usearch.index import Index

    index = Index(ndim=vectors_ND.shape[1], metric="ip", dtype="f32")
    for first, block in enumerate(_blocks(vectors_ND)):
        index.add(np.arange(first * _BLOCK, first * _BLOCK + len(block)), block, threads=task["threads"])

    def widen(width: int) -> None:
        index.expansion_search = width

    def search(queries: Vectors) -> npt.NDArray[np.int64]:
        return np.asarray(index.search(queries, K, threads=task["threads"]).keys).astype(np.int64).reshape(-1, K)

    return Side([2**power for power in range(4, 12)], widen, search)


BUILDERS = {"wordpipe": build_wordpipe, "faiss": build_faiss, "hnswlib": build_hnswlib, "usearch": build_usearch}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Build, widen until the recall is reached, time."""
    vectors_ND: Vectors = np.load(task["vectors"], mmap_mode="r", allow_pickle=False)
    queries_QD: Vectors = np.load(task["queries"], allow_pickle=False)
    truth_QK = np.load(task["truth"], allow_pickle=False)
    _bound_threads(task["threads"])
    start = time.perf_counter()
    side = BUILDERS[task["side"]](vectors_ND, task)
    built_s = time.perf_counter() - start
    found: dict[str, Any] = {"build_s": round(built_s, 3)}
    for width in side.widths:
        side.widen(width)
        recall = recall_of(side.search(queries_QD), truth_QK)
        found |= {"width": width, "recall_at_10": round(recall, 4)}
        if recall >= task["recall"]:
            break
    fastest = min(_seconds(side.search, queries_QD) for _ in range(_BATCHES))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {**found, "queries_per_s": round(len(queries_QD) / fastest, 1), "peak_memory_bytes": peak}


def recall_of(found_QK: npt.NDArray[np.int64], truth_QK: npt.NDArray[np.int64]) -> float:
    """The share of the true ten that are among those found."""
    hits = [len({*found} & {*true}) for found, true in zip(found_QK.tolist(), truth_QK.tolist(), strict=True)]
    return sum(hits) / truth_QK.size


def _bound_threads(threads: int) -> None:
    import faiss

    faiss.omp_set_num_threads(threads)


def _blocks(vectors_ND: Vectors) -> Iterator[Vectors]:
    for first in range(0, len(vectors_ND), _BLOCK):
        yield np.ascontiguousarray(vectors_ND[first : first + _BLOCK])


def _seconds(search: Search, queries_QD: Vectors) -> float:
    start = time.perf_counter()
    search(queries_QD)
    return time.perf_counter() - start


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    Path(given["result"]).write_text(json.dumps(measure(given)))
