"""Search without labels on collections that people judged: what is chosen by scores is chosen on the other collections.

    python benchmarks/retrieval.py --data collections/                              every folder with a corpus.jsonl
    python benchmarks/retrieval.py --data collections/ --words run/words --out result.json
    python benchmarks/retrieval.py --data collections/ --encoder run/model          an encoder as it is, not trained on them
    python benchmarks/retrieval.py --data collections/ --controls                   of a run of before the controls alone, anew

One recipe for all of them, in defaults alone: `wordpipe ingest`, `tokenize` and `train static --goal search` on the
documents, whose queries and judgements stay unseen. Every table has BM25, RM3 (BM25 with queries expanded as Anserini does),
TF-IDF and LSI, 95 % intervals, and paired bootstrap tests against BM25, RM3 and LSI. Two controls say what hybrid search gains
without its vectors: BM25 asked twice (feedback by words alone), and hybrid search with vectors drawn by chance.

Leave-one-out: hybrid search is run with each of 28 settings, the first hits that it asks again with (0, 5, 10, 20) by the
share of the vectors (fixed, or agreement · n / (n + h) for three h). Of each collection the figure counts that has the setting
which is best in the mean of the others. Beside it stand the defaults, which were chosen by the same figures on all of
Cranfield, CISI, NPL and CACM, so that on those they are a little too good.

Exit code 0: by leave-one-out, hybrid is at least 2.5 points of nDCG@10 above BM25 in the mean, significantly below it on none
(p < 0.05) and above RM3 in the mean; and dense is significantly below LSI on none.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peers.measure import versions
from tokens import machine

import wordpipe
from wordpipe import evaluate_retrieval
from wordpipe.artifacts import Artifact
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.metrics import QueryFigures, mean_interval, paired_difference
from wordpipe.search import (
    ChanceVectors,
    LexicalIndex,
    Retriever,
    VectorTable,
    beir,
    chance_vectors,
    relevance_model,
)
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages import open_collection, open_encoder

RESULTS = Path(__file__).parent.absolute() / "results"
MEASURE, LEAST_GAIN, SIGNIFICANT = "ndcg_at_10", 0.025, 0.05
FEEDBACKS = (0, 5, 10, 20)
SHARES: tuple[tuple[str, float], ...] = (
    *(("fixed", weight) for weight in (0.2, 0.3, 0.4, 0.5)),
    *(("agreement", halfway) for halfway in (4, 8, 16)),
)
DEFAULT = (10, ("agreement", 8))
Setting = tuple[int, tuple[str, float]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shared(Retriever):
    """Hybrid search with another rule for the share of the vectors."""

    rule: tuple[str, float] = ("fixed", 0.5)

    def share(self, words: float) -> float:
        """A fixed one, or agreement · n / (n + halfway)."""
        how, number = self.rule
        return number if how == "fixed" else self.agreement * words / (words + number) if words else 1.0


def adapted(folder: Path, words: Path | None, scratch: Path) -> Path:
    """Train an encoder on the documents of a collection, without labels and without any setting."""
    collection = open_collection(folder)
    with (scratch / "documents.jsonl").open("w", encoding="utf-8") as file:
        for title, text in zip(collection.titles, collection.texts, strict=True):
            record = {"title": title, "text": text} if text.strip() else {"text": title}
            if record["text"].strip():
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    wordpipe.ingest(scratch / "documents.jsonl", output=scratch / "corpus")
    wordpipe.tokenize(scratch / "corpus", output=scratch / "tokens")
    given: dict[str, Any] = {} if words is None else {"words": words}
    return Path(wordpipe.train_static(scratch / "tokens", output=scratch / "model", goal="search", **given).path)


def of_settings(encoder: Path, folder: Path, agreement: float) -> dict[Setting, Floats]:
    """The nDCG@10 of every query, (Q,), for every setting of hybrid search."""
    collection = open_collection(folder)
    lexical = LexicalIndex.build(collection.passages, LexicalSettings())
    with Artifact(encoder) as artifact:
        opened = open_encoder(artifact, EmbedSettings.make({"device": "cpu"}))
        documents_ND = opened.encode(collection.passages).vectors
        queries_QD = opened.encode(collection.questions).vectors
    found, place = {}, QueryFigures._fields.index(MEASURE)
    for feedback in FEEDBACKS:
        for rule in SHARES:
            made = Shared(VectorTable(documents_ND), lexical, agreement, feedback=feedback, rule=rule)
            hits = [result.hits for result in made.find(collection.questions, queries_QD, 100)]
            ranked = beir.rankings(collection, hits, drop_identical=False)
            found[feedback, rule] = beir.scores(collection, ranked)[:, place]
    return found


def left_out(scores: dict[str, dict[Setting, Floats]]) -> dict[str, Setting]:
    """For each collection the setting that is best in the mean of the others."""
    settings = list(next(iter(scores.values())))
    return {
        name: max(settings, key=lambda one: sum(float(scores[other][one].mean()) for other in scores if other != name))
        for name in scores
    }


def evaluated(
    folder: Path, encoder: Path | None, words: Path | None, draws: int
) -> tuple[dict[str, Any], dict[Setting, Floats]]:
    """The figures of every system on one collection, and of every setting of hybrid search."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wordpipe-") as scratch:
        model = encoder or adapted(folder, words, Path(scratch))
        found = evaluate_retrieval(model, folder, draws=draws, device="cpu")
        systems = {one["system"]: one for one in found["systems"]}
        settings = of_settings(model, folder, systems["hybrid"]["facts"].get("agreement", 0.5))
    shown = {
        name: {
            "metrics": one["metrics"],
            "interval": one["intervals"][MEASURE],
            **{
                floor: (one[floor] or {}).get(MEASURE)
                for floor in ("against_bm25", "against_bm25_twice", "against_rm3", "against_lsi")
                if one.get(floor)
            },
        }
        for name, one in systems.items()
    }
    facts = systems["hybrid"]["facts"]
    counts = {"counts": found["counts"], "hybrid": facts, "seconds": round(time.monotonic() - begun, 1)}
    return {**counts, "systems": shown}, settings


CHANCE_DIM, CHANCE_QUERIES = 300, 2**40


def controls(asked: argparse.Namespace) -> dict[str, Any]:
    """BM25, BM25 asked twice, and hybrid with vectors drawn by chance at the agreement that the run of before had measured."""
    before, collections, place = json.loads(asked.out.read_text()), {}, QueryFigures._fields.index(MEASURE)
    for name, one in before["collections"].items():
        collection = open_collection(asked.data / name)
        lexical = LexicalIndex.build(collection.passages, LexicalSettings())
        queries, n = collection.questions, len(collection.documents)
        made = Retriever(ChanceVectors(n, CHANCE_DIM), lexical, one["hybrid"]["agreement"])
        drawn_QD = chance_vectors(len(queries), CHANCE_DIM, CHANCE_QUERIES)
        found = {
            "bm25": lexical.search(queries, 100),
            "bm25_twice": [result.hits for result in Retriever(None, lexical).find(queries, None, 100)],
            "random": [result.hits for result in made.find(queries, drawn_QD, 100)],
        }
        scores = {
            system: beir.scores(collection, beir.rankings(collection, hits, drop_identical=False))[:, place]
            for system, hits in found.items()
        }
        collections[name] = {
            system: {
                MEASURE: round(float(scores_Q.mean()), 6),
                **({} if system == "bm25" else {"against_bm25": compared(scores_Q, scores["bm25"], asked.draws)}),
            }
            for system, scores_Q in scores.items()
        }
        print(name, collections[name], flush=True)
    systems = next(iter(collections.values()))
    mean = {name: round(float(np.mean([one[name][MEASURE] for one in collections.values()])), 6) for name in systems}
    return {
        "what": "run by itself after the systems above, with BM25 of its own version; random: vectors drawn by chance, hybrid "
        "with the agreement of the run above",
        "mean": mean, "collections": collections, "dim": CHANCE_DIM, "machine": machine(),
        "versions": versions(["numpy", "scipy"]), "load": os.getloadavg()[0],
    }  # fmt: skip


def compared(scores_Q: Floats, floor_Q: Floats, draws: int) -> dict[str, Any]:
    """The difference to a floor, query by query."""
    apart = paired_difference(scores_Q, floor_Q, draws=draws)
    assert apart is not None
    return {
        "difference": round(apart.mean, 6),
        "interval": np.round(apart.interval, 6).tolist(),
        "p": round(apart.p, 6),
    }


def floors_of(folder: Path) -> dict[str, Floats]:
    """The nDCG@10 of BM25 and RM3, query by query."""
    collection = open_collection(folder)
    lexical = LexicalIndex.build(collection.passages, LexicalSettings())
    place = QueryFigures._fields.index(MEASURE)
    found = {"bm25": lexical.search(collection.questions, 100)}
    pairs = zip(collection.questions, found["bm25"], strict=True)
    found["rm3"] = lexical.best(
        [relevance_model(lexical, lexical.read(text), hits.first(10)) for text, hits in pairs], 100
    )
    return {
        name: beir.scores(collection, beir.rankings(collection, hits, drop_identical=False))[:, place]
        for name, hits in found.items()
    }


Scores = dict[str, dict[Setting, Floats]]


def gain_of(setting: Setting, scores: Scores, floors: dict[str, dict[str, Floats]]) -> float:
    """How far a setting is above BM25 in the mean of the collections."""
    return float(np.mean([scores[name][setting].mean() - floors[name]["bm25"].mean() for name in scores]))


def summary(
    collections: dict[str, Any], scores: Scores, floors: dict[str, dict[str, Floats]], draws: int
) -> dict[str, Any]:
    """The means, leave-one-out, and whether all that is asked for was reached."""
    names = next(iter(collections.values()))["systems"]
    mean = {
        name: round(float(np.mean([one["systems"][name]["metrics"][MEASURE] for one in collections.values()])), 6)
        for name in names
    }
    alone = {}
    for name, setting in left_out(scores).items():
        scores_Q = scores[name][setting]
        alone[name] = {
            "setting": setting,
            "ndcg_at_10": round(float(scores_Q.mean()), 6),
            "interval": np.round(mean_interval(scores_Q, draws=draws) or (0.0, 0.0), 6).tolist(),
            **{f"against_{floor}": compared(scores_Q, floors[name][floor], draws) for floor in ("bm25", "rm3")},
        }
    gains = {
        floor: float(np.mean([one[f"against_{floor}"]["difference"] for one in alone.values()]))
        for floor in ("bm25", "rm3")
    }
    worse = [name for name, one in alone.items() if is_below(one["against_bm25"])]
    below = [name for name, one in collections.items() if is_below(one["systems"]["dense"].get("against_lsi"))]
    best = max(next(iter(scores.values())), key=lambda setting: gain_of(setting, scores, floors))
    return {
        "mean": mean, "leave_one_out": alone, "above_bm25": round(gains["bm25"], 6), "above_rm3": round(gains["rm3"], 6),
        "significantly_below_bm25": worse, "dense_significantly_below_lsi": below,
        "default": {"setting": DEFAULT, "above_bm25": round(gain_of(DEFAULT, scores, floors), 6)},
        "settings": [
            {"feedback": one[0], "share": one[1], "above_bm25": round(gain_of(one, scores, floors), 6)}
            for one in next(iter(scores.values()))
        ],
        "best_on_all": {"setting": best, "above_bm25": round(gain_of(best, scores, floors), 6)},
        "reached": gains["bm25"] >= LEAST_GAIN and not worse and gains["rm3"] > 0 and not below,
    }  # fmt: skip


def is_below(against: dict[str, Any] | None) -> bool:
    """Whether a difference is a significant loss."""
    return bool(against and against["difference"] < 0 and against["p"] < SIGNIFICANT)


def main() -> int:
    """Evaluate, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of collections in the layout of BEIR")
    parser.add_argument("--only", nargs="*", help="names of collections")
    parser.add_argument("--words", type=Path, help="word vectors that the encoders begin with")
    parser.add_argument("--encoder", type=Path, help="a model or words artifact that is evaluated as it is")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "retrieval.json")
    parser.add_argument("--controls", action="store_true", help="measure the controls alone, and put them into --out")
    asked = parser.parse_args()
    if asked.controls:
        found = json.loads(asked.out.read_text()) | {"controls": controls(asked)}
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 0
    collections, scores, floors = {}, {}, {}
    for folder in sorted(path.parent for path in asked.data.glob("*/corpus.jsonl*")):
        if asked.only and folder.name not in asked.only:
            continue
        collections[folder.name], scores[folder.name] = evaluated(folder, asked.encoder, asked.words, asked.draws)
        floors[folder.name] = floors_of(folder)
        systems = collections[folder.name]["systems"].items()
        print(folder.name, *(f"{name} {100 * one['metrics'][MEASURE]:.2f}" for name, one in systems), flush=True)
    if len(collections) < 2:
        parser.error(f"fewer than two collections in {asked.data}: none could be left out")
    found = summary(collections, scores, floors, asked.draws)
    print("mean", *(f"{name} {100 * value:.2f}" for name, value in found["mean"].items()))
    for name, one in found["leave_one_out"].items():
        against = one["against_bm25"]
        gain = f"{100 * against['difference']:+.2f} to BM25 (p {against['p']:.4f})"
        print(f"{name} left out: {100 * one['ndcg_at_10']:.2f}, {gain}, {one['setting']}")
    print(json.dumps({key: value for key, value in found.items() if key not in ("mean", "leave_one_out", "settings")}))
    result = {
        "measure": MEASURE, "words": None if asked.words is None else asked.words.name,
        "encoder": None if asked.encoder is None else asked.encoder.name, **found, "collections": collections,
        "machine": machine(), "versions": versions(["numpy", "scipy"]), "load": os.getloadavg()[0],
    }  # fmt: skip
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if found["reached"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
