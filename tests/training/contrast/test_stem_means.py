"""Words and their stems."""

import numpy as np
import pytest

from wordpipe.training.contrastive import count_stems, near_their_stems


def unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def test_each_word_lies_between_itself_and_the_mean_of_its_stem() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((40, 5)).astype(np.float32)
    vectors[::7] = 0
    stems = [f"s{number}" for number in rng.integers(0, 12, 40)]
    counts = rng.integers(0, 50, 40)
    found = near_their_stems(vectors, stems, counts)
    for word in range(40):
        same = [other for other in range(40) if stems[other] == stems[word]]
        mean = unit(sum(max(1, counts[other]) * unit(vectors[other].astype(float)) for other in same))
        assert found[word] == pytest.approx(unit(unit(vectors[word].astype(float)) + mean), abs=1e-6)


def test_a_word_without_a_vector_has_that_of_its_stem_and_one_alone_stays() -> None:
    vectors = np.array([[3, 0], [0, 0], [0, 2], [0, 0]], dtype=np.float32)
    found = near_their_stems(vectors, ["walk", "walk", "bee", "zyx"], np.array([5, 1, 2, 1]))
    assert found.tolist() == [[1, 0], [1, 0], [0, 1], [0, 0]]


def test_stems_are_counted_in_all_forms() -> None:
    assert count_stems(["walk", "bee", "walk"], np.array([5, 2, 3])).tolist() == [8, 2, 8]
