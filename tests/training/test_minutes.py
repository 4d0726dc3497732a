"""A training within a time plans its steps, keeps its schedule whole and goes on exactly; a stopped one is ended."""

import pytest

from tests.support.small_trainings import run_to_end, settings_of, training, weights_hash
from wordpipe import pace
from wordpipe.errors import ArtifactError
from wordpipe.pace import TimeLimit
from wordpipe.runtime import StopFlag
from wordpipe.training import Ending


@pytest.fixture
def clock(monkeypatch):
    """A clock on which a step takes a second, however many ask for the time."""
    seconds = [0.0]
    monkeypatch.setattr(pace, "now", lambda: seconds[0])
    return seconds


def limited(clock, folder, minutes, **values):
    settings = settings_of("mlm", **{"steps": None, "micro_batch": 8, "compile": "off", "eval_every": 0} | values)
    run = training(settings, folder, ending=Ending(TimeLimit(60 * minutes, clock[0])))
    gradients = run.learner.gradients

    def timed(step):
        clock[0] += 1.0
        return gradients(step)

    run.learner.gradients = timed
    return run


def test_the_steps_that_fit_are_planned_and_the_rate_falls_to_its_end(clock, tmp_path):
    run = limited(clock, tmp_path, 1)
    run_to_end(run)
    assert run.step == run.plan.steps == run.limit.total
    assert 57 <= run.step <= 60
    assert clock[0] <= 60
    last = run.history[-1]
    assert last.lr == pytest.approx(run.plan.lr * run.plan.min_lr_frac)
    assert run.plan.warmup == round(0.2 * run.plan.steps)
    assert [step.step for step in run.history if step.split == "valid"][-1] == run.step
    # the same number of steps, asked for by number, has the same schedule from the first step that was planned
    fixed = training(settings_of("mlm", steps=run.plan.steps), tmp_path / "fixed")
    assert [fixed.plan.lr_at(step) for step in range(run.step)] == [run.plan.lr_at(step) for step in range(run.step)]


@pytest.mark.landing
def test_a_kill_between_changes_no_byte(clock, tmp_path):
    want = run_to_end(whole := limited(clock, tmp_path / "whole", 1))
    for _ in limited(clock, tmp_path / "state", 1).steps(StopFlag(), until=2):
        pass
    part = limited(clock, tmp_path / "later", 1, checkpoint_steps=30)
    for report in part.every_step(StopFlag()):
        if part.step == 31 and report is None:
            break
    again = limited(clock, tmp_path / "later", 1)
    assert again.resumed_from == 30
    assert again.plan.steps == whole.plan.steps
    assert run_to_end(again) == want


def test_what_was_asked_for_is_the_most(clock, tmp_path):
    run = limited(clock, tmp_path, 10, steps=14)
    run_to_end(run)
    assert run.step == 14 == run.limit.most
    without = training(settings_of("mlm", steps=14, micro_batch=8, eval_every=0), tmp_path / "without")
    assert run_to_end(without) == weights_hash(run)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["as it is", "cool-down"])
def test_a_stopped_run_is_ended_where_it_is_or_cooled_down(how, tmp_path):
    settings = settings_of("mlm", steps=60, lr=1e-2)
    for _ in training(settings, tmp_path).steps(StopFlag(), until=20):
        pass
    stopped = weights_hash(training(settings, tmp_path))
    run = training(settings, tmp_path, ending=Ending(finish=how))
    run_to_end(run)
    more = 2 if how == "cool-down" else 0
    assert (run.finished_from, run.planned, run.step) == (20, 60, 20 + more)
    assert (weights_hash(run) == stopped) == (more == 0)
    assert not run.bitwise
    assert run.history[-1].split == "valid"
    assert run.history[-1].step == run.step
    if more:
        rates = [run.plan.lr_at(step) for step in (19, 20, 21)]
        assert rates[0] > rates[1] > rates[2] > 0
    # the checkpoint is where it was
    again = training(settings, tmp_path)
    assert again.resumed_from == 20
    assert run_to_end(again) == run_to_end(training(settings, tmp_path / "whole"))


def test_without_a_checkpoint_nothing_is_ended(tmp_path):
    with pytest.raises(ArtifactError, match="the inputs or the settings of the stopped run"):
        training(settings_of("mlm"), tmp_path, ending=Ending(finish="as it is"))
