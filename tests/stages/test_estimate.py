"""Estimates: they grow with the work, learn from what was measured, and never stand in the way."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import wordpipe
import wordpipe.stages.estimate as estimates
from wordpipe.artifacts import InputEntry, Manifest
from wordpipe.corpus import expand
from wordpipe.pipeline import Pipeline, pipeline_status, run_pipeline
from wordpipe.stages import COMMANDS, Estimate, Estimator, Size, size_of_artifact, size_of_sources, total

MACHINE_SPEED = estimates._machine_speed
NOWHERE = Path("/nonexistent/output")

TEXT = Size(
    form="txt",
    files=10,
    bytes=1e6,
    documents=1000,
    sentences=8000,
    words=160e3,
    distinct=20e3,
    tokens=250e3,
    vocab=8000,
)
ENCODER = Size(form="static", dim=100, parameters=2e6, disk=8e6)
VECTORS = Size(form="words", rows=30e3, dim=100, disk=13e6)
BODY = Size(form="transformer", dim=256, parameters=4e6, layers=4)
SENTENCES = Size(rows=8000, dim=100, disk=5e6)
INPUTS = {
    "ingest": [TEXT], "import": [TEXT], "tokenize": [TEXT], "train word2vec": [TEXT], "train mlm": [TEXT],
    "train classifier": [TEXT, BODY], "train tagger": [TEXT, BODY],
    "train reader": [TEXT, BODY],
    "train clm": [TEXT], "train electra": [TEXT], "train permutation": [TEXT],
    "train denoising": [TEXT], "train seq2seq": [TEXT],
    "train contrastive": [TEXT], "train static": [TEXT], "embed": [ENCODER, TEXT], "index": [SENTENCES],
    "cluster": [SENTENCES], "predict": [BODY, TEXT],
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of its own, and a machine whose speed is known without measuring."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("wordpipe.stages.estimate._machine_speed", lambda: (1.0, 1.0))
    return tmp_path / "cache" / "wordpipe" / "rates.json"


def estimate(command, inputs=None, **settings):
    """The estimate of one stage, and the size that it foretells."""
    estimator = Estimator()
    values = COMMANDS[command].load_settings().make(settings)
    found = estimator.estimate("it", values, inputs or INPUTS[command], NOWHERE)
    estimator.save()
    return found, estimator.sizes["it"]


def middle(found):
    low, high = found.seconds
    return (low * high) ** 0.5


def manifest_of(command, seconds, *, words=160_000, peak=500_000_000, disk=10_000_000):
    """What a run of `tokenize` would leave."""
    return Manifest.model_construct(
        kind="tokens", command=command, seconds=seconds, peak_memory_bytes=peak, facts={"vocab_size": 8000},
        counts={"words": words, "distinct_words": 20_000, "tokens": 250_000, "sentences": 8000},
        outputs=[type("Output", (), {"bytes": disk})()], inputs=[], settings={},
    )  # fmt: skip


def corpus_manifest(size=1_000_000):
    return Manifest.model_construct(
        kind="corpus", command="ingest", facts={}, outputs=[],
        counts={"bytes_kept": size, "documents_kept": 1000, "sentences": 8000},
    )  # fmt: skip


def remember(seconds, *, size=1_000_000, **facts):
    settings = COMMANDS["tokenize"].load_settings().make({})
    entry = InputEntry(kind="corpus", digest="0" * 64)
    estimates.remember(settings, [entry], [corpus_manifest(size)], manifest_of("tokenize", seconds, **facts))


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_is_estimated_and_ten_times_the_input_takes_more(command):
    found, size = estimate(command)
    assert 0 < found.seconds[0] < found.seconds[1]
    assert found.memory_bytes > 50e6
    assert found.disk_bytes > 0
    assert found.basis == "probed"
    larger = [replace(one, **{name: 10 * getattr(one, name) for name in GROWING}) for one in INPUTS[command]]
    more, larger_size = estimate(command, larger)
    assert more.seconds[1] > 1.3 * found.seconds[1]
    assert more.memory_bytes >= found.memory_bytes
    assert more.disk_bytes > found.disk_bytes or command.startswith("train")
    assert larger_size.bytes >= size.bytes


GROWING = ("bytes", "documents", "sentences", "words", "distinct", "tokens", "rows", "disk")


@pytest.mark.parametrize(
    ("command", "less", "more"),
    [
        ("train word2vec", {"epochs": 2}, {"epochs": 20}),
        ("train word2vec", {"dim": 50}, {"dim": 500}),
        ("train word2vec", {"deterministic": False}, {"deterministic": True}),
        ("train mlm", {"steps": 100, "device": "cpu"}, {"steps": 1000, "device": "cpu"}),
        ("train clm", {"preset": "tiny", "steps": 9, "device": "cpu"}, {"preset": "base", "steps": 9, "device": "cpu"}),
        ("train static", {"steps": 100}, {"steps": 1000}),
        ("train contrastive", {"steps": 100, "device": "cpu"}, {"steps": 1000, "device": "cpu"}),
        ("tokenize", {}, {"algorithm": "unigram"}),
        ("embed", {"unit": "document"}, {"unit": "sentence"}),
    ],
)
def test_settings_that_mean_more_work_take_longer(command, less, more):
    assert middle(estimate(command, **more)[0]) > middle(estimate(command, **less)[0])


def test_an_earlier_run_is_what_the_next_estimate_says():
    before = estimate("tokenize")[0]
    remember(40.0, peak=900_000_000)
    after, size = estimate("tokenize", [replace(TEXT, words=0)])
    assert after.basis == "earlier runs"
    assert middle(after) == pytest.approx(40.0, rel=0.01)
    assert after.memory_bytes == pytest.approx(900e6, rel=0.01)
    assert after.disk_bytes == pytest.approx(10e6, rel=0.01)
    assert size.words == pytest.approx(160_000, rel=0.01)
    assert middle(after) > 3 * middle(before)
    assert after.seconds[1] / after.seconds[0] < before.seconds[1] / before.seconds[0]  # and more surely
    twice = estimate("tokenize", [replace(TEXT, bytes=2e6)])[0]
    assert 40 < middle(twice) < 85


def test_of_several_runs_the_nearest_in_work_counts():
    for seconds in (10.0, 10.0, 10.0):
        remember(seconds, size=1_000_000)
    for seconds in (1000.0, 1000.0, 1000.0):
        remember(seconds, size=1_000_000_000, words=160_000_000)
    assert middle(estimate("tokenize")[0]) == pytest.approx(10, rel=0.05)
    assert middle(estimate("tokenize", [replace(TEXT, bytes=1e9)])[0]) == pytest.approx(1000, rel=0.05)
    far = estimate("tokenize", [replace(TEXT, bytes=1e12)])[0]
    near = estimate("tokenize")[0]
    assert far.seconds[1] / far.seconds[0] > near.seconds[1] / near.seconds[0]


def test_a_run_too_small_to_say_anything_of_sizes_changes_none(cache):
    remember(1.0, size=20, words=3, disk=2_000)
    (_, ratios), *_ = json.loads(cache.read_text())["runs"]["tokenize/bpe"]
    assert {"seconds", "memory"} <= set(ratios)
    assert not {"disk", "words", "bytes"} & set(ratios)


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 0, "runs": {}, "speed": null}', b"[" * 50_000,
        b'{"format": 1, "speed": null, "runs": {"tokenize/bpe": [[1, {"seconds": "x"}]]}}',
        b'{"format": 1, "speed": null, "runs": {"tokenize/bpe": [[1, {"seconds": -1}]]}}',
        b'{"format": 1, "speed": null, "runs": {"tokenize/bpe": [[1e400, {"seconds": 1}]]}}',
        b'{"format": 1, "speed": null, "runs": {"tokenize/bpe": 7}}', b" " * 300_000,
    ],
)  # fmt: skip
def test_a_damaged_memory_is_as_none(cache, damage):
    usual = estimate("tokenize")[0]
    cache.write_bytes(damage)
    assert estimate("tokenize")[0] == usual
    remember(40.0)
    assert middle(estimate("tokenize")[0]) == pytest.approx(40.0, rel=0.01)


def test_a_memory_that_is_no_file_or_cannot_be_written_is_left_alone(tmp_path, monkeypatch, cache):
    cache.parent.mkdir(parents=True)
    os.mkfifo(cache)
    assert estimate("tokenize")[0].basis == "probed"
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    remember(40.0)
    assert estimate("tokenize")[0].basis == "probed"


def test_the_memory_is_bounded_and_leaves_nothing_beside_it(cache):
    for number in range(20):
        remember(float(number + 1))
    body = json.loads(cache.read_text())
    assert len(body["runs"]["tokenize/bpe"]) == 8
    run = body["runs"]["tokenize/bpe"][0]
    body["runs"] = {f"tokenize/{n}": [run] for n in range(200)}
    cache.write_text(json.dumps(body))
    remember(1.0)
    kept = json.loads(cache.read_text())["runs"]
    assert len(kept) == 64
    assert "tokenize/bpe" in kept
    assert [path.name for path in cache.parent.iterdir()] == ["rates.json"]


def test_the_speed_of_the_machine_is_measured_once_a_week(monkeypatch, cache):
    measured = []
    monkeypatch.setattr("wordpipe.stages.estimate._machine_speed", lambda: measured.append(1) or (2.0, 1.0))
    slow = estimate("tokenize")[0]
    assert estimate("tokenize")[0] == slow
    assert len(measured) == 1
    body = json.loads(cache.read_text())
    assert abs(body["speed"][0] - time.time()) < 60
    body["speed"] = [time.time() - 8 * 86_400, 1.0, 1.0]
    cache.write_text(json.dumps(body))
    assert estimate("tokenize")[0] == slow
    assert len(measured) == 2


def test_the_measurement_of_the_machine_gives_plausible_figures():
    text, numbers = MACHINE_SPEED()
    assert 0.1 < text < 10
    assert 0.1 < numbers < 10


def test_sources_are_weighed_by_format_and_compression(tmp_path):
    for name, size in (("a.txt", 100), ("b.jsonl.gz", 1000), ("c.md", 10)):
        (tmp_path / name).write_bytes(b"x" * size)
    found = size_of_sources(expand([str(tmp_path)]))
    assert found.form == "jsonl"
    assert found.files == 3
    assert found.bytes == pytest.approx(100 + 3300 + 10)
    assert size_of_sources(expand(["python:json"])).form == "python"


def test_sizes_of_artifacts_come_from_their_manifests(built):
    assert size_of_artifact(built / "corpus").sentences > 1000
    assert size_of_artifact(built / "tokens").vocab == 1000
    assert size_of_artifact(built / "words").dim == 24
    model = size_of_artifact(built / "model")
    assert (model.form, model.dim, model.layers) == ("transformer", 32, 1)
    sentences = size_of_artifact(built / "sentences")
    assert (sentences.dim, sentences.rows > 100, sentences.disk > 1000) == (32, True, True)


def test_a_total_adds_seconds_and_disk_and_takes_the_largest_memory():
    one = Estimate((1.0, 2.0), 100, 10, "earlier runs")
    other = Estimate((10.0, 40.0), 50, 5, "probed")
    assert total([one, other]) == Estimate((11.0, 42.0), 100, 15, "probed")
    assert total([one]).basis == "earlier runs"


def project(folder, text):
    folder.mkdir()
    (folder / "a.txt").write_text(text)
    (folder / "p.toml").write_text(
        '[stage.corpus]\ncommand = "ingest"\ninputs = ["a.txt"]\ndocuments = "block"\n'
        '[stage.tokens]\ncommand = "tokenize"\ninputs = ["corpus"]\nvocab_size = 1000\n'
        '[stage.words]\ncommand = "train word2vec"\ninputs = ["tokens"]\ndim = 64\nepochs = 60\nmin_count = 2\nwindow = 5\n'
    )
    return folder / "p.toml"


@pytest.mark.slow
def test_a_first_run_foretells_a_second_on_twice_the_text(tmp_path, handbook, cache):
    text = handbook.read_text() * 4
    run_pipeline(project(tmp_path / "warm", handbook.read_text()))  # kernels are compiled
    cache.unlink()
    run_pipeline(project(tmp_path / "one", text))
    config = project(tmp_path / "two", text + text.replace("e", "ə"))
    said = {one.name: one.estimate for one in pipeline_status(config)}
    assert {one.basis for one in said.values()} == {"earlier runs"}
    for made, name in zip(run_pipeline(config), said, strict=True):
        assert made.seconds / 3 < max(middle(said[name]), 0.3) < 3 * max(made.seconds, 0.3), (
            name,
            made.seconds,
            said[name],
        )
        assert made.peak_memory_bytes / 3 < said[name].memory_bytes < 3 * made.peak_memory_bytes


def test_an_artifact_made_before_says_how_long_it_took(tmp_path, cache):
    config = project(tmp_path / "one", "The tide comes in. Boats wait for it.\n\n" * 50)
    run_pipeline(config, last="tokens")
    cache.unlink()
    config.write_text(config.read_text().replace("vocab_size = 1000", "vocab_size = 900"))
    said = {one.name: one.estimate for one in pipeline_status(config)}
    assert said["corpus"] is None
    assert (said["tokens"].basis, said["words"].basis) == ("earlier runs", "probed")


def test_stages_that_were_resumed_or_updated_are_not_remembered(tmp_path, cache):
    (tmp_path / "a.txt").write_text("The tide comes in.\n")
    (tmp_path / ".corpus.partial").mkdir()
    wordpipe.ingest(tmp_path / "a.txt", output=tmp_path / "corpus")
    assert not cache.exists()
    wordpipe.ingest(tmp_path / "a.txt", output=tmp_path / "corpus", update=True)
    assert not cache.exists()
    wordpipe.ingest(tmp_path / "a.txt", output=tmp_path / "corpus")
    assert "ingest/txt" in json.loads(cache.read_text())["runs"]


@pytest.mark.parametrize("kind", [ZeroDivisionError, ValueError, KeyError, TypeError, OverflowError])
def test_an_estimate_that_cannot_be_made_is_left_out(tmp_path, monkeypatch, kind):
    config = project(tmp_path / "one", "The tide comes in.\n")

    def fails(*_):
        raise kind

    monkeypatch.setattr(estimates, "tokenize_rule", fails)
    found = Pipeline(config)
    states = found.estimated(found.states())
    assert [state.estimate is None for state in states] == [False, True, False]


@pytest.mark.parametrize("command", ["train classifier", "train tagger"])
@pytest.mark.parametrize("vectors", [VECTORS, ENCODER])
def test_a_head_on_word_vectors_takes_a_fraction_of_one_on_a_transformer(command, vectors):
    fast, size = estimate(command, [TEXT, vectors])
    slow, _ = estimate(command)
    assert fast.seconds[1] < slow.seconds[0]
    assert size.dim == 100
    longer, _ = estimate(command, [TEXT, vectors], epochs=500)
    assert longer.seconds[0] > fast.seconds[0]
    larger, _ = estimate(command, [TEXT, replace(vectors, rows=1e6, parameters=1e8)])
    assert larger.memory_bytes > fast.memory_bytes
    assert larger.disk_bytes > fast.disk_bytes
