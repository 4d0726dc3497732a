"""Gradients of a contrastive step: in chunks as at once, with a teacher."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.contrast.encoders import CPU, batch_of, model_of, settings_of
from wordpipe.model import seed_of
from wordpipe.training.contrastive import (
    ContrastLearner,
    Framing,
    info_nce_loss,
    joined,
    rows_at,
    text_vectors,
)

FRAMING = Framing(2, 3, 16, torch.device("cpu"))
SEED = 1


def learner_of(model, batch, *, at_once=1 << 15, false_negatives="keep", teacher=None, **values):
    named = {} if teacher is None else {"teacher": "an encoder"}
    settings = settings_of(temperature=0.1, clip=0.0, false_negatives=false_negatives, **named, **values)
    return ContrastLearner(
        model, lambda step: batch, FRAMING, None, settings, CPU, seed=SEED, positions_at_once=at_once, teacher=teacher
    )


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


@pytest.mark.parametrize("false_negatives", ["keep", "drop"])
def test_chunks_give_the_gradients_of_the_whole(false_negatives):
    batch, found = batch_of(9), []
    for at_once in (1 << 15, 40, 1):
        model = model_of().train()
        found.append(step(learner_of(model, batch, at_once=at_once, false_negatives=false_negatives)))
    for loss, gradient in found[1:]:
        assert abs(loss - found[0][0]) < 1e-5
        assert gradient.keys() == found[0][1].keys()
        for name, value in gradient.items():
            torch.testing.assert_close(value, found[0][1][name], atol=1e-5, rtol=1e-4)


def test_chunks_are_encoded_again_under_the_dropout_of_the_first_time():
    """Else the gradient would be that of other vectors than the loss has seen: against one graph over all chunks."""
    batch = batch_of(9)
    texts, model = joined(batch.first, batch.second), model_of(dropout=0.3).train()
    chunks = FRAMING.chunks(texts, 40)
    assert len(chunks) > 2
    encoded = []
    for number, rows in enumerate(chunks):
        torch.manual_seed(seed_of(SEED, "dropout", 0, number))
        encoded.append(text_vectors(model, FRAMING.packed(rows_at(texts, rows)), None))
    vectors_SD = torch.cat(encoded)[torch.from_numpy(np.argsort(np.concatenate(chunks)))]
    loss = info_nce_loss(*vectors_SD.chunk(2), temperature=0.1)
    loss.backward()
    want = {name: value.clone() for name, value in gradients(model).items()}
    found, got = step(learner_of(model_of(dropout=0.3).train(), batch, at_once=40))
    assert abs(found - float(loss.detach())) < 1e-6
    assert got.keys() == want.keys()
    for name, value in got.items():
        torch.testing.assert_close(value, want[name], atol=1e-6, rtol=1e-4)


def test_texts_of_one_document_are_no_negatives():
    batch = replace(batch_of(6), document=np.zeros(6, np.int64))
    loss, gradient = step(learner_of(model_of().train(), batch, false_negatives="drop"))
    assert loss == 0.0
    assert not any(value.any() for value in gradient.values())


def test_a_teacher_is_asked_for_the_texts_and_adds_its_loss():
    asked: list[list[int]] = []

    def vectors(rows):
        asked.extend(rows)
        return np.eye(len(rows), 20, dtype=np.float32)

    batch, knobs = batch_of(6), {"teacher_weight": 2.0, "teacher_temperature": 0.1}
    alone, _ = step(learner_of(model_of().train(), batch))
    taught, gradient = step(learner_of(model_of().train(), batch, teacher=vectors, **knobs))
    assert taught > alone
    assert gradient["embedding"].any()
    first = batch.first.ids[: batch.first.lengths[0]]
    assert asked[0] == first.tolist()
    assert len(asked) == 12
