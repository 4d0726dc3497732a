"""benchmarks/walk.py: the tree of calls between modules, and what it counts."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.house import loaded_modules

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FLOORS = {"metrics": 2, "search": 3, "stages": 6, "cli": 8}


@pytest.fixture(scope="module")
def walk():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield import_module("walk")


def test_hops_are_counted_once_and_calls_upwards_are_marked(walk):
    top = walk.Entry("cli.query", "query")
    stage = top.entered("stages.search.query", "search")
    for _ in range(2):
        core = stage.entered("search.hybrid", "find")
        core.entered("metrics.vectors", "unit_rows")
    core.entered("stages.search.query", "called_back")
    core.entered("stages.search.query", "rows", is_data=True)
    *tree, hops, upwards, which = walk.drawing(top, FLOORS)
    assert [line.strip() for line in tree] == [
        "stages.search.query.search", "search.hybrid.find ×2", "metrics.vectors.unit_rows ×2",
        "stages.search.query.called_back   ↑ upwards", "stages.search.query.rows",
    ]  # fmt: skip
    assert hops.strip() == "hops: 5 different ones, 3 deep; 4 above the ground, of which 2 lead on"
    assert upwards == "calls upwards: 1"
    assert which.strip() == "search.hybrid.find → stages.search.query.called_back"


def test_calls_within_a_module_are_no_hops_and_imports_do_not_count(walk):
    from wordpipe.search import Hits, weighed

    tracer = walk.Tracer()
    sys.setprofile(tracer)
    try:
        import numpy as np

        weighed(Hits(np.arange(3), np.ones(3, np.float32)), np.zeros(3), 2)  # in which methods of hits are called
    finally:
        sys.setprofile(None)
    assert [way[-1].name for way in tracer.root.walk()] == ["weighed"]


def test_the_walk_of_a_command(built):
    """To the vectors of words and back: nothing that is handed down is called up."""
    command = [sys.executable, BENCHMARKS / "walk.py", "query", built / "words", "water", "-k", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    out = done.stdout
    assert "\n  wordpipe.stages.search.query\n" in out
    assert "\n\ncli.query._query\n" in out
    assert "  stages.search.opened_words_and_tables.OpenWords._answers\n" in out
    assert "\ncalls upwards: 0\n" in out


@pytest.mark.landing
@pytest.mark.parametrize(
    ("command", "most"),
    [
        ("train mlm {built}/tokens -o {new}/model --preset tiny --steps 2", 83),
        pytest.param("query {built}/words water", 78, marks=pytest.mark.slow),
        ("query {built}/index water", 91),
    ],
    ids=["train", "words", "index"],
)
def test_a_command_loads_what_it_uses(command, most, built, tmp_path):
    """The modules of ours at its end; what other settings need is loaded where they are given."""
    loaded = loaded_modules(command.format(built=built, new=tmp_path))
    assert len(loaded) <= most, "\n".join(loaded)
    known = {"wordpipe.corpus.formats"}  # the table that says whose lines are lines of a text
    assert not [name for name in {*loaded} - known if name.startswith(("wordpipe.corpus.", "wordpipe.model.variants"))]
