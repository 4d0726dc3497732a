"""The engine of one process: its threads work on one shard together, or each on a shard of its own."""

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from wordpipe.engines.work import ShardWork
from wordpipe.runtime import Progress, Report

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

    def make(self, work: ShardWork, numbers: Sequence[int], report: Report, before: int = 0, total: int = 0) -> None:
        """See `Engine.make`."""

        def say(done: int) -> None:
            report(Progress(work.phase, done, total or None, work.unit))

        if not numbers:
            return
        with ExitStack() as stack:
            if work.side_by_side:
                _make_side_by_side(
                    work, numbers, min(self.threads, len(numbers)), stack, lambda done: say(before + done)
                )
                return
            state, done = work.prepare(self.threads, stack), before
            for number in numbers:
                work.make(number, state, lambda units, first=done: say(first + units))
                done += work.size_of(number)
                say(done)


def _make_side_by_side(work: ShardWork, numbers: Sequence[int], n_threads: int, stack: ExitStack, say: Any) -> None:
    """Each thread makes one shard after the other."""
    states: SimpleQueue[Any] = SimpleQueue()
    for _ in range(n_threads):
        states.put(work.prepare(1, stack))
    done, leaving = dict.fromkeys(numbers, 0), threading.Event()

    def make(number: int) -> None:
        def on_units(units: int) -> None:
            done[number] = units
            if leaving.is_set():
                raise _LeftError

        state = states.get()
        try:
            work.make(number, state, on_units)
        finally:
            states.put(state)
        done[number] = work.size_of(number)

    with ThreadPoolExecutor(n_threads) as pool:
        waiting: set[Future[None]] = {pool.submit(make, number) for number in numbers}
        try:
            while waiting:
                ended, waiting = wait(waiting, _WAIT_S, FIRST_COMPLETED)
                for one in ended:
                    one.result()
                say(sum(done.values()))
        finally:
            leaving.set()
            for one in waiting:
                one.cancel()
