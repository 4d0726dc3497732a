"""Sentence vectors trained from one text without labels, evaluated by people's scores: what every part of the recipe brings.

    python benchmarks/sentences.py --data DIR --work FOLDER           DIR with wiki/train.txt and sts/
    python benchmarks/sentences.py --data DIR --work FOLDER --only tokens pieces start static

Every part is one command of wordpipe, made beside the others in FOLDER; one that is finished is not made again, so that a run
that was stopped goes on. Seconds are those of each artifact's manifest, processor seconds those that its making took
where this run made it. The static encoder is `static`, the contextual one `contextual`; `words`, `stems` and `start` are the
table that they begin with, in parts, `once` is the static one after one pass. Exit code 0: both reach 78 on the dev part of
STS-B and the contextual one is at least as good as the static one in the mean of all sets.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import machine

from wordpipe import evaluate_sts

RESULTS = Path(__file__).parent.absolute() / "results"
SETS = ("stsb-en-dev.csv", "stsb-en-train.csv", "sts12", "SICK_train.txt")
LEAST, DEV = 0.78, "spearman/stsb-en-dev"
TABLE = ["train", "contrastive", "tokens", "--unit", "token"]
PARTS: dict[str, list[str]] = {
    "corpus": ["ingest", "{text}", "--documents", "block", "--first-line-title"],
    "tokens": [
        "tokenize",
        "corpus",
        "--algorithm",
        "wordpiece",
        "--lowercase",
        "--strip-accents",
        "--vocab-size",
        "32000",
    ],
    "pieces": ["train", "word2vec", "tokens", "--unit", "token", "--dim", "256"],
    "words": [*TABLE, "--words", "pieces", "--lexical-weight", "0", "--steps", "1"],
    "stems": [*TABLE, "--steps", "1"],
    "start": [*TABLE, "--words", "pieces", "--steps", "1"],
    "once": [*TABLE, "--words", "pieces", "--epochs", "1"],
    "static": [*TABLE, "--words", "pieces", "--epochs", "3"],
    "contextual": [
        "train", "contrastive", "tokens", "--encoder", "transformer", "--init-embeddings", "static", "--teacher", "static",
        "--n-layers", "1", "--batch-size", "512", "--steps", "450",
    ],
}  # fmt: skip
JUDGED = ("words", "stems", "start", "once", "static", "contextual")


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


def evaluate(path: Path, sets: list[Path], *, floors: bool = False) -> dict[str, Any]:
    """Spearman of one encoder on every set and in the mean, and beside it that of TF-IDF where floors are asked for."""
    found = evaluate_sts(path, sets, floors=floors, draws=0, device="cpu")
    return {one["system"]: one["metrics"] for one in found["systems"] if one["system"] in ("dense", "tfidf")}


def seconds_of(path: Path) -> float:
    """Wall seconds of an artifact's making."""
    return float(json.loads((path / "manifest.json").read_text(encoding="utf-8"))["seconds"])


def main() -> int:
    """Make, evaluate, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wiki/train.txt and sts/")
    parser.add_argument("--work", type=Path, required=True, help="where the artifacts are made")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts to make and to evaluate")
    parser.add_argument("--threads", type=int, help="of every training; else one per core")
    parser.add_argument("--out", type=Path, default=RESULTS / "sentences.json")
    asked = parser.parse_args()
    text, sets = (asked.data / "wiki" / "train.txt").absolute(), [asked.data / "sts" / name for name in SETS]
    asked.work.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"parts": {}}
    for name in asked.only or PARTS:
        processor_s = make(name, text, asked.work, asked.threads)
        part: dict[str, Any] = {"command": PARTS[name], "seconds": seconds_of(asked.work / name)}
        part |= {} if processor_s is None else {"processor_seconds": processor_s}
        if name in JUDGED:
            found = evaluate(asked.work / name, sets, floors="tfidf" not in result)
            part["metrics"] = found["dense"]
            result.setdefault("tfidf", found.get("tfidf"))
            print(
                name,
                *(f"{key} {100 * value:.2f}" for key, value in found["dense"].items() if "spearman" in key),
                flush=True,
            )
        result["parts"][name] = part
    result |= {"machine": machine(), "versions": versions(["torch", "numpy", "tokenizers"]), "load": os.getloadavg()[0]}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    evaluated = {name: part["metrics"] for name, part in result["parts"].items() if "metrics" in part}
    if not {"static", "contextual"} <= evaluated.keys():
        return 0
    high = all(evaluated[name][DEV] >= LEAST for name in ("static", "contextual"))
    return 0 if high and evaluated["contextual"]["spearman"] >= evaluated["static"]["spearman"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
