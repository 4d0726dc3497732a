"""The runs that judging writes: whole or absent, and such that TREC's programs read them back."""

import numpy as np
import pytest
import pytrec_eval

from wordpipe.artifacts import publish as failpoints
from wordpipe.errors import InputError
from wordpipe.search.collection import Collection
from wordpipe.search.hits import Hits
from wordpipe.stages.making import RunOptions
from wordpipe.stages.retrieval_judging import Judging, Norms

NORMS = Norms(depth=10, weight=None, lsi_dim=2, drop_identical=False, draws=0, feedback=0)
FOUND = [Hits(np.array([1, 0]), np.array([0.5, 0.25], np.float32))]


def collection(document="d0", query="q"):
    """Two documents and one query."""
    return Collection([document, "d1"], ["", ""], ["one", "two"], [query], ["one"], {query: {document: 1}}, {})


def test_a_run_is_read_back(tmp_path):
    judging = Judging(collection("é/0", "q:日本"), NORMS, RunOptions(), tmp_path / "new" / "runs")
    judging.add("bm25", "bm25", FOUND, {})
    with (tmp_path / "new" / "runs" / "bm25.trec").open(encoding="utf-8") as file:
        assert pytrec_eval.parse_run(file) == {"q:日本": {"é/0": 0.25, "d1": 0.5}}


@pytest.mark.parametrize("place", ["publish.file_written", "publish.file_synced"])
def test_a_run_that_cannot_be_written_leaves_the_one_before_it(tmp_path, monkeypatch, place):
    (tmp_path / "bm25.trec").write_text("of before")
    monkeypatch.setattr(failpoints, "_passed", {})
    monkeypatch.setenv("WORDPIPE_FAILPOINT", f"{place}:enospc")
    with pytest.raises(OSError, match="No space left"):
        Judging(collection(), NORMS, RunOptions(), tmp_path).add("bm25", "bm25", FOUND, {})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("bm25.trec", "of before")]


@pytest.mark.parametrize("name", ["two words", "a\tb", " q", "", "a\u00a0b", "q\ud800"])
@pytest.mark.parametrize("what", ["document", "query"])
def test_an_id_that_no_run_can_hold_is_refused_before_anything_is_judged(tmp_path, what, name):
    given = collection(**{what: name})
    with pytest.raises(InputError, match=f"the id of a {what} is not one word") as caught:
        Judging(given, NORMS, RunOptions(), tmp_path / "runs")
    assert caught.value.got == repr(name)
    assert not (tmp_path / "runs").exists()
    Judging(given, NORMS, RunOptions(), None).add("bm25", "bm25", FOUND, {})  # without a run any id will do
