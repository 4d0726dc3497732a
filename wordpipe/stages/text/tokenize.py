"""`wordpipe tokenize`: corpus → tokens.

First it is counted how often each pre-token and each run of a word occurs. Every thread counts into tables of its own, of
bounded size. What does not fit, and what is there at the end of a shard, goes to disk as runs, which are summed at the end.
Then the tokenizer is trained from the counts, and the corpus is encoded, shard by shard: rows of text become ids of tokens and
numbers of words. Whatever of this a killed run has finished is in its resume cache and is not done again.

Of a corpus of pairs both texts train the one tokenizer, or each side one of its own (see `vocabularies`). Both are encoded,
the second as `ids_b`; words are those of the first text alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import RawIOBase
from itertools import count
from pathlib import Path
from typing import IO, Any

from tokenizers import Tokenizer

from wordpipe.artifacts import (
    CORPUS,
    VOCABULARY,
    Artifact,
    ResumeCache,
    Shard,
    library_versions,
    read_schema,
    read_shard,
    shards_of,
    tokens_schema,
)
from wordpipe.corpus.settings import WHOLE_PAIRS
from wordpipe.runtime import cpu_count
from wordpipe.stages.calls import public
from wordpipe.stages.inputs import open_corpus
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import SourceLike
from wordpipe.stages.text.vocabularies import (
    Side,
    about_left_out,
    counted_before,
    cutter_of,
    given_tokenizers,
    resolved,
    sides_of,
    trained_tokenizer,
    with_counts_of,
)
from wordpipe.tokens import (
    FIGURES,
    FIGURES_OF_PAIRS,
    PARTS,
    TABLE_BYTES,
    CorpusEncoder,
    RowCutter,
    SpillingTable,
    StringCounts,
    WordNumbers,
    WordSplitter,
    count_batch,
    cut_words,
    fold_counts,
    in_order,
    keep_most_frequent,
    run_splitter,
    sum_runs,
)
from wordpipe.tokens.settings import TokenizeSettings

_WORD_BYTES = 48  # memory that a word takes in the list, beside its letters


@dataclass
class _Counted:
    """What was counted.

    Attributes:
        runs: "words", or the name of a side's pre-tokens → what opens each run of counts.
        figures: what happened on the way, by name.
    """

    runs: dict[str, list[Callable[[], Any]]]
    figures: dict[str, int] = field(default_factory=dict)


@public(TokenizeSettings)
def tokenize(corpus: SourceLike, *, output: PathLike, run: RunOptions | None = None, **settings: Any) -> Made:
    """Train a tokenizer on a corpus, encode the corpus and count its words.

    Args:
        corpus: a corpus artifact, or whatever `ingest` takes, which is then ingested with the default settings.
        output: folder of the tokens artifact.
        run: progress, fresh start, verification.
        settings: fields of `TokenizeSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.tokenize("run/corpus", output="new/tokens", algorithm="unigram", vocab_size=500)
        >>> made.path, made.counts["sentences"]
        ('new/tokens', 1169)
    """
    chosen = TokenizeSettings.make(settings)
    with open_job("tokens", output, chosen, run) as job, job.announce_compilation():
        job.libraries = ("tokenizers", "regex", "pyarrow", "numba")
        job.threads = cpu_count()
        # Inputs: the corpus, and a tokenizer or the counts of another artifact.
        source = open_corpus(job, corpus)
        read_schema(source, "corpus", CORPUS)
        texts = _text_columns(job, source)
        given = given_tokenizers(job, chosen.tokenizer, pairs=len(texts) > 1)
        counts = None if chosen.counts is None else job.open_input(chosen.counts, ["tokens"])
        # All inputs are known now, and so is the recipe.
        cache = ResumeCache(
            job.partial, f"{job.recipe} {library_versions(*job.libraries)}{' pairs' * (len(texts) - 1)}"
        )
        sides = sides_of(chosen, texts, given, counts)
        ways = {} if given else {
            side: resolved(job, source, chosen, side) if counts is None else with_counts_of(counts, chosen, side)
            for side in sides
        }  # fmt: skip
        # Count, train, list the words, encode.
        shards = shards_of(source, "corpus")
        counted = _count_shards(
            job, cache, source, shards, texts, words=cut_words(), sample=chosen.sample, memory=chosen.memory_bytes // 2,
            pretokens={side: cutter_of(way) for side, way in ways.items()} if counts is None else {},
        )  # fmt: skip
        job.counts |= counted.figures
        tokenizers = list(given)
        for side, way in ways.items():
            pretokens = (
                _reported(job, "adding up", sum_runs(counted.runs[side.pretokens]), 0, PARTS)
                if counts is None
                else counted_before(counts, side)
            )
            tokenizers.append(trained_tokenizer(job, cache, way, side, pretokens))
        numbers = _list_words(job, counted, tokenizers[0], chosen)
        _encode_shards(job, cache, source, shards, texts, tokenizers, numbers)
        job.facts |= {
            "vocab_size": tokenizers[0].get_vocab_size(),
            "algorithm": type(tokenizers[0].model).__name__,
            "keep_case": chosen.keep_case,
        }
        if len(tokenizers) > 1:
            job.facts["vocab_size_b"] = tokenizers[1].get_vocab_size()
    return job.made


def _text_columns(job: Job, source: Artifact) -> tuple[str, ...]:
    """The columns of texts that are tokenized: `text`, and of pairs `text_b`."""
    if "text_b" not in read_schema(source, "corpus").names:
        return ("text",)
    if source.manifest.facts.get("pairs") != WHOLE_PAIRS:
        job.warn("the corpus was made before a pair was one row: its second texts are not tokenized; ingest them again")
        return ("text",)
    return ("text", "text_b")


def _reported(job: Job, phase: str, parts: Iterator[StringCounts], before: int, total: int) -> Iterator[StringCounts]:
    """The parts of what was counted; each is reported once it has been worked on."""
    job.report(phase, before, total, "parts")
    for done, part in enumerate(parts, start=before + 1):
        yield part
        job.report(phase, done, total, "parts")


def _list_words(job: Job, counted: _Counted, tokenizer: Tokenizer, chosen: TokenizeSettings) -> WordNumbers:
    """Make words of the runs that were counted, write the list of them and number them."""
    reported = partial(_reported, job, "listing the words", total=2 * PARTS)
    split = WordSplitter(run_splitter(tokenizer), keep_case=chosen.keep_case)
    runs: list[Path] = []

    @contextmanager
    def new_run() -> Iterator[IO[bytes]]:
        runs.append(job.scratch / f"words-{len(runs):04d}.parquet")
        with runs[-1].open("wb") as file:
            yield file

    table = SpillingTable(chosen.memory_bytes // 4, new_run)
    fold_counts(reported(sum_runs(counted.runs["words"]), 0), split, keep_case=chosen.keep_case, table=table)
    table.spill()
    kept = keep_most_frequent(
        reported(sum_runs([partial(path.open, "rb") for path in runs]), PARTS),
        lambda size, number: size + _WORD_BYTES * number <= chosen.memory_bytes // 2,
    )
    with job.table("words", VOCABULARY, single=True) as words:
        for batch in kept.strings.batches(VOCABULARY):
            words.write(batch)
    counts, warnings = about_left_out(kept, "words", "get no number")
    job.counts |= counts
    for text in warnings:
        job.warn(text)
    return WordNumbers(kept.strings, split, keep_case=chosen.keep_case)


def _count_shards(
    job: Job, cache: ResumeCache, source: Artifact, shards: list[Shard], texts: tuple[str, ...], *,
    pretokens: Mapping[Side, RowCutter], words: RowCutter, sample: float, memory: int,
) -> _Counted:  # fmt: skip
    """Count a corpus.

    Args:
        job: says how many threads, and reports how far the work is.
        cache: keeps the runs.
        source: the corpus.
        shards: its shards.
        texts: its columns of texts.
        pretokens: side → what cuts its rows into pre-tokens; empty where they are not wanted.
        words: cuts rows into runs of words.
        sample: share of the documents whose pre-tokens are counted.
        memory: bytes for the tables of all threads.
    """
    kinds = [*(side.pretokens for side in pretokens), "words"]
    cutters = {column: (side.pretokens, cut) for side, cut in pretokens.items() for column in side.columns}
    table_bytes = min(memory // (len(kinds) * job.threads), TABLE_BYTES)
    counted, total, done = _Counted({kind: [] for kind in kinds}), sum(shard.rows for shard in shards), 0
    finished = [cache.figures(_marker(shard)) for shard in shards]
    if before := sum(figures is not None for figures in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were counted before")
    for shard, figures in zip(shards, finished, strict=True):
        if figures is None or any(cache.figures(name) is None for kind in kinds for name in figures[kind]):
            runs = _RunsOfShard(cache, shard, kinds)
            tables = [
                {kind: SpillingTable(table_bytes, partial(runs.new, kind)) for kind in kinds}
                for _ in range(job.threads)
            ]
            count_one = partial(count_batch, words=words, pretokens=cutters, sample=sample)
            rows = trained_on = split = 0
            for counts in in_order(count_one, read_shard(source, shard, ("doc_id", *texts)), tables):
                rows, trained_on, split = rows + counts[0], trained_on + counts[1], split + counts[2]
                job.report("counting", done + rows, total, "sentences")
            for kind in kinds:
                for table in tables[1:]:
                    tables[0][kind].take(table[kind])
                tables[0][kind].spill()
            notes = {"sentences_trained_on": trained_on, "pretokens_split": split} if pretokens else {}
            figures = {**{kind: sorted(names) for kind, names in runs.names.items()}, "counts": notes}
            cache.put(_marker(shard), b"", figures)
        done += shard.rows
        for kind in kinds:
            counted.runs[kind] += [partial(cache.open, name) for name in figures[kind]]
        for name, value in figures["counts"].items():
            counted.figures[name] = counted.figures.get(name, 0) + value
    return counted


def _marker(shard: Shard) -> str:
    return f"counted-{shard.number:05d}"


class _RunsOfShard:
    """The runs of counts of one shard, by kind."""

    def __init__(self, cache: ResumeCache, shard: Shard, kinds: Sequence[str]) -> None:
        self._cache, self._shard, self._numbers = cache, shard, count()
        self.names: dict[str, list[str]] = {kind: [] for kind in kinds}

    def new(self, kind: str) -> AbstractContextManager[RawIOBase]:
        """Open a new one."""
        name = f"{kind}-{self._shard.number:05d}-{next(self._numbers):04d}.parquet"
        self.names[kind].append(name)
        return self._cache.create(name, {})


def _encode_shards(
    job: Job, cache: ResumeCache, source: Artifact, shards: list[Shard], texts: tuple[str, ...],
    tokenizers: Sequence[Tokenizer], numbers: WordNumbers,
) -> None:  # fmt: skip
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    encoder = CorpusEncoder(tokenizers, numbers, job.threads)
    job.facts["exact_by"] = encoder.exact_by
    pairs = "text_b" in texts
    schema, total = tokens_schema(encoder.id_type, pairs=pairs), sum(shard.rows for shard in shards)
    names = FIGURES_OF_PAIRS if pairs else FIGURES
    counts, encoded_bytes = dict.fromkeys(names, 0), 0
    finished = [cache.figures(_part(shard)) for shard in shards]
    if before := sum(one is not None for one in finished):
        job.note(f"continuing a stopped run: {before} of {len(shards)} shards were encoded before")
    for shard, figures in zip(shards, finished, strict=True):
        if figures is None:
            figures = dict.fromkeys(names, 0)
            batches = read_shard(source, shard, ("doc_id", "sentence_id", "split", *texts))
            with cache.table(_part(shard), schema, figures) as table:
                for rows, found in encoder.encode(batches, schema):
                    table.write(rows)
                    for name, value in zip(names, found, strict=True):
                        figures[name] += value
                    job.report("encoding", counts["sentences"] + figures["sentences"], total, "sentences")
            encoded_bytes += figures["bytes"] + figures.get("bytes_b", 0)
        cache.adopt(_part(shard), job.writer)
        for name in counts:
            counts[name] += figures[name]
    size, size_b = counts.pop("bytes"), counts.pop("bytes_b", 0)
    job.counts |= counts
    if special := counts["tokens_special"] + counts.get("tokens_b_special", 0):
        job.warn(
            f"{special:,} tokens are special tokens, because the text spells them out (such as "
            f"{encoder.example}); tokenizers reads them so, too"
        )
    job.rates = {"mb_per_s": round(encoded_bytes / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, counts["tokens"]), 4)}
    if pairs:
        job.metrics["bytes_per_token_b"] = round(size_b / max(1, counts["tokens_b"]), 4)


def _part(shard: Shard) -> str:
    return f"tokens-{shard.number:05d}.parquet"
