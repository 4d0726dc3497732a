"""Encoder-decoders: translation from 29,000 pairs, what its parts bring, other tasks; and both speeds against transformers.

    python benchmarks/seq2seq.py --data DIR                         writes benchmarks/results/seq2seq.json
    python benchmarks/seq2seq.py --data DIR --parts speed,decode    these parts alone; the others stay as they are there

DIR holds parallel/multi30k/{train,val}.{de,en}, wiki/, labelled/. The parts:

    multi30k    German to English: ingest, tokenize (8,000 tokens, one vocabulary), train seq2seq (3 + 3 layers of width 256, 8
                heads, feed-forward 1,024), then evaluate seq2seq on the validation set, which nothing was chosen on
    ablations   shorter trainings, each without one part: the mean of the weights at the end, the scale of the embeddings, the
                table that both sides and the output share
    denoising   2,000 pairs with and without a model that has learned to restore damaged text before
    tasks       titles of Wikipedia's passages, answers from XQuAD's, the sentiment of SST as text: one model, three prefixes,
                from one that has restored damaged passages before
    speed       the training step against transformers' Marian and T5: the same first weights, the same batches and rates, the
                same threads; with the share of the time that the products of the weight matrices alone take
    decode      the 1,000 first validation sentences with 5 beams, by us and by transformers' `generate` from the same folder,
                its fastest of several batch sizes

`--avx2` lets torch and oneDNN use no more than AVX2, on all sides.
Exit code 0: the lower-cased BLEU is at least 39, steps are at least 1.25 and decoding at least 3 times as fast.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from peers.measure import versions
from peers.model_bench import ModelBench
from peers.model_figures import speed_line, speed_ratios, speed_rows
from peers.model_text import special_ids
from peers.seq2seq_tasks import write_passages, write_tasks
from sacrebleu import corpus_bleu as bleu
from tokens import machine

Found = dict[str, Any]

RESULTS = Path(__file__).parent.absolute() / "results"
SHAPE = {"dim": 256, "n_layers": 3, "n_heads": 8, "ffn_dim": 1024, "seq_len": 128}
DROPPED = 0.2
LR_OF_STARTED = 1.5e-3  # new weights learn at 4e-3; others were not compared
STYLES = {"vaswani": "Marian", "t5": "T5"}
OPTIMISER = {"lr": 1e-3, "weight_decay": 0.05, "beta1": 0.9, "beta2": 0.98, "clip": 1.0}
DROPOUT = {"vaswani": "dropout", "t5": "dropout_rate"}
SIDES = {
    "adamw": "wordpipe, AdamW", "muon": "wordpipe, Muon", "sdpa": "{}", "eager": "{}, eager attention",
}  # fmt: skip
BATCH_SIZES = (16, 64, 256)
ABLATIONS: dict[str, Found] = {
    "whole": {}, "the last weights, not their mean": {"average": 0.0}, "embeddings not scaled": {"scaled": False},
    "a table for each side and the output": {"tied": False},
}  # fmt: skip
TARGETS = {"bleu": 39.0, "step": 1.25, "decode": 3.0}


@dataclass
class PairBench(ModelBench):
    """One run of the benchmark.

    Attributes:
        given: the command line.
    """

    given: argparse.Namespace = field(default_factory=argparse.Namespace)

    @property
    def small(self) -> dict[str, int]:
        """What --tiny makes of the shape."""
        return {"dim": 32, "n_layers": 1, "n_heads": 2, "ffn_dim": 48} if self.given.tiny else {}

    @property
    def vocab_size(self) -> int:
        """Of all tokenizers."""
        return 400 if self.given.tiny else 8_000

    def multi30k(self, split: str) -> list[Path]:
        """The files of both languages."""
        return [self.data / "parallel" / "multi30k" / f"{split}.{language}" for language in ("de", "en")]

    def pairs(self, name: str, sources: list[Path], **options: object) -> Path:
        """Tokens of parallel files."""
        corpus, tokens = self.work / f"{name}-corpus", self.work / f"{name}-tokens"
        if not tokens.exists():
            self.wordpipe(f"ingest-{name}", "ingest", "--parallel", *sources, "-o", corpus)
            flags = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
            self.wordpipe(f"tokenize-{name}", "tokenize", corpus, "-o", tokens, *flags)
        return tokens

    def train(self, name: str, *words: object) -> Found:
        """One training of the shape of this benchmark, by the command line; the shape is left out beside --init."""
        shape = {} if "--init" in words else SHAPE | self.small
        sizes = [word for key, value in shape.items() for word in ("--set", f"{key}={value}")]
        sizes += [
            "--set",
            f"dropout={DROPPED}",
            "--batch-size",
            self.given.batch_size,
            "--threads",
            self.threads,
            "--device",
            "cpu",
        ]
        return self.wordpipe(f"train-{name}", "train", *words, "-o", self.work / name, *sizes)

    def scores(self, name: str, model: Path, *, train: list[Path] | None = None, samples: int = 0) -> Found:
        """What evaluate seq2seq says of a model on the validation set."""
        words: list[object] = [word for path in self.multi30k("val") for word in ("--data", path)]
        words += [word for path in train or [] for word in ("--train", path)]
        return self.wordpipe(f"evaluate-{name}", "evaluate", "seq2seq", model, *words, "--samples", samples)


def multi30k(bench: PairBench) -> Found:
    """Train on all pairs and evaluate."""
    tokens = bench.pairs("multi30k", bench.multi30k("train"), vocab_size=bench.vocab_size)
    trained = bench.train("multi30k", "seq2seq", tokens, "--epochs", bench.given.epochs)
    said = bench.scores("multi30k", bench.work / "multi30k", train=bench.multi30k("train"), samples=10)
    return {"training": trained, "evaluation": said}


def ablations(bench: PairBench) -> Found:
    """Shorter trainings, each without one part."""
    tokens, found = bench.pairs("multi30k", bench.multi30k("train"), vocab_size=bench.vocab_size), {}
    for number, (says, changes) in enumerate(ABLATIONS.items()):
        name = f"ablation-{number}"
        settings = SHAPE | bench.small | {
            "batch_size": bench.given.batch_size, "threads": bench.threads, "epochs": bench.given.short, "device": "cpu",
            "dropout": DROPPED,
        }  # fmt: skip
        model = bench.work / name
        task = {"tokens": str(tokens), "model": str(model), "scaled": changes.get("scaled", True)}
        more = {key: value for key, value in changes.items() if key != "scaled"}
        trained = bench.child(name, "changed", **task, settings=settings | more)
        found[says] = {"training": trained, "evaluation": bench.scores(name, model)["metrics"]["model"]}
        print(f"{says}: {found[says]['evaluation']}", file=sys.stderr)
    return {"epochs": bench.given.short, "trainings": found}


def denoising(bench: PairBench) -> Found:
    """2,000 pairs: fresh weights, and weights that have restored the damaged texts of both sides of all pairs.

    BART's way, whose decoder writes whole texts, as a translation is one. No text is seen beside its partner.
    """
    few = [bench.work / f"few.{language}" for language in ("de", "en")]
    alone = [bench.work / f"alone.{language}.txt" for language in ("de", "en")]
    for source, one, other in zip(bench.multi30k("train"), few, alone, strict=True):
        with source.open(encoding="utf-8") as lines:
            one.write_text("".join(islice(lines, 2_000)), encoding="utf-8")
        shutil.copyfile(source, other)
    corpus, tokens = bench.work / "alone-corpus", bench.work / "alone-tokens"
    bench.wordpipe("ingest-alone", "ingest", *alone, "-o", corpus, "--documents", "line")
    bench.wordpipe("tokenize-alone", "tokenize", corpus, "-o", tokens, "--vocab-size", bench.vocab_size)
    begun = bench.train("denoiser", "denoising", tokens, "--style", "bart", "--epochs", bench.given.denoise)
    pairs = bench.pairs("few", few, tokenizer=bench.work / "denoiser" / "tokenizer.json")
    found: Found = {}
    started = ["--init", bench.work / "denoiser", "--lr", LR_OF_STARTED]
    for says, start in (("fresh", ["--style", "bart"]), ("denoised before", started)):
        name = f"few-{says.split()[0]}"
        trained = bench.train(name, "seq2seq", pairs, "--epochs", bench.given.few, *start)
        found[says] = {"training": trained, "evaluation": bench.scores(name, bench.work / name)["metrics"]["model"]}
        print(f"{says}: {found[says]['evaluation']}", file=sys.stderr)
    return {"denoising": begun, "trainings": found}


def tasks(bench: PairBench) -> Found:
    """One model for three tasks, from one that has restored damaged passages before: so it knows how to copy."""
    counts = write_tasks(bench.data, bench.work, bench.given.passages)
    write_passages(bench.data / "wiki" / "train.txt", bench.work / "passages.txt", bench.given.megabytes)
    corpus, tokens = bench.work / "passages-corpus", bench.work / "passages-tokens"
    bench.wordpipe("ingest-passages", "ingest", bench.work / "passages.txt", "-o", corpus, "--documents", "line")
    bench.wordpipe("tokenize-passages", "tokenize", corpus, "-o", tokens, "--vocab-size", bench.vocab_size)
    begun = bench.train("restorer", "denoising", tokens, "--style", "bart", "--epochs", 1)
    corpus, tokens = bench.work / "tasks-corpus", bench.work / "tasks-tokens"
    bench.wordpipe("ingest-tasks", "ingest", bench.work / "train.jsonl", "-o", corpus, "--text-b", "text_b")
    bench.wordpipe("tokenize-tasks", "tokenize", corpus, "-o", tokens, "--tokenizer", bench.work / "restorer")
    start = [
        "--init",
        bench.work / "restorer",
        "--lr",
        LR_OF_STARTED,
        "--seq-len",
        SHAPE["seq_len"],
        "--prefix-field",
        "task",
    ]
    trained = bench.train("tasks", "seq2seq", tokens, *start, "--epochs", bench.given.tasks)
    data = ["--data", bench.work / "held-out.jsonl", "--train", bench.work / "train.jsonl", "--prefix-field", "task"]
    said = bench.wordpipe("evaluate-tasks", "evaluate", "seq2seq", bench.work / "tasks", *data)
    return {
        "pairs": counts,
        "denoising": begun,
        "training": trained,
        "systems": said["systems"],
        "signatures": said["signatures"],
    }


def speed(bench: PairBench) -> Found:
    """The training step, by style and numbers, and the products alone."""
    tokens = bench.pairs("multi30k", bench.multi30k("train"), vocab_size=bench.vocab_size)
    special, n_tokens = special_ids(tokens)
    same = {"special": special, "n_tokens": n_tokens, "pairs": str(bench.work / "pairs"), "threads": bench.threads}
    bench.child("write-pairs", "write_pairs", **same, tokens=str(tokens), seq_len=SHAPE["seq_len"])
    lines, alone = [], []
    for style in STYLES:
        shutil.rmtree(bench.work / f"record-{style}", ignore_errors=True)  # of another run in this folder
        lines += steps_of(bench, style, same)
        shape = SHAPE | bench.small | {"gate": 2 if style == "t5" else 1}
        for dtype in bench.given.dtypes:
            task = {"record": str(bench.work / f"record-{style}"), "shape": shape, "dtype": dtype}
            found = bench.child(f"products-{style}-{dtype}", "products", **same, **task)
            where = bench.child(f"where-{style}-{dtype}", "record", **same, **profiled(bench, style, dtype))
            del where["peak_memory_bytes"]  # which says nothing of a step that is watched
            ours = next(one for one in lines if (one["kind"], one["dtype"], one["side"]) == (style, dtype, "adamw"))
            alone.append({"kind": style, "dtype": dtype, "gflop": round(found["operations"] / 1e9, 1)} | {
                f"share_{whose}": round(found[whose] * ours["tokens_per_s"], 3) for whose in ("torch", "ours")
            } | {"where": where})  # fmt: skip
    return {"lines": lines, "ratios": list(speed_ratios(lines)), "products": alone, "avx2": bench.given.avx2}


def settings_of(bench: PairBench, style: str) -> Found:
    """Of the steps that are timed: no dropout, so that the losses must be those of the recording."""
    return SHAPE | OPTIMISER | bench.small | {
        "style": style, "batch_size": bench.given.batch_size, "threads": bench.threads,
        "steps": bench.given.warm + bench.given.steps, "dropout": 0.0, "label_smoothing": 0.0, "average": 0.0,
        "report_every": 1, "checkpoint_seconds": 1e9, "device": "cpu",
    }  # fmt: skip


def profiled(bench: PairBench, style: str, dtype: str) -> Found:
    """What `record` needs to say where the time goes."""
    settings = settings_of(bench, style) | {"optimiser": "adamw", "dtype": dtype}
    folder = bench.work / f"where-{style}-{dtype}"
    return {"settings": settings, "folder": str(folder), "profiled": bench.given.warm}


def steps_of(bench: PairBench, style: str, same: Found) -> list[Found]:
    """All sides of one style in turn, there and back again."""
    record, settings = str(bench.work / f"record-{style}"), settings_of(bench, style)

    def ours(name: str, optimiser: str, dtype: str, **more: Any) -> Found:
        state = bench.work / "state"
        chosen = settings | {"optimiser": optimiser, "dtype": dtype}
        found = bench.child(name, "record", **same, settings=chosen, folder=str(state), **more)
        shutil.rmtree(state)
        return found

    recorded = ours(f"record-{style}", "adamw", "float32", record=record)
    theirs = {key: OPTIMISER[key] for key in ("weight_decay", "clip")} | {
        "betas": [OPTIMISER["beta1"], OPTIMISER["beta2"]], "rates": recorded["rates"], "record": record,
        "threads": bench.threads, "config": {DROPOUT[style]: 0.0},
    }  # fmt: skip
    runs, cells = defaultdict(list), [(name, dtype) for dtype in bench.given.dtypes for name in SIDES]
    for turn in range(bench.given.repeat):
        for name, dtype in cells if turn % 2 == 0 else reversed(cells):
            log = f"{style}-{name}-{dtype}"
            if name in ("adamw", "muon"):
                found = ours(log, name, dtype)
            else:
                found = bench.child(log, "repeat", **theirs, attention=name, dtype=dtype)
            runs[name, dtype].append(found | {"token_seconds": found["token_seconds"][bench.given.warm :]})
            print(f"{log}: turn {turn + 1} of {bench.given.repeat}", file=sys.stderr)
    return [
        {"kind": style, "dtype": dtype, "side": name, "says": SIDES[name].format(STYLES[style])}
        | speed_line(runs[name, dtype], recorded["losses"])
        for name, dtype in cells
    ]


def decode(bench: PairBench) -> Found:
    """Target texts of 1,000 sentences, from the model of multi30k if it was trained here, else from a short training."""
    model = bench.given.model or bench.work / "multi30k"
    if not model.exists():
        model = bench.work / "short"
        tokens = bench.pairs("multi30k", bench.multi30k("train"), vocab_size=bench.vocab_size)
        bench.train("short", "seq2seq", tokens, "--epochs", bench.given.short)
    sources, targets = (path.read_text(encoding="utf-8").splitlines()[:1000] for path in bench.multi30k("val"))
    same = {"model": str(model), "sources": sources, "beams": 5, "length_penalty": 1.0, "threads": bench.threads,
            "positions": SHAPE["seq_len"]}  # fmt: skip
    runs: dict[str, list[Found]] = defaultdict(list)
    for turn in range(bench.given.repeat):
        runs["ours"].append(bench.child("decode-ours", "write_ours", **same))
        for size in BATCH_SIZES if turn == 0 else [fastest(runs)]:
            runs[str(size)].append(bench.child(f"decode-{size}", "write_theirs", **same, batch_size=size))
            print(f"decode: turn {turn + 1}, batches of {size}", file=sys.stderr)
    best = str(fastest(runs))
    ours, theirs = (statistics.median(run["seconds"] for run in runs[name]) for name in ("ours", best))
    mine, others = runs["ours"][0]["targets"], runs[best][0]["targets"]
    return {
        "seconds": round(ours, 2), "seconds_of_transformers": round(theirs, 2), "times_as_fast": round(theirs / ours, 2),
        "batch_size_of_transformers": int(best), "runs": {name: [r["seconds"] for r in rs] for name, rs in runs.items()},
        "equal_texts": round(sum(a == b for a, b in zip(mine, others, strict=True)) / len(mine), 4),
        "bleu": round(bleu(mine, [targets]).score, 2), "bleu_of_transformers": round(bleu(others, [targets]).score, 2),
    }  # fmt: skip


def fastest(runs: dict[str, list[Found]]) -> int:
    """The batch size with which transformers was."""
    return min((size for size in BATCH_SIZES if str(size) in runs), key=lambda size: runs[str(size)][0]["seconds"])


PARTS: dict[str, Callable[[PairBench], Found]] = {
    "multi30k": multi30k, "ablations": ablations, "denoising": denoising, "tasks": tasks, "speed": speed, "decode": decode,
}  # fmt: skip


def rows(parts: dict[str, Found]) -> Iterator[str]:
    """The tables in Markdown."""
    for name, part in parts.items():
        yield from TABLES[name](part)


def translation_rows(part: Found) -> Iterator[str]:
    """Of the training on all pairs."""
    yield "| multi30k, validation set | BLEU, lower-cased | BLEU, cased 13a | chrF |"
    yield "|---|---:|---:|---:|"
    for name, one in part["evaluation"]["metrics"].items():
        if isinstance(one, dict):
            yield f"| {name} | {one['bleu_lc']:.1f} | {one['bleu']:.1f} | {one['chrf']:.1f} |"


def training_rows(part: Found) -> Iterator[str]:
    """Of several trainings beside each other."""
    yield "| training | BLEU, lower-cased | loss |"
    yield "|---|---:|---:|"
    for says, one in part["trainings"].items():
        yield f"| {says} | {one['evaluation']['bleu_lc']:.1f} | {one['evaluation']['loss']:.3f} |"


def task_rows(part: Found) -> Iterator[str]:
    """Of several tasks."""
    yield "| task | who | ROUGE-L | exact |"
    yield "|---|---|---:|---:|"
    for system in part["systems"]:
        for task, one in system["by_prefix"].items():
            scores = one.get("metrics", one)
            yield f"| {task} | {system['system']} | {scores['rouge_l']:.3f} | {scores['exact_match']:.3f} |"


def step_rows(part: Found) -> Iterator[str]:
    """Of the training step."""
    yield from speed_rows(part["lines"], part["ratios"])
    for one in part["products"]:
        yield (
            f"{one['kind']} {one['dtype']}: the products alone take {one['share_torch']:.0%} of our step as torch "
            f"computes them, {one['share_ours']:.0%} as we do; its time: {shares(one['where'])}"
        )


def shares(where: dict[str, float]) -> str:
    """Where the time goes, in words."""
    return ", ".join(f"{kind} {share:.0%}" for kind, share in sorted(where.items(), key=lambda one: -one[1]))


def decoding_rows(part: Found) -> Iterator[str]:
    """Of decoding."""
    yield (
        f"decoding: {part['seconds']} s, transformers {part['seconds_of_transformers']} s "
        f"({part['times_as_fast']} times), {part['equal_texts']:.1%} of the texts equal"
    )


TABLES = {
    "multi30k": translation_rows, "ablations": training_rows, "denoising": training_rows, "tasks": task_rows,
    "speed": step_rows, "decode": decoding_rows,
}  # fmt: skip


def faults(parts: dict[str, Found]) -> Iterator[str]:
    """What is not as it should be."""
    if (part := parts.get("multi30k")) and (found := part["evaluation"]["metrics"]["bleu_lc"]) < TARGETS["bleu"]:
        yield f"multi30k: BLEU {found:.1f}, less than {TARGETS['bleu']}"
    if part := parts.get("speed"):
        for line in part["lines"]:
            allowed = 1e-3 if line["dtype"] == "float32" else 1e-2
            # transformers' T5 keeps its table sqrt(width) times as large, so that AdamW moves it otherwise
            later = 0.0 if line["kind"] == "t5" and "wordpipe" not in line["says"] else line["losses_off_by"]
            if line["side"] != "muon" and (line["first_loss_off_by"] > allowed or later > 1e-2):
                yield f"{line['kind']} {line['dtype']} {line['says']}: its losses are not those of the recording"
        for one in part["ratios"]:
            if one["times_as_fast"] < TARGETS["step"]:
                yield f"{one['kind']} {one['dtype']}: {one['times_as_fast']:.2f} times as fast as {one['against']}"
    if (part := parts.get("decode")) and part["times_as_fast"] < TARGETS["decode"]:
        yield f"decoding: {part['times_as_fast']} times as fast, less than {TARGETS['decode']}"


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data")
    parser.add_argument("--out", type=Path, default=RESULTS / "seq2seq.json", help="JSON file to write, part by part")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them (default all)")
    parser.add_argument("--epochs", type=float, default=20, help="of the training on all pairs (default 20)")
    parser.add_argument("--short", type=float, default=5, help="epochs of shorter trainings (default 5)")
    parser.add_argument("--denoise", type=float, default=6, help="epochs of denoising (default 6)")
    parser.add_argument("--few", type=float, default=20, help="epochs of 2,000 pairs (default 20)")
    parser.add_argument("--tasks", type=float, default=6, help="epochs of three tasks in one model (default 6)")
    parser.add_argument("--megabytes", type=float, default=20, help="of Wikipedia to restore before them (default 20)")
    parser.add_argument("--passages", type=int, default=12_000, help="of Wikipedia, with a title each (default 12,000)")
    parser.add_argument("--batch-size", type=int, default=85, help="pairs of a step (default 85)")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="of the steps that are timed (default both)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of every timed side (default 3)")
    parser.add_argument("--steps", type=int, default=15, help="timed steps of a run (default 15)")
    parser.add_argument("--warm", type=int, default=5, help="steps before them (default 5)")
    parser.add_argument("--model", type=Path, help="decode with this model")
    parser.add_argument("--avx2", action="store_true", help="no more than AVX2, for all sides")
    parser.add_argument("--threads", type=int, default=2, help="of all sides (default 2)")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to see that it works")
    parser.add_argument("--limit", type=float, default=5400, metavar="SECONDS", help="kill a process that takes longer")
    parser.add_argument("--work", type=Path, help="folder for what is made while it runs; it is kept")
    arguments = parser.parse_args(given)
    arguments.parts, arguments.dtypes = arguments.parts.split(","), arguments.dtypes.split(",")
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(PARTS)})")
    return arguments


def main(given: list[str] | None = None) -> int:
    """Measure, print the tables, write the JSON."""
    arguments = arguments_of(given)
    if arguments.avx2:
        os.environ |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    folder = arguments.work or Path(tempfile.mkdtemp(prefix="seq2seq-bench-"))
    bench = PairBench(arguments.data.absolute(), folder.absolute(), arguments.threads, arguments.limit, given=arguments)
    bench.work.mkdir(parents=True, exist_ok=True)
    result: Found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"parts": {}}
    for name in arguments.parts:
        key = f"{name}, AVX2" if arguments.avx2 else name
        where = {"machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)}, "threads": arguments.threads,
                 "libraries": versions(["wordpipe", "torch", "transformers", "tokenizers"])}  # fmt: skip
        result["parts"][key] = PARTS[name](bench) | where
        text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
        arguments.out.write_text(text.replace(f"{bench.work}/", "").replace(f"{bench.data}/", "DIR/"))
    if arguments.work is None:
        shutil.rmtree(folder)
    found = {name: result["parts"][f"{name}, AVX2" if arguments.avx2 else name] for name in arguments.parts}
    wrong = [] if arguments.tiny else list(faults(found))
    for row in [*rows(found), *wrong]:
        print(row)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
