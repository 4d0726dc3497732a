"""Waiting for what another thread or process does, however busy the machine is."""

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    """Ask again and again until it has happened; fail if it has not by then."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for_work(pid: int, seconds: float = 60) -> None:
    """Wait until a process has worked for a fifth of a second: it is in what it does after it said that it is ready."""
    begun = _ticks(pid)
    wait_until(lambda: _ticks(pid) >= begun + 20, seconds)


def _ticks(pid: int) -> int:
    """Return the processor time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
