"""The machine that a run is on: stop signals, threads, device, memory; and the reports of progress.

Nothing here imports torch at import time.
"""

import errno
import os
import resource
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from wordpipe.errors import BudgetError, ConfigError
from wordpipe.storage import cache_folder

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of long work."""

    phase: str  # what is being done ("reading", "step", "epoch 2")
    done: float = 0  # of `total`
    total: float | None = None  # units in all, or None where the number is unknown
    unit: str = ""  # what is counted ("MB", "steps", "sentences")
    # figures worth showing beside the bar, ready to print (loss, lr, tokens/s)
    values: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None  # a line worth keeping on the screen (a warning, "resumed from step 200"), printed once
    always: bool = False  # the note is no less worth where the user asked for quiet: what was asked for is not there
    is_warning: bool = False  # the note is one, and the manifest keeps it


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h

ADDRESS_SPACE = {"query index": 1_060, "condition": 1_900, "transformer": 950, "torch": 1_560}
"""Part of a command → MB of address space that the smallest work was seen to take on two cores; libraries that found less
ended the process (OpenBLAS, OpenMP), crashed (FAISS) or left a module half imported."""
LEAST_SPACE = 400  # NumPy and Arrow
_SPACE_OF_A_CORE = 30

Report = Callable[[Progress], None]
"""What stages call to say how far they are; the command line draws it."""


_SEEN_FROM: ContextVar[Path | None] = ContextVar("_SEEN_FROM", default=None)


def working_folder() -> Path:
    """Return the folder from which names of sources are seen: of a pipeline its config's, else that of the process."""
    return _SEEN_FROM.get() or Path.cwd()


@contextmanager
def seen_from(folder: Path) -> Iterator[None]:
    """Let names of sources be seen from a folder; the process, which other threads share, stays where it is."""
    before = _SEEN_FROM.set(folder)
    try:
        yield
    finally:
        _SEEN_FROM.reset(before)


def quiet(_: Progress) -> None:
    """Report no progress."""


def automatic(_: Progress) -> None:
    """Stand for the default report of progress: a call from Python draws its own if the output is a screen."""


class Stopped(BaseException):
    """The user asked to stop; what could be saved has been saved. Carries the signal number.

    It is a request and no error, so no `except Exception` of a library that is at work just then swallows it. By SIGINT it is
    a `KeyboardInterrupt` too, as programs and notebooks expect it of Ctrl-C.
    """

    def __new__(cls, signum: int, saved: str | None = None) -> "Stopped":
        """Make the class that fits the signal: for SIGINT one that is a `KeyboardInterrupt` too."""
        return super().__new__(_StoppedByKey if cls is Stopped and signum == signal.SIGINT else cls)

    def __init__(self, signum: int, saved: str | None = None) -> None:
        self.signum = signum
        self.saved = saved
        super().__init__(f"stopped by {signal.Signals(signum).name}")


class _StoppedByKey(Stopped, KeyboardInterrupt):
    """A stop by Ctrl-C (SIGINT)."""


class StopRequest(Stopped):
    """A stop of the command line, never a `KeyboardInterrupt`: click and other libraries answer that themselves."""


class StopFlag:
    """Set once SIGINT, SIGTERM or SIGHUP arrived; long loops look at it between steps."""

    def __init__(self) -> None:
        self.signum: int | None = None

    def raise_if_set(self, saved: str | None = None) -> None:
        """Raise `Stopped` when a signal has arrived; `saved` is what was saved, for the message to the user."""
        if self.signum is not None:
            raise Stopped(self.signum, saved)


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SPEAK_AFTER_S = 0.2  # what ends sooner needs no word
_NATIVE_S = 1.5  # that code which looks at no signal has; to kill it loses nothing that could have been saved
_UNWIND_S = 10.0  # that temporary folders have to go; the next run removes what is left
_ANSWERED = threading.Event()  # Python has seen the stop signal
_ANSWERING = threading.Event()  # a thread waits for stop signals
_UNHEARD = (
    "cb",
    "__del__",
)  # what is raised in a callback of importlib's, or while an object goes, is printed and ignored
_SAVERS = 0  # loops that will save before they stop
_RAISED: int | None = None  # the signal for which `Stopped` was raised wherever the process was


@contextmanager
def stop_signal(on_first: Callable[[int], None] | None = None) -> Iterator[StopFlag]:
    """Turn the first stop signal into a flag, so that a loop can save and leave.

    The second one kills the command line at once, and is answered in a program as it was before (Python's own raises
    `KeyboardInterrupt`). Only the main thread can own signal handlers; elsewhere the flag simply never rises.
    """
    global _SAVERS  # signals belong to the process
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def remember(signum: int, _: FrameType | None) -> None:
        _ANSWERED.set()
        flag.signum = signum
        signal.signal(signum, signal.SIG_DFL if before[signum] is _raise_stopped else before[signum])
        if on_first is not None:
            on_first(signum)

    # nohup ignores SIGHUP on purpose; a handler that is not of Python's cannot be put back
    found = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    before: dict[int, Any] = {one: handler for one, handler in found.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, remember)
    _SAVERS += 1
    try:
        yield flag
    finally:
        _SAVERS -= 1
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_on_stop_signals() -> None:
    """Make stop signals unwind the stack, so that temporary folders go; nohup's choice is respected."""
    global _RAISED
    _RAISED = None
    _ANSWERED.clear()

    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_stopped)


def _raise_stopped(signum: int, frame: FrameType | None) -> None:
    """Handle a stop signal: raise `StopRequest` in the running code, or, in a callback that hides errors, in its caller."""
    global _RAISED
    _RAISED = signum
    _ANSWERED.set()
    signal.signal(signum, signal.SIG_DFL)  # a second one kills at once
    if frame is not None and frame.f_code.co_name in _UNHEARD and frame.f_back is not None:
        _raise_in(frame.f_back, StopRequest(signum))
    else:
        raise StopRequest(signum)


def _raise_in(frame: FrameType, error: BaseException) -> None:
    """Raise an error where a frame goes on, once those that it has called have returned."""

    def trace(*_: object) -> None:
        sys.settrace(None)
        raise error

    frame.f_trace = trace
    sys.settrace(lambda *_: None)  # without which no frame is looked at


def stopped_by() -> int | None:
    """Return the signal for which `Stopped` was raised; a module in C that was being loaded then raises another error."""
    return _RAISED


def answer_stop_signals(say: Callable[[str], None], end: Callable[[int], None] = lambda _: None) -> None:
    """Answer stop signals in a thread of their own, at once.

    Python's handlers wait until a native call returns, and one that trains an index takes minutes. The thread says that the
    process is stopping, and ends it where nothing is being saved and the call does not return; so does a second signal.

    Args:
        say: prints a line.
        end: is called with the signal before the thread ends the process.
    """
    _ANSWERING.set()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signal is not this process's
    threading.Thread(target=_answer, args=(wake, say, end), daemon=True).start()


def is_command() -> bool:
    """True if this process is a command of ours, and not a program that imports us."""
    return _ANSWERING.is_set()


def _answer(wake: int, say: Callable[[str], None], end: Callable[[int], None]) -> None:
    """Wait for a stop signal, say that the process is stopping, and end the process if it does not stop in time."""
    heard = 0
    while heard not in STOP_SIGNALS:
        heard = os.read(wake, 1)[0]
    began, spoken = time.monotonic(), False
    while True:
        time.sleep(0.05)
        seconds, answered = time.monotonic() - began, _ANSWERED.is_set()
        if not spoken and seconds >= _SPEAK_AFTER_S and not (answered and _SAVERS):  # a loop says itself what it saves
            spoken = True
            say("stopping … (press Ctrl-C again to stop now)")
        again = bool(select.select([wake], [], [], 0)[0]) and os.read(wake, 1)[0] in STOP_SIGNALS
        if again or (not _SAVERS and seconds >= (_UNWIND_S if answered else _NATIVE_S)):
            end(heard)
            die_by(heard)


def die_by(signum: int) -> int:
    """End this process by a signal, from any thread, so that shells and make see what happened; return the exit code."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signum, signal.SIG_DFL)
    else:  # Python lets the main thread alone change what a signal does
        import ctypes

        ctypes.CDLL(None).signal(signum, 0)
    os.kill(os.getpid(), signum)
    time.sleep(0.1)
    return 128 + signum


def ahead(items: Iterable[Item], waiting: int) -> Iterator[Item]:
    """Yield the items, made in a thread of the run while the caller works on earlier ones.

    Args:
        items: made by one thread; what making one raises is raised where it is taken.
        waiting: so many are made before they are taken, at most; 0: no thread, each is made when it is taken.
    """
    if not waiting:
        yield from items
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    end, iterator, made = object(), iter(items), deque[Future[Any]]()
    with ThreadPoolExecutor(1) as maker:
        try:
            made.extend(maker.submit(next, iterator, end) for _ in range(waiting))
            while (item := made.popleft().result()) is not end:
                made.append(maker.submit(next, iterator, end))
                yield item
        finally:
            for future in made:
                future.cancel()


class Stopwatch:
    """A stopwatch: seconds since it was made, by the monotonic clock."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since the stopwatch was made."""
        return time.monotonic() - self._start


def cpu_count() -> int:
    """Return the cores this process may use (a container's or taskset's share, not the machine's)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def process_number(variable: str, default: int) -> int:
    """Return a number that torchrun tells each of its processes: WORLD_SIZE (how many there are), RANK, LOCAL_RANK.

    Raises:
        ConfigError: the environment variable holds no such number.
    """
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        hint = f"torchrun sets this variable; if you do not use torchrun, unset {variable}"
        raise ConfigError(
            "the environment variable must be a whole number", where=variable, got=repr(text[:60]), hint=hint
        )
    return int(text)


def memory_bytes() -> int:
    """Return the memory of this machine in bytes; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def need_address_space(megabytes: int) -> None:
    """Refuse to load libraries that would not fit into the address space that `ulimit -v` leaves: they end the process.

    Args:
        megabytes: what the smallest work was seen to take on two cores: of a command in the table, or see `ADDRESS_SPACE`.

    Raises:
        BudgetError: the limit is lower than what the smallest work was seen to need here.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    # every thread of a library has a stack and, as soon as it allocates, memory of its own
    need = megabytes + _SPACE_OF_A_CORE * max(0, cpu_count() - 2)
    if limit < need << 20:
        raise BudgetError(
            "the libraries that this command needs do not fit into the allowed address space", where="ulimit -v",
            got=f"{limit >> 20:,} MB", expected=f"at least {need:,} MB",
            hint="remove this limit with `ulimit -v unlimited`; to limit memory, use --memory or systemd-run -p "
            "MemoryMax=…",
        )  # fmt: skip


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error or one of its causes says that no memory was given.

    Under `ulimit -v` a library that does not fit says so in words of its own: that its module cannot be imported, that a
    file of it cannot be loaded, that no thread can be started.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        unnamed = isinstance(at, OSError) and at.errno is None and "shared object" in str(at)  # of llvmlite
        unstarted = isinstance(at, RuntimeError) and "can't start new thread" in str(at)
        if isinstance(at, MemoryError) or getattr(at, "errno", None) == errno.ENOMEM:
            return True
        if limited and (unnamed or unstarted or isinstance(at, ImportError | SystemError)):
            return True
        at = at.__cause__ or at.__context__
    return False


def peak_memory_bytes() -> int:
    """Return the largest resident set of this process so far, in bytes."""
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


def without_pandas() -> None:
    """Let Arrow look for pandas now, while it is hidden, instead of importing it for 0.3 s at the first array it converts.

    Arrow looks once in a process: pandas has missing values and columns of its own, of which the command line sees none.
    """
    if "pandas" in sys.modules or find_spec("pandas") is None:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, hidden := _Hidden("pandas"))
    try:
        pa.array([0]).to_numpy()
    finally:
        sys.meta_path.remove(hidden)


class _Hidden:
    """A finder that says of one module that it is not there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, *_: object) -> None:
        """Refuse the module; of all others know nothing. Raises ModuleNotFoundError."""
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)


def keep_torch_cache() -> None:
    """Give torch's compiler, which much of torch imports, a folder below the user's cache: it makes one in TMPDIR else."""
    folder = cache_folder() / "torch"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))


@contextmanager
def without_memory() -> Iterator[None]:
    """Let torch make tensors that have a shape and no numbers."""
    import torch

    keep_torch_cache()
    with torch.device("meta"):
        yield


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use so many threads inside (0: one per core), the fastest products, and keep the memory that it frees."""
    import torch

    keep_freed_memory()
    keep_torch_cache()
    before = torch.get_num_threads()
    torch.set_num_threads(threads or cpu_count())
    try:
        with _fast_products():
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """Give each of NumPy's products one thread: the same bytes on any machine, and no threads that wait by spinning.

    Beside other work on two cores, 300 directions of 38,000 texts took 12 s of CPU so, and 47 s with two threads.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


@contextmanager
def _fast_products() -> Iterator[None]:
    """Let oneDNN and not MKL multiply float32 matrices on a CPU of AMD with AVX-512, which MKL leaves unused.

    1,500 x 256 by 256 x 1,024 on two cores of an AMD EPYC: 195 → 410 GFLOP/s, as exact. torch's one switch for it allows
    bfloat16 inside, which oneDNN takes only where AMX is: that is looked at first, and that nothing is rounded.
    """
    switch = _switch_of_products()
    before = switch.fp32_precision
    if _multiplies_slowly():
        switch.fp32_precision = "bf16"
        if not _is_exact():
            switch.fp32_precision = before
    try:
        yield
    finally:
        switch.fp32_precision = before


def multiplies_by_onednn() -> bool:
    """True if `torch_threads` has let oneDNN multiply float32 matrices."""
    return bool(_switch_of_products().fp32_precision == "bf16")


@contextmanager
def usual_products() -> Iterator[None]:
    """Inside `torch_threads`: multiply as torch does by itself."""
    switch = _switch_of_products()
    before = switch.fp32_precision
    switch.fp32_precision = "ieee"
    try:
        yield
    finally:
        switch.fp32_precision = before


def _switch_of_products() -> Any:
    """Return torch's switch for the library that multiplies matrices on a CPU."""
    import torch

    return torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@cache
def _is_exact() -> bool:
    """True if products of float32 are exact with the library that computes them now."""
    import torch

    third = torch.full((64, 64), 1.0 / 3.0)
    return float((third @ third).sub_(64.0 / 9.0).abs_().max()) < 1e-4  # of bfloat16: 0.03


@cache
def _multiplies_slowly() -> bool:
    """True if MKL multiplies float32 matrices slowly here: a CPU of AMD with AVX-512, without AMX."""
    import torch

    with suppress(OSError, AttributeError):
        of_amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
        has_avx512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
        return of_amd and has_avx512 and not torch.cpu._is_amx_tile_supported()  # no public test
    return False


def _set_malloc(options: Mapping[int, int]) -> None:
    """Set options of glibc's malloc; elsewhere nothing happens."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            for option, value in options.items():
                libc.mallopt(option, value)


def pick_device(wanted: Literal["auto", "cpu", "cuda", "mps"]) -> "torch.device":
    """Return the torch device that `wanted` means here. Raises ConfigError: the device asked for is not there."""
    import torch

    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if found[name]))
    if not found.get(wanted):
        there = ", ".join(name for name, ok in found.items() if ok)
        raise ConfigError("this machine does not have this device", where="device", got=wanted, expected=there)
    return torch.device(wanted)
