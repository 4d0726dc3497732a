"""`wordpipe import`: what is exported comes back, what others write comes in, and everything takes what came in."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard

import wordpipe
from tests.conftest import TINY
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, Manifest, atomic_folder, matrix_of, read_batches
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.pipeline import Pipeline

LINES = b"the 0.5 1 0\ncat 1 0.25 0\nDog 1 0.5 0.125\nfish -1 2 0.5\n"


def vectors_of(artifact):
    with Artifact(artifact) as opened:
        return np.concatenate(
            [matrix_of(batch.column("vector")) for batch in read_batches(opened, "words", ["vector"])]
        )


def rows_of(artifact):
    table = pq.read_table(sorted(artifact.glob("words-*.parquet")))
    vectors = vectors_of(artifact)
    return table["word"].to_pylist(), table["count"].to_pylist(), vectors.view(np.uint32)


def facts_of(artifact):
    return Manifest.from_bytes((artifact / "manifest.json").read_bytes(), where="m").facts


@pytest.fixture
def imported(tmp_path):
    (tmp_path / "small.txt").write_bytes(LINES)
    wordpipe.import_words(tmp_path / "small.txt", output=tmp_path / "words")
    return tmp_path / "words"


@pytest.mark.parametrize("form", ["word2vec-text", "word2vec-binary", "glove", "numpy"])
def test_an_export_comes_back_bit_for_bit(form, built, tmp_path, cli):
    assert cli("export", built / "words", "--to", form, "-o", tmp_path / "out", "-q").code == 0
    result = cli("import", tmp_path / "out", "-o", tmp_path / "words", "--json")
    assert result.code == 0, result.err
    words, counts, vectors = rows_of(built / "words")
    found = rows_of(tmp_path / "words")
    assert found[0] == words
    assert found[1] == (counts if form == "numpy" else [0] * len(words))
    np.testing.assert_array_equal(found[2], vectors)
    made = json.loads(result.out)
    assert (made["kind"], made["counts"]["words"]) == ("words", len(words))
    facts = facts_of(tmp_path / "words")
    assert (facts["format"], facts["counts"]) == (form, "known" if form == "numpy" else "unknown")
    asked = [cli("query", folder, "the", "--json").out.splitlines() for folder in (built / "words", tmp_path / "words")]
    ours, theirs = ([json.loads(line) for line in lines] for lines in asked)
    assert [(hit["word"], hit["score"]) for hit in ours] == [(hit["word"], hit["score"]) for hit in theirs]
    assert all(("count" in hit) == (form == "numpy") for hit in theirs)


@pytest.mark.landing
def test_neighbours_are_gensims(tmp_path, built):
    models = pytest.importorskip("gensim.models")

    wordpipe.export(built / "words", "glove", tmp_path / "v.txt")
    wordpipe.import_words(tmp_path / "v.txt", output=tmp_path / "words")
    wordpipe.export(tmp_path / "words", "word2vec-binary", tmp_path / "v.bin")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    with wordpipe.open(tmp_path / "words") as words:
        for word in theirs.index_to_key[:20]:
            found, expected = words.query(word, k=5), theirs.most_similar(word, topn=5)
            assert [hit["score"] for hit in found] == pytest.approx([score for _, score in expected], abs=1e-5)


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress, bytes]
)
def test_compressed_files(pack, tmp_path):
    (tmp_path / "v").write_bytes(pack(LINES))
    made = wordpipe.import_words(tmp_path / "v", output=tmp_path / "words")
    words, counts, vectors = rows_of(tmp_path / "words")
    assert (words, counts, made.counts["words"]) == (["the", "cat", "Dog", "fish"], [0] * 4, 4)
    assert vectors.view(np.float32).tolist() == [[0.5, 1, 0], [1, 0.25, 0], [1, 0.5, 0.125], [-1, 2, 0.5]]
    assert facts_of(tmp_path / "words")["keep_case"] is True


def test_what_is_left_out_is_counted_and_reported(tmp_path, cli):
    (tmp_path / "v.vec").write_bytes(b"6 1\n<pad> 0 \nthe 1 \nThe 2 \nthe 3 \nb\xff 4 \nx 5 \n")
    result = cli("import", tmp_path / "v.vec", "-o", tmp_path / "words", "--bad-bytes", "skip", "--limit", "5")
    assert result.code == 0, result.err
    assert rows_of(tmp_path / "words")[0] == ["the", "The"]
    manifest = Manifest.from_bytes((tmp_path / "words" / "manifest.json").read_bytes(), where="m")
    assert manifest.counts == {"words": 2, "dropped_repeated": 1, "dropped_bad_bytes": 1, "dropped_zero": 1}
    assert len(manifest.warnings) == 3
    assert result.err.count("warning: ") == 3


def test_bad_files_leave_nothing(tmp_path, cli, imported):
    (tmp_path / "bad.txt").write_bytes(b"a 1 2\nb 1\n")
    (tmp_path / "short.gz").write_bytes(gzip.compress(LINES)[:-9])
    (tmp_path / "model.kv").write_bytes(b"\x80\x05\x95more")
    before = sorted(path.name for path in tmp_path.iterdir())
    for name, code, what in (
        ("bad.txt", 3, "bad.txt, line 2"),
        ("short.gz", 3, "is incomplete"),
        ("model.kv", 3, "wv.save_word2vec_format("),
        ("none.txt", 3, "the file or folder does not exist"),
        (".", 3, "neither word vectors nor a text encoder"),
        ("words", 4, "already an artifact"),
    ):
        result = cli("import", tmp_path / name, "-o", tmp_path / "out")
        assert result.code == code, result.err
        assert what in result.err
        assert "Traceback" not in result.err
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")) == [
        name for name in before if not name.endswith(".lock")
    ]


def test_a_format_that_does_not_go_with_it(tmp_path, imported):
    with pytest.raises(ConfigError, match="is a folder"):
        wordpipe.import_words(tmp_path / "small.txt", output=tmp_path / "w", format="numpy")
    wordpipe.export(imported, "numpy", tmp_path / "np")
    with pytest.raises(ConfigError, match="is a single file"):
        wordpipe.import_words(tmp_path / "np", output=tmp_path / "w", format="glove")
    with pytest.raises(ConfigError, match="--tokenizer"):
        wordpipe.import_words(tmp_path / "small.txt", output=tmp_path / "w", unit="token")


def test_counts_of_a_folder_are_kept(tmp_path):
    (tmp_path / "np").mkdir()
    np.save(tmp_path / "np" / "vectors.npy", np.ones((2, 2), np.float16))
    np.save(tmp_path / "np" / "counts.npy", np.array([1, 5], np.uint8))
    (tmp_path / "np" / "words.txt").write_text("a\nb\n")
    wordpipe.import_words(tmp_path / "np", output=tmp_path / "words")
    assert rows_of(tmp_path / "words")[:2] == (["a", "b"], [1, 5])


def test_show_verify_and_index_take_it(imported, tmp_path, cli):
    shown = cli("show", imported, "--rows", 2)
    assert shown.code == 0
    assert "wordpipe import" in shown.out
    assert "unknown" in shown.out
    assert cli("verify", imported).code == 0
    assert cli("show", imported, "--text", "the cat").code == 4  # no tokenizer
    wordpipe.index(imported, output=tmp_path / "index")
    with wordpipe.open(tmp_path / "index") as index:
        hits = index.query("cat", k=2)
    assert hits[0]["word"] == "Dog"
    assert "count" not in hits[0]


def test_embed_splits_by_the_pattern_and_weighs_by_rank(imported, tmp_path, cli):
    (tmp_path / "text.txt").write_text("the cat.\n\nDog, the fish!\n")
    result = cli(
        "embed",
        imported,
        tmp_path / "text.txt",
        "-o",
        tmp_path / "s",
        "--transform",
        "none",
        "--sif-a",
        "0.5",
        "--store",
        "float32",
    )
    assert result.code == 0, result.err
    assert "Zipf" in result.err
    table = pq.read_table(sorted((tmp_path / "s").glob("sentences-*.parquet")))
    share = 1 / np.arange(1, 5)
    weights = 0.5 / (0.5 + share / share.sum())
    vectors = rows_of(imported)[2].view(np.float32)
    expected = np.array([weights[[0, 1]] @ vectors[[0, 1]], weights[[2, 0, 3]] @ vectors[[2, 0, 3]]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(np.array(table["vector"].to_pylist()), expected, atol=1e-6)
    wordpipe.index(tmp_path / "s", output=tmp_path / "i")
    with wordpipe.open(tmp_path / "i") as index:
        assert index.query("the cat", k=1)[0]["score"] == pytest.approx(1, abs=1e-5)
    quiet = cli("embed", imported, tmp_path / "text.txt", "-o", tmp_path / "s", "--pooling", "mean")
    assert "Zipf" not in quiet.err


def test_vectors_of_tokens_initialise_a_model(built, tmp_path, imported):
    wordpipe.train_word2vec(built / "tokens", output=tmp_path / "t", unit="token", dim=32, epochs=1, threads=1)
    wordpipe.export(tmp_path / "t", "word2vec-text", tmp_path / "t.txt")
    wordpipe.import_words(tmp_path / "t.txt", output=tmp_path / "back", unit="token", tokenizer=built / "tokens")
    assert (tmp_path / "back" / "tokenizer.json").read_bytes() == (built / "tokens" / "tokenizer.json").read_bytes()
    start = {"steps": 1, "init_embeddings": tmp_path / "back", **TINY}
    made = wordpipe.train_mlm(built / "tokens", output=tmp_path / "m", **start)
    assert made.counts["embeddings_from_words"] > 100
    with pytest.raises(ArtifactError, match="token vectors are needed"):
        wordpipe.train_mlm(built / "tokens", output=tmp_path / "m", **{**start, "init_embeddings": imported})


def test_a_pipeline_imports_what_changed(tmp_path):
    (tmp_path / "v.txt").write_bytes(LINES)
    config = tmp_path / "p.toml"
    config.write_text(
        '[stage.words]\ncommand = "import"\ninputs = ["v.txt"]\n[stage.index]\ncommand = "index"\ninputs = ["words"]\n'
    )

    def made():
        return [state.stage.name for state, made in Pipeline(config).run(RunOptions()) if made is not None]

    assert made() == ["words", "index"]
    assert made() == []
    (tmp_path / "v.txt").write_bytes(LINES + b"sea 1 1 1\n")
    assert [state.reasons for state in Pipeline(config).states()] == [("input v.txt changed",), ("words will be made",)]
    config.write_text(config.read_text().replace('"v.txt"]', '"v.txt"]\nlimit = 2'))
    assert made() == ["words", "index"]
    (tmp_path / "v.txt").unlink()
    with pytest.raises(InputError, match=r"\[stage.words\] v.txt: the file does not exist"):
        Pipeline(config).states()


def test_an_export_has_the_same_bytes_whatever_the_batches(built, tmp_path, monkeypatch):
    for form in ("word2vec-text", "word2vec-binary", "glove", "numpy", "projector"):
        wordpipe.export(built / "words", form, tmp_path / form)
        with monkeypatch.context() as patch:
            patch.setattr("wordpipe.artifacts.tables.BATCH_ROWS", 7)
            wordpipe.export(built / "words", form, tmp_path / "again")
        one, other = ({p.name: p.read_bytes() for p in _files(tmp_path / name)} for name in (form, "again"))
        assert list(one.values()) == list(other.values())
        for path in _files(tmp_path / "again"):
            path.unlink()
        if (tmp_path / "again").is_dir():
            (tmp_path / "again").rmdir()


def _files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def test_a_word_that_cannot_be_written_leaves_the_old_file(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"the 1 2\n. . . 1 2\n")
    wordpipe.import_words(tmp_path / "v.txt", output=tmp_path / "words")
    (tmp_path / "out.bin").write_bytes(b"old")
    with pytest.raises(InputError, match="row 1"):
        wordpipe.export(tmp_path / "words", "word2vec-binary", tmp_path / "out.bin")
    assert (tmp_path / "out.bin").read_bytes() == b"old"
    wordpipe.export(tmp_path / "words", "glove", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == b"the 1 2\n. . . 1 2\n"


def test_a_folder_is_old_or_new(tmp_path, monkeypatch):
    atomic_folder(tmp_path / "out", {"a": [b"old", b"er"], "b": []}, may_replace={"a", "b"})

    def broken():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        atomic_folder(tmp_path / "out", {"a": [b"new"], "b": broken()}, may_replace={"a", "b"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {"a": b"older", "b": b""}
    monkeypatch.setattr("wordpipe.artifacts.publish.exchange", lambda one, other: False)
    assert atomic_folder(tmp_path / "out", {"a": [b"new"]}, may_replace={"a", "b"}) == {"a": 3}
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {"a": b"new"}
    with pytest.raises(wordpipe.WordpipeError, match="other files"):
        atomic_folder(tmp_path / "out", {"c": []}, may_replace={"c"})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
