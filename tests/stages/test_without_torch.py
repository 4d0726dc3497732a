"""The default pipeline, search, the server and doctor in a bare installation: what no extra brings, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.installed import missing_without, packages_of

HIDDEN = """
import sys
from importlib.machinery import PathFinder

HIDDEN = {hidden}

class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Visible
"""
ROOT = Path(__file__).parents[2]
NOTES = [
    {"id": f"n{i}", "title": title, "text": text, "year": 2020 + i}
    for i, (title, text) in enumerate(
        [
            ("The roof", "Rain comes in above the stairs. New tiles soon."),
            ("The wall", "It leans towards the road. Nobody parks there."),
            ("Heating", "The boiler loses water. A pump needs a meter."),
            ("Bees", "Two hives by the orchard. They need water close by."),
        ]
    )
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    client = {"httpx2"}  # of the test
    for site, packages in {"site": packages_of(), "serve-site": packages_of("serve") | client}.items():
        (folder / site).mkdir()
        hidden = HIDDEN.replace("{hidden}", repr(set(missing_without(packages))))
        (folder / site / "sitecustomize.py").write_text(hidden)
    lines = "".join(f"{json.dumps(note)}\n" for note in NOTES)
    (folder / "notes.jsonl").write_text(lines)
    (folder / "notes.jsonl.zst").write_bytes(pa.compress(lines.encode(), codec="zstd", asbytes=True))
    called(folder, "init", "--from", "notes.jsonl")
    called(folder, "run")
    return folder


def called(folder: Path, *arguments: str, code: int = 0, python: str | None = None, site: str = "site") -> str:
    path = os.pathsep.join([str(folder / site), str(ROOT)])
    command = ["-m", "wordpipe", *arguments] if python is None else ["-c", python]
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("query run/index hives --where year>=2021 -k 1", "Two hives by the orchard"),
        ("search boiler notes.jsonl -k 1", "The boiler loses water"),
        ("duplicates run/sentences", "number of groups: 0"),
        ("train word2vec run/tokens -o run/words --min-count 1", "words"),
    ],
)
def test_what_needs_no_torch_works_without_it(folder: Path, command: str, found: str) -> None:
    assert found in called(folder, *command.split())


@pytest.mark.parametrize(
    ("command", "library"),
    [
        ("train mlm run/tokens -o run/model --preset tiny", "torch"),
        ("train word2vec run/tokens -o run/other --min-count 1 --backend gensim", "gensim"),
    ],
)
def test_what_needs_a_library_names_the_command_that_installs_it(folder: Path, command: str, library: str) -> None:
    said = called(folder, *command.split(), code=2)
    assert f"needs {library}, which is not installed" in said
    assert "pip install 'wordpipe[train]'" in said
    assert "Traceback" not in said


def test_python_raises_the_same_error(folder: Path) -> None:
    said = called(folder, python="import wordpipe\ntry: wordpipe.train_clm('run/tokens', output='run/m')\n"
                  "except wordpipe.WordpipeError as error: print(type(error).__name__, error.hint)")  # fmt: skip
    assert said.strip() == "ConfigError pip install 'wordpipe[train]'"


SERVED = """
from contextlib import closing
from starlette.testclient import TestClient
from wordpipe.web import Application, Metrics, ServedArtifacts
from wordpipe.web.settings import ServeSettings

with closing(ServedArtifacts.open(["run/index"], on_batch=Metrics().add_batch)) as served:
    app = Application(served, ServeSettings.make({}), Metrics(), token=None, page=None, log=None)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        print(client.get("/search", params={"q": "boiler water", "k": 1}).json()["title"])
"""


def test_the_server_answers(folder: Path) -> None:
    assert called(folder, python=SERVED, site="serve-site").strip() == "Heating"
