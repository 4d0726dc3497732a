"""The recipes of masked training compared: the same tokens of the same text, evaluated on the same masks.

    python benchmarks/model_recipes.py --data DIR                         writes benchmarks/results/model_recipes.json
    python benchmarks/model_recipes.py --data DIR --only bert,default     some cells: names, or their beginnings
    python benchmarks/model_recipes.py --list                             what the cells are

DIR holds wiki/train.txt and wiki/valid.txt. A WordPiece vocabulary of 8,000 is made from the first 20 MB of the training text
and used by all. All see the same sequences of 128 tokens, 32 a step, in the same order, 3 million tokens in all (less than one
pass), and are evaluated on the whole of valid.txt: the same 15 % of its tokens hidden in the same way, 80/10/10, scored in
float32; nats per hidden token. "±" is the standard error of the difference between two models over the held-out sequences; two
seeds of one recipe differ by more (cell seed-2).

The peer is BertForMaskedLM of transformers with as many weights (within 2 %), trained by a plain loop (peers/model_bert.py):
AdamW, 0.9 and 0.98, weight decay 0.01, clipping at 1, warm-up and then a line to zero, 15 % masks, no dropout; of its learning
rates and warm-ups the best counts. Ours are what `wordpipe train mlm` does, each cell with the options that it names. Matrix
products are in bfloat16 on both sides where the CPU has units for it.

Every cell is a process with a log in --work, which is kept: cells that are done are not done again, so the script may be
stopped at any time. Exit code 0: our default is better than the best BERT by at least 0.2 nat, and they are of equal size.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.measure import versions
from peers.model_bench import ModelBench
from peers.model_figures import recipe_rows, recipes
from tokens import machine

RESULTS = Path(__file__).parent.absolute() / "results"
SHAPE = {"dim": 256, "n_layers": 4, "n_heads": 4}
GATED, PLAIN = 384, 576  # 3 · 256 · 384 weights in a gated feed-forward are 2 · 256 · 576 in a plain one
SEQ_LEN, BATCH = 128, 32
TARGET = 0.2


@dataclass(frozen=True)
class Cell:
    """One recipe.

    Attributes:
        says: what it is, for the table.
        options: of `wordpipe train mlm`; for BERT, its learning rate.
        side: whose it is.
    """

    says: str
    options: dict[str, Any] = field(default_factory=dict)
    side: str = "wordpipe"


def bert(lr: float, warmup: float = 0.1) -> Cell:
    """The peer with a learning rate, and the share of the steps in which it rises."""
    says = f"BERT of transformers, AdamW {lr:g}, {warmup:.0%} warm-up".replace("%", " %")
    return Cell(says, {"lr": lr, "warmup": warmup}, "transformers")


CELLS = {
    "bert-5e-4": bert(5e-4),
    "bert-1e-3": bert(1e-3),
    "bert-2e-3": bert(2e-3),
    "bert-1e-3-warm": bert(1e-3, warmup=0.2),
    "bert-2e-3-warm": bert(2e-3, warmup=0.2),
    "default": Cell("wordpipe's default"),
    "seed-2": Cell("the same with another seed", {"seed": 2}),
    "adamw": Cell("AdamW for all weights", {"optimiser": "adamw"}),
    "adamw-2e-3": Cell("AdamW for all weights, rate 2e-3", {"optimiser": "adamw", "lr": 2e-3}),
    "lr-2e-3": Cell("rate 2e-3", {"lr": 2e-3}),
    "learned": Cell("learned positions", {"positions": "learned"}),
    "sinusoidal": Cell("sinusoidal positions", {"positions": "sinusoidal"}),
    "alibi": Cell("ALiBi positions", {"positions": "alibi"}),
    "t5": Cell("T5's relative positions", {"positions": "t5"}),
    "gelu": Cell("plain GELU, as many weights", {"feedforward": "gelu", "ffn_dim": PLAIN}),
    "mask-15": Cell("15 % masks", {"mask_rate": 0.15}),
    "mask-40": Cell("40 % masks", {"mask_rate": 0.4}),
    "mask-40-15": Cell("40 % masks falling to 15 %", {"mask_rate": 0.4, "mask_rate_end": 0.15}),
    "all-mask": Cell("all of them shown as [MASK]", {"mask_share": 1.0, "random_share": 0.0}),
    "word": Cell("whole words hidden", {"mask_unit": "word"}),
    "span": Cell("spans hidden", {"mask_unit": "span"}),
    "warmup-6": Cell("6 % warm-up", {"warmup": 0.06}),
    "classic": Cell("classic style (BERT's parts)", {"style": "classic", "ffn_dim": PLAIN}),
    "as-bert": Cell(
        "BERT's parts, optimiser and masks, by wordpipe",
        {"style": "classic", "ffn_dim": PLAIN, "optimiser": "adamw", "mask_rate": 0.15, "warmup": 0.1},
    ),
    "words": Cell("start from word2vec, rescaled", {"init_embeddings": "words"}),
    "words-raw": Cell("start from word2vec, as it is", {"init": "raw"}),
}


@dataclass
class Recipes(ModelBench):
    """One run: where it works, and what all cells share."""

    tokens: int = 3_000_000
    mb: float = 20.0
    vocab_size: int = 8_000
    dtype: str = "auto"
    text: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Optimiser steps of every cell."""
        return max(1, self.tokens // (SEQ_LEN * BATCH))

    def shared(self) -> dict[str, Any]:
        """The task of every process."""
        return {
            **self.prepared, "seq_len": SEQ_LEN, "batch_size": BATCH, "steps": self.steps, "threads": self.threads,
            "rows": str(self.work / "rows.npy"), "held_out": str(self.work / "held_out.npz"), "seed": 1,
        }  # fmt: skip

    def prepare(self) -> None:
        """Texts, tokens, rows and held-out masks, unless they are there."""
        same = {"mb": self.mb, "vocab_size": self.vocab_size, "steps": self.steps, "dtype": self.dtype}
        self.prepare_tokens(self.mb, self.vocab_size, "wordpiece", valid=True)
        for folder in ("cells", "models"):
            (self.work / folder).mkdir(exist_ok=True)
        done = self.work / "prepared.json"
        if not done.exists() or json.loads(done.read_text())["same"] != same:
            task = self.shared() | {"dtype": self.dtype}
            task |= {"tokens": str(self.work / "tokens"), "valid_tokens": str(self.work / "valid-tokens")}
            found = self.child("prepare", "prepare", **task)
            done.write_text(json.dumps({"same": same, "text": found}))
        self.text = json.loads(done.read_text())["text"]

    def cell(self, name: str) -> dict[str, Any]:
        """What a cell found; done unless it was."""
        cell = CELLS[name]
        same = {
            "options": cell.options, "side": cell.side, "steps": self.steps, "mb": self.mb, "dtype": self.dtype,
            "vocab_size": self.vocab_size,
        }  # fmt: skip
        file = self.work / "cells" / f"{name}.json"
        if file.exists() and (kept := json.loads(file.read_text()))["same"] == same:
            return kept["found"]
        begun = time.monotonic()
        found = self.bert(name, cell) if cell.side == "transformers" else self.ours(name, cell)
        found |= {"cell": name, "says": cell.says, "side": cell.side, "options": cell.options}
        found |= {"cell_seconds": round(time.monotonic() - begun, 1), "kept": f"{name}.npy"}
        file.write_text(json.dumps({"same": same, "found": found}, indent=1))
        print(f"{name}: {found['loss']:.4f} nats, {found['cell_seconds']:.0f} s", file=sys.stderr)
        return found

    def bert(self, name: str, cell: Cell) -> dict[str, Any]:
        """One training of the peer."""
        task = self.shared() | SHAPE | {"ffn_dim": PLAIN, "dtype": self.text["dtype"], "kept": self.kept(name)}
        return self.child(name, "train_bert", **cell.options, **task)

    def ours(self, name: str, cell: Cell) -> dict[str, Any]:
        """One training of ours by its command, and its evaluation."""
        model = self.work / "models" / name
        made = self.train_mlm(name, model, self.starts(cell.options))
        task = self.shared() | {"model": str(model), "kept": self.kept(name)}
        found = self.child(f"{name}-evaluate", "evaluate", **task)
        shutil.rmtree(model)
        return found | {
            "train_loss": made["metrics"]["loss"], "train_seconds": round(made["seconds"], 1),
            "tokens_per_s": made["rates"]["tokens_per_s"],
        }  # fmt: skip

    def train_mlm(self, name: str, model: Path, options: dict[str, Any]) -> dict[str, Any]:
        """`wordpipe train mlm`."""
        sizes = {} if "init" in options else SHAPE | {"ffn_dim": GATED}  # a model to start from has its own
        given = sizes | {"seq_len": SEQ_LEN, "batch_size": BATCH, "steps": self.steps}
        given |= {"threads": self.threads, "report_every": 50, "dtype": self.dtype} | options
        flags = [f"--set={key}={value}" for key, value in given.items()]
        return self.wordpipe(name, "train", "mlm", self.work / "tokens", "-o", model, *flags)

    def starts(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with the folders that they start from; made when first asked for."""
        if not {"init_embeddings", "init"} & options.keys():
            return options
        words = self.work / "words"
        if not (words / "manifest.json").exists():
            flags = ["--unit", "token", "--dim", SHAPE["dim"], "--threads", self.threads, "--store", "float32"]
            self.wordpipe("words", "train", "word2vec", self.work / "tokens", "-o", words, *flags)
        if "init_embeddings" in options:
            return options | {"init_embeddings": words}
        untrained, raw = self.work / "models" / "untrained", self.work / "models" / "raw"
        self.train_mlm("untrained", untrained, {"steps": 1, "lr": 1e-30})
        self.child("raw", "raw_start", model=str(untrained), words=str(words), out=str(raw))
        return options | {"init": raw}

    def kept(self, name: str) -> str:
        """Where the losses of the held-out sequences go."""
        return str(self.work / "cells" / f"{name}.npy")


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with wiki/train.txt and wiki/valid.txt")
    parser.add_argument("--out", type=Path, default=RESULTS / "model_recipes.json", help="JSON file to write")
    parser.add_argument(
        "--work", type=Path, help="folder for tokens, logs and cells (default below the temporary ones)"
    )
    parser.add_argument("--only", default="", help="cells, by their names or beginnings of them (default all)")
    parser.add_argument("--tokens", type=int, default=3_000_000, help="positions that every model is trained on")
    parser.add_argument("--mb", type=float, default=20.0, help="MB of training text (default 20)")
    parser.add_argument("--vocab-size", type=int, default=8_000, help="of the tokenizer (default 8,000)")
    parser.add_argument("--dtype", choices=["auto", "float32", "bfloat16"], default="auto", help="for all cells")
    parser.add_argument("--threads", type=int, default=2, help="for all cells (default 2)")
    parser.add_argument("--limit", type=float, default=2400, metavar="SECONDS", help="kill a process that takes longer")
    parser.add_argument("--list", action="store_true", help="print the cells and stop")
    arguments = parser.parse_args(given)
    wanted = [one for one in arguments.only.split(",") if one]
    meant = {one: [one] if one in CELLS else [name for name in CELLS if name.startswith(one)] for one in wanted}
    if unknown := [one for one, names in meant.items() if not names]:
        parser.error(f"no cell is called {', '.join(unknown)} (choose from {', '.join(CELLS)})")
    arguments.cells = [name for name in CELLS if not wanted or any(name in names for names in meant.values())]
    if arguments.data is None and not arguments.list:
        parser.error("--data DIR is needed")
    return arguments


def done_cells(bench: Recipes, names: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """The cells, and those that failed."""
    found, failed = [], []
    for name in names:
        try:
            found.append(bench.cell(name))
        except RuntimeError as error:
            why = str(error).replace(str(bench.work), "…")
            print(f"failed {why}", file=sys.stderr)
            failed.append({"cell": name, "why": why})
    return found, failed


def faults(lines: list[dict[str, Any]], failed: list[dict[str, str]]) -> Iterator[str]:
    """What is not as it should be."""
    yield from (f"{one['cell']}: {one['why']}" for one in failed)
    by_name = {line["cell"]: line for line in lines}
    peers = [line for line in lines if line["side"] == "transformers"]
    if not peers or (ours := by_name.get("default")) is None:
        return
    best = min(peers, key=lambda line: line["loss"])
    if abs(best["parameters"] / ours["parameters"] - 1) > 0.02:
        yield f"the two sides are not of equal size: {ours['parameters']:,} and {best['parameters']:,} weights"
    if best["loss"] - ours["loss"] < TARGET:
        yield f"the default is better than {best['says']} by {best['loss'] - ours['loss']:.3f} nat, less than {TARGET}"


def main(given: list[str] | None = None) -> int:
    """Do the cells, print the table, write the JSON."""
    arguments = arguments_of(given)
    if arguments.list:
        print("\n".join(f"{name:<12} {cell.says}" for name, cell in CELLS.items()))
        return 0
    default = Path(tempfile.gettempdir()) / f"wordpipe-recipes-{arguments.mb:g}-{arguments.tokens}"
    work = (arguments.work or default).absolute()
    bench = Recipes(
        arguments.data.absolute(), work, arguments.threads, arguments.limit, tokens=arguments.tokens, mb=arguments.mb,
        vocab_size=arguments.vocab_size, dtype=arguments.dtype,
    )  # fmt: skip
    bench.prepare()
    found, failed = done_cells(bench, arguments.cells)
    lines = recipes(found, work / "cells")
    wrong = list(faults(lines, failed))
    for row in [*recipe_rows(lines, bench.text["unigram_entropy"]), *wrong]:
        print(row)
    result = {
        "ok": not wrong, "wrong": wrong, "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "libraries": versions(["wordpipe", "torch", "transformers", "numpy"]), "threads": arguments.threads,
        "tokens": bench.steps * SEQ_LEN * BATCH, "mb": arguments.mb, "vocab_size": bench.prepared["n_tokens"],
        "dtype": arguments.dtype, "text": bench.text, "lines": lines, "failed": failed,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
