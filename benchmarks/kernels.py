"""A ranker that learns from the texts alone, on top of hybrid search: kernels of the similarities of words (K-NRM).

    python benchmarks/kernels.py --data DIR --cache CACHE        writes benchmarks/results/kernels.json

DIR has collections in the layout of BEIR (Cranfield, CISI, NPL, CACM), CACHE keeps vectors for the next run. Every word of a
question is compared with every word of a text by word2vec of the collection's stems; nine kernels count similarities near 0.1,
0.2, … 0.9 and one equal words, each summed over the text, in logarithms, and weighted by idf over the question, also with the
text's length taken out. A linear score of these learns to find the source of a title, or of 5 to 15 words in a row, among
eight texts that stand at ranks 5 to 100 of BM25. The source has lost the title or the words, and the others as much; in half
of the pairs some words of the question are lost by all of them. No vector has seen the source, as the vectors are trained
without each third of the collection: otherwise the words of a text are near each other just because they stand in it, and the
score learns that.

The score is mixed into the first 100 of hybrid search (a static encoder trained on the texts, feedback) by 0.05 to 0.4. Of
each collection the figure counts that has the setting which is best in the mean of the others. Controls: kernels with fixed
weights, with labels drawn by chance, and with vectors drawn by chance; and all of it on top of BM25.

Source: Xiong et al. 2017, "End-to-End Neural Ad-hoc Ranking with Kernel Pooling". Exit code 0: it gains less than 0.5 points.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from peers.measure import versions
from scipy.optimize import minimize
from scipy.special import softmax
from sides import DEPTH, MEASURE, RESULTS, Bench, Scores, _side, left_out
from tokens import machine

import wordpipe
from wordpipe.metrics import unit_rows
from wordpipe.search import Analyser, Hits, Retriever, best_of, normalised

FOLDS, SEEDS, PAIRS, OTHERS, WORTH = 3, (0, 1), 5_000, 8, 0.5
KERNELS, WIDTH = np.arange(1, 10, dtype=np.float32) / 10, np.float32(0.07)
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
FIXED = np.concatenate([np.zeros(len(KERNELS) + 1), np.where(KERNELS > 0.25, KERNELS, 0), [1]])
Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Learner:
    """The stems of one collection, their vectors, and what is learned of them."""

    def __init__(self, bench: Bench, cache: Path) -> None:
        self.bench, self.cache = bench, cache
        self.analyse, self.number = Analyser(bench.lexical.settings.language), dict[str, int]()
        stems = [self.analyse(text) for text in bench.collection.passages]
        for stem in (stem for some in stems for stem in some):
            self.number.setdefault(stem, len(self.number))
        self.texts = [self.ids(some) for some in stems]
        df = np.bincount(np.concatenate([np.unique(ids) for ids in self.texts]), minlength=len(self.number))
        self.idf = np.log(1 + (len(self.texts) - df + 0.5) / (df + 0.5)).astype(np.float32)
        self.mean_length = float(np.mean([len(ids) for ids in self.texts]))
        self.fold = np.random.default_rng(11).permutation(len(self.texts)) % FOLDS

    def ids(self, stems: list[str]) -> Ids:
        """Return the numbers of stems that the collection has."""
        return np.array([self.number[stem] for stem in stems if stem in self.number], np.int64)

    def vectors(self, fold: int | None, chance: bool) -> Floats:
        """Return unit vectors of all stems, (V, D), by the texts outside a fold; zero for stems that only the fold has."""
        if chance:
            return unit_rows(np.random.default_rng(3).standard_normal((len(self.number), 100)), least=1e-6)[0]
        folder = self.cache / ("all" if fold is None else f"without-{fold}")
        if not (folder / "words").exists():
            folder.mkdir(parents=True, exist_ok=True)
            some = [ids for ids, of in zip(self.texts, self.fold.tolist(), strict=True) if of != fold and len(ids)]
            (folder / "t.txt").write_text("\n\n".join(" ".join(f"w{stem}" for stem in ids) for ids in some) + "\n")
            wordpipe.ingest(folder / "t.txt", output=folder / "corpus", documents="block", deduplicate=False)
            wordpipe.tokenize(folder / "corpus", output=folder / "tokens", algorithm="word")
            wordpipe.train_word2vec(folder / "tokens", output=folder / "words", threads=1, min_count=1)
        words: Any = wordpipe.open(folder / "words")
        known = np.array([f"w{stem}" in words for stem in range(len(self.number))])
        vectors = np.zeros((len(known), words.dim), np.float32)
        vectors[known] = [words[f"w{stem}"] for stem in np.flatnonzero(known)]
        vectors[known] -= vectors[known].mean(axis=0)
        return unit_rows(vectors, least=1e-6)[0]

    def features(self, vectors: Floats, query: Ids, texts: list[Ids]) -> Floats:
        """Return what the kernels find of a query in R texts, (R, 20) float32."""
        own, times = np.unique(query, return_counts=True)
        weights = self.idf[own] * times / max(float((self.idf[own] * times).sum()), 1e-6)
        every, at = np.unique(np.concatenate([*texts, own]), return_inverse=True)
        near, equal = vectors[own] @ vectors[every].T, own[:, None] == every
        kernels = [np.exp(-0.5 * ((near - middle) / WIDTH) ** 2) * ~equal for middle in KERNELS]
        found = np.stack([*kernels, equal.astype(np.float32)])[:, :, at]  # (K, T, words of all texts)
        ends = np.cumsum([0, *(len(ids) for ids in texts)])
        before = np.pad(np.cumsum(found, axis=2, dtype=np.float64), ((0, 0), (0, 0), (1, 0)))
        sums = np.diff(before[:, :, ends], axis=2)
        damping = 0.25 + 0.75 * np.diff(ends) / self.mean_length
        both = np.log1p(np.concatenate([sums, sums / damping])).astype(np.float32)
        return np.einsum("ktr,t->rk", both, weights)

    def pairs(self, seed: int) -> list[tuple[int, Ids, list[Ids]]]:
        """Return the fold, the query and the texts, the right one first, of at most 5,000 pairs."""
        rng, collection, lexical = np.random.default_rng(seed), self.bench.collection, self.bench.lexical
        found: list[tuple[int, Ids, list[Ids]]] = []
        titles = [self.ids(self.analyse(title)) for title in collection.titles]
        for row in rng.permutation(np.repeat(np.arange(len(self.texts)), 8)).tolist():
            words, titled = collection.texts[row].split(), bool(len(titles[row])) and rng.random() < 0.15
            if len(words) < 12 or len(found) == PAIRS:
                continue
            size = min(int(rng.integers(5, 16)), len(words) // 2)
            start = int(rng.integers(len(words) - size + 1))
            text = collection.titles[row] if titled else " ".join(words[start : start + size])
            query = self.ids(self.analyse(text))
            rest = (
                self.ids(self.analyse(" ".join(words[:start]))),
                self.ids(self.analyse(" ".join(words[start + size :]))),
            )
            right = self.texts[row][len(titles[row]) :] if titled else np.concatenate([titles[row], *rest])
            ranked = lexical.search([text], 100)[0].rows[4:]
            near = ranked[(ranked != row) & (self.fold[ranked] == self.fold[row])]
            if len(np.unique(query)) < 3 or len(near) < OTHERS:
                continue
            texts = [right]
            for other in rng.choice(near, OTHERS, replace=False).tolist():
                ids, title = self.texts[other], len(titles[other])
                cut = title + int(rng.integers(max(len(ids) - title - len(query), 0) + 1))
                texts.append(ids[title:] if titled else np.delete(ids, slice(cut, cut + len(query))))
            lost = rng.choice(np.unique(query), len(np.unique(query)) // 2) if rng.random() < 0.5 else query[:0]
            texts = [ids[~np.isin(ids, lost)] for ids in texts]
            if all(map(len, texts)):
                found.append((int(self.fold[row]), query, texts))
        return found

    def scores(self, hits: list[Hits], weights: Floats, chance: bool = False) -> list[Floats]:
        """Return the scores of the hits of every question."""
        vectors, queries = (
            self.vectors(None, chance),
            [self.ids(self.analyse(text)) for text in self.bench.collection.questions],
        )
        return [
            self.features(vectors, query, [self.texts[row] for row in one.rows]) @ weights
            for query, one in zip(queries, hits, strict=True)
        ]

    def learned(self, seed: int, chance: bool = False) -> tuple[Floats, Floats]:
        """Return the weights, (20,), by which the right text stands out, and those by which one drawn by chance does."""
        of_fold = [self.vectors(fold, chance) for fold in range(FOLDS)]
        found = np.array([self.features(of_fold[fold], query, texts) for fold, query, texts in self.pairs(seed)])
        drawn = np.random.default_rng(seed).integers(0, OTHERS + 1, len(found))
        return _weights(found, np.zeros_like(drawn)), _weights(found, drawn)


def _weights(found: Floats, right: Ids) -> Floats:
    """Fit the softmax of linear scores of P lists of texts, (P, R, K), to the right one of each, (P,)."""
    width = found.reshape(-1, found.shape[2]).std(axis=0) + 0.02
    ready, at = (found / width).astype(np.float64), (np.arange(len(found)), right)

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        chances = softmax(ready @ weights, axis=1)
        missed = -np.log(chances[at] + 1e-30).mean() + 0.001 * (weights**2).sum()
        chances[at] -= 1
        return float(missed), np.einsum("pr,prk->k", chances, ready) / len(ready) + 0.002 * weights

    return (minimize(loss, np.zeros(found.shape[2]), jac=True, method="L-BFGS-B").x / width).astype(np.float32)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of collections in the layout of BEIR")
    parser.add_argument("--cache", type=Path, required=True, help="a folder that keeps vectors")
    parser.add_argument("--out", type=Path, default=RESULTS / "kernels.json")
    asked = parser.parse_args()
    scores: dict[str, dict[str, Scores]] = {"hybrid": {}, "bm25": {}}
    floors: dict[str, dict[str, Any]] = {"hybrid": {}, "bm25": {}}
    for folder in sorted(path.parent for path in asked.data.glob("*/corpus.jsonl*")):
        bench = Bench(folder, lambda *its: {"static": _side("static", *its, Path(), asked.cache)})
        side, questions = bench.sides["static"], bench.collection.questions
        found = Retriever(side.table, bench.lexical, side.agreement).find(questions, side.queries, DEPTH)
        learner = Learner(bench, asked.cache / folder.name)
        learned = [learner.learned(seed) for seed in SEEDS]
        ways: dict[str, list[tuple[Floats, bool]]] = {
            "learned": [(weights, False) for weights, _ in learned],
            "fixed": [(FIXED.astype(np.float32), False)],
            "labels_by_chance": [(weights, False) for _, weights in learned],
            "vectors_by_chance": [(learner.learned(seed, chance=True)[0], True) for seed in SEEDS],
        }
        for floor, hits in (("hybrid", [one.hits for one in found]), ("bm25", bench.worded)):
            plain = floors[floor][folder.name] = bench.figures(hits)
            for way, seeds in ways.items():
                own = [learner.scores(hits, *given) for given in seeds]
                of_way = scores[floor].setdefault(way, {"0": {}})
                of_way["0"][folder.name] = plain
                for share in SHARES:
                    mixed = [[_mixed(*pair, share) for pair in zip(hits, some, strict=True)] for some in own]
                    figures = np.mean([bench.figures(one) for one in mixed], axis=0)
                    of_way.setdefault(str(share), {})[folder.name] = figures
        means = {
            share: round(100 * float(of[folder.name].mean()), 2) for share, of in scores["hybrid"]["learned"].items()
        }
        print(folder.name, means, flush=True)
    result = {
        "measure": MEASURE, "unit": "points of 100", "seeds": SEEDS,
        **{f"above_{floor}": {way: left_out(of, floors[floor]) for way, of in ways.items()} for floor, ways in scores.items()},
        "machine": machine(), "versions": versions(["numpy", "scipy"]),
    }  # fmt: skip
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    above = {key: {way: one["above"] for way, one in result[key].items()} for key in ("above_hybrid", "above_bm25")}
    print(json.dumps(above))
    return 0 if above["above_hybrid"]["learned"] < WORTH else 1


def _mixed(hits: Hits, scores: Floats, share: float) -> Hits:
    rows = hits.rows
    return best_of(rows, normalised(hits) + np.float32(share) * normalised(Hits(rows, scores)), len(rows))


if __name__ == "__main__":
    raise SystemExit(main())
