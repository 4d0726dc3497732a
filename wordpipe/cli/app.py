"""The `wordpipe` command and its lazily loaded subcommands.

click asks every subcommand for its help to print the group's, which would import everything; so the one-line helps stand
in the table of commands (`stages/registry.py`), and a command is built only when it is called.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from wordpipe import __version__
from wordpipe.elsewhere import COMMANDS as MEANT
from wordpipe.runtime import Stopped, StopRequest
from wordpipe.stages import COMMANDS, GROUPS, TABLE, load_named


class LazyGroup(click.Group):
    """A group of the table's commands, which are imported when they are called.

    Args:
        prefix: how the names of its commands begin in the table: "" or "train ".
        title: heading of its commands, where the sections of the table are not.
    """

    def __init__(self, prefix: str = "", title: str = "", **attrs: object) -> None:
        super().__init__(**attrs)  # type: ignore[arg-type]
        self._prefix = prefix
        self._sections: dict[str, dict[str, str]] = {}  # heading → name → one line of help
        for whole, command in TABLE.items():
            name, _, more = whole.removeprefix(prefix).partition(" ")
            if whole.startswith(prefix):
                lines = self._sections.setdefault(title or command.section, {})
                lines.setdefault(name, GROUPS[name] if more else command.summary)
        self._names = [name for lines in self._sections.values() for name in lines]

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line; a closed pipe is a stop request."""
        with _stopping():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed pipe is a stop request."""
        with _stopping():
            return super().invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its options, and --help-all, which shows what --help does: all its commands."""
        from wordpipe.cli.command import HELP_ALL

        return [*super().get_params(ctx), HELP_ALL]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help page."""
        return self._names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._names:
            return None
        whole = self._prefix + cmd_name
        if whole in GROUPS:
            return _GROUPS[whole]
        if where := TABLE[whole].terminal:
            command: click.Command = load_named(where)
            return command
        from wordpipe.cli.stage import stage_command

        return stage_command(COMMANDS[whole])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelled name is answered with the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            meant = [MEANT[name] for name in get_close_matches(args[0], MEANT, n=1, cutoff=0.8)]
            near = meant if {*meant} <= {*self._names} else []
            near = near or get_close_matches(args[0], self._names, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" Commands: {', '.join(self._names)}."
            raise click.UsageError(f"Unknown command {args[0]!r}.{hint}", ctx) from error

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the help of the group right below its usage, so that the page of all commands fits a screen."""
        with formatter.indentation():
            formatter.write_text(self.help or "")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands of the group in the place of options."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands by section."""
        from wordpipe.cli.command import first_clause

        for title, lines in self._sections.items():
            with formatter.section(title):
                shown = [
                    (name, first_clause(text)) for name, text in lines.items() if name != "help"
                ]  # this is the help
                formatter.write_dl(shown)


@contextmanager
def _stopping() -> Iterator[None]:
    """Turn a closed pipe, and a stop that has saved something, into a stop request before click ends the process."""
    try:
        yield
    except BrokenPipeError:
        raise StopRequest(signal.SIGPIPE) from None
    except Stopped as stopped:
        raise StopRequest(stopped.signum, stopped.saved) from stopped


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

_GROUPS = {
    "train": LazyGroup(
        "train ",
        "Objectives",
        name="train",
        help=f"Example:  wordpipe train mlm run/tokens -o run/model --preset tiny\n\n{GROUPS['train']}",
        context_settings=_CONTEXT,
        options_metavar="",
        subcommand_metavar="OBJECTIVE TOKENS -o OUTPUT [OPTIONS]",
    ),
    "evaluate": LazyGroup(
        "evaluate ",
        "What is evaluated",
        name="evaluate",
        help="Example:  wordpipe evaluate tokenizer run/tokens --data run/corpus\n\n"
        f"{GROUPS['evaluate'].partition(';')[0]}. No artifact is made.",
        context_settings=_CONTEXT,
        options_metavar="",
        subcommand_metavar="WHAT … --data PATH [OPTIONS]",
    ),
}
_HELP = 'Search your own text:  wordpipe search "how do bees find their way" notes/'


@click.command(cls=LazyGroup, context_settings=_CONTEXT, subcommand_metavar="COMMAND …", help=_HELP)
@click.version_option(__version__, message="wordpipe %(version)s")
def app() -> None:
    """The `wordpipe` command."""
