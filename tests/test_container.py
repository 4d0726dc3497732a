"""The recipe of the container: it names what is there, and what it copies is enough to build the package."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.every_command import RUNS
from tests.support.installed import PROJECT, package_of, packages_of

ROOT = Path(__file__).parents[1]
IGNORED = (ROOT / ".containerignore").read_text().split()
STEPS = [
    line.split(None, 1)
    for line in re.sub(r"\\\n", " ", (ROOT / "Containerfile").read_text()).splitlines()
    if line and not line.startswith("#")
]


def copied() -> list[tuple[list[str], str]]:
    """What is copied out of the project, and where to."""
    words = [shlex.split(rest) for step, rest in STEPS if step == "COPY" and "--from" not in rest]
    return [(one[:-1], one[-1]) for one in words]


def test_what_is_copied_is_there_and_not_ignored():
    files = [name for names, _ in copied() for name in names]
    assert files
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert sorted(f"!{name}" for name in files) == sorted(one for one in IGNORED if one.startswith("!"))
    assert IGNORED[0] == "*"


def test_extras_and_commands_are_those_of_the_project():
    text = " ".join(rest for step, rest in STEPS if step in ("RUN", "CMD"))
    (extras,) = re.findall(r"/source\[([\w,]+)\]", text)
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    called = set(re.findall(r"(?:^|&&|\s)wordpipe ([a-z]+)", text))
    assert {"init", "run", "query", "search"} <= called <= RUNS.keys()


def test_it_runs_as_no_root_on_the_base_that_it_was_built_on():
    froms = [at for at, (step, _) in enumerate(STEPS) if step == "FROM"]
    bases = [STEPS[at][1].split() for at in froms]
    assert len({one[0] for one in bases[:-1]}) == 1
    # the last stage is a copy of the one before it, whole: what was removed there takes no room
    assert [one[2] for one in bases[:-1]] == ["build", "system"]
    assert bases[-1] == ["scratch"]
    final = dict(STEPS[froms[-1] :])
    assert final["COPY"] == "--from=system / /"
    assert final["USER"] not in ("root", "0")
    system = STEPS[froms[-2] : froms[-1]]
    assert f"useradd --uid 1000 --create-home {final['USER']}" in " ".join(
        rest for step, rest in system if step == "RUN"
    )
    assert final["ENTRYPOINT"] == '["wordpipe"]'
    assert final["VOLUME"] == final["WORKDIR"]
    # it begins without the environment of a base
    (path,) = re.findall(r"PATH=(\S+)", final["ENV"])
    assert path.split(":") == ["/opt/wordpipe/bin", "/usr/local/bin", "/usr/bin", "/bin"]


def removed() -> list[str]:
    """What is removed of the packages, as patterns of paths in their folder."""
    (text,) = [rest for step, rest in STEPS if step == "RUN" and "huggingface_hub" in rest]
    found = []
    for parts, loop in re.findall(r"(?:for part in ([\w ]+); do )?rm -rf ([^;&]+)", text):
        found += [one.replace("$part", part) for part in (parts.split() or [""]) for one in loop.split()]
    return found


def test_nothing_that_the_package_imports_is_removed():
    patterns = removed()
    assert {"pygments*", "pyarrow/*orc*", "numpy/f2py"} <= {*patterns}
    imported = set()
    for path in (ROOT / "wordpipe").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) and not node.level else ""
            imported |= {f"{prefix}{name}".replace(".", "/") for name in names}
    assert {"pyarrow/parquet", "rich/progress"} <= imported
    modules = {
        *imported,
        *(module for module, names in package_of().items() if names & packages_of("serve", "documents")),
    }
    # a folder that is removed is removed with all that is in it
    places = {"/".join(one.split("/")[:n]) for one in modules for n in range(1, one.count("/") + 2)}
    assert [(one, place) for one in patterns for place in places if fnmatchcase(place, one)] == []


@pytest.mark.slow
def test_a_wheel_can_be_built_of_what_is_copied(tmp_path):
    for names, target in copied():
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tmp_path / target.strip("/"), ignore=shutil.ignore_patterns("*.pyi"))
            else:
                (tmp_path / target.strip("/")).parent.mkdir(parents=True, exist_ok=True)
                if target.endswith("/"):
                    (tmp_path / target.strip("/")).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tmp_path / target.strip("/"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(command, cwd=tmp_path / "source", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len([*(tmp_path / "source" / "dist").glob("wordpipe-*.whl")]) == 1
