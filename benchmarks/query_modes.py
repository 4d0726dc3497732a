"""What a query costs in each mode: plain BM25, vectors alone, and both with feedback, which `query` takes by itself.

    python benchmarks/query_modes.py run/index --queries questions.txt
    python benchmarks/query_modes.py run/index run/flat --queries questions.txt --out result.json

Queries come one by one, all of them in each mode, in one open index: the search alone, then with the encoding of the query and
the rows of its hits. Medians of all queries. Exit code 0: the default costs at most three times a plain BM25 query and one
vector search together, in both.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import machine

import wordpipe
from wordpipe.search import Retriever, vector_share
from wordpipe.stages import OpenTextIndex

RESULTS = Path(__file__).parent.absolute() / "results"
K, MOST_TIMES = 10, 3.0


def milliseconds(work: Callable[[int], object], n: int) -> list[float]:
    """How long each of n calls took."""
    found = []
    for number in range(n):
        begun = time.perf_counter()
        work(number)
        found.append(1e3 * (time.perf_counter() - begun))
    return found


def timed(path: Path, texts: list[str]) -> dict[str, Any]:
    """Medians in milliseconds, and the default as a multiple of BM25 and one vector search."""
    with wordpipe.open(path) as index:
        assert isinstance(index, OpenTextIndex)
        facts = index.artifact.manifest.facts
        agreement = float(facts["lexical"]["agreement"])
        dense, lexical = index.vector_index(None), index.lexical
        queries = [index.encoder.encode([text]).vectors for text in texts]
        both = Retriever(dense, lexical, agreement)

        def whole(mode: str) -> Callable[[int], object]:
            return lambda number: index.query(texts[number], K, mode=mode)

        works: dict[str, dict[str, Callable[[int], object]]] = {
            "search": {
                "lexical": lambda number: lexical.search([texts[number]], K),
                "dense": lambda number: dense.search(queries[number], K),
                "hybrid": lambda number: both.find([texts[number]], queries[number], K),
            },
            "whole": {mode: whole(mode) for mode in ("lexical", "dense", "hybrid")},
        }
        share = round(vector_share(agreement, 8), 4)
        result: dict[str, Any] = {
            "rows": index.index.ntotal,
            "dim": facts["dim"],
            "type": facts["type"],
            "share_of_8_words": share,
        }
        for part, modes in works.items():
            for work in modes.values():
                milliseconds(work, min(20, len(texts)))  # what is read and compiled once
            found = {mode: statistics.median(milliseconds(work, len(texts))) for mode, work in modes.items()}
            ratio = found["hybrid"] / (found["lexical"] + found["dense"])
            result[part] = {mode: round(value, 4) for mode, value in found.items()} | {"ratio": round(ratio, 3)}
    return result


def main() -> int:
    """Time, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", nargs="+", type=Path, help="indexes over texts")
    parser.add_argument("--queries", type=Path, required=True, help="a query a line; at most 300 are asked")
    parser.add_argument("--out", type=Path, default=RESULTS / "query_modes.json")
    asked = parser.parse_args()
    texts = [line.strip() for line in asked.queries.read_text(encoding="utf-8").splitlines() if line.strip()][:300]
    found = {}
    for path in asked.index:
        found[path.name] = timed(path, texts)
        print(path.name, json.dumps(found[path.name]), flush=True)
    result = {"indexes": found, "queries": len(texts), "machine": machine(), "load": os.getloadavg()[0],
              "versions": versions(["faiss-cpu", "numpy"])}  # fmt: skip
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    ratios = [one[part]["ratio"] for one in found.values() for part in ("search", "whole")]
    return 0 if max(ratios) <= MOST_TIMES else 1


if __name__ == "__main__":
    raise SystemExit(main())
