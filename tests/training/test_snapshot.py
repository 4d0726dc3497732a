"""The state of a training on disk, and what is said where it is resumed."""

import json
from pathlib import Path

import pytest
import torch
from blake3 import blake3
from safetensors.torch import save

from wordpipe.artifacts import Checkpoints
from wordpipe.training import (
    Snapshot,
    diverged,
    load_snapshot,
    other_conditions,
    snapshot_files,
    threads_of_before,
)
from wordpipe.training import snapshot as module


def snapshot(step):
    weights = {"w": torch.full((40, 3), float(step)), "b": torch.tensor([step], dtype=torch.int64)}
    tensors = {"model": weights, "optimiser": {"w/exp_avg": torch.ones(2) * step}}
    return Snapshot(step, tensors, {"history": [[step, 0.1 + 0.2]]})


def saved(path, *steps, run_key="run"):
    state = Checkpoints(path, run_key)
    for step in steps:
        state.save(step, snapshot_files(snapshot(step)))
    return state


def restored(path, run_key="run"):
    state = Checkpoints(path, run_key)
    return state.restore(load_snapshot), state


def folders(path):
    return sorted(folder.name for folder in path.iterdir() if folder.is_dir())


def test_what_is_saved_comes_back_exactly(tmp_path):
    state = saved(tmp_path / "new" / "state", 7)
    found, again = restored(tmp_path / "new" / "state")
    assert state.newest == again.newest == tmp_path / "new" / "state" / "step-00000007"
    assert found.step == 7
    assert found.log == {"history": [[7, 0.1 + 0.2]]}
    for kind in ("model", "optimiser"):
        want, got = snapshot(7).tensors[kind], found.tensors[kind]
        assert want.keys() == got.keys()
        assert all(torch.equal(want[name], got[name]) for name in want)
    assert again.notes == []


@pytest.mark.parametrize("file", ["model.safetensors", "optimiser.safetensors", "log.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_is_used(file, damage, tmp_path):
    saved(tmp_path, 1, 2)
    path = tmp_path / "step-00000002" / file
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[:-3])
    elif damage == "flipped":
        data[len(data) // 2] ^= 16
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    found, state = restored(tmp_path)
    assert found.step == 1
    assert len(state.notes) == 1
    assert "step-00000002 cannot be used" in state.notes[0]
    assert file in state.notes[0]
    assert state.newest == tmp_path / "step-00000001"
    state.save(2, snapshot_files(snapshot(2)))  # the same step is made again, over the damaged one
    state.save(3, snapshot_files(snapshot(3)))
    assert folders(tmp_path) == ["step-00000002", "step-00000003"]
    assert restored(tmp_path)[0].step == 3


def test_the_files_are_those_of_every_version_before(tmp_path):
    """What an older wordpipe left behind is continued, and the other way round."""
    saved(tmp_path, 4)
    snap = snapshot(4)
    contents = {
        "model.safetensors": save(snap.tensors["model"]),
        "optimiser.safetensors": save(snap.tensors["optimiser"]),
        "log.json": json.dumps(snap.log, sort_keys=True).encode(),
    }
    files = {name: {"blake3": blake3(data).hexdigest(), "bytes": len(data)} for name, data in contents.items()}
    pointer = {"checkpoints": [{"files": files, "step": 4}], "run": "run"}
    assert {file.name: file.read_bytes() for file in (tmp_path / "step-00000004").iterdir()} == contents
    assert (tmp_path / "LATEST.json").read_text() == json.dumps(pointer, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize(
    ("file", "data"),
    [("model.safetensors", b""), ("optimiser.safetensors", b"\xff" * 40), ("log.json", b"{"), ("log.json", b"\xff")],
)
def test_a_file_with_the_right_hash_that_is_no_such_file_is_passed_over(file, data, tmp_path):
    saved(tmp_path, 1, 2)
    (tmp_path / "step-00000002" / file).write_bytes(data)
    pointer = json.loads((tmp_path / "LATEST.json").read_bytes())
    pointer["checkpoints"][0]["files"][file] = {"bytes": len(data), "blake3": blake3(data).hexdigest()}
    (tmp_path / "LATEST.json").write_text(json.dumps(pointer))
    found, state = restored(tmp_path)
    assert found.step == 1
    assert len(state.notes) == 1
    assert "step-00000002 cannot be used" in state.notes[0]


def test_only_what_has_changed_is_told():
    now = {"device": "cpu", "threads": 2, "compiled": False}
    assert other_conditions(now | {"older": 1}, now) is None
    assert other_conditions({"device": "cpu"}, now) is None  # older checkpoints know fewer facts
    said = other_conditions({**now, "threads": 4}, now)
    assert (
        said
        == "the run started under different conditions (threads 4 → 2), so the weights may differ in the last digits"
    )


@pytest.mark.parametrize(("before", "expected"), [(2, 2), (4, 3)])
def test_threads_that_the_machine_lacks_are_not_taken(monkeypatch, before, expected):
    monkeypatch.setattr(module, "cpu_count", lambda: 3)
    assert threads_of_before(before, 3) == expected


def test_a_third_of_the_rate_is_advised_unless_that_is_wild():
    error = diverged(7, loss=float("inf"), norm=1.0, lr=3e-4, newest=Path("step-5"))
    assert "--lr 0.0001 (the last good checkpoint is step-5)" in str(error.hint)
    assert "--lr 0.003 (there is no checkpoint yet)" in str(
        diverged(1, loss=0, norm=float("nan"), lr=9, newest=None).hint
    )
