"""Sizes of an installation, by package: what `pip install wordpipe` puts on the disk, in an environment of its own.

    python benchmarks/installed.py                          writes benchmarks/results/installed.json
    python benchmarks/installed.py --extra serve --extra documents

A wheel is built of this folder and installed with the versions of `constraints.txt`. A package has the bytes of its files, as
they stand in its own list of them; `bytecode` is what Python then adds for all of them, which pip makes at once. Exit code 0:
what pip puts there without bytecode is 650 MB or less (a bare installation), or 680 MB with extras.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

from tokens import machine

PROJECT = Path(__file__).absolute().parent.parent
BARE, WITH_EXTRAS = 650, 680
"""MB at most."""


def megabytes(files: list[Path]) -> float:
    """The bytes of files, in millions."""
    return round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6, 1)


def main() -> int:
    """Install, weigh and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="an extra that is installed, too")
    parser.add_argument(
        "--out", type=Path, default=PROJECT / "benchmarks" / "results" / "installed.json", help="where the figures go"
    )
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        venv.create(environment, with_pip=False)
        (site,) = environment.glob("lib/python3*/site-packages")
        there = str(environment / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", there, "install", "-q", "--no-compile"]
        wanted = f"{PROJECT}[{','.join(args.extra)}]" if args.extra else str(PROJECT)
        subprocess.run([*pip, "-c", str(PROJECT / "constraints.txt"), wanted], check=True)
        sizes = {
            one.name: megabytes([Path(str(one.locate_file(file))) for file in one.files or []])
            for one in distributions(path=[str(site)])
        }
        total = megabytes([*site.rglob("*")])
        subprocess.run([there, "-m", "compileall", "-q", "-j", "0", str(site)], check=False)
        bytecode = megabytes([*site.rglob("*.pyc")])
    body = {
        "machine": machine(), "extras": args.extra, "total_mb": total, "bytecode_mb": bytecode,
        "packages_mb": dict(sorted(sizes.items(), key=lambda one: -one[1])),
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(body, indent=1) + "\n")
    print(json.dumps(body, indent=1))
    return int(total > (WITH_EXTRAS if args.extra else BARE))


if __name__ == "__main__":
    sys.exit(main())
