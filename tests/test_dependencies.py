"""What a bare installation has: the code imports nothing else but by an extra, and everything that is asked for is used."""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.installed import PROJECT, package_of, packages_of

ROOT = Path(__file__).parents[1]
OURS = {"dev", "bench", "demo", "docs"}  # extras of those who work on the project
BASE, ALL = packages_of(), packages_of(*PROJECT["optional-dependencies"].keys() - OURS)
BY_OTHERS = {
    "llvmlite": "numba's own compiler",
    "h11": "uvicorn's own reader of HTTP",
    "pandas": "looked for alone, so that pyarrow does not import it",
}


@cache
def imported() -> dict[str, set[str]]:
    """Every package from elsewhere that the code imports, also late or by name, with the files that do."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "wordpipe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    modules = [one.name for one in names]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case ast.Call(func=ast.Name(id="import_module" | "find_spec"), args=[ast.Constant(value=str(module))]):
                    modules = [module]
                case _:
                    continue
            for top in {one.partition(".")[0] for one in modules} - {"wordpipe", *sys.stdlib_module_names}:
                for package in package_of().get(top, {top}):
                    found.setdefault(package, set()).add(str(path.relative_to(ROOT)))
    return found


def test_the_code_imports_what_the_project_asks_for_and_nothing_else():
    assert {package: files for package, files in imported().items() if package not in ALL | BY_OTHERS.keys()} == {}


def test_everything_asked_for_is_imported():
    assert BASE - imported().keys() == set()
    assert BY_OTHERS.keys() - imported().keys() == set()


@pytest.mark.parametrize(
    "library",
    [
        "scipy",  # 143 MB: sparse matrices are in wordpipe/sparse.py
        "torch",  # 200 MB on a processor, 3 GB with CUDA
        "zstandard",  # 24 MB: pyarrow has it
    ],
)
def test_what_is_large_stays_out_of_a_bare_installation(library):
    assert library not in BASE
