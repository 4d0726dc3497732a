"""Semantic shifts: the words of two tables, their alignment, and how surprising each shift is."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.turned_tables import clustered, random_rotation, random_rows
from wordpipe import metrics
from wordpipe.metrics import neighbour_overlap
from wordpipe.metrics import vectors as room
from wordpipe.words import (
    CountedWords,
    aligned_distances,
    centred_rows,
    effective_counts,
    procrustes_rotation,
    robust_z_scores,
    semantic_shifts,
    vocabulary_difference,
    vocabulary_intersection,
)


def unit_rows(vectors):
    return metrics.unit_rows(vectors)[0]


def nearest_rows(*given):
    return metrics.nearest_rows(*given)[0]


def listings() -> st.SearchStrategy[dict[str, int]]:
    """Words with counts, the commonest first."""
    return st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.integers(1, 30), max_size=12).map(
        lambda counts: dict(sorted(counts.items(), key=lambda item: -item[1]))
    )


def listed(counts: dict[str, int], rows: int = 5) -> CountedWords:
    """As read from a table, a few rows at a time."""
    schema = pa.schema([("word", pa.string()), ("count", pa.int64())])
    whole = pa.table([list(counts), list(counts.values())], schema=schema)
    return CountedWords.from_batches(whole.to_batches(max_chunksize=rows))


@given(listings(), listings())
def test_shared_words_are_those_of_the_slow_twin(a: dict[str, int], b: dict[str, int]) -> None:
    rows_a, rows_b = vocabulary_intersection(listed(a), listed(b))
    words = [list(a)[row] for row in rows_a]
    assert words == [list(b)[row] for row in rows_b]
    assert words == sorted(set(a) & set(b), key=lambda word: (-1 / (1 / a[word] + 1 / b[word]), list(a).index(word)))


@given(listings(), listings(), st.integers(1, 8))
def test_words_of_one_table_only(a: dict[str, int], b: dict[str, int], most: int) -> None:
    expected = [{"word": word, "count": n} for word, n in a.items() if word not in b]
    assert vocabulary_difference(listed(a), listed(b), most) == (len(expected), expected[:most])


def test_a_word_is_found_as_it_is_spelled() -> None:
    some = listed({"king": 3, "King": 2, "ü": 1}, rows=1)
    assert [some.words.row_of(word) for word in ("king", "King", "ü", "KING", "")] == [0, 1, 2, None, None]
    assert len(some.words) == 3


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 12))
def test_a_rotation_is_orthogonal_and_no_other_is_nearer(seed: int, n: int, dim: int) -> None:
    a, b = random_rows(n, dim, seed), random_rows(n, dim, seed + 1)
    found = procrustes_rotation(a, b)
    np.testing.assert_allclose(found @ found.T, np.eye(dim), atol=1e-5)
    least = np.linalg.norm(a @ found - b)
    for other in range(5):
        assert least <= np.linalg.norm(a @ random_rotation(dim, seed + other) - b) + 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_a_rotation_is_that_of_scipy(seed: int) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    a, b = random_rows(50, 8, seed), random_rows(50, 8, seed + 100)
    np.testing.assert_allclose(procrustes_rotation(a, b), linalg.orthogonal_procrustes(a, b)[0], atol=1e-4)


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_a_turned_table_is_turned_back(seed: int, dim: int) -> None:
    a = centred_rows(unit_rows(random_rows(60, dim, seed)))
    np.testing.assert_allclose(aligned_distances(a, a @ random_rotation(dim, seed), anchors=40), 0, atol=1e-5)


def test_words_that_are_no_anchors_decide_nothing() -> None:
    a = unit_rows(random_rows(80, 6, 1))
    b = a @ random_rotation(6, 1)
    b[60:] = unit_rows(random_rows(20, 6, 2))
    found = aligned_distances(a, b, anchors=60)
    assert found[:60].max() < 1e-5
    np.testing.assert_allclose(
        found[60:], [1 - (x @ random_rotation(6, 1)) @ y for x, y in zip(a[60:], b[60:], strict=True)], atol=1e-5
    )
    assert aligned_distances(a, b, anchors=80)[:60].max() > 1e-3


@given(st.integers(0, 10_000))
def test_distances_have_their_bounds(seed: int) -> None:
    a, b = unit_rows(random_rows(9, 3, seed)), unit_rows(random_rows(9, 3, seed + 1))
    found = aligned_distances(a, b, anchors=9)
    assert found.dtype == np.float32
    assert ((found >= 0) & (found <= 2)).all()


def test_rows_become_unit_rows_and_those_without_a_direction_zero() -> None:
    rows = random_rows(6, 4, 3) * 7
    rows[1], rows[2, 0], rows[3, 1] = 0, np.nan, np.inf
    found = unit_rows(rows)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 0, 0, 1, 1], atol=1e-6)
    np.testing.assert_allclose(found[0] * np.linalg.norm(rows[0]), rows[0], rtol=1e-5)


def test_what_all_words_share_is_taken_away() -> None:
    plain = unit_rows(random_rows(500, 20, 4))
    leaning = unit_rows(plain + 3 * plain[0])
    assert (leaning @ leaning.T).mean() > 0.8
    assert abs((centred_rows(leaning) @ centred_rows(leaning).T).mean()) < 0.05


def slow_nearest(rows: np.ndarray, k: int) -> list[list[int]]:
    """Every cosine, sorted."""
    n = len(rows)
    return [sorted((j for j in range(n) if j != i), key=lambda j: -float(rows[i] @ rows[j]))[:k] for i in range(n)]


@given(st.integers(0, 10_000), st.integers(3, 25), st.data())
def test_neighbours_and_what_was_kept_are_those_of_the_slow_twin(seed: int, n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n - 1))
    a, b = unit_rows(random_rows(n, 5, seed)), unit_rows(random_rows(n, 7, seed + 1))
    near_a, near_b = nearest_rows(a, k), nearest_rows(b, k)
    slow_a, slow_b = slow_nearest(a, k), slow_nearest(b, k)
    assert near_a.tolist() == slow_a
    assert near_b.tolist() == slow_b
    expected = [len(set(one) & set(other)) / k for one, other in zip(slow_a, slow_b, strict=True)]
    np.testing.assert_allclose(neighbour_overlap(near_a, near_b), expected)


def test_blocks_change_nothing_and_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, reported = unit_rows(random_rows(50, 6, 1)), []
    whole = nearest_rows(rows, 4)
    monkeypatch.setattr(room, "SCORES_AT_ONCE", 50 * 7)
    np.testing.assert_array_equal(nearest_rows(rows, 4, reported.append), whole)
    assert reported == [7, 14, 21, 28, 35, 42, 49, 50]


def slow_z_scores(values: np.ndarray, counts: np.ndarray, peers: int, least: float) -> list[float]:
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
    found = robust_z_scores(values, counts, least_spread=0.05, peers=peers)
    np.testing.assert_allclose(found, slow_z_scores(values, counts, peers, 0.05), atol=1e-9)


def test_rare_words_must_move_more_to_surprise() -> None:
    rng = np.random.default_rng(1)
    counts = np.geomspace(100_000, 5, 4_000)
    moved = 1 / np.sqrt(counts) * rng.uniform(0.8, 1.2, 4_000)
    moved[100] *= 2
    assert moved.argmax() > 3_900
    assert robust_z_scores(moved, counts, least_spread=1e-6).argmax() == 100


def test_a_joint_count_is_that_of_the_rare_side() -> None:
    counts = np.array([10, 10, 1_000_000, 0])
    found = effective_counts(counts, np.array([10, 1_000_000, 10, 5]))
    np.testing.assert_allclose(found[:3], [5, 10, 10], rtol=1e-4)
    assert np.isfinite(found).all()


def test_a_turned_table_did_not_move() -> None:
    rows = clustered(200, 16, 1)
    found = semantic_shifts(rows, rows @ random_rotation(16, 1), np.arange(200, 0, -1.0), k=5)
    assert found.distances.max() < 1e-5
    assert found.kept.min() == 1
    assert abs(found.surprise).max() < 1e-3


def test_words_that_changed_places_come_first() -> None:
    a = clustered(400, 16, 2)
    swapped = np.random.default_rng(3).choice(400, 20, replace=False)
    b = (unit_rows(a + 0.1 * random_rows(400, 16, 4)) @ random_rotation(16, 5)).astype(np.float32)
    b[swapped] = b[np.roll(swapped, 1)]
    found = semantic_shifts(a, b, np.arange(400, 0, -1.0), k=5)
    assert set(np.argsort(-found.surprise)[:20].tolist()) == set(swapped.tolist())
