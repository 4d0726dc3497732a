"""kill -9: at every failpoint of every stage, at random times, twice, in updates and exports, at every system call."""

import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.case import Act, Case, Tries
from tests.faults.room import NOT_PASSED, Broken, Room, Skipped, contents
from tests.faults.world import EXPORTS, IN_FOLDERS, STAGES, World
from tests.support.tracing import MUTATING, can_trace

_KILLED = -signal.SIGKILL


def _killed_at(stage: str, failpoint: str, times: int = 1) -> Act:
    """Kill a stage at a failpoint, `times` in a row; False where the failpoint is not passed."""

    def act(room: Room) -> bool:
        room.lay_older(stage)
        for _ in range(times):
            done = room.run(*room.world.command(stage), "-o", "out", WORDPIPE_FAILPOINT=failpoint)
            if done.code == 0:  # it is not passed so often, or not again by the rest of a training
                room.made(stage)
                if not room.fired:
                    return False
                break
            if done.code != _KILLED:
                raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
            room.fired += 1
            room.old_or_new(stage)
        room.again(stage)
        return True

    return act


def passages(at: Callable[[str], Act], step: int = 1) -> Tries:
    """Tries at the 1st, 2nd, 3rd, 5th, 8th … passage of every failpoint; `at` makes one of "PLACE:{action}:NTH".

    A stage passes hundreds of them: every write of a file is one. That each single one holds is tried on the publisher
    itself (tests/artifacts/test_crash.py).
    """
    for place in _PLACES:
        passed = True

        def tried(room: Room, act: Act) -> None:
            nonlocal passed
            passed = act(room) is not False
            if not passed:
                raise Skipped(NOT_PASSED)

        for nth in _FIBONACCI[::step]:
            act = at(f"{place}:{{action}}:{nth}")
            yield f"{place} {nth}", lambda room, act=act: tried(room, act)
            if not passed:
                break


_FIBONACCI = (1, 2, 3, 5, 8, 13, 21, 34)
_PLACES = (
    "publish.started", "publish.file_made", "publish.file_written", "publish.file_synced", "publish.manifest_named",
    "publish.before_exchange", "publish.after_exchange", "publish.folder_synced", "checkpoint.before_pointer",
    "checkpoint.after_pointer",
)  # fmt: skip


def _at_random(stage: str, seed: int, times: int) -> Act:
    """Kill at a moment that is drawn; where the run had ended by then, earlier."""

    def act(room: Room) -> None:
        room.lay_older(stage)
        draw = random.Random(f"{stage} {seed} {room.world.seed}")
        latest = 1.0
        for _ in range(20):
            child = room.world.nursery.command(*room.world.command(stage), "-o", room.target)
            time.sleep(draw.random() * latest)
            if child.signal(signal.SIGKILL) == _KILLED:
                room.fired += 1
            else:
                latest /= 2
            room.old_or_new(stage)
            if room.fired == times:
                break
        room.again(stage)

    return act


_UPDATES = {
    "ingest": ("corpus", ("ingest", "{room}/texts", "--documents", "block", "--update")),
    "embed": ("sentences", ("embed", "{world}/word2vec", "{room}/corpus", "--update")),
    "index": ("index", ("index", "{room}/sentences", "--threads", "1", "--update")),
}


def _update(which: str, failpoint: str) -> Act:
    """Kill an update; its next run has the bytes of an update that was left alone."""

    def act(room: Room) -> bool:
        half, rest = room.work / "texts" / "a.txt", room.work / "texts" / "b.txt"
        half.parent.mkdir()
        text = (room.world.folder / "text.txt").read_text().split("\n\n")
        half.write_text("\n\n".join(text[:30]))
        made, more = _UPDATES[which]
        chain = {
            "corpus": ["ingest", room.work / "texts", "--documents", "block"],
            "sentences": ["embed", room.world.folder / "word2vec", "corpus"],
            "index": ["index", "sentences", "--threads", "1"],
        }
        names = list(chain)[: list(chain).index(made) + 1]
        for name in names:
            _well(room, *chain[name], "-o", name)
        rest.write_text("\n\n".join(text[30:]))
        for name in names[:-1]:
            _well(room, *chain[name], "-o", name)
        shutil.copytree(room.work / made, room.work / "twin")
        command = [part.format(world=room.world.folder, room=room.work) for part in more]
        _well(room, *command, "-o", "twin")
        before = contents(room.work / made)
        done = room.run(*command, "-o", made, WORDPIPE_FAILPOINT=failpoint)
        if done.code == 0:
            return False
        if done.code != _KILLED:
            raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
        room.fired += 1
        if contents(room.work / made) != before:
            _well(room, "verify", made)
        _well(room, *command, "-o", made)
        if _digest(room.work / made) != _digest(room.work / "twin"):
            raise Broken("other bytes than an update that was left alone")
        return True

    return act


def _updates(which: str) -> Tries:
    return passages(lambda point: _update(which, point.format(action="kill")), step=2)


def _well(room: Room, *arguments: object) -> None:
    done = room.run(*arguments)
    if done.code:
        raise Broken(f"{arguments[0]} ended with {done.code}: {done.err[-300:]}")


def _digest(artifact: Path) -> str:
    return re.findall(r'"digest": "(\w+)"', (artifact / "manifest.json").read_text())[-1]


def _exports(to: str) -> Tries:
    """An export over an older one is that or the new one, whole."""

    def at(nth: int) -> Act:
        def act(room: Room) -> bool:
            command = ["export", room.world.folder / EXPORTS[to], "--to", to, "-o"]
            _well(room, *command, "fresh")
            new = contents(room.work / "fresh") if to in IN_FOLDERS else (room.work / "fresh").read_bytes()
            _older_export(room.work / "out", folder=to in IN_FOLDERS)
            old = contents(room.work / "out") if to in IN_FOLDERS else (room.work / "out").read_bytes()
            again = _with_force(room, command)
            done = room.run(*again, "out", WORDPIPE_FAILPOINT=f"*:kill:{nth}")
            if done.code == 0:
                return False
            if done.code == _KILLED:
                room.fired += 1
            elif to in IN_FOLDERS and done.code in (2, 4, 5):
                return False  # a folder of another making is not replaced at all
            else:
                raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
            now = contents(room.work / "out") if to in IN_FOLDERS else (room.work / "out").read_bytes()
            if now not in (old, new):
                raise Broken("neither the old one nor the new one")
            _well(room, *again, "out")
            return True

        return act

    for nth in _FIBONACCI:
        yield f"failpoint {nth}", at(nth)


def _older_export(path: Path, *, folder: bool) -> None:
    if not folder:
        path.write_text("an older one\n")


def _with_force(room: Room, command: list[object]) -> list[object]:
    """`--force` where `export` has it."""
    has = "--force" in room.run("export", "--help-all").out
    return [*command[:-1], *(["--force"] if has else []), "-o"]


def _checkpoint_rotation(stage: str, nth: int) -> Act:
    """Kill between the pointer and the removal of old checkpoints: one that is whole is always there."""
    return _killed_at(stage, f"checkpoint.after_pointer:kill:{nth}", times=2)


def _every_call(stage: str, names: str) -> Tries:
    """Kill at every system call of these names from the lock on."""
    if not can_trace():

        def act(_: Room) -> None:
            raise Skipped("needs strace and the right to trace")

        yield "", act
        return
    calls: list[int] = []

    def count(room: Room) -> None:
        room.lay_older(stage)
        trace = ["-e", f"trace={names},flock"]
        done = room.program(*room.world.command(stage), "-o", "out", strace=trace, seconds=120)
        if done.code:
            raise Broken(f"the traced run ended with {done.code}: {done.err[-300:]}")
        calls.extend(_after_lock((room.folder / "strace.log").read_text()))
        room.fired += 1

    yield "count", count
    for nth in calls:
        yield f"{names} {nth}", _killed_at_call(stage, names, nth)


def _after_lock(log: str) -> Iterator[int]:
    """Numbers, within their thread, of the calls that come after the output's lock was taken."""
    seen: Counter[str] = Counter()
    begun = False
    for line in log.splitlines():
        if not (match := re.match(r"(\d+) +(\w+)\(", line)):
            continue
        if match[2] == "flock":
            begun = True
            continue
        seen[match[1]] += 1
        if begun:
            yield seen[match[1]]


def _killed_at_call(stage: str, names: str, nth: int) -> Act:
    def act(room: Room) -> bool:
        room.lay_older(stage)
        strace = ["-e", f"trace={names}", "-e", f"inject={names}:signal=KILL:when={nth}"]
        done = room.program(*room.world.command(stage), "-o", "out", strace=strace, seconds=120)
        if done.code == 0 and not done.injected:
            return False
        if done.code not in (_KILLED, 128 + signal.SIGKILL):
            raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
        room.fired += 1
        room.old_or_new(stage)
        room.again(stage)
        return True

    return act


_CALLS = (
    "write",
    "pwrite64",
    "fsync",
    "rename,renameat,renameat2",
    "mkdir,mkdirat",
    "unlink,unlinkat,rmdir",
    "ftruncate",
)


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for stage, row in STAGES.items():
        table.append(
            Case(
                f"crash/failpoints/{stage}",
                sweep=lambda s=stage: passages(lambda point: _killed_at(s, point.format(action="kill"))),
                covers=("1", "P1", "P2"),
                killed=True,
            )
        )
        at = _killed_at(stage, "publish.before_exchange:kill")
        table.append(Case(f"crash/before-exchange/{stage}", at, ("1", "P1"), fast=row.quick, killed=True))
        after = _killed_at(stage, "publish.after_exchange:kill")
        table.append(Case(f"crash/after-exchange/{stage}", after, ("1", "P1"), fast=stage == "index", killed=True))
        for seed in range(3):
            times = 1 + seed % 2
            table.append(
                Case(
                    f"crash/random/{stage}/{seed}", _at_random(stage, seed, times), ("1", "2", "P1", "P2"), killed=True
                )
            )
        if row.trains:
            for nth in (1, 2):
                kill = _checkpoint_rotation(stage, nth)
                table.append(
                    Case(
                        f"crash/checkpoint/{stage}/{nth}",
                        kill,
                        ("2", "3", "P2"),
                        fast=(stage, nth) == ("mlm", 1),
                        killed=True,
                    )
                )
    table += [
        Case(f"crash/update/{which}", sweep=lambda w=which: _updates(w), covers=("1", "P1", "P2"), killed=True)
        for which in _UPDATES
    ]
    table += [
        Case(f"crash/export/{to}", sweep=lambda t=to: _exports(t), covers=("1", "P1"), killed=True) for to in EXPORTS
    ]
    for stage in ("ingest", "import"):
        table += [
            Case(
                f"crash/calls/{stage}/{names.split(',')[0]}",
                sweep=lambda s=stage, n=names: _every_call(s, n),
                covers=("1", "P1"),
                killed=True,
            )
            for names in _CALLS
            if set(names.split(",")) <= set(MUTATING) and _traces(stage, names)
        ]
    return table


def _traces(stage: str, names: str) -> bool:
    """`pwrite64` writes who holds the lock, once; `ftruncate` too: one stage is enough."""
    return stage == "ingest" or names not in ("pwrite64", "ftruncate")
