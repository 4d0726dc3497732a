"""Our training step against that of transformers: the same weights at the start, the same batches, the same threads.

    python benchmarks/model.py --data DIR                           writes benchmarks/results/model.json
    python benchmarks/model.py --data DIR --only mlm --dtypes bfloat16 --repeat 1

DIR holds wiki/train.txt. The model has 4 layers of width 256 with 4 heads, a gated feed-forward of 384 and a vocabulary of
16,000, tied; a step is 32 sequences of 128 tokens; masked models guess 15 % of them. A training of ours in float32 is
recorded: its first weights as a folder that transformers loads, its batches and learning rates. All then do those steps:

    wordpipe        the loop of `wordpipe train mlm` and `train clm` as it is: it gathers the sequences, masks them, clips,
                    steps; with AdamW as the others, and with its default, Muon
    transformers    ModernBertForMaskedLM and LlamaForCausalLM in a plain loop: batches in memory, masked already; gradients
                    clipped; AdamW fused. With torch's attention (sdpa) and its own (eager); masked models with the head on
                    the targets only (sparse_prediction) and, as is the default, everywhere; with --compile through
                    torch.compile too

in float32 and, both sides, with matrix products in bfloat16. Every run is a process of its own, the sides take turns; a figure
is the median over the runs of the median step. "Ours" is our AdamW against the fastest way of transformers. Every loss of
every step must be that of the recording, within 1 % (float32: 0.1 % at the first step).
Exit code 0: they are, and masked training is at least 1.25 times as fast, causal 1.15 times.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.measure import versions
from peers.model_bench import ModelBench
from peers.model_figures import speed_line, speed_ratios, speed_rows
from tokens import machine

RESULTS = Path(__file__).parent.absolute() / "results"
KINDS, DTYPES = ("mlm", "clm"), ("float32", "bfloat16")
SHAPE = {"dim": 256, "n_layers": 4, "n_heads": 4, "ffn_dim": 384, "seq_len": 128, "batch_size": 32}
OPTIMISER = {"lr": 1e-3, "weight_decay": 0.05, "beta1": 0.9, "beta2": 0.98, "clip": 1.0}
MASKED = {"mask_rate": 0.15}
TARGETS = {"mlm": 1.25, "clm": 1.15}


@dataclass(frozen=True)
class Side:
    """One way of doing the step.

    Attributes:
        says: in the table.
        kinds: of model that it can train.
        task: what its process needs.
        optional: only with --compile.
    """

    says: str
    kinds: tuple[str, ...]
    task: dict[str, Any] = field(default_factory=dict)
    optional: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is a training of wordpipe."""
        return "optimiser" in self.task


def theirs(
    says: str, kinds: tuple[str, ...], *, attention: str = "sdpa", sparse: bool = False, compiled: bool = False
) -> Side:
    """A way of transformers."""
    config = {"sparse_prediction": True} if sparse else {}
    task = {"attention": attention, "config": config, "compile": compiled}
    return Side(says, kinds, task, optional=compiled)


SIDES = {
    "adamw": Side("wordpipe, AdamW", KINDS, {"optimiser": "adamw"}),
    "muon": Side("wordpipe, Muon", KINDS, {"optimiser": "muon"}),
    "sparse": theirs("ModernBERT, sparse", ("mlm",), sparse=True),
    "sparse-eager": theirs("ModernBERT, sparse, eager attention", ("mlm",), sparse=True, attention="eager"),
    "sparse-compiled": theirs("ModernBERT, sparse, compiled", ("mlm",), sparse=True, compiled=True),
    "dense": theirs("ModernBERT, its default", ("mlm",)),
    "llama": theirs("Llama", ("clm",)),
    "llama-eager": theirs("Llama, eager attention", ("clm",), attention="eager"),
    "llama-compiled": theirs("Llama, compiled", ("clm",), compiled=True),
}


@dataclass
class Speeds(ModelBench):
    """One run of the benchmark."""

    warm: int = 5
    steps: int = 15
    small: dict[str, Any] = field(default_factory=dict)

    def settings(self, kind: str, optimiser: str, dtype: str) -> dict[str, Any]:
        """Those of our training: a report for every step, no checkpoint before the last."""
        return SHAPE | OPTIMISER | self.small | (MASKED if kind == "mlm" else {}) | {
            "optimiser": optimiser, "dtype": dtype, "threads": self.threads, "steps": self.warm + self.steps, "seed": 1,
            "report_every": 1, "eval_every": self.warm + self.steps, "checkpoint_seconds": 1e9, "device": "cpu",
        }  # fmt: skip

    def record_of(self, kind: str) -> str:
        """The folder of the recorded training."""
        return str(self.work / f"record-{kind}")

    def prepare(self, mb: float, vocab_size: int) -> None:
        """The tokens."""
        self.prepare_tokens(mb, vocab_size, "wordpiece", valid=False)
        paths = {kind: str(self.work / f"{kind}.npy") for kind in KINDS}
        self.child("streams", "streams", **self.prepared, tokens=str(self.work / "tokens"), ids=paths)

    def ours(self, name: str, kind: str, optimiser: str, dtype: str, **more: Any) -> dict[str, Any]:
        """One training of ours."""
        state = self.work / "state"
        task = {"kind": kind, "settings": self.settings(kind, optimiser, dtype), "ids": str(self.work / f"{kind}.npy")}
        found = self.child(name, "ours", **self.prepared, **task, **more, folder=str(state))
        shutil.rmtree(state)
        return found

    def record(self, kind: str) -> dict[str, Any]:
        """The training that the others repeat."""
        return self.ours(f"record-{kind}", kind, "adamw", "float32", record=self.record_of(kind))

    def run(self, name: str, kind: str, dtype: str, recorded: dict[str, Any]) -> dict[str, Any]:
        """One side, once."""
        side, log = SIDES[name], f"{kind}-{name}-{dtype}"
        if side.is_ours:
            found = self.ours(log, kind, side.task["optimiser"], dtype)
        else:
            wanted = {key: OPTIMISER[key] for key in ("weight_decay", "clip")}
            wanted |= {"betas": [OPTIMISER["beta1"], OPTIMISER["beta2"]], "rates": recorded["rates"], "dtype": dtype}
            wanted |= {"kind": kind, "record": self.record_of(kind), "threads": self.threads}
            found = self.child(log, "transformers", **side.task, **wanted)
        return found | {"token_seconds": found["token_seconds"][self.warm :]}


def measure(bench: Speeds, kind: str, dtypes: list[str], names: list[str], repeats: int) -> list[dict[str, Any]]:
    """All sides of a kind in turn, there and back again."""
    recorded, runs = bench.record(kind), defaultdict(list)
    cells = [(name, dtype) for dtype in dtypes for name in names if kind in SIDES[name].kinds]
    for turn in range(repeats):
        for name, dtype in cells if turn % 2 == 0 else reversed(cells):
            runs[name, dtype].append(bench.run(name, kind, dtype, recorded))
            print(f"{kind} {dtype} {name}: turn {turn + 1} of {repeats}", file=sys.stderr)
    return [
        {"kind": kind, "dtype": dtype, "side": name, "says": SIDES[name].says}
        | speed_line(runs[name, dtype], recorded["losses"])
        for name, dtype in cells
    ]


def faults(lines: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    """What is not as it should be."""
    for line in lines:
        if line["side"] == "muon":
            continue  # another optimiser, other losses
        allowed = 1e-3 if line["dtype"] == "float32" else 1e-2
        if line["first_loss_off_by"] > allowed or line["losses_off_by"] > 1e-2:
            off = f"{line['first_loss_off_by']:.2%} at the first step, {line['losses_off_by']:.2%} at most"
            yield f"{line['kind']} {line['dtype']} {line['says']}: its losses are not those of the recording: {off}"
    for ratio in found:
        if ratio["times_as_fast"] < TARGETS[ratio["kind"]]:
            yield (
                f"{ratio['kind']} {ratio['dtype']}: {ratio['times_as_fast']:.2f} times as fast as {ratio['against']}, "
                f"less than {TARGETS[ratio['kind']]}"
            )


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt")
    parser.add_argument("--out", type=Path, default=RESULTS / "model.json", help="JSON file to write")
    parser.add_argument("--only", default=",".join(KINDS), help="mlm or clm (default both)")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="float32 or bfloat16 (default both)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of every side (default 3)")
    parser.add_argument("--steps", type=int, default=15, help="timed steps of a run (default 15)")
    parser.add_argument("--warm", type=int, default=5, help="steps before them (default 5)")
    parser.add_argument("--compile", action="store_true", help="transformers through torch.compile too")
    parser.add_argument("--threads", type=int, default=2, help="of all sides (default 2)")
    parser.add_argument("--mb", type=float, default=10.0, help="MB of text (default 10)")
    parser.add_argument("--vocab-size", type=int, default=16_000, help="of the tokenizer (default 16,000)")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and tiny batches, to see that it works")
    parser.add_argument("--limit", type=float, default=1800, metavar="SECONDS", help="kill a process that takes longer")
    parser.add_argument("--scratch", type=Path, help="folder for what is made while it runs")
    arguments = parser.parse_args(given)
    for option, known in (("only", KINDS), ("dtypes", DTYPES)):
        setattr(arguments, option, [one for one in getattr(arguments, option).split(",") if one])
        if unknown := set(getattr(arguments, option)) - set(known):
            parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(known)})")
    return arguments


TINY = {"dim": 32, "n_layers": 1, "n_heads": 2, "ffn_dim": 32, "seq_len": 16, "batch_size": 4}


def main(given: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    arguments = arguments_of(given)
    names = [name for name, side in SIDES.items() if arguments.compile or not side.optional]
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="model-bench-") as folder:
        bench = Speeds(
            arguments.data.absolute(), Path(folder).absolute(), arguments.threads, arguments.limit, warm=arguments.warm,
            steps=arguments.steps, small=TINY if arguments.tiny else {},
        )  # fmt: skip
        bench.prepare(arguments.mb, arguments.vocab_size)
        lines = [
            line for kind in arguments.only for line in measure(bench, kind, arguments.dtypes, names, arguments.repeat)
        ]
    ratios = list(speed_ratios(lines))
    wrong = list(faults(lines, [] if arguments.tiny else ratios))
    for row in [*speed_rows(lines, ratios), *wrong]:
        print(row)
    result = {
        "ok": not wrong, "wrong": wrong, "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "libraries": versions(["wordpipe", "torch", "transformers", "numpy"]), "threads": arguments.threads,
        "shape": SHAPE | OPTIMISER | MASKED | bench.small, "vocab_size": bench.prepared["n_tokens"],
        "warm": arguments.warm, "steps": arguments.steps, "lines": lines, "ratios": ratios,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
