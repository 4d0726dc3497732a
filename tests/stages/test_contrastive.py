"""`train static` and `train contrastive`."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

import wordpipe
from tests.support.results import Said
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, BundledFiles
from wordpipe.encoders import listed_words, static_table
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages.train import contrastive as stage
from wordpipe.stages.train import run as run_file
from wordpipe.tokens import open_tokenizer
from wordpipe.training.contrastive.settings import ContrastiveSettings

TRANSFORMER = {
    "steps": 3, "batch_size": 4, "threads": 1, "device": "cpu", "dtype": "float32", "valid_pairs": 8,
}  # fmt: skip
FEW = {"steps": 3, "batch_size": 8, "threads": 1, "valid_pairs": 8}
STATIC = FEW | {"lexical_dim": 16}
FLAGS = {
    "contrastive": ["--preset", "tiny", "--device", "cpu", "--batch-size", "4"],
    "static": ["--batch-size", "8"],
}
TEXTS = ["Bees find their way by the sun.", "A kettle boils water.", "water"]


def trained(built, output, **settings):
    """A static encoder, or a transformer where a device is named."""
    said, train = Said(), wordpipe.train_contrastive if "device" in settings else wordpipe.train_static
    return train(built / "tokens", output=output, run=RunOptions(report=said), **settings), said


@pytest.fixture(scope="module")
def pieces(built, tmp_path_factory):
    """Vectors of tokens."""
    folder = tmp_path_factory.mktemp("pieces") / "pieces"
    wordpipe.train_word2vec(built / "tokens", output=folder, unit="token", dim=16, epochs=1, threads=1)
    return folder


@pytest.fixture(scope="module")
def transformer(built, pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("contrast") / "transformer"
    trained(built, folder, **TRANSFORMER | {"init_embeddings": pieces, "preset": "tiny", "pair_neighbour": 1.0})
    return folder


@pytest.fixture(scope="module")
def static(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("contrast") / "static"
    trained(built, folder, **STATIC | {"words": built / "words"})
    return folder


def table(folder):
    return static_table((folder / "model.safetensors").read_bytes())


def facts(folder):
    with Artifact(folder) as artifact:
        return artifact.manifest.facts


@pytest.mark.landing
def test_a_transformer_gives_the_same_vectors_in_sentence_transformers(transformer):
    from sentence_transformers import SentenceTransformer

    from tests.support.small_encoders import ragged
    from wordpipe.model import load_hf
    from wordpipe.tokens import open_tokenizer
    from wordpipe.training.contrastive import Framing, text_vectors

    theirs = SentenceTransformer(str(transformer), device="cpu").encode(TEXTS)
    import torch

    with Artifact(transformer) as artifact:
        model = load_hf(artifact.read, artifact.names()).model
        tokenizer = open_tokenizer(artifact.read("tokenizer.json"), where="tokenizer.json")
    weights_V = torch.zeros(model.config.vocab_size)
    stored = load_file(transformer / "word_weights.safetensors")["weights"]
    weights_V[: len(stored)] = torch.from_numpy(stored)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    framing = Framing(model.config.cls_id, model.config.sep_id, model.config.max_len, torch.device("cpu"))
    with torch.no_grad():
        ours = text_vectors(model, framing.packed(ragged(*ids)), weights_V).numpy()
    np.testing.assert_allclose(theirs, ours, atol=1e-4)


@pytest.mark.landing
def test_a_static_encoder_gives_the_same_vectors_in_sentence_transformers(static):
    from sentence_transformers import SentenceTransformer

    from wordpipe.encoders import StaticEncoder
    from wordpipe.encoders.settings import EmbedSettings

    with Artifact(static) as artifact:
        ours = StaticEncoder(BundledFiles(artifact), EmbedSettings()).encode(TEXTS).vectors
    theirs = SentenceTransformer(str(static), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def test_what_an_encoder_says_of_itself(transformer, static):
    assert (
        facts(transformer).items()
        >= {"encoder": "transformer", "pooling": "weighted", "goal": "similarity", "dim": 128}.items()
    )
    assert facts(static).items() >= {"encoder": "static", "pooling": "mean", "unit": "word", "dim": 16 + 24}.items()
    for folder in (transformer, static):
        assert wordpipe.verify(folder)["ok"]
        log = pq.read_table(folder / "steps.parquet")
        assert set(log["split"].to_pylist()) == {"train", "valid"}
        with Artifact(folder) as artifact:
            assert artifact.manifest.metrics.keys() >= {"loss", "valid_loss", "valid_nearest", "valid_pairs"}


def test_it_goes_on_as_it_pools_with_all_that_it_can_learn_from(built, transformer, tmp_path):
    def weights(folder):
        return load_file(folder / "word_weights.safetensors")["weights"]

    few = TRANSFORMER | {"steps": 1, "valid_pairs": 2, "init": transformer, "teacher": built / "words"}
    made, said = trained(built, tmp_path / "on", **few)
    assert made.counts["parameters"] > 0
    assert said.about("encoder of 2 layers, width 128")
    with Artifact(tmp_path / "on") as artifact:
        assert [entry.kind for entry in artifact.manifest.inputs] == ["tokens", "model", "words"]
        assert artifact.manifest.facts["pooling"] == "weighted"
    np.testing.assert_array_equal(weights(tmp_path / "on"), weights(transformer))


def test_pooling_is_as_asked_else_as_the_model_pools(transformer):
    asked, unasked = (ContrastiveSettings.make({"init": "m"} | more) for more in ({"pooling": "weighted"}, {}))
    with Artifact(transformer) as given:
        n_ids = len(load_file(transformer / "word_weights.safetensors")["weights"])
        assert stage._pooling_of(given, asked, n_ids) == ("weighted", None)  # counted anew
        pooling, kept_V = stage._pooling_of(given, unasked, n_ids)
        assert (pooling, kept_V.shape) == ("weighted", (n_ids,))
        with pytest.raises(ArtifactError, match="another tokenizer"):
            stage._pooling_of(given, unasked, n_ids + 1)
    plain = SimpleNamespace(manifest=SimpleNamespace(facts={"pooling": "mean"}))
    assert stage._pooling_of(plain, unasked, n_ids) == ("mean", None)
    assert stage._pooling_of(None, unasked, n_ids) == ("weighted", None)


def test_a_static_encoder_of_tokens_lends_its_rows_to_a_transformer(built, tmp_path):
    trained(built, tmp_path / "static", **STATIC | {"unit": "token"})
    with Artifact(tmp_path / "static") as vectors:
        data = vectors.read("tokenizer.json")
        tokenizer = open_tokenizer(data, where="tokenizer.json")
        table_VD, found_V = stage._token_vectors(SimpleNamespace(), vectors, tokenizer, data)
    assert table_VD.shape == (len(found_V), 16)
    assert found_V.sum() > 900


def test_a_static_encoder_goes_on_and_takes_in_new_words(built, static, tmp_path, handbook):
    text = handbook.read_text().replace("water", "zwater")
    (tmp_path / "other.txt").write_text(text)
    wordpipe.ingest(tmp_path / "other.txt", output=tmp_path / "corpus", documents="block")
    wordpipe.tokenize(tmp_path / "corpus", output=tmp_path / "tokens", vocab_size=900)
    made, _ = trained(tmp_path, tmp_path / "model", **FEW | {"init": static})
    assert made.counts["words_new"] >= 1
    assert made.counts["words_from_init"] > 500


def test_a_finished_table_that_goes_on_is_finished_once_and_not_for_search(built, static, tmp_path):
    """A training that changes next to nothing gives back the table; for search it is the one before the last step."""
    from wordpipe.training.contrastive import Finish

    on = FEW | {"steps": 1, "init": static, "lr": 1e-12}
    trained(built, tmp_path / "on", **on)
    trained(built, tmp_path / "search", **on | {"goal": "search"})
    before, after, raw = (table(folder) for folder in (static, tmp_path / "on", tmp_path / "search"))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-5)
    assert "finish" not in facts(tmp_path / "search")
    with Artifact(static) as artifact:
        words = listed_words(artifact.read("tokenizer.json"))[0]
    finish = Finish.of(words, facts(static)["finish"])
    assert set(finish.factors.tolist()) == {1.0, 2.0}
    finished = before[: len(words)]
    off = np.abs(finished).max(axis=1, keepdims=True) / 127  # half a step of int8, twice: as it was, and as it is again
    assert (np.abs(raw[: len(words)] - finish.undo(finished)) <= off).all()


def test_pairs_of_a_file_are_read_and_recorded_by_their_content(built, tmp_path):
    pairs = [("how bees find their way", "Bees find their way by the sun."), ("a kettle", "water"), ("", "nothing")]
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps({"question": one, "answer": two}) for one, two in pairs))
    made, _ = trained(built, tmp_path / "model", **STATIC | {"pairs": tmp_path / "pairs.jsonl", "pair_file": 1.0})
    assert (made.counts["file_pairs"], made.counts["file_pairs_left_out"]) == (2, 1)
    with Artifact(tmp_path / "model") as artifact:
        assert [entry.kind for entry in artifact.manifest.inputs] == ["tokens", "file"]


@pytest.mark.parametrize(
    ("pairs", "nearest", "said"),
    [
        (4, 0.0, "is the nearest text for 0 of 4 held-out texts (too few pairs for a reliable figure)"),
        (49, 7 / 49, "is the nearest text for 7 of 49 held-out texts (too few pairs for a reliable figure)"),
        (50, 0.06, "is the nearest text for 6.0% of 50 held-out texts"),
    ],
)
def test_a_share_of_few_held_out_texts_is_given_as_a_count(pairs, nearest, said):
    notes, trainer = [], SimpleNamespace(metrics={"valid_nearest": nearest, "valid_pairs": pairs})
    run_file._note_validation(SimpleNamespace(note=notes.append), trainer, SimpleNamespace(step=9, loss=1.5))
    assert notes == [f"step 9: validation loss 1.5000; the matching text {said}"]


def test_titles_come_from_the_corpus_and_are_missed_where_it_is_gone(chain, tmp_path):
    title = STATIC | {"pair_title": 1.0}
    made, said = trained(chain, tmp_path / "model", **title)
    without = made.counts.get("documents_without_known_title", 0)  # of one whose title has no common word
    assert without < made.counts["documents"] // 4
    (chain / "corpus").rename(chain / "elsewhere")
    made, said = trained(chain, tmp_path / "model", **title)
    assert said.about("is missing or has changed")
    assert made.counts["documents_without_known_title"] == made.counts["documents"] > without


@pytest.mark.slow  # six processes; the exactness of a resumed training is tested in one in tests/training/contrastive
@pytest.mark.parametrize("command", FLAGS)
def test_killed_trainings_go_on_to_the_same_bytes(command, built, tmp_path):
    more = {"static": "lexical_dim = 16\n", "contrastive": ""}[command]
    line = [
        sys.executable, "-m", "wordpipe", "train", command, str(built / "tokens"), "--steps", "3", "--threads", "1",
        "--config", str(tmp_path / "few.toml"), *FLAGS[command],
    ]  # fmt: skip
    (tmp_path / "few.toml").write_text(f"checkpoint_steps = 1\nvalid_pairs = 4\n{more}")

    def run(name, **env):
        return subprocess.run([*line, "-o", str(tmp_path / name)], capture_output=True, text=True, check=False,
                              env={**os.environ, **env})  # fmt: skip

    killed = run("model", WORDPIPE_FAILPOINT="checkpoint.after_pointer:kill:2")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again, straight = run("model"), run("straight")
    assert "continuing a stopped run at step 2" in again.stderr, again.stderr
    assert straight.returncode == 0, straight.stderr
    with Artifact(tmp_path / "model") as one, Artifact(tmp_path / "straight") as other:
        assert one.digest == other.digest
    assert not (tmp_path / ".model.partial").exists()


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        (TRANSFORMER | {"teacher_weight": 2.0}, ConfigError, "no teacher is given"),
        (TRANSFORMER | {"init": "model", "preset": "tiny"}, ConfigError, "the init model already has a size"),
        (TRANSFORMER | {"init_embeddings": "words"}, ArtifactError, "token vectors are needed"),
        (TRANSFORMER | {"init_embeddings": "model"}, ArtifactError, "not a static encoder"),
        (FEW | {"init": "model"}, ArtifactError, "not a static encoder"),
        (STATIC | {"words": "words", "unit": "token"}, ArtifactError, "the unit of the vectors is different"),
        (FEW | {"lexical_weight": 0.0}, ConfigError, "all initial weights are 0"),
        (STATIC | {"min_count": 10_000}, InputError, "no sentence has a word of the vocabulary"),
    ],
)
def test_what_does_not_fit_is_refused(settings, kind, message, built, tmp_path):
    named = {
        name: built / value if name in ("init", "init_embeddings", "words") else value
        for name, value in settings.items()
    }
    with pytest.raises(kind, match=message):
        trained(built, tmp_path / "model", **named)
    assert not (tmp_path / "model").exists()


def test_of_a_script_without_spaces_tokens_get_vectors_and_words_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text(
        "\n\n".join(f"蜂は花の蜜を集めて巣に帰る。{n}番目の蜂も踊る。" for n in range(60))
    )
    tokens = wordpipe.tokenize(tmp_path / "notes.txt", output=tmp_path / "tokens", vocab_size=300)
    assert not any("spaces" in warning for warning in tokens.warnings)
    made = wordpipe.train_static(tokens, output=tmp_path / "encoder", steps=1, threads=1, false_negatives="keep")
    assert facts(made.path)["unit"] == "token"
    with pytest.raises(ConfigError, match="without spaces") as caught:
        wordpipe.train_static(tmp_path / "tokens", output=tmp_path / "model", steps=1, threads=1, unit="word")
    assert caught.value.hint == "leave out --unit"
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_for_search_words_that_came_once_have_a_vector_unless_there_are_many(built, static, tmp_path, monkeypatch):
    def words(name, **more):
        made, said = trained(built, tmp_path / name, steps=1, batch_size=16, **more)
        return made.counts["words"], any("occur only once" in line for line in said)

    every = words("all", goal="search")
    monkeypatch.setattr("wordpipe.stages.train.static._MANY_WORDS", every[0] - 1)
    few = words("many", goal="search")
    assert (every[1], few[1]) == (False, True)
    assert words("asked", goal="search", min_count=1) == every
    with Artifact(static) as artifact:  # for similarity those that came twice
        assert artifact.manifest.counts["words"] == few[0]
    assert every[0] > few[0]
