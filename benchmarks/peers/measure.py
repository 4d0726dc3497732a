"""One measurement in its own process: `python -m peers.measure TASK.json` does a task and writes what it took.

The clock stands for the work alone; importing and loading go before it. Peak memory is of the whole process up to the end of
the work, imports included.
"""

import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from peers.engines import ENGINES


class Clock:
    """Seconds inside the block, and the process's peak memory at its end."""

    seconds = 0.0
    peak_memory_bytes = 0

    def __enter__(self) -> "Clock":
        self._begun = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self._begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.peak_memory_bytes = peak if sys.platform == "darwin" else peak * 1024


def versions(names: list[str]) -> dict[str, str]:
    """The libraries' versions in this environment; a folder of wordpipe that is not installed has one too."""
    from wordpipe import __version__

    return {name: __version__ if name == "wordpipe" else importlib.metadata.version(name) for name in names}


def threads_of(number: int) -> dict[str, str]:
    """The environment of a process in which libraries take so many threads."""
    return {**os.environ, **{f"{library}_NUM_THREADS": str(number) for library in ("OMP", "OPENBLAS", "MKL")}}


def run_task(module: str, task: dict[str, Any], folder: Path, threads: int) -> dict[str, Any]:
    """Do a side's task in its own process by a module of peers, which writes `task["result"]`; an error is the result."""
    (folder / "task.json").write_text(json.dumps(task))
    done = subprocess.run(
        [sys.executable, "-m", f"peers.{module}", str(folder / "task.json")],
        cwd=Path(__file__).parent.parent, env=threads_of(threads), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"error": f"exit code {done.returncode}{': ' + said[-1] if said else ''}"}
    found: dict[str, Any] = json.loads(Path(task["result"]).read_text())
    return found


def main() -> None:
    """Do the task."""
    task = json.loads(Path(sys.argv[1]).read_text())
    found: dict[str, object] = {}
    if task["work"] == "digest":
        from peers.rows import digest_of

        found = digest_of(Path(task["out"]))
    elif task["work"] == "versions":
        found = versions(task["libraries"])
    else:
        clock = Clock()
        ENGINES[task["peer"], task["work"]](task, clock)
        found = {"seconds": clock.seconds, "peak_memory_bytes": clock.peak_memory_bytes}
    Path(task["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
