"""One writer per output: an advisory lock on a file beside the artifact.

The kernel frees the lock when its holder dies, however it dies; the file itself stays, so no two processes can hold locks
on two different files of the same name.
"""

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from wordpipe.errors import LockedError


class OutputLock:
    """Holds the right to write `target` while the context is open.

    Args:
        target: the artifact.
        patience: seconds to wait: a reader that completes a publication holds it for a moment, and must fail no writer.

    Raises:
        LockedError: another process holds it; nothing was touched.
    """

    def __init__(self, target: Path, patience: float = 0.5) -> None:
        self._target = target
        self._patience = patience
        self._path = target.parent / f".{target.name}.lock"
        self._fd = -1

    def __enter__(self) -> "OutputLock":
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            self._take(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return self

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # a forked child may still have it open
        os.close(self._fd)

    def _take(self, fd: int) -> None:
        until = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    what, hint = (
                        f"another run is writing it{_holder(fd)}",
                        "wait for it, or stop it, then run this again",
                    )
                    raise LockedError(what, where=self._target, hint=hint) from None
            time.sleep(0.005)
        with suppress(OSError):  # who holds it is for the message only: a full disk must not matter here
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}).encode(), 0)


def _holder(fd: int) -> str:
    """Who holds the lock, for the message only."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        since = time.strptime(holder["since"], "%Y-%m-%d %H:%M:%S")
        return f" (process {int(holder['pid'])}, since {time.strftime('%Y-%m-%d %H:%M:%S', since)})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
