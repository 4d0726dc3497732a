from collections.abc import Iterator

import numpy as np
import pytest

from tests.search.vectors import Vectors, built, exact, unit
from wordpipe.search import Built, search, update_index
from wordpipe.search.settings import IndexSettings


def updated(old: Built, vectors_ND: Vectors, old_rows: list[int]) -> Built:
    def blocks() -> Iterator[Vectors]:
        for first in range(0, len(vectors_ND), 700):
            yield vectors_ND[first : first + 700]

    settings = IndexSettings(type="ivf-pq", threads=1)
    return update_index(old.index, blocks, np.array(old_rows), old.index.ntotal, settings, old.chosen.width, old.held)


def test_rows_come_go_and_change_places_and_it_answers_as_brute_force_does() -> None:
    vectors_ND, new_ND, queries_QD = np.split(unit(1_900, 16, 3, clusters=20), [1_500, 1_700])
    old = built(vectors_ND, type="ivf-pq")
    kept = np.random.default_rng(1).permutation(1_500)[:1_400]
    old_rows = np.concatenate([kept[:700], np.full(200, -1), kept[700:]])
    table_ND = np.concatenate([vectors_ND[kept[:700]], new_ND, vectors_ND[kept[700:]]])
    result = updated(old, table_ND, old_rows.tolist())
    assert result.index.ntotal == len(table_ND)
    assert result.recall_met
    found = 0
    for query_D, hit in zip(queries_QD, search(result.index, queries_QD, 10, threads=1), strict=True):
        found += len({*hit.rows.tolist()} & {*exact(table_ND, query_D, 10)})
        np.testing.assert_allclose(hit.scores, table_ND[hit.rows] @ query_D, atol=1e-6)
    assert found / (10 * len(queries_QD)) >= 0.93
    itself = [hit.rows[0] if len(hit) else -1 for hit in search(result.index, table_ND, 10, threads=1)]
    assert np.mean(itself == np.arange(len(table_ND))) >= 0.95


def test_the_recall_that_is_measured_is_that_of_all_rows_also_where_those_that_came_are_unlike_the_old() -> None:
    rng = np.random.default_rng(1)

    def drawn(n: int, shift: float) -> Vectors:
        vectors_ND = rng.standard_normal((n, 12)) @ rng.standard_normal((12, 48)) + 0.3 * rng.standard_normal((n, 48))
        vectors_ND += shift * rng.standard_normal(48)
        unit_ND: Vectors = (vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)).astype(np.float32)
        return unit_ND

    old_ND, asked_old_ND = np.split(drawn(5_150, 0), [5_000])
    new_ND, asked_new_ND = np.split(drawn(1_150, 6), [1_000])
    old, table_ND = built(old_ND, type="ivf-pq"), np.concatenate([old_ND, new_ND])
    result = updated(old, table_ND, [*range(5_000), *[-1] * 1_000])
    assert result.held is not None
    share = 1_000 / 6_000
    assert (result.held["row"] >= 5_000).mean() == pytest.approx(share, abs=0.05)

    def found(queries_QD: Vectors) -> float:
        hits = search(result.index, queries_QD, 10, threads=1)
        least_Q = -np.sort(-(queries_QD @ table_ND.T), axis=1)[:, 9]
        return float(np.mean([(hit.scores >= least - 1e-5).mean() for hit, least in zip(hits, least_Q, strict=True)]))

    true = (1 - share) * found(asked_old_ND) + share * found(asked_new_ND)
    assert result.chosen.recall_at_10 == pytest.approx(
        true, abs=0.045
    )  # by old rows alone it was 0.05 to 0.11 too high
