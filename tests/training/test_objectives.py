from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.models import small_config
from wordpipe.model import new_model
from wordpipe.training import Causal, Masked, Rows, SpecialIds, Task, loss_sum
from wordpipe.training.settings import CausalSettings

SPECIAL = (0, 1, 2, 3, 4, 5, 6)
UNITS = ["token", "word", "span"]


def masked(rate=0.15, mask_share=0.8, random_share=0.1, n_tokens=90, unit="token"):
    return Masked(
        rate=rate, unit=unit, mask_share=mask_share, random_share=random_share, mask_id=4, special_ids=SPECIAL,
        n_tokens=n_tokens, device=torch.device("cpu"),
    )  # fmt: skip


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(B, T, seed=0, special_share=0.1):
    random = np.random.default_rng(seed)
    ids = random.integers(7, 90, (B, T))
    ids[random.random((B, T)) < special_share] = 3
    ids[:, 0], ids[:, -1] = 2, 3
    starts = (random.random((B, T)) < 0.7) | (ids == 3) | (np.roll(ids, 1, axis=1) < 7)
    return Rows(torch.from_numpy(ids), torch.from_numpy(starts))


def test_random_tokens_are_spread_over_the_ordinary_ones():
    targets = masked(rate=0.9, mask_share=0.0, random_share=1.0).targets(rows(2000, 66), generator(), 0.0)
    drawn = torch.bincount(targets.inputs.gather(1, targets.positions)[targets.weights > 0], minlength=96)
    assert drawn[:7].sum() == 0
    assert drawn[90:].sum() == 0  # padding of the embedding table
    assert float(drawn[7:90].max() / drawn[7:90].min()) < 1.35


def test_single_token_masks_stay_what_they_were():
    """Masks of a seed are part of what a run is: the same inputs as ever."""
    targets = masked(0.5).targets(Rows(torch.arange(7, 27)[None]), generator(3), 0.0)
    assert sorted(targets.positions[0].tolist()) == [4, 6, 7, 8, 9, 11, 17, 18, 19]
    shown = targets.inputs[0].tolist()
    assert [t for t in range(20) if shown[t] == 4] == [4, 6, 7, 8, 9, 11, 17, 19]


def test_causal_shifts_once_and_never_asks_for_a_document_to_begin():
    ids_BT = torch.tensor([[5, 10, 11, 6, 5, 12]])
    targets = Causal(bos_id=5).targets(Rows(ids_BT), generator(), 0.0)
    assert targets.inputs.tolist() == [[5, 10, 11, 6, 5]]
    assert targets.labels.tolist() == [[10, 11, 6, 5, 12]]
    assert targets.weights.tolist() == [[1, 1, 1, 0, 1]]


def objective_of(kind):
    return Causal(bos_id=3) if kind == "clm" else masked(0.5, unit=kind)


def model_of(kind):
    return new_model(small_config("decoder" if kind == "clm" else "encoder"), 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", [*UNITS, "clm"])
def test_loss_is_the_sum_over_targets_alone(kind, smoothing):
    """Twin: logits at every position by the plain forward pass, picked one by one."""
    model = model_of(kind)
    # so many special tokens that some rows have fewer ordinary ones than places
    targets = objective_of(kind).targets(rows(5, 17, special_share=0.6), generator(), 0.0)
    with torch.no_grad():
        log_p_BTV = model(targets.inputs).log_softmax(dim=-1)
        got = float(loss_sum(model, targets, smoothing))
    want, V = 0.0, log_p_BTV.shape[2]
    for b in range(5):
        for k in range(targets.labels.shape[1]):
            t = k if targets.positions is None else int(targets.positions[b, k])
            wanted_V = torch.full((V,), smoothing / V)
            wanted_V[targets.labels[b, k]] += 1.0 - smoothing
            want -= float(targets.weights[b, k]) * float(wanted_V @ log_p_BTV[b, t])
    assert 0 < float(targets.weights.sum()) < targets.weights.numel()
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("kind", UNITS)
def test_sequences_of_special_tokens_alone_cost_nothing(kind):
    model = model_of(kind)
    targets = objective_of(kind).targets(rows(2, 12, special_share=1.0), generator(), 0.0)
    loss = loss_sum(model, targets, 0.1)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


def test_segments_reach_the_model_and_are_cut_with_the_batch():
    model = new_model(small_config("encoder", segments=2), 0)
    one = objective_of("token").targets(rows(4, 12), generator(), 0.0)
    other = replace(one, segments=torch.ones_like(one.inputs))
    with torch.no_grad():
        losses = [float(loss_sum(model, targets)) for targets in (one, replace(one, segments=one.inputs * 0), other)]
        parts = [float(loss_sum(model, other.rows(first, first + 2))) for first in (0, 2)]
    assert losses[0] == losses[1] != losses[2]
    assert sum(parts) == pytest.approx(losses[2], rel=1e-6)


def test_one_token_that_begins_and_ends_is_a_target_once_between_documents():
    both = Task(CausalSettings.make({}), n_tokens=90, special=SpecialIds(bos=5, eos=5))
    assert (both.before, both.after) == ((), (5,))
    some = Rows(torch.tensor([[7, 8, 5, 9, 10]]), None)
    assert both.objective(torch.device("cpu")).targets(some, torch.Generator(), 0.0).weights.tolist() == [[1, 1, 1, 1]]
    apart = Task(CausalSettings.make({}), n_tokens=90, special=SpecialIds(bos=5, eos=6))
    assert (apart.before, apart.after) == ((5,), (6,))
    assert apart.objective(torch.device("cpu")).targets(some, torch.Generator(), 0.0).weights.tolist() == [[1, 0, 1, 1]]
