"""The machine that a run is on: stop signals, threads, device, memory; and the reports of progress.

Nothing here imports torch at import time.
"""

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Literal

from wordpipe.errors import BudgetError, ConfigError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of long work."""

    phase: str  # what is being done ("reading", "step", "epoch 2")
    done: float = 0  # of `total`
    total: float | None = None  # units in all, or None where nobody knows
    unit: str = ""  # what is counted ("MB", "steps", "sentences")
    # figures worth showing beside the bar, ready to print (loss, lr, tokens/s)
    values: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None  # a line worth keeping on the screen (a warning, "resumed from step 200"), printed once


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h

_ADDRESS_SPACE = {
    "init": 0, "help": 0, "status": 0, "run": 0, "query index": 720, "transformer": 830, "torch": 1_100, "import": 420,
    "index": 980, "tokenize": 800, "train word2vec": 860, "train mlm": 1_100, "train clm": 1_100,
    "train contrastive": 1_100, "fill": 1_100, "generate": 1_100, "evaluate model": 1_100,
}  # fmt: skip
"""Command, or part of one → MB of address space below which the smallest work failed on two cores; libraries that found less
ended the process (OpenBLAS, OpenMP), crashed (FAISS) or left a module half imported."""
_LEAST_SPACE = 400  # NumPy and Arrow
_SPACE_OF_A_CORE = 30

Report = Callable[[Progress], None]
"""What stages call to say how far they are; the command line draws it."""


def quiet(_: Progress) -> None:
    """The report that says nothing."""


class Stopped(Exception):  # noqa: N818  (a request, not an error)
    """The user asked to stop; what could be saved has been saved. Carries the signal number."""

    def __init__(self, signum: int, saved: str | None = None) -> None:
        self.signum = signum
        self.saved = saved
        super().__init__(f"stopped by {signal.Signals(signum).name}")


class StopFlag:
    """Set once SIGINT, SIGTERM or SIGHUP arrived; long loops look at it between steps."""

    def __init__(self) -> None:
        self.signum: int | None = None

    def raise_if_set(self, saved: str | None = None) -> None:
        """Raise `Stopped` when a signal has arrived; `saved` is what was saved, for the message to the user."""
        if self.signum is not None:
            raise Stopped(self.signum, saved)


@contextmanager
def stop_signal(on_first: Callable[[int], None] | None = None) -> Iterator[StopFlag]:
    """Turn the first stop signal into a flag, so that a loop can save and leave; the second one kills at once.

    Only the main thread can own signal handlers; elsewhere the flag simply never rises.
    """
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def remember(signum: int, _: FrameType | None) -> None:
        flag.signum = signum
        signal.signal(signum, signal.SIG_DFL)
        if on_first is not None:
            on_first(signum)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, remember)
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Stopwatch:
    """Seconds since it was made, by the monotonic clock."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._start


def cpu_count() -> int:
    """Cores this process may use (a container's or taskset's share, not the machine's)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def need_address_space(what: str) -> None:
    """Refuse to load libraries that would not fit into the address space that `ulimit -v` leaves: they end the process.

    Args:
        what: a command, or a part of one that loads more (see `_ADDRESS_SPACE`); one that is not listed needs the least.

    Raises:
        BudgetError: the limit is lower than what the smallest work was seen to need here.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    # every thread of a library has a stack and, as soon as it allocates, memory of its own
    need = _ADDRESS_SPACE.get(what, _LEAST_SPACE) + _SPACE_OF_A_CORE * max(0, cpu_count() - 2)
    if limit < need << 20:
        raise BudgetError(
            "the libraries that this needs do not fit into the address space", where="ulimit -v",
            got=f"{limit >> 20:,} MB", expected=f"at least {need:,} MB",
            hint="ulimit -v unlimited; a limit of memory in use is what --memory has, or systemd-run -p MemoryMax=…",
        )  # fmt: skip


def peak_memory_bytes() -> int:
    """The largest resident set of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB, macOS in bytes


def forget_peak_memory() -> None:
    """Measure the peak from here on, where the system can (Linux): several stages may run in one process."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123  (no file of a user's)
        file.write("5")


def return_freed_memory() -> None:
    """Give large blocks back to the system when they are freed. Call it before pyarrow is imported.

    Tokenizing 100 MB peaked at 405 MB with this and at 545 without, and was no slower. Only glibc has the switch.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    _set_malloc({_M_MMAP_THRESHOLD: 1 << 20, _M_TRIM_THRESHOLD: 1 << 20})


def keep_freed_memory() -> None:
    """Keep what is freed for the next allocation. Call it before torch computes on the CPU for long.

    A training step allocates and frees the same large blocks again and again; given back each time, they are mapped and zeroed
    anew. Training mini on two cores: 7,700 tokens/s after `return_freed_memory`, 21,000 with glibc's own rule, 25,000 so.
    """
    _set_malloc({_M_MMAP_THRESHOLD: 1 << 25, _M_TRIM_THRESHOLD: (1 << 31) - 1, _M_TOP_PAD: 1 << 26})


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use so many threads inside (0: one per core), and keep the memory that it frees."""
    import torch

    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(threads or cpu_count())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _set_malloc(options: Mapping[int, int]) -> None:
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            for option, value in options.items():
                libc.mallopt(option, value)


def pick_device(wanted: Literal["auto", "cpu", "cuda", "mps"]) -> "torch.device":
    """The torch device that `wanted` means here. Raises ConfigError: the device asked for is not there."""
    import torch

    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if found[name]))
    if not found.get(wanted):
        there = ", ".join(name for name, ok in found.items() if ok)
        raise ConfigError("no such device on this machine", where="device", got=wanted, expected=there)
    return torch.device(wanted)
