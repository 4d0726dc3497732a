"""`train static --teacher`: a table out of what another encoder says."""

import numpy as np
import pytest

import wordpipe
from tests.support.results import Said
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, DocumentStarts, read_batches
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.stages import open_encoder
from wordpipe.stages.train import distil


def taught(built, output, **settings):
    """A table that the word vectors of the chain teach."""
    said = Said()
    settings = {"teacher": built / "words", "threads": 1} | settings
    return wordpipe.train_static(built / "tokens", output=output, run=RunOptions(report=said), **settings), said


@pytest.fixture(scope="module")
def texts(built):
    with Artifact(built / "corpus") as corpus:
        return [text for batch in read_batches(corpus, "corpus", ["text"]) for text in batch["text"].to_pylist()]


def vectors_of(path, texts):
    with Artifact(path) as artifact:
        return open_encoder(artifact, EmbedSettings.make({"threads": 1})).encode(texts).vectors


@pytest.mark.parametrize("goal", ["similarity", "search"])
def test_texts_get_vectors_near_those_of_the_teacher(built, texts, tmp_path, goal):
    made, said = taught(built, tmp_path / "static", goal=goal)
    assert said.about("the teacher")
    assert 0.9 < made.metrics["teacher_cosine"] <= 1
    assert made.metrics["teacher_cosine_held_out"] > 0.5
    assert "loss" not in made.metrics  # no training on pairs
    near = (vectors_of(tmp_path / "static", texts[:50]) * vectors_of(built / "words", texts[:50])).sum(axis=1)
    assert float(near.mean()) > 0.8
    with Artifact(tmp_path / "static") as artifact:
        assert [entry.kind for entry in artifact.manifest.inputs] == ["tokens", "corpus", "words"]
        assert artifact.manifest.facts["dim"] == vectors_of(built / "words", texts[:1]).shape[1]
    assert wordpipe.verify(tmp_path / "static")["ok"]


def test_equal_inputs_give_equal_bytes(built, tmp_path):
    few = {"teacher_texts": 7, "goal": "search"}
    made = [taught(built, tmp_path / name, **few)[0] for name in "ab"]
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one == other
    assert made[0].counts["teacher_texts"] == 7


def test_it_goes_on_with_pairs_where_somebody_says_how_long(built, tmp_path):
    made, _ = taught(
        built, tmp_path / "on", steps=2, batch_size=8, valid_pairs=8, unit="token", lexical_weight=0.5, lexical_dim=8
    )
    assert made.counts["steps"] == 2
    assert made.metrics["loss"] > 0
    with Artifact(tmp_path / "on") as artifact:
        assert artifact.manifest.facts["pairs"] == ["neighbour", "deletion"]


def test_what_has_no_effect_beside_a_teacher_is_refused(built, tmp_path):
    for given, why in (
        ({"lr": 0.1}, "only with steps, epochs or minutes"),
        ({"number_weight": 3.0}, "does not change after the training"),
        ({"words": built / "words"}, "only one of words and teacher"),
        ({"teacher": None, "teacher_texts": 3}, "no teacher is given"),
    ):
        with pytest.raises(ConfigError, match=why):
            taught(built, tmp_path / "static", **given)


def test_tokens_without_their_corpus_say_so(chain, tmp_path):
    (chain / "corpus").rename(chain / "moved")
    with pytest.raises(ArtifactError, match="the texts for the teacher must be read from the corpus"):
        taught(chain, tmp_path / "static")


def test_passages_are_cut_at_sentences_and_begin_with_the_title(built):
    with Artifact(built / "corpus") as corpus:
        documents, starts = list[tuple[str, list[str]]](), DocumentStarts()
        for batch in read_batches(corpus, "corpus", ["doc_id", "sentence_id", "text", "title"]):
            rows = zip(starts.of(batch).tolist(), batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True)
            for begins, title, text in rows:
                if begins:
                    documents.append((title or "", []))
                documents[-1][1].append(text)
        chosen = np.arange(len(documents)) % 2 == 0
        passages = [" ".join(parts) for parts in distil.passages(corpus, chosen)]
    kept = [document for document, is_chosen in zip(documents, chosen, strict=True) if is_chosen]
    assert " ".join(passages).split() == " ".join(" ".join([title, *rows]) for title, rows in kept).split()
    assert max(passage.count(" ") + 1 for passage in passages) < 128 + max(
        text.count(" ") + 2 + title.count(" ") for title, rows in documents for text in rows
    )
