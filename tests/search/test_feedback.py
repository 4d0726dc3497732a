"""Queries move towards their first answers and no others."""

import numpy as np
import pytest

from wordpipe.search.feedback import towards_answers
from wordpipe.search.hits import Hits


def hits(*rows: int) -> Hits:
    return Hits(np.array(rows, dtype=np.int64), np.linspace(1, 0.5, len(rows)).astype(np.float32))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_a_query_becomes_the_sum_of_itself_and_the_direction_of_its_first_answers():
    rng = np.random.default_rng(0)
    queries, documents = (unit(rng.standard_normal((n, 7))).astype(np.float32) for n in (4, 30))
    rows = [rng.permutation(30)[:6] for _ in range(4)]
    moved = towards_answers(queries, [hits(*some) for some in rows], documents, take=3)
    for number, some in enumerate(rows):
        mean = sum(documents[row].astype(np.float64) for row in some[:3]) / 3
        assert moved[number] == pytest.approx(unit(queries[number] + mean / np.sqrt(mean @ mean)), abs=1e-6)
    assert (np.einsum("qd,qd->q", moved, documents[[some[0] for some in rows]])).min() > 0


def test_without_answers_or_without_a_vector():
    east, north = np.eye(2, dtype=np.float32)
    queries = np.stack([east, np.zeros(2, np.float32), np.zeros(2, np.float32), east])
    moved = towards_answers(queries, [hits(), hits(0), hits(), hits(0, 1)], np.stack([north, -north]), take=2)
    assert moved[0] == pytest.approx(east)  # unanswered
    assert moved[1] == pytest.approx(north)  # a query of unknown words that BM25 answers
    assert not moved[2].any()
    assert moved[3] == pytest.approx(east)  # answers that cancel out say nothing
    assert np.isfinite(moved).all()


def test_no_queries():
    none = np.zeros((0, 3), np.float32)
    assert towards_answers(none, [], np.ones((2, 3), np.float32), take=3).shape == (0, 3)
