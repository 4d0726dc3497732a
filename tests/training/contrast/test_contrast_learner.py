"""Gradients of a contrastive step: in pieces as at once, with a teacher."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.contrast.encoders import CPU, batch_of, model_of
from wordpipe.model import seed_of
from wordpipe.training.contrastive import (
    Contrasting,
    ContrastLearner,
    Framing,
    Teacher,
    info_nce_loss,
    joined,
    rows_at,
    text_vectors,
)

FRAMING = Framing(2, 3, 16, torch.device("cpu"))
NUMBERS = Contrasting(temperature=0.1, drop_false=False, max_similarity=1.0, seed=1, at_once=1 << 15)


def learner_of(model, batch, numbers=NUMBERS, **others):
    return ContrastLearner(model, lambda step: batch, FRAMING, None, numbers, CPU, **others)


def gradients(model) -> dict[str, torch.Tensor]:
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def step(learner) -> tuple[float, dict[str, torch.Tensor]]:
    loss = float(learner.gradients(0).loss)
    return loss, gradients(learner.model)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_loss_is_info_nce_of_both_texts_and_dropout_tells_equal_ones_apart(dropout):
    model, batch = model_of(dropout=dropout).train(), batch_of(same=True)
    loss, _ = step(learner_of(model, batch))
    model.eval()
    first, second = (text_vectors(model, FRAMING.packed(side), None) for side in (batch.first, batch.second))
    plain = float(info_nce_loss(first, second, temperature=0.1).detach())
    assert (abs(loss - plain) < 1e-5) == (dropout == 0.0)


@pytest.mark.parametrize("drop_false", [False, True])
def test_pieces_give_the_gradients_of_the_whole(drop_false):
    batch, found = batch_of(9), []
    for at_once in (1 << 15, 40, 1):
        model = model_of().train()
        found.append(step(learner_of(model, batch, replace(NUMBERS, at_once=at_once, drop_false=drop_false))))
    for loss, gradient in found[1:]:
        assert abs(loss - found[0][0]) < 1e-5
        assert gradient.keys() == found[0][1].keys()
        for name, value in gradient.items():
            torch.testing.assert_close(value, found[0][1][name], atol=1e-5, rtol=1e-4)


def test_pieces_are_encoded_again_under_the_dropout_of_the_first_time():
    """Else the gradient would be that of other vectors than the loss has seen: against one graph over all pieces."""
    batch = batch_of(9)
    texts, model = joined(batch.first, batch.second), model_of(dropout=0.3).train()
    pieces = FRAMING.pieces(texts, 40)
    assert len(pieces) > 2
    encoded = []
    for number, rows in enumerate(pieces):
        torch.manual_seed(seed_of(NUMBERS.seed, "dropout", 0, number))
        encoded.append(text_vectors(model, FRAMING.packed(rows_at(texts, rows)), None))
    vectors_SD = torch.cat(encoded)[torch.from_numpy(np.argsort(np.concatenate(pieces)))]
    loss = info_nce_loss(*vectors_SD.chunk(2), temperature=NUMBERS.temperature)
    loss.backward()
    want = {name: value.clone() for name, value in gradients(model).items()}
    found, got = step(learner_of(model_of(dropout=0.3).train(), batch, replace(NUMBERS, at_once=40)))
    assert abs(found - float(loss.detach())) < 1e-6
    assert got.keys() == want.keys()
    for name, value in got.items():
        torch.testing.assert_close(value, want[name], atol=1e-6, rtol=1e-4)


def test_texts_of_one_document_are_no_negatives():
    batch = replace(batch_of(6), document=np.zeros(6, np.int64))
    loss, gradient = step(learner_of(model_of().train(), batch, replace(NUMBERS, drop_false=True)))
    assert loss == 0.0
    assert not any(value.any() for value in gradient.values())


def test_a_teacher_is_asked_for_the_texts_and_adds_its_loss():
    asked: list[list[int]] = []

    def vectors(rows):
        asked.extend(rows)
        return np.eye(len(rows), 20, dtype=np.float32)

    batch = batch_of(6)
    alone, _ = step(learner_of(model_of().train(), batch))
    taught, gradient = step(learner_of(model_of().train(), batch, teacher=Teacher(vectors, 2.0, 0.1)))
    assert taught > alone
    assert gradient["embedding"].any()
    first = batch.first.ids[: batch.first.lengths[0]]
    assert asked[0] == first.tolist()
    assert len(asked) == 12
