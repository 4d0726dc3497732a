import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.search import Hits, best_of, mix, weight_by_merit

found = st.dictionaries(st.integers(0, 20), st.integers(-9, 9).map(lambda step: step / 8), max_size=12)


def hits_of(scores: dict[int, float]) -> Hits:
    return best_of(np.array([*scores], dtype=np.int64), np.array([*scores.values()], dtype=np.float32), len(scores))


def stretched(scores: dict[int, float]) -> dict[int, float]:
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    return {row: (score - low) / (high - low) if high > low else 1.0 for row, score in scores.items()}


@settings(max_examples=40)
@given(dense=found, lexical=found, weight=st.floats(0.05, 0.95), k=st.integers(1, 30))
def test_a_mix_is_the_weighted_sum_row_by_row(dense, lexical, weight, k):
    one, other = stretched(dense), stretched(lexical)
    expected = {row: weight * one.get(row, 0) + (1 - weight) * other.get(row, 0) for row in {*one, *other}}
    mixed = mix(hits_of(dense), hits_of(lexical), weight, k)
    assert len(mixed) == min(k, len(expected))
    np.testing.assert_allclose(mixed.scores, sorted(expected.values(), reverse=True)[:k], atol=1e-5)
    np.testing.assert_allclose(mixed.scores, [expected[row] for row in mixed.rows.tolist()], atol=1e-5)


@settings(max_examples=40)
@given(dense=found, lexical=found)
def test_at_the_ends_one_side_answers_alone(dense, lexical):
    near, worded = hits_of(dense), hits_of(lexical)
    assert mix(near, worded, 1, 30).rows.tolist() == near.rows.tolist()
    assert mix(near, worded, 0, 30).rows.tolist() == worded.rows.tolist()


@settings(max_examples=60)
@given(
    dense=st.lists(st.floats(-1, 1, width=16), max_size=40),
    lexical=st.lists(st.floats(0, 9, width=16), max_size=40),
    seed=st.integers(0, 99),
    weight=st.floats(0, 1),
    k=st.integers(1, 30),
    more=st.integers(0, 30),
)
def test_asked_for_more_the_mix_begins_with_what_it_was(dense, lexical, seed, weight, k, more):
    """Sides as they come of a search: the first of one order, as many as are asked for, at least the candidates."""
    rng = np.random.default_rng(seed)
    sides = [hits_of(dict(zip(rng.permutation(60).tolist(), some, strict=False))) for some in (dense, lexical)]

    def mixed(wanted: int) -> Hits:
        return mix(*(side.first(max(wanted, 8)) for side in sides), weight, wanted, candidates=8)

    few, many = mixed(k), mixed(k + more).first(k)
    assert many.rows.tolist() == few.rows.tolist()
    np.testing.assert_array_equal(many.scores, few.scores)


def test_ties_come_in_the_order_of_rows_also_at_the_border():
    rows, scores = np.array([9, 3, 7, 5]), np.float32([1, 1, 2, 1])
    assert best_of(rows, scores, 2).rows.tolist() == [7, 3]
    assert best_of(rows, scores, 9).rows.tolist() == [7, 3, 5, 9]
    assert len(best_of(rows, scores, 0)) == 0


@given(dense=st.floats(0, 1), lexical=st.floats(0, 1))
def test_the_weight_goes_to_the_side_that_finds(dense, lexical):
    weight = weight_by_merit(dense, lexical)
    assert 0 <= weight <= 1
    assert weight + weight_by_merit(lexical, dense) == pytest.approx(1)
    assert (weight >= 0.5) == (dense**2 >= lexical**2)
    assert weight_by_merit(0.3, 0.4) == pytest.approx(9 / 25)
