"""ELECTRA's task: what is replaced, what the loss is, where it begins, what it moves, and that it is learned."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support.models import small_config
from tests.training.test_text_pairs import N, masked, stream
from wordpipe.model import new_model
from wordpipe.training import loss_sum, masked_blocks
from wordpipe.training.recipes import Replaced, generator_config, guesses, replaced, start_electra

FINDER = {"head": False, "output_bias": False, "replaced_head": True}


def model_of(seed=1, **changes):
    return start_electra(new_model(small_config("encoder", "classic", **FINDER | changes), seed), 0.5, seed)


def test_generator_and_discriminator_read_by_the_same_embeddings():
    config = small_config("encoder", "classic", **FINDER)
    whole = start_electra(new_model(config, 3), 0.25, 3)
    assert whole.generator.embedding is whole.discriminator.embedding
    assert (generator_config(config, 0.25).dim, generator_config(config, 0.25).embedding_dim) == (8, 32)
    names = [name for name, _ in whole.named_parameters()]
    assert sum(name.endswith("position_embedding") for name in names) == 1
    alone = new_model(config, 3)
    for name, weight in alone.named_parameters():
        torch.testing.assert_close(dict(whole.discriminator.named_parameters())[name], weight, atol=0, rtol=0)


def given(seed=3, batch=8):
    blocks = masked_blocks(stream(2000, seed), seq_len=20, cls_id=2, sep_id=3)
    rows = blocks.rows(np.arange(batch))
    return rows, Replaced(masked(0.3)).targets(rows, torch.Generator().manual_seed(seed), 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_text_with_guesses_is_the_text_elsewhere(seed):
    rows, targets = given(seed)
    guessed = torch.randint(7, N, targets.labels.shape, generator=torch.Generator().manual_seed(seed))
    guessed[:, 0] = targets.labels[:, 0]  # right by chance: no replacement
    shown, is_replaced = replaced(targets, guessed)
    assert torch.equal(is_replaced, shown != rows.ids_BT)
    for row in range(len(shown)):
        at = {int(place): column for column, place in enumerate(targets.positions[row])}
        for place in range(shown.shape[1]):
            column = at.get(place)
            is_guess = column is not None and targets.weights[row, column] > 0
            assert shown[row, place] == (guessed[row, column] if is_guess else rows.ids_BT[row, place])


def test_guesses_are_drawn_from_the_generators_probabilities():
    model = model_of().eval()
    with torch.no_grad():
        hidden = torch.randn(1, model.generator.config.dim, generator=torch.Generator().manual_seed(0))
        p = torch.softmax(model.generator.logits_at(hidden), 1)[0]
        draws = torch.rand(1, 40_000, generator=torch.Generator().manual_seed(1))
        drawn = guesses(model.generator, hidden.expand(40_000, -1), draws)[0]
    counts = torch.bincount(drawn, minlength=len(p)).float() / 40_000
    assert (counts - p).abs().max() < 0.006
    assert int(drawn.max()) < len(p)


def test_the_loss_is_that_of_the_paper_begins_at_guessing_and_moves_every_weight():
    model, (_, targets) = model_of(), given()
    total = loss_sum(model, targets)
    hidden = model.generator.encode(targets.inputs, at_BK=targets.positions).flatten(0, 1)
    logits = model.generator.logits_at(hidden)
    tokens = F.cross_entropy(logits, targets.labels.flatten(), reduction="none") @ targets.weights.flatten()
    shown, is_replaced = replaced(targets, guesses(model.generator, hidden, targets.draws))
    said = model.discriminator.replaced_logits(model.discriminator.encode(shown))
    n = float(targets.weights.sum())
    want = tokens / n + 50 * F.binary_cross_entropy_with_logits(said, is_replaced.float())
    torch.testing.assert_close(total / n, want, atol=1e-4, rtol=1e-4)
    assert float(want.detach()) == pytest.approx(math.log(N) + 50 * math.log(2), rel=0.05)
    total.backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_the_discriminators_gradient_stops_at_the_draw():
    """Of the generator only what both share learns from the discriminator."""
    model, (_, targets) = model_of(), given()
    hidden = model.generator.encode(targets.inputs, at_BK=targets.positions).flatten(0, 1)
    shown, is_replaced = replaced(targets, guesses(model.generator, hidden, targets.draws))
    said = model.discriminator.replaced_logits(model.discriminator.encode(shown))
    F.binary_cross_entropy_with_logits(said, is_replaced.float()).backward()
    own = {
        name: weight.grad for name, weight in model.generator.named_parameters() if name.startswith(("blocks", "head"))
    }
    assert all(gradient is None for gradient in own.values())


def test_what_is_measured_is_what_it_says():
    model = model_of().eval()
    blocks = masked_blocks(stream(2000, 5), seq_len=20, cls_id=2, sep_id=3)
    with torch.no_grad():
        model.discriminator.replaced_head.score.weight.zero_()
        model.discriminator.replaced_head.score.bias.fill_(-1.0)  # nothing is replaced
    found = Replaced(masked(0.15)).measure(model, blocks)
    assert found["replaced_found"] == 0.0
    assert found["replaced_accuracy"] == pytest.approx(0.87, abs=0.05)
    assert found["generator_loss"] == pytest.approx(math.log(N), rel=0.1)
