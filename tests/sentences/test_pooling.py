import numpy as np
import pytest
import torch

from wordpipe.sentences.pooling import Pooling, merge_windows, pool_hidden


def slow_pool(states: np.ndarray, pooling: Pooling) -> np.ndarray:
    """The states of the real tokens of one sequence, (T, D)."""
    return {"mean": states.mean(axis=0), "cls": states[0], "max": states.max(axis=0)}[pooling]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("seed", range(3))
def test_pooling_matches_the_slow_twin_and_ignores_what_padding_holds(pooling: Pooling, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = [1, 5, 9, 3]
    hidden_BTD = rng.standard_normal((4, 9, 6)).astype(np.float32)
    mask_BT = np.arange(9) < np.array(lengths)[:, None]
    hidden_BTD[~mask_BT] = np.nan
    pooled = pool_hidden(torch.from_numpy(hidden_BTD), torch.from_numpy(mask_BT), pooling).numpy()
    expected = [slow_pool(hidden_BTD[row, :length], pooling) for row, length in enumerate(lengths)]
    np.testing.assert_allclose(pooled, expected, atol=1e-6)


def test_half_precision_is_added_up_in_full() -> None:
    hidden_BTD = torch.full((1, 4096, 1), 1.0078125, dtype=torch.bfloat16)
    mask_BT = torch.ones(1, 4096, dtype=torch.bool)
    assert pool_hidden(hidden_BTD, mask_BT, "mean").item() == pytest.approx(1.0078125, abs=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_windows_merge_by_their_tokens(pooling: Pooling) -> None:
    rng = np.random.default_rng(5)
    counts_N = np.array([1, 0, 3, 1, 2])
    tokens_W = rng.integers(1, 9, size=7)
    windows_WD = rng.standard_normal((7, 4)).astype(np.float32)
    merged_ND = merge_windows(windows_WD, tokens_W, counts_N, pooling)
    ends = np.cumsum([0, *counts_N])
    for text, count in enumerate(counts_N):
        part = slice(ends[text], ends[text + 1])
        if count == 0:
            assert not merged_ND[text].any()
        elif count == 1:
            np.testing.assert_array_equal(merged_ND[text], windows_WD[part][0])
        elif pooling == "max":
            np.testing.assert_array_equal(merged_ND[text], windows_WD[part].max(axis=0))
        else:
            expected = (windows_WD[part] * tokens_W[part, None]).sum(axis=0) / tokens_W[part].sum()
            np.testing.assert_allclose(merged_ND[text], expected, atol=1e-6)
