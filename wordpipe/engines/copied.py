"""A copy of this process that works beside it: what one of them reads, the other counts meanwhile.

The copy is made by fork, and begins at once with all that was imported; a Python of its own, as workers have (`local.py`),
takes a quarter of a second to come so far, which is as much as such work takes for a megabyte. Only a command of ours on
Linux is copied: the threads that it has, one that waits for stop signals and those of libraries that wait for work, hold no
lock. In a program that only imports us others may, and on macOS what the system's libraries do in a copy is undefined.

Whoever starts a copy is able to do the work itself: a copy that cannot be made, or dies, gives None.
"""

import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import BufferedReader, BufferedWriter
from queue import Queue
from typing import NoReturn, Self

import pyarrow as pa

from wordpipe.runtime import STOP_SIGNALS, is_command

Named = Iterable[tuple[str, bytes]]
Work = Callable[[Iterator[pa.RecordBatch]], Named]

_WAITING = 8  # batches that may wait for the copy


class CopiedProcess:
    """A copy of this process, which does some work on batches of rows as they come; used within a `with` block.

    Args:
        pid: of the copy.
        to_copy: the end of a pipe, into which the batches are written.
        from_copy: the end of another one, out of which the results come.
    """

    def __init__(self, pid: int, to_copy: int, from_copy: int) -> None:
        self._pid = pid
        self._results = os.fdopen(from_copy, "rb")
        self._queue = Queue[pa.RecordBatch | None](_WAITING)
        self._sender = threading.Thread(target=self._send_all, args=(os.fdopen(to_copy, "wb"),), daemon=True)
        self._sender.start()

    @classmethod
    def of(cls, work: Work) -> Self | None:
        """Copy this process for some work; None where that cannot be done, or there is no processor for the copy.

        Args:
            work: from batches, all of one schema, to names and contents. It prints nothing, and finds no open file.
        """
        if sys.platform != "linux" or not is_command() or len(os.sched_getaffinity(0)) < 2:
            return None
        (batches, to_copy), (from_copy, results) = os.pipe(), os.pipe()
        try:
            if not (pid := os.fork()):
                _work_as_copy(work, batches, results)
        except OSError:  # too little memory, too many processes
            for end in (to_copy, from_copy):
                os.close(end)
            return None
        finally:
            for end in (batches, results):
                os.close(end)
        return cls(pid, to_copy, from_copy)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the copy, whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._queue.put(None)
        self._sender.join()
        self._results.close()

    def send(self, batch: pa.RecordBatch) -> None:
        """Give a batch to the copy."""
        self._queue.put(batch)

    def result(self) -> dict[str, bytes] | None:
        """Return what the copy gives for all batches that were sent; None if it died."""
        self._queue.put(None)
        found: dict[str, bytes] = {}
        for line in self._results:
            name, size = json.loads(line)
            if name is None:
                return found
            found[name] = self._results.read(size)
        return None

    def _send_all(self, pipe: BufferedWriter) -> None:
        """Write all batches that are sent into the pipe; if the copy has died, take them and write nothing."""
        batch = self._queue.get()
        with suppress(OSError), pipe:
            if batch is not None:
                with pa.ipc.new_stream(pipe, batch.schema) as stream:
                    while batch is not None:
                        stream.write_batch(batch)
                        batch = self._queue.get()
        while batch is not None:
            batch = self._queue.get()


def _work_as_copy(work: Work, batches: int, results: int) -> NoReturn:
    """Be the copy: work, write the results, and end without a word; nothing of this process is the copy's to tidy up."""
    with suppress(BaseException):  # the other process does the work again, and says what it met
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        last = 2
        for kept in (*sorted([batches, results]), 1 << 16):  # locks and files of the other are not held open
            os.closerange(last + 1, kept)
            last = kept
        with os.fdopen(batches, "rb") as given, os.fdopen(results, "wb") as file:
            received = _received(given)
            found = [*work(received)]
            deque(received, 0)  # what is left: nobody listens to results before all batches are sent
            for name, data in found:
                file.write(json.dumps([name, len(data)]).encode() + b"\n")
                file.write(data)
            file.write(b"[null, 0]\n")
    while True:
        os.kill(os.getpid(), signal.SIGKILL)


def _received(pipe: BufferedReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches that come."""
    if pipe.peek(1):
        with pa.ipc.open_stream(pipe) as stream:
            yield from stream
