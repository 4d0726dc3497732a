"""The options of `wordpipe train word2vec`: what each brings, and what it costs.

    python benchmarks/word_options.py --data DIR --out benchmarks/results/word_options.json
    python benchmarks/word_options.py --data DIR --sizes 10 --seeds 1 --options plain,cbow       a part of it

DIR holds wiki/train.txt and, in words/, sets of word pairs that people have scored and of analogies: EN-WS-353-ALL.txt,
EN-SIMLEX-999.txt, questions-words.txt. What is measured, on the first N MB of the text, for every seed:

    trainings   the option given on top of window 5, 5 epochs and min_count 5, everything else as it is by default
    readings    what can be had from a finished training: output vectors, w + c, all-but-the-top
    rare        pairs with a word that occurs fewer than 100 times in the text
    hidden      half of the pairs' words are deleted from the text before training, so that only n-grams can answer for them
                (without n-grams none of these pairs has a cosine); evaluated on the pairs with a deleted word, beside the same
                pairs in trainings that have seen every word, with n-grams and without

Similarity is Spearman's correlation with people's scores; pairs with an unknown word are left out, and how many were known is
written down. Analogies are answered among the 30,000 commonest words. Seconds are of the whole command in this process, after
one run that compiles; CPU seconds add up all threads. Exit code 0: everything ran.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import wordpipe
from wordpipe.artifacts import Artifact, library_versions, read_batches
from wordpipe.runtime import cpu_count
from wordpipe.stages import read_word_vectors
from wordpipe.words import (
    CommonPart,
    Pairs,
    Questions,
    WordVectors,
    evaluate_analogies,
    evaluate_similarity,
    read_set,
    stacked_vectors,
)

PAIR_SETS = {"ws353": "EN-WS-353-ALL.txt", "simlex": "EN-SIMLEX-999.txt"}
ANALOGY_SET = "questions-words.txt"
COMMON = {"window": 5, "epochs": 5, "min_count": 5}  # those of word2vec.c and gensim: our own follow the size
NGRAMS = {"max_n": 6, "min_n": 3}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ngrams": NGRAMS,
    "cbow": {"architecture": "cbow"},
    "hs": {"loss": "hs"},
    "fixed-window": {"dynamic_window": False},
    "hidden": NGRAMS,
}
RARE = 100  # occurrences below which a word counts as rare
FIGURES = (
    "ws353", "simlex", "ws353_rare", "simlex_rare", "analogies", "semantic", "syntactic",
    "seconds", "cpu_seconds", "table_bytes", "artifact_bytes", "distinct", "loss",
    "ws353_hidden", "simlex_hidden", "ws353_seen", "simlex_seen",
)  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """One run of the benchmark.

    Attributes:
        work: folder of everything that is made.
        pairs: name → the pairs.
        questions: the analogies.
        hidden: words that are deleted from the text for "hidden".
        threads: for the training.
    """

    work: Path
    pairs: dict[str, Pairs]
    questions: Questions
    hidden: frozenset[str]
    threads: int


Row = dict[str, Any]


def prepare(bench: Bench, source: Path, mb: float, hide: bool) -> Path:
    """The tokens of the first `mb` MB, with or without the hidden words."""
    folder = bench.work / f"{mb:g}{'-hidden' if hide else ''}"
    text = folder / "text.txt"
    folder.mkdir()
    with source.open("rb") as file:
        text.write_bytes(
            shown(file.read(round(mb * 1e6)).decode(errors="ignore"), bench.hidden if hide else frozenset())
        )
    wordpipe.ingest(text, output=folder / "corpus", documents="block", valid=0.01)
    wordpipe.tokenize(folder / "corpus", output=folder / "tokens", vocab_size=8000)
    text.unlink()
    return folder / "tokens"


def shown(text: str, hidden: frozenset[str]) -> bytes:
    """The text without the hidden words."""
    return re.sub(r"\w+", lambda word: "" if word[0].lower() in hidden else word[0], text).encode()


def trained(bench: Bench, tokens: Path, settings: dict[str, Any], seed: int) -> tuple[Path, Row]:
    """Train; the artifact, and what it cost."""
    output = bench.work / "words"
    begun, cpu_begun = time.monotonic(), time.process_time()
    made = wordpipe.train_word2vec(
        tokens,
        output=output,
        seed=seed,
        threads=bench.threads,
        run=wordpipe.RunOptions(fresh=True),
        **(COMMON | settings),
    )
    cost = {"seconds": time.monotonic() - begun, "cpu_seconds": time.process_time() - cpu_begun}
    sizes = {file.name: file.stat().st_size for file in output.iterdir()}
    table = sum(size for name, size in sizes.items() if name.startswith(("words-", "ngrams-")))
    counts: Row = {name: made.counts[name] for name in ("ngrams",) if name in made.counts}
    return output, {
        **cost, **counts, "table_bytes": table, "artifact_bytes": sum(sizes.values()),
        "distinct": made.counts["distinct_kept"], "loss": made.metrics.get("valid_loss"),
    }  # fmt: skip


def read(path: Path) -> WordVectors:
    """The table of a words artifact."""
    with Artifact(path, ["words"], verify=False) as artifact:
        return read_word_vectors(artifact)


def outputs(path: Path) -> npt.NDArray[np.float32]:
    """The output vectors of a words artifact, a row for each of its words."""
    with Artifact(path, ["words"], verify=False) as artifact:
        return stacked_vectors(read_batches(artifact, "outputs"))[0]


def evaluated(bench: Bench, table: WordVectors) -> Row:
    """All sets."""
    row: Row = {}
    for name, pairs in bench.pairs.items():
        row |= correlation(name, table, pairs) | correlation(f"{name}_rare", table, rare_pairs(table, pairs))
    found = evaluate_analogies(table, bench.questions)
    tallies = {"analogies": found, "semantic": found["semantic"], "syntactic": found["syntactic"]}
    return row | {name: share(tally) for name, tally in tallies.items()} | {"questions": found["seen"]}


def correlation(name: str, table: WordVectors, pairs: Pairs) -> Row:
    """Spearman times 100, and how many pairs are known."""
    found = evaluate_similarity(table, pairs)
    return {name: None if found["spearman"] is None else 100 * found["spearman"], f"{name}_known": found["known"]}


def share(tally: dict[str, Any] | None) -> float | None:
    """Right answers in percent."""
    return 100 * tally["correct"] / tally["seen"] if tally is not None and tally["seen"] else None


def some_pairs(pairs: Pairs, wanted: Callable[[str], bool]) -> Pairs:
    """The pairs one of whose words is wanted."""
    places = [place for place, pair in enumerate(pairs.words) if any(map(wanted, pair))]
    return Pairs([pairs.words[place] for place in places], pairs.scores[places])


def rare_pairs(table: WordVectors, pairs: Pairs) -> Pairs:
    """The pairs with a word that occurs rarely."""

    def is_rare(word: str) -> bool:
        row = table.find(word)
        return row is not None and int(table.counts[row]) < RARE

    return some_pairs(pairs, is_rare)


def readings(bench: Bench, path: Path) -> Iterator[tuple[str, Row]]:
    """What else a finished training can give, without another."""
    table, outputs_VD = read(path), outputs(path)
    variants = {"vectors=outputs": outputs_VD, "vectors=sum": table.vectors + outputs_VD}
    for components in (1, 2, 3):
        common = CommonPart.of(table.vectors, components)
        variants[f"remove-components={components}"] = common.removed_from(table.vectors)
    for name, vectors_VD in variants.items():
        yield name, evaluated(bench, WordVectors(table.words, table.counts, vectors_VD))


def hidden_pairs(bench: Bench, table: WordVectors, suffix: str) -> Row:
    """Pairs with a hidden word, where unknown words are answered by n-grams."""
    row: Row = {}
    for name, pairs in bench.pairs.items():
        asked = some_pairs(pairs, lambda word: word.lower() in bench.hidden)
        row |= correlation(f"{name}_{suffix}", answering(table, asked), asked)
    return row


def answering(table: WordVectors, pairs: Pairs) -> WordVectors:
    """The words of the pairs, with what the table or its n-grams say of them."""
    words = sorted({word for pair in pairs.words for word in pair})
    found = {word: vector for word in words if (vector := table.vector_of(word)) is not None}
    return WordVectors([*found], np.ones(len(found), dtype=np.int64), np.array([*found.values()], dtype=np.float32))


def measure(bench: Bench, source: Path, mb: float, options: list[str], seeds: list[int]) -> Iterator[tuple[str, Row]]:
    """Every option with every seed: its name, and the figures."""
    tokens = prepare(bench, source, mb, hide=False)
    trained(bench, tokens, {"epochs": 1}, 1)  # compiles
    if "ngrams" in options or "hidden" in options:
        trained(bench, tokens, {"epochs": 1, **NGRAMS}, 1)
    tokens_hidden = prepare(bench, source, mb, hide=True) if "hidden" in options else tokens
    for seed in seeds:
        for name in options:
            path, cost = trained(bench, tokens_hidden if name == "hidden" else tokens, OPTIONS[name], seed)
            table = read(path)
            if name == "hidden":
                yield name, cost | hidden_pairs(bench, table, "hidden")
                continue
            seen = hidden_pairs(bench, table, "seen") if name in ("plain", "ngrams") else {}
            yield name, cost | evaluated(bench, table) | seen
            if name in ("plain", "cbow"):
                for reading, row in readings(bench, path):
                    yield f"{name} {reading}", row


def summary(runs: list[Row]) -> Row:
    """Mean and standard deviation over the seeds of every figure that all runs have."""
    line: Row = {"seeds": len(runs)}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [run[name] for run in runs if run.get(name) is not None]
        if values:
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            line[name] = {"mean": round(statistics.fmean(values), 3), "spread": round(spread, 3)}
    return line


def show(line: Row) -> str:
    """One line of the table."""
    cells = [f"{line['mb']:>4g} MB  {line['option']:<24}"]
    for name, found in line.items():
        if name in FIGURES:
            unit = 1e6 if name.endswith("_bytes") else 1
            cells.append(f"{name} {found['mean'] / unit:.1f}±{found['spread'] / unit:.1f}")
    return "  ".join(cells)


def read_sets(folder: Path) -> tuple[dict[str, Pairs], Questions]:
    """The pairs by name, and the analogies."""
    read = {name: read_set((folder / name).read_bytes(), name) for name in (*PAIR_SETS.values(), ANALOGY_SET)}
    questions = read[ANALOGY_SET]
    assert isinstance(questions, Questions), f"{ANALOGY_SET} holds no analogies"
    return {name: found for name, file in PAIR_SETS.items() if isinstance(found := read[file], Pairs)}, questions


def hidden_words(pairs: Iterable[Pairs]) -> frozenset[str]:
    """Half of the words of the pairs, in lower case, the same in every run."""
    words = sorted({word.lower() for some in pairs for pair in some.words for word in pair})
    return frozenset(random.Random(0).sample(words, len(words) // 2))


def machine() -> Row:
    """What the figures were measured on."""
    return {
        "cores": cpu_count(), "system": platform.system(), "python": platform.python_version(),
        "load_at_the_end": round(os.getloadavg()[0], 2),
    }  # fmt: skip


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt and words/")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--sizes", default="10,30", help="MB of text, one after the other (default 10,30)")
    parser.add_argument("--seeds", default="1,2,3", help="default 1,2,3")
    parser.add_argument("--options", default=",".join(OPTIONS), help=f"some of {','.join(OPTIONS)}")
    parser.add_argument("--threads", type=int, default=cpu_count(), help="default: all cores")
    parser.add_argument("--scratch", type=Path, help="folder for artifacts while it runs")
    arguments = parser.parse_args(given)
    arguments.options = arguments.options.split(",")
    arguments.sizes = [float(size) for size in arguments.sizes.split(",")]
    arguments.seeds = [int(seed) for seed in arguments.seeds.split(",")]
    if unknown := set(arguments.options) - set(OPTIONS):
        parser.error(f"not known: {', '.join(sorted(unknown))} (choose from {', '.join(OPTIONS)})")
    return arguments


def main(given: list[str] | None = None) -> int:
    """Measure, print the means so far as they change and the table at the end, write the JSON."""
    arguments = arguments_of(given)
    source = arguments.data / "wiki" / "train.txt"
    pairs, questions = read_sets(arguments.data / "words")
    runs: dict[tuple[float, str], list[Row]] = defaultdict(list)
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="word-options-") as folder:
        bench = Bench(Path(folder), pairs, questions, hidden_words(pairs.values()), arguments.threads)
        for mb in arguments.sizes:
            for name, row in measure(bench, source, mb, arguments.options, arguments.seeds):
                runs[mb, name].append(row)
                lines = [{"mb": size, "option": option, **summary(rows)} for (size, option), rows in runs.items()]
                print(show(lines[[*runs].index((mb, name))]), file=sys.stderr)
                if arguments.out:  # a run that is stopped leaves what it has found
                    text = json.dumps(result(arguments, lines), indent=1, ensure_ascii=False)
                    arguments.out.write_text(text + "\n")
    for line in lines:
        print(show(line))
    return 0


def result(arguments: argparse.Namespace, lines: list[Row]) -> Row:
    """What is written."""
    return {
        "machine": machine(),
        "threads": arguments.threads,
        "seeds": arguments.seeds,
        "libraries": library_versions("wordpipe", "numba", "numpy", "pyarrow"),
        "common": COMMON,
        "settings": {name: OPTIONS[name] for name in arguments.options},
        "lines": lines,
    }


if __name__ == "__main__":
    sys.exit(main())
