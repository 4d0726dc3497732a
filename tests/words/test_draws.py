"""Random draws of the native trainer: distributions and independence of order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordpipe.compiled import kernel
from wordpipe.words.kernels.draws_and_huffman import Noise, draw_noise, keep_limits, key_of, mixed, subsample


@kernel
def _draws(key: np.uint64, limits: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:  # type: ignore[type-arg]
    drawn = np.empty(n, dtype=np.int64)
    for i in range(n):
        drawn[i] = draw_noise(mixed(key, i), limits, others)
    return drawn


def probabilities(noise: Noise) -> np.ndarray:  # type: ignore[type-arg]
    """What the cells draw, but for the rounding of 32-bit draws: by at most V / 2**32 of each."""
    low = noise.limits.astype(np.float64) / 2**32
    return (low + np.bincount(noise.others, weights=1 - low, minlength=len(low))) / len(low)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=50))
def test_cells_hold_the_distribution(weights: list[float]) -> None:
    wanted = np.array(weights) / np.sum(weights)
    np.testing.assert_allclose(probabilities(Noise.of(np.array(weights))), wanted, atol=1e-8)


def test_rows_are_drawn_in_proportion() -> None:
    weights = np.random.default_rng().random(40) ** 4 + 1e-3
    noise, n = Noise.of(weights), 400_000
    drawn = np.bincount(_draws(key_of(3, 0, 2), noise.limits, noise.others, n), minlength=40)
    expected = n * weights / weights.sum()
    assert ((drawn - expected) ** 2 / expected).sum() < 100  # chi-squared of 39 degrees: 99.9999 % lie below


def test_keys_differ_by_seed_epoch_and_purpose() -> None:
    keys = {int(key_of(seed, epoch, use)) for seed in range(20) for epoch in range(20) for use in range(3)}
    assert len(keys) == 20 * 20 * 3


@pytest.mark.parametrize("chunks", [1, 3, 10])
def test_subsampling_does_not_depend_on_the_chunks(chunks: int) -> None:
    rng = np.random.default_rng()
    text = rng.integers(0, 30, 1000).astype(np.int32)
    text[[0, 100, 101, 990]] = ~text[[0, 100, 101, 990]]
    limits, key = keep_limits(np.linspace(0.1, 1, 30)), key_of(1, 2, 0)

    def trained(first: int, last: int) -> list[tuple[int, int]]:
        rows, places = np.empty(last - first, np.int32), np.empty(last - first, np.int64)
        firsts = np.empty(last - first, np.bool_)
        kept = subsample(text[first:last], first, limits, key, rows, places, firsts)
        assert firsts[0]
        return list(zip(rows[:kept].tolist(), places[:kept].tolist(), strict=True))

    edges = np.linspace(0, 1000, chunks + 1).astype(int)
    in_chunks = [pair for a, b in pairwise(edges) for pair in trained(a, b)]
    assert in_chunks == trained(0, 1000)
    assert all(row == (text[place] if text[place] >= 0 else ~text[place]) for row, place in in_chunks)


def test_subsampling_follows_the_probabilities_and_mark_the_first_of_each_text() -> None:
    text = np.zeros(200_000, dtype=np.int32)
    text[::4] = ~text[::4]
    rows, places, firsts = np.empty_like(text), np.empty(len(text), np.int64), np.empty(len(text), np.bool_)
    kept = subsample(text, 0, keep_limits(np.array([0.25])), key_of(7, 0, 0), rows, places, firsts)
    assert abs(kept / len(text) - 0.25) < 0.005
    texts = places[:kept] // 4
    assert np.array_equal(firsts[:kept], np.concatenate([[True], texts[1:] != texts[:-1]]))
