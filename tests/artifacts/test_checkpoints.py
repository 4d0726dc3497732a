"""Checkpoints of arrays: back exactly or not at all, whatever is killed, refused by the disk or changed there."""

import json
import os
import sys
import tracemalloc

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from tests.support.tracing import run
from wordpipe.artifacts import Checkpoint, Checkpoints, array_blocks, checkpoints
from wordpipe.artifacts import publish as failpoints

VECTORS, COUNTS, LOG = "vectors.f32", "counts.i64", "log.json"
SHAPE = (700, 500)  # float32: more than one block
KILLED = range(1, 50)  # more failpoints than three checkpoints pass


class State:
    """What a training would keep: a large array, a small one and a log."""

    def __init__(self, step: int | None = None, shape: tuple[int, ...] = SHAPE) -> None:
        draw = np.random.default_rng(step)
        self.step = step
        self.vectors = draw.random(shape, np.float32)
        self.counts = draw.integers(0, 1 << 40, 9)
        self.log = {"loss": [step, 0.1 + 0.2]}

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, State)
        arrays = ((self.vectors, other.vectors), (self.counts, other.counts))
        return (self.step, self.log) == (other.step, other.log) and all(np.array_equal(*pair) for pair in arrays)

    def files(self):
        yield VECTORS, array_blocks(self.vectors)
        yield COUNTS, array_blocks(self.counts)
        yield LOG, [json.dumps(self.log).encode()]

    def load(self, checkpoint: Checkpoint) -> "State":
        checkpoint.read_into(VECTORS, self.vectors)
        checkpoint.read_into(COUNTS, self.counts)
        self.log = json.loads(checkpoint.read_bytes(LOG))
        self.step = checkpoint.step
        return self


def saved(path, *steps, run_key="run"):
    kept = Checkpoints(path, run_key)
    for step in steps:
        kept.save(step, State(step).files())
    return kept


def restored(path, run_key="run", shape=SHAPE):
    """Into arrays that hold something else."""
    kept = Checkpoints(path, run_key)
    return kept.restore(State(shape=shape).load), kept


def folders(path):
    return sorted(folder.name for folder in path.iterdir() if folder.is_dir())


@pytest.fixture
def failing(monkeypatch):
    """Make a failpoint raise at its nth passage."""

    def arrange(place: str, action: str, nth: int = 1) -> None:
        monkeypatch.setattr(failpoints, "_passed", {})
        monkeypatch.setenv("WORDPIPE_FAILPOINT", f"{place}:{action}:{nth}")

    return arrange


def test_what_is_saved_comes_back_exactly(tmp_path):
    path = tmp_path / "new" / "state"
    kept = saved(path, 7)
    found, again = restored(path)
    assert found == State(7)
    assert kept.newest == again.newest == path / "step-00000007"
    assert again.notes == []


def test_the_files_are_the_bytes_and_the_pointer_records_them(tmp_path):
    saved(tmp_path, 4)
    state = State(4)
    contents = {
        VECTORS: state.vectors.tobytes(), COUNTS: state.counts.tobytes(), LOG: json.dumps(state.log).encode(),
    }  # fmt: skip
    files = {name: {"bytes": len(data), "blake3": blake3(data).hexdigest()} for name, data in contents.items()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "step-00000004").iterdir()} == contents
    assert json.loads((tmp_path / "LATEST.json").read_bytes()) == {
        "run": "run", "checkpoints": [{"step": 4, "files": files}],
    }  # fmt: skip


def test_an_array_without_rows(tmp_path):
    nothing = State(3, (0, 100))
    Checkpoints(tmp_path, "run").save(3, nothing.files())
    assert (tmp_path / "step-00000003" / VECTORS).read_bytes() == b""
    assert restored(tmp_path, shape=(0, 100))[0] == nothing
    found, kept = restored(tmp_path, shape=(1, 100))
    assert found is None
    why = f"the file {VECTORS} has 0 bytes, but the array for this file has 400 bytes"
    assert kept.notes[0] == f"checkpoint step-00000003 cannot be used: {why}"
    with (tmp_path / "step-00000003" / VECTORS).open("ab") as file:
        file.write(b"x")
    found, kept = restored(tmp_path, shape=(0, 100))
    assert found is None
    assert (
        kept.notes[0] == f"checkpoint step-00000003 cannot be used: the file {VECTORS} has 1 bytes instead of 0 bytes"
    )


def test_two_checkpoints_are_kept_and_the_newest_is_used(tmp_path):
    kept = saved(tmp_path, 1, 2, 3)
    assert kept.save(3, iter([])) == kept.newest  # it is there
    assert folders(tmp_path) == ["step-00000002", "step-00000003"]
    assert restored(tmp_path)[0] == State(3)


def test_nothing_there_is_nothing_restored(tmp_path):
    found, kept = restored(tmp_path / "none")
    assert found is None
    assert kept.newest is None
    assert kept.notes == []


@pytest.mark.parametrize("name", [VECTORS, COUNTS, LOG])
@pytest.mark.parametrize("damage", ["cut", "flipped", "longer", "empty", "gone"])
def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_is_used(name, damage, tmp_path):
    saved(tmp_path, 1, 2)
    file = tmp_path / "step-00000002" / name
    data = bytearray(file.read_bytes())
    size = len(data)
    if damage == "flipped":
        where = int(np.random.default_rng().integers(size))
        data[where] ^= 16
    changed = {"cut": data[:-3], "flipped": data, "longer": data + b"x", "empty": b""}.get(damage)
    if changed is None:
        file.unlink()
    else:
        file.write_bytes(changed)
    found, kept = restored(tmp_path)
    assert found == State(1)
    reasons = {
        "flipped": f"the file {name} has changed since it was written",
        "gone": f"[Errno 2] No such file or directory: '{file}'",
    }
    reason = reasons.get(damage, f"the file {name} has {len(changed or b'')} bytes instead of {size} bytes")
    assert kept.notes == [f"checkpoint step-00000002 cannot be used: {reason}"]
    assert kept.newest == tmp_path / "step-00000001"
    kept.save(2, State(2).files())  # the same step is made again, over the damaged one
    kept.save(3, State(3).files())
    assert folders(tmp_path) == ["step-00000002", "step-00000003"]
    assert restored(tmp_path)[0] == State(3)


def test_a_file_that_is_cut_while_it_is_read_is_refused(tmp_path, monkeypatch):
    saved(tmp_path, 1, 2)
    os.truncate(tmp_path / "step-00000002" / VECTORS, 1 << 20)
    monkeypatch.setattr(Checkpoint, "_refuse_other_size", lambda *_: None)
    found, kept = restored(tmp_path)
    assert found == State(1)
    assert kept.notes == [
        f"checkpoint step-00000002 cannot be used: the file {VECTORS} has changed since it was written"
    ]


def test_an_array_of_another_size_is_refused(tmp_path):
    saved(tmp_path, 1)
    found, kept = restored(tmp_path, shape=(700, 499))
    assert found is None
    assert f"{VECTORS} has 1400000 bytes, but the array for this file has 1397200" in kept.notes[0]


def test_an_array_that_must_not_change_is_a_mistake(tmp_path):
    saved(tmp_path, 1)
    state = State()
    state.vectors.flags.writeable = False
    with pytest.raises(AssertionError, match=VECTORS):
        Checkpoints(tmp_path, "run").restore(state.load)


def test_when_all_are_damaged_training_starts_again_and_says_so(tmp_path):
    saved(tmp_path, 1, 2)
    for step in (1, 2):
        (tmp_path / f"step-0000000{step}" / LOG).write_bytes(b"{}")
    found, kept = restored(tmp_path)
    assert found is None
    assert [note.split()[1] for note in kept.notes] == ["step-00000002", "step-00000001", "checkpoint"]
    assert kept.notes[-1] == "no checkpoint can be used, so the training starts from the first step"


@pytest.mark.parametrize(
    "pointer", [b"", b"{", b"[]", b'{"run": "run"}', b'{"run": "run", "checkpoints": [{"step": "x"}]}']
)
def test_a_broken_pointer_is_reported_and_overwritten(pointer, tmp_path):
    saved(tmp_path, 1)
    (tmp_path / "LATEST.json").write_bytes(pointer)
    found, kept = restored(tmp_path)
    assert found is None
    assert "LATEST.json cannot be read" in kept.notes[0]
    kept.save(5, State(5).files())
    assert folders(tmp_path) == ["step-00000005"]
    assert restored(tmp_path)[0] == State(5)


@pytest.mark.parametrize("files", [{}, {VECTORS: {}}, {VECTORS: 3}, {VECTORS: {"bytes": 1_400_000}}])
def test_a_pointer_that_lacks_a_file_is_no_reason_to_fail(files, tmp_path):
    saved(tmp_path, 1, 2)
    pointer = json.loads((tmp_path / "LATEST.json").read_bytes())
    pointer["checkpoints"][0]["files"] = files
    (tmp_path / "LATEST.json").write_text(json.dumps(pointer))
    found, kept = restored(tmp_path)
    assert found == State(1)
    assert "step-00000002 cannot be used" in kept.notes[0]


def test_checkpoints_of_another_run_are_kept_beside_these(tmp_path):
    """A mistyped setting costs nothing, also where it made a checkpoint of its own."""
    folder = tmp_path / "state"
    saved(folder, 1, 2, run_key="another")
    found, kept = restored(folder)
    assert found is None
    assert "other settings or other data, are kept" in kept.notes[0]
    kept.save(7, State(7).files())
    assert restored(folder, run_key="another")[0] == State(2)
    again, kept = restored(folder)
    assert again == State(7)
    assert kept.notes == []
    assert kept.newest.parent.parent == tmp_path
    assert kept.newest.parent.name.startswith("state-")


def test_an_error_at_every_failpoint_leaves_the_checkpoints_before(tmp_path, failing, monkeypatch):
    kept = saved(tmp_path, 1)
    for nth in range(1, 20):
        failing("*", "enospc", nth)
        try:
            kept.save(2, State(2).files())
            break
        except OSError:
            monkeypatch.delenv("WORDPIPE_FAILPOINT")
        if kept.newest == tmp_path / "step-00000002":
            break  # all was done
        assert folders(tmp_path) == ["step-00000001"]
        found, again = restored(tmp_path)
        assert found == State(1)
        assert again.notes == []
    assert (
        nth == 13
    )  # that after LATEST.json is named; before it, five blocks, four files and two folders, and before_pointer
    assert restored(tmp_path)[0] == State(2)


@pytest.mark.parametrize(("moment", "newest"), [("before", 2), ("after", 3)])
def test_nothing_is_removed_until_the_pointer_is_in_place(tmp_path, failing, moment, newest):
    kept = saved(tmp_path, 1, 2)
    failing(f"checkpoint.{moment}_pointer", "eio")
    with pytest.raises(OSError, match="Input/output error"):
        kept.save(3, State(3).files())
    assert folders(tmp_path) == [f"step-{step:08d}" for step in range(1, newest + 1)]
    assert restored(tmp_path)[0] == State(newest)


def test_an_error_at_every_fsync_leaves_whole_checkpoints(tmp_path, monkeypatch):
    """Also at the last one, when the pointer names the new checkpoint already."""
    outcomes = []
    for nth in range(1, 8):
        path = tmp_path / str(nth)
        kept = saved(path, 1)
        answers = iter([None] * (nth - 1) + [OSError(5, "Input/output error")])

        def sync(_, answers=answers):
            if (answer := next(answers)) is not None:
                raise answer

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", sync)
            with pytest.raises(OSError, match="Input/output error"):
                kept.save(2, State(2).files())
        found, again = restored(path)
        assert found == State(found.step)
        assert again.notes == []
        assert kept.newest == again.newest
        outcomes.append(found.step)
    assert outcomes == [1] * 6 + [2]


def test_what_ends_the_writing_leaves_nothing_behind(tmp_path):
    kept = saved(tmp_path, 1)

    def stopped():
        yield from State(2).files()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.save(2, stopped())
    assert folders(tmp_path) == ["step-00000001"]
    assert kept.save(2, State(2).files()) == tmp_path / "step-00000002"


KILL = """
import os, sys
from pathlib import Path
from tests.artifacts.test_checkpoints import KILLED, State, saved
os.fsync = lambda _: None
for nth in KILLED:
    if (child := os.fork()) == 0:
        os.environ["WORDPIPE_FAILPOINT"] = f"*:kill:{nth}"
        saved(Path(sys.argv[1]) / str(nth), 1, 2, 3)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.landing
def test_killed_at_every_failpoint(tmp_path):
    """The last checkpoint whose pointer was in place is there, whole, and the training can go on."""
    done = run([sys.executable, "-c", KILL, str(tmp_path)])
    assert done.returncode == 0, done.stderr
    steps = []
    for nth in KILLED:
        found, kept = restored(tmp_path / str(nth))
        assert kept.notes == []
        if found is not None:
            assert found == State(found.step)
        steps.append(found.step if found is not None else 0)
        kept.save(4, State(4).files())
        assert folders(tmp_path / str(nth)) == [f"step-{step:08d}" for step in (steps[-1], 4) if step]
    assert steps == sorted(steps)
    assert set(steps) == {0, 1, 2, 3}


def test_no_copy_of_a_large_array_is_made(tmp_path):
    state, other = State(1, (60_000, 100)), State(shape=(60_000, 100))
    kept = Checkpoints(tmp_path, "run")
    tracemalloc.start()
    try:
        kept.save(1, state.files())
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        kept.restore(other.load)
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert state == other
    assert max(written, read) < 1 << 20 < state.vectors.nbytes // 20


NUMBERS = st.one_of(hn.floating_dtypes(), hn.integer_dtypes(), hn.boolean_dtypes())
SHAPES = hn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7)


@given(hn.arrays(NUMBERS, SHAPES), st.integers(1, 50))
def test_the_blocks_are_the_bytes_of_the_array(array, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "_BLOCK", size)
        blocks = list(array_blocks(array))
    assert b"".join(blocks) == array.tobytes()
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)


def test_what_is_written_into_a_block_is_in_the_array():
    array = np.zeros((300_000, 2), np.float32)
    wanted = np.random.default_rng().random(array.shape, np.float32)
    data = wanted.tobytes()
    blocks = list(array_blocks(array))
    assert [len(block) for block in blocks] == [1 << 20, 1 << 20, 2_400_000 - (2 << 20)]
    for number, block in enumerate(blocks):
        block[:] = data[number << 20 : (number + 1) << 20]
    assert np.array_equal(array, wanted)


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((4, 4), np.float32).T[:, :2], "contiguous in memory"),
        (np.zeros((4, 4), np.float32, order="F"), "contiguous in memory"),
        (np.array(["text", None]), "contains Python objects"),
    ],
)
def test_an_array_whose_memory_is_not_its_values_is_a_mistake(array, why):
    with pytest.raises(AssertionError, match=why):
        list(array_blocks(array))
