"""`wordpipe help`: the help of a command, by its name."""

import click

from wordpipe.cli.command import ExampleCommand, help_page

_HELP = """Show the help of a command.

\b
In your shell, TAB completes commands, options, artifacts and the stages of a config after
  bash:  eval "$(_WORDPIPE_COMPLETE=bash_source wordpipe)"
  zsh:   eval "$(_WORDPIPE_COMPLETE=zsh_source wordpipe)"
  fish:  _WORDPIPE_COMPLETE=fish_source wordpipe | source
"""


@click.command("help", cls=ExampleCommand, help=_HELP, example="wordpipe help train mlm\nwordpipe help index --all")
@click.argument("command", nargs=-1)
@click.option("--all", "in_full", is_flag=True, help="Show every option, as --help-all does.")
@click.pass_context
def help_(ctx: click.Context, command: tuple[str, ...], in_full: bool) -> None:
    """Print the help page of the command that the words name."""
    at = ctx.find_root()
    for name in command:
        if not isinstance(at.command, click.Group):
            raise click.UsageError(f"{at.command_path} has no commands of its own, so no {name!r}.", at)
        _, found, _ = at.command.resolve_command(at, [name])
        assert found is not None
        at = type(at)(found, info_name=name, parent=at, **found.context_settings)
    click.echo(help_page(at, in_full=in_full), color=ctx.color)
