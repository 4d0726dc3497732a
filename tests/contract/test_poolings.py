"""What every pooling of the table promises: NumPy and torch give what a slow twin gives, and windows merge."""

import numpy as np
import pytest
import torch

from wordpipe.encoders import POOLINGS, Pooling, pool_packed, pooling_named
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.model import pack

LENGTHS = np.array([1, 5, 9, 3])
WEIGHTS_V = np.array([0, 0.5, 2, 1, 0.1], np.float32)
EACH = pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
JOINED = ("cls+mean", "max+last+rising")
SLOW = {
    "cls": lambda states: states[0],
    "max": lambda states: states.max(axis=0),
    "last": lambda states: states[-1],
    "mean-root": lambda states: states.sum(axis=0) / np.sqrt(len(states)),
    "rising": lambda states: np.average(states, axis=0, weights=range(1, len(states) + 1)),
}
"""Name → the vector of the states (T, D) of one sequence; all others are means, where `is_weighted` of weighted tokens."""


def slow_pool(states: np.ndarray, ids: np.ndarray, pooling: Pooling) -> np.ndarray:
    if pooling.name in SLOW:
        return SLOW[pooling.name](states)
    weights = WEIGHTS_V[ids] if pooling.is_weighted else np.ones(len(ids))
    return (states * weights[:, None]).sum(axis=0) / max(weights.sum(), 1e-9)


def weights_of(pooling: Pooling) -> np.ndarray | None:
    return WEIGHTS_V if pooling.is_weighted else None


def test_the_settings_have_all_of_them():
    assert {*POOLINGS} < {*EmbedSettings.model_fields["pooling"].annotation.__args__}


@EACH
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_match_the_slow_twin(pooling: Pooling, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hidden_BTD = rng.standard_normal((4, 9, 6)).astype(np.float32)
    ids_BT = rng.integers(5, size=(4, 9))
    ids_BT[3] = 0  # weighs nothing
    mask_BT = np.arange(9) < LENGTHS[:, None]
    hidden_BTD[~mask_BT] = np.nan  # padding does not count, whatever it holds
    given = [torch.from_numpy(array) for array in (hidden_BTD, ids_BT, mask_BT)]
    weights_V = weights_of(pooling)
    pooled = pooling.hidden(*given, None if weights_V is None else torch.from_numpy(weights_V)).numpy()
    expected = [
        slow_pool(hidden_BTD[row, :length], ids_BT[row, :length], pooling) for row, length in enumerate(LENGTHS)
    ]
    np.testing.assert_allclose(pooled, expected, atol=1e-6)
    rows_SD = pooling.rows(hidden_BTD[mask_BT], ids_BT[mask_BT], LENGTHS, weights_V)
    np.testing.assert_allclose(rows_SD, expected, atol=1e-6)


@pytest.mark.parametrize("name", JOINED)
def test_joined_poolings_stand_side_by_side(name: str) -> None:
    rng = np.random.default_rng(3)
    states_ND, ids_N = rng.standard_normal((18, 6)).astype(np.float32), rng.integers(1, 5, size=18)
    pooling, parts = pooling_named(name), [POOLINGS[part] for part in name.split("+")]
    assert pooling.joins == len(parts)
    rows = [part.rows(states_ND, ids_N, LENGTHS, None) for part in parts]
    np.testing.assert_array_equal(pooling.rows(states_ND, ids_N, LENGTHS, None), np.concatenate(rows, axis=1))
    counts_N, tokens_W = np.array([1, 2, 1]), np.array([3, 4, 2, 5])
    merged = [part.merge_windows(one, tokens_W, counts_N) for part, one in zip(parts, rows, strict=True)]
    joined = pooling.merge_windows(np.concatenate(rows, axis=1), tokens_W, counts_N)
    np.testing.assert_array_equal(joined, np.concatenate(merged, axis=1))
    hidden_BTD, ids_BT = torch.from_numpy(states_ND.reshape(3, 6, 6)), torch.from_numpy(ids_N.reshape(3, 6))
    hidden = [part.hidden(hidden_BTD, ids_BT, None, None) for part in parts]
    torch.testing.assert_close(pooling.hidden(hidden_BTD, ids_BT, None, None), torch.cat(hidden, dim=1))


@pytest.mark.parametrize("name", ["cls+", "cls+nothing", "mean+weighted", "first-last+cls", "nothing"])
def test_other_poolings_cannot_be_joined(name: str) -> None:
    assert pooling_named(name) is None


@EACH
def test_a_sequence_has_the_same_bits_in_any_company(pooling: Pooling) -> None:
    rng = np.random.default_rng(9)
    states_ND, ids_N = rng.standard_normal((18, 6)).astype(np.float32), rng.integers(1, 5, size=18)
    together = pooling.rows(states_ND, ids_N, LENGTHS, weights_of(pooling))
    for number, (start, length) in enumerate(zip(np.cumsum(LENGTHS) - LENGTHS, LENGTHS, strict=True)):
        here = slice(start, start + length)
        alone = pooling.rows(states_ND[here], ids_N[here], LENGTHS[number : number + 1], weights_of(pooling))
        np.testing.assert_array_equal(alone[0], together[number])


@EACH
def test_windows_merge_by_their_tokens(pooling: Pooling) -> None:
    rng = np.random.default_rng(5)
    counts_N = np.array([1, 0, 3, 1, 2, 2])
    tokens_W = np.array([3, 5, 1, 8, 2, 2, 6, 0, 0])  # of the last text nothing weighs
    windows_WD = rng.standard_normal((9, 4)).astype(np.float32)
    merged_ND = pooling.merge_windows(windows_WD, tokens_W, counts_N)
    ends = np.cumsum([0, *counts_N])
    for text, count in enumerate(counts_N):
        part = slice(ends[text], ends[text + 1])
        if count == 0:
            assert not merged_ND[text].any()
        elif count == 1:
            np.testing.assert_array_equal(merged_ND[text], windows_WD[part][0])
        elif pooling.name == "max":
            np.testing.assert_array_equal(merged_ND[text], windows_WD[part].max(axis=0))
        else:
            expected = (windows_WD[part] * tokens_W[part, None]).sum(axis=0) / max(tokens_W[part].sum(), 1)
            np.testing.assert_allclose(merged_ND[text], expected, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("multiple", [1, 4])
def test_packed_sequences_are_pooled_as_rows_are(weighted: bool, multiple: int) -> None:
    rng = np.random.default_rng(multiple)
    lengths_S = rng.integers(1, 12, size=9)
    ids_N = rng.integers(5, size=lengths_S.sum())
    packed = pack(ids_N, lengths_S, multiple=multiple)
    table_VD = rng.standard_normal((5, 6)).astype(np.float32)
    hidden_ND = torch.from_numpy(table_VD)[packed.ids]
    for run, real in zip(packed.runs(hidden_ND), packed.real, strict=True):
        if real is not None:
            run[~real] = torch.nan  # padding does not count, whatever it holds
    hidden_ND.requires_grad_()
    pooled_SD = pool_packed(hidden_ND, packed, torch.from_numpy(WEIGHTS_V) if weighted else None)
    expected_SD = POOLINGS["mean"].rows(table_VD[ids_N], ids_N, lengths_S, WEIGHTS_V if weighted else None)
    np.testing.assert_allclose(pooled_SD.detach(), expected_SD, atol=1e-6)
    pooled_SD.sum().backward()
    assert torch.isfinite(hidden_ND.grad).all()


def test_a_sequence_whose_tokens_weigh_nothing_has_no_direction() -> None:
    packed = pack(np.array([2, 3]), np.array([2]))
    assert not pool_packed(torch.rand(2, 5), packed, torch.zeros(5)).any()


def test_half_precision_is_added_up_in_full() -> None:
    packed = pack(np.zeros(4096, np.int64), np.array([4096]))
    pooled = pool_packed(torch.full((4096, 1), 1.0078125, dtype=torch.bfloat16), packed)
    assert pooled.item() == pytest.approx(1.0078125, abs=1e-6)
