"""The queries that an index keeps: their true neighbours stay true when rows come and go."""

import io

import numpy as np
import pytest

from tests.search.vectors import Vectors, unit
from wordpipe.errors import ArtifactError
from wordpipe.search import ExactNeighbours, K, Records, completed, moved, read_held_out, some_held_out, truth_of


def slow_truth(vectors_ND: Vectors, query_rows: np.ndarray) -> ExactNeighbours:
    """By brute force, in blocks, among all rows but the queries."""
    truth = ExactNeighbours(vectors_ND[query_rows])
    others = np.setdiff1d(np.arange(len(vectors_ND)), query_rows)
    for some in np.array_split(others, 3):
        truth.look_at(some, vectors_ND[some])
    return truth


def kept(vectors_ND: Vectors, query_rows: np.ndarray) -> Records:
    return some_held_out(query_rows, slow_truth(vectors_ND, query_rows), len(vectors_ND))


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
        after = moved(held, new_of_old)
        if after is None:
            assert share > 0.1
            return
        truth = truth_of(after)
        truth.look_at(np.flatnonzero(before < 0), table_ND[before < 0])
        held, vectors_ND = completed(after, truth), table_ND
        expected = slow_truth(vectors_ND, held["row"])
        np.testing.assert_array_equal(held["vector"], vectors_ND[held["row"]])
        np.testing.assert_allclose(held["score"][:, :K], expected.scores[:, :K], atol=1e-6)
        known = held["near"] >= 0
        assert known.sum(axis=1).min() >= K
        np.testing.assert_allclose(held["score"][known], expected.scores[known], atol=1e-6)
        scores = np.einsum("qmd,qd->qm", vectors_ND[held["near"]], held["vector"])
        np.testing.assert_allclose(held["score"][known], scores[known], atol=1e-6)
        assert truth.queries_per_s is None  # of those that came alone it would be many times too fast
        assert expected.queries_per_s


def test_too_many_changes_leave_nothing() -> None:
    vectors_ND = unit(300, 8, 1)
    held = kept(vectors_ND, np.arange(0, 300, 10))
    assert moved(held, np.arange(300)) is not None
    new_of_old = np.full(300, -1)
    new_of_old[::10] = np.arange(30)
    assert moved(held, new_of_old) is None  # the neighbours are gone
    new_of_old = np.arange(300)
    new_of_old[::10] = -1
    assert moved(held, new_of_old) is None  # the queries are


def test_what_is_written_is_read_and_nothing_else() -> None:
    held = kept(unit(60, 4, 1), np.array([3, 9]))
    np.save(file := io.BytesIO(), held)
    data = file.getvalue()
    np.testing.assert_array_equal(read_held_out(data, 60, 4, "here"), held)
    numbers = io.BytesIO()
    np.save(numbers, np.arange(3))
    for wrong in (b"", data[:-9], numbers.getvalue(), b"nothing of the kind"):
        with pytest.raises(ArtifactError, match="no queries of an index"):
            read_held_out(wrong, 60, 4, "here")
    with pytest.raises(ArtifactError, match="another index"):
        read_held_out(data, 20, 4, "here")


def test_so_many_are_kept_as_the_recall_needs() -> None:
    vectors_ND = unit(4_000, 4, 2)
    held = kept(vectors_ND, np.arange(0, 4_000, 8))
    assert len(held["row"]) == 200
    expected = slow_truth(vectors_ND, held["row"])
    np.testing.assert_allclose(held["score"], expected.scores, atol=1e-6)
