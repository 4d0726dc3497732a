"""What a build will cost, told before it begins: memory from the sizes of its parts, time from a probe of this machine."""

import math
import time
from dataclasses import dataclass

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import BudgetError
from wordpipe.search.kinds import Kind, list_count
from wordpipe.search.learning import learn
from wordpipe.search.memory import resident_bytes
from wordpipe.search.settings import IndexSettings

__all__ = ["Plan", "plan_of", "update_plan"]

_READING = 64 << 20  # a row group, its batches and what Arrow keeps of them
_ROUNDS = 10  # of k-means over the lists
_PADDED = 1024  # a list of panorama has a multiple of so many rows
_PROBED_FROM = 20_000  # vectors; fewer are indexed before a prediction could be read


@dataclass(frozen=True, slots=True)
class Plan:
    """The prediction for one kind.

    Attributes:
        kind: the kind of index.
        memory_bytes: the process at its peak.
        index_bytes: the finished index, in memory and on the disk.
        seconds: the building, tuning included.
    """

    kind: Kind
    memory_bytes: int
    index_bytes: int
    seconds: float

    def refuse_above(self, bound: int | None) -> None:
        """Refuse to build what needs more than the bound.

        Raises:
            BudgetError: it does.
        """
        if bound is not None and self.memory_bytes > bound:
            raise BudgetError(
                f"a {self.kind.name} index is predicted to need more memory than allowed",
                where="max_memory",
                got=f"{self.memory_bytes / 1e6:,.0f} MB, of which {self.index_bytes / 1e6:,.0f} MB stay",
                expected=f"at most {bound / 1e6:,.0f} MB",
                hint="allow more with --max-memory, or build vectors of fewer numbers: "
                "wordpipe embed … --transform whiten --dims 128",
            )


def plan_of(
    kind: Kind, n: int, sample_SD: npt.NDArray[np.float32], settings: IndexSettings, later_bytes: int = 0
) -> Plan:
    """Predict memory and time.

    Args:
        kind: what is to be built.
        n: vectors to come.
        sample_SD: some unit vectors of it, for the probe; a few thousand.
        settings: the settings.
        later_bytes: memory that what follows needs when the index has been written and is no longer held.
    """
    dim = sample_SD.shape[1]
    lists = list_count(n, settings) if kind.family == "lists" else 0
    index_bytes = _index_bytes(kind, n, dim, lists, settings)
    training = kind.training_rows(n, settings) * dim * 4
    filled = index_bytes + {"graph": n * dim * 4, "whole graph": n * (dim * 4 + settings.nsg_degree * 32)}.get(
        kind.family, 0
    )
    memory = resident_bytes() + max(int(max(2 * training, filled)) + _READING, later_bytes)
    return Plan(kind, memory, index_bytes, _seconds(kind, n, lists, sample_SD, settings))


def update_plan(kind: Kind, n: int, dim: int, settings: IndexSettings) -> Plan:
    """Predict the memory of an update; it takes too little time to predict that.

    Args:
        kind: what is changed.
        n: vectors that there will be.
        dim: their width.
        settings: the settings.
    """
    index_bytes = _index_bytes(kind, n, dim, list_count(n, settings) if kind.family == "lists" else 0, settings)
    # of a graph the old and the new ones, beside its own
    links = 2 * n * 4 * 2 * settings.hnsw_m if kind.family == "graph" else 0
    return Plan(kind, resident_bytes() + index_bytes + links + _READING, index_bytes, 0.0)


def _index_bytes(kind: Kind, n: int, dim: int, lists: int, settings: IndexSettings) -> int:
    """The finished index, which has so many lists."""
    rows = lists * _PADDED * math.ceil(n / lists / _PADDED) if kind.name == "panorama" else n
    return int(rows * kind.vector_bytes(dim, settings) + lists * dim * 4)


def _seconds(kind: Kind, n: int, lists: int, sample_SD: npt.NDArray[np.float32], settings: IndexSettings) -> float:
    """The time of products of matrices (clustering, choosing lists, the truth) and of filling, from two probes."""
    size = len(sample_SD)
    per_pair = _product_seconds(sample_SD)
    asked = min(n // 10, 1000) * n if kind.family != "flat" else 0
    pairs = asked + kind.training_rows(n, settings) * lists * _ROUNDS + n * lists
    if kind.family == "whole graph":
        pairs += n * n
    filling = _filling_seconds(kind, sample_SD, settings) if n >= _PROBED_FROM and kind.family != "whole graph" else 0.0
    if kind.family == "graph" and filling:
        filling *= np.log(n) / np.log(size)  # a search for neighbours grows with the logarithm
    return float(pairs * per_pair + n * filling)


def _filling_seconds(kind: Kind, sample_SD: npt.NDArray[np.float32], settings: IndexSettings) -> float:
    """Seconds to add one vector, found by building a small index."""
    small = kind.make(sample_SD.shape[1], len(sample_SD), settings.model_copy(update={"nlist": 0}))
    if kind.training_rows(len(sample_SD), settings):
        learn(small, sample_SD)
    start = time.perf_counter()
    small.add(sample_SD)
    return (time.perf_counter() - start) / len(sample_SD)


def _product_seconds(sample_SD: npt.NDArray[np.float32]) -> float:
    """Seconds to compare one pair of vectors, in a batch."""
    few = sample_SD[:1000]
    faiss.knn(few[:10], few, 1, metric=faiss.METRIC_INNER_PRODUCT)  # the first call starts the threads
    start = time.perf_counter()
    faiss.knn(few, sample_SD, min(10, len(sample_SD)), metric=faiss.METRIC_INNER_PRODUCT)
    return (time.perf_counter() - start) / (len(few) * len(sample_SD))
