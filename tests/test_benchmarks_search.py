"""The benchmark of search: its recall is that of brute force, and it runs from end to end on few vectors."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_on_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield


def test_recall_counts_rows():
    recall_of = import_module("peers.search_sides").recall_of
    assert recall_of(np.array([[1, 2, 3, 4]]), np.array([[4, 3, 9, 8]])) == 0.5
    assert recall_of(np.array([[-1, -1]]), np.array([[0, 1]])) == 0


def test_queries_are_no_rows_and_promises_are_judged():
    search = import_module("search")
    vectors_ND, queries_QD = search.split_off_queries(search.made_vectors(600, 16, 1), 500)
    assert (vectors_ND.shape, queries_QD.shape) == ((500, 16), (100, 16))
    assert not (vectors_ND[:, None] == queries_QD[None]).all(axis=2).any()
    best = search.exact_answers(vectors_ND, queries_QD)[:, 0]
    np.testing.assert_array_equal(best, (queries_QD @ vectors_ND.T).argmax(axis=1))
    row = {
        "n": 1_000_000,
        "sides": {"wordpipe": {"recall_at_10": 0.96, "queries_per_s": 99}, "flat": {"queries_per_s": 10}},
    }
    assert not search.promises_kept([row], 0.95)
    row["sides"]["wordpipe"]["queries_per_s"] = 101
    assert search.promises_kept([row], 0.95)


@pytest.mark.parametrize("names", [["wordpipe", "flat"]])
def test_it_runs_from_end_to_end(names, tmp_path):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "search.py", "--n", "400", "--dim", "16", "--threads", "1", "--only", *names,
         "--out", tmp_path / "search.json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (size,) = json.loads((tmp_path / "search.json").read_text())["sizes"]
    for name in names:
        assert size["sides"][name]["recall_at_10"] == 1
        assert size["sides"][name]["queries_per_s"] > 0


def test_figures_are_added_to_those_of_the_same_machine_and_no_failure_takes_their_place(tmp_path):
    results = import_module("search").Results
    path, size = tmp_path / "search.json", {"n": 5, "dim": 2, "queries": 1}
    first = results(path, {"machine": "m"}, {"faiss-cpu": "1"})
    first.add(size, "flat", {"build_s": 1})
    first.add(size, "hnswlib", {"error": "exit code -9"})
    later = results(path, {"machine": "m"}, {"usearch": "2"})
    later.add(size, "usearch", {"build_s": 2})
    later.add(size, "flat", {"error": "exit code 1"})
    later.add({**size, "n": 3}, "flat", {"build_s": 3})
    found = json.loads(path.read_text())
    assert found["libraries"] == {"faiss-cpu": "1", "usearch": "2"}
    assert [row["n"] for row in found["sizes"]] == [3, 5]
    assert found["sizes"][1]["sides"] == {
        "flat": {"build_s": 1}, "hnswlib": {"error": "exit code -9"}, "usearch": {"build_s": 2},
    }  # fmt: skip
    results(path, {"machine": "another"}, {}).add(size, "flat", {"build_s": 4})
    assert [row["n"] for row in json.loads(path.read_text())["sizes"]] == [5]


def test_documents_come_go_and_change():
    update = import_module("index_update")
    before, after = update.changed_documents(3_000, 0.01)
    assert before.tolist() == list(range(3_000))
    assert (len(after), len(set(after.tolist()))) == (3_000, 3_000)
    assert len(set(after.tolist()) - set(before.tolist())) == 20
    assert (after.reshape(-1, 10) % 10 == np.arange(10)).all()
