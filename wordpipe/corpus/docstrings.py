"""Docstrings of an installed package as records, read by parsing its source: nothing is imported, nothing runs.

The title is the name a user would import the thing by: `numpy.linalg.eigh`, though it is written in
`numpy/linalg/_linalg.py`. What no public module offers is left out and counted.
"""

import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.modules import Docstring, Module, is_private, parse_module
from wordpipe.errors import InputError

_MIN_WORDS = 4  # "Alias of `add`." teaches nothing
_DOCUMENTERS = (b"add_newdoc", b"add_docstr")
_KNOWN_AS = {"_pyio": "io", "posixpath": "os.path"}  # modules that users know by another name, which nothing imports
_MAX_CHAIN = 30  # imports followed from one module to the next
_TESTS = {"test", "tests", "conftest", "idle_test"}
_STDLIB_TOOLS = {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "turtledemo"}  # programs, no library

_UNDERLINE = re.compile(r"\s*(?:-{3,}|={3,})\s*\Z")
_NAME = re.compile(r"(?::\w+(?::\w+)?:)?`{0,2}~?(?P<name>[A-Za-z_][\w.]*)(?:\(\))?`{0,2}\Z")
_DESCRIPTION = re.compile(r"\s*:(?=\s|\Z)")


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One Python file of a package."""

    module: str  # its full module name; a package's `__init__.py` has the package's
    path: Path  # where it is
    relative: str  # its path below the folder of the import path, with "/"
    is_init: bool  # True for an `__init__.py`


def package_records(package: str, ledger: Ledger) -> Iterator[Record]:
    """One record for each public docstring of a package, a part ("numpy.linalg") or "stdlib", with the names it points to.

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
    """The public name of what is documented, or None."""
    name = library.public_name(doc.home, doc.name, names) if doc.home and doc.name else None
    name = name or ".".join(part for part in (doc.home, doc.name) if part)
    top, dot, rest = name.partition(".")
    name = f"{_KNOWN_AS.get(top, top)}{dot}{rest}"
    return None if is_private(name) else name


def _full_name(name: str, title: str, titles: set[str]) -> str:
    """`name` as the nearest title that it can mean from within `title`; as it is where there is none."""
    parts = title.split(".")[:-1]
    candidates = (".".join([*parts[:end], name]) for end in range(len(parts), -1, -1))
    return next((candidate for candidate in candidates if candidate in titles), name)


class _Library:
    """Parses modules once (those that cannot be are counted), follows imports, and names things as users import them."""

    def __init__(self, files: list[PackageFile], ledger: Ledger) -> None:
        self.files = {file.module: file for file in files}
        self.modules: dict[str, Module | None] = {}
        self._ledger = ledger

    def module(self, name: str) -> Module | None:
        """The module of that name, or None where the package has no Python source for it."""
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
        """Module and name under which `name` of `module` was defined, as far as imports can be followed.

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
        """For each definition (its module, its name there) that a public module offers, the shortest name to import it by.

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
        """The public name of `name` of the module `home`, which may be a method's; None where there is none."""
        if (home, name) in names:
            return names[home, name]
        top, _, rest = name.partition(".")
        public = names.get((home, top)) or names.get(self._resolve(home, top) or ("", ""))
        return f"{public}.{rest}" if public and rest else public

    def _offered(self, name: str, chain: int = _MAX_CHAIN) -> set[str]:
        """Names that a module gives to `import *`; what a plain module imports by name is not its own to offer."""
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
    if target and _rank(candidate) < _rank(names.get(target, "." * 99)):
        names[target] = candidate


def _rank(name: str) -> tuple[int, int, str]:
    return name.count("."), len(name), name


def find_package(name: str) -> list[PackageFile]:
    """Files of "PACKAGE", "PACKAGE.PART" or "stdlib" (the whole standard library), by module name, without tests.

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
        hint = f"pip install {top}, or name a package that is installed here and written in Python"
        raise InputError("no Python source of this package", where=f"python:{name}", hint=hint)
    return sorted(files, key=lambda file: (file.module, file.relative))


def _top_level(name: str, *, stdlib_only: bool) -> Iterator[PackageFile]:
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
    """Where a top-level module is. Finding one imports nothing; the path comes first, as `os` may be frozen."""
    if not name.isidentifier():
        return None
    if stdlib_only:
        return PathFinder.find_spec(name, [sysconfig.get_path("stdlib")])
    try:
        return PathFinder.find_spec(name) or find_spec(name)  # packages installed in place bring finders of their own
    except (ImportError, ValueError):
        return None


def _is_test(part: str) -> bool:
    return part in _TESTS or part.startswith("test_") or part.endswith("_test")


def see_also_names(docstring: str) -> list[str]:
    r"""Names in the "See Also" section of a docstring (numpydoc), each once, as written; deeper lines are description.

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
    return len(line) - len(line.lstrip())
