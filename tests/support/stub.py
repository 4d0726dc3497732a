"""The stub of the public functions for type checkers and editors, made from their signatures.

    python -m tests.support.stub        # writes wordpipe/__init__.pyi

A function takes its settings as `**settings`; `wordpipe.stages.public` gives it the signature with a keyword for each of them,
and this writes that signature down, where programs that do not run the code see it. A test compares the two.
"""

import inspect
import os
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_overloads

import wordpipe
from wordpipe.lazy import imports_for_types
from wordpipe.stages import public_names

FACE = Path(wordpipe.__file__)
STUB = FACE.with_suffix(".pyi")
_HEAD = '''"""The public functions and classes, for type checkers and editors. Made by `make stub`: change no line here."""
'''
_LEFT_OUT = ("Raises:", "Example:")  # of docstrings: `help` has them
_WIDTH = 120
_CONSTANTS = {"__version__": "str", "TERMINAL": "str"}
_PATH = {str, os.PathLike[str]}
Imports = set[tuple[str, str, str]]  # module, name there, name here (empty for the same, not handed on)


def stub() -> str:
    """The whole file."""
    imports: Imports = set()
    functions: list[str] = []
    offers = imports_for_types(FACE.read_text(encoding="utf-8")) | public_names()
    for name, (module, original) in sorted(offers.items()):
        offered = getattr(wordpipe, name)
        if inspect.isfunction(offered):
            functions += _function(name, offered, imports)
        else:
            imports.add((module, original, name))
    lines = [f"from {module} import {name}{f' as {here}' if here else ''}" for module, name, here in sorted(imports)]
    constants = [f"{name}: {kind}" for name, kind in _CONSTANTS.items()]
    return "\n".join([_HEAD, *lines, "", *constants, "", *functions])


def _function(name: str, function: Callable[..., Any], imports: Imports) -> Iterator[str]:
    """A function, or all its overloads; the last has the docstring."""
    doc = inspect.getdoc(function)
    assert doc, name
    doc = "\n\n".join(part for part in doc.split("\n\n") if not part.startswith(_LEFT_OUT))
    written = '"""' + doc.replace("\\", "\\\\").replace('"""', '\\"""').replace("\n", "\n    ") + '\n    """'
    overloads = get_overloads(inspect.unwrap(function))
    if overloads:
        imports.add(("typing", "overload", ""))
    for one in overloads or [function]:
        signature = inspect.signature(one)
        if overloads:
            yield "@overload"
        yield f"def {name}("
        yield from _packed(_parameters(signature, imports))
        yield f") -> {_type(signature.return_annotation, imports)}:" + (
            "" if one is (overloads or [function])[-1] else " ..."
        )
    yield "\n".join(line.rstrip() for line in f"    {written}\n".splitlines()) + "\n"


def _parameters(signature: inspect.Signature, imports: Imports) -> Iterator[str]:
    starred = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not starred:
            yield "*,"
            starred = True
        assert one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD), f"{one} cannot be told to a type checker"
        default = "" if one.default is one.empty else f" = {one.default!r}"
        yield f"{one.name}: {_type(one.annotation, imports)}{default},"


def _packed(parts: Iterator[str]) -> Iterator[str]:
    """As many parts on a line as fit."""
    line = "   "
    for part in parts:
        if line.strip() and len(line) + 1 + len(part) > _WIDTH:
            yield line
            line = "   "
        line += f" {part}"
    if line.strip():
        yield line


def _type(kind: Any, imports: Imports) -> str:
    """A type as one writes it; what it needs is added to the imports."""
    if isinstance(kind, str):  # a class that stands further down in its file
        assert kind in wordpipe.__all__, f"{kind} is not offered by wordpipe"
        return kind
    if kind in (None, type(None)):
        return "None"
    if kind is Ellipsis:
        return "..."
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        imports.add(("typing", "Literal", ""))
        return f"Literal[{', '.join(map(repr, args))}]"
    if origin in (Union, types.UnionType):
        inner = [one for one in args if not (set(args) >= _PATH and one in _PATH)]
        if len(inner) < len(args):
            imports.add(("wordpipe.stages", "PathLike", ""))
        return " | ".join([*(["PathLike"] if len(inner) < len(args) else []), *(_type(one, imports) for one in inner)])
    if origin is Callable:
        imports.add(("collections.abc", "Callable", ""))
        taken = ", ".join(_type(one, imports) for one in args[0])
        return f"Callable[[{taken}], {_type(args[1], imports)}]"
    if origin is not None:
        return f"{_type(origin, imports)}[{', '.join(_type(one, imports) for one in args)}]"
    if kind.__module__ != "builtins":
        offered = getattr(wordpipe, kind.__name__, None) is kind
        if not offered:  # those that are offered are imported to be handed on
            imports.add((kind.__module__, kind.__name__, ""))
    return str(kind.__name__)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
