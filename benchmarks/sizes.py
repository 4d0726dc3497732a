"""How long the README's chain takes of a text of some size: the source of its table for 1 and 5 GB.

    python benchmarks/sizes.py --data wikipedia.txt --mb 100
    python benchmarks/sizes.py --data wikipedia.txt --mb 20 --out result.json
    python benchmarks/sizes.py --data wikipedia.txt --disk

Every stage is a command in a process of its own, with its defaults: seconds, peak memory, and what its artifact adds on disk.
A file that artifacts share (by a hard link) counts where it comes first. `--disk` measures the disk alone, on a machine
that is busy with other work: times and memory stay those of the file.
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


def added(folder: Path, known: set[int]) -> int:
    """Bytes of the files of a folder that are not known yet, by their number on the disk; they are from now on."""
    found = {one.st_ino: one.st_size for path in folder.rglob("*") if path.is_file() for one in [path.stat()]}
    new = sum(size for number, size in found.items() if number not in known)
    known |= {*found}
    return new


def stage(folder: Path, name: str, command: str, known: set[int]) -> dict[str, Any]:
    """Make one artifact; what it took."""
    words = [word.format(text="text.txt") for word in command.split()]
    line = [sys.executable, "-m", "wordpipe", *words, "-o", name, "--json", "-q"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    made = json.loads(done.stdout)
    return {
        "stage": name, "command": command, "seconds": round(made["seconds"], 1), "disk_bytes": added(folder / name, known),
        "peak_memory_bytes": made["peak_memory_bytes"], "load_after": round(os.getloadavg()[0], 1), "counts": made["counts"],
    }  # fmt: skip


def with_disk_of(before: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Result of an earlier run of the same text, with what the artifacts take on disk now."""
    new = {line["stage"]: line["disk_bytes"] for line in result["lines"]}
    lines = [line | {"disk_bytes": new[line["stage"]]} for line in before["lines"]]
    return before | {"lines": lines, "times_the_text": result["times_the_text"]}


def main() -> int:
    """Make the chain, ask it, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--mb", type=float, default=100.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "sizes.json")
    parser.add_argument("--disk", action="store_true", help="measure the disk alone, and keep the times of the file")
    arguments = parser.parse_args()
    lines, known = list[dict[str, Any]](), set[int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut(arguments.data, arguments.mb, folder / "text.txt")
        text_bytes = (folder / "text.txt").stat().st_size
        for artifact, command in CHAIN:
            lines.append(stage(folder, artifact, command, known))
            print(lines[-1])
        begun = time.perf_counter()
        line = [sys.executable, "-m", "wordpipe", "query", "index", QUERY, "--json"]
        hits = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
        asked = {"seconds": round(time.perf_counter() - begun, 2), "hits": len(hits)}
    result = {
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[1], 2)},
        "libraries": versions(["torch", "numpy", "faiss-cpu"]), "mb": arguments.mb, "lines": lines, "query": asked,
        "times_the_text": round(sum(line["disk_bytes"] for line in lines) / text_bytes, 2),
    }  # fmt: skip
    if arguments.disk:
        result = with_disk_of(json.loads(arguments.out.read_text()), result)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    seconds = sum(line["seconds"] for line in lines)
    print(f"{seconds:.0f} s in all, {result['times_the_text']} times the text; written to {arguments.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
