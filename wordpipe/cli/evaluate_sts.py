"""`wordpipe evaluate sts`: correlations in tables for people, or as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.options import chosen_embedding, embedding_options
from wordpipe.cli.output import counted, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.cli.tables import short_name, side_by_side

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["sts"]

_NAME_WIDTH = 28
_UNKNOWN_SHOWN = 5
_HEADS = {"words_mean": "mean of words", "tfidf": "TF-IDF", "lsi": "LSI", "overlap": "overlap"}
_ABOUT = "Correlation of the cosines with the scores, x 100; with 95 % of the draws of as many pairs."


@click.command(
    cls=ExampleCommand,
    params=embedding_options(),
    example="wordpipe evaluate sts run/sentences --data stsb-en-dev.csv --data sts12/\n"
    "wordpipe evaluate sts run/model run/words --data stsb-en-dev.csv --words run/words --json",
    json="Print one JSON object, with all figures.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("encoders", nargs=-1, metavar="[MODEL|WORDS|SENTENCES]...", type=click.Path(path_type=Path))
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="PATH",
    help="A file of scored pairs, or a folder whose files are one set.",
)
@click.option(
    "--words",
    metavar="WORDS",
    type=click.Path(path_type=Path),
    help="Judge the mean of these vectors too.  [default: the first WORDS named]",
)
@click.option(
    "--floors/--no-floors", default=True, help="Judge TF-IDF, LSI, the overlap and the mean of words too.  [on]"
)
@click.option(
    "--language", default="auto", metavar="LANGUAGE", help="Whose endings the floors cut off words.  [default: auto]"
)
@click.option(
    "--draws", type=click.IntRange(min=0), default=1_000, metavar="N", help="Of the bootstrap.  [default: 1000]"
)
@click.option("--parts", is_flag=True, help="Figures for each file of a folder.")
@click.option("--pearson", is_flag=True, help="Show Pearson's correlation instead of Spearman's.")
def sts(
    encoders: tuple[Path, ...],
    data: tuple[str, ...],
    parts: bool,
    pearson: bool,
    verify: bool,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Judge encoders of texts on pairs of sentences that people have scored, side by side with plain words.

    Columns of a csv, tsv or JSON Lines file are found by their names, or by their shape: two columns of sentences, and a
    score before or after them. The pairs of a folder are ranked together.

    A model or words artifact is judged as it is; sentences and index artifacts with the transform that they carry.
    """
    from wordpipe.stages.evaluate_sts import evaluate_sts
    from wordpipe.stages.making import RunOptions

    settings = chosen_embedding(given)
    with ProgressDrawer(quiet=quiet) as draw:
        found = evaluate_sts(encoders, data, run=RunOptions(report=draw, verify=verify), **given, **settings)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    _print(found, "pearson" if pearson else "spearman", parts=parts)
    if not quiet:
        for line in _remarks(found):
            say(line)


def _print(found: dict[str, Any], measure: str, *, parts: bool) -> None:
    from wordpipe.cli.tables import console

    screen = console()
    screen.print(f"{measure.capitalize()}. {_ABOUT}")
    for table in side_by_side(found["systems"], lambda some: _table(some, measure, parts=parts), screen):
        screen.print(table)


def _name(one: dict[str, Any]) -> str:
    return _HEADS.get(one["system"]) or short_name(one["name"], _NAME_WIDTH)


def _table(systems: Sequence[dict[str, Any]], measure: str, *, parts: bool) -> "Table":
    """The figure of each set, its interval and its parts; one column per system."""
    from wordpipe.cli.tables import new_table

    table = new_table("", *map(_name, systems))
    for same in zip(*(one["sets"] for one in systems), strict=True):
        label = f"{short_name(same[0]['name'], _NAME_WIDTH)} ({counted(same[0]['pairs'], 'pairs')})"
        table.add_row(label, *(_figure(one[measure]) for one in same))
        if same[0][f"{measure}_interval"] is not None:
            table.add_row("  95 %", *(_range(one[f"{measure}_interval"]) for one in same))
        for part in zip(*(one.get("parts", []) for one in same), strict=True) if parts else ():
            table.add_row(f"  {short_name(part[0]['name'], _NAME_WIDTH)}", *(_figure(one[measure]) for one in part))
    if len(systems[0]["sets"]) > 1:
        table.add_row("mean of the sets", *(_figure(one["metrics"][measure]) for one in systems))
    return table


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _range(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else " … ".join(f"{100 * bound:.1f}" for bound in interval)


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: sentences and words that a system knows nothing of, and what was passed over."""
    lines = []
    for one, judged in ((system, judged) for system in found["systems"] for judged in system["sets"]):
        if (count := judged["sentences_without_vector"]) > 0:
            without = f"{counted(count, 'sentences')} of {judged['name']} without a vector"
            lines.append(f"{_name(one)}: {without}: pairs count as 0")
        if (words := judged["unknown_words"])["count"]:
            shown = [*words["first"][:_UNKNOWN_SHOWN], *(["…"] if len(words["first"]) > _UNKNOWN_SHOWN else [])]
            unknown = f"{counted(words['count'], 'unknown words')} in {judged['name']}"
            lines.append(f"{_name(one)}: {unknown}: {', '.join(shown)}")
    if unscored := sum(one["unscored"] for one in found["sets"]):
        lines.append(f"{counted(unscored, 'pairs')} without a score left out")
    if found["skipped"]:
        passed = ", ".join(f"{count} {ending}" for ending, count in found["skipped"].items())
        lines.append(f"files passed over: {passed}")
    return lines
