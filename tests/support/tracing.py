"""Running the publishing job under a system call tracer that kills or fails it at one chosen call."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.generations import MARKER, publish

ROOT = Path(__file__).resolve().parents[2]
MUTATING = (
    "write", "pwrite64", "fsync", "ftruncate", "openat", "rename", "renameat", "renameat2",
    "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "link", "symlink",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """The n-th passage of a system call of the job, and what it looked like undisturbed."""

    name: str
    nth: int
    text: str


def job(target: Path, generation: int, *options: str, failpoint: str | None = None) -> list[str]:
    """The command that publishes a generation."""
    extra = [] if failpoint is None else [f"WORDPIPE_FAILPOINT={failpoint}"]
    program = [sys.executable, "-m", "tests.support.generations", str(target), str(generation), *options]
    return ["env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", *extra, *program]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def inject(call: Call, fault: str, target: Path, generation: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the job with a fault (`signal=KILL`, `error=EIO`) at one system call."""
    where = f"inject={call.name}:{fault}:when={call.nth}"
    tracer = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call.name}", "-e", where]
    return run(tracer + job(target, generation, *options))


@cache
def can_trace() -> bool:
    """Whether a tracer is here and allowed to trace (containers often forbid it)."""
    if shutil.which("strace") is None:
        return False
    done = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, timeout=30, check=False)
    return done.returncode == 0


needs_tracer = pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace")


@cache
def mutating_calls(*options: str) -> list[Call]:
    """What an undisturbed job does to the file system: generation 2 over 1, with the leftovers of a killed run about."""
    with tempfile.TemporaryDirectory() as folder:
        target, log = Path(folder) / "run" / "corpus", Path(folder) / "log"
        prepare(target)
        done = run(["strace", "-f", "-qq", "-s", "64", "-o", str(log), *job(target, 2, *options)])
        assert done.returncode == 0, done.stderr
        calls = list(_after_marker(log.read_text()))
    names = {call.name for call in calls}
    assert {"write", "fsync", "openat", "mkdir", "unlinkat", "rmdir"} <= names, names
    return calls


def _after_marker(log: str) -> Iterator[Call]:
    seen: Counter[str] = Counter()
    begun = False
    for line in log.splitlines():
        begun = begun or MARKER in line
        if match := re.match(r"\d+ +(\w+)\(", line):
            name = match[1]
            seen[name] += 1
            reads = (name == "openat" and "O_CREAT" not in line) or " = -1 " in line
            if begun and name in MUTATING and not reads:
                yield Call(name, seen[name], line)


def prepare(target: Path) -> None:
    """Generation 1, and beside it what a killed run would leave."""
    target.parent.mkdir()
    publish(target, 1)
    leftover = target.parent / f".{target.name}.{'0' * 16}.tmp"
    (leftover / "parts").mkdir(parents=True)
    (leftover / "parts" / "steps.json").write_bytes(b"half a fi")
