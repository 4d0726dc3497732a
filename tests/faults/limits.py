"""Limits of the process: little memory, few descriptors, a small /dev/shm, more memory than was allowed."""

import shutil
import subprocess
import sys

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room, Skipped
from tests.faults.storage import may_mount
from tests.faults.world import PROGRAM, STAGES, World

_MEMORY_MB = (700, 400, 300)


def _little_memory(stage: str, megabytes: int) -> Act:
    """`ulimit -v`: the work is done, or refused with exit 6; no library ends the process."""

    def act(room: Room) -> None:
        room.lay_older(stage)
        done = room.program(*room.world.command(stage), "-o", "out", shell=f"ulimit -v {megabytes * 1000}")
        room.said(done, {0, 6})
        if done.code == 0:
            room.made(stage)
            return
        room.as_before(state=True)
        room.again(stage)

    return act


def _little_memory_for(*arguments: str, megabytes: int) -> Act:
    def act(room: Room) -> None:
        done = room.program(
            *(part.format(world=room.world.folder) for part in arguments), shell=f"ulimit -v {megabytes * 1000}"
        )
        room.said(done, {0, 6})

    return act


def _few_descriptors(stage: str, limit: int) -> Act:
    def act(room: Room) -> None:
        room.lay_older(stage)
        done = room.run(*room.world.command(stage), "-o", "out", limits={"nofile": limit})
        room.said(done, {0, 5}, names=["too many open files"])
        if done.code == 0:
            room.made(stage)
        else:
            room.as_before(state=True)
            room.again(stage)

    return act


def _many_files(room: Room) -> None:
    """A thousand sources and few descriptors."""
    folder = room.work / "texts"
    folder.mkdir()
    for number in range(1_000):
        (folder / f"{number}.txt").write_text(f"The text of file {number} is short. It ends here.\n")
    done = room.run("ingest", folder, "-o", "corpus", "--json", limits={"nofile": 64})
    room.said(done, {0})
    if '"documents"' in done.out and "1000" not in done.out:
        raise Broken("not every file was read")


def _small_shared_memory(room: Room) -> None:
    if not may_mount() or not shutil.which("unshare"):
        raise Skipped("a small /dev/shm needs root and a mount namespace")
    script = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && cd "$1" && shift && exec "$@"'
    command = [*PROGRAM, *room.world.command("mlm"), "-o", "out"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, "sh", str(room.work), *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise Broken(f"exit {done.returncode}: {done.stderr[-300:]}")
    room.made("mlm")


def _too_much_for_the_budget(*arguments: str) -> Act:
    def act(room: Room) -> None:
        done = room.run(*(part.format(world=room.world.folder) for part in arguments), "-o", "out")
        room.fired += done.code == 6
        room.said(done, {6})
        if room.target.exists():
            raise Broken("something was made")

    return act


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for stage in STAGES:
        for megabytes in _MEMORY_MB:
            fast = (stage, megabytes) in (("index", 700), ("import", 300))
            limited = _little_memory(stage, megabytes)
            table.append(
                Case(f"limits/memory-{megabytes}/{stage}", limited, ("22", "C13", "P8"), fast=fast, prepared=True)
            )
        for limit in (64, 24, 10):
            few = _few_descriptors(stage, limit)
            table.append(
                Case(
                    f"limits/descriptors-{limit}/{stage}",
                    few,
                    ("12", "P6"),
                    fast=(stage, limit) == ("ingest", 24),
                    prepared=True,
                )
            )
    asks = {
        "query": ("query", "{world}/index", "bees"),
        "query-words": ("query", "{world}/word2vec", "water"),
        "show": ("show", "{world}/index"),
        "verify": ("verify", "{world}/index"),
        "fill": ("fill", "{world}/mlm", "the [MASK] is"),
        "map": ("map", "{world}/word2vec", "--layout", "pca", "-o", "map.html"),
        "export": ("export", "{world}/word2vec", "--to", "glove", "-o", "out.txt"),
    }
    for name, arguments in asks.items():
        for megabytes in (
            1_000,
            850,
            500,
            400,
            300,
        ):  # at 850 to 1,000 FAISS crashed, at 500 OpenBLAS ended the process
            limited = _little_memory_for(*arguments, megabytes=megabytes)
            table.append(Case(f"limits/memory-{megabytes}/{name}", limited, ("22", "C13", "P8"), prepared=True))
    table += [
        Case("limits/many-files", _many_files, ("12",), prepared=True),
        Case("limits/shared-memory", _small_shared_memory, ("23",), prepared=True),
        Case(
            "limits/budget/index",
            _too_much_for_the_budget("index", "{world}/embed", "--max-memory", "1MB"),
            ("22", "P8"),
            fast=True,
        ),
    ]
    return table if sys.platform == "linux" else [case for case in table if "memory-" not in case.name]
