"""What an index promises on vectors of several kinds."""

import numpy as np
import pytest

from tests.search.vectors import Vectors, built, unit
from wordpipe.search import kinds, search


def decaying(n: int, dim: int, seed: int) -> Vectors:
    """Few directions carry most, as in sentence vectors."""
    vectors_ND = np.random.default_rng(seed).standard_normal((n, dim)) * np.arange(1, dim + 1) ** -0.7
    return np.ascontiguousarray(vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True), dtype=np.float32)


SPACES = {
    "clusters": lambda: unit(3_200, 32, 1, clusters=25),
    "no structure": lambda: unit(3_200, 32, 2),
    "few directions": lambda: decaying(3_200, 32, 3),
    "a hundred times the same": lambda: np.repeat(unit(32, 32, 4), 100, axis=0),
}


@pytest.mark.parametrize("space", SPACES)
def test_auto_reaches_its_target_on_foreign_queries_of_every_space(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_FLAT_BELOW", 1_000)
    everything = np.random.default_rng(9).permutation(SPACES[space]())
    vectors_ND, queries_QD = np.split(everything, [3_000])
    result = built(vectors_ND)
    least_Q = np.sort(queries_QD @ vectors_ND.T, axis=1)[:, -10]
    hits = search(result.index, queries_QD, 10, threads=1)
    found = np.mean([(hit.scores >= least - 1e-5).sum() / 10 for hit, least in zip(hits, least_Q, strict=True)])
    assert result.recall_met
    assert found >= 0.93  # 200 queries know it to 0.015
