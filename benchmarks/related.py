"""The limit below which an answer is merely near, chosen by leave-one-out on collections that people judged.

    python benchmarks/related.py --data collections/ --out benchmarks/results/related.json

Of each query the first 20 answers are looked at, by words (BM25), by vectors (LSI) and by both. A rule divides them into
answers that fulfil the query and answers that are merely near: by a share of the best score, or by the share of the query's
words that the text contains, each by its idf. The limit of a rule is chosen by Youden's J: the share of the relevant answers
that it keeps, minus the share of the others that it keeps. Of each collection the figure counts that has the limit which is
best in the mean of the others.

The control is the rank: a line after the first r answers, whatever they are, with r chosen in the same way. As the rank is
seen anyway, a rule is worth what it says beyond it: how much more often the answers that it keeps are relevant than the others
of the same rank (0 for the control), in the mean over ranks, each by the number of answers that there are to compare.

Exit code 0: by words and by both, the rule and the limit that `query` uses say something beyond the rank on every collection,
and in the mean more than the share of the best score does.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokens import machine

from wordpipe.search import CANDIDATES, RELATED, LatentSpace, LexicalIndex, Retriever, Tfidf, VectorTable
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages import open_collection

LOOKED_AT, DIM = 20, 200
USED = ("words", RELATED)
Shares = npt.NDArray[np.float32]
Facts = list[tuple[Shares, Shares, npt.NDArray[np.bool_]]]
"""Of each query, for its answers: the share of the best score, the share of its words, whether the answer is relevant."""

STEPS = np.round(np.arange(0.05, 1.01, 0.05), 2).tolist()
LIMITS: dict[str, list[float]] = {"score": STEPS, "words": STEPS, "control: rank": [*range(1, LOOKED_AT)]}
RULES: dict[str, Callable[[Shares, Shares, float], npt.NDArray[np.bool_]]] = {
    "score": lambda scores, _, limit: scores >= limit - 1e-6,
    "words": lambda _, words, limit: words >= limit - 1e-6,
    "control: rank": lambda scores, _, limit: np.arange(len(scores)) < limit,
}


def facts_of(folder: Path) -> dict[str, Facts]:
    """What is known of the first answers to every query of a collection, by mode of search."""
    collection = open_collection(folder)
    lexical = LexicalIndex.build(collection.passages, LexicalSettings())
    table = Tfidf.fit(collection.passages, lexical.analyser)
    space = LatentSpace.fit(table.vectors(collection.passages), DIM)
    documents_ND = space.vectors(table.vectors(collection.passages))
    queries_QD = space.vectors(table.vectors(collection.questions))
    ways = {
        "lexical": Retriever(None, lexical, feedback=0),
        "dense": Retriever(VectorTable(documents_ND), None),
        "hybrid": Retriever(VectorTable(documents_ND), lexical, 0.5),
    }
    found: dict[str, Facts] = {}
    for mode, way in ways.items():
        found[mode] = []
        for number, result in enumerate(way.find(collection.questions, queries_QD, CANDIDATES)):
            hits, question = result.hits.first(LOOKED_AT), collection.questions[number]
            if not len(hits):
                continue
            graded = collection.grades[collection.queries[number]]
            right = np.array([graded.get(collection.documents[row], 0) > 0 for row in hits.rows.tolist()])
            words = lexical.shares_of_words(question, hits.rows)
            found[mode].append((hits.scores / max(float(hits.scores[0]), 1e-9), words, right))
    return found


def youden(facts: Facts, rule: str, limit: float) -> float:
    """The share of the relevant answers that a rule keeps, minus the share of the others."""
    keep = np.concatenate([RULES[rule](scores, words, limit) for scores, words, _ in facts])
    right = np.concatenate([one for _, _, one in facts])
    return float(keep[right].mean() - keep[~right].mean())


def beyond_rank(facts: Facts, rule: str, limit: float) -> float:
    """How much more often answers that a rule keeps are relevant than others of the same rank."""
    gains, sizes = [0.0], [0.0]
    for rank in range(LOOKED_AT):
        some = [
            (RULES[rule](scores, words, limit)[rank], right[rank])
            for scores, words, right in facts
            if len(right) > rank
        ]
        kept, others = ([right for keep, right in some if bool(keep) is side] for side in (True, False))
        if kept and others:
            sizes.append(len(kept) * len(others) / len(some))
            gains.append(float(np.mean(kept)) - float(np.mean(others)))
    return float(np.dot(gains, sizes) / max(sum(sizes), 1e-9))


def shares(facts: Facts, rule: str, limit: float) -> dict[str, float]:
    """Of all answers: the share that is kept, and how many of the kept and of the others are relevant."""
    keep = np.concatenate([RULES[rule](scores, words, limit) for scores, words, _ in facts])
    right = np.concatenate([one for _, _, one in facts])
    return {
        "kept": round(float(keep.mean()), 4), "relevant_kept": round(float(right[keep].mean()), 4),
        "relevant_others": round(float(right[~keep].mean()), 4),
    }  # fmt: skip


def main() -> int:
    """Measure; exit code 0 if the figures are as the head of this file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    names = sorted(path.parent.name for path in asked.data.glob("*/corpus.jsonl"))
    facts = {name: facts_of(asked.data / name) for name in names}
    modes: dict[str, Any] = {}
    for mode in ("lexical", "dense", "hybrid"):
        own = {name: facts[name][mode] for name in names}
        rules: dict[str, Any] = {}
        for rule, limits in LIMITS.items():
            scores = {name: [youden(own[name], rule, limit) for limit in limits] for name in names}
            chosen = {
                name: limits[int(np.argmax(np.sum([scores[other] for other in names if other != name], axis=0)))]
                for name in names
            }
            left_out = {name: round(youden(own[name], rule, chosen[name]), 4) for name in names}
            beyond = {name: round(beyond_rank(own[name], rule, chosen[name]), 4) for name in names}
            rules[rule] = {"limit": chosen, "youden": left_out, "beyond_rank": beyond, "mean": mean(left_out, beyond)}
            print(mode, rule, json.dumps(rules[rule]), flush=True)
        beyond = {name: round(beyond_rank(own[name], *USED), 4) for name in names}
        used = {name: {"beyond_rank": beyond[name], **shares(own[name], *USED)} for name in names}
        modes[mode] = {"rules": rules, "used": used, "used_mean": mean(beyond)}
        print(mode, "used", json.dumps(modes[mode]["used"]), modes[mode]["used_mean"], flush=True)
    if asked.out:
        found = {"what": (__doc__ or "").splitlines()[0], "used": USED, "modes": modes, "machine": machine()}
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    held = [
        min(one["beyond_rank"] for one in modes[mode]["used"].values()) > 0
        and modes[mode]["used_mean"][0] > modes[mode]["rules"]["score"]["mean"][1]
        for mode in ("lexical", "hybrid")
    ]
    return int(not all(held))


def mean(*figures: dict[str, float]) -> list[float]:
    """The mean over collections of each of some figures."""
    return [round(float(np.mean([*one.values()])), 4) for one in figures]


if __name__ == "__main__":
    sys.exit(main())
