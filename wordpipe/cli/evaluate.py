"""`wordpipe evaluate tokenizer` and `wordpipe evaluate model`: measures in tables for people, or as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.output import human_bytes, human_count, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.cli.tables import figure, short_name, side_by_side

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["model", "tokenizer"]

_GROUPS_SHOWN = 20
_NAME_WIDTH = 28
_BETWEEN = 2  # blanks between two columns
_LEAST_NAME = 10
_GROUP_COLUMN_WIDTH = 10
_GROUP_COLUMNS = {
    "bytes_per_token": "bytes/\ntoken",
    "tokens_per_word": "tokens/\nword",
    "split_words": "words\nsplit",
    "unknown_rate": "un-\nknown",
    "text_failures": "text\nlost",
    "bytes": "text",
}
_TOKENIZER_MEASURES = {  # the name in metrics → its line in the table, and how it is written
    "bytes_per_token": ("bytes per token", "{:.3f}"),
    "characters_per_token": ("characters per token", "{:.3f}"),
    "tokens_per_word": ("tokens per word", "{:.3f}"),
    "split_words": ("words split", "{:.1%}"),
    "unknown_rate": ("unknown tokens", "{:.2%}"),
    "vocabulary_used": ("vocabulary used", "{:.1%}"),
    "round_trip_failures": ("texts changed", "{:.2%}"),
    "text_failures": ("  beyond spaces", "{:.2%}"),
}
_MODEL_MEASURES = {
    "bits_per_byte": ("bits per byte", "{:.4f}"),
    "perplexity_per_word": ("perplexity per word", "{:,.1f}"),
    "perplexity": ("perplexity per target", "{:,.2f}"),
    "loss": ("loss (nats per target)", "{:.4f}"),
    "accuracy": ("guessed first", "{:.1%}"),
    "unknown_rate": ("unknown tokens", "{:.2%}"),
}
_data = click.option(
    "--data", required=True, multiple=True, metavar="CORPUS", help="A corpus artifact, or any source of text."
)


@click.command(
    cls=ExampleCommand,
    example="wordpipe evaluate tokenizer run/tokens --data run/corpus",
    json="Print one JSON object, with the first failures and unused tokens.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("tokens", nargs=-1, required=True, metavar="TOKENS...", type=click.Path(path_type=Path))
@_data
@click.option(
    "--by", metavar="COLUMN", help="Figures for each source, or each value of a metadata column such as lang."
)
@click.option("--split", type=click.Choice(["train", "valid", "test"]), help="Judge this part of the corpus only.")
def tokenizer(
    tokens: tuple[Path, ...], data: tuple[str, ...], by: str | None, split: str | None, verify: bool, as_json: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Judge tokenizers on a text, side by side.

    TOKENS are artifacts with a tokenizer, or whatever tokenize --tokenizer takes. More bytes per token make shorter
    sequences; tokens per word (fertility) and split words count words where spaces mark them.

    Another size of the vocabulary is trained in seconds: wordpipe tokenize CORPUS --counts TOKENS --vocab-size N.
    """
    from wordpipe.stages.evaluate import evaluate_tokenizer
    from wordpipe.stages.making import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        found = evaluate_tokenizer(tokens, data, by=by, split=split, run=RunOptions(report=draw, verify=verify))
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    _print_tokenizers(found["tokenizers"], by)
    for line in () if quiet else _tokenizer_remarks(found["tokenizers"]):
        say(line)


@click.command(
    cls=ExampleCommand,
    example="wordpipe evaluate model run/model --data run/corpus\n"
    "wordpipe evaluate model run/clm run/larger --data held_out.txt --json",
    json="Print one JSON object, with all counts.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", type=click.Path(path_type=Path))
@_data
@click.option(
    "--split",
    type=click.Choice(["train", "valid", "test", "all"]),
    help="The part of the corpus to judge on.  [default: what is held out: valid, else test, else all; of sources: all]",
)
@click.option(
    "--seq-len",
    type=int,
    metavar="N",
    help="Positions of a sequence: how far a model can look back.  [default: the model's length, at most 2048]",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    help="Where the models run; auto takes the fastest there is.  [default: auto]",
)
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="CPU threads, 0 = one per core.  [default: 0]",
)
def model(
    models: tuple[Path, ...], data: tuple[str, ...], verify: bool, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Judge language models by how much a text surprises them, side by side.

    MODEL is an artifact, or a folder of transformers. A target is a token to be guessed: every token for a model that reads
    from left to right, 15 % of them, always the same, for one that sees both sides.

    Models with different tokenizers compare by bits per byte and by perplexity per word; those of equal tokenizers by
    their loss too. Models that see both sides compare only with each other.
    """
    from wordpipe.stages.evaluate_model import evaluate_model
    from wordpipe.stages.making import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        found = evaluate_model(models, data, run=RunOptions(report=draw, verify=verify), **options)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    from wordpipe.cli.tables import console

    screen = console()
    for table in side_by_side(found["models"], _models_table, screen):
        screen.print(table)
    for line in () if quiet else _model_remarks(found):
        say(line)


def _print_tokenizers(judged: list[dict[str, Any]], by: str | None) -> None:
    from wordpipe.cli.tables import console

    screen = console()
    for table in side_by_side(judged, _tokenizers_table, screen):
        screen.print(table)
    for one in judged if by is not None else ():
        screen.print(_groups_table(one, by or "", screen.width))


def _tokenizers_table(judged: Sequence[dict[str, Any]]) -> "Table":
    """One line per measure, one column per tokenizer."""
    from wordpipe.cli.tables import new_table

    table = new_table("", *(short_name(one["name"], _NAME_WIDTH) for one in judged))
    table.add_row("vocabulary", *(f"{one['vocab_size']:,}" for one in judged))
    for name, (label, form) in _TOKENIZER_MEASURES.items():
        table.add_row(label, *(figure(one["metrics"][name], form) for one in judged))
    return table


def _groups_table(one: dict[str, Any], by: str, width: int) -> "Table":
    """One line per group, the ones with most text first; as many columns as there is room for."""
    from wordpipe.cli.tables import new_table

    columns = list(_GROUP_COLUMNS.items())[: max(1, (width - _LEAST_NAME - _BETWEEN) // _GROUP_COLUMN_WIDTH)]
    room = min(_NAME_WIDTH, max(_LEAST_NAME, width - _BETWEEN - len(columns) * _GROUP_COLUMN_WIDTH))
    left_out = len(_GROUP_COLUMNS) - len(columns)
    title = short_name(one["name"], _NAME_WIDTH) + (f" ({left_out} columns do not fit)" if left_out else "")
    table = new_table(short_name(by, room), *(head for _, head in columns), title=title)
    for name, group in list(one["groups"].items())[:_GROUPS_SHOWN]:
        cells = {name: figure(group["metrics"][name], form) for name, (_, form) in _TOKENIZER_MEASURES.items()}
        cells["bytes"] = human_bytes(group["counts"]["bytes"])
        table.add_row(short_name(name, room), *(cells[column] for column, _ in columns))
    if (more := len(one["groups"]) - _GROUPS_SHOWN) > 0:
        table.add_row(f"… {more:,} more", *[""] * len(columns))
    return table


def _tokenizer_remarks(judged: list[dict[str, Any]]) -> list[str]:
    """What the table does not say: on how much text it stands, and the first text that did not come back."""
    counts = judged[0]["counts"]
    lines = [
        f"{human_count(counts['texts'])} texts, {human_bytes(counts['bytes'])}, {human_count(counts['words'])} words"
        + (f"; {human_count(runs)} runs in scripts without spaces" if (runs := counts["unspaced_runs"]) else "")
    ]
    for one in judged:
        if one["failures"]:
            first, count = one["failures"][0], one["counts"]["round_trip_failures"]
            name = short_name(one["name"], _NAME_WIDTH)
            lines.append(f"{name}: {count:,} texts do not come back as they were; the first:")
            lines += [f"  text     {_start(first['text'])}", f"  decoded  {_start(first['decoded'])}"]
    return lines


def _start(text: str) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= 100 else text[:99] + "…"


def _models_table(judged: Sequence[dict[str, Any]]) -> "Table":
    """One line per figure, one column per model."""
    from wordpipe.cli.tables import new_table

    table = new_table("", *(short_name(one["name"], _NAME_WIDTH) for one in judged))
    table.add_row("reads", *("to the right" if one["architecture"] == "decoder" else "both sides" for one in judged))
    for name, (label, form) in _MODEL_MEASURES.items():
        cells = [one["metrics"][name] for one in judged]
        if any(cell is not None for cell in cells):
            table.add_row(label, *(figure(cell, form) for cell in cells))
    table.add_row("targets", *(f"{one['counts']['targets']:,}" for one in judged))
    table.add_row("tokens of the text", *(f"{one['counts']['tokens']:,}" for one in judged))
    table.add_row("vocabulary", *(f"{one['vocab_size']:,}" for one in judged))
    table.add_row("positions", *(f"{one['seq_len']:,}" for one in judged))
    table.add_row("weights", *(human_count(one["parameters"]) for one in judged))
    return table


def _model_remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: on which text it stands, and whether its columns compare."""
    counts, judged = found["models"][0]["counts"], found["models"]
    part = f"the split {found['split']}" if found["split"] else "all of the text"
    lines = [
        f"{part}: documents {human_count(counts['documents'])}, words {human_count(counts['words'])}, "
        f"{human_bytes(counts['bytes'])}"
    ]
    if len({one["architecture"] for one in judged}) > 1:
        lines.append("models that see both sides guess an easier thing: their figures do not compare with the others'")
    if len({one["seq_len"] for one in judged}) > 1:
        lines.append("longer sequences let a model look further back; --seq-len gives all the same")
    return lines
