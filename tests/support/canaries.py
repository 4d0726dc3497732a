"""A folder of texts with a file of Python for each module that a process may import: those that run are written down."""

import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

_OF_TOOLS = ("sitecustomize", "usercustomize", "conftest", "setup", "wordpipe", "tests", "planted")
_CONFIGS = (
    "pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "ray.yaml", ".numba_config.yaml", "matplotlibrc", ".env",
    "ipython_config.py", ".duckdbrc",
)  # fmt: skip
_PLUGINS = ("pydantic", "torch.backends", "torch_dynamo_backends", "numba_extensions", "fsspec.specs", "pytest11")


def lay_canaries(folder: Path, log: Path, *, but: Iterable[str] = ()) -> None:
    """Put them there.

    Args:
        folder: of texts.
        log: where each that runs writes its name; not in the folder.
        but: names that have none.
    """
    names = {*sys.stdlib_module_names, *sys.builtin_module_names, *packages_distributions(), *_OF_TOOLS}
    names |= {name.partition(".")[0] for name in sys.modules}
    code = f"with open({str(log)!r}, 'a') as file:\n    file.write(__name__ + chr(10))\n"
    for name in sorted(names - {*but}):
        if name.isidentifier():
            (folder / f"{name}.py").write_text(code)
    for name in {"wordpipe", "encodings"} - {*but}:  # a folder goes before a file
        (folder / name).mkdir()
        for file in ("__init__.py", "__main__.py", "cli.py"):
            (folder / name / file).write_text(code)
    (folder / "texts.pth").write_text(f"import os; open({str(log)!r}, 'a').write('pth')\n")
    package = folder / "planted-1.0.dist-info"  # as one that is installed, with plugins that libraries look for
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("".join(f"[{group}]\nx = planted:run\n" for group in _PLUGINS))
    for name in _CONFIGS:
        (folder / name).write_text("- [neither one thing\n= nor the other\n")


def ran(log: Path) -> list[str]:
    """The names of those that ran."""
    return sorted(set(log.read_text().split())) if log.exists() else []
