"""Tokens against the other libraries: the same text in the same run, every measurement in a process of its own.

    python benchmarks/tokens.py --data DIR --out benchmarks/results/tokens.json     DIR holds wiki/train.txt, or is a text file
    python benchmarks/tokens.py --data DIR --sizes 10 --only train --peers hf       a part of it

What is measured, on the first N MB of the text, in lines:

    train    from the text file to a saved tokenizer of 16,000 tokens: reading, counting and training
    encode   from the text file to a Parquet file of ids: the same column, row groups and compression for all
    raw      the lines in memory, encoded, and the result dropped: nothing is read or written
    ids      the same, with every line's ids taken out of the library's objects
    stage    `wordpipe tokenize` on an ingested corpus, as a process from its start to its end, words and counts included;
             for tokenizers: a script that trains and encodes the same text

Seconds are medians over the repeats, peak memory is the largest resident set of the whole process (imports included) at its
worst. Peers other than tokenizers live in environments of their own, which are made below --venvs when they are missing; one
that cannot be had is reported as skipped. Exit code 0: our results are those of tokenizers; 1: they are not, or a run failed.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.agreement import agreement, trained
from peers.figures import HERE, ratios, scaling, summary, table

HOME = Path(__file__).parent.absolute()
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        name: in the tables.
        library: whose version is recorded.
        work: which parts it can do, for which algorithms.
        needs: what pip installs for it; nothing where this environment has it.
    """

    name: str
    library: str
    work: dict[str, tuple[str, ...]]
    needs: tuple[str, ...] = ()


BOTH, BPE = ("bpe", "wordpiece"), ("bpe",)
PEERS = {
    peer.name: peer
    for peer in (
        Peer(HERE, "wordpipe", {"train": BOTH, "encode": BOTH, "raw": BOTH, "stage": BOTH}),
        Peer("hf", "tokenizers", {"train": BOTH, "encode": BOTH, "raw": BOTH, "stage": BOTH}),
        Peer(
            "rc3",
            "tokenizers",
            {"encode": BOTH, "raw": BOTH, "ids": BOTH},
            ("tokenizers==1.0.0rc3", "pyarrow", "numpy"),
        ),
        Peer("datasets", "datasets", {"encode": BOTH}, ("datasets", "tokenizers==0.23.*", "pyarrow", "numpy")),
        Peer("tiktoken", "tiktoken", {"encode": BPE, "raw": BPE}, ("tiktoken", "pyarrow", "numpy")),
        Peer(
            "gigatoken",
            "gigatoken",
            {"train": BPE, "encode": BPE, "raw": BPE},
            ("gigatoken==0.10.0", "pyarrow", "numpy"),
        ),
        Peer("rustbpe", "rustbpe", {"train": BPE}, ("rustbpe",)),
    )
}
PARTS = ("train", "encode", "raw", "ids", "stage")


@dataclass
class Bench:
    """One run of the benchmark: its folder, its settings and what was found so far."""

    work: Path
    venvs: Path
    threads: int
    vocab_size: int
    limit_s: float
    pythons: dict[str, Path] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    skipped: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    texts: dict[float, Path] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The children's variables: threads on, network off, caches in our folder."""
        return os.environ | {
            "TOKENIZERS_PARALLELISM": "true",
            "RAYON_NUM_THREADS": str(self.threads),
            "HF_HOME": str(self.work / "hf"),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
        }

    def process(self, command: list[str]) -> tuple[float, int]:
        """Run a command; its seconds and peak memory in bytes, from its start to its end.

        Raises:
            RuntimeError: it failed, or took too long; with the last line it wrote.
        """
        log = self.work / "log.txt"
        with log.open("w") as file:
            begun = time.monotonic()
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, env=self.environment(), cwd=HOME)
            watch = threading.Timer(self.limit_s, child.kill)
            watch.start()
            try:
                _, status, usage = os.wait4(child.pid, 0)
            finally:
                watch.cancel()
            seconds = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            last = next((line for line in reversed(log.read_text(errors="replace").splitlines()) if line.strip()), "")
            raise RuntimeError(f"exit code {child.returncode} after {seconds:.0f} s: {last.strip()}")
        return seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def child(self, peer: str, work: str, **task: Any) -> dict[str, Any]:
        """One task in a fresh process of the peer's environment."""
        task_file, result = self.work / "task.json", self.work / "result.json"
        result.unlink(missing_ok=True)
        task_file.write_text(json.dumps({"peer": peer, "work": work, "result": str(result), **task}))
        seconds, peak = self.process([str(self.pythons[peer]), "-m", "peers.measure", str(task_file)])
        return {"process_seconds": seconds, "process_peak_memory_bytes": peak, **json.loads(result.read_text())}

    def task(self, peer: str, part: str, algorithm: str, mb: float) -> dict[str, Any]:
        """The task of a child."""
        kind = "json" if part == "train" else "parquet"
        return {
            "text": str(self.texts[mb]),
            "out": str(self.work / f"{peer}-{part}-{algorithm}-{mb:g}.{kind}"),
            "tokenizer": str(self.work / f"hf-train-{algorithm}-{mb:g}.json"),
            "algorithm": algorithm,
            "vocab_size": self.vocab_size,
            "specials": SPECIALS,
            "threads": self.threads,
        }


def prepare_peers(bench: Bench, names: list[str]) -> list[str]:
    """Make the peers' environments where they are missing; the names of those that work."""
    ready = []
    for name in names:
        peer = PEERS[name]
        try:
            bench.pythons[name] = Path(sys.executable) if not peer.needs else environment_of(bench, peer)
            found = bench.child(name, "versions", libraries=[peer.library])
            bench.versions[name] = f"{peer.library} {found[peer.library]}"
            ready.append(name)
        except (RuntimeError, OSError) as error:
            print(f"skipped {name}: {error}", file=sys.stderr)
            bench.skipped.append({"peer": name, "why": without_paths(str(error), bench)})
    return ready


def environment_of(bench: Bench, peer: Peer) -> Path:
    """The peer's own Python."""
    folder = bench.venvs / peer.name
    python = folder / "bin" / "python"
    done = folder / "installed.txt"
    if not done.exists():
        print(f"installing {peer.name}: {' '.join(peer.needs)}", file=sys.stderr)
        bench.process([sys.executable, "-m", "venv", "--clear", str(folder)])
        bench.process([str(python), "-m", "pip", "install", "-q", *peer.needs])
        done.write_text("\n".join(peer.needs) + "\n")
    return python


def without_paths(text: str, bench: Bench) -> str:
    """A message without this machine's folders."""
    for folder in (bench.work, bench.venvs, Path(sys.prefix), Path.cwd(), Path.home()):
        text = text.replace(str(folder), "…")
    return text


def first_lines(source: Path, target: Path, size: int) -> None:
    """Copy the first `size` bytes of a text, up to the end of a line.

    Raises:
        SystemExit: the text is shorter.
    """
    with source.open("rb") as file, target.open("wb") as out:
        left = size
        while left and (piece := file.read(min(left, 1 << 20))):
            out.write(piece)
            left -= len(piece)
        out.write(file.readline())
    if left > size // 1000:  # a text of 99.996 MB is called one of 100
        sys.exit(f"tokens: the text has {(size - left) / 1e6:.1f} MB, less than the {size / 1e6:g} asked for (--sizes)")


def measure(bench: Bench, part: str, algorithm: str, mb: float, peers: list[str], repeats: int) -> list[dict[str, Any]]:
    """One table: every peer that can, in turn, there and back again."""
    able = [name for name in peers if algorithm in PEERS[name].work.get(part, ())]
    if part == "stage" and HERE in able:
        ingest(bench, mb)
    if part in ("encode", "raw", "ids"):
        needed = Path(bench.task("hf", "train", algorithm, mb)["tokenizer"])
        if not needed.exists():
            bench.child("hf", "train", **bench.task("hf", "train", algorithm, mb))
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for turn in range(repeats):
        for name in able if turn % 2 == 0 else reversed(able):
            try:
                runs[name].append(measure_once(bench, name, part, algorithm, mb))
            except RuntimeError as error:
                why = without_paths(str(error), bench)
                print(f"failed {name} {part} {algorithm} {mb:g} MB: {why}", file=sys.stderr)
                bench.failed.append({"peer": name, "part": part, "algorithm": algorithm, "mb": f"{mb:g}", "why": why})
    size = bench.texts[mb].stat().st_size / 1e6
    lines = [summary(name, runs[name], size) for name in able if runs[name]]
    checks = compare(bench, part, algorithm, mb, [line["engine"] for line in lines])
    return [
        {"part": part, "algorithm": algorithm, "mb": mb, **line, **checks.get(line["engine"], {})} for line in lines
    ]


def measure_once(bench: Bench, name: str, part: str, algorithm: str, mb: float) -> dict[str, Any]:
    """Seconds, peak memory and whatever else one run says."""
    task = bench.task(name, part, algorithm, mb)
    if part != "stage":
        return bench.child(name, part, **task)
    if name != HERE:
        found = bench.child(name, part, **task)
        return {"seconds": found["process_seconds"], "peak_memory_bytes": found["process_peak_memory_bytes"]}
    corpus, output = bench.work / f"corpus-{mb:g}", bench.work / f"tokens-{algorithm}-{mb:g}"
    options = ["--algorithm", algorithm, "--vocab-size", str(bench.vocab_size), "--fresh", "-q"]
    command = [sys.executable, "-m", "wordpipe", "tokenize", str(corpus), "-o", str(output), *options]
    seconds, peak = bench.process(command)
    counts = json.loads((output / "manifest.json").read_text())["counts"]
    return {"seconds": seconds, "peak_memory_bytes": peak, "counts": counts}


def ingest(bench: Bench, mb: float) -> None:
    """The corpus of the stage, made once and not part of its time."""
    corpus = bench.work / f"corpus-{mb:g}"
    if not corpus.exists():
        seconds, _ = bench.process(
            [sys.executable, "-m", "wordpipe", "ingest", str(bench.texts[mb]), "-o", str(corpus), "-q"]
        )
        print(f"ingested {mb:g} MB in {seconds:.1f} s (not counted)", file=sys.stderr)


def compare(bench: Bench, part: str, algorithm: str, mb: float, names: list[str]) -> dict[str, dict[str, Any]]:
    """Whether each engine's result is that of tokenizers 0.23."""
    outs = {name: Path(bench.task(name, part, algorithm, mb)["out"]) for name in names}
    if part == "encode":
        digests = {name: digest(bench, out) for name, out in outs.items()}
        wanted = digests.get("hf")
        return {
            name: {"tokens": found["tokens"], "same_ids": None if wanted is None else found == wanted}
            for name, found in digests.items()
        }
    if part != "train" or "hf" not in outs:
        return {}
    wanted_tokens = trained(outs["hf"])
    return {name: agreement(trained(out), wanted_tokens, algorithm) for name, out in outs.items()}


def digest(bench: Bench, out: Path) -> dict[str, Any]:
    """The digest of the ids in a Parquet file, made outside all measurements."""
    found = bench.child("hf" if "hf" in bench.pythons else HERE, "digest", out=str(out))
    return {name: found[name] for name in ("rows", "tokens", "ids")}


def machine() -> dict[str, Any]:
    """What the figures were measured on; nobody's name."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = named[0] if named else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model, "cores": cores(), "memory_gib": round(memory, 1),
        "system": platform.system(), "python": platform.python_version(),
    }  # fmt: skip


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def faults(lines: list[dict[str, Any]], bench: Bench) -> list[str]:
    """Where our results are not those of tokenizers, and which of our runs failed."""
    wrong = [
        f"{line['part']} {line['algorithm']} {line['mb']:g} MB: not what tokenizers gives"
        for line in lines
        if line["engine"] == HERE and False in (line.get("same_ids"), line.get("same_merges"))
    ]
    return wrong + [f"{one['part']} {one['algorithm']}: {one['why']}" for one in bench.failed if one["peer"] == HERE]


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a text file, or a folder with wiki/train.txt")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--sizes", default="1,10,100", help="MB of text, one after the other (default 1,10,100)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--algorithms", default="bpe,wordpiece", help="some of bpe,wordpiece")
    parser.add_argument(
        "--peers", default=",".join(name for name in PEERS if name != HERE), help="whom to compare with"
    )
    parser.add_argument("--repeat", type=int, default=3, help="how often each is run (default 3)")
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--threads", type=int, default=cores(), help="for all engines (default: all cores)")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="kill a process that takes longer")
    parser.add_argument(
        "--venvs", type=Path, default=Path(tempfile.gettempdir()) / "wordpipe-peers", help="environments"
    )
    parser.add_argument("--scratch", type=Path, help="folder for texts, corpora and results while it runs")
    arguments = parser.parse_args(given)
    arguments.only, arguments.peers, arguments.algorithms = (
        value.split(",") for value in (arguments.only, arguments.peers, arguments.algorithms)
    )
    arguments.sizes = [float(size) for size in arguments.sizes.split(",")]
    for names, known in ((arguments.only, PARTS), (arguments.peers, [*PEERS]), (arguments.algorithms, BOTH)):
        if unknown := set(names) - set(known):
            parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(known)})")
    return arguments


def warm_up(bench: Bench, algorithms: list[str], mb: float) -> None:
    """Let numba compile once: only the first run after an installation waits for that."""
    text = bench.work / "warm.txt"
    first_lines(bench.texts[mb], text, min(100_000, bench.texts[mb].stat().st_size))
    for algorithm in algorithms:
        task = bench.task(HERE, "train", algorithm, mb) | {"text": str(text), "out": str(bench.work / "warm.json")}
        try:
            bench.child(HERE, "train", **task)
            bench.child(HERE, "encode", **(task | {"tokenizer": task["out"], "out": str(bench.work / "warm.parquet")}))
        except RuntimeError as error:
            print(f"warming up failed: {error}", file=sys.stderr)


def main(given: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    arguments = arguments_of(given)
    source = arguments.data if arguments.data.is_file() else arguments.data / "wiki" / "train.txt"
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="tokens-bench-") as folder:
        bench = Bench(
            Path(folder).absolute(),
            arguments.venvs.absolute(),
            arguments.threads,
            arguments.vocab_size,
            arguments.limit,
        )
        for mb in arguments.sizes:
            bench.texts[mb] = bench.work / f"text-{mb:g}.txt"
            first_lines(source, bench.texts[mb], round(mb * 1e6))
        peers = prepare_peers(bench, [HERE, "hf", *(name for name in arguments.peers if name not in (HERE, "hf"))])
        shown = [name for name in peers if name == HERE or name in arguments.peers]
        warm_up(bench, arguments.algorithms, arguments.sizes[0])
        lines = [
            line
            for mb in arguments.sizes
            for algorithm in arguments.algorithms
            for part in PARTS
            if part in arguments.only
            for line in measure(bench, part, algorithm, mb, shown, arguments.repeat)
        ]
        wrong = faults(lines, bench)
    for row in [*table(lines, bench.versions), *wrong]:
        print(row)
    if arguments.out:
        arguments.out.write_text(json.dumps(result(bench, lines, wrong), indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


def result(bench: Bench, lines: list[dict[str, Any]], wrong: list[str]) -> dict[str, Any]:
    """What is written."""
    libraries = {
        name: importlib.metadata.version(name) for name in ("wordpipe", "numba", "numpy", "pyarrow", "tokenizers")
    }
    return {
        "ok": not wrong,
        "wrong": wrong,
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "threads": bench.threads,
        "vocab_size": bench.vocab_size,
        "versions": bench.versions,
        "libraries": libraries,
        "lines": lines,
        "ratios": [*ratios(lines)],
        "scaling": [*scaling(lines)],
        "skipped": bench.skipped,
        "failed": bench.failed,
    }


if __name__ == "__main__":
    sys.exit(main())
