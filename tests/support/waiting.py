"""Waiting for what another thread or process does, however busy the machine is."""

import time
from collections.abc import Callable


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    """Ask again and again until it has happened; fail if it has not by then."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)
