"""The commands of the command line."""

import click

from wordpipe.cli.app import app


def commands(group: click.Group = app, prefix: str = "") -> dict[str, click.Command]:
    """Every command by its whole name ("train mlm")."""
    found = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= commands(command, f"{prefix}{name} ")
        else:
            found[prefix + name] = command
    return found
