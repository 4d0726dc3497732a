"""`embed --update`: what of the earlier vectors is taken over, and whether the bytes are those of a fresh run."""

import json
import random

import numpy as np
import pytest

import wordpipe
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, tables
from wordpipe.encoders import WordEncoder, static_files, word_tokenizer
from wordpipe.engines import options
from wordpipe.model.settings import FillSettings
from wordpipe.stages import open_job
from wordpipe.stages.encode import embed_shards

WORDS = ["bread", "water", "bridge", "boat", "bees", "stone", "the", "a", "of", "and", "sea", "light", "salt"]


@pytest.fixture
def texts():
    """Texts of a few words, all different; together more words than are added up without compiled code."""
    rng = random.Random(1)
    return [*dict.fromkeys(" ".join(rng.choices(WORDS, k=rng.randint(7, 14))) for _ in range(600))]


@pytest.fixture
def static(tmp_path):
    """A static model of random rows."""
    rows = np.random.default_rng(0).standard_normal((len(WORDS) + 1, 16)).astype(np.float32)
    with open_job("model", tmp_path / "static", FillSettings(), None) as job:
        for name, data in static_files(rows, word_tokenizer(WORDS)).items():
            job.write(name, data)
        job.facts |= {"encoder": "static", "pooling": "mean", "dim": 16}
    return tmp_path / "static"


def corpus_of(folder, texts):
    """A corpus of these documents."""
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    wordpipe.ingest(folder / "c.jsonl", output=folder / "c", deduplicate=False, valid=0.0)
    return folder / "c"


def embedded(encoder, folder, name="s", *, fresh=False, **settings):
    """The artifact's counts, its manifest and the notes that were said."""
    notes = []
    run = RunOptions(report=lambda progress: notes.append(progress.note or ""), fresh=fresh)
    settings = {"update": True, "threads": 1, "device": "cpu", "transform": "none"} | settings
    made = wordpipe.embed(encoder, folder / "c", output=folder / name, run=run, **settings)
    with Artifact(folder / name) as artifact:
        return made.counts, artifact.manifest, "\n".join(notes)


# ---- bytes


@pytest.mark.parametrize("kind", ["static", "words"])
def test_an_update_has_a_fresh_runs_bytes_and_does_not_claim_them(built, tmp_path, texts, static, kind):
    encoder = static if kind == "static" else built / "words"
    corpus_of(tmp_path, texts[:-60])
    embedded(encoder, tmp_path)
    corpus_of(tmp_path, texts)
    counts, updated, _ = embedded(encoder, tmp_path)
    assert (counts["texts_embedded"], counts["units_reused"]) == (60, len(texts) - 60)
    _, fresh, _ = embedded(encoder, tmp_path, "fresh", update=False)
    assert (updated.digest, updated.bitwise, fresh.bitwise) == (fresh.digest, False, True)


def test_a_transformer_claims_no_bytes_for_texts_that_were_encoded_with_others(built, tmp_path, texts):
    corpus_of(tmp_path, texts[:20])
    assert embedded(built / "model", tmp_path)[1].bitwise
    corpus_of(tmp_path, texts[:24])
    counts, updated, _ = embedded(built / "model", tmp_path)
    assert (counts["units_reused"], updated.bitwise) == (20, False)


def test_a_run_on_other_threads_goes_on_to_the_same_bytes(built, tmp_path, texts, monkeypatch):
    corpus_of(tmp_path, texts)
    monkeypatch.setattr(tables, "BATCH_ROWS", 100)
    monkeypatch.setitem(embed_shards.LEAST_UNITS, "words", 100)
    plain, chunks = embed_shards.figures_of, []

    def dying(chunk):
        chunks.append(chunk)
        if len(chunks) == 3:
            raise KeyboardInterrupt
        return plain(chunk)

    monkeypatch.setattr(embed_shards, "figures_of", dying)
    monkeypatch.setattr(options, "cpu_count", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        embedded(built / "words", tmp_path, threads=0)
    monkeypatch.setattr(options, "cpu_count", lambda: 2)
    _, made, notes = embedded(built / "words", tmp_path, threads=0)
    assert "continuing a stopped run" in notes
    assert made.digest == embedded(built / "words", tmp_path, "whole", threads=0)[1].digest


# ---- what is not taken over


def test_vectors_of_another_device_are_not_taken_over(built, tmp_path, texts, monkeypatch):
    corpus_of(tmp_path, texts)
    embedded(built / "words", tmp_path)
    monkeypatch.setattr(WordEncoder, "device", "cuda", raising=False)
    counts, updated, notes = embedded(built / "words", tmp_path)
    assert "s was made with other settings (device), so all texts are embedded again" in notes
    assert (counts["texts_embedded"], updated.device) == (len(texts), "cuda")
    assert "units_reused" not in counts


def test_fresh_takes_nothing_over(built, tmp_path, texts):
    corpus_of(tmp_path, texts)
    embedded(built / "words", tmp_path)
    counts, _, _ = embedded(built / "words", tmp_path, fresh=True)
    assert counts["texts_embedded"] == len(texts)
    assert "units_reused" not in counts


@pytest.mark.parametrize("flags", [[], ["--fresh"]])
def test_a_damaged_artifact_is_made_anew(built, tmp_path, texts, cli, flags):
    corpus_of(tmp_path, texts)
    embedded(built / "words", tmp_path)
    (tmp_path / "s" / "sentences-00000.parquet").write_bytes(b"damaged")
    result = cli("embed", built / "words", tmp_path / "c", "-o", tmp_path / "s", "--update", *flags)
    assert result.code == 0, result.err
    assert ("cannot be used (wrong size), so all texts are embedded" in result.err) == (not flags)
    assert wordpipe.verify(tmp_path / "s")["ok"]


def test_an_artifact_that_does_not_say_which_encoder_made_it_lends_nothing(built, tmp_path, texts):
    corpus_of(tmp_path, texts)
    embedded(built / "words", tmp_path)
    with Artifact(tmp_path / "s") as made, open_job("sentences", tmp_path / "o", FillSettings(), None) as job:
        for name in made.names():
            job.write(name, made.read(name))
        job.facts |= {name: fact for name, fact in made.manifest.facts.items() if name != "encoder"}
    counts, _, notes = embedded(built / "words", tmp_path, "o")
    assert "o was made with other settings (encoder, " in notes
    assert counts["texts_embedded"] == len(texts)


def test_an_encoder_described_otherwise_is_another_encoder(built, tmp_path, texts):
    corpus_of(tmp_path, texts)
    embedded(built / "words", tmp_path)
    with Artifact(tmp_path / "s") as made, open_job("sentences", tmp_path / "o", FillSettings(), None) as job:
        for name in made.names():
            job.write(name, made.read(name))
        job.facts |= {**made.manifest.facts, "encoder": {"name": "of another maker"}}
    _, _, notes = embedded(built / "words", tmp_path, "o")
    assert "o was made with other settings (encoder, " in notes
