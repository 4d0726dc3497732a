"""The kinds of index: what each is made of, what it must see first, how wide it can search.

All compare by inner product, which on unit vectors is the cosine. Kinds of codes (ivf-pq, rabitq) find candidates by the codes
and compare the best of them by the vectors themselves, so the scores of every kind are exact. The vectors are kept in full: in
half precision they take half the memory, and scores were off by up to 8e-5.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import faiss

from wordpipe.errors import ConfigError
from wordpipe.search.settings import IndexSettings

__all__ = ["KINDS", "LEAST", "Kind", "Reach", "Width", "candidate_kinds", "list_count"]

_FLAT_BELOW = 20_000  # vectors that an exact search scans in about a millisecond
LEAST = 1_000  # vectors, for the kinds below
_OF_MANY = (
    "nsg",
    "ivf-pq",
    "rabitq",
)  # nsg draws so many different entries that it would draw for ever; codes need examples
_TRAIN_PER_LIST = 64  # k-means wants at least 39 and uses at most 256 vectors per list
_MIN_PER_LIST = 39
_CODE_ROUNDS = 10  # of k-means over 16 codes: 25, faiss's own, took 2.4 times as long and found the same share (0.994)
_ID = 8  # bytes of a row number in a list
_PANORAMA_LEVELS = 8

Family = Literal["flat", "lists", "graph", "whole graph"]


@dataclass(frozen=True, slots=True)
class Width:
    """How wide a search looks.

    Attributes:
        search: lists looked at (nprobe), or candidates of a graph (efSearch, search_L); 0 for an exact index.
        refine: candidates per answer that are compared by their vectors; 0 where the kind has no such step.
    """

    search: int = 0
    refine: int = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """The widths that a kind can take.

    Attributes:
        narrow: the narrowest search worth trying.
        wide: the widest there is.
        refines: factors of candidates to try, the cheapest first; (0,) where the kind has no such step.
    """

    narrow: int
    wide: int
    refines: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of index.

    Attributes:
        name: as in the settings.
        family: flat: nothing but vectors; lists: rows can be added and removed by number; graph: rows can be added at the
            end; whole graph: made of all vectors at once.
        make: an empty index from the width, the number of vectors to come and the settings.
        training_rows: vectors that it must see before the first is added, from the same; 0 for none.
        reach: the widths it can take, from the number of vectors and the settings.
        tune: set how wide it searches.
        vector_bytes: memory that one vector takes in the finished index, from the width and the settings.
    """

    name: str
    family: Family
    make: Callable[[int, int, IndexSettings], Any]
    training_rows: Callable[[int, IndexSettings], int]
    reach: Callable[[int, IndexSettings], Reach]
    tune: Callable[[Any, Width], None]
    vector_bytes: Callable[[int, IndexSettings], float]


def candidate_kinds(settings: IndexSettings, n: int) -> list[Kind]:
    """The kinds to try for `n` vectors until one reaches the recall; under auto the last one is exact.

    Of 60,000 sentence vectors of width 384, on one core at recall 0.95 (measured with the vectors beside codes and links
    in half precision): ivf-pq 18,000 queries/s after 3 s of building, hnsw of 16 neighbours 6,700 after 15 s, rabitq 5,000,
    panorama 1,500, flat 670. So auto takes ivf-pq or nothing but vectors.
    """
    if settings.type in _OF_MANY and n < LEAST:
        return [KINDS["flat"]]
    if settings.type != "auto":
        return [KINDS[settings.type]]
    return [KINDS["flat"]] if n < _FLAT_BELOW else [KINDS["ivf-pq"], KINDS["flat"]]


def list_count(n: int, settings: IndexSettings) -> int:
    """How many lists an index over `n` vectors has.

    The square root of n: twice as many took twice the time to build and answered a third fewer queries at recall 0.95
    (60,000 sentence vectors of width 384).

    Raises:
        ConfigError: more lists than vectors are asked for.
    """
    if settings.nlist > n:
        raise ConfigError("more lists than vectors", where="nlist", got=settings.nlist, expected=f"at most {n}")
    return settings.nlist or max(1, min(math.isqrt(n), n // _MIN_PER_LIST))


def _make_flat(dim: int, n: int, settings: IndexSettings) -> Any:
    return faiss.IndexFlatIP(dim)


def _make_hnsw(dim: int, n: int, settings: IndexSettings) -> Any:
    index: Any = faiss.IndexHNSWFlat(dim, settings.hnsw_m, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = settings.ef_construction
    index.hnsw.rng = faiss.RandomGenerator(settings.seed)  # type: ignore[attr-defined]
    return index


def _make_nsg(dim: int, n: int, settings: IndexSettings) -> Any:
    made: Any = faiss.IndexNSGFlat
    return made(dim, settings.nsg_degree, faiss.METRIC_INNER_PRODUCT)


def _lists_of(codes: Callable[[int, IndexSettings], str]) -> Callable[[int, int, IndexSettings], Any]:
    """Make lists of what `codes` says, in the language of faiss.index_factory, from the width and the settings."""

    def make(dim: int, n: int, settings: IndexSettings) -> Any:
        recipe = f"IVF{list_count(n, settings)},{codes(dim, settings)}"
        index: Any = faiss.index_factory(dim, recipe, faiss.METRIC_INNER_PRODUCT)
        clustering = faiss.extract_index_ivf(index).cp
        clustering.seed = settings.seed
        clustering.spherical = True
        clustering.min_points_per_centroid = 1  # our own bound is in list_count; faiss would warn on its own terms
        quantizer = getattr(_codes_of(index), "pq", None)
        if quantizer is not None:
            quantizer.cp.niter = _CODE_ROUNDS
        return index

    return make


def _codes_of(index: Any) -> Any:
    """The lists themselves, where vectors stand beside them and where not."""
    return faiss.downcast_index(index.base_index) if isinstance(index, faiss.IndexRefine) else index


def _pq_codes(dim: int, settings: IndexSettings) -> str:
    return f"PQ{_pq_parts(dim, settings)}x4fs,RFlat"


def _pq_parts(dim: int, settings: IndexSettings) -> int:
    """How many 4-bit codes stand for a vector; faiss wants equal parts, so it is the nearest number that divides the width."""
    wanted = max(1, dim // (settings.pq_dims or (2 if dim >= 64 else 1)))
    return next(parts for parts in range(wanted, 0, -1) if dim % parts == 0)


def _rabitq_codes(dim: int, settings: IndexSettings) -> str:
    return f"RaBitQfs{settings.rabitq_bits if settings.rabitq_bits > 1 else ''},RFlat"


def _no_training(n: int, settings: IndexSettings) -> int:
    return 0


def _list_training(n: int, settings: IndexSettings) -> int:
    return min(n, max(_TRAIN_PER_LIST * list_count(n, settings), 4096))


def _list_reach(n: int, settings: IndexSettings) -> Reach:
    lists = list_count(n, settings)
    if settings.nprobe:
        return Reach(min(settings.nprobe, lists), min(settings.nprobe, lists))
    return Reach(1, lists)


def _code_reach(n: int, settings: IndexSettings) -> Reach:
    reach = _list_reach(n, settings)
    refines = (settings.refine,) if settings.refine else (2, 4, 8, 16, 32, 64, 128)
    return Reach(reach.narrow, reach.wide, refines)


def _graph_reach(n: int, settings: IndexSettings) -> Reach:
    if settings.ef_search:
        return Reach(settings.ef_search, settings.ef_search)
    return Reach(16, min(max(n, 16), 8192))


def _nsg_reach(n: int, settings: IndexSettings) -> Reach:
    if settings.ef_search:
        return Reach(min(settings.ef_search, n // 2), min(settings.ef_search, n // 2))
    return Reach(16, min(n // 2, 8192))


def _tune_hnsw(index: Any, width: Width) -> None:
    index.hnsw.efSearch = width.search


def _tune_nsg(index: Any, width: Width) -> None:
    index.nsg.search_L = width.search


def _tune_lists(index: Any, width: Width) -> None:
    faiss.extract_index_ivf(index).nprobe = width.search
    if width.refine:
        index.k_factor = width.refine


_FLAT = Kind(
    "flat", "flat", _make_flat, _no_training, lambda n, s: Reach(0, 0), lambda index, width: None, lambda d, s: 4 * d
)
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _FLAT,
        Kind(
            "hnsw", "graph", _make_hnsw, _no_training, _graph_reach, _tune_hnsw,
            lambda d, s: 4 * d + 4 * (2 * s.hnsw_m + s.hnsw_m / (s.hnsw_m - 1)) + 12,
        ),
        Kind(
            "nsg", "whole graph", _make_nsg, _no_training, _nsg_reach, _tune_nsg,
            lambda d, s: 4 * d + 4 * s.nsg_degree,
        ),
        Kind(
            "ivf", "lists", _lists_of(lambda d, s: "Flat"), _list_training, _list_reach, _tune_lists,
            lambda d, s: 4 * d + _ID,
        ),
        Kind(
            "panorama", "lists", _lists_of(lambda d, s: f"FlatPanorama{min(_PANORAMA_LEVELS, d)}"), _list_training,
            _list_reach, _tune_lists, lambda d, s: 4 * (d + _PANORAMA_LEVELS + 1) + _ID,
        ),
        Kind(
            "ivf-pq", "lists", _lists_of(_pq_codes), _list_training, _code_reach, _tune_lists,
            lambda d, s: 4 * d + math.ceil(_pq_parts(d, s) / 2) + _ID,
        ),
        Kind(
            "rabitq", "lists", _lists_of(_rabitq_codes), _list_training, _code_reach, _tune_lists,
            lambda d, s: 4 * d + s.rabitq_bits * d / 8 + 8 + _ID,
        ),
    )
}  # fmt: skip
