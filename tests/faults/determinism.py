"""What must not matter: threads, hash seed, language, time zone, mask, the clock; and power lost at a bad moment."""

import os
import re
import shutil
import stat
import subprocess

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room, Skipped
from tests.faults.world import PROGRAM, STAGES, World
from tests.support.tracing import can_trace

_DAY = 86_400.0


def _clock(stage: str, jump: float) -> Act:
    """The wall clock jumps to and fro at every look."""

    def act(room: Room) -> None:
        room.lay_older(stage)
        room.fired += 1
        done = room.run(*room.world.command(stage), "-o", "out", clock=jump)
        room.said(done, {0})
        room.made(stage)
        if re.search(r"-\d+(\.\d+)? s\b", done.err):
            raise Broken("a negative time")

    return act


def _same(stage: str, **environment: str) -> Act:
    """Another environment gives the same bytes."""

    def act(room: Room) -> None:
        room.fired += 1
        room.said(room.program(*room.world.command(stage), "-o", "out", **environment), {0})
        room.made(stage)

    return act


def _mask(stage: str) -> Act:
    def act(room: Room) -> None:
        room.fired += 1
        room.said(room.run(*room.world.command(stage), "-o", "out", umask=0o077), {0})
        room.made(stage)
        made = (path.stat() for path in (room.target, *room.target.rglob("*")))
        if any(about.st_mode & 0o077 for about in made if stat.S_ISDIR(about.st_mode) or about.st_nlink == 1):
            raise Broken("others may read it")  # a second name of an input's file has that one's rights

    return act


def _threads(stage: str, threads: int) -> Act:
    def act(room: Room) -> None:
        command = room.world.command(stage)
        if "--threads" in command:
            command[command.index("--threads") + 1] = str(threads)
        else:
            command += ["--set", f"threads={threads}"]
        room.fired += 1
        done = room.run(*command, "-o", "out")
        room.said(done, {0})
        room.made(stage)

    return act


def _cores(stage: str, cores: int) -> Act:
    """A stage that takes as many threads as it has cores."""

    def act(room: Room) -> None:
        there = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(there) < cores or not shutil.which("taskset"):
            raise Skipped(f"needs taskset and {cores} cores")
        listed = ",".join(map(str, there[:cores]))
        few = f"ulimit -c 0 && taskset -cp {listed} $$ >/dev/null"
        room.said(room.program(*room.world.command(stage), "-o", "out", shell=few), {0})
        room.made(stage)

    return act


def _twice(stage: str) -> Act:
    """Made twice into one place: equal bytes, and nothing of the first is left."""

    def act(room: Room) -> None:
        for _ in range(2):
            room.said(room.run(*room.world.command(stage), "-o", "out"), {0})
            room.made(stage)
            room.fired += 1

    return act


_CALLS = "write,pwrite64,pwritev,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2"
_WROTE = re.compile(r"(write|pwrite64|pwritev|writev|ftruncate)\(\d+<([^>]+)>")
_FORCED = re.compile(r"(fsync|fdatasync)\(\d+<([^>]+)>")
_MOVED = re.compile(r"(renameat2|renameat|rename)\(.*\.tmp\".*= 0")


def _power(stage: str) -> Act:
    """Replay of a log of system calls: what takes its place has reached the disk, and then its folder.

    A file of the new artifact is forced to the disk after its last write and before the exchange, the folder after it; so
    that a machine without power finds the old one or the new one, whole (LazyFS would drop what was not forced).
    """

    def act(room: Room) -> None:
        if not can_trace():
            raise Skipped("needs strace and the right to trace")
        room.lay_older(stage)
        done = room.program(
            *room.world.command(stage), "-o", "out", strace=["-y", "-e", f"trace={_CALLS}"], seconds=150
        )
        room.said(done, {0})
        at_risk: set[str] = set()
        published = parent = False
        for line in (room.folder / "strace.log").read_text(errors="replace").splitlines():
            if (wrote := _WROTE.search(line)) and ".tmp/" in wrote[2] and ".scratch." not in wrote[2]:
                at_risk.add(wrote[2])
            elif forced := _FORCED.search(line):
                at_risk.discard(forced[2])
                parent |= published and forced[2] == str(room.work)
            elif _MOVED.search(line):
                if at_risk:
                    raise Broken(f"published before it was forced to the disk: {sorted(at_risk)[:2]}")
                published = True
        room.fired += published
        if not parent:
            raise Broken("the folder was not forced to the disk after the exchange")
        room.made(stage)

    return act


def _reads_while_built(room: Room) -> None:
    """A question asked again and again while the index is made anew: every answer is whole."""
    room.said(room.run(*room.world.command("index"), "-o", "out"), {0})
    builder = subprocess.Popen(
        ["sh", "-c", 'for i in 1 2 3; do "$@" || exit 1; done', "sh", *PROGRAM, *room.world.command("index"), "-o", "out"],
        cwd=room.work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    answers = set()
    while builder.poll() is None:
        done = room.run("query", "out", "bees", "--json")
        room.fired += 1
        room.said(done, {0})
        answers.add(done.out)
    if builder.returncode:
        raise Broken("an index could not be made")
    if len(answers) != 1:
        raise Broken(f"{len(answers)} different answers of one index")


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for stage in STAGES:
        for name, jump in (("day", _DAY), ("thirty-years", 30 * 365 * _DAY)):
            table.append(
                Case(
                    f"determinism/clock-{name}/{stage}",
                    _clock(stage, jump),
                    ("21", "P2"),
                    fast=(stage, name) == ("index", "day"),
                )
            )
        table.append(Case(f"determinism/mask/{stage}", _mask(stage), ("P9",), fast=stage == "import"))
        table.append(Case(f"determinism/twice/{stage}", _twice(stage), ("P2",)))
        table.append(Case(f"determinism/power/{stage}", _power(stage), ("4", "P1"), fast=stage == "import"))
    environments = {
        "hash-seed-0": {"PYTHONHASHSEED": "0"},
        "hash-seed-7": {"PYTHONHASHSEED": "7"},
        "language": {"LC_ALL": "tr_TR.UTF-8", "LANG": "C", "TZ": "Asia/Kathmandu"},
    }
    table += [
        Case(f"determinism/{name}/{stage}", _same(stage, **environment), ("P3",))
        for stage in ("ingest", "tokenize", "word2vec", "index")
        for name, environment in environments.items()
    ]
    table += [
        Case(
            f"determinism/threads-{threads}/{stage}",
            _threads(stage, threads),
            ("P3",),
            fast=stage[0] == "w" and threads == 3,
        )
        for stage in ("word2vec",)
        for threads in (1, 2, 3)
    ]
    table += [
        Case(f"determinism/cores-{cores}/{stage}", _cores(stage, cores), ("P3",), prepared=True)
        for stage in ("tokenize", "ingest")
        for cores in (1, 2)
    ]
    return [*table, Case("determinism/reads-while-built", _reads_while_built, ("19",))]
