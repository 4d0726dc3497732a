"""The loop: it learns, resumes to the same bytes, stops when asked, refuses what is not finite."""

import signal

import numpy as np
import pytest
import torch

from tests.training.contrast.encoders import run_out, training_in, weights_hash
from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag, Stopped


def test_it_learns_to_know_partners_again(tmp_path):
    training = run_out(training_in(tmp_path, steps=40, eval_every=40))
    losses = [step.loss for step in training.history if step.split == "train"]
    assert losses[-1] < losses[0] - 0.3
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
    with pytest.raises(DivergedError, match="no longer a number") as error:
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
