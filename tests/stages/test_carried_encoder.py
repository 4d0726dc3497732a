"""`embed` with the encoder that an index carries: the vectors and files of the encoder itself, and what is refused."""

import json

import numpy as np
import pytest

import wordpipe
from wordpipe.artifacts import ENCODER, Artifact, matrix_of
from wordpipe.errors import ConfigError

WORDS = ["bread", "water", "bridge", "boat", "bees", "stone", "the", "a", "of", "and", "sea", "light", "salt", "tide"]
EXACT = {"store": "float32", "device": "cpu", "threads": 1}


def corpus_of(path, count, seed=0):
    """A corpus of short texts of known words."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 12))) for _ in range(count)]
    path.with_suffix(".jsonl").write_text("".join(json.dumps({"text": one, "title": "Salt"}) + "\n" for one in texts))
    wordpipe.ingest(path.with_suffix(".jsonl"), output=path, deduplicate=False, valid=0.0)
    return path


def facts_of(folder):
    """The parts of an artifact by which its vectors are compared with those of another."""
    with Artifact(folder) as artifact:
        files = {one.path: one.blake3 for one in artifact.manifest.outputs if one.path.startswith(ENCODER)}
        return artifact.manifest.facts, files


def vectors_of(folder):
    with wordpipe.open(folder, "sentences") as sentences:
        return matrix_of(sentences.batches().read_all().column("vector").combine_chunks())


@pytest.fixture
def carried(tmp_path, trained):
    """Gives an encoder, an index of old texts that carries it, and a corpus of new texts."""

    def of(name, **settings):
        encoder = trained(name)
        old = corpus_of(tmp_path / "old", 80, seed=1)
        wordpipe.embed(encoder, old, output=tmp_path / "s", **EXACT | settings)
        wordpipe.index(tmp_path / "s", output=tmp_path / "index", threads=1)
        return encoder, tmp_path / "index", corpus_of(tmp_path / "new", 40, seed=2)

    return of


KINDS = {
    "words": {"unit": "document"},
    "static": {"unit": "window", "window": 5, "overlap": 1},
    "model": {"pooling": "max"},
    "contrastive": {"with_title": False, "unit": "document"},
}


@pytest.mark.parametrize("name", KINDS)
def test_the_vectors_are_those_of_the_encoder_itself_to_the_bit(carried, tmp_path, name):
    encoder, index, new = carried(name, transform="none", **KINDS[name])
    wordpipe.embed(encoder, new, output=tmp_path / "itself", transform="none", **EXACT | KINDS[name])
    wordpipe.embed(index, new, output=tmp_path / "by-index", **EXACT)
    with Artifact(tmp_path / "itself") as itself, Artifact(tmp_path / "by-index") as by_index:
        assert by_index.manifest.digest == itself.manifest.digest  # of rows, vectors and the encoder's files
        same = dict(itself.manifest.facts), dict(by_index.manifest.facts)
        assert same[0] == same[1]
        assert by_index.manifest.settings == itself.manifest.settings
        assert [one.kind for one in by_index.manifest.inputs] == ["index", "corpus"]


def test_a_word_outside_the_table_has_the_vector_of_its_letters(tmp_path, built):
    wordpipe.train_word2vec(built / "tokens", output=tmp_path / "words", dim=8, epochs=1, max_n=4, threads=1)
    wordpipe.embed(tmp_path / "words", built / "corpus", output=tmp_path / "s", **EXACT)
    wordpipe.index(tmp_path / "s", output=tmp_path / "index", threads=1)
    (tmp_path / "new.txt").write_text("Lighthousekeepersship.")
    for name in ("words", "index"):
        wordpipe.embed(tmp_path / name, tmp_path / "new.txt", output=tmp_path / f"by-{name}", transform="none", **EXACT)
    assert vectors_of(tmp_path / "by-index").any()
    assert np.array_equal(vectors_of(tmp_path / "by-index"), vectors_of(tmp_path / "by-words"))


@pytest.mark.parametrize("transform", ["whiten", "centre", "remove-components"])
def test_the_transform_is_that_of_the_index_and_never_fitted_on_the_new_texts(carried, tmp_path, transform):
    encoder, index, new = carried("words", transform=transform)
    before, files = facts_of(index)
    old = wordpipe.embed(index, tmp_path / "old", output=tmp_path / "again", **EXACT)
    with Artifact(tmp_path / "s") as first:
        assert old.digest == first.manifest.digest  # to the bit those that the transform was fitted on
    wordpipe.embed(index, new, output=tmp_path / "n", **EXACT)
    facts, own = facts_of(tmp_path / "n")
    assert own == files
    assert (facts["transform"], facts["encoder"], facts["fit"]) == (transform, before["encoder"], before["fit"])
    # a slow twin: each text alone, by the encoder of a query
    with wordpipe.open(index) as opened, wordpipe.open(tmp_path / "n", "sentences") as new_rows:
        texts = new_rows.batches().read_all().column("text").to_pylist()
        alone = np.concatenate([opened.encoder.encode([text]).vectors for text in texts])
    assert np.abs(vectors_of(tmp_path / "n") - alone).max() < 1e-4  # whitening makes rounding errors larger
    # far from what a fit on the new texts would give
    wordpipe.embed(encoder, new, output=tmp_path / "fitted", transform=transform, **EXACT)
    assert np.abs(vectors_of(tmp_path / "fitted") - alone).max() > 0.01


def test_the_encoders_files_lie_on_the_disk_once(carried, tmp_path):
    _, index, new = carried("words")
    wordpipe.embed(index, new, output=tmp_path / "n")
    name = f"{ENCODER}words.parquet"
    assert (tmp_path / "n" / name).stat().st_ino == (index / name).stat().st_ino


@pytest.mark.parametrize("transform", ["none", "whiten"])
def test_an_index_is_brought_up_to_date_without_the_words_that_made_it(carried, tmp_path, transform):
    _, index, _ = carried("words", transform=transform)
    texts = (tmp_path / "old.jsonl").read_text() + (tmp_path / "new.jsonl").read_text()
    (tmp_path / "old.jsonl").write_text(texts)
    wordpipe.ingest(tmp_path / "old.jsonl", output=tmp_path / "old", deduplicate=False, valid=0.0)
    made = wordpipe.embed(index, tmp_path / "old", output=tmp_path / "s", update=True)
    assert (made.counts["units_reused"], made.counts["units_gone"]) == (
        80,
        0,
    )  # half as many again are no reason to fit anew
    counts = wordpipe.index(tmp_path / "s", output=index, update=True).counts
    assert (counts["kept"], counts["added"], counts["removed"]) == (80, 40, 0)
    # and the encoder itself goes on from there
    assert wordpipe.verify(index)["ok"]


def test_a_transform_that_was_fitted_anew_is_not_mixed_with_that_of_the_index(carried, tmp_path):
    encoder, index, new = carried("words", transform="whiten")
    wordpipe.embed(encoder, new, output=tmp_path / "s", transform="whiten", **EXACT)
    made = wordpipe.embed(index, new, output=tmp_path / "s", update=True, **EXACT)
    assert "units_reused" not in made.counts
    wordpipe.embed(index, new, output=tmp_path / "fresh", **EXACT)
    assert np.array_equal(vectors_of(tmp_path / "s"), vectors_of(tmp_path / "fresh"))


# ---- what is refused


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("pooling", "mean"),
        ("transform", "whiten"),
        ("unit", "sentence"),
        ("window", 7),
        ("sif_a", 0.5),
        ("with_title", False),
    ],
)
def test_a_setting_that_the_encoder_does_not_have_is_refused(carried, tmp_path, setting, value):
    _, index, new = carried("words", unit="document")
    with pytest.raises(
        ConfigError, match=f"{setting}.*the encoder of the index was made with another value; got {value}"
    ):
        wordpipe.embed(index, new, output=tmp_path / "n", **{setting: value})
    assert not (tmp_path / "n").exists()


def test_what_the_encoder_has_may_be_said_and_the_machine_is_free(carried, tmp_path):
    _, index, new = carried("words", unit="document")
    said = {
        "unit": "document",
        "pooling": "sif",
        "transform": "none",
        "store": "float16",
        "threads": 2,
        "batch_tokens": 99,
    }
    made = wordpipe.embed(index, new, output=tmp_path / "n", **said)
    with Artifact(made) as artifact:
        assert artifact.manifest.settings | said == artifact.manifest.settings | {"pooling": "sif", "transform": "none"}
    wordpipe.embed(index, new, output=tmp_path / "auto", pooling="auto", transform="auto")


def test_an_index_without_an_encoder_is_refused_with_the_next_step(cli, tmp_path, built, trained):
    wordpipe.index(built / "corpus", output=tmp_path / "lexical")
    found = cli("embed", tmp_path / "lexical", built / "corpus", "-o", tmp_path / "n")
    assert found.code == 4
    assert "the index does not contain a text encoder; got an index of words alone" in " ".join(found.err.split())
    assert "hint: give a model or words, or an index of embedded texts" in " ".join(found.err.split())
    found = cli("embed", trained("word-index"), built / "corpus", "-o", tmp_path / "n")
    assert "hint: give the words that the index was made of" in " ".join(found.err.split())
    assert not (tmp_path / "n").exists()


def test_on_the_command_line_an_option_is_named(cli, carried, tmp_path):
    _, index, _ = carried("words")
    (tmp_path / "new.txt").write_text("The tide and the boat. Bread of salt.")
    assert cli("embed", index, tmp_path / "new.txt", "-o", tmp_path / "n").code == 0
    found = cli("embed", index, tmp_path / "new.txt", "-o", tmp_path / "n", "--unit", "window")
    assert found.code == 2
    assert "unit: the encoder of the index was made with another value" in found.err
    assert "got window; expected sentence" in " ".join(found.err.split())


# ---- in a pipeline


CONFIG = """
[stage.sentences]
command = "embed"
inputs = ["old-index", "texts.jsonl"]
{more}

[stage.index]
command = "index"
inputs = ["sentences"]
"""


def test_a_stage_whose_settings_the_index_decides_is_fresh_once_made(carried, tmp_path, monkeypatch):
    _, index, _ = carried("words", unit="document")
    home = tmp_path / "home"
    home.mkdir()
    index.rename(home / "old-index")
    (home / "texts.jsonl").write_text((tmp_path / "new.jsonl").read_text())
    (home / "wordpipe.toml").write_text(CONFIG.format(more=""))
    monkeypatch.chdir(home)
    assert [one.path for one in wordpipe.run()] == ["run/sentences", "run/index"]
    assert wordpipe.run() == []
    (home / "texts.jsonl").write_text((tmp_path / "old.jsonl").read_text())
    reasons = wordpipe.status()[0].reasons
    assert len(reasons) == 1
    assert reasons[0].startswith("input")
    (home / "wordpipe.toml").write_text(CONFIG.format(more='store = "float32"'))
    assert "sentences.store int8 → float32" in wordpipe.status()[0].reasons
    (home / "wordpipe.toml").write_text(CONFIG.format(more='unit = "window"'))
    with pytest.raises(ConfigError, match="the encoder of the index was made with another value"):
        wordpipe.run()
