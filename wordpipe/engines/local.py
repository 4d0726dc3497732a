"""The engine of one machine: threads that work on one shard together, or each on its own; or a process for each shard."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from wordpipe.engines.work import EndedError, OnUnits, ShardProgress, ShardWork
from wordpipe.runtime import memory_bytes

State = TypeVar("State")

_WAIT_S = 0.2  # between looks at what is done


@dataclass(frozen=True)
class LocalEngine:
    """See `Engine`.

    Attributes:
        threads: that work.
    """

    threads: int

    def make(self, work: ShardWork, numbers: Sequence[int], progress: ShardProgress, opened: Any = None) -> None:
        """See `Engine.make`."""
        with ExitStack() as stack:
            n_threads = min(self.threads, len(numbers))
            if work.in_processes and n_threads > 1 and os.name == "posix":
                from wordpipe.engines.processes import WorkerProcess

                room = max(1, memory_bytes() // work.memory_bytes) if memory_bytes() else n_threads
                workers = [WorkerProcess(work, progress.note) for _ in range(min(n_threads, room))]
                for worker in workers:
                    stack.callback(worker.close)

                def stop() -> None:
                    for worker in workers:
                        worker.stop()

                _make_side_by_side(WorkerProcess.make, work.size_of, numbers, workers, progress, stop)
                return
            if work.side_by_side and n_threads > 1:
                states = [work.prepare(1, stack, opened) for _ in range(n_threads)]
                make = lambda state, number, on_units: work.make(number, state, on_units)  # noqa: E731
                _make_side_by_side(make, work.size_of, numbers, states, progress)
                return
            state, done = work.prepare(1 if work.side_by_side else self.threads, stack, opened), 0
            for number in numbers:
                work.make(number, state, lambda units, first=done: progress.units(first + units))
                done += work.size_of(number)
                progress.units(done)


def _make_side_by_side(
    make: Callable[[State, int, OnUnits], None], size_of: Callable[[int], int], numbers: Sequence[int],
    states: Sequence[State], progress: ShardProgress, stop: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Each thread makes one shard after the other, with a state of its own.

    Args:
        make: makes the shard of a number, and reports how many of its units are done.
        size_of: units of a shard.
        numbers: of the shards.
        states: one for each thread.
        progress: hears how far they are.
        stop: called when no more is wanted; ends what the threads wait for.
    """
    free: SimpleQueue[State] = SimpleQueue()
    for state in states:
        free.put(state)
    done, leaving = dict.fromkeys(numbers, 0), threading.Event()

    def make_one(number: int) -> None:
        def on_units(units: int) -> None:
            done[number] = units
            if leaving.is_set():
                raise EndedError

        state = free.get()
        try:
            make(state, number, on_units)
        finally:
            free.put(state)
        done[number] = size_of(number)

    with ThreadPoolExecutor(len(states)) as pool:
        waiting: set[Future[None]] = {pool.submit(make_one, number) for number in numbers}
        try:
            while waiting:
                ended, waiting = wait(waiting, _WAIT_S, FIRST_COMPLETED)
                for one in ended:
                    one.result()
                progress.units(sum(done.values()))
        finally:
            leaving.set()
            stop()
            for one in waiting:
                one.cancel()
