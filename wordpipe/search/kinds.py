"""The kinds of index: how each is made, trained and tuned.

All compare by inner product, which on unit vectors is the cosine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import faiss

from wordpipe.errors import ConfigError
from wordpipe.search.settings import IndexSettings

__all__ = ["KINDS", "Kind", "candidate_kinds"]

_FLAT_BELOW = 50_000  # vectors that an exact search scans in a few milliseconds
_HNSW_BELOW = 5_000_000  # above this a graph takes hours to build on few cores
_TRAIN_PER_LIST = 64  # k-means wants at least 39 and uses at most 256 vectors per list
_MIN_PER_LIST = 39


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of index.

    Attributes:
        name: as in the settings.
        make: an empty index from the width, the number of vectors to come and the settings.
        training_rows: vectors that it must see before the first is added, from the same; 0 for none.
        tune: set how wide it searches.
        widths: the search widths to try, narrow to wide; empty for an exact index.
    """

    name: str
    make: Callable[[int, int, IndexSettings], Any]
    training_rows: Callable[[int, IndexSettings], int]
    tune: Callable[[Any, int], None]
    widths: Callable[[int, IndexSettings], list[int]]


def candidate_kinds(settings: IndexSettings, n: int) -> list[Kind]:
    """The kinds to try for `n` vectors until one reaches the recall; under auto the last one is exact."""
    if settings.type != "auto":
        return [KINDS[settings.type]]
    if n < _FLAT_BELOW:
        return [KINDS["flat"]]
    return [KINDS["hnsw" if n < _HNSW_BELOW else "ivf"], KINDS["flat"]]


def _make_flat(dim: int, n: int, settings: IndexSettings) -> Any:
    return faiss.IndexFlatIP(dim)


def _make_hnsw(dim: int, n: int, settings: IndexSettings) -> Any:
    index: Any = faiss.IndexHNSWFlat(dim, settings.hnsw_m, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = settings.ef_construction
    index.hnsw.rng = faiss.RandomGenerator(settings.seed)  # type: ignore[attr-defined]
    return index


def _make_ivf(dim: int, n: int, settings: IndexSettings) -> Any:
    index: Any = faiss.index_factory(dim, f"IVF{_nlist(n, settings)},Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = settings.seed
    index.cp.spherical = True
    index.cp.min_points_per_centroid = 1  # our own bound is in _nlist; faiss would warn on its own terms
    return index


def _nlist(n: int, settings: IndexSettings) -> int:
    """How many lists an IVF index over `n` vectors has."""
    if settings.nlist > n:
        raise ConfigError("more lists than vectors", where="nlist", got=settings.nlist, expected=f"at most {n}")
    return settings.nlist or max(1, min(4 * math.isqrt(n), n // _MIN_PER_LIST))


def _tune_hnsw(index: Any, width: int) -> None:
    index.hnsw.efSearch = width


def _tune_ivf(index: Any, width: int) -> None:
    index.nprobe = width


def _doubling(start: int, stop: int) -> list[int]:
    """start, 2 start, 4 start … below `stop`, and `stop`."""
    widths = []
    while start < stop:
        widths.append(start)
        start *= 2
    return [*widths, stop]


KINDS: dict[str, Kind] = {
    "flat": Kind("flat", _make_flat, lambda n, s: 0, lambda index, width: None, lambda n, s: []),
    "hnsw": Kind(
        "hnsw",
        _make_hnsw,
        lambda n, s: 0,
        _tune_hnsw,
        lambda n, s: [s.ef_search] if s.ef_search else _doubling(16, min(max(n, 16), 8192)),
    ),
    "ivf": Kind(
        "ivf",
        _make_ivf,
        lambda n, s: min(n, _TRAIN_PER_LIST * _nlist(n, s)),
        _tune_ivf,
        lambda n, s: [min(s.nprobe, _nlist(n, s))] if s.nprobe else _doubling(1, _nlist(n, s)),
    ),
}
