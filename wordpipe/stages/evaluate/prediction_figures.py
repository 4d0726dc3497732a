"""The figures of what systems say of labelled texts: measures, intervals, differences, and tables of labels.

Every measure but Spearman's correlation is a sum over the texts, `rows` (N, K), and a score of the sum: one bootstrap serves
all of them, and two systems are drawn together (Koehn 2004).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.heads import calibration_error, chunks_of
from wordpipe.metrics import (
    answer_f1,
    correlation_interval,
    correlation_of,
    correlation_statistics,
    exact_match,
    f1_of,
    label_score,
    label_statistics,
    macro_f1_of,
    most_confused,
    paired_score_difference,
    ratio_of,
    right_given_there,
    score_interval,
    spearman,
)
from wordpipe.stages.evaluate.labelled import Kind, LabelledTexts
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.number]
Measure = tuple[Rows, Callable[[Any], Any]]
"""What each text adds, (N, K), and the score of a sum of it."""

MAIN: dict[Kind, str] = {
    "single": "accuracy", "several": "micro_f1", "score": "pearson", "tags": "span_f1", "answers": "f1",
}  # fmt: skip
"""Kind → the measure by which a model and a baseline are compared."""

_SIGNIFICANT = 0.05
_MOST_NUMBERS = 1 << 24  # texts × labels × 3 of which the macro F1 is drawn
_ROWS_AT_ONCE = 4_096
_WHOLE_TABLE, _MOST_CONFUSED = 30, 20  # labels of a confusion table; pairs that are listed beside it


@dataclass
class System:
    """A system and what it says of N texts."""

    system: str  # model, majority, tfidf, gazetteer or sentence
    name: str  # its own, or the path of the model
    said: list[Any]  # as the gold labels are; of questions one answer
    sure: list[Any] | None = (
        None  # probabilities of what is said: of a label, of each label, of each span, of the answer
    )
    labels: tuple[str, ...] = ()  # that a model knows
    counts: dict[str, int] = field(default_factory=dict)


class Figures:
    """The figures of all systems for the same texts."""

    def __init__(
        self, kind: Kind, texts: LabelledTexts, systems: Sequence[System], settings: PredictionsEvaluationSettings
    ) -> None:
        self._kind, self._texts, self._systems, self._settings = kind, texts, systems, settings
        self._sets = [_as_sets(kind, one.said) for one in systems]
        self._gold = _as_sets(kind, texts.gold)
        self._labels = sorted(
            {_label_of(one) for some in (self._gold, *self._sets) for things in some for one in things}
        )
        self._measures = [dict(self._measured(number)) for number in range(len(systems))]

    def shown(self) -> list[dict[str, Any]]:
        """Every system in the report."""
        return [self._system(number) for number in range(len(self._systems))]

    def _system(self, number: int) -> dict[str, Any]:
        one, by_label = self._systems[number], self._by_label(number)
        metrics, intervals = dict[str, float](), dict[str, list[float] | None]()
        draws, seed = self._settings.draws, self._settings.seed
        for name, (rows, score) in self._measures[number].items():
            metrics[name] = round(float(score(rows.sum(axis=0, dtype=np.float64))), 6)
            drawn = score_interval(rows, score, draws=draws, seed=seed) if draws else None
            intervals[name] = None if drawn is None else np.round(drawn, 6).tolist()
        if self._kind == "single":
            metrics["micro_f1"], intervals["micro_f1"] = metrics["accuracy"], intervals["accuracy"]
        if self._kind in ("single", "several") and "macro_f1" not in metrics:
            metrics["macro_f1"] = round(float(macro_f1_of(self._sums(number))), 6)
        if self._kind == "score":
            given, true = np.array(one.said, np.float64), np.array(self._texts.gold, np.float64)
            metrics["spearman"] = round(spearman(given, true) or 0.0, 6)
            drawn = correlation_interval(given, true, ranked=True, draws=draws, seed=seed) if draws else None
            intervals["spearman"] = None if drawn is None else np.round(drawn, 6).tolist()
        if (error := self._calibration(number)) is not None:
            metrics["calibration_error"] = round(error, 6)
        against = self._against(number)
        return {
            "system": one.system, "name": one.name, "metrics": metrics, "intervals": intervals, "against": against,
            "best_baseline": self._best_baseline(number, against), "by_label": by_label, **self._confusion(number),
            "unknown_labels": self._unknown(one), "counts": one.counts,
        }  # fmt: skip

    def _measured(self, number: int) -> Iterator[tuple[str, Measure]]:
        """The measures of a system that are sums."""
        said, gold, sets = self._systems[number].said, self._texts.gold, self._sets[number]
        if self._kind == "score":
            given, true = np.array(said, np.float64), np.array(gold, np.float64)
            yield "pearson", (correlation_statistics(given, true), correlation_of)
            yield "rmse", (_of_each((given - true) ** 2), lambda sums: np.sqrt(ratio_of(sums)))
        elif self._kind == "answers":
            exact, f1 = exact_match(said, gold, normalised=True), answer_f1(said, gold)
            yield "f1", (_of_each(f1), ratio_of)
            yield "exact_match", (_of_each(exact), ratio_of)
            none = np.array(["" in one for one in gold])
            if none.any() and not none.all():
                yield "answered_f1", (np.stack([f1 * ~none, ~none], axis=1).astype(np.float64), ratio_of)
                yield "unanswered_exact", (np.stack([exact * none, none], axis=1).astype(np.float64), ratio_of)
        elif self._kind == "tags":
            found = right_given_there(sets, self._gold)
            yield "span_f1", (found, f1_of)
            yield "span_precision", (found[:, [0, 1]], ratio_of)
            yield "span_recall", (found[:, [0, 2]], ratio_of)
            same = [[a == b for a, b in zip(one, other, strict=True)] for one, other in zip(said, gold, strict=True)]
            yield "accuracy", (np.array([(sum(one), len(one)) for one in same], np.float64), ratio_of)
        else:
            right = np.array([one == other for one, other in zip(sets, self._gold, strict=True)], np.float64)
            if self._kind == "single":
                yield "accuracy", (_of_each(right), ratio_of)
            else:
                yield "micro_f1", (right_given_there(sets, self._gold), f1_of)
            if 3 * len(gold) * len(self._labels) <= _MOST_NUMBERS:
                yield "macro_f1", (label_statistics(sets, self._gold, self._labels), macro_f1_of)
            if self._kind == "several":
                yield "exact_match", (_of_each(right), ratio_of)

    def _sums(self, number: int) -> Floats:
        """Of each label how often it is right, given and there, (3 V,)."""
        sums, sets = np.zeros(3 * len(self._labels)), self._sets[number]
        if self._kind == "tags":
            for place, label in enumerate(self._labels):
                some = (
                    [{one for one in things if one.label == label} for things in every] for every in (sets, self._gold)
                )
                sums[place :: len(self._labels)] = right_given_there(*some).sum(axis=0)
            return sums
        for first in range(0, len(sets), _ROWS_AT_ONCE):
            at = slice(first, first + _ROWS_AT_ONCE)
            sums += label_statistics(sets[at], self._gold[at], self._labels).sum(axis=0, dtype=np.float64)
        return sums

    def _by_label(self, number: int) -> dict[str, dict[str, float]]:
        if self._kind in ("score", "answers"):
            return {}
        found = {}
        for label, sums in zip(self._labels, self._sums(number).reshape(3, -1).T.astype(int).tolist(), strict=True):
            one = label_score(*sums)
            found[label] = {
                "precision": round(one.precision, 6), "recall": round(one.recall, 6), "f1": round(one.f1, 6),
                "support": one.support,
            }  # fmt: skip
        return found

    def _calibration(self, number: int) -> float | None:
        one, sets = self._systems[number], self._sets[number]
        if not one.sure:
            return None
        if self._kind == "several":
            there = np.array([[label in gold for label in one.labels] for gold in self._gold], np.bool_)
            return calibration_error(np.stack(one.sure).ravel(), there.ravel())
        if self._kind == "tags":
            spans = [chunks_of(tags) for tags in one.said]
            right = [span in gold for some, gold in zip(spans, self._gold, strict=True) for span in some]
            sure = [probability for some in one.sure for probability in some]
            return calibration_error(np.array(sure), np.array(right)) if len(sure) == len(right) > 0 else None
        if self._kind == "answers":
            good = exact_match(one.said, self._texts.gold, normalised=True) > 0
        else:
            good = np.array([a == b for a, b in zip(sets, self._gold, strict=True)])
        return calibration_error(np.array(one.sure), good)

    def _against(self, number: int) -> dict[str, dict[str, Any]]:
        """How a model differs from every other system, text by text."""
        if self._systems[number].system != "model" or not self._settings.draws:
            return {}
        return {
            other.name: {
                name: self._difference(number, place, name) for name in self._measures[number] if name in self._measures[place]
            }
            for place, other in enumerate(self._systems) if place != number
        }  # fmt: skip

    def _difference(self, number: int, other: int, name: str) -> dict[str, Any] | None:
        (one_NK, score), (other_NK, _) = self._measures[number][name], self._measures[other][name]
        found = paired_score_difference(
            one_NK, other_NK, score, draws=self._settings.draws, seed=self._settings.seed
        )  # fmt: skip
        if found is None:
            return None
        return {"difference": round(found.mean, 6), "interval": np.round(found.interval, 6).tolist(), "p": found.p}

    def _best_baseline(self, number: int, against: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """The baseline that is best by the main measure, and whether a model is above it; None where nothing was drawn."""
        main = MAIN[self._kind]
        floors = [place for place, one in enumerate(self._systems) if one.system != "model"]
        if not against or not floors:
            return None
        best = max(floors, key=lambda place: float(self._value(place, main)))
        found = against[self._systems[best].name][main]
        if found is None:
            return None
        above = found["difference"] > 0 and found["p"] < _SIGNIFICANT
        return {"baseline": self._systems[best].name, "measure": main, **found, "significant": bool(above)}

    def _value(self, number: int, name: str) -> float:
        rows, score = self._measures[number][name]
        return float(score(rows.sum(axis=0, dtype=np.float64)))

    def _confusion(self, number: int) -> dict[str, Any]:
        if self._kind != "single":
            return {"confusion": None, "confused": []}
        said, gold = self._systems[number].said, self._texts.gold
        first = dict[tuple[str, str], str]()
        counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        for given, true, where in zip(said, gold, self._texts.where, strict=True):
            first.setdefault((true, given), where)
            counts[true, given] += 1
        table = [[counts[true, given] for given in self._labels] for true in self._labels] \
            if len(self._labels) <= _WHOLE_TABLE else None  # fmt: skip
        return {
            "confusion": None if table is None else {"labels": self._labels, "table": table},
            "confused": [
                {"true": true, "given": given, "count": count, "first": first[true, given]}
                for true, given, count in most_confused(said, gold, _MOST_CONFUSED)
            ],
        }

    def _unknown(self, one: System) -> dict[str, dict[str, Any]]:
        """Gold labels that a model does not know: whatever it says of these texts is wrong."""
        if not one.labels or self._kind in ("score", "answers"):
            return {}
        known = {label.label for label in chunks_of(one.labels)} if self._kind == "tags" else {*one.labels}
        found: dict[str, dict[str, Any]] = {}
        for things, where in zip(self._gold, self._texts.where, strict=True):
            for label in sorted({_label_of(thing) for thing in things} - known):
                found.setdefault(label, {"count": 0, "first": where})["count"] += 1
        return found


def _as_sets(kind: Kind, values: Sequence[Any]) -> list[set[Any]]:
    """What is said of each text as a set of labels, of tags as a set of spans; of other kinds nothing."""
    if kind in ("score", "answers"):
        return [set() for _ in values]
    return [{*chunks_of(one)} if kind == "tags" else {one} if kind == "single" else {*one} for one in values]


def _label_of(thing: Any) -> str:
    return thing if isinstance(thing, str) else str(thing.label)


def _of_each(values_N: Floats) -> Floats:
    """Rows of a mean, (N, 2)."""
    return np.stack([values_N, np.ones(len(values_N))], axis=1)
