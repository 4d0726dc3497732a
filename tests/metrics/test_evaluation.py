"""Figures of evaluations: perplexity by hand, rankings against pytrec_eval (trec_eval itself), the rest against scipy."""

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from wordpipe.metrics import (
    MEASURES,
    QueryFigures,
    average_ranks,
    bits_per_byte,
    correlation_interval,
    evaluation,
    mean_interval,
    paired_difference,
    pearson,
    perplexity,
    score_ranking,
    spearman,
    trec_order,
)

# ---- language models


def test_the_perplexity_of_a_fair_die_is_its_sides():
    assert perplexity(7 * math.log(6), 7) == perplexity(math.log(6)) == pytest.approx(6)
    assert bits_per_byte(7 * math.log(6), 7) == pytest.approx(math.log2(6))


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=40))
def test_it_is_the_inverse_of_the_geometric_mean_of_the_probabilities(probabilities):
    nats = -sum(map(math.log, probabilities))
    mean = np.prod(np.array(probabilities, dtype=np.longdouble)) ** (np.longdouble(1) / len(probabilities))
    assert perplexity(nats, len(probabilities)) == pytest.approx(float(1 / mean), rel=1e-9)


@given(st.floats(0, 1e4), st.integers(1, 50), st.integers(1, 50))
def test_tokens_do_not_matter_to_words_and_bytes(nats, words, letters):
    """A model that pays the same for a text in fewer tokens is as good; per token it seems worse."""
    n_bytes = words * letters
    assert bits_per_byte(nats, n_bytes) * n_bytes * math.log(2) == pytest.approx(nats)
    if nats / words < 700:
        assert math.log(perplexity(nats, words)) * words == pytest.approx(nats, abs=1e-6)


def test_what_has_no_figure():
    assert perplexity(0.0, 5) == 1.0
    assert perplexity(1.0, 0) is None
    assert perplexity(1e6) is None
    assert bits_per_byte(1.0, 0) is None


# ---- rankings

ITS_NAMES = {"ndcg_at_10": "ndcg_cut_10", "map": "map", "recall_at_100": "recall_100", "mrr": "recip_rank"}
DOCUMENTS = [f"d{number}" for number in range(300)]
SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.0, 1e-9, 0.1, 0.1 + 1e-9])  # many ties, also such as only float32 has


def by_trec(run: dict[str, float], grades: dict[str, int]) -> dict[str, float]:
    evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg_cut.10", "map", "recall.100", "recip_rank"})
    return evaluator.evaluate({"q": run})["q"]


def ours(run: dict[str, float], grades: dict[str, int]) -> QueryFigures:
    names = list(run)
    order = trec_order(names, np.array([run[name] for name in names]))
    return score_ranking([names[place] for place in order], grades)


@given(
    st.dictionaries(st.sampled_from(DOCUMENTS[:25]), SCORES, min_size=1),
    st.dictionaries(st.sampled_from(DOCUMENTS[:30]), st.integers(-1, 4), min_size=1),
)
def test_every_figure_is_that_of_trec_eval(run, grades):
    expected, found = by_trec(run, grades), ours(run, grades)
    for name in MEASURES:
        assert getattr(found, name) == pytest.approx(expected[ITS_NAMES[name]], abs=1e-9), name


def test_long_rankings_with_grades_are_those_of_trec_eval():
    rng = np.random.default_rng()
    for _ in range(20):
        size = int(rng.integers(80, 300))
        run = dict(zip(rng.choice(DOCUMENTS, size, replace=False).tolist(), rng.random(size).round(2), strict=True))
        grades = {name: int(rng.integers(0, 4)) for name in rng.choice(DOCUMENTS, 60, replace=False).tolist()}
        expected, found = by_trec(run, grades), ours(run, grades)
        assert [getattr(found, name) for name in MEASURES] == pytest.approx([expected[ITS_NAMES[n]] for n in MEASURES])


def test_equal_scores_are_read_from_the_last_name_to_the_first():
    names = ["10", "9", "a", "é", "B"]
    assert [names[place] for place in trec_order(names, np.ones(5))] == ["é", "a", "B", "9", "10"]
    assert trec_order(["a", "b"], np.array([1.0, 1.0 + 1e-12])) == [1, 0]  # equal as float32
    assert trec_order([], np.zeros(0)) == []


def test_nothing_found_and_nothing_relevant_are_zero():
    assert score_ranking([], {"a": 1}) == score_ranking(["a"], {}) == score_ranking(["a"], {"a": 0}) == QueryFigures()
    assert score_ranking(["a"], {"a": 2}) == QueryFigures(1.0, 1.0, 1.0, 1.0)


# ---- correlations and intervals


@pytest.mark.parametrize("ranked", [True, False])
def test_a_draw_has_the_correlation_of_the_things_it_took(ranked):
    """The twin copies the drawn things and lets scipy rank them."""
    rng = np.random.default_rng()
    one, other = rng.integers(0, 6, 40).astype(float), rng.integers(0, 9, 40).astype(float)
    counts = np.concatenate(list(evaluation._counts(40, 200, seed=3)))
    assert counts.shape == (200, 40)
    assert (counts.sum(axis=1) == 40).all()
    correlation = stats.spearmanr if ranked else stats.pearsonr
    expected = [correlation(np.repeat(one, taken), np.repeat(other, taken)).statistic for taken in counts]
    found = correlation_interval(one, other, ranked=ranked, draws=200, seed=3)
    assert found == pytest.approx(tuple(np.percentile(expected, [2.5, 97.5])))


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    values = np.random.default_rng().standard_normal(50)
    whole = mean_interval(values, draws=300)
    monkeypatch.setattr(evaluation, "_COUNTS_AT_ONCE", 120)
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
