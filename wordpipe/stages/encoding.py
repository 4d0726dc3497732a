"""The encoding half of `wordpipe tokenize`: rows of text become ids of tokens and numbers of words, shard by shard."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import tokens_schema
from wordpipe.artifacts.shards import Shard, read_shard
from wordpipe.artifacts.shelf import Shelf
from wordpipe.stages.making import Job
from wordpipe.tokens.cutting import Cut, cut_words, row_buffers
from wordpipe.tokens.encoding import Encoder, RowEncoder, list_array
from wordpipe.tokens.gathering import Gatherer
from wordpipe.tokens.threads import in_order
from wordpipe.tokens.vocabulary import unknown_token
from wordpipe.tokens.wordlist import WordNumbers

__all__ = ["encode_shards"]

_COLUMNS = ("doc_id", "sentence_id", "split", "text")
_REMEMBERED_WORDS = 12 << 20  # bytes for the runs each thread remembers


def encode_shards(
    job: Job, shelf: Shelf, source: Artifact, shards: list[Shard], tokenizer: Tokenizer, numbers: WordNumbers
) -> None:
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    encoder = Encoder(tokenizer)
    job.facts["exact_by"] = encoder.exact_by
    unknown, cut = unknown_token(tokenizer), cut_words()
    workers = [
        _Worker(encoder.for_thread(), cut, Gatherer(numbers.encode, _REMEMBERED_WORDS), unknown)
        for _ in range(job.threads)
    ]
    schema, total, done = tokens_schema(encoder.id_type), sum(shard.rows for shard in shards), 0
    figures = {"sentences": 0, "tokens": 0, "tokens_unknown": 0, "bytes": 0}
    finished = [shelf.figures(_part(shard)) for shard in shards]
    if before := sum(one is not None for one in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were encoded before")
    for shard, part in zip(shards, finished, strict=True):
        part = part or _encode(shelf, source, shard, schema, workers, partial(_report, job, done, total))
        shelf.adopt(_part(shard), job.draft)
        done += shard.rows
        for name in figures:
            figures[name] += part[name]
    size = figures.pop("bytes")
    job.counts |= figures
    job.rates = {"mb_per_s": round(size / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, figures["tokens"]), 4)}


def _report(job: Job, done: int, total: int, rows: int) -> None:
    job.report("encoding", done + rows, total, "sentences")


def _part(shard: Shard) -> str:
    return f"tokens-{shard.number:05d}.parquet"


def _encode(
    shelf: Shelf,
    source: Artifact,
    shard: Shard,
    schema: pa.Schema,
    workers: list["_Worker"],
    report: Callable[[int], None],
) -> dict[str, Any]:
    figures = {"sentences": 0, "tokens": 0, "tokens_unknown": 0, "bytes": 0}
    with shelf.table(_part(shard), schema, figures) as table:
        batches = read_shard(source, shard, _COLUMNS)
        for encoded, unknown, size in in_order(lambda worker, batch: worker.encode(batch, schema), batches, workers):
            table.write(encoded)
            figures["sentences"] += len(encoded)
            figures["tokens"] += len(encoded.column("ids").values)
            figures["tokens_unknown"] += unknown
            figures["bytes"] += size
            report(figures["sentences"])
    return figures


@dataclass
class _Worker:
    """What one thread encodes with."""

    tokens: RowEncoder
    cut_words: Cut
    words: Gatherer
    unknown: int | None

    def encode(self, batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, int, int]:
        """Rows of the tokens table, how many tokens are unknown, and the bytes of text."""
        texts = batch.column("text")
        ids, offsets = self.tokens.encode(texts)
        words, word_offsets = self.words.gather(self.cut_words(texts))
        columns = [
            *(batch.column(name) for name in ("doc_id", "sentence_id", "split")),
            list_array(ids, offsets, schema.field("ids").type),
            list_array(words, word_offsets, schema.field("word_ids").type),
        ]
        missed = 0 if self.unknown is None else int(np.count_nonzero(ids == self.unknown))
        return pa.RecordBatch.from_arrays(columns, schema=schema), missed, len(row_buffers(texts)[0])
