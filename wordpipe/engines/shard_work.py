"""The work of a stage, shard by shard, and the interface of every engine."""

from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic
from typing import Any, Protocol

from wordpipe.errors import WordpipeError
from wordpipe.runtime import Progress, Report

TRIES = 3  # of a shard, whose processes die


class ShardWork(Protocol):
    """The work on each shard: a pure function of its fields and the shard's number, which leaves its result in files.

    It is sent to other processes, so its fields are plain values and paths. A shard that is begun again gives the same files.
    """

    @property
    def phase(self) -> str:
        """The name of the work, which progress shows."""
        ...

    @property
    def unit(self) -> str:
        """The unit that progress counts, such as `sentences`."""
        ...

    @property
    def memory_bytes(self) -> int:
        """The memory that a process with one thread is expected to need at its peak."""
        ...

    @property
    def side_by_side(self) -> bool:
        """True if every thread of a process makes a shard of its own; else all threads make one shard together."""
        ...

    @property
    def in_processes(self) -> bool:
        """True if Python itself does the work, so that on one machine each shard is made by a process of its own."""
        ...

    @property
    def gpus(self) -> int:
        """GPUs of a machine that a process needs: 0 or 1."""
        ...

    @property
    def libraries(self) -> tuple[str, ...]:
        """Libraries that must have the same versions on all machines, for the same bytes."""
        ...

    def size_of(self, number: int) -> int:
        """Return the number of units in a shard."""
        ...

    def prepare(self, threads: int, stack: ExitStack, opened: Any = None) -> Any:
        """Make what all shards of a stage's work need, once in each process or thread; one shard uses it at a time.

        Args:
            threads: that make a shard together.
            stack: closes it.
            opened: what this process has open already, where it is the one that was started.
        """
        ...

    def make(self, number: int, state: Any, on_units: "OnUnits") -> None:
        """Make the files of a shard of a stage's work.

        Args:
            number: of the shard.
            state: what `prepare` gave.
            on_units: called with how many units of the shard are done; what it raises ends the work.
        """
        ...


class EndedError(Exception):
    """Raised in a shard's work to end it: the shard is not wanted any more."""


class OnUnits(Protocol):
    """A function that hears how many units of a shard are done."""

    def __call__(self, done: int, /) -> None:
        """Take the number of units of the shard that are done."""


class Engine(Protocol):
    """The interface of an engine, which makes the shards of a stage."""

    def make(self, work: ShardWork, numbers: Sequence[int], progress: "ShardProgress", opened: Any = None) -> None:
        """Make the files of all these shards of a stage's work, in no promised order.

        Args:
            work: what is done.
            numbers: of the shards.
            progress: hears how far they are.
            opened: see `ShardWork.prepare`; for shards that are made in this process.

        Raises:
            PeerError: a process that makes a shard died three times.
            BudgetError: no machine has the memory for a shard.
            WordpipeError: what a shard raised.
        """
        ...


class ShardProgress:
    """The progress over the shards of a stage, reported in units per second.

    Args:
        work: what is done.
        report: hears of it.
        before: units that were done before.
        total: units of all.
    """

    def __init__(self, work: ShardWork, report: Report, before: int, total: int) -> None:
        self._work, self._before, self._total = work, before, total
        self._report, self._begun = report, monotonic()

    def units(self, done: int) -> None:
        """Report how many units are done since the work on the shards began."""
        rate = done / max(monotonic() - self._begun, 1e-9)
        values = {f"{self._work.unit}/s": f"{rate:,.0f}"} if done else {}
        self._report(Progress(self._work.phase, self._before + done, self._total or None, self._work.unit, values))

    def note(self, text: str) -> None:
        """Show a line on the screen."""
        self._report(Progress("note", note=text))


def parts_of(error: WordpipeError) -> dict[str, Any]:
    """Return an error as plain values, to send it to another process; see `error_of_parts`."""
    parts = {name: getattr(error, name) for name in ("where", "got", "expected", "hint")}
    texts = {name: None if part is None else str(part) for name, part in parts.items()}
    return {"class": type(error).__name__, "what": error.what, **texts}


def error_of_parts(parts: dict[str, Any]) -> WordpipeError:
    """Return the error of shard work whose parts `parts_of` gave in another process."""
    from wordpipe import errors

    kind = getattr(errors, parts["class"])
    made: WordpipeError = kind(parts["what"], **{name: parts[name] for name in ("where", "got", "expected", "hint")})
    return made
