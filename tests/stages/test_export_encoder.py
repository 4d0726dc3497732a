"""Encoders in other programs: the same vectors in sentence-transformers, and in a graph that torch makes of its folder."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import wordpipe.stages.import_export as stage
from tests.support.made_vectors import made_words
from tests.support.model_artifacts import ROLES, model_files
from wordpipe.artifacts import WEIGHTS_FILE, Artifact
from wordpipe.cli.app import app
from wordpipe.encoders import FoundRows, sum_rows
from wordpipe.errors import ArtifactError, ConfigError, StorageError
from wordpipe.model import Style
from wordpipe.settings import Settings
from wordpipe.stages import bundled_encoder, encoder_files, open_job

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TEXTS = ["the bees fly home", "home", "  a bee and the hive.  ", "the the unseen the", "fly " * 30]
WORDS = ["the", "bees", "bee", "fly", "home", "a", "and", "hive", "."]


def word_tokenizer(specials: dict[str, str]) -> Tokenizer:
    vocab = {word: number for number, word in enumerate([*dict.fromkeys(["[UNK]", *specials.values()]), *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([*specials.values(), "[UNK]"])
    return tokenizer


def model(path: Path, style: Style = "modern", architecture="encoder") -> Path:
    files = model_files(word_tokenizer(ROLES).to_str().encode(), architecture, style)
    return with_facts(path, files, {"dim": 32, "max_len": 48, "architecture": architecture})


def with_facts(path: Path, files: dict[str, bytes], facts: dict) -> Path:
    with open_job("model", path, Settings(), None) as job:
        for name, data in files.items():
            job.write(name, data)
        job.facts = facts
    return path


def static(path: Path, dim: int = 6) -> tuple[Path, np.ndarray]:
    """A static encoder as `train static` leaves it, and its table."""
    tokenizer = word_tokenizer({})
    table_VD = np.random.default_rng(1).standard_normal((tokenizer.get_vocab_size(), dim)).astype(np.float32)
    table_VD[0] = 0  # what is unknown says nothing
    files = {"tokenizer.json": tokenizer.to_str().encode(), "model.safetensors": save({"embedding.weight": table_VD})}
    return with_facts(path, files, {"encoder": "static", "pooling": "mean", "dim": dim}), table_VD


def static_vectors(table_VD: np.ndarray, texts: list[str]) -> np.ndarray:
    rows = [one.ids for one in word_tokenizer({}).encode_batch(texts)]
    offsets = np.cumsum([0, *map(len, rows)])
    sums_ND = sum_rows(table_VD, FoundRows(np.concatenate(rows).astype(np.int32), offsets, []))
    return sums_ND / np.linalg.norm(sums_ND, axis=1, keepdims=True)


def sentences_of(encoder: Path, output: Path, handbook: Path, **settings) -> Path:
    from wordpipe import embed

    embed(encoder, handbook, output=output, device="cpu", threads=1, **settings)
    return output


def ours(artifact: Path, texts: list[str]) -> np.ndarray:
    with Artifact(artifact) as opened:
        return bundled_encoder(opened).encode(texts).vectors


def in_sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(texts)


def test_what_is_found_in_artifacts(tmp_path):
    with Artifact(model(tmp_path / "model")) as artifact:
        found = encoder_files(artifact)
    assert (found.kind, found.pooling, found.max_len, found.transform.kind) == ("transformer", "mean", 48, "none")
    with Artifact(static(tmp_path / "static")[0]) as artifact:
        found = encoder_files(artifact)
    assert (found.kind, found.dim, sorted(found.files)) == ("static", 6, ["model.safetensors", "tokenizer.json"])


def test_the_folder_is_written_whole(tmp_path):
    args = ["export", str(model(tmp_path / "model")), "--to", "sentence-transformers", "-o", str(tmp_path / "out")]
    for more in ([], ["--force"]):  # the second time over the first
        done = CliRunner().invoke(app, [*args, *more])
        assert done.exit_code == 0, done.output
    assert "transformer encoder of 32 dimensions (mean pooling)" in done.stderr
    assert "other programs cut a text after 48 tokens" in done.stderr
    assert (tmp_path / "out" / "1_Pooling" / "config.json").is_file()
    done = CliRunner().invoke(app, [*args, "--json", "--force"])
    assert json.loads(done.stdout)["files"] == sorted(
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    )


def test_words_are_no_encoder_of_texts(tmp_path):
    words = made_words(tmp_path / "words", np.eye(8, dtype=np.float32), [*range(8, 0, -1)])
    for form in stage.ENCODER_FORMATS:
        with pytest.raises(ArtifactError, match="wrong kind"):
            stage.export(words, form, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["none", "centre", "remove-components", "whiten"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_sentences_give_the_same_vectors_in_sentence_transformers(transform, pooling, tmp_path, handbook):
    dims = {"dims": 20} if transform == "whiten" else {}
    encoder = model(tmp_path / "model", "classic" if pooling == "cls" else "modern")
    made = sentences_of(encoder, tmp_path / "sentences", handbook, transform=transform, pooling=pooling, **dims)
    stage.export(made, "sentence-transformers", tmp_path / "out")
    np.testing.assert_allclose(in_sentence_transformers(tmp_path / "out", TEXTS), ours(made, TEXTS), atol=1e-4)


@pytest.mark.slow
def test_a_decoder_does_too(tmp_path, handbook):
    made = sentences_of(model(tmp_path / "model", architecture="decoder"), tmp_path / "sentences", handbook)
    stage.export(made, "sentence-transformers", tmp_path / "out")
    np.testing.assert_allclose(in_sentence_transformers(tmp_path / "out", TEXTS), ours(made, TEXTS), atol=1e-4)


@pytest.mark.slow
def test_a_static_encoder_is_a_static_embedding(tmp_path):
    artifact, table_VD = static(tmp_path / "static")
    stage.export(artifact, "sentence-transformers", tmp_path / "out")
    found_ND = in_sentence_transformers(tmp_path / "out", TEXTS)
    np.testing.assert_allclose(found_ND, static_vectors(table_VD, TEXTS), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["sif", "mean"])
def test_word_vectors_are_a_static_embedding(pooling, built, tmp_path):
    made = sentences_of(built / "words", tmp_path / "sentences", built / "corpus", pooling=pooling, transform="whiten")
    stage.export(made, "sentence-transformers", tmp_path / "out")
    texts = [*TEXTS[:3], "Queen BEES, unheard-of words; 3.5 km, don't"]
    np.testing.assert_allclose(in_sentence_transformers(tmp_path / "out", texts), ours(made, texts), atol=1e-5)


@pytest.mark.slow
def test_word_weights_are_those_of_sentence_transformers(tmp_path):
    files = model_files(word_tokenizer(ROLES).to_str().encode(), "encoder")
    weights_V = np.random.default_rng(2).uniform(0.1, 2, 448).astype(np.float32)
    files[WEIGHTS_FILE] = save({"weights": weights_V})
    facts = {"encoder": "transformer", "pooling": "weighted", "dim": 32, "max_len": 48, "architecture": "encoder"}
    made = with_facts(tmp_path / "model", files, facts)
    stage.export(made, "sentence-transformers", tmp_path / "out")
    found_ND = in_sentence_transformers(tmp_path / "out", TEXTS)
    np.testing.assert_allclose(found_ND, _weighted(made, weights_V), atol=1e-4)


def _weighted(made: Path, weights_V: np.ndarray) -> np.ndarray:
    """The weighted mean, text by text."""
    import torch

    from wordpipe.model import load_hf

    network = load_hf(lambda name: (made / name).read_bytes()).model
    rows = []
    for text in TEXTS:
        ids = Tokenizer.from_file(str(made / "tokenizer.json")).encode(text).ids
        with torch.no_grad():
            hidden_TD = network.encode(torch.tensor([ids]))[0].numpy()
        pooled_D = weights_V[ids] @ hidden_TD
        rows.append(pooled_D / np.linalg.norm(pooled_D))
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "style", "settings"),
    [
        ("encoder", "modern", {"transform": "whiten", "dims": 12}),
        ("encoder", "classic", {"pooling": "cls", "transform": "centre"}),
        ("decoder", "modern", {"pooling": "max", "transform": "none"}),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of torch's, on its own workings
def test_torch_makes_a_graph_of_the_folder(architecture, style, settings, tmp_path, handbook, monkeypatch):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    monkeypatch.syspath_prepend(BENCHMARKS)
    from int8 import session, write_graph

    made = sentences_of(model(tmp_path / "model", style, architecture), tmp_path / "sentences", handbook, **settings)
    stage.export(made, "sentence-transformers", tmp_path / "out")
    write_graph(tmp_path / "out", tmp_path / "model.onnx")
    encode = session(tmp_path / "model.onnx", Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json")), 2)
    np.testing.assert_allclose(encode(TEXTS), ours(made, TEXTS), atol=1e-4)
    np.testing.assert_allclose(encode(TEXTS), in_sentence_transformers(tmp_path / "out", TEXTS), atol=1e-5)


def test_an_output_that_may_not_be_replaced_is_refused(tmp_path):
    made = static(tmp_path / "static")[0]
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, message in (
        ("notes.txt", "existing file or link, but this format needs a folder"),
        ("folder", "other files"),
        ("link", "file or link"),
    ):
        with pytest.raises(StorageError, match=message):
            stage.export(made, "sentence-transformers", tmp_path / name)
    with pytest.raises(ConfigError, match="inside another artifact"):
        stage.export(made, "sentence-transformers", made / "folder")
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "folder" / "letter").read_text() == "mine"
