"""The engine of one machine: threads that work on one shard together, or each on its own; or a process for each shard.

Worker processes are for shards that Python itself makes: its threads would wait for each other. A worker is this Python again.
Work and numbers of shards go to it through a pipe, and it says how far it is, that a shard is done, or which error it met. A
worker that dies is named, and its shard goes to a new one: twice, as what kills a process three times is the work itself.
(`multiprocessing.Process` would run the program once more that called us, where that is a script without
`if __name__ == "__main__"`.)
"""

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

from wordpipe.engines.shard_work import TRIES, EndedError, OnUnits, ShardProgress, ShardWork, error_of_parts, parts_of
from wordpipe.errors import PeerError, WordpipeError
from wordpipe.lazy import import_path
from wordpipe.runtime import memory_bytes

State = TypeVar("State")

_WAIT_S = 0.2  # between looks at what is done
_CODE = "import sys; sys.path[:] = sys.argv[2:]; from wordpipe.engines.local import serve; serve()"


@dataclass(frozen=True)
class LocalEngine:
    """The engine that makes shards on this machine, in threads or in worker processes.

    Attributes:
        threads: that work.
    """

    threads: int

    def make(self, work: ShardWork, numbers: Sequence[int], progress: ShardProgress, opened: Any = None) -> None:
        """Make shards in threads or worker processes of this machine; see `Engine.make`."""
        with ExitStack() as stack:
            n_threads = min(self.threads, len(numbers))
            # in worker processes, as many as there is memory for
            if work.in_processes and n_threads > 1 and os.name == "posix":
                room = max(1, memory_bytes() // work.memory_bytes) if memory_bytes() else n_threads
                workers = [WorkerProcess(work, progress.note) for _ in range(min(n_threads, room))]
                for worker in workers:
                    stack.callback(worker.close)

                def stop() -> None:
                    for worker in workers:
                        worker.stop()

                _make_side_by_side(WorkerProcess.make, work.size_of, numbers, workers, progress, stop)
                return
            # in threads, each with a shard of its own
            if work.side_by_side and n_threads > 1:
                states = [work.prepare(1, stack, opened) for _ in range(n_threads)]
                make = lambda state, number, on_units: work.make(number, state, on_units)  # noqa: E731
                _make_side_by_side(make, work.size_of, numbers, states, progress)
                return
            # one shard after the other, all threads on the same one
            state, done = work.prepare(1 if work.side_by_side else self.threads, stack, opened), 0
            for number in numbers:
                work.make(number, state, lambda units, first=done: progress.units(first + units))
                done += work.size_of(number)
                progress.units(done)


def _make_side_by_side(
    make: Callable[[State, int, OnUnits], None], size_of: Callable[[int], int], numbers: Sequence[int],
    states: Sequence[State], progress: ShardProgress, stop: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Make shards in several threads, each one shard after the other with a state of its own.

    Args:
        make: makes the shard of a number, and reports how many of its units are done.
        size_of: units of a shard.
        numbers: of the shards.
        states: one for each thread.
        progress: hears how far they are.
        stop: called when no more is wanted; ends what the threads wait for.
    """
    # a state for each thread that works
    free: SimpleQueue[State] = SimpleQueue()
    for state in states:
        free.put(state)
    done, leaving = dict.fromkeys(numbers, 0), threading.Event()

    def make_one(number: int) -> None:
        """Make one shard in a thread of this machine."""
        # each thread counts the units of its shard, and stops when the others have

        def on_units(units: int) -> None:
            done[number] = units
            if leaving.is_set():
                raise EndedError

        # a state that no other thread uses meanwhile
        state = free.get()
        try:
            make(state, number, on_units)
        finally:
            free.put(state)
        done[number] = size_of(number)

    # wait for the shards, and report how far they are
    with ThreadPoolExecutor(len(states)) as pool:
        waiting: set[Future[None]] = {pool.submit(make_one, number) for number in numbers}
        try:
            while waiting:
                ended, waiting = wait(waiting, _WAIT_S, FIRST_COMPLETED)
                # an error of a shard is raised here
                for one in ended:
                    one.result()
                progress.units(sum(done.values()))
        finally:
            # no more is wanted: end what the threads wait for
            leaving.set()
            stop()
            for one in waiting:
                one.cancel()


class WorkerProcess:
    """A worker process that makes one shard after the other, started for the first shard; used by one thread.

    Args:
        work: what is done.
        note: hears of a process that died.
    """

    def __init__(self, work: ShardWork, note: Callable[[str], None]) -> None:
        self._work, self._note = work, note
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._stopped = False

    def make(self, number: int, on_units: OnUnits) -> None:
        """Make a shard in a worker process of this machine, again if the process dies; see `ShardWork.make`.

        Raises:
            PeerError: the process died three times.
            EndedError: it was stopped.
            WordpipeError: what the shard raised.
        """
        where = f"the process for shard {number} of the phase {self._work.phase}"
        for tries in range(TRIES):
            if (said := self._made_once(number, on_units)) is None:
                return
            if self._stopped:
                raise EndedError
            if tries < TRIES - 1:
                self._note(f"{where} died ({said}), so a new process makes the shard again")
        hint = "the machine may have too little memory: use fewer --workers"
        raise PeerError(f"{where} died {TRIES} times", got=said, hint=hint)

    def stop(self) -> None:
        """End the worker process in the middle of its work; any thread may call this."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def _made_once(self, number: int, on_units: OnUnits) -> str | None:
        """Make a shard once; return how the worker process died, or None."""
        try:
            pipe = self._pipe or self._start()
            pipe.send(number)
            while True:
                kind, value = pipe.recv()
                if kind == "units":
                    on_units(value)
                elif kind == "error":
                    raise error_of_parts(value)
                elif kind == "raised":
                    raise value
                else:
                    return None
        except (EOFError, ConnectionError):
            return _death(self.close())

    def _start(self) -> Connection:
        """Start the worker process on this machine, send the work, and return the pipe to the process."""
        ours, theirs = Pipe()
        self._pipe = ours
        with theirs:
            # isolated: the folders of this process say where wordpipe is, and before they do nothing but `sys` is imported;
            # from -c alone Python would look into the working folder first, where the texts of others may lie
            command = [sys.executable, "-P", "-c", _CODE, str(theirs.fileno()), *import_path()]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()],
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            )  # fmt: skip
        if self._stopped:  # in the meantime
            self._process.kill()
        ours.send(self._work)
        return ours

    def close(self) -> int:
        """End the worker process and return its exit code; for its own thread, or when no thread uses the process."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if pipe is not None:
            pipe.close()
        if process is None:
            return 0
        process.kill()
        return process.wait()


def _death(code: int) -> str:
    """Return in words how a worker process ended: its signal or its exit code."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def serve() -> None:
    """Run a worker process: make shards until no more numbers come through the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that was started
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # that process has died: so does this one
    pipe, state = Connection(int(sys.argv[1])), None
    with ExitStack() as stack, suppress(EOFError):
        work: ShardWork = pipe.recv()
        while True:
            number = pipe.recv()
            try:
                state = work.prepare(1, stack) if state is None else state
                work.make(number, state, lambda units: pipe.send(("units", units)))
            except WordpipeError as error:
                pipe.send(("error", parts_of(error)))
            except Exception as error:  # noqa: BLE001 - it is raised where the shard is wanted
                error.add_note("".join(traceback.format_exception(error)))
                pipe.send(("raised", error))
            else:
                pipe.send(("made", None))
