"""Every command, and every engine, in a folder that holds a file of Python for each module that a process may import."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import wordpipe
from tests.support.canaries import lay_canaries, ran
from tests.support.commands import commands
from tests.support.every_command import ON_RAY, RUNS, arguments_of, make_inputs
from wordpipe.stages import COMMANDS

ROOT = Path(wordpipe.__file__).parents[1]
PROGRAM = "from wordpipe.cli import main\nmain()\n"
QUICK = ("ingest", "query", "index")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working folder of all, full of canaries; their log stands beside it."""
    root = tmp_path_factory.mktemp("canaries")
    (root / "here").mkdir()
    (root / "bin").mkdir()
    (root / "bin" / "wordpipe-program").write_text(PROGRAM)  # as pip writes it: its own folder is looked into first
    lay_canaries(root / "here", root / "log")
    return root / "here"


@pytest.fixture(scope="module")
def made(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    make_inputs(built, folder)
    return folder


@pytest.fixture
def ran_by(folder, tmp_path, built):
    """Run a program in that folder; its exit code, its messages, and the canaries that ran."""

    def run(name, line, made, program=(), where=folder):
        (folder.parent / "log").unlink(missing_ok=True)
        arguments = arguments_of(line, {"built": built, "made": made, "out": tmp_path / "out"})
        command = [
            sys.executable,
            *(program or [folder.parent / "bin" / "wordpipe-program"]),
            *name.split(),
            *arguments,
        ]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, cwd=where, env=variables, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
            try:
                if name == "serve" and json.loads(process.stdout.readline() or "null"):
                    process.send_signal(signal.SIGTERM)
                said = process.communicate()[1]
            finally:
                process.kill()  # where the test was stopped
        return (0 if name == "serve" and process.returncode == -signal.SIGTERM else process.returncode), said

    def check(*arguments, **named):
        code, said = run(*arguments, **named)
        assert (code, ran(folder.parent / "log")) == (0, []), said

    return check


def test_every_command_is_run():
    """Of the registry and of the tree."""
    assert {*RUNS} == {*commands()} >= {*COMMANDS}
    assert {*ON_RAY} <= {name for name, one in COMMANDS.items() if one.takes_engine}


@pytest.mark.landing
@pytest.mark.parametrize("name", QUICK)
def test_a_command_imports_nothing_of_the_working_folder(ran_by, tmp_path, name):
    (tmp_path / "text.txt").write_text("The sea is salt.\n\nBees find their way.\n")
    ran_by(name, RUNS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name not in QUICK])
def test_no_command_imports_anything_of_the_working_folder(ran_by, made, name):
    ran_by(name, RUNS[name], made)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_RAY)
def test_nothing_on_ray_does(ran_by, made, name):
    pytest.importorskip("ray")
    ran_by(name, ON_RAY[name], made)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ingest", "tokenize", "run", "serve", "query", "map"])
def test_nor_does_python_m(ran_by, folder, made, name, tmp_path):
    """There a folder `wordpipe/` of the working folder is the program itself: Python has taken it before we are asked."""
    there = tmp_path / "there"
    shutil.copytree(folder, there)
    shutil.rmtree(there / "wordpipe")
    (there / "wordpipe.py").unlink()
    _remove_those_that_python_runs(there, folder.parent / "log")
    ran_by(name, RUNS[name], made, program=("-m", "wordpipe"), where=there)


def _remove_those_that_python_runs(there: Path, log: Path) -> None:
    """What Python itself imports there before it gives way to a module, and cannot do without."""
    (there / "nothing_at_all.py").write_text("")
    for _ in range(50):
        log.unlink(missing_ok=True)
        subprocess.run([sys.executable, "-m", "nothing_at_all"], cwd=there, check=False, capture_output=True)
        if not (names := ran(log)):
            return
        for name in names:
            (there / f"{name}.py").unlink(missing_ok=True)
            shutil.rmtree(there / name, ignore_errors=True)
