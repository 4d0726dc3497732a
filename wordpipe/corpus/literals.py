"""String values that can be known by reading code: constants, concatenation, `.format`, dictionaries of texts.

Nothing is executed. What cannot be known makes the whole string unknown (None), except the names in a `.format`,
whose placeholders are then taken out.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Mapping
from inspect import cleandoc

__all__ = ["Lookup", "string_value"]

Found = tuple[ast.expr, "Lookup"]
Lookup = Callable[[str], Found | None]
"""Gives the expression that a module-level name is assigned, and what to look up the names in it with; or None."""

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w*)[^{}]*\}")
_OLD_PLACEHOLDER = re.compile(r"%%|%\((\w+)\)s")
_ARGUMENT = re.compile(r"\n {4}(?!\s)")
_FUNCTIONS: dict[str, Callable[[str], str]] = {"dedent": textwrap.dedent, "cleandoc": cleandoc}
_METHODS: dict[str, Callable[[str], str]] = {"strip": str.strip, "lstrip": str.lstrip, "rstrip": str.rstrip}
_DEEP = 20  # names, calls and sums followed one into the other; names may be defined by themselves


def string_value(node: ast.expr, lookup: Lookup, deep: int = _DEEP) -> str | None:
    """The string that `node` stands for, or None where reading alone cannot tell.

    Args:
        node: an expression.
        lookup: finds what a name is assigned.
        deep: how many steps may still be followed.
    """
    deep -= 1
    match node:
        case _ if deep < 0:
            return None
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            found = lookup(name)
            return None if found is None else string_value(*found, deep)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            before, after = string_value(left, lookup, deep), string_value(right, lookup, deep)
            return None if before is None or after is None else before + after
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            template = string_value(left, lookup, deep)
            return None if template is None else _fill(_OLD_PLACEHOLDER, template, _texts(right, lookup, deep))
        case ast.JoinedStr(values=parts):
            return "".join(string_value(part, lookup, deep) or "" for part in parts)
        case ast.FormattedValue(value=value):
            return string_value(value, lookup, deep)
        case ast.Call():
            return _called(node, lookup, deep)
    return None


def _called(call: ast.Call, lookup: Lookup, deep: int) -> str | None:
    """`TEXT.format(...)`, `TEXT.strip()`, `TEXT.replace("a", "b")`, `dedent(TEXT)`, `cleandoc(TEXT)`."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in _FUNCTIONS and len(call.args) == 1:
        text = string_value(call.args[0], lookup, deep)
        return None if text is None else _FUNCTIONS[name](text)
    text = string_value(function.value, lookup, deep) if isinstance(function, ast.Attribute) else None
    if text is None:
        return None
    if name == "format":
        return _fill(_PLACEHOLDER, text, _arguments(call, lookup, deep))
    if name in _METHODS and not call.args:
        return _METHODS[name](text)
    old_new = [string_value(argument, lookup, deep) for argument in call.args]
    if name == "replace" and len(old_new) == 2 and old_new[0] is not None and old_new[1] is not None:
        return text.replace(old_new[0], old_new[1])
    return None


def _arguments(call: ast.Call, lookup: Lookup, deep: int) -> dict[str, str]:
    """The arguments of a `.format` that are known, by name or position."""
    found = {str(place): string_value(node, lookup, deep) for place, node in enumerate(call.args)}
    texts = {name: value for name, value in found.items() if value is not None}
    for keyword in call.keywords:
        if keyword.arg is None:
            texts |= _texts(keyword.value, lookup, deep)
        elif (text := string_value(keyword.value, lookup, deep)) is not None:
            texts[keyword.arg] = text
    return texts


def _texts(node: ast.expr, lookup: Lookup, deep: int) -> dict[str, str]:
    """What is known of a dictionary of texts; empty where nothing is."""
    deep -= 1
    texts: dict[str, str] = {}
    match node:
        case _ if deep < 0:
            pass
        case ast.Name(id=name):
            found = lookup(name)
            texts = {} if found is None else _texts(*found, deep)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if key is None:
                    texts |= _texts(value, lookup, deep)
                elif (term := string_value(key, lookup, deep)) and (text := string_value(value, lookup, deep)):
                    texts[term] = text
        case ast.Call(func=ast.Name(id="dict")):
            texts = _arguments(node, lookup, deep)
        case ast.Call(func=ast.Name(id="merge_dicts"), args=parts):
            for part in parts:
                texts |= _texts(part, lookup, deep)
        case ast.Call(func=ast.Name(id="parse_kwargs"), args=[described]):
            texts = _described(string_value(described, lookup, deep) or "")
    return texts


def _described(text: str) -> dict[str, str]:
    """Argument descriptions indented by four spaces, by the argument's name, as torch writes its shared ones."""
    entries = [entry.strip() for entry in _ARGUMENT.split(text)]
    return {entry.split(" ")[0]: entry for entry in entries if entry}


def _fill(placeholder: re.Pattern[str], template: str, texts: Mapping[str, str]) -> str:
    """The template with known placeholders filled in, unknown ones taken out, doubled marks made single."""
    count = iter(range(template.count("{")))

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return texts.get(match[1] or str(next(count)), "")

    return placeholder.sub(value, template)
