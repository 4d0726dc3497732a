"""What this process holds in memory now."""

from pathlib import Path
from resource import getpagesize

from wordpipe.runtime import peak_memory_bytes

__all__ = ["resident_bytes"]


def resident_bytes() -> int:
    """The resident set, in bytes; where the system does not say (macOS), its peak so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        return peak_memory_bytes()
