"""Trainings in processes of their own that start in milliseconds: forked from one that has imported torch and done nothing.

The server reads one JSON request per line: {"start": {"call", "arguments", "log", "environment"}} answers
a process id, {"wait": pid} its exit code (negative: the signal that killed it).
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import torch._dynamo  # noqa: F401  (torch's optimisers import it when first used, which takes a second)

from tests.training import parts
from wordpipe.training import reachable


class Nursery:
    """The tests' side."""

    def __enter__(self) -> "Nursery":
        command = [sys.executable, "-m", "tests.training.nursery"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate(timeout=60)

    def ask(self, **request: object) -> int:
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def start(
        self,
        *arguments: str,
        log: Path,
        call: str = "main",
        failpoint: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> "Child":
        log.unlink(missing_ok=True)
        variables = dict(environment or {}) | ({"WORDPIPE_FAILPOINT": failpoint} if failpoint else {})
        request = {"call": call, "arguments": arguments, "log": str(log), "environment": variables}
        return Child(self, self.ask(start=request), log)


class Child:
    """One training process."""

    def __init__(self, nursery: Nursery, pid: int, log: Path) -> None:
        self._nursery, self.pid, self._log = nursery, pid, log

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def wait_for_reports(self, count: int) -> None:
        end = time.monotonic() + 100
        while sum(line.startswith("step") for line in self.lines()) < count and time.monotonic() < end:
            if any(line.startswith("weights") for line in self.lines()):
                return
            time.sleep(0.001)

    def kill(self, signum: int = signal.SIGKILL) -> int:
        os.kill(self.pid, signum)
        return self.wait()

    def wait(self) -> int:
        return self._nursery.ask(wait=self.pid)


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


def _child(call: str, arguments: list[str], log: str, environment: dict[str, str]) -> int:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.environ.update(environment)
    reachable._SECONDS = 0.0  # the machine's speed is of no interest here
    try:
        getattr(parts, call)(*arguments)
    except Exception:  # noqa: BLE001  (the child must not go on as a second server)
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve()
