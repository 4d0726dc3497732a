"""Parsers that may crash, hang or grow run in a child process, with bounds for each file.

A parser is a function of a module. It takes an open file and options, and yields values of JSON: strings, numbers, lists,
dicts. The reader asks for them with `values_of`, and gets them as if the parser ran here. What the parser
meets costs its file and nothing else: the reader gets an `InputError` that says what it was.

    a fault of the file        the parser raises `Unreadable`: encrypted, damaged, no text
    a crash, an endless loop   the child dies, or has used the time that a file of this size may take, and is ended
    a bomb                     the child has no more memory, or gives more text than a file of this size may hold

Starting a child takes as long as reading fifty pages. So a child serves one file after the other; it is replaced when it
has died or has served many files, and it ends by itself when nobody asks it, or when the process that started it has ended.
Time is that of the processor, so that a busy machine changes nothing.

The file goes to the child as a descriptor, through a socket. Answers come back as frames: a letter, four bytes of length,
JSON. The letters: b it begins, v a value, . the end, ! what is wrong with the file, x the same, and the child ends. No answer
is ever run as code. A child has no input, prints nothing, and cannot write a file.
"""

import atexit
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

from wordpipe.errors import InputError
from wordpipe.lazy import import_path

FEW_BYTES = 1 << 20
"""Bytes of a file for which the bounds of time and text are counted as for this many: 1 MiB."""
_MOST_FILES = 500  # of one child; then another one is started, as parsers leak
_TRIES = 3  # to start a child
_IDLE_S = 20.0  # after which a child that nobody asks ends
_START_S = 60.0  # that a child may take to begin
_SLOWER = 20  # a child waits for the processor, or for the disk, at most this many times as long as it may work
_HEAD = struct.Struct("!cI")
_LARGEST_FRAME = 64 << 20
_BLOCK = 1 << 20
_AT_ONCE = 1 << 16  # bytes of answers that are sent together
_CODE = "import sys; sys.path[:] = sys.argv[1:]; from wordpipe.corpus.binary.bounded import serve; serve()"


@dataclass(frozen=True)
class Bounds:
    """Bounds of the parser of one file.

    Attributes:
        memory_bytes: beside what the child has when it begins.
        seconds: of the processor, for a file of at most 1 MiB.
        seconds_per_mb: for each further MiB.
        text_bytes: of all values, as JSON, for a file of at most 1 MiB.
        text_per_byte: for each further byte.
    """

    memory_bytes: int = 1 << 30
    seconds: float = 30.0
    seconds_per_mb: float = 10.0
    text_bytes: int = 64 << 20
    text_per_byte: int = 20

    def seconds_of(self, size: int) -> float:
        """Return the seconds that the parser of a file of this size may work."""
        return self.seconds + self.seconds_per_mb * max(0, size - FEW_BYTES) / (1 << 20)

    def text_of(self, size: int) -> int:
        """Return the bytes that the values of a file of this size may have."""
        return self.text_bytes + self.text_per_byte * max(0, size - FEW_BYTES)


class Unreadable(Exception):  # noqa: N818  (what a parser says of a file; an error of the reader's is made of it)
    """The error that a parser raises for a file that cannot be read.

    Args:
        what: what is wrong, one sentence without a full stop.
        got: what was found.
        hint: what to do; FILE in it stands for the name of the file, STEM for that without its ending.
    """

    def __init__(self, what: str, got: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.got, self.hint = what, got, hint


Parser = Callable[..., Iterator[Any]]
"""(open file, **options) → values of JSON."""


def values_of(
    parser: str, file: BinaryIO, name: str, *, bounds: Bounds = Bounds(), options: Mapping[str, Any] | None = None
) -> Iterator[Any]:
    """Yield what a parser yields of a file, in a child process.

    Args:
        parser: "module:function"; the module is imported by the child alone, and quickly.
        file: which is read from its beginning; one that is not on a disk is copied to a temporary file.
        name: of the file, for errors.
        bounds: what the parser may use.
        options: further arguments of the parser, values of JSON.

    Raises:
        InputError: the file cannot be read, or the parser crashed, or went over a bound.
    """
    if os.name != "posix":  # a child gets its file through a socket
        yield from _values_here(parser, file, name, options or {})
        return
    with _on_disk(file) as copy:
        size = os.fstat(copy.fileno()).st_size
        asked = {
            "parser": parser, "options": dict(options or {}), "seconds": bounds.seconds_of(size),
            "memory": bounds.memory_bytes,
        }  # fmt: skip
        child = _asked(asked, copy.fileno(), name)
        try:
            yield from child.values(size, name, bounds)
        finally:
            if child.is_ready:
                _give_back(child)
            else:
                child.close()


def _values_here(parser: str, file: BinaryIO, name: str, options: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a parser yields of a file, in this process, on systems without child processes of this kind."""
    try:
        yield from _function(parser)(file, **options)
    except Unreadable as fault:
        raise _refusal(name, fault.what, fault.got, fault.hint) from None


def _refusal(name: str, what: str, got: str = "", hint: str = "") -> InputError:
    """Return the error of a reader for what was wrong with a file."""
    from wordpipe.corpus.detect_format import filled_hint  # which a child does without

    return InputError(what, where=name, got=got or None, hint=filled_hint(hint, name) or None)


def _on_disk(file: BinaryIO) -> IO[bytes]:
    """Return a file with a descriptor of its own: the same file, or a temporary copy of a file in memory."""
    try:
        return os.fdopen(os.dup(file.fileno()), "rb")
    except (OSError, AttributeError):  # of an archive, or of a program: it has none
        copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        file.seek(0)
        shutil.copyfileobj(file, copy, _BLOCK)
        copy.flush()
        return copy


class _Child:
    """A child process, and the socket to it. It serves one file at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self.owner = os.getpid()
        self._held = bytearray()  # of the next answers
        self.is_ready = True  # to be asked: it has answered the last question to its end
        self.served = 0
        with theirs:
            # isolated, as the workers of the engine are: from -c alone Python would look into the working folder first
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, *import_path()],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            )  # fmt: skip

    def has_begun(self, asked: Mapping[str, Any], file: int) -> bool:
        """Ask it to read the file of a descriptor; False if it has ended, or does not begin."""
        self.is_ready, self.served = False, self.served + 1
        try:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], [file])
        except OSError:
            return False
        return self._frame(time.monotonic() + _START_S) == (b"b", b"")

    def values(self, size: int, name: str, bounds: Bounds) -> Iterator[Any]:
        """Yield what the parser that was asked for yields of a file. Raises InputError."""
        seconds, room = bounds.seconds_of(size), bounds.text_of(size)
        until = time.monotonic() + _SLOWER * seconds
        while True:
            frame = self._frame(until)
            if frame is None:
                raise self._died(name, bounds, seconds)
            kind, data = frame
            if kind == b".":
                self.is_ready = True
                return
            if kind in (b"!", b"x"):
                self.is_ready = kind == b"!"
                raise _refusal(name, *map(str, json.loads(data)))
            room -= len(data)
            if room < 0:
                what, got = "this file looks like a bomb", f"more than {bounds.text_of(size) >> 20:,} MiB of text"
                raise _refusal(name, what, f"{got} in {size:,} bytes")
            yield json.loads(data)

    def _frame(self, until: float) -> tuple[bytes, bytes] | None:
        """Return kind and content of the next answer; None if none comes before the time `until`."""
        head = self._bytes(_HEAD.size, until)
        if head is None:
            return None
        kind, length = _HEAD.unpack(head)
        data = self._bytes(length, until) if length <= _LARGEST_FRAME else None
        return None if data is None else (kind, data)

    def _bytes(self, number: int, until: float) -> bytes | None:
        """Return so many bytes from the child; None if it ends before, or the time is over."""
        held = self._held
        while len(held) < number:
            self._socket.settimeout(max(0.01, until - time.monotonic()))
            try:
                block = self._socket.recv(_BLOCK)
            except OSError:
                return None
            if not block:
                return None
            held += block
        found = bytes(held[:number])
        del held[:number]
        return found

    def _died(self, name: str, bounds: Bounds, seconds: float) -> InputError:
        """Return the error for a file at which the child ended, or did not answer."""
        has_ended = bool(select.select([self._socket], [], [], 0)[0])
        code = self.close(gently=has_ended)
        if not has_ended or code == -signal.SIGXCPU:
            return _refusal(
                name, "reading this file takes too long, so it was stopped", f"over {seconds:.0f} s of work"
            )
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        got = f"{how}, with {bounds.memory_bytes >> 20:,} MiB of memory"
        return _refusal(name, "the program that reads this kind of file crashed", got)

    def close(self, *, gently: bool = False) -> int:
        """End the child, and return its exit code."""
        self.is_ready = False
        self._socket.close()
        if self.owner != os.getpid():  # a copy of the process that started it
            return 0
        if gently:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(5)
        self._process.kill()
        return self._process.wait()

    def is_alive(self) -> bool:
        """True if it can be asked: of this process, not ended, and no answer is waiting."""
        if self.owner != os.getpid() or self._process.poll() is not None:
            return False
        return not select.select([self._socket], [], [], 0)[0]  # it has closed its side, as it ends


_idle: list[_Child] = []
_lock = threading.Lock()


def _taken() -> _Child:
    """Return an idle child process, or a new one."""
    while True:
        with _lock:
            child = _idle.pop() if _idle else None
        if child is None:
            return _Child()
        if child.is_alive():
            return child
        child.close()


def _asked(question: Mapping[str, Any], file: int, name: str) -> _Child:
    """Return a child that reads the file of a descriptor. Raises InputError: no child begins."""
    for _ in range(_TRIES):
        child = _taken()
        if child.has_begun(question, file):
            return child
        code = child.close()  # it ended while it waited
    raise _refusal(name, "the process that reads this kind of file does not start", f"exit code {code}")


def _give_back(child: _Child) -> None:
    """Let a child wait for the next file."""
    if child.served >= _MOST_FILES or child.owner != os.getpid():
        child.close()
        return
    with _lock:
        _idle.append(child)


@atexit.register
def end_children() -> None:
    """End the children that wait for files."""
    with _lock:
        children = [*_idle]
        _idle.clear()
    for child in children:
        child.close()


# the child


def serve() -> None:
    """Run a child: read one file after the other, as the socket asks, which is its standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # that process has ended: so does this one
    asked = socket.socket(fileno=os.dup(0))
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    asked.settimeout(_IDLE_S)
    while True:
        try:
            message, files, _, _ = socket.recv_fds(asked, _BLOCK, 1)
        except TimeoutError:
            return
        if not files:
            return
        asked.settimeout(None)
        with os.fdopen(files[0], "rb", buffering=0) as raw:
            if not _answer(asked, raw, json.loads(message)):
                return
        asked.settimeout(_IDLE_S)


def _answer(asked: socket.socket, file: Any, question: Mapping[str, Any]) -> bool:
    """Run a parser in the child, and send its values, or what is wrong with the file. False: the child must end."""
    function = _function(question["parser"])
    asked.sendall(_frame(b"b", None))
    _limit(question["seconds"], question["memory"])
    try:
        file.seek(0)
        frames = bytearray()
        for value in function(file, **question["options"]):
            frames += _frame(b"v", value)
            if len(frames) >= _AT_ONCE:
                asked.sendall(frames)
                frames.clear()
        asked.sendall(frames + _frame(b".", None))
    except Unreadable as fault:
        asked.sendall(_frame(b"!", [fault.what, fault.got, fault.hint]))
    except MemoryError:
        got = f"more than {question['memory'] >> 20:,} MiB"
        asked.sendall(_frame(b"x", ["reading this file takes too much memory, so it was stopped", got, ""]))
        return False  # what the parser has left may fill the memory
    except RecursionError:
        asked.sendall(_frame(b"!", ["the file is nested too deeply", "", ""]))
    except Exception as error:  # noqa: BLE001 - a damaged file may make a parser raise anything; it costs the file
        asked.sendall(_frame(b"!", ["the file is damaged", f"{type(error).__name__}: {error}"[:200], ""]))
    return True


def _frame(kind: bytes, value: Any) -> bytes:
    """Return a value as a frame that the child sends."""
    data = b"" if value is None else json.dumps(value).encode()
    return _HEAD.pack(kind, len(data)) + data


def _function(named: str) -> Parser:
    """Return the parser that "module:function" names."""
    from importlib import import_module

    module, _, name = named.partition(":")
    function: Parser = getattr(import_module(module), name)
    return function


def _limit(seconds: float, memory: int) -> None:
    """Bound what the child may use for the next file: time of the processor, memory, no file, no dump of its memory."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError, ValueError):  # macOS has no such bound
        resource.setrlimit(resource.RLIMIT_AS, (_space() + memory, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _space() -> int:
    """Return the bytes of address space that the child has now; 4 GiB where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  (pathlib takes time)
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 4 << 30
