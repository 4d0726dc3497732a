"""`wordpipe evaluate seq2seq`: figures of encoder-decoders and of baselines in tables for people, or as JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH
from wordpipe.cli.evaluate.measures import evaluation
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import counted, safe_text
from wordpipe.cli.tables import Column, answer, figure, print_columns, short_name
from wordpipe.stages.evaluate.settings import Seq2SeqEvaluationSettings

_NAME_WIDTH, _PREFIX_WIDTH, _LABEL_WIDTH, _LEAST_WIDTH = 20, 40, 10, 20
_HEADS = {"copy": "copy of\nthe source", "first_sentence": "first\nsentence", "nearest": "nearest in\ntraining (BM25)"}
_PLAIN = {"copy": "the copy", "first_sentence": "the first sentence", "nearest": "the nearest in training"}
_SCORES = {  # the name in metrics → its line in the table, and what it is multiplied by
    "bleu": ("BLEU", 1.0),
    "bleu_lc": ("BLEU, lower case", 1.0),
    "chrf": ("chrF", 1.0),
    "rouge_l": ("ROUGE-L", 100.0),
    "exact_match": ("exact match", 100.0),
}
_OTHERS = {
    "length_ratio": ("length ratio", "{:.3f}"),
    "loss": ("loss (nats/token)", "{:.4f}"),
    "perplexity": ("perplexity", "{:,.2f}"),
    "unfinished": ("unfinished", "{:.1%}"),
}


@evaluation(
    "models", "[MODEL]...", required=False, params=settings_options(Seq2SeqEvaluationSettings), json="all figures",
    example="wordpipe evaluate seq2seq run/model --data val.de --data val.en --train train.de --train train.en\n"
    "wordpipe evaluate seq2seq run/model --data run/corpus --samples 5 -o outputs.tsv --json",
)  # fmt: skip
@click.option(
    "--data", required=True, multiple=True, metavar="PAIRS",
    help="A corpus with second texts, a file of pairs, or parallel files of plain text, the sources first.",
)  # fmt: skip
@click.option(
    "--train",
    multiple=True,
    metavar="PAIRS",
    help="The training pairs; the target of the nearest source is a baseline.",
)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write what the model wrote, as .tsv or .parquet.")
def seq2seq(
    models: tuple[Path, ...], data: tuple[str, ...], train: tuple[str, ...], output: Path | None, **given: Any
) -> None:
    """Evaluate encoder-decoders by the target texts that they write, side by side with baselines.

    PAIRS are source<TAB>target lines (further columns are further references), records with the fields text and text_b, two
    parallel files, or a corpus. Baselines copy the source, or take its first sentence, or the target of the nearest training
    pair.

    BLEU is cased (13a) and lower-cased (split at white space); only figures of equal signatures compare. p says how often
    draws of as many pairs turn the difference around. The loss is of the first reference, and compares models with the same
    tokenizer.
    """
    from wordpipe.stages import evaluate_seq2seq

    answer(
        evaluate_seq2seq, models, data, train=train or None, output=output, show=_show, remarks=_remarks,
        **{name: given[name] for name in ("quiet", "verify", "as_json")}, **chosen_settings(Seq2SeqEvaluationSettings, given),
    )  # fmt: skip


def _show(found: dict[str, Any]) -> None:
    """The figures of all pairs, those of each prefix, the signatures, and samples."""
    from wordpipe.cli.tables import console

    draws = found["settings"]["draws"]
    print_columns([*_columns(found["systems"], found["systems"], draws)])
    for prefix in found["systems"][0]["by_prefix"]:
        parts = [one["by_prefix"][prefix] for one in found["systems"]]
        name = f"{short_name(prefix, _PREFIX_WIDTH) or 'without a prefix'} ({counted(parts[0]['pairs'], 'pairs')})"
        print_columns([*_columns(found["systems"], parts, draws)], above=name)
    screen = console()
    for measure, signature in found["signatures"].items():
        screen.print(f"{_SCORES[measure][0]}: {signature}", soft_wrap=True)
    for number, sample in enumerate(found["samples"], start=1):
        _print_sample(number, sample)


def _columns(systems: Sequence[dict[str, Any]], figures: Sequence[dict[str, Any]], draws: int) -> Iterator[Column]:
    """A column for each system: the figures, their intervals, and for a baseline how far each model is above it."""
    models = [
        (one["name"], part["against"]) for one, part in zip(systems, figures, strict=True) if one["system"] == "model"
    ]
    for one, part in zip(systems, figures, strict=True):
        lines: list[tuple[str, str | None]] = []
        for measure, (label, times) in _SCORES.items():
            lines.append((label, figure(times * part["metrics"][measure], "{:.2f}")))
            lines.append(("  95 %", _range(part["intervals"][measure], times)))
            for name, against in models:
                above = "  model above" if len(models) == 1 else f"  above: {short_name(name, _NAME_WIDTH - 9)}"
                lines.append((above, _above(against.get(one["name"], {}).get(measure), times, draws)))
        for measure, (label, form) in _OTHERS.items():
            value = part["metrics"].get(measure)
            lines.append((label, None if value is None else figure(value, form)))
        yield _HEADS.get(one["system"]) or short_name(one["name"], _NAME_WIDTH), lines


def _range(interval: Sequence[float] | None, times: float) -> str | None:
    return None if interval is None else " … ".join(f"{times * bound:.2f}" for bound in interval)


def _above(found: dict[str, Any] | None, times: float, draws: int) -> str | None:
    """How far a model is above a baseline, and p: none of so few draws may be less than one of them, so it is a bound."""
    if found is None:
        return None
    p = found["p"]
    return f"{times * found['difference']:+.2f}, p {'≤ ' if p == 1 / draws < 1 else ''}{p:.3g}"


def _print_sample(number: int, sample: dict[str, Any]) -> None:
    """Source, references and outputs below each other, as wide as the screen."""
    from rich.text import Text

    from wordpipe.cli.tables import console

    many = len(sample["outputs"]) > 1
    lines = [("prefix", sample["prefix"])] if sample["prefix"] else []
    lines += [("source", sample["source"]), *(("reference", text) for text in sample["references"])]
    lines += [(short_name(name, _LABEL_WIDTH) if many else "output", text) for name, text in sample["outputs"].items()]
    screen, gap = console(), " " * (_LABEL_WIDTH + 1)
    screen.print(f"\nsample {number}")
    for label, text in lines:
        wrapped = Text(safe_text(" ".join(text.split()))).wrap(screen, max(_LEAST_WIDTH, screen.width - len(gap)))
        shown = f"\n{gap}".join(line.plain.rstrip() for line in wrapped)
        screen.print(f"{label:<{_LABEL_WIDTH}} {shown}".rstrip(), soft_wrap=True)


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on how much it stands, what was cut, left out or is missing."""
    counts = found["counts"]
    part = f" of the split {found['split']}" if found["split"] else ""
    more = f", {counts['references']:,} references" if counts["references"] > counts["pairs"] else ""
    lines = [f"{counted(counts['pairs'], 'pairs')}{part}{more}"]
    said = {
        "sources_empty": ("pairs", "without a source left out"),
        "targets_empty": ("pairs", "without a target left out"),
        "sources_in_train": ("sources", "in the training pairs too"),
    }
    lines += [f"{counted(counts[name], what)} {text}" for name, (what, text) in said.items() if counts.get(name)]
    for one in found["systems"]:
        name = _PLAIN.get(one["system"]) or short_name(one["name"], _NAME_WIDTH)
        if cut := one["counts"].get("sources_cut"):
            tokens = counted(one["counts"]["tokens_cut"], "tokens")
            lines.append(f"{name}: {counted(cut, 'sources')} longer than the model, {tokens} not read")
        if cut := one["counts"].get("targets_cut"):
            lines.append(f"{name}: {counted(cut, 'references')} longer than the model, the loss is of their beginning")
        if empty := one["counts"]["outputs_empty"]:
            lines.append(f"{name}: {counted(empty, 'outputs')} empty")
    if found["train"] is None:
        lines.append("no --train, so no baseline of the nearest training pair")
    return lines
