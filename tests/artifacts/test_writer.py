"""Writing artifacts and single files: new files only, hashed as written, their errors kept, whole or absent."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generations import FILES, beside, content, generation_of, manifest_for, publish
from tests.support.tracing import run
from wordpipe.artifacts import MANIFEST, Artifact, ArtifactWriter, HashedFile, atomic_file, exchange, hash_bytes
from wordpipe.artifacts import publish as failpoints
from wordpipe.artifacts import publish as publication
from wordpipe.errors import ConfigError, StorageError


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_what_is_hashed_is_what_is_written(tmp_path_factory, pieces):
    path = tmp_path_factory.getbasetemp() / "written"
    path.unlink(missing_ok=True)
    with HashedFile(path, "written") as file:
        for piece in pieces:
            assert file.write(piece) == len(piece)
        assert file.tell() == sum(map(len, pieces))
    data = b"".join(pieces)
    assert path.read_bytes() == data
    entry = file.entry(rows=3, log=True)
    assert (entry.path, entry.bytes, entry.blake3, entry.rows, entry.log) == (
        "written", len(data), hash_bytes(data), 3, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [bytearray(b"ab"), memoryview(b"abcd")[1:3], np.arange(6, dtype=np.float32).reshape(2, 3), np.empty((0, 3)), b""],
    ids=["bytearray", "view", "array", "empty array", "empty"],
)
def test_anything_with_a_buffer_can_be_written(tmp_path, data):
    with HashedFile(tmp_path / "file", "file") as file:
        size = file.write(data)
    expected = bytes(memoryview(data)) if memoryview(data).nbytes else b""
    assert (tmp_path / "file").read_bytes() == expected
    assert size == len(expected)


def test_short_writes_are_completed(tmp_path, monkeypatch):
    """The system may take less than it is given."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    with HashedFile(tmp_path / "file", "file") as file:
        assert file.write(b"0123456789" * 10) == 100
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10
    assert file.entry().blake3 == hash_bytes(b"0123456789" * 10)


def test_a_closed_file_takes_no_more(tmp_path):
    """Its descriptor may belong to another file by then."""
    file = HashedFile(tmp_path / "file", "file")
    file.close()
    with (tmp_path / "other").open("wb"):
        with pytest.raises(ValueError, match="is closed"):
            file.write(b"x")
        file.close()
    assert (tmp_path / "other").read_bytes() == b""


def refusing(number: int):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_an_error_that_a_library_swallowed_comes_back(tmp_path, monkeypatch, call):
    """faiss, for one, prints it and goes on."""
    with ArtifactWriter(tmp_path / "corpus") as artifact:
        file = artifact.open("index.faiss")
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refusing(errno.ENOSPC))
            for step in (lambda: file.write(b"x"), file.close):
                try:
                    step()
                except OSError:
                    continue
        with pytest.raises(OSError, match="No space left") as caught:
            artifact.close(file)
        assert caught.value.filename.endswith("index.faiss")
        with pytest.raises(OSError, match="No space left"):
            artifact.publish(manifest_for(artifact.outputs))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_fsync_is_not_tried_again(tmp_path, monkeypatch):
    tried = []
    file = HashedFile(tmp_path / "file", "file")
    monkeypatch.setattr(os, "fsync", lambda fd: (tried.append(fd), refusing(errno.EIO)())[0])
    with pytest.raises(OSError, match="Input/output"):
        file.close()
    file.close()
    assert len(tried) == 1


@pytest.mark.parametrize("plant", ["file", "link", "dangling link", "folder"])
def test_nothing_that_is_there_is_opened(tmp_path, plant):
    precious = tmp_path / "precious"
    precious.write_bytes(b"thesis")
    with ArtifactWriter(tmp_path / "corpus") as artifact:
        path = artifact.path / "table.parquet"
        if plant == "file":
            path.write_bytes(b"planted")
        elif plant == "folder":
            path.mkdir()
        else:
            path.symlink_to(precious if plant == "link" else tmp_path / "would be made")
        with pytest.raises(OSError, match="File exists"):
            artifact.write("table.parquet", b"x")
    assert precious.read_bytes() == b"thesis"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious"]


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", MANIFEST, "", "a/../../b"])
def test_names_that_leave_the_folder(tmp_path, name):
    with ArtifactWriter(tmp_path / "corpus") as artifact, pytest.raises(AssertionError):
        artifact.open(name)
    assert list(tmp_path.iterdir()) == []


def give_up(target: Path) -> None:
    """A stage that fails half way."""
    with ArtifactWriter(target) as artifact:
        artifact.write("whole", b"x")
        artifact.open("open").write(b"half")
        raise RuntimeError


def test_gone_without_a_trace(tmp_path):
    with pytest.raises(RuntimeError):
        give_up(tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == []


def test_files_still_open_are_a_mistake(tmp_path):
    with ArtifactWriter(tmp_path / "corpus") as artifact:
        artifact.open("open")
        with pytest.raises(AssertionError, match="still open"):
            artifact.publish(manifest_for([]))


def test_files_outside_the_record_are_a_mistake(tmp_path):
    """A library that was given a path inside the folder."""
    with ArtifactWriter(tmp_path / "corpus") as artifact:
        artifact.write("a", b"x")
        (artifact.path / "b").write_bytes(b"x")
        with pytest.raises(AssertionError, match="the folder contains"):
            artifact.publish(manifest_for(artifact.outputs))
    assert not (tmp_path / "corpus").exists()


def test_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "corpus").mkdir()
    publish(tmp_path / "corpus", 1)
    assert generation_of(tmp_path / "corpus") == 1


def test_modes_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        publish(tmp_path / "corpus", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "corpus").stat().st_mode & 0o777 == 0o750
    assert {(tmp_path / "corpus" / name).stat().st_mode & 0o777 for name in FILES} == {0o640}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_waits_for_the_exchange(tmp_path, monkeypatch, number):
    target = tmp_path / "corpus"
    publish(target, 1)
    caught = []
    states = []

    def note(*_: object) -> None:
        caught.append(number)
        states.append(generation_of(target))

    def interrupted(one: Path, other: Path) -> bool:
        signal.raise_signal(number)
        assert not caught
        return exchange(one, other)

    monkeypatch.setattr(publication, "exchange", interrupted)
    before = signal.signal(number, note)
    try:
        publish(target, 2)
        assert signal.getsignal(number) is note
    finally:
        signal.signal(number, before)
    assert caught == [number]
    assert states == [2]
    assert beside(target) == []


def test_a_thread_can_publish(tmp_path):
    thread = threading.Thread(target=publish, args=(tmp_path / "corpus", 1))
    thread.start()
    thread.join()
    assert generation_of(tmp_path / "corpus") == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc, to know which file a descriptor is")
@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
def test_all_is_on_the_disk_before_anything_changes_place(tmp_path, monkeypatch, two_renames):
    """A loss of power keeps only what was forced to the disk, in any order otherwise."""
    target = tmp_path / "corpus"
    publish(target, 1)
    happened: list[tuple[str, str]] = []

    def noted(name: str, call, subject=lambda one, *_: str(one)):
        def replacement(*args, **options):
            happened.append((name, subject(*args)))
            return call(*args, **options)

        return replacement

    def of_fd(fd: int, *_: object) -> str:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115

    monkeypatch.setattr(os, "write", noted("write", os.write, of_fd))
    monkeypatch.setattr(os, "fsync", noted("fsync", os.fsync, of_fd))
    monkeypatch.setattr(Path, "rename", noted("move", Path.rename))
    monkeypatch.setattr(publication, "exchange", noted("move", lambda *_: False if two_renames else exchange(*_)))
    monkeypatch.setattr(publication.shutil, "rmtree", noted("remove", shutil.rmtree))
    publish(target, 2)

    folder = next(subject for event, subject in happened if event == "write").removesuffix("/corpus-00000.parquet")
    moves = [
        place for place, (event, subject) in enumerate(happened) if event == "move" and subject in (folder, str(target))
    ]
    for name in [*FILES, f"{MANIFEST}.part"]:
        last_write = max(place for place, entry in enumerate(happened) if entry == ("write", f"{folder}/{name}"))
        assert last_write < happened.index(("fsync", f"{folder}/{name}")) < moves[0]
    named = happened.index(("move", f"{folder}/{MANIFEST}.part"))
    assert named > happened.index(("fsync", f"{folder}/{MANIFEST}.part"))
    assert named < happened.index(("fsync", folder)) < moves[0]
    assert happened.index(("fsync", f"{folder}/parts")) < moves[0]
    removed = next(place for place, (event, _) in enumerate(happened) if event == "remove" and place > moves[0])
    assert moves[-1] < happened.index(("fsync", str(tmp_path))) < removed


def test_exchange(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot exchange folders")
    assert (tmp_path / "a" / "b").exists()
    assert (tmp_path / "b" / "a").exists()
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "a", tmp_path / "nothing")
    assert (tmp_path / "a" / "b").exists()


def test_no_descriptors_leak(tmp_path):
    target = tmp_path / "corpus"

    def cycle(generation: int) -> None:
        publish(target, generation)
        with Artifact(target) as artifact:
            for name in FILES:
                with artifact.open(name) as file:
                    assert file.read(4) == content(name, generation)[:4]
        (target / "corpus-00000.parquet").write_bytes(b"x")
        with pytest.raises(Exception, match="wrong size"):
            Artifact(target)
        with pytest.raises(RuntimeError):
            give_up(target)

    cycle(1)
    before = sorted(path.name for path in Path("/dev/fd").iterdir())
    for generation in range(2, 12):
        cycle(generation)
    assert sorted(path.name for path in Path("/dev/fd").iterdir()) == before


def write(path, *parts: bytes) -> None:
    with atomic_file(path) as file:
        for part in parts:
            file.write(part)


def write_and_forget(path) -> None:
    """Like a library that does not look at errors."""
    with atomic_file(path) as file:
        for step in (lambda: file.write(b"new"), file.close):
            try:
                step()
            except OSError:
                continue


def test_written_and_replaced(tmp_path):
    path = tmp_path / "new folder" / "words.txt"
    write(path, b"one", b"two")
    assert path.read_bytes() == b"onetwo"
    write(path, b"three")
    assert path.read_bytes() == b"three"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "words.txt"
    write(path, b"old")
    with pytest.raises(TypeError):
        write(path, b"new", "no bytes")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("place", "nth"), [("publish.file_written", 1), ("publish.file_written", 2), ("publish.file_synced", 1)]
)
def test_a_disk_that_refuses_leaves_the_old_file(tmp_path, monkeypatch, place, nth):
    path = tmp_path / "words.txt"
    write(path, b"old")
    monkeypatch.setattr(failpoints, "_passed", {})
    monkeypatch.setenv("WORDPIPE_FAILPOINT", f"{place}:enospc:{nth}")
    with pytest.raises(OSError, match="No space left"):
        write(path, b"new", b"newer")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_that_a_library_swallowed_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "words.txt"
    write(path, b"old")
    monkeypatch.setattr(failpoints, "_passed", {})
    monkeypatch.setenv("WORDPIPE_FAILPOINT", "publish.file_written:enospc:1")
    with pytest.raises(OSError, match="No space left"):
        write_and_forget(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_not_followed(tmp_path):
    (tmp_path / "precious").write_bytes(b"thesis")
    (tmp_path / "words.txt").symlink_to(tmp_path / "precious")
    write(tmp_path / "words.txt", b"new")
    assert (tmp_path / "precious").read_bytes() == b"thesis"
    assert (tmp_path / "words.txt").read_bytes() == b"new"


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "words.txt").mkdir()
    with pytest.raises(StorageError, match=r"words\.txt"):
        write(tmp_path / "words.txt", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["words.txt"]


@pytest.mark.landing
def test_nothing_is_written_into_an_artifact(tmp_path, built):
    with pytest.raises(ConfigError, match="inside another artifact"):
        write(built / "words" / "extra.txt", b"new")
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    write(tmp_path / "words.txt", b"new")


def test_a_device_is_not_replaced():
    with pytest.raises(StorageError, match="is not a file"):
        write(Path("/dev/null"), b"new")


@pytest.mark.parametrize("place", ["publish.file_written:kill:2", "publish.file_synced:kill"])
def test_killed(tmp_path, place):
    path = tmp_path / "words.txt"
    write(path, b"old")
    code = (
        "import sys; from pathlib import Path; from wordpipe.artifacts.writer import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as file: file.write(b'new'); file.write(b'er')\n"
    )
    done = run(["env", f"WORDPIPE_FAILPOINT={place}", sys.executable, "-c", code, str(path)])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.read_bytes() == b"old"


def test_a_file_that_could_not_be_made_is_not_closed_again(tmp_path):
    """Python closes what it collects, and tells of what fails then: always since 3.13, before in its development mode."""
    program = (
        "import sys; from pathlib import Path; from wordpipe.artifacts import HashedFile\n"
        "try: HashedFile(Path(sys.argv[1]), 'x')\nexcept FileNotFoundError: print('refused')"
    )
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", program, str(tmp_path / "none" / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("refused\n", "")
