"""`train contrastive --init` of an imported encoder: a linear layer learns one's own text, the weights rest."""

from pathlib import Path

import numpy as np
import pytest

import wordpipe
from tests.stages.test_export_encoder import word_tokenizer
from tests.stages.test_import_encoder import TEXTS, dense, files, imported, modules
from tests.support.model_artifacts import ROLES, model_files
from tests.support.results import Said
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact
from wordpipe.encoders import Layers
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages import open_encoder
from wordpipe.stages.train import adapt as stage
from wordpipe.training.contrastive import Learned


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """A small imported encoder with a dense layer and a prompt of queries."""
    bert = model_files(word_tokenizer(ROLES).to_str().encode(), "encoder", "classic")
    layer, _ = dense(2, 32, 24, "Tanh")
    folder = files(bert | modules("Pooling", "Dense") | layer, tmp_path_factory.mktemp("adapt") / "folder")
    return imported(folder, query_prompt="the ")


def adapted(built, encoder, output, **settings):
    said = Said()
    settings = {"init": encoder, "threads": 1, "device": "cpu"} | settings
    return wordpipe.train_contrastive(built / "tokens", output=output, run=RunOptions(report=said), **settings), said


def opened(path):
    with Artifact(path) as artifact:
        return open_encoder(artifact, EmbedSettings.make({"threads": 1}))


def facts(path):
    with Artifact(path) as artifact:
        return artifact.manifest.facts


def test_the_folder_is_that_of_the_encoder_and_one_layer(built, encoder, tmp_path, monkeypatch):
    matrix = np.random.default_rng(1).standard_normal((24, 24)).astype(np.float32)
    seen = {}

    def learned(spans_ND, passage_N, passages_PD, seed, steps, watch):
        seen.update(spans=spans_ND, of=passage_N, passages=passages_PD)
        watch(steps, 0.5)
        return Learned(matrix, 20, 0.4, 0.5, 0.01)

    monkeypatch.setattr(stage, "learned_map", learned)
    monkeypatch.setattr(stage, "_LEAST_PASSAGES", 2)
    made, said = adapted(built, encoder, tmp_path / "adapted")
    assert said.about("mean reciprocal rank")
    assert made.metrics == {"held_out_before": 0.4, "held_out_after": 0.5}
    assert made.counts["passages"] == len(seen["passages"]) > seen["of"].max()
    assert len(seen["of"]) == len(seen["spans"]) == made.counts["spans"]
    # the vectors are those of the encoder, multiplied, of queries, too
    before, after = opened(encoder), opened(tmp_path / "adapted")
    for one, other in ((before, after), (before.for_queries, after.for_queries)):
        wanted = one.encode(TEXTS).vectors @ matrix
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
        np.testing.assert_allclose(other.encode(TEXTS).vectors, wanted, atol=1e-5)
    # and all that is known of the encoder is known of it
    known = facts(encoder) | {
        "goal": "similarity",
        "objective": "contrast",
        "pairs": ["unknown", "crop", "title"],
        "tuned": "map",
    }
    assert facts(tmp_path / "adapted") == known
    with Artifact(tmp_path / "adapted") as artifact:
        assert len(Layers.from_bytes(artifact.read("layers.safetensors")).layers) == 2
        assert [entry.kind for entry in artifact.manifest.inputs] == ["tokens", "model", "corpus"]


@pytest.mark.landing
def test_sentence_transformers_gives_the_same_vectors(built, encoder, tmp_path, monkeypatch):
    from sentence_transformers import SentenceTransformer

    matrix = np.random.default_rng(2).standard_normal((24, 24)).astype(np.float32)
    monkeypatch.setattr(stage, "learned_map", lambda *_: Learned(matrix, 20, 0.4, 0.5, 0.01))
    monkeypatch.setattr(stage, "_LEAST_PASSAGES", 2)
    adapted(built, encoder, tmp_path / "adapted")
    theirs = SentenceTransformer(str(tmp_path / "adapted"), device="cpu").encode(TEXTS)
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(opened(tmp_path / "adapted").encode(TEXTS).vectors, theirs, atol=1e-5)


def test_without_a_better_layer_the_encoder_stays_as_it_is(built, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "learned_map", lambda *_: Learned(None, 0, 0.4, 0.4, 0.1))
    monkeypatch.setattr(stage, "_LEAST_PASSAGES", 2)
    with pytest.warns(wordpipe.WordpipeWarning, match="The encoder stays as it is"):
        wordpipe.train_contrastive(built / "tokens", output=tmp_path / "same", init=encoder, threads=1, device="cpu")
    np.testing.assert_array_equal(
        opened(tmp_path / "same").encode(TEXTS).vectors, opened(encoder).encode(TEXTS).vectors
    )


def test_passages_of_one_sentence_teach_nothing(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "_LEAST_PASSAGES", 2)
    (tmp_path / "one.txt").write_text("\n".join(TEXTS))
    corpus = wordpipe.ingest(tmp_path / "one.txt", output=tmp_path / "corpus", documents="line")
    tokens = wordpipe.tokenize(corpus, output=tmp_path / "tokens", tokenizer=encoder)
    with pytest.warns(wordpipe.WordpipeWarning, match="no passage has a title or more than one sentence"):
        made = wordpipe.train_contrastive(tokens, output=tmp_path / "same", init=encoder, threads=1, device="cpu")
    assert made.counts["spans"] == made.counts["steps"] == 0


def test_what_does_not_fit_is_refused(built, encoder, tmp_path):
    with pytest.raises(ConfigError, match="lr has no effect, because only a linear layer learns"):
        adapted(built, encoder, tmp_path / "refused", lr=0.1)
    with pytest.raises(ConfigError, match="init is not set"):
        adapted(built, None, tmp_path / "refused", learn="layer")
    static = wordpipe.train_static(built / "tokens", output=tmp_path / "static", steps=1, lexical_dim=8)
    with pytest.raises(ArtifactError, match="not a transformer encoder"):
        adapted(built, static, tmp_path / "refused", learn="layer")
    (tmp_path / "few.txt").write_text("\n".join(TEXTS))
    corpus = wordpipe.ingest(tmp_path / "few.txt", output=tmp_path / "corpus")
    tokens = wordpipe.tokenize(corpus, output=tmp_path / "tokens", tokenizer=encoder)
    with pytest.raises(InputError, match="too little text"):
        wordpipe.train_contrastive(tokens, output=tmp_path / "refused", init=encoder)
    assert not (tmp_path / "refused").exists()
