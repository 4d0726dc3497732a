"""The bag of words as a second task of masked language modelling: shares, loss, and a model that learns it."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from tests.support.models import small_config
from tests.support.small_trainings import run_to_end, settings_of, training
from wordpipe.errors import ConfigError
from wordpipe.model import new_model
from wordpipe.training import Masked, Rows, loss_sum
from wordpipe.training.recipes import MaskedBags, bag_shares

N, SPECIAL = 90, (0, 1, 2, 3, 4)


def masked():
    return Masked(
        rate=0.3,
        mask_share=0.8,
        random_share=0.1,
        mask_id=4,
        special_ids=SPECIAL,
        n_tokens=N,
        device=torch.device("cpu"),
    )


def rows(seed, B=12, T=14):
    ids = np.random.default_rng(seed).integers(3, 30, (B, T))
    ids[:, 0], ids[:, -1] = 2, 3
    return Rows(torch.from_numpy(ids))


def targets_of(seed, weight=0.5):
    return MaskedBags(masked(), weight).targets(rows(seed), torch.Generator().manual_seed(seed), 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_a_slow_twin(seed):
    ids = rows(seed).ids_BT.tolist()
    within = Counter(token for row in ids for token in set(row))
    shares = bag_shares(torch.tensor(ids), masked().is_special_V)
    for row, found in zip(ids, shares.tolist(), strict=True):
        weights = {t: math.log((len(ids) + 1) / (within[t] + 1)) + 1e-3 for t in set(row) if t not in SPECIAL}
        total = sum(weights.values())
        wanted = [weights.get(token, 0.0) / row.count(token) / total for token in row]
        assert found == pytest.approx(wanted, abs=1e-6)


def test_a_sequence_without_ordinary_tokens_has_no_bag():
    shares = bag_shares(torch.tensor([[2, 3, 3], [2, 9, 3]]), masked().is_special_V)
    assert shares.tolist() == [[0, 0, 0], [0, pytest.approx(1), 0]]


@pytest.mark.parametrize("seed", range(3))
def test_loss_is_that_of_hidden_tokens_and_of_bags(seed):
    model = new_model(small_config("encoder", vocab_size=N), seed=seed).eval().requires_grad_(requires_grad=False)
    targets = targets_of(seed, weight=0.7)
    plain = masked().targets(rows(seed), torch.Generator().manual_seed(seed), 0.0)
    assert torch.equal(plain.inputs, targets.inputs)
    of_bags = 0.0
    for text, shown in zip(rows(seed).ids_BT, targets.inputs, strict=True):
        counted = [at for at, token in enumerate(text.tolist()) if token not in SPECIAL]
        mean = model.encode(shown[None])[0, counted].mean(0)
        log_p = torch.log_softmax(model.logits_at(mean).float(), dim=0)
        share_T = targets.shares[(rows(seed).ids_BT == text).all(1)][0]
        of_bags += -float((share_T * log_p[text]).sum())
    wanted = float(loss_sum(model, plain)) + 0.7 * of_bags / len(targets) * float(targets.weights.sum())
    assert float(loss_sum(model, targets)) == pytest.approx(wanted, rel=1e-5)


def test_a_training_learns_which_tokens_a_text_has(tmp_path):
    def surprise(run):
        objective, model = MaskedBags(masked(), 1.0), run.learner.model.eval()
        batch = run.learner.blocks.rows(np.arange(24))
        targets = objective.targets(batch, torch.Generator().manual_seed(1), 0.0)
        plain = masked().targets(batch, torch.Generator().manual_seed(1), 0.0)
        with torch.no_grad():
            return float((loss_sum(model, targets) - loss_sum(model, plain)) / targets.weights.sum())

    found = {}
    for bag in (0.0, 1.0):
        run = training(settings_of("mlm", steps=60, bag=bag), tmp_path / str(bag))
        run_to_end(run)
        found[bag] = surprise(run)
    assert found[1.0] < found[0.0] - 0.3


def test_weights_of_masked_language_modelling_are_averaged(tmp_path):
    run = training(settings_of("mlm", steps=20, average=0.5), tmp_path)
    run_to_end(run)
    last = {name: weight.detach().clone() for name, weight in run.learner.model.named_parameters()}
    assert run.learner.take_mean() == 10
    assert any(not torch.equal(weight, last[name]) for name, weight in run.learner.model.named_parameters())


def test_a_third_task_is_refused():
    with pytest.raises(ConfigError, match=r"bag = 0\.5 is a second task"):
        settings_of("mlm", bag=0.5, pair="sop")
