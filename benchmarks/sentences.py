"""Sentence vectors trained from one text without labels, beside TF-IDF, by people's scores: every part, and every constant.

    python benchmarks/sentences.py --data DIR --work FOLDER           DIR with wiki/train.txt and sts/
    python benchmarks/sentences.py --data DIR --work FOLDER --only tokens pieces start static

Every part is one command of wordpipe, made beside the others in FOLDER; one that is finished is not made again, so that a run
that was stopped goes on. Seconds are those of each artifact's manifest, processor seconds those that its making took
where this run made it. `words`, `stems` and `start` are the table that the static encoder begins with, in parts; `once` is the
encoder after one pass. Beside them stand TF-IDF, latent semantic indexing and the overlap of words, which learn how rare a
word is from the judged sentences.

What numbers, pieces and words that deny weigh was chosen by looking at scores. So the figure that counts is by leaving one set
out: for each set, the constants with the highest mean of the three others. TF-IDF is given the same factors in the same
way. Only constants are chosen so: that these kinds of words have a factor at all, and that punctuation has one half, was found
on these four sets, and no other set has confirmed it. Intervals hold 95 % of 1,000 draws of as many pairs; a
difference is that of both systems on the same draws, and of the mean the sets are drawn apart.

Exit code 0: the static encoder by leaving one set out is at least 2 points of Spearman x 100 above TF-IDF in the mean.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from peers.measure import versions
from tokenizers import Tokenizer
from tokens import machine

from wordpipe import evaluate_sts
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.encoders import TABLE_FILE, static_table
from wordpipe.metrics import average_ranks, spearman, unit_rows
from wordpipe.search import Tfidf, stemmer
from wordpipe.stages import read_sts_sets
from wordpipe.tokens import WordSplitter
from wordpipe.training.contrastive import Finish, write_pair_text

RESULTS = Path(__file__).parent.absolute() / "results"
SETS = ("stsb-en-dev.csv", "stsb-en-train.csv", "sts12", "SICK_train.txt")
ABOVE = 0.02  # TF-IDF, the mean of the sets
DRAWS = 1_000
NUMBERS, PIECES, NEGATIONS = (1.0, 1.5, 2.0, 3.0), (0.35, 0.5, 0.7, 1.0), (0.0, 0.15, 0.3, 0.5)
NOTHING = {"number_weight": 1.0, "punctuation_weight": 1.0, "piece_weight": 1.0, "negation_weight": 0.0}
TABLE = ["train", "static", "tokens", "--unit", "token"]
PARTS: dict[str, list[str]] = {
    "corpus": ["ingest", "{text}", "--documents", "block", "--first-line-title"],
    "tokens": [
        "tokenize", "corpus", "--algorithm", "wordpiece", "--lowercase", "--strip-accents", "--vocab-size", "32000",
    ],
    "pieces": ["train", "word2vec", "tokens", "--unit", "token", "--dim", "256"],
    "words": [*TABLE, "--words", "pieces", "--lexical-weight", "0", "--steps", "1"],
    "stems": [*TABLE, "--steps", "1"],
    "start": [*TABLE, "--words", "pieces", "--steps", "1"],
    "once": [*TABLE, "--words", "pieces", "--epochs", "1"],
    "static": [*TABLE, "--words", "pieces", "--epochs", "3"],
}  # fmt: skip
JUDGED = ("words", "stems", "start", "once", "static")

Array = npt.NDArray[np.float64]
Cosines = list[Array]
"""Of the pairs of each set."""


class Judged(NamedTuple):
    """A set: N different sentences, P pairs of them and what people say."""

    name: str
    texts: list[str]
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    scores: Array

    def cosines(self, vectors_ND: Any) -> Array:
        """Of the pairs, (P,); equal to six digits is equal, as in `evaluate sts`."""
        unit_ND = unit_rows(vectors_ND)[0]
        return np.einsum("pd,pd->p", unit_ND[self.first], unit_ND[self.second], dtype=np.float64).round(6)


def make(name: str, text: Path, work: Path, threads: int | None) -> float | None:
    """Make one part in the folder; the processor seconds that it took, None where it is there already."""
    if (work / name / "manifest.json").exists():
        return None
    command = [word.format(text=text) for word in PARTS[name]]
    if threads and command[0] == "train":
        command += ["--threads", str(threads)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "wordpipe", *command, "-o", name, "-q"], cwd=work, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


def seconds_of(path: Path) -> float:
    """Wall seconds of an artifact's making."""
    return float(json.loads((path / "manifest.json").read_text(encoding="utf-8"))["seconds"])


def judged_sets(paths: Sequence[Path]) -> list[Judged]:
    """The sets, their sentences numbered."""
    found = []
    for one in read_sts_sets(paths)[0]:
        number_of = {text: number for number, text in enumerate(dict.fromkeys([*one.pairs.first, *one.pairs.second]))}
        first, second = (np.array([number_of[text] for text in side]) for side in (one.pairs.first, one.pairs.second))
        found.append(Judged(one.name, [*number_of], first, second, one.pairs.scores))
    return found


def of_static(work: Path, sets: Sequence[Judged]) -> dict[str, Cosines]:
    """Cosines of the trained table, finished by all constants of the grid, by their names as JSON; and not finished at all."""
    path = work / "static"
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    words = [tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size())]
    table_VD = static_table((path / TABLE_FILE).read_bytes())
    weights = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["facts"]["finish"]
    raw_VD = Finish.of(words, weights).undo(table_VD)
    counts = []
    for one in sets:
        ids = [found.ids for found in tokenizer.encode_batch(one.texts, add_special_tokens=False)]
        bounds = np.cumsum([0, *map(len, ids)])
        counts.append(sp.csr_array((np.ones(bounds[-1], np.float32), np.concatenate(ids).astype(np.int32), bounds),
                                   shape=(len(ids), len(words))))  # fmt: skip
    grid = [
        {**weights, "number_weight": number, "piece_weight": piece, "negation_weight": negation}
        for number, piece, negation in product(NUMBERS, PIECES, NEGATIONS)
    ]
    found = {}
    with tempfile.TemporaryDirectory(dir=work) as folder, Artifact(work / "tokens", verify=False) as tokens:
        rows = read_batches(tokens, "tokens", ["doc_id", "sentence_id", "split", "ids"])
        text = write_pair_text(rows, Path(folder), vocab_size=len(words))
        for chosen in [*grid, NOTHING]:
            finished_VD = Finish.of(words, chosen).apply(raw_VD, text)
            found[json.dumps(chosen)] = [
                one.cosines(held @ finished_VD) for one, held in zip(sets, counts, strict=True)
            ]
    return found


def of_tfidf(sets: Sequence[Judged]) -> dict[str, Cosines]:
    """Cosines of TF-IDF with the same factors of numbers and a column for words that deny; there are no pieces."""
    split, stem = WordSplitter(), stemmer("english")
    found: dict[str, Cosines] = {}
    for one in sets:
        fitted = Tfidf.fit(one.texts, lambda text: [stem(word) for word in split(text)])
        unit_NV = fitted.vectors(one.texts)
        denies = [sum(Finish.of(split(text), {**NOTHING, "negation_weight": 1.0}).shifts) for text in one.texts]
        for number, negation in product(NUMBERS, NEGATIONS):
            factors = Finish.of([*fitted.column_of], {**NOTHING, "number_weight": number}).factors
            weighed_NV = unit_NV @ sp.diags_array(factors)
            length = np.sqrt(weighed_NV.multiply(weighed_NV).sum() / len(one.texts))
            denied_N1 = sp.csr_array(negation * np.array(denies, np.float64)[:, None])
            whole = sp.csr_array(sp.hstack([weighed_NV / length, denied_N1]))
            whole = sp.diags_array(1 / np.maximum(np.sqrt(whole.multiply(whole).sum(axis=1)), 1e-12)) @ whole
            cosines = np.asarray(whole[one.first].multiply(whole[one.second]).sum(axis=1), dtype=np.float64).round(6)
            name = json.dumps({"number_weight": number, "negation_weight": negation})
            found.setdefault(name, []).append(cosines)
    return found


def figures(cosines: Cosines, sets: Sequence[Judged]) -> list[float]:
    """Spearman of each set."""
    return [spearman(found, one.scores) or 0.0 for found, one in zip(cosines, sets, strict=True)]


def leaving_one_out(grid: Mapping[str, Cosines], sets: Sequence[Judged]) -> tuple[dict[str, Any], Cosines]:
    """For each set the constants that are best in the mean of the others: what they are and how they do on it."""
    names, figures_CS = [*grid], np.array([figures(grid[name], sets) for name in grid])
    others_CS = figures_CS.sum(axis=1, keepdims=True) - figures_CS
    best = [names[int(row)] for row in others_CS.argmax(axis=0)]
    cosines = [grid[name][place] for place, name in enumerate(best)]
    chosen = {one.name: json.loads(name) for one, name in zip(sets, best, strict=True)}
    means = figures_CS.mean(axis=1)
    return {**named(figures(cosines, sets), sets), "chosen": chosen, "grid": [min(means), max(means)]}, cosines


def named(values: Sequence[float], sets: Sequence[Judged]) -> dict[str, Any]:
    """Figures by set, and their mean."""
    return {
        "spearman": float(np.mean(values)),
        **{f"spearman/{one.name}": value for one, value in zip(sets, values, strict=True)},
    }


def paired(one: Cosines, other: Cosines, sets: Sequence[Judged]) -> dict[str, Any]:
    """How much higher the Spearman of one system is than another's, with 95 % of the draws of as many pairs."""
    drawn_SB = np.empty((len(sets), DRAWS))
    for place, judged in enumerate(sets):
        rng = np.random.default_rng([1, place])
        for draw in range(DRAWS):
            taken = rng.integers(len(judged.scores), size=len(judged.scores))
            scores = average_ranks(judged.scores[taken])
            high, low = (np.corrcoef(average_ranks(system[place][taken]), scores)[0, 1] for system in (one, other))
            drawn_SB[place, draw] = high - low
    apart = np.array(figures(one, sets)) - np.array(figures(other, sets))
    shown = {judged.name: (apart[place], drawn_SB[place]) for place, judged in enumerate(sets)}
    shown["mean"] = apart.mean(), drawn_SB.mean(axis=0)
    return {
        name: {"difference": float(value), "interval": np.percentile(draws, [2.5, 97.5]).tolist()}
        for name, (value, draws) in shown.items()
    }


def compare(work: Path, paths: Sequence[Path]) -> dict[str, Any]:
    """Leave one set out, of the static encoder and of TF-IDF, and hold them against TF-IDF as it is."""
    sets = judged_sets(paths)
    static, tfidf = of_static(work, sets), of_tfidf(sets)
    plain = tfidf[json.dumps({"number_weight": 1.0, "negation_weight": 0.0})]
    not_finished = static.pop(json.dumps(NOTHING))
    by_static, chosen = leaving_one_out(static, sets)
    by_tfidf, factored = leaving_one_out(tfidf, sets)
    return {
        "tfidf": named(figures(plain, sets), sets),
        "static_not_finished": named(figures(not_finished, sets), sets),
        "static_leaving_one_out": by_static,
        "tfidf_leaving_one_out": by_tfidf,
        "static_against_tfidf": paired(chosen, plain, sets),
        "static_against_tfidf_with_factors": paired(chosen, factored, sets),
    }


def show(name: str, metrics: Mapping[str, Any]) -> None:
    """A line of a system, Spearman x 100."""
    print(
        f"{name:24}", *(f"{key} {100 * value:.2f}" for key, value in metrics.items() if "spearman" in key), flush=True
    )


def main() -> int:
    """Make, evaluate, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt and sts/")
    parser.add_argument("--work", type=Path, required=True, help="where the artifacts are made")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts to make and to evaluate")
    parser.add_argument("--threads", type=int, help="of every training; else one per core")
    parser.add_argument("--out", type=Path, default=RESULTS / "sentences.json")
    asked = parser.parse_args()
    text, paths = (asked.data / "wiki" / "train.txt").absolute(), [asked.data / "sts" / name for name in SETS]
    asked.work.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"parts": {}}
    for name in asked.only or PARTS:
        processor_s = make(name, text, asked.work, asked.threads)
        part: dict[str, Any] = {"command": PARTS[name], "seconds": seconds_of(asked.work / name)}
        part |= {} if processor_s is None else {"processor_seconds": processor_s}
        result["parts"][name] = part
    judged = [name for name in JUDGED if name in result["parts"]]
    systems = evaluate_sts([asked.work / name for name in judged], paths, draws=DRAWS, device="cpu")["systems"]
    for system, name in zip(systems, [*judged, "tfidf", "lsi", "overlap"], strict=True):
        intervals = {one["name"]: one["spearman_interval"] for one in system["sets"]}
        place = result["parts"][name] if name in judged else result.setdefault(name, {})
        place |= {"metrics": system["metrics"], "intervals": intervals}
        show(name, system["metrics"])
    if "static" in judged:
        result["compared"] = compare(asked.work, paths)
        for name, found in result["compared"].items():
            show(name, found) if "spearman" in found else print(name, json.dumps(found))
    result |= {"machine": machine(), "versions": versions(["torch", "numpy", "tokenizers"]), "load": os.getloadavg()[0]}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if "compared" not in result:
        return 0
    found = result["compared"]
    return 0 if found["static_leaving_one_out"]["spearman"] - found["tfidf"]["spearman"] >= ABOVE else 1


if __name__ == "__main__":
    raise SystemExit(main())
