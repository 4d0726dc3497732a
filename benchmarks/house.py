"""The measures of the house: files and lines, import circles, files with one importer, modules that a command loads.

    python benchmarks/house.py [--json] [--walk "train mlm run/tokens -o /tmp/model --steps 1"]...

An import counts wherever it stands, in functions too, and is followed through the lazy faces to the file that defines the
name. `tests/test_house.py` keeps limits on these measures.
"""

import argparse
import ast
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from wordpipe.lazy import imports_for_types

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "wordpipe"
FILES = sorted(PACKAGE.rglob("*.py"))
FACES = {path.parent: imports_for_types(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("__init__.py")}
FAMILIES = {
    "hf",
    "variants",
    "kernels",
    "readers",
    "endpoints",
    "page",
}  # folders whose files have one importer, as a switch chooses among them
SHOWN = 10
_FUNCTION = re.compile(r"(wordpipe(?:\.\w+)+):(\w+)")


def shown(path: Path) -> str:
    """A path as seen from the root."""
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    """A parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def n_lines(path: Path) -> int:
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def is_for_types(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`."""
    test = node.test if isinstance(node, ast.If) else None
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


@cache
def all_nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """The tree and all nodes below."""
    return tuple(ast.walk(tree))


@cache
def running_statements(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All statements below, at every depth, but for what only type checkers see."""
    waiting, found = [tree], list[ast.AST]()
    while waiting:
        node = waiting.pop()
        parts = ("orelse",) if is_for_types(node) else ("body", "orelse", "handlers", "finalbody", "cases")
        # the body of a lambda and of `a if b else c` is an expression, which holds no statement
        lists = [part for name in parts if isinstance(part := getattr(node, name, ()), list)]
        below = [statement for part in lists for statement in part]
        found += below
        waiting += below
    return tuple(found)


def imported_names(nodes: Iterable[ast.AST], package: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """Line and full name of every import among the nodes: the module, or `module.name`.

    Args:
        nodes: of a file.
        package: the file's, for relative imports.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def behind_faces(name: str) -> str:
    """The full name of what a name stands for, where a face offers it."""
    module, _, last = name.rpartition(".")
    offered = FACES.get(ROOT.joinpath(*module.split(".")), {})
    return behind_faces(".".join(offered[last])) if last in offered else name


def file_of(name: str) -> Path | None:
    """The file of our package that defines a name, or is the module of that name; None: it is not ours."""
    parts = behind_faces(name).split(".")
    for end in range(len(parts), 0, -1) if parts[0] == PACKAGE.name else ():
        place = ROOT.joinpath(*parts[:end])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


@cache
def imported_files(path: Path, *, for_types: bool = False) -> frozenset[Path]:
    """The files of our package that a file imports.

    Args:
        path: of the file.
        for_types: count what stands under `if TYPE_CHECKING:` too, but for what a face offers there.
    """
    all_count = for_types and path.name != "__init__.py"
    nodes = all_nodes(tree_of(path)) if all_count else running_statements(tree_of(path))
    found = {file_of(name) for _, name in imported_names(nodes, path.relative_to(ROOT).parent.parts)}
    return frozenset(file for file in found if file is not None and file != path)


def entry_files() -> set[Path]:
    """The files that users enter by: behind the package's own face, or named by a "module:function" string."""
    strings = (
        node.value
        for path in FILES
        for node in all_nodes(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    names = [f"{match[1]}.{match[2]}" for text in strings if (match := _FUNCTION.fullmatch(text))]
    names += [f"{PACKAGE.name}.{name}" for name in FACES[PACKAGE]]
    return {file for file in map(file_of, names) if file is not None}


def single_importers() -> tuple[dict[Path, Path], dict[Path, Path]]:
    """File → the only other one that imports it; and those of them that are excepted.

    Excepted are families (one file for each of several choices), kernels, settings, faces, `__main__`, and the files that
    users enter by.
    """
    importers: dict[Path, list[Path]] = {path: [] for path in FILES}
    for path in FILES:
        for file in imported_files(path, for_types=True):
            importers[file].append(path)
    entries = entry_files()
    counted: dict[Path, Path] = {}
    excepted: dict[Path, Path] = {}
    for path, found in importers.items():
        if len(found) == 1:
            free = (
                path in entries
                or FAMILIES & {*path.relative_to(PACKAGE).parts}
                or path.stem in ("settings", "__init__", "__main__")
            )
            (excepted if free else counted)[path] = found[0]
    return counted, excepted


def circles() -> list[list[Path]]:
    """The groups of files that import each other, directly or through others, by imports that run."""
    return strong_components({path: imported_files(path) for path in FILES})


def strong_components(edges: Mapping[Any, frozenset[Any]]) -> list[list[Any]]:
    """The strongly connected components of more than one node (Tarjan 1972), each in order."""
    order: dict[Any, int] = {}
    lowest: dict[Any, int] = {}
    open_nodes: list[Any] = []
    found: list[list[Any]] = []

    def visit(node: Any) -> None:
        order[node] = lowest[node] = len(order)
        open_nodes.append(node)
        for other in edges[node]:
            if other not in order:
                visit(other)
            if other in open_nodes:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            place = open_nodes.index(node)
            found.append(sorted(open_nodes[place:]))
            del open_nodes[place:]

    for node in edges:
        if node not in order:
            visit(node)
    return [group for group in found if len(group) > 1]


def loaded_modules(command: str) -> list[str]:
    """The modules of ours that `wordpipe COMMAND`, run here in a process of its own, has loaded at its end."""
    code = (
        "import sys\nfrom pathlib import Path\nplace = Path(sys.argv.pop(1))\nfrom wordpipe.cli import run\ncode = run()\n"
        "place.write_text('\\n'.join(name for name in sys.modules if name.split('.')[0] == 'wordpipe'))\nsys.exit(code)"
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "modules")
        done = subprocess.run(
            [sys.executable, "-c", code, place, *shlex.split(command)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"wordpipe {command}: {done.stderr}")
        return sorted(place.read_text().splitlines())


def measures(walks: list[str]) -> dict[str, Any]:
    """All measures, as JSON values."""
    sizes = sorted((n_lines(path), shown(path)) for path in FILES if path.name not in ("__init__.py", "__main__.py"))
    stages = [path for path in FILES if path.is_relative_to(PACKAGE / "stages")]
    counted, excepted = single_importers()
    loaded = {command: loaded_modules(command) for command in walks}
    return {
        "files": len(FILES),
        "lines": sum(map(n_lines, FILES)),
        "stages": {"files": len(stages), "lines": sum(map(n_lines, stages))},
        "median_lines": statistics.median(lines for lines, _ in sizes),
        "files_in_folders": dict(sorted(Counter(shown(path.parent) for path in FILES).items())),
        "biggest": {name: lines for lines, name in reversed(sizes[-SHOWN:])},
        "smallest": {name: lines for lines, name in sizes[:SHOWN]},
        "circles": [[shown(path) for path in circle] for circle in circles()],
        "single_importers": {shown(path): shown(by) for path, by in counted.items()},
        "single_importers_excepted": {shown(path): shown(by) for path, by in excepted.items()},
        "walks": {command: {"modules": len(names), "names": names} for command, names in loaded.items()},
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the house.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--walk", action="append", default=[], metavar="COMMAND", help="count the modules it loads")
    args = parser.parse_args()
    found = measures(args.walk)
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    print(f"wordpipe/  {found['files']} files, {found['lines']:,} lines, median {found['median_lines']:g}")
    print(f"stages/    {found['stages']['files']} files, {found['stages']['lines']:,} lines")
    for title in ("files_in_folders", "biggest", "smallest"):
        print(f"\n{title.replace('_', ' ')}:")
        print("\n".join(f"  {count:5}  {name}" for name, count in found[title].items()))
    for title in ("single_importers", "single_importers_excepted"):
        print(f"\n{title.replace('_', ' ')}: {len(found[title])}")
        print("\n".join(f"  {name}  by {by}" for name, by in found[title].items()))
    print(f"\nimport circles: {len(found['circles'])}")
    print("\n".join(f"  {' ↔ '.join(circle)}" for circle in found["circles"]))
    for command, walk in found["walks"].items():
        print(f"\nwordpipe {command}: {walk['modules']} modules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
