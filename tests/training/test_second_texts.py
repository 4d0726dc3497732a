"""The second texts of pairs by a decoder: losses and gradients of a plain twin in which no source has a label."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import each_kind, kind_config, shaken, small_config
from wordpipe.model import new_model
from wordpipe.training import (
    Continuations,
    PairWriter,
    loss_sum,
    open_pairs,
    seq2seq_pairs,
)

CPU = torch.device("cpu")
PAIRS = [
    ([5, 10, 11, 6], [20, 6]),
    ([5, 6], [21, 22, 23, 6]),
    ([5, 12, 6], [6]),
    ([5, 13, 14, 6], [24, 25, 6]),
    ([5, 15, 6], [26, 6]),
]


def flat(lists):
    return np.concatenate([np.array(one) for one in lists]), np.array([len(one) for one in lists])


def targets_of(pairs):
    return Continuations(flat([one for one, _ in pairs]), flat([other for _, other in pairs]), CPU)


def by_hand(model, pairs, label_smoothing=0.0, source_label=lambda: -100):
    """Pair by pair, all logits: cross-entropy with what follows, in the source only where a label is made up for it."""
    loss = torch.zeros(())
    for source, target in pairs:
        whole = torch.tensor([source + target])
        labels = whole[0, 1:].clone()
        for place in range(len(source) - 1):
            labels[place] = source_label()
        logits = model(whole[:, :-1])[0]
        loss = loss + F.cross_entropy(logits, labels, reduction="sum", label_smoothing=label_smoothing)
    return loss


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def random_pairs(n, seed, longest=8):
    random = np.random.default_rng(seed)
    return [
        ([5, *random.integers(7, 96, random.integers(0, longest)).tolist(), 6],
         [*random.integers(7, 96, random.integers(0, longest)).tolist(), 6])
        for _ in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("name", each_kind("decoder"))
def test_the_loss_is_that_of_the_targets_alone(name, multiple, monkeypatch):
    monkeypatch.setitem(seq2seq_pairs._MULTIPLES, "cpu", multiple)
    model, pairs = shaken(new_model(kind_config(name), 0)), random_pairs(13, seed=4)
    pairs.append(([5, *range(20, 31), 6], [*range(50, 61), 6]))  # all 24 positions
    with torch.no_grad():
        got, want = loss_sum(model, targets_of(pairs)), by_hand(model, pairs)
    assert float(got) == pytest.approx(float(want), rel=2e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_are_those_of_the_targets_alone(smoothing):
    model = shaken(new_model(small_config("decoder"), 0))
    got = gradients(model, loss_sum(model, targets_of(PAIRS), smoothing))
    want = gradients(model, by_hand(model, PAIRS, smoothing))
    other = gradients(model, by_hand(model, PAIRS, smoothing, lambda: 50))
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, want[name], rtol=1e-3, atol=1e-5)
    assert any((gradient - other[name]).abs().max() > 0.1 for name, gradient in got.items()), (
        "the twin tells labels apart"
    )


def test_what_is_read_and_what_is_predicted_where():
    inputs, at, labels = targets_of(PAIRS[:2]).packed()
    rows = [row.tolist() for run in inputs.runs(inputs.ids) for row in run]
    assert rows == [[5, 10, 11, 6, 20], [5, 6, 21, 22, 23]]
    assert labels.tolist() == [20, 6, 21, 22, 23, 6]
    assert inputs.ids[at].tolist() == [6, 20, 6, 21, 22, 23]  # the end of a source is where its target begins
    targets = targets_of(PAIRS)
    assert (len(targets), targets.n_positions, float(targets.n_targets)) == (5, 23, 12.0)
    parts = [targets.rows(first, first + 2) for first in (0, 2, 4)]
    assert [len(part) for part in parts] == [2, 2, 1]
    model = new_model(small_config("decoder"), 0)
    whole = sum(float(loss_sum(model, part).detach()) for part in parts)
    assert whole == pytest.approx(float(loss_sum(model, targets).detach()), rel=1e-5)


def written(folder, pairs, max_len=24):
    writer = PairWriter(
        folder / "train", vocab_size=96, before=(5,), after=(6,), end=(6,), max_len=max_len, together=True
    )
    for source, target in pairs:
        writer.add(np.array(source), np.array(target))
    writer.close()
    return open_pairs(folder / "train", 96), writer


def test_a_pair_is_left_out_where_both_together_are_too_long(tmp_path):
    just, over = ([10] * 3, [20] * 3), ([10] * 3, [20] * 4)  # 5 + 4 ids, of which 8 are read; one more
    blocks, writer = written(tmp_path, [just, over], max_len=8)
    assert (len(blocks), writer.left_out) == (1, [1, 0])
