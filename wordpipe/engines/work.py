"""The work of a stage, shard by shard, and what every engine does with it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from wordpipe.errors import ConfigError
from wordpipe.runtime import Report, cpu_count

EngineName = Literal["local", "ray"]


class ShardWork(Protocol):
    """What is done with each shard: a pure function of its fields and the shard's number, which leaves its result in files.

    It is sent to other processes, so its fields are plain values and paths. A shard that is begun again gives the same files.

    Attributes:
        phase: what progress calls it.
        unit: what progress counts.
        memory_bytes: the peak memory of a process with one thread that does it, measured.
        side_by_side: in one process every thread makes a shard of its own, as the bytes or the speed ask for it; else all
            threads make one shard together.
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

    def size_of(self, number: int) -> int:
        """How many units a shard has."""
        ...

    def prepare(self, threads: int, stack: ExitStack) -> Any:
        """What all shards need: made once in each process or thread, used by one shard at a time, closed with the stack."""
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

    def make(self, work: ShardWork, numbers: Sequence[int], report: Report, before: int = 0, total: int = 0) -> None:
        """Make the files of all these shards, in no promised order.

        Args:
            work: what is done.
            numbers: of the shards.
            report: hears of the progress.
            before: units that were done before.
            total: units of all.

        Raises:
            PeerError: a process that makes a shard died three times.
            BudgetError: no machine has the memory for a shard.
            WordpipeError: what a shard raised.
        """
        ...


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

    @property
    def threads(self) -> int:
        """How many threads work on a shard."""
        if self.engine == "ray":
            return 1
        return self.workers or cpu_count()


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
