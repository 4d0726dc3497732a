"""One Python module as read from its source: what it defines, imports and exports, and its docstrings.

The source is parsed, never run. Besides the docstrings of modules, classes, functions and methods, the calls are read by
which numpy, scipy and torch document their compiled functions: `add_newdoc(place, name, doc)` and
`add_docstr(function, doc)`.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import cleandoc

from wordpipe.corpus.literals import Lookup, string_value
from wordpipe.corpus.packages import PackageFile

__all__ = ["Docstring", "Module", "is_private", "parse_module", "read_docstrings"]

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_ONLY_PLACEHOLDER = re.compile(r"^[ \t]*%\(\w+\)s[ \t]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Docstring:
    """One documented thing.

    Attributes:
        home: the module it belongs to, which for compiled functions is not the one that documents them; "" where `name`
            is already the full name.
        name: its name there, with the class for a method; "" for the module itself.
        text: the docstring, its common indentation taken away.
        line: 1-based line where the text begins.
    """

    home: str
    name: str
    text: str
    line: int


@dataclass(slots=True)
class Module:
    """What reading a module tells.

    Attributes:
        name: its full name.
        package: the package that its relative imports start from.
        is_init: True for an `__init__.py`.
        defined: names of its classes and functions, and those it assigns.
        imports: for each imported name, the module and the name there ("" for a module itself).
        stars: modules of `from … import *`.
        exports: `__all__`, or None where it is not there or cannot be known.
        instances: for each name assigned `Class(...)`, the class's name.
        bound: for each name assigned `instance.method`, both names.
        texts: expressions of names that may be texts or dictionaries of texts.
        docstrings: what it documents, in the order of the file.
    """

    name: str
    package: str
    is_init: bool
    defined: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exports: list[str] | None = None
    instances: dict[str, str] = field(default_factory=dict)
    bound: dict[str, tuple[str, str]] = field(default_factory=dict)
    texts: dict[str, ast.expr] = field(default_factory=dict)
    docstrings: list[Docstring] = field(default_factory=list)


def parse_module(file: PackageFile) -> tuple[Module, ast.Module]:
    """Read a module's source; its docstrings are read by `read_docstrings`, which may need other modules.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python of this version.
    """
    source = file.path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's invalid escapes
        tree = ast.parse(source)
    module = Module(file.module, file.module if file.is_init else file.module.rpartition(".")[0], file.is_init)
    exports = _Exports()
    for statement in _statements(tree.body):
        _note_names(module, statement)
        exports.note(statement)
    module.exports = exports.names if exports.is_known else None
    return module, tree


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported, those under `if`, `try` and `with` included."""
    for statement in body:
        yield statement
        for block in ("body", "orelse", "finalbody"):
            if isinstance(statement, (ast.If, ast.Try, ast.With, ast.For)):
                yield from _statements(getattr(statement, block, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


def _note_names(module: Module, statement: ast.stmt) -> None:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.defined.add(name)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            module.defined.add(name)
            _note_value(module, name, value)
        case ast.Import(names=names):
            for alias in names:
                if alias.asname:
                    module.imports[alias.asname] = (alias.name, "")
        case ast.ImportFrom(names=names):
            origin = _origin(module, statement)
            for alias in names:
                if alias.name == "*":
                    module.stars.append(origin)
                else:
                    module.imports.setdefault(alias.asname or alias.name, (origin, alias.name))


def _note_value(module: Module, name: str, value: ast.expr) -> None:
    if isinstance(value, (ast.Constant, ast.BinOp, ast.Dict, ast.Call, ast.JoinedStr)):
        module.texts[name] = value
    match value:
        case ast.Call(func=ast.Name(id=class_name)):
            module.instances[name] = class_name
        case ast.Attribute(value=ast.Name(id=instance), attr=method):
            module.bound[name] = (instance, method)


def _origin(module: Module, statement: ast.ImportFrom) -> str:
    """The full name of the module that `from … import` names."""
    if not statement.level:
        return statement.module or ""
    package = module.package.split(".")
    base = package[: len(package) - statement.level + 1]
    return ".".join([*base, *([statement.module] if statement.module else [])])


class _Exports:
    """`__all__` as far as it is written out: lists and tuples of names, and lists added to them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_known = False

    def note(self, statement: ast.stmt) -> None:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                self.is_known = True
                self._add(value)
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                self._add(value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"), attr=verb), args=[value])):
                self._add(value if verb == "extend" else ast.List(elts=[value]))

    def _add(self, value: ast.expr) -> None:
        if isinstance(value, (ast.List, ast.Tuple)):
            found = [item.value for item in value.elts if isinstance(item, ast.Constant)]
            self.is_known &= len(found) == len(value.elts)
            self.names += [name for name in found if isinstance(name, str)]
        else:
            self.is_known = False  # computed: whoever asks takes every public name instead


def read_docstrings(module: Module, tree: ast.Module, lookup: Lookup) -> Iterator[Docstring]:
    """The docstrings of a module and of its public classes, functions and methods, and what it documents for others.

    Args:
        module: what `parse_module` found.
        tree: the same module, parsed.
        lookup: finds what a name of this module is assigned, here or where it is imported from.
    """
    yield from _own(module.name, "", tree)
    yield from _defined(module.name, "", tree.body)
    for statement in _statements(tree.body):
        yield from _assigned(module, statement, lookup)


def _own(home: str, name: str, node: ast.Module | _Definition) -> Iterator[Docstring]:
    raw = ast.get_docstring(node, clean=False)
    if raw:
        yield _docstring(home, name, raw, node.body[0].lineno)


def _docstring(home: str, name: str, raw: str, line: int) -> Docstring:
    text = _ONLY_PLACEHOLDER.sub("", cleandoc(raw)).rstrip()
    blank = raw[: len(raw) - len(raw.lstrip())].count("\n")
    return Docstring(home, name, text, line + blank)


def _defined(home: str, outer: str, body: list[ast.stmt]) -> Iterator[Docstring]:
    for node in _statements(body):
        if isinstance(node, _Definition) and not node.name.startswith("_"):
            yield from _own(home, f"{outer}{node.name}", node)
            if isinstance(node, ast.ClassDef):
                yield from _defined(home, f"{outer}{node.name}.", node.body)


def _assigned(module: Module, statement: ast.stmt, lookup: Lookup) -> Iterator[Docstring]:
    """Documentation that is attached by a statement: `add_newdoc`, `add_docstr`, `x.__doc__ = …`, `__doc__ = …`."""
    target = None
    match statement:
        case ast.Assign(targets=[ast.Name(id="__doc__")], value=value):
            yield from _text(module.name, "", value, lookup)
            return
        case ast.Assign(targets=[ast.Attribute(value=thing, attr="__doc__")], value=value):
            name = _dotted(thing)
            if name and not is_private(name):
                yield from _text(module.name, name, value, lookup)
            return
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            target = name
        case ast.Expr(value=ast.Call() as call):
            pass
        case _:
            return
    callee = (_dotted(call.func) or "").rpartition(".")[2].lstrip("_")
    reader = _READERS.get(callee)
    if reader is not None:
        yield from reader(module, call, target, lookup)


def _text(home: str, name: str, node: ast.expr, lookup: Lookup) -> Iterator[Docstring]:
    raw = string_value(node, lookup)
    if raw and raw.strip():
        yield _docstring(home, name, raw, node.lineno)


def _add_docstr(module: Module, call: ast.Call, target: str | None, lookup: Lookup) -> Iterator[Docstring]:
    """A call on a function, `add_docstr(torch.abs, doc)`; where it is assigned to a name, that is documented."""
    if len(call.args) == 2:
        home = module.name if target else ""
        name = target or _dotted(call.args[0])
        if name and not is_private(name):
            yield from _text(home, name, call.args[1], lookup)


def _add_docstr_all(module: Module, call: ast.Call, target: str | None, lookup: Lookup) -> Iterator[Docstring]:
    """`add_docstr_all("abs", doc)` of `_tensor_docs.py` documents the method of torch.Tensor and its like."""
    class_name = module.name.rpartition(".")[2].strip("_").removesuffix("_docs").capitalize()
    if len(call.args) == 2 and (method := string_value(call.args[0], lookup)):
        yield from _text("", f"{module.package}.{class_name}.{method}", call.args[1], lookup)


def _add_newdoc(module: Module, call: ast.Call, target: str | None, lookup: Lookup) -> Iterator[Docstring]:
    """`add_newdoc(place, name, doc | (method, doc) | [(method, doc), …])`, or `add_newdoc(name, doc)` for the package."""
    if len(call.args) == 3:
        place, name = (string_value(argument, lookup) for argument in call.args[:2])
    else:
        place, name = module.package, string_value(call.args[0], lookup) if call.args else None
    if not place or not name or len(call.args) < 2:
        return
    for method, node in _newdocs(call.args[-1], lookup):
        yield from _text(place, f"{name}.{method}" if method else name, node, lookup)


def _add_scalar(module: Module, call: ast.Call, target: str | None, lookup: Lookup) -> Iterator[Docstring]:
    """`add_newdoc_for_scalar_type(name, aliases, doc)` documents a type of the top-level package."""
    if len(call.args) == 3 and (name := string_value(call.args[0], lookup)):
        yield from _text("", f"{module.package.partition('.')[0]}.{name}", call.args[2], lookup)


def _newdocs(node: ast.expr, lookup: Lookup) -> Iterator[tuple[str, ast.expr]]:
    """Method ("" for the thing itself) and text of the last argument of `add_newdoc`."""
    pairs = node.elts if isinstance(node, ast.List) else [node]
    for pair in pairs:
        if isinstance(pair, ast.Tuple) and len(pair.elts) == 2:
            method = string_value(pair.elts[0], lookup)
            if method and not is_private(method):
                yield method, pair.elts[1]
        else:
            yield "", pair


_READERS: dict[str, Callable[[Module, ast.Call, str | None, Lookup], Iterator[Docstring]]] = {
    "add_docstr": _add_docstr,
    "add_docstr_all": _add_docstr_all,
    "add_newdoc": _add_newdoc,
    "add_newdoc_for_scalar_type": _add_scalar,
}


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr}"
    return None


def is_private(name: str) -> bool:
    """Does any part of a dotted name begin with an underscore?"""
    return any(part.startswith("_") for part in name.split("."))
