"""The two halves of `wordpipe tokenize` that go through the corpus shard by shard: counting and encoding.

Counting says how often each pre-token and each run of a word occurs. Every thread counts into tables of its own, of bounded
size. What does not fit, and what is there at the end of a shard, goes to disk as runs, which are summed at the end. Encoding
turns rows of text into ids of tokens and numbers of words. A shard that is finished in the resume cache is not done again.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from io import RawIOBase
from itertools import count
from typing import Any

from tokenizers import Tokenizer

from wordpipe.artifacts import Artifact, ResumeCache, Shard, read_shard, tokens_schema
from wordpipe.stages.job import Job
from wordpipe.tokens import (
    FIGURES,
    TABLE_BYTES,
    CorpusEncoder,
    RowCutter,
    SpillingTable,
    WordNumbers,
    count_batch,
    in_order,
)

_KINDS = ("pretokens", "words")


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
    job: Job, cache: ResumeCache, source: Artifact, shards: list[Shard], *, pretokens: RowCutter | None, words: RowCutter,
    sample: float, memory: int,
) -> Counted:  # fmt: skip
    """Count a corpus.

    Args:
        job: says how many threads, and reports how far the work is.
        cache: keeps the runs.
        source: the corpus.
        shards: its shards.
        pretokens: cuts rows into pre-tokens; None where they are not wanted.
        words: cuts rows into runs of words.
        sample: share of the documents whose pre-tokens are counted.
        memory: bytes for the tables of all threads.
    """
    table_bytes = min(memory // (2 * job.threads), TABLE_BYTES)
    counted, total, done = Counted(), sum(shard.rows for shard in shards), 0
    finished = [cache.figures(_marker(shard)) for shard in shards]
    if before := sum(figures is not None for figures in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were counted before")
    for shard, figures in zip(shards, finished, strict=True):
        if figures is None or any(cache.figures(name) is None for name in [*figures["pretokens"], *figures["words"]]):
            runs = _RunsOfShard(cache, shard)
            tables = [
                {kind: SpillingTable(table_bytes, partial(runs.new, kind)) for kind in _KINDS}
                for _ in range(job.threads)
            ]
            count_one = partial(count_batch, words=words, pretokens=pretokens, sample=sample)
            rows = trained_on = split = 0
            for counts in in_order(count_one, read_shard(source, shard, ("doc_id", "text")), tables):
                rows, trained_on, split = rows + counts[0], trained_on + counts[1], split + counts[2]
                job.report("counting", done + rows, total, "sentences")
            for kind in _KINDS if pretokens is not None else ("words",):
                for table in tables[1:]:
                    tables[0][kind].take(table[kind])
                tables[0][kind].spill()
            notes = {"sentences_trained_on": trained_on, "pretokens_split": split} if pretokens is not None else {}
            figures = {**{kind: sorted(names) for kind, names in runs.names.items()}, "counts": notes}
            cache.put(_marker(shard), b"", figures)
        done += shard.rows
        counted.pretokens += [partial(cache.open, name) for name in figures["pretokens"]]
        counted.words += [partial(cache.open, name) for name in figures["words"]]
        for name, value in figures["counts"].items():
            counted.figures[name] = counted.figures.get(name, 0) + value
    return counted


def _marker(shard: Shard) -> str:
    return f"counted-{shard.number:05d}"


class _RunsOfShard:
    """The runs of counts of one shard, by kind."""

    def __init__(self, cache: ResumeCache, shard: Shard) -> None:
        self._cache, self._shard, self._numbers = cache, shard, count()
        self.names: dict[str, list[str]] = {kind: [] for kind in _KINDS}

    def new(self, kind: str) -> AbstractContextManager[RawIOBase]:
        """Open a new one."""
        name = f"{kind}-{self._shard.number:05d}-{next(self._numbers):04d}.parquet"
        self.names[kind].append(name)
        return self._cache.create(name, {})


def encode_shards(
    job: Job, cache: ResumeCache, source: Artifact, shards: list[Shard], tokenizer: Tokenizer, numbers: WordNumbers
) -> None:
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    encoder = CorpusEncoder(tokenizer, numbers, job.threads)
    job.facts["exact_by"] = encoder.exact_by
    schema, total = tokens_schema(encoder.id_type), sum(shard.rows for shard in shards)
    counts, encoded_bytes = dict.fromkeys(FIGURES, 0), 0
    finished = [cache.figures(_part(shard)) for shard in shards]
    if before := sum(one is not None for one in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were encoded before")
    for shard, figures in zip(shards, finished, strict=True):
        if figures is None:
            figures = dict.fromkeys(FIGURES, 0)
            batches = read_shard(source, shard, ("doc_id", "sentence_id", "split", "text"))
            with cache.table(_part(shard), schema, figures) as table:
                for rows, found in encoder.encode(batches, schema):
                    table.write(rows)
                    for name, value in zip(FIGURES, found, strict=True):
                        figures[name] += value
                    job.report("encoding", counts["sentences"] + figures["sentences"], total, "sentences")
            encoded_bytes += figures["bytes"]
        cache.adopt(_part(shard), job.writer)
        for name in counts:
            counts[name] += figures[name]
    size = counts.pop("bytes")
    job.counts |= counts
    if counts["tokens_special"]:
        job.warn(
            f"{counts['tokens_special']:,} tokens are special tokens, because the text spells them out (such as "
            f"{encoder.example}); tokenizers reads them so, too"
        )
    job.rates = {"mb_per_s": round(encoded_bytes / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, counts["tokens"]), 4)}


def _part(shard: Shard) -> str:
    return f"tokens-{shard.number:05d}.parquet"
