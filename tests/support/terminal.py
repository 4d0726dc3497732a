"""A terminal of so many columns in which a command runs."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """What a command left: exit code, and all that it wrote to the terminal, escapes included."""

    code: int
    text: str


def in_terminal(
    *arguments: object,
    columns: int = 80,
    typed: str = "",
    program: Sequence[str] = ("-m", "wordpipe"),
    **environment: str,
) -> Seen:
    """Run `wordpipe ARGUMENTS`, or another program of Python's, with a terminal as stdin, stdout and stderr.

    What is `typed` ends with Ctrl-D.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    dropped = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    child = subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(theirs)
    if typed:
        os.write(ours, typed.encode() + b"\x04")
    seen = b""
    while True:
        try:
            more = os.read(ours, 65_536)
        except OSError:  # the last one that had it open has gone
            break
        if not more:
            break
        seen += more
    os.close(ours)
    return Seen(child.wait(60), seen.decode().replace("\r\n", "\n"))
