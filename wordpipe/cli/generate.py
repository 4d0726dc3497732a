"""`wordpipe generate`: texts continued on the screen, or as JSON."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import COMMON, ExampleCommand, Option
from wordpipe.cli.lines import given_lines
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import counted, human_count, safe_text, say
from wordpipe.model.settings import GenerateSettings

if TYPE_CHECKING:
    from wordpipe.stages.generate import Writing

__all__ = ["generate"]

_HELP = """Continue a text with a causal model (wordpipe train clm, or a folder of transformers).

All PROMPT words are one prompt; an empty one ("") lets the model begin. Without PROMPT, prompts are read from --prompts or
stdin, one per line; on a terminal there is a prompt. A single text is shown while it is made. Special tokens are never drawn,
but the one that ends a text."""


def _generate(
    model: Path, prompt: tuple[str, ...], prompts: Path | None, as_json: bool, verify: bool, quiet: bool, verbose: bool,
    **given: Any,
) -> None:  # fmt: skip
    from wordpipe.stages.generate import Writing
    from wordpipe.stages.models import open_model

    settings = GenerateSettings.make(chosen_settings(GenerateSettings, given))
    opened = open_model(model, verify=verify)
    opened.need("decoder")
    for note in () if quiet else opened.notes:
        say(f"{model.name}: {note}")
    for number, line in enumerate(given_lines(prompt, prompts, what="prompt", option="--prompts")):
        writing = Writing(opened, line, settings)
        if as_json:
            _print_json(writing)
        else:
            if number:
                click.echo()
            (_print_live if settings.samples == 1 else _print_samples)(writing)
        if not quiet:
            for note in writing.notes:
                say(note)
        if verbose:
            rate = human_count(writing.tokens / max(writing.seconds, 1e-9))
            say(f"{counted(writing.tokens, 'tokens')} in {writing.seconds:.2f} s, {rate} tokens/s")


def _print_live(writing: "Writing") -> None:
    """The prompt, and the text as it comes."""
    click.echo(click.style(safe_text(writing.prompt), bold=True), nl=False)
    for _, text in writing.pieces():
        click.echo(safe_text(text), nl=False)
    click.echo()


def _print_samples(writing: "Writing") -> None:
    for _ in writing.pieces():
        pass
    for number, made in enumerate(writing.results(), start=1):
        click.echo(("\n" if number > 1 else "") + click.style(f"# {number}", bold=True))
        click.echo(click.style(safe_text(made.prompt), bold=True) + safe_text(made.text))


def _print_json(writing: "Writing") -> None:
    for _ in writing.pieces():
        pass
    for made in writing.results():
        click.echo(json.dumps(asdict(made), ensure_ascii=False))


_PARAMS: list[click.Parameter] = [
    click.Argument(["model"], metavar="MODEL", type=click.Path(path_type=Path)),
    click.Argument(["prompt"], nargs=-1),
    *settings_options(GenerateSettings),
    click.Option(
        ["--prompts"], type=click.Path(path_type=Path), metavar="FILE", help="Read prompts from a file, one per line."
    ),
    Option(["-v", "--verbose"], is_flag=True, section=COMMON, expert=True, help="Say how fast it was."),
]
_callback: Callable[..., None] = _generate

generate = ExampleCommand(
    "generate",
    params=_PARAMS,
    callback=_callback,
    help=_HELP,
    example='wordpipe generate run/model "The bees of the valley"\n'
    'wordpipe generate run/model "Honey is" --samples 3 --temperature 0.7 --seed 5 --json',
    json="Print one JSON object per text.",
    quiet="Print nothing but the texts and errors.",
    verify="artifact's",
)
