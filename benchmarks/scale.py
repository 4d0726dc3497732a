"""Engines: a stage by threads of one process and by tasks of Ray; are the bytes the same, and what do more workers bring?

    python benchmarks/scale.py --data DIR --work FOLDER            writes benchmarks/results/scale.json
    python benchmarks/scale.py --data DIR --work FOLDER --mb 1000 --kills 10
    python benchmarks/scale.py --data DIR --work FOLDER --growth 1000,5000,10000

The text is that of DIR/wiki, again and again with other digits until it has --mb. Every run is a process of its own, with its
seconds, its peak memory and the digest of what it made:

    local-1, local-2, local-3, ray-1, ray-2, ray-4      workers of `ingest`, `tokenize`, `embed` (word vectors) and `index`
                                                        (ivf-pq); more than there are processors are for equal bytes alone
    ray-2, killed                                       while it works, --kills of its processes are killed at random moments;
                                                        where that ends the run, the same command comes again

`ceiling` is what an arithmetic loop in two processes reaches of twice the speed of one, before and after these runs: less
than 1 where two processors are parts of one, or others are at work on the machine.

With --growth: `ingest` and `tokenize` of so many megabytes by this machine's processors, each alone, and `embed` and `index`
of the first size; seconds and processors' seconds for each GB, and peak memory.

Exit code 0: all digests of a stage are one, two workers have 85 % of twice the speed of one where there are two processors,
and Ray takes at most 20 % longer than this process; and growing, processors' seconds for each GB and memory stay within 15 %.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import first_lines, machine

Found = dict[str, Any]
RESULTS = Path(__file__).parent.absolute() / "results"
STAGES = ("ingest", "tokenize", "embed", "index")
PARALLEL = ("tokenize", "embed")  # of which two workers of one process are to be faster
RUNS = (("local", 1), ("local", 2), ("local", 3), ("ray", 1), ("ray", 2), ("ray", 4))
EFFICIENCY, OVERHEAD, GROWTH = 0.85, 1.2, 1.15
_FILE_BYTES = 16_000_000
_WORKERS_OF_RAY = "ray::wordpipe"  # what Ray calls a process that is at work for us


def salted(source: Path, folder: Path, mb: float) -> None:
    """Write so many megabytes into files of some: the source, and again with other digits, so that no document comes twice."""
    wanted, turn, written, number = round(mb * 1e6), 0, 0, 0
    folder.mkdir()
    out = (folder / "0000.txt").open("wb")
    while written < wanted:
        with source.open("rb") as file:
            for line in file:
                if written >= wanted:
                    break
                if not line.strip() and out.tell() >= _FILE_BYTES:  # between two documents
                    number += 1
                    out.close()
                    out = (folder / f"{number:04d}.txt").open("wb")
                shown = line if turn == 0 or not line.strip() else line.rstrip(b"\n") + b" %d\n" % turn
                written += out.write(shown)
        turn += 1
    out.close()


def wordpipe(*words: object) -> Found:
    """A command; the object that it prints, and the processors' seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "wordpipe", *map(str, words), "--json"], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip().splitlines()[-1]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: Found = json.loads(done.stdout)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found | {"processor_seconds": round(spent, 1)}


def prepared(data: Path, work: Path, mb: float) -> Path:
    """Corpus, word vectors and sentences."""
    corpus = work / f"corpus-{mb:g}"
    text = work / f"text-{mb:g}"
    if not text.exists():
        salted(data / "wiki" / "train.txt", text, mb)
    if not (corpus / "manifest.json").exists():
        wordpipe("ingest", text, "-o", corpus, "--documents", "block", "--first-line-title")
    vectors(data, work)
    if not ((sentences := work / f"sentences-{mb:g}") / "manifest.json").exists():
        wordpipe("embed", work / "words", corpus, "-o", sentences)
    return corpus


def vectors(data: Path, work: Path) -> None:
    """The word vectors that `embed` takes."""
    if not (work / "words" / "manifest.json").exists():
        first_lines(data / "wiki" / "train.txt", work / "some.txt", 20_000_000)
        wordpipe("ingest", work / "some.txt", "-o", work / "some", "--documents", "block")
        wordpipe("tokenize", work / "some", "-o", work / "some-tokens")
        wordpipe("train", "word2vec", work / "some-tokens", "-o", work / "words", "--dim", 128, "--epochs", 1)


def command_of(stage: str, corpus: Path, work: Path) -> list[object]:
    """The words of a stage's command, output included."""
    text, sentences = (corpus.with_name(corpus.name.replace("corpus", name)) for name in ("text", "sentences"))
    inputs: dict[str, list[object]] = {
        "ingest": [text, "--documents", "block", "--first-line-title"],
        "tokenize": [corpus],
        "embed": [work / "words", corpus],
        "index": [sentences, "--type", "ivf-pq"],
    }
    return [stage, *inputs[stage], "-o", work / f"made-{stage}"]


def one_run(stage: str, corpus: Path, work: Path, engine: str, workers: int, *, fresh: bool = True) -> Found:
    """Seconds of the stage and of the whole process, peak memory of the process that was started, and the digest."""
    begun = time.monotonic()
    words = [*command_of(stage, corpus, work), *["--fresh"] * fresh]
    made = wordpipe(*words, "--engine", engine, "--workers", workers)
    return {"seconds": made["seconds"], "process_seconds": round(time.monotonic() - begun, 2), "digest": made["digest"],
            "processor_seconds": made["processor_seconds"], "peak_memory_bytes": made["peak_memory_bytes"]}  # fmt: skip


def at_work() -> list[int]:
    """The processes of Ray that make a shard just now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if name.startswith(_WORKERS_OF_RAY.encode()):
            found.append(int(folder.name))
    return found


def killed_run(stage: str, corpus: Path, work: Path, kills: int, seed: int, seconds: float) -> Found:
    """A run of Ray's of which so many processes are killed, about evenly over the time that it takes undisturbed."""
    draw, ended, dead = random.Random(seed), threading.Event(), list[int]()

    def kill() -> None:
        while len(dead) < kills and not ended.wait(draw.uniform(0, 2 * seconds / max(1, kills))):
            if pids := at_work():
                os.kill(draw.choice(pids), signal.SIGKILL)
                dead.append(1)

    thread, again = threading.Thread(target=kill), 0
    thread.start()
    try:
        while True:
            try:
                found = one_run(stage, corpus, work, "ray", 2, fresh=not again)
                break
            except RuntimeError as error:  # one shard was hit three times, which ends a run with exit code 8
                if "died" not in str(error):
                    raise
                again += 1
    finally:
        ended.set()
        thread.join()
    return found | {"killed": len(dead), "begun_again": again}


def _count(_: int) -> float:
    """Seconds of plain arithmetic in one process."""
    begun, number = time.monotonic(), 0
    for one in range(8_000_000):
        number = (number * 31 + one) & 0xFFFFFF
    return time.monotonic() - begun


def ceiling(rounds: int = 9) -> float:
    """What an arithmetic loop in two processes that share nothing reaches of twice the speed of one."""
    alone, together = [], []
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_count, range(2), 1)
        for _ in range(rounds):
            alone += pool.map(_count, range(1), 1)
            together.append(max(pool.map(_count, range(2), 1)))
    return round(statistics.median(alone) / statistics.median(together), 3)


def measured(stage: str, corpus: Path, work: Path, given: argparse.Namespace) -> Found:
    """All runs of a stage."""
    found: Found = {}
    free = ceiling()
    for _ in range(given.rounds):
        for engine, workers in RUNS:
            run = one_run(stage, corpus, work, engine, workers)
            kept = found.setdefault(f"{engine}-{workers}", {"runs": []})
            kept["runs"].append(run)
            print(f"{stage} {engine}-{workers}: {run}", file=sys.stderr)
    for kept in found.values():
        kept["seconds"] = statistics.median(run["seconds"] for run in kept["runs"])
    result: Found = {"runs": found}
    digests = {run["digest"] for kept in found.values() for run in kept["runs"]}
    if given.kills:
        result["killed"] = killed_run(stage, corpus, work, given.kills, given.seed, found["ray-2"]["seconds"])
        digests.add(result["killed"]["digest"])
        print(f"{stage} killed: {result['killed']}", file=sys.stderr)
    seconds = {name: kept["seconds"] for name, kept in found.items()}
    result |= {
        "digests": len(digests),
        "ceiling": round((free + ceiling()) / 2, 3),
        "efficiency": {one: round(seconds[f"{one}-1"] / seconds[f"{one}-2"] / 2, 3) for one in ("local", "ray")},
        "ray_over_local": {n: round(seconds[f"ray-{n}"] / seconds[f"local-{n}"], 3) for n in (1, 2)},
    }
    return result


def grown(data: Path, work: Path, sizes: list[float]) -> Found:
    """Stages of more and more text; what was made of a size is removed before the next one."""
    found: Found = {}
    for mb in sizes:
        text, corpus, tokens = (work / f"{name}-{mb:g}" for name in ("text", "corpus", "grown-tokens"))
        if not text.exists():
            salted(data / "wiki" / "train.txt", text, mb)
        lines = {
            "ingest": ["ingest", text, "-o", corpus, "--documents", "block", "--first-line-title", "--fresh"],
            "tokenize": ["tokenize", corpus, "-o", tokens, "--fresh"],
        }
        if mb == sizes[0]:
            sentences, index = work / "grown-sentences", work / "grown-index"
            lines["embed"] = ["embed", work / "words", corpus, "-o", sentences, "--fresh"]
            lines["index"] = ["index", sentences, "-o", index, "--fresh"]
        for stage, words in lines.items():
            made = wordpipe(*words)
            found.setdefault(stage, {})[f"{mb:g}"] = one = {
                "seconds": made["seconds"], "seconds_per_gb": round(made["seconds"] / mb * 1000, 1),
                "processor_seconds_per_gb": round(made["processor_seconds"] / mb * 1000, 1),
                "peak_memory_bytes": made["peak_memory_bytes"], "counts": made["counts"],
                "bytes": sum(file.stat().st_size for file in Path(made["path"]).rglob("*")),
            }  # fmt: skip
            print(f"{stage} {mb:g} MB: {one}", file=sys.stderr)
        for path in (text, corpus, tokens):
            shutil.rmtree(path)
    return found


def growing(found: Found) -> Iterator[str]:
    """Where time or memory grows faster than the text."""
    for stage, sizes in found.items():
        first, *others = sizes.values()
        for size, one in zip([*sizes][1:], others, strict=True):
            for name in ("processor_seconds_per_gb", "peak_memory_bytes"):
                if one[name] > GROWTH * first[name]:
                    yield f"{stage}: {name} of {size} MB is {one[name] / first[name]:.2f} times that of {next(iter(sizes))} MB"


def faults(stages: dict[str, Found], processors: int) -> Iterator[str]:
    """What is not as it should be."""
    for stage, one in stages.items():
        if one["digests"] > 1:
            yield f"{stage}: {one['digests']} different digests"
        for engine, share in one["efficiency"].items():
            if share < EFFICIENCY and processors > 1 and stage in PARALLEL:
                yield f"{stage}: two workers of {engine} have {share:.0%} of twice the speed"
        for workers, ratio in one["ray_over_local"].items():
            if ratio > OVERHEAD:
                yield f"{stage}: Ray takes {ratio:.2f} times as long, {workers} worker{'s' * (int(workers) > 1)}"


def rows(stages: dict[str, Found]) -> Iterator[str]:
    """The table in Markdown."""
    names = [f"{engine}-{workers}" for engine, workers in RUNS]
    yield f"| stage | {' | '.join(names)} | digests |"
    yield f"|---|{'---:|' * (len(names) + 1)}"
    for stage, one in stages.items():
        seconds = (f"{one['runs'][name]['seconds']:.1f} s" for name in names)
        yield f"| {stage} | {' | '.join(seconds)} | {one['digests']} |"


def main(given: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data, with wiki/train.txt")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is made; it is kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json", help="JSON file to write")
    parser.add_argument("--mb", type=float, default=200, help="of text (default 200)")
    parser.add_argument("--stages", default=",".join(STAGES), help="some of them (default all)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each (default 1)")
    parser.add_argument("--kills", type=int, default=10, help="processes that are killed (default 10; 0: none)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments when (default 1)")
    parser.add_argument("--growth", default="", metavar="MB,MB", help="sizes of text, instead of the comparison")
    arguments = parser.parse_args(given)
    data, work = arguments.data.absolute(), arguments.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    where = {
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "libraries": versions(["wordpipe", "ray", "pyarrow", "numba"]),
    }
    result = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.growth:
        vectors(data, work)
        result["growth"] = found = {"stages": grown(data, work, [*map(float, arguments.growth.split(","))])} | where
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        print("\n".join(wrong := list(growing(found["stages"]))))
        return 1 if wrong else 0
    corpus = prepared(data, work, arguments.mb)
    stages: dict[str, Found] = {}
    for name in arguments.stages.split(","):
        stages[name] = measured(name, corpus, work, arguments)
        result[f"{arguments.mb:g} MB"] = result.get(f"{arguments.mb:g} MB", {}) | stages | where
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    wrong = list(faults(stages, os.cpu_count() or 1))
    for row in [*rows(stages), *wrong]:
        print(row)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
