"""The engine that makes the shards of a stage: its name, its size, and how it is opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from wordpipe.engines.shard_work import Engine
from wordpipe.errors import ConfigError
from wordpipe.runtime import Report, cpu_count
from wordpipe.storage import refuse_controls

EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class EngineOptions:
    """The choice of an engine and its size: local or Ray, address, number of workers.

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
            raise ConfigError("unknown engine", where="--engine", got=self.engine, expected="local or ray")
        if self.workers is not None and self.workers < 1:
            raise ConfigError("too few workers", where="--workers", got=self.workers, expected="1 or more")
        if self.address is not None and self.engine != "ray":
            hint = "add --engine ray, or remove --address"
            raise ConfigError(
                "--address can only be used with --engine ray", where="--address", got=self.address, hint=hint
            )
        refuse_controls(self.address or "", "--address")
        if self.engine == "ray" and not _is_installed("ray"):
            hint = "pip install 'wordpipe[ray]'"
            raise ConfigError("Ray is not installed", where="--engine", got="ray", hint=hint)

    @property
    def threads(self) -> int:
        """The number of threads that work on a shard."""
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
    """Open the engine that the options name; all that it started has ended when the block ends.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers at the address.
    """
    if options.engine == "local":
        from wordpipe.engines.local import LocalEngine

        yield LocalEngine(options.threads)
        return
    from wordpipe.engines.on_ray import ray_engine

    with ray_engine(options.address, options.workers, report) as engine:
        yield engine
