"""`wordpipe evaluate predictions`: figures of models with heads and of baselines in tables for people, or as JSON."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.evaluate.measures import evaluation
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import counted, emphasised, safe_text
from wordpipe.cli.tables import Column, answer, figure, print_columns, short_name
from wordpipe.stages.evaluate.settings import PredictionsEvaluationSettings

_NAME_WIDTH, _LABEL_WIDTH, _HEAD_WIDTH = 20, 24, 12
_SIGNIFICANT = 0.05
_MOST_LABELS, _MOST_COLUMNS, _MOST_PAIRS = 40, 10, 10  # of the tables on the screen; --json has all
_HEADS = {
    ("majority", "single"): "commonest\nlabel", ("majority", "several"): "commonest\nlabels", ("majority", "score"): "mean",
    ("majority", "tags"): "commonest\ntag", ("majority", "answers"): "no answer", ("tfidf", ""): "TF-IDF,\nlinear model",
    ("gazetteer", ""): "gazetteer", ("sentence", ""): "best sentence\n(BM25)",
}  # fmt: skip
_MEASURES = {  # the name in metrics → its line in the table, and what it is multiplied by
    "accuracy": ("accuracy", 100.0), "macro_f1": ("macro F1", 100.0), "micro_f1": ("micro F1", 100.0),
    "exact_match": ("exact match", 100.0), "f1": ("F1", 100.0), "answered_f1": ("F1, answered", 100.0),
    "unanswered_exact": ("unanswered found", 100.0), "pearson": ("Pearson", 100.0), "spearman": ("Spearman", 100.0),
    "rmse": ("root mean square error", 1.0), "span_f1": ("span F1", 100.0), "span_precision": ("span precision", 100.0),
    "span_recall": ("span recall", 100.0), "calibration_error": ("calibration error", 100.0),
}  # fmt: skip
_ORDER = {
    "single": ("accuracy", "macro_f1", "calibration_error"),
    "several": ("micro_f1", "macro_f1", "exact_match", "calibration_error"),
    "score": ("pearson", "spearman", "rmse"),
    "tags": ("span_f1", "span_precision", "span_recall", "accuracy", "calibration_error"),
    "answers": ("f1", "exact_match", "answered_f1", "unanswered_exact", "calibration_error"),
}
_LABELS = {("tags", "accuracy"): "accuracy of tags"}
_WITHOUT_INTERVAL = ("span_precision", "span_recall", "calibration_error")


@evaluation(
    "models", "MODEL|PREDICTIONS...", params=settings_options(PredictionsEvaluationSettings), json="all figures",
    example="wordpipe evaluate predictions run/topics --data run/labelled\n"
    "wordpipe evaluate predictions run/topics --data test.jsonl --train train.jsonl --label-field topic\n"
    "wordpipe evaluate predictions run/predicted",
)  # fmt: skip
@click.option(
    "--data", multiple=True, metavar="LABELLED",
    help="Labelled texts; a corpus artifact, or any source. Predictions have theirs beside them.",
)  # fmt: skip
@click.option(
    "--train", multiple=True, metavar="LABELLED",
    help="The texts that the baselines learn from.  [default: the corpus that the model names]",
)  # fmt: skip
def predictions(models: tuple[Path, ...], data: tuple[str, ...], train: tuple[str, ...], **given: Any) -> None:
    """Evaluate classifiers and taggers by what they say of labelled texts, beside baselines without a transformer.

    MODEL is an artifact of train classifier or tagger, or a folder of transformers with such a class; PREDICTIONS what
    `wordpipe predict MODEL CORPUS -o` made of a corpus with labels.

    Baselines: the commonest label; TF-IDF of words and pairs of words with a linear model; of tags the spans of the training
    texts by heart; of questions the best sentence by BM25. p says how often draws of as many texts turn a difference around.
    Spans are counted as conlleval counts them. The calibration error says how far probabilities are from the share that is
    right.
    """
    from wordpipe.stages import evaluate_predictions

    answer(
        evaluate_predictions, models, data or None, train=train or None, show=_show, remarks=_remarks,
        **{name: given[name] for name in ("quiet", "verify", "as_json")},
        **chosen_settings(PredictionsEvaluationSettings, given),
    )  # fmt: skip


def _show(found: dict[str, Any]) -> None:
    """The figures of all systems; of each model its labels, and what it takes for what."""
    systems, draws = found["systems"], found["settings"]["draws"]
    print_columns([*_columns(systems, found["task"], draws)], "x 100" if found["task"] != "score" else "")
    models = [one for one in systems if one["system"] == "model"]
    for one in models:
        if one["by_label"]:
            name = f"{short_name(one['name'], _NAME_WIDTH)}, " if len(models) > 1 else ""
            _print_labels(one, f"{name}{'spans of' if found['task'] == 'tags' else ''} each label".strip())
        if one["confused"]:
            _print_confusion(one)


def _head(one: dict[str, Any], task: str) -> str:
    return _HEADS.get((one["system"], task)) or _HEADS.get((one["system"], "")) or short_name(one["name"], _NAME_WIDTH)


def _columns(systems: Sequence[dict[str, Any]], task: str, draws: int) -> Iterator[Column]:
    """A column for each system: the figures, their intervals, and how far each model is above this one."""
    models = [one for one in systems if one["system"] == "model"]
    for one in systems:
        lines: list[tuple[str, str | None]] = []
        for measure in _ORDER[task]:
            label, times = _MEASURES[measure]
            value = one["metrics"].get(measure)
            form = "{:.4f}" if measure == "rmse" else "{:.2f}"
            shown = None if value is None else figure(times * value, form)
            lines.append((_LABELS.get((task, measure), label), shown))
            if measure in _WITHOUT_INTERVAL:
                continue
            lines.append(("  95 %", _range(one["intervals"].get(measure), times, form)))
            for model in models:
                above = (
                    "  model above" if len(models) == 1 else f"  above: {short_name(model['name'], _NAME_WIDTH - 9)}"
                )
                lines.append((above, _above(model["against"].get(one["name"], {}).get(measure), times, draws, form)))
        yield _head(one, task), lines


def _range(interval: Sequence[float] | None, times: float, form: str) -> str | None:
    return None if interval is None else " … ".join(form.format(times * bound) for bound in interval)


def _above(found: dict[str, Any] | None, times: float, draws: int, form: str) -> str | None:
    """How far a model is above another system, and p: none of so few draws may be less than one of them, so it is a bound."""
    if found is None:
        return None
    p = found["p"]
    shown = form.replace("{:", "{:+").format(times * found["difference"])
    return f"{shown}, p {'≤ ' if p == 1 / draws < 1 else ''}{p:.3g}"


def _print_labels(one: dict[str, Any], above: str) -> None:
    """Precision, recall and F1 of each label, the most frequent first."""
    from rich.text import Text

    from wordpipe.cli.tables import console, new_table

    ranked = sorted(one["by_label"].items(), key=lambda pair: (-pair[1]["support"], pair[0]))
    table = new_table("label", "precision", "recall", "F1", "texts" if "spans" not in above else "spans", title=above)
    for label, scores in ranked[:_MOST_LABELS]:
        parts = [f"{100 * scores[name]:.1f}" for name in ("precision", "recall", "f1")]
        table.add_row(Text(short_name(label, _LABEL_WIDTH) or "span"), *parts, f"{scores['support']:,}")
    console().print(table)
    if (more := len(ranked) - _MOST_LABELS) > 0:
        click.echo(f"and {more:,} more labels: --json has all")


def _print_confusion(one: dict[str, Any]) -> None:
    """A row for each true label where they have room side by side; else the pairs that are confused most often."""
    from rich.text import Text

    from wordpipe.cli.tables import console, new_table

    table = one["confusion"]
    room = console().width if sys.stdout.isatty() else None
    if table and len(table["labels"]) <= _MOST_COLUMNS:
        heads = [short_name(label, _HEAD_WIDTH) for label in table["labels"]]
        drawn = new_table("is ↓  called →", *heads, title="which label is called which")
        for head, counts in zip(heads, table["table"], strict=True):
            drawn.add_row(Text(head), *(f"{count:,}" if count else "·" for count in counts))
        if room is None or console().measure(drawn).minimum <= room:
            console().print(drawn)
            return
    click.echo(emphasised("confused most often"))
    for pair in one["confused"][:_MOST_PAIRS]:
        true, given = (short_name(pair[name], _LABEL_WIDTH) for name in ("true", "given"))
        click.echo(safe_text(f"{pair['count']:>8,}  {true} called {given}, first {pair['first']}"))


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on how much it stands, whether anything was learned, what is unknown, cut or missing."""
    counts, task = found["counts"], found["task"]
    part = f" of the split {found['split']}" if found["split"] else ""
    lines = [f"{counted(counts['texts'], 'texts')}{part}"]
    if counts["unlabelled"]:
        lines.append(f"{counted(counts['unlabelled'], 'texts')} without a label left out")
    if known := counts.get("texts_in_train"):
        lines.append(
            f"{counted(known, 'texts')} of {counts['texts']:,} are among the training texts: of these the figures say what "
            "was remembered"
        )
    for one in found["systems"]:
        if one["system"] != "model":
            continue
        name = short_name(one["name"], _NAME_WIDTH)
        if cut := one["counts"].get("texts_cut"):
            lines.append(f"{name}: {counted(cut, 'texts')} longer than the model reads, their ends left out")
        for label, unknown in one["unknown_labels"].items():
            many = "once" if unknown["count"] == 1 else f"{unknown['count']:,} times"
            lines.append(f"{name} does not know the label {label}, {many} wrong, first {unknown['first']}")
        if (best := one["best_baseline"]) is not None:
            lines.append(_verdict(name, best, found, task))
    if found["train_note"]:
        missing = {"tags": "gazetteer", "answers": ""}.get(task, "TF-IDF")
        if missing:
            lines.append(f"no baseline of {missing}: {found['train_note']}")
    return lines


def _verdict(name: str, best: dict[str, Any], found: dict[str, Any], task: str) -> str:
    label, times = _MEASURES[best["measure"]]
    floor = " ".join(_HEADS.get((best["baseline"], task), _HEADS.get((best["baseline"], ""), "")).split())
    draws = found["settings"]["draws"]
    by = f"{label} {times * best['difference']:+.2f}, p {'≤ ' if best['p'] == 1 / draws < 1 else ''}{best['p']:.3g}"
    if best["significant"]:
        return f"{name} is above the best baseline, {floor}: {by}"
    where = "below" if best["difference"] < 0 and best["p"] < _SIGNIFICANT else "not measurably above"
    return f"{name} is {where} the best baseline, {floor}, which is simpler: {by}"
