"""The two halves of `wordpipe tokenize` that go through the corpus shard by shard: counting and encoding.

Counting says how often each pre-token and each run of a word occurs. Every thread counts into tables of its own, of bounded
size. What does not fit, and what is there at the end of a shard, goes to disk as runs, which are added up at the end. Encoding
turns rows of text into ids of tokens and numbers of words. A shard that lies finished on the shelf is not done again.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from io import RawIOBase
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.artifacts import Artifact, ResumeCache, Shard, read_shard, tokens_schema
from wordpipe.stages.job import Job
from wordpipe.tokens import (
    TABLE_BYTES,
    Cut,
    Encoder,
    Gatherer,
    RowEncoder,
    SpillingTable,
    WordNumbers,
    cut_words,
    in_order,
    list_array,
    row_buffers,
    split_long,
    vocabulary_of,
)

MAX_PRETOKEN_BYTES = 1024  # longer ones (no word of any language is) are counted in pieces
_COUNTED_COLUMNS = ("doc_id", "text")


@dataclass
class Counted:
    """What was counted.

    Attributes:
        pretokens, words: opens each run of counts.
        figures: what happened on the way, by name.
    """

    pretokens: list[Callable[[], Any]] = field(default_factory=list)
    words: list[Callable[[], Any]] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


def count_shards(
    job: Job, shelf: ResumeCache, source: Artifact, shards: list[Shard], *, pretokens: Cut | None, words: Cut,
    sample: float, memory: int, threads: int,
) -> Counted:  # fmt: skip
    """Count a corpus.

    Args:
        job: told how far the work is.
        shelf: keeps the runs.
        source: the corpus.
        shards: its shards.
        pretokens: cuts rows into pre-tokens; None where they are not wanted.
        words: cuts rows into runs of words.
        sample: share of the documents whose pre-tokens are counted.
        memory: bytes for the tables of all threads.
        threads: how many.
    """
    counted, total, done = Counted(), sum(shard.rows for shard in shards), 0
    finished = [shelf.figures(_marker(shard)) for shard in shards]
    if before := sum(figures is not None for figures in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were counted before")
    for shard, figures in zip(shards, finished, strict=True):
        if figures is None or any(shelf.figures(name) is None for name in [*figures["pretokens"], *figures["words"]]):
            worker = _ShardCounter(shelf, shard, pretokens, words, sample, memory, threads)
            figures = worker.count(source, job.reporter("counting", done, total, "sentences"))
            shelf.put(_marker(shard), b"", figures)
        done += shard.rows
        counted.pretokens += [partial(shelf.open, name) for name in figures["pretokens"]]
        counted.words += [partial(shelf.open, name) for name in figures["words"]]
        for name, value in figures["counts"].items():
            counted.figures[name] = counted.figures.get(name, 0) + value
    return counted


def _marker(shard: Shard) -> str:
    return f"counted-{shard.number:05d}"


class _ShardCounter:
    """Counts one shard."""

    def __init__(
        self,
        shelf: ResumeCache,
        shard: Shard,
        pretokens: Cut | None,
        words: Cut,
        sample: float,
        memory: int,
        threads: int,
    ) -> None:
        self._shelf, self._shard, self._sample = shelf, shard, sample
        self._cut_pretokens, self._cut_words = pretokens, words
        self._runs: dict[str, list[str]] = {"pretokens": [], "words": []}
        self._numbers = count()
        each = min(memory // (2 * threads), TABLE_BYTES)
        self._tables = [
            {kind: SpillingTable(each, partial(self._new_run, kind)) for kind in self._runs} for _ in range(threads)
        ]

    def count(self, source: Artifact, report: Callable[[int], None]) -> dict[str, Any]:
        """Count all rows, put the runs on the shelf and return what to note of them."""
        counts = {"sentences_trained_on": 0, "pretokens_split": 0} if self._cut_pretokens is not None else {}
        rows = 0
        for batch_rows, sampled, split in in_order(self._count_batch, self._batches(source), self._tables):
            rows += batch_rows
            if self._cut_pretokens is not None:
                counts["sentences_trained_on"] += sampled
                counts["pretokens_split"] += split
            report(rows)
        first, *others = self._tables
        for kind in self._runs:
            for other in others:
                first[kind].take(other[kind])
            if kind == "words" or self._cut_pretokens is not None:
                first[kind].spill()
        return {**{kind: sorted(names) for kind, names in self._runs.items()}, "counts": counts}

    def _batches(self, source: Artifact) -> Iterator[pa.RecordBatch]:
        return read_shard(source, self._shard, _COUNTED_COLUMNS)

    def _count_batch(self, tables: dict[str, SpillingTable], batch: pa.RecordBatch) -> tuple[int, int, int]:
        texts, split, sampled = batch.column("text"), 0, 0
        words = self._cut_words(texts)
        tables["words"].add(words.data, words.starts, words.ends)
        if self._cut_pretokens is not None:
            chosen = texts if self._sample == 1 else texts.filter(in_sample(batch.column("doc_id"), self._sample))
            spans, split = split_long(self._cut_pretokens(chosen), MAX_PRETOKEN_BYTES)
            tables["pretokens"].add(spans.data, spans.starts, spans.ends)
            sampled = len(chosen)
        return len(batch), sampled, split

    def _new_run(self, kind: str) -> AbstractContextManager[RawIOBase]:
        name = f"{kind}-{self._shard.number:05d}-{next(self._numbers):04d}.parquet"
        self._runs[kind].append(name)
        return self._shelf.piece(name, {})


def in_sample(doc_ids: pa.Array, share: float) -> pa.Array:
    """Which rows belong to documents in a sample: a document is in it or not by its id, which is a hash of its text."""
    coded = doc_ids.dictionary_encode()
    first = [int(doc_id[:8], 16) < share * 2**32 for doc_id in coded.dictionary.to_pylist()]
    return pc.take(pa.array(first, pa.bool_()), coded.indices) if len(first) else pa.array(np.zeros(0, np.bool_))


_COLUMNS = ("doc_id", "sentence_id", "split", "text")
_FIGURES = ("sentences", "tokens", "tokens_unknown", "tokens_special", "bytes")
_REMEMBERED_WORDS = 12 << 20  # bytes for the runs each thread remembers


def encode_shards(
    job: Job, shelf: ResumeCache, source: Artifact, shards: list[Shard], tokenizer: Tokenizer, numbers: WordNumbers
) -> None:
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    encoder = Encoder(tokenizer)
    job.facts["exact_by"] = encoder.exact_by
    (kinds, example), cut = _kinds_of_ids(tokenizer), cut_words()
    workers = [
        _Worker(encoder.for_thread(), cut, Gatherer(numbers.encode, _REMEMBERED_WORDS), kinds)
        for _ in range(job.threads)
    ]
    schema, total, done = tokens_schema(encoder.id_type), sum(shard.rows for shard in shards), 0
    counts, encoded = dict.fromkeys(_FIGURES, 0), 0
    finished = [shelf.figures(_part(shard)) for shard in shards]
    if before := sum(one is not None for one in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were encoded before")
    for shard, earlier in zip(shards, finished, strict=True):
        figures = earlier or _encode(
            shelf, source, shard, schema, workers, job.reporter("encoding", done, total, "sentences")
        )
        encoded += 0 if earlier else figures["bytes"]
        shelf.adopt(_part(shard), job.draft)
        done += shard.rows
        for name in counts:
            counts[name] += figures[name]
    size = counts.pop("bytes")
    job.counts |= counts
    if counts["tokens_special"]:
        job.warn(
            f"{counts['tokens_special']:,} tokens are special tokens, because the text spells them out (such as "
            f"{example}); tokenizers reads them so, too"
        )
    job.rates = {"mb_per_s": round(encoded / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, counts["tokens"]), 4)}


def _part(shard: Shard) -> str:
    return f"tokens-{shard.number:05d}.parquet"


def _encode(
    shelf: ResumeCache,
    source: Artifact,
    shard: Shard,
    schema: pa.Schema,
    workers: list["_Worker"],
    report: Callable[[int], None],
) -> dict[str, Any]:
    figures = dict.fromkeys(_FIGURES, 0)
    with shelf.table(_part(shard), schema, figures) as table:
        batches = read_shard(source, shard, _COLUMNS)
        for encoded, found in in_order(lambda worker, batch: worker.encode(batch, schema), batches, workers):
            table.write(encoded)
            for name, value in zip(_FIGURES, found, strict=True):
                figures[name] += value
            report(figures["sentences"])
    return figures


def _kinds_of_ids(tokenizer: Tokenizer) -> tuple[NDArray[np.uint8], str]:
    """uint8 [ids], 1 for the unknown token, 2 for other special tokens, 0 for all else; and a special token, for example."""
    vocabulary = vocabulary_of(tokenizer)
    kinds = 2 * vocabulary.special.astype(np.uint8)
    kinds[vocabulary.unknown] = 1
    example = next((vocabulary.tokens[number] for number in np.flatnonzero(kinds == 2)), None)
    return kinds, example or ""


@dataclass
class _Worker:
    """What one thread encodes with."""

    tokens: RowEncoder
    cut_words: Cut
    words: Gatherer
    kinds: NDArray[np.uint8]

    def encode(self, batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, tuple[int, ...]]:
        """Rows of the tokens table, and the figures of `_FIGURES`."""
        texts = batch.column("text")
        ids, offsets = self.tokens.encode(texts)
        words, word_offsets = self.words.gather(self.cut_words(texts))
        columns = [
            *(batch.column(name) for name in ("doc_id", "sentence_id", "split")),
            list_array(ids, offsets, schema.field("ids").type),
            list_array(words, word_offsets, schema.field("word_ids").type),
        ]
        _, unknown, special = np.bincount(self.kinds[ids], minlength=3).tolist()
        figures = (len(batch), len(ids), unknown, special, len(row_buffers(texts)[0]))
        return pa.RecordBatch.from_arrays(columns, schema=schema), figures
