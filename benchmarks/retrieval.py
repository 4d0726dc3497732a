"""Search without labels on collections that people judged: an encoder adapted to each, beside BM25, TF-IDF and LSI.

    python benchmarks/retrieval.py run/words --data collections/                    every folder with a corpus.jsonl
    python benchmarks/retrieval.py run/words --data collections/ --weight 0.4 --feedback 0 --out result.json

One recipe for all of them: the defaults of `wordpipe evaluate retrieval --adapt`; the share of the dense score found without
labels or given. Exit code 0: in the mean of the collections hybrid is at least 2 points of nDCG@10 above BM25,
on none of them significantly below it (p < 0.05, paired bootstrap), and dense is above LSI.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import machine

from wordpipe.search.feedback import FEEDBACK
from wordpipe.stages.evaluate_retrieval import evaluate_retrieval

RESULTS = Path(__file__).parent.absolute() / "results"
MEASURE, LEAST_GAIN, SIGNIFICANT = "ndcg_at_10", 0.02, 0.05


def judged(encoder: Path, folder: Path, **norms: Any) -> dict[str, Any]:
    """The figures of every system on one collection, and how long it took in seconds."""
    begun = time.monotonic()
    found = evaluate_retrieval(encoder, folder, adapt_with={}, device="cpu", **norms)
    systems = {
        one["system"]: {
            "metrics": one["metrics"],
            "against_bm25": (one["against_bm25"] or {}).get(MEASURE),
            "facts": {name: one["facts"][name] for name in ("weight", "feedback", "measured") if name in one["facts"]},
        }
        for one in found["systems"]
    }
    return {"counts": found["counts"], "systems": systems, "seconds": round(time.monotonic() - begun, 1)}


def means(collections: dict[str, Any]) -> dict[str, float]:
    """The mean nDCG@10 of every system over the collections."""
    names = next(iter(collections.values()))["systems"]
    return {
        name: round(sum(one["systems"][name]["metrics"][MEASURE] for one in collections.values()) / len(collections), 6)
        for name in names
    }


def verdict(collections: dict[str, Any], mean: dict[str, float]) -> dict[str, Any]:
    """Whether hybrid search, and the vectors alone, are what they are to be."""
    against = {name: one["systems"]["hybrid"]["against_bm25"] for name, one in collections.items()}
    worse = [name for name, at in against.items() if at and at["difference"] < 0 and at["p"] < SIGNIFICANT]
    gain = mean["hybrid"] - mean["bm25"]
    return {
        "above_bm25": round(gain, 6), "significantly_worse": worse, "reached": gain >= LEAST_GAIN and not worse,
        "dense_above_lsi": mean["dense"] > mean["lsi"],
    }  # fmt: skip


def main() -> int:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=Path, help="a words or model artifact")
    parser.add_argument("--data", type=Path, required=True, help="a folder of collections in the layout of BEIR")
    parser.add_argument("--only", nargs="*", help="names of collections")
    parser.add_argument("--weight", type=float, help="share of the dense score in hybrid; else found without labels")
    parser.add_argument(
        "--feedback", type=int, default=FEEDBACK, help="first answers that hybrid search looks at before it asks again"
    )
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "retrieval.json")
    asked = parser.parse_args()
    folders = sorted(path.parent for path in asked.data.glob("*/corpus.jsonl*"))
    collections = {}
    for folder in folders:
        if asked.only and folder.name not in asked.only:
            continue
        collections[folder.name] = judged(
            asked.encoder, folder, weight=asked.weight, feedback=asked.feedback, draws=asked.draws
        )
        scores = collections[folder.name]["systems"].items()
        print(folder.name, *(f"{name} {100 * one['metrics'][MEASURE]:.2f}" for name, one in scores), flush=True)
    if not collections:
        parser.error(f"no collection in {asked.data}")
    mean = means(collections)
    found = verdict(collections, mean)
    print("mean", *(f"{name} {100 * value:.2f}" for name, value in mean.items()), json.dumps(found))
    result = {
        "measure": MEASURE, "weight": asked.weight, "feedback": asked.feedback, "mean": mean, "verdict": found,
        "collections": collections, "machine": machine(),
        "versions": versions(["bm25s", "numpy", "scipy", "torch"]), "load": os.getloadavg()[0],
    }  # fmt: skip
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if found["reached"] and found["dense_above_lsi"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
