"""Contrastive training of a transformer: sequences, pooling, gradients in chunks, first weights, and the loop."""

import signal
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.small_encoders import (
    CPU,
    V,
    batch_of,
    model_of,
    ragged,
    run_out,
    settings_of,
    training_in,
    weights_hash,
)
from wordpipe.errors import DivergedError
from wordpipe.model import seed_of, start_as_mean
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training.contrastive import (
    ContrastLearner,
    Framing,
    info_nce_loss,
    joined,
    rows_at,
    text_vectors,
)

TEXTS = st.lists(st.lists(st.integers(7, 50), min_size=1, max_size=20), min_size=1, max_size=12)
SHORT = Framing(cls_id=2, sep_id=3, longest=12, device=torch.device("cpu"))


@given(TEXTS)
def test_every_sequence_is_its_text_between_the_marks_cut_at_the_end(rows):
    texts = ragged(*rows)
    packed = SHORT.packed(texts)
    sequences = [row.tolist() for run in packed.runs(packed.ids) for row in run]
    assert sequences == [[2, *rows[number][:10], 3] for number in packed.order]
    assert SHORT.n_cut(texts) == sum(max(0, len(row) - 10) for row in rows)
    assert SHORT.cut(texts).lengths.tolist() == [min(10, len(row)) for row in rows]


@given(TEXTS, st.integers(1, 60))
def test_chunks_share_out_all_rows_and_keep_to_their_size(rows, positions):
    chunks = SHORT.chunks(ragged(*rows), positions)
    assert sorted(np.concatenate(chunks).tolist()) == list(range(len(rows)))
    sizes = [[min(12, len(rows[number]) + 2) for number in chunk] for chunk in chunks]
    assert all(sum(size) <= positions + max(size) for size in sizes)
    assert [size for chunk in sizes for size in chunk] == sorted(size for chunk in sizes for size in chunk)


@given(TEXTS, st.randoms(use_true_random=False))
def test_rows_can_be_chosen_and_joined(rows, random):
    index = [random.randrange(len(rows)) for _ in range(5)]
    chosen = rows_at(ragged(*rows), np.array(index))
    assert np.split(chosen.ids, np.cumsum(chosen.lengths)[:-1])[2].tolist() == rows[index[2]]
    both = joined(chosen, ragged(*rows))
    assert both.ids.tolist() == [*chain(*(rows[number] for number in index), *rows)]


FOUR_TEXTS = [[9, 10, 11], [12], [13, 14, 15, 16, 9], [20, 21, 22]]


@pytest.mark.parametrize("weighted", [False, True])
def test_vectors_are_the_weighted_means_of_each_text_alone(weighted):
    model = model_of().eval()
    weights_V = torch.rand(64) if weighted else None
    got = text_vectors(model, Framing(2, 3, 16, torch.device("cpu")).packed(ragged(*FOUR_TEXTS)), weights_V)
    for row, vector in zip(FOUR_TEXTS, got, strict=True):
        ids = torch.tensor([[2, *row, 3]])
        hidden_TD = model.encode(ids)[0]
        share_T = torch.ones(len(row) + 2) if weights_V is None else weights_V[ids[0]]
        mean_D = (hidden_TD * share_T[:, None]).sum(0) / share_T.sum()
        torch.testing.assert_close(vector, mean_D / mean_D.norm(), atol=1e-6, rtol=1e-5)


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


def centred(dim: int = 16) -> np.ndarray:
    """Vectors without the one direction that a LayerNorm takes away."""
    vectors = np.random.default_rng(0).normal(size=(V, dim)).astype(np.float32)
    return vectors - vectors.mean(axis=1, keepdims=True)


def test_before_the_first_step_texts_are_the_means_of_their_vectors():
    model, vectors_VD = model_of().eval(), centred()
    lengths_V = start_as_mean(model, vectors_VD, np.ones(V, np.bool_), seed=1)
    weights_V = torch.zeros(64)
    weights_V[7:V] = torch.from_numpy(lengths_V)[7:]
    rows = [[9, 10, 11], [12, 30, 31, 32], [13, 13]]
    with torch.no_grad():
        got = text_vectors(model, Framing(2, 3, 16, torch.device("cpu")).packed(ragged(*rows)), weights_V).numpy()
    for row, vector in zip(rows, got, strict=True):
        mean = vectors_VD[row].mean(axis=0)
        assert vector @ mean / np.linalg.norm(mean) > 0.9999


def test_it_learns_to_know_partners_again(tmp_path):
    training = run_out(training_in(tmp_path, steps=40, eval_every=40))
    losses = [step.loss for step in training.history if step.split == "train"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert training.metrics["valid_nearest"] > 0.3  # of 20, where chance is 0.05
    assert [step.step for step in training.history if step.split == "valid"] == [40]


def test_a_training_that_was_stopped_ends_with_the_same_bytes(tmp_path):
    straight = run_out(training_in(tmp_path / "straight"))
    run_out(training_in(tmp_path / "halves"), until=3)
    torch.manual_seed(99)
    again = training_in(tmp_path / "halves")
    assert again.resumed_from == 3
    run_out(again)
    assert weights_hash(again) == weights_hash(straight)
    want, got = straight.snapshot().tensors["optimiser"], again.snapshot().tensors["optimiser"]
    assert want.keys() == got.keys()
    assert all(torch.equal(want[name], got[name]) for name in want)
    assert [(s.step, s.split, s.loss) for s in again.history] == [(s.step, s.split, s.loss) for s in straight.history]
    assert again.bitwise


def test_other_conditions_are_remembered_by_every_run_after(tmp_path):
    run_out(training_in(tmp_path), until=1)
    for step in (1, 2):
        again = training_in(tmp_path, dtype="bfloat16")
        assert (again.resumed_from, again.bitwise) == (step, False)
        run_out(again, until=step + 1)


def test_a_stop_signal_saves_first(tmp_path):
    training, flag = training_in(tmp_path), StopFlag()
    flag.signum = signal.SIGTERM
    with pytest.raises(Stopped, match="SIGTERM") as stopped:
        list(training.steps(flag))
    assert "step-00000001" in (stopped.value.saved or "")
    assert training_in(tmp_path).resumed_from == 1


def test_weights_that_are_no_numbers_end_it_and_are_not_saved(tmp_path):
    training = run_out(training_in(tmp_path), until=2)
    training.learner.model.embedding.data.fill_(np.nan)
    with pytest.raises(DivergedError, match="no longer a finite number") as error:
        run_out(training)
    assert "step-00000002" in str(error.value.hint)
    assert training_in(tmp_path).resumed_from == 2


def test_what_the_model_has_no_room_for_is_counted(tmp_path):
    training = run_out(training_in(tmp_path, longest=5, steps=2, pair_deletion=0.0, pair_neighbour=1.0))
    assert training.cut > 0
    assert run_out(training_in(tmp_path / "all", steps=2)).cut == 0


def test_without_weights_and_held_out_text_it_trains_as_well(tmp_path):
    training = run_out(training_in(tmp_path, work={"weights": None}, steps=2, pooling="mean"))
    assert training.step == 2
