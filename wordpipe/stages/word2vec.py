"""`wordpipe train word2vec`: tokens → words."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import STEPS, VOCABULARY, words_schema
from wordpipe.artifacts.tables import read_batches, read_schema, row_count
from wordpipe.runtime import stop_signal
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.tokens.formats.reading import open_tokenizer
from wordpipe.tokens.vocabulary import number_of_ids
from wordpipe.words.corpus_file import CorpusFiles, part_words, write_corpus_files
from wordpipe.words.gensim_backend import GensimTraining, require_gensim, threads_of
from wordpipe.words.lines import Lines, read_lines
from wordpipe.words.probe import Probe
from wordpipe.words.settings import Word2VecSettings
from wordpipe.words.step import Step
from wordpipe.words.table import WordVectors
from wordpipe.words.vocabulary import COLUMN_OF_UNIT, Vocabulary, count_ids

__all__ = ["train_word2vec"]


def train_word2vec(tokens: PathLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train word vectors on a tokens artifact.

    Args:
        tokens: a tokens artifact.
        output: folder of the words artifact.
        run: progress, fresh start, verification.
        settings: fields of `Word2VecSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = Word2VecSettings.make(settings)
    require_gensim()
    with making("words", "train word2vec", output, chosen, run) as job:
        job.libraries = ("gensim", "numpy", "pyarrow")
        source = job.open_input(tokens, ["tokens"])
        spelled = _spellings(source, chosen.unit)
        vocabulary = _vocabulary(job, source, len(spelled), chosen)
        text = _write_text(job, source, vocabulary, chosen)
        probe = _probe(source, vocabulary, chosen)
        training = GensimTraining(text, vocabulary, chosen, probe)
        job.threads, job.bitwise = training.threads, training.bitwise
        _train(job, training)
        table = WordVectors([spelled[i] for i in vocabulary.ids], vocabulary.counts, training.vectors)
        _write_words(job, table)
        job.write("tokenizer.json", source.read("tokenizer.json"))  # queries and embed cut unspaced scripts with it
        facts = source.manifest.facts
        job.facts |= {"dim": chosen.dim, "unit": chosen.unit, "keep_case": facts["keep_case"]}
    return job.made


def _spellings(source: Artifact, unit: Literal["word", "token"]) -> list[str]:
    """The word (or token) of every id."""
    if unit == "token":
        tokenizer = open_tokenizer(source.read("tokenizer.json"), where=str(source.path / "tokenizer.json"))
        return [tokenizer.id_to_token(number) or f"<{number}>" for number in range(number_of_ids(tokenizer))]
    batches = read_batches(source, "words", ["word"], expected=VOCABULARY)
    return [word for batch in batches for word in batch.column("word").to_pylist()]


def _vocabulary(job: Job, source: Artifact, size: int, settings: Word2VecSettings) -> Vocabulary:
    column = COLUMN_OF_UNIT[settings.unit]
    counts = count_ids(_rows(job, source, column, "counting"), size, column=column)
    vocabulary = Vocabulary.keep(counts, settings.min_count)
    job.counts |= {
        "words_kept": vocabulary.tokens,
        "words_dropped_rare": vocabulary.dropped_tokens,
        "distinct_kept": len(vocabulary),
        "distinct_dropped_rare": vocabulary.dropped_kinds,
    }
    return vocabulary


def _write_text(job: Job, source: Artifact, vocabulary: Vocabulary, settings: Word2VecSettings) -> CorpusFiles:
    """The training text where gensim can read it: a scratch folder beside the output."""
    folder = Path(job.scratch) / "text"
    folder.mkdir()
    text = write_corpus_files(
        _lines(source, vocabulary, settings, "train", job),
        folder,
        vocab_size=len(vocabulary),
        words_per_part=part_words(vocabulary.tokens, threads_of(settings)),
    )
    job.counts |= {"texts": text.texts, "texts_cut_for_length": text.cuts}
    return text


def _probe(source: Artifact, vocabulary: Vocabulary, settings: Word2VecSettings) -> Probe | None:
    """What the loss is measured on: held-out text where there is some."""
    for split in ("valid", "train"):
        probe = Probe.sample(_lines(source, vocabulary, settings, split), vocabulary, settings, split=split)
        if probe is not None:
            return probe
    return None


def _lines(
    source: Artifact, vocabulary: Vocabulary, settings: Word2VecSettings, split: str, job: Job | None = None
) -> Iterator[Lines]:
    column = COLUMN_OF_UNIT[settings.unit]
    rows = _rows(job, source, column, "preparing")
    return read_lines(rows, vocabulary, column=column, split=split, context=settings.context)


def _rows(job: Job | None, source: Artifact, column: str, phase: str) -> Iterator[pa.RecordBatch]:
    read_schema(source, "tokens")
    total, done = row_count(source, "tokens"), 0
    for batch in read_batches(source, "tokens", ["doc_id", "sentence_id", "split", column]):
        yield batch
        done += len(batch)
        if job is not None:
            job.report(phase, done, total, "sentences")


def _train(job: Job, training: GensimTraining) -> None:
    """Train, log every step, and leave at once when a stop signal arrives: there is nothing to continue from."""
    measured: Step | None = None  # the last step that knows its loss
    with stop_signal() as flag, job.table("steps", STEPS, single=True, log=True) as log:
        for step in training.steps(flag):
            log.write(_row(step))
            measured = step if step.loss is not None else measured
            speed = step.tokens / max(step.seconds, 1e-9)
            figures = {"epoch": str(step.epoch), "lr": f"{step.lr:.4f}", "words/s": f"{speed:,.0f}"}
            if measured is not None:
                figures["loss"] = f"{measured.loss:.4f}"
            job.report("training", step.tokens, step.total, "words", **figures)
            job.rates = {"words_per_s": round(speed, 1)}
    if measured is not None and measured.loss is not None:
        job.metrics = {"loss": round(measured.loss, 6)}
        job.facts = {"loss_split": measured.split}


def _row(step: Step) -> pa.RecordBatch:
    values: Iterable[Any] = (step.step, step.tokens, step.split, step.loss, step.lr, step.seconds)
    return pa.record_batch([pa.array([v], f.type) for v, f in zip(values, STEPS, strict=True)], schema=STEPS)


def _write_words(job: Job, table: WordVectors) -> None:
    norms = np.linalg.norm(table.vectors, axis=1)
    assert np.isfinite(norms).all(), "the trainer let a non-finite vector through"
    with job.table("words", words_schema(table.dim)) as writer:
        for batch in table.to_batches():
            writer.write(batch)
