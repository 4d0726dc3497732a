"""What a process holds: open files, memory."""

import os
from contextlib import suppress
from pathlib import Path


def open_files() -> list[str]:
    """The files and folders that this process has open (Linux)."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself, as it was read
            found.append(str(one.readlink()))
    return sorted(one for one in found if one.startswith("/") and not one.startswith(("/dev", "/proc")))


def resident_mb() -> float:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
