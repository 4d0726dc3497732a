"""The engine of a Ray cluster: shards as tasks of one processor each, wherever there is room (Moritz et al. 2018).

The driver keeps a few tasks for each processor under way and hears of each that ends. One whose process died is sent again, to
another process: twice, as what kills a process three times is the work itself. A task leaves files and gives back nothing but
the error that it met, if it met one. Ray's own retries are off, as they would be silent.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from wordpipe.engines.work import EngineOptions, ShardWork
from wordpipe.errors import BudgetError, ConfigError, PeerError, WordpipeError
from wordpipe.runtime import Progress, Report, cpu_count

_TRIES = 3
_UNDER_WAY = 2  # tasks for each processor, so that none waits for the driver
_WAIT_S = 0.5  # between looks at a stop signal


@dataclass(frozen=True)
class RayEngine:
    """See `Engine`.

    Attributes:
        workers: processors that are used.
    """

    workers: int

    def make(self, work: ShardWork, numbers: Sequence[int], report: Report, before: int = 0, total: int = 0) -> None:
        """See `Engine.make`."""
        ray = _ray()
        _refuse_too_large(work, ray.nodes())
        task = ray.remote(_made).options(
            num_cpus=1, memory=work.memory_bytes, max_retries=0, name=f"wordpipe {work.phase}"
        )
        shared = ray.put(work)
        waiting, tries, done = [*reversed(numbers)], dict.fromkeys(numbers, 0), before
        under_way: dict[Any, int] = {}
        report(Progress(work.phase, done, total or None, work.unit))
        try:
            while waiting or under_way:
                while waiting and len(under_way) < _UNDER_WAY * self.workers:
                    number = waiting.pop()
                    under_way[task.remote(shared, number)] = number
                ended, _ = ray.wait([*under_way], timeout=_WAIT_S)
                for one in ended:
                    number = under_way.pop(one)
                    error = _error_of(one)
                    if isinstance(error, WordpipeError):
                        raise error
                    if error is None:
                        done += work.size_of(number)
                        report(Progress(work.phase, done, total or None, work.unit))
                        continue
                    tries[number] += 1
                    said = f"the process with shard {number} of {work.phase} died"
                    if tries[number] == _TRIES:
                        hint = "its machine may lack memory: fewer --workers; `ray logs` has what it wrote last"
                        raise PeerError(f"{said} {_TRIES} times", got=error, hint=hint)
                    report(Progress("note", note=f"{said} ({error}): the shard is made again"))
                    waiting.append(number)
        finally:
            for one in under_way:
                ray.cancel(one, force=True)


_KEPT: list[tuple[ShardWork, Any, ExitStack]] = []  # the work that this process did last, and what it prepared for that


def _made(work: ShardWork, number: int) -> dict[str, Any] | None:
    """Make a shard in a process of Ray's; the parts of the error that it met."""
    from wordpipe import errors

    try:
        if not _KEPT or _KEPT[0][0] != work:
            for _, _, before in _KEPT:
                before.close()
            _KEPT.clear()
            stack = ExitStack()
            _KEPT.append((work, work.prepare(1, stack), stack))
        work.make(number, _KEPT[0][1], lambda _: None)
    except errors.WordpipeError as error:
        parts = {name: getattr(error, name) for name in ("where", "got", "expected", "hint")}
        texts = {name: None if part is None else str(part) for name, part in parts.items()}
        return {"class": type(error).__name__, "what": error.what, **texts}
    return None


def _error_of(one: Any) -> WordpipeError | str | None:
    """What became of a task: nothing wrong; an error of ours; or what killed its process.

    Raises:
        OSError, MemoryError, …: what the task raised, if it is none of ours.
    """
    from wordpipe import errors

    ray = _ray()
    try:
        found = ray.get(one)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        return type(error).__name__
    if found is None:
        return None
    kind, what = getattr(errors, found.pop("class")), found.pop("what")
    made: WordpipeError = kind(what, **found)
    return made


def _refuse_too_large(work: ShardWork, nodes: Sequence[dict[str, Any]]) -> None:
    """Refuse what no machine has the memory for: Ray would wait for one for ever."""
    most = max((node["Resources"].get("memory", 0) for node in nodes if node["Alive"]), default=0)
    if work.memory_bytes > most:
        raise BudgetError(
            f"no machine of the cluster has the memory for a shard of {work.phase}", got=f"{most / 1e6:,.0f} MB",
            expected=f"{work.memory_bytes / 1e6:,.0f} MB", hint="add a machine, or use --engine local",
        )  # fmt: skip


@contextmanager
def ray_engine(options: EngineOptions, report: Report) -> Iterator[RayEngine]:
    """An engine on the cluster at the address, or on one of this machine that ends with the block.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
    ray = _ray()
    # it prints on stdout, where answers go, that a process died, which the engine says on its own
    import_module("ray._private.worker").print_to_stdstream = lambda *_, **__: None
    if ray.is_initialized():  # by the program that calls us, which ends it, too
        yield RayEngine(_workers(options, ray))
        return
    workers = options.workers or cpu_count()
    own: dict[str, Any] = {} if options.address else {"num_cpus": workers, "include_dashboard": False}
    if options.address is None:
        report(Progress("note", note="starting Ray on this machine"))
    try:
        ray.init(
            address=options.address or "local", log_to_driver=False, logging_level="ERROR", namespace="wordpipe", **own
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = str(error).strip().partition("\n")[0]
        hint = "`ray status` says whether a cluster runs; `ray start --head` starts one"
        raise ConfigError("no Ray cluster answers", where="--address", got=said, hint=hint) from None
    try:
        yield RayEngine(_workers(options, ray))
    finally:
        ray.shutdown()


def _ray() -> Any:
    """The library, which has types for few of its calls.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError:
        hint = "pip install 'wordpipe[ray]'"
        raise ConfigError("Ray is not installed", where="--engine", got="ray", hint=hint) from None


def _workers(options: EngineOptions, ray: Any) -> int:
    there = max(1, int(ray.cluster_resources().get("CPU", 1)))
    return there if options.workers is None else min(options.workers, there)
