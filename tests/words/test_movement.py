import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.words.test_alignment import table, turn
from wordpipe.metrics import kept_shares
from wordpipe.metrics import vectors as directions
from wordpipe.metrics import vectors as room
from wordpipe.words import excess, joint_counts, movement


def unit_rows(vectors):
    return directions.unit_rows(vectors)[0]


def nearest_rows(*given):
    return room.nearest_rows(*given)[0]


def slow_nearest(rows: np.ndarray, k: int) -> list[list[int]]:
    """Every cosine, sorted."""
    n = len(rows)
    return [sorted((j for j in range(n) if j != i), key=lambda j: -float(rows[i] @ rows[j]))[:k] for i in range(n)]


@given(st.integers(0, 10_000), st.integers(3, 25), st.data())
def test_neighbours_and_what_was_kept_are_those_of_the_slow_twin(seed: int, n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n - 1))
    a, b = unit_rows(table(n, 5, seed)), unit_rows(table(n, 7, seed + 1))
    near_a, near_b = nearest_rows(a, k), nearest_rows(b, k)
    slow_a, slow_b = slow_nearest(a, k), slow_nearest(b, k)
    assert near_a.tolist() == slow_a
    assert near_b.tolist() == slow_b
    expected = [len(set(one) & set(other)) / k for one, other in zip(slow_a, slow_b, strict=True)]
    np.testing.assert_allclose(kept_shares(near_a, near_b), expected)


def test_blocks_change_nothing_and_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, told = unit_rows(table(50, 6, 1)), []
    whole = nearest_rows(rows, 4)
    monkeypatch.setattr(room, "SCORES_AT_ONCE", 50 * 7)
    np.testing.assert_array_equal(nearest_rows(rows, 4, told.append), whole)
    assert told == [7, 14, 21, 28, 35, 42, 49, 50]


def slow_excess(values: np.ndarray, counts: np.ndarray, peers: int, least: float) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: counts[i])
    width, found = min(2 * peers + 1, len(values)), [0.0] * len(values)
    for place, row in enumerate(order):
        first = min(max(place - peers, 0), len(values) - width)
        near = [values[i] for i in order[first : first + width]]
        middle = np.median(near)
        spread = 1.4826 * np.median([abs(value - middle) for value in near])
        found[row] = (values[row] - middle) / max(spread, least)
    return found


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 25))
def test_excess_is_that_of_the_slow_twin(seed: int, n: int, peers: int) -> None:
    rng = np.random.default_rng(seed)
    values, counts = rng.random(n), rng.integers(1, 9, n).astype(float)
    found = excess(values, counts, least_spread=0.05, peers=peers)
    np.testing.assert_allclose(found, slow_excess(values, counts, peers, 0.05), atol=1e-9)


def test_rare_words_must_move_more_to_surprise() -> None:
    rng = np.random.default_rng(1)
    counts = np.geomspace(100_000, 5, 4_000)
    moved = 1 / np.sqrt(counts) * rng.uniform(0.8, 1.2, 4_000)
    moved[100] *= 2
    assert moved.argmax() > 3_900
    assert excess(moved, counts, least_spread=1e-6).argmax() == 100


def test_a_joint_count_is_that_of_the_rare_side() -> None:
    counts = np.array([10, 10, 1_000_000, 0])
    found = joint_counts(counts, np.array([10, 1_000_000, 10, 5]))
    np.testing.assert_allclose(found[:3], [5, 10, 10], rtol=1e-4)
    assert np.isfinite(found).all()


def clustered(n: int, dim: int, seed: int) -> np.ndarray:
    """Words in groups of ten, so that neighbours mean something."""
    return unit_rows(np.repeat(table(n // 10, dim, seed), 10, axis=0) + 0.3 * table(n, dim, seed + 1))


def test_a_turned_table_did_not_move() -> None:
    rows = clustered(200, 16, 1)
    found = movement(rows, rows @ turn(16, 1), np.arange(200, 0, -1.0), k=5, anchors=100)
    assert found.moved is not None
    assert found.moved.max() < 1e-5
    assert found.kept.min() == 1
    assert abs(found.surprise).max() < 1e-3


@pytest.mark.parametrize("same_dimensions", [True, False])
def test_words_that_changed_places_come_first(same_dimensions: bool) -> None:
    a = clustered(400, 16, 2)
    swapped = np.random.default_rng(3).choice(400, 20, replace=False)
    b = (unit_rows(a + 0.1 * table(400, 16, 4)) @ turn(16, 5)).astype(np.float32)
    b[swapped] = b[np.roll(swapped, 1)]
    if not same_dimensions:
        b = np.concatenate([b, np.zeros((400, 3), np.float32)], axis=1)
    found = movement(a, b, np.arange(400, 0, -1.0), k=5, anchors=400)
    assert (found.moved is None) != same_dimensions
    first = np.argsort(-found.surprise)[:20]
    assert len(set(first.tolist()) & set(swapped.tolist())) >= (20 if same_dimensions else 15)
