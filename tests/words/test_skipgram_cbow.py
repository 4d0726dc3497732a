"""The native kernel against the plain twin, and its gradients against finite differences."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.plain_word2vec import Plain
from tests.support.variants import some_of
from wordpipe.words.kernels.draws_and_huffman import Noise, Tree, keep_limits, key_of
from wordpipe.words.kernels.simd import padded
from wordpipe.words.kernels.skipgram_cbow import (
    NEGATIVE,
    SOFTMAX,
    TREE,
    Objective,
    Rows,
    Windows,
    scratch_size,
    train_chunk,
)

OBJECTIVES = {"ns": NEGATIVE, "hs": TREE, "softmax": SOFTMAX}
V, DIM = 14, 10


class Case:
    """A random small text and random weights, to be trained by the kernel and by the twin."""

    def __init__(self, *, words: int = 120, distinct: bool = False, **settings: Any) -> None:
        seed = int(np.random.default_rng().integers(2**32))
        print(f"seed {seed}")  # noqa: T201  (shown where a test fails)
        rng = np.random.default_rng(seed)
        rows = np.arange(words) % V if distinct else rng.integers(0, V, words)
        firsts = rng.random(words) < 0.05
        firsts[0] = True
        self.text = np.where(firsts, ~rows, rows).astype(np.int32)
        counts = np.sort(rng.integers(1, 100, V))[::-1]
        tree = Tree.of(counts)
        keys = tuple(int(key_of(5, 1, use)) for use in range(3))
        self.plain = Plain(
            list(zip(rows.tolist(), firsts.tolist(), strict=True)),
            keys,  # type: ignore[arg-type]
            keep_limits(np.linspace(0.5, 1, V)),
            Noise.of(counts**0.75),
            tree=tree,
            **settings,
        )
        n_outputs = V - 1 if self.plain.loss == "hs" else V
        self.weights = [rng.normal(size=(n, DIM)) / 2 for n in (V, n_outputs, 2 * V)]

    def natively(
        self, begin: int, end: int, lr: tuple[float, float], hot: int = 0, share_after: int = 1
    ) -> tuple[list[npt.NDArray[np.float32]], npt.NDArray[np.float64]]:
        """The weights after the kernel, and its sums."""
        plain, tree = self.plain, self.plain.tree
        assert tree is not None
        padded_weights = [np.zeros((len(w), padded(DIM)), dtype=np.float32) for w in self.weights]
        for target, source in zip(padded_weights, self.weights, strict=True):
            target[:, :DIM] = source
        inputs, outputs, grams = padded_weights
        lists = [plain.parts.get(row, []) for row in range(V)] if plain.parts else []
        starts = np.cumsum([0, *map(len, lists)]).astype(np.int64) if plain.parts else np.zeros(0, dtype=np.int64)
        sums = np.zeros(2)
        most = {"ns": 1 + plain.negatives, "hs": int(np.diff(tree.path_starts).max()), "softmax": V}[plain.loss]
        train_chunk(
            self.text, 0, begin, end, lr,
            Windows(plain.skipgram, plain.window, plain.dynamic, plain.keep, np.array(plain.keys, dtype=np.uint64)),
            Objective(OBJECTIVES[plain.loss], plain.negatives, plain.noise.limits, plain.noise.others,
                      tree.path_starts, tree.path_nodes, tree.path_signs, most),
            Rows(inputs, outputs, starts, np.array([part for one in lists for part in one], dtype=np.int32), grams, hot,
                 share_after),
            np.empty(scratch_size(plain.window, padded(DIM), hot), dtype=np.float32), sums,
        )  # fmt: skip
        assert not any(w[:, DIM:].any() for w in padded_weights), "the padding was written to"
        return [w[:, :DIM] for w in padded_weights], sums

    def plainly(
        self, begin: int, end: int, lr: tuple[float, float]
    ) -> tuple[list[npt.NDArray[np.float64]], tuple[float, int]]:
        """The same by the twin."""
        weights = [w.copy() for w in self.weights]
        return weights, self.plain.train(begin, end, lr, *weights)


@pytest.mark.parametrize(
    ("objective", "skipgram", "dynamic"),
    some_of([("ns", 1), ("ns", 5), ("ns", 30), ("hs", 5), ("softmax", 5)], [True, False], [True, False]),
)
def test_kernel_matches_the_plain_twin(objective: tuple[str, int], skipgram: bool, dynamic: bool) -> None:
    loss, negatives = objective
    case = Case(loss=loss, negatives=negatives, skipgram=skipgram, dynamic=dynamic)
    got, sums = case.natively(0, 120, (0.05, 0.01))
    wanted, (total, predictions) = case.plainly(0, 120, (0.05, 0.01))
    assert sums[1] == predictions
    assert sums[0] == pytest.approx(total, rel=1e-3)
    for after, before, expected in zip(got, case.weights, wanted, strict=True):
        np.testing.assert_allclose(after - before, expected - before, atol=2e-5)


@pytest.mark.parametrize(("loss", "window"), some_of(["ns", "hs", "softmax"], [16, 17, 45], together=1))
def test_wide_windows_are_computed_a_part_at_a_time(loss: str, window: int) -> None:
    case = Case(loss=loss, window=window, dynamic=False, negatives=5)
    got, sums = case.natively(0, 120, (0.02, 0.01))
    wanted, (total, predictions) = case.plainly(0, 120, (0.02, 0.01))
    assert (sums[1], sums[0]) == (predictions, pytest.approx(total, rel=1e-3))
    for after, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(after, expected, atol=1e-4)


@pytest.mark.parametrize("skipgram", [True, False])
def test_words_of_parts_match_the_plain_twin(skipgram: bool) -> None:
    parts = {row: [2 * row, 2 * row + 1][: row % 3] for row in range(V)}
    case = Case(parts=parts, skipgram=skipgram)
    got, sums = case.natively(0, 120, (0.05, 0.01))
    wanted, (total, _) = case.plainly(0, 120, (0.05, 0.01))
    assert sums[0] == pytest.approx(total, rel=1e-3)
    for after, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(after, expected, atol=2e-5)


@pytest.mark.parametrize("skipgram", [True, False])
@pytest.mark.parametrize("loss", ["ns", "hs", "softmax"])
def test_gradients_match_finite_differences(loss: str, skipgram: bool) -> None:
    case = Case(words=V, distinct=True, loss=loss, skipgram=skipgram)
    window = next(w for w in case.plain.windows(0, V) if len(w[2]) > 1)
    lr, step = 1e-3, 1e-5
    got, _ = case.natively(window[0], window[0] + 1, (lr, lr))
    for which in range(2):
        numeric = np.zeros_like(case.weights[which])
        for at in np.ndindex(*numeric.shape):
            ends = []
            for sign in (1, -1):
                moved = [w.copy() for w in case.weights]
                moved[which][at] += sign * step
                ends.append(case.plain.window_loss(window, *moved))
            numeric[at] = (ends[0] - ends[1]) / (2 * step)
        descent = (case.weights[which].astype(np.float32).astype(np.float64) - got[which]) / lr
        if which == 0 and not skipgram:
            descent /= len(window[2])  # each word of the window gets the whole gradient of their mean, as in word2vec
        np.testing.assert_allclose(descent, numeric, atol=2e-3)


@pytest.mark.parametrize("loss", ["ns", "hs"])
@pytest.mark.parametrize(("hot", "share_after"), [(1, 1), (5, 7), (13, 3), (13, 10**9)])
def test_hot_rows_are_added_back(loss: str, hot: int, share_after: int) -> None:
    case = Case(loss=loss)
    plainly, hotly = case.natively(0, 120, (0.05, 0.01)), case.natively(0, 120, (0.05, 0.01), hot, share_after)
    for one, other in zip(plainly[0], hotly[0], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(plainly[1], hotly[1])


def test_chunks_add_up_to_the_whole() -> None:
    case = Case(words=200, negatives=5)
    whole, sums = case.natively(0, 200, (0.03, 0.03))
    after = case
    total = np.zeros(2)
    for begin, end in [(0, 50), (50, 51), (51, 199), (199, 200)]:
        got, some = after.natively(begin, end, (0.03, 0.03))
        total += some
        after.weights = [w.astype(np.float64) for w in got]
    assert total[1:].tolist() == sums[1:].tolist()
    for in_chunks, once in zip(after.weights, whole, strict=True):
        np.testing.assert_allclose(in_chunks, once, atol=1e-4)


@pytest.mark.parametrize("loss", ["ns", "hs", "softmax"])
def test_scores_without_bound_stay_finite(loss: str) -> None:
    case = Case(loss=loss)
    case.weights = [1e3 * w for w in case.weights]
    got, sums = case.natively(0, 120, (0.05, 0.05))
    assert all(np.isfinite(w).all() for w in got)
    assert math.isfinite(sums[0])


def test_twin_itself_keeps_windows_inside_texts() -> None:
    case = Case()
    plain = replace(case.plain, text=[(row, True) for row, _ in case.plain.text])
    assert plain.windows(0, 120) == []
