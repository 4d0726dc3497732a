"""What lies in the working folder is data: no process of any engine imports it."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import wordpipe
from tests.support.canaries import lay_canaries, ran
from tests.support.shard_work import NumberShards
from wordpipe.engines import EngineOptions, ShardProgress, on_ray, open_engine
from wordpipe.errors import ConfigError
from wordpipe.lazy import import_path
from wordpipe.runtime import quiet

ROOT = Path(wordpipe.__file__).parents[1]


@pytest.fixture
def canaries(tmp_path, monkeypatch):
    """The working folder, full of them; the log that they write."""
    folder, log = tmp_path / "texts", tmp_path / "log"
    folder.mkdir()
    lay_canaries(folder, log)
    monkeypatch.chdir(folder)
    return log


def test_worker_processes_import_nothing_of_the_working_folder(canaries, tmp_path, monkeypatch):
    work = NumberShards(tmp_path, in_processes=True)
    with open_engine(EngineOptions(workers=2), quiet) as engine:
        monkeypatch.setattr(sys, "path", ["", *sys.path, "."])  # as in a shell of Python
        monkeypatch.setenv("PYTHONPATH", ":")  # an empty part of it is the working folder
        engine.make(work, range(3), ShardProgress(work, quiet, 0, 6))
    assert sorted(path.name for path in tmp_path.glob("[0-9].txt")) == ["0.txt", "1.txt", "2.txt"]
    assert ran(canaries) == []


@pytest.mark.landing
@pytest.mark.parametrize("how", [["-P", "-m", "wordpipe"], ["-P", "-c", "from wordpipe.cli import main; main()"]])
def test_the_command_imports_nothing_of_it(canaries, how):
    done = subprocess.run([sys.executable, *how, "ingest", "texts.pth", "--format", "txt", "-o", "../c"],
                          env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, ran(canaries)) == (0, []), done.stderr


def test_python_m_forgets_the_working_folder_before_it_imports(tmp_path):
    """What Python itself imports before it gives way to us is its own; -m finds the package in the working folder, too."""
    (tmp_path / "t").mkdir()
    lay_canaries(tmp_path / "t", tmp_path / "log", but=["wordpipe"])
    done = subprocess.run([sys.executable, "-m", "wordpipe", "--version"], cwd=tmp_path / "t", check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)  # fmt: skip
    assert not {"json", "click", "signal", "pydantic", "typing"} & {*ran(tmp_path / "log")}, done.stderr


def test_a_path_without_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "lib", str(tmp_path), ".", str(link), "/elsewhere/a.zip", "sub/.."])
    assert import_path() == [str(tmp_path / "lib"), "/elsewhere/a.zip"]
    monkeypatch.chdir(ROOT)  # where wordpipe itself was found
    assert import_path()[:2] == [f"{ROOT}/", f"{ROOT}/lib"]
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert import_path() == [str(tmp_path), str(link), "/elsewhere/a.zip"]


@pytest.fixture
def no_ray_at_work(monkeypatch):
    """One that tests before have started goes on, and is not seen."""
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)


@pytest.mark.usefixtures("no_ray_at_work")
def test_an_address_where_nobody_listens_is_refused_at_once(capfd):
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:1", "127.0.0.1:99999"):
        with (
            pytest.raises(ConfigError, match="no Ray cluster answers") as caught,
            open_engine(EngineOptions("ray", address=address), quiet),
        ):
            pass
        assert (caught.value.exit_code, address in str(caught.value.where)) == (2, True)
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("no_ray_at_work")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "no answer within 0.2 s"),
        (b"", "is not a Ray cluster"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a Ray cluster"),
    ],
)
def test_an_address_where_another_program_listens_is_refused(monkeypatch, answer, said):
    monkeypatch.setattr(on_ray, "_ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        if answer is not None:
            threading.Thread(target=_answer_once, args=(server, answer), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(ConfigError, match=said) as caught,
            open_engine(EngineOptions("ray", address=address), quiet),
        ):
            pass
        assert address in str(caught.value.where)


def _answer_once(server, answer):
    connection, _ = server.accept()
    with connection:
        connection.recv(100)
        connection.sendall(answer)


@pytest.mark.slow
def test_a_ray_of_ones_own_imports_nothing_listens_on_the_loopback_and_leaves_nothing(tmp_path):
    """A process of its own, as a Ray that is at work already would be used here."""
    pytest.importorskip("ray")
    (tmp_path / "t").mkdir()
    lay_canaries(tmp_path / "t", tmp_path / "log")
    script = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from pathlib import Path\n"
        "from tests.support.ray_alone import main\n"
        "main(Path(sys.argv[2]))\n"
    )
    before = {*Path("/tmp/ray").glob("session_2*")}
    done = subprocess.run([sys.executable, "-P", "-c", script, str(ROOT), str(tmp_path)], cwd=tmp_path / "t",
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, ran(tmp_path / "log")) == (0, "on the loopback alone\n", []), done.stderr
    assert sorted(path.name for path in tmp_path.glob("[0-9].txt")) == ["0.txt", "1.txt", "2.txt"]
    assert {*Path("/tmp/ray").glob("session_2*")} <= before
