"""BERT's relatives at equal tokens: each trained on the same text, judged by held-out loss and by frozen vectors.

    python benchmarks/relatives.py --data DIR --work FOLDER                     writes benchmarks/results/relatives.json
    python benchmarks/relatives.py --data DIR --work FOLDER --only mlm,electra  some cells: names
    python benchmarks/relatives.py --list                                       what the cells are

DIR holds wiki/ and labelled/. Text, vocabulary, shape, sequences and number of tokens are those of model_recipes.py: the first
20 MB, WordPiece of 8,000, width 256, 4 layers, 128 tokens a sequence, 32 sequences a step, 3 million tokens. All are of
`--style classic`, which has what tells two texts of a sequence apart, with the positions, norms and feed-forward of the
default style: with BERT's learned positions a model stays near the unigram entropy at so few tokens (model_recipes.py,
`learned`), and what stays there tells no objectives apart. What a cell does not name is its command's default. Measured are

    held-out loss   nats per hidden token of wiki/valid.txt, the same masks for all as in model_recipes.py; of models that
                    guess masked tokens
    SST, TREC       accuracy of a logistic regression (scikit-learn) on the mean of the last hidden states of each text, the
                    model frozen: standardised numbers, the regularisation chosen on a fifth of the texts to learn from, then
                    learned from all of these; intervals are of 95 %, over the measured texts (peers/head_data.py says which)

Beside them stand the first weights and TF-IDF. Every cell is a process with a log in FOLDER; what is done there is not done
again. A cell whose command does not exist is left out, and named. Exit code 0: nothing failed, and `mlm` is better than its
first weights on both sets.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from model_recipes import BATCH, GATED, RESULTS, SEQ_LEN, SHAPE, Recipes
from peers.head_data import read_records, write_set
from peers.measure import versions
from peers.model_figures import gap
from tokens import machine

from wordpipe.metrics import mean_interval, paired_difference
from wordpipe.stages import COMMANDS

Found = dict[str, Any]

SETS = ("sst", "trec")
PARTS = {
    "style": "classic", "positions": "rope", "norm_place": "pre", "feedforward": "geglu", "ffn_dim": GATED,
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        says: what it is, for the table.
        options: of its command.
        command: `train` and its objective.
        teacher: the cell whose model teaches this one, which has its shape from it.
        parts: of the model, else those of all.
        guesses: the model guesses masked tokens, so that its loss compares.
    """

    says: str
    options: Found = field(default_factory=dict)
    command: str = "train mlm"
    teacher: str = ""
    parts: Found = field(default_factory=lambda: PARTS)
    guesses: bool = True


CELLS = {
    "fresh": Cell("the first weights, untrained", {"steps": 1, "lr": 1e-30}),
    "mlm": Cell("masked (`train mlm`)"),
    "nsp": Cell("and next sentence (`--pair nsp`)", {"pair": "nsp"}),
    "sop": Cell("and sentence order (`--pair sop`)", {"pair": "sop"}),
    "electra": Cell("replaced tokens (`train electra`)", command="train electra", guesses=False),
    "distilled": Cell("distilled (`--teacher`), 2 layers from the 4 of `train mlm`", teacher="mlm"),
    "shared": Cell(
        "shared layers, tables of 64 numbers (ALBERT)", {"shared_layers": "true", "embedding_dim": 64}
    ),
    "seed-2": Cell("`train mlm` with another seed", {"seed": 2}),
    "permutation": Cell(
        "permutation (`train permutation`)", command="train permutation", guesses=False,
        parts={key: value for key, value in PARTS.items() if key != "positions"},  # which are in its attention
    ),
}  # fmt: skip


@dataclass
class Relatives(Recipes):
    """One run: tokens and held-out masks as for the recipes, and the labelled sets."""

    def prepare(self) -> None:
        """Texts, tokens, held-out masks and labelled sets, unless they are there."""
        super().prepare()
        for name in SETS:
            if not (self.work / f"{name}-test.jsonl").exists():
                write_set(name, self.data, self.work)

    def once(self, name: str, same: Found, work: Any) -> Found:
        """What `work` found, kept under a name; done again where it was something else."""
        file = self.work / "cells" / f"{name}.json"
        if file.exists() and (kept := json.loads(file.read_text()))["same"] == same:
            return dict(kept["found"])
        begun = time.monotonic()
        found: Found = work()
        found["cell_seconds"] = round(time.monotonic() - begun, 1)
        file.write_text(json.dumps({"same": same, "found": found}, indent=1))
        print(f"{name}: {found['cell_seconds']:.0f} s", file=sys.stderr)
        return found

    def relative(self, name: str) -> Found:
        """What a cell found; done unless it was."""
        cell = CELLS[name]
        same = {
            "options": cell.options, "parts": cell.parts, "command": cell.command, "teacher": cell.teacher,
            "steps": self.steps, "mb": self.mb, "dtype": self.dtype, "vocab_size": self.vocab_size,
        }  # fmt: skip
        found = self.once(name, same, lambda: self.trained(name, cell))
        return found | {"cell": name, "says": cell.says, "command": cell.command, "kept": f"{name}.npy"}

    def trained(self, name: str, cell: Cell) -> Found:
        """Train, then measure the loss and the vectors."""
        model = self.work / "models" / name
        given: Found = {"seq_len": SEQ_LEN, "batch_size": BATCH, "steps": self.steps, "threads": self.threads}
        given |= {"dtype": self.dtype, "report_every": 50}
        if cell.teacher:
            self.relative(cell.teacher)
            given |= {"teacher": self.work / "models" / cell.teacher}
        else:
            given |= SHAPE | cell.parts
        flags = [f"--set={key}={value}" for key, value in (given | cell.options).items()]
        made = self.wordpipe(name, *cell.command.split(), self.work / "tokens", "-o", model, *flags)
        found = {
            "parameters": made["counts"]["parameters"], "train_seconds": round(made["seconds"], 1),
            "tokens_per_s": made["rates"]["tokens_per_s"], "train": made["metrics"],
            "peak_memory_bytes": made["peak_memory_bytes"],
        }  # fmt: skip
        task = self.shared() | {"model": str(model), "kept": self.kept(name)}
        if cell.guesses:
            found["loss"] = self.child(f"{name}-evaluate", "evaluate", **task)["loss"]
        found["sets"] = self.child(f"{name}-probe", "probe", **task, folder=str(self.work), sets=SETS, cell=name)[
            "sets"
        ]
        if not any(other.teacher == name for other in CELLS.values()):
            shutil.rmtree(model)
        return found

    def bags(self) -> Found:
        """TF-IDF and logistic regression on the same texts."""
        sets: Found = {}
        for name in SETS:
            files = {part: str(self.work / f"{name}-{part}.jsonl") for part in ("train", "test")}
            said = self.child(f"bags-{name}", "bags", **files)["said"]
            labels = [one["label"] for one in read_records(self.work / f"{name}-test.jsonl")]
            np.save(self.work / "cells" / f"bags-{name}.npy", np.array(said) == np.array(labels))
            sets[name] = {"texts": len(labels)}
        return {"sets": sets}


def lines_of(found: list[Found], folder: Path) -> list[Found]:
    """The cells with accuracies, their intervals, and how far they are from `mlm`.

    Args:
        found: what the cells found.
        folder: where the losses of held-out sequences and what was right of each set lie.
    """
    by_name = {one["cell"]: one for one in found}
    mlm, lines = by_name.get("mlm"), []
    for one in found:
        line = {key: value for key, value in one.items() if key != "kept"}
        if mlm is not None and one is not mlm and "loss" in one:
            line["better_than_mlm"] = gap(one, mlm, folder)
        line["sets"] = {name: one["sets"][name] | scored(one["cell"], name, folder, mlm is not None) for name in SETS}
        lines.append(line)
    return lines


def scored(cell: str, name: str, folder: Path, compared: bool) -> Found:
    """The accuracy of a cell on a set, and its distance to `mlm`, text by text."""
    right_N = np.load(folder / f"{cell}-{name}.npy").astype(np.float64)
    interval = mean_interval(right_N)
    assert interval is not None
    found: Found = {"accuracy": round(float(right_N.mean()), 4), "interval": [round(bound, 4) for bound in interval]}
    if compared and cell != "mlm":
        apart = paired_difference(right_N, np.load(folder / f"mlm-{name}.npy").astype(np.float64))
        assert apart is not None
        found["above_mlm"] = {"mean": round(apart.mean, 4), "interval": [round(bound, 4) for bound in apart.interval]}
    return found


def rows(lines: list[Found]) -> Iterator[str]:
    """The table in Markdown."""
    yield "| objective | held-out loss | SST | TREC | weights | seconds | tokens/s |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for line in lines:
        scores = [f"{100 * one['accuracy']:.1f} ({100 * one['interval'][0]:.1f} to {100 * one['interval'][1]:.1f})"
                  for one in line["sets"].values()]  # fmt: skip
        loss = f"{line['loss']:.3f}" if "loss" in line else ""
        sizes = (
            [f"{line['parameters'] / 1e6:.2f}M", f"{line['train_seconds']:.0f}", f"{line['tokens_per_s']:,.0f}"]
            if "parameters" in line
            else ["", "", ""]
        )
        yield f"| {' | '.join([line['says'], loss, *scores, *sizes])} |"


def faults(lines: list[Found], failed: list[Found]) -> Iterator[str]:
    """What is not as it should be."""
    yield from (f"{one['cell']}: {one['why']}" for one in failed)
    by_name = {line["cell"]: line for line in lines}
    if {"mlm", "fresh"} <= by_name.keys():
        for name in SETS:
            if by_name["mlm"]["sets"][name]["accuracy"] <= by_name["fresh"]["sets"][name]["accuracy"]:
                yield f"mlm is no better than its first weights on {name}"


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with wiki/ and labelled/")
    parser.add_argument("--work", type=Path, help="folder for tokens, logs and cells, which is kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "relatives.json", help="JSON file to write")
    parser.add_argument("--only", default="", help="cells (default all)")
    parser.add_argument("--tokens", type=int, default=3_000_000, help="positions that every model is trained on")
    parser.add_argument("--mb", type=float, default=20.0, help="MB of training text (default 20)")
    parser.add_argument("--vocab-size", type=int, default=8_000, help="of the tokenizer (default 8,000)")
    parser.add_argument("--dtype", choices=["auto", "float32", "bfloat16"], default="auto", help="for all cells")
    parser.add_argument("--threads", type=int, default=2, help="for all cells (default 2)")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="kill a process that takes longer")
    parser.add_argument("--list", action="store_true", help="print the cells and stop")
    arguments = parser.parse_args(given)
    arguments.cells = [one for one in arguments.only.split(",") if one] or [*CELLS]
    if unknown := [one for one in arguments.cells if one not in CELLS]:
        parser.error(f"no cell is called {', '.join(unknown)} (choose from {', '.join(CELLS)})")
    if not arguments.list and (arguments.data is None or arguments.work is None):
        parser.error("--data DIR and --work FOLDER are needed")
    return arguments


def done_cells(bench: Relatives, names: list[str]) -> tuple[list[Found], list[Found]]:
    """The cells, and those that failed."""
    found, failed = [], []
    for name in names:
        try:
            found.append(bench.relative(name))
        except RuntimeError as error:
            why = str(error).replace(str(bench.work), "…")
            print(f"failed {why}", file=sys.stderr)
            failed.append({"cell": name, "why": why})
    return found, failed


def main(given: list[str] | None = None) -> int:
    """Do the cells, print the table, write the JSON."""
    arguments = arguments_of(given)
    if arguments.list:
        print("\n".join(f"{name:<12} {cell.says}" for name, cell in CELLS.items()))
        return 0
    work = arguments.work.absolute()
    bench = Relatives(
        arguments.data.absolute(), work, arguments.threads, arguments.limit, tokens=arguments.tokens, mb=arguments.mb,
        vocab_size=arguments.vocab_size, dtype=arguments.dtype,
    )  # fmt: skip
    bench.prepare()
    left_out = [name for name in arguments.cells if CELLS[name].command not in COMMANDS]
    found, failed = done_cells(bench, [name for name in arguments.cells if name not in left_out])
    bags = bench.once("bags", {}, bench.bags) | {"cell": "bags", "says": "TF-IDF of words, no model", "kept": ""}
    lines = lines_of([bags, *found], work / "cells")
    wrong = list(faults(lines, failed))
    missing = [f"{name}: left out, there is no command `{CELLS[name].command}`" for name in left_out]
    for row in [*rows(lines), *missing, *wrong]:
        print(row)
    result = {
        "ok": not wrong, "wrong": wrong, "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "libraries": versions(["wordpipe", "torch", "scikit-learn", "numpy"]), "threads": arguments.threads,
        "tokens": bench.steps * SEQ_LEN * BATCH, "mb": arguments.mb, "vocab_size": bench.prepared["n_tokens"],
        "dtype": bench.text["dtype"], "text": bench.text, "lines": lines, "failed": failed, "left_out": left_out,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
