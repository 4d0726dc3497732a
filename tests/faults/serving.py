"""Serving: generations that are replaced, descriptors that run out, a start that cannot be, what cannot be read."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.faults.case import Act, Case
from tests.faults.room import Broken, Room
from tests.faults.world import PROGRAM, World
from wordpipe.artifacts import publish

_SWAPS = 12
_NO_COLLECTOR = "import gc; gc.disable(); from wordpipe.cli import main; main()"


@contextmanager
def _server(room: Room, *arguments: object, shell: str = "", program: tuple[str, ...] = tuple(PROGRAM)):  # type: ignore[no-untyped-def]
    """The process of `wordpipe serve`, and where it answers; its stderr is a file."""
    log = room.folder / "serve.log"
    line = f'{shell + " && " if shell else ""}exec "$@"'
    command = ["sh", "-c", line, "sh", *program, "serve", *map(str, arguments), "--port", "0", "--json"]
    with log.open("wb") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, cwd=room.work, text=True)
    try:
        assert process.stdout is not None
        if not (said := process.stdout.readline()):
            raise Broken(f"it did not start: {log.read_text()[-300:]}")
        yield process, json.loads(said)["url"], log
    finally:
        process.terminate()
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Broken("it did not end") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()
    if code != -signal.SIGTERM or "Traceback" in log.read_text():
        raise Broken(f"exit {code}: {log.read_text()[-300:]}")


def _files_of(pid: int) -> int:
    return len([*Path(f"/proc/{pid}/fd").iterdir()])


def _status(url: str, body: bytes | None = None) -> int:
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=60) as reply:
            return int(reply.status)
    except HTTPError as error:
        with error:
            return int(error.code)


def _swaps(stage: str) -> Act:
    """Twelve generations, without Python's cycle collector: as many descriptors as after the third."""

    def act(room: Room) -> None:
        target = room.work / "served"
        shutil.copytree(room.world.folder / stage, target)
        with _server(room, target, program=(PROGRAM[0], "-c", _NO_COLLECTOR)) as (process, url, log):
            files = []
            for number in range(_SWAPS):
                _status(f"{url}/search?q=water")
                _status(f"{url}/similar?row=99999999")
                shutil.copytree(room.world.folder / stage, room.work / "fresh")
                os.utime(room.work / "fresh" / "manifest.json", (number, number))
                publish.exchange(room.work / "fresh", target)
                shutil.rmtree(room.work / "fresh")
                room.fired += 1
                time.sleep(1.5)
                files.append(_files_of(process.pid))
            if max(files[3:]) > max(files[:3]) + 2:
                raise Broken(f"descriptors grow: {files}")
            if _status(f"{url}/health") != 200:
                raise Broken(f"no answer any more: {log.read_text()[-300:]}")

    return act


def _no_descriptors(room: Room) -> None:
    """More idle connections than may be: few lines of log, answers again once they have gone."""
    with _server(room, room.world.folder / "index", shell="ulimit -n 128") as (_, url, log):
        host, port = url.removeprefix("http://").split(":")
        held = [socket.create_connection((host, int(port)), timeout=10) for _ in range(200)]
        room.fired += 1
        time.sleep(2)
        for one in held:
            one.close()
        time.sleep(0.5)
        if _status(f"{url}/health") != 200:
            raise Broken("it does not answer after they have gone")
        if log.stat().st_size > 4_000 or "connections instead of 256" not in log.read_text():
            raise Broken(f"{log.stat().st_size} bytes of log: {log.read_text()[:300]}")


def _refused(queries: dict[str, bytes | None]) -> Act:
    def act(room: Room) -> None:
        with _server(room, room.world.folder / "index", room.world.folder / "word2vec") as (_, url, _log):
            for query, body in queries.items():
                if (code := _status(url + query.rstrip("#"), body)) not in (400, 422):
                    raise Broken(f"{code}: {query} {body!r}")

    return act


def _cannot_start(name: str, codes: set[int], prepare: Callable[[Room], list[object]], shell: str = "") -> Case:
    def act(room: Room) -> None:
        done = room.program("serve", *prepare(room), shell=shell, seconds=60)
        room.said(done, codes)

    return Case(f"serving/cannot-start/{name}", act, ("K19",), prepared=True)


def _damaged(room: Room) -> list[object]:
    shutil.copytree(room.world.folder / "index", room.work / "index")
    with (room.work / "index" / "index.faiss").open("r+b") as file:
        file.write(b"damage")
    return ["index", "--port", "0"]


def _token(room: Room) -> list[object]:
    (room.work / "token").write_bytes(b"0123456789\x00abcdefghij\n")
    (room.work / "token").chmod(0o600)
    return [room.world.folder / "index", "--port", "0", "--token-file", "token"]


def cases(world: World) -> list[Case]:
    """The table of this file."""
    unreadable: dict[str, bytes | None] = {
        "/search?q=%ff": None, "/search?q=a&k=1&k=2": None, "/search?q=a%00": None, "/v1/models/%ff": None,
        "/v1/embeddings": b'{"input": "a", "input": "b"}', "/v1/embeddings#": b'{"input": "\\ud800"}',
        "/embed": b'{"inputs": "\xff"}',
    }  # fmt: skip
    no_vector: dict[str, bytes | None] = {
        "/v1/embeddings": b'{"input": ["water", "zzqqx"], "model": "word2vec"}',
        "/embed?model=word2vec": b'{"inputs": "zzqqx"}',
    }
    index = world.folder / "index"
    table = [
        Case("serving/unreadable", _refused(unreadable), ("K15",), fast=True, prepared=True),
        Case("serving/no-vector", _refused(no_vector), ("K15",), prepared=True),
        _cannot_start("damaged", {4}, _damaged),
        _cannot_start("token", {2}, _token),
        _cannot_start("host", {2}, lambda _: [index, "--host", "a" * 300, "--token-file", "none"]),
        _cannot_start("descriptors", {5}, lambda _: [index, "--port", "0"], shell="ulimit -n 40"),
    ]
    if Path("/proc/self/fd").is_dir():
        table += [
            Case(f"serving/swaps/{stage}", _swaps(stage), ("K18", "P8")) for stage in ("index", "word2vec", "static")
        ]
        table.append(Case("serving/descriptors", _no_descriptors, ("12", "K19")))
    return table
