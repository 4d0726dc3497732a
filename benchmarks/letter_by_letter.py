"""Titles typed letter by letter: in how many states the title, or the word being typed, is among the first ten answers.

    python benchmarks/letter_by_letter.py --data collections/            writes benchmarks/results/letter_by_letter.json

The data are folders in BEIR's layout (`corpus.jsonl` with titles and texts); of a text without a title its first eight words
are typed. Of each collection an index of words is made, and titles drawn at random are asked as the page asks while somebody
types: from the third letter on, every state is one query with `prefix`. A state is right if one of the first ten answers is
the text of the title, or contains the word that is being typed, whole.

`control` is the same without `prefix`: what a search box shows that knows whole words alone. Exit code 0: of the states of all
collections together 95 % are right.
"""

import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokens import machine

import wordpipe

RESULTS = Path(__file__).parent.absolute() / "results"
LEAST = 0.95  # of the states are right
FIRST, LAST, SHOWN, WORDS = 3, 40, 10, 8  # letters of a state; answers on screen; words typed of a text without a title


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of collections")
    parser.add_argument("--titles", type=int, default=200, help="titles typed of each collection")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "letter_by_letter.json")
    args = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "titles": args.titles, "seed": args.seed, "collections": {}}
    for folder in sorted(path.parent for path in args.data.glob("*/corpus.jsonl")):
        rows = read_rows(folder / "corpus.jsonl")
        drawn = draw_titles(rows, args.titles, args.seed)
        with tempfile.TemporaryDirectory() as work:
            corpus = wordpipe.ingest(rows, output=Path(work) / "corpus")
            made = wordpipe.index(corpus, output=Path(work) / "index", unit="document")
            with wordpipe.open(made) as index:
                line = measure(index, drawn, prefix=True)
                line["control"] = measure(index, drawn, prefix=False)
        found["collections"][folder.name] = line
        print(f"{folder.name}: {line}", flush=True)
    lines = found["collections"].values()
    states = sum(line["states"] for line in lines)
    found["right"] = round(sum(line["right"] * line["states"] for line in lines) / states, 4)
    print(f"all {states:,} states: {found['right']}")
    args.out.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if found["right"] >= LEAST else 1


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the documents of a collection as records with id, title and text."""
    with path.open() as file:
        found = [json.loads(line) for line in file]
    return [
        {"id": one["_id"], "title": one["title"].strip(), "text": one["text"].strip() or one["title"]} for one in found
    ]


def draw_titles(rows: Sequence[dict[str, str]], count: int, seed: int) -> dict[str, str]:
    """Draw ids with titles of two words at least."""
    titles = {row["id"]: row["title"] or " ".join(row["text"].split()[:WORDS]) for row in rows}
    plain = {one: " ".join(title.split())[:LAST] for one, title in titles.items()}
    able = sorted(one for one, title in plain.items() if len(title) > FIRST and " " in title)
    return {one: plain[one] for one in random.Random(seed).sample(able, min(count, len(able)))}


def typed_states(title: str) -> Iterator[tuple[str, str]]:
    """Yield what was typed of a title, letter by letter, and the whole word that is being typed, or was the last."""
    for stop in range(FIRST, len(title) + 1):
        words = [found for found in re.finditer(r"\w+", title) if found.start() < stop]
        if words:
            yield title[:stop], words[-1][0]


def measure(index: Any, titles: dict[str, str], *, prefix: bool) -> dict[str, Any]:
    """Return the states, the share of those that are right, and of those with the title itself, and ms of a query."""
    states = right = with_title = 0
    begin = time.process_time()
    for one, title in titles.items():
        for typed, word in typed_states(title):
            hits = index.query(typed, k=SHOWN, prefix=prefix, mode="lexical")
            is_there = any(hit["id"] == one for hit in hits)
            pattern = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
            states, with_title = states + 1, with_title + is_there
            right += is_there or any(pattern.search(f"{hit.get('title', '')} {hit['text']}") for hit in hits)
    seconds = time.process_time() - begin
    return {
        "states": states, "right": round(right / states, 4), "title": round(with_title / states, 4),
        "ms_a_query": round(1000 * seconds / states, 2),
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
