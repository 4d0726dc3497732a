"""Publish once per failpoint, each time in a forked child that dies there; a program, as the test process has threads.

    python -m tests.support.forking FOLDER [--two-renames]

Prints, as JSON, the signal or exit code of each child; the last one passed fewer failpoints than it was to die at.
"""

import json
import os
import sys
from pathlib import Path

from tests.support.generations import one_rename_impossible, publish
from tests.support.tracing import prepare
from wordpipe.artifacts import publish as publication


def main(folder: Path) -> list[int]:
    codes: list[int] = []
    while not codes or (codes[-1] != 0 and len(codes) < 200):
        nth = len(codes) + 1
        target = folder / str(nth) / "corpus"
        prepare(target)
        if (child := os.fork()) == 0:
            os.environ["WORDPIPE_FAILPOINT"] = f"*:kill:{nth}"
            publish(target, 2)
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return codes


if __name__ == "__main__":
    if "--two-renames" in sys.argv:
        publication.exchange = one_rename_impossible
    json.dump(main(Path(sys.argv[1])), sys.stdout)
