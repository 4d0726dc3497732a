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
