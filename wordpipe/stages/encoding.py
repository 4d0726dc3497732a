"""The encoding half of `wordpipe tokenize`: rows of text become ids of tokens and numbers of words, shard by shard."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import tokens_schema
from wordpipe.artifacts.shards import Shard, read_shard
from wordpipe.artifacts.shelf import Shelf
from wordpipe.stages.making import Job
from wordpipe.tokens.cutting import Cut, cut_words, row_buffers
from wordpipe.tokens.encoding import Encoder, Gatherer, RowEncoder, in_order, list_array
from wordpipe.tokens.vocabulary import vocabulary_of
from wordpipe.tokens.wordlist import WordNumbers

__all__ = ["encode_shards"]

_COLUMNS = ("doc_id", "sentence_id", "split", "text")
_FIGURES = ("sentences", "tokens", "tokens_unknown", "tokens_special", "bytes")
_REMEMBERED_WORDS = 12 << 20  # bytes for the runs each thread remembers


def encode_shards(
    job: Job, shelf: Shelf, source: Artifact, shards: list[Shard], tokenizer: Tokenizer, numbers: WordNumbers
) -> None:
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    encoder = Encoder(tokenizer)
    job.facts["exact_by"] = encoder.exact_by
    special, cut = SpecialIds.of(tokenizer), cut_words()
    workers = [
        _Worker(encoder.for_thread(), cut, Gatherer(numbers.encode, _REMEMBERED_WORDS), special)
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
            f"{special.example}); tokenizers reads them so, too"
        )
    job.rates = {"mb_per_s": round(encoded / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, counts["tokens"]), 4)}


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
    figures = dict.fromkeys(_FIGURES, 0)
    with shelf.table(_part(shard), schema, figures) as table:
        batches = read_shard(source, shard, _COLUMNS)
        for encoded, found in in_order(lambda worker, batch: worker.encode(batch, schema), batches, workers):
            table.write(encoded)
            for name, value in zip(_FIGURES, found, strict=True):
                figures[name] += value
            report(figures["sentences"])
    return figures


@dataclass(frozen=True)
class SpecialIds:
    """Which ids stand for the unknown, and which for special tokens.

    Attributes:
        kinds: uint8 [ids], 1 for the unknown token, 2 for the other special tokens, 0 for all else.
        example: a special token.
    """

    kinds: NDArray[np.uint8]
    example: str

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "SpecialIds":
        vocabulary = vocabulary_of(tokenizer)
        kinds = 2 * vocabulary.special.astype(np.uint8)
        kinds[vocabulary.unknown] = 1
        example = next((vocabulary.tokens[number] for number in np.flatnonzero(kinds == 2)), None)
        return cls(kinds, example or "")

    def count(self, ids: NDArray[np.uint32]) -> tuple[int, int]:
        """How many ids are unknown, and how many special."""
        of_kind = np.bincount(self.kinds[ids], minlength=3)
        return int(of_kind[1]), int(of_kind[2])


@dataclass
class _Worker:
    """What one thread encodes with."""

    tokens: RowEncoder
    cut_words: Cut
    words: Gatherer
    special: SpecialIds

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
        figures = (len(batch), len(ids), *self.special.count(ids), len(row_buffers(texts)[0]))
        return pa.RecordBatch.from_arrays(columns, schema=schema), figures
