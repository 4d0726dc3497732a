"""What a word of a field is worth beside a word of a text: BM25 over texts and fields, on collections that people judged.

    python benchmarks/fields.py --data DIR [--json result.json]

DIR has collections in the layout of BEIR (cranfield, cisi, cacm: documents with a title and a text). Three indexes of each are
made of the documents with a text: of the texts alone; with the title as a field, which helps to find them; and with a field
of three words of the queries, drawn by chance for every document, which is the worst that a field can be. For each share of a
word (see FIELD_SHARE) nDCG@10 of all queries is printed. Exit code 0: with the share that the index uses, titles as a field
bring something on every collection, and more in the mean than the other field costs.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokens import machine

from wordpipe.metrics import score_ranking
from wordpipe.search import FIELD_SHARE, LexicalIndex
from wordpipe.search.settings import LexicalSettings

COLLECTIONS, SHARES = ("cranfield", "cisi", "cacm"), (0.1, 0.25, 0.5, 0.75, 1.0)


def lines_of(path: Path) -> list[dict[str, str]]:
    """Records of a file in JSON Lines."""
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def ndcg(index: LexicalIndex, queries: dict[str, str], ids: list[str], grades: dict[str, dict[str, int]]) -> float:
    """Mean nDCG@10 of the queries."""
    hits = index.search([*queries.values()], 10)
    scores = [
        score_ranking([ids[row] for row in found.rows.tolist()], grades[query]).ndcg_at_10
        for query, found in zip(queries, hits, strict=True)
    ]
    return round(float(np.mean(scores)), 4)


def measured(folder: Path) -> dict[str, dict[str, float]]:
    """NDCG@10 of a collection: of the texts alone, and by each share of a word for each kind of field."""
    documents = [one for one in lines_of(folder / "corpus.jsonl") if one["text"]]
    ids = [one["_id"] for one in documents]
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0 and document in {*ids}:
            grades.setdefault(query, {})[document] = int(grade)
    queries = {one["_id"]: one["text"] for one in lines_of(folder / "queries.jsonl") if one["_id"] in grades}
    # the fields
    draw = np.random.default_rng(0)
    words = [word for text in queries.values() for word in text.split() if len(word) > 3]
    fields = {
        "title": [one["title"] for one in documents],
        "chance": [" ".join(draw.choice(words, 3)) for _ in documents],
    }
    # texts alone, then with each
    settings, texts = (
        LexicalSettings(language="english"),
        pa.array([one["text"] for one in documents], pa.large_string()),
    )
    found = {"none": {"0": ndcg(LexicalIndex.build([texts], settings), queries, ids, grades)}}
    for name, values in fields.items():
        rows = pa.StructArray.from_arrays([texts, pa.array(values, pa.large_string())], ["text", "fields"])
        index, found[name] = LexicalIndex.build([rows], settings), {}
        for share in SHARES:
            index.__dict__["_in_field"] = np.float32(share / (share + settings.k1))
            found[name][str(share)] = ndcg(index, queries, ids, grades)
    return found


def main() -> int:
    """Measure; exit code 0 if the figures are as the head of this file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = {name: measured(asked.data / name) for name in COLLECTIONS}
    for name, own in found.items():
        print(name, json.dumps(own), flush=True)
    if asked.json:
        result = {"what": (__doc__ or "").splitlines()[0], "used": FIELD_SHARE, "found": found, "machine": machine()}
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    used = str(FIELD_SHARE)
    gains = [own["title"][used] - own["none"]["0"] for own in found.values()]
    costs = [own["none"]["0"] - own["chance"][used] for own in found.values()]
    return 0 if min(gains) > 0 and sum(gains) > sum(costs) else 1


if __name__ == "__main__":
    sys.exit(main())
