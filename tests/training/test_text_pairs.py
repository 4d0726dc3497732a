"""Two texts in a sequence: what is where, what is right, nothing leaks, and a small model learns it."""

import numpy as np
import pytest
import torch

from tests.support.models import small_config
from wordpipe.model import new_model
from wordpipe.training import Masked, loss_sum, pair_blocks
from wordpipe.training.recipes import MaskedPairs, pair_accuracy

CLS, SEP, MASK, N = 2, 3, 4, 96


def masked(rate=0.15):
    return Masked(
        rate=rate, mask_share=0.8, random_share=0.1, mask_id=MASK, special_ids=(0, 1, 2, 3, 4, 5, 6), n_tokens=N,
        device=torch.device("cpu"),
    )  # fmt: skip


def stream(n, seed):
    """Ids that go up by one: what follows what can be known from the first and the last of two texts."""
    first = int(np.random.default_rng(seed).integers(0, 80))
    return (7 + (first + np.arange(n)) % (N - 7)).astype("<u2")


def made(kind, seed, seq_len=20, batch=16):
    blocks = pair_blocks(stream(4000, seed), seq_len=seq_len, cls_id=CLS, sep_id=SEP)
    numbers = np.random.default_rng(seed).permutation(len(blocks))[:batch]
    rows = blocks.rows(numbers)
    objective = MaskedPairs(masked(), kind)
    return rows, *objective.pairs(rows, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["nsp", "sop"])
@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_what_a_slow_twin_makes(kind, seed):
    rows, pairs, segments_BT, labels_B = made(kind, seed)
    assert 0 < labels_B.sum() < len(labels_B)
    for row, (ids, kinds, label) in enumerate(
        zip(pairs.ids_BT.tolist(), segments_BT.tolist(), labels_B.tolist(), strict=True)
    ):
        text = rows.ids_BT[row, 1:-2].tolist()
        assert (ids[0], ids[-1], ids.count(SEP)) == (CLS, SEP, 2)
        cut = ids.index(SEP)
        first, second = ids[1:cut], ids[cut + 1 : -1]
        assert kinds == [0] * (cut + 1) + [1] * (len(ids) - cut - 1)
        assert len(text) // 4 <= min(len(first), len(second)) + 1
        if not label:
            assert first + second == text
        elif kind == "sop":
            assert second + first == text
        else:
            assert first == text[: len(first)]
            others = [other[len(first) :] for n, other in enumerate(rows.ids_BT[:, 1:-2].tolist()) if n != row]
            assert second in others


def test_targets_are_hidden_tokens_of_either_text_and_never_special():
    rows, *_ = made("nsp", 3)
    objective = MaskedPairs(masked(0.4), "nsp")
    targets = objective.targets(rows, torch.Generator().manual_seed(5), 0.0)
    assert not {CLS, SEP, MASK} & {*targets.labels[targets.weights > 0].tolist()}
    again = objective.targets(rows, torch.Generator().manual_seed(5), 0.0)
    for name in ("inputs", "labels", "segments", "pair_labels"):
        assert torch.equal(getattr(targets, name), getattr(again, name))
    some = targets.rows(2, 5)
    assert torch.equal(some.pair_labels, targets.pair_labels[2:5])


def test_word_starts_go_with_their_tokens():
    ids = stream(4000, 1)
    starts = np.random.default_rng(0).random(4000) < 0.6
    blocks = pair_blocks(ids, seq_len=20, cls_id=CLS, sep_id=SEP, word_starts=starts)
    rows = blocks.rows(np.arange(8))
    pairs, _, labels_B = MaskedPairs(masked(), "sop").pairs(rows, torch.Generator().manual_seed(2))
    assert pairs.word_starts_BT[:, 0].all()
    assert pairs.word_starts_BT[pairs.ids_BT == SEP].all()
    for row in torch.nonzero(labels_B == 0).flatten().tolist():
        cut = pairs.ids_BT[row].tolist().index(SEP)
        own = torch.cat([pairs.word_starts_BT[row, 2:cut], pairs.word_starts_BT[row, cut + 2 : -1]])
        want = torch.cat([rows.word_starts_BT[row, 2:cut], rows.word_starts_BT[row, cut + 1 : -2]])
        assert torch.equal(own, want)


@pytest.mark.parametrize("kind", ["nsp", "sop"])
def test_the_loss_is_the_sum_of_both_and_moves_every_weight(kind):
    model = new_model(small_config("encoder", "classic", pair_head=True), 1)
    rows, *_ = made(kind, 4)
    targets = MaskedPairs(masked(), kind).targets(rows, torch.Generator().manual_seed(4), 0.0)
    total = loss_sum(model, targets)
    hidden_BTD = model.encode(targets.inputs, segments_BT=targets.segments)
    at = targets.positions[..., None].expand(-1, -1, hidden_BTD.shape[-1])
    logits = model.logits_at(hidden_BTD.gather(1, at)).flatten(0, 1)
    tokens = (
        torch.nn.functional.cross_entropy(logits, targets.labels.flatten(), reduction="none")
        @ targets.weights.flatten()
    )
    pair = torch.nn.functional.cross_entropy(model.pair_logits(hidden_BTD[:, 0]), targets.pair_labels)
    n = float(targets.weights.sum())
    torch.testing.assert_close(total / n, tokens / n + pair, atol=1e-5, rtol=1e-5)
    assert float(total.detach()) / n == pytest.approx(np.log(N) + np.log(2), abs=0.3)  # both begin by guessing
    total.backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_accuracy_is_that_of_the_second_head():
    model = new_model(small_config("encoder", "classic", pair_head=True), 1).eval()
    blocks = pair_blocks(stream(4000, 1), seq_len=20, cls_id=CLS, sep_id=SEP)
    objective = MaskedPairs(masked(), "sop")
    with torch.no_grad():
        model.pair_classifier.weight.zero_()
        model.pair_classifier.bias.copy_(torch.tensor([1.0, 0.0]))
    always_first = pair_accuracy(model, objective, blocks)
    with torch.no_grad():
        model.pair_classifier.bias.copy_(torch.tensor([0.0, 1.0]))
    assert always_first + pair_accuracy(model, objective, blocks) == pytest.approx(1.0)
    assert 0.3 < always_first < 0.7
