"""Neighbours among vectors that stream by, one by one."""

import numpy as np

from tests.search.vectors import exact, unit
from wordpipe.search.exact import nearest


def test_the_nearest_are_those_of_brute_force_and_a_query_without_direction_has_none() -> None:
    vectors_ND, queries_QD = np.split(unit(320, 6, 1), [300])
    queries_QD[[0, 7]] = 0
    found = nearest(queries_QD, np.array_split(vectors_ND, 4), 9)
    for number, (query_D, hits) in enumerate(zip(queries_QD, found, strict=True)):
        assert hits.rows.tolist() == ([] if number in (0, 7) else exact(vectors_ND, query_D, 9))
        np.testing.assert_allclose(hits.scores, vectors_ND[hits.rows] @ query_D, atol=1e-6)
    assert not any(map(len, nearest(queries_QD[:1], [vectors_ND], 9)))
