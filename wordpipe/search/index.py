"""A FAISS index: of what each kind is made, how it takes rows and how wide it searches; what may enter it; its file.

All kinds compare by inner product, which on unit vectors is the cosine. Lists of codes (ivf-pq) find candidates by the codes
and compare the best of them by the vectors themselves, so the scores of every kind are exact. The vectors are kept in full:
in half precision they take half the memory, and scores were off by up to 8e-5.

Queries that an index has never seen are the honest ones: a graph knows the way to its own rows. So some rows can be withheld
until the search has been tuned on them. In whatever order rows are added, the finished index numbers them as they came.
"""

import math
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.runtime import cpu_count
from wordpipe.search.groups import list_centres
from wordpipe.search.knn import Mask, Rows, Vectors
from wordpipe.search.settings import IndexSettings
from wordpipe.search.soundness import check_structure

BUILD_AGAIN = "build it again with: wordpipe index"
K = 10  # neighbours, by which the recall is measured
_FLAT_BELOW = 20_000  # vectors that an exact search scans in about a millisecond
_CODES_FROM = 1_000  # vectors: codes need examples
_TRAIN_PER_LIST = 64  # k-means wants at least 39 and uses at most 256 vectors per list
_MIN_PER_LIST = 39
_CODE_ROUNDS = 10  # of k-means over 16 codes: 25, faiss's own, took 2.4 times as long and found the same share (0.994)
_ID = 8  # bytes of a row number in a list
_TOGETHER = 64  # queries that one thread searches for at once
_RANDOM_READ = 4.0  # how much dearer a byte of a candidate's vector is than one of a list that is read in order
_REFINED, _HEAD = b"IxRF", 37  # how lists with vectors beside them begin, and where the lists themselves do
_FAISS_PLACE = re.compile(r"^Error in .* at \S+:\d+: ")  # which line of faiss complains

Codes = npt.NDArray[np.uint8]
"""(B, S) of each vector the number of its list and its codes, in faiss's bytes."""


@dataclass(frozen=True, slots=True)
class Width:
    """How wide a search looks."""

    search: int = 0  # lists looked at (nprobe), or candidates of a graph (efSearch); 0 for an exact index
    refine: int = 0  # candidates per hit that are compared by their vectors; 0 where the kind has no such step


class Flat:
    """An index of nothing but `n` vectors of width `dim`: exact, so nothing is withheld."""

    name = "flat"  # of the kind, as in the settings
    withholds = (
        False  # whether the rows withheld are really left out until `close`; else they are in from the beginning
    )

    def __init__(self, n: int, dim: int, settings: IndexSettings) -> None:
        self.n, self.dim, self.settings = n, dim, settings
        self.index: Any = self._made()  # the faiss index

    def _made(self) -> Any:
        return faiss.IndexFlatIP(self.dim)

    @property
    def training_rows(self) -> int:
        """Vectors that it must see before the first is added."""
        return 0

    @property
    def index_bytes(self) -> int:
        """The finished index, in memory and on the disk."""
        return int(self.n * self._vector_bytes())

    @property
    def filling_bytes(self) -> int:
        """Memory that filling takes beside the index."""
        return 0

    def _vector_bytes(self) -> float:
        """Memory that one vector takes in the finished index."""
        return 4 * self.dim

    def reach(self) -> tuple[int, int, tuple[int, ...]]:
        """The widths that it can take: the narrowest search worth trying, the widest, and factors of candidates to try.

        The factors come cheapest first; (0,) where the kind compares no candidates.
        """
        return 0, 0, (0,)

    def tune(self, width: Width) -> None:
        """Set how wide it searches."""

    def work(self, width: Width) -> float:
        """What one query costs at this width, in bytes read in order."""
        return self.n * self._vector_bytes()

    def learn(self, training_TD: Vectors) -> None:
        """Learn from a sample of the rows before the first is added."""

    def begin(self) -> None:
        """Take the memory of all vectors at once: growing by doubling would hold up to three times as much for a moment."""
        store = self._vectors()
        store.codes.resize(self.n * store.code_size)
        store.codes.resize(0)

    def _vectors(self) -> Any:
        """The faiss index of the vectors themselves."""
        return self.index

    def add(self, first: int, block_BD: Vectors, within_B: Mask) -> None:
        """Take the unit vectors of the rows from `first` on; those not `within` are withheld, or are there already."""
        self.index.add(block_BD)

    def ready(self) -> None:
        """All rows have come: make what was added searchable."""

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Add the rows that were withheld."""

    def search(self, queries_QD: Vectors) -> tuple[Vectors, Rows]:
        """(Q, K) the scores of what it finds, and the rows."""
        found: tuple[Vectors, Rows] = self.index.search(queries_QD, K)
        return found


class Graph(Flat):
    """A graph of neighbours that is walked towards the query (HNSW; Malkov and Yashunin, arXiv 1603.09320)."""

    name = "hnsw"
    withholds = True

    def __init__(self, n: int, dim: int, settings: IndexSettings) -> None:
        super().__init__(n, dim, settings)
        self._rows: list[Rows] = []

    def _made(self) -> Any:
        index: Any = faiss.IndexHNSWFlat(self.dim, self.settings.hnsw_m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.settings.ef_construction
        index.hnsw.rng = faiss.RandomGenerator(self.settings.seed)  # type: ignore[attr-defined]
        return index

    def _vector_bytes(self) -> float:
        """Of the vector, its links on all levels, and where they are."""
        links = self.settings.hnsw_m
        return 4 * self.dim + 4 * (2 * links + links / (links - 1)) + 12

    @property
    def filling_bytes(self) -> int:
        """Of the vectors once more, while they are put in order."""
        return self.n * self.dim * 4

    def reach(self) -> tuple[int, int, tuple[int, ...]]:
        """From 16 candidates to all, 8,192 at most."""
        if given := self.settings.ef_search:
            return given, given, (0,)
        return 16, min(max(self.n, 16), 8192), (0,)

    def tune(self, width: Width) -> None:
        """Set efSearch."""
        self.index.hnsw.efSearch = width.search

    def work(self, width: Width) -> float:
        """Each candidate's neighbours are read from anywhere."""
        return width.search * 4.0 * self.dim * self.settings.hnsw_m * _RANDOM_READ

    def _vectors(self) -> Any:
        return faiss.downcast_index(self.index.storage)

    def add(self, first: int, block_BD: Vectors, within_B: Mask) -> None:
        """Add the rows that are `within` to the graph."""
        if within_B.any():
            self.index.add(np.ascontiguousarray(block_BD[within_B]))
            self._rows.append(first + np.flatnonzero(within_B))

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Add the rest, and number all as they came: faiss numbers them in the order in which they are added."""
        if len(rows_Q):
            self.index.add(np.ascontiguousarray(vectors_QD))
        self.index.permute_entries(np.argsort(np.concatenate([*self._rows, rows_Q])))


class Lists(Flat):
    """Lists of 4-bit codes around centroids (IVF-PQ), with the vectors of all rows beside them to compare candidates by."""

    name = "ivf-pq"
    withholds = True

    def _made(self) -> Any:
        recipe = f"IVF{self._list_count()},PQ{self._parts()}x4fs,RFlat"
        index: Any = faiss.index_factory(self.dim, recipe, faiss.METRIC_INNER_PRODUCT)
        lists: Any = faiss.downcast_index(index.base_index)
        lists.pq.cp.niter = _CODE_ROUNDS
        return index

    @property
    def lists(self) -> Any:
        """The faiss index of the lists themselves."""
        return faiss.downcast_index(self.index.base_index)

    def _list_count(self) -> int:
        """How many lists there are to be.

        The square root of n: twice as many took twice the time to build and answered a third fewer queries at recall 0.95
        (60,000 sentence vectors of width 384).
        """
        n, wanted = self.n, self.settings.nlist
        if wanted > n:
            raise ConfigError("more lists than vectors", where="nlist", got=wanted, expected=f"at most {n}")
        return wanted or max(1, min(math.isqrt(n), n // _MIN_PER_LIST))

    def _lists_there(self) -> int:
        """Those that it has: a table that has grown since would be given more of them."""
        return min(int(self.lists.nlist), self.n)

    def _parts(self) -> int:
        """How many codes stand for a vector; faiss wants equal parts, so it is the nearest number that divides the width."""
        wanted = max(1, self.dim // (self.settings.pq_dims or (2 if self.dim >= 64 else 1)))
        return next(parts for parts in range(wanted, 0, -1) if self.dim % parts == 0)

    @property
    def training_rows(self) -> int:
        """Vectors for the centroids and the codes."""
        return min(self.n, max(_TRAIN_PER_LIST * self._lists_there(), 4096))

    def _vector_bytes(self) -> float:
        """Of the vector, its codes and its number."""
        return 4 * self.dim + self._code_bytes()

    @property
    def index_bytes(self) -> int:
        """With the centroids."""
        return super().index_bytes + self._lists_there() * self.dim * 4

    def _code_bytes(self) -> int:
        return math.ceil(self._parts() / 2) + _ID

    def reach(self) -> tuple[int, int, tuple[int, ...]]:
        """From one list to all, and twice to 128 times the candidates."""
        lists, given = self._lists_there(), self.settings
        narrow, wide = (min(given.nprobe, lists),) * 2 if given.nprobe else (1, lists)
        return narrow, wide, ((given.refine,) if given.refine else (2, 4, 8, 16, 32, 64, 128))

    def tune(self, width: Width) -> None:
        """Set nprobe, and how many candidates are compared."""
        self.lists.nprobe, self.index.k_factor = width.search, width.refine

    def work(self, width: Width) -> float:
        """Codes are read in order, the vectors of candidates from anywhere."""
        codes = width.search * self.n / self._lists_there() * self._code_bytes()
        return codes + width.refine * K * 4 * self.dim * _RANDOM_READ

    def learn(self, training_TD: Vectors) -> None:
        """Learn the centroids of the lists, then the codes.

        The centroids are products of large matrices and take all threads. The codes are hundreds of clusterings of two
        dimensions, too small to share: on two busy cores 192 of them took 35 s of processor time with two threads, most of it
        waiting for each other, and 2.5 s with one.
        """
        lists, threads = self.lists, faiss.omp_get_max_threads()
        lists.quantizer.add(list_centres(training_TD, lists.nlist, self.settings.seed, threads))
        with faiss_threads(1):
            self.index.train(training_TD)

    def go_on_with(self, lists: Any) -> None:
        """Take lists without rows that were learned before, in the place of learning."""
        self.index = _with_vectors_beside(lists)

    def put(self, parts: Iterable[tuple[Rows, Codes]]) -> None:
        """Put rows into the empty lists by their codes, in this order; as `add` would, byte for byte.

        Faiss packs codes for its search 32 at a time, and takes them one by one only unpacked: so they are in memory twice
        for a moment, before `begin` takes that of the vectors, which are 13 times as large or more.
        """
        lists, held = self.lists, faiss
        plain: Any = held.IndexIVFPQ(
            lists.quantizer, lists.d, lists.nlist, lists.pq.M, lists.pq.nbits, lists.metric_type
        )
        plain.pq, plain.by_residual, plain.is_trained = lists.pq, lists.by_residual, True
        for rows_B, codes_BS in parts:
            if len(rows_B):
                plain.add_sa_codes(codes_BS, rows_B)
        packed: Any = held.IndexIVFPQFastScan(plain, lists.bbs)
        lists.replace_invlists(packed.invlists, True)
        packed.own_invlists = False
        lists.ntotal = packed.ntotal

    def begin(self) -> None:
        """Take the memory of the vectors beside the lists, to be written to: what `add` copies would be touched twice."""
        held: Any = faiss
        self._store = held.downcast_index(self.index.refine_index)
        self._store.reset()
        self._store.codes.resize(self.n * self._store.code_size)
        store = held.rev_swig_ptr(self._store.codes.data(), self.n * self._store.code_size)
        self._beside_ND: Vectors = store.view(np.float32).reshape(self.n, -1)

    def add(self, first: int, block_BD: Vectors, within_B: Mask) -> None:
        """Put the rows that are `within` into the lists, and all vectors beside them."""
        self._beside_ND[first : first + len(block_BD)] = block_BD
        if within_B.any():
            self.lists.add_with_ids(block_BD[within_B], first + np.flatnonzero(within_B))

    def search(self, queries_QD: Vectors) -> tuple[Vectors, Rows]:
        """As in `Flat`; always the same queries together and by one thread, whatever the number of threads.

        faiss finds the lists of queries by a product of matrices, which it adds up in another order for other numbers of
        queries or threads; and the recall decides how wide the index searches. 64 together are searched for more slowly than
        a thousand by one thread, by a fifth where each looks at one list and by a tenth at 40 (200,000 vectors of width 128).
        """
        parts = np.split(queries_QD, np.arange(_TOGETHER, len(queries_QD), _TOGETHER))
        with ThreadPoolExecutor(faiss.omp_get_max_threads()) as pool:
            scores, rows = zip(*pool.map(self._search_alone, parts), strict=True)
        return np.concatenate(scores), np.concatenate(rows)

    def _search_alone(self, queries_QD: Vectors) -> tuple[Vectors, Rows]:
        with faiss_threads(1):
            return super().search(queries_QD)

    def ready(self) -> None:
        """All vectors are beside the lists now."""
        self._store.ntotal = self.index.ntotal = self.n

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Put the rest into the lists; by one thread, as they are few, and get the same lists from it every time."""
        if len(rows_Q):
            with faiss_threads(1):
                self.lists.add_with_ids(vectors_QD, rows_Q)


def codes_of(lists: Any, block_BD: Vectors) -> Codes:
    """The codes of vectors in learned lists: a pure function of the two, with one thread."""
    codes_BS: Codes = np.empty((len(block_BD), lists.sa_code_size()), dtype=np.uint8)
    if len(block_BD):
        lists.sa_encode(block_BD, codes_BS)
    return codes_BS


KINDS: dict[str, type[Flat]] = {kind.name: kind for kind in (Flat, Graph, Lists)}


def kind_names(settings: IndexSettings, n: int) -> list[str]:
    """The kinds to try for `n` vectors until one reaches the recall; under auto the last one is exact.

    Of 60,000 sentence vectors of width 384, on one core at recall 0.95 (measured with the vectors beside codes and links
    in half precision): ivf-pq 18,000 queries/s after 3 s of building, hnsw of 16 neighbours 6,700 after 15 s, flat 670. So
    auto takes ivf-pq or nothing but vectors.
    """
    if settings.type == "ivf-pq" and n < _CODES_FROM:
        return ["flat"]
    if settings.type != "auto":
        return [settings.type]
    return ["flat"] if n < _FLAT_BELOW else ["ivf-pq", "flat"]


@contextmanager
def faiss_threads(threads: int) -> Iterator[int]:
    """Let faiss use `threads` threads (0: one per core) inside; gives the number."""
    before = faiss.omp_get_max_threads()
    count = threads or cpu_count()
    faiss.omp_set_num_threads(count)
    try:
        yield count
    finally:
        faiss.omp_set_num_threads(before)


def write_index(index: Any, file: Any) -> None:
    """Write the index to anything with a `write` for bytes, such as a writer that hashes; an error of it passes through.

    Faiss never gets a path: on a full disk `faiss.write_index` to one returns as if all were well and leaves an empty file.
    """
    faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]


def read_index(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
    """Read an index: its width of search travels with it.

    Args:
        file: from its current position to its end.
        size: bytes to come; no part of the index may claim more, whatever its header says.
        where: what to call the file in an error.

    Raises:
        ArtifactError: not an index, cut short, or one that claims more than it has.
    """
    before = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(size + 1)
    try:
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read))  # type: ignore[attr-defined]
    except (RuntimeError, MemoryError, AssertionError) as error:
        lines = str(error).rpartition("Error: ")[2].splitlines()
        reason = _FAISS_PLACE.sub("", lines[0]) if lines else None
        raise ArtifactError("not a readable FAISS index", where=where, got=reason, hint=BUILD_AGAIN) from None
    finally:
        faiss.set_deserialization_vector_byte_limit(before)
    try:
        check_structure(index)
    except (ValueError, RuntimeError, AssertionError) as error:
        got = str(error).partition("\n")[0][:200]
        raise ArtifactError("not a sound FAISS index", where=where, got=got, hint=BUILD_AGAIN) from None
    return index


def read_lists(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
    """Read an ivf-pq index but for the vectors beside its lists, nine tenths of it: they are to be filled in.

    Faiss writes a header of 37 bytes, the lists, the vectors, and how many candidates are compared. What is given, and what
    is raised, is as in `read_index`.
    """
    if file.read(_HEAD)[: len(_REFINED)] != _REFINED:
        file.seek(0)
        return read_index(file, size=size, where=where)
    return _with_vectors_beside(read_index(file, size=size, where=where))


def _with_vectors_beside(lists: Any) -> Any:
    """An index of lists, with an empty place for the vectors beside them."""
    index: Any = faiss.index_factory(lists.d, "Flat,RFlat", lists.metric_type)
    index.base_index.this.own(True)  # the empty place of the lists goes when this line is done
    index.base_index, index.is_trained = lists, lists.is_trained
    lists.this.disown()
    return index
