"""How long the README's chain takes of a text of some size: the source of its table for 1 and 5 GB.

    python benchmarks/sizes.py --data wikipedia.txt --mb 100
    python benchmarks/sizes.py --data wikipedia.txt --mb 20 --out result.json

Every stage is a command in a process of its own, with its defaults: seconds, peak memory, and what its artifact takes on disk.
Blank lines part the documents of the text, whose first line is a title.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import machine

RESULTS = Path(__file__).parent.absolute() / "results"
CHAIN = (  # stage, command, inputs
    ("corpus", "ingest {text} --documents block --first-line-title"),
    ("tokens", "tokenize corpus"),
    ("words", "train word2vec tokens"),
    ("encoder", "train static tokens --goal search"),
    ("sentences", "embed encoder corpus --unit window"),
    ("index", "index sentences"),
)
QUERY = "how do bees find their way home"


def cut(text: Path, mb: float, out: Path) -> None:
    """The first so many megabytes of a text, to the end of a line."""
    with text.open("rb") as source, out.open("wb") as target:
        target.write(source.read(int(mb * 1e6)))
        target.write(source.readline())


def stage(folder: Path, name: str, command: str) -> dict[str, Any]:
    """Make one artifact; what it took."""
    words = [word.format(text="text.txt") for word in command.split()]
    line = [sys.executable, "-m", "wordpipe", *words, "-o", name, "--json", "-q"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    made = json.loads(done.stdout)
    size = sum(path.stat().st_size for path in (folder / name).rglob("*") if path.is_file())
    return {
        "stage": name, "command": command, "seconds": round(made["seconds"], 1), "disk_bytes": size,
        "peak_memory_bytes": made["peak_memory_bytes"], "load_after": round(os.getloadavg()[0], 1), "counts": made["counts"],
    }  # fmt: skip


def main() -> int:
    """Make the chain, ask it, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--mb", type=float, default=100.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "sizes.json")
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut(arguments.data, arguments.mb, folder / "text.txt")
        for artifact, command in CHAIN:
            lines.append(stage(folder, artifact, command))
            print(lines[-1])
        begun = time.perf_counter()
        line = [sys.executable, "-m", "wordpipe", "query", "index", QUERY, "--json"]
        hits = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
        asked = {"seconds": round(time.perf_counter() - begun, 2), "hits": len(hits)}
    result = {
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[1], 2)},
        "libraries": versions(["torch", "numpy", "faiss-cpu"]), "mb": arguments.mb, "lines": lines, "query": asked,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{sum(line['seconds'] for line in lines):.0f} s in all; written to {arguments.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
