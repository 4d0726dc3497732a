"""Killed by SIGKILL at any moment, as often as one likes, a training ends with the bytes of one that was left alone."""

import os
import random
import signal
import time

import pytest

ARGUMENTS = ["steps=25", "checkpoint_steps=5", "report_every=4", "eval_every=9", "dropout=0.2"]


@pytest.fixture(scope="module")
def undisturbed(nursery, tmp_path_factory):
    return {kind: to_the_end(nursery, kind, tmp_path_factory.mktemp(kind)) for kind in ("mlm", "clm")}


def start(nursery, kind, folder, failpoint=""):
    return nursery.train(kind, str(folder / "state"), *ARGUMENTS, log=folder / "log", failpoint=failpoint)


def to_the_end(nursery, kind, folder):
    child = start(nursery, kind, folder)
    assert child.wait() == 0, child.lines()
    assert child.lines()[-1].startswith("weights")
    return child.lines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlm", "clm"])
@pytest.mark.parametrize("turn", range(2))
def test_killed_twice_at_random_moments(nursery, kind, turn, undisturbed, tmp_path):
    seed = int.from_bytes(os.urandom(2), "little")
    draw = random.Random(seed)
    for _ in range(2):
        child = start(nursery, kind, tmp_path)
        child.wait_for_reports(draw.randint(1, 6))
        time.sleep(draw.random() * 0.02)
        assert child.kill() in (-signal.SIGKILL, 0)  # 0: it was at its end already
    assert to_the_end(nursery, kind, tmp_path) == undisturbed[kind], f"seed {seed}"


@pytest.mark.landing
@pytest.mark.parametrize(
    ("failpoint", "times"),
    [
        ("publish.file_written", (1, 4, 6)), ("checkpoint.before_pointer", (2,)), ("checkpoint.after_pointer", (1,)),
        pytest.param("publish.file_written", (2, 3, 5, 7, 8), marks=pytest.mark.slow),
        pytest.param("checkpoint.before_pointer", (1,), marks=pytest.mark.slow),
        pytest.param("checkpoint.after_pointer", (2,), marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_killed_at_every_write_of_a_checkpoint(nursery, failpoint, times, undisturbed, tmp_path):
    """A checkpoint is four files: weights, optimiser, log, pointer; the first two checkpoints are enough."""
    for nth in times:
        folder = tmp_path / str(nth)
        folder.mkdir()
        child = start(nursery, "mlm", folder, f"{failpoint}:kill:{nth}")
        assert child.wait() == -signal.SIGKILL
        assert to_the_end(nursery, "mlm", folder) == undisturbed["mlm"], nth
        assert sorted(path.name for path in (folder / "state").iterdir()) == [
            "LATEST.json", "step-00000020", "step-00000025",
        ]  # fmt: skip


def test_a_termination_signal_saves_and_stops(nursery, undisturbed, tmp_path):
    child = start(nursery, "clm", tmp_path)
    child.wait_for_reports(2)
    assert child.kill(signal.SIGTERM) == 1  # Stopped is raised, and this program does not catch it
    assert child.lines()[-1] == "wordpipe.runtime.Stopped: stopped by SIGTERM"
    saved = sorted((tmp_path / "state").glob("step-*"))[-1]
    child = start(nursery, "clm", tmp_path)
    assert child.wait() == 0
    assert child.lines()[0] == f"resumed from {int(saved.name.removeprefix('step-'))}"
    assert child.lines()[-1] == undisturbed["clm"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlm", "clm"])
def test_killed_with_two_threads_and_matrices_large_enough_for_both(nursery, kind, tmp_path):
    size = ["dim=128", "n_heads=4", "ffn_dim=320", "seq_len=128", "batch_size=16", "threads=2", "steps=8"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()

    def start_large(folder):
        arguments = [*size, "checkpoint_steps=2", "report_every=1"]
        return nursery.train(kind, str(folder / "state"), *arguments, log=folder / "log")

    undisturbed = start_large(whole)
    assert undisturbed.wait() == 0
    for reports in (3, 2):
        child = start_large(killed)
        child.wait_for_reports(reports)
        assert child.kill() in (-signal.SIGKILL, 0)
    again = start_large(killed)
    assert again.wait() == 0
    assert again.lines()[-1] == undisturbed.lines()[-1]
