import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.metrics import vectors as directions
from wordpipe.words import centred_rows, distances, rotation


def unit_rows(vectors):
    return directions.unit_rows(vectors)[0]


def table(n: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def turn(dim: int, seed: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng([seed, 1]).standard_normal((dim, dim)))[0].astype(np.float32)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 12))
def test_a_rotation_is_orthogonal_and_no_other_is_nearer(seed: int, n: int, dim: int) -> None:
    a, b = table(n, dim, seed), table(n, dim, seed + 1)
    found = rotation(a, b)
    np.testing.assert_allclose(found @ found.T, np.eye(dim), atol=1e-5)
    least = np.linalg.norm(a @ found - b)
    for other in range(5):
        assert least <= np.linalg.norm(a @ turn(dim, seed + other) - b) + 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_a_rotation_is_that_of_scipy(seed: int) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    a, b = table(50, 8, seed), table(50, 8, seed + 100)
    np.testing.assert_allclose(rotation(a, b), linalg.orthogonal_procrustes(a, b)[0], atol=1e-4)


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_a_turned_table_is_turned_back(seed: int, dim: int) -> None:
    a = centred_rows(unit_rows(table(60, dim, seed)))
    np.testing.assert_allclose(distances(a, a @ turn(dim, seed), anchors=40), 0, atol=1e-5)


def test_words_that_are_no_anchors_decide_nothing() -> None:
    a = unit_rows(table(80, 6, 1))
    b = a @ turn(6, 1)
    b[60:] = unit_rows(table(20, 6, 2))
    found = distances(a, b, anchors=60)
    assert found[:60].max() < 1e-5
    np.testing.assert_allclose(
        found[60:], [1 - (x @ turn(6, 1)) @ y for x, y in zip(a[60:], b[60:], strict=True)], atol=1e-5
    )
    assert distances(a, b, anchors=80)[:60].max() > 1e-3


@given(st.integers(0, 10_000))
def test_distances_have_their_bounds(seed: int) -> None:
    a, b = unit_rows(table(9, 3, seed)), unit_rows(table(9, 3, seed + 1))
    found = distances(a, b, anchors=9)
    assert found.dtype == np.float32
    assert ((found >= 0) & (found <= 2)).all()


def test_rows_become_unit_rows_and_those_without_a_direction_zero() -> None:
    rows = table(6, 4, 3) * 7
    rows[1], rows[2, 0], rows[3, 1] = 0, np.nan, np.inf
    found = unit_rows(rows)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 0, 0, 1, 1], atol=1e-6)
    np.testing.assert_allclose(found[0] * np.linalg.norm(rows[0]), rows[0], rtol=1e-5)


def test_what_all_words_share_is_taken_away() -> None:
    plain = unit_rows(table(500, 20, 4))
    leaning = unit_rows(plain + 3 * plain[0])
    assert (leaning @ leaning.T).mean() > 0.8
    assert abs((centred_rows(leaning) @ centred_rows(leaning).T).mean()) < 0.05
