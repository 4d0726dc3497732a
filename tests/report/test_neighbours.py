import numpy as np
import pytest

from wordpipe.metrics import kept_shares, nearest_rows
from wordpipe.metrics import vectors as neighbours
from wordpipe.report import nearest_on_plane


def unit_vectors(n, dim, seed):
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (7, 6), (50, 10), (333, 14)])
@pytest.mark.parametrize("at_once", [1, 1000, 1 << 24])
def test_the_neighbours_are_those_of_the_slow_search(n, k, at_once, monkeypatch):
    monkeypatch.setattr(neighbours, "SCORES_AT_ONCE", at_once)
    unit = unit_vectors(n, 8, seed=n)
    told = []
    rows, cosines = nearest_rows(unit, k, told.append)
    for own in range(n):
        slow = sorted((-float(unit[own] @ unit[other]), other) for other in range(n) if other != own)[:k]
        assert rows[own].tolist() == [other for _, other in slow]
        assert cosines[own] == pytest.approx([-score for score, _ in slow], abs=1e-5)
    assert told == sorted(set(told))
    assert told[-1] == n


def test_equal_points_come_in_order_and_cosines_stay_in_bounds():
    unit = np.repeat(unit_vectors(1, 5, seed=0), 4, axis=0)
    rows, cosines = nearest_rows(unit, 3)
    assert rows.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert cosines.max() <= 1


def test_neighbours_on_the_grid_are_exact_at_its_far_corner():
    random = np.random.default_rng(3)
    points = (65_535 - random.integers(0, 40, size=(200, 2))).astype(np.uint16)  # float32 could not tell these apart
    of = np.array([0, 5, 199])
    for own, found in zip(of, nearest_on_plane(points, of, 9), strict=True):
        squares = ((points.astype(int) - points[own].astype(int)) ** 2).sum(axis=1)
        others = np.delete(squares, own)
        assert own not in found
        assert sorted(squares[found]) == squares[found].tolist() == sorted(others)[:9]


def test_the_share_kept_counts_neighbours_in_any_order():
    before = np.array([[1, 2, 3], [0, 2, 3]])
    assert kept_shares(before, before[:, ::-1]).tolist() == [1, 1]
    assert kept_shares(before, np.array([[3, 9, 8], [7, 8, 9]])).mean() == pytest.approx(1 / 6)
