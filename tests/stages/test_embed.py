"""`embed`: every text embedded once, a killed run continued, what has not changed taken over, and hostile texts."""

import json
import random
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import wordpipe
from tests.support.made_vectors import made_words
from tests.support.variants import some_of
from wordpipe import RunOptions
from wordpipe.artifacts import Artifact, tables
from wordpipe.encoders import EncodedBatch, encode_corpus
from wordpipe.encoders.settings import EmbedSettings
from wordpipe.errors import ConfigError, DamageError, DivergedError
from wordpipe.runtime import Progress, Stopped
from wordpipe.stages import open_encoder
from wordpipe.stages.encode import embed as stage
from wordpipe.stages.encode import embed_shards

SAID = ["the bread", "bees and water", "a bridge of stone", "the boat is late"]


def write_lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "title": f"T{len(text)}"}) + "\n" for text in texts))
    return path


def corpus_of(path: Path, texts: list[str]) -> Path:
    """A corpus of these documents."""
    source = write_lines(path.with_suffix(".jsonl"), texts)
    wordpipe.ingest(source, output=path, deduplicate=False, valid=0.0)
    return path


def rows_of(folder: Path) -> list[dict]:
    with wordpipe.open(folder, "sentences") as sentences:
        return sentences.batches().read_all().to_pylist()


@pytest.fixture
def texts():
    """Two hundred documents of a few words, some the same."""
    rng = random.Random(1)
    words = ["bread", "water", "bridge", "boat", "bees", "stone", "the", "a", "of", "and", "sea", "light"]
    return [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(200)]


@pytest.fixture
def encoded(monkeypatch):
    """The texts that are encoded from now on, ten at a time, in shards of ten units."""
    seen: list[str] = []
    monkeypatch.setattr(encode_corpus, "_CHUNK", 10)
    monkeypatch.setattr(tables, "BATCH_ROWS", 10)
    monkeypatch.setitem(embed_shards.LEAST_UNITS, "words", 10)

    def opened(origin, settings):
        encoder = open_encoder(origin, settings)
        plain = encoder.encode

        def noting(some, watch=None):
            seen.extend(some)
            return plain(some, watch)

        monkeypatch.setattr(encoder, "encode", noting, raising=False)
        return encoder

    monkeypatch.setattr(stage, "open_encoder", opened)
    return seen


def test_the_files_of_the_encoder_lie_on_the_disk_once(trained, built, tmp_path):
    encoder = tmp_path / "e"
    shutil.copytree(trained("static"), encoder)
    wordpipe.embed(encoder, built / "corpus", output=tmp_path / "s")
    wordpipe.index(tmp_path / "s", output=tmp_path / "i")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (encoder / name).samefile(tmp_path / "i" / "encoder" / name)
    # nothing of ours writes into a finished file; where something else does, every artifact that has the file says so
    with (tmp_path / "s" / "encoder" / "model.safetensors").open("r+b") as file:
        file.write(b"damaged!")
    for name in "esi":
        with pytest.raises(DamageError, match="has changed"):
            wordpipe.verify(tmp_path / name)


@pytest.mark.parametrize(("store", "off"), [("float32", 1e-6), ("float16", 2**-11), ("int8", 1 / 127)])
def test_the_vectors_are_the_encoders(built, tmp_path, texts, encoded, store, off):
    made = wordpipe.embed(built / "words", corpus_of(tmp_path / "c", texts), output=tmp_path / "s", store=store)
    assert sorted(encoded) == sorted({*texts})
    assert made.counts["texts_embedded"] + made.counts["texts_repeated"] == made.counts["units"] == 200
    with Artifact(built / "words") as origin:
        encoder = open_encoder(origin, EmbedSettings())
        for row in rows_of(tmp_path / "s"):
            assert np.allclose(row["vector"], encoder.encode([row["text"]]).vectors[0], atol=off)


def test_the_transform_is_fitted_on_each_text_once(built, tmp_path, texts):
    corpus = corpus_of(tmp_path / "c", [*texts, *[texts[0]] * 50])
    wordpipe.embed(built / "words", corpus, output=tmp_path / "raw", store="float32")
    wordpipe.embed(built / "words", corpus, output=tmp_path / "s", transform="centre", store="float32")
    raw = np.array([row["vector"] for row in rows_of(tmp_path / "raw")])
    _, first = np.unique([row["text"] for row in rows_of(tmp_path / "raw")], return_index=True)
    centred = raw - raw[first].mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    assert np.allclose([row["vector"] for row in rows_of(tmp_path / "s")], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("unit", "stop"),
    some_of(["sentence", "document", "window"], [KeyboardInterrupt, partial(Stopped, signal.SIGTERM)], together=1),
)
def test_what_a_stopped_run_embedded_is_not_embedded_again(built, tmp_path, texts, encoded, monkeypatch, unit, stop):
    corpus = corpus_of(tmp_path / "c", texts)
    settings = {"unit": unit, "transform": "centre", "threads": 1}  # shard after shard
    whole = wordpipe.embed(built / "words", corpus, output=tmp_path / "whole", **settings)
    alone = encoded[:]
    encoded.clear()
    plain, stops = embed_shards.figures_of, [stop]

    def dying(batch: EncodedBatch):
        if stops and len([*(tmp_path / ".s.partial").glob("*.f32.json")]) == 3:
            raise stops.pop()()
        return plain(batch)

    monkeypatch.setattr(embed_shards, "figures_of", dying)
    with pytest.raises((KeyboardInterrupt, Stopped)) as caught:
        wordpipe.embed(built / "words", corpus, output=tmp_path / "s", **settings)
    assert getattr(caught.value, "saved", None) in (None, "what is saved")
    assert not (tmp_path / "s").exists()
    before = len(encoded)
    told: list[Progress] = []
    made = wordpipe.embed(
        built / "words", corpus, output=tmp_path / "s", run=RunOptions(report=told.append), **settings
    )
    again = encoded[before:]  # the shard that was lost, and those after it
    assert alone == encoded[: len(alone) - len(again)] + again
    assert 0 < before - (len(alone) - len(again)) <= 10
    kept = f"continuing a stopped run: {len(alone) - len(again)} of {len(alone)} texts are already embedded"
    assert kept in [one.note for one in told]
    assert (made.digest, made.counts) == (whole.digest, whole.counts)
    assert not (tmp_path / ".s.partial").exists()


def test_fresh_embeds_all_again(built, tmp_path, texts, cli):
    args = ["embed", built / "words", corpus_of(tmp_path / "c", texts), "-o", tmp_path / "s", "--fresh", "--json"]
    (tmp_path / ".s.partial").mkdir()
    (tmp_path / ".s.partial" / "vectors-00000.f32").write_bytes(b"of another run")
    assert json.loads(cli(*args).out)["counts"]["sentences"] == 200


def embedding(*arguments: object, **settings: object) -> tuple[str, ...]:
    """What the nursery starts: `embed` in shards of a thousand units."""
    return ("tests.support.small_shards:embed", *map(str, arguments), json.dumps({"threads": 1} | settings))


@pytest.mark.landing
def test_a_killed_run_goes_on_to_the_same_bytes(built, nursery, tmp_path):
    corpus = corpus_of(tmp_path / "c", [f"{SAID[n % 4]} {n} bread {n % 7} water" for n in range(5000)])
    call = embedding(built / "words", corpus, tmp_path / "s")
    killed = nursery.start(*call, WORDPIPE_FAILPOINT="resume_cache.file_finished:kill")
    assert killed.wait() == -signal.SIGKILL
    assert [path.name for path in (tmp_path / ".s.partial").glob("*.f32")] == ["vectors-00000.f32"]
    assert nursery.start(*call).wait() == 0
    whole = wordpipe.embed(built / "words", corpus, output=tmp_path / "whole", threads=3)
    assert wordpipe.verify(tmp_path / "s")["digest"] == whole.digest
    assert sorted(path.name for path in tmp_path.glob(".s.*")) == [".s.lock"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_of_an_update(built, nursery, tmp_path, seed):
    said = [f"{SAID[n % 4]} {n} bread {n % 7} water" for n in range(9000)]
    corpus_of(tmp_path / "c", said[:5000])
    call = embedding(built / "words", tmp_path / "c", tmp_path / "s", update=True)
    assert nursery.start(*call).wait() == 0
    before = wordpipe.verify(tmp_path / "s")
    corpus_of(tmp_path / "c", said[500:])
    shutil.copytree(tmp_path / "s", tmp_path / "other")
    start = time.monotonic()
    whole = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "other", update=True)
    seconds = time.monotonic() - start + 1
    rng = random.Random(seed)
    for _ in range(3):
        child = nursery.start(*call)
        time.sleep(rng.random() * seconds)
        child.signal(signal.SIGKILL)
        now = wordpipe.verify(tmp_path / "s")
        assert now["ok"]
        assert before["ok"]
    assert nursery.start(*call).wait() == 0
    with Artifact(tmp_path / "s") as made:
        assert made.digest == whole.digest


# ---- updates


@pytest.mark.landing
def test_an_update_embeds_what_is_new_and_gives_the_bytes_of_a_fresh_run(built, tmp_path, texts, encoded):
    for unit in ("sentence", "document"):
        corpus_of(tmp_path / "c", texts[:150])
        wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", unit=unit)
        corpus_of(tmp_path / "c", [*texts[20:], "an oven of stone"])
        fresh = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "fresh", unit=unit)
        encoded.clear()
        made = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", unit=unit, update=True)
        new = set(texts[150:]) - set(texts[:150]) | {"an oven of stone"}
        assert {text.rpartition("\n")[2] for text in encoded} == new
        assert len(encoded) == made.counts["texts_embedded"] == len(new)
        assert made.counts["units_gone"] == sum(text not in texts[20:] for text in texts[:20])
        assert (made.recipe, made.digest) == (fresh.recipe, fresh.digest)


def test_a_fitted_transform_is_kept_until_a_fifth_has_changed(built, tmp_path, texts, encoded, cli):
    alike = sorted(set(texts))
    args = ["embed", built / "words", tmp_path / "c", "-o", tmp_path / "s", "--transform", "centre", "--update"]
    corpus_of(tmp_path / "c", alike)
    assert "nothing to update" in cli(*args).err
    first = {row["text"]: row["vector"] for row in rows_of(tmp_path / "s")}
    with Artifact(tmp_path / "s") as old:
        transform = old.read("encoder/transform.safetensors")
    for round_, kept in ((1, True), (2, True), (3, False)):  # seven texts in a hundred each time
        corpus_of(tmp_path / "c", [*alike, *(f"bread {number} sea" for number in range(round_ * len(alike) // 13))])
        encoded.clear()
        said = cli(*args)
        assert said.code == 0, said.err
        assert (
            " is kept; " if kept else "cannot be kept and cannot be undone, so all texts are embedded again"
        ) in said.err
        assert all(text.startswith("bread ") for text in encoded) == kept
        with Artifact(tmp_path / "s") as made:
            assert (made.read("encoder/transform.safetensors") == transform) == kept
            assert made.manifest.bitwise != kept
        if kept:
            assert first.items() <= {row["text"]: row["vector"] for row in rows_of(tmp_path / "s")}.items()
    fresh = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "fresh", transform="centre")
    with Artifact(tmp_path / "s") as made:
        assert made.digest == fresh.digest


@pytest.mark.parametrize(("before", "after", "reused"), [("float32", "int8", 200), ("int8", "float32", 0)])
def test_exact_vectors_are_taken_over_in_another_number_format(built, tmp_path, texts, encoded, before, after, reused):
    corpus_of(tmp_path / "c", texts)
    wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", store=before)
    encoded.clear()
    made = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", update=True, store=after)
    assert (made.counts.get("units_reused", 0), encoded == []) == (reused, reused == 200)
    fresh = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "f", store=after)
    assert made.digest == fresh.digest


def test_vectors_without_a_transform_are_taken_over_and_transformed(built, tmp_path, texts, encoded):
    corpus_of(tmp_path / "c", texts)
    wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", store="float32")
    encoded.clear()
    settings = {"transform": "remove-components", "store": "float32"}
    made = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "s", update=True, **settings)
    assert (made.counts["units_reused"], encoded) == (200, [])
    fresh = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "f", **settings)
    assert made.counts["units"] == fresh.counts["units"]
    updated, anew = (np.array([r["vector"] for r in rows_of(tmp_path / name)]) for name in ("s", "f"))
    assert np.allclose(updated, anew, atol=1e-5)


def test_another_transform_embeds_all_again(built, tmp_path, texts, encoded, cli):
    corpus_of(tmp_path / "c", texts[:100])
    args = [
        "embed",
        built / "words",
        tmp_path / "c",
        "-o",
        tmp_path / "s",
        "--transform",
        "remove-components",
        "--update",
    ]
    assert cli(*args).code == 0
    corpus_of(tmp_path / "c", texts)
    encoded.clear()
    assert "cannot be undone, so all texts are embedded again" in cli(*args).err
    assert len(encoded) == len(set(texts))
    fresh = wordpipe.embed(built / "words", tmp_path / "c", output=tmp_path / "f", transform="remove-components")
    with Artifact(tmp_path / "s") as made:
        assert made.digest == fresh.digest


@pytest.mark.parametrize(
    ("change", "back", "said"),
    [
        (["--sif-a", "0.01"], ["--sif-a", "0.0001"], "made with other settings (sif_a)"),
        (["--pooling", "mean"], ["--pooling", "sif"], "made with other settings (encoder, pooling)"),
    ],
)
def test_vectors_of_another_encoder_are_not_taken_over(built, tmp_path, texts, cli, change, back, said):
    corpus_of(tmp_path / "c", texts)
    args = ["embed", built / "words", tmp_path / "c", "-o", tmp_path / "s", "--update"]
    assert cli(*args).code == 0
    result = cli(*args, *change, "--json", "-q")
    assert "units_reused" not in json.loads(result.out)["counts"]
    again = cli(*args, *back)
    assert said in again.err


def test_an_artifact_of_other_units_lends_its_vectors_too(built, tmp_path, texts, encoded):
    corpus_of(tmp_path / "c", texts)
    settings = {"output": tmp_path / "s", "with_title": False}
    wordpipe.embed(built / "words", tmp_path / "c", unit="sentence", **settings)
    encoded.clear()
    made = wordpipe.embed(built / "words", tmp_path / "c", unit="document", update=True, **settings)
    assert (made.counts["units_reused"], encoded) == (200, [])


# ---- hostile texts


@pytest.fixture
def hostile():
    """Texts that break what is careless."""
    return ["bread", "日本語 の パン", "bread " * 100_000, "хлеб и вода", "🙂" * 300, "bread\u0000water", "‮bread‬", "ᚠ"]


@pytest.mark.parametrize(
    ("encoder", "unit"), [("words", "sentence"), ("words", "document"), ("words", "window"), ("model", "document")]
)
def test_hostile_texts(built, tmp_path, cli, hostile, encoder, unit):
    write_lines(tmp_path / "in.jsonl", ["", "  ", *hostile])
    args = ["embed", built / encoder, tmp_path / "in.jsonl", "-o", tmp_path / "s", "--unit", unit, "--threads", 1]
    result = cli(*args, "--device", "cpu", "--json", "--no-with-title")
    assert result.code == 0, result.err
    counts = json.loads(result.out)["counts"]
    assert counts["sentences"] == counts["units"]
    lengths = np.linalg.norm([row["vector"] for row in rows_of(tmp_path / "s")], axis=1)
    assert np.allclose(lengths[lengths > 0], 1, atol=1e-5)
    assert (lengths == 0).sum() == counts["without_vector"]
    if encoder == "model":
        assert counts["units_read_in_windows"] >= 1


def test_texts_without_any_vector_are_refused(built, tmp_path, cli):
    write_lines(tmp_path / "in.jsonl", ["日本", "ᚠᚢ"])
    result = cli("embed", built / "words", tmp_path / "in.jsonl", "-o", tmp_path / "s")
    assert result.code == 3
    assert "no text of the corpus has a vector" in result.err
    assert not (tmp_path / "s").exists()


def test_a_vector_that_is_not_finite_names_its_text_and_keeps_the_old_artifact(
    built, tmp_path, texts, monkeypatch, cli
):
    corpus_of(tmp_path / "c", texts)
    args = ["embed", built / "words", tmp_path / "c", "-o", tmp_path / "s"]
    assert cli(*args).code == 0
    before = (tmp_path / "s" / "manifest.json").read_bytes()
    corpus_of(tmp_path / "c", [*texts, "bread of nan"])

    def opened(origin, settings):
        encoder = open_encoder(origin, settings)
        plain = encoder.encode

        def planted(some, watch=None):
            batch = plain(some, watch)
            batch.vectors[[n for n, text in enumerate(some) if "nan" in text]] = np.nan
            return batch

        monkeypatch.setattr(encoder, "encode", planted, raising=False)
        return encoder

    monkeypatch.setattr(stage, "open_encoder", opened)
    result = cli(*args, "--update")
    assert result.code == DivergedError.exit_code
    assert "bread of nan" in result.err
    assert (tmp_path / "s" / "manifest.json").read_bytes() == before


# ---- warnings


def test_texts_without_a_vector_and_a_crowded_space_are_warned_of(tmp_path):
    vectors_ND = np.random.default_rng(1).standard_normal((30, 8)).astype(np.float32) + 9
    words = made_words(tmp_path / "words", vectors_ND, [5] * 30)
    known = [f"w{row} w{row + 1}" for row in range(29)]
    made = wordpipe.embed(
        words, corpus_of(tmp_path / "c", [*known, "one", "two"]), output=tmp_path / "s", store="float32"
    )
    dropped, crowded = made.warnings
    assert dropped.startswith("2 of 31 sentences (6.5%) have no vector")
    assert crowded.startswith(
        f"the encoder gives all texts similar vectors (mean cosine of two texts: {made.metrics['mean_cosine']:.2f})"
    )
    assert crowded.endswith(f"wordpipe doctor {tmp_path / 's'}")
    found = np.stack([row["vector"] for row in rows_of(tmp_path / "s")])[:29]
    cosines = (found @ found.T)[np.triu_indices(len(found), 1)]
    assert made.metrics["mean_cosine"] == pytest.approx(cosines.mean(), abs=1e-4)
    mended = wordpipe.embed(words, tmp_path / "c", output=tmp_path / "s", transform="centre")
    assert mended.warnings == [dropped]


def test_a_spread_space_and_few_texts_are_no_news(tmp_path):
    words = made_words(
        tmp_path / "words", np.random.default_rng(1).standard_normal((60, 8)).astype(np.float32), [5] * 60
    )
    said = [f"w{row} w{row + 1}" for row in range(59)]
    made = wordpipe.embed(words, corpus_of(tmp_path / "c", said), output=tmp_path / "s")
    assert made.warnings == []
    assert abs(made.metrics["mean_cosine"]) < 0.3
    for few in (8, 15, 16):
        found = wordpipe.embed(words, corpus_of(tmp_path / "few", said[:few]), output=tmp_path / "s").metrics
        assert ("mean_cosine" in found) == (few == 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transform": "remove-components", "components": 8}, "too many directions of the vectors would be removed"),
        ({"transform": "whiten", "dims": 9}, "dims is larger than the width of the vectors"),
        ({"pooling": "cls"}, "word vectors do not support this pooling"),
    ],
)
def test_what_cannot_be_is_refused_before_the_text_is_read(settings, message, tmp_path):
    words = made_words(tmp_path / "words", np.eye(8, dtype=np.float32), [5] * 8)
    with pytest.raises(ConfigError, match=message):
        wordpipe.embed(words, tmp_path / "is-not-even-there.txt", output=tmp_path / "s", **settings)
