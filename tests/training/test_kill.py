"""Killed by SIGKILL at any moment, as often as one likes, a training ends with the bytes of one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

ARGUMENTS = ["steps=40", "checkpoint_steps=5", "report_every=4", "eval_every=9", "dropout=0.2"]


def start(kind, state_dir, failpoint=None):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if failpoint:
        environment["WORDPIPE_FAILPOINT"] = failpoint
    command = [sys.executable, "-m", "tests.training.parts", kind, str(state_dir), *ARGUMENTS]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finish(process):
    out, _ = process.communicate(timeout=120)
    return process.returncode, out.splitlines()


def final_weights(kind, state_dir):
    code, lines = finish(start(kind, state_dir))
    assert code == 0
    return lines[-1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return {kind: final_weights(kind, tmp_path_factory.mktemp("whole") / kind) for kind in ("mlm", "clm")}


@pytest.mark.parametrize("kind", ["mlm", "clm"])
def test_killed_twice_at_random_moments(kind, undisturbed, tmp_path):
    seed = int.from_bytes(os.urandom(2), "little")
    draw = random.Random(seed)
    for _ in range(2):
        process = start(kind, tmp_path)
        reports = draw.randint(1, 6)
        for line in process.stdout:
            reports -= line.startswith("step")
            if reports == 0:
                break
        time.sleep(draw.random() * 0.02)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
    assert final_weights(kind, tmp_path) == undisturbed[kind], f"seed {seed}"


@pytest.mark.parametrize(
    "failpoint",
    [
        "publish.file_written:kill:1",  # a first checkpoint that never was
        pytest.param("publish.file_written:kill:7", marks=pytest.mark.slow),  # while a file of the second is written
        "publish.file_written:kill:8",  # while the pointer to the second is written
        "checkpoint.before_pointer:kill:3",
        "checkpoint.after_pointer:kill:3",  # before the oldest is removed
    ],
)
def test_killed_while_a_checkpoint_is_written(failpoint, undisturbed, tmp_path):
    code, _ = finish(start("mlm", tmp_path, failpoint))
    assert code == -signal.SIGKILL
    assert final_weights("mlm", tmp_path) == undisturbed["mlm"]


def test_a_termination_signal_saves_and_stops(undisturbed, tmp_path):
    process = start("clm", tmp_path)
    for line in process.stdout:
        if line.startswith("step 8"):
            break
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(timeout=60) == 1  # Stopped is raised, and the program does not catch it
    assert "weights" not in rest
    saved = sorted(tmp_path.glob("step-*"))[-1]
    code, lines = finish(start("clm", tmp_path))
    assert code == 0
    assert lines[0] == f"resumed from {int(saved.name.removeprefix('step-'))}"
    assert lines[-1] == undisturbed["clm"]
