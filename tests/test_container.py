"""The recipe of the container: it names what is there, and what it copies is enough to build the package."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.every_command import RUNS
from tests.support.installed import PROJECT

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
    last = max(at for at, (step, _) in enumerate(STEPS) if step == "FROM")
    assert len({rest.split()[0] for step, rest in STEPS if step == "FROM"}) == 1
    final = dict(STEPS[last:])
    assert final["USER"] not in ("root", "0")
    assert f"useradd --uid 1000 --create-home {final['USER']}" in " ".join(
        rest for step, rest in STEPS if step == "RUN"
    )
    assert final["ENTRYPOINT"] == '["wordpipe"]'
    assert final["VOLUME"] == final["WORKDIR"]


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
