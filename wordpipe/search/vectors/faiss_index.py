"""A FAISS index: what every kind of index does, the exact one, its file, the soundness of one that was read, and its search.

All kinds compare by inner product, which on unit vectors is the cosine. Kinds that find candidates by codes compare the best
of them by the vectors themselves, so the scores of every kind are exact. FAISS has the vectors in full: in half precision they
take half of the memory, and scores were off by up to 8e-5. The file of an index that lies beside its rows is without them: the
rows have them, and who reads the file gives them, or compares candidates by vectors as they are stored (`ByteVectors`).

Recall is measured with rows outside the index: a graph finds its own too easily. So some rows can be withheld until the search
has been tuned on them. In whatever order rows are added, the finished index numbers them as they came.

FAISS checks how much it reads, and little of what it has read: a graph whose links lead nowhere is walked for ever or beyond
its memory, a list may hold rows that there are none of. A hash says only that the file is as somebody wrote it. What is
looked at here takes a pass over all links and row numbers: 2 to 7 ms for 100,000 rows in 316 to 1,264 lists, 3 ms in a graph.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO, ClassVar

import faiss
import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import unit_vectors
from wordpipe.errors import DamageError
from wordpipe.runtime import cpu_count
from wordpipe.search.hits import Hits, Mask, Rows, Vectors, best_of
from wordpipe.search.settings import AUTO, EXACT, KINDS, IndexSettings
from wordpipe.search.vectors.knn import ByteVectors, FoundRows

BUILD_AGAIN = "build the index again: wordpipe index"
K = 10  # neighbours, by which the recall is measured
RANDOM_READ = 4.0  # how much dearer a byte of a candidate's vector is than one of a list that is read in order
_FLAT_BELOW = 20_000  # vectors that an exact search scans in about a millisecond
_TABLES = 16  # numbers for each of a centroid's, at most, in a table of products that faiss counts as if it made it
_FAISS_PLACE = re.compile(r"^Error in .* at \S+:\d+: ")  # which line of faiss complains

Codes = npt.NDArray[np.uint8]
"""(B, S) of each vector the number of its list and its codes, in faiss's bytes."""


@dataclass(frozen=True, slots=True)
class Width:
    """The width of a search: how many lists or candidates it compares."""

    search: int = 0  # lists looked at (nprobe), or candidates of a graph (efSearch); 0 for an exact index
    refine: int = 0  # candidates per hit that are compared by their vectors; 0 where the kind has no such step


class Flat:
    """A kind of index: nothing but `n` vectors of width `dim` (flat), exact, so nothing is withheld."""

    name = EXACT  # of the kind, as in the settings
    # whether the rows withheld are really left out until `close`; else they are in from the beginning
    withholds = False
    # whether rows may be encoded apart, by what was learned (`learned`, `go_on_with`, `put`)
    learns_in_parts = False
    # whether rows may go from a finished index and come to it (`take`, `keep`); else it is built anew
    grows_in_place = False
    is_exact = True  # as soon built as changed
    compares_stored = True  # its hits can be compared by vectors that lie beside it as they are stored
    least_rows = 0  # with fewer an exact index is built
    checks: ClassVar[
        dict[str, Callable[[Any], None]]
    ] = {}  # FAISS's class → what raises ValueError of one that is unsound

    def __init__(self, n: int, dim: int, settings: IndexSettings) -> None:
        self.n, self.dim, self.settings = n, dim, settings
        self.index: Any = self._made()  # the faiss index

    def _made(self) -> Any:
        return faiss.IndexFlatIP(self.dim)

    @property
    def training_rows(self) -> int:
        """Vectors that a kind of index must see before the first is added."""
        return 0

    @property
    def index_bytes(self) -> int:
        """Bytes of the finished index in memory."""
        return int(self.n * self._vector_bytes())

    @property
    def filling_bytes(self) -> int:
        """Bytes that filling the index takes beside the index."""
        return 0

    def _vector_bytes(self) -> float:
        """Return the bytes that one vector takes in the finished index."""
        return 4 * self.dim

    def reach(self) -> tuple[int, int, tuple[int, ...]]:
        """Return the widths that a search of the FAISS index can take: the narrowest, the widest, and factors.

        The factors come cheapest first; (0,) where the kind compares no candidates.
        """
        return 0, 0, (0,)

    def tune(self, width: Width) -> None:
        """Set the width of a search."""

    def work(self, width: Width) -> float:
        """Return the cost of one query at this width, in bytes read in order."""
        return self.n * self._vector_bytes()

    def learn(self, training_TD: Vectors) -> None:
        """Learn from a sample of the rows before the first is added."""

    @property
    def learned(self) -> Any:
        """The learned part of the index, without rows."""
        raise NotImplementedError

    def go_on_with(self, learned: Any) -> None:
        """Use a learned part in place of learning."""
        raise NotImplementedError

    def put(self, parts: Iterable[tuple[Rows, Codes]]) -> None:
        """Put rows into the index by their codes, in this order; as `add` would, byte for byte."""
        raise NotImplementedError

    @staticmethod
    def read_candidates(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
        """Read what finds candidates to compare by stored vectors; see `read_index`."""
        raise NotImplementedError

    @staticmethod
    def read_to_grow(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
        """Read what of a finished index is needed to change it; see `read_index`."""
        raise NotImplementedError

    def take(self, index: Any, new_of_old_M: Rows) -> None:
        """Go on with a finished index that `read_to_grow` has read: give every old row its new number, -1 takes it out."""
        raise NotImplementedError

    def begin(self) -> None:
        """Reserve the memory of all vectors at once: growing by doubling would hold up to three times as much for a moment."""
        store = self._vectors()
        store.codes.resize(self.n * store.code_size)
        store.codes.resize(0)

    def _vectors(self) -> Any:
        """Return the faiss index of the vectors themselves."""
        return self.index

    def add(self, first: int, block_BD: Vectors, within_B: Mask) -> None:
        """Add the unit vectors of the rows from `first` on; those not `within` are withheld, or are there already."""
        self.index.add(block_BD)

    def ready(self) -> None:
        """Make searchable what was added: all rows have come."""

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Add the rows that were withheld to the index."""

    def search(self, queries_QD: Vectors) -> tuple[Vectors, Rows]:
        """Return the scores of what a search finds, and the rows, (Q, K)."""
        found: tuple[Vectors, Rows] = self.index.search(queries_QD, K)
        return found


def codes_of(lists: Any, block_BD: Vectors) -> Codes:
    """Return the codes of vectors in the learned lists of a FAISS index: a pure function of the two."""
    codes_BS: Codes = np.empty((len(block_BD), lists.sa_code_size()), dtype=np.uint8)
    if len(block_BD):
        lists.sa_encode(block_BD, codes_BS)
    return codes_BS


@cache
def kind_of(name: str) -> type[Flat]:
    """Return the class of a kind of index."""
    module, _, function = KINDS[name].partition(":")
    found: type[Flat] = getattr(import_module(module), function)
    return found


def kind_names(settings: IndexSettings, n: int) -> list[str]:
    """Return the kinds of FAISS index to try for `n` vectors; under auto the last one is exact.

    Of 60,000 sentence vectors of width 384, on one core at recall 0.95 (measured with the vectors beside codes and links
    in half precision): ivf-pq 18,000 queries/s after 3 s of building, hnsw of 16 neighbours 6,700 after 15 s, flat 670. So
    auto takes ivf-pq or nothing but vectors.
    """
    if settings.type != "auto":
        return [settings.type if n >= kind_of(settings.type).least_rows else Flat.name]
    return [Flat.name] if n < _FLAT_BELOW else [AUTO, Flat.name]


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


def write_index(index: Any, file: Any, *, vectors: bool = True) -> None:
    """Write the index to anything with a `write` for bytes, such as a writer that hashes; an error of it passes through.

    Without the vectors of its rows, where these are written beside it, the index has them no longer.

    Faiss never gets a path: on a full disk `faiss.write_index` to one returns as if all were well and leaves an empty file.
    """
    held: Any = faiss
    if not vectors and not isinstance(index, faiss.IndexHNSW):  # whose graph may not have more rows than its store
        store_of(index).reset()
    held.write_index(index, held.PyCallbackIOWriter(file.write), 0 if vectors else held.IO_FLAG_SKIP_STORAGE)


def store_of(index: Any) -> Any:
    """Return the flat index that a FAISS index compares vectors by; None where nothing in the FAISS index is flat."""
    if isinstance(index, faiss.IndexRefine):
        index = faiss.downcast_index(index.refine_index)
    elif isinstance(index, faiss.IndexHNSW) and index.storage is not None:
        index = faiss.downcast_index(index.storage)
    return index if isinstance(index, faiss.IndexFlat) else None


def numbers_in(store: Any, n: int) -> Vectors:
    """Return the memory of n vectors of a flat index, (n, D), to be written to; it is all reserved at once."""
    held: Any = faiss
    store.reset()
    store.codes.resize(n * store.code_size)
    vectors_ND: Vectors = held.rev_swig_ptr(store.codes.data(), n * store.code_size).view(np.float32).reshape(n, -1)
    return vectors_ND


def read_index(
    file: BinaryIO, *, size: int, where: str | None = None, vectors: Iterable[Vectors] = (), n: int = 0
) -> Any:
    """Read a FAISS index; its width of search is part of the file.

    Args:
        file: from its current position to its end.
        size: bytes to come; no part of the index may claim much more, whatever its header says.
        where: what to call the file in an error.
        vectors: those of its rows, (B, D) at a time, for an index that was written without them; else they are not read.
        n: how many there are.

    Raises:
        ArtifactError: not an index, cut short, or one that claims more than it has.
    """
    before = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(_TABLES * size + 1)
    try:
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read))  # type: ignore[attr-defined]
    except (RuntimeError, MemoryError, AssertionError) as error:
        lines = str(error).rpartition("Error: ")[2].splitlines()
        reason = _FAISS_PLACE.sub("", lines[0]) if lines else None
        raise DamageError("the FAISS index cannot be read", where=where, got=reason, hint=BUILD_AGAIN) from None
    finally:
        faiss.set_deserialization_vector_byte_limit(before)
    try:
        if n and not ((store := store_of(index)) and store.ntotal):
            _fill(index, vectors, n)
        check_structure(index)
    except (ValueError, RuntimeError, AssertionError) as error:
        got = str(error).partition("\n")[0][:200]
        raise DamageError("the FAISS index is damaged", where=where, got=got, hint=BUILD_AGAIN) from None
    return index


def _fill(index: Any, vectors: Iterable[Vectors], n: int) -> None:
    """Put the vectors of n rows into a FAISS index that was read without. Raises ValueError: another number or width."""
    if isinstance(index, faiss.IndexHNSW) and index.storage is None:
        index.storage, index.own_fields = faiss.IndexFlat(index.d, index.metric_type), True
        index.storage.this.disown()
    if (store := store_of(index)) is None:
        return  # what it is, the check of its structure says
    vectors_ND, first = numbers_in(store, n), 0
    for block_BD in vectors:
        need(
            block_BD.shape[1] == store.d, f"the rows have vectors of width {block_BD.shape[1]}, the index of {store.d}"
        )
        need(first + len(block_BD) <= n, f"the rows have more than {n} vectors")
        vectors_ND[first : first + len(block_BD)] = unit_vectors(block_BD, first=first, error=DamageError)
        first += len(block_BD)
    need(first == n, f"the rows have {first} vectors instead of {n}")
    store.ntotal = n


def check_structure(index: Any) -> None:
    """Check a FAISS index of a kind that is built, and the indexes that it consists of.

    Raises:
        ValueError: says what is wrong.
    """
    held: Any = faiss
    index = held.downcast_index(index)
    need(0 < index.d < 1 << 20, f"width {index.d}")
    need(0 <= index.ntotal < 1 << 40, f"{index.ntotal} rows")
    need(index.metric_type in (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2), f"measure {index.metric_type}")
    need(bool(index.is_trained), "the index was not trained")
    for name in KINDS:
        for of, check in kind_of(name).checks.items():
            if isinstance(index, getattr(held, of)):
                check(index)
                return
    need(isinstance(index, faiss.IndexFlat), f"an unsupported kind of index: {type(index).__name__}")
    size = index.code_size
    need(size == 4 * index.d, f"a vector has {size} bytes")
    need(
        index.codes.size() == index.ntotal * size,
        f"the codes of {index.ntotal} vectors have {index.codes.size()} bytes",
    )


def need(holds: bool, found: str) -> None:
    """Raise ValueError, with what was found, unless a condition of soundness holds."""
    if not holds:
        raise ValueError(found)


def same_size(one: Any, other: Any, what: str) -> None:
    """Raise ValueError unless an index and a part of it have as many rows of the same width."""
    need((one.ntotal, one.d) == (other.ntotal, other.d), f"{what}: {other.ntotal} rows of width {other.d}")


def numbers_of(vector: Any) -> Any:
    """Return the numbers of a vector of faiss, in their place."""
    size = vector.size()
    if not size:
        return np.zeros(0, np.int64)
    vector = getattr(vector, "owned", vector)  # a vector that may lie in a mapped file holds its own
    held: Any = faiss
    return held.rev_swig_ptr(vector.data(), size)


EXACT_BELOW = 50_000  # allowed rows that are compared one by one: of 384 numbers a query takes 5 ms
_ONE_THREAD_BELOW, _COMPARED_BY_OTHERS = 500_000, 10_000
"""Vectors that one thread compares, 20 ms of work, and those that an index that is not exact is taken to compare for a query.
Eight queries of an IVF index took 2 ms by one thread, and 44 by two beside other programs: each waits for the last, and the
system lets that one wait."""
_PRODUCT_FROM = 8
"""Queries: one was compared with 24,000 rows in 13 ms in their place and in 31 copied, 64 in 584 and 328."""
_COPIED = 1 << 21
"""Numbers of vectors that are copied, as in a million rows it takes 2 ms to pass over all others: 4,000 rows of width 384."""


class VectorIndex(FoundRows):
    """Rows that a FAISS index finds by their vectors; see `FoundRows`.

    An exact index compares the allowed rows that it holds. Of any other, few allowed rows are compared exactly, by the vectors
    beside its codes or in its graph; of many so many neighbours are taken that k of them are allowed, up to all it finds.

    Args:
        index: the faiss index.
        allowed: (N,) which rows may be found; all where None.
        with_vector: (M,) the row of each vector, ascending; None where all have one.
        stored: the vectors that candidates are compared by, where the FAISS index has none.
        refine: how many candidates for a hit are compared then.
    """

    def __init__(
        self,
        index: Any,
        allowed: Mask | None = None,
        with_vector: Rows | None = None,
        stored: ByteVectors | None = None,
        refine: int = 1,
    ) -> None:
        super().__init__(index.ntotal, index.d, allowed, with_vector)
        self._index, self._stored, self._refine = index, stored, refine

    def _vectors_of(self, numbers_R: Rows) -> Vectors:
        if self._stored is not None:
            return self._stored.vectors(numbers_R)
        if (held := self._held) is None:
            raise DamageError("the FAISS index contains no vectors", got=type(self._index).__name__, hint=BUILD_AGAIN)
        found: Vectors = held.reconstruct_batch(numbers_R)
        return found

    @property
    def _held(self) -> Any:
        """The vectors themselves, see `store_of`."""
        return store_of(self._index)

    def _threads_for(self, queries: int) -> int:
        """Return the threads for a search of a FAISS index: 1 where there is little work, or else 0."""
        compared = self._there
        if not isinstance(self._index, faiss.IndexFlat) and (self._allowed is None or compared > EXACT_BELOW):
            compared = min(compared, _COMPARED_BY_OTHERS)
        return int(queries * compared < _ONE_THREAD_BELOW)

    def _neighbours(self, queries_QD: Vectors, k: int) -> list[Hits]:
        """Return the k nearest rows in the FAISS index, found as suits the number of rows allowed."""
        with faiss_threads(self._threads_for(len(queries_QD))):
            allowed = self._allowed
            if allowed is None or self._there == len(allowed):
                return self._searched(queries_QD, k)
            rows_R = np.flatnonzero(allowed) if self._there <= EXACT_BELOW else None
            if rows_R is not None and self._stored is not None:
                return self._stored.nearest(queries_QD, k, rows_R)
            held = self._held
            if held is None or (rows_R is None and held is not self._index):
                return self._sifted(queries_QD, k, allowed)
            if rows_R is not None and (len(queries_QD) >= _PRODUCT_FROM or rows_R.size * held.d <= _COPIED):
                return _compared(queries_QD, rows_R, held.reconstruct_batch(rows_R), k)
            bits: Any = faiss
            selector = bits.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            return self._searched(queries_QD, k, held, bits.SearchParameters(sel=selector))

    def _searched(self, queries_QD: Vectors, k: int, part: Any = None, parameters: Any = None) -> list[Hits]:
        """Return the hits that faiss finds in the index, or in one part of the index.

        Ten are searched for at least: refinement compares some times k candidates exactly, and its recall was measured at ten.
        """
        most = min(max(k, K) * self._refine, self._n)
        try:
            index = self._index if part is None else part
            scores_QK, rows_QK = index.search(queries_QD, most, params=parameters)
        except (RuntimeError, AssertionError) as error:  # of faiss, over a file that was forged
            got = str(error).partition("\n")[0][:200]
            raise DamageError("the FAISS index cannot be searched", got=got, hint=BUILD_AGAIN) from None
        if rows_QK.max(initial=-1) >= self._n or rows_QK.min(initial=0) < -1:
            raise DamageError(
                "the FAISS index returned row numbers that do not exist", got=rows_QK.max(), hint=BUILD_AGAIN
            )
        if self._stored is not None:
            return self._stored.nearest_of_each(queries_QD, k, rows_QK)
        return [_in_order(scores_K, rows_K).first(k) for scores_K, rows_K in zip(scores_QK, rows_QK, strict=True)]

    def _sifted(self, queries_QD: Vectors, k: int, allowed: Mask) -> list[Hits]:
        """Search a FAISS index for more and more neighbours until k of every query are allowed.

        It works for every kind of index; some of them take no selection, and a graph that may not step on forbidden rows
        finds less through them.
        """
        depth = min(self._index.ntotal, max(k, int(2 * k * len(allowed) / self._there)))
        found: list[Hits] = [Hits.none()] * len(queries_QD)
        waiting = np.arange(len(queries_QD))
        while len(waiting):
            for number, hits in zip(waiting.tolist(), self._searched(queries_QD[waiting], depth), strict=True):
                found[number] = hits.where(allowed[hits.rows]).first(k)
            if depth == self._index.ntotal:
                break
            waiting = np.array([number for number in waiting.tolist() if len(found[number]) < k], dtype=np.int64)
            depth = min(self._index.ntotal, 4 * depth)
        return found


def _compared(queries_QD: Vectors, rows_R: Rows, vectors_RD: Vectors, k: int) -> list[Hits]:
    """Return the k nearest of some rows, compared one by one."""
    scores_QK, at_QK = faiss.knn(queries_QD, vectors_RD, k, metric=faiss.METRIC_INNER_PRODUCT)
    return [_in_order(scores_K, rows_R[at_K]) for scores_K, at_K in zip(scores_QK, at_QK, strict=True)]


def _in_order(scores_K: Vectors, rows_K: Rows) -> Hits:
    """Return faiss's hits in order: without those not found (row -1), cosines in their range, ties by row."""
    there = (rows_K >= 0) & np.isfinite(scores_K)
    return best_of(rows_K[there], scores_K[there].clip(-1, 1), len(rows_K))
