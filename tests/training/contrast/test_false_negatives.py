"""Which texts are no negatives of each other: against sets of texts, pair by pair."""

import numpy as np
import pytest
import torch

from tests.training.contrast.encoders import ragged
from tests.training.contrast.slow_false_negatives import slow_false_negatives
from wordpipe.training.contrastive import PairBatch, false_negatives


def pairs(first: list[list[int]], second: list[list[int]], document: list[int]) -> PairBatch:
    return PairBatch(ragged(*first), ragged(*second), np.array(document), np.zeros(len(document), np.int8))


def random_pairs(rng: np.random.Generator, n: int = 20) -> PairBatch:
    """Of 30 documents, and of texts of one or two of four ids, so that many are equal."""
    first, second = ([rng.integers(1, 5, rng.integers(1, 3)).tolist() for _ in range(n)] for _ in range(2))
    return pairs(first, second, rng.integers(0, 30, n).tolist())


def test_one_text_on_the_two_sides_of_other_documents() -> None:
    same = false_negatives(pairs([[7], [8], [9]], [[4], [7], [6]], [0, 1, 2]))
    assert same.tolist() == [[True, True, False], [True, True, False], [False, False, True]]


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_pairs(rng)
    same = false_negatives(batch)
    assert same.tolist() == slow_false_negatives(batch)
    assert torch.equal(same, same.T)
