"""Processes of their own that start in milliseconds: forked from one that has imported everything and done nothing.

A program that imports torch takes two seconds to start, and a test that kills one starts it three times. The server reads one
JSON request per line: {"start": {"call", "arguments", "out", "err", "environment"}} answers a process id, {"wait": pid} its
exit code (negative: the signal that killed it).
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "torch", "torch._dynamo",  # torch's optimisers import it when first used, which takes a second
    "faiss", "pyarrow.parquet", "wordpipe.cli.stage", "wordpipe.model.numpy_model",
    "wordpipe.encoders.transformer_encoder", "wordpipe.stages.encode.embed", "wordpipe.stages.search.index",
    "wordpipe.stages.search.index_lexical", "wordpipe.stages.corpus.ingest", "wordpipe.stages.corpus.tokenize",
    "wordpipe.stages.train.pretrain", "wordpipe.stages.train.word2vec",
    "wordpipe.training.learner", "wordpipe.words.training", "tests.support.first_kernel",
)  # fmt: skip
"""What the server imports before its first child, unless the child says what it needs."""


@dataclass(frozen=True)
class Finished:
    """What a process left."""

    returncode: int
    stdout: str
    stderr: str


class Child:
    """One process."""

    def __init__(self, nursery: "Nursery", pid: int, out: Path, err: Path) -> None:
        self._nursery, self.pid, self.out, self.err = nursery, pid, out, err
        self._code: int | None = None

    def wait_until(self, happened: Callable[[], bool], seconds: float = 100) -> None:
        """Wait for something that the process does; it fails if it has not happened by then."""
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, self.err.read_text()
            time.sleep(0.002)

    def signal(self, number: int) -> int:
        """Send a signal, unless its end is known (the number may be another's by now), and wait for the end."""
        if self._code is None:
            os.kill(self.pid, number)
        return self.wait()

    def wait(self, seconds: float = 600) -> int:
        """Its exit code; what has not ended by then is killed, as the server answers nothing else while it waits."""
        if self._code is None:
            stuck = threading.Timer(seconds, os.kill, (self.pid, signal.SIGKILL))
            stuck.start()
            try:
                self._code = self._nursery.ask(wait=self.pid)
            finally:
                stuck.cancel()
            self._nursery.alive.discard(self)
        return self._code


class Nursery:
    """The tests' side of the server, which starts with the first child. At the end no child is left.

    Args:
        loaded: what the server imports.
    """

    def __init__(self, loaded: tuple[str, ...] = LOADED) -> None:
        self._loaded = loaded
        self._server: subprocess.Popen[str] | None = None
        self.alive: set[Child] = set()

    def __enter__(self) -> "Nursery":
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()
        if self._server is not None:
            self._server.communicate(timeout=60)
        self._folder.cleanup()

    def kill_all(self) -> None:
        for child in [*self.alive]:
            child.signal(signal.SIGKILL)

    def ask(self, **request: object) -> int:
        if self._server is None:
            command = [sys.executable, "-m", "tests.support.nursery", *self._loaded]
            # a library that starts threads when it is imported would leave them behind in the children
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self._server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
            )
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def start(self, call: str, *arguments: str, out: Path | None = None, **environment: str) -> Child:
        """Start `module:function` with strings; what it says goes to `out`, or else to two files that the child names."""
        place = Path(self._folder.name, str(time.monotonic_ns()))
        outs = (out, out) if out else (place.with_suffix(".out"), place.with_suffix(".err"))
        for path in outs:
            path.touch()
        paths = [str(path) for path in outs]
        request = {"call": call, "arguments": arguments, "outputs": paths, "environment": environment}
        child = Child(self, self.ask(start=request), *outs)
        self.alive.add(child)
        return child

    def command(self, *arguments: object, **environment: str) -> Child:
        """Start `wordpipe ARGUMENTS`."""
        here = {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]} if "XDG_CACHE_HOME" in os.environ else {}
        return self.start("tests.support.nursery:command", str(Path.cwd()), *map(str, arguments), **here, **environment)

    def run(self, *arguments: object, **environment: str) -> Finished:
        """Run `wordpipe ARGUMENTS` to its end."""
        child = self.command(*arguments, **environment)
        return Finished(child.wait(), child.out.read_text(), child.err.read_text())


def command(folder: str, *arguments: str) -> int:
    """The command line, in a child."""
    from wordpipe.cli import run

    os.chdir(folder)
    sys.argv = ["wordpipe", *arguments]
    return run()


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                os._exit(_child(**request["start"]))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _child(call: str, arguments: list[str], outputs: list[str], environment: Mapping[str, str]) -> int:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for fd, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), fd)
    os.environ.update(environment)
    module, name = call.split(":")
    try:
        code = getattr(importlib.import_module(module), name)(*arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  (the child must not go on as a second server)
        traceback.print_exc()
        return 1
    return code or 0


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    serve()
