"""Processes of a Ray cluster that work at the same time and meet each other, as those that `torchrun` starts.

Each is told by the same environment variables who it is and where the first one listens, so what they call need not know that
Ray started them. They are placed together (Ray's placement groups) and spread over machines. If one dies, the others cannot go
on: all are started again, and go on from what the first one has saved; after the third death there is no more trying.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from wordpipe.engines.on_ray import (
    DEATHS,
    NOT_OURS,
    import_ray,
    outcome_of,
    ray_engine,
    refuse_other_versions,
    versions_of,
)
from wordpipe.engines.options import EngineOptions
from wordpipe.engines.shard_work import TRIES, error_of_parts, parts_of
from wordpipe.errors import ConfigError, PeerError, WordpipeError
from wordpipe.runtime import Progress, Report, Stopped, quiet, stop_signal

T = TypeVar("T")

_LOOK_S = 0.2  # between looks at reports and at a stop signal
_PLACE_S = 60.0  # that a cluster with room for all may take to start them
_FOLLOW_S = 20.0  # that the others have, once one has ended badly, to say what they met
_REPORT_S = 0.1  # between two reports of one phase


@dataclass(frozen=True)
class _Member:
    """The identity of one process of a group that works together: rank, size, address.

    Attributes:
        rank: its number.
        size: of them all.
        local_rank: its number on its machine; 0 where it sees no GPU but its own.
        local_size: of those on its machine.
        address, port: where the first one listens.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    address: str
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which `torchrun` tells a process who it is."""
        found = {"RANK": self.rank, "WORLD_SIZE": self.size, "LOCAL_RANK": self.local_rank,
                 "LOCAL_WORLD_SIZE": self.local_size, "MASTER_ADDR": self.address, "MASTER_PORT": self.port}  # fmt: skip
        return {name: str(value) for name, value in found.items()}


def work_together(
    call: Callable[[Report], T], options: EngineOptions, report: Report, *, needs_gpu: bool | None,
    libraries: Iterable[str] = (),
) -> T:  # fmt: skip
    """Call a function in several processes of a Ray cluster at the same time.

    Args:
        call: what each does, in this process's working folder; its argument takes reports of progress.
        options: the cluster, and how many processes; None: one for each GPU, or, where there is none, for each machine.
        report: hears the first process's progress.
        needs_gpu: whether each has a GPU of its own; None: where the cluster has one for each.
        libraries: that must have the same versions everywhere.

    Returns:
        What the first process's call returned.

    Raises:
        ConfigError: the cluster has no room for so many.
        PeerError: three times a process died.
        WordpipeError: what a call raised.
        Stopped: a stop signal came; the processes have been told, and have ended.
    """
    with ray_engine(options.address, options.workers, report), stop_signal() as flag:
        # the processes, as many as the cluster has room for
        ray = import_ray()
        size, has_gpu = _size_of(ray.cluster_resources(), ray.nodes(), options.workers, needs_gpu)
        group = _Group(ray, size, has_gpu=has_gpu)
        for tried in range(1, TRIES + 1):
            with group.placed(report) as members:
                found = group.run(call, members, versions_of(libraries), report, lambda: flag.signum)
            # stopped by the user: say what was saved
            if flag.signum is not None:
                saved = next(
                    (one["stopped"] for one in found.values() if isinstance(one, dict) and "stopped" in one), None
                )
                raise Stopped(flag.signum, saved)
            # all have ended well, or with an error of their work
            dead = [rank for rank, one in found.items() if isinstance(one, str) and one in (*DEATHS, *NOT_OURS)]
            if not dead:
                done: T = _result(found)
                return done
            # one has died: all start again
            where = f"process {dead[0]} of {size}"
            if tried < TRIES:
                report(
                    Progress(
                        "note",
                        note=f"{where} died ({found[dead[0]]}), so all processes start again from the last saved state",
                        always=True,
                    )
                )
        hint = "the machine may have too little memory: use a smaller batch; run `ray logs` to see the last messages"
        raise PeerError(
            f"{where} died; this is the third time that a process died in this run", got=found[dead[0]], hint=hint
        )


def _size_of(
    there: dict[str, float], nodes: list[dict[str, Any]], workers: int | None, needs_gpu: bool | None
) -> tuple[int, bool]:
    """Return the number of processes to work together that the cluster has room for, True if each has a GPU."""
    gpus, processors = int(there.get("GPU", 0)), int(there.get("CPU", 0))
    size = workers or (gpus if needs_gpu is not False else 0) or sum(node["Alive"] for node in nodes)
    has_gpu = needs_gpu if needs_gpu is not None else gpus >= size
    room, of_what = (gpus, "GPUs") if has_gpu else (processors, "processors")
    if size > room:
        hint = "use fewer --workers, or add machines to the cluster"
        raise ConfigError(
            f"the cluster has too few {of_what}", where="--workers", got=size, expected=f"at most {room}", hint=hint
        )
    return size, bool(has_gpu)


def _result(found: dict[int, Any]) -> Any:
    """Return what the first of the processes that work together returned.

    Raises:
        WordpipeError: an error of a process; one that only says that another has failed comes last.
    """
    errors = [error_of_parts(one["error"]) for one in found.values() if isinstance(one, dict) and "error" in one]
    errors += [one for one in found.values() if isinstance(one, WordpipeError)]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, PeerError))
    if lost := [rank for rank, one in found.items() if not isinstance(one, dict)]:
        hint = "run `ray logs` to see the last messages of the process"
        raise PeerError(f"process {lost[0]} failed", got=found[lost[0]], hint=hint)
    return found[0]["gave"]


@dataclass(frozen=True)
class _Group:
    """A group of processes, each with a place in the cluster.

    Attributes:
        ray: the library.
        size: how many.
        has_gpu: each.
    """

    ray: Any
    size: int
    has_gpu: bool

    @contextmanager
    def placed(self, report: Report) -> Iterator[list[tuple[Any, _Member]]]:
        """Reserve a place in the cluster for each process that works together, with its identity."""
        from ray.util.placement_group import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # reserve the places, and say so where that takes long
        need = {"CPU": 1.0} | ({"GPU": 1.0} if self.has_gpu else {})
        group = placement_group([need] * self.size, strategy="SPREAD")
        try:
            if not group.wait(_PLACE_S):
                report(
                    Progress(
                        "note",
                        note="the cluster is busy; wordpipe waits for free resources; run `ray status` to see what is running",
                        always=True,
                    )
                )
                self.ray.get(group.ready())
            # on which machine each place is
            places = [PlacementGroupSchedulingStrategy(group, rank) for rank in range(self.size)]
            look = self.ray.remote(_place)
            found = self.ray.get([look.options(num_cpus=1, scheduling_strategy=place).remote() for place in places])
            # the identity of each process: those that share a machine are numbered there
            nodes, members = [node for node, _, _ in found], []
            for rank, node in enumerate(nodes):
                local = 0 if self.has_gpu else nodes[:rank].count(node)
                members.append(_Member(rank, self.size, local, nodes.count(node), *found[0][1:]))
            yield [*zip(places, members, strict=True)]
        finally:
            remove_placement_group(group)

    def run(
        self, call: Callable[[Report], Any], members: list[tuple[Any, _Member]], versions: dict[str, str], report: Report,
        stop: Callable[[], int | None],
    ) -> dict[int, Any]:  # fmt: skip
        """Run the call in all processes together; return rank → result of `_run_in_process`, or an earlier error."""
        from ray.util.queue import Empty, Queue

        reports = Queue(actor_options={"num_cpus": 0})
        # a process that knew other processes is not used for anything else
        task = self.ray.remote(max_calls=1, max_retries=0)(_run_in_process)
        here, found = Path.cwd(), dict[int, Any]()
        # start all processes, each in its place
        waiting = {
            task.options(
                num_cpus=1,
                num_gpus=int(self.has_gpu),
                scheduling_strategy=place,
                name=f"wordpipe process {member.rank}",
            ).remote(call, member, here, versions, reports if member.rank == 0 else None): member.rank
            for place, member in members
        }
        is_stopping, failed = False, float("inf")

        # reports of the first process go to the caller
        def pass_on() -> None:
            try:
                while True:
                    report(reports.get_nowait())
            except (Empty, self.ray.exceptions.RayError):
                return

        try:
            # until all have ended, or one has failed and the others do not follow
            while waiting:
                ended, _ = self.ray.wait([*waiting], timeout=_LOOK_S)
                pass_on()
                # tell all processes to stop, once
                if stop() is not None and not is_stopping:  # they agree in every step
                    is_stopping = True
                    for one in waiting:
                        self.ray.cancel(one, force=False)
                # note what became of each process, and since when one has failed
                for one in ended:
                    rank = waiting.pop(one)
                    found[rank] = outcome_of(one)
                    if not (isinstance(found[rank], dict) and "gave" in found[rank]):
                        failed = min(failed, time.monotonic())
                # the others may take some time to say what they met
                if time.monotonic() - failed > _FOLLOW_S:
                    break
            pass_on()
        finally:
            for one in waiting:
                self.ray.cancel(one, force=True)
            reports.shutdown(force=True)
        return found


def _place() -> tuple[str, str, int]:
    """Return the machine and the address of this process, where the others meet it, and a free port there."""
    context = import_ray().get_runtime_context()
    with socket.socket() as free:
        free.bind(("", 0))
        return context.get_node_id(), import_ray().util.get_node_ip_address(), free.getsockname()[1]


def _run_in_process(
    call: Callable[[Report], Any], member: _Member, here: Path, versions: dict[str, str], reports: Any
) -> dict[str, Any]:
    """Run the call in one of the processes that work together; return its result, or the parts of its error."""
    os.environ.update(member.environment)
    try:
        refuse_other_versions(versions)
        if not here.is_dir():
            hint = "all machines must have the working folder at the same path, for example on a shared file system"
            raise ConfigError(
                "a machine of the cluster does not have the working folder",
                where=here,
                got=os.uname().nodename,
                hint=hint,
            )
        os.chdir(here)
        return {"gave": call(quiet if reports is None else _sender(reports))}
    except Stopped as stopped:
        return {"stopped": stopped.saved}
    except WordpipeError as error:
        return {"error": parts_of(error)}


def _sender(reports: Any) -> Report:
    """Return a report that sends the progress of processes that work together to the queue.

    Of reports of one phase in quick succession some are left out.
    """
    last: dict[str, Any] = {"phase": "", "at": 0.0}

    def send(progress: Progress) -> None:
        now, is_end = time.monotonic(), progress.done == progress.total
        if progress.note or is_end or progress.phase != last["phase"] or now - last["at"] > _REPORT_S:
            last.update(phase=progress.phase, at=now)
            reports.put_nowait(progress)

    return send
