"""`wordpipe plot`: curves of trainings as a picture, or as lines of blocks on the terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import ProgressDrawer, human_bytes, human_count, human_seconds, safe_text, say

_SPARKS = 40
_AXES = click.Choice(["tokens", "steps", "seconds"])
_START = "Draw nothing before N tokens, steps or seconds."


@click.command(
    cls=ExampleCommand,
    example="wordpipe plot run/model -o curve.png\nwordpipe plot run/adamw run/muon --axis steps --log -o both.svg\n"
    "wordpipe plot run/model",
    json="Print one JSON object on stdout, with all that was logged.",
    quiet="Print nothing but errors (and the lines of text).",
    verify="artifacts'",
)
@click.argument("trained", nargs=-1, required=True, metavar="MODEL|WORDS...", type=PATH)
@click.option("-o", "--output", type=PATH, help="The .png or .svg to write; without it, lines of text.")
@click.option("--axis", type=_AXES, default="tokens", help="What the curves run along.  [default: tokens]")
@click.option("--log", is_flag=True, help="A logarithmic axis: what came first takes as much room as what came last.")
@click.option("--start", type=click.FloatRange(min=0), default=0, metavar="N", help=_START)
def plot(
    trained: tuple[Path, ...], output: Path | None, verify: bool, as_json: bool, quiet: bool, **drawn: Any
) -> None:
    """Draw loss and learning rate of trainings, side by side.

    A training that still runs, or was stopped, is drawn from its last checkpoint: name the folder that it will make.
    The dotted line is the loss of a model that knows how frequent each token is and nothing else.
    """
    from wordpipe.stages import RunOptions
    from wordpipe.stages import plot as draw_plot

    with ProgressDrawer(quiet=quiet) as draw:
        found = draw_plot(trained, output, run=RunOptions(report=draw, verify=verify), **drawn)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for one in found["runs"]:
        steps = f"{one['steps']:,} {'steps' if one['kind'] == 'model' else 'epochs'}"
        head = f"{one['name']}: {steps}, {human_count(one['tokens'])} tokens, {human_seconds(one['seconds'])}"
        head += "" if one["finished"] else ", not finished"
        if output is None:
            click.echo(safe_text("\n  ".join([head, *_lines(one)])))
        elif not quiet:
            say(head)
    if output is not None and not quiet:
        say(f"curves → {output}  ({human_bytes(found['bytes'])})")


def _lines(one: dict[str, Any]) -> Iterator[str]:
    """The course of each figure of a run."""
    from wordpipe.report import trend

    split = {name: [row for row in one["log"] if row["split"] == name] for name in ("train", "valid")}
    for name, rows, column, form in (
        ("training loss", split["train"], "loss", ".3f"),
        ("held-out loss", split["valid"], "loss", ".3f"),
        ("learning rate", split["train"] or split["valid"], "lr", ".3g"),
    ):
        values = [row[column] for row in rows]
        if any(value is not None for value in values):
            yield trend(f"{name:15}", values, _SPARKS, form=form)
    if one["unigram_entropy"] is not None:
        entropy = f"{'unigram entropy':15} {one['unigram_entropy']:.3f}"
        yield f"{entropy}  (the loss of knowing frequencies and nothing else)"
