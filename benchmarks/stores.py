"""What the number format of vectors and of a static table takes and finds: float32, float16, int8, on judged collections.

    python benchmarks/stores.py --data DIR --scratch DIR
    python benchmarks/stores.py --data DIR --scratch DIR --collections cacm cisi --out result.json

DIR has a folder for each collection: corpus.jsonl, queries.jsonl, qrels.tsv. Of each collection a static encoder is trained
once for each format of its table, from the same start; its documents are embedded in each format of the vectors, and every
question is asked of the index, by vectors and in the default way.
"""

import argparse
import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

from peers.measure import versions
from tokens import machine

import wordpipe

RESULTS = Path(__file__).parent.absolute() / "results"
COLLECTIONS = ("cacm", "cisi", "cranfield", "npl")
PAIRS = (("float32", "float32"), ("float32", "float16"), ("float32", "int8"), ("int8", "int8"))  # table, vectors
ASKED = {"vectors": "vectors", "both": "words and vectors"}


def questions(folder: Path, out: Path) -> None:
    """Write the questions of a collection and their right answers, a pair a line."""
    asked = map(json.loads, (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    text_of = {one["_id"]: " ".join(one["text"].split()) for one in asked}
    judged = [line.split("\t") for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    out.write_text(
        "".join(f"{text_of[query]}\t{row}\n" for query, row, grade in judged if int(grade) > 0), encoding="utf-8"
    )


def measured(folder: Path, work: Path, **settings: Any) -> list[dict[str, Any]]:
    """Bytes and figures of one collection, a line for each pair of formats; settings of the training."""
    questions(folder, work / "questions.tsv")
    wordpipe.ingest(folder / "corpus.jsonl", output=work / "corpus", id_field="_id")
    wordpipe.tokenize(work / "corpus", output=work / "tokens")
    lines = []
    for table, store in PAIRS:
        if not (encoder := work / f"encoder-{table}").exists():
            wordpipe.train_static(work / "tokens", output=encoder, goal="search", store=table, **settings)
        wordpipe.embed(encoder, work / "corpus", output=work / "sentences", unit="document", store=store)
        wordpipe.index(work / "sentences", output=work / "index")
        systems = wordpipe.evaluate_search(work / "index", data=work / "questions.tsv")["systems"]
        found = {ASKED[one["system"]]: one["metrics"] for one in systems if one["system"] in ASKED}
        sizes = {
            "table_bytes": (encoder / "model.safetensors").stat().st_size,
            "sentences_bytes": sum(path.stat().st_size for path in (work / "sentences").glob("*.parquet")),
        }
        lines.append({"collection": folder.name, "table": table, "vectors": store, **sizes, "found": found})
        print(lines[-1])
    return lines


def main() -> int:
    """Measure every collection, and write means over them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of collections")
    parser.add_argument("--scratch", type=Path, required=True, help="a folder for what is made")
    parser.add_argument("--collections", nargs="+", default=COLLECTIONS)
    parser.add_argument("--out", type=Path, default=RESULTS / "stores.json")
    arguments = parser.parse_args()
    lines = []
    for name in arguments.collections:
        shutil.rmtree(work := arguments.scratch / name, ignore_errors=True)
        work.mkdir(parents=True)
        lines += measured(arguments.data / name, work)
    means = {}
    for table, store in PAIRS:
        own = [one["found"] for one in lines if (one["table"], one["vectors"]) == (table, store)]
        means[f"{table} table, {store} vectors"] = {
            way: {name: round(fmean(one[way][name] for one in own), 4) for name in own[0][way]} for way in own[0]
        }
    result = {"machine": machine(), "libraries": versions(["numpy", "faiss-cpu"]), "lines": lines, "means": means}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(means)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
