"""Docstrings of an installed package as records, read by parsing its source: nothing is imported, nothing runs.

The title is the name a user would import the thing by: `numpy.linalg.eigh`, though it is written in
`numpy/linalg/_linalg.py`. What no public module offers is left out and counted.

Besides the docstrings of modules, classes, functions and methods, the calls are read by which numpy, scipy and torch document
their compiled functions: `add_newdoc(place, name, doc)` and `add_docstr(function, doc)`. Their texts are put together from
constants, names of this module, sums, f-strings and `.format`. What cannot be known makes the whole string unknown (None),
except the names in a `.format`, whose placeholders are taken out.

griffe reads modules from source too, but not these calls: it misses 671 of numpy's 1,350 documents, in 4.2 s instead of 0.5.
"""

import ast
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING

from wordpipe.corpus.documents import Ledger, Record
from wordpipe.errors import InputError

if TYPE_CHECKING:
    from wordpipe.corpus.reading import Opened

_MIN_WORDS = 4  # "Alias of `add`." teaches nothing
_DOCUMENTERS = (b"add_newdoc", b"add_docstr")
_KNOWN_AS = {"_pyio": "io", "posixpath": "os.path"}  # modules that users know by another name, which nothing imports
_MAX_CHAIN = 30  # imports followed from one module to the next
_TESTS = {"test", "tests", "conftest", "idle_test"}
_STDLIB_TOOLS = {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "turtledemo"}  # programs, no library

_UNDERLINE = re.compile(r"\s*(?:-{3,}|={3,})\s*\Z")
_NAME = re.compile(r"(?::\w+(?::\w+)?:)?`{0,2}~?(?P<name>[A-Za-z_][\w.]*)(?:\(\))?`{0,2}\Z")
_DESCRIPTION = re.compile(r"\s*:(?=\s|\Z)")
_Documented = Iterator[tuple[str, str, ast.expr]]  # home and name of a thing, and its text
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_ONLY_PLACEHOLDER = re.compile(r"^[ \t]*%\(\w+\)s[ \t]*\n?", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w*)[^{}]*\}")
_MAX_DEPTH = 20  # names, calls and sums followed one into the other; names may be defined by themselves


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One Python file of a package."""

    module: str  # its full module name; a package's `__init__.py` has the package's
    path: Path  # where it is
    relative: str  # its path below the folder of the import path, with "/"
    is_init: bool  # True for an `__init__.py`


@dataclass(frozen=True, slots=True)
class Docstring:
    """One docstring of a package: what it documents, its text and its line."""

    # the module it belongs to, which for compiled functions is not the one that documents them; "" where `name` is
    # already the full name
    home: str
    name: str  # its name there, with the class for a method; "" for the module itself
    text: str  # the docstring, its common indentation taken away
    line: int  # 1-based line where the text begins


@dataclass(slots=True)
class Module:
    """The facts that the source of a Python module gives."""

    name: str  # its full name
    is_init: bool  # True for an `__init__.py`
    defined: set[str] = field(default_factory=set)  # names of its classes and functions, and those it assigns
    # for each imported name, the module and the name there ("" for a module itself)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)  # modules of `from … import *`
    exports: list[str] | None = None  # `__all__`, or None where it is not there or cannot be known
    instances: dict[str, str] = field(default_factory=dict)  # for each name assigned `Class(...)`, the class's name
    # for each name assigned `instance.method`, both names
    bound: dict[str, tuple[str, str]] = field(default_factory=dict)
    # expressions of names that may be texts
    texts: dict[str, ast.expr] = field(default_factory=dict)
    docstrings: list[Docstring] = field(default_factory=list)  # what it documents, in the order of the file

    @property
    def package(self) -> str:
        """The package that its relative imports start from."""
        return self.name if self.is_init else self.name.rpartition(".")[0]


def read(opened: "Opened") -> Iterator[Record]:
    """Return the docstrings of a package that is installed."""
    return package_records(opened.source.name.removeprefix("python:"), opened.ledger)


def package_records(package: str, ledger: Ledger) -> Iterator[Record]:
    """Yield a record for each public docstring of a package, a part ("numpy.linalg") or "stdlib", with the names it points to.

    By module and line. Files and docstrings that are left out are counted. Held in memory at once: the docstrings of the
    package (10 MB for torch), and one parsed module.

    Raises:
        InputError: no such package, or no Python source of it.
    """
    files = find_package(package)
    library = _Library(files, ledger)
    names = library.public_names()
    for file in files:  # private modules document what compiled ones define
        if is_private(file.module) and any(word in file.path.read_bytes() for word in _DOCUMENTERS):
            library.module(file.module)
    titled: list[tuple[PackageFile, Docstring, str]] = []
    for file in files:  # twins of compiled modules are read now
        module = library.module(file.module) if file.module in _KNOWN_AS else library.modules.get(file.module)
        if module is None:
            ledger.add("python_files_not_public")
            continue
        ledger.add("python_files_read")
        ledger.add("bytes_read", file.path.stat().st_size)
        ledger.add("docstrings_read", len(module.docstrings))
        for doc in module.docstrings:
            if title := _title(doc, library, names):
                titled.append((file, doc, title))
            else:
                ledger.add("docstrings_not_public")
    titles = {title for _, _, title in titled}  # all must be known before names can point to them
    for file, doc, title in titled:
        pointed = dict.fromkeys(_full_name(name, title, titles) for name in see_also_names(doc.text))
        yield Record(
            text=doc.text,
            source=f"python:{file.module}",
            line=doc.line,
            title=title,
            own={"see_also": [name for name in pointed if name != title]},
            newline="space",
            min_words=_MIN_WORDS,
        )


def _title(doc: Docstring, library: "_Library", names: Mapping[tuple[str, str], str]) -> str | None:
    """Return the public name of what a docstring of a package documents, or None."""
    name = library.public_name(doc.home, doc.name, names) if doc.home and doc.name else None
    name = name or ".".join(part for part in (doc.home, doc.name) if part)
    top, dot, rest = name.partition(".")
    name = f"{_KNOWN_AS.get(top, top)}{dot}{rest}"
    return None if is_private(name) else name


def _full_name(name: str, title: str, titles: set[str]) -> str:
    """Return `name` as the nearest title of a docstring that it can mean from within `title`; as it is where there is none."""
    parts = title.split(".")[:-1]
    candidates = (".".join([*parts[:end], name]) for end in range(len(parts), -1, -1))
    return next((candidate for candidate in candidates if candidate in titles), name)


class _Library:
    """A parser of a package's modules, each parsed once; it follows imports and finds the public names of definitions."""

    def __init__(self, files: list[PackageFile], ledger: Ledger) -> None:
        self.files = {file.module: file for file in files}
        self.modules: dict[str, Module | None] = {}
        self._ledger = ledger

    def module(self, name: str) -> Module | None:
        """Return the module of a package by its name; None if the package has no Python source of that name."""
        if name in self.modules:
            return self.modules[name]
        self.modules[name] = None
        if (file := self.files.get(name)) is not None:
            try:
                self.modules[name] = parse_module(name, file.path, is_init=file.is_init)
            except (SyntaxError, ValueError, RecursionError):
                self._ledger.add("python_files_not_parsed")
        return self.modules[name]

    def _resolve(self, module: str, name: str, chain: int = _MAX_CHAIN) -> tuple[str, str] | None:
        """Return module and name under which `name` of `module` was defined, as far as imports can be followed.

        A name that comes from a compiled module of the package is followed to that module. None where it is not there
        at all.
        """
        found = self.module(module)
        if found is None or chain == 0:
            return None
        if name in found.imports:  # before definitions: `try: from _fast import f` is followed by a slow `def f`
            origin, original = found.imports[name]
            if not original or f"{origin}.{original}" in self.files:
                return None  # a module, not something defined in one
            target = self._resolve(origin, original, chain - 1)
            if target is not None or origin.partition(".")[0] == module.partition(".")[0]:
                return target or (origin, original)
        if name in found.defined:
            return module, name
        starred = (self._resolve(star, name, chain - 1) for star in found.stars)
        return next((target for target in starred if target is not None), None)

    def public_names(self) -> dict[tuple[str, str], str]:
        """Return, for each definition (its module, its name) that a public module offers, the shortest name to import it by.

        Classes that users only know by their one instance (`norm = norm_gen()`) go by the instance's name, and methods
        that are offered as functions (`shuffle = _inst.shuffle`) by the function's.
        """
        names: dict[tuple[str, str], str] = {}
        for module in sorted(self.files):
            for name in () if is_private(module) else sorted(self._offered(module)):
                _offer(names, self._resolve(module, name), f"{module}.{name}")
        for known in [module for module in self.modules.values() if module is not None]:
            for name in sorted(known.instances):
                own = (known.name, known.instances[name])
                is_hidden = own not in names or own[1] == f"{name}_gen"  # scipy's names of such classes
                if (known.name, name) in names and is_hidden and own[1] in known.defined:
                    names[own] = names[known.name, name]
            for name, (instance, method) in sorted(known.bound.items()):
                if (known.name, name) in names and instance in known.instances:
                    _offer(names, (known.name, f"{known.instances[instance]}.{method}"), names[known.name, name])
        return names

    def public_name(self, home: str, name: str, names: Mapping[tuple[str, str], str]) -> str | None:
        """Return the public name of `name` of the module `home`, which may be a method's; None where there is none."""
        if (home, name) in names:
            return names[home, name]
        top, _, rest = name.partition(".")
        public = names.get((home, top)) or names.get(self._resolve(home, top) or ("", ""))
        return f"{public}.{rest}" if public and rest else public

    def _offered(self, name: str, chain: int = _MAX_CHAIN) -> set[str]:
        """Return the names that a module gives to `import *`; what a plain module imports by name is not its own to offer."""
        module = self.module(name)
        if module is None or chain == 0:
            return set()
        origin, exports = module.imports.get("__all__", ("", ""))
        if exports == "__all__":
            return self._offered(origin, chain - 1)
        if module.exports is not None:
            return {export for export in module.exports if not is_private(export)}
        names = set(module.defined)
        if module.is_init or chain < _MAX_CHAIN:
            names |= module.imports.keys()
        for star in module.stars:
            names |= self._offered(star, chain - 1)
        return {each for each in names if not is_private(each)}


def _offer(names: dict[tuple[str, str], str], target: tuple[str, str] | None, candidate: str) -> None:
    """Offer a public name for a definition; the shortest is kept."""
    if target and _rank(candidate) < _rank(names.get(target, "." * 99)):
        names[target] = candidate


def _rank(name: str) -> tuple[int, int, str]:
    """Return the rank of a public name of a definition: fewer dots first, then shorter."""
    return name.count("."), len(name), name


def find_package(name: str) -> list[PackageFile]:
    """Return the files of "PACKAGE", "PACKAGE.PART" or "stdlib" (the whole standard library), by module name, without tests.

    They are found on the import path without importing anything.

    Raises:
        InputError: not installed, or without Python source (a compiled or built-in module).
    """
    top = name.partition(".")[0]
    tops = sorted(sys.stdlib_module_names - _STDLIB_TOOLS) if name == "stdlib" else [top]
    files = [file for each in tops for file in _top_level(each, stdlib_only=name == "stdlib")]
    if name not in ("stdlib", top):
        files = [file for file in files if file.module == name or file.module.startswith(f"{name}.")]
    if not files:
        hint = f"run pip install {top}, or give the name of another installed package that is written in Python"
        raise InputError("no Python source code of this package was found", where=f"python:{name}", hint=hint)
    return sorted(files, key=lambda file: (file.module, file.relative))


def _top_level(name: str, *, stdlib_only: bool) -> Iterator[PackageFile]:
    """Yield the Python files of a top-level module or package."""
    spec = _spec(name, stdlib_only=stdlib_only)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None and spec.origin.endswith(".py"):
            yield PackageFile(name, Path(spec.origin), Path(spec.origin).name, is_init=False)
        return
    for folder in map(Path, spec.submodule_search_locations):
        for path in folder.rglob("*.py"):
            parts = (name, *path.relative_to(folder).with_suffix("").parts)
            if all(part.isidentifier() for part in parts) and not any(map(_is_test, parts[1:])):
                is_init = parts[-1] == "__init__"
                yield PackageFile(".".join(parts[:-1] if is_init else parts), path, "/".join(parts) + ".py", is_init)


def _spec(name: str, *, stdlib_only: bool) -> ModuleSpec | None:
    """Find a top-level module without importing anything; the path is searched first, as `os` may be frozen."""
    if not name.isidentifier():
        return None
    if stdlib_only:
        return PathFinder.find_spec(name, [sysconfig.get_path("stdlib")])
    try:
        return PathFinder.find_spec(name) or find_spec(name)  # packages installed in place bring finders of their own
    except (ImportError, ValueError):
        return None


def _is_test(part: str) -> bool:
    """True if a part of a module's name is that of tests."""
    return part in _TESTS or part.startswith("test_") or part.endswith("_test")


def see_also_names(docstring: str) -> list[str]:
    r"""Return the names in the "See Also" section of a docstring (numpydoc), once each; deeper lines are description.

    >>> see_also_names("Sum.\n\nSee Also\n--------\nmean : The average.\ncumsum, numpy.diff\n")
    ['mean', 'cumsum', 'numpy.diff']
    """
    lines = docstring.split("\n")
    names: dict[str, None] = {}
    indent: int | None = None  # of the section that is being read
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and _UNDERLINE.match(below):
            indent = _indent(line) if line.strip().lower() == "see also" else None
        elif indent is not None and line.strip() and _indent(line) <= indent:
            for part in _DESCRIPTION.split(line, maxsplit=1)[0].split(","):
                if match := _NAME.match(part.strip()):
                    names[match["name"]] = None
    return list(names)


def _indent(line: str) -> int:
    """Return the number of spaces before a line of a docstring."""
    return len(line) - len(line.lstrip())


def parse_module(name: str, path: Path, *, is_init: bool) -> Module:
    """Return the docstrings and names of a module of a package, from its source.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python of this version.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's invalid escapes
        tree = ast.parse(path.read_bytes())
    module = Module(name, is_init)
    statements = list(_statements(tree.body))
    for statement in statements:
        _note_names(module, statement)
    module.exports = _exports(statements)
    module.docstrings = [*_own(name, "", tree), *_defined(name, "", tree.body)]
    for statement in statements:
        for home, documented, node in _assigned(module, statement):
            raw = string_value(node, module.texts)
            if raw and raw.strip():
                module.docstrings.append(_docstring(home, documented, raw, node.lineno))
    return module


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module of a package is imported, those under `if` included."""
    for statement in body:
        yield statement
        for block in ("body", "orelse", "finalbody"):
            if isinstance(statement, (ast.If, ast.Try, ast.With, ast.For)):
                yield from _statements(getattr(statement, block, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


def _note_names(module: Module, statement: ast.stmt) -> None:
    """Note the names that a statement of a module defines or imports."""
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.defined.add(name)
        # a name that is assigned: a text, an instance of a class, or a method of an instance
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            module.defined.add(name)
            if isinstance(value, (ast.Constant, ast.BinOp, ast.Call, ast.JoinedStr)):
                module.texts[name] = value
            match value:
                case ast.Call(func=ast.Name(id=class_name)):
                    module.instances[name] = class_name
                case ast.Attribute(value=ast.Name(id=instance), attr=method):
                    module.bound[name] = (instance, method)
        # a name that comes from another module
        case ast.Import(names=names):
            module.imports |= {alias.asname: (alias.name, "") for alias in names if alias.asname}
        case ast.ImportFrom(names=names, module=base, level=level):
            above = module.package.split(".")[: module.package.count(".") + 2 - level] if level else []
            origin = ".".join([*above, *([base] if base else [])])
            for alias in names:
                if alias.name == "*":
                    module.stars.append(origin)
                else:
                    module.imports.setdefault(alias.asname or alias.name, (origin, alias.name))


def _exports(statements: Iterable[ast.stmt]) -> list[str] | None:
    """Return `__all__` as far as it is written out: lists and tuples of names, and sums of lists.

    None where a part is computed: whoever asks takes every public name instead.
    """
    found: list[str] = []
    is_known = False
    for statement in statements:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                is_known = True
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"), attr=verb), args=[value])):
                value = value if verb == "extend" else ast.List(elts=[value])
            case _:
                continue
        names = [one.value for one in getattr(value, "elts", ()) if isinstance(one, ast.Constant)]
        is_known &= isinstance(value, (ast.List, ast.Tuple)) and len(names) == len(value.elts)
        found += [name for name in names if isinstance(name, str)]
    return found if is_known else None


def _own(home: str, name: str, node: ast.Module | _Definition) -> Iterator[Docstring]:
    """Yield the docstring of a module, class or function, if it has one."""
    raw = ast.get_docstring(node, clean=False)
    if raw:
        yield _docstring(home, name, raw, node.body[0].lineno)


def _docstring(home: str, name: str, raw: str, line: int) -> Docstring:
    """Return a docstring with its text cleaned and the line where it begins."""
    text = _ONLY_PLACEHOLDER.sub("", cleandoc(raw)).rstrip()
    blank = raw[: len(raw) - len(raw.lstrip())].count("\n")
    return Docstring(home, name, text, line + blank)


def _defined(home: str, outer: str, body: list[ast.stmt]) -> Iterator[Docstring]:
    """Yield the docstrings of public classes and functions in a body of a package's source."""
    for node in _statements(body):
        if isinstance(node, _Definition) and not node.name.startswith("_"):
            yield from _own(home, f"{outer}{node.name}", node)
            if isinstance(node, ast.ClassDef):
                yield from _defined(home, f"{outer}{node.name}.", node.body)


def _assigned(module: Module, statement: ast.stmt) -> _Documented:
    """Yield the docstrings that a statement of a package assigns: `add_newdoc`, `x.__doc__ = …`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="__doc__")], value=value):
            yield module.name, "", value
        case ast.Assign(targets=[ast.Attribute(value=thing, attr="__doc__")], value=value):
            name = _dotted(thing)
            if name and not is_private(name):
                yield module.name, name, value
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as call):
            yield from _called(module, call, target)
        case ast.Expr(value=ast.Call() as call):
            yield from _called(module, call, None)


def _called(module: Module, call: ast.Call, target: str | None) -> _Documented:
    """Yield the docstrings that a call in a package's source gives; its result may be named `target`."""
    match (_dotted(call.func) or "").rpartition(".")[2].lstrip("_"), call.args:
        case "add_docstr", [thing, text]:  # (torch.abs, doc); where it is assigned to a name, that is documented
            name = target or _dotted(thing)
            if name and not is_private(name):
                yield module.name if target else "", name, text
        case "add_docstr_all", [
            thing,
            text,
        ]:  # ("abs", doc) of `_tensor_docs.py`: a method of torch.Tensor and its like
            class_name = module.name.rpartition(".")[2].strip("_").removesuffix("_docs").capitalize()
            if name := string_value(thing, module.texts):
                yield "", f"{module.package}.{class_name}.{name}", text
        case "add_newdoc_for_scalar_type", [thing, _, text]:  # (name, aliases, doc): a type of the top-level package
            if name := string_value(thing, module.texts):
                yield "", f"{module.package.partition('.')[0]}.{name}", text
        case "add_newdoc", [
            *place,
            thing,
            text,
        ]:  # (place, name, doc | (method, doc) | [(method, doc), …]), or (name, doc)
            home = string_value(place[0], module.texts) if place else module.package
            name = string_value(thing, module.texts)
            if home and name:
                yield from _new_docs(module, home, name, text)


def _new_docs(module: Module, home: str, name: str, text: ast.expr) -> _Documented:
    """Yield the docstrings that `add_newdoc` gives: of a name, or of methods of a class."""
    for pair in text.elts if isinstance(text, ast.List) else [text]:
        match pair:
            case ast.Tuple(elts=[thing, doc]):
                if (method := string_value(thing, module.texts)) and not is_private(method):
                    yield home, f"{name}.{method}", doc
            case _:
                yield home, name, pair


def _dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` in a package's source as text; None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr}"
    return None


def is_private(name: str) -> bool:
    """True if any part of a dotted name begins with an underscore."""
    return any(part.startswith("_") for part in name.split("."))


def string_value(node: ast.expr, texts: Mapping[str, ast.expr], depth: int = _MAX_DEPTH) -> str | None:
    """Return the string that an expression in a package's source stands for; None where reading cannot say.

    `texts` are the expressions that names of its module are assigned.
    """
    depth -= 1
    match node:
        # a string, or a name of one
        case _ if depth < 0:
            return None
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in texts:
            return string_value(texts[name], texts, depth)
        # a sum of strings, an f-string, a template that is filled
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            before, after = string_value(left, texts, depth), string_value(right, texts, depth)
            return None if before is None or after is None else before + after
        case ast.JoinedStr(values=parts):
            return "".join(string_value(part, texts, depth) or "" for part in parts)
        case ast.FormattedValue(value=value):
            return string_value(value, texts, depth)
        # "…".format(…), as far as its arguments are known
        case ast.Call(func=ast.Attribute(value=value, attr="format"), args=args, keywords=keywords):
            template = string_value(value, texts, depth)
            named = [*((str(place), each) for place, each in enumerate(args)), *((k.arg, k.value) for k in keywords)]
            known = {name: string_value(each, texts, depth) for name, each in named}
            return None if template is None else _fill(template, known)
    return None


def _fill(template: str, texts: Mapping[str | None, str | None]) -> str:
    """Return the docstring's template with known placeholders filled in, unknown ones taken out."""
    count = iter(range(template.count("{")))

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return texts.get(match[1] or str(next(count))) or ""

    return _PLACEHOLDER.sub(value, template)
