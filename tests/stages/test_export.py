"""`export` of words, vectors and tokenizers: what other programs read back, and what is refused."""

import base64
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer

import wordpipe.stages.import_export as stage
from tests.support.made_vectors import made_sentences, made_words
from tests.support.tokenizer_files import tiktoken_ids
from tests.tokens.test_writing import PROBES, ids_of, trained
from wordpipe.artifacts import atomic_folder
from wordpipe.cli.app import app
from wordpipe.cli.export import FORMATS
from wordpipe.errors import ArtifactError, ConfigError, StorageError
from wordpipe.settings import Settings
from wordpipe.stages import open_job
from wordpipe.tokens import read_tokenizer
from wordpipe.tokens import write as writing

OWN = b'{"model_max_length": 24}\n'


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def artifact(folder, kind, tokenizer):
    with open_job(kind, folder / kind, Settings(), None) as job:
        job.write("tokenizer.json", tokenizer.to_str().encode())
        if kind == "model":
            job.write("tokenizer_config.json", OWN)
            job.write("special_tokens_map.json", b"{}\n")
    return folder / kind


@pytest.fixture
def tokens(tmp_path):
    return artifact(tmp_path, "tokens", trained("bpe"))


def test_the_command_line_offers_every_format():
    assert set(FORMATS) == {*stage.WORD_FORMATS, *stage.VECTOR_FORMATS, *stage.ENCODER_FORMATS, *writing.FORMATS}
    shown = CliRunner().invoke(app, ["export", "--help"]).output
    assert all(form in shown.split("Options:")[0] for form in FORMATS)


@pytest.mark.parametrize("form", ["tokenizer-json", "transformers", "tiktoken"])
@pytest.mark.parametrize("kind", ["tokens", "model"])
def test_what_is_written_is_read_back(form, kind, tmp_path):
    tokenizer = trained("bpe")
    name = {"tokenizer-json": "x.json", "tiktoken": "x.tiktoken"}.get(form, "x")
    args = [
        "export",
        str(artifact(tmp_path, kind, tokenizer)),
        "--to",
        form,
        "-o",
        str(tmp_path / "out" / name),
        "--json",
        "--force",
    ]
    for _ in range(2):  # the second time over the first
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 0, done.output
    written = json.loads(done.stdout)
    assert written["tokens"] == tokenizer.get_vocab_size()
    if form == "tiktoken":
        facts = json.loads((tmp_path / "out" / "x.tiktoken.json").read_bytes())
        lines = [line.split() for line in (tmp_path / "out" / name).read_bytes().splitlines()]
        ranks, same = {base64.b64decode(token): int(rank) for token, rank in lines}, dict(facts["ids"])
        for text in (text for text in PROBES if "[MASK]" not in text):
            assert tiktoken_ids(text, facts["pattern"], ranks) == [same[number] for number in ids_of(tokenizer, text)]
    else:
        back = read_tokenizer(tmp_path / "out" / name)
        assert [ids_of(back, text) for text in PROBES] == [ids_of(tokenizer, text) for text in PROBES]
    left = names(tmp_path / "out")
    assert left == sorted(written["files"]) if form != "transformers" else left == ["x"]


def test_a_models_own_files_are_kept(tmp_path):
    stage.export(artifact(tmp_path, "model", trained("bpe")), "transformers", tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer_config.json").read_bytes() == OWN


def test_notes_are_told(tokens, tmp_path):
    done = CliRunner().invoke(app, ["export", str(tokens), "--to", "vocab-merges", "-o", str(tmp_path / "out")])
    assert "note: " in done.stderr


def test_a_refused_export_leaves_nothing(tokens, tmp_path):
    before = names(tmp_path)
    with pytest.raises(ConfigError, match="WordPiece"):
        stage.export(tokens, "vocab-txt", tmp_path / "vocab.txt")
    with pytest.raises(ConfigError, match="morse"):
        stage.export(tokens, "morse", tmp_path / "x")
    with pytest.raises(ArtifactError, match="wrong kind"):
        stage.export(tokens, "word2vec-text", tmp_path / "x")
    with pytest.raises(ConfigError, match="can be written only to a file"):
        stage.export(tokens, "tiktoken", tmp_path)
    assert names(tmp_path) == before


def test_other_files_are_never_replaced(tokens, tmp_path):
    with pytest.raises(StorageError, match="other files"):
        stage.export(tokens, "transformers", tokens)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="file or link"):
        stage.export(tokens, "transformers", tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="file or link"):
        stage.export(tokens, "vocab-merges", tmp_path / "link")
    assert Tokenizer.from_file(str(tokens / "tokenizer.json"))


def test_a_folder_is_old_or_new_when_the_disk_refuses(tmp_path, monkeypatch):
    atomic_folder(tmp_path / "out", {"a": [b"old"], "b": [b"old"]})
    real, left = os.fsync, []

    def full(fd):
        if not left:
            raise OSError(28, "No space left on device")
        left.pop()
        real(fd)

    monkeypatch.setattr(os, "fsync", full)
    for good in range(3):
        left[:] = ["good"] * good
        with pytest.raises(OSError, match="No space"):
            atomic_folder(tmp_path / "out", {"a": [b"new"], "b": [b"new"]})
        assert {(tmp_path / "out" / name).read_bytes() for name in "ab"} == {b"old"}
        assert names(tmp_path) == ["out"]
    monkeypatch.undo()
    atomic_folder(tmp_path / "out", {"a": [b"new"], "b": [b"new"], "c": []})
    assert names(tmp_path / "out") == ["a", "b", "c"]


def test_without_an_atomic_exchange_the_folder_is_replaced_too(tmp_path, monkeypatch):
    monkeypatch.setattr("wordpipe.artifacts.publish.exchange", lambda one, other: False)
    for content in (b"old", b"new"):
        atomic_folder(tmp_path / "out", {"a": [content]})
    assert (tmp_path / "out" / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


ROWS = 5_000  # more than a batch
VECTORS = np.random.default_rng(1).standard_normal((ROWS, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    said = [f"row {row}\twith a tab\nand a line" for row in range(ROWS)]
    tags = [["a", "b"]] * ROWS
    path = tmp_path_factory.mktemp("made") / "sentences"
    return made_sentences(path, VECTORS, said, year=[2000 + row % 9 for row in range(ROWS)], tags=tags)


def test_npy_is_mapped_as_it_is(sentences, tmp_path):
    for _ in range(2):  # the second time over the first
        written = stage.export(sentences, "npy", tmp_path / "v.npy")
    assert written == {
        "path": str(tmp_path / "v.npy"), "vectors": ROWS, "dim": 6, "bytes": (tmp_path / "v.npy").stat().st_size,
    }  # fmt: skip
    found_ND = np.load(tmp_path / "v.npy", mmap_mode="r", allow_pickle=False)
    np.testing.assert_array_equal(found_ND, VECTORS)


def test_npy_of_words(tmp_path):
    words = made_words(tmp_path / "words", VECTORS[:40], [*range(40, 0, -1)])
    assert stage.export(words, "npy", tmp_path / "w.npy")["vectors"] == 40
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy", allow_pickle=False), VECTORS[:40])


def test_labels_of_the_projector_hold_no_control_characters(tmp_path):
    words = made_words(tmp_path / "words", VECTORS[:2], [2, 1], words=["red\x1b[31m", "a\x9b\u202eb"])
    stage.export(words, "projector", tmp_path / "out")
    assert (tmp_path / "out" / "metadata.tsv").read_text() == "word\tcount\nred\ufffd[31m\t2\na\ufffd\ufffdb\t1\n"


def test_the_projector_gets_a_line_per_row(sentences, tmp_path):
    stage.export(sentences, "projector", tmp_path / "out")
    np.testing.assert_array_equal(
        np.loadtxt(tmp_path / "out" / "vectors.tsv", dtype=np.float32, delimiter="\t"), VECTORS
    )
    head, *lines = (tmp_path / "out" / "metadata.tsv").read_text().split("\n")
    assert head.split("\t") == ["row", "doc_id", "title", "text", "source", "line", "year", "tags"]
    assert len(lines) == ROWS + 1
    assert lines[-1] == ""
    assert lines[7].split("\t") == [
        "7",
        "d2",
        "",
        "row 7 with a tab and a line",
        "notes.txt",
        "8",
        "2007",
        "['a', 'b']",
    ]


@pytest.mark.landing
@pytest.mark.parametrize("form", ["word2vec-text", "word2vec-binary"])
def test_word2vec_has_the_rows_number_for_a_word(form, sentences, tmp_path):
    gensim = pytest.importorskip("gensim.models")
    stage.export(sentences, form, tmp_path / "v")
    found = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "v"), binary=form.endswith("binary"))
    assert found.index_to_key == [str(row) for row in range(ROWS)]
    np.testing.assert_array_equal(found.vectors, VECTORS)


def test_the_screen_says_how_many(sentences, tmp_path):
    done = CliRunner().invoke(app, ["export", str(sentences), "--to", "npy", "-o", str(tmp_path / "v.npy")])
    assert done.exit_code == 0
    assert "5,000 vectors of 6 dimensions" in done.stderr


def test_what_cannot_be_is_refused(sentences, tmp_path):
    with pytest.raises(ConfigError, match="can be written only to a file"):
        stage.export(sentences, "npy", tmp_path)
    with pytest.raises(ConfigError, match="of kind sentences cannot be exported in this format"):
        stage.export(sentences, "glove", tmp_path / "x")
    assert not (tmp_path / "x").exists()
