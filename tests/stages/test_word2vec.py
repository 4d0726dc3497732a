"""`train word2vec`: what its options do to the artifact, and going on from one."""

from contextlib import suppress

import numpy as np
import pyarrow.parquet as pq
import pytest

import wordpipe
from tests.support.results import manifest
from wordpipe.artifacts import Artifact, matrix_of, read_batches
from wordpipe.errors import ArtifactError, ConfigError, DivergedError, InputError
from wordpipe.runtime import Stopped
from wordpipe.stages import TrainingRun, open_job
from wordpipe.words import CommonPart, Step
from wordpipe.words.settings import Word2VecSettings

SMALL = {"dim": 12, "window": 3, "epochs": 2, "min_count": 2, "threads": 1}


def train(built, output, **settings):
    return wordpipe.train_word2vec(built / "tokens", output=output, **(SMALL | settings))


def column(path, name, stem="words"):
    return pq.read_table(sorted(path.glob(f"{stem}-*.parquet")))[name]


def vectors(path, stem="words"):
    with Artifact(path, ["words"]) as artifact:
        return np.concatenate([matrix_of(batch.column("vector")) for batch in read_batches(artifact, stem, ["vector"])])


@pytest.mark.slow
def test_every_objective_and_architecture_makes_words(built, tmp_path):
    tokens = pq.read_table(sorted((built / "tokens").glob("tokens-*")), columns=["split", "word_ids"]).to_pylist()
    in_text = sum(len(row["word_ids"]) for row in tokens if row["split"] == "train")
    for architecture in ("skipgram", "cbow"):
        for loss in ("ns", "hs", "softmax"):
            made = train(built, tmp_path / loss, architecture=architecture, loss=loss, epochs=3)
            assert (
                made.metrics["loss"]
                < {"ns": 6 * np.log(2), "hs": 12, "softmax": np.log(made.counts["distinct_kept"])}[loss]
            )
            assert made.counts["words_kept"] + made.counts["words_dropped_rare"] == in_text


def test_the_log_has_the_mean_loss_of_every_epoch_and_split(cli, handbook, tmp_path):
    wordpipe.ingest([handbook], output=tmp_path / "c", documents="block", valid=0.2)
    wordpipe.tokenize(tmp_path / "c", output=tmp_path / "t", vocab_size=1000)
    wordpipe.train_word2vec(tmp_path / "t", output=tmp_path / "w", **SMALL)
    steps = pq.read_table(tmp_path / "w" / "steps.parquet").to_pylist()
    assert [(row["step"], row["split"]) for row in steps] == [(1, "train"), (1, "valid"), (2, "train"), (2, "valid")]
    assert steps[0]["tokens"] * 2 == steps[2]["tokens"]
    assert all(0 < row["loss"] < 10 for row in steps)


def test_open_settings_follow_the_size_of_the_text_and_are_said(built, tmp_path):
    notes = []
    run = wordpipe.RunOptions(report=lambda progress: notes.append(progress.note) if progress.phase == "note" else None)
    wordpipe.train_word2vec(built / "tokens", output=tmp_path / "w", dim=4, epochs=1, threads=1, run=run)
    facts = manifest(tmp_path / "w")["facts"]
    assert any(f"window {facts['window']}" in note and f"min_count {facts['min_count']}" in note for note in notes)
    assert not any("epochs" in note for note in notes)
    assert facts["epochs"] == 1


def test_vectors_may_be_inputs_outputs_or_their_sum(built, tmp_path):
    for which in ("inputs", "outputs", "sum"):
        train(built, tmp_path / which, vectors=which, store="float32")
    inputs, outputs, total = (vectors(tmp_path / which) for which in ("inputs", "outputs", "sum"))
    np.testing.assert_array_equal(inputs + outputs, total)
    np.testing.assert_array_equal(vectors(tmp_path / "inputs", "outputs"), outputs)
    assert (inputs != outputs).any()


def test_output_vectors_are_left_out_on_request(built, tmp_path):
    train(built, tmp_path / "w", keep_outputs=False)
    assert not list((tmp_path / "w").glob("outputs-*"))
    assert manifest(tmp_path / "w")["facts"]["outputs"] is False


def test_components_are_removed(built, tmp_path):
    train(built, tmp_path / "plain", store="float32")
    train(built, tmp_path / "less", remove_components=2, store="float32")
    plain, less = vectors(tmp_path / "plain"), vectors(tmp_path / "less")
    np.testing.assert_allclose(less, CommonPart.of(plain, 2).removed_from(plain), atol=1e-6)
    np.testing.assert_allclose(less.mean(axis=0), 0, atol=1e-5)


def test_shorter_numbers_keep_directions_and_lengths(built, tmp_path):
    """Of words, n-grams and outputs alike; a word's length is what it weighs in a text."""
    for store in ("float32", "float16", "int8"):
        train(built, tmp_path / store, max_n=4, store=store)
    for stem in ("words", "ngrams", "outputs"):
        exact = vectors(tmp_path / "float32", stem)
        size = (tmp_path / "float32" / f"{stem}-00000.parquet").stat().st_size
        for store, off, left in (("float16", 1e-3, 0.95), ("int8", 0.01, 0.8)):
            shorter = vectors(tmp_path / store, stem)
            lengths, others = np.linalg.norm(exact, axis=1), np.linalg.norm(shorter, axis=1)
            np.testing.assert_allclose(others, lengths, rtol=off)
            assert ((exact * shorter).sum(axis=1) >= (1 - off**2) * lengths * others - 1e-9).all()
            assert (exact != shorter).any()
            assert (tmp_path / store / f"{stem}-00000.parquet").stat().st_size < left * size


def test_ngrams_are_parts_of_the_words_and_answer_for_unknown_ones(built, tmp_path):
    made = train(built, tmp_path / "w", max_n=5, remove_components=1)
    spelled = column(tmp_path / "w", "ngram", "ngrams").to_pylist()
    assert made.counts["ngrams"] == len(spelled) > 100
    assert all(3 <= len(ngram) <= 5 for ngram in spelled)
    with wordpipe.open(tmp_path / "w") as words:
        known = set(words.table.words)
        hits = words.query("breadmakers", k=3)
    assert "breadmakers" not in known
    assert len(hits) == 3


def test_tokens_may_have_vectors(built, tmp_path):
    train(built, tmp_path / "w", unit="token", min_count=1)
    assert len(column(tmp_path / "w", "word")) > 500


def test_going_on_keeps_what_was_learned(built, tmp_path):
    train(built, tmp_path / "first", epochs=8)
    made = train(built, tmp_path / "more", epochs=1, lr=1e-4, init=tmp_path / "first")
    before, after = vectors(tmp_path / "first"), vectors(tmp_path / "more")
    assert np.abs(after - before).max() < 0.01
    assert (after != before).any()
    assert made.counts["words_from_init"] == len(before)
    assert manifest(tmp_path / "more")["inputs"][1]["kind"] == "words"
    fresh = train(built, tmp_path / "fresh", epochs=1, lr=1e-4)
    assert made.metrics["loss"] < fresh.metrics["loss"]


def test_going_on_with_more_text_keeps_the_words_of_both(built, tmp_path):
    (tmp_path / "more.txt").write_text("the bread of zanzibar is zanzibar bread\n" * 50)
    wordpipe.tokenize(tmp_path / "more.txt", output=tmp_path / "t", tokenizer=built / "tokens" / "tokenizer.json")
    train(built, tmp_path / "first")
    made = wordpipe.train_word2vec(tmp_path / "t", output=tmp_path / "w", init=tmp_path / "first", **SMALL)
    words = column(tmp_path / "w", "word").to_pylist()
    assert "zanzibar" in words
    assert made.counts["words_new"] >= 1
    assert made.counts["words_from_init"] == len(words) - made.counts["words_new"]
    assert made.counts["words_of_init_left_out"] > 0


@pytest.mark.slow
def test_going_on_with_ngrams_begins_at_the_same_vectors(built, tmp_path):
    train(built, tmp_path / "first", max_n=5)
    train(built, tmp_path / "more", max_n=5, lr=1e-9, min_lr=1e-9, epochs=1, init=tmp_path / "first")
    np.testing.assert_allclose(vectors(tmp_path / "more"), vectors(tmp_path / "first"), atol=1e-5)


@pytest.mark.parametrize(
    ("first", "named"),
    [
        ({"dim": 8}, "dim is different"),
        ({"max_n": 5}, "max_n is different"),
        ({"remove_components": 1}, "changed after"),
        ({"vectors": "sum"}, "changed after"),
    ],
)
def test_what_cannot_go_on_is_refused(built, tmp_path, first, named):
    train(built, tmp_path / "first", **first)
    with pytest.raises(ArtifactError, match=named) as caught:
        train(built, tmp_path / "more", init=tmp_path / "first")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"max_n": 2}, "max_n = 2 should be at least min_n"),
        ({"max_n": 5, "unit": "token"}, "unit = word"),
        ({"loss": "hs", "vectors": "sum"}, "nodes of the tree"),
        ({"loss": "hs", "backend": "gensim"}, "backend = native"),
        ({"max_n": 5, "vectors": "sum"}, "n-grams"),
        ({"lr": 1e-5}, "min_lr"),
        ({"min_lr": 0.03}, "min_lr = 0.03 should be at most lr = 0.025"),
        ({"remove_components": 12}, "less than dim = 12"),
        ({"backend": "gensim", "init": "somewhere"}, "init = somewhere needs backend = native"),
        ({"backend": "gensim", "max_n": 4}, "max_n = 4 needs backend = native"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(built, tmp_path, settings, named):
    with pytest.raises(ConfigError, match=named):
        train(built, tmp_path / "w", **settings)
    assert not (tmp_path / "w").exists()


def test_threads_do_not_make_an_artifact_stale(built, tmp_path):
    one = train(built, tmp_path / "one", threads=1)
    two = train(built, tmp_path / "two", threads=2)
    assert one.recipe == two.recipe
    assert not manifest(tmp_path / "two")["bitwise"]


def test_words_are_in_the_order_of_their_counts(built, tmp_path):
    train(built, tmp_path / "w")
    with Artifact(tmp_path / "w") as made:
        counts = np.concatenate([batch.column("count").to_numpy() for batch in read_batches(made, "words")])
    assert (np.diff(counts) <= 0).all()
    assert counts.min() >= 2


@pytest.mark.parametrize(
    "settings", [{"subsample": 1e-12}, {"context": "sentence", "min_count": 60, "subsample": 1e-9}]
)
def test_vectors_that_nothing_trained_are_not_published(built, tmp_path, settings):
    with pytest.raises(InputError, match="no word has a neighbour") as caught:
        train(built, tmp_path / "w", **settings)
    assert "--subsample" in (caught.value.hint or "")
    assert not (tmp_path / "w").exists()


def test_a_wild_learning_rate_is_named(built, tmp_path):
    with pytest.raises(DivergedError, match=r"guessing|finite") as caught:
        train(built, tmp_path / "w", architecture="cbow", lr=1.0, epochs=20, window=10, min_count=1, negatives=20)
    assert "--lr" in (caught.value.hint or "")


def test_a_table_of_other_words_cannot_be_gone_on_from(built, tmp_path):
    (tmp_path / "v.txt").write_text("qqq " + "1 " * 12 + "\nzzz " + "2 " * 12 + "\n")
    wordpipe.import_words(tmp_path / "v.txt", output=tmp_path / "other")
    with pytest.raises(ArtifactError, match="contains no word"):
        train(built, tmp_path / "w", init=tmp_path / "other")


def test_auto_and_native_are_one_recipe(built, tmp_path):
    recipes = {train(built, tmp_path / name, backend=name, epochs=1).recipe for name in ("auto", "native")}
    assert len(recipes) == 1


class _Stopping:
    """A training that is stopped after its last step."""

    threads, bitwise, total = 1, True, 10

    def __init__(self):
        self.progress = {"words": 0}
        self.state = np.zeros((2, 8), dtype=np.float32)
        self.vectors = self.outputs = self.state

    def arrays(self):
        return {"state": self.state}

    def steps(self, flag, due=lambda: False):
        self.progress = {"words": 10}
        yield Step(1, 10, 10, "train", 1.0, 0.01, 0.1)
        yield Step(1, 10, 10, "train", None, 0.01, 0.1, resting=True)
        flag.signum = 15


def test_a_stop_after_the_last_step_keeps_what_was_learned(tmp_path):
    plan = Word2VecSettings.make({}).plan(10)
    with pytest.raises(Stopped) as caught, open_job("words", tmp_path / "w", plan, None) as job:
        TrainingRun(job, _Stopping, plan, 10).run()
    assert "step-00000010" in str(caught.value.saved)
    assert (tmp_path / ".w.partial" / "LATEST.json").is_file()


def test_what_racing_threads_made_is_never_called_bitwise_again(tmp_path):
    plan = Word2VecSettings.make({}).plan(10)

    def bitwise(threads):
        """Whether a training that goes on with so many threads still is, before it is stopped again."""
        training = _Stopping()
        training.threads, training.bitwise = threads, threads == 1
        with suppress(Stopped), open_job("words", tmp_path / "w", plan, None) as job:
            run = TrainingRun(job, lambda: training, plan, 10)
            run.resume()
            found = training.bitwise
            run.run()
        return found

    assert [bitwise(threads) for threads in (2, 1, 1)] == [False, False, False]
