"""Queries move towards their first answers and no others."""

import numpy as np
import pytest

from wordpipe.search import Hits, towards_answers


def hits(*rows: int) -> Hits:
    return Hits(np.array(rows, dtype=np.int64), np.linspace(1, 0.5, len(rows)).astype(np.float32))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def drawn():
    """Four queries, thirty rows, and six answers to each."""
    rng = np.random.default_rng(0)
    queries, rows = (unit(rng.standard_normal((n, 7))).astype(np.float32) for n in (4, 30))
    return queries, rows, [hits(*rng.permutation(30)[:6].tolist()) for _ in range(4)]


def test_a_query_becomes_the_sum_of_itself_and_the_direction_of_its_first_answers(drawn):
    queries, rows, answers = drawn
    moved = towards_answers(queries, answers, rows.__getitem__, take=3)
    for number, own in enumerate(answers):
        pull = sum(rows[row].astype(np.float64) / rank for rank, row in enumerate(own.rows[:3].tolist(), start=1))
        assert moved.vectors[number] == pytest.approx(unit(queries[number] + unit(pull)), abs=1e-6)
    np.testing.assert_allclose(moved.kept * queries + moved.pulls, moved.vectors, atol=1e-7)


def test_alone_a_query_moves_as_it_does_among_others(drawn):
    queries, rows, answers = drawn
    together = towards_answers(queries, answers, rows.__getitem__)
    for number in range(len(queries)):
        alone = towards_answers(queries[number : number + 1], answers[number : number + 1], rows.__getitem__)
        np.testing.assert_array_equal(alone.vectors[0], together.vectors[number])


def test_without_answers_or_without_a_vector():
    east, north = np.eye(2, dtype=np.float32)
    rows, asked = np.stack([north, -north, -east]), []
    queries = np.stack([east, np.zeros(2, np.float32), east, east])
    answers = [hits(), hits(0), hits(2), hits(1, 0)]

    def vectors(some):
        asked.append(some.tolist())
        return rows[some]

    moved = towards_answers(queries, answers, vectors, take=1)
    assert asked == [[1, 2]]  # ascending, each once; what is not looked at is not read
    np.testing.assert_array_equal(moved.vectors[:3], queries[:3])  # unanswered, no vector, answered by its contrary
    assert moved.kept[:3].tolist() == [[1], [1], [1]]
    assert not moved.pulls[:3].any()
    assert moved.vectors[3] == pytest.approx(unit(np.float32([1, -1])))


def test_no_queries():
    none = np.zeros((0, 3), np.float32)
    assert towards_answers(none, [], np.ones((2, 3), np.float32).__getitem__).vectors.shape == (0, 3)
