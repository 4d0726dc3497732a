"""The sides of hybrid search: how much each should count, whether a third helps, and whether neighbours should have a say.

    python benchmarks/sides.py --data DIR --brought FOLDER --vectors CACHE      writes benchmarks/results/sides.json

DIR has collections in the layout of BEIR (Cranfield, CISI, NPL, CACM), FOLDER is an encoder that sentence-transformers loads
(all-MiniLM-L6-v2), CACHE keeps the vectors for the next run. Four encoders: `static`, trained on each collection without
labels as in benchmarks/retrieval.py; `brought`; `taught`, the table that `brought` teaches on each collection (`train static
--teacher`); and `lsi`, latent semantic indexing. All searches are those of `query --mode hybrid`, with feedback on all sides.
The parts:

    shares       the share of the brought encoder's vectors: by agreement, as for encoders of one's own; by the length of the
                 question alone; or fixed. The share by ranks (RRF, k = 60) and vectors drawn by chance are the
                 controls. And the share of the table that it taught
    few          the same share in 12 subsets of 30 texts of each collection, as nothing can be measured of so few
    three        words, static and brought: the grid of the shares of both
    oracle       the better of several searches for each question, which no rule can beat: what there is to gain by choosing
    neighbours   scores + b · mean score of the 10 nearest texts: among the candidates, or of a stored graph; before feedback,
                 after, or both; of all texts or those of 20 words and more. And vectors of texts + a · the mean of their
                 neighbours' vectors

Every choice is made by leave-one-out: of each collection the figure counts that has the setting which is best in the mean of
the others. nDCG@10, differences query by query with 95 % intervals by bootstrap.

Exit code 0: the shares that `query` uses for brought encoders are those of leave-one-out on every collection.
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from borrowed import _by_ranks, _taught
from peers.measure import versions
from retrieval import adapted, compared
from tokens import machine

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.metrics import QueryFigures, score_ranking, unit_rows
from wordpipe.search import (
    ELSEWHERE_UNMEASURED,
    FEEDBACK,
    LEARNED_ELSEWHERE,
    UNMEASURED,
    Analyser,
    Hits,
    LatentSpace,
    LexicalIndex,
    Retriever,
    Tfidf,
    VectorTable,
    beir,
    best_of,
    chance_vectors,
    draw_queries,
    measure,
    normalised,
    vector_share,
    with_feedback,
)
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages import open_collection, open_encoder

RESULTS = Path(__file__).parent.absolute() / "results"
MEASURE, DEPTH, NEAR, LONG = "ndcg_at_10", 100, 10, 20
FEW, SUBSETS = 30, 12
ENCODERS = ("static", "brought", "taught", "lsi")
Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]
Shares = Mapping[str, Callable[[float], float]]
"""Of each encoder its share in the score of a question of so many known words."""


@dataclass(frozen=True)
class Spread:
    """A rule by which neighbours have a say in the scores of the candidates."""

    share: float  # b
    stored: bool  # the neighbours among all texts, not among the candidates
    when: str  # before (feedback), after, or both
    least: int  # words of texts that take part


@dataclass(frozen=True)
class Side:
    """The vectors of one encoder."""

    documents: Vectors  # (N, D)
    queries: Vectors  # (Q, D)
    agreement: float

    @cached_property
    def table(self) -> VectorTable:
        return VectorTable(self.documents)

    @cached_property
    def near(self) -> list[Hits]:
        return self.table.search(self.queries, DEPTH)

    @cached_property
    def graph(self) -> npt.NDArray[np.int64]:
        """(N, 10) the nearest other texts."""
        parts = []
        for first in range(0, len(self.documents), 2_000):
            scores = self.documents[first : first + 2_000] @ self.documents.T
            scores[np.arange(len(scores)), np.arange(first, first + len(scores))] = -2
            parts.append(np.argpartition(-scores, NEAR, axis=1)[:, :NEAR])
        return np.concatenate(parts)

    def smoothed(self, share: float) -> "Side":
        """Return a side in which each text's vector is moved towards the mean of its neighbours' vectors."""
        means = unit_rows(self.documents[self.graph].mean(axis=1), least=1e-6)[0]
        return Side(unit_rows(self.documents + np.float32(share) * means, least=1e-6)[0], self.queries, self.agreement)


class Bench:
    """One collection: its words, its questions, the sides."""

    def __init__(self, folder: Path, sides: Callable[[Path, Any, LexicalIndex], dict[str, Side]]) -> None:
        self.collection = open_collection(folder)
        self.lexical = LexicalIndex.build(self.collection.passages, LexicalSettings())
        self.words = [self.lexical.read(text) for text in self.collection.questions]
        self.worded = self.lexical.best(self.words, DEPTH)
        self.sides = sides(folder, self.collection, self.lexical)

    def figures(self, found: Sequence[Hits]) -> Floats:
        """The nDCG@10 of every question, (Q,)."""
        ranked = beir.rankings(self.collection, found, drop_identical=False)
        return beir.scores(self.collection, ranked)[:, QueryFigures._fields.index(MEASURE)]

    def asked(self, shares: Shares, spread: Spread | None = None, sides: Mapping[str, Side] | None = None) -> Floats:
        """The nDCG@10 of hybrid search with any number of encoders, each with its share, words with the rest."""
        chosen = {name: (sides or self.sides)[name] for name in shares}
        first = next(iter(chosen.values()))
        words = Retriever(first.table, self.lexical)  # compares candidates by words
        weights = [{name: share(one.length) for name, share in shares.items()} for one in self.words]

        def fused(number: int, near: Mapping[str, Sequence[Hits]], worded: Hits, when: str) -> Hits:
            own = weights[number]
            lists = [(near[name][number], share) for name, share in own.items()] + [(worded, 1 - sum(own.values()))]
            hits = _fused([(hits, share) for hits, share in lists if share > 0])
            return hits if spread is None or spread.when not in when else self._spread(hits, first, spread)

        near = {name: side.near for name, side in chosen.items()}
        found = [fused(number, near, self.worded[number], "before both") for number in range(len(self.words))]
        looked_at, nearer = [hits.first(FEEDBACK) for hits in found], {}
        for name, side in chosen.items():
            moved, _ = with_feedback(side.queries, looked_at, side.table)
            nearer[name] = side.table.search(moved, DEPTH)
        answers = []
        for number, own in enumerate(self.words):
            terms = self.lexical.expanded(own, self.lexical.texts(looked_at[number].rows))
            candidates = [hits[number] for name in chosen for hits in (near[name], nearer[name])]
            compared_again = words.compared(number, terms, candidates, self.worded[number])
            answers.append(fused(number, nearer, compared_again, "after both").first(DEPTH))
        return self.figures(answers)

    def _spread(self, hits: Hits, side: Side, how: Spread) -> Hits:
        rows, n = hits.rows, len(hits)
        if n <= NEAR:
            return hits
        if how.stored:
            place_N = np.full(len(side.documents), -1)
            place_N[rows] = np.arange(n)
            near_RK = place_N[side.graph[rows]]  # -1: no candidate, whose score is 0
        else:
            cosines_RR = side.documents[rows] @ side.documents[rows].T
            np.fill_diagonal(cosines_RR, -2)
            near_RK = np.argpartition(-cosines_RR, NEAR - 1, axis=1)[:, :NEAR]
        is_long = np.append(self.lexical.postings.lengths[rows] >= how.least, False)
        scores = np.append(hits.scores.astype(np.float64), 0.0)
        means_R = (scores[near_RK] * is_long[near_RK]).sum(axis=1) / NEAR
        return best_of(rows, (scores[:-1] + how.share * means_R * is_long[:-1]).astype(np.float32), n)


def _fused(lists: Sequence[tuple[Hits, float]]) -> Hits:
    """All rows of some lists by the sum of their shares of normalised scores."""
    rows, at = np.unique(np.concatenate([hits.rows for hits, _ in lists]), return_inverse=True)
    parts = np.concatenate([share * normalised(hits) for hits, share in lists])
    return best_of(rows, np.bincount(at, weights=parts, minlength=len(rows)).astype(np.float32), len(rows))


# ---- the vectors


def opened_sides(
    brought: Path, cache: Path, names: Sequence[str] = ENCODERS
) -> Callable[[Path, Any, LexicalIndex], dict[str, Side]]:
    """A function that encodes a collection by all encoders (or some), or reads what was encoded before."""

    def of(folder: Path, collection: Any, lexical: LexicalIndex) -> dict[str, Side]:
        return {name: _side(name, folder, collection, lexical, brought, cache) for name in names}

    return of


def _side(name: str, folder: Path, collection: Any, lexical: LexicalIndex, brought: Path, cache: Path) -> Side:
    path = cache / f"{folder.name}-{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            documents, queries, agreement = _encoded(name, folder, collection, lexical, brought, Path(work))
        np.savez(path, documents=documents, queries=queries, agreement=agreement)
    kept = np.load(path)
    return Side(kept["documents"], kept["queries"], float(kept["agreement"]))


def _encoded(
    name: str, folder: Path, collection: Any, lexical: LexicalIndex, brought: Path, work: Path
) -> tuple[Vectors, Vectors, float]:
    texts, cuts = collection.passages, draw_queries([""] * len(collection.texts), collection.texts)
    if name == "lsi":
        tfidf = Tfidf.fit(texts, Analyser(lexical.settings.language))
        latent = LatentSpace.fit(tfidf.vectors(texts), 256)

        def encode(some: Sequence[str]) -> Vectors:
            return latent.vectors(tfidf.vectors(some))

        documents = encode(texts)
        return documents, encode(collection.questions), measure(None, cuts, encode, VectorTable(documents), lexical)[0]
    model = work / "brought"
    if name != "static":
        wordpipe.import_words(brought, output=model)
    if name == "taught":
        model = _taught(folder, model, work / "taught", {})
    elif name == "static":
        model = adapted(folder, None, work)
    with Artifact(model) as artifact:
        encoder = open_encoder(artifact, EmbedSettings.make({"device": "cpu"}))
        documents, asks = encoder.encode(texts).vectors, encoder.for_queries
        queries = asks.encode(collection.questions).vectors
        found = measure(None, cuts, lambda some: asks.encode(some).vectors, VectorTable(documents), lexical)
    return documents, queries, found[0]


# ---- the parts


Scores = dict[str, dict[str, Floats]]
"""Of each setting and collection the figures of all questions."""


def left_out(scores: Scores, floor: dict[str, Floats], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Each collection with the setting that is best in the mean of the others, against a floor; the means of all settings."""
    settings, collections = list(names or scores), list(floor)
    lines = {}
    for one in collections:
        others = [name for name in collections if name != one]
        best = max(settings, key=lambda setting: sum(float(scores[setting][name].mean()) for name in others))
        found = scores[best][one]
        lines[one] = {"setting": best, MEASURE: _points(found.mean()), **_apart(found, floor[one])}
    means = {name: _points(np.mean([scores[name][one].mean() for one in collections])) for name in scores}
    return {
        "above": round(float(np.mean([line["difference"] for line in lines.values()])), 2),
        "leave_one_out": lines,
        "floor": {name: _points(values.mean()) for name, values in floor.items()},
        "means": means,
    }


def _points(value: float) -> float:
    return round(100 * float(value), 2)


def _apart(found: Floats, floor: Floats) -> dict[str, Any]:
    apart = compared(found, floor, 10_000)
    return {
        "difference": _points(apart["difference"]), "interval": [_points(end) for end in apart["interval"]],
        "p": round(apart["p"], 4),
    }  # fmt: skip


def by_agreement(bench: Bench, name: str, scale: float = 1.0) -> Callable[[float], float]:
    """The share that `query` gives an encoder of one's own, times a number."""
    return lambda words: scale * vector_share(bench.sides[name].agreement, words)


def fixed(share: float) -> Callable[[float], float]:
    """A share that is equal for every question."""
    return lambda words: share


def by_length(share: float) -> Callable[[float], float]:
    """A share that grows with the question."""
    return lambda words: vector_share(share, words)


def of_shares(benches: Mapping[str, Bench], encoder: str) -> dict[str, Any]:
    """The share of an encoder's vectors, with controls."""
    rules: dict[str, Callable[[Bench], Callable[[float], float]]] = {
        "agreement": lambda bench: by_agreement(bench, encoder),
        **{f"length {share}": lambda _, share=share: by_length(share) for share in (0.3, 0.4, 0.5, 0.6, 0.8)},
        **{f"fixed {share}": lambda _, share=share: fixed(share) for share in (0.2, 0.3, 0.4, 0.5, 0.6)},
    }
    scores = {
        name: {key: bench.asked({encoder: rule(bench)}) for key, bench in benches.items()}
        for name, rule in rules.items()
    }
    found = left_out(scores, scores["agreement"])
    controls: Scores = {"rrf": {}, "bm25": {}, "random": {}}
    for key, bench in benches.items():
        side = bench.sides[encoder]
        both = bench.lexical.best(bench.words, 1000), side.table.search(side.queries, 1000)
        controls["rrf"][key] = bench.figures([_by_ranks(pair) for pair in zip(*both, strict=True)])
        controls["bm25"][key] = bench.figures(bench.worded)
        shape = side.documents.shape
        drawn = Side(chance_vectors(*shape, 1), chance_vectors(len(side.queries), shape[1], 2**40), 0.0)
        controls["random"][key] = bench.asked({encoder: fixed(LEARNED_ELSEWHERE)}, sides={encoder: drawn})
    chosen = scores[f"fixed {LEARNED_ELSEWHERE}"]
    against = {
        name: {key: _apart(chosen[key], values) for key, values in control.items()}
        for name, control in controls.items()
    }
    controls_of = {name: {key: _points(values.mean()) for key, values in one.items()} for name, one in controls.items()}
    return {**found, "controls": controls_of, "chosen_against": against, "agreements": _agreements(benches)}


def _agreements(benches: Mapping[str, Bench]) -> dict[str, dict[str, float]]:
    return {key: {name: round(side.agreement, 4) for name, side in one.sides.items()} for key, one in benches.items()}


def of_few(benches: Mapping[str, Bench]) -> dict[str, Any]:
    """The share of the brought encoder in subsets of 30 relevant texts; the figure of each is the mean of its questions."""
    rules = {**{f"fixed {share}": share for share in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)}, "length 0.5": None}
    scores: Scores = {name: {key: np.zeros(SUBSETS) for key in benches} for name in rules}
    for key, bench in benches.items():
        collection, side = bench.collection, bench.sides["brought"]
        row_of = {name: row for row, name in enumerate(collection.documents)}
        graded = [collection.grades[query] for query in collection.queries]
        wanted = [{row_of[name] for name, grade in one.items() if grade > 0 and name in row_of} for one in graded]
        rng = np.random.default_rng(len(row_of))
        for number in range(SUBSETS):
            rows = np.sort(rng.choice(sorted(set().union(*wanted)), FEW, replace=False))
            asked = [at for at, some in enumerate(wanted) if some & {*rows.tolist()}]
            texts = [collection.passages[row] for row in rows.tolist()]
            lexical = LexicalIndex.build(texts, bench.lexical.settings)
            for name, share in rules.items():
                made = Retriever(VectorTable(side.documents[rows]), lexical, UNMEASURED, share)
                found = made.find([collection.questions[at] for at in asked], side.queries[asked], 10)
                ranked = [[collection.documents[row] for row in rows[one.hits.rows].tolist()] for one in found]
                grades = [{name: g for name, g in graded[at].items() if row_of.get(name) in rows} for at in asked]
                pairs = zip(ranked, grades, strict=True)
                scores[name][key][number] = np.mean([score_ranking(*pair).ndcg_at_10 for pair in pairs])
    return left_out(scores, scores[f"fixed {LEARNED_ELSEWHERE}"])


def of_three(benches: Mapping[str, Bench]) -> dict[str, Any]:
    """Words, static and brought, against words and brought alone with their best share."""
    two = {f"0 + {share}": (0.0, share) for share in (0.3, 0.4, 0.5)}
    three = {f"{own} + {share}": (own, share) for own in (0.25, 0.5, 1.0) for share in (0.2, 0.3, 0.4, 0.5)}
    scores = {
        name: {
            key: bench.asked(
                {"brought": fixed(share), **({"static": by_agreement(bench, "static", own)} if own else {})}
            )
            for key, bench in benches.items()
        }
        for name, (own, share) in {**two, **three}.items()
    }
    floor = left_out(scores, scores["0 + 0.4"], list(two))["leave_one_out"]
    best_two = {key: scores[line["setting"]][key] for key, line in floor.items()}
    return left_out(scores, best_two)


def of_oracle(benches: Mapping[str, Bench]) -> dict[str, Any]:
    """The better of several searches for each question."""
    lines: dict[str, dict[str, float]] = {}
    for key, bench in benches.items():
        static = bench.asked({"static": by_agreement(bench, "static")})
        brought = bench.asked({"brought": fixed(LEARNED_ELSEWHERE)})
        twice = bench.figures(
            [one.hits for one in Retriever(None, bench.lexical).find(bench.collection.questions, None, 100)]
        )
        shares = [bench.asked({"brought": fixed(share)}) for share in (0.001, 0.2, 0.4, 0.6, 0.8, 0.999)]
        searches = {"words twice": twice, "static": static, "brought": brought}
        lines[key] = {name: _points(values.mean()) for name, values in searches.items()}
        lines[key]["best of both"] = _points(np.maximum(static, brought).mean())
        lines[key]["best of these three"] = _points(np.maximum.reduce([*searches.values()]).mean())
        lines[key]["best share of brought"] = _points(np.maximum.reduce(shares).mean())
    mean = {
        name: round(float(np.mean([line[name] for line in lines.values()])), 2) for name in next(iter(lines.values()))
    }
    return {"collections": lines, "mean": mean}


def of_neighbours(benches: Mapping[str, Bench], name: str) -> dict[str, Any]:
    """Spread scores and smoothed vectors, with the encoder `static` or `lsi`."""
    plain = {key: bench.asked({name: by_agreement(bench, name)}) for key, bench in benches.items()}
    spread: Scores = {"none": plain}
    places = itertools.product((False, True), ("before", "after", "both"), (0, LONG), (0.15, 0.3))
    for stored, when, least, share in places:
        label = f"{share} {when}, {'stored' if stored else 'among candidates'}, {least} words"
        how = Spread(share, stored, when, least)
        spread[label] = {key: bench.asked({name: by_agreement(bench, name)}, how) for key, bench in benches.items()}
    smooth: Scores = {"none": plain}
    for share in (0.25, 0.5, 1.0):
        smooth[str(share)] = {
            key: bench.asked({name: by_agreement(bench, name)}, sides={name: bench.sides[name].smoothed(share)})
            for key, bench in benches.items()
        }
    return {"scores": left_out(spread, plain), "vectors": left_out(smooth, plain)}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of collections in the layout of BEIR")
    parser.add_argument(
        "--brought", type=Path, required=True, metavar="FOLDER", help="an encoder of sentence-transformers"
    )
    parser.add_argument("--vectors", type=Path, required=True, metavar="CACHE", help="a folder that keeps the vectors")
    parser.add_argument("--only", nargs="*", help="names of collections")
    parser.add_argument("--out", type=Path, default=RESULTS / "sides.json")
    asked = parser.parse_args()
    folders = sorted(path.parent for path in asked.data.glob("*/corpus.jsonl*"))
    opened = opened_sides(asked.brought, asked.vectors)
    benches = {one.name: Bench(one, opened) for one in folders if not asked.only or one.name in asked.only}
    if len(benches) < 2:
        parser.error(f"fewer than two collections in {asked.data}: none could be left out")
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "shares": lambda: of_shares(benches, "brought"),
        "shares_taught": lambda: of_shares(benches, "taught"),
        "few": lambda: of_few(benches),
        "three": lambda: of_three(benches),
        "oracle": lambda: of_oracle(benches),
        **{f"neighbours_{name}": lambda name=name: of_neighbours(benches, name) for name in ("static", "lsi")},
    }
    found: dict[str, Any] = {"measure": MEASURE, "unit": "points of 100"}
    for name, part in parts.items():
        found[name] = part()
        print(name, json.dumps(found[name]), flush=True)
    found |= {"machine": machine(), "versions": versions(["numpy", "scipy"])}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    used = {"shares": f"fixed {LEARNED_ELSEWHERE}", "few": f"fixed {ELSEWHERE_UNMEASURED}"}
    lines = ((part, line["setting"]) for part in used for line in found[part]["leave_one_out"].values())
    return 0 if all(setting == used[part] for part, setting in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
