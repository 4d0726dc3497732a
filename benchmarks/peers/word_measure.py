"""One training or one reading in a process of its own: `python -m peers.word_measure TASK.json`."""

import importlib
import json
import sys
from pathlib import Path

from peers.measure import versions
from peers.word_engines import ENGINES

READINGS = ("prepare", "trained", "evaluate", "long_line", "huge")


def main() -> None:
    """Do the task."""
    task = json.loads(Path(sys.argv[1]).read_text())
    if task["work"] == "versions":
        for name in task["modules"]:
            importlib.import_module(name)
        found: dict[str, object] = dict(versions(task["libraries"]))
    elif task["work"] in READINGS:
        found = getattr(importlib.import_module("peers.word_readings"), task["work"])(task)
    else:
        found = ENGINES[task["work"]](task)
    Path(task["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
