"""The disk refuses: full, failing, read-only, a file too large; under every stage, every export, the caches and stdout.

A full disk is a small tmpfs with so many bytes left (needs the right to mount). Where that is not given, a limit of file
sizes stands in for it, and the result says so by its name.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.case import Act, Case, Tries
from tests.faults.crash import passages
from tests.faults.room import Broken, Room, Skipped, contents
from tests.faults.world import EXPORTS, IN_FOLDERS, STAGES, World
from tests.support.tracing import can_trace

_DISK_KB = 64_000
_SHARES = (0.0, 0.1, 0.3, 0.6, 0.9)
_REFUSED = {5}


def may_mount() -> bool:
    """Whether small disks can be mounted: Linux, root, and (so that they go with us) a namespace of our own."""
    return sys.platform == "linux" and os.geteuid() == 0 and bool(os.environ.get("WORDPIPE_FAULTS_MOUNTS"))


@contextmanager
def _small_disk(folder: Path, options: str = "") -> Iterator[None]:
    if not may_mount():
        raise Skipped("a small disk needs root and a mount namespace (a limit of file sizes is tried instead)")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_KB}k{options}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True, timeout=30)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True, timeout=30)


def _fill(disk: Path, free: int) -> Path:
    """Leave so many bytes on the disk."""
    ballast = disk / "ballast"
    space = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, space.f_bavail * space.f_bsize - free)))
    return ballast


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def _full(stage: str, share: float) -> Act:
    """So much of what the stage writes fits, and no more."""

    def act(room: Room) -> bool:
        with _small_disk(room.work):
            room.lay_older(stage)
            ballast = _fill(room.work, int(share * _size(room.world.folder / stage)))
            room.hold()
            done = room.run(*room.world.command(stage), "-o", "out")
            if done.code == 0 and share > 0:
                room.made(stage)
                return True
            room.fired += 1
            room.said(done, _REFUSED, names=["no space left", "out"])
            room.as_before(state=True)
            ballast.unlink()
            room.again(stage)
        return True

    return act


def _full_at_each_size(stage: str) -> Tries:
    for share in _SHARES:
        yield f"{share:.0%} free", _full(stage, share)


def _full_export(to: str) -> Act:
    def act(room: Room) -> None:
        with _small_disk(room.work):
            folder = to in IN_FOLDERS
            command = ["export", room.world.folder / EXPORTS[to], "--to", to, "-o", "out"]
            if room.run(*command).code:
                raise Broken("the undisturbed export failed")
            whole = contents(room.work)
            shutil.rmtree(room.target) if folder else room.target.unlink()
            _fill(room.work, 0)
            room.hold()
            done = room.run(*command)
            room.fired += done.code == 5
            room.said(done, _REFUSED, names=["no space left", "out"])
            room.as_before()
            (room.work / "ballast").unlink()
            again = room.run(*command)
            if again.code or contents(room.work) != whole:
                raise Broken(f"the next run ended with {again.code}, or with other bytes")

    return act


def _too_large(stage: str, limit: int) -> Act:
    """`ulimit -f`: what is written past the limit is refused, and no signal kills."""

    def act(room: Room) -> None:
        room.lay_older(stage)
        done = room.run(
            *room.world.command(stage), "-o", "out", limits={"fsize": limit}, XDG_CACHE_HOME=str(room.folder / "c")
        )
        room.fired += done.code != 0
        room.said(done, _REFUSED, names=["out"])
        room.as_before(state=True)
        room.again(stage)

    return act


def _refused_at(stage: str, failpoint: str) -> Act:
    def act(room: Room) -> bool:
        room.lay_older(stage)
        done = room.run(*room.world.command(stage), "-o", "out", WORDPIPE_FAILPOINT=failpoint)
        if done.code == 0:
            room.made(stage)
            return False
        room.fired += 1
        room.said(done, _REFUSED)
        room.as_before(state=True)
        room.again(stage)
        return True

    return act


def _refused_everywhere(stage: str, error: str) -> Tries:
    return passages(lambda point: _refused_at(stage, point.format(action=error)), step=2)


def _traced(stage: str, fault: str, calls: str, nth: int, path: str | None = None) -> Act:
    """EIO from the system itself, at the nth call of a kind (on one file)."""

    def act(room: Room) -> None:
        if not can_trace():
            raise Skipped("needs strace and the right to trace")
        room.lay_older(stage)
        place = ["-P", path.format(world=room.world.folder)] if path else []
        strace = [*place, "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}:when={nth}"]
        # without what it remembers of earlier checks, it reads its inputs
        done = room.program(
            *room.world.command(stage), "-o", "out", strace=strace, XDG_CACHE_HOME=str(room.folder / "c")
        )
        room.fired += done.injected
        if not done.injected:
            return
        wanted = [Path(path).name] if path else []
        room.said(done, _REFUSED, names=[*wanted, "input/output error"])
        room.as_before(state=True)
        room.again(stage)

    return act


_READS = {
    "ingest": "{world}/text.txt",
    "import": "{world}/vectors.txt",
    "tokenize": "{world}/ingest/corpus-00000.parquet",
    "word2vec": "{world}/tokenize/tokens-00000.parquet",
    "mlm": "{world}/tokenize/tokens-00000.parquet",
    "static": "{world}/tokenize/words.parquet",
    "embed": "{world}/mlm/model.safetensors",
    "index": "{world}/embed/sentences-00000.parquet",
}
_READING = "read,pread64,preadv,preadv2,readv"


def _query_reads(name: str) -> Act:
    """EIO while an index is opened and asked."""

    def act(room: Room) -> None:
        if not can_trace():
            raise Skipped("needs strace and the right to trace")
        path = room.world.folder / "index" / name
        strace = ["-P", str(path), "-e", f"trace={_READING}", "-e", f"inject={_READING}:error=EIO:when=1+"]
        done = room.program(
            "query", room.world.folder / "index", "bees", strace=strace, XDG_CACHE_HOME=str(room.folder / "c")
        )
        room.fired += done.injected
        room.said(done, _REFUSED, names=[name])

    return act


def _to_full_stdout(*arguments: str) -> Act:
    """What it prints goes to a device that is always full."""

    def act(room: Room) -> None:
        done = room.run(*(part.format(world=room.world.folder) for part in arguments), outputs={1: "/dev/full"})
        room.fired += done.code != 0
        room.said(done, _REFUSED, names=["no space left"])
        if not re.search("stdout|standard output", done.err):
            raise Broken(f"it does not say that stdout is full: {done.err[:200]}")

    return act


def _read_only(stage: str) -> Act:
    def act(room: Room) -> None:
        with _small_disk(room.work):
            room.lay_older(stage)
            subprocess.run(["mount", "-o", "remount,ro", str(room.work)], check=True, capture_output=True, timeout=30)
            phases = room.folder / "phases"
            done = room.run(*room.world.command(stage), "-o", "out", phases=phases)
            room.fired += done.code == 5
            room.said(done, _REFUSED, names=["read-only", "out"])
            room.as_before()
            if phases.exists() and stage != "import" and "step" in phases.read_text().split():
                raise Broken("it was refused only after the work")

    return act


def _cache_of_hashes(how: str) -> Act:
    """A cache that is full, garbage, a file or a link is no reason to fail, nor to believe it."""

    def act(room: Room) -> None:
        cache = room.folder / "cache"
        if how == "a file":
            cache.write_bytes(b"no folder")
        elif how == "garbage":
            (cache / "wordpipe").mkdir(parents=True)
            (cache / "wordpipe" / "hashes.sqlite").write_bytes(os.urandom(9_000))
        elif how == "an endless file":
            (cache / "wordpipe").mkdir(parents=True)
            (cache / "wordpipe" / "hashes.sqlite").symlink_to("/dev/zero")
        room.fired += 1
        with _small_disk(_made(cache)) if how == "a full disk" else _nothing():
            if how == "a full disk":
                _fill(cache, 0)
            for stage in ("ingest", "index"):
                room.target = room.work / stage
                room.last = None
                done = room.run(*room.world.command(stage), "-o", stage, XDG_CACHE_HOME=str(cache))
                room.said(done, {0})
                if (
                    re.findall(r'"digest": "(\w+)"', (room.target / "manifest.json").read_text())[-1]
                    != room.world.digests[stage]
                ):
                    raise Broken("other bytes than an undisturbed run")
            room.said(room.run("query", "index", "bees", XDG_CACHE_HOME=str(cache)), {0})

    return act


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cases(world: World) -> list[Case]:
    """The table of this file."""
    table = []
    for stage in STAGES:
        if may_mount():
            fast = stage in ("import", "index")
            table.append(
                Case(f"storage/full/{stage}/nothing-free", _full(stage, 0.0), ("5", "6", "C19", "P6"), fast=fast)
            )
            some = Case(
                f"storage/full/{stage}",
                sweep=lambda s=stage: _full_at_each_size(s),
                covers=("5", "6", "C19", "P6"),
                prepared=True,
            )
            table.append(some)  # with room for most of it, a stage may end well
        table += [
            Case(f"storage/file-size/{stage}", _too_large(stage, 300), ("11", "P6"), fast=stage == "tokenize"),
            Case(f"storage/eio/{stage}", sweep=lambda s=stage: _refused_everywhere(s, "eio"), covers=("7", "P6")),
            Case(f"storage/enospc/{stage}", sweep=lambda s=stage: _refused_everywhere(s, "enospc"), covers=("5", "P6")),
            Case(f"storage/fsync-eio/{stage}", _traced(stage, "error=EIO", "fsync", 1), ("7", "P6")),
            Case(f"storage/read-only/{stage}", _read_only(stage), ("10", "P6"), fast=stage == "index"),
        ]
    for stage, path in _READS.items():
        read = _traced(stage, "error=EIO", _READING, 1, path)
        table.append(Case(f"storage/read-eio/{stage}", read, ("8", "P6"), fast=stage == "ingest"))
    for name in ("manifest.json", "index.faiss", "index-00000.parquet"):
        table.append(Case(f"storage/query-eio/{name}", _query_reads(name), ("8",)))
    for to in EXPORTS:
        table.append(
            Case(f"storage/full-export/{to}", _full_export(to), ("5", "6", "C19", "P6"), fast=to == "word2vec-text")
        )
    outs = {
        "query": ("query", "{world}/index", "bees", "--json"),
        "show": ("show", "{world}/index"),
        "verify": ("verify", "{world}/index", "--json"),
        "evaluate": ("evaluate", "tokenizer", "{world}/tokenize", "--data", "{world}/text.txt", "--json"),
    }
    table += [
        Case(f"storage/full-stdout/{name}", _to_full_stdout(*arguments), ("6", "C19"), fast=name == "query")
        for name, arguments in outs.items()
    ]
    table += [
        Case(
            f"storage/hash-cache/{how.replace(' ', '-')}",
            _cache_of_hashes(how),
            ("27", "P5", "P6"),
            fast=how == "garbage",
        )
        for how in ("a full disk", "garbage", "a file", "an endless file")
    ]
    return table
