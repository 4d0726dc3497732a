"""Named places where a test may kill or fail the process, for machines without a system call tracer.

    WORDPIPE_FAILPOINT=publish.before_exchange:kill     die by SIGKILL there
    WORDPIPE_FAILPOINT=publish.file_written:enospc:3    raise "no space left" at the third passage
    WORDPIPE_FAILPOINT=*:kill:5                         die at the fifth failpoint, whichever it is

Without the variable a failpoint costs one dictionary look-up.
"""

import errno
import os
import signal

__all__ = ["failpoint"]

_ERRORS = {"enospc": errno.ENOSPC, "eio": errno.EIO}
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Die or fail here if the environment names this place.

    Raises:
        OSError: the failpoint asked for an I/O error.
    """
    wanted = os.environ.get("WORDPIPE_FAILPOINT")
    if wanted is None:
        return
    place, _, rest = wanted.partition(":")
    action, _, nth = rest.partition(":")
    if place not in (name, "*"):
        return
    _passed[place] = _passed.get(place, 0) + 1
    if _passed[place] != int(nth or 1):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(_ERRORS[action], os.strerror(_ERRORS[action]), name)
