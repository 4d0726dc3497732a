"""The stub of the public functions for type checkers and editors, read from their text: no library of theirs is imported.

    python -m tests.support.stub        # writes wordpipe/__init__.pyi

A function takes its settings as `**settings`; `wordpipe.stages.public` gives it the signature with a keyword for each of them,
and this writes that signature down, where programs that do not run the code see it. The build of a wheel makes the stub
(`hatch_build.py`), where nothing but Python may be installed, hence `make setup` too, and `make check`; git ignores it.
"""

import ast
import builtins
import os
import types
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import wordpipe
from wordpipe.lazy import imports_for_types
from wordpipe.stages import COMMANDS, Keyword, documented, keywords_of, public_names

FACE = Path(wordpipe.__file__)
STUB = FACE.with_suffix(".pyi")
_HEAD = '''"""The public functions and classes, for type checkers and editors. Made by `make stub`: change no line here."""
'''
_LEFT_OUT = ("Raises:", "Example:")  # of docstrings: `help` has them
_WIDTH = 120
_CONSTANTS = {"__version__": "str", "TERMINAL": "str"}
_PATH = {str, os.PathLike[str]}
_MADE = (
    "def {name}({first}: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made: ..."
)
_DOC = """{command.summary}

Args:
    {first}: {text}.
    output: folder of the {command.made_kinds} artifact.
    run: progress, fresh start, verification.
"""
Imports = set[tuple[str, str, str]]  # module, name there, name here (empty for the same, not handed on)
Function = ast.FunctionDef


class Source(NamedTuple):
    """A module as its text says it."""

    name: str
    functions: dict[str, list[Function]]  # the overloads of a name before the function itself
    here: dict[str, ast.expr | None]  # what else is defined in it, with the value of what is not a class
    imports: dict[str, tuple[str, str]]  # name → module and the name there


@cache
def source_of(module: str) -> Source:
    """The text of a module of wordpipe, parsed."""
    at = FACE.parent.joinpath(*module.split(".")[1:])
    path = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
    body = [*_top_level(ast.parse(path.read_text(encoding="utf-8")).body)]
    functions: dict[str, list[Function]] = {}
    for node in body:
        if isinstance(node, Function):
            functions.setdefault(node.name, []).append(node)
    imported = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in body if isinstance(node, ast.ImportFrom) for alias in node.names
    }  # fmt: skip
    here: dict[str, ast.expr | None] = {node.name: None for node in body if isinstance(node, ast.ClassDef)}
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        here |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}  # type: ignore[attr-defined]
    return Source(module, functions, here, imported)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those that type checkers alone see."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body


def found(module: str, name: str) -> tuple[Source, str]:
    """Where a name is defined, through the faces that hand it on."""
    source = source_of(module)
    if name in source.imports and name not in source.functions:
        return found(*source.imports[name])
    return source, name


def stub() -> str:
    """The whole file."""
    imports: Imports = set()
    functions: list[str] = []
    offers = imports_for_types(FACE.read_text(encoding="utf-8")) | public_names()
    for name, (module, original) in sorted(offers.items()):
        source, own = found(module, original)
        if own in source.functions or own not in source.here:
            functions += _function(name, source, own, imports)
        else:
            imports.add((module, original, name))
    imports = {one for one in imports if one[2] or one[1] not in offers}  # what is offered is handed on
    lines = [f"from {module} import {name}{f' as {here}' if here else ''}" for module, name, here in sorted(imports)]
    constants = [f"{name}: {kind}" for name, kind in _CONSTANTS.items()]
    return "\n".join([_HEAD, "import os", *lines, "", *constants, "", *functions])


def _function(name: str, source: Source, own: str, imports: Imports) -> Iterator[str]:
    """A function, or all its overloads; the last has the docstring."""
    keywords: list[Keyword] = []
    if own in source.functions:
        *overloads, function = source.functions[own]
        doc = ast.get_docstring(function)
        if options := _options(function, source):
            keywords = [*keywords_of(options)]
    else:  # a module makes it when it is asked for: the table of commands knows what it takes
        (command,) = (one for one in COMMANDS.values() if one.function == f"{source.name}:{own}")
        arguments = [argument.name.lower() for argument in command.arguments]
        (function,), overloads = ast.parse(_MADE.format(name=own, first=arguments[0])).body, []  # type: ignore[assignment]
        keywords = [*keywords_of(command.load_settings())]
        doc = _DOC.format(command=command, first=arguments[0], text=command.arguments[0].text)
    assert doc, name
    taken = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    keywords = [one for one in keywords if one.name not in taken]  # the function's own comes first
    doc = "\n\n".join(
        part for part in documented(doc.rstrip(), keywords).split("\n\n") if not part.startswith(_LEFT_OUT)
    )
    written = '"""' + doc.replace("\\", "\\\\").replace('"""', '\\"""').replace("\n", "\n    ") + '\n    """'
    if overloads:
        imports.add(("typing", "overload", ""))
    for one in overloads or [function]:
        if overloads:
            yield "@overload"
        yield f"def {name}("
        yield from _packed(_parameters(one, source, keywords, imports))
        assert one.returns is not None, name
        yield f") -> {_annotation(one.returns, source, imports)}:" + (
            " ..." if one is not (overloads or [function])[-1] else ""
        )
    yield "\n".join(line.rstrip() for line in f"    {written}\n".splitlines()) + "\n"


def _options(function: Function, source: Source) -> Any:
    """The class whose fields a function takes as keywords: what its decorator `public` names."""
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "public" and one.args:
            module, name = source.imports[ast.unparse(one.args[0])]
            return getattr(import_module(module), name)
    return None


def _parameters(function: Function, source: Source, keywords: list[Keyword], imports: Imports) -> Iterator[str]:
    own = function.args
    if own.vararg or (own.kwarg and not keywords):
        raise AssertionError(f"{function.name} cannot be told to a type checker")
    without = [None] * (len(own.args) - len(own.defaults))
    for one, default in zip(own.args, [*without, *own.defaults], strict=True):
        yield _parameter(one, default, source, imports)
    if own.kwonlyargs or keywords:
        yield "*,"
    for one, default in zip(own.kwonlyargs, own.kw_defaults, strict=True):
        yield _parameter(one, default, source, imports)
    for keyword in keywords:
        shown = "" if keyword.is_required else f" = {keyword.default!r}"
        yield f"{keyword.name}: {_type(keyword.type, imports)}{shown},"


def _parameter(one: ast.arg, default: ast.expr | None, source: Source, imports: Imports) -> str:
    assert one.annotation is not None, one.arg
    if isinstance(default, ast.Name):  # a constant
        there, name = found(source.name, default.id)
        default = there.here[name]
    shown = "" if default is None else f" = {ast.unparse(default)}"
    return f"{one.arg}: {_annotation(one.annotation, source, imports)}{shown},"


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


def _annotation(node: ast.expr, source: Source, imports: Imports) -> str:
    """A type as it is written; what it needs is added to the imports."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # a class that stands further down in its file
        return _annotation(ast.parse(node.value, mode="eval").body, source, imports)
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and one.id in source.imports:
            module, name = source.imports[one.id]
            if module.startswith("wordpipe."):
                there, name = found(module, name)
                module = there.name
            imports.add((module, name, "" if name == one.id else one.id))
        elif isinstance(one, ast.Name) and one.id in source.here:
            imports.add((source.name, one.id, ""))
        else:
            assert not isinstance(one, ast.Name) or one.id == "os" or hasattr(builtins, one.id), ast.unparse(node)
    return ast.unparse(node)


def _type(kind: Any, imports: Imports) -> str:
    """The type of a setting as one writes it; what it needs is added to the imports."""
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
            imports.add(("wordpipe.stages.job", "PathLike", ""))
        return " | ".join([*(["PathLike"] if len(inner) < len(args) else []), *(_type(one, imports) for one in inner)])
    if origin is Callable:
        imports.add(("collections.abc", "Callable", ""))
        taken = ", ".join(_type(one, imports) for one in args[0])
        return f"Callable[[{taken}], {_type(args[1], imports)}]"
    if origin is not None:
        return f"{_type(origin, imports)}[{', '.join(_type(one, imports) for one in args)}]"
    if kind.__module__ != "builtins":
        imports.add((kind.__module__, kind.__name__, ""))
    return str(kind.__name__)


def write() -> Path:
    """Make the file anew, where it says something else; its path."""
    made = stub()
    if not STUB.is_file() or STUB.read_text(encoding="utf-8") != made:
        STUB.write_text(made, encoding="utf-8")
    return STUB


if __name__ == "__main__":
    write()
