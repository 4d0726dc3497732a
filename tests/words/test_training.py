"""The native training as a whole: what it learns, how it goes on after a stop, and that threads share the work."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.plain_word2vec import Plain
from tests.support.token_batches import batches, topics
from tests.support.variants import some_of
from wordpipe.errors import DivergedError
from wordpipe.runtime import StopFlag
from wordpipe.words import (
    HeldOutLoss,
    NativeTraining,
    Parts,
    Vocabulary,
    Weights,
    Words,
    WordVectors,
    chunk_size,
    count_ids,
    done_in_order,
    kept_rows,
    read_words,
    write_text,
)
from wordpipe.words.kernels.draws_and_huffman import Noise, Tree, key_of
from wordpipe.words.settings import Word2VecPlan


def training(folder: Path, *, words: int = 12_000, parts: Parts | None = None, **values: Any) -> NativeTraining:
    """A training on text of two topics."""
    plan = Word2VecPlan(**({"dim": 16, "threads": 1, "subsample": 0, "min_count": 1} | values))
    docs = list(batches(topics(words, seed=7), rows=100))
    vocabulary = Vocabulary.keep(count_ids(docs, 40), 1)
    blocks = [*kept_rows(read_words(docs, column="word_ids", context="document", split="train"), vocabulary.row_of_id)]
    folder.mkdir(exist_ok=True)
    text = write_text(blocks, folder / "text.rows")
    held_out = HeldOutLoss.sample(blocks, vocabulary, plan, split="valid", targets=2_000)
    return NativeTraining(text, vocabulary, plan, held_out, *([] if parts is None else [parts]))


def finished(run: NativeTraining) -> NativeTraining:
    list(run.steps(StopFlag()))
    return run


@pytest.mark.parametrize(
    ("architecture", "loss", "threads"), some_of(["skipgram", "cbow"], ["ns", "hs", "softmax"], [1, 3])
)
def test_words_that_keep_company_become_neighbours(tmp_path: Path, architecture: str, loss: str, threads: int) -> None:
    # threads that meet in forty rows all the time add up their steps, so that what they reach varies a little
    lr, slack = (0.1, 1.0) if threads == 1 else (0.05, 1.05)
    run = training(tmp_path, words=60_000, architecture=architecture, loss=loss, threads=threads, epochs=4, lr=lr)
    steps = list(run.steps(StopFlag()))
    for split in ("train", "valid"):
        losses = [step.loss for step in steps if step.loss is not None and step.split == split]
        assert len(losses) == 4
        assert losses[-1] < slack * losses[0]
    assert steps[-1].tokens == steps[-1].total == 240_000
    assert steps[-1].lr == pytest.approx(1e-4)
    assert run.bitwise == (threads == 1)
    ids = Vocabulary.keep(count_ids(batches(topics(60_000, seed=7)), 40), 1).ids
    table = WordVectors([str(number) for number in ids], np.ones(40, dtype=np.int64), run.vectors)
    assert sum(int(near.word) % 2 for near in table.neighbours(["7"], k=19)) >= 18


@pytest.mark.parametrize("loss", ["ns", "hs"])
def test_many_threads_learn_what_one_does(tmp_path: Path, loss: str) -> None:
    """Common words are changed by all threads at once; what each adds knows of nearly all that others have added."""
    random = np.random.default_rng(3)
    ids = np.minimum(random.zipf(1.3, 120_000), 2_000)
    ids[1::2] = (
        ids[::2] * 7 + random.integers(0, 3, 60_000)
    ) % 2_000 + 1  # the word before says much of each second one
    vocabulary = Vocabulary.keep(np.bincount(ids, minlength=2_001), 1)
    rows = [Words(vocabulary.row_of_id[ids].astype(np.int32), np.arange(0, len(ids), 100))]
    text = write_text(rows, tmp_path / "text.rows")
    losses = {}
    for threads in (1, 16):
        plan = Word2VecPlan(dim=64, threads=threads, min_count=1, loss=loss, epochs=2)
        held_out = HeldOutLoss.sample(rows, vocabulary, plan, split="train", targets=4_000)
        run = finished(NativeTraining(text, vocabulary, plan, held_out))
        losses[threads] = held_out.loss(run.vectors, run.outputs, run.tree)
    assert losses[16] < losses[1] + 0.1, losses


def test_true_loss_begins_at_chance(tmp_path: Path) -> None:
    run = training(tmp_path, epochs=1, lr=1e-6, min_lr=1e-7, negatives=5)
    losses = [step.loss for step in run.steps(StopFlag()) if step.loss is not None]
    share_of_targets = 1 - 1 / 40  # noise that is the target is left out; all 40 words are about equally common
    assert losses[0] == pytest.approx((1 + 5 * share_of_targets) * np.log(2), rel=0.01)


@pytest.mark.parametrize("values", [{}, {"architecture": "cbow"}, {"loss": "hs"}])
def test_deterministic_gives_the_same_bytes_whatever_the_threads(tmp_path: Path, values: dict[str, str]) -> None:
    runs = [
        finished(training(tmp_path, deterministic=True, threads=threads, epochs=2, **values)) for threads in (1, 2, 3)
    ]
    assert all(run.bitwise and run.threads == 1 for run in runs)
    for run in runs[1:]:
        np.testing.assert_array_equal(run.vectors, runs[0].vectors)
        np.testing.assert_array_equal(run.outputs, runs[0].outputs)
    other = finished(training(tmp_path, deterministic=True, epochs=2, seed=2, **values))
    assert (other.vectors != runs[0].vectors).any()


@pytest.mark.parametrize(
    "values",
    [{}, {"subsample": 0.01}, {"architecture": "cbow"}, {"loss": "hs", "subsample": 0.01}, {"loss": "softmax"}],
)
def test_a_stopped_run_goes_on_exactly(tmp_path: Path, values: dict[str, Any]) -> None:
    values = {"epochs": 3, **values}
    whole = finished(training(tmp_path, **values))
    losses = [step.loss for step in training(tmp_path, **values).steps(StopFlag()) if step.loss is not None]
    state: tuple[dict[str, float], dict[str, Any]] | None = None
    seen: list[float] = []
    legs = 0
    while state is None or state[0]["words"] < whole.total:
        run = training(tmp_path, **values)
        if state is not None:
            run.progress = state[0]
            for name, array in run.arrays().items():
                array[:] = state[1][name]
        flag, asked = StopFlag(), iter(range(1_000_000))
        for step in run.steps(flag, lambda asked=asked: next(asked) > 5):  # type: ignore[misc]
            if step.loss is not None:
                seen.append(step.loss)
            if step.resting:
                state = run.progress, {name: array.copy() for name, array in run.arrays().items()}
                break
        legs += 1
    assert legs > 3
    np.testing.assert_array_equal(run.vectors, whole.vectors)
    np.testing.assert_array_equal(run.outputs, whole.outputs)
    assert seen == losses


def test_a_rising_flag_ends_it_at_rest(tmp_path: Path) -> None:
    run, flag = training(tmp_path, words=60_000, epochs=50, threads=2), StopFlag()
    for step in run.steps(flag):
        last = step
        flag.signum = 15
    assert last.resting
    assert 0 < last.tokens < last.total


def test_the_last_word_of_a_long_text_is_trained(tmp_path: Path) -> None:
    rows = np.concatenate([np.random.default_rng().integers(0, 50, 29_999), [50]]).astype(np.int32)
    vocabulary = Vocabulary.keep(np.bincount(rows), 1)
    text = write_text([Words(vocabulary.row_of_id[rows], np.zeros(1, dtype=np.int64))], tmp_path / "rows")
    run = NativeTraining(text, vocabulary, Word2VecPlan(dim=8, epochs=1, min_count=1, subsample=0, threads=2))
    row = int(vocabulary.row_of_id[50])
    before = run.vectors[row].copy()
    finished(run)
    assert (run.vectors[row] != before).all()
    assert run.outputs[row].any()


@pytest.mark.parametrize("values", [{}, {"loss": "hs"}, {"loss": "softmax"}, {"architecture": "cbow"}])
@pytest.mark.parametrize("kinds", [1, 2])
def test_tiny_vocabularies_work(tmp_path: Path, kinds: int, values: dict[str, str]) -> None:
    rows = (np.arange(20) % kinds).astype(np.int32)
    vocabulary = Vocabulary.keep(np.bincount(rows), 1)
    text = write_text([Words(rows, np.zeros(1, dtype=np.int64))], tmp_path / "rows")
    run = finished(NativeTraining(text, vocabulary, Word2VecPlan(dim=3, epochs=2, min_count=1, subsample=0, **values)))
    assert np.isfinite(run.vectors).all()


def test_vectors_that_are_not_finite_end_the_training(tmp_path: Path) -> None:
    run = training(tmp_path, epochs=1)
    run.weights.inputs[:] = np.nan
    with pytest.raises(DivergedError, match="finite"):
        finished(run)


def test_words_of_parts_are_the_mean_of_them(tmp_path: Path) -> None:
    parts = Parts(np.arange(0, 82, 2), np.random.default_rng().integers(0, 30, 80).astype(np.int32), 30)
    run = finished(training(tmp_path, parts=parts, epochs=1))
    for row in (0, 17, 39):
        chunks = [run.weights.inputs[row, :16], *run.ngrams[parts.numbers[2 * row : 2 * row + 2]]]
        np.testing.assert_allclose(run.vectors[row], np.mean(chunks, axis=0), rtol=1e-5, atol=1e-7)
    again = training(tmp_path, parts=parts, epochs=1)
    again.weights.inputs[:, :16] = run.vectors
    again.weights.ngrams[:] = run.weights.ngrams
    again.subtract_ngrams(np.ones(40, dtype=np.bool_))
    np.testing.assert_allclose(again.weights.inputs, run.weights.inputs, atol=1e-6)


def test_weights_begin_small_and_alike() -> None:
    a, b = (Weights.initial(10, 200_000, 3, 5, seed=4) for _ in range(2))
    np.testing.assert_array_equal(a.inputs, b.inputs)
    assert 0.099 < np.abs(a.inputs).max() <= 0.1
    assert not a.outputs.any()
    assert not a.inputs[:, 10:].any()
    assert (a.ngrams[:, :10] != Weights.initial(10, 1, 1, 5, seed=5).ngrams[:, :10]).any()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_jobs_are_taken_in_order_and_those_begun_are_finished(threads: int) -> None:
    taken: list[int] = []
    done: list[int] = []
    jobs = done_in_order(lambda b: taken.append(b) or b + 1, range(0, 1000, 10), threads, lambda: len(taken) < 30)  # type: ignore[func-returns-value]
    for begin, result in jobs:
        assert result == begin + 1
        done.append(begin)
    assert sorted(done) == list(range(0, 10 * len(done), 10))
    assert 30 <= len(done) <= 30 + threads


def test_chunks_of_a_text_are_trained_as_one(tmp_path: Path) -> None:
    """The whole way to the kernel, with several chunks and what lies around each, against the plain twin."""
    rng = np.random.default_rng()
    rows = (20 * rng.random(1_300) ** 2).astype(np.int32)
    starts = np.flatnonzero(rng.random(len(rows)) < 0.01)
    vocabulary = Vocabulary.keep(np.bincount(rows, minlength=20), 1)
    text = write_text([Words(vocabulary.row_of_id[rows], starts)], tmp_path / "rows")
    plan = Word2VecPlan(dim=4, epochs=2, window=4, min_count=1, subsample=0.1, threads=1, lr=0.05)
    run = NativeTraining(text, vocabulary, plan)
    run._chunk = 400
    weights = [array.astype(np.float64)[:, :4].copy() for array in run.weights.arrays().values()]
    marked = text.read(0, text.words).tolist()
    losses = []
    for epoch in range(2):
        plain = Plain(
            [(row if row >= 0 else ~row, row < 0) for row in marked],
            tuple(int(key_of(1, epoch, use)) for use in range(3)),  # type: ignore[arg-type]
            run._keep,
            Noise(run._objective.limits, run._objective.others),
            window=4,
            negatives=5,
            tree=Tree.of(vocabulary.counts),
        )
        lr = [run._lr(epoch * text.words), run._lr((epoch + 1) * text.words)]
        total, predictions = plain.train(0, text.words, (lr[0], lr[1]), *weights)
        losses.append(total / predictions)
    assert [step.loss for step in run.steps(StopFlag()) if step.loss is not None] == pytest.approx(losses, rel=1e-4)
    np.testing.assert_allclose(run.vectors, weights[0], atol=1e-4)
    np.testing.assert_allclose(run.outputs, weights[1], atol=1e-4)


def test_a_failing_job_ends_all() -> None:
    def work(begin: int) -> int:
        if begin == 40:
            raise OSError("the disk is gone")
        return begin

    with pytest.raises(OSError, match="gone"):
        list(done_in_order(work, range(0, 10_000, 10), 3, lambda: True))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("word2vec")]


def test_jobs_stop_when_nobody_listens() -> None:
    taken: list[int] = []
    jobs = done_in_order(lambda b: taken.append(b), range(100_000), 2, lambda: True)  # type: ignore[func-returns-value]
    next(jobs)
    jobs.close()  # type: ignore[attr-defined]
    assert len(taken) < 100_000


def test_small_texts_have_jobs_for_several_threads() -> None:
    assert chunk_size(100, 600) == 1_024
    assert chunk_size(100_000, 3_000) == 6_250
    assert chunk_size(10**9, 5 * 6 * 300) == 16_384


def test_jobs_of_a_large_softmax_last_no_longer() -> None:
    assert chunk_size(10**9, 10 * 50_000 * 100) == 200
    assert chunk_size(10**9, 10**12) == 64
