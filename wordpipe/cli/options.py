"""Command line options made from the fields of a settings class."""

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from wordpipe.settings import Settings, declared

__all__ = ["SettingOption", "chosen_settings", "settings_options"]

_ENDLESS = 100_000  # a larger bound says nothing to a reader of help; it is still checked


def settings_options(cls: type[Settings]) -> list[click.Option]:
    """One option per setting that has one, in the order of the class."""
    options: list[click.Option] = []
    section = ""
    for name, field in cls.model_fields.items():
        section = declared(cls, name).get("section", section)
        if declared(cls, name).get("option", True):
            options.append(_option(cls, name, field, section))
    return options


class SettingOption(click.Option):
    """An option that stands under a heading of its command's help.

    Attributes:
        section: the heading; empty: with the other options.
    """

    def __init__(self, *args: Any, section: str = "", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section


def chosen_settings(cls: type[Settings], params: dict[str, Any]) -> dict[str, Any]:
    """Those settings that were given on the command line."""
    return {name: params[name] for name in cls.model_fields if params.get(name) not in (None, ())}


def _option(cls: type[Settings], name: str, field: FieldInfo, section: str) -> SettingOption:
    kind, many = _plain(field.annotation)
    flag = "--" + name.replace("_", "-")
    text = (field.description or "") + _bounds(field)
    shown = _default(field)
    if kind is bool:
        flag += f"/--no-{name.replace('_', '-')}"
    return SettingOption(
        [flag, name],
        section=section,
        type=_click_type(kind),
        default=None,
        multiple=many,
        metavar=declared(cls, name).get("metavar"),
        help=f"{text}  [{shown}]" if shown else text,
    )


def _plain(annotation: Any) -> tuple[Any, bool]:
    """The type inside `X | None` and `tuple[X, ...]`, and whether several values are taken."""
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
        return click.Path(path_type=Path)
    return kind


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None or field.default == ():
        return ""
    if isinstance(field.default, bool):
        return "on" if field.default else "off"
    return f"default: {field.default}"


def _bounds(field: FieldInfo) -> str:
    """The bounds of a number, as far as they say something."""
    found = {
        name: getattr(item, name) for item in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(item, name)
    }
    parts = [f"> {found['gt']:g}"] if "gt" in found else []
    if found.get("lt", _ENDLESS) < _ENDLESS:
        parts.append(f"< {found['lt']:g}")
    least, most = found.get("ge", 0), found.get("le", _ENDLESS)
    if most < _ENDLESS:
        parts.append(f"{least:g} to {most:g}" if "ge" in found else f"at most {most:g}")
    elif least > 1:
        parts.append(f"at least {least:g}")
    return f" ({', '.join(parts)})" if parts else ""
