"""`finish` and `--minutes`: killed at failpoints, of a damaged checkpoint, of a training that goes on, within a time.

What stood at the output stays or the whole new artifact is there, and the stopped training goes on to the bytes of one that
was never stopped.
"""

import json
import signal
import time

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room, contents
from tests.faults.world import World

_KILLED = -signal.SIGKILL
_TRAININGS = ("mlm", "word2vec", "static")  # one of each kind of checkpoint
_OTHERS = ("classifier", "tagger", "seq2seq")  # of these the point between the old artifact and the new one
_WITHIN = ("--steps", "60", "--minutes", "10")
_POINTS = ("publish.started", "publish.file_synced", "publish.before_exchange", "publish.after_exchange")


def _stopped(room: Room, stage: str) -> dict[str, str]:
    """Kill a training after its first checkpoint, over an older artifact; what is in its folder of checkpoints."""
    room.lay_older(stage)
    nth = 2 if stage == "word2vec" else 1  # the first has no words yet
    done = room.run(*room.world.command(stage), "-o", "out", WORDPIPE_FAILPOINT=f"checkpoint.after_pointer:kill:{nth}")
    if done.code != _KILLED:
        raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
    return _checkpoints(room)


def _checkpoints(room: Room) -> dict[str, str]:
    """What is in the folder of checkpoints, without what a killed write has left."""
    return {name: one for name, one in contents(room.work).items() if ".partial" in name and not name.endswith(".tmp")}


def _made(room: Room) -> dict[str, str]:
    """What is at the output."""
    return {name: one for name, one in contents(room.work).items() if name.startswith("out/")}


def _kept(room: Room, before: dict[str, str]) -> None:
    """Check that the output is as it was; a kill -9 may leave temporary files beside it."""
    if _made(room) != before:
        raise Broken("what stood at the output has changed")


def _finished(room: Room) -> bool:
    """Whether the artifact at the output is one that was finished early."""
    return "finished_early" in json.loads((room.target / "manifest.json").read_text())["facts"]


def _killed(stage: str, point: str, *options: str) -> Act:
    def act(room: Room) -> None:
        state, before = _stopped(room, stage), _made(room)
        done = room.run("finish", "out", *options, WORDPIPE_FAILPOINT=f"{point}:kill")
        if done.code != _KILLED:
            raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
        room.fired += 1
        if is_new := point == "publish.after_exchange":
            room.verified()
        else:
            _kept(room, before)
        if _finished(room) != is_new:
            raise Broken("not the artifact that should be there")
        if lost := sorted(name for name, one in state.items() if _checkpoints(room).get(name) != one):
            raise Broken(f"the checkpoint has changed: {lost[:3]}")
        again = room.run("finish", "out", *options)
        room.said(again, {0})
        room.verified()
        if not _finished(room):
            raise Broken("it does not say that it was finished early")
        room.again(stage)

    return act


def _damaged(room: Room) -> None:
    """The weights of the only checkpoint are damaged: nothing is made of them."""
    _stopped(room, "mlm")
    before = _made(room)
    weights = next(room.work.glob(".out.*.partial/step-*/model.safetensors"), None)
    weights = weights or next(room.work.glob(".out*partial/**/model.safetensors"))
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    done = room.run("finish", "out")
    room.said(done, {4}, names=["no checkpoint of the stopped run can be used"])
    _kept(room, before)
    room.again("mlm")


def _cut_pointer(room: Room) -> None:
    """The file that names the checkpoints is cut: that is no stopped training."""
    _stopped(room, "mlm")
    before = _made(room)
    pointer = next(room.work.glob(".out*partial/LATEST.json"))
    pointer.write_bytes(pointer.read_bytes()[:40])
    room.said(room.run("finish", "out"), {4}, names=["there is no stopped training here"])
    _kept(room, before)
    room.again("mlm")


def _going_on(room: Room) -> None:
    """`finish` while the training runs is refused, and the training is not disturbed."""
    room.lay_older("mlm")
    before = _made(room)
    command = [*room.world.command("mlm"), "--steps", "100000", "-o", room.target]
    child = room.world.nursery.command(*command)
    try:
        end = time.monotonic() + 60
        while not any(room.work.glob(".out*partial/LATEST.json")):
            if time.monotonic() > end:
                raise Broken("it made no checkpoint")
            time.sleep(0.02)
        done = room.run("finish", "out")
        room.fired += 1
        room.said(done, {7}, names=["another run is writing this output"])
        _kept(room, before)
    finally:
        code = child.signal(signal.SIGINT)
    if code not in (-signal.SIGINT, 128 + signal.SIGINT):
        raise Broken(f"the training ended with {code}")
    room.said(room.run("finish", "out"), {0})
    room.verified()


def _within_a_time(stage: str) -> Act:
    """A training within a time that is killed goes on with the same command, by the plan that it had."""

    def act(room: Room) -> None:
        room.lay_older(stage)
        before = _made(room)
        more = _WITHIN if stage == "mlm" else _WITHIN[2:]
        command = [*room.world.command(stage), *more, "-o", "out"]
        done = room.run(*command, WORDPIPE_FAILPOINT="checkpoint.after_pointer:kill:2")
        if done.code != _KILLED:
            raise Broken(f"exit {done.code} instead of a kill: {done.err[-300:]}")
        room.fired += 1
        _kept(room, before)
        done = room.run(*command)
        room.said(done, {0}, names=[])
        if "continuing a stopped run" not in done.err:
            raise Broken("it began anew")
        room.verified()
        within = json.loads((room.target / "manifest.json").read_text())["facts"]["within"]
        if within["minutes"] != 10 or within["made"] < 1:
            raise Broken(f"the manifest says {within}")
        if left := [path.name for path in room.work.glob(".out*partial")]:
            raise Broken(f"something is left beside the artifact: {left}")

    return act


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = [
        Case(f"finish/killed/{stage}/{point.partition('.')[2]}", _killed(stage, point), ("2", "P1", "P2"), killed=True)
        for stage in (*_TRAININGS, *_OTHERS)
        for point in (_POINTS if stage in _TRAININGS else ("publish.before_exchange",))
    ]
    table += [
        Case(
            f"finish/cooling/{stage}/before_exchange", _killed(stage, "publish.before_exchange", "--cool-down"),
            ("2", "P1", "P2"), killed=True,
        )
        for stage in _TRAININGS
    ]  # fmt: skip
    table += [
        Case(f"finish/within/{stage}", _within_a_time(stage), ("2", "P1", "P2"), killed=True)
        for stage in ("mlm", "word2vec")
    ]
    return [
        *table,
        Case("finish/damaged", _damaged, ("3", "P1"), fast=True, prepared=True, killed=True),
        Case("finish/cut-pointer", _cut_pointer, ("3", "P1"), prepared=True, killed=True),
        Case("finish/going-on", _going_on, ("2", "P1"), killed=True),
    ]
