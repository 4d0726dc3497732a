import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.words.texts import batches, topics
from wordpipe.errors import ConfigError, DivergedError
from wordpipe.runtime import StopFlag, Stopped
from wordpipe.words.corpus_file import write_corpus_files
from wordpipe.words.gensim_backend import GensimTraining, require_gensim, threads_of
from wordpipe.words.lines import cut_lines
from wordpipe.words.probe import Probe
from wordpipe.words.reading import kept_rows, read_words
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.table import WordVectors
from wordpipe.words.vocabulary import Vocabulary, count_ids

pytest.importorskip("gensim", reason="gensim has no wheel for this Python")


def training(folder: Path, *, words: int = 12_000, words_per_part: int = 1_000_000, **values: Any) -> GensimTraining:
    """A training on text of two topics."""
    settings = Word2VecPlan(**({"dim": 16, "threads": 1, "subsample": 0} | values))
    docs = list(batches(topics(words, seed=7), rows=100))
    vocabulary = Vocabulary.keep(count_ids(docs, 40), 1)
    blocks = [*kept_rows(read_words(docs, column="word_ids", context="document", split="train"), vocabulary.row_of_id)]
    folder.mkdir(exist_ok=True)
    text = write_corpus_files(cut_lines(blocks), folder, vocab_size=len(vocabulary), words_per_part=words_per_part)
    return GensimTraining(text, vocabulary, settings, Probe.sample(blocks, vocabulary, settings, split="train"))


def plain_gensim(run: GensimTraining, settings: Word2VecPlan) -> Any:
    """The same training by gensim's own loop."""
    from gensim.models import Word2Vec

    (part,) = run._text.parts
    model = Word2Vec(
        vector_size=settings.dim,
        sg=settings.architecture == "skipgram",
        min_count=1,
        sample=settings.subsample,
        workers=1,
        seed=settings.seed,
        sorted_vocab=0,
        min_alpha=settings.min_lr,
    )
    model.build_vocab_from_freq({str(i): int(c) for i, c in enumerate(run._model.wv.expandos["count"])})
    model.train(corpus_file=str(part.path), total_words=part.words + part.marks, epochs=settings.epochs)
    return model


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


@pytest.mark.parametrize(("architecture", "threads"), [("skipgram", 1), ("skipgram", 2), ("cbow", 2)])
def test_words_that_keep_company_become_neighbours(tmp_path: Path, architecture: str, threads: int) -> None:
    run = training(tmp_path, words=60_000, words_per_part=10_000, architecture=architecture, threads=threads, epochs=4)
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
    run = training(folder, words_per_part=3_000, deterministic=True, threads=2, subsample=1e-3, epochs=2)
    assert run.threads == 1
    losses = [step.loss for step in run.steps(StopFlag())]
    return hashlib.sha256(run.vectors.tobytes() + run.outputs.tobytes() + repr(losses).encode()).hexdigest()


def test_a_stop_signal_ends_the_training_between_parts(tmp_path: Path) -> None:
    run = training(tmp_path, words=60_000, words_per_part=10_000, epochs=50)
    flag = StopFlag()
    steps = run.steps(flag)
    assert next(steps).tokens > 0
    flag.signum = 15
    with pytest.raises(Stopped):
        next(steps)


def test_vectors_that_are_not_finite_end_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = training(tmp_path, epochs=3)

    def poison(*_: object) -> None:
        run.outputs[3, 0] = np.nan

    monkeypatch.setattr(run, "_train_part", poison)
    with pytest.raises(DivergedError, match="epoch 1"):
        next(run.steps(StopFlag()))


def test_the_seed_decides(tmp_path: Path) -> None:
    first, second = (training(tmp_path / str(seed), seed=seed).vectors for seed in (1, 2))
    assert not np.array_equal(first, second)


def test_without_gensim_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gensim" else find(name))
    with pytest.raises(ConfigError, match="needs gensim") as error:
        require_gensim()
    assert "3.14" in (error.value.hint or "")


def test_threads_are_one_per_core_unless_said() -> None:
    assert threads_of(Word2VecPlan(threads=3)) == 3
    assert threads_of(Word2VecPlan()) >= 1
    assert threads_of(Word2VecPlan(threads=3, deterministic=True)) == 1


def test_a_rising_learning_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_lr"):
        Word2VecPlan.make({"lr": 0.01, "min_lr": 0.02})
