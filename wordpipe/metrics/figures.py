"""Figures of systems, what they differ by, tables and remarks: the one form of all that is evaluated.

    Measured     what each of N examples adds to a measure; from it the figure, its interval and how two systems differ
    Figure       one number of a system, by a key that says how it is written (`MEASURES`)
    System       what was evaluated, with its figures
    Table        cells side by side, of systems or of anything else
    Evaluation   all of it: a dict, which is what `--json` prints, with the parts and remarks that people read

One printer draws them on a terminal (`cli/tables.py`), one as HTML (`pages/report_page.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.statistics import (
    Interval,
    Score,
    mean_interval,
    paired_difference,
    paired_score_difference,
    score_interval,
)
from wordpipe.wording import short_name

SIGNIFICANT = 0.05
"""The p below which a difference is told from chance."""
_DIGITS = 6  # of a figure in JSON
_MOST_LABELS, _LABEL_WIDTH = 40, 24  # of a table of labels; JSON has more


class Measure(NamedTuple):
    """The label and the form of a figure."""

    label: str
    form: str = "{:.2f}"
    times: float = 1.0  # what it is multiplied by first


MEASURES = {
    # of tokenizers
    "bytes_per_token": Measure("bytes per token", "{:.3f}"),
    "bytes_per_token_b": Measure("bytes per token (second texts)", "{:.3f}"),
    "characters_per_token": Measure("characters per token", "{:.3f}"),
    "tokens_per_word": Measure("tokens per word", "{:.3f}"),
    "split_words": Measure("words split", "{:.1%}"),
    "unknown_rate": Measure("unknown tokens", "{:.2%}"),
    "vocabulary_used": Measure("vocabulary used", "{:.1%}"),
    "round_trip_failures": Measure("texts changed", "{:.2%}"),
    "text_failures": Measure("  not only spaces", "{:.2%}"),
    # of language models
    "bits_per_byte": Measure("bits per byte", "{:.4f}"),
    "perplexity_per_word": Measure("perplexity per word", "{:,.1f}"),
    "perplexity": Measure("perplexity per target", "{:,.2f}"),
    "loss": Measure("loss (nats per target)", "{:.4f}"),
    "valid_loss": Measure("held-out loss", "{:.4f}"),
    # of labels, answers and scores
    "accuracy": Measure("accuracy", times=100),
    "macro_f1": Measure("macro F1", times=100),
    "micro_f1": Measure("micro F1", times=100),
    "f1": Measure("F1", times=100),
    "answered_f1": Measure("F1 (answerable)", times=100),
    "unanswered_exact": Measure("correct (no answer)", times=100),
    "span_f1": Measure("span F1", times=100),
    "span_precision": Measure("span precision", times=100),
    "span_recall": Measure("span recall", times=100),
    "calibration_error": Measure("calibration error", times=100),
    "pearson": Measure("Pearson", times=100),
    "spearman": Measure("Spearman", times=100),
    "rmse": Measure("root mean square error", "{:.4f}"),
    # of texts that were written
    "bleu": Measure("BLEU"),
    "bleu_lc": Measure("BLEU (lower case)"),
    "chrf": Measure("chrF"),
    "rouge_l": Measure("ROUGE-L", times=100),
    "exact_match": Measure("exact match", times=100),
    "length_ratio": Measure("length ratio", "{:.3f}"),
    "unfinished": Measure("unfinished", "{:.1%}"),
    # of what was found
    "ndcg_at_10": Measure("nDCG@10", times=100),
    "map": Measure("MAP", times=100),
    "recall_at_10": Measure("recall@10", times=100),
    "recall_at_100": Measure("recall@100", times=100),
    "mrr": Measure("MRR", times=100),
    # of spaces of vectors
    "mean_cosine": Measure("mean cosine"),
    "effective_rank": Measure("directions in use", "{:.0f}"),
    "hub_skew": Measure("hubs (skewness)"),
    "orphans": Measure("near no other text", "{:.1%}"),
    "twins": Measure("with a twin", "{:.1%}"),
}
"""Key of a figure → how it is written, wherever it is."""


def written(value: float | None, form: str = "{:.4g}") -> str:
    """Return a figure of an evaluation as text; a missing one as a dash.

    >>> written(0.1234, "{:.1%}"), written(0.0001, "{:.1%}"), written(None, "{:.1%}")
    ('12.3%', '<0.1%', '–')
    """
    if not value:
        return "–" if value is None else "0"
    shown = form.format(value)
    return f"<{shown[:-2]}1%" if shown.endswith("%") and not float(shown[:-1]) else shown


def rounded(value: float | None) -> float | None:
    """Return a number rounded as in JSON."""
    return None if value is None else round(float(value), _DIGITS)


class Apart(NamedTuple):
    """The difference of two systems on the same examples."""

    difference: float
    interval: list[float]  # 95 % of the draws have theirs in it
    p: float
    draws: int

    def to_json(self) -> dict[str, Any]:
        """Return the difference of two systems, its interval and p in the form of JSON."""
        return {"difference": self.difference, "interval": self.interval, "p": round(self.p, _DIGITS)}

    @property
    def shown_p(self) -> str:
        """The p of a difference as text; none of so few draws may be less than one of them, so the least is a bound."""
        return f"p {'≤ ' if self.p == 1 / self.draws < 1 else ''}{self.p:.3g}"


def in_json(apart: Mapping[str, Apart | None]) -> dict[str, Any]:
    """Return differences by measure in the form of JSON."""
    return {key: None if one is None else one.to_json() for key, one in apart.items()}


@dataclass(frozen=True)
class Measured:
    """A measure of N examples.

    Attributes:
        rows: what each adds: (N,), and the figure is their mean; or (N, K), and it is a score of their sum.
        score: of sums, (..., K); None: of a mean.
    """

    rows: npt.NDArray[np.number]
    score: Score | None = None

    def value(self) -> float:
        """The value of the measure."""
        if self.score is None:
            return float(self.rows.mean())
        return float(self.score(self.rows.sum(axis=0, dtype=np.float64)))

    def interval(self, draws: int, seed: int = 1) -> list[float] | None:
        """Return the interval of 95 % of a system's figure, from draws of as many examples; None without draws."""
        if not draws:
            return None
        if self.score is None:
            found = mean_interval(np.asarray(self.rows, np.float64), draws=draws, seed=seed)
        else:
            found = score_interval(self.rows, self.score, draws=draws, seed=seed)
        return listed(found)

    def against(self, other: "Measured", draws: int, seed: int = 1) -> Apart | None:
        """Return the difference of a system's figure to another's on the same examples; None without draws."""
        if not draws:
            return None
        if self.score is None:
            found = paired_difference(self.rows, other.rows, draws=draws, seed=seed)  # type: ignore[arg-type]
        else:
            found = paired_score_difference(self.rows, other.rows, self.score, draws=draws, seed=seed)
        if found is None:
            return None
        return Apart(round(found.mean, _DIGITS), [round(bound, _DIGITS) for bound in found.interval], found.p, draws)

    def figure(self, key: str, draws: int, seed: int = 1, **more: Any) -> "Figure":
        """Return the measure as a figure with its interval; `more` are other fields of `Figure`."""
        return Figure(key, rounded(self.value()), self.interval(draws, seed), drawn=True, **more)

    def rows_at(self, of_N: npt.NDArray[np.bool_]) -> "Measured":
        """Return the measure of some of the examples."""
        return Measured(self.rows[of_N], self.score)


class Beside(NamedTuple):
    """A system beside the models of an evaluation.

    Attributes:
        below: key of a figure → what is said of each model's lead → the difference.
        against: of a model: name of another system → key → the difference, as JSON has it.
    """

    below: dict[str, dict[str, Apart | None]]
    against: dict[str, dict[str, Any]]


def beside_models(
    systems: Sequence[tuple[str, bool]], measures: Sequence[Mapping[str, Measured]], draws: int, seed: int, *,
    keys: Sequence[str] | None = None, floors_only: bool = False,
) -> list[Beside]:  # fmt: skip
    """Compare the figures of each model with every other system on the same examples, drawn together.

    Args:
        systems: name of each, and whether it is a model.
        measures: of each system.
        draws: of the bootstrap; 0: nothing is compared.
        seed: of the draws.
        keys: measures that are compared; None: all that both have.
        floors_only: models are not compared with each other.

    Returns:
        One for each system.
    """
    models = [number for number, (_, is_model) in enumerate(systems) if is_model]
    others = [number for number, (_, is_model) in enumerate(systems) if not (is_model and floors_only)]
    apart = {
        (model, other): {
            key: one.against(measures[other][key], draws, seed) for key, one in measures[model].items()
            if key in measures[other] and (keys is None or key in keys)
        }
        for model in models for other in others if model != other and draws
    }  # fmt: skip
    several = len(models) > 1
    said = {model: f"above: {short_name(systems[model][0], 11)}" if several else "model above" for model in models}
    return [
        Beside(
            {key: {said[model]: some[key] for (model, other), some in apart.items() if other == number and key in some}
             for key in own},
            {systems[other][0]: in_json(some) for (model, other), some in apart.items() if model == number},
        )
        for number, own in enumerate(measures)
    ]  # fmt: skip


def listed(interval: Interval | None) -> list[float] | None:
    """Return an interval rounded as in JSON."""
    return None if interval is None else [round(bound, _DIGITS) for bound in interval]


@dataclass(frozen=True)
class Figure:
    """One number of a system.

    Attributes:
        key: as in JSON.
        value: None: there is none.
        interval: low and high, of 95 % of the draws.
        label: in tables; empty: as `MEASURES` says.
        form: how it is written; empty: as `MEASURES` says.
        below: label of a line below it → the difference to another system, or a text.
        drawn: JSON has its interval too, null where nothing was drawn.
    """

    key: str
    value: float | None
    interval: list[float] | None = None
    label: str = ""
    form: str = ""
    below: Mapping[str, Apart | str | None] = field(default_factory=dict)
    drawn: bool = False

    def lines(self) -> Iterator[tuple[str, str | None]]:
        """Yield label and cell of a figure, of its interval, and of what stands below."""
        measure = self.measure
        yield self.label or measure.label, "–" if self.shown is None and self.below else self.shown
        if self.interval is not None:
            yield "  95 %", " … ".join(measure.form.format(measure.times * bound) for bound in self.interval)
        for label, one in self.below.items():
            text = f"{self.signed(one.difference)}, {one.shown_p}" if isinstance(one, Apart) else one
            yield f"  {label}", text

    @property
    def measure(self) -> Measure:
        """The label and the form of the figure; an unknown key is its own label."""
        known = MEASURES.get(self.key.partition("/")[0]) or Measure(self.key.replace("_", " "), "{:,.4g}")
        return Measure(known.label, self.form) if self.form else known

    @property
    def shown(self) -> str | None:
        """The figure's value as text; None where there is none."""
        return None if self.value is None else written(self.measure.times * self.value, self.measure.form)

    def signed(self, difference: float) -> str:
        """Return a difference in the form of this figure, with its sign."""
        return self.measure.form.replace("{:", "{:+").format(self.measure.times * difference)


@dataclass(frozen=True)
class System:
    """A system that was evaluated, with its figures.

    Attributes:
        head: what stands over its column.
        figures: all of them.
        facts: what else JSON has.
        shown: what is shown of it: figures, labels with a text; empty: all figures.
    """

    head: str
    figures: Sequence[Figure]
    facts: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[Figure | tuple[str, str | None]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the system's facts, metrics, and intervals in the form of JSON."""
        return {**self.facts, **json_of(self.figures)}

    def rows(self) -> dict[str, list[tuple[str, str | None]]]:
        """Return key of a figure, or the label of what is none → the lines of a table that stand below each other."""
        return {
            one.key if isinstance(one, Figure) else one[0]: [*one.lines()] if isinstance(one, Figure) else [one]
            for one in self.shown or self.figures
        }


def json_of(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return figures in the form of JSON: metrics, and the intervals of those that are drawn."""
    intervals = {one.key: one.interval for one in figures if one.drawn}
    return {"metrics": {one.key: one.value for one in figures}, **({"intervals": intervals} if intervals else {})}


@dataclass(frozen=True)
class Table:
    """A table of figures: cells side by side.

    Attributes:
        heads: of the columns.
        rows: label, and a cell for each column; None: a dash. A row of nothing else is not shown.
        corner: what stands over the labels.
        title: what stands above.
    """

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str | None]]]
    corner: str = ""
    title: str = ""

    def turned(self, corner: str = "") -> "Table":
        """Return the table with rows as columns."""
        rows = [row for row in self.rows if any(cell is not None for cell in row[1])]
        turned = [(head, [cells[at] for _, cells in rows]) for at, head in enumerate(self.heads)]
        return Table([label.strip() for label, _ in rows], turned, corner, self.title)


def side_by_side(systems: Sequence[System], *, corner: str = "", title: str = "") -> Table:
    """Return the figures of systems as a table: a column for each system, a row for each figure and difference."""
    columns = [one.rows() for one in systems]
    rows: list[tuple[str, list[str | None]]] = []
    for key in dict.fromkeys(key for column in columns for key in column):
        cells = [dict(column.get(key, ())) for column in columns]
        labels = dict.fromkeys(label for column in cells for label in column)
        rows += [(label, [column.get(label) for column in cells]) for label in labels]
    return Table([one.head for one in systems], rows, corner, title)


def table_of_labels(by_label: Mapping[str, Mapping[str, Any]], name: str, *, spans: bool) -> Iterator["Part"]:
    """Yield a table of precision, recall, F1 and support of each label, the most frequent first; then how many are left out.

    Args:
        by_label: label → precision, recall, f1, support.
        name: of the table.
        spans: the labels are of spans; else of texts.
    """
    ranked = sorted(by_label.items(), key=lambda pair: (-pair[1]["support"], pair[0]))
    rows = [
        (short_name(label, _LABEL_WIDTH) or "span",
         [*(f"{100 * scores[name]:.1f}" for name in ("precision", "recall", "f1")), f"{scores['support']:,}"])
        for label, scores in ranked[:_MOST_LABELS]
    ]  # fmt: skip
    yield Table(("precision", "recall", "F1", "spans" if spans else "texts"), rows, "label", name)
    if (more := len(ranked) - _MOST_LABELS) > 0:
        yield f"and {more:,} more labels: --json lists all labels"


Part = Table | str
"""What is printed: a table, or a line; a line is a label, two spaces or more, and what is said of it, or a text alone."""


class Evaluation(dict[str, Any]):
    """The result of an evaluation: a dict, which `--json` prints, with its form for people.

    Attributes:
        parts: what is printed, in this order.
        remarks: what the tables do not say: on how much they stand, what was left out, what to do next.
        details: parts that are shown where they are wanted.
    """

    def __init__(
        self, found: Mapping[str, Any], *, parts: Sequence[Part] = (), remarks: Sequence[str] = (),
        details: Sequence[Part] = (),
    ) -> None:  # fmt: skip
        super().__init__(found)
        self.parts, self.remarks, self.details = parts, remarks, details
