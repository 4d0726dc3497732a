"""A command in a forked child, under the limits, streams and clock that a request (JSON) asks for.

The child is forked from the nursery's server, which has everything imported: it starts in milliseconds.
"""

import itertools
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

LIMITS = {"nofile": resource.RLIMIT_NOFILE, "fsize": resource.RLIMIT_FSIZE}
DEAF = "deaf"  # a stream whose reader has gone


def main(request: str) -> NoReturn:
    """Run `wordpipe ARGUMENTS` as asked."""
    asked = json.loads(request)
    from wordpipe.cli import main as command

    os.chdir(asked["folder"])
    if "stdin" in asked:
        os.dup2(os.open(asked["stdin"], os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (the server's has been read from)
    for number, place in asked.get("outputs", {}).items():
        _redirect(int(number), place)
    if "umask" in asked:
        os.umask(asked["umask"])
    for name, limit in asked.get("limits", {}).items():
        resource.setrlimit(LIMITS[name], (limit, limit))
    if "more_memory" in asked:
        most = _address_space() + asked["more_memory"]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if "clock" in asked:
        _jumping_clock(asked["clock"])
    if "canary" in asked:
        _count_phases(asked["canary"])
    sys.argv = ["wordpipe", *asked["arguments"]]
    command()


def _address_space() -> int:
    """Bytes that this process, forked from one that has everything loaded, has mapped already."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _redirect(number: int, place: str) -> None:
    if place == DEAF:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)
    else:
        os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT), number)


def _jumping_clock(jump: float) -> None:
    """Every look at the wall clock is `jump` seconds away from the one before, to and fro."""
    real, turns = time.time, itertools.cycle((0.0, jump, -jump))
    time.time = lambda: real() + next(turns)
    time.time_ns = lambda: int((real() + next(turns)) * 1e9)


def _count_phases(path: str) -> None:
    """Write every phase that a stage reports to a file, so that work that began is seen whatever the terminal shows."""
    from wordpipe import runtime

    real = runtime.Progress.__init__

    def told(self: Any, phase: str, *more: Any, **named: Any) -> None:
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(phase + "\n")
        real(self, phase, *more, **named)

    runtime.Progress.__init__ = told  # type: ignore[method-assign]
