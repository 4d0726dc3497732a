import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.token_batches import batches, topics
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.runtime import StopFlag, Stopped, cpu_count
from wordpipe.words import (
    GensimTraining,
    HeldOutLoss,
    Vocabulary,
    WordVectors,
    count_ids,
    kept_rows,
    read_words,
    require_gensim,
    write_text,
)
from wordpipe.words.settings import Word2VecPlan

pytestmark = [
    pytest.mark.landing,
    pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="gensim has no wheel for this Python"),
]

SOME: list[dict[str, Any]] = [{"threads": 3}, {"threads": 0}, {"threads": 3, "deterministic": True}]


def training(folder: Path, *, words: int = 12_000, **values: Any) -> GensimTraining:
    """A training on text of two topics."""
    settings = Word2VecPlan(**({"dim": 16, "threads": 1, "subsample": 0} | values))
    docs = list(batches(topics(words, seed=7), rows=100))
    vocabulary = Vocabulary.keep(count_ids(docs, 40), 1)
    blocks = [*kept_rows(read_words(docs, column="word_ids", context="document", split="train"), vocabulary.row_of_id)]
    folder.mkdir(exist_ok=True)
    text = write_text(blocks, folder / "text.rows")
    return GensimTraining(text, vocabulary, settings, HeldOutLoss.sample(blocks, vocabulary, settings, split="train"))


def plain_gensim(run: GensimTraining, settings: Word2VecPlan) -> Any:
    """The same training in one call of gensim's."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=settings.dim,
        sg=settings.architecture == "skipgram",
        min_count=1,
        sample=settings.subsample,
        workers=1,
        seed=settings.seed,
        sorted_vocab=0,
        alpha=settings.lr,
        min_alpha=settings.min_lr,
    )
    model.build_vocab_from_freq({str(i): int(c) for i, c in enumerate(run._model.wv.expandos["count"])})
    texts = [[str(row) for row in text] for text in texts_of(run)]
    model.train(texts, total_words=run._text.words, epochs=settings.epochs)
    return model


def texts_of(run: GensimTraining) -> list[list[int]]:
    rows = run._text.read(0, run._text.words)
    return [np.where(text < 0, ~text, text).tolist() for text in np.split(rows, np.flatnonzero(rows < 0)[1:])]


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_one_epoch_gives_the_bytes_of_gensim(tmp_path: Path, architecture: str) -> None:
    run = training(tmp_path, architecture=architecture, epochs=1)
    before = run.vectors.copy()
    list(run.steps(StopFlag()))
    model = plain_gensim(run, run._settings)
    np.testing.assert_array_equal(run.vectors, model.wv.vectors)
    np.testing.assert_array_equal(run.outputs, model.syn1neg)
    assert (run.vectors != before).any(axis=1).all()


def test_several_epochs_give_the_vectors_of_gensim(tmp_path: Path) -> None:
    run = training(tmp_path, epochs=3)
    list(run.steps(StopFlag()))
    np.testing.assert_allclose(run.vectors, plain_gensim(run, run._settings).wv.vectors, atol=2e-4)


def test_gensim_is_given_every_word_in_lists_that_it_takes_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = training(tmp_path, words=600)
    monkeypatch.setattr("wordpipe.words.gensim_backend._LONGEST", 7)
    monkeypatch.setattr("wordpipe.words.gensim_backend._AT_ONCE", 45)
    lists = [[int(word) for word in words] for words in run._lists(StopFlag(), 0, run._text.words)]
    assert max(map(len, lists)) == 7
    assert [row for some in lists for row in some] == [row for text in texts_of(run) for row in text]
    ends = set(np.cumsum([len(some) for some in lists]).tolist())
    assert set(np.cumsum([len(text) for text in texts_of(run)]).tolist()) <= ends


def test_a_text_that_cannot_be_read_is_an_error_and_no_wait_without_end(tmp_path: Path) -> None:
    run = training(tmp_path)
    (tmp_path / "text.rows").write_bytes(b"")
    with pytest.raises(OSError, match="too short"):
        list(run.steps(StopFlag()))


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "threads"), [("skipgram", 1), ("skipgram", 2), ("cbow", 2)])
def test_words_that_keep_company_become_neighbours(tmp_path: Path, architecture: str, threads: int) -> None:
    run = training(tmp_path, words=60_000, architecture=architecture, threads=threads, epochs=4)
    steps = list(run.steps(StopFlag()))
    losses = [step.loss for step in steps if step.loss is not None]
    assert len(losses) == 4
    assert losses[-1] < losses[0] < 6 * np.log(2)
    assert [step.tokens for step in steps][-1] == steps[-1].total == 240_000
    assert steps[-1].lr == pytest.approx(1e-4)
    assert run.bitwise == (threads == 1)
    ids = Vocabulary.keep(count_ids(batches(topics(60_000, seed=7)), 40), 1).ids
    table = WordVectors([str(number) for number in ids], np.ones(40, dtype=np.int64), run.vectors)
    assert sum(int(near.word) % 2 for near in table.neighbours(["7"], k=19)) >= 18


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from tests.words.test_gensim_backend import digest_of_run;"
        "print(digest_of_run(pathlib.Path(sys.argv[1])))"
    )
    other = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "0"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / other)],
        env=os.environ | {"PYTHONHASHSEED": other}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout == digest_of_run(tmp_path / "here") + "\n"


def digest_of_run(folder: Path) -> str:
    run = training(folder, deterministic=True, threads=2, subsample=1e-3, epochs=2)
    assert run.threads == 1
    losses = [step.loss for step in run.steps(StopFlag())]
    return hashlib.sha256(run.vectors.tobytes() + run.outputs.tobytes() + repr(losses).encode()).hexdigest()


def test_a_stop_signal_ends_the_training_within_an_epoch(tmp_path: Path) -> None:
    run, flag = training(tmp_path, words=60_000, epochs=50), StopFlag()
    steps = run.steps(flag)
    assert [next(steps).tokens, next(steps).tokens] == [0, 60_000]
    assert next(steps).epoch == 2
    flag.signum = 15
    with pytest.raises(Stopped):
        next(steps)
    assert run._read == 60_000


def test_vectors_that_are_not_finite_end_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = training(tmp_path, epochs=3)

    def poison(*_: object, **__: object) -> None:
        run.outputs[3, 0] = np.nan

    monkeypatch.setattr(run._model, "train", poison)
    with pytest.raises(DivergedError, match="epoch 1"):
        list(run.steps(StopFlag()))


def test_the_seed_decides(tmp_path: Path) -> None:
    first, second = (training(tmp_path / str(seed), seed=seed).vectors for seed in (1, 2))
    assert not np.array_equal(first, second)


def test_without_gensim_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gensim" else find(name))
    with pytest.raises(ConfigError, match="needs gensim") as error:
        require_gensim()
    assert "3.14" in (error.value.hint or "")


def test_threads_are_one_per_core_unless_said(tmp_path: Path) -> None:
    threads = [training(tmp_path / str(n), words=600, **some).threads for n, some in enumerate(SOME)]
    assert threads == [3, cpu_count(), 1]


def test_a_rising_learning_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_lr"):
        Word2VecPlan.make({"lr": 0.01, "min_lr": 0.02})
