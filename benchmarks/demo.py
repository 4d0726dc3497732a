"""Ask the indexes of `make demo` ten questions, and say honestly which of them found an accepted answer.

    python benchmarks/demo.py [--side "word vectors"]... [--root demo] [--questions data/demo_questions.tsv] [--json FILE]

A question counts as answered when a function that a person would accept (a pattern over qualified names in the questions
file) is among the first five different functions of the transformer's index or of the word vectors' index; how many each
answers alone is said beside it.
"""

import argparse
import csv
import json
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import wordpipe
from wordpipe.artifacts import library_versions
from wordpipe.runtime import cpu_count

SHOWN = 5
SIDES = {"word vectors": "word-index", "transformer": "model-index"}
HERE = Path(__file__).resolve().parent.parent


def main() -> int:
    """Ask every question of both indexes, or of those chosen; exit code 1 if both answer fewer than seven of ten."""
    parser = argparse.ArgumentParser(description="Ask the demo indexes ten questions.")
    parser.add_argument("--root", type=Path, default=HERE / "demo", help="folder of the demo's artifacts")
    parser.add_argument("--side", action="append", choices=SIDES, help="ask this one alone; may be repeated")
    parser.add_argument("--questions", type=Path, default=HERE / "data" / "demo_questions.tsv")
    parser.add_argument("--json", type=Path, help="write the result here too")
    args = parser.parse_args()
    with args.questions.open(encoding="utf-8", newline="") as file:
        questions = list(csv.DictReader(file, delimiter="\t"))
    found: list[dict[str, Any]] = []
    with ExitStack() as stack:
        names = [name for name in SIDES if name in (args.side or SIDES)]
        sides = {name: stack.enter_context(wordpipe.open(args.root / SIDES[name])) for name in names}
        found += (ask(item["question"], re.compile(item["accepted"]), sides) for item in questions)
    return report(found, args.json, enough=0.0 if args.side else 0.7)


def ask(question: str, accepted: re.Pattern[str], sides: dict[str, Any]) -> dict[str, Any]:
    """The titles that each side lists, and the rank of the first accepted one."""
    print(f"\n{question}")
    result: dict[str, Any] = {"question": question}
    for side, index in sides.items():
        titles = first_titles(index, question)
        rank = next((n for n, title in enumerate(titles, start=1) if accepted.search(title)), None)
        result[side] = {"titles": titles, "rank": rank}
        mark = f"found at {rank}" if rank else "not found"
        print(f"  {side:<13} {mark:<11} {' · '.join(titles)}")
    return result


def first_titles(index: Any, question: str) -> list[str]:
    """The first different functions: several sentences of one may be near."""
    hits = index.query(question, k=10 * SHOWN)
    return list(dict.fromkeys(hit["title"] or hit["text"][:60] for hit in hits))[:SHOWN]


def report(found: list[dict[str, Any]], path: Path | None, *, enough: float) -> int:
    """Print the sums; exit code 0 if a share of `enough` is answered."""
    sides = [name for name in found[0] if name != "question"]
    hits = {side: sum(item[side]["rank"] is not None for item in found) for side in sides}
    either = sum(any(item[side]["rank"] for side in sides) for item in found)
    print(f"\n{either} of {len(found)} questions answered among the first {SHOWN}: ", end="")
    print(", ".join(f"{side} {count}" for side, count in hits.items()))
    if path:
        machine = {
            "cores": cpu_count(),
            **library_versions("torch", "faiss-cpu", "gensim", "tokenizers", "numpy", "scipy"),
        }
        result = {"answered": either, **hits, "machine": machine, "questions": found}
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if either >= enough * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
