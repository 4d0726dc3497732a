"""The command line options of a settings class, one per field."""

import types
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click

from wordpipe.cli.command import PATH, Option
from wordpipe.settings import Setting, Settings, bounds_of

_EMBEDDING = ("pooling", "transform", "components", "dims", "sif_a", "window", "overlap", "device", "dtype", "threads")


def settings_options(cls: type[Settings]) -> list[Option]:
    """One option per setting that has one, in the order of the class."""
    options: list[Option] = []
    section = ""
    for name, one in cls.model_fields.items():
        section = one.section or section
        if one.option:
            options.append(_option(name, one, section, in_files=cls.in_files))
    return options


def settings_without_option(cls: type[Settings]) -> dict[str, str]:
    """Return the settings that have no option, with their texts of help."""
    return {name: _help(one) for name, one in cls.model_fields.items() if not one.option}


def chosen_settings(cls: type[Settings], params: dict[str, Any]) -> dict[str, Any]:
    """Return those settings of a class that were given on the command line."""
    return {name: params[name] for name in cls.model_fields if params.get(name) not in (None, ())}


def assigned_settings(pairs: Sequence[str], given: Container[str] = ()) -> dict[str, Any]:
    """Return the settings of `--set NAME=VALUE`; a value that is not valid TOML is a string.

    Args:
        pairs: as they stand on the command line.
        given: settings that were given by their options.
    """
    import tomllib

    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise click.UsageError(f"--set {pair}: the value of --set must have the form NAME=VALUE.")
        if name in found or name in given:
            raise click.UsageError(f"--set {pair}: the setting {name} is given twice.")
        try:
            table = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            table = {}
        found[name] = table["value"] if [*table] == ["value"] else text
    return found


def embedding_options() -> list[click.Parameter]:
    """Return one option for each setting of `wordpipe embed` that matters to commands that embed texts and save nothing."""
    from wordpipe.encoders.settings import EmbedSettings

    options = [option for option in settings_options(EmbedSettings) if option.name in _EMBEDDING]
    for option in options:
        option.section, option.expert = "How texts become vectors", True
    return [*options]


def chosen_embedding(given: dict[str, Any]) -> dict[str, Any]:
    """Take the settings of `embedding_options` out of a command's options; return those that were given."""
    found = {name: given.pop(name, None) for name in _EMBEDDING}
    return {name: value for name, value in found.items() if value is not None}


def _option(name: str, one: Setting, section: str, *, in_files: bool) -> Option:
    """Make the command line option of one setting."""
    kind, many = _plain(one.annotation)
    flag = ("-" if len(name) == 1 else "--") + name.replace("_", "-")
    # --no-NAME has no --no-no-NAME; where no file can hold the setting, there is nothing to take back
    no_other = kind is bool and (name.startswith("no_") or not in_files)
    if kind is bool and not no_other:
        flag += f"/--no-{name.replace('_', '-')}"
    return Option(
        [flag, name], section=section, expert=one.expert, text=one.description, type=_click_type(kind),
        default=None, is_flag=no_other or None, multiple=many or one.several, metavar=one.metavar, help=_help(one),
    )  # fmt: skip


def _help(one: Setting) -> str:
    """Return the help of a setting: its text, bounds and default."""
    text, shown = one.description + bounds_of(one), _default(one)
    return f"{text}  [{shown}]" if shown else text


def _plain(annotation: Any) -> tuple[Any, bool]:
    """Return the type inside the type of an option's setting, and whether the option takes several values."""
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        literals = [value for arg in inner for value in get_args(arg) if get_origin(arg) is Literal]
        if literals and len(inner) > 1:
            return str, False  # a number or a word: pydantic decides
        return _plain(inner[0])
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], True
    return annotation, False


def _click_type(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice(list(get_args(kind)))
    if kind is Path:
        return PATH
    return kind


def _default(one: Setting) -> str:
    """Return the default of a setting in the form of help pages."""
    if one.is_required():
        return "required"
    if one.default in (None, (), ""):
        return ""
    if isinstance(one.default, bool):
        return "on" if one.default else "off"
    return f"default: {one.default}"
