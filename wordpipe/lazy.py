"""Imports: a path without the working folder, and lazy faces.

A face is the `__init__` of a package. What the package offers stands there as plain imports, where readers and type checkers
see them, and is loaded only when it is used:

    if TYPE_CHECKING:
        from wordpipe.tokens.encoding import Encoder
    else:
        __getattr__, __dir__ = face(__name__, __file__)

So `from wordpipe.tokens import Encoder` loads wordpipe.tokens.encoding and no other module of that room.
"""

import os
import sys

TYPE_CHECKING = False  # the type checker knows the name; to import typing takes as long as all that is left here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def face(
    package: str, file: str, more: "Callable[[], dict[str, tuple[str, str]]] | None" = None
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return the `__getattr__` and `__dir__` (PEP 562) of a package whose `__init__` is this file.

    Args:
        package: the name of the package.
        file: its `__init__`.
        more: gives what it offers besides, of which a table knows: name → module and the name there.
    """
    known: dict[str, tuple[str, str]] = {}

    def offered() -> dict[str, tuple[str, str]]:
        if not known:
            with open(file, encoding="utf-8") as source:  # noqa: PTH123  (pathlib takes time)
                known.update(imports_for_types(source.read()))
            known.update(more() if more else {})
        return known

    def get(name: str) -> "Any":
        from importlib import import_module

        # nothing is kept in the package itself: what is replaced in a module (a test's fault) is replaced for all
        if name == "__all__":  # what `from package import *` asks for
            return sorted(offered())
        if name not in offered():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = offered()[name]
        try:
            return getattr(import_module(module), original)
        except ModuleNotFoundError as error:
            from wordpipe.errors import missing_library

            raise missing_library(error) or error from None

    return get, lambda: sorted(offered())


def imports_for_types(source: str) -> dict[str, tuple[str, str]]:
    """Return each name imported under `if TYPE_CHECKING:`, which a lazy face loads → its module and its name."""
    import ast

    return {
        alias.asname or alias.name: (line.module or "", alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def import_path() -> list[str]:
    """Return `sys.path` without the working folder, where the texts of others may lie, unless it holds wordpipe itself.

    All entries are absolute, so that another process finds wordpipe where this one did.
    """
    try:
        here = os.path.realpath(os.curdir)
    except OSError:  # it is gone
        return [one for one in sys.path if one and os.path.isabs(one)]  # noqa: PTH117  (pathlib takes time)
    path = [os.path.join(here, one) for one in sys.path]  # noqa: PTH118
    of_package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    return path if of_package == here else [one for one in path if os.path.realpath(one) != here]
