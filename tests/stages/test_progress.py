"""What long stages tell of how far they are: a total for every phase that may take long, so that time left can be told."""

from collections import defaultdict

import pytest

import wordpipe
from tests.conftest import TINY
from wordpipe import RunOptions
from wordpipe.runtime import Progress

WITHOUT_TOTAL = {"note", "comparing rows"}
"""Phases that are short beside the others of their stage."""


@pytest.fixture
def seen():
    """Reports by phase."""
    return defaultdict[str, list[Progress]](list)


@pytest.fixture
def run(seen):
    return RunOptions(report=lambda progress: seen[progress.phase].append(progress))


@pytest.mark.slow
def test_every_phase_has_a_total(built, handbook, tmp_path, run, seen):
    wordpipe.ingest(handbook, output=tmp_path / "corpus", documents="block", first_line_title=True, run=run)
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "tokens", vocab_size=800, run=run)
    wordpipe.train_word2vec(
        tmp_path / "tokens", output=tmp_path / "words", dim=8, epochs=1, max_n=3, threads=1, run=run
    )
    wordpipe.train_mlm(tmp_path / "tokens", output=tmp_path / "model", steps=2, **TINY, run=run)
    how = {"unit": "document", "device": "cpu", "transform": "centre"}
    wordpipe.embed(tmp_path / "model", tmp_path / "corpus", output=tmp_path / "sentences", **how, run=run)
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index", type="hnsw", run=run)
    whole = ("embedding", "comparing words and vectors", "counting words", "fitting the transform")
    for phase in (*whole, "adding up counts", "listing the words", "finding n-grams"):
        done = [report.done for report in seen[phase]]
        assert done == sorted(done)
        assert done[-1] == seen[phase][-1].total
    wordpipe.doctor(tmp_path / "sentences", run=run)
    tried = [(report.done, report.total) for report in seen["tuning"]]
    assert all(done <= total for done, total in tried)
    phases = {
        "tuning",
        "reading",
        "counting",
        "training the tokenizer",
        "encoding",
        "training",
        "comparing",
        "embedding",
        "writing",
    }
    assert phases | {"fitting the transform", "counting words", "comparing words and vectors"} <= set(seen)
    without = {phase for phase, reports in seen.items() if any(not report.total for report in reports)}
    assert without <= WITHOUT_TOTAL


def test_a_model_tells_how_far_it_is_within_the_texts_that_it_encodes_together(built, tmp_path, run, seen):
    (tmp_path / "notes.txt").write_text(
        "\n\n".join(f"Salt and water, the sea and the {number} bees." * 9 for number in range(300))
    )
    wordpipe.embed(
        built / "model", tmp_path / "notes.txt", output=tmp_path / "s", device="cpu", unit="document", run=run
    )
    told = seen["embedding"]
    assert len(told) > 3  # all of them are one chunk
    assert told[-1].done == told[-1].total
