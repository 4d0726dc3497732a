import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.metrics import average_ranks, pearson, spearman

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
