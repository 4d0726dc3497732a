"""`wordpipe fill`: candidates for the gaps of a text, for people, as lines for a pipe, or as JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import ExampleCommand
from wordpipe.cli.lines import given_lines
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import one_line, safe_text, say
from wordpipe.model.settings import FillSettings

if TYPE_CHECKING:
    from wordpipe.stages.fill import Filled, Filler

__all__ = ["fill"]

_HELP = """Guess the missing words of a text with a masked model (wordpipe train mlm, or a folder of transformers).

All TEXT words are one text; [MASK] (or what the model's tokenizer has for it) stands for one missing token. Without TEXT,
texts are read from --texts or stdin, one per line; on a terminal there is a prompt. Several gaps are guessed together, each
without knowing the others. In a pipe, there is one line per candidate, parted by tabs: gap, probability, token, text. Exit
code 3 when nothing was filled."""


def _fill(
    model: Path, text: tuple[str, ...], texts: Path | None, as_json: bool, verify: bool, quiet: bool, **given: Any
) -> None:
    from wordpipe.errors import InputError
    from wordpipe.stages.fill import Filler
    from wordpipe.stages.models import open_model

    settings = FillSettings.make(chosen_settings(FillSettings, given))
    opened = open_model(model, verify=verify)
    filler = Filler(opened, settings)
    for note in () if quiet else opened.notes:
        say(f"{model.name}: {note}")
    n_filled = 0
    for line in given_lines(text, texts, what="text", option="--texts"):
        try:
            filled = filler.fill(line)
        except InputError as error:
            if text:
                raise
            say(f"skipped: {error.message}")  # one bad line ends no batch
            continue
        n_filled += 1
        if filled.cut and not quiet:
            say(
                f"the text is longer than the model's {filler.max_len:,} positions: {filled.cut:,} of its tokens were cut"
            )
        _print(filled, filler, as_json=as_json)
    if not n_filled:
        raise InputError("nothing was filled", hint=f"write {filler.mask} for what is missing")


def _print(filled: "Filled", filler: "Filler", *, as_json: bool) -> None:
    candidates = [one for mask in filled.masks for one in mask]
    if as_json:
        for one in candidates:
            click.echo(json.dumps({"text": filled.text, **asdict(one)}, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_table(filled, filler)
    else:
        for one in candidates:
            cells = (str(one.mask), f"{one.probability:.4f}", one.token, one_line(one.filled))
            click.echo(safe_text("\t".join(cells)))


def _print_table(filled: "Filled", filler: "Filler") -> None:
    """The filled text, and below it the candidates, gap by gap."""
    click.echo(click.style(safe_text(filled.filled), bold=True))
    for number, mask in enumerate(filled.masks, start=1):
        if len(filled.masks) > 1:
            click.echo(f"{filler.mask} {number}")
        for one in mask:
            click.echo(safe_text(f"  {one.probability:7.2%}  {one.token}"))


_PARAMS: list[click.Parameter] = [
    click.Argument(["model"], metavar="MODEL", type=click.Path(path_type=Path)),
    click.Argument(["text"], nargs=-1),
    *settings_options(FillSettings),
    click.Option(
        ["--texts"], type=click.Path(path_type=Path), metavar="FILE", help="Read texts from a file, one per line."
    ),
]

fill = ExampleCommand(
    "fill",
    params=_PARAMS,
    callback=_fill,
    help=_HELP,
    example='wordpipe fill run/model "the bees fly to the [MASK]"\n'
    'wordpipe fill run/model "honey is [MASK] and [MASK]" --top-k 3 --json',
    json="Print one JSON object per candidate.",
    quiet="Print nothing but the candidates and errors.",
    verify="artifact's",
)
