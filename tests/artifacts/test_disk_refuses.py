"""The disk refuses: I/O errors, no space, a limit of file sizes. An OSError names the file, what was there is untouched,
and nothing is left beside it."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.generations import beside, generation_of, publish
from tests.support.tracing import Call, inject, mutating_calls, needs_tracer, prepare, run
from wordpipe.artifacts import publish as failpoints
from wordpipe.artifacts import publish as publication

NOT_FATAL = ("ftruncate", "pwrite64")  # write who holds the lock, for a message only


@pytest.fixture
def failing(monkeypatch):
    """Make a failpoint raise at its nth passage."""

    def arrange(place: str, action: str, nth: int) -> None:
        monkeypatch.setattr(failpoints, "_passed", {})
        monkeypatch.setenv("WORDPIPE_FAILPOINT", f"{place}:{action}:{nth}")

    return arrange


def error_of(target: Path, generation: int) -> OSError | None:
    """Publish; what the disk had to say."""
    try:
        publish(target, generation)
    except OSError as error:
        return error
    return None


@needs_tracer
@pytest.mark.parametrize("step", [pytest.param(2, marks=pytest.mark.landing), pytest.param(1, marks=pytest.mark.slow)])
def test_io_error_at_every_write_and_fsync(tmp_path, step):
    calls = [call for call in mutating_calls() if call.name in ("write", "fsync")][::step]
    assert len(calls) > 10 / step

    def try_one(number_and_call: tuple[int, Call]) -> None:
        number, call = number_and_call
        target = tmp_path / str(number) / "corpus"
        prepare(target)
        done = inject(call, "error=EIO", target, 2)
        assert done.returncode == 1, f"the fault never came: {call}"
        assert "EIO" in done.stderr, done.stderr
        assert generation_of(target) == 1, call
        assert beside(target) == [], call

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(try_one, enumerate(calls)))


@needs_tracer
def test_who_holds_the_lock_is_not_worth_an_error(tmp_path):
    calls = [call for call in mutating_calls() if call.name in NOT_FATAL]
    assert calls
    for call in calls:
        target = tmp_path / call.name / "corpus"
        prepare(target)
        before = (target.parent / ".corpus.lock").read_bytes()
        done = inject(call, "error=ENOSPC", target, 2)
        assert done.returncode == 0, done.stderr
        assert (target.parent / ".corpus.lock").read_bytes() in (b"", before), f"the fault never came: {call}"
        assert generation_of(target) == 2


@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
@pytest.mark.parametrize(("action", "number"), [("eio", errno.EIO), ("enospc", errno.ENOSPC)])
def test_an_error_at_every_failpoint(tmp_path, failing, monkeypatch, action, number, two_renames):
    if two_renames:
        monkeypatch.setattr(publication, "exchange", lambda *_: False)
    target = tmp_path / "run" / "corpus"
    prepare(target)
    publish(target, 1)
    for nth in range(1, 100):
        failing("*", action, nth)
        if (error := error_of(target, 2)) is None:
            break
        assert error.errno == number
        monkeypatch.delenv("WORDPIPE_FAILPOINT")
        assert generation_of(target) == 1
        assert beside(target) == []
    assert nth > 15
    assert generation_of(target) == 2


def test_an_error_at_the_first_publication_leaves_nothing(tmp_path, failing):
    for nth in range(1, 100):
        failing("*", "eio", nth)
        if error_of(tmp_path / "corpus", 1) is None:
            break
        assert not (tmp_path / "corpus").exists()
        assert beside(tmp_path / "corpus") == []
    assert nth > 15


def test_the_error_names_the_file(tmp_path, failing):
    failing("publish.file_written", "enospc", 3)
    with pytest.raises(OSError, match="No space left") as caught:
        publish(tmp_path / "corpus", 1)
    assert caught.value.filename.endswith("corpus-00001.parquet")


FILL = """
import json, os, sys
from pathlib import Path
from tests.support.generations import beside, generation_of, publish
room = Path(sys.argv[1])
target = room / "corpus"
outcomes = []
publish(target, 1)
for blocks in range(40):
    space = os.statvfs(room)
    (room / "ballast").write_bytes(bytes(max(0, (space.f_bavail - blocks) * space.f_bsize)))
    try:
        publish(target, 2)
        outcome = "done"
    except OSError as error:
        outcome = error.errno
    found = generation_of(target)
    left = [name for name in beside(target) if name != "ballast"]
    outcomes.append([outcome, found, left])
    (room / "ballast").unlink()
    publish(target, 1)
print(json.dumps(outcomes))
"""


def _may_mount(folder) -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


def test_full_disk(tmp_path):
    """Every amount of free space, page by page, from none to enough."""
    if not _may_mount(tmp_path):
        pytest.skip("needs the right to mount a small file system")
    script = 'mount -t tmpfs -o size=256k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    done = run(["unshare", "-m", "sh", "-ec", script, "sh", str(tmp_path), sys.executable, FILL])
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes[0] == [errno.ENOSPC, 1, []]
    assert outcomes[-1] == ["done", 2, []]
    assert {tuple(map(str, outcome)) for outcome in outcomes} == {(str(errno.ENOSPC), "1", "[]"), ("done", "2", "[]")}


LIMITED = """
import resource, sys
from pathlib import Path
from tests.support.generations import publish
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    publish(Path(sys.argv[1]), 2)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.landing
@pytest.mark.parametrize("limit", [500, 1500])
def test_file_size_limit(tmp_path, limit):
    target = tmp_path / "corpus"
    publish(target, 1)
    done = run([sys.executable, "-c", LIMITED, str(target), str(limit)])
    assert done.returncode == errno.EFBIG, done.stderr
    assert generation_of(target) == 1
    assert beside(target) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_no_permission():
    """Root may do anything, so somebody else tries."""
    code = (
        "import os, sys; from pathlib import Path; from tests.support.generations import publish\n"
        "os.setuid(65534)\n"
        "try: publish(Path(sys.argv[1]), 2)\n"
        "except PermissionError: sys.exit(13)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "corpus"
        publish(target, 1)
        Path(folder).chmod(0o555)
        done = run([sys.executable, "-c", code, str(target)])
        assert done.returncode == 13, done.stderr
        assert generation_of(target) == 1
