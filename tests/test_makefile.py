"""The Makefile that users copy: it calls `wordpipe run` alone, so that it cannot disagree with the config."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wordpipe
from wordpipe.pipeline import Pipeline, init_project

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

ROOT = Path(__file__).resolve().parent.parent
SMALL = """
workdir = "made"

[stage.corpus]
command = "ingest"
inputs = ["texts"]
documents = "block"
first_line_title = true

[stage.tokens]
command = "tokenize"
inputs = ["corpus"]
vocab_size = 600

[stage.words]
command = "train word2vec"
inputs = ["tokens"]
dim = 16
min_count = 1
epochs = 1
threads = 1

[stage.sentences]
command = "embed"
inputs = ["words", "corpus"]

[stage.index]
command = "index"
inputs = ["sentences"]

[stage.all]                      # the name of a target of its own
command = "tokenize"
inputs = ["corpus"]
vocab_size = 400

[stage."two words"]
command = "tokenize"
inputs = ["corpus"]
vocab_size = 500
"""


@pytest.fixture
def project(tmp_path, handbook) -> Path:
    init_project(tmp_path)
    shutil.copy(handbook, tmp_path / "texts" / "handbook.txt")
    (tmp_path / "wordpipe.toml").write_text(SMALL)
    return tmp_path


def make(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TIDE": "low"}
    return subprocess.run(["make", *args], cwd=project, env=env, capture_output=True, text=True, check=False)


@pytest.mark.landing
def test_make_builds_what_the_config_says_once_and_agrees_with_run(project, cli):
    first = make(project, "-j4", "index", "words", "all")
    assert first.returncode == 0, first.stderr
    for name in ("corpus", "tokens", "words", "sentences", "index", "all", "two words"):
        assert wordpipe.verify(project / "made" / name)["ok"]
    assert "nothing to do" in make(project, "-j2").stderr
    assert "nothing to do" in cli("run", project / "wordpipe.toml").err
    asked = make(project, "ask", "Q=how is `bread` \"baked\" 'at' $TIDE")
    assert asked.returncode == 0, asked.stderr
    assert "handbook.txt" in asked.stdout
    assert "stale" not in make(project, "status").stdout


@pytest.mark.slow
def test_a_changed_config_changes_what_make_makes(project):
    assert make(project, "tokens").returncode == 0
    assert not (project / "made" / "words").exists()
    config = project / "wordpipe.toml"
    config.write_text(config.read_text().replace("[stage.words]\ncommand", "[stage.vectors]\ncommand"))
    wrong = make(project, "tokens")
    assert wrong.returncode == 2
    assert "unknown stage" in wrong.stderr
    config.write_text(config.read_text().replace('["words", "corpus"]', '["vectors", "corpus"]'))
    assert make(project, "vectors").returncode == 0
    assert (project / "made" / "vectors").exists()
    assert make(project, "words").returncode == 2  # no such target any more


@pytest.mark.slow
def test_a_failed_stage_leaves_nothing_and_make_goes_on_from_there(project):
    config = project / "wordpipe.toml"
    good = config.read_text()
    config.write_text(good.replace("min_count = 1", "min_count = 1000000"))
    failed = make(project, "words")
    assert failed.returncode == 2
    assert "count of the most frequent word" in failed.stderr
    assert (project / "made" / "tokens" / "manifest.json").exists()
    assert not (project / "made" / "words").exists()
    config.write_text(good)
    assert make(project, "words").returncode == 0


def test_the_demo_answers_after_its_first_index(benchmarks_on_path):
    from demo import SIDES  # type: ignore[import-not-found]

    stages = {stage.name: stage for stage in Pipeline(ROOT / "configs" / "demo.toml").stages}
    assert {stages[name].command.name for name in SIDES.values()} == {"index"}
    first, side = next((stage, side) for side, stage in SIDES.items())
    before = list(stages)[: list(stages).index(first) + 1]
    assert "train mlm" not in {stages[name].command.name for name in before}
    shown = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps = [
        f"run configs/demo.toml --to {first}\n",
        f'demo.py --side "{side}"\n',
        "run configs/demo.toml\n",
        "demo.py\n",
    ]
    places = [shown.index(step) for step in steps]
    assert places == sorted(places)


def test_the_demo_marks_what_is_found_and_a_first_look_never_fails(benchmarks_on_path, capsys):
    import demo

    class Index:
        def query(self, question, k):
            titles = ["re.match", "re.match", "os.popen"] if "match" in question else ["", "x"]
            return [{"title": title, "text": f"of {question}"} for title in titles]

    sides = {"word vectors": Index()}
    found = [demo.ask(text, re.compile(r"^re\.match$"), sides) for text in ("what does match", "and sorts")]
    assert [one["word vectors"]["rank"] for one in found] == [1, None]
    assert found[1]["word vectors"]["titles"] == ["of and sorts", "x"]
    assert demo.report(found, None, enough=0.7) == 1
    assert demo.report(found, None, enough=0.0) == 0
    assert "1 of 2 questions answered among the first 5: word vectors 1" in capsys.readouterr().out
