"""What was tried to get more from an encoder from elsewhere, and left out: whitened vectors, its tokens, and late pooling.

    python benchmarks/borrowed_tried.py --data DIR --brought FOLDER --vectors CACHE
                                                        writes benchmarks/results/borrowed_tried.json

DIR has labelled/xquad.en.json and retrieval/ with the collections; FOLDER is an encoder that sentence-transformers loads
(all-MiniLM-L6-v2); CACHE keeps the vectors, and is that of benchmarks/sides.py. The parts:

    whitened    hybrid search with vectors without their mean, and divided by L^(a/2) in each direction of the documents'
                covariance U L U'. The control: the same numbers L dealt out to other directions
    tokens      the first 50 answers of hybrid search ordered anew by their score + b · MaxSim over the hidden states of all
                tokens: every token of the question counts alike, or rare ones more. The control: MaxSim of other answers
    late        paragraphs of an article: each encoded by itself; pooled out of the hidden states of the whole article, read in
                windows (late pooling, Günther et al. 2024); the sum of both; and with a share of the article's mean

Every choice is made by leave-one-out: of each collection the figure counts that has the setting which is best in the mean of
the others. The paragraphs of `late` are XQuAD's 240, the questions its 1,190: nDCG@10 by vectors alone and by hybrid search.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peers.maxsim import maxsim, ordered_anew
from peers.measure import versions
from sides import Bench, Side, fixed, left_out, opened_sides
from tokens import machine

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.encoders import TextEncoder
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.metrics import score_ranking, unit_rows
from wordpipe.search import LEARNED_ELSEWHERE, UNMEASURED, Hits, LexicalIndex, Retriever, VectorTable
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages import open_encoder

RESULTS = Path(__file__).parent.absolute() / "results"
COLLECTIONS = ("cacm", "cisi", "cranfield", "npl")
POWERS = (0.0, 0.25, 0.5, 0.75)  # a
WEIGHTS = (0.1, 0.2, 0.4, 0.8)  # b
AGAIN = 50
SHARES = (0.1, 0.2, 0.4)  # of an article's mean
Vectors = npt.NDArray[np.float32]
SHARE = {"brought": fixed(LEARNED_ELSEWHERE)}


def whitened(benches: dict[str, Bench]) -> dict[str, Any]:
    """Vectors whose strong directions count less, by leave-one-out; and the control."""
    plain = {key: bench.asked(SHARE) for key, bench in benches.items()}
    found: dict[str, Any] = {}
    for name in ("by its directions", "control"):
        scores = {"as it is": plain}
        for power in POWERS:
            scores[f"a = {power}"] = {}
            for key, bench in benches.items():
                side = less_of_strong(bench.sides["brought"], power, shuffled=name == "control")
                scores[f"a = {power}"][key] = bench.asked(SHARE, sides={"brought": side})
        found[name] = left_out(scores, plain)
    return found


def less_of_strong(side: Side, power: float, *, shuffled: bool) -> Side:
    """A side without its mean, and with directions divided by their strength L^(power / 2)."""
    mean_D = side.documents.mean(axis=0, dtype=np.float64)
    strength_D, directions_DD = np.linalg.eigh(np.cov((side.documents - mean_D).T))
    strength_D = np.maximum(strength_D, 1e-8)
    if shuffled:
        strength_D = np.random.default_rng(0).permutation(strength_D)
    turn_DD = (directions_DD * strength_D ** (-power / 2)) @ directions_DD.T

    def turned(vectors: Vectors) -> Vectors:
        return unit_rows(((vectors - mean_D) @ turn_DD).astype(np.float32), least=1e-6)[0]

    return Side(turned(side.documents), turned(side.queries), side.agreement)


def tokens(benches: dict[str, Bench], encoder: TextEncoder) -> dict[str, Any]:
    """MaxSim of the first answers, by leave-one-out; and the control."""
    plain = {key: bench.asked(SHARE) for key, bench in benches.items()}
    kinds: dict[str, dict[str, Any]] = {name: {"as it is": plain} for name in ("alike", "rare more", "control")}
    for key, bench in benches.items():
        side, asked = bench.sides["brought"], bench.collection.questions
        made = Retriever(side.table, bench.lexical, UNMEASURED, LEARNED_ELSEWHERE)
        hits = [one.hits.first(AGAIN) for one in made.find(asked, side.queries, 100)]
        rng = np.random.default_rng(0)
        alike, rare_more = maxsim(encoder, asked, hits, bench.collection.passages)
        sides = {"alike": alike, "rare more": rare_more, "control": [rng.permutation(values) for values in alike]}
        for name, similar in sides.items():
            for weight in WEIGHTS:
                scores = kinds[name].setdefault(f"b = {weight}", {})
                scores[key] = bench.figures(ordered_anew(hits, similar, weight))
    return {name: left_out(scores, plain) for name, scores in kinds.items()}


def late(path: Path, encoder: TextEncoder) -> dict[str, Any]:
    """Paragraphs by themselves and out of their article: nDCG@10."""
    articles = [article["paragraphs"] for article in json.loads(path.read_text(encoding="utf-8"))["data"]]
    paragraphs = [one for article in articles for one in article]
    texts, lengths = [one["context"] for one in paragraphs], [len(article) for article in articles]
    asked = [(query["question"], row) for row, one in enumerate(paragraphs) for query in one["qas"]]
    questions = [text for text, _ in asked]
    queries_QD, alone_ND = encoder.for_queries.encode(questions).vectors, encoder.encode(texts).vectors
    means = [part.mean(axis=0) for part in np.split(alone_ND, np.cumsum(lengths)[:-1])]
    about_ND = unit_rows(np.repeat(means, lengths, axis=0).astype(np.float32))[0]
    late_ND = np.concatenate([pooled_late(encoder, [one["context"] for one in article]) for article in articles])
    sides = {"alone": alone_ND, "late": late_ND, "sum of both": unit_rows(alone_ND + late_ND)[0]}
    sides |= {f"alone + {share} · article": unit_rows(alone_ND + np.float32(share) * about_ND)[0] for share in SHARES}
    lexical = LexicalIndex.build(texts, LexicalSettings())
    found = {}
    for name, vectors in sides.items():
        table = VectorTable(vectors)
        by_both = Retriever(table, lexical, UNMEASURED, LEARNED_ELSEWHERE).find(questions, queries_QD, 10)
        hits = {"vectors": table.search(queries_QD, 10), "hybrid": [one.hits for one in by_both]}
        found[name] = {way: _ndcg(some, [row for _, row in asked]) for way, some in hits.items()}
        print(name, found[name], flush=True)
    return {"paragraphs": len(texts), "questions": len(asked), "ndcg_at_10": found}


def _ndcg(found: Sequence[Hits], wanted: Sequence[int]) -> float:
    """The mean nDCG@10 x 100 where each question has one row."""
    pairs = zip(found, wanted, strict=True)
    return round(
        100
        * float(
            np.mean(
                [
                    score_ranking([str(one) for one in hits.rows.tolist()], {str(row): 1}).ndcg_at_10
                    for hits, row in pairs
                ]
            )
        ),
        2,
    )


def pooled_late(encoder: TextEncoder, paragraphs: Sequence[str]) -> Vectors:
    """The mean state of the tokens of every paragraph, read with the paragraphs around it, (P, D); for a mean pooling."""
    parts = encoder.parts("\n".join(paragraphs))
    ends = np.cumsum([len(one) + 1 for one in paragraphs])
    letters = [at for at, (start, stop) in enumerate(parts.spans) if stop > start]
    paragraph = np.searchsorted(ends, [parts.spans[at][0] for at in letters], side="right")
    sums_PD = np.zeros((len(paragraphs), parts.vectors.shape[1]), np.float32)
    np.add.at(sums_PD, paragraph, unit_rows(parts.vectors[letters])[0])
    return unit_rows(sums_PD)[0]


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--brought", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--vectors", type=Path, required=True, metavar="CACHE")
    parser.add_argument("--out", type=Path, default=RESULTS / "borrowed_tried.json", metavar="JSON")
    args = parser.parse_args()
    model = args.vectors / "model"
    if not (model / "manifest.json").exists():
        wordpipe.import_words(args.brought, output=model)
    sides = opened_sides(args.brought, args.vectors, ("brought",))
    benches = {name: Bench(args.data / "retrieval" / name, sides) for name in COLLECTIONS}
    with Artifact(model, ["model"]) as artifact:
        encoder = open_encoder(artifact, EmbedSettings.make({"device": "cpu"}))
        found = {
            "late": late(args.data / "labelled" / "xquad.en.json", encoder), "whitened": whitened(benches),
            "tokens": tokens(benches, encoder),
        }  # fmt: skip
    about = {"machine": machine(), "libraries": versions(["torch", "numpy"]), "encoder": args.brought.name}
    args.out.write_text(json.dumps({**about, **found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
