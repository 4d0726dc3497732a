"""The commands of the command line."""

from functools import cache

import click

from wordpipe.cli.app import app


@cache
def commands() -> dict[str, click.Command]:
    """Every command by its whole name ("train mlm"); made once, as that takes 30 ms."""
    return _below(app, "")


def _below(group: click.Group, prefix: str) -> dict[str, click.Command]:
    found = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= _below(command, f"{prefix}{name} ")
        else:
            found[prefix + name] = command
    return found
