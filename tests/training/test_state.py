import json

import pytest
import torch

from wordpipe.training.state import Snapshot, StateDir


def snapshot(step):
    weights = {"w": torch.full((40, 3), float(step)), "b": torch.tensor([step], dtype=torch.int64)}
    return Snapshot(step, weights, {"w/exp_avg": torch.ones(2) * step}, {"history": [[step, 0.1 + 0.2]]})


def saved(path, *steps, run_key="run"):
    state = StateDir(path, run_key)
    for step in steps:
        state.save(snapshot(step))
    return state


def restored(path, run_key="run"):
    state = StateDir(path, run_key)
    return state.restore(), state


def folders(path):
    return sorted(folder.name for folder in path.iterdir() if folder.is_dir())


def test_what_is_saved_comes_back_exactly(tmp_path):
    state = saved(tmp_path / "new" / "state", 7)
    found, again = restored(tmp_path / "new" / "state")
    assert state.newest == again.newest == tmp_path / "new" / "state" / "step-00000007"
    assert found.step == 7
    assert found.log == {"history": [[7, 0.1 + 0.2]]}
    for kind in ("model", "optimiser"):
        want, got = getattr(snapshot(7), kind), getattr(found, kind)
        assert want.keys() == got.keys()
        assert all(torch.equal(want[name], got[name]) for name in want)
    assert again.notes == []


def test_two_checkpoints_are_kept_and_the_newest_is_used(tmp_path):
    saved(tmp_path, 1, 2, 3, 3)
    assert folders(tmp_path) == ["step-00000002", "step-00000003"]
    assert restored(tmp_path)[0].step == 3


def test_nothing_there_is_nothing_restored(tmp_path):
    found, state = restored(tmp_path / "none")
    assert found is None
    assert state.newest is None
    assert state.notes == []


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
    assert "step-00000002 refused" in state.notes[0]
    assert file in state.notes[0]
    assert state.newest == tmp_path / "step-00000001"
    state.save(snapshot(2))  # the same step is made again, over the damaged one
    state.save(snapshot(3))
    assert folders(tmp_path) == ["step-00000002", "step-00000003"]
    assert restored(tmp_path)[0].step == 3


def test_when_all_are_damaged_training_starts_again_and_says_so(tmp_path):
    saved(tmp_path, 1, 2)
    for step in (1, 2):
        (tmp_path / f"step-0000000{step}" / "log.json").write_bytes(b"{}")
    found, state = restored(tmp_path)
    assert found is None
    assert [note.split()[1] for note in state.notes] == ["step-00000002", "step-00000001", "checkpoint"]
    assert state.notes[-1] == "no checkpoint can be used: starting from the first step"


@pytest.mark.parametrize(
    "pointer", [b"", b"{", b"[]", b'{"run": "run"}', b'{"run": "run", "checkpoints": [{"step": "x"}]}']
)
def test_a_broken_pointer_is_reported_and_overwritten(pointer, tmp_path):
    saved(tmp_path, 1)
    (tmp_path / "LATEST.json").write_bytes(pointer)
    found, state = restored(tmp_path)
    assert found is None
    assert "LATEST.json cannot be read" in state.notes[0]
    state.save(snapshot(5))
    assert folders(tmp_path) == ["step-00000005"]
    assert restored(tmp_path)[0].step == 5


def test_checkpoints_of_another_run_stay_until_this_one_has_its_own(tmp_path):
    saved(tmp_path, 1, 2, run_key="another")
    (tmp_path / "train.ids").write_bytes(b"ids")
    found, state = restored(tmp_path)
    assert found is None
    assert "other settings or other data" in state.notes[0]
    assert restored(tmp_path, run_key="another")[0].step == 2  # a mistyped setting costs nothing
    state.save(snapshot(7))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LATEST.json", "step-00000007", "train.ids"]


def test_a_full_disk_leaves_the_checkpoints_before(tmp_path, monkeypatch):
    state = saved(tmp_path, 1)
    monkeypatch.setenv("WORDPIPE_FAILPOINT", "publish.file_written:enospc")
    monkeypatch.setattr("wordpipe.artifacts.failpoints._passed", {})
    with pytest.raises(OSError, match="No space left"):
        state.save(snapshot(2))
    assert folders(tmp_path) == ["step-00000001"]
    monkeypatch.delenv("WORDPIPE_FAILPOINT")
    assert restored(tmp_path)[0].step == 1
    state.save(snapshot(2))
    assert restored(tmp_path)[0].step == 2


def test_the_pointer_records_every_file(tmp_path):
    saved(tmp_path, 4)
    pointer = json.loads((tmp_path / "LATEST.json").read_text())
    files = pointer["checkpoints"][0]["files"]
    assert {name: entry["bytes"] for name, entry in files.items()} == {
        name: (tmp_path / "step-00000004" / name).stat().st_size for name in files
    }
    assert pointer["run"] == "run"
