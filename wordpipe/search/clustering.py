"""Groups of vectors: those that are nearly the same, and clusters.

Vectors are nearly the same if they are linked: wherever two are near, so a group may be a chain. A cluster lies around a
centre, as spherical k-means finds it; and so does a list of an index.

Shapes: N vectors, D numbers of each, K centres.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from wordpipe.metrics import unit_rows
from wordpipe.search.hits import Rows, Vectors

_BLOCK = 4_096  # rows compared at a time: 64 MiB of scores
_LINKS = 1 << 18  # taken at a time, about 35 MB: all links of 9,000 rows that were all near took 2.4 GB
_NEIGHBOURS = 32  # of a row that are searched for in an index
_ROUNDING = 1e-6  # a vector's product with itself may be so much below 1

Report = Callable[[int], None]
Links = Iterator[tuple[Rows, Rows]]
"""Pairs of rows, each pair once, some thousands at a time: one end of each, and the other."""


def groups_of(links: Links, rows: int) -> tuple[list[Rows], int]:
    """Return the rows of each group of linked rows (near duplicates), the largest group first; how many links."""
    from wordpipe.sparse import join_linked, lowest_linked

    lower_N, pairs = np.arange(rows), 0
    for one, other in links:
        pairs += len(one)
        join_linked(lower_N, one, other)
    labels_N = lowest_linked(lower_N)
    order = np.argsort(labels_N, kind="stable")
    found = np.split(order, np.flatnonzero(np.diff(labels_N[order])) + 1)
    return sorted((group for group in found if len(group) > 1), key=lambda group: (-len(group), int(group[0]))), pairs


def all_links(vectors_ND: Vectors, threshold: float, report: Report) -> Links:
    """Yield all pairs (near duplicates) whose cosine is at least the threshold, each compared; told how many rows are done.

    Memory holds the vectors, one block of scores and some links, whatever the threshold.
    """
    for first in range(0, len(vectors_ND), _BLOCK):
        block_BD = vectors_ND[first : first + _BLOCK]
        for second in range(first, len(vectors_ND), _BLOCK):
            near_BC = block_BD @ vectors_ND[second : second + _BLOCK].T >= threshold - _ROUNDING
            if first == second:  # each pair once, and no row with itself
                near_BC = np.triu(near_BC, 1)
            parts_B = np.cumsum(np.count_nonzero(near_BC, axis=1)) // _LINKS
            for begin, end in pairwise([0, *(np.flatnonzero(np.diff(parts_B)) + 1).tolist(), len(near_BC)]):
                one, other = np.nonzero(near_BC[begin:end])
                if len(one):
                    yield one + begin + first, other + second
        report(min(first + _BLOCK, len(vectors_ND)))


def index_links(index: Any, blocks: Iterable[Vectors], rows: int, threshold: float, report: Report) -> Links:
    """Yield every row and its near duplicates by a faiss index; what the index misses is missed."""
    first, seen = 0, [np.zeros(0, dtype=np.int64)]
    for block_BD in blocks if rows else ():
        scores_BK, rows_BK = index.search(np.ascontiguousarray(block_BD), min(_NEIGHBOURS, rows))
        at, place = np.nonzero((scores_BK >= threshold - _ROUNDING) & (rows_BK >= 0))
        one, other = at + first, rows_BK[at, place]
        different = one != other
        seen.append(np.minimum(one, other)[different] * rows + np.maximum(one, other)[different])
        first += len(block_BD)
        report(first)
    if len(links := np.unique(np.concatenate(seen))):  # two rows may each have found the other
        yield links // rows, links % rows


_SCORES = 1 << 24  # of rows and centres at a time: 64 MiB
_ITERATIONS = 25
_BEGINNINGS = 3  # of k-means, of which the best counts
_MOST_TRIED = 256  # clusters that auto thinks of
_BETWEEN_TRIED = 8  # numbers tried between two that were
_TRIED_ITERATIONS = 12
_MIXING = 0xA1  # separates this draw from every other use of a seed


def spherical_centres(vectors_ND: Vectors, k: int, seed: int, iterations: int = _ITERATIONS) -> Vectors:
    """Return the centres of clusters by k-means: (K, D) unit vectors around which N lie, K = k, or as many as are different.

    faiss's k-means, the best of three beginnings, with centres brought to length 1 after every step: the sum of the cosines of
    all vectors with their nearest centre becomes large. Source: Dhillon and Modha 2001, "Concept Decompositions for Large
    Sparse Text Data Using Clustering".
    """
    import faiss

    vectors_ND = np.ascontiguousarray(vectors_ND, dtype=np.float32)
    rows_N = vectors_ND.view(np.dtype((np.void, 4 * vectors_ND.shape[1])))
    kmeans = faiss.Kmeans(
        vectors_ND.shape[1], min(k, len(np.unique(rows_N))), niter=iterations, nredo=_BEGINNINGS, spherical=True, seed=seed,
        min_points_per_centroid=1, max_points_per_centroid=len(vectors_ND),
    )  # fmt: skip
    kmeans.train(vectors_ND)
    centres_KD: Vectors = np.array(kmeans.centroids, dtype=np.float32)
    return centres_KD


_LIST_ROUNDS = 10  # as in faiss: what more of them bring to a search is not measurable
_AT_ONCE = 1_024  # vectors that one thread compares with all centres
_HALVING = 1 / 1024  # how far the two halves of a cluster are moved apart
_LISTS = 0x115  # separates this draw from every other use of a seed


def list_centres(vectors_ND: Vectors, k: int, seed: int, threads: int) -> Vectors:
    """Return (K, D) unit vectors around which N cluster, for the lists of an index: ten rounds of k-means.

    The bytes are the same for any number of threads: always the same vectors are compared together, by one thread. faiss's
    own k-means shares every product of matrices among all threads, and then those of more than 128 numbers are added up in
    another order than by one: of 446 lists of width 384 some vectors changed theirs.

    Args:
        vectors_ND: the vectors, k or more.
        k: how many centres.
        seed: of the vectors that are the first centres.
        threads: that work.
    """
    rng = np.random.default_rng([_LISTS, seed])
    centres_KD = vectors_ND[np.sort(rng.choice(len(vectors_ND), size=k, replace=False))]
    blocks = [vectors_ND[first : first + _AT_ONCE] for first in range(0, len(vectors_ND), _AT_ONCE)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_LIST_ROUNDS):
            centre_N = np.concatenate([*pool.map(partial(_nearest_centre, centres_KD), blocks)])
            order = np.argsort(centre_N, kind="stable")
            members = np.split(order, np.searchsorted(centre_N[order], np.arange(1, k)))
            sums_KD = np.stack([*pool.map(lambda rows: vectors_ND[rows].sum(axis=0), members)])
            lengths_K = np.linalg.norm(sums_KD, axis=1, keepdims=True)
            centres_KD = np.divide(sums_KD, lengths_K, out=centres_KD.copy(), where=lengths_K > 0)
            _fill_empty(centres_KD, np.array([len(rows) for rows in members]))
    return centres_KD


def _nearest_centre(centres_KD: Vectors, block_BD: Vectors) -> Rows:
    """Return the nearest cluster centre of each vector, (B,), by one thread."""
    import faiss

    from wordpipe.search.vectors.faiss_index import faiss_threads

    with faiss_threads(1):
        nearest_B1: Rows = faiss.knn(block_BD, centres_KD, 1, metric=faiss.METRIC_INNER_PRODUCT)[1]
    return nearest_B1[:, 0]


def _fill_empty(centres_KD: Vectors, counts_K: Rows) -> None:
    """Give each cluster centre without vectors a half of the largest cluster, in place."""
    apart_D = np.where(np.arange(centres_KD.shape[1]) % 2, 1 - _HALVING, 1 + _HALVING).astype(np.float32)
    for empty in np.flatnonzero(counts_K == 0).tolist():
        largest = int(counts_K.argmax())
        centres_KD[empty] = centres_KD[largest] * apart_D
        centres_KD[largest] *= 2 - apart_D
        centres_KD[[empty, largest]] /= np.linalg.norm(centres_KD[[empty, largest]], axis=1, keepdims=True)
        counts_K[empty] = counts_K[largest] // 2
        counts_K[largest] -= counts_K[empty]


def assigned(vectors_ND: Vectors, centres_KD: Vectors) -> tuple[Rows, Vectors]:
    """Return the nearest cluster centre of each vector, (N,), and the cosine with that centre, (N,)."""
    centre_N, cosine_N = np.empty(len(vectors_ND), np.int64), np.empty(len(vectors_ND), np.float32)
    step = max(1, _SCORES // len(centres_KD))
    for first in range(0, len(vectors_ND), step):
        cosines_BK = vectors_ND[first : first + step] @ centres_KD.T
        best_B = cosines_BK.argmax(axis=1)
        centre_N[first : first + step] = best_B
        cosine_N[first : first + step] = np.take_along_axis(cosines_BK, best_B[:, None], axis=1)[:, 0]
    return centre_N, np.clip(cosine_N, -1, 1)


def simplified_silhouette(vectors_ND: Vectors, centres_KD: Vectors) -> float:
    """Return how much nearer vectors are to their own cluster's centre than to the next, 0 to 1.

    a and b are 1 - cosine with the nearest and the second nearest of two or more centres. Source: Hruschka, de Castro and
    Campello 2004, "Evolutionary Algorithms for Clustering Gene-Expression Data" (distances to centres, not to all members).
    """
    total, step = 0.0, max(1, _SCORES // len(centres_KD))
    for first in range(0, len(vectors_ND), step):
        cosines_BK = vectors_ND[first : first + step] @ centres_KD.T
        near_B2 = 1 - np.partition(cosines_BK, -2, axis=1)[:, -2:].astype(np.float64)  # the second nearest, the nearest
        b, a = np.clip(near_B2, 1e-9, None).T
        total += float(((b - a) / b).sum())
    return total / len(vectors_ND)


def choose_k(vectors_ND: Vectors, seed: int, report: Callable[[int, int], None]) -> tuple[int, dict[int, float]]:
    """Return the number of clusters with the widest gap, the smallest of equals, and the gap of each number tried.

    The gap is how much the simplified silhouette is above that of vectors which spread as far in every direction and have no
    clusters: a silhouette alone is nearly always best for two. Centres are found for one half of the vectors and judged by the
    other, so that more clusters are not better by themselves. Tried are 2, 3, 4, 6, 8, 11, … (each √2 times the one before) up
    to 256 and to a tenth of the vectors, then numbers between the best and its neighbours. Source: Tibshirani, Walther and
    Hastie 2001, "Estimating the number of clusters in a data set via the gap statistic", with the silhouette as its measure.

    Args:
        vectors_ND: a sample of three or more unit vectors, in random order.
        seed: of k-means, and of the vectors without clusters.
        report: told how many of how many numbers are done.
    """
    # centres by one half, the silhouette by the other; and the same with vectors that have no clusters
    half = len(vectors_ND) // 2
    cut = half if half >= _BETWEEN_TRIED else 0  # of very few vectors all are both
    mixed_ND = _without_clusters(vectors_ND, seed)
    most = max(2, min(_MOST_TRIED, len(vectors_ND) // 10))
    tried: dict[int, float] = {}

    def silhouette(some_ND: Vectors, k: int) -> float:
        centres_KD = spherical_centres(some_ND[: cut or None], k, seed, _TRIED_ITERATIONS)
        return simplified_silhouette(some_ND[cut:], centres_KD) if len(centres_KD) > 1 else 0.0

    # the gap of each number that was not tried yet
    def best_of(numbers: Sequence[int]) -> int:
        new = [k for k in numbers if k not in tried]
        for done, k in enumerate(new, start=1):
            tried[k] = round(silhouette(vectors_ND, k) - silhouette(mixed_ND, k), 6)
            report(done, len(new))
        return max(tried, key=lambda k: (tried[k], -k))

    # a grid, then numbers around its best
    grid = sorted({k for step in range(2, 32) if (k := round(2 ** (step / 2))) <= most})
    at = grid.index(best_of(grid))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    steps = np.linspace(low, high, min(high - low, 2 * _BETWEEN_TRIED) + 1)
    return best_of(sorted({round(step) for step in steps.tolist()})), dict(sorted(tried.items()))


def _without_clusters(vectors_ND: Vectors, seed: int) -> Vectors:
    """Return unit vectors of the same spread without clusters, for the gap statistic."""
    mean_D = vectors_ND.mean(axis=0)
    _, _, directions_DD = np.linalg.svd(vectors_ND - mean_D, full_matrices=False)
    along_ND = (vectors_ND - mean_D) @ directions_DD.T
    mixed_ND = np.random.default_rng([_MIXING, seed]).permuted(along_ND, axis=0) @ directions_DD + mean_D
    return unit_rows(mixed_ND.astype(np.float32))[0]


@dataclass
class ClusterTerms:
    """The words of clusters, counted by their stems, and how each stem is mostly written.

    A stem weighs what having it tells of the cluster: the log-likelihood ratio of its texts being commoner there than in the
    others. Words that are common everywhere weigh nothing, without a list of them. Source: Dunning 1993, "Accurate Methods for
    the Statistics of Surprise and Coincidence".
    """

    texts: list[int]  # of each cluster
    counts: list[Counter[str]]  # of each cluster: how many of its texts have a stem
    written: dict[str, Counter[str]]  # of each stem

    @classmethod
    def empty(cls, clusters: int) -> "ClusterTerms":
        """Return counts of no texts."""
        return cls([0] * clusters, [Counter() for _ in range(clusters)], {})

    def add(self, cluster: int, stems: Iterable[tuple[str, str]]) -> None:
        """Count the stems of a text of a cluster with the words they come from; each once in a text."""
        self.texts[cluster] += 1
        for stem, word in dict(stems).items():
            self.counts[cluster][stem] += 1
            self.written.setdefault(stem, Counter())[word] += 1

    def labels(self, n: int) -> list[list[str]]:
        """Return the n words of every cluster that weigh most, of equals the commoner, as mostly written; numbers are none."""
        everywhere: Counter[str] = Counter()
        for counts in self.counts:
            everywhere.update(counts)
        texts, found = sum(self.texts), []
        for own, counts in zip(self.texts, self.counts, strict=True):
            ranked = sorted(
                (-_surprise(times, own, everywhere[term], texts), -times, term)
                for term, times in counts.items()
                if not term.isdigit()
            )
            written = (self.written[term] for _, _, term in ranked[:n])
            found.append([max(one.items(), key=lambda item: (item[1], item[0]))[0] for one in written])
        return found


def _surprise(both: int, first: int, second: int, total: int) -> float:
    """Return the log-likelihood ratio by which a word is a cluster's label; 0 where no more than by chance."""
    if both * total <= first * second:
        return 0.0
    seen = ((both, first - both), (second - both, total - first - second + both))
    rows, columns = (first, total - first), (second, total - second)
    return sum(
        times * math.log(times * total / (row * column))
        for row, line in zip(rows, seen, strict=True)
        for column, times in zip(columns, line, strict=True)
        if times
    )
