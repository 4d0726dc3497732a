"""The commands that make artifacts: one per stage, drawn from the registry; `init`, `run` and `status` for whole pipelines."""

import json
import os
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from wordpipe.cli.command import COMMON, PATH, ExampleCommand, Option
from wordpipe.cli.options import (
    assigned_settings,
    chosen_settings,
    settings_options,
    settings_without_option,
)
from wordpipe.cli.output import (
    ProgressDrawer,
    amounts,
    counted,
    escaped,
    human_bytes,
    human_seconds,
    made_lines,
    one_line,
    safe_text,
    say,
)
from wordpipe.errors import ConfigError
from wordpipe.runtime import memory_bytes, process_number
from wordpipe.stages import Argument, Maker
from wordpipe.storage import parent_of

if TYPE_CHECKING:
    from wordpipe.pipeline import Pipeline, Project, Stage, State
    from wordpipe.stages import Made

_CONFIG = click.argument("config", type=PATH, default="wordpipe.toml")


def stage_command(command: Maker) -> click.Command:
    """The `wordpipe` command of a stage, its options drawn from the settings."""
    # its options: output, settings, where settings come from, how it runs
    settings = command.load_settings()
    config = "Read settings from a TOML file; from a pipeline file, settings and inputs of a stage. Options override the file."
    made = f"Output folder of the {command.made_kinds}; default with --config: the folder of the stage."
    params = [
        *(_argument(argument) for argument in command.arguments),
        Option(["-o", "--output"], type=PATH, help=made),
        *settings_options(settings),
        _common("--config", metavar="FILE[#STAGE]", help=config, expert=False),
        _common("--set", metavar="NAME=VALUE", multiple=True, help="Set any setting to a TOML value; may be repeated."),
        *([_dry_run()] if command.preview else ()),
        _common("--fresh", is_flag=True, help="Start from the beginning, even if a stopped run could be continued."),
        *(_engine_options(joined=command.joined) if command.takes_engine else ()),
        _common("-v", "--verbose", is_flag=True, help="Show which settings are used and where they come from."),
    ]
    # its help names the inputs
    inputs = "\n".join(f"{argument.name}: {argument.text}." for argument in command.arguments)
    # the command
    return ExampleCommand(
        command.name.rpartition(" ")[2],
        params=params,
        callback=lambda **given: make(command, given),
        example=command.example,
        no_option=settings_without_option(settings),
        instead=settings.instead,
        help=f"{command.summary}\n\n\b\n{inputs}",
        json="Print one JSON object on stdout.",
        quiet="Print nothing but errors.",
        verify="inputs'",
    )


def _dry_run() -> Option:
    """Return the option that shows what a command would read."""
    text = "Only show what would be read; what would be passed over, how to read that, and how long it would take, too."
    return _common("-n", "--dry-run", is_flag=True, help=text, expert=False)


def _common(*names: str, expert: bool = True, **attrs: Any) -> Option:
    """Make one of the common options of commands that make artifacts."""
    return Option(names, section=COMMON, expert=expert, **attrs)


def _engine_options(*, joined: bool = False) -> list[Option]:
    """Return the options of Ray: where to make shards, or in how many processes to train."""
    where = "Where the work runs: in this process, or in Ray tasks. The output is the same."
    workers = "Number of threads, or of Ray processes.  [default: one for each processor]"
    if joined:
        where = "Where to train: in this process, or in several Ray processes. The loss is the same."
        workers = "Number of Ray processes.  [default: one for each GPU, otherwise one for each machine]"
    return [
        _common("--engine", type=click.Choice(["local", "ray"]), default="local", help=f"{where}  [default: local]"),
        _common(
            "--address",
            help="Address of a running Ray cluster: HOST:PORT, or auto; without it, a new cluster is started.",
        ),
        _common("--workers", type=int, help=workers),
    ]


def _chosen_engine(given: dict[str, Any]) -> dict[str, Any]:
    """Return the run options that `_engine_options` were given."""
    return {name: given[name] for name in ("engine", "address", "workers") if given.get(name) is not None}


def _argument(argument: Argument) -> click.Argument:
    """Make the command line argument of a stage's input."""
    name = argument.name.lower().replace("|", "_or_")
    metavar = f"{argument.name}..." if argument.many else argument.name
    # required, but that a stage of a config has inputs of its own
    return click.Argument([name], nargs=-1 if argument.many else 1, required=False, metavar=metavar)


def make(command: Maker, given: dict[str, Any]) -> None:
    """Run the command of a stage: make its artifact, from what the command line gives."""
    from wordpipe.pace import now
    from wordpipe.stages import RunOptions

    # settings of the file, which options override
    called = click.get_current_context().obj or now()
    settings_class, from_file = command.load_settings(), {}
    pipeline, stage, where = None, None, given["config"]
    if given["config"]:
        from wordpipe.pipeline import place_of, stage_from_file

        found = stage_from_file(given["config"], command.name)
        if isinstance(found, dict):
            from_file = found
        else:
            pipeline, stage = found
            from_file, where = pipeline.settings_from_here(stage), place_of(stage, pipeline.config)
    # settings of the command line; errors name their options
    flags = chosen_settings(settings_class, given)
    shown = {name: f"--{name.replace('_', '-')}" for name in flags}
    flags |= (assigned := assigned_settings(given["set"], flags))
    shown |= {name: f"--set {name} =" for name in assigned}
    values = settings_class.merge(from_file, flags)
    checked = settings_class.make(values, where=where, flags=shown)
    if process_number("WORLD_SIZE", 1) > 1 and process_number("RANK", 0) != 0:
        given |= {"quiet": True, "as_json": False, "verbose": False}  # of torchrun's processes only the first prints
    # inputs and output, of the command line or of the stage
    is_alone = checked.takes_no_input and not any(given[_argument(one).name or ""] for one in command.arguments)
    inputs, of_stage = ([], False) if is_alone else _inputs(command, given, pipeline, stage)
    if given.get("dry_run"):
        from wordpipe.cli.show import print_preview

        print_preview(command, inputs[0] if inputs else pipeline.inputs_from_here(stage) if pipeline and stage else (),
                       values, as_json=given["as_json"])  # fmt: skip
        return
    output = given["output"] or (
        pipeline.from_here(stage.output) if pipeline and stage and (of_stage or is_alone) else None
    )
    if output is None:
        _missing(next(param for param in click.get_current_context().command.params if param.name == "output"))
    # which settings are used
    if given["verbose"]:
        for name, value in checked.manifest().items():
            origin = "flag" if name in flags else given["config"] if name in values else "default"
            say(f"  {name} = {value}  ({origin})")
    # the artifact
    with ProgressDrawer(quiet=given["quiet"]) as draw:
        run = RunOptions(
            report=draw,
            fresh=given["fresh"],
            verify=given["verify"],
            called=called,
            keeps_settings=not given["config"],
            **_chosen_engine(given),
        )
        if pipeline and stage and of_stage:  # as `run` makes it, so that it is fresh for `run` and `status`
            named = {
                name: str(Path(values[name]).absolute())
                for name in stage.artifacts | flags
                if name in _artifacts(command)
            }
            made = pipeline.make(stage, run, output=output, settings=values | named)
        else:
            made = command.load()(*inputs, output=output, run=run, **values)
    _print_made(command, made, as_json=given["as_json"], quiet=given["quiet"])


def _artifacts(command: Maker) -> dict[str, tuple[str, ...]]:
    """Return the settings of a command that name artifacts."""
    return command.load_settings().artifact_fields()


def _inputs(
    command: Maker, given: dict[str, Any], pipeline: "Pipeline | None", stage: "Stage | None"
) -> tuple[list[Any], bool]:
    """Return the inputs of a stage's command from the command line, or from the config; and whether they are the stage's.

    Raises:
        click.UsageError: neither names all inputs.
        ConfigError: `--config FILE#STAGE` and the command line name different inputs.
    """
    # those of the command line
    params = [_argument(argument) for argument in command.arguments]
    inputs = [given[param.name or ""] for param in params]
    is_given = [value not in (None, ()) for value in inputs]
    if pipeline is None or stage is None:
        if not all(is_given):
            _missing(params[is_given.index(False)])
        return inputs, False
    if not any(is_given):
        return [], True
    if not all(is_given):
        _missing(params[is_given.index(False)])
    # with FILE#STAGE they must be those of the stage
    named = [str(one) for value in inputs for one in (value if isinstance(value, tuple) else [value])]
    own = pipeline.inputs_from_here(stage)
    same = [*map(os.path.realpath, named)] == [*map(os.path.realpath, own)]
    if "#" in given["config"] and not same:
        raise ConfigError(
            "the command line and the config name different inputs",
            where=f"{pipeline.config} [stage.{stage.name}]", got=" ".join(named), expected=" ".join(own),
            hint="to use the inputs of the stage, give no inputs on the command line; or change inputs in the config",
        )  # fmt: skip
    return inputs, same and "#" in given["config"]


def _missing(param: click.Parameter) -> NoReturn:
    """Raise click's error for a missing argument or option."""
    raise click.MissingParameter(ctx=click.get_current_context(), param=param)


def _print_made(command: Maker, made: "Made", *, as_json: bool, quiet: bool, hint: bool = True) -> None:
    """Print what a stage's command made: JSON on stdout, or a few lines for people on stderr."""
    if as_json:
        click.echo(json.dumps(made.to_json(), ensure_ascii=False))
    if quiet or as_json:
        return
    say(f"{made.kind} → {made.path}  in {human_seconds(made.seconds)}")
    for line in made_lines(made.counts, made.metrics, made.rates, shlex.quote(made.path)):
        say(f"  {line}")
    if made.kind == "clusters" and hint:
        _print_clusters(made)
    if (following := command.next(made.counts)) and hint:
        where = {"output": shlex.quote(made.path), "parent": shlex.quote(parent_of(made.path))}
        for word, line in zip(("next", "then"), following.splitlines(), strict=False):
            is_other = line.startswith("or: ")  # another way, which needs not the first one
            say(line.format(**where) if is_other else f"{word}: {line.format(**where)}")


@click.command(
    cls=ExampleCommand,
    example="wordpipe finish run/model\nwordpipe finish run/model --cool-down",
    json="Print one JSON object on stdout.",
    quiet="Print nothing but errors.",
    verify="inputs'",
)
@click.argument("trained", metavar="MODEL", type=PATH)
@click.option(
    "--cool-down", is_flag=True,
    help="First train 10 % more steps, while the learning rate falls to 0.",
)  # fmt: skip
def finish(trained: Path, cool_down: bool, verify: bool, as_json: bool, quiet: bool) -> None:
    """Make an artifact from the last checkpoint of a training that was stopped or killed.

    MODEL: the output folder of the training. The artifact is complete, and its manifest says that the training was stopped.
    The checkpoint is kept: the command that started the training can continue from it.
    """
    from wordpipe.artifacts import manifest_at
    from wordpipe.stages import COMMANDS, RunOptions
    from wordpipe.stages import finish as end

    with ProgressDrawer(quiet=quiet) as draw:
        made = end(trained, cool_down=cool_down, run=RunOptions(report=draw, verify=verify))
    command = manifest_at(made.path).command
    _print_made(COMMANDS[command], made, as_json=as_json, quiet=quiet)
    if not (quiet or as_json):
        say(
            f"to continue, run the same wordpipe {command} again: it starts from the checkpoint and replaces this artifact"
        )


_CLUSTERS_SHOWN = 20
_TEXT_WIDTH = 20  # of words and of texts, at least


def _print_clusters(made: "Made") -> None:
    """Print the largest clusters that the command of the stage `cluster` made: size, words, the central text.

    In a pipe separated by tabs, with the title and the text, the place, and the id last where there is one.
    """
    from rich.text import Text

    from wordpipe.cli.query_answers import piped_cells, user_id
    from wordpipe.cli.tables import console, new_table
    from wordpipe.stages import open_artifact, show

    # each cluster with the text nearest to its centre
    rows: list[list[str]] = []
    with open_artifact(made.path, "clusters", verify=False) as opened:
        for row in show(made.path, rows=_CLUSTERS_SHOWN)["rows"]:
            own = [str(row["cluster"]), f"{row['size']:,}", one_line(row["label"])]
            (nearest,) = opened.members(row["cluster"], 1)
            central = " · ".join(filter(None, [user_id(nearest), one_line(nearest["title"] or nearest["text"])]))
            piped = piped_cells({**nearest, "score": nearest["similarity"]})[1:]
            rows.append(own + ([central] if sys.stdout.isatty() else piped))
    # cells in a pipe, a table on a terminal
    if not sys.stdout.isatty():
        for cells in rows:
            click.echo(safe_text("\t".join(cells)))
        return
    # the table
    table = new_table("cluster", "size")
    table.expand = True
    for head, ratio in (("words", 2), ("central text", 3)):
        table.add_column(Text(head), no_wrap=True, overflow="ellipsis", ratio=ratio, min_width=_TEXT_WIDTH)
    for cells in rows:
        table.add_row(*(Text(safe_text(cell)) for cell in cells))
    console().print(table)
    if (more := made.counts["clusters"] - _CLUSTERS_SHOWN) > 0:
        say(f"{counted(more, 'more clusters')} in {made.path}")


@click.command(
    cls=ExampleCommand,
    example="wordpipe init my-project --from records.jsonl && cd my-project && wordpipe run",
    quiet="Print nothing but errors.",
)
@click.argument("folder", default=".", type=PATH)
@click.option(
    "--from", "source", metavar="SOURCE", multiple=True,
    help="File or folder of texts, used to choose the settings; may be repeated.",
)  # fmt: skip
@click.option(
    "--encoder", metavar="FOLDER", type=PATH,
    help="Folder with a text encoder of another program, used in place of one that is trained on the texts.",
)  # fmt: skip
def init(folder: Path, source: tuple[str, ...], encoder: Path | None, quiet: bool) -> None:
    """Write a commented wordpipe.toml and a Makefile to start from. Existing files are not changed."""
    from wordpipe.cli.show import preview_lines
    from wordpipe.pipeline import WHY, WHY_IMPORTED, init_project

    project = init_project(folder, source=source, encoder=encoder)
    if quiet:
        return
    # the files
    for path, is_new in project.files:
        say(f"{'wrote' if is_new else 'kept '} {path}")
    # what is read of the sources
    if project.preview is not None and project.preview.is_mixed:
        for line in preview_lines(project.preview):
            say(escaped(line))
    _say_settings(project, len(source))
    is_new = project.files[0][1]
    if is_new:
        width = min(shutil.get_terminal_size().columns, 100)
        say(textwrap.fill(f"chosen: {WHY if encoder is None else WHY_IMPORTED}", width, subsequent_indent="  "))
    # how long it will take, and the next commands
    if project.estimate is not None:
        size, of = project.text_bytes, "text"
        if project.preview is not None and project.preview.is_mixed:
            size, of = project.preview.bytes, "files"
        what = f"{human_bytes(size)} of text" if project.is_assumed else f"these {human_bytes(size)} of {of}"
        say(f"estimate for {what}: {amounts(project.estimate)}")
    first = "" if source else f"put text files into {folder / 'texts'} (or set inputs in wordpipe.toml), then: "
    go = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    say(f"next: {first}{go}wordpipe run --to words-index")
    say('then: wordpipe query run "your question" searches by words; after wordpipe run, by vectors and words')


def _say_settings(project: "Project", sources: int) -> None:
    """Say which settings `init` chose for the texts of its sources."""
    if not project.settings:
        return
    path, is_new = project.files[0]
    say(f"settings for these texts in {path}{'' if is_new else ' would be (the file exists and was not changed)'}:")
    for name, value in project.settings.items():
        say(f"  {name} = {json.dumps(value, ensure_ascii=False)}")
    # fields: of which file they are, ids, what is left out
    if sources > 1 and project.fields_of:
        say(f"  these are the fields of {escaped(project.fields_of)}")
    if project.id_like:
        name = json.dumps(project.id_like, ensure_ascii=False)
        say(f"  no field is called id, but {name} differs in each of the first records; to use it: id_field = {name}")
    elif "text_field" in project.settings and "id_field" not in project.settings:
        say('  no field is called id; if another field contains ids, set id_field = "NAME" in wordpipe.toml')
    if project.others:
        say(f"  fields not kept: {', '.join(project.others)}")


@click.command(
    cls=ExampleCommand,
    params=_engine_options(),
    example="wordpipe run",
    json="Print one JSON object per stage made.",
    quiet="Print nothing but errors.",
    verify="inputs'",
)
@_CONFIG
@click.option("--from", "first", metavar="STAGE", help="The first stage to make.")
@click.option("--to", "last", metavar="STAGE", help="The last stage to make.")
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be made, why, and how long it would take.")
@click.option("--fresh", is_flag=True, help="Make every stage, even if it is up to date.")
def run(config: Path, dry_run: bool, fresh: bool, verify: bool, as_json: bool, quiet: bool, **more: Any) -> None:
    """Make the missing and stale artifacts of a pipeline, in order, and say why.

    CONFIG: ./wordpipe.toml if not given. The inputs of all stages are checked before the first stage is made.
    """
    from wordpipe.pipeline import Pipeline
    from wordpipe.runtime import Stopwatch
    from wordpipe.stages import RunOptions

    # what would be made
    pipeline, ends = Pipeline(config), {name: more[name] for name in ("first", "last")}
    if dry_run:
        _print_states(pipeline, pipeline.states(fresh=fresh, **ends), as_json=as_json)
        return
    # what is made, a line for each stage
    made, index, clock = 0, None, Stopwatch()
    with ProgressDrawer(quiet=quiet) as draw:
        for state, result in pipeline.run(
            RunOptions(report=draw, fresh=fresh, verify=verify, **_chosen_engine(more)), **ends
        ):
            if result is not None:
                made += 1
                index = result.path if result.kind == "index" else index
                _print_made(state.stage.command, result, as_json=as_json, quiet=quiet, hint=False)
            # why a stage was not made
            elif not quiet:
                why = ", ".join(state.reasons) or ("--fresh" if fresh else "")
                why = why or (f"kept, though {', '.join(state.kept)}" if state.kept else "up to date")
                why = ", ".join([why, *state.notes])
                say(f"── {state.stage.name}: {why}")
    if not quiet:
        seconds = human_seconds(clock.seconds)
        say(f"{counted(made, 'stages')} made in {seconds}" if made else f"nothing to do ({seconds})")
    if index is not None and not quiet:
        path = shlex.quote(str(index))
        say(f'next: wordpipe query {path} "your question", or in a browser: wordpipe serve {path} --open')


@click.command(
    cls=ExampleCommand, example="wordpipe status", json="Print one JSON object per stage, and one object for the total."
)
@_CONFIG
def status(config: Path, as_json: bool) -> None:
    """Show which stages of a pipeline are stale, why, and the time, memory and disk to make them. Makes nothing.

    CONFIG: ./wordpipe.toml if not given.
    """
    from wordpipe.pipeline import Pipeline

    pipeline = Pipeline(config)
    _print_states(pipeline, pipeline.states(), as_json=as_json)


def _print_states(pipeline: "Pipeline", states: "list[State]", *, as_json: bool) -> None:
    """Print the states of the stages of a pipeline (`status`, `run`)."""
    from wordpipe.stages import total

    # for programs
    states = pipeline.estimated(states)
    estimates = [state.estimate for state in states if state.estimate is not None]
    if as_json:
        for state in states:
            body = pipeline.status_of(state).to_json()
            click.echo(json.dumps({"stage": body.pop("name"), **body}, ensure_ascii=False))
        if estimates:
            click.echo(json.dumps({"total": total(estimates).to_json()}))
        return
    # for people, with the total
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for state in states:
        click.echo(_state_lines(state, width))
        if state.estimate is not None:
            click.echo(f"  {amounts(state.estimate)}")
    # beside what this machine has
    if estimates:
        whole = total(estimates)
        click.echo(f"total: {amounts(whole)}")
        free, memory = shutil.disk_usage(_existing(pipeline.from_here(states[0].stage.output))).free, memory_bytes()
        if whole.disk_bytes > free:
            click.echo(f"  the disk does not have enough free space: {human_bytes(free)} are free")
        if memory and whole.memory_bytes > memory:
            click.echo(f"  this machine does not have enough memory: {human_bytes(memory)}")


def _state_lines(state: "State", width: int | None) -> str:
    """Return the state of a stage in one line; if it is too long for the terminal, with each reason on a line below."""
    name, command = state.stage.name, state.stage.command.name
    word, reasons = ("kept ", state.kept) if state.kept else ("fresh" if state.fresh else "stale", state.reasons)
    reasons = (*reasons, *state.notes)
    line = f"{word}  {name:<14} {command:<16} {', '.join(reasons)}".rstrip()
    if width is None or len(line) <= width:
        return line
    return "\n".join([f"{word}  {name:<14} {command}", *(f"  {reason}" for reason in reasons)])


def _existing(path: Path) -> Path:
    """Return the nearest folder above a path that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
