"""The commands that make artifacts: one per stage, drawn from the registry; `init`, `run` and `status` for whole pipelines."""

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import COMMON, PATH, ExampleCommand, Option
from wordpipe.cli.options import assigned_settings, chosen_settings, settings_options, settings_without_option
from wordpipe.cli.output import ProgressDrawer, human_seconds, made_lines, say
from wordpipe.stages import Argument, Command

if TYPE_CHECKING:
    from wordpipe.pipeline import Pipeline, State
    from wordpipe.stages import Made

_CONFIG = click.argument("config", type=PATH)


def stage_command(command: Command) -> click.Command:
    """The `wordpipe` command of a stage, its options drawn from the settings."""
    settings = command.load_settings()
    config = "Take settings from a TOML file; flat keys, or the stage of a pipeline. Flags win."
    made = f"Folder of the {command.makes} to make."
    params = [
        *(_argument(argument) for argument in command.arguments),
        Option(["-o", "--output"], type=PATH, required=True, help=made),
        *settings_options(settings),
        _common("--config", metavar="FILE[#STAGE]", help=config, expert=False),
        _common("--set", metavar="NAME=VALUE", multiple=True, help="Any setting by name, as in TOML; may be repeated."),
        _common("--fresh", is_flag=True, help="Start over, even where a stopped run could be continued."),
        _common("-v", "--verbose", is_flag=True, help="Say which settings are used and where they come from."),
    ]
    inputs = "\n".join(f"{argument.name}: {argument.text}." for argument in command.arguments)
    return ExampleCommand(
        command.name.rpartition(" ")[2],
        params=params,
        callback=lambda **given: _make(command, given),
        example=command.example,
        no_option=settings_without_option(settings),
        help=f"{command.summary}\n\n\b\n{inputs}",
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


def _make(command: Command, given: dict[str, Any]) -> None:
    from wordpipe.stages import RunOptions

    settings_class, from_file = command.load_settings(), {}
    if given["config"]:
        from wordpipe.pipeline import settings_from_file

        from_file = settings_from_file(given["config"], command.name)
    flags = chosen_settings(settings_class, given)
    flags |= assigned_settings(given["set"], flags)
    values = settings_class.merge(from_file, flags)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("RANK", "0") != "0":
        given |= {"quiet": True, "as_json": False, "verbose": False}  # of torchrun's processes the first alone speaks
    if given["verbose"]:
        for name, value in settings_class.make(values).manifest().items():
            origin = "flag" if name in flags else given["config"] if name in values else "default"
            say(f"  {name} = {value}  ({origin})")
    inputs = [given[_argument(argument).name or ""] for argument in command.arguments]
    with ProgressDrawer(quiet=given["quiet"]) as draw:
        run = RunOptions(report=draw, fresh=given["fresh"], verify=given["verify"])
        made = command.load()(*inputs, output=given["output"], run=run, **values)
    _print_made(command, made, as_json=given["as_json"], quiet=given["quiet"])


def _print_made(command: Command, made: "Made", *, as_json: bool, quiet: bool, hint: bool = True) -> None:
    """Say what was made: JSON on stdout, or a few lines for people on stderr."""
    if as_json:
        click.echo(json.dumps(made.to_json(), ensure_ascii=False))
    if quiet or as_json:
        return
    say(f"{made.kind} → {made.path}  in {human_seconds(made.seconds)}")
    for line in made_lines(made.counts, made.metrics, made.rates, shlex.quote(made.path)):
        say(f"  {line}")
    if command.next and hint:
        parent = Path(made.path).parent
        say(f"next: {command.next.format(output=shlex.quote(made.path), parent=shlex.quote(str(parent)))}")


@click.command(cls=ExampleCommand, example="wordpipe init my-project && cd my-project && wordpipe run wordpipe.toml")
@click.argument("folder", default=".", type=PATH)
def init(folder: Path) -> None:
    """Write a commented wordpipe.toml and a Makefile to start from. Files that exist are left alone."""
    from wordpipe.pipeline import write_project

    for path, is_new in write_project(folder):
        say(f"{'wrote' if is_new else 'kept '} {path}")
    say(f"next: put text files into {folder / 'texts'}, then: wordpipe run {folder / 'wordpipe.toml'}")


@click.command(
    cls=ExampleCommand,
    example="wordpipe run configs/small.toml",
    json="Print one JSON object per stage made.",
    quiet="Print nothing but errors.",
    verify="inputs'",
)
@_CONFIG
@click.option("--from", "first", metavar="STAGE", help="Begin with this stage.")
@click.option("--to", "last", metavar="STAGE", help="End with this stage.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be made, and why.")
@click.option("--fresh", is_flag=True, help="Make every stage, fresh or not.")
def run(config: Path, dry_run: bool, fresh: bool, verify: bool, as_json: bool, quiet: bool, **ends: Any) -> None:
    """Make what is missing or stale in a pipeline, in order, and say why."""
    from wordpipe.pipeline import Pipeline
    from wordpipe.runtime import Stopwatch
    from wordpipe.stages import RunOptions

    pipeline = Pipeline(config)
    if dry_run:
        _print_states(pipeline, pipeline.states(fresh=fresh, **ends), as_json=as_json)
        return
    made, clock = 0, Stopwatch()
    with ProgressDrawer(quiet=quiet) as draw:
        for state, result in pipeline.run(RunOptions(report=draw, fresh=fresh, verify=verify), **ends):
            if result is not None:
                made += 1
                _print_made(state.stage.command, result, as_json=as_json, quiet=quiet, hint=False)
            elif not quiet:
                why = ", ".join(state.reasons) or ("--fresh" if fresh else "")
                say(f"── {state.stage.name}: {why}" if why else f"── {state.stage.name}: up to date")
    if not quiet:
        seconds = human_seconds(clock.seconds)
        say(f"{made} made in {seconds}" if made else f"nothing to do ({seconds})")


@click.command(
    cls=ExampleCommand, example="wordpipe status configs/small.toml", json="Print one JSON object per stage."
)
@_CONFIG
def status(config: Path, as_json: bool) -> None:
    """Say which stages of a pipeline are stale, and why. Makes nothing."""
    from wordpipe.pipeline import Pipeline

    pipeline = Pipeline(config)
    _print_states(pipeline, pipeline.states(), as_json=as_json)


def _print_states(pipeline: "Pipeline", states: "list[State]", *, as_json: bool) -> None:
    for state in states:
        if as_json:
            output = str(pipeline.from_here(state.stage.output))
            body = {"stage": state.stage.name, "command": state.stage.command.name, "output": output}
            click.echo(json.dumps({**body, "fresh": state.fresh, "reasons": list(state.reasons)}, ensure_ascii=False))
        else:
            line = f"{state.stage.name:<14} {state.stage.command.name:<16} {', '.join(state.reasons)}".rstrip()
            click.echo(f"{'fresh' if state.fresh else 'stale'}  {line}")
