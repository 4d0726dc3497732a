"""The class of all commands: its help on one screen or in full, its answers to wrong options, what TAB completes.

A screen of help has one line where it can: of a text the first clause, of a description the first paragraph and what is set
out line by line, and no option that is marked `expert`; `--help-all` has everything. This file opens no table and imports
nothing heavy.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from wordpipe.cli.output import counted, fitted
from wordpipe.runtime import need_address_space, without_pandas
from wordpipe.stages import TABLE

COMMON = "Common options"
PATH = click.Path(path_type=Path)
FORCE = click.option("--force", is_flag=True, help="Replace the output if it exists.")
_MIN_UNDER_HEADING = 3  # options; a heading of the short page for fewer is not worth its lines
_ALL = "wordpipe.help_all"  # key in a context's meta: everything is shown
_NOTE = re.compile(r"  \[(required|on|off|default: [^];:]+)")  # what help says behind a text
_BRACKETS = re.compile(r" \([^()]*\)")
_CLAUSE_ENDS = re.compile(r"[;.](?:\s|$)")
_NUMBERS = re.compile(r"\b(INTEGER|FLOAT)( RANGE)?\b")  # what click calls them
_KINDS = ("corpus", "tokens", "words", "model", "sentences", "index", "predictions")
_COMPLETION_DEPTH = 3  # folders below what is typed
_LARGEST = 1 << 24  # bytes of a file that TAB reads
_COMPLETION_FOLDERS = 2_000  # looked into for one TAB


class Option(click.Option):
    """An option that knows its place in help."""

    def __init__(
        self, *args: Any, section: str = "", expert: bool = False, text: str | None = None, **attrs: Any
    ) -> None:
        super().__init__(*args, **attrs)
        self.section = section  # the heading; empty: with the command's own options
        self.expert = expert  # only `--help-all` shows it
        self.text = text  # what it says without bounds and default


def number(name: str, least: int, default: int, text: str, *, expert: bool = False) -> Callable[[Any], Any]:
    """An option that takes a whole number."""
    return click.option(
        name, cls=Option, expert=expert, type=click.IntRange(min=least), default=default, metavar="N",
        help=f"{text}  [default: {default}]",
    )  # fmt: skip


class ExampleCommand(click.Command):
    """A command whose help leads with an example that runs, and fits one screen.

    Args:
        example: lines for a shell.
        json: what --json does; empty: there is no such option.
        quiet: what -q does.
        verify: whose hashes --verify checks.
        no_option: setting that has no option of its own → what `--help-all` says of it.
        instead: option of another command, by its setting → what to do, or nothing.
    """

    def __init__(
        self, *args: Any, example: str = "", json: str = "", quiet: str = "", verify: str = "",
        no_option: Mapping[str, str] | None = None, instead: Callable[[str], str] = lambda _: "", **attrs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **attrs)
        self.example = example
        self.no_option, self.instead = no_option or {}, instead
        if verify:
            text = f"Check the {verify} hashes before use.  [on]"
            self.params.append(Option(["--verify/--no-verify"], default=True, expert=True, section=COMMON, help=text))
        if json:
            self.params.append(Option(["--json", "as_json"], is_flag=True, section=COMMON, help=json))
        if quiet:
            self.params.append(Option(["-q", "--quiet"], is_flag=True, section=COMMON, help=quiet))
        for param in self.params:
            _complete_by_metavar(param)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """The names in every context; click would keep those of the first one."""
        return ["-h", "--help"]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters of the command, --help and --help-all."""
        return [*super().get_params(ctx), HELP_ALL]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option that a setting does not have is answered with the way to set this setting."""
        try:
            return super().parse_args(ctx, [*args])  # which it empties
        except click.NoSuchOption as error:
            option = error.option_name.lstrip("-").removeprefix("no-").replace("-", "_")
            if said := self.instead(option):
                raise click.UsageError(f"Unknown option {error.option_name}: {said}.", ctx) from None
            if option in self.no_option:
                value = _value_after(error.option_name, args)
                instead = f"use --set {option}={value}, or write {option} = {value} in a --config file"
                raise click.UsageError(f"Unknown option {error.option_name}: {instead}.", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command after checking the address space for its libraries, and after fetching inputs at URLs."""
        if known := TABLE.get(ctx.command_path.partition(" ")[2]):
            need_address_space(known.needs_mb)
            without_pandas()
        for param in self.params:
            value = ctx.params.get(param.name or "")
            if isinstance(param.type, click.Path) and value and "s3:" in str(value):
                from wordpipe.stages import prepared

                ctx.params[param.name or ""] = prepared(param.name or "", value)
        return super().invoke(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help page: example, usage, description, options."""
        if self.example:
            formatter.write_text("Example:")
            for line in self.example.splitlines():
                formatter.write(f"  {line}\n")
            formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description of the command."""
        formatter.write_paragraph()
        with formatter.indentation():
            width = formatter.width - formatter.current_indent
            paragraphs = self._paragraphs(brief=_ALL not in ctx.meta)
            formatter.write_text(
                "\n\n".join(fitted(text, width) if text.startswith("\b") else text for text in paragraphs)
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of a command's help under their headings, its own first and the common ones last."""
        # the options by heading
        in_full = _ALL in ctx.meta
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        left_out = len(self.no_option)
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or not isinstance(param, click.Option):
                continue
            section, expert = (param.section, param.expert) if isinstance(param, Option) else ("", False)
            if "--help" in param.opts:
                section = COMMON
            # in short, experts' options are only counted
            if in_full or not expert:
                row = record if in_full else _brief(param, record, formatter.width)
                sections.setdefault(section or "Options", []).append(_plain(*row))
            else:
                left_out += param is not HELP_ALL
        # few options need no heading of their own; the common ones come last
        common = sections.pop(COMMON)
        if not in_full:
            for heading in [*sections]:
                if len(sections[heading]) < _MIN_UNDER_HEADING and heading != "Options":
                    sections["Options"] += sections.pop(heading)
        sections[COMMON] = common
        # all texts begin at one column
        col_max = max(10, formatter.width // 2 - 9)
        col_max = min(30, col_max) if in_full else col_max
        width = min(col_max, max(len(name) for rows in sections.values() for name, _ in rows))
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), text) for name, text in rows], col_max=col_max)
        # what is not shown, or is set without an option
        if in_full and self.no_option:
            with formatter.section(
                "Settings without an option (use --set NAME=VALUE, or NAME = VALUE in a --config file)"
            ):
                formatter.write_dl(list(self.no_option.items()))
        elif not in_full and (left_out or self._paragraphs() != self._paragraphs(brief=True)):
            formatter.write_paragraph()
            more = f"shows {counted(left_out, 'more options')}" if left_out else "shows the full text"
            formatter.write_text(f"--help-all {more}.")

    def _paragraphs(self, *, brief: bool = False) -> list[str]:
        """Return the paragraphs of the description; in brief the first one, and those set out line by line."""
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        return [text for n, text in enumerate(paragraphs) if not (brief and n) or text.startswith("\b")]


def first_clause(text: str) -> str:
    """The text up to the first semicolon or full stop, without what stands in brackets.

    >>> first_clause("what a single newline (LF) is; auto judges each document")
    'what a single newline is'
    """
    return _CLAUSE_ENDS.split(_BRACKETS.sub("", text), maxsplit=1)[0]


def help_page(ctx: click.Context, *, in_full: bool) -> str:
    """Return the help page of a context's command, on one screen or in full."""
    if in_full:
        ctx.meta[_ALL] = True
    return ctx.get_help()


def _brief(option: click.Option, record: tuple[str, str], width: int) -> tuple[str, str]:
    """Return an option's line of a command's short help: --[no-]NAME, the first clause, the default; of many choices a few."""
    names, text = record
    if option.secondary_opts:
        names = option.opts[0].replace("--", "--[no-]", 1)
    if len(names) > width - 4:
        names = names[: names.rindex("|", 0, width - 6) + 1] + "…]"
    note = _NOTE.search(text)
    said = first_clause((option.text if isinstance(option, Option) else None) or text.partition("  [")[0])
    return names, f"{said}  [{note[1].removeprefix('default: ')}]" if note else said


def _plain(names: str, text: str) -> tuple[str, str]:
    """Return a line of help with N and X for numbers, and a capital where the text does not begin with a value ("flat: …")."""
    names = _NUMBERS.sub(lambda kind: "N" if kind[1] == "INTEGER" else "X", names)
    return names, text if text.partition(" ")[0].endswith(":") else text[:1].upper() + text[1:]


def _value_after(option: str, args: Sequence[str]) -> str:
    """The value that was given for an unknown option; for a flag true or false."""
    for place, arg in enumerate(args):
        name, sign, value = arg.partition("=")
        if name == option and sign:
            return value
        if name == option and place + 1 < len(args) and not args[place + 1].startswith("--"):
            return args[place + 1]
    return "false" if option.startswith("--no-") else "true"


def _show_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the full help page for --help-all."""
    if asked and not ctx.resilient_parsing:
        click.echo(help_page(ctx, in_full=True), color=ctx.color)
        ctx.exit()


HELP_ALL = Option(
    ["--help-all"], is_flag=True, expose_value=False, is_eager=True, expert=True, section=COMMON, callback=_show_all,
    help="Show every option and exit.",
)  # fmt: skip


def _complete_by_metavar(param: click.Parameter) -> None:
    """Let the shell offer what the metavar says: TOKENS is a folder whose manifest says "tokens", FILE[#STAGE] a config.

    Commands, options, and values such as the formats of `export --to` are click's own to complete.
    """
    metavar = param.metavar or (param.name or "").upper()
    if metavar == "FILE[#STAGE]":
        param.shell_complete = _stages_of_file  # type: ignore[method-assign]
    elif metavar == "STAGE":
        param.shell_complete = _stages_of_config  # type: ignore[method-assign]
    elif kinds := _kinds(metavar):
        param.shell_complete = partial(_artifacts, kinds)  # type: ignore[method-assign]


def _kinds(metavar: str) -> Sequence[str]:
    """Return the kinds of artifacts that a metavar names, for completion."""
    named = re.findall("[A-Z]+", metavar)
    return _KINDS if {"ARTIFACT", "ARTIFACTS"} & {*named} else [kind for kind in _KINDS if kind.upper() in named]


def _artifacts(kinds: Sequence[str], _: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete folders of artifacts of some kinds; if there is none, the shell's own files and folders."""
    folder, slash, begins = incomplete.rpartition("/")
    below = _below(
        Path(folder + slash).expanduser(), begins, kinds, _COMPLETION_DEPTH, iter(range(_COMPLETION_FOLDERS))
    )
    found = [CompletionItem(f"{folder}{slash}{path}") for path in below]
    return found or [CompletionItem(incomplete, type="file")]


def _below(folder: Path, begins: str, kinds: Sequence[str], depth: int, looked_into: Iterator[int]) -> Iterator[str]:
    """Yield paths of artifacts of some kinds below a folder; hidden folders and those inside artifacts are left out."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.startswith(begins) and entry.is_dir())
    except OSError:
        return
    for name in names:
        if (name.startswith(".") and not begins) or next(looked_into, None) is None:
            continue
        kind = _kind(folder / name)
        if kind in kinds:
            yield name
        elif kind is None and depth > 1:
            yield from (f"{name}/{path}" for path in _below(folder / name, "", kinds, depth - 1, looked_into))


def _kind(folder: Path) -> str | None:
    """The kind of an artifact; None where there is none that can be read."""
    from wordpipe.artifacts import parse_json_object, read_regular_file
    from wordpipe.errors import WordpipeError

    path = folder / "manifest.json"
    try:
        return str(parse_json_object(read_regular_file(path, _LARGEST), path)["kind"])
    except (OSError, WordpipeError, KeyError):
        return None


def _stages_of_file(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete FILE#STAGE: files before the #, and after it the stages of the config that have this command."""
    file, sign, begins = incomplete.partition("#")
    if not sign:
        return [CompletionItem(incomplete, type="file")]
    own = [name for name, command in _stages(Path(file)).items() if command == ctx.command_path.partition(" ")[2]]
    return [CompletionItem(f"{file}#{name}") for name in own if name.startswith(begins)]


def _stages_of_config(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete STAGE with the stages of the config that is named before it on the command line."""
    # click stops parsing where a value is missing; `run` and `status` read ./wordpipe.toml where none is named
    config = next(iter(ctx.args), None) or ctx.params.get("config") or "wordpipe.toml"
    return [CompletionItem(name) for name in _stages(Path(config)) if name.startswith(incomplete)]


def _stages(config: Path) -> dict[str, object]:
    """Return stage → its command, as the config says; nothing from a config that cannot be read."""
    import tomllib

    from wordpipe.artifacts import read_regular_file
    from wordpipe.errors import WordpipeError

    try:
        tables = tomllib.loads(read_regular_file(config.expanduser(), _LARGEST).decode())["stage"]
        return {name: table.get("command") for name, table in tables.items()}
    except (OSError, WordpipeError, RecursionError, RuntimeError, ValueError, KeyError, AttributeError):
        return {}


_HELP_OF_HELP = """Show the help of a command.

\b
After you run one of these lines in your shell, TAB completes commands, options, artifacts and stages:
  bash:  eval "$(_WORDPIPE_COMPLETE=bash_source wordpipe)"
  zsh:   eval "$(_WORDPIPE_COMPLETE=zsh_source wordpipe)"
  fish:  _WORDPIPE_COMPLETE=fish_source wordpipe | source
"""


@click.command(
    "help", cls=ExampleCommand, help=_HELP_OF_HELP, example="wordpipe help train mlm\nwordpipe help index --all"
)
@click.argument("command", nargs=-1)
@click.option("--all", "in_full", is_flag=True, help="Show every option, as --help-all does.")
@click.pass_context
def help_(ctx: click.Context, command: tuple[str, ...], in_full: bool) -> None:
    """Print the help page of the command that the words name."""
    at = ctx.find_root()
    for name in command:
        if not isinstance(at.command, click.Group):
            raise click.UsageError(f"{at.command_path} has no subcommands, so {name!r} is not a command.", at)
        _, found, _ = at.command.resolve_command(at, [name])
        assert found is not None
        at = type(at)(found, info_name=name, parent=at, **found.context_settings)
    click.echo(help_page(at, in_full=in_full), color=ctx.color)
