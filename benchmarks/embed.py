"""Texts to vectors against sentence-transformers with the same model, and a query from a cold shell.

    python benchmarks/embed.py --data TEXT                      writes benchmarks/results/embed.json
    python benchmarks/embed.py --data TEXT --parts 4x256 static --texts 500 --repeat 1
    python benchmarks/embed.py --data TEXT --device cuda --dtype bfloat16 --batch-size 512 --texts 100000

TEXT is a file of one sentence per line. The texts are of one to eight of its lines; both sides read the same folder, with
fresh weights, in the same precision and with the same threads, and take turns in one process; a figure is the median.

    4x256, 6x384   transformers: `SentenceTransformer.encode` against our encoder; texts/s, and the largest difference of any
                   number of any vector (texts longer than the model are left out: there we read windows, they cut)
    static         a table of 256 numbers per word: `StaticEmbedding` against ours, single sentences
    query          text → first answer: the commands that make an index of the first lines, then `wordpipe query` in processes
                   of their own, and once with a thousand queries
    workers        text → sentences as a whole command by a static encoder that is trained on it, with one and with two threads
    --index DIR    further indexes whose cold query is measured, such as one of a static encoder

Exit code 0: the vectors agree to 1e-5 (float32; 0.02 in bfloat16), the transformers are at least 1.5 times as fast, the table
gives at least 100,000 texts/s, a cold query takes at most 1.5 s and a thousand at most 10 s, and two threads do at least 0.85
of twice the work of one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from peers.embed_sides import (
    MAX_LEN,
    SHAPES,
    Encode,
    make_tokenizer,
    mixed_texts,
    ours,
    theirs,
    write_static,
    write_transformer,
)
from tokens import machine

RESULTS = Path(__file__).parent.absolute() / "results"
PARTS = (*SHAPES, "static", "query", "workers")
PEER = "sentence-transformers"
AGREE = {"float32": 1e-5, "bfloat16": 0.02}
_COMMANDS = ("ingest", "tokenize", "train mlm", "embed", "index")


def main() -> int:
    """Measure; exit code 0 if the figures are as the head of this file says."""
    args = arguments()
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        for part in args.parts:
            lines.append(_LINES.get(part, partial(speed_line, part))(args, Path(work)))
            print(json.dumps(lines[-1]))
    lines += [{"part": str(index), **cold(index, args)} for index in args.index]
    misses = [miss for line in lines for miss in misses_of(line, args.dtype)]
    about = {"machine": machine(), "threads": args.threads, "device": args.device, "dtype": args.dtype}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({**about, "lines": lines, "misses": misses}, indent=1) + "\n")
    print("\n".join(misses) or "as fast and as equal as promised")
    return 1 if misses else 0


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description="Embedding and asking, against sentence-transformers.")
    parser.add_argument("--data", type=Path, required=True, metavar="TEXT", help="a file of one sentence per line")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--texts", type=int, default=3000, help="texts of the transformers")
    parser.add_argument("--sentences", type=int, default=100_000, help="sentences of the table")
    parser.add_argument("--lines", type=int, default=5000, help="lines of the index that is asked")
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cold", type=int, default=10, help="cold queries")
    parser.add_argument("--threads", type=int, default=0, help="0 = one per core")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--batch-size", type=int, default=32, help="of sentence-transformers; 32 is its default")
    parser.add_argument("--index", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--out", type=Path, default=RESULTS / "embed.json", metavar="JSON")
    args = parser.parse_args()
    args.threads = args.threads or len(os.sched_getaffinity(0))
    return args


def speed_line(part: str, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Texts per second of both sides, and how far their vectors lie apart."""
    import torch

    torch.set_num_threads(args.threads)
    static, folder = part == "static", work / part
    if static:
        texts = [line.strip() for line in args.data.read_text(encoding="utf-8").splitlines() if line.strip()]
        texts = (texts * (1 + args.sentences // max(1, len(texts))))[: args.sentences]
        write_static(folder, texts, dim=256)
    else:
        texts = mixed_texts(args.data, args.texts)
        tokenizer = make_tokenizer(texts, args.vocab_size)
        texts = [text for text in texts if len(tokenizer.encode(text).ids) <= MAX_LEN]
        write_transformer(folder, tokenizer, SHAPES[part])
    sides = {
        "wordpipe": ours(folder, static=static, device=args.device, dtype=args.dtype, threads=args.threads),
        PEER: theirs(folder, device=args.device, dtype=args.dtype, batch_size=args.batch_size),
    }
    seconds, difference = in_turns(sides, texts, args.repeat)
    speeds = {name: round(len(texts) / statistics.median(taken), 1) for name, taken in seconds.items()}
    ratio = round(speeds["wordpipe"] / speeds[PEER], 3)
    return {"part": part, "texts": len(texts), "texts_per_s": speeds, "ratio": ratio, "largest_difference": difference}


def in_turns(sides: dict[str, Encode], texts: Sequence[str], repeat: int) -> tuple[dict[str, list[float]], float]:
    """Seconds of each run of each side, after one that does not count, and the largest difference of their vectors."""
    found = {name: encode(texts) for name, encode in sides.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeat):
        for name, encode in sides.items():
            begun = time.perf_counter()
            encode(texts)
            seconds[name].append(time.perf_counter() - begun)
    one, other = found.values()
    return seconds, float(np.abs(one.astype(np.float32) - other.astype(np.float32)).max())


def query_line(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Make an index of the first lines, then ask it."""
    text = work / "text.txt"
    with args.data.open(encoding="utf-8") as file:
        text.write_text("".join(line for _, line in zip(range(args.lines), file, strict=False)), encoding="utf-8")
    commands = [
        ["ingest", text.name, "-o", "corpus"],
        ["tokenize", "corpus", "-o", "tokens", "--vocab-size", str(args.vocab_size)],
        ["train", "mlm", "tokens", "-o", "model", "--preset", "mini", "--steps", "20"],
        ["embed", "model", "corpus", "-o", "sentences"],
        ["index", "sentences", "-o", "index"],
    ]
    begun = time.perf_counter()
    seconds = {name: run(command, work) for name, command in zip(_COMMANDS, commands, strict=True)}
    asked = cold(work / "index", args)
    seconds["all, with the first answer"] = time.perf_counter() - begun - sum(asked["cold_s"][1:]) - asked["batch_s"]
    return {"part": "query", "lines": args.lines, "seconds": {k: round(v, 3) for k, v in seconds.items()}, **asked}


def workers_line(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Seconds of the whole command `embed` with one thread and with two, in turns."""
    run(["ingest", str(args.data.absolute()), "-o", "corpus", "--documents", "line", "--valid", "0"], work)
    run(["tokenize", "corpus", "-o", "tokens"], work)
    run(["train", "static", "tokens", "-o", "encoder", "--steps", "20"], work)
    taken: dict[int, list[float]] = {1: [], 2: []}
    for _, (count, seconds) in product(range(args.repeat), taken.items()):
        command = ["embed", "encoder", "corpus", "-o", "sentences", "--workers", str(count), "--fresh", "-q"]
        seconds.append(run(command, work))
    one, two = map(statistics.median, taken.values())
    units = json.loads((work / "sentences" / "manifest.json").read_text())["counts"]["sentences"]
    rounded = {str(count): [round(one, 2) for one in seconds] for count, seconds in taken.items()}
    return {"part": "workers", "sentences": units, "seconds": rounded, "share_of_twice": round(one / (2 * two), 3)}


def cold(index: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of queries from a cold shell, and of a thousand at once."""
    with args.data.open(encoding="utf-8") as file:
        lines = [line.strip()[:100] for _, line in zip(range(4000), file, strict=False)]
    queries = ([line for line in lines if line] * 1000)[:1000]
    taken = [run(["query", str(index.absolute()), one, "-q"]) for one in queries[: args.cold]]
    batch = run(["query", str(index.absolute()), "-q", "--json"], given="\n".join(queries))
    return {
        "cold_s": [round(one, 3) for one in taken],
        "cold_median_s": round(statistics.median(taken), 3),
        "batch_s": round(batch, 3),
    }


def run(command: Sequence[str], folder: Path | None = None, given: str | None = None) -> float:
    """Seconds that a command of wordpipe takes, from the shell's point of view.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "wordpipe", *command],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1 if command[0] == "query" else 0):  # 1: nothing was found
        raise RuntimeError(f"wordpipe {' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - begun


_LINES = {"query": query_line, "workers": workers_line}


def misses_of(line: dict[str, Any], dtype: str) -> list[str]:
    """What a line says that the head of this file does not promise."""
    part, found = line["part"], []
    if line.get("largest_difference", 0) > AGREE[dtype]:
        found.append(f"{part}: vectors differ by {line['largest_difference']:.1e}")
    if part in SHAPES and line["ratio"] < 1.5:
        found.append(f"{part}: only {line['ratio']} times as fast")
    if part == "static" and line["texts_per_s"]["wordpipe"] < 100_000:
        found.append(f"static: only {line['texts_per_s']['wordpipe']:,.0f} texts/s")
    if line.get("share_of_twice", 1) < 0.85:
        found.append(f"workers: two threads do {line['share_of_twice']} of twice the work of one")
    if line.get("cold_median_s", 0) > 1.5:
        found.append(f"{part}: a cold query takes {line['cold_median_s']} s")
    if line.get("batch_s", 0) > 10:
        found.append(f"{part}: a thousand queries take {line['batch_s']} s")
    return found


if __name__ == "__main__":
    sys.exit(main())
