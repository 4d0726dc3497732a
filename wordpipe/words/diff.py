"""Semantic shifts: words compared between two tables of word vectors, and how unusual each shift is for a word of its count.

Two measures say different things. The distance after alignment sees small shifts of common words. The neighbours that were
kept need no alignment, and people can read them. Both are large for rare words, whose
vectors are little more than noise, so each is compared with that of words of similar count.

Legend: N words, row i the same word in both tables; D numbers per vector.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.metrics import nearest_rows, neighbour_overlap, unit_rows
from wordpipe.words.vectors import WordList

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ANCHORS = 5_000
_PEERS = 250  # words of the next lower and of the next higher counts that a word is compared with
_NORMAL = 1.4826  # the median deviation of a normal distribution times this is its standard deviation
_LEAST_DISTANCE_SPREAD = 0.01
_LEAST_LOSS_SPREAD = 0.05
_WINDOWS = 4_096  # medians taken at a time


class CountedWords(NamedTuple):
    """The V words of a table and their counts, the commonest first, without vectors."""

    words: WordList
    counts: Ints

    @classmethod
    def from_batches(cls, batches: Iterable[pa.RecordBatch]) -> "CountedWords":
        """Make the words and counts to compare (diff) of batches with the columns word and count."""
        some = list(batches)
        words = pa.chunked_array([batch.column("word") for batch in some], pa.string())
        counts = [batch.column("count").to_numpy(zero_copy_only=False) for batch in some]
        return cls(WordList(words), np.concatenate([np.zeros(0, np.int64), *counts]))


def vocabulary_intersection(a: CountedWords, b: CountedWords) -> tuple[Ints, Ints]:
    """Return rows in `a` and `b` of the words spelled the same in both, the commonest in both first (`effective_counts`)."""
    found = pc.index_in(a.words.array, value_set=b.words.array).to_numpy(zero_copy_only=False)
    rows_a = np.flatnonzero(~np.isnan(found))
    rows_b = found[rows_a].astype(np.int64)
    order = np.argsort(-effective_counts(a.counts[rows_a], b.counts[rows_b]), kind="stable")
    return rows_a[order], rows_b[order]


def vocabulary_difference(these: CountedWords, others: CountedWords, most: int) -> tuple[int, list[dict[str, Any]]]:
    """Return how many words the other table lacks, and the `most` commonest of the missing words: word, count."""
    rows = np.flatnonzero(~pc.is_in(these.words.array, value_set=others.words.array).to_numpy(zero_copy_only=False))
    first = rows[np.argsort(-these.counts[rows], kind="stable")][:most]
    words, counts = these.words.array.take(pa.array(first)).to_pylist(), these.counts[first].tolist()
    return len(rows), [{"word": word, "count": count} for word, count in zip(words, counts, strict=True)]


class Shifts(NamedTuple):
    """The semantic shifts of N words between two tables."""

    distances: Floats  # 1 - cosine after alignment, (N,)
    kept: Doubles  # the share of a word's neighbours that are still its neighbours, (N,)
    surprise: Doubles  # how much more it shifted than words of its count, in standard deviations, (N,)
    neighbours_a: npt.NDArray[np.int32]  # rows of the nearest words in the first table, the nearest first, (N, K)
    neighbours_b: npt.NDArray[np.int32]  # and in the second


def semantic_shifts(
    a_ND: Floats, b_ND: Floats, effective_counts_N: Doubles, *, k: int, report: Callable[[int], None] = lambda _: None
) -> Shifts:
    """Compare two tables of unit vectors of the same words, the commonest first, float32.

    `k` neighbours are looked at, fewer than N; the first 5,000 words decide the alignment; `report` gets the number of words
    whose neighbours were looked up, up to 2 N. For the counts see `effective_counts`.

    Of 50 words whose uses had been mixed with another word's in one of two different texts of 10 MB, so many came among the
    first 50 by surprise, by distance alone (not centred) and by neighbours alone: 35, 17 and 21 % in the texts that these ways
    were chosen by, 25, 16 and 17 % in others; centred distance without z-scores found 1 %. Where both texts are the same but
    for these words, which no two years are, distance alone finds 95 % and surprise 91.
    """
    near_a_NK, _ = nearest_rows(a_ND, k, report)
    near_b_NK, _ = nearest_rows(b_ND, k, lambda done: report(len(a_ND) + done))
    kept_N = neighbour_overlap(near_a_NK, near_b_NK)
    distances_N = aligned_distances(centred_rows(a_ND), centred_rows(b_ND), _ANCHORS)
    of_loss_N = robust_z_scores(1 - kept_N, effective_counts_N, least_spread=_LEAST_LOSS_SPREAD)
    of_distance_N = robust_z_scores(distances_N, effective_counts_N, least_spread=_LEAST_DISTANCE_SPREAD)
    return Shifts(distances_N, kept_N, (of_loss_N + of_distance_N) / 2, near_a_NK, near_b_NK)


def effective_counts(counts_a: Ints, counts_b: Ints) -> Doubles:
    """Return one count for a word of two compared texts: 1 / (1/a + 1/b), float64.

    The noise of a vector falls as its count grows, and that of a difference is the sum of both.
    """
    return 1 / (1 / np.maximum(counts_a, 1) + 1 / np.maximum(counts_b, 1))


def robust_z_scores(
    values_N: npt.NDArray[np.floating], counts_N: Doubles, *, least_spread: float, peers: int = _PEERS
) -> Doubles:
    """Return by how many standard deviations each shift is above those of words of similar count. (N,) float64.

    A word's peers are the `peers` next lower and next higher in count (as many in all at either end of the list). Their
    median and median deviation stand for mean and standard deviation, so that the words which did shift count for little:
    of 50 changed words in otherwise the same text, 49 came first by these and 31 by mean and standard deviation; in another
    text it made no difference. The standard deviation is taken to be at least `least_spread`.

    Source: Hampel 1974, "The influence curve and its role in robust estimation" (the median deviation).
    """
    order_N = np.argsort(counts_N, kind="stable")
    sorted_N = values_N[order_N].astype(np.float64)
    n, width = len(sorted_N), min(2 * peers + 1, len(sorted_N))
    windows_MW = np.lib.stride_tricks.sliding_window_view(sorted_N, width)
    window_of_N = np.clip(np.arange(n) - peers, 0, n - width)
    scores_N = np.empty(n)
    for first in range(0, n, _WINDOWS):
        part = slice(first, first + _WINDOWS)
        near_RW = windows_MW[window_of_N[part]]
        middle_R = np.median(near_RW, axis=1)
        spread_R = _NORMAL * np.median(abs(near_RW - middle_R[:, None]), axis=1)
        scores_N[order_N[part]] = (sorted_N[part] - middle_R) / np.maximum(spread_R, least_spread)
    return scores_N


def centred_rows(unit_ND: Floats) -> Floats:
    """Return unit vectors of compared words less their mean, at length 1 again. (N, D) float32.

    All vectors of a table lean one way, and common words more than rare ones; without the mean, words of different count
    are told apart by what they mean.

    Source: Artetxe et al. 2016, "Learning principled bilingual mappings of word embeddings while preserving monolingual
    invariance", section 2.3.
    """
    return unit_rows(unit_ND - unit_ND.mean(axis=0))[0]


def procrustes_rotation(from_ND: Floats, to_ND: Floats) -> Floats:
    """Return the rotation R of one compared table to another, (D, D): `from_ND @ R` and `to_ND` differ least, in squares.

    It may mirror as well as turn.

    Source: Schönemann 1966, "A generalized solution of the orthogonal Procrustes problem"; for tables of two times Hamilton
    et al. 2016, "Diachronic Word Embeddings Reveal Statistical Laws of Semantic Change", section 2.2.
    """
    assert from_ND.shape == to_ND.shape, (from_ND.shape, to_ND.shape)
    left_DD, _, right_DD = np.linalg.svd(from_ND.T.astype(np.float64) @ to_ND.astype(np.float64))
    rotation_DD: Floats = (left_DD @ right_DD).astype(np.float32)
    return rotation_DD


def aligned_distances(a_ND: Floats, b_ND: Floats, anchors: int) -> Floats:
    """Return 1 - cosine of every compared word with itself, once the first table is turned. (N,) float32, 0 to 2.

    Both are unit vectors; the first rows, `anchors` of them, decide how the table is turned.
    """
    rotation_DD = procrustes_rotation(a_ND[:anchors], b_ND[:anchors])
    cosines_N: Floats = np.einsum("nd,nd->n", a_ND @ rotation_DD, b_ND)
    return np.clip(1 - cosines_N, 0, 2)
