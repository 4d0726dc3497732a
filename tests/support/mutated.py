"""Mutated files: each is read or refused by name, in its time, and the process that asked goes on.

    python -m tests.support.mutated [--count 5000] [--seed 2] [--json FILE]     how many of each format were read, or refused

A FILE that is there already is added to, so that a long trial can be made in pieces, each with a seed of its own.
"""

import argparse
import io
import json
import random
import re
import resource
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.golden import GOLDEN
from wordpipe.corpus import Ingest, expand
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError

MOST_S = 60.0  # that a file may take on a busy machine
MOST_MB = 300  # that the process may grow by
SMALL = 130_000  # bytes of a file that is mutated
_NUMBER = re.compile(rb"\d+")


def seeds() -> list[Path]:
    """The golden files that are mutated: all that can be read."""
    found = sorted(GOLDEN.rglob("*.expected"))
    return [path.with_suffix("") for path in found if path.with_suffix("").stat().st_size <= SMALL]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A file with one to three faults: in its bytes, or, of a package, in a part of it."""
    if data.startswith(b"PK") and rng.random() < 0.6:
        return in_a_part(data, rng)
    made = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(made) or 1), rng.choice([1, 1, 2, 8, 64, 1024])
        kind = rng.randrange(8)
        if kind == 0:
            for place in range(at, min(at + size, len(made))):
                made[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del made[at : at + size]
        elif kind == 2:
            made[at:at] = rng.randbytes(size)
        elif kind == 3:
            made[at : at + size] = bytes(len(made[at : at + size]))
        elif kind == 4:
            made[at:at] = made[at : at + size] * rng.choice([1, 2, 200])
        elif kind == 5:
            del made[max(at, 20) :]
        elif kind == 6:
            other = rng.randrange(len(made) or 1)
            made[at : at + size] = made[other : other + size]
        elif (number := _NUMBER.search(made, at)) is not None:  # of an object, a length, a place
            made[number.start() : number.end()] = rng.choice([b"0", b"1", b"-1", b"99999999", b"4294967295", b"65536"])
    return bytes(made)


def in_a_part(data: bytes, rng: random.Random) -> bytes:
    """A package of which one part is mutated, missing, or there twice."""
    with (
        zipfile.ZipFile(io.BytesIO(data)) as package,
        zipfile.ZipFile(made := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as new,
    ):
        names = package.namelist()
        chosen, way = rng.choice(names), rng.randrange(10)
        for name in names:
            part = package.read(name)
            if name == chosen and way == 0:
                continue
            new.writestr(name, mutated(part, rng) if name == chosen and part else part)
    return made.getvalue()


def try_all(count: int, folder: Path, seed: int) -> tuple[Counter[str], float]:
    """Read so many mutated files; how often each was read, or refused for what reason, and the longest time of one in seconds.

    Raises what is no refusal.
    """
    rng, files = random.Random(seed), seeds()
    sources = {path: path.read_bytes() for path in files}
    outcomes: Counter[str] = Counter()
    longest = 0.0
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        seed_file = files[number % len(files)]
        kind = "".join(seed_file.suffixes)
        path = folder / f"{number % 50}{kind}"
        path.write_bytes(mutated(sources[seed_file], rng))
        since, refusal = time.monotonic(), None
        try:
            ingest = Ingest(expand([str(path)]), IngestSettings.make({"deduplicate": False}))
            rows = sum(map(len, ingest.batches()))
            assert rows == ingest.counts["sentences"] > 0
            outcomes[f"{kind} read"] += 1
        except InputError as error:
            refusal = error
        if refusal is not None:
            assert path.name in refusal.message, refusal.message
            outcomes[f"{kind} {refusal.what[:60]}"] += 1
        longest = max(longest, time.monotonic() - since)
        assert longest < MOST_S, f"{seed_file.name}, number {number}, seed {seed}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun) / 1024
    assert grown < MOST_MB, f"{grown:.0f} MB"
    return outcomes, longest


def added(before: dict[str, Any], outcomes: Counter[str], longest: float, seed: int) -> dict[str, Any]:
    """The figures of several trials, from those of the ones before."""
    formats: dict[str, dict[str, int]] = {name: dict(found) for name, found in before.get("formats", {}).items()}
    for what, number in outcomes.items():
        kind, _, outcome = what.partition(" ")
        found = formats.setdefault(kind, {"read": 0, "refused": 0})
        found["read" if outcome == "read" else "refused"] += number
    return {
        "files": sum(sum(found.values()) for found in formats.values()),
        "read": sum(found["read"] for found in formats.values()),
        "refused": sum(found["refused"] for found in formats.values()),
        "ended_the_process_that_asked": 0,  # a trial in which one does writes nothing
        "longest_s": round(max(longest, before.get("longest_s", 0.0)), 2),
        "seeds": [*before.get("seeds", ()), seed],
        "formats": dict(sorted(formats.items())),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="to which the figures are added")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes, longest = try_all(args.count, Path(folder), args.seed)
    sys.stdout.writelines(f"{number:6,}  {what}\n" for what, number in sorted(outcomes.items()))
    if args.json:
        before = json.loads(args.json.read_text()) if args.json.exists() else {}
        args.json.write_text(json.dumps(added(before, outcomes, longest, args.seed), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
