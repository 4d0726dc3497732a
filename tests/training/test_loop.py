import copy
import math
import shutil
import signal
import time
import warnings

import numpy as np
import pytest
import torch

from tests.support.small_trainings import N_TOKENS, run_to_end, settings_of, training, weights_hash
from tests.support.variants import some_of
from wordpipe.artifacts import Checkpoints
from wordpipe.errors import ConfigError, DivergedError, InputError
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.training import load_snapshot, trainer

KINDS = ["mlm", "clm"]


@pytest.mark.landing
@pytest.mark.parametrize(("kind", "bound"), [("mlm", 2.6), ("clm", 1.2)])
def test_a_pattern_is_learned_and_held_out_text_agrees(kind, bound, tmp_path):
    run = training(settings_of(kind, steps=200, lr=1e-2, batch_size=16), tmp_path, n=20_000)
    run_to_end(run)
    valid = [step for step in run.history if step.split == "valid"]
    assert [step.step for step in valid] == [40, 80, 120, 160, 200]
    assert valid[-1].loss < valid[0].loss < math.log(N_TOKENS)
    assert valid[-1].loss < bound  # a gap of one or two, and where documents end, cannot be known: about 0.8


def test_reports_say_what_happened(tmp_path):
    settings = settings_of("clm", steps=10, report_every=4, eval_every=5, warmup=2)
    run = training(settings, tmp_path)
    steps = list(run.steps(StopFlag()))
    assert steps == run.history
    assert [(step.step, step.split) for step in steps] == [
        (4, "train"), (5, "valid"), (8, "train"), (10, "train"), (10, "valid"),
    ]  # fmt: skip
    assert [step.tokens for step in steps] == [step.step * 8 * 16 for step in steps]
    assert steps[-1].lr == pytest.approx(3e-4)
    assert all(step.tokens_per_s > 0 for step in steps)
    assert [step.seconds for step in steps] == sorted(step.seconds for step in steps)


@pytest.mark.parametrize(
    ("values", "entropy", "at"),
    [
        ({"lr": 1e-7}, 4.4, 6),  # half of the steps
        ({"lr": 1e-7, "patience": 9}, 4.4, 10),  # at the first report after that many
        ({"lr": 1e-7, "patience": 13}, 4.4, None),
        ({"lr": 1e-2}, 4.6, None),  # it learns
        ({"lr": 1e-7}, None, None),
        ({"lr": 1e-7, "label_smoothing": 0.2}, 4.4, 6),  # what is given is the entropy of smoothed labels
    ],
)
def test_no_progress_is_a_warning_once_also_over_two_runs(values, entropy, at, tmp_path):
    settings, notes = settings_of("clm", report_every=2, **values), []
    for until in (8, None):
        run = training(settings, tmp_path, unigram_entropy=entropy)
        list(run.steps(StopFlag(), until=until))
        notes += run.notes
    assert [text.split(" the loss is ")[0] for text in notes] == ([] if at is None else [f"after {at} steps"])
    assert all("a loss of 4.400. Use more --steps or a higher --lr" in text for text in notes)


@pytest.mark.parametrize("kind", KINDS)
def test_recomputing_the_blocks_changes_nothing(kind, tmp_path):
    runs = {}
    for recompute in (False, True):
        settings = settings_of(kind, dropout=0.3, micro_batch=4, recompute=recompute)
        runs[recompute] = training(settings, tmp_path / str(recompute))
        assert runs[recompute].learner.model.recompute is recompute
    assert run_to_end(runs[True]) == run_to_end(runs[False])
    assert [step.loss for step in runs[True].history] == [step.loss for step in runs[False].history]
    assert runs[True].history[0].loss > 0


@pytest.mark.landing
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_finished_run_is_extended(schedule, tmp_path):
    """With a rate that does not depend on the length it is the longer run, bit by bit; else it says what it is."""
    values = {"schedule": schedule, "warmup": 3, "dropout": 0.2, "report_every": 3, "eval_every": 6}
    want = run_to_end(training(settings_of("mlm", **values, steps=18), tmp_path / "long"))
    short = training(settings_of("mlm", **values), tmp_path / "short")
    run_to_end(short)
    begin = Checkpoints(tmp_path / "short", "a run").restore(load_snapshot)
    longer = training(settings_of("mlm", **values, steps=18), tmp_path / "state", run_key="longer", begin=begin)
    assert (longer.step, longer.extended_from, longer.resumed_from) == (12, 12, None)
    assert longer.history == short.history
    old, new = short.plan.lr_at(11), longer.plan.lr_at(12)
    rates = {
        "constant": "the earlier steps used the learning rates of the longer training, so the result equals one long "
        "training",
        "cosine": f"the learning rate changes from {old:.2e} to {new:.2e}, "
        "because the earlier steps had another schedule",
    }
    assert longer.notes[0] == f"the training continues after step 12 up to step 18; {rates[schedule]}"
    list(longer.steps(StopFlag(), until=15))
    again = training(settings_of("mlm", **values, steps=18), tmp_path / "state", run_key="longer", begin=begin)
    assert (again.step, again.extended_from, again.resumed_from) == (15, 12, 15)
    assert (run_to_end(again) == want) is (schedule == "constant")
    assert [step.step for step in again.history if step.split == "train"] == [3, 6, 9, 12, 15, 18]


def test_a_run_is_not_extended_to_fewer_steps(tmp_path):
    short = training(settings_of("mlm"), tmp_path / "short")
    run_to_end(short)
    with pytest.raises(ConfigError, match="already trained for this number of steps"):
        training(settings_of("mlm", steps=12), tmp_path / "other", begin=short.snapshot())


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_on_a_gpu_never_waits_for_it(kind, tmp_path):
    run = training(settings_of(kind, device="cuda", dtype="auto", compile="off", dropout=0.1), tmp_path)
    list(run.steps(StopFlag(), until=3))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this is a prototype of torch
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(3):
            run._advance()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(("kind", "dropout"), some_of(KINDS, [0.0, 0.3], together=1))
def test_a_run_stopped_anywhere_and_continued_ends_with_the_same_bytes(kind, dropout, tmp_path):
    settings = settings_of(kind, dropout=dropout, report_every=5, eval_every=4)
    whole = training(settings, tmp_path / "whole")
    want = run_to_end(whole)
    for stop in (1, 5, 7, 11):
        state_dir = tmp_path / str(stop)
        first = training(settings, state_dir)
        flag = StopFlag()
        with pytest.raises(Stopped) as stopped:
            for _ in _stopping(first, flag, stop):
                pass
        assert stopped.value.saved == str(state_dir / f"step-{first.step:08d}")
        torch.manual_seed(99)  # whatever else used the generator must not matter
        second = training(settings, state_dir)
        assert second.resumed_from == first.step
        assert run_to_end(second) == want
        assert [(s.step, s.split, s.loss, s.lr) for s in second.history] == [
            (s.step, s.split, s.loss, s.lr) for s in whole.history
        ]


def _stopping(run, flag, step):
    """Raise the flag after `step` steps, as a signal handler would."""
    advance = run._advance

    def counted():
        advance()
        if run.step == step:
            flag.signum = signal.SIGTERM

    run._advance = counted
    return run.steps(flag)


def test_a_finished_run_is_finished(tmp_path):
    settings = settings_of("mlm")
    want = run_to_end(training(settings, tmp_path))
    again = training(settings, tmp_path)
    assert again.resumed_from == 12
    assert list(again.steps(StopFlag())) == []
    assert weights_hash(again) == want
    assert again.history[-1].split == "valid"


def test_another_recipe_starts_over(tmp_path):
    settings = settings_of("mlm")
    want = run_to_end(training(settings, tmp_path, run_key="one"))
    other = training(settings, tmp_path, run_key="two")
    assert other.resumed_from is None
    assert "other settings or other data" in other.notes[0]
    assert run_to_end(other) == want


def test_a_damaged_checkpoint_costs_time_not_the_result(tmp_path):
    settings = settings_of("clm", checkpoint_steps=3)
    want = run_to_end(training(settings, tmp_path))
    newest = tmp_path / "step-00000012" / "optimiser.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    again = training(settings, tmp_path)
    assert again.resumed_from == 9
    assert "step-00000012 cannot be used: the file optimiser.safetensors" in again.notes[0]
    assert run_to_end(again) == want


@pytest.mark.parametrize("kind", KINDS)
def test_runs_differ_by_seed_and_agree_without(kind, tmp_path):
    hashes = [run_to_end(training(settings_of(kind, seed=s), tmp_path / str(i))) for i, s in enumerate((1, 1, 2))]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("kind", KINDS)
def test_the_micro_batch_changes_the_last_bits_at_most(kind, tmp_path):
    weights = []
    for micro_batch in (8, 4, 3, 1):
        run = training(settings_of(kind, steps=1, micro_batch=micro_batch, warmup=0), tmp_path / str(micro_batch))
        assert run.plan.micro_batch == micro_batch
        run_to_end(run)
        weights.append((run.history[0].loss, run.learner.model.embedding.detach().clone()))
    for loss, table in weights[1:]:
        assert loss == pytest.approx(weights[0][0], rel=1e-6)
        # AdamW's first step is lr · sign(gradient): where a gradient is 0 but for rounding, its sign is anyone's
        assert float((table - weights[0][1]).abs().gt(1e-5).float().mean()) < 0.01


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_last_good_checkpoint(tmp_path):
    run = training(settings_of("clm", checkpoint_steps=2), tmp_path)
    advance = run._advance

    def poisoned():
        if run.step == 5:
            with torch.no_grad():
                run.learner.model.final_norm.weight[3] = math.nan
        advance()

    run._advance = poisoned
    with pytest.raises(DivergedError) as caught:
        run_to_end(run)
    assert caught.value.where == "step 6"
    assert str(tmp_path / "step-00000004") in caught.value.hint
    assert "--lr 0.001" in caught.value.hint
    again = training(settings_of("clm", checkpoint_steps=2), tmp_path)
    assert again.resumed_from == 4
    assert bool(torch.isfinite(again.learner.model.final_norm.weight).all())


def test_a_run_that_diverges_before_any_checkpoint_says_so(tmp_path):
    run = training(settings_of("mlm"), tmp_path)
    with torch.no_grad():
        run.learner.model.embedding.fill_(math.inf)
    with pytest.raises(DivergedError, match="no longer a finite number") as caught:
        run_to_end(run)
    assert "there is no checkpoint yet" in caught.value.hint


def test_other_threads_are_given_up_for_the_same_bytes(tmp_path):
    settings = settings_of("mlm", threads=1)
    want = run_to_end(training(settings, tmp_path / "one"))
    flag = StopFlag()
    with pytest.raises(Stopped):
        list(_stopping(training(settings, tmp_path / "two"), flag, 3))
    again = training(settings.model_copy(update={"threads": 2}), tmp_path / "two")
    assert again.threads == 1
    assert again.bitwise
    assert run_to_end(again) == want


def test_other_conditions_are_reported(tmp_path):
    flag = StopFlag()
    settings = settings_of("mlm")
    with pytest.raises(Stopped):
        list(_stopping(training(settings, tmp_path), flag, 3))
    again = training(settings.model_copy(update={"dtype": "bfloat16"}), tmp_path)
    assert not again.bitwise
    assert "dtype float32 → bfloat16" in again.notes[0]
    flag = StopFlag()
    with pytest.raises(Stopped):
        list(_stopping(again, flag, 4))
    once_more = training(settings.model_copy(update={"dtype": "bfloat16"}), tmp_path)
    assert once_more.resumed_from == 4
    assert not once_more.bitwise  # its first steps are what they were


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_learns_too_and_keeps_float32_weights(kind, tmp_path):
    losses = []
    for dtype in ("float32", "bfloat16"):
        run = training(settings_of(kind, steps=80, dtype=dtype, lr=1e-2), tmp_path / dtype)
        run_to_end(run)
        losses.append(run.history[-1].loss)
        assert all(weight.dtype is torch.float32 for weight in run.learner.model.parameters())
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert losses[1] < math.log(N_TOKENS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own import
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_loss_is_the_same_and_resumes_exactly(kind, tmp_path):
    runs = [training(settings_of(kind, compile=compiled), tmp_path / compiled) for compiled in ("off", "on")]
    want = [run_to_end(run) for run in runs][1]
    for eager, compiled in zip(runs[0].history, runs[1].history, strict=True):
        assert compiled.loss == pytest.approx(eager.loss, rel=1e-5)
    flag = StopFlag()
    with pytest.raises(Stopped):
        list(_stopping(training(settings_of(kind, compile="on"), tmp_path / "two"), flag, 5))
    assert run_to_end(training(settings_of(kind, compile="on"), tmp_path / "two")) == want


@pytest.mark.parametrize("kind", KINDS)
def test_validation_is_the_same_each_time_and_touches_nothing(kind, tmp_path):
    run = training(settings_of(kind, dropout=0.5), tmp_path)
    run.learner.model.train()
    before = copy.deepcopy(run.learner.model.state_dict())
    losses = {run.learner._validation.total(run.learner.model, run.learner._loss_sum).loss for _ in range(3)}
    assert len(losses) == 1
    assert abs(losses.pop() - math.log(N_TOKENS)) < 0.6
    assert run.learner.model.training
    assert all(torch.equal(value, before[name]) for name, value in run.learner.model.state_dict().items())


@pytest.mark.parametrize(("kind", "n"), some_of(KINDS, [2, 3, 9], together=1))
def test_a_tiny_corpus_is_one_short_block(kind, n, tmp_path):
    run = training(settings_of(kind, steps=2), tmp_path, n=n)
    run_to_end(run)
    assert run.plan.seq_len == (n + 2 if kind == "mlm" else n - 1)
    assert np.isfinite(run.history[-1].loss)


def test_no_text_is_an_error(tmp_path):
    with pytest.raises(InputError, match="there is no text for the training"):
        training(settings_of("mlm"), tmp_path, n=0)


@pytest.mark.parametrize(
    ("seconds", "steps", "saved"), [(60, 4, [4, 8, 12]), (60, 0, [12]), (2.5, 0, [3, 6, 9, 12]), (4.5, 4, [4, 8, 12])]
)
def test_checkpoints_are_due_by_steps_or_by_time(seconds, steps, saved, tmp_path, monkeypatch):
    settings = settings_of("clm", steps=12, checkpoint_seconds=seconds, checkpoint_steps=steps)
    run, found = training(settings, tmp_path), []
    begun = time.monotonic()
    monkeypatch.setattr(trainer.time, "monotonic", lambda: begun + run.step)  # a second for each step
    monkeypatch.setattr(Checkpoints, "save", lambda state, step, files: found.append(step))
    run_to_end(run)
    assert found == saved
