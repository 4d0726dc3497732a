"""Correlations and bootstrap intervals: scipy is the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from wordpipe.metrics import (
    average_ranks,
    correlation_interval,
    correlation_of,
    correlation_statistics,
    mean_interval,
    paired_difference,
    pearson,
    spearman,
)
from wordpipe.metrics import statistics as bootstrap


@pytest.mark.parametrize("ranked", [True, False])
def test_a_draw_has_the_correlation_of_the_things_it_took(ranked):
    """The twin copies the drawn things and lets scipy rank them."""
    rng = np.random.default_rng()
    one, other = rng.integers(0, 6, 40).astype(float), rng.integers(0, 9, 40).astype(float)
    counts = np.concatenate(list(bootstrap._counts(40, 200, seed=3)))
    assert counts.shape == (200, 40)
    assert (counts.sum(axis=1) == 40).all()
    correlation = stats.spearmanr if ranked else stats.pearsonr
    expected = [correlation(np.repeat(one, taken), np.repeat(other, taken)).statistic for taken in counts]
    found = correlation_interval(one, other, ranked=ranked, draws=200, seed=3)
    assert found == pytest.approx(tuple(np.percentile(expected, [2.5, 97.5])))


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    values = np.random.default_rng().standard_normal(50)
    whole = mean_interval(values, draws=300)
    monkeypatch.setattr(bootstrap, "_COUNTS_AT_ONCE", 120)
    assert mean_interval(values, draws=300) == pytest.approx(whole)


def test_the_interval_of_a_mean_is_the_normal_one_for_many_values():
    values = np.random.default_rng(5).standard_normal(400)
    low, high = mean_interval(values)
    spread = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.01)


def test_a_difference_is_told_from_chance():
    rng = np.random.default_rng(7)
    base = rng.random(200)
    noise = rng.standard_normal(200) * 0.05
    better, same = paired_difference(base + 0.05 + noise, base), paired_difference(base + noise - noise.mean(), base)
    assert better.p == 1e-4
    assert better.interval[0] > 0
    assert better.mean == pytest.approx(0.05 + noise.mean())
    assert same.p > 0.5
    turned = paired_difference(base, base + 0.05 + noise)
    assert turned.p == better.p
    assert turned.mean == -better.mean


def test_p_is_that_of_the_normal_test_for_many_values():
    rng = np.random.default_rng(11)
    for shift in (0.05, 0.1, 0.15):
        apart = rng.standard_normal(300) + shift
        expected = 2 * stats.norm.sf(abs(apart.mean()) / (apart.std() / 300**0.5))
        assert paired_difference(apart, np.zeros(300)).p == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("n", [2, 3, 6, 12])
def test_p_is_no_lower_than_so_few_examples_can_say(n):
    """All of n differences are to one side by chance in 2 of 2^n cases: the sign test of R."""
    apart = np.arange(1.0, n + 1)
    assert paired_difference(apart, np.zeros(n)).p == pytest.approx(max(2.0 ** (1 - n), 1e-4))
    with_equals = np.concatenate([apart, np.zeros(50)])
    assert paired_difference(with_equals, np.zeros(n + 50)).p >= 2.0 ** (1 - n)


def test_what_has_no_interval():
    nothing, one = np.zeros(0), np.ones(1)
    assert mean_interval(one) is None
    assert paired_difference(nothing, nothing) is None
    assert correlation_interval(one, one, ranked=True) is None
    assert correlation_interval(np.ones(5), np.arange(5.0), ranked=True) is None
    equal = paired_difference(np.arange(9.0), np.arange(9.0))
    assert (equal.mean, equal.interval, equal.p) == (0, (0, 0), 1)


FEW_VALUES = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=25)  # many ties


def slow_ranks(values: list[float]) -> list[float]:
    """By definition: how many are smaller, and the middle of those that are equal."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values
    ]


@given(FEW_VALUES)
def test_ranks_and_correlation_are_those_of_the_definition(pairs: list[tuple[int, int]]) -> None:
    one, other = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    assert average_ranks(one).tolist() == slow_ranks(one.tolist())
    found = spearman(one, other)
    if len(set(one.tolist())) == 1 or len(set(other.tolist())) == 1:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(slow_ranks(one.tolist()), slow_ranks(other.tolist()))[0, 1])


def test_it_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng()
    for n in (2, 3, 10, 300):
        one, other = rng.standard_normal(n), rng.integers(0, max(2, n // 3), n).astype(np.float64)
        other[:2] = 0, 1
        assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
        assert pearson(one, other) == pytest.approx(stats.pearsonr(one, other).statistic)
        for scale in (1e300, 1e-300, 1e-160, 2.0**500):
            assert pearson(scale * one, other) == pytest.approx(stats.pearsonr(one, other).statistic)
            assert pearson(other, scale * one) == pytest.approx(stats.pearsonr(one, other).statistic)
            sums = correlation_statistics(scale * one, other).sum(axis=0)
            assert correlation_of(sums) == pytest.approx(stats.pearsonr(one, other).statistic)


@given(FEW_VALUES)
def test_only_the_order_counts(pairs: list[tuple[int, int]]) -> None:
    one, other = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    found = spearman(one, other)
    assert spearman(np.exp(one), other**3) == found
    assert spearman(other, one) == found
    assert spearman(-one, other) == (None if found is None else pytest.approx(-found))


def test_the_same_order_is_one_and_nothing_has_none() -> None:
    rng = np.random.default_rng()
    values = rng.standard_normal(1000)
    assert spearman(values, values) == 1
    assert spearman(values, -values) == -1
    assert spearman(values[:0], values[:0]) is None
    assert spearman(values[:1], values[:1]) is None


def test_a_rising_line_is_one_and_what_does_not_move_has_none() -> None:
    values = np.random.default_rng().standard_normal(50)
    assert pearson(values, 3 * values - 2) == pytest.approx(1)
    assert pearson(values, -values) == -1
    assert pearson(values, np.ones(50)) is None
    assert pearson(values[:0], values[:0]) is None


@given(st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_a_correlation_of_sums_is_pearsons(n, seed):
    draw = np.random.default_rng(seed)
    one, other = draw.normal(size=n) * 10 + 1e3, draw.normal(size=n)
    found = correlation_of(correlation_statistics(one, other).sum(axis=0))
    assert float(found) == pytest.approx(pearson(one, other), abs=1e-9)


def test_a_correlation_with_equal_numbers_is_none_of_them():
    assert correlation_of(correlation_statistics(np.full(5, 3.1), np.arange(5.0)).sum(axis=0)) == 0.0
    assert correlation_of(np.zeros((2, 6))).tolist() == [0.0, 0.0]
