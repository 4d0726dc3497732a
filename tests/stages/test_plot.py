"""Curves of artifacts, of trainings that go on, and of both at once."""

import json
import math

import pyarrow as pa
import pytest

import wordpipe.stages.examine.plot as stage
from tests.support.training_logs import made_log
from wordpipe import plot
from wordpipe.artifacts import STEPS, Checkpoints
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.pages import draw_curves
from wordpipe.settings import Settings
from wordpipe.stages import open_job
from wordpipe.training import Step


def made(path, log, kind="model"):
    """An artifact with this log."""
    with open_job(kind, path, Settings(), None) as job:
        with job.table("steps", STEPS, single=True, log=True) as writer:
            writer.write(pa.RecordBatch.from_pylist(log["log"], schema=STEPS))
        if log["unigram_entropy"] is not None:
            job.facts |= {"unigram_entropy": log["unigram_entropy"]}
    return path


def running(path, log, *, step, extra=None):
    """What a transformer's training that has come so far leaves beside its output."""
    rows = [row for row in log["log"] if row["step"] <= step]
    history = [[row["step"], row["tokens"], row["split"], row["loss"], row["lr"], row["seconds"], 9.0] for row in rows]
    content = json.dumps({"history": history, "sums": [0, 0, 0], **(extra or {})}).encode()
    state = Checkpoints(path.parent / f".{path.name}.partial", "some run")
    state.save(step, [("model.safetensors", [b"x"]), ("log.json", [content])])
    return path


@pytest.mark.landing
def test_a_finished_training_is_drawn_as_it_was_logged(tmp_path):
    log = made_log("model")
    found = plot(made(tmp_path / "model", log), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes() == draw_curves([log])
    assert found["path"] == str(tmp_path / "curve.png")
    assert found["bytes"] == (tmp_path / "curve.png").stat().st_size
    (only,) = found["runs"]
    assert only == log
    assert (only["steps"], only["finished"], only["unigram_entropy"]) == (400, True, 7.0)


def test_a_training_that_goes_on_is_drawn_from_its_last_checkpoint(tmp_path):
    log = made_log("model")
    running(tmp_path / "model", log, step=100)
    running(tmp_path / "model", log, step=200, extra={"unigram_entropy": 6.5})
    (only,) = plot(tmp_path / "model", tmp_path / "curve.svg", axis="steps", log=True)["runs"]
    assert (only["name"], only["steps"], only["finished"], only["unigram_entropy"]) == ("model", 200, False, 6.5)
    assert [row["loss"] for row in only["log"]] == [row["loss"] for row in log["log"] if row["step"] <= 200]
    assert (tmp_path / "curve.svg").read_bytes().startswith(b"<?xml")


def test_a_new_run_stands_beside_the_artifact_that_it_will_replace(tmp_path):
    made(tmp_path / "model", made_log())
    running(tmp_path / "model", made_log(floor=3.0), step=50)
    first, second = plot(tmp_path / "model")["runs"]
    assert (first["name"], first["finished"]) == ("model", True)
    assert (second["name"], second["finished"], second["steps"]) == ("model, new run", False, 50)


def test_the_step_of_the_training_is_what_is_read(tmp_path):
    """The columns of a checkpoint's log are the fields of `Step`, in their order."""
    step = Step(step=7, tokens=70, split="train", loss=2.5, lr=0.1, seconds=3.0, tokens_per_s=9.0)
    names = list(Step.__dataclass_fields__)
    content = json.dumps({"history": [[getattr(step, name) for name in names]]}).encode()
    Checkpoints(tmp_path / ".model.partial", "run").save(7, [("log.json", [content])])
    (only,) = plot(tmp_path / "model")["runs"]
    assert {name: only["log"][0][name] for name in names} == {name: getattr(step, name) for name in names}


def test_words_that_are_being_trained(tmp_path):
    rows = made_log(steps=2, every=1, kind="words")["log"]
    state = json.dumps({"log": rows, "seconds": 1.0}).encode()
    Checkpoints(tmp_path / ".words.partial", "run").save(99, [("vectors.f32", [b"0"]), ("state.json", [state])])
    (only,) = plot(tmp_path / "words")["runs"]
    assert (only["kind"], only["steps"], only["log"]) == ("words", 2, rows)


def test_equal_names_are_told_apart_by_their_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made(tmp_path / name / "model", made_log())
    found = plot([tmp_path / "a" / "model", tmp_path / "b" / "model"])["runs"]
    assert [one["name"] for one in found] == [str(tmp_path / name / "model") for name in ("a", "b")]


def test_a_damaged_or_vanished_state(tmp_path, monkeypatch):
    running(tmp_path / "model", made_log(), step=100)
    log = next(tmp_path.glob(".model.partial/step-*/log.json"))
    log.write_bytes(log.read_bytes().replace(b"train", b"trial"))
    with pytest.raises(ArtifactError, match=r"damaged.*changed"):
        plot(tmp_path / "model")
    log.unlink()
    monkeypatch.setattr("wordpipe.stages.examine.plot._TRIES", 1)
    with pytest.raises(InputError, match="no checkpoint with a loss yet"):
        plot(tmp_path / "model")


def test_what_cannot_be_drawn(tmp_path, monkeypatch):
    model = made(tmp_path / "model", made_log())
    silent = made_log(kind="words", steps=10)
    rows = [{**row, "loss": None} for row in silent["log"]]
    gensim = made(tmp_path / "gensim", {**silent, "log": rows}, "words")
    with open_job("words", tmp_path / "imported", Settings(), None):
        pass
    for output in (tmp_path / "curve.pdf", tmp_path):
        with pytest.raises(ConfigError, match=r"\.png or \.svg"):
            plot(model, output)
    for path, error in [(tmp_path / "nothing", "the artifact does not exist"), (tmp_path / "imported", "no log")]:
        with pytest.raises(ArtifactError, match=error):
            plot(path)
    with pytest.raises(InputError, match="no loss") as caught:
        plot(gensim)
    assert "gensim" in caught.value.hint
    with pytest.raises(ConfigError, match="hours"):
        plot(model, axis="hours")
    monkeypatch.setattr(stage, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as missing:
        plot(model, tmp_path / "curve.png")
    assert missing.value.hint.startswith("pip install")
    assert not (tmp_path / "curve.png").exists()


def test_losses_that_are_no_numbers_leave_a_gap(tmp_path):
    log = made_log(valid=0)
    rows = [{**row, "loss": math.nan if row["step"] == 100 else row["loss"]} for row in log["log"]]
    (only,) = plot(made(tmp_path / "model", {**log, "log": rows}), tmp_path / "a.png")["runs"]
    assert sum(math.isfinite(row["loss"]) for row in only["log"]) == len(rows) - 1
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
