"""A single file that leaves the artifacts: whole or absent, like them."""

import signal
import sys
from pathlib import Path

import pytest

from tests.artifacts.tracing import run
from wordpipe.artifacts import atomic_file
from wordpipe.artifacts import publish as failpoints
from wordpipe.errors import ConfigError, StorageError


def write(path, *pieces: bytes) -> None:
    with atomic_file(path) as file:
        for piece in pieces:
            file.write(piece)


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


def test_nothing_is_written_into_an_artifact(tmp_path, built):
    with pytest.raises(ConfigError, match="inside another artifact"):
        write(built / "words" / "extra.txt", b"new")
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    write(tmp_path / "words.txt", b"new")


def test_a_device_is_not_replaced():
    with pytest.raises(StorageError, match="no file"):
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
