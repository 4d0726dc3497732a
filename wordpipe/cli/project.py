"""`wordpipe init`, `run` and `status`: whole pipelines from a config file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import human_seconds, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.cli.stage import print_made

if TYPE_CHECKING:
    from wordpipe.pipeline import Pipeline, State

_CONFIG = click.argument("config", type=PATH)


@click.command(cls=ExampleCommand, example="wordpipe init my-project && cd my-project && wordpipe run wordpipe.toml")
@click.argument("folder", default=".", type=PATH)
def init(folder: Path) -> None:
    """Write a commented wordpipe.toml and a Makefile to start from. Files that exist are left alone."""
    from wordpipe.stages import write_project

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
                print_made(state.stage.verb, result, as_json=as_json, quiet=quiet, hint=False)
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
            body = {"stage": state.stage.name, "command": state.stage.verb.name, "output": output}
            click.echo(json.dumps({**body, "fresh": state.fresh, "reasons": list(state.reasons)}, ensure_ascii=False))
        else:
            line = f"{state.stage.name:<14} {state.stage.verb.name:<16} {', '.join(state.reasons)}".rstrip()
            click.echo(f"{'fresh' if state.fresh else 'stale'}  {line}")
