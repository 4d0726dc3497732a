"""Trainings of `small_trainings` in processes of their own that start in milliseconds."""

import signal
from collections.abc import Mapping
from pathlib import Path

import tests.support.nursery
from tests.support import small_trainings


class Nursery(tests.support.nursery.Nursery):
    """The server that they are forked from; it imports no more than a training does."""

    def __init__(self) -> None:
        super().__init__(("torch._dynamo", "tests.support.training_nursery"))

    def train(
        self,
        *arguments: str,
        log: Path,
        call: str = "main",
        failpoint: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> "Training":
        log.unlink(missing_ok=True)
        variables = dict(environment or {}) | ({"WORDPIPE_FAILPOINT": failpoint} if failpoint else {})
        return Training(self.start("tests.support.training_nursery:train", call, *arguments, out=log, **variables))


class Training:
    """One training process."""

    def __init__(self, child: tests.support.nursery.Child) -> None:
        self._child, self.pid, self.wait = child, child.pid, child.wait

    def lines(self) -> list[str]:
        return self._child.out.read_text().splitlines()

    def wait_for_reports(self, count: int) -> None:
        self._child.wait_until(lambda: self._reports() >= count)

    def _reports(self) -> float:
        """How many it has made; all there could be where it is at its end."""
        lines = self.lines()
        ended = any(line.startswith("weights") for line in lines)
        return float("inf") if ended else sum(line.startswith("step") for line in lines)

    def kill(self, signum: int = signal.SIGKILL) -> int:
        return self._child.signal(signum)


def train(call: str, *arguments: str) -> None:
    """A function of `small_trainings`, in a child."""
    getattr(small_trainings, call)(*arguments)
