"""`wordpipe evaluate`: measures in tables for people, or as JSON."""

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

__all__ = ["tokenizer"]

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
_MEASURES = {  # the name in metrics → its line in the table, and how it is written
    "bytes_per_token": ("bytes per token", "{:.3f}"),
    "characters_per_token": ("characters per token", "{:.3f}"),
    "tokens_per_word": ("tokens per word", "{:.3f}"),
    "split_words": ("words split", "{:.1%}"),
    "unknown_rate": ("unknown tokens", "{:.2%}"),
    "vocabulary_used": ("vocabulary used", "{:.1%}"),
    "round_trip_failures": ("texts changed", "{:.2%}"),
    "text_failures": ("  beyond spaces", "{:.2%}"),
}


def _read_sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Whole numbers parted by commas."""
    try:
        sizes = tuple(int(part) for part in value.split(",")) if value is not None else ()
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 4000,8000.", ctx, param) from None
    if sizes and min(sizes) < 1:
        raise click.BadParameter(f"{min(sizes)} is no size of a vocabulary.", ctx, param)
    return sizes


@click.command(
    cls=ExampleCommand,
    example="wordpipe evaluate tokenizer run/tokens --data run/corpus\n"
    "wordpipe evaluate tokenizer run/tokens --data notes/ --sizes 4000,8000,16000",
    json="Print one JSON object, with the first failures and unused tokens.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("tokens", nargs=-1, required=True, metavar="TOKENS...", type=click.Path(path_type=Path))
@click.option(
    "--data", required=True, multiple=True, metavar="CORPUS", help="A corpus artifact, or any source of text."
)
@click.option("--sizes", callback=_read_sizes, metavar="N,N,…", help="Judge at these vocabulary sizes too.")
@click.option(
    "--by", metavar="COLUMN", help="Figures for each source, or each value of a metadata column such as lang."
)
@click.option("--split", type=click.Choice(["train", "valid", "test"]), help="Judge this part of the corpus only.")
def tokenizer(
    tokens: tuple[Path, ...],
    data: tuple[str, ...],
    sizes: tuple[int, ...],
    by: str | None,
    split: str | None,
    verify: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Judge tokenizers on a text, side by side.

    TOKENS are artifacts with a tokenizer, or whatever tokenize --tokenizer takes. More bytes per token make shorter
    sequences; tokens per word (fertility) and split words count words where spaces mark them.

    With --sizes, a smaller BPE vocabulary is cut from the merges of the tokenizer; any other is trained from the counts of
    the artifact, in seconds.
    """
    from wordpipe.stages.evaluate import evaluate_tokenizer
    from wordpipe.stages.making import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        run = RunOptions(report=draw, verify=verify)
        found = evaluate_tokenizer(tokens, data, sizes=sizes, by=by, split=split, run=run)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    _print(found["tokenizers"], by)
    if not quiet:
        for line in _remarks(found["tokenizers"]):
            say(line)


def _print(judged: list[dict[str, Any]], by: str | None) -> None:
    from wordpipe.cli.tables import console

    screen = console()
    for table in side_by_side(judged, _totals, screen):
        screen.print(table)
    for one in judged if by is not None else ():
        screen.print(_groups(one, by or "", screen.width))


def _totals(judged: Sequence[dict[str, Any]]) -> "Table":
    """One line per measure, one column per tokenizer."""
    from wordpipe.cli.tables import new_table

    table = new_table("", *(_title(one) for one in judged))
    table.add_row("vocabulary", *(f"{one['vocab_size']:,}" for one in judged))
    for name, (label, form) in _MEASURES.items():
        table.add_row(label, *(figure(one["metrics"][name], form) for one in judged))
    return table


def _groups(one: dict[str, Any], by: str, width: int) -> "Table":
    """One line per group, the ones with most text first; as many columns as there is room for."""
    from wordpipe.cli.tables import new_table

    columns = list(_GROUP_COLUMNS.items())[: max(1, (width - _LEAST_NAME - _BETWEEN) // _GROUP_COLUMN_WIDTH)]
    room = min(_NAME_WIDTH, max(_LEAST_NAME, width - _BETWEEN - len(columns) * _GROUP_COLUMN_WIDTH))
    left_out = len(_GROUP_COLUMNS) - len(columns)
    title = _title(one).replace("\n", ", ") + (f" ({left_out} columns do not fit)" if left_out else "")
    table = new_table(short_name(by, room), *(head for _, head in columns), title=title)
    for name, group in list(one["groups"].items())[:_GROUPS_SHOWN]:
        table.add_row(short_name(name, room), *(_group_cell(group, column) for column, _ in columns))
    if (more := len(one["groups"]) - _GROUPS_SHOWN) > 0:
        table.add_row(f"… {more:,} more", *[""] * len(columns))
    return table


def _group_cell(group: dict[str, Any], column: str) -> str:
    if column == "bytes":
        return human_bytes(group["counts"]["bytes"])
    return figure(group["metrics"][column], _MEASURES[column][1])


def _title(one: dict[str, Any]) -> str:
    name = short_name(one["name"], _NAME_WIDTH)
    return name if one["made"] == "as it is" else f"{name}\n{one['made']} to {human_count(one['vocab_size'])}"


def _remarks(judged: list[dict[str, Any]]) -> list[str]:
    """What the table does not say: on how much text it stands, and the first text that did not come back."""
    counts = judged[0]["counts"]
    lines = [
        f"{human_count(counts['texts'])} texts, {human_bytes(counts['bytes'])}, {human_count(counts['words'])} words"
        + (f"; {human_count(runs)} runs in scripts without spaces" if (runs := counts["unspaced_runs"]) else "")
    ]
    for one in judged:
        if one["failures"]:
            first, count = one["failures"][0], one["counts"]["round_trip_failures"]
            lines.append(f"{_title(one).splitlines()[0]}: {count:,} texts do not come back as they were; the first:")
            lines += [f"  text     {_start(first['text'])}", f"  decoded  {_start(first['decoded'])}"]
    return lines


def _start(text: str) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= 100 else text[:99] + "…"
