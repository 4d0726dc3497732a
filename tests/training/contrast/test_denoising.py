"""Denoising: deletion, the one vector as the only way, gradients in pieces."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.contrast.encoders import CPU, batch_of, model_of, ragged
from wordpipe.training.contrast.denoising import Autoencoder, DenoisingLearner, deleted
from wordpipe.training.contrast.sequences import Framing

FRAMING = Framing(2, 3, 16, torch.device("cpu"))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.floats(0.1, 0.95), st.integers(0, 9))
def test_deletion_keeps_the_order_and_at_least_one_token(lengths, rate, seed):
    rows = [list(range(7 + 20 * number, 7 + 20 * number + length)) for number, length in enumerate(lengths)]
    left = deleted(ragged(*rows), rate, seed)
    parts = np.split(left.ids, np.cumsum(left.lengths)[:-1])
    assert (left.lengths >= 1).all()
    for row, part in zip(rows, parts, strict=True):
        assert set(part.tolist()) <= set(row)
        assert sorted(part.tolist()) == part.tolist()
    assert deleted(ragged(*rows), rate, seed).ids.tolist() == left.ids.tolist()


def test_deletion_takes_its_share():
    left = deleted(ragged(*[list(range(7, 57))] * 200), 0.6, 1)
    assert 0.38 < len(left.ids) / 10_000 < 0.42


def loss_of(module: Autoencoder, seen: list[list[int]], whole: list[list[int]]) -> tuple[float, int]:
    loss, count = module.loss_sum(FRAMING.packed(ragged(*seen)), FRAMING.packed(ragged(*whole)), None)
    return float(loss.detach()), count


def test_the_loss_is_that_of_each_text_alone_and_counts_every_token_and_the_end():
    module = Autoencoder(model_of().eval(), seed=1).eval()
    seen, whole = [[9], [20, 22], [30]], [[9, 10, 11], [20, 21, 22, 23], [30, 31, 32]]
    together, count = loss_of(module, seen, whole)
    alone = [loss_of(module, [some], [all_]) for some, all_ in zip(seen, whole, strict=True)]
    assert count == 13 == sum(number for _, number in alone)
    assert abs(together - sum(loss for loss, _ in alone)) < 1e-3


def test_the_decoder_knows_of_a_text_only_its_vector_and_what_came_before():
    module = Autoencoder(model_of().eval(), seed=1).eval()
    module.from_vector.weight.data.zero_()  # the vector says nothing
    assert loss_of(module, [[9]], [[9, 10]]) == loss_of(module, [[40]], [[9, 10]])
    ends = [loss_of(module, [[9]], [[9, 10, last]])[0] - loss_of(module, [[9]], [[9, 10, other]])[0]
            for last, other in [(11, 12)]]  # fmt: skip
    assert ends != [0.0]


def test_the_decoder_shares_the_embeddings_and_pieces_give_the_gradients_of_the_whole():
    found = []
    for at_once in (1 << 15, 30):
        module = Autoencoder(model_of().train(), seed=1)
        learner = DenoisingLearner(
            module, lambda step: batch_of(9), FRAMING, None, CPU, rate=0.6, seed=1, at_once=at_once
        )
        result = learner.gradients(0)
        found.append(
            (float(result.loss), {name: w.grad for name, w in module.named_parameters() if w.grad is not None})
        )
    assert module.decoder.embedding is module.encoder.embedding
    assert abs(found[0][0] - found[1][0]) < 1e-5
    assert found[0][1].keys() == found[1][1].keys()
    for name, value in found[1][1].items():
        torch.testing.assert_close(value, found[0][1][name], atol=1e-5, rtol=1e-4)
    assert found[0][1]["from_vector.weight"].any()
