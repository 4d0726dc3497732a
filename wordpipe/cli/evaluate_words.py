"""`wordpipe evaluate words`: figures in tables for people, or as JSON."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.output import counted, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.cli.tables import figure, short_name, side_by_side

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["words"]

_NAME_WIDTH = 28
_UNKNOWN_SHOWN = 5
_METHODS = {"cosadd": "3CosAdd", "cosmul": "3CosMul"}


@click.command(
    cls=ExampleCommand,
    example="wordpipe evaluate words run/words --data wordsim353.txt --data questions-words.txt\n"
    "wordpipe evaluate words run/words run/small --data sets/ --sections",
    json="Print one JSON object, with all sections and the first unknown words.",
    quiet="Print nothing but the table and errors.",
    verify="artifacts'",
)
@click.argument("words", nargs=-1, required=True, metavar="WORDS...", type=click.Path(path_type=Path))
@click.option(
    "--data", required=True, multiple=True, metavar="PATH", help="A set, or a folder of .txt, .tsv and .csv sets."
)
@click.option(
    "--restrict-vocab",
    type=click.IntRange(min=0),
    default=30_000,
    metavar="N",
    help="Ask and answer analogies with the N commonest words; 0 takes all.  [default: 30000]",
)
@click.option(
    "--analogy",
    type=click.Choice([*_METHODS]),
    default="cosadd",
    help="Add the cosines of a question, or multiply them.  [default: cosadd]",
)
@click.option(
    "--unknown",
    type=click.Choice(["drop", "zero"]),
    default="drop",
    help="Leave out pairs and questions with unknown words, or count them as cosine 0 and as wrong.  [default: drop]",
)
@click.option("--sections", is_flag=True, help="Figures for each section of the analogies.")
def words(
    words: tuple[Path, ...], data: tuple[str, ...], sections: bool, verify: bool, as_json: bool, quiet: bool, **how: Any
) -> None:
    """Judge word vectors on word similarity and analogies, side by side.

    A similarity set has two words and a score a line; the figure is Spearman's correlation of the scores with the cosines.
    An analogy set has lines of four words below lines such as ": family"; the figure is the share of questions whose
    fourth word is found from the other three.

    Figures depend on which pairs and questions are known, and those of analogies on --restrict-vocab, so both are printed;
    only figures of equal ones can be compared.
    """
    from wordpipe.errors import InputError
    from wordpipe.stages.evaluate_words import evaluate_words
    from wordpipe.stages.making import RunOptions

    with ProgressDrawer(quiet=quiet) as draw:
        run = RunOptions(report=draw, verify=verify)
        found = evaluate_words(words, data, run=run, **how)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        _print(found, sections=sections)
    if not quiet and not as_json:
        for line in _remarks(found):
            say(line)
    if all(figure is None for one in found["words"] for figure in one["metrics"].values()):
        hint = "look at the case and the language of the sets, or raise --restrict-vocab"
        raise InputError("nothing could be judged: the tables know too few words of the sets", hint=hint)


def _print(found: dict[str, Any], *, sections: bool) -> None:
    from wordpipe.cli.tables import console

    screen, judged = console(), found["words"]
    kinds = {one["kind"] for one in judged[0]["sets"]}
    cut = f"the {found['restrict_vocab']:,} commonest words" if found["restrict_vocab"] else "all words"
    said = {
        "similarity": "Similarity: Spearman's correlation with the cosines.",
        "analogies": f"Analogies: {_METHODS[found['analogy']]} among {cut}.",
    }
    unknown = "left out" if found["unknown"] == "drop" else "counted as cosine 0 and as wrong"
    screen.print(" ".join([*(said[kind] for kind in said if kind in kinds), f"Unknown words: {unknown}."]))
    build = partial(_table, sections=sections, whole="asked" if found["unknown"] == "zero" else "seen")
    for table in side_by_side(judged, build, screen):
        screen.print(table)


def _table(judged: Sequence[dict[str, Any]], *, sections: bool, whole: str) -> "Table":
    """One line per figure, one column per table of words; sections with the questions that their share is of (`whole`)."""
    from wordpipe.cli.tables import new_table

    table = new_table("", *(short_name(one["name"], _NAME_WIDTH) for one in judged))
    table.add_row("words", *(f"{one['distinct']:,}" for one in judged))
    table.add_row("dimensions", *(f"{one['dim']:,}" for one in judged))
    for same in zip(*(one["sets"] for one in judged), strict=True):
        name = short_name(same[0]["name"], _NAME_WIDTH)
        if same[0]["kind"] == "similarity":
            table.add_row(name, *(figure(one["spearman"], "{:.3f}") for one in same))
            table.add_row("  pairs known", *(f"{one['known']:,} of {one['pairs']:,}" for one in same))
            continue
        table.add_row(name, *(figure(one["accuracy"], "{:.1%}") for one in same))
        for part in ("semantic", "syntactic"):
            if same[0][part] is not None:
                table.add_row(f"  {part}", *(figure(one[part]["accuracy"], "{:.1%}") for one in same))
        table.add_row("  questions seen", *(f"{one['seen']:,} of {one['asked']:,}" for one in same))
        table.add_row("  among words", *(f"{one['among']:,}" for one in same))
        for section in zip(*(one["sections"] for one in same), strict=True) if sections else ():
            cells = (f"{figure(one['accuracy'], '{:.1%}')} of {one[whole]:,}" for one in section)
            table.add_row("  " + short_name(section[0]["name"], _NAME_WIDTH), *cells)
    for measure, form in (("spearman", "{:.3f}"), ("accuracy", "{:.1%}")):
        if sum(name.startswith(f"{measure}/") for name in judged[0]["metrics"]) > 1:
            table.add_row(f"mean {measure}", *(figure(one["metrics"][measure], form) for one in judged))
    return table


def _remarks(found: dict[str, Any]) -> list[str]:
    """What the table does not say: which words are unknown, whether columns compare, which files were passed over."""
    lines = []
    for one in found["words"]:
        name = short_name(one["name"], _NAME_WIDTH)
        if one["unit"] == "token":
            lines.append(f"{name}: its rows are tokens, so a word of several tokens is unknown")
        for kind in ("unknown_words", "guessed_words"):
            lines += [f"{name}: {_named(judged, kind)}" for judged in one["sets"] if judged.get(kind, {}).get("count")]
    known = [[one.get("known", one.get("seen")) for one in table["sets"]] for table in found["words"]]
    if found["unknown"] == "drop" and any(one != known[0] for one in known):
        lines.append("the columns know different pairs or questions; --unknown zero counts all of them")
    if found["skipped"]:
        skipped = ", ".join(f"{count:,} {ending}" for ending, count in found["skipped"].items())
        lines.append(f"files passed over: {skipped}")
    return lines


def _named(judged: dict[str, Any], kind: str) -> str:
    """How many words are unknown or guessed, and the first of them."""
    count, first = judged[kind]["count"], judged[kind]["first"]
    what = f"not among the {judged['among']:,} commonest" if "among" in judged else "unknown"
    what = "guessed from the letters, not in the table" if kind == "guessed_words" else what
    some = ", ".join([*first[:_UNKNOWN_SHOWN], *["…"] * (count > _UNKNOWN_SHOWN)])
    return f"{counted(count, 'words')} of {judged['name']} {what}: {some}"
