"""Work in shards whose processes die, fail, or take long, as a test wishes."""

import os
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from wordpipe.errors import InputError


@dataclass(frozen=True)
class NumberShards:
    """Writes a file for each shard: its number, after `deaths` processes that were killed while they made it.

    Attributes:
        folder: for the files.
        deaths: how often the process of the shard `victim` is killed.
        victim: its number.
        wrong: the shard that has wrong text, or None.
        memory_bytes: that a shard is said to need.
        seconds: that each shard takes.
        side_by_side: whether threads have a shard each.
        in_processes: whether processes of this machine have.
    """

    folder: Path
    deaths: int = 0
    victim: int = 2
    wrong: int | None = None
    memory_bytes: int = 1_000_000
    seconds: float = 0.0
    side_by_side: bool = False
    in_processes: bool = False

    phase, unit = "numbering", "numbers"
    gpus, libraries = 0, ("numpy",)

    def size_of(self, number: int) -> int:
        return number + 1

    def prepare(self, threads: int, stack: ExitStack, opened: None = None) -> int:
        with (self.folder / "prepared").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return threads

    def make(self, number: int, state: int, on_units) -> None:
        (self.folder / f"begun-{number}").touch()
        time.sleep(self.seconds)
        tries = [*self.folder.glob(f"try-{number}-*")]
        (self.folder / f"try-{number}-{len(tries)}").touch()
        if number == self.victim and len(tries) < self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.wrong:
            raise InputError("no text", where="a.txt, line 7", got="nothing", hint="write some")
        on_units(number + 1)
        (self.folder / f"{number}.txt").write_text(str(number))


def run_on_ray(folder: str, seconds: str, deaths: str = "0") -> None:
    """Ten shards of so many seconds each on a Ray of its own, for a process that answers stop signals as commands do."""
    from wordpipe.engines import EngineOptions, ShardProgress, open_engine
    from wordpipe.runtime import quiet, raise_on_stop_signals

    raise_on_stop_signals()
    work = NumberShards(Path(folder), seconds=float(seconds), deaths=int(deaths))
    with open_engine(EngineOptions("ray", workers=2), quiet) as engine:
        engine.make(work, range(10), ShardProgress(work, quiet, 0, 55))


def run_in_processes(folder: str, seconds: str) -> None:
    """Ten shards of so many seconds each in two processes of this machine, for a process that is stopped."""
    from wordpipe.engines import EngineOptions, ShardProgress, open_engine
    from wordpipe.runtime import quiet

    work = NumberShards(Path(folder), seconds=float(seconds), in_processes=True)
    with open_engine(EngineOptions(workers=2), quiet) as engine:
        engine.make(work, range(10), ShardProgress(work, quiet, 0, 55))
