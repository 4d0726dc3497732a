"""The Python files of an installed package, found on the import path without importing anything."""

import importlib.machinery
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from wordpipe.errors import InputError

__all__ = ["PackageFile", "find_package"]

_TESTS = {"test", "tests", "conftest", "idle_test", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "ensurepip"}


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One Python file of a package.

    Attributes:
        module: its full module name; a package's `__init__.py` has the package's.
        path: where it is.
        relative: its path below the folder that is on the import path, with "/".
        is_init: True for an `__init__.py`.
    """

    module: str
    path: Path
    relative: str
    is_init: bool


def find_package(name: str) -> list[PackageFile]:
    """Files of "python:PACKAGE", "python:PACKAGE.PART" or "python:stdlib" by module name, without their tests.

    Raises:
        InputError: not installed, or without Python source (a compiled or built-in module).
    """
    return list(_find_package(name.removeprefix("python:")))


@lru_cache(maxsize=32)
def _find_package(name: str) -> tuple[PackageFile, ...]:
    names = sorted(sys.stdlib_module_names) if name == "stdlib" else [name.partition(".")[0]]
    files = [file for top in names for file in _top_level(top)]
    if name not in ("stdlib", names[0]):
        files = [file for file in files if file.module == name or file.module.startswith(f"{name}.")]
    if not files:
        raise InputError(
            "no Python source of this package here",
            where=f"python:{name}",
            hint=f"pip install {names[0]}, or name one that is installed",
        )
    return tuple(sorted(files, key=lambda file: file.module))


def _top_level(name: str) -> Iterator[PackageFile]:
    spec = _find_spec(name)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None and spec.origin.endswith(".py"):
            path = Path(spec.origin)
            yield PackageFile(name, path, path.name, is_init=False)
        return
    for location in spec.submodule_search_locations:
        folder = Path(location)
        for path in folder.rglob("*.py"):
            file = _member(name, folder, path)
            if file is not None:
                yield file
