"""Lists of 4-bit codes around centroids (IVF-PQ), with the vectors of all rows beside them to compare candidates by.

Source: Jégou et al. 2011, "Product Quantization for Nearest Neighbor Search".
"""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import faiss
import numpy as np

from wordpipe.errors import ConfigError
from wordpipe.search.clustering import list_centres
from wordpipe.search.hits import Mask, Rows, Vectors
from wordpipe.search.vectors.faiss_index import (
    RANDOM_READ,
    Codes,
    Flat,
    K,
    Width,
    check_structure,
    faiss_threads,
    need,
    numbers_in,
    read_index,
    same_size,
    store_of,
)

_held: Any = faiss
_WIDEST = 1 << 20  # candidates of a hit
_TRAIN_PER_LIST = 64  # k-means wants at least 39 and uses at most 256 vectors per list
_MIN_PER_LIST = 39
_CODE_ROUNDS = 10  # of k-means over 16 codes: 25, faiss's own, took 2.4 times as long and found the same share (0.994)
_ID = 8  # bytes of a row number in a list
_TOGETHER = 64  # queries that one thread searches for at once
_REFINED, _HEAD = b"IxRF", 37  # how lists with vectors beside them begin, and where the lists themselves do


def _check_refined(index: Any) -> None:
    """Check lists of codes with vectors that candidates are compared by."""
    factor = float(index.k_factor)
    need(math.isfinite(factor) and 1 <= factor <= _WIDEST, f"the index compares {factor} candidates per hit")
    for part in (index.base_index, index.refine_index):
        need(part is not None, "a part of the index is missing")
        same_size(index, part, "a part of the index")
        check_structure(part)


def _check_lists(index: Any) -> None:
    """Check lists around centroids: as many as there are centroids, and every row in range."""
    need(
        1 <= index.nlist < 1 << 31 and index.nprobe >= 1,
        f"the index has {index.nlist} lists, and a search reads {index.nprobe} lists",
    )
    need(index.quantizer is not None and index.invlists is not None, "a part of the index is missing")
    centroids = _held.downcast_index(index.quantizer)
    need((centroids.ntotal, centroids.d) == (index.nlist, index.d), f"{centroids.ntotal} centroids")
    check_structure(centroids)
    lists = _held.downcast_InvertedLists(index.invlists)
    need(lists.nlist == index.nlist, f"{lists.nlist} lists")
    _check_quantizer(index.pq, index.d)
    _check_blocks(index, lists)
    rows = 0
    for number in range(index.nlist):
        if not (size := lists.list_size(number)):
            continue
        rows += size
        need(rows <= index.ntotal, f"the lists contain more rows than the index, which has {index.ntotal}")
        numbers = _held.rev_swig_ptr(lists.get_ids(number), size)
        need(
            numbers.min() >= 0 and numbers.max() < index.ntotal,
            f"a list contains rows from {numbers.min()} to {numbers.max()}, and the index has {index.ntotal} rows",
        )
    need(rows == index.ntotal, f"the lists contain {rows} rows, and the index has {index.ntotal} rows")


def _check_quantizer(pq: Any, dim: int) -> None:
    """Check the codes of a product quantizer (Jégou et al. 2011): equal parts of a vector."""
    need(pq.d == dim and pq.M >= 1 and pq.M * pq.dsub == dim, f"the codes have {pq.M} parts of {pq.dsub} numbers")
    need(1 <= pq.nbits <= 16 and pq.ksub == 1 << pq.nbits, f"each code has {pq.nbits} bits")
    need(pq.centroids.size() == pq.d * pq.ksub, f"the centroids of the codes have {pq.centroids.size()} numbers")


def _check_blocks(index: Any, lists: Any) -> None:
    """Check an ivf-pq index's 4-bit codes in blocks, the form of the fast search."""
    need(index.pq.nbits == index.nbits == 4 and index.ksub == 16, f"each code has {index.nbits} bits")
    need(index.M == index.pq.M and index.M2 == index.M + index.M % 2, f"{index.M2} parts")
    need(index.bbs > 0 and index.bbs % 32 == 0 and index.bbs <= 1 << 16, f"blocks of {index.bbs}")
    block = getattr(lists, "block_size", None)
    if block is not None:
        need(lists.n_per_block == index.bbs and block == index.bbs * index.M2 // 2, f"each block has {block} bytes")


class Lists(Flat):
    """A kind of index: lists of 4-bit codes around centroids (IVF-PQ), and the vectors of all rows to compare candidates."""

    name = "ivf-pq"
    withholds, learns_in_parts, grows_in_place, is_exact = True, True, True, False
    least_rows = 1_000  # codes need examples
    checks = {"IndexRefine": _check_refined, "IndexIVFPQFastScan": _check_lists}  # noqa: RUF012

    def _made(self) -> Any:
        """Make the parts of an ivf-pq index."""
        recipe = f"IVF{self._list_count()},PQ{self._parts()}x4fs,RFlat"
        index: Any = faiss.index_factory(self.dim, recipe, faiss.METRIC_INNER_PRODUCT)
        lists: Any = faiss.downcast_index(index.base_index)
        lists.pq.cp.niter = _CODE_ROUNDS
        return index

    @property
    def learned(self) -> Any:
        """The faiss index of the lists, as they are."""
        return self.lists

    @property
    def lists(self) -> Any:
        """The faiss index of the lists themselves."""
        return faiss.downcast_index(self.index.base_index)

    def _list_count(self) -> int:
        """Return the number of lists of an ivf-pq index to make.

        The square root of n: twice as many took twice the time to build and answered a third fewer queries at recall 0.95
        (60,000 sentence vectors of width 384).
        """
        n, wanted = self.n, self.settings.nlist
        if wanted > n:
            raise ConfigError(
                "nlist is larger than the number of vectors", where="nlist", got=wanted, expected=f"at most {n}"
            )
        return wanted or max(1, min(math.isqrt(n), n // _MIN_PER_LIST))

    def _lists_there(self) -> int:
        """Return the number of lists there are: more would be made now if the table has grown since."""
        return min(int(self.lists.nlist), self.n)

    def _parts(self) -> int:
        """Return the number of codes of a vector: the nearest that divides the width, as faiss needs equal parts."""
        wanted = max(1, self.dim // (self.settings.pq_dims or (2 if self.dim >= 64 else 1)))
        return next(parts for parts in range(wanted, 0, -1) if self.dim % parts == 0)

    @property
    def training_rows(self) -> int:
        """Vectors for training the centroids and the codes."""
        return min(self.n, max(_TRAIN_PER_LIST * self._lists_there(), 4096))

    def _vector_bytes(self) -> float:
        """Return the bytes of a vector in the lists, its codes and its number."""
        return 4 * self.dim + self._code_bytes()

    @property
    def index_bytes(self) -> int:
        """Bytes of the lists with the centroids."""
        return super().index_bytes + self._lists_there() * self.dim * 4

    def _code_bytes(self) -> int:
        return math.ceil(self._parts() / 2) + _ID

    def reach(self) -> tuple[int, int, tuple[int, ...]]:
        """Return the widths of a search of the lists: from one list to all, and twice to 128 times the candidates."""
        lists, given = self._lists_there(), self.settings
        narrow, wide = (min(given.nprobe, lists),) * 2 if given.nprobe else (1, lists)
        return narrow, wide, ((given.refine,) if given.refine else (2, 4, 8, 16, 32, 64, 128))

    def tune(self, width: Width) -> None:
        """Set how many lists a search reads (nprobe), and how many candidates are compared."""
        self.lists.nprobe, self.index.k_factor = width.search, width.refine

    def work(self, width: Width) -> float:
        """Return the cost of a query of the lists: codes are read in order, the vectors of candidates from anywhere."""
        codes = width.search * self.n / self._lists_there() * self._code_bytes()
        return codes + width.refine * K * 4 * self.dim * RANDOM_READ

    def learn(self, training_TD: Vectors) -> None:
        """Learn the centroids of the lists of an ivf-pq index, then the codes.

        The centroids are products of large matrices and take all threads. The codes are hundreds of clusterings of two
        dimensions, too small to share: on two busy cores 192 of them took 35 s of processor time with two threads, most of it
        waiting for each other, and 2.5 s with one.
        """
        lists, threads = self.lists, faiss.omp_get_max_threads()
        lists.quantizer.add(list_centres(training_TD, lists.nlist, self.settings.seed, threads))
        with faiss_threads(1):
            self.index.train(training_TD)

    def go_on_with(self, learned: Any) -> None:
        """Use learned lists without rows in place of learning."""
        self.index = _with_vectors_beside(learned)

    def take(self, index: Any, new_of_old_M: Rows) -> None:
        """Go on with the rows that the lists of an ivf-pq index hold; the vectors beside them are taken anew."""
        self.index = index
        lists = self.lists
        lists.remove_ids(faiss.IDSelectorBatch(np.flatnonzero(new_of_old_M < 0)))
        for number in range(lists.nlist):
            if size := lists.invlists.list_size(number):
                rows = _held.rev_swig_ptr(lists.invlists.get_ids(number), size)
                rows[:] = new_of_old_M[rows]

    def put(self, parts: Iterable[tuple[Rows, Codes]]) -> None:
        """Put rows into the empty lists of an ivf-pq index by their codes, in this order; as `add` would, byte for byte.

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
        """Reserve the memory of the vectors beside the lists of an ivf-pq index, to be written to."""
        self._store = store_of(self.index)
        self._beside_ND = numbers_in(self._store, self.n)

    def add(self, first: int, block_BD: Vectors, within_B: Mask) -> None:
        """Put the rows that are `within` into the lists, and all vectors into the store beside the lists."""
        self._beside_ND[first : first + len(block_BD)] = block_BD
        if within_B.any():
            self.lists.add_with_ids(block_BD[within_B], first + np.flatnonzero(within_B))

    def search(self, queries_QD: Vectors) -> tuple[Vectors, Rows]:
        """Search the lists of an ivf-pq index, as in `Flat`; always by one thread.

        Always the same queries together and by one thread, whatever the number of threads.

        faiss finds the lists of queries by a product of matrices, which it adds up in another order for other numbers of
        queries or threads; and the recall decides how wide the index searches. 64 together are searched for more slowly than
        a thousand by one thread, by a fifth where each looks at one list and by a tenth at 40 (200,000 vectors of width 128).
        """
        parts = np.split(queries_QD, np.arange(_TOGETHER, len(queries_QD), _TOGETHER))
        with ThreadPoolExecutor(faiss.omp_get_max_threads()) as pool:
            scores, rows = zip(*pool.map(self._search_alone, parts), strict=True)
        return np.concatenate(scores), np.concatenate(rows)

    def _search_alone(self, queries_QD: Vectors) -> tuple[Vectors, Rows]:
        """Search the lists by one thread."""
        with faiss_threads(1):
            return super().search(queries_QD)

    def ready(self) -> None:
        """Finish filling: all vectors are beside the lists now."""
        self._store.ntotal = self.index.ntotal = self.n

    def close(self, rows_Q: Rows, vectors_QD: Vectors) -> None:
        """Put the withheld rows into the lists; by one thread, as they are few, and get the same lists from it every time."""
        if len(rows_Q):
            with faiss_threads(1):
                self.lists.add_with_ids(vectors_QD, rows_Q)

    @staticmethod
    def read_candidates(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
        """Read the lists of an ivf-pq index alone; an older index has vectors beside its lists.

        Faiss writes a header of 37 bytes, the lists, the vectors, and how many candidates are compared. What is given, and
        what is raised, is as in `read_index`.
        """
        if file.read(_HEAD)[: len(_REFINED)] != _REFINED:
            file.seek(0)
        return read_index(file, size=size, where=where)

    @staticmethod
    def read_to_grow(file: BinaryIO, *, size: int, where: str | None = None) -> Any:
        """Read the lists of an ivf-pq index, with an empty place beside them: new vectors are filled in."""
        found = Lists.read_candidates(file, size=size, where=where)
        return _with_vectors_beside(found) if isinstance(found, faiss.IndexIVF) else found


def _with_vectors_beside(lists: Any) -> Any:
    """Return an index of lists, with an empty store for the vectors beside the lists."""
    index: Any = faiss.index_factory(lists.d, "Flat,RFlat", lists.metric_type)
    index.base_index.this.own(True)  # the empty place of the lists goes when this line is done
    index.base_index, index.is_trained = lists, lists.is_trained
    lists.this.disown()
    return index
