"""The counting half of `wordpipe tokenize`: how often each pre-token and each run of a word occurs, shard by shard.

Every thread counts into tables of its own, of bounded size. What does not fit, and what is there at the end of a shard,
goes to disk as runs, which are added up at the end. A shard whose runs are on the shelf is not counted again.
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

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.shards import Shard, read_shard
from wordpipe.artifacts.shelf import Shelf
from wordpipe.stages.making import Job
from wordpipe.tokens.counting import TABLE_BYTES, SpillingTable
from wordpipe.tokens.cutting import Cut, split_long
from wordpipe.tokens.encoding import in_order

__all__ = ["Counted", "count_shards"]

MAX_PRETOKEN_BYTES = 1024  # longer ones (no word of any language is) are counted in pieces
_COLUMNS = ("doc_id", "text")


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
    job: Job, shelf: Shelf, source: Artifact, shards: list[Shard], *, pretokens: Cut | None, words: Cut,
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


@dataclass
class _Tables:
    """What one thread counts into."""

    pretokens: SpillingTable
    words: SpillingTable


class _ShardCounter:
    """Counts one shard."""

    def __init__(
        self, shelf: Shelf, shard: Shard, pretokens: Cut | None, words: Cut, sample: float, memory: int, threads: int
    ) -> None:
        self._shelf, self._shard, self._sample = shelf, shard, sample
        self._cut_pretokens, self._cut_words = pretokens, words
        self._runs: dict[str, list[str]] = {"pretokens": [], "words": []}
        self._numbers = count()
        each = min(memory // (2 * threads), TABLE_BYTES)
        self._tables = [
            _Tables(*(SpillingTable(each, partial(self._new_run, kind)) for kind in self._runs)) for _ in range(threads)
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
            table: SpillingTable = getattr(first, kind)
            for other in others:
                table.take(getattr(other, kind))
            if kind == "words" or self._cut_pretokens is not None:
                table.spill()
        return {**{kind: sorted(names) for kind, names in self._runs.items()}, "counts": counts}

    def _batches(self, source: Artifact) -> Iterator[pa.RecordBatch]:
        return read_shard(source, self._shard, _COLUMNS)

    def _count_batch(self, tables: _Tables, batch: pa.RecordBatch) -> tuple[int, int, int]:
        texts, split, sampled = batch.column("text"), 0, 0
        words = self._cut_words(texts)
        tables.words.add(words.data, words.starts, words.ends)
        if self._cut_pretokens is not None:
            chosen = texts if self._sample == 1 else texts.filter(in_sample(batch.column("doc_id"), self._sample))
            spans, split = split_long(self._cut_pretokens(chosen), MAX_PRETOKEN_BYTES)
            tables.pretokens.add(spans.data, spans.starts, spans.ends)
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
