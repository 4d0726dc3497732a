"""The queries that an index keeps: their true neighbours stay true when rows come and go."""

import io

import numpy as np
import pytest

from tests.search.vectors import Vectors, unit
from wordpipe.errors import ArtifactError
from wordpipe.search.kinds import K
from wordpipe.search.recall import DEPTH, ExactNeighbours, HeldOut


def truth_of(vectors_ND: Vectors, query_rows: np.ndarray) -> ExactNeighbours:
    """By brute force, in blocks, among all rows but the queries."""
    truth = ExactNeighbours(vectors_ND[query_rows], depth=DEPTH)
    others = np.setdiff1d(np.arange(len(vectors_ND)), query_rows)
    for some in np.array_split(others, 3):
        truth.look_at(some, vectors_ND[some])
    return truth


def kept(vectors_ND: Vectors, query_rows: np.ndarray) -> HeldOut:
    return HeldOut.of(query_rows, truth_of(vectors_ND, query_rows), len(vectors_ND))


@pytest.mark.parametrize("share", [0.01, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_after_changes_the_neighbours_are_those_of_brute_force(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    vectors_ND = unit(900, 8, seed)
    held = kept(vectors_ND, np.sort(rng.choice(900, 40, replace=False)))
    for step in range(4):
        gone = rng.random(len(vectors_ND)) < share / 2
        new_ND = unit(int(share * 450), 8, 100 * seed + step + 1)
        order = rng.permutation(int((~gone).sum()) + len(new_ND))  # rows change places too
        before = np.concatenate([np.flatnonzero(~gone), np.full(len(new_ND), -1)])[order]
        table_ND = np.concatenate([vectors_ND[~gone], new_ND])[order]
        new_of_old = np.full(len(vectors_ND), -1)
        new_of_old[before[before >= 0]] = np.flatnonzero(before >= 0)
        moved = held.moved(new_of_old)
        if moved is None:
            assert share > 0.1
            return
        truth = moved.truth()
        truth.look_at(np.flatnonzero(before < 0), table_ND[before < 0])
        held, vectors_ND = moved.completed(truth), table_ND
        expected = truth_of(vectors_ND, held.rows)
        np.testing.assert_array_equal(held.vectors, vectors_ND[held.rows])
        np.testing.assert_allclose(held.scores[:, :K], expected.scores[:, :K], atol=1e-6)
        known = held.near >= 0
        assert known.sum(axis=1).min() >= K
        np.testing.assert_allclose(held.scores[known], expected.scores[known], atol=1e-6)
        scores = np.einsum("qmd,qd->qm", vectors_ND[held.near], held.vectors)
        np.testing.assert_allclose(held.scores[known], scores[known], atol=1e-6)
        assert truth.queries_per_s is None  # of those that came alone it would be many times too fast
        assert expected.queries_per_s


def test_with_others_they_are_as_if_asked_together() -> None:
    vectors_ND = unit(300, 8, 4)
    rows = np.arange(0, 300, 7)
    truth = truth_of(vectors_ND, rows)
    together = HeldOut.all_of(rows, truth)
    some = np.flatnonzero(np.arange(len(rows)) % 3 == 1)
    rest = np.setdiff1d(np.arange(len(rows)), some)
    parts = [HeldOut.all_of(rows[own], truth.of(own)) for own in (some, rest)]
    for name in ("rows", "near", "scores", "floor", "vectors"):
        np.testing.assert_array_equal(getattr(parts[0].joined(parts[1]), name), getattr(together, name))


def test_too_many_changes_leave_nothing() -> None:
    vectors_ND = unit(300, 8, 1)
    held = kept(vectors_ND, np.arange(0, 300, 10))
    assert held.moved(np.arange(300)) is not None
    new_of_old = np.full(300, -1)
    new_of_old[::10] = np.arange(30)
    assert held.moved(new_of_old) is None  # the neighbours are gone
    new_of_old = np.arange(300)
    new_of_old[::10] = -1
    assert held.moved(new_of_old) is None  # the queries are


def test_what_is_written_is_read_and_nothing_else() -> None:
    held = kept(unit(60, 4, 1), np.array([3, 9]))
    data = held.to_bytes()
    again = HeldOut.from_bytes(data, 60, 4, "here")
    for name in ("rows", "near", "scores", "floor", "vectors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(held, name))
    numbers = io.BytesIO()
    np.save(numbers, np.arange(3))
    for wrong in (b"", data[:-9], numbers.getvalue(), b"nothing of the kind"):
        with pytest.raises(ArtifactError, match="no queries of an index"):
            HeldOut.from_bytes(wrong, 60, 4, "here")
    with pytest.raises(ArtifactError, match="another index"):
        HeldOut.from_bytes(data, 20, 4, "here")


def test_so_many_are_kept_as_the_recall_needs() -> None:
    vectors_ND = unit(4_000, 4, 2)
    held = kept(vectors_ND, np.arange(0, 4_000, 8))
    assert len(held.rows) == 200
    expected = truth_of(vectors_ND, held.rows)
    np.testing.assert_allclose(held.scores, expected.scores, atol=1e-6)
