"""The options of commands that embed texts for a while: how texts become vectors, and where."""

from typing import Any

import click

from wordpipe.cli.options import SettingOption, settings_options
from wordpipe.sentences.settings import EmbedSettings

__all__ = ["chosen_embedding", "embedding_options"]

_NAMES = ("pooling", "transform", "components", "dims", "sif_a", "window", "overlap", "device", "dtype", "threads")


def embedding_options() -> list[click.Parameter]:
    """One option for each setting of `wordpipe embed` that makes a difference here."""
    options: list[click.Parameter] = []
    for option in settings_options(EmbedSettings):
        if isinstance(option, SettingOption) and option.name in _NAMES:
            option.section = "How texts become vectors"
            options.append(option)
    return options


def chosen_embedding(given: dict[str, Any]) -> dict[str, Any]:
    """Take these settings out of a command's options; those that were given on the command line."""
    found = {name: given.pop(name) for name in _NAMES}
    return {name: value for name, value in found.items() if value is not None}
