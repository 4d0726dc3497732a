"""Search without labels on collections that people judged: an encoder adapted to each, beside BM25, TF-IDF and LSI.

    python benchmarks/retrieval.py run/words --data collections/                    every folder with a corpus.jsonl
    python benchmarks/retrieval.py run/words --data collections/ --weight 0.4 --feedback 0 --out result.json

One recipe for all of them: `wordpipe ingest`, `tokenize` and `train contrastive --goal search` on the documents, whose queries
and judgements stay unseen; the share of the dense score found without labels or given. Exit code 0: in the mean of the
collections hybrid is at least 2 points of nDCG@10 above BM25, on none of them significantly below it (p < 0.05, paired
bootstrap), and dense is above LSI.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from peers.measure import versions
from tokens import machine

import wordpipe
from wordpipe import evaluate_retrieval
from wordpipe.artifacts import Artifact
from wordpipe.search import FEEDBACK
from wordpipe.stages import open_collection

RESULTS = Path(__file__).parent.absolute() / "results"
MEASURE, LEAST_GAIN, SIGNIFICANT = "ndcg_at_10", 0.02, 0.05
TABLE = {"lsi_weight": 1.0, "lsi_dim": 300, "words_weight": 0.35, "lexical_weight": 0.7, "min_count": 1}
"""What a static encoder that starts from word vectors begins as: mostly the collection's own latent directions. Vectors of
another text alone found less than half of what these find on Cranfield (nDCG@10 x 100: 24 and 52), but help where queries
are short. The shares were chosen on Cranfield, CISI, NPL and CACM, one for all four."""
LENGTH = {"steps": 150, "batch_size": 256}  # on Cranfield nDCG@10 rose from 48.6 at the start to 50.6
VOCAB_SIZE = 8_000  # tokens: a few megabytes of text hold no more


def adapted(encoder: Path, folder: Path, scratch: Path) -> str:
    """Train an encoder on the documents of a collection, without labels.

    Word vectors become a static encoder that begins with them, with latent directions of the documents and a direction for
    each stem; a model goes on with its own tokenizer.
    """
    start: dict[str, Any] = {"encoder": "transformer", "init": encoder}
    tokenizer: dict[str, Any] = {"tokenizer": encoder}
    with Artifact(encoder, ["words", "model"]) as artifact:
        facts = artifact.manifest.facts
        if artifact.kind == "words":
            unit = str(facts.get("unit", "word"))
            start = {"encoder": "static", "words": encoder, "unit": unit, **TABLE, **LENGTH}
            if unit != "token" or not artifact.names("tokenizer.json"):
                tokenizer = {"vocab_size": VOCAB_SIZE, "keep_case": bool(facts.get("keep_case", False))}
            if unit == "token":
                del start["min_count"]
        elif facts.get("encoder") == "static":
            start["encoder"] = "static"
    collection = open_collection(folder)
    with (scratch / "documents.jsonl").open("w", encoding="utf-8") as file:
        for title, text in zip(collection.titles, collection.texts, strict=True):
            record = {"title": title, "text": text} if text.strip() else {"text": title}
            if record["text"].strip():
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    wordpipe.ingest(scratch / "documents.jsonl", output=scratch / "corpus")
    wordpipe.tokenize(scratch / "corpus", output=scratch / "tokens", **tokenizer)
    return wordpipe.train_contrastive(scratch / "tokens", output=scratch / "model", goal="search", **start).path


def evaluated(encoder: Path, folder: Path, **norms: Any) -> dict[str, Any]:
    """The figures of every system on one collection, and how long it took in seconds."""
    begun = time.monotonic()
    with Artifact(encoder) as artifact:
        words = encoder if artifact.kind == "words" else None
    with tempfile.TemporaryDirectory(prefix="wordpipe-") as scratch:
        model = adapted(encoder, folder, Path(scratch))
        found = evaluate_retrieval(model, folder, words=words, device="cpu", **norms)
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
    """Evaluate, print, write."""
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
        collections[folder.name] = evaluated(
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
