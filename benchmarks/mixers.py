"""Speed and memory of every mixer of positions against dot-product attention, in short and in long sequences.

    python benchmarks/mixers.py                                   writes benchmarks/results/mixers.json
    python benchmarks/mixers.py --mixers ssm,performer --lengths 512       some of them
    python benchmarks/mixers.py --work FOLDER                     keeps each measurement there, and does none again

The mixers are those that `--set mixers=` takes, each in all layers of a small encoder (width 256, 4 layers, 4 heads, the
other parts wordpipe's defaults) with its first weights. Random tokens, as many in every batch whatever the length of a
sequence, with 15 % of the positions to guess; float32. Measured are

    training   forward and backward: the loss, and the gradients of all weights; no optimiser
    forward    the same loss without gradients

Every measurement is a process of its own: one pass to warm up, then passes for --seconds, of which the median counts (of a
mixer that needs longer for the first pass, that one). Rounds go over all mixers in turn, so that a change of the machine's
load meets all of them alike; the figure is the median of the rounds. Memory is the process's peak, less what it had before its
first pass (the program, the weights, the tokens). No process gets more than --memory GB: what asks for more is told as too
much, and what does not end within --limit as too slow; both are not tried again. Exit code 0: nothing failed otherwise.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from peers.measure import versions
from peers.model_bench import ModelBench
from tokens import machine

from wordpipe.model import MixerKind

Found = dict[str, Any]

RESULTS = Path(__file__).parent.absolute() / "results"
MIXERS: tuple[str, ...] = get_args(MixerKind)
SHAPE = {"dim": 256, "n_layers": 4, "n_heads": 4}
N_TOKENS = 8_000
WAYS = ("forward", "training")


def measure(bench: ModelBench, given: argparse.Namespace, mixer: str, length: int, turn: int) -> Found:
    """One round of a mixer at a length, or how it failed; done unless it was."""
    kept = bench.work / f"{mixer}-{length}-{turn}.json"
    if not kept.exists():
        kept.write_text(json.dumps(one_round(bench, given, mixer, length, turn)))
    found: Found = json.loads(kept.read_text())
    return found


def one_round(bench: ModelBench, given: argparse.Namespace, mixer: str, length: int, turn: int) -> Found:
    """A process of its own for a mixer at a length."""
    begun = time.monotonic()
    try:
        return bench.child(
            f"{mixer}-{length}-{turn}", "mix", mixer=mixer, seq_len=length, batch_tokens=given.batch_tokens, shape=SHAPE,
            n_tokens=N_TOKENS, threads=given.threads, seconds=given.seconds, memory_gb=given.memory,
        )  # fmt: skip
    except RuntimeError as error:
        slow = time.monotonic() - begun >= given.limit
        return {"too_slow": given.limit} if slow else {"failed": str(error)}


def is_done(runs: list[Found]) -> bool:
    """Whether another round would say nothing new: it failed, or there is too little memory or time for it."""
    return any(one.get("training") is None for one in runs)


def line_of(mixer: str, length: int, runs: list[Found]) -> Found:
    """The median of the rounds, the least and the most; None for a way that needs too much memory; or why it failed."""
    line: Found = {"mixer": mixer, "seq_len": length, "rounds": len(runs)}
    if bad := [one for one in runs if "training" not in one]:
        return line | bad[0]
    line |= {"architecture": runs[0]["architecture"], "parameters": runs[0]["parameters"]}
    for way in WAYS:
        some = [one[way] for one in runs]
        rates = [one["tokens_per_s"] for one in some if one is not None]
        line[way] = None if None in some else {
            "tokens_per_s": round(statistics.median(rates)), "least": round(min(rates)), "most": round(max(rates)),
            "memory_mb": round(statistics.median(one["memory_bytes"] for one in some) / 1e6),
        }  # fmt: skip
    return line


def with_ratios(lines: list[Found]) -> list[Found]:
    """Each line with its speed and memory over those of dot-product attention at the same length."""
    dots = {line["seq_len"]: line for line in lines if line["mixer"] == "dot"}
    for line in lines:
        for way in WAYS:
            one, dot = line.get(way), dots.get(line["seq_len"], {}).get(way)
            if one and dot:
                one["times_as_fast"] = round(one["tokens_per_s"] / dot["tokens_per_s"], 2)
                one["times_the_memory"] = round(one["memory_mb"] / max(1, dot["memory_mb"]), 2)
    return lines


def rows(lines: list[Found]) -> Iterator[str]:
    """The table in Markdown."""
    yield "| mixer | tokens | training, tokens/s | of dot | memory | forward, tokens/s | of dot | memory |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for line in lines:
        cells = [line["mixer"], f"{line['seq_len']:,}"]
        for way in reversed(WAYS):
            one = line.get(way)
            if one is None:
                cells += [next((key for key in ("failed", "too_slow") if key in line), "too much memory"), "", ""]
            else:
                rate = f"{one['tokens_per_s']:,} ({one['least']:,}–{one['most']:,})"
                cells += [rate, f"{one.get('times_as_fast', 1):.2f}", f"{one['memory_mb']:,} MB"]
        yield f"| {' | '.join(cells)} |"


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "mixers.json", help="JSON file to write")
    parser.add_argument("--work", type=Path, help="folder that keeps what was measured (default a temporary one)")
    parser.add_argument("--mixers", default=",".join(MIXERS), help="some mixers (default all)")
    parser.add_argument("--lengths", default="512,4096", help="tokens of a sequence (default 512,4096)")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="of a batch, at least one sequence")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of passes in a process, each way (default 4)")
    parser.add_argument("--threads", type=int, default=2, help="of every process (default 2)")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GB", help="more is too much (default 8)")
    parser.add_argument(
        "--limit", type=float, default=300, metavar="SECONDS", help="a process that takes longer is too slow"
    )
    arguments = parser.parse_args(given)
    arguments.mixers = arguments.mixers.split(",")
    if unknown := {*arguments.mixers} - {*MIXERS}:
        parser.error(f"no mixer is called {', '.join(sorted(unknown))} (choose from {', '.join(MIXERS)})")
    arguments.lengths = [int(one) for one in arguments.lengths.split(",")]
    return arguments


def main(given: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    arguments = arguments_of(given)
    cells = [(mixer, length) for length in arguments.lengths for mixer in arguments.mixers]
    runs: dict[tuple[str, int], list[Found]] = {cell: [] for cell in cells}
    with tempfile.TemporaryDirectory() as folder:
        work = (arguments.work or Path(folder)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        bench = ModelBench(work, work, arguments.threads, arguments.limit)
        for turn in range(1, arguments.rounds + 1):
            for cell in [one for one in cells if not is_done(runs[one])]:
                runs[cell].append(measure(bench, arguments, *cell, turn))
                print(f"round {turn}: {cell[0]}, {cell[1]:,} tokens", file=sys.stderr)
    lines = with_ratios([line_of(*cell, some) for cell, some in runs.items()])
    wrong = [f"{line['mixer']}, {line['seq_len']}: {line['failed']}" for line in lines if "failed" in line]
    for row in [*rows(lines), *wrong]:
        print(row)
    result = {
        "ok": not wrong, "wrong": wrong, "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "libraries": versions(["wordpipe", "torch", "numpy"]), "threads": arguments.threads, "shape": SHAPE,
        "batch_tokens": arguments.batch_tokens, "memory_gb": arguments.memory, "lines": lines,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
