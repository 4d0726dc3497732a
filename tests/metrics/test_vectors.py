"""Sets of vectors: their space and what an approximate search finds, against slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordpipe.metrics import (
    effective_rank,
    hubs,
    mean_cosine,
    recall_at_k,
    unit_rows,
)


def unit(n: int, dim: int, seed: int, shift: float = 0.0) -> np.ndarray:
    vectors_ND = np.random.default_rng(seed).standard_normal((n, dim)) + shift
    return unit_rows(vectors_ND.astype(np.float32))[0]


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(1, 9), st.integers(0, 999), st.floats(-2, 2))
def test_the_mean_cosine_is_that_of_all_pairs(n: int, dim: int, seed: int, shift: float) -> None:
    unit_ND = unit(n, dim, seed, shift)
    cosines = [float(unit_ND[one] @ unit_ND[other]) for one in range(n) for other in range(n) if one != other]
    assert mean_cosine(unit_ND) == pytest.approx(np.mean(cosines), abs=1e-5)


def test_the_effective_rank_counts_directions() -> None:
    assert effective_rank(np.repeat(np.eye(7, dtype=np.float32), 3, axis=0)) == pytest.approx(7)
    assert effective_rank(np.ones((9, 5), np.float32)) == pytest.approx(1, abs=1e-4)
    vectors_ND = unit(60, 6, 1, 0.4)
    shares = np.linalg.svd(vectors_ND, compute_uv=False).astype(np.float64) ** 2 / 60
    assert effective_rank(vectors_ND) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-4)


def test_hubs_are_counted_as_by_hand() -> None:
    unit_ND = unit(80, 30, 2, 0.3)
    cosines = unit_ND @ unit_ND.T
    np.fill_diagonal(cosines, -2)
    found = np.zeros(80)
    for row in cosines:
        found[np.argsort(-row, kind="stable")[:5]] += 1
    near = hubs(unit_ND, 5)
    assert near.skew == pytest.approx(((found - 5) ** 3).mean() / ((found - 5) ** 2).mean() ** 1.5)
    assert near.orphans == pytest.approx((found == 0).mean())
    assert near.twins == 0.0
    doubled = hubs(np.concatenate([unit_ND[:8], unit_ND[:8]]), 3)
    assert doubled.twins == 1.0


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
