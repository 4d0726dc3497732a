import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.metrics import recall_at_k


@settings(deadline=None)
@given(st.integers(0, 9_999), st.integers(1, 30), st.integers(1, 12))
def test_without_ties_it_is_the_share_of_common_rows(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    scores_QN = rng.permuted(np.tile(np.linspace(-1, 1, n, dtype=np.float32), (5, 1)), axis=1)
    exact_QK = np.argsort(-scores_QN, axis=1)[:, :k]
    found_QK = np.stack([rng.permutation(n)[:k] for _ in range(5)])
    common = np.mean([len({*a} & {*b}) / min(k, n) for a, b in zip(found_QK.tolist(), exact_QK.tolist(), strict=True)])
    found = np.take_along_axis(scores_QN, found_QK, axis=1)
    exact = np.take_along_axis(scores_QN, exact_QK, axis=1)
    assert recall_at_k(found, exact) == pytest.approx(common)


def test_any_of_equal_answers_is_right_and_a_missing_one_is_not() -> None:
    exact = np.float32([[0.9, 0.5], [0.8, 0.7]])
    assert recall_at_k(np.float32([[0.5, 0.9], [0.8, 0.8]]), exact) == 1
    assert recall_at_k(np.float32([[0.9, -np.inf], [0.1, 0.2]]), exact) == 0.25


def test_fewer_items_than_k_and_none_at_all() -> None:
    few = np.float32([[0.9, -np.inf]])
    assert recall_at_k(few, few) == 1
    assert recall_at_k(np.float32([[-np.inf, -np.inf]]), few) == 0
    none = np.full((3, 2), -np.inf, dtype=np.float32)
    assert recall_at_k(none, none) == 1
    assert recall_at_k(np.zeros((0, 10), np.float32), np.zeros((0, 10), np.float32)) == 1
