"""What each library has to do to train word vectors on a text file: one small function each, in a fresh process of its own.

A task is a dictionary: text (a file, a document per line, its words parted by spaces, none too rare), architecture, loss,
epochs, lr, min_lr, dim, window, negatives, subsample, threads, seed, and keep (a folder to make for the vectors).

Each gives what it found: seconds (of the training alone), vocabulary_seconds, and words_read, if the library says.
"""

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Task = dict[str, Any]
Found = dict[str, Any]

ENGINES: dict[str, Callable[[Task], Found]] = {}


def engine(name: str) -> Callable[[Callable[[Task], Found]], Callable[[Task], Found]]:
    """Register what trains by this name."""

    def register(function: Callable[[Task], Found]) -> Callable[[Task], Found]:
        ENGINES[name] = function
        return function

    return register


def keep_vectors(task: Task, words: Sequence[str], vectors: Any, outputs: Any) -> None:
    """Write the table as plain files: as much as wordpipe writes."""
    folder = Path(task["keep"])
    folder.mkdir()
    (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    np.save(folder / "vectors.npy", np.asarray(vectors, dtype=np.float32), allow_pickle=False)
    np.save(folder / "outputs.npy", np.asarray(outputs, dtype=np.float32), allow_pickle=False)


def gensim_model(task: Task) -> Any:
    """An empty model with the task's settings."""
    from gensim.models import Word2Vec

    assert task["loss"] in ("ns", "hs"), task["loss"]
    return Word2Vec(
        vector_size=task["dim"],
        window=task["window"],
        min_count=1,  # rare words are gone from the text
        workers=task["threads"],
        sg=int(task["architecture"] == "skipgram"),
        hs=int(task["loss"] == "hs"),
        negative=task["negatives"] if task["loss"] == "ns" else 0,
        sample=task["subsample"],
        alpha=task["lr"],
        min_alpha=task["min_lr"],
        epochs=task["epochs"],
        seed=task["seed"],
    )


def train_gensim(task: Task, source: dict[str, Any]) -> Found:
    """Build the vocabulary, train, and see what was trained.

    Of the words that survive subsampling gensim says how many it trained; over those that were to survive, that is the share
    of the text that it did train.
    """
    model = gensim_model(task)
    begun = time.monotonic()
    model.build_vocab(**source)
    built = time.monotonic()
    counts = model.wv.expandos["count"]
    survive = (counts * (model.wv.expandos["sample_int"] / 2**32)).sum()
    before = model.wv.vectors.copy() if task.get("last_word") else None
    start = time.monotonic()
    trained, read = model.train(
        **source, total_examples=model.corpus_count, total_words=model.corpus_total_words, epochs=task["epochs"]
    )
    seconds = time.monotonic() - start
    keep_vectors(task, model.wv.index_to_key, model.wv.vectors, model.syn1neg if task["loss"] == "ns" else model.syn1)
    found = {
        "seconds": seconds, "vocabulary_seconds": built - begun, "words_read": int(read), "words_trained": int(trained),
        "share_read": read / (int(counts.sum()) * task["epochs"]),
        "share_trained": trained / (float(survive) * task["epochs"]),
    }  # fmt: skip
    if before is not None:
        row = model.wv.key_to_index[task["last_word"]]
        found["last_word_changed"] = bool((model.wv.vectors[row] != before[row]).any())
    return found


@engine("gensim-file")
def train_gensim_file(task: Task) -> Found:
    """By `corpus_file`, gensim's fastest way."""
    return train_gensim(task, {"corpus_file": task["text"]})


@engine("gensim-iterable")
def train_gensim_iterable(task: Task) -> Found:
    """From an iterable of lists of words, gensim's own reader of such files."""
    from gensim.models.word2vec import LineSentence

    return train_gensim(task, {"corpus_iterable": LineSentence(task["text"])})


@engine("fasttext")
def train_fasttext(task: Task) -> Found:
    """One call builds the vocabulary and trains; how fast the training was is in what it writes to stderr while it works.

    It ends when its threads have read as many words as the text has, whichever those are, and its learning rate ends at zero.
    """
    import fasttext

    begun = time.monotonic()
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            model = fasttext.train_unsupervised(
                task["text"], model=task["architecture"], loss=task["loss"],
                dim=task["dim"], ws=task["window"], neg=task["negatives"], t=task["subsample"], lr=task["lr"],
                epoch=task["epochs"], thread=task["threads"], minCount=1, minn=0, maxn=0, verbose=2,
            )  # fmt: skip
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        log.seek(0)
        said = log.read().decode(errors="replace")
    whole = time.monotonic() - begun
    words, counts = model.get_words(include_freq=True)
    read = int(sum(counts)) * task["epochs"]
    seconds = read / (task["threads"] * fasttext_speed(said))
    keep_vectors(task, words, model.get_input_matrix(), model.get_output_matrix())
    return {"seconds": seconds, "vocabulary_seconds": whole - seconds, "words_read": read}


def fasttext_speed(said: str) -> int:
    """The last figure of words per second and thread that fastText wrote.

    Raises:
        ValueError: there is none.
    """
    found = re.findall(r"words/sec/thread:\s*(\d+)", said)
    if not found or not int(found[-1]):
        raise ValueError(f"fastText did not say how fast it was: {said[-200:]!r}")
    return int(found[-1])
