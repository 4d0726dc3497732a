"""XLNet's task: what is guessed in which order, what the loss is, where it begins, what it moves, and that it is learned."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import XLNET, small_config
from tests.training.test_text_pairs import N, stream
from wordpipe.model import new_model
from wordpipe.training import SpecialIds, loss_sum, masked_blocks
from wordpipe.training.recipes import Opened, recipe_named

CPU = torch.device("cpu")
SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4, bos=5, eos=6)


OPENED = Opened(special=SPECIAL, n_tokens=N)
RECIPE = recipe_named("permutation")


def permuted(**settings):
    return RECIPE.objective(RECIPE.settings.make(settings), OPENED, CPU)


def measured(name="permutation"):
    recipe = recipe_named(name)
    return recipe.measured_by(recipe.settings(), OPENED, CPU)


def model_of(seed=1, **changes):
    return new_model(small_config("encoder", "classic", **XLNET | changes), seed)


def given(seed=3, batch=8, seq_len=20, **settings):
    rows = masked_blocks(stream(2000, seed), seq_len=seq_len, cls_id=2, sep_id=3).rows(np.arange(batch))
    rows.ids_BT[:, seq_len // 2] = 3  # two documents in each sequence
    return rows, permuted(**settings).targets(rows, torch.Generator().manual_seed(seed), 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_sixth_is_guessed_in_spans_and_all_else_is_told_at_once(seed):
    rows, targets = given(seed, batch=64, seq_len=122)
    assert torch.equal(targets.inputs, rows.ids_BT)  # nothing is replaced
    assert targets.positions.shape == (64, 20)
    assert torch.equal(targets.labels, rows.ids_BT.gather(1, targets.positions))
    assert bool((targets.labels > 6).all())  # no special token
    assert bool((targets.weights == 1).all())
    is_guessed = torch.zeros(64, 122, dtype=torch.bool).scatter(1, targets.positions, value=True)
    assert torch.equal(is_guessed, targets.order >= 0)
    assert int(is_guessed.sum()) == 64 * 20
    assert bool((targets.order[is_guessed] < 1).all())
    assert all(len({*row[row >= 0].tolist()}) == 20 for row in targets.order)
    runs = torch.diff(F.pad(is_guessed.int(), (1, 1)), dim=1)
    lengths = (torch.nonzero(runs == -1)[:, 1] - torch.nonzero(runs == 1)[:, 1]).float()
    assert 2.5 < float(lengths.mean()) < 4.5  # spans of 3 in the mean, of which some stand side by side
    assert {1.0, 2.0, 3.0, 4.0, 5.0} <= {*lengths.tolist()}


def test_spans_of_one_are_single_tokens_and_the_order_is_uniform():
    _, targets = given(1, batch=64, seq_len=122, max_span=1)
    ranks = targets.order.gather(1, targets.positions).argsort(1).argsort(1).float()
    by_place = ranks.gather(1, targets.positions.argsort(1))  # from left to right
    assert float((by_place.mean(0) - 9.5).abs().max()) < 3.0  # deviation 5.8 / 8
    is_guessed = targets.order >= 0
    assert float((is_guessed[:, 1:] & is_guessed[:, :-1]).float().mean()) == pytest.approx((20 / 120) ** 2, abs=0.01)


def test_documents_are_segments_and_what_ends_one_belongs_to_it():
    rows, targets = given()
    assert targets.segments[0].tolist() == [0] * 11 + [1] * 9
    assert rows.ids_BT[0, 10] == 3
    held_out = measured().targets(rows, torch.Generator().manual_seed(0), 1.0)
    assert torch.equal(held_out.segments, targets.segments)
    of_others = measured("mlm")
    assert of_others.targets(rows, torch.Generator().manual_seed(0), 1.0).segments is None


def test_a_sequence_of_few_ordinary_tokens_guesses_these():
    rows, _ = given()
    rows.ids_BT[:, 2:-2] = 3
    targets = permuted(mask_rate=0.9).targets(rows, torch.Generator().manual_seed(0), 0.0)
    assert targets.weights.sum(1).tolist() == [2.0] * 8
    assert bool(((targets.order >= 0) == (rows.ids_BT > 6)).all())
    assert torch.isfinite(loss_sum(model_of(), targets)).all()


def test_the_loss_is_that_of_the_paper_begins_at_guessing_and_moves_every_weight():
    """Token by token: of each the sequence is shown anew, with those before it in the order, and nothing else."""
    model, (_, targets) = model_of().eval(), given(batch=3)
    total = loss_sum(model, targets)
    assert float(total.detach()) / float(targets.n_targets) == pytest.approx(math.log(N), rel=0.05)
    nats = 0.0
    with torch.no_grad():
        for row in range(3):
            for place in targets.positions[row].tolist():
                now = targets.order[row, place]
                order = torch.where(targets.order[row] >= now, now, targets.order[row])
                ids = torch.where(targets.order[row] >= now, 4, targets.inputs[row])  # what is not told is not there
                hidden = model.encode_to_guess(
                    ids[None], torch.tensor([[place]]), order[None], targets.segments[row, None]
                )
                nats -= float(model.logits_at(hidden)[0, 0].log_softmax(0)[targets.inputs[row, place]])
    assert float(total.detach()) == pytest.approx(nats, rel=1e-5)
    total.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert float(weight.grad.abs().sum()) > 0, name


def test_rows_are_their_part_and_smoothing_reaches_the_loss():
    model, (_, targets) = model_of(), given()
    parts = loss_sum(model, targets.rows(0, 3)) + loss_sum(model, targets.rows(3, 8))
    torch.testing.assert_close(parts, loss_sum(model, targets), atol=1e-3, rtol=1e-5)
    assert not torch.allclose(loss_sum(model, targets, 0.2), loss_sum(model, targets))


def test_held_out_loss_hides_all_that_it_asks_for():
    """What stands at the places of a masked model's targets is not looked at, be it [MASK] or a random token."""
    model, (rows, _) = model_of().eval(), given()
    targets = measured().targets(rows, torch.Generator().manual_seed(0), 1.0)
    assert not torch.equal(targets.inputs, rows.ids_BT)
    found = [
        model.encode_to_guess(ids, targets.positions, segments_BT=targets.segments)
        for ids in (targets.inputs, rows.ids_BT)
    ]
    assert torch.equal(*found)
