"""Figures of evaluations: perplexity, measures of rankings, correlations, and bootstrap intervals.

A language model's loss per token depends on the tokenizer: the same text in fewer tokens has a higher loss for each. What is
divided by words or bytes of the text itself does not, and compares models with different tokenizers.

Rankings are measured exactly as by trec_eval (pytrec_eval, BEIR, MTEB), with conventions that published figures depend on:

- Documents are ordered by their score as a float32, equal scores by their id from the last to the first. What order a
  system found them in does not matter.
- The gain of a document is its grade itself (not 2^grade - 1), discounted by log2(rank + 1); the ideal ranking is made of
  all graded documents, found or not.
- Average precision, recall and reciprocal rank take a document of grade 1 or more for relevant; those without a grade
  are not.

Bootstrap: every draw takes N of N examples with replacement, and says how far a figure would move had other examples been
drawn. What a draw needs is how often it took each example, (N,) counts, so nothing is copied and ranks are not sorted again.
Draws are a pure function of the seed. scipy.stats has all of this with other draws, so other figures, and imports in half a
second.

Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapters 13 and 16; for systems compared on the same
queries: Sakai 2006, "Evaluating evaluation metrics based on the bootstrap".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_NDCG_DEPTH = 10
_RECALL_DEPTH = 100
Interval = tuple[float, float]
"""Lower and upper bound."""

_SEED_STREAM = 0xB007  # separates these draws from every other use of a seed
_COUNTS_AT_ONCE = 1 << 22  # int64 numbers: 32 MiB
_TAIL_PERCENT = 2.5  # of the draws outside of the interval on each side


def perplexity(nats: float, n: int = 1) -> float | None:
    """Perplexity, the number of equally likely tokens (or words) that would surprise as much: exp(-(1/N) Σ log p).

    Args:
        nats: -Σ log p over all tokens.
        n: tokens, for the perplexity per token; words, for that per word; 1 where `nats` is a mean already.

    Returns:
        At least 1 where the probabilities sum to 1; None where there is nothing to divide by, or beyond what a float holds.

    Source: Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks"; per word over other
    units: Mielke 2019, "Can you compare perplexity across different segmentations?"

    >>> round(perplexity(3 * math.log(10), 3), 9)
    10.0
    """
    try:
        return math.exp(nats / n) if n > 0 else None
    except OverflowError:
        return None


def bits_per_byte(nats: float, n_bytes: int) -> float | None:
    """Size of the text as the model would compress it, bits for each byte of its UTF-8; None where there is no byte.

    Source: Gao et al. 2020, "The Pile", section 3.1.

    >>> round(bits_per_byte(8 * math.log(2) * 5, 5), 9)
    8.0
    """
    return nats / math.log(2) / n_bytes if n_bytes > 0 else None


class QueryFigures(NamedTuple):
    """The figures of one query, each from 0 to 1."""

    # normalised discounted cumulative gain of the first ten (trec_eval's ndcg_cut_10). Source: Järvelin and Kekäläinen
    # 2002, "Cumulated gain-based evaluation of IR techniques"
    ndcg_at_10: float = 0.0
    map: float = 0.0  # average precision over all that was found; what was not found counts as precision 0
    recall_at_100: float = 0.0  # the share of the relevant documents among the first hundred
    mrr: float = 0.0  # 1 / rank of the first relevant document, 0 where none was found (trec_eval's recip_rank)


MEASURES = QueryFigures._fields


def trec_order(names: Sequence[str], scores: npt.NDArray[np.floating]) -> list[int]:
    """Places of documents in the order in which trec_eval reads them: best score first, of equal ones the last name first.

    >>> trec_order(["a", "b", "c"], np.array([0.5, 0.5, 0.9]))
    [2, 1, 0]
    """
    rounded = np.asarray(scores, dtype=np.float32).tolist()
    by_name = sorted(range(len(names)), key=names.__getitem__, reverse=True)
    return sorted(by_name, key=lambda place: -rounded[place])


def score_ranking(found: Sequence[str], grades: Mapping[str, int]) -> QueryFigures:
    """The figures of one query's results: ids of documents, all different, in the order of `trec_order`, maybe none.

    A document of a grade below 1 is not relevant; where nothing is relevant, all figures are 0.
    """
    relevant = sum(grade > 0 for grade in grades.values())
    if not relevant or not found:
        return QueryFigures()
    grades_K = np.array([max(grades.get(name, 0), 0) for name in found], dtype=np.float64)
    ideal = np.array(sorted((grade for grade in grades.values() if grade > 0), reverse=True), dtype=np.float64)
    ranks_H = np.flatnonzero(grades_K) + 1  # of the relevant documents that were found
    return QueryFigures(
        ndcg_at_10=_discounted(grades_K[:_NDCG_DEPTH]) / _discounted(ideal[:_NDCG_DEPTH]),
        map=float((np.arange(1, len(ranks_H) + 1) / ranks_H).sum()) / relevant,
        recall_at_100=int((ranks_H <= _RECALL_DEPTH).sum()) / relevant,
        mrr=1 / int(ranks_H[0]) if len(ranks_H) else 0.0,
    )


def _discounted(gains_K: npt.NDArray[np.float64]) -> float:
    return float((gains_K / np.log2(np.arange(2, len(gains_K) + 2))).sum())


def average_ranks(values_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The rank of every value from 1 up; equal values share the mean of the ranks they take.

    >>> average_ranks(np.array([20.0, 10.0, 20.0, 5.0])).tolist()
    [3.5, 2.0, 3.5, 1.0]
    """
    return _ranks(_places(values_N))


def spearman(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> float | None:
    """Spearman's rank correlation, -1 to 1: Pearson's correlation of the average ranks; None where `pearson` is.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things"; ties as in Kendall 1945.
    """
    return pearson(average_ranks(one_N), average_ranks(other_N))


def pearson(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> float | None:
    """Pearson's correlation, -1 to 1: how nearly two measurements of the same things, finite numbers, lie on a rising line.

    None where it is not defined: fewer than two things, or all equal in one of the measurements.

    Source: Pearson 1895, "Notes on regression and inheritance in the case of two parents".
    """
    assert len(one_N) == len(other_N), (len(one_N), len(other_N))
    if not len(one_N):
        return None
    one, other = one_N - one_N.mean(), other_N - other_N.mean()
    spread = float(one @ one) * float(other @ other)
    return max(-1.0, min(1.0, float(one @ other) / spread**0.5)) if spread else None


@dataclass(frozen=True, slots=True)
class Difference:
    """How one system differs from another on the same examples."""

    mean: float  # of one minus the other
    interval: Interval  # 95 % of the draws have a mean in it
    # two-sided: how often draws fall on the other side of 0, at least 1 / draws; 1 where both are equal everywhere
    p: float


def mean_interval(values_N: npt.NDArray[np.float64], *, draws: int = 10_000, seed: int = 1) -> Interval | None:
    """The 95 % interval of a mean; None of fewer than two values."""
    if len(values_N) < 2:
        return None
    return _interval(_means(values_N, draws, seed))


def paired_difference(
    one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64], *, draws: int = 10_000, seed: int = 1
) -> Difference | None:
    """Compare two systems by their figures for the same N examples, example by example; None of fewer than two."""
    assert one_N.shape == other_N.shape, (one_N.shape, other_N.shape)
    if len(one_N) < 2:
        return None
    apart_N = one_N - other_N
    if not apart_N.any():
        return Difference(0.0, (0.0, 0.0), 1.0)
    means = _means(apart_N, draws, seed)
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return Difference(float(apart_N.mean()), _interval(means), min(1.0, max(2 * beyond, 1) / draws))


def correlation_interval(
    one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64], *, ranked: bool, draws: int = 1_000, seed: int = 1
) -> Interval | None:
    """The 95 % interval of a correlation of two measurements of the same things, finite numbers.

    It is Spearman's where `ranked`, with the ranks that the things have in each draw; else Pearson's. None of fewer than two
    things, or where too few draws have a correlation to say.
    """
    if len(one_N) < 2:
        return None
    places = (_places(one_N), _places(other_N)) if ranked else None
    found = []
    for counts_BN in _counts(len(one_N), draws, seed):
        for counts_N in counts_BN:
            one, other = (one_N, other_N) if places is None else (_ranks(each, counts_N) for each in places)
            found.append(_weighted_pearson(one, other, counts_N))
    there = np.array([value for value in found if value is not None])
    return _interval(there) if len(there) > draws // 2 else None


def _places(values_N: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Which of the different values each one is, in ascending order."""
    return np.unique(values_N, return_inverse=True)[1].astype(np.int64)


def _ranks(places_N: npt.NDArray[np.int64], counts_N: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.float64]:
    """The average rank of every thing, drawn once or so often; that of a thing that was not drawn means nothing."""
    taken = np.bincount(places_N, weights=counts_N)
    ranks: npt.NDArray[np.float64] = (np.cumsum(taken) - (taken - 1) / 2)[places_N]
    return ranks


def _weighted_pearson(
    one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64], weights_N: npt.NDArray[np.int64]
) -> float | None:
    whole = weights_N.sum()
    one, other = (values - float(weights_N @ values) / whole for values in (one_N, other_N))
    spread = float(weights_N @ (one * one)) * float(weights_N @ (other * other))
    return float(weights_N @ (one * other)) / spread**0.5 if spread > 0 else None


def _means(values_N: npt.NDArray[np.float64], draws: int, seed: int) -> npt.NDArray[np.float64]:
    """The mean of each draw, (draws,)."""
    return np.concatenate([counts_BN @ values_N for counts_BN in _counts(len(values_N), draws, seed)]) / len(values_N)


def _counts(n: int, draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """How often each draw takes each of `n` examples, (B, n) int64, some draws at a time."""
    rng = np.random.default_rng([seed, _SEED_STREAM])
    at_once = max(1, _COUNTS_AT_ONCE // n)
    for first in range(0, draws, at_once):
        size = min(at_once, draws - first)
        taken = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(taken.ravel(), minlength=size * n).reshape(size, n)


def _interval(values: npt.NDArray[np.float64]) -> Interval:
    low, high = np.percentile(values, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return float(low), float(high)
