"""One command per verb that makes an artifact, built from the catalogue and the verb's settings."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from wordpipe.cli.options import SettingOption, chosen_settings, settings_options
from wordpipe.cli.output import human_count, human_seconds, noun, say
from wordpipe.cli.progress import ProgressDrawer
from wordpipe.removed import why_no_option, why_no_value
from wordpipe.stages.catalog import Argument, Verb

__all__ = ["ExampleCommand", "print_made", "stage_command"]


class ExampleCommand(click.Command):
    """A command whose help leads with an example that runs."""

    def __init__(self, *args: Any, example: str = "", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.example = example

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option or a value that an earlier version took is answered with what to do now."""
        name = ctx.command_path.partition(" ")[2]
        try:
            return super().parse_args(ctx, [*args])  # which it empties
        except click.NoSuchOption as error:
            option = error.option_name.lstrip("-").removeprefix("no-").replace("-", "_")
            if said := why_no_option(name, option):
                raise click.UsageError(f"--{said}.".replace("_", "-", option.count("_")), ctx) from None
            raise
        except click.BadParameter as error:
            option = (error.param.name or "") if error.param else ""
            for value in args:
                if said := why_no_value(name, option, value.rpartition("=")[2]):
                    raise click.UsageError(f"--{said}.", ctx) from None
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Example, usage, what it does, options."""
        if self.example:
            formatter.write_text("Example:")
            for line in self.example.splitlines():
                formatter.write(f"  {line}\n")
            formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, under headings where their settings name some."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                heading = param.section if isinstance(param, SettingOption) and param.section else "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _common_options() -> list[click.Option]:
    """The options that every command has which makes something."""
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object on stdout."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Print nothing but errors."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Say which settings are used and where they come from."),
    ]


def stage_command(verb: Verb) -> click.Command:
    """The click command of a verb."""
    settings = verb.load_settings()
    params: list[click.Parameter] = [_argument(argument) for argument in verb.arguments]
    output = click.Path(path_type=Path)
    params.append(
        click.Option(["-o", "--output"], type=output, required=True, help=f"Folder of the {verb.makes} to make.")
    )
    params += settings_options(settings)
    params.append(
        click.Option(
            ["--config"],
            metavar="FILE[#STAGE]",
            help="Take settings from a TOML file: flat keys, or the stage of a pipeline. Flags win.",
        )
    )
    params.append(
        click.Option(["--fresh"], is_flag=True, help="Start over, even where a stopped run could be continued.")
    )
    params.append(
        click.Option(["--verify/--no-verify"], default=True, help="Check the inputs' hashes before use.  [on]")
    )
    params += _common_options()

    def callback(**given: Any) -> None:
        _make(verb, given)

    inputs = "\n".join(f"{argument.name}: {argument.text}." for argument in verb.arguments)
    return ExampleCommand(
        verb.name.rpartition(" ")[2],
        params=params,
        callback=callback,
        example=verb.example,
        help=f"{verb.summary}\n\n\b\n{inputs}",
    )


def _argument(argument: Argument) -> click.Argument:
    name = argument.name.lower().replace("|", "_or_")
    return click.Argument([name], nargs=-1 if argument.many else 1, required=True, metavar=_metavar(argument))


def _metavar(argument: Argument) -> str:
    return f"{argument.name}..." if argument.many else argument.name


def _make(verb: Verb, given: dict[str, Any]) -> None:
    from wordpipe.pipeline import settings_from_file
    from wordpipe.stages.making import RunOptions

    settings_class = verb.load_settings()
    from_file = settings_from_file(given["config"], verb.name) if given["config"] else {}
    flags = chosen_settings(settings_class, given)
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
    counts = " · ".join(
        f"{human_count(count)} {noun(count, name.replace('_', ' '))}" for name, count in made.counts.items() if count
    )
    figures = " · ".join(
        [f"{name} {value:.4g}" for name, value in made.metrics.items()]
        + [f"{_rate(value)} {_spoken(name)}" for name, value in made.rates.items()]
    )
    say(f"{made.kind} → {made.path}  in {human_seconds(made.seconds)}")
    for line in filter(None, (counts, figures)):
        say(f"  {line}")
    if verb.next and hint:
        parent = Path(made.path).parent
        say(f"next: {verb.next.format(output=shlex.quote(made.path), parent=shlex.quote(str(parent)))}")


def _spoken(name: str) -> str:
    return name.replace("mb_per_s", "MB/s").replace("_per_s", "/s").replace("_", " ")


def _rate(value: float) -> str:
    return human_count(value) if value >= 100 else f"{value:.2f}"
