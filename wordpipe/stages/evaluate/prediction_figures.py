"""The figures of what systems say of labelled texts: measures, intervals, differences, and tables of labels.

Every measure but Spearman's correlation is a sum over the texts, `rows` (N, K), and a score of the sum: one bootstrap serves
all of them, and two systems are drawn together (Koehn 2004).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.heads import calibration_error, chunks_of
from wordpipe.metrics import (
    SIGNIFICANT,
    Apart,
    Figure,
    Measured,
    Part,
    Table,
    answer_f1,
    correlation_interval,
    correlation_of,
    correlation_statistics,
    exact_match,
    f1_of,
    in_json,
    label_score,
    label_statistics,
    listed,
    macro_f1_of,
    most_confused,
    ratio_of,
    right_given_there,
    rounded,
    side_by_side,
    spearman,
)
from wordpipe.metrics import System as Shown
from wordpipe.stages.evaluate.labelled import Kind, LabelledTexts
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings
from wordpipe.wording import counted, short_name

Floats = npt.NDArray[np.float64]
MAIN: dict[Kind, str] = {
    "single": "accuracy", "several": "micro_f1", "score": "pearson", "tags": "span_f1", "answers": "f1",
}  # fmt: skip
"""Kind → the measure by which a model and a baseline are compared."""

_MOST_NUMBERS = 1 << 24  # texts × labels × 3 of which the macro F1 is drawn
_ROWS_AT_ONCE = 4_096
_WHOLE_TABLE, _MOST_CONFUSED = 30, 20  # labels of a confusion table; pairs that are listed beside it
_MOST_LABELS, _MOST_COLUMNS, _MOST_PAIRS = 40, 10, 10  # the same on the screen; JSON has more
_NAME_WIDTH, _LABEL_WIDTH, _HEAD_WIDTH = 20, 24, 12
_HEADS = {
    ("majority", "single"): "commonest\nlabel", ("majority", "several"): "commonest\nlabels", ("majority", "score"): "mean",
    ("majority", "tags"): "commonest\ntag", ("majority", "answers"): "no answer", ("tfidf", ""): "TF-IDF,\nlinear model",
    ("gazetteer", ""): "gazetteer", ("sentence", ""): "best sentence\n(BM25)",
}  # fmt: skip
_ORDER: dict[Kind, tuple[str, ...]] = {
    "single": ("accuracy", "macro_f1", "calibration_error"),
    "several": ("micro_f1", "macro_f1", "exact_match", "calibration_error"),
    "score": ("pearson", "spearman", "rmse"),
    "tags": ("span_f1", "span_precision", "span_recall", "accuracy", "calibration_error"),
    "answers": ("f1", "exact_match", "answered_f1", "unanswered_exact", "calibration_error"),
}
_WITHOUT_INTERVAL = ("span_precision", "span_recall", "calibration_error")


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

    def systems(self) -> list[Shown]:
        """Every system in the report."""
        apart = [self._apart(number) for number in range(len(self._systems))]
        return [self._system(number, apart) for number in range(len(self._systems))]

    def _system(self, number: int, apart: Sequence[Mapping[int, Mapping[str, Apart | None]]]) -> Shown:
        one, draws, seed = self._systems[number], self._settings.draws, self._settings.seed
        below = {
            label: others.get(number, {}) for label, others in zip(self._labels_above(), apart, strict=True) if label
        }
        figures = [
            measured.figure(key, draws, seed, below={label: some.get(key) for label, some in below.items() if some})
            for key, measured in self._measures[number].items()
        ]
        # figures that are no sums; what the table shows of all
        found = {one.key: one for one in [*figures, *self._others(number, figures)]}
        order = _ORDER[self._kind]
        shown = [_as_shown(self._kind, found[key]) for key in order if key in found]
        against = {self._systems[place].name: in_json(some) for place, some in apart[number].items()}
        facts = {
            "system": one.system, "name": one.name, "against": against, "best_baseline": self._best_baseline(number, against),
            "by_label": self._by_label(number), **self._confusion(number), "unknown_labels": self._unknown(one),
            "counts": one.counts,
        }  # fmt: skip
        return Shown(head_of(one.system, one.name, self._kind), [*found.values()], facts, shown)

    def _labels_above(self) -> list[str]:
        """What is said of how far a model is above another system; empty: the system is no model."""
        models = [one for one in self._systems if one.system == "model"]
        return [
            "" if one.system != "model" else "model above" if len(models) == 1
            else f"above: {short_name(one.name, _NAME_WIDTH - 9)}"
            for one in self._systems
        ]  # fmt: skip

    def _others(self, number: int, figures: Sequence[Figure]) -> Iterator[Figure]:
        """The figures that are no sums over the texts."""
        draws, seed = self._settings.draws, self._settings.seed
        there = {one.key: one for one in figures}
        if self._kind == "single":
            yield replace(there["accuracy"], key="micro_f1")
        if self._kind in ("single", "several") and "macro_f1" not in there:
            yield Figure("macro_f1", rounded(float(macro_f1_of(self._sums(number)))))
        if self._kind == "score":
            given, true = np.array(self._systems[number].said, np.float64), np.array(self._texts.gold, np.float64)
            drawn = correlation_interval(given, true, ranked=True, draws=draws, seed=seed) if draws else None
            yield Figure("spearman", rounded(spearman(given, true) or 0.0), listed(drawn), drawn=True)
        if (error := self._calibration(number)) is not None:
            yield Figure("calibration_error", rounded(error))

    def _measured(self, number: int) -> Iterator[tuple[str, Measured]]:
        """The measures of a system that are sums."""
        said, gold, sets = self._systems[number].said, self._texts.gold, self._sets[number]
        if self._kind == "score":
            given, true = np.array(said, np.float64), np.array(gold, np.float64)
            yield "pearson", Measured(correlation_statistics(given, true), correlation_of)
            yield "rmse", Measured(_mean((given - true) ** 2).rows, lambda sums: np.sqrt(ratio_of(sums)))
        elif self._kind == "answers":
            exact, f1 = exact_match(said, gold, normalised=True), answer_f1(said, gold)
            yield "f1", _mean(f1)
            yield "exact_match", _mean(exact)
            none = np.array(["" in one for one in gold])
            if none.any() and not none.all():
                yield "answered_f1", Measured(np.stack([f1 * ~none, ~none], axis=1).astype(np.float64), ratio_of)
                yield "unanswered_exact", Measured(np.stack([exact * none, none], axis=1).astype(np.float64), ratio_of)
        elif self._kind == "tags":
            found = right_given_there(sets, self._gold)
            yield "span_f1", Measured(found, f1_of)
            yield "span_precision", Measured(found[:, [0, 1]], ratio_of)
            yield "span_recall", Measured(found[:, [0, 2]], ratio_of)
            same = [[a == b for a, b in zip(one, other, strict=True)] for one, other in zip(said, gold, strict=True)]
            yield "accuracy", Measured(np.array([(sum(one), len(one)) for one in same], np.float64), ratio_of)
        else:
            right = np.array([one == other for one, other in zip(sets, self._gold, strict=True)], np.float64)
            if self._kind == "single":
                yield "accuracy", _mean(right)
            else:
                yield "micro_f1", Measured(right_given_there(sets, self._gold), f1_of)
            if 3 * len(gold) * len(self._labels) <= _MOST_NUMBERS:
                yield "macro_f1", Measured(label_statistics(sets, self._gold, self._labels), macro_f1_of)
            if self._kind == "several":
                yield "exact_match", _mean(right)

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

    def _apart(self, number: int) -> dict[int, dict[str, Apart | None]]:
        """How a model differs from every other system, text by text: place of the system → measure → difference."""
        if self._systems[number].system != "model" or not self._settings.draws:
            return {}
        own, draws, seed = self._measures[number], self._settings.draws, self._settings.seed
        return {
            place: {key: one.against(other[key], draws, seed) for key, one in own.items() if key in other}
            for place, other in enumerate(self._measures) if place != number
        }  # fmt: skip

    def _best_baseline(self, number: int, against: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """The baseline that is best by the main measure, and whether a model is above it; None where nothing was drawn."""
        main = MAIN[self._kind]
        floors = [place for place, one in enumerate(self._systems) if one.system != "model"]
        if not against or not floors:
            return None
        best = max(floors, key=lambda place: self._measures[place][main].value())
        found = against[self._systems[best].name][main]
        if found is None:
            return None
        above = found["difference"] > 0 and found["p"] < SIGNIFICANT
        return {"baseline": self._systems[best].name, "measure": main, **found, "significant": bool(above)}

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


def _mean(values_N: Floats) -> Measured:
    return Measured(np.stack([values_N, np.ones(len(values_N))], axis=1), ratio_of)


# ---- for people


def head_of(system: str, name: str, kind: Kind) -> str:
    """What stands over a system's column."""
    return _HEADS.get((system, kind)) or _HEADS.get((system, "")) or short_name(name, _NAME_WIDTH)


def _as_shown(kind: Kind, figure: Figure) -> Figure:
    """A figure as a table has it."""
    label = "accuracy of tags" if (kind, figure.key) == ("tags", "accuracy") else ""
    some: dict[str, Any] = {"interval": None, "below": {}} if figure.key in _WITHOUT_INTERVAL else {}
    return replace(figure, label=label, **some)


def parts_of(systems: Sequence[Shown], kind: Kind) -> Iterator[Part]:
    """The figures of all systems; of each model its labels, and what it takes for what."""
    yield side_by_side(systems, corner="x 100" if kind != "score" else "")
    models = [one for one in systems if one.facts["system"] == "model"]
    for one in models:
        if one.facts["by_label"]:
            name = f"{one.head}, " if len(models) > 1 else ""
            yield from _labels(one.facts["by_label"], kind, f"{name}{'spans of ' if kind == 'tags' else ''}each label")
        if one.facts["confused"]:
            yield _confused(one.facts)


def _labels(by_label: Mapping[str, Mapping[str, float]], kind: Kind, title: str) -> Iterator[Part]:
    """Precision, recall and F1 of each label, the most frequent first."""
    ranked = sorted(by_label.items(), key=lambda pair: (-pair[1]["support"], pair[0]))
    rows = [
        (short_name(label, _LABEL_WIDTH) or "span",
         [*(f"{100 * scores[name]:.1f}" for name in ("precision", "recall", "f1")), f"{scores['support']:,}"])
        for label, scores in ranked[:_MOST_LABELS]
    ]  # fmt: skip
    yield Table(("precision", "recall", "F1", "spans" if kind == "tags" else "texts"), rows, "label", title)
    if (more := len(ranked) - _MOST_LABELS) > 0:
        yield f"and {more:,} more labels: --json has all"


def _confused(facts: Mapping[str, Any]) -> Table:
    """A row for each true label where these are few; else the pairs that are confused most often."""
    table = facts["confusion"]
    if table and len(table["labels"]) <= _MOST_COLUMNS:
        heads = [short_name(label, _HEAD_WIDTH) for label in table["labels"]]
        rows = [
            (head, [f"{n:,}" if n else "·" for n in some]) for head, some in zip(heads, table["table"], strict=True)
        ]
        return Table(heads, rows, "is ↓  called →", "which label is called which")
    pairs = [
        (short_name(one["true"], _LABEL_WIDTH), [short_name(one["given"], _LABEL_WIDTH), f"{one['count']:,}", one["first"]])
        for one in facts["confused"][:_MOST_PAIRS]
    ]  # fmt: skip
    return Table(("called", "times", "first"), pairs, "is", "confused most often")


def remarks_on(
    systems: Sequence[Shown], kind: Kind, counts: Mapping[str, int], split: str | None, note: str, draws: int
) -> Iterator[str]:
    """On how much the figures stand, whether anything was learned, what is unknown, cut or missing.

    Args:
        systems: all of them.
        kind: of what is said.
        counts: of texts.
        split: of the corpus.
        note: why there are no training texts; empty: there are.
        draws: of the bootstrap.
    """
    yield f"{counted(counts['texts'], 'texts')}{f' of the split {split}' if split else ''}"
    if counts["unlabelled"]:
        yield f"{counted(counts['unlabelled'], 'texts')} without a label left out"
    if known := counts.get("texts_in_train"):
        yield (
            f"{counted(known, 'texts')} of {counts['texts']:,} are among the training texts: of these the figures say what "
            "was remembered"
        )
    for one in systems:
        if one.facts["system"] != "model":
            continue
        if cut := one.facts["counts"].get("texts_cut"):
            yield f"{one.head}: {counted(cut, 'texts')} longer than the model reads, their ends left out"
        for label, unknown in one.facts["unknown_labels"].items():
            many = "once" if unknown["count"] == 1 else f"{unknown['count']:,} times"
            yield f"{one.head} does not know the label {label}, {many} wrong, first {unknown['first']}"
        if (best := one.facts["best_baseline"]) is not None:
            yield _verdict(one.head, best, kind, draws)
    missing = {"tags": "gazetteer", "answers": ""}.get(kind, "TF-IDF")
    if note and missing:
        yield f"no baseline of {missing}: {note}"


def _verdict(name: str, best: Mapping[str, Any], kind: Kind, draws: int) -> str:
    """Whether a model is above the best baseline."""
    figure, apart = Figure(best["measure"], None), Apart(best["difference"], best["interval"], best["p"], draws)
    floor = " ".join(head_of(best["baseline"], "", kind).split())
    by = f"{figure.measure.label} {figure.signed(apart.difference)}, {apart.shown_p}"
    if best["significant"]:
        return f"{name} is above the best baseline, {floor}: {by}"
    where = "below" if apart.difference < 0 and apart.p < SIGNIFICANT else "not measurably above"
    return f"{name} is {where} the best baseline, {floor}, which is simpler: {by}"
