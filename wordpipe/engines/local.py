"""The engine of one process: shard after shard, each with all threads."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from wordpipe.engines.work import ShardWork
from wordpipe.runtime import Progress, Report


@dataclass(frozen=True)
class LocalEngine:
    """See `Engine`.

    Attributes:
        threads: that work on a shard.
    """

    threads: int

    def make(self, work: ShardWork, numbers: Sequence[int], report: Report, before: int = 0, total: int = 0) -> None:
        """See `Engine.make`; in order."""
        if not numbers:
            return
        done = before
        with ExitStack() as stack:
            state = work.prepare(self.threads, stack)
            for number in numbers:
                first = done

                def on_units(units: int, first: int = first) -> None:
                    report(Progress(work.phase, first + units, total or None, work.unit))

                work.make(number, state, on_units)
                done += work.size_of(number)
                report(Progress(work.phase, done, total or None, work.unit))
