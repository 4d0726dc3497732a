"""Word vectors on several machines, simulated: each trains a table on its part of the text; now and then all take the mean.

    python benchmarks/word_averaging.py --data DIR --work FOLDER            writes benchmarks/results/word_averaging.json

The text is the first --mb of DIR/wiki/train.txt; the loss is that of one fixed sample of its held-out documents, in nats. One
machine trains all of it; 2, 4, 8 machines train equal parts, with the same passes over the text in all, the same learning
rates at the same share of the way, and a mean after each --rounds part of a pass. Every machine has one thread, so that
nothing else differs.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from peers.measure import versions
from tokens import first_lines, machine

import wordpipe
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.runtime import StopFlag
from wordpipe.words import (
    HeldOutLoss,
    NativeTraining,
    TrainingText,
    Vocabulary,
    count_ids,
    kept_rows,
    read_words,
    write_text,
)
from wordpipe.words.settings import Word2VecPlan

Found = dict[str, Any]
RESULTS = Path(__file__).parent.absolute() / "results"
MACHINES = (1, 2, 4, 8)


def tokens_of(data: Path, work: Path, mb: float) -> Path:
    """Tokens of the text, of which one document in twenty is held out."""
    text, tokens = work / f"text-{mb:g}.txt", work / f"tokens-{mb:g}"
    if not (tokens / "manifest.json").exists():
        first_lines(data / "wiki" / "train.txt", text, round(mb * 1e6))
        corpus = wordpipe.ingest(text, output=work / "corpus", documents="block", valid=0.05)
        wordpipe.tokenize(corpus, output=tokens)
    return tokens


def words_in(tokens: Path, split: str) -> Iterator[Any]:
    """The words of a split, as one text for each document."""
    with Artifact(tokens, ["tokens"]) as source:
        batches = read_batches(source, "tokens", ["doc_id", "sentence_id", "split", "word_ids"])
        yield from read_words(batches, column="word_ids", context="document", split=split)


def parted(text: TrainingText, n: int, folder: Path) -> list[TrainingText]:
    """The text in equal parts, cut between texts."""
    rows = text.read(0, text.words)
    begins = np.flatnonzero(rows < 0)
    cuts = [0, *(int(begins[np.searchsorted(begins, len(rows) * one // n)]) for one in range(1, n)), len(rows)]
    found = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        path = folder / f"{n}-{number}.rows"
        rows[first:end].astype("<i4").tofile(path)
        found.append(TrainingText(path, end - first, int((rows[first:end] < 0).sum())))
    return found


def trained(texts: list[TrainingText], vocabulary: Vocabulary, plan: Word2VecPlan, rounds: int) -> NativeTraining:
    """A table for each text; all are their mean after every round."""
    runs = [NativeTraining(text, vocabulary, plan) for text in texts]
    marks = [0] * len(runs)

    def due(number: int) -> bool:
        return runs[number].progress["words"] >= marks[number]

    steps = [run.steps(StopFlag(), lambda number=number: due(number)) for number, run in enumerate(runs)]
    for turn in range(1, plan.epochs * rounds + 1):
        for number, (run, text) in enumerate(zip(runs, texts, strict=True)):
            marks[number] = text.words * turn // rounds
            for step in steps[number]:
                if step.resting and run.progress["words"] >= marks[number]:
                    break
        for name, first in runs[0].arrays().items():
            first[:] = np.mean([run.arrays()[name] for run in runs], axis=0)
            for run in runs[1:]:
                run.arrays()[name][:] = first
    return runs[0]


def main(given: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data, with wiki")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is made; it is kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "word_averaging.json", help="JSON file to write")
    parser.add_argument("--mb", type=float, default=20, help="of text (default 20)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the text (default 5)")
    parser.add_argument("--rounds", type=int, default=10, help="means in each pass (default 10)")
    arguments = parser.parse_args(given)
    work = arguments.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    tokens = tokens_of(arguments.data.absolute(), work, arguments.mb)
    with Artifact(tokens, ["tokens"]) as source:
        n_ids = 1 + max(
            int(block.ids.max(initial=-1)) for split in ("train", "valid") for block in words_in(tokens, split)
        )
        counts = count_ids(read_batches(source, "tokens", ["split", "word_ids"]), n_ids)
    vocabulary = Vocabulary.keep(counts, 5)
    lines: list[Found] = []
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        folder = Path(scratch)
        text = write_text(kept_rows(words_in(tokens, "train"), vocabulary.row_of_id), folder / "whole.rows")
        for architecture in ("skipgram", "cbow"):
            plan = Word2VecPlan(architecture=architecture, epochs=arguments.epochs, threads=1, dim=100)
            held = kept_rows(words_in(tokens, "valid"), vocabulary.row_of_id)
            held_out = HeldOutLoss.sample(held, vocabulary, plan, split="valid")
            assert held_out is not None
            for n in MACHINES:
                begun = time.monotonic()
                run = trained(parted(text, n, folder), vocabulary, plan, arguments.rounds)
                loss = held_out.loss(run.vectors, run.outputs, run.tree)
                lines.append(
                    {
                        "architecture": architecture,
                        "machines": n,
                        "loss": round(loss, 4),
                        "seconds": round(time.monotonic() - begun, 1),
                    }
                )
                print(lines[-1], file=sys.stderr)
    result = {
        "mb": arguments.mb, "words": text.words, "epochs": arguments.epochs, "rounds": arguments.rounds, "lines": lines,
        "machine": machine() | {"load_at_the_end": round(os.getloadavg()[0], 2)},
        "libraries": versions(["wordpipe", "numba", "numpy"]),
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print("| | " + " | ".join(f"{n} machine{'s' * (n > 1)}" for n in MACHINES) + " |")
    print("|---|" + "---:|" * len(MACHINES))
    for architecture in ("skipgram", "cbow"):
        print(
            f"| {architecture} | "
            + " | ".join(f"{one['loss']:.3f}" for one in lines if one["architecture"] == architecture)
            + " |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
