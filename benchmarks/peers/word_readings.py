"""What is read from wordpipe's artifacts around the trainings, outside all measurements; and a huge vocabulary's training."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts import VOCABULARY, Artifact, read_batches
from wordpipe.runtime import StopFlag, peak_memory_bytes
from wordpipe.words import (
    HeldOutLoss,
    NativeTraining,
    Pairs,
    Vocabulary,
    Weights,
    Words,
    WordVectors,
    count_ids,
    evaluate_analogies,
    evaluate_similarity,
    keep_probabilities,
    kept_rows,
    read_set,
    read_words,
    write_text,
)
from wordpipe.words.kernels.simd import padded
from wordpipe.words.settings import Word2VecPlan, Word2VecSettings

Task = dict[str, Any]
Found = dict[str, Any]

COLUMNS = ["doc_id", "sentence_id", "split", "word_ids"]
PROBE_SEED = 1  # one sample for all engines and seeds
HUGE_BLOCK = 1_000_000


def vocabulary_of(tokens: Artifact, min_count: int) -> tuple[pa.StringArray, Vocabulary]:
    """The kept words, spelled, and their rows."""
    batches = read_batches(tokens, "words", ["word"], expected=VOCABULARY)
    words = pa.concat_arrays([batch.column("word") for batch in batches])
    counts = count_ids(read_batches(tokens, "tokens", COLUMNS), len(words))
    vocabulary = Vocabulary.keep(counts, min_count)
    return words.take(pa.array(vocabulary.ids)), vocabulary


def rows_of(tokens: Artifact, vocabulary: Vocabulary, split: str) -> Iterator[Words]:
    """The text of a split as rows of the vocabulary."""
    batches = read_batches(tokens, "tokens", COLUMNS)
    texts = read_words(batches, column="word_ids", context="document", split=split)
    yield from kept_rows(texts, vocabulary.row_of_id)


def prepare(task: Task) -> Found:
    """Write the very words that wordpipe trains on, a document per line."""
    with Artifact(task["tokens"], ["tokens"]) as tokens, Path(task["text"]).open("wb") as file:
        words, vocabulary = vocabulary_of(tokens, task["min_count"])
        spelled = [word.encode() for word in words.to_pylist()]
        assert not any(len(word.split()) != 1 for word in spelled), (
            "a word with a space in it cannot be given to others"
        )
        longest = texts = 0
        for line in lines_of(rows_of(tokens, vocabulary, "train")):
            file.write(b" ".join([spelled[row] for row in line]) + b"\n")
            longest, texts = max(longest, len(line)), texts + 1
    keep = keep_probabilities(vocabulary.counts, task["subsample"])
    return {
        "words": vocabulary.tokens, "distinct": len(vocabulary), "texts": texts, "longest_text": longest,
        "share_kept_by_subsampling": float((keep * vocabulary.counts).sum() / vocabulary.tokens),
    }  # fmt: skip


def lines_of(blocks: Iterator[Words]) -> Iterator[list[int]]:
    """The rows of each text that has any."""
    line: list[int] = []
    for block in blocks:
        first = 0
        for start in block.starts.tolist():
            line += block.ids[first:start].tolist()
            if line:
                yield line
            line, first = [], start
        line += block.ids[first:].tolist()
    if line:
        yield line


def trained(task: Task) -> Found:
    """What a run of `wordpipe train word2vec` logged: seconds in training, without those in which held-out text was scored.

    A report on the train split is made when an epoch's training ends, the one on the valid split when its scoring does.
    Loading the compiled code, in the first epoch, counts as training.
    """
    seconds = resumed = 0.0
    for row in pq.read_table(Path(task["words"]) / "steps.parquet").to_pylist():
        if row["split"] == "train":
            seconds += row["seconds"] - resumed
        resumed = row["seconds"]
    return {"seconds": seconds}


def tables_of(task: Task, spelled: list[str]) -> tuple[Any, Any]:
    """The vectors and output vectors of a training, in the order of our vocabulary."""
    if task["engine"] == "wordpipe":
        with Artifact(task["vectors"], ["words"]) as artifact:
            vectors, outputs = (
                np.concatenate([matrix_of(batch) for batch in read_batches(artifact, stem, ["vector"])])
                for stem in ("words", "outputs")
            )
        return vectors, outputs
    folder = Path(task["vectors"])
    words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")
    row_of = {word: row for row, word in enumerate(words)}
    rows = np.array([row_of[word] for word in spelled])
    return tuple(np.load(folder / f"{name}.npy", allow_pickle=False)[rows] for name in ("vectors", "outputs"))


def matrix_of(batch: pa.RecordBatch) -> Any:
    """The vectors of a batch, float32 (R, D)."""
    vector = batch.column("vector")
    return vector.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)


def evaluate(task: Task) -> Found:
    """Word similarity, analogies, and the loss on held-out text, of any engine's vectors by the same evaluation."""
    with Artifact(task["tokens"], ["tokens"]) as tokens:
        words, vocabulary = vocabulary_of(tokens, task["min_count"])
        plan = Word2VecSettings.make(task["settings"] | {"seed": PROBE_SEED}).plan(vocabulary.tokens)
        held_out = HeldOutLoss.sample(rows_of(tokens, vocabulary, "valid"), vocabulary, plan, split="valid")
    spelled = words.to_pylist()
    vectors, outputs = tables_of(task, spelled)
    table = WordVectors(words, vocabulary.counts, vectors)
    found: Found = {} if held_out is None else {"held_out_loss": held_out.loss(vectors, outputs)}
    for name, path in task["sets"].items():
        content = read_set(Path(path).read_bytes(), name)
        if isinstance(content, Pairs):
            pairs = evaluate_similarity(table, content)
            found |= {name: pairs["spearman"], f"{name}_known": pairs["known"], f"{name}_pairs": pairs["pairs"]}
        else:
            total = evaluate_analogies(table, content)
            found |= {name: total["accuracy"], f"{name}_known": total["seen"], f"{name}_pairs": total["asked"]}
    return found


def long_line(task: Task) -> Found:
    """Whether the vector of the text's last word is another than it was at the start."""
    with Artifact(task["words"], ["words"]) as artifact:
        batches = list(read_batches(artifact, "words"))
    words = [word for batch in batches for word in batch.column("word").to_pylist()]
    vectors = np.concatenate([matrix_of(batch) for batch in batches])
    first = Weights.initial(vectors.shape[1], len(words), len(words), 0, task["seed"]).inputs
    row = words.index(task["last_word"])
    return {"last_word_changed": bool((vectors[row] != first[row, : vectors.shape[1]]).any())}


def huge(task: Task) -> Found:
    """Train the core on made-up text with so many different words, one epoch.

    Every word occurs at least once; the others are drawn by Zipf's law, so that common and rare rows are met as in real text.
    """
    distinct, words = task["distinct"], task["distinct"] + task["more_words"]
    random = np.random.default_rng(task["seed"])
    edges = np.cumsum(1 / np.arange(1, distinct + 1))
    counts = np.ones(distinct, dtype=np.int64)

    def blocks() -> Iterator[Words]:
        order, done = random.permutation(distinct).astype(np.int32), 0
        for first in range(0, words, HUGE_BLOCK):
            size = min(HUGE_BLOCK, words - first)
            once = order[done : done + size * distinct // words + 1]
            drawn = np.searchsorted(edges, random.random(size - len(once)) * edges[-1]).astype(np.int32)
            np.add.at(counts, drawn, 1)
            done += len(once)
            yield Words(random.permutation(np.concatenate([once, drawn])), np.arange(0, size, 1000))

    text = write_text(blocks(), Path(task["text"]))
    before = peak_memory_bytes()
    ids = np.arange(distinct)
    vocabulary = Vocabulary(ids, counts, ids.astype(np.int32), 0, 0)
    plan: Word2VecPlan = Word2VecSettings.make(task["settings"]).plan(text.words)
    training = NativeTraining(text, vocabulary, plan)
    begun = time.monotonic()
    for _ in training.steps(StopFlag()):
        pass
    seconds = time.monotonic() - begun
    return {
        "seconds": seconds, "words": text.words, "distinct": distinct,
        "seconds_per_million_words": seconds / text.words * 1e6,
        "matrices_bytes": 2 * 4 * distinct * padded(plan.dim),
        "peak_before_training_bytes": before, "peak_memory_bytes": peak_memory_bytes(),
    }  # fmt: skip
