"""Exact neighbours among vectors that stream by or lie in memory."""

import numpy as np
import pytest

from tests.support.ranking import assert_best
from tests.support.search_vectors import exact, unit
from wordpipe.search import VectorTable, knn, nearest


def test_the_nearest_are_those_of_brute_force_and_a_query_without_direction_has_none() -> None:
    vectors_ND, queries_QD = np.split(unit(320, 6, 1), [300])
    queries_QD[[0, 7]] = 0
    found = nearest(queries_QD, np.array_split(vectors_ND, 4), 9)
    for number, (query_D, hits) in enumerate(zip(queries_QD, found, strict=True)):
        assert hits.rows.tolist() == ([] if number in (0, 7) else exact(vectors_ND, query_D, 9))
        np.testing.assert_allclose(hits.scores, vectors_ND[hits.rows] @ query_D, atol=1e-6)
    assert not any(map(len, nearest(queries_QD[:1], [vectors_ND], 9)))


def test_exact_answers_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "_SCORES_AT_ONCE", 40)
    rng = np.random.default_rng()
    documents, queries = rng.standard_normal((60, 8)).astype(np.float32), rng.standard_normal((7, 8)).astype(np.float32)
    documents[[3, 9]], queries[2], documents[20] = 0, 0, documents[21]
    answers = VectorTable(documents).search(queries, 12)
    scores = queries.astype(np.float64) @ documents.T
    scores[:, [3, 9]] = -np.inf
    for number, hits in enumerate(answers):
        if number == 2:
            assert not len(hits)
            continue
        # eight products of numbers below 6: each sum of theirs is rounded by less than 8 · 36 · 2⁻²⁴
        assert_best(hits.rows.tolist(), scores[number], 12, 8 * 36 * 2**-24)
        twins = [row for row in hits.rows.tolist() if row in (20, 21)]
        assert twins in ([], [20], [20, 21])  # of equal ones the first comes first
