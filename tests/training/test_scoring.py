"""Scores of a finished model: the twin is numpy over all logits at once."""

import numpy as np
import pytest
import torch

from tests.support.models import small_config
from wordpipe.model import new_model
from wordpipe.training import Scorer, Targets, loss_sum, validation


def batch(architecture, seed):
    """Sequences with targets at all positions or at some, a third of them not counted."""
    generator = torch.Generator().manual_seed(seed)
    inputs_BT = torch.randint(0, 96, (5, 12), generator=generator)
    K = 12 if architecture == "decoder" else 4
    positions_BK = torch.stack([torch.randperm(12, generator=generator)[:K] for _ in range(5)])
    labels_BK = torch.randint(0, 96, (5, K), generator=generator)
    weights_BK = (torch.rand((5, K), generator=generator) < 0.67).float()
    return Targets(inputs_BT, None if K == 12 else positions_BK, labels_BK, weights_BK)


def by_numpy(model, targets):
    """-Σ log p and the number of first guesses, in float64."""
    with torch.no_grad():
        logits_BTV = model(targets.inputs).double().numpy()
    nats, first = 0.0, 0
    for b, row in enumerate(targets.labels.tolist()):
        for k, label in enumerate(row):
            t = k if targets.positions is None else int(targets.positions[b, k])
            if targets.weights[b, k]:
                logits_V = logits_BTV[b, t]
                nats += np.log(np.exp(logits_V).sum()) - logits_V[label]
                first += int(logits_V.argmax() == label)
    return nats, first


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_scores_are_those_of_all_logits(architecture, rows, monkeypatch):
    monkeypatch.setitem(validation._LOGITS_AT_ONCE, "cpu", rows * 96)
    model = new_model(small_config(architecture), 3).eval()
    with torch.no_grad():
        for weight in model.parameters():  # a fresh model guesses hardly anything
            weight.mul_(3.0)
    targets = batch(architecture, rows)
    guessed = model(targets.inputs).argmax(dim=2)
    if targets.positions is not None:
        guessed = guessed.gather(1, targets.positions)
    targets.labels[:, ::2] = guessed[:, ::2]
    told = []
    scorer = Scorer(told.append)
    nats, first = by_numpy(model, targets)
    assert float(scorer(model, targets)) == pytest.approx(nats, rel=1e-5)
    assert scorer.n_first == first > 0
    assert float(scorer(model, targets)) == pytest.approx(float(loss_sum(model, targets).detach()), rel=1e-5)
    assert (scorer.n_first, told) == (2 * first, [60, 120])


def test_a_tie_is_no_guess():
    model = new_model(small_config("decoder"), 3).eval()
    with torch.no_grad():
        model.embedding.zero_()
    scorer, targets = Scorer(), batch("decoder", 1)
    assert float(scorer(model, targets)) == pytest.approx(float(targets.weights.sum()) * np.log(96), rel=1e-6)
    assert scorer.n_first == 0
