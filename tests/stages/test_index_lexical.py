"""The measured hybrid weight where documents are large, and the queries that it is measured by."""

import numpy as np
import pytest

import wordpipe
from wordpipe.artifacts import Artifact
from wordpipe.stages.search import index_lexical


def test_the_rows_of_a_book_do_not_look_for_each_other(built, handbook, tmp_path):
    wordpipe.ingest(handbook, output=tmp_path / "corpus", documents="file")
    wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", threads=1)
    made = wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    assert made.counts["vectors"] > 100
    with Artifact(tmp_path / "index") as artifact:
        assert artifact.manifest.facts["lexical"]["measured"]["by"] == "cuts"


@pytest.mark.parametrize(("unit", "by"), [("document", "cuts"), ("sentence", "rows")])
def test_queries_are_drawn_from_the_whole_collection(unit, by, built, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    with (tmp_path / "notes.txt").open("w") as file:
        for _ in range(1_500):
            said = [" ".join(["Salt", *rng.choice(["water", "sea", "bees", "light"], 13)]) for _ in range(2)]
            file.write(". ".join(said) + ".\n\n")
    wordpipe.ingest(tmp_path / "notes.txt", output=tmp_path / "corpus", documents="block", valid=0)
    made = wordpipe.embed(built / "words", tmp_path / "corpus", output=tmp_path / "sentences", unit=unit, threads=1)
    asked = []
    measured = index_lexical.measure_weight
    monkeypatch.setattr(
        index_lexical, "measure_weight", lambda *given, **more: asked.append(given[0]) or measured(*given, **more)
    )
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    rows, n = np.sort(asked[0].rows), made.counts["sentences"]
    assert asked[0].how == by
    assert len(rows) == 300
    quarters = np.bincount(4 * rows // n, minlength=4)
    assert quarters.min() > 40, quarters
    assert rows[-1] > 0.9 * n


@pytest.mark.parametrize("trained", [False, True])
def test_vectors_that_learned_from_pairs_get_half_of_the_score_at_most(trained, built, tmp_path, monkeypatch):
    encoder = built / "words"
    if trained:
        encoder = wordpipe.train_contrastive(
            built / "tokens", output=tmp_path / "model", words=built / "words", steps=1, batch_size=16, threads=1
        ).path
    wordpipe.embed(encoder, built / "corpus", output=tmp_path / "sentences", threads=1)
    asked = []
    measured = index_lexical.measure_weight
    monkeypatch.setattr(
        index_lexical, "measure_weight", lambda *given, **more: asked.append(more) or measured(*given, **more)
    )
    wordpipe.index(tmp_path / "sentences", output=tmp_path / "index")
    assert asked == [{"trained": trained}]
    with Artifact(tmp_path / "index") as artifact:
        assert artifact.manifest.facts["lexical"]["weight"] <= (0.5 if trained else 0.8)
