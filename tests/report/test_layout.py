import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wordpipe.errors import ConfigError
from wordpipe.metrics import kept_shares, nearest_rows
from wordpipe.report import GRID, close_gaps, nearest_on_plane, on_grid, pca_layout, umap_layout

PLACES = arrays(np.float64, st.tuples(st.integers(3, 60), st.just(2)), elements=st.floats(-1e6, 1e6, width=32))


def clusters(n=300, seed=0):
    """Unit vectors around ten random directions."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(10, 16))[random.integers(0, 10, n)] + 0.3 * random.normal(size=(n, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("n", "dim"), [(100, 7), (12, 30), (50, 2)])
def test_pca_is_the_svd_of_numpy_but_for_the_sign(n, dim):
    vectors = np.random.default_rng(dim).normal(size=(n, dim)).astype(np.float32) * np.linspace(
        3, 1, dim, dtype=np.float32
    )
    left, values, directions = np.linalg.svd(vectors - vectors.mean(axis=0, dtype=np.float64), full_matrices=False)
    places = pca_layout(vectors)
    for axis in range(2):
        sign = np.sign(directions[axis][np.abs(directions[axis]).argmax()])
        assert places[:, axis] == pytest.approx(sign * left[:, axis] * values[axis], abs=1e-4)


def test_pca_does_not_depend_on_how_the_points_are_ordered():
    vectors = clusters()
    shuffled = np.random.default_rng(1).permutation(len(vectors))
    assert pca_layout(vectors[shuffled]) == pytest.approx(pca_layout(vectors)[shuffled], abs=1e-5)


def test_points_of_one_number_lie_on_a_line():
    places = pca_layout(np.array([[1], [4], [2]], np.float32))
    assert places[:, 1].tolist() == [0, 0, 0]
    assert np.argsort(places[:, 0]).tolist() == [0, 2, 1]


@given(PLACES)
def test_closing_gaps_keeps_the_order_along_both_axes(places):
    closed = close_gaps(places)
    for axis in range(2):
        order = np.argsort(places[:, axis], kind="stable")
        assert (np.diff(closed[order, axis]) >= 0).all()


def test_a_far_island_comes_near_and_the_mainland_stays_as_it_is():
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    mainland = grid + np.random.default_rng(0).uniform(-0.5, 0.5, grid.shape)
    closed = close_gaps(np.vstack([mainland, [[500.0, 9.0], [500.1, 9.0]]]))
    assert np.ptp(closed[:, 0]) < 21
    assert closed[:400] - closed[0] == pytest.approx(mainland - mainland[0], abs=0.2)


@given(PLACES)
def test_the_grid_is_filled_and_keeps_proportions(places):
    grid = on_grid(places)
    assert grid.dtype == np.uint16
    width = np.ptp(places, axis=0).max()
    if width > 1e-3:
        assert np.ptp(grid, axis=0).max() >= GRID - 1
        scaled = (places - places.min(axis=0)) * GRID / width
        steps = grid.astype(float) * (1, -1)
        assert steps - steps.min(axis=0) == pytest.approx(scaled, abs=1.01)


def test_points_in_one_place_lie_in_the_middle():
    assert set(on_grid(np.full((4, 2), 7.0)).ravel().tolist()) <= {GRID // 2, GRID // 2 + 1}


def test_without_umap_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    unit = clusters(20)
    with pytest.raises(ConfigError, match="not installed") as caught:
        umap_layout(unit, *nearest_rows(unit, 5))
    assert "pip install" in str(caught.value.hint)


@pytest.mark.slow
def test_umap_is_the_same_twice_and_keeps_more_neighbours_than_pca():
    unit = clusters()
    rows, cosines = nearest_rows(unit, 14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = umap_layout(unit, rows, cosines)
        assert (places == umap_layout(unit, rows, cosines)).all()
    everyone = np.arange(len(unit))
    kept = [
        kept_shares(rows[:, :10], nearest_on_plane(on_grid(some), everyone, 10)).mean()
        for some in (places, pca_layout(unit))
    ]
    assert kept[0] > kept[1] + 0.1
    assert np.ptp(places[:, 0]) > 0
    assert places[:, 0].var() >= places[:, 1].var()


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 4, 15, 16])
def test_umap_lays_out_few_points_too(n):
    unit = clusters(n, seed=n)
    assert np.isfinite(umap_layout(unit, *nearest_rows(unit, min(14, n - 1)))).all()
