"""Signals: to stop, twice, during imports, from a lost terminal, to a holder of a lock, and harmless ones in a storm."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import PROGRAM, ROOT, STAGES, World

_STOPS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP}
_ENDLESS = {
    "word2vec": ["--epochs", "100000"],
    "mlm": ["--steps", "1000000"],
    "clm": ["--steps", "1000000"],
    "denoising": ["--steps", "1000000"],
    "seq2seq": ["--steps", "1000000"],
    "static": ["--steps", "1000000"],
    "contrastive": ["--steps", "1000000"],
    "classifier": ["--epochs", "10000"],
    "tagger": ["--epochs", "10000"],
}
_OURS = str(ROOT / "wordpipe")
_BEFORE_MAIN = {"__init__.py", "lazy.py"}  # imported before `__main__`, which is the first to say what Ctrl-C does
_SOON = 10.0  # seconds: the promise is two on a machine that has nothing else to do


def _stopped_in_training(stage: str, number: signal.Signals, times: int) -> Act:
    """A signal in the midst: what was learned is saved, the old artifact stays, it dies by the signal; the second kills."""

    def act(room: Room) -> None:
        room.lay_older(stage)
        command = [*room.world.command(stage), *_ENDLESS[stage], "-o", room.target]
        child = room.world.nursery.command(*command)
        pointer = room.work / ".out.partial" / "LATEST.json"
        child.wait_until(lambda: pointer.exists() or any(room.work.glob(".out.partial*/**/LATEST.json")))
        begin = time.monotonic()
        for _ in range(times - 1):
            os.kill(child.pid, number)
        code = child.signal(number)
        room.fired += 1
        err = child.err.read_text()
        if code != -number:
            raise Broken(f"exit {code} instead of {-number}: {err[-300:]}")
        if "Traceback" in err:
            raise Broken("a traceback")
        if time.monotonic() - begin > _SOON:
            raise Broken(f"it took {time.monotonic() - begin:.0f} s to stop")
        if times == 1 and "stopped" not in err:
            raise Broken("it does not say that it stopped")
        if times == 1:
            room.as_before(state=True)
        elif room.old_or_new(stage):
            raise Broken("an unfinished training was published")

    return act


def _stopped_early(number: signal.Signals, after: float, arguments: tuple[str, ...]) -> Act:
    """A signal in the first moments, when libraries are still imported."""

    def act(room: Room) -> None:
        def stop(process: "subprocess.Popen[bytes]") -> None:
            time.sleep(after)
            if process.poll() is None:
                room.fired += 1
                process.send_signal(number)

        command = [part.format(world=room.world.folder) for part in arguments]
        done = room.program(*command, meanwhile=stop)
        if not room.fired:
            return
        frames = set(re.findall(rf'File "{re.escape(_OURS)}/([^"]+)"', done.err))
        if done.code in (-number, 1) and "KeyboardInterrupt" in done.err and frames <= _BEFORE_MAIN:
            return  # Python itself was starting, or imported the package: no line of a command had run
        room.said(done, {-number, 0}, silent=True)
        if done.code == 0 and room.target.exists():  # it had been made by then
            room.verified()
        else:
            room.as_before()

    return act


def _held(stop: Callable[[subprocess.Popen[bytes]], None], *, frees: bool) -> Act:
    """Another run holds the output: refused at once, naming it; once it is dead, the next one starts."""

    def act(room: Room) -> None:
        room.lay_older("mlm")
        child = room.world.nursery.command(*room.world.command("mlm"), *_ENDLESS["mlm"], "-o", room.target)
        child.wait_until(lambda: any(room.work.glob(".out.partial*/**/LATEST.json")))
        if frees:
            child.signal(signal.SIGKILL)
            room.fired += 1
            room.again("mlm")
            return
        os.kill(child.pid, signal.SIGSTOP)
        begin = time.monotonic()
        second = room.world  # the server waits for nobody else while it waits for one
        done = subprocess.run(
            ["sh", "-c", 'exec "$@"', "sh", *PROGRAM, *second.command("mlm"), "-o", "out"],
            cwd=room.work, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        lasted = time.monotonic() - begin
        room.fired += 1
        os.kill(child.pid, signal.SIGCONT)
        child.signal(signal.SIGKILL)
        if done.returncode != 7 or str(child.pid) not in done.stderr:
            raise Broken(f"exit {done.returncode} after {lasted:.1f} s: {done.stderr[-300:]}")
        room.again("mlm")

    return act


def _many_writers(room: Room) -> None:
    """Eight at once on one output: whoever comes second is told; the artifact is whole."""
    command = [*room.world.command("word2vec"), "-o", room.target]
    children = [room.world.nursery.command(*command) for _ in range(8)]
    codes = [child.wait() for child in children]
    room.fired += codes.count(7)
    if set(codes) - {0, 7} or 0 not in codes:
        raise Broken(f"exit codes {sorted(codes)}")
    room.made("word2vec")


def _storm(stage: str) -> Act:
    """Signals that mean nothing, a hundred a second: the same bytes."""

    def act(room: Room) -> None:
        child = room.world.nursery.command(*room.world.command(stage), "-o", room.target)
        end = time.monotonic() + 0.5
        while time.monotonic() < end and not (room.target / "manifest.json").exists():
            for number in (signal.SIGWINCH, signal.SIGCHLD, signal.SIGCONT):
                os.kill(child.pid, number)
                room.fired += 1
            time.sleep(0.01)
        if code := child.wait():
            raise Broken(f"exit {code}: {child.err.read_text()[-300:]}")
        room.made(stage)

    return act


def _nohup(room: Room) -> None:
    """`nohup` ignores SIGHUP on purpose: the work goes on."""

    def hang_up(process: "subprocess.Popen[bytes]") -> None:
        for _ in range(20):
            time.sleep(0.05)
            if process.poll() is None:
                process.send_signal(signal.SIGHUP)
                room.fired += 1

    done = room.program(
        *room.world.command("ingest"), "-o", "out", shell="ulimit -c 0 && trap '' HUP", meanwhile=hang_up
    )
    room.said(done, {0})
    room.made("ingest")


_EARLY = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8, 1.1, 1.4)


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for stage in _ENDLESS:
        assert STAGES[stage].trains
        for name, number in _STOPS.items():
            for times in (1, 2):
                at = _stopped_in_training(stage, number, times)
                fast = (stage, name, times) == ("mlm", "INT", 1)
                table.append(
                    Case(
                        f"signals/training/{stage}/{name}-{times}", at, ("13", "14", "P9"), fast=fast, killed=times == 2
                    )
                )
    commands = {
        "index": ("index", "{world}/embed", "-o", "out"),
        "query": ("query", "{world}/index", "bees"),
        "ingest": ("ingest", "{world}/text.txt", "-o", "out"),
    }
    for what, arguments in commands.items():
        for name, number in _STOPS.items():
            for after in _EARLY if (what, name) == ("index", "INT") else _EARLY[1:9:3]:
                early = _stopped_early(number, after, arguments)
                fast = (what, name, after) in (("index", "INT", 0.1), ("index", "INT", 0.2))
                early_case = Case(
                    f"signals/imports/{what}/{name}-{after}",
                    early,
                    ("13", "C6", "P9"),
                    fast=fast,
                    killed=True,
                    prepared=after > 0.5,
                )
                table.append(early_case)  # a fast machine may have ended by then
    table += [
        Case("signals/lock/held", _held(lambda _: None, frees=False), ("18", "P9"), killed=True),
        Case("signals/lock/freed", _held(lambda _: None, frees=True), ("18", "P9"), killed=True, fast=True),
        Case("signals/lock/eight-writers", _many_writers, ("18", "P9"), fast=True),
        Case("signals/nohup", _nohup, ("14", "P9")),
    ]
    table += [Case(f"signals/storm/{stage}", _storm(stage), ("9", "P1")) for stage in STAGES]
    return table
