"""One command per verb that makes an artifact, built from the catalogue and the verb's settings."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import COMMON, PATH, ExampleCommand, Option
from wordpipe.cli.options import assigned_settings, chosen_settings, settings_options, settings_without_option
from wordpipe.cli.output import human_count, human_seconds, noun, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.stages import Argument, Verb


def stage_command(verb: Verb) -> click.Command:
    """The click command of a verb."""
    settings = verb.load_settings()
    config = "Take settings from a TOML file; flat keys, or the stage of a pipeline. Flags win."
    made = f"Folder of the {verb.makes} to make."
    params = [
        *(_argument(argument) for argument in verb.arguments),
        Option(["-o", "--output"], type=PATH, required=True, help=made),
        *settings_options(settings),
        _common("--config", metavar="FILE[#STAGE]", help=config, expert=False),
        _common("--set", metavar="NAME=VALUE", multiple=True, help="Any setting by name, as in TOML; may be repeated."),
        _common("--fresh", is_flag=True, help="Start over, even where a stopped run could be continued."),
        _common("-v", "--verbose", is_flag=True, help="Say which settings are used and where they come from."),
    ]
    inputs = "\n".join(f"{argument.name}: {argument.text}." for argument in verb.arguments)
    return ExampleCommand(
        verb.name.rpartition(" ")[2],
        params=params,
        callback=lambda **given: _make(verb, given),
        example=verb.example,
        no_option=settings_without_option(settings),
        help=f"{verb.summary}\n\n\b\n{inputs}",
        json="Print one JSON object on stdout.",
        quiet="Print nothing but errors.",
        verify="inputs'",
    )


def _common(*names: str, expert: bool = True, **attrs: Any) -> Option:
    return Option(names, section=COMMON, expert=expert, **attrs)


def _argument(argument: Argument) -> click.Argument:
    name = argument.name.lower().replace("|", "_or_")
    metavar = f"{argument.name}..." if argument.many else argument.name
    return click.Argument([name], nargs=-1 if argument.many else 1, required=True, metavar=metavar)


def _make(verb: Verb, given: dict[str, Any]) -> None:
    from wordpipe.pipeline import settings_from_file
    from wordpipe.stages import RunOptions

    settings_class = verb.load_settings()
    from_file = settings_from_file(given["config"], verb.name) if given["config"] else {}
    flags = chosen_settings(settings_class, given)
    flags |= assigned_settings(given["set"], flags)
    values = settings_class.merge(from_file, flags)
    if _follows():
        given |= {"quiet": True, "as_json": False, "verbose": False}
    if given["verbose"]:
        for name, value in settings_class.make(values).manifest().items():
            origin = "flag" if name in flags else given["config"] if name in values else "default"
            say(f"  {name} = {value}  ({origin})")
    inputs = [given[_argument(argument).name or ""] for argument in verb.arguments]
    with ProgressDrawer(quiet=given["quiet"]) as draw:
        run = RunOptions(report=draw, fresh=given["fresh"], verify=given["verify"])
        made = verb.load()(*inputs, output=given["output"], run=run, **values)
    print_made(verb, made, as_json=given["as_json"], quiet=given["quiet"])


def _follows() -> bool:
    """Whether torchrun started this process beside the first one, which alone speaks."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("RANK", "0") != "0"


def print_made(verb: Verb, made: Any, *, as_json: bool, quiet: bool, hint: bool = True) -> None:
    """Say what was made: JSON on stdout, or a few lines for people on stderr."""
    if as_json:
        click.echo(json.dumps(made.to_json(), ensure_ascii=False))
    if quiet or as_json:
        return
    counted = ((name.replace("_", " "), count) for name, count in made.counts.items() if count)
    counts = [f"{human_count(count)} {noun(count, name)}" for name, count in counted]
    figures = [f"{name} {value:.4g}" for name, value in made.metrics.items()]
    figures += [f"{_rate(value)} {_spoken(name)}" for name, value in made.rates.items()]
    say(f"{made.kind} → {made.path}  in {human_seconds(made.seconds)}")
    for line in filter(None, (counts, figures)):
        say(f"  {' · '.join(line)}")
    if verb.next and hint:
        parent = Path(made.path).parent
        say(f"next: {verb.next.format(output=shlex.quote(made.path), parent=shlex.quote(str(parent)))}")


def _spoken(name: str) -> str:
    return name.replace("mb_per_s", "MB/s").replace("_per_s", "/s").replace("_", " ")


def _rate(value: float) -> str:
    return human_count(value) if value >= 100 else f"{value:.2f}"
