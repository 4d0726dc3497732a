"""`wordpipe tokenize`: corpus → tokens.

First it is counted, shard by shard, how often each pre-token and each run of a word occurs. Every thread counts into tables of
its own, of bounded size. What does not fit, and what is there at the end of a shard, goes to disk as runs, which are summed at
the end. Then the tokenizer is trained from the counts, and the corpus is encoded, shard by shard: rows of text become ids of
tokens and numbers of words. The shards (`token_shards`) are made by the job's engine, on this machine or on several. Whatever
of all this a killed run has finished is in its resume cache and is not done again.

Of a corpus of pairs both texts train the one tokenizer, or each side one of its own (see `vocabularies`). Both are encoded,
the second as `ids_b`; words are those of the first text alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from tokenizers import Tokenizer

from wordpipe.artifacts import CORPUS, VOCABULARY, ResumeCache, library_versions, read_schema
from wordpipe.stages.calls import public
from wordpipe.stages.inputs import open_corpus
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import SourceLike
from wordpipe.stages.text.token_shards import (
    LIBRARIES,
    SHARD_BYTES,
    WORDS,
    CorpusShards,
    CountShards,
    EncodeShards,
    counted_name,
    tokens_name,
)
from wordpipe.stages.text.vocabularies import (
    about_left_out,
    counted_before,
    given_tokenizers,
    resolved,
    sides_of,
    trained_tokenizer,
    with_counts_of,
)
from wordpipe.tokens import (
    PARTS,
    SpillingTable,
    StringCounts,
    WordSplitter,
    fold_counts,
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
        job.libraries = LIBRARIES
        job.threads = job.engine_options.threads
        # Inputs: the corpus, and a tokenizer or the counts of another artifact.
        source = open_corpus(job, corpus)
        read_schema(source, "corpus", CORPUS)
        texts = ("text", "text_b") if "text_b" in read_schema(source, "corpus").names else ("text",)
        given = given_tokenizers(job, chosen.tokenizer, pairs=len(texts) > 1)
        counts = None if chosen.counts is None else job.open_input(chosen.counts, ["tokens"])
        # All inputs are known now, and so is the recipe.
        libraries = f"{library_versions(*job.libraries)}{' pairs' * (len(texts) - 1)}"
        cache = ResumeCache(job.partial, f"{job.recipe} {libraries} {SHARD_BYTES} bytes")
        sides = sides_of(chosen, texts, given, counts)
        ways = {} if given else {
            side: resolved(job, source, chosen, side) if counts is None else with_counts_of(counts, chosen, side)
            for side in sides
        }  # fmt: skip
        # Count, train, list the words, encode.
        shards = CorpusShards.of(source, cache)
        to_cut = tuple(ways.items()) if counts is None else ()
        counted = _count_shards(job, cache, CountShards(shards, texts, to_cut, chosen.sample, chosen.memory_bytes // 2))
        job.counts |= counted.figures
        tokenizers = list(given)
        for side, way in ways.items():
            pretokens = (
                _reported(job, "adding up", sum_runs(counted.runs[side.pretokens]), 0, PARTS)
                if counts is None
                else counted_before(counts, side)
            )
            tokenizers.append(trained_tokenizer(job, cache, way, side, pretokens))
        _list_words(job, cache, counted, tokenizers[0], chosen)
        texts_of = tuple(tokenizer.to_str() for tokenizer in tokenizers)
        _encode_shards(job, cache, EncodeShards(shards, texts, texts_of, chosen.keep_case))
        job.facts |= {
            "vocab_size": tokenizers[0].get_vocab_size(),
            "algorithm": type(tokenizers[0].model).__name__,
            "keep_case": chosen.keep_case,
        }
        if len(tokenizers) > 1:
            job.facts["vocab_size_b"] = tokenizers[1].get_vocab_size()
    return job.made


def _reported(job: Job, phase: str, parts: Iterator[StringCounts], before: int, total: int) -> Iterator[StringCounts]:
    """The parts of what was counted; each is reported once it has been worked on."""
    job.report(phase, before, total, "parts")
    for done, part in enumerate(parts, start=before + 1):
        yield part
        job.report(phase, done, total, "parts")


def _list_words(
    job: Job, cache: ResumeCache, counted: _Counted, tokenizer: Tokenizer, chosen: TokenizeSettings
) -> None:
    """Make words of the runs that were counted, and write the list of them, unless a stopped run has done it."""
    done = cache.figures(WORDS)
    if done is None:
        done = _write_words(job, cache, counted, tokenizer, chosen)
    cache.adopt(WORDS, job.writer)
    job.counts |= done["counts"]
    for text in done["warnings"]:
        job.warn(text)


def _write_words(
    job: Job, cache: ResumeCache, counted: _Counted, tokenizer: Tokenizer, chosen: TokenizeSettings
) -> dict[str, Any]:
    """Write the list of words into the cache; gives what a later run of the job has to know."""
    reported = partial(_reported, job, "listing the words", total=2 * PARTS)
    split = WordSplitter(run_splitter(tokenizer), keep_case=chosen.keep_case)
    runs: list[Path] = []

    @contextmanager
    def new_run() -> Iterator[IO[bytes]]:
        runs.append(job.scratch / f"words-{len(runs):04d}.parquet")
        with runs[-1].open("wb") as file:
            yield file

    table = SpillingTable(chosen.memory_bytes // 4, new_run)
    fold_counts(reported(sum_runs(counted.runs["words"]), 0), split, table=table)
    table.spill()
    kept = keep_most_frequent(
        reported(sum_runs([partial(path.open, "rb") for path in runs]), PARTS),
        lambda size, number: size + _WORD_BYTES * number <= chosen.memory_bytes // 2,
    )
    counts, warnings = about_left_out(kept, "words", "get no number")
    figures: dict[str, Any] = {"counts": counts, "warnings": warnings}
    with cache.table(WORDS, VOCABULARY, figures) as words:
        for batch in kept.strings.batches(VOCABULARY):
            words.write(batch)
    return figures


def _count_shards(job: Job, cache: ResumeCache, work: CountShards) -> _Counted:
    """Count what a stopped run has not, and open the runs of all shards."""
    names = {number: counted_name(number) for number in range(len(work.source.rows))}
    counted = _Counted({kind: [] for kind in work.kinds})
    job.make_missing(
        work, names, cache, "counted", lambda _, figures: (run for kind in work.kinds for run in figures[kind])
    )
    for figures in map(cache.made_figures, names.values()):
        for kind in work.kinds:
            counted.runs[kind] += [partial(cache.open, name) for name in figures[kind]]
        for name, value in figures["counts"].items():
            counted.figures[name] = counted.figures.get(name, 0) + value
    return counted


def _encode_shards(job: Job, cache: ResumeCache, work: EncodeShards) -> None:
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    names = {number: tokens_name(number) for number in range(len(work.source.rows))}
    made = job.make_missing(work, names, cache, "encoded")
    figures = [cache.made_figures(name) for name in names.values()]
    counts = {name: sum(one[name] for one in figures) for name in work.figures}
    encoded_bytes = sum(figures[number]["bytes"] + figures[number].get("bytes_b", 0) for number in made)
    for name in names.values():
        cache.adopt(name, job.writer)
    job.facts["exact_by"] = figures[0]["exact_by"]
    size, size_b = counts.pop("bytes"), counts.pop("bytes_b", 0)
    job.counts |= counts
    if special := counts["tokens_special"] + counts.get("tokens_b_special", 0):
        job.warn(
            f"{special:,} tokens are special tokens, because the text spells them out (such as "
            f"{figures[0]['example']}); tokenizers reads them so, too"
        )
    job.rates = {"mb_per_s": round(encoded_bytes / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, counts["tokens"]), 4)}
    if "text_b" in work.texts:
        job.metrics["bytes_per_token_b"] = round(size_b / max(1, counts["tokens_b"]), 4)
