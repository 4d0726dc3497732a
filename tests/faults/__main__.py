"""The runner: tries the cases on two threads and prints what was tried, held and broken.

    python -m tests.faults                     all of them
    python -m tests.faults --fast              the part that is in the default tests
    python -m tests.faults --only forged       cases whose name begins so (may be given several times)
    python -m tests.faults --list              the cases, the forty faults and where each is checked
    python -m tests.faults --keep DIR          keep the rooms of broken cases in DIR

Exit code 1 where anything broke. Where it may mount (root on Linux), the runner works in a mount namespace of its own, so
that its small disks and its /dev/shm are gone with it, however it ends.
"""

import argparse
import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from tests.faults import all_cases
from tests.faults.case import Act, Case, Result
from tests.faults.forty import existing_results, listing
from tests.faults.room import NOT_PASSED, Broken, OutOfTime, Room, Skipped
from tests.faults.world import ROOT, World

_OWN_MOUNTS = "WORDPIPE_FAULTS_MOUNTS"
_TOLD_EVERY_S = 60
_HELD, _BROKEN, _SKIPPED = "held", "broken", "skipped"
_LATE = "late"  # it had not ended in its time: it is tried again when nothing runs beside it


def main() -> int:
    """Run what is asked for; the exit code."""
    asked = _arguments()
    if asked.list:
        print(listing(all_cases(World(Path(), asked.seed, fast=False))))  # noqa: T201
        return 0
    _own_mounts()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was found so far is told
    for number in (signal.SIGINT, signal.SIGHUP):
        if (
            signal.getsignal(number) is signal.SIG_IGN
        ):  # in the background, or by nohup: the commands must not inherit it
            signal.signal(number, lambda *_: None)
    begin = time.monotonic()
    held_shm = _shared_memory()
    folder = Path(tempfile.mkdtemp(prefix="wordpipe-faults-"))
    try:
        world = World(_made(folder / "world"), asked.seed, fast=asked.fast)
        results = []
        if chosen := [case for case in all_cases(world) if _chosen(case, asked)]:
            with world:
                results = _try_all(chosen, world, folder, asked)
        stopped = any(result.case == "end/stopped" for result in results)
        results += [] if asked.fast or stopped else existing_results(asked.only)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if left := _shared_memory() - held_shm:
        results.append(Result("end/dev-shm", "", _BROKEN, f"left in /dev/shm: {sorted(left)[:3]}"))
    if asked.json:
        Path(asked.json).write_text("".join(json.dumps(asdict(result)) + "\n" for result in results))
    _report(results, time.monotonic() - begin, asked.seed)
    return int(not results or any(result.verdict == _BROKEN for result in results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Try faults; print tried, held, broken."
    )
    parser.add_argument("--fast", action="store_true", help="only the part that is in the default tests")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="cases whose name begins with NAME")
    parser.add_argument("--seed", type=int, default=1, help="of random times and places [1]")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once [2]")
    parser.add_argument("--list", action="store_true", help="list the cases and the map of the forty faults")
    parser.add_argument("--keep", metavar="DIR", help="keep the rooms of broken cases here")
    parser.add_argument("--json", metavar="FILE", help="write one JSON line per try")
    return parser.parse_args()


def _chosen(case: Case, asked: argparse.Namespace) -> bool:
    if asked.only:
        return any(case.name.startswith(start) for start in asked.only)
    return case.fast or not asked.fast


def _own_mounts() -> None:
    """Start anew in a mount namespace with a /dev/shm of its own, where that is allowed."""
    if os.environ.get(_OWN_MOUNTS) or sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"):
        return
    test = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64m tmpfs /dev/shm"]
    if subprocess.run(test, capture_output=True, timeout=30, check=False).returncode:
        return
    os.environ[_OWN_MOUNTS] = "1"
    script = 'mount -t tmpfs -o size=1g tmpfs /dev/shm && exec "$@"'
    os.execvp(
        "unshare", ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "tests.faults", *sys.argv[1:]]
    )


def _shared_memory() -> set[str]:
    shm = Path("/dev/shm")
    return {path.name for path in shm.iterdir()} if shm.is_dir() else set()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _try_all(cases: list[Case], world: World, folder: Path, asked: argparse.Namespace) -> list[Result]:
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    results: list[Result] = []
    late: list[tuple[Case, str, Act]] = []
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return
            for result, act in _results(case, world, folder, asked.keep):
                if result.verdict == _LATE:
                    late.append((case, result.at, act))
                else:
                    results.append(result)
                _tell(result)
                if stopping.is_set():
                    return

    threads = [threading.Thread(target=work) for _ in range(asked.jobs)]
    for thread in threads:
        thread.start()
    told = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        try:
            time.sleep(0.1)
        except KeyboardInterrupt:
            results.append(
                Result("end/stopped", "", _BROKEN, f"stopped by a signal; {waiting.qsize():,} cases were not tried")
            )
            stopping.set()
        if time.monotonic() > told + _TOLD_EVERY_S:
            told = time.monotonic()
            text = f"so far  {len(results):,} tried; {waiting.qsize():,} of {len(cases):,} cases wait"
            print(text, file=sys.stderr, flush=True)  # noqa: T201
    return results + _alone(late, world, folder, asked.keep)


def _alone(late: list[tuple[Case, str, Act]], world: World, folder: Path, keep: str | None) -> list[Result]:
    """What came of tries that had not ended in their time, when nothing runs beside them: they were slow, or do not end."""
    results = []
    for case, at, act in late:
        again = _try(case, at, act, world, folder, keep)
        assert again is not None
        results.append(again if again.verdict != _LATE else replace(again, verdict=_BROKEN))
        _tell(results[-1])
    return results


def _tell(result: Result) -> None:
    """Say at once what is broken, and what will be tried again."""
    if result.verdict in (_BROKEN, _LATE):
        print(f"{result.verdict:6}  {_named(result)}: {result.reason}", file=sys.stderr, flush=True)  # noqa: T201


def _results(case: Case, world: World, folder: Path, keep: str | None) -> Iterator[tuple[Result, Act]]:
    """What came of every try of a case."""
    if case.act is not None:
        found = _try(case, "", case.act, world, folder, keep)
        assert found is not None
        yield found, case.act
        return
    assert case.sweep is not None
    tried, act = 0, _nothing
    for at, act in case.sweep():
        result = _try(case, at, act, world, folder, keep)
        if result is None:
            break
        if result.reason == NOT_PASSED:
            continue  # another place follows
        tried += 1
        yield result, act
    if not tried:
        yield Result(case.name, "", _BROKEN, "the fault never happened"), act


def _nothing(_: Room) -> None:
    """The act of a sweep that has none."""


def _try(case: Case, at: str, act: Act, world: World, folder: Path, keep: str | None) -> Result | None:
    """One try in a room of its own; None where a sweep is over."""
    begin = time.monotonic()
    place = folder / f"room-{threading.get_ident()}-{time.monotonic_ns()}"
    room = Room(world, place)
    verdict, reason = _HELD, ""
    try:
        if act(room) is False:
            return None
        if not room.fired and not case.prepared:
            raise Broken("the fault never happened")
        room.nothing_runs()
        if not case.killed:
            room.clean()
    except OutOfTime as late:
        verdict, reason = _LATE, str(late)
    except Broken as broken:
        verdict, reason = _BROKEN, str(broken)
    except Skipped as skipped:
        verdict, reason = _SKIPPED, str(skipped)
    except Exception as error:  # noqa: BLE001  (a case that fails by itself has checked nothing)
        where = traceback.extract_tb(error.__traceback__)[-1]
        verdict, reason = _BROKEN, f"the case itself failed: {error!r} at {Path(where.filename).name}:{where.lineno}"
    finally:
        world.nursery.kill_all()
        if verdict == _BROKEN and keep:
            shutil.copytree(
                place,
                Path(keep) / f"{case.name}@{at}".replace("/", "_"),
                symlinks=True,
                ignore_dangling_symlinks=True,
                dirs_exist_ok=True,
            )
        shutil.rmtree(place, ignore_errors=True)
    command = room.last.command if room.last else ""
    return Result(case.name, at, verdict, reason, command, round(time.monotonic() - begin, 2))


def _named(result: Result) -> str:
    return f"{result.case} at {result.at}" if result.at else result.case


def _report(results: list[Result], seconds: float, seed: int) -> None:
    """The table of groups, and a line with the way to repeat it for every broken case."""
    lines = [f"{'group':14}{'tried':>8}{'held':>8}{'broken':>8}{'skipped':>9}"]
    groups = dict.fromkeys(result.case.split("/")[0] for result in results)
    for group in [*groups, "all"]:
        here = [result.verdict for result in results if group in ("all", result.case.split("/")[0])]
        tried = len(here) - here.count(_SKIPPED)
        lines.append(f"{group:14}{tried:>8,}{here.count(_HELD):>8,}{here.count(_BROKEN):>8,}{here.count(_SKIPPED):>9,}")
    for result in results:
        if result.verdict == _BROKEN:
            lines += ["", f"broken: {_named(result)}", f"  {result.reason}"]
            lines += [f"  command: {result.command}"] if result.command else []
            lines.append(f"  again: make faults ONLY={result.case} SEED={seed}")
    skipped = {result.reason for result in results if result.verdict == _SKIPPED}
    lines += [f"skipped: {reason}" for reason in sorted(skipped)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines.append(f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor, seed {seed}")
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    os.chdir(ROOT)
    code = main()
    sys.stdout.flush()
    sys.exit(code)
