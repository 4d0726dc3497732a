"""Correlations of two measurements, and bootstrap intervals: how far a figure would move had other examples been drawn.

Bootstrap: every draw takes N of N examples with replacement. What a draw needs is how often it took each example, (N,)
counts, so nothing is copied and ranks are not sorted again. Draws are a pure function of the seed.

scipy.stats has all of this with other draws, so other figures, and imports in half a second.

Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapters 13 and 16; for systems compared on the same
queries: Sakai 2006, "Evaluating evaluation metrics based on the bootstrap"; by a score of the whole set, such as BLEU: Koehn
2004, "Statistical Significance Tests for Machine Translation Evaluation".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def average_ranks(values_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rank of every value from 1 up; equal values share the mean of the ranks they take.

    >>> average_ranks(np.array([20.0, 10.0, 20.0, 5.0])).tolist()
    [3.5, 2.0, 3.5, 1.0]
    """
    return _ranks(_places(values_N))


def spearman(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> float | None:
    """Return Spearman's rank correlation, -1 to 1: Pearson's correlation of the average ranks; None where `pearson` is.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things"; ties as in Kendall 1945.
    """
    return pearson(average_ranks(one_N), average_ranks(other_N))


def pearson(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> float | None:
    """Return Pearson's correlation, -1 to 1: how nearly two measurements of the same things lie on a rising line.

    None where it is not defined: fewer than two things, or all equal in one of the measurements.

    Source: Pearson 1895, "Notes on regression and inheritance in the case of two parents".
    """
    assert len(one_N) == len(other_N), (len(one_N), len(other_N))
    if not len(one_N):
        return None
    one, other = _centred(one_N), _centred(other_N)
    spread = float(one @ one) * float(other @ other)
    return max(-1.0, min(1.0, float(one @ other) / spread**0.5)) if spread else None


def _centred(values_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the values about their mean, all divided by a power of two, which is exact: no square is too large or small."""
    scaled: npt.NDArray[np.float64] = np.ldexp(values_N, -int(np.frexp(np.abs(values_N).max(initial=0.0))[1]))
    return scaled - float(scaled.mean())


def correlation_statistics(one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return what each thing adds to Pearson's correlation, (N, 6): 1, x, y, x², y² and x y, both about their means.

    `correlation_of` makes the correlation of their sum, so that two systems can be compared by it (`paired_score_difference`).
    """
    one, other = _centred(one_N), _centred(other_N)
    return np.stack([np.ones(len(one)), one, other, one * one, other * other, one * other], axis=1)


def correlation_of(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return Pearson's correlation of sums of `correlation_statistics`, (...) of (..., 6); 0 where it is not defined."""
    n, x, y, xx, yy, xy = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    n = np.maximum(n, 1)
    spread = np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0)
    there = spread > 1e-12 * np.maximum(xx * yy, np.finfo(np.float64).tiny)
    found: npt.NDArray[np.float64] = np.where(there, (xy - x * y / n) / np.sqrt(np.where(there, spread, 1)), 0.0)
    return found


Interval = tuple[float, float]
"""Lower and upper bound."""

_SEED_STREAM = 0xB007  # separates these draws from every other use of a seed
_COUNTS_AT_ONCE = 1 << 22  # int64 numbers: 32 MiB
_TAIL_PERCENT = 2.5  # of the draws outside of the interval on each side


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two systems on the same examples."""

    mean: float  # of one minus the other; of a score of the whole set: the difference of the two scores
    interval: Interval  # 95 % of the draws have theirs in it
    # two-sided: how often draws fall on the other side of 0, at least 1 / draws; 1 where both are equal everywhere
    p: float


def mean_interval(values_N: npt.NDArray[np.float64], *, draws: int = 10_000, seed: int = 1) -> Interval | None:
    """Return the 95 % interval of a mean; None of fewer than two values."""
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
        return _EQUAL
    return _difference(float(apart_N.mean()), _means(apart_N, draws, seed), int(np.count_nonzero(apart_N)))


Score = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""A score of a whole set of examples: sums of what each adds, (B, K) → (B,), for B sets."""


def score_interval(
    statistics_NK: npt.NDArray[np.number], score: Score, *, draws: int = 1_000, seed: int = 1
) -> Interval | None:
    """Return the 95 % interval of a score made of sums over the examples, no mean; None of fewer than two examples.

    Args:
        statistics_NK: what each example adds: `bleu_statistics`, `chrf_statistics`.
        score: of sums: `bleu_score`, `chrf_score`.
        draws: of as many examples.
        seed: of the draws.
    """
    if len(statistics_NK) < 2:
        return None
    return _interval(score(_sums(statistics_NK, draws, seed)))


def paired_score_difference(
    one_NK: npt.NDArray[np.number], other_NK: npt.NDArray[np.number], score: Score, *, draws: int = 1_000, seed: int = 1
) -> Difference | None:
    """Compare two systems by a score of sums on the same N examples, drawn together; None of fewer than two examples."""
    assert one_NK.shape == other_NK.shape, (one_NK.shape, other_NK.shape)
    if len(one_NK) < 2:
        return None
    if (one_NK == other_NK).all():
        return _EQUAL
    one_D, other_D = (score(_sums(each, draws, seed)) for each in (one_NK, other_NK))
    one, other = score(np.stack([one_NK.sum(axis=0), other_NK.sum(axis=0)])).tolist()
    return _difference(one - other, one_D - other_D, int((one_NK != other_NK).any(axis=1).sum()))


def correlation_interval(
    one_N: npt.NDArray[np.float64], other_N: npt.NDArray[np.float64], *, ranked: bool, draws: int = 1_000, seed: int = 1
) -> Interval | None:
    """Return the 95 % interval of a correlation of two measurements of the same things, finite numbers.

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
    """Return the place of each value among the different values, in ascending order."""
    return np.unique(values_N, return_inverse=True)[1].astype(np.int64)


def _ranks(places_N: npt.NDArray[np.int64], counts_N: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.float64]:
    """Return the average rank of every thing, drawn once or `counts_N` times; the rank of a thing not drawn is undefined."""
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


_EQUAL = Difference(0.0, (0.0, 0.0), 1.0)


def _difference(found: float, draws_D: npt.NDArray[np.float64], n_apart: int) -> Difference:
    """Return the difference of two systems; p is at least that of all n examples to one side, 2 of 2^n (the sign test)."""
    beyond = min(int((draws_D <= 0).sum()), int((draws_D >= 0).sum()))
    p = max(max(2 * beyond, 1) / len(draws_D), 2.0 ** (1 - n_apart))
    return Difference(found, _interval(draws_D), min(1.0, p))


def _means(values_N: npt.NDArray[np.float64], draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the mean of each bootstrap draw, (draws,)."""
    return _sums(values_N, draws, seed) / len(values_N)


def _sums(values: npt.NDArray[np.number], draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the sum of each bootstrap draw, (draws,) of values (N,), (draws, K) of values (N, K)."""
    values = values.astype(np.float64)  # whole numbers are multiplied some 50 times slower
    return np.concatenate([counts_BN @ values for counts_BN in _counts(len(values), draws, seed)])


def _counts(n: int, draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the times that each bootstrap draw takes each of `n` examples, (B, n) int64, some draws at a time."""
    rng = np.random.default_rng([seed, _SEED_STREAM])
    at_once = max(1, _COUNTS_AT_ONCE // n)
    for first in range(0, draws, at_once):
        size = min(at_once, draws - first)
        taken = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(taken.ravel(), minlength=size * n).reshape(size, n)


def _interval(values: npt.NDArray[np.float64]) -> Interval:
    low, high = np.percentile(values, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return float(low), float(high)
