"""When checkpoints are due, and what a run under other conditions is told."""

from pathlib import Path

import pytest
import torch

from wordpipe.training import CheckpointClock, checkpoint, diverged, other_conditions, threads_of_before


def test_checkpoints_are_due_by_steps_or_by_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    clock = CheckpointClock(60, 4)
    assert [step for step in range(1, 10) if clock.due(step)] == [4, 8]
    now[0] = 60.0
    assert clock.due(9)
    clock.made()
    assert not clock.due(9)
    assert not CheckpointClock(60, 0).due(4)


def test_only_what_has_changed_is_told():
    now = {"device": "cpu", "threads": 2, "compiled": False}
    assert other_conditions(now | {"older": 1}, now) is None
    assert other_conditions({"device": "cpu"}, now) is None  # older checkpoints know fewer facts
    said = other_conditions({**now, "threads": 4}, now)
    assert said == "the run was begun under other conditions (threads 4 → 2): last bits may differ"


@pytest.mark.parametrize(("before", "expected"), [(2, 2), (4, 3)])
def test_threads_that_the_machine_lacks_are_not_taken(monkeypatch, before, expected):
    monkeypatch.setattr(checkpoint, "cpu_count", lambda: 3)
    set_to: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", set_to.append)
    assert threads_of_before(before, 3) == expected
    assert set_to == [before] * (before == expected)


def test_a_third_of_the_rate_is_advised_unless_that_is_wild():
    error = diverged(7, loss=float("inf"), norm=1.0, lr=3e-4, newest=Path("step-5"))
    assert "--lr 0.0001; the last good checkpoint is step-5" in str(error.hint)
    assert "--lr 0.003; there is no checkpoint yet" in str(
        diverged(1, loss=0, norm=float("nan"), lr=9, newest=None).hint
    )
