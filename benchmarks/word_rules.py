"""The rules by which words are the same, and their weights: what each brings on texts that it was not chosen on.

    python benchmarks/word_rules.py --data DIR                 writes benchmarks/results/word_rules.json

DIR has `retrieval/`, collections in the layout of BEIR, and `multilingual/`, a text in each language with a sentence in each
line. Three things are measured, in nDCG@10, by words alone.

`rules`: each rule that an index can be built without, on each collection: the difference of the index with all rules and the
index without this one, in the mean over questions, with an interval of 95 %.

`questions`: what it brings that the small words of a question are left out, where the language of the texts is recognised, and
where it is not known (`none`).

`weights`: what a form of a word weighs in a question beside the word itself. Of each weight some values are tried; the control
is an index without the rules that have such terms. The weights of English are chosen by leave-one-out: of each collection the
figure counts that has the value which is best in the mean of the other collections. The weights of Korean and Chinese
characters are chosen by halves: the first of five sentences is to find the other four, the value that is best for questions of
one half is measured on the other half, and the other way round.

Exit code 0: neither a rule nor leaving out small words lowers the mean beyond its interval, and no weight is worse than the
control by more than 0.1 points, neither the one that is used nor the ones that were chosen on other texts.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokens import machine

from wordpipe.metrics import QueryFigures, mean_interval
from wordpipe.search import SWITCHED, LexicalIndex, beir, small_in_question
from wordpipe.search.settings import LexicalSettings
from wordpipe.stages import open_collection

RESULTS = Path(__file__).parent.absolute() / "results"
COLLECTIONS = ("cranfield", "cisi", "npl", "cacm")
ENGLISH = "retrieval"
WEIGHTS: dict[str, tuple[str, tuple[str, ...], str]] = {  # text, rules that are switched off in the control, what it is
    "_LETTER_SHARE": (ENGLISH, ("single",), "a single letter"),
    "_SIGNS_SHARE": (ENGLISH, ("signs", "hyphens", "single"), "a single digit, and what signs join"),
    "_NOUN_SHARE": ("kor", ("particles",), "a Korean word without its particle"),
    "_PAIRS_SHARE": ("kor", ("syllables",), "pairs of the syllables of a Korean word"),
    "_CHARACTER_SHARE": ("zho-CN", ("single",), "the first, or last, of two Chinese characters"),
}
VALUES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75)
LEAST = 0.1  # points of nDCG@10
GROUP, DEPTH = 5, 10  # sentences that belong together; hits that count
Scores = npt.NDArray[np.float64]
"""nDCG@10 of each question."""


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with retrieval/ and multilingual/")
    parser.add_argument("--out", type=Path, default=RESULTS / "word_rules.json")
    args = parser.parse_args()
    collections = {name: open_collection(args.data / "retrieval" / name) for name in COLLECTIONS}
    built = {name: LexicalIndex.build(one.passages, LexicalSettings()) for name, one in collections.items()}
    whole = {name: judged(one, built[name]) for name, one in collections.items()}
    rules = {}
    for rule in SWITCHED:
        without = {
            name: judged(one, LexicalIndex.build(one.passages, LexicalSettings.make({"without_rules": (rule,)})))
            for name, one in collections.items()
        }
        rules[rule] = brings(whole, without)
        print(f"{rule:14} {json.dumps(rules[rule])}", flush=True)
    questions = {}
    for language in ("auto", "none"):
        settings = LexicalSettings.make({"language": language})
        own = {name: LexicalIndex.build(one.passages, settings) for name, one in collections.items()}
        with_all = {name: judged(one, own[name]) for name, one in collections.items()}
        without = {name: judged(one, own[name], without_small) for name, one in collections.items()}
        questions[language] = brings(without, with_all)
        print(f"{language:14} {json.dumps(questions[language])}", flush=True)
    weights: dict[str, Any] = {}
    for name, (text, off, what) in WEIGHTS.items():
        settings = LexicalSettings.make({"without_rules": off})
        if text == ENGLISH:
            used = built
            control = {key: judged(one, LexicalIndex.build(one.passages, settings)) for key, one in collections.items()}
            measure = partial(of_collections, collections, built)
        else:
            lines = (args.data / "multilingual" / f"{text}.txt").read_text(encoding="utf-8").splitlines()
            used = {text: LexicalIndex.build(lines, LexicalSettings())}
            control = halves(lines, LexicalIndex.build(lines, settings))
            measure = partial(halves, lines, used[text])
        tried = {value: with_weight(name, value, measure, used) for value in VALUES}
        weights[name] = {"what": what, "text": text, "control_without": off, **left_out(name, tried, control)}
        print(f"{name:16} {json.dumps(weights[name])}", flush=True)
    found = {"rules": rules, "questions": questions, "weights": weights, "machine": machine()}
    args.out.write_text(json.dumps(found, indent=1) + "\n")
    is_sound = all(one["mean"]["high"] >= 0 for one in [*rules.values(), *questions.values()])
    return (
        0
        if is_sound
        and all(min(one["used_over_control"], one["left_out_over_control"]) >= -LEAST for one in weights.values())
        else 1
    )


def as_asked(question: str, index: LexicalIndex) -> str:
    """Return a question as it is."""
    del index
    return question


def without_small(question: str, index: LexicalIndex) -> str:
    """Return a question without its small words, as `query` ranks by it; as it is where no other word stands in the texts."""
    small = small_in_question(question.split(), index.settings.language)
    others = [word for word in question.split() if word not in small]
    return " ".join(others) if any(map(index.knows, others)) else question


def judged(collection: Any, index: LexicalIndex, read: Callable[[str, LexicalIndex], str] = as_asked) -> Scores:
    """Return nDCG@10 of each question of a collection, as it is read."""
    hits = index.search([read(question, index) for question in collection.questions], 100)
    scores = beir.scores(collection, beir.rankings(collection, hits, drop_identical=False))
    found: Scores = scores[:, QueryFigures._fields.index("ndcg_at_10")]
    return found


def of_collections(collections: dict[str, Any], indexes: dict[str, LexicalIndex]) -> dict[str, Scores]:
    """Return nDCG@10 of the questions of each collection."""
    return {name: judged(one, indexes[name]) for name, one in collections.items()}


def halves(lines: Sequence[str], index: LexicalIndex) -> dict[str, Scores]:
    """Return nDCG@10 of the first of five sentences, which is to find the other four, for two halves of the questions."""
    discounts = 1 / np.log2(np.arange(DEPTH) + 2)
    firsts = range(0, len(lines) - GROUP + 1, GROUP)
    found = []
    for first, hits in zip(firsts, index.search([lines[at] for at in firsts], DEPTH + 1), strict=True):
        rows = hits.rows[hits.rows != first][:DEPTH]
        right = (rows // GROUP == first // GROUP).astype(np.float64)
        found.append(float(right @ discounts[: len(rows)]) / float(discounts[: GROUP - 1].sum()))
    return {"odd": np.array(found[1::2]), "even": np.array(found[::2])}


def brings(whole: dict[str, Scores], without: dict[str, Scores]) -> dict[str, Any]:
    """Return what a rule adds to nDCG@10, in points, on each collection and in the mean of all questions."""
    gains = {name: 100 * (whole[name] - without[name]) for name in whole}
    found: dict[str, Any] = {name: interval(gain) for name, gain in gains.items()}
    return found | {"mean": interval(np.concatenate([*gains.values()]))}


def interval(gains: Scores) -> dict[str, float]:
    """Return a mean with its interval of 95 %, and how many questions it changes."""
    known = mean_interval(gains)
    low, high = (0.0, 0.0) if known is None else known
    changed = int(np.count_nonzero(np.abs(gains) > 1e-9))
    return {"points": round(float(gains.mean()), 3), "low": round(low, 3), "high": round(high, 3), "changed": changed}


def with_weight(
    name: str, value: float, measure: Callable[[], dict[str, Scores]], indexes: dict[str, LexicalIndex]
) -> dict[str, Scores]:
    """Return what is measured while a weight has another value; an index does not depend on it, questions do."""
    analysis = import_module("wordpipe.search.lexical.analysis")
    before = getattr(analysis, name)
    try:
        setattr(analysis, name, value)
        for index in indexes.values():
            index.__dict__.pop("analyser", None)  # which remembers words with their weights
        return measure()
    finally:
        setattr(analysis, name, before)
        for index in indexes.values():
            index.__dict__.pop("analyser", None)


def left_out(name: str, tried: dict[float, dict[str, Scores]], control: dict[str, Scores]) -> dict[str, Any]:
    """Return nDCG@10 of each value, and of each text with the value that is best for the others."""
    used = getattr(import_module("wordpipe.search.lexical.analysis"), name)
    means = {value: {text: float(scores.mean()) for text, scores in one.items()} for value, one in tried.items()}
    texts = [*next(iter(means.values()))]
    chosen = {
        text: max(means, key=lambda value: sum(means[value][other] for other in texts if other != text))
        for text in texts
    }

    def mean_of(value_of: Callable[[str], float]) -> float:
        return 100 * float(np.mean([means[value_of(text)][text] for text in texts]))

    without = 100 * float(np.mean([scores.mean() for scores in control.values()]))
    by_value = {str(value): round(mean_of(lambda _, value=value: value), 3) for value in means}  # type: ignore[misc]
    return {
        "used": used, "chosen": chosen, "by_value": by_value, "left_out": round(mean_of(lambda text: chosen[text]), 3),
        "control": round(without, 3), "used_over_control": round(mean_of(lambda _: used) - without, 3),
        "left_out_over_control": round(mean_of(lambda text: chosen[text]) - without, 3),
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
