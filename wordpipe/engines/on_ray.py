"""The engine of a Ray cluster: shards as tasks of one processor each, wherever there is room (Moritz et al. 2018).

The driver keeps some tasks under way and hears of each that ends. One whose process died is sent again, to another process:
twice, as what kills a process three times is the work itself. A task leaves files and gives back nothing but the error that it
met, if it met one. Ray's own retries are off, as they would be silent.
"""

import os
import re
import shutil
import signal
import site
import socket
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wordpipe.engines.shard_work import TRIES, ShardProgress, ShardWork, error_of_parts, parts_of
from wordpipe.errors import BudgetError, ConfigError, PeerError, WordpipeError
from wordpipe.runtime import Progress, Report, cpu_count

_UNDER_WAY = 2  # tasks for each processor, so that none waits for the driver
_WAIT_S = 0.5  # between looks at a stop signal
_STILL_S = 60.0  # without a shard, after which it is looked whether there is a machine for them
_PAUSE_S = 2.0  # before a shard is sent again: what killed its process may take a moment to end
NOT_OURS = ("NodeDiedError", "TaskUnschedulableError")  # a machine went; the shard is not to blame
DEATHS = ("WorkerCrashedError", "OutOfMemoryError")


@dataclass(frozen=True)
class RayEngine:
    """The engine that makes shards as tasks of a Ray cluster.

    Attributes:
        workers: tasks at once; None: as many as there are processors, and more that wait.
    """

    workers: int | None

    def make(self, work: ShardWork, numbers: Sequence[int], progress: ShardProgress, opened: Any = None) -> None:
        """Make shards as tasks of the cluster; see `Engine.make`."""
        ray = import_ray()
        _refuse_too_large(work, ray.nodes())
        # one task for each shard, without silent retries of Ray's
        task = ray.remote(_make_in_process).options(
            num_cpus=1, num_gpus=work.gpus, memory=work.memory_bytes, max_retries=0, name=f"wordpipe {work.phase}"
        )
        shared, versions = ray.put(work), versions_of(work.libraries)
        # shards that wait, and how often the process of each has died
        waiting, tries, done, heard = [*reversed(numbers)], dict.fromkeys(numbers, 0), 0, time.monotonic()
        under_way: dict[Any, int] = {}
        progress.units(0)
        try:
            while waiting or under_way:
                # keep some tasks under way
                while waiting and len(under_way) < (self.workers or _UNDER_WAY * _processors(ray)):
                    number = waiting.pop()
                    under_way[task.remote(shared, number, versions)] = number
                # what has ended; where nothing has for long, is there a machine for the shards?
                ended, _ = ray.wait([*under_way], timeout=_WAIT_S)
                if ended:
                    heard = time.monotonic()
                elif time.monotonic() - heard > _STILL_S:
                    _refuse_too_large(work, ray.nodes())
                    progress.note(
                        f"the phase {work.phase} finished no shard in {_STILL_S:.0f} s; `ray status` shows what is running"
                    )
                    heard = time.monotonic()
                # count a finished shard; raise an error of its work
                for one in ended:
                    number = under_way.pop(one)
                    error = _error_of(one)
                    if isinstance(error, WordpipeError):
                        raise error
                    if error is None:
                        done += work.size_of(number)
                        progress.units(done)
                        continue
                    # its process died: send the shard again, a few times
                    where = f"the process for shard {number} of the phase {work.phase}"
                    if error not in (*DEATHS, *NOT_OURS):
                        raise PeerError(
                            f"{where} failed", got=error, hint="run `ray logs` to see the last messages of the process"
                        )
                    # a machine that went is not counted
                    tries[number] += error in DEATHS
                    if tries[number] == TRIES:
                        hint = (
                            "the machine may lack memory: use fewer --workers; run `ray logs` to see the last messages"
                        )
                        raise PeerError(f"{where} died {TRIES} times", got=error, hint=hint)
                    progress.note(f"{where} died ({error}), so a new process makes the shard again")
                    time.sleep(_PAUSE_S)
                    waiting.append(number)
        finally:
            for one in under_way:
                ray.cancel(one, force=True)


_KEPT: list[tuple[ShardWork, Any, ExitStack]] = []  # the work that this process did last, and what it prepared for that


def _make_in_process(work: ShardWork, number: int, versions: dict[str, str]) -> dict[str, Any] | None:
    """Make a shard in a process of Ray; return the parts of the error that stopped it, or None."""
    try:
        refuse_other_versions(versions)
        if not _KEPT or _KEPT[0][0] != work:
            while _KEPT:
                _KEPT.pop()[2].close()
            stack = ExitStack()
            _KEPT.append((work, work.prepare(1, stack), stack))
        work.make(number, _KEPT[0][1], lambda _: None)
    except WordpipeError as error:
        return parts_of(error)
    return None


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of some libraries and of wordpipe in this process."""
    from wordpipe import __version__

    return {"wordpipe": __version__} | {name: version(name) for name in libraries}


def refuse_other_versions(expected: dict[str, str]) -> None:
    """Refuse machines of a Ray cluster with other versions than those that the artifact is made with."""
    found = versions_of(name for name in expected if name != "wordpipe")
    if other := {name: one for name, one in found.items() if one != expected.get(name)}:
        names = ", ".join(f"{name} {one}" for name, one in other.items())
        wanted = ", ".join(f"{name} {expected.get(name)}" for name in other)
        what, hint = (
            "a machine of the cluster has different versions of the software",
            "install the same versions on all machines",
        )
        raise ConfigError(what, where=os.uname().nodename, got=names, expected=wanted, hint=hint)


def _error_of(one: Any) -> WordpipeError | str | None:
    """Return the error of a shard's task: None for success, an error of wordpipe, or the name of Ray's error."""
    found = outcome_of(one)
    return error_of_parts(found) if isinstance(found, dict) else found


def outcome_of(one: Any) -> Any:
    """Return the result of a Ray task; an error of wordpipe if it could not begin; or the name of Ray's error.

    Raises:
        OSError, MemoryError, …: what the task raised, if it is none of ours.
    """
    ray = import_ray()
    try:
        return ray.get(one)
    except ray.exceptions.RayTaskError as error:
        if "failed to import" in str(error.cause):
            hint = "install the same versions of wordpipe and its libraries on all machines"
            return ConfigError("a machine of the cluster cannot import wordpipe", where="--address", hint=hint)
        raise error.cause from error
    except ray.exceptions.RayError as error:
        return type(error).__name__


def _refuse_too_large(work: ShardWork, nodes: Sequence[dict[str, Any]]) -> None:
    """Refuse shards that need more memory than any machine of the cluster has: Ray would wait for ever."""
    there = [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
    most = max((one.get("memory", 0) for one in there if one.get("GPU", 0) >= work.gpus), default=0)
    if work.memory_bytes > most:
        needs = "enough memory and a GPU" if work.gpus else "enough memory"
        what = f"no machine of the cluster has {needs} for a shard of the phase {work.phase}"
        raise BudgetError(
            what, got=f"{most / 1e6:,.0f} MB", expected=f"{work.memory_bytes / 1e6:,.0f} MB",
            hint="add a machine, or use --engine local",
        )  # fmt: skip


@contextmanager
def ray_engine(address: str | None, workers: int | None, report: Report) -> Iterator[RayEngine]:
    """Open the engine of the Ray cluster at an address, or of a new one on this machine that ends with the block.

    Args:
        address: of the cluster; None: one is started.
        workers: tasks at once; None: as many as there are processors.
        report: hears that one is started.

    Raises:
        ConfigError: no cluster answers at the address, or this process is at work with another one.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
    ray = import_ray()
    if ray.is_initialized():  # by the program that calls us, which ends it, too
        own = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", own):
            hint = "remove the address, or call ray.shutdown() first"
            raise ConfigError("this process is already connected to another Ray cluster", where="address", got=address,
                              expected=own, hint=hint)  # fmt: skip
        yield RayEngine(workers)
        return
    with _quiet_prints():
        session: Path | None = None
        try:
            session = _start(ray, address, workers, report)
            yield RayEngine(workers)
        except ray.exceptions.RayError as error:
            hint = "run `ray status` to see whether the cluster is running, and run `ray logs` to see the last messages"
            raise PeerError("the Ray cluster failed", got=type(error).__name__, hint=hint) from None
        finally:
            session = session or (_marked_session() if address is None else None)  # stopped while it started
            ray.shutdown()
            if session is not None:
                _remove_session(session)


def _start(ray: Any, address: str | None, workers: int | None, report: Report) -> Path | None:
    """Connect to a Ray cluster, or start one here and return its folder. Raises ConfigError: see `ray_engine`."""
    own: dict[str, Any] = {}
    if address is None:
        own = {"num_cpus": workers or cpu_count(), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        report(Progress("note", note="starting Ray on this machine"))
    elif found := _HOST_AND_PORT.fullmatch(address):
        _refuse_silent(address, found[1].strip("[]"), int(found[2]))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with _alone() if address is None else nullcontext():
            ray.init(
                address=address or "local", log_to_driver=False, logging_level="ERROR", namespace="wordpipe",
                job_config=_job_config(), **own,
            )  # fmt: skip
        return _marked_session() if address is None else None
    except Exception as error:  # noqa: BLE001  (Ray raises bare ones, too)
        said = str(error).strip().partition("\n")[0]
        if address is None:
            raise ConfigError("Ray cannot be started on this machine", where="--engine", got=said) from None
        hint = "run `ray status` to see whether a cluster is running, or run `ray start --head` to start a cluster"
        raise ConfigError("no Ray cluster answers", where="--address", got=said, hint=hint) from None
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray would end the process without a word
            signal.signal(signal.SIGTERM, before)


_HOST_AND_PORT = re.compile(r"(?:ray://)?([^/:\s]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_ANSWER_S = 10.0  # that a cluster may take to take a connection
_MARK = "of-wordpipe"  # in the folder of a session that we have started


_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # RFC 9113, 3.4: and no settings
_SETTINGS_FRAME = b"\x04"  # the fourth byte of the answer


def _refuse_silent(address: str, host: str, port: int) -> None:
    """Refuse an address without a server of gRPC, where Ray would try for minutes.

    Raises:
        ConfigError: no server answers there, or another kind of server.
    """
    said = "the server at this address is not a Ray cluster"
    try:
        with socket.create_connection((host, port), _ANSWER_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0").lower() not in ("0", "false", ""):
                return  # that begins otherwise
            connection.sendall(_GREETING)
            if connection.recv(9)[3:4] == _SETTINGS_FRAME:
                return
    except TimeoutError:
        said = f"no answer within {_ANSWER_S:g} s"
    except (OSError, OverflowError, UnicodeError) as error:
        said = (getattr(error, "strerror", None) or str(error)).lower()
    hint = "run `ray status` to see whether a cluster is running, or run `ray start --head` to start a cluster"
    raise ConfigError("no Ray cluster answers", where=f"--address {address}", got=said, hint=hint)


@contextmanager
def _alone() -> Iterator[None]:
    """Let Ray start a cluster that listens on the loopback alone and imports nothing from the working folder."""
    constants: Any = import_module("ray._private.ray_constants")
    names = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "PYTHONSAFEPATH": "1",
    }  # without clusters, every address is the loopback
    before, had = {name: os.environ.get(name) for name in names}, constants.ENABLE_RAY_CLUSTER
    os.environ.update(names)
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = had
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _job_config() -> Any:
    """Return Ray's settings of a job without the working folder on the import path: texts of others may lie there."""
    config = import_module("ray.job_config").JobConfig()
    config._runtime_env_has_working_dir = lambda: True  # in which case it adds none
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    if root not in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}:
        config._py_driver_sys_path.append(root)  # where this process has found wordpipe
    return config


def _marked_session() -> Path | None:
    """Mark and return the folder of the Ray cluster just started; remove folders that killed runs of wordpipe left."""
    node = import_module("ray._private.worker")._global_node
    if node is None:
        return None
    session = Path(node.get_session_dir_path())
    with suppress(OSError):
        (session / _MARK).touch()
        for other in session.parent.glob(f"session_*/{_MARK}"):
            pid = other.parent.name.rpartition("_")[2]  # of the process that started it
            if other.parent != session and pid.isdecimal() and not Path(f"/proc/{pid}").exists():
                _remove_session(other.parent)
    return session


def _remove_session(session: Path) -> None:
    """Remove the folder of a Ray cluster that has ended."""
    shutil.rmtree(session, ignore_errors=True)
    latest = session.parent / "session_latest"
    with suppress(OSError):
        if latest.is_symlink() and not latest.exists():
            latest.unlink()


@contextmanager
def _quiet_prints() -> Iterator[None]:
    """Stop Ray from printing on stdout, where answers go, that a process died: the engine reports that itself."""
    module: Any = import_module("ray._private.worker")
    before = module.print_to_stdstream
    module.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        module.print_to_stdstream = before


def import_ray() -> Any:
    """Import and return the library ray, which has types for few of its calls."""
    return import_module("ray")


def _processors(ray: Any) -> int:
    """Return the number of processors in the cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
