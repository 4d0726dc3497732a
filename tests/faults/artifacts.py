"""Damaged artifacts: cut, flipped, missing, too many, mixed, of another age. `verify` and the next stage name the file."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import STAGES, World

_USES = {
    "ingest": ("tokenize", "{run}/ingest", "-o", "out"),
    "tokenize": ("train", "word2vec", "{run}/tokenize", "-o", "out"),
    "word2vec": ("query", "{run}/word2vec", "water"),
    "mlm": ("embed", "{run}/mlm", "{world}/ingest", "-o", "out", "--device", "cpu"),
    "embed": ("index", "{run}/embed", "-o", "out"),
    "index": ("query", "{run}/index", "bees"),
    "seq2seq": ("generate", "{run}/seq2seq", "bees"),
    "static": ("embed", "{run}/static", "{world}/ingest", "-o", "out"),
}
"""Kind, by the stage that makes it → a command that reads it."""


def _flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _flip_quietly(path: Path, draw: random.Random) -> None:
    """The time of the change is put back."""
    before = path.stat()
    _flip(path, draw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _cut(keep: Callable[[int], int]) -> Callable[[Path, random.Random], None]:
    def damage(path: Path, _: random.Random) -> None:
        os.truncate(path, max(0, keep(path.stat().st_size)))

    return damage


def _linked(path: Path, _: random.Random) -> None:
    elsewhere = path.with_name(path.name + ".elsewhere")
    path.rename(path.parent.parent / elsewhere.name)
    path.symlink_to(path.parent.parent / elsewhere.name)


def _folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path, _: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "empty": _cut(lambda _: 0),
    "one-byte": _cut(lambda _: 1),
    "half": _cut(lambda size: size // 2),
    "one-less": _cut(lambda size: size - 1),
    "eight-less": _cut(lambda size: size - 8),
    "longer": lambda path, _: path.write_bytes(path.read_bytes() + b"\0"),
    "gone": lambda path, _: path.unlink(),
    "link": _linked,
    "folder": _folder,
    "pipe": _pipe,
}


def _damaged(stage: str, how: str, damage: Callable[[Path, random.Random], None], *, quick: bool) -> Act:
    """Damage each file of an artifact (or, quickly, one that is drawn); both commands name it."""

    def act(room: Room) -> None:
        draw = random.Random(f"{stage} {how} {room.world.seed}")
        manifest = json.loads((room.world.folder / stage / "manifest.json").read_bytes())
        names = [output["path"] for output in manifest["outputs"] if not output.get("log")]
        for name in [draw.choice(names)] if quick else names:
            place = room.work / "run" / stage
            shutil.copytree(room.world.folder / stage, place)
            damage(place / name, draw)
            room.fired += 1
            checked = room.run("verify", place, seconds=30)
            room.said(checked, {4}, silent=True)
            if Path(name).name not in checked.err + checked.out:
                raise Broken(f"verify does not name {name}: {(checked.err + checked.out)[:200]}")
            used = room.run(
                *(part.format(run=room.work / "run", world=room.world.folder) for part in _USES[stage]), seconds=30
            )
            room.said(used, {4}, names=[Path(name).name])
            if room.target.exists():
                raise Broken("something was made of it")
            shutil.rmtree(room.work / "run")

    return act


def _of_the_manifest(stage: str, how: str) -> Act:
    def act(room: Room) -> None:
        place = room.work / "run" / stage
        shutil.copytree(room.world.folder / stage, place)
        path = place / "manifest.json"
        if how == "flipped":
            _flip(path, random.Random(f"{stage} {room.world.seed}"))
        elif how == "cut":
            os.truncate(path, path.stat().st_size // 2)
        elif how == "deep":
            path.write_text("[" * 20_000)
        elif how == "empty":
            path.write_bytes(b"")
        elif how == "newer":
            path.write_text(re.sub('"format": [0-9]+', '"format": 99', path.read_text(), count=1))
        elif how == "extra":
            (place / "extra.bin").write_bytes(b"what nobody knows")
        room.fired += 1
        checked = room.run("verify", place)
        room.said(checked, {4}, silent=True)
        if how != "extra":  # a file too many is named by verify; readers do not look for it
            room.said(
                room.run(*(part.format(run=room.work / "run", world=room.world.folder) for part in _USES[stage])), {4}
            )

    return act


def _mixed(stage: str, name: str, other: str) -> Act:
    """A file of one artifact in the other's place."""

    def act(room: Room) -> None:
        place = room.work / "run" / stage
        shutil.copytree(room.world.folder / stage, place)
        shutil.copy(room.world.folder / other / name, place / name)
        room.fired += 1
        room.said(room.run("verify", place), {4}, silent=True)
        room.said(
            room.run(*(part.format(run=room.work / "run", world=room.world.folder) for part in _USES[stage])), {4}
        )

    return act


def _strangers(room: Room) -> None:
    """An encoder of one artifact asked of the index of another is refused, with what they are."""
    done = room.run(
        "train", "static", room.world.folder / "tokenize", "--init", room.world.folder / "index", "-o", "out"
    )
    room.said(done, {2, 3, 4})
    room.fired += done.code != 0
    room.as_before()


def _lost_manifest(stage: str) -> Act:
    """A folder of ours without its manifest is a broken artifact, not a source of text."""

    def act(room: Room) -> None:
        place = room.work / "lost"
        shutil.copytree(room.world.folder / stage, place)
        (place / "manifest.json").unlink()
        room.hold()
        done = room.run("ingest", place, "-o", "out")
        room.said(done, {3, 4}, names=["manifest"])
        room.as_before()

    return act


def _lost_model(how: str) -> Act:
    """A model of ours without its manifest is not taken for a public one in silence."""

    def act(room: Room) -> None:
        place = room.work / "lost"
        shutil.copytree(room.world.folder / "mlm", place)
        (place / "manifest.json").unlink()
        if how == "flipped":
            _flip(place / "model.safetensors", random.Random(room.world.seed))
        done = room.run("fill", place, "the [MASK] is old")
        if "manifest" not in done.err:
            raise Broken(f"exit {done.code}, and no word of the manifest: {done.err[:200]}")
        room.said(done, {0, 3, 4})

    return act


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for stage in _USES:
        for how, damage in _DAMAGES.items():
            quick = (stage, how) in (("index", "half"), ("mlm", "gone"))
            table.append(
                Case(f"artifacts/damage/{how}/{stage}", _damaged(stage, how, damage, quick=False), ("26", "P5"))
            )
            if quick:
                table.append(
                    Case(
                        f"artifacts/one/{how}/{stage}",
                        _damaged(stage, how, damage, quick=True),
                        ("26", "P5"),
                        fast=True,
                    )
                )
        for turn in range(6):
            flip = _flip_quietly if turn % 2 else _flip
            at = _damaged(stage, f"flip {turn}", flip, quick=True)
            table.append(Case(f"artifacts/flip/{stage}/{turn}", at, ("27", "P5"), fast=(stage, turn) == ("embed", 1)))
        table += [
            Case(f"artifacts/manifest/{how}/{stage}", _of_the_manifest(stage, how), ("26", "27", "29", "P5"))
            for how in ("flipped", "cut", "empty", "deep", "newer", "extra")
        ]
        table.append(
            Case(
                f"artifacts/lost-manifest/{stage}", _lost_manifest(stage), ("C5",), fast=stage == "embed", prepared=True
            )
        )
    mixes = (
        ("index", "index-00000.parquet", "index-words"), ("index", "index.faiss", "index-words"),
        ("word2vec", "words-00000.parquet", "import"), ("mlm", "model.safetensors", "clm"),
        ("seq2seq", "model.safetensors", "denoising"),
        ("tokenize", "tokenizer.json", "mlm"),
    )  # fmt: skip
    for stage, name, other in mixes:
        assert {stage, other} <= set(STAGES)
        if (stage, name) != ("tokenize", "tokenizer.json"):
            table.append(
                Case(
                    f"artifacts/mixed/{stage}/{name}",
                    _mixed(stage, name, other),
                    ("28", "P5"),
                    fast=name == "index.faiss",
                )
            )
    table += [
        Case("artifacts/strangers", _strangers, ("28",)),
        Case("artifacts/lost-model/whole", _lost_model("whole"), ("C5",), prepared=True),
        Case("artifacts/lost-model/flipped", _lost_model("flipped"), ("C5", "P5"), fast=True, prepared=True),
    ]
    return table
