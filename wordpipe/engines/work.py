"""The work of a stage, shard by shard, and what every engine does with it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from time import monotonic
from typing import Any, Literal, Protocol

from wordpipe.errors import ConfigError
from wordpipe.runtime import Progress, Report, cpu_count

EngineName = Literal["local", "ray"]


class ShardWork(Protocol):
    """What is done with each shard: a pure function of its fields and the shard's number, which leaves its result in files.

    It is sent to other processes, so its fields are plain values and paths. A shard that is begun again gives the same files.

    Attributes:
        phase: what progress calls it.
        unit: what progress counts.
        memory_bytes: the peak memory of a process with one thread that does it, measured.
        side_by_side: in one process every thread makes a shard of its own; else all threads make one shard together.
        gpus: of a machine, that a process needs: 0 or 1.
        libraries: what has to have the same versions everywhere, for the same bytes.
    """

    @property
    def phase(self) -> str:
        """See the class."""
        ...

    @property
    def unit(self) -> str:
        """See the class."""
        ...

    @property
    def memory_bytes(self) -> int:
        """See the class."""
        ...

    @property
    def side_by_side(self) -> bool:
        """See the class."""
        ...

    @property
    def gpus(self) -> int:
        """See the class."""
        ...

    @property
    def libraries(self) -> tuple[str, ...]:
        """See the class."""
        ...

    def size_of(self, number: int) -> int:
        """How many units a shard has."""
        ...

    def prepare(self, threads: int, stack: ExitStack, opened: Any = None) -> Any:
        """What all shards need: made once in each process or thread, and used by one shard at a time.

        Args:
            threads: that make a shard together.
            stack: closes it.
            opened: what this process has open already, where it is the one that was started.
        """
        ...

    def make(self, number: int, state: Any, on_units: "OnUnits") -> None:
        """Make the files of a shard.

        Args:
            number: of the shard.
            state: what `prepare` gave.
            on_units: called with how many units of the shard are done; what it raises ends the work.
        """
        ...


class OnUnits(Protocol):
    """Hears how many units of a shard are done."""

    def __call__(self, done: int, /) -> None:
        """So many."""


class Engine(Protocol):
    """Makes shards."""

    def make(self, work: ShardWork, numbers: Sequence[int], said: "Said", opened: Any = None) -> None:
        """Make the files of all these shards, in no promised order.

        Args:
            work: what is done.
            numbers: of the shards.
            said: hears of the progress.
            opened: see `ShardWork.prepare`; for shards that are made in this process.

        Raises:
            PeerError: a process that makes a shard died three times.
            BudgetError: no machine has the memory for a shard.
            WordpipeError: what a shard raised.
        """
        ...


class Said:
    """The progress of some shards.

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
        """So many are done since it began."""
        rate = done / max(monotonic() - self._begun, 1e-9)
        values = {f"{self._work.unit}/s": f"{rate:,.0f}"} if done else {}
        self._report(Progress(self._work.phase, self._before + done, self._total or None, self._work.unit, values))

    def note(self, text: str) -> None:
        """A line for the screen."""
        self._report(Progress("note", note=text))


@dataclass(frozen=True)
class EngineOptions:
    """Which engine, and how large.

    Attributes:
        engine: `local` or `ray`.
        address: of a running Ray cluster; None: one is started on this machine, and ends with the work.
        workers: threads or processes; None: one for each processor.
    """

    engine: EngineName = "local"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise ConfigError("no such engine", where="--engine", got=self.engine, expected="local or ray")
        if self.workers is not None and self.workers < 1:
            raise ConfigError("too few workers", where="--workers", got=self.workers, expected="1 or more")
        if self.address is not None and self.engine != "ray":
            hint = "add --engine ray, or leave the address out"
            raise ConfigError("only Ray has an address", where="--address", got=self.address, hint=hint)
        if self.engine == "ray" and not _is_installed("ray"):
            hint = "pip install 'wordpipe[ray]'"
            raise ConfigError("Ray is not installed", where="--engine", got="ray", hint=hint)

    @property
    def threads(self) -> int:
        """How many threads work on a shard."""
        if self.engine == "ray":
            return 1
        return self.workers or cpu_count()


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # something stands in its place
        return False


@contextmanager
def open_engine(options: EngineOptions, report: Report) -> Iterator[Engine]:
    """The engine of these options; what it started has ended when the block ends, however it ends.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers at the address.
    """
    if options.engine == "local":
        from wordpipe.engines.local import LocalEngine

        yield LocalEngine(options.threads)
        return
    from wordpipe.engines.on_ray import ray_engine

    with ray_engine(options, report) as engine:
        yield engine
