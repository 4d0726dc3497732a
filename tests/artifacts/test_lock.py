"""One writer per output: the second one is told at once, and no dead writer keeps anyone waiting."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.artifacts.generations import beside, generation_of, publish
from tests.artifacts.tracing import ROOT
from wordpipe.artifacts import OutputLock
from wordpipe.errors import LockedError

HOLD = """
import sys
from pathlib import Path
from wordpipe.artifacts.lock import OutputLock
with OutputLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def target(tmp_path) -> Path:
    publish(tmp_path / "corpus", 1)
    return tmp_path / "corpus"


@pytest.fixture
def holder(target):
    """Another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_writer_is_told_at_once(target, holder):
    start = time.monotonic()
    with pytest.raises(LockedError, match=f"process {holder.pid}, since 2") as caught:
        publish(target, 2)
    assert time.monotonic() - start < 1
    assert caught.value.where == str(target)
    assert caught.value.hint
    assert generation_of(target) == 1  # readers do not care
    assert beside(target) == []


def test_a_killed_writer_keeps_nobody_waiting(target, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    publish(target, 2)
    assert generation_of(target) == 2


def test_a_stopped_writer_still_holds_it(target, holder):
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(LockedError):
        publish(target, 2)
    holder.send_signal(signal.SIGCONT)


def test_within_one_process(target):
    with OutputLock(target):
        with pytest.raises(LockedError, match=f"process {os.getpid()}"), OutputLock(target):
            pass
        with OutputLock(target.parent / "another"):
            pass
    with OutputLock(target):
        pass


def test_freed_after_an_error(target):
    with pytest.raises(ZeroDivisionError), OutputLock(target):
        _ = 1 / 0
    with OutputLock(target):
        pass


def test_freed_although_a_forked_child_lives_on(target):
    """A worker that was forked has the lock's descriptor too."""
    code = (
        "import os, sys; from pathlib import Path; from wordpipe.artifacts.lock import OutputLock\n"
        "with OutputLock(Path(sys.argv[1])):\n"
        "    if os.fork() == 0: sys.stdin.read(); os._exit(0)\n"
        "print('freed', flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"freed\n"
        publish(target, 2)


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"null", b"[]", b"[" * 5000, b"{}", b'{"pid": "x"}', b'{"pid": 1, "since": "\\u001b[2J"}']
)
def test_a_lock_file_with_anything_in_it(target, content):
    """It is for the message only, and what it says may be shown on a terminal."""
    path = target.parent / ".corpus.lock"
    with OutputLock(target):
        path.write_bytes(content)
        with pytest.raises(LockedError) as caught, OutputLock(target):
            pass
        assert caught.value.what == "another run is writing it"
    with OutputLock(target):
        assert json.loads(path.read_bytes())["pid"] == os.getpid()


def test_a_planted_link_is_not_followed(target, tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"thesis")
    (tmp_path / ".corpus.lock").unlink()
    (tmp_path / ".corpus.lock").symlink_to(precious)
    with pytest.raises(OSError, match=r"\.corpus\.lock"):
        publish(target, 2)
    assert precious.read_bytes() == b"thesis"
    assert generation_of(target) == 1


def test_no_descriptor_is_left_by_a_refused_lock(target):
    with OutputLock(target):
        before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208
        for _ in range(5):
            with pytest.raises(LockedError), OutputLock(target):
                pass
        assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208
