"""The engine of one process: its threads work on one shard together, or each on a shard of its own."""

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from wordpipe.engines.work import ShardProgress, ShardWork

_WAIT_S = 0.2  # between looks at what is done


class _LeftError(Exception):
    """The work ends, and this shard is not wanted any more."""


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
            if work.side_by_side and n_threads > 1:
                _make_side_by_side(work, numbers, [work.prepare(1, stack, opened) for _ in range(n_threads)], progress)
                return
            state, done = work.prepare(1 if work.side_by_side else self.threads, stack, opened), 0
            for number in numbers:
                work.make(number, state, lambda units, first=done: progress.units(first + units))
                done += work.size_of(number)
                progress.units(done)


def _make_side_by_side(work: ShardWork, numbers: Sequence[int], states: Sequence[Any], progress: ShardProgress) -> None:
    """Each thread makes one shard after the other, with a state of its own."""
    free: SimpleQueue[Any] = SimpleQueue()
    for state in states:
        free.put(state)
    done, leaving = dict.fromkeys(numbers, 0), threading.Event()

    def make(number: int) -> None:
        def on_units(units: int) -> None:
            done[number] = units
            if leaving.is_set():
                raise _LeftError

        state = free.get()
        try:
            work.make(number, state, on_units)
        finally:
            free.put(state)
        done[number] = work.size_of(number)

    with ThreadPoolExecutor(len(states)) as pool:
        waiting: set[Future[None]] = {pool.submit(make, number) for number in numbers}
        try:
            while waiting:
                ended, waiting = wait(waiting, _WAIT_S, FIRST_COMPLETED)
                for one in ended:
                    one.result()
                progress.units(sum(done.values()))
        finally:
            leaving.set()
            for one in waiting:
                one.cancel()
