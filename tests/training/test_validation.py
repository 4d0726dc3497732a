"""Losses of held-out text, and the score of a finished model."""

import numpy as np
import pytest
import torch

from tests.support.models import small_config
from tests.support.small_trainings import SPECIAL, opened_of, settings_of, text
from wordpipe.model import new_model
from wordpipe.training import (
    Scorer,
    Targets,
    Total,
    Validation,
    loss_sum,
    make_execution,
    validation,
)
from wordpipe.training.recipes import fresh_config, recipe_named

KINDS = ["mlm", "clm"]


def parts_of(kind, n, n_positions, micro_batch=4, **values):
    """A model, and the validation of `n` held-out ids."""
    settings = settings_of(kind, **values)
    recipe, opened, execution = recipe_named(kind), opened_of(settings), make_execution(settings)
    model = new_model(fresh_config(settings, opened), 1)
    blocks = recipe.data(opened, settings).held_out(text(n), 16)
    objective = recipe.measured_by(settings, opened, execution.device)
    return model, Validation(blocks, objective, execution, n_positions=n_positions, micro_batch=micro_batch)


@pytest.mark.parametrize("n", [2, 15, 17, 100, 113])
def test_the_whole_stream_is_looked_at_and_each_id_once(n):
    ids = text(n)
    model, whole = parts_of("clm", n, None)
    total = whole.total(model, loss_sum)
    assert total.n_targets == int((ids[1:] != SPECIAL.bos).sum())  # every id but the first
    with torch.no_grad():  # twin: id by id, each from the beginning of its block
        log_p = [
            model(torch.from_numpy(ids[first : t + 1].astype(np.int64))[None])[0, -1].log_softmax(0)[int(ids[t + 1])]
            for t, first in _contexts(n)
        ]
    assert total.nats == pytest.approx(-float(sum(log_p)), rel=1e-5)
    assert total.loss == pytest.approx(total.nats / (n - 1))


def _contexts(n):
    """For each place but the last: where its block begins. The last block is full, too."""
    width = min(16, n - 1)
    return [(t, min(t // width * width, n - 1 - width)) for t in range(n - 1)]


def test_masks_of_the_whole_stream_are_never_counted_twice():
    n_left_out = 0
    for n in range(85, 112):  # blocks of 14 ids: the last one repeats 0 to 13 of them
        _, whole = parts_of("mlm", n, None)
        weights = torch.cat([targets.weights for targets in whole._targets()])
        drawn = next(parts_of("mlm", n, 10_000)[1]._targets())
        want = drawn.weights.clone()
        want[-1, drawn.positions[-1] - 1 < -n % 14] = 0
        assert torch.equal(weights, want)
        n_left_out += int((drawn.weights - want).sum())
    assert n_left_out > 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_stream_in_parts_loses_targets_in_the_last_one_only(kind, monkeypatch):
    monkeypatch.setattr(validation, "_AT_ONCE", 3)
    whole, spread = (list(parts_of(kind, 157, n_positions)[1]._targets()) for n_positions in (None, 10_000))
    assert len(whole) == 4
    same = [torch.equal(a.weights, b.weights) for a, b in zip(whole, spread, strict=True)]
    assert same == [True, True, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_the_figure_does_not_depend_on_the_micro_batch_or_the_runs_settings(kind):
    totals = []
    for values in (
        {"micro_batch": 1},
        {"micro_batch": 3},
        {"dropout": 0.4, "label_smoothing": 0.3, "seed": 9},
        {"mask_rate": 0.6, "mask_unit": "word", "mask_share": 1.0, "random_share": 0.0} if kind == "mlm" else {},
    ):
        model, looked_at = parts_of(kind, 300, 100, **values)
        totals.append(looked_at.total(model, loss_sum))
    assert len({total.n_targets for total in totals}) == 1
    for total in totals[1:]:
        assert total.nats == pytest.approx(totals[0].nats, rel=1e-5)


def test_validation_masks_are_berts():
    _, looked_at = parts_of("mlm", 20_000, None, mask_rate=0.6, mask_unit="span", mask_rate_end=0.3)
    (first, *_) = looked_at._targets()
    assert first.positions.shape == (1024, 2)  # 15 % of 14
    shown = first.inputs.gather(1, first.positions)[first.weights > 0]
    assert float((shown == SPECIAL.mask).float().mean()) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("kind", KINDS)
def test_long_streams_are_drawn_in_parts_that_stay_the_same(kind, monkeypatch):
    monkeypatch.setattr(validation, "_AT_ONCE", 4)
    model, looked_at = parts_of(kind, 300, 160, micro_batch=3)
    parts = list(looked_at._targets())
    assert [len(part.inputs) for part in parts] == [4, 4, 2]
    again = list(looked_at._targets())
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(parts, again, strict=True))
    if kind == "mlm":  # each part has masks of its own
        assert float((parts[0].positions != parts[1].positions).float().mean()) > 0.5
    want = sum(float(loss_sum(model.eval(), part).detach()) for part in parts)
    assert looked_at.total(model, loss_sum).nats == pytest.approx(want, rel=1e-5)
    assert looked_at.n_positions == 160


def test_the_model_is_left_as_it_was():
    model, looked_at = parts_of("mlm", 100, 50)
    for training in (True, False):
        model.train(training)
        looked_at.total(model, loss_sum)
        assert model.training is training


def test_figures_of_a_total():
    assert Total(10.0, 4).loss == 2.5
    assert Total(0.0, 0).loss == 0.0


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
