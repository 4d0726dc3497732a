"""Processes that Ray starts to work together: who they are, what they say, what happens when one dies, fails or is stopped."""

import json
import os
import signal
import threading
import time

import pytest
import torch

import wordpipe
from tests.support.together import Numbers, weights_of
from wordpipe import RunOptions
from wordpipe.engines import EngineOptions, work_together
from wordpipe.errors import ConfigError, InputError, PeerError
from wordpipe.runtime import Progress

SMALL = {"preset": "tiny", "dim": 16, "n_layers": 1, "n_heads": 2, "ffn_dim": 32, "seq_len": 16, "batch_size": 8, "steps": 6,
         "threads": 1, "compile": "off", "device": "cpu", "lr": 0.01}  # fmt: skip


@pytest.fixture
def options(ray_here):
    return EngineOptions("ray", workers=2)


def together(call, options, told=None, **given):
    return work_together(call, options, (told if told is not None else []).append, **{"needs_gpu": False} | given)


@pytest.mark.slow
def test_each_knows_who_it_is_and_meets_the_others(options, tmp_path):
    told: list[Progress] = []
    assert together(Numbers(tmp_path), options, told) == {"rank": 0, "size": 2, "sum": 3, "here": os.getcwd()}  # noqa: PTH109
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert [one["rank"] for one in ranks] == [one["LOCAL_RANK"] for one in ranks] == [0, 1]
    assert ranks[0]["pid"] != ranks[1]["pid"] != os.getpid()
    assert [one.note for one in told if one.note] == ["from 0"]  # the first one speaks


@pytest.mark.slow
def test_one_that_dies_ends_all_which_begin_again(options, tmp_path):
    told: list[Progress] = []
    assert together(Numbers(tmp_path, deaths=2), options, told)["sum"] == 3
    notes = [one.note for one in told if one.note and "died" in one.note]
    assert (
        notes
        == ["process 1 of 2 died (WorkerCrashedError), so all processes start again from the last saved state"] * 2
    )


@pytest.mark.slow
def test_the_third_death_is_the_last(options, tmp_path):
    with pytest.raises(PeerError, match="process 1 of 2 died; this is the third time") as caught:
        together(Numbers(tmp_path, deaths=3), options)
    assert caught.value.exit_code == 8


@pytest.mark.slow
def test_an_error_is_the_users_and_not_that_another_failed(options, tmp_path):
    with pytest.raises(InputError) as caught:
        together(Numbers(tmp_path, wrong=1), options)
    assert (caught.value.what, caught.value.hint) == ("no text", "write some")


@pytest.mark.parametrize(
    ("given", "says"), [({"workers": 99}, "too few processors"), ({"needs_gpu": True}, "too few GPUs")]
)
def test_what_the_cluster_has_no_room_for_is_refused(ray_here, tmp_path, given, says):
    options = EngineOptions("ray", workers=given.pop("workers", 2))
    with pytest.raises(ConfigError, match=says):
        together(Numbers(tmp_path), options, **given)


@pytest.mark.slow  # each process of Ray imports torch
def test_two_processes_have_the_weights_of_one(options, built, tmp_path):
    told, here = list[Progress](), threading.Lock()  # which cannot be sent to another process

    def report(progress: Progress) -> None:
        with here:
            told.append(progress)

    run = RunOptions(report, engine="ray", workers=2)
    two = wordpipe.train_mlm(built / "tokens", output=tmp_path / "two", run=run, **SMALL)
    one = wordpipe.train_mlm(built / "tokens", output=tmp_path / "one", **SMALL)
    assert two.path == str(tmp_path / "two")
    assert any("2 processes" in (told_one.note or "") for told_one in told)
    assert [told_one.done for told_one in told if told_one.phase == "training"][-1] == SMALL["steps"]
    assert two.metrics["loss"] == pytest.approx(one.metrics["loss"], abs=1e-4)
    for name, weight in weights_of(tmp_path / "two").items():
        torch.testing.assert_close(weight, weights_of(tmp_path / "one")[name], atol=3e-4, rtol=1e-3)


def test_workers_of_a_training_are_for_ray(built, tmp_path):
    with pytest.raises(ConfigError, match="train clm takes no --workers"):
        wordpipe.train_clm(built / "tokens", output=tmp_path / "m", run=RunOptions(workers=2), **SMALL)


@pytest.mark.slow
def test_a_stopped_training_is_saved_and_goes_on(nursery, built, tmp_path):
    values = SMALL | {"steps": 4000, "checkpoint_seconds": 1e6, "valid_tokens": 64, "eval_every": 4000}
    words = ["train", "mlm", str(built / "tokens"), "-o", str(tmp_path / "m"), "--engine", "ray", "--workers", "2"]
    for name, value in values.items():
        words += ["--set", f"{name}={value}"]
    child = nursery.command(*words)
    partial = tmp_path / ".m.partial"
    child.wait_until(lambda: "training" in child.err.read_text())
    time.sleep(3)
    child.signal(signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert "run the same command again to continue from" in child.err.read_text()
    assert [*partial.iterdir()]
