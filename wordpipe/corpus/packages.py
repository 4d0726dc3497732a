"""The Python files of an installed package, found on the import path without importing anything."""

import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from wordpipe.errors import InputError

__all__ = ["PackageFile", "find_package"]

_TESTS = {"test", "tests", "conftest", "idle_test"}
_STDLIB_TOOLS = {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "turtledemo"}  # programs, no library


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One Python file of a package.

    Attributes:
        module: its full module name; a package's `__init__.py` has the package's.
        path: where it is.
        relative: its path below the folder of the import path, with "/".
        is_init: True for an `__init__.py`.
    """

    module: str
    path: Path
    relative: str
    is_init: bool


def find_package(name: str) -> list[PackageFile]:
    """Files of "PACKAGE", "PACKAGE.PART" or "stdlib" (the whole standard library), by module name, without tests.

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
    found = PathFinder.find_spec(name)
    if found is not None:
        return found
    try:
        return find_spec(name)  # packages installed in place bring finders of their own
    except (ImportError, ValueError):
        return None


def _is_test(part: str) -> bool:
    return part in _TESTS or part.startswith("test_") or part.endswith("_test")
