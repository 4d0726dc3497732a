"""Mutated files: each is read or refused by name, in its time, and the process that asked goes on."""

import io
import os
import random
import re
import resource
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

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


def try_all(count: int, folder: Path, seed: int) -> Counter[str]:
    """Read so many mutated files; how often each was read, or refused for what reason. Raises what is no refusal."""
    rng, files = random.Random(seed), seeds()
    sources = {path: path.read_bytes() for path in files}
    outcomes: Counter[str] = Counter()
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
        assert time.monotonic() - since < MOST_S, f"{seed_file.name}, number {number}, seed {seed}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun) / 1024
    assert grown < MOST_MB, f"{grown:.0f} MB"
    return outcomes


def test_some_mutated_files_are_read_or_refused(tmp_path):
    outcomes = try_all(120, tmp_path, seed=1)
    assert outcomes.total() == 120
    assert sum(number for what, number in outcomes.items() if what.endswith(" read")) < 120


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_thousand_mutated_files_are_read_or_refused(tmp_path):
    outcomes = try_all(int(os.environ.get("WORDPIPE_MUTATIONS", "5000")), tmp_path, seed=2)
    for what, number in sorted(outcomes.items()):
        print(f"{number:6,}  {what}")  # noqa: T201
    assert outcomes.total() >= 5000 or "WORDPIPE_MUTATIONS" in os.environ
