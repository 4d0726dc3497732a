"""`wordpipe tokenize`: corpus → tokens.

First it is counted, shard by shard, how often each pre-token and each run of a word occurs. Every thread counts into tables of
its own, of bounded size. What does not fit, and what is there at the end of a shard, goes to disk as runs, which are summed at
the end. Then the tokenizer is trained from the counts, and the corpus is encoded, shard by shard: rows of text become ids of
tokens and numbers of words. The shards (`tokenize_shards`) are made by the job's engine, on this machine or on several.
Whatever of all this a killed run has finished is in its resume cache and is not done again.

Plain texts have one vocabulary. Of pairs it is the one of both texts (joint), or each side has its own (separate), which
learns from the texts of this side alone. Both are made by the same settings, and a pre-tokenizer that is left open suits the
scripts of its side. In a joint vocabulary what both sides have, names and numbers, is one token, and T5 and BART know no other
kind; in separate ones each side has all the tokens for itself. Both texts are encoded, the second as `ids_b`; words are those
of the first text alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import (
    CORPUS,
    COUNTS,
    TARGET,
    TOKENIZER,
    TOKENIZER_B,
    VOCABULARY,
    Artifact,
    ResumeCache,
    is_artifact,
    library_versions,
    read_batches,
    read_schema,
    read_shard,
    shards_of,
)
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, InputError
from wordpipe.stages.corpus.tokenize_shards import (
    LIBRARIES,
    SHARD_BYTES,
    WORDS,
    CorpusShards,
    CountShards,
    EncodeShards,
    Side,
    counted_name,
    tokens_name,
)
from wordpipe.stages.inputs import file_entry, open_corpus, reading
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import SourceLike
from wordpipe.tokens import (
    PARTS,
    SPECIAL_TOKENS,
    MostFrequent,
    SpillingTable,
    StringCounts,
    WordSplitter,
    drops_unknown_characters,
    fold_counts,
    keep_most_frequent,
    open_tokenizer,
    read_tokenizer,
    resolve,
    run_splitter,
    script_shares,
    sum_runs,
    train_tokenizer,
    training_bytes,
)
from wordpipe.tokens.settings import TokenizeSettings

_WORD_BYTES = 48  # memory that a word takes in the list, beside its letters
_CUTTING = ("pretokenizer", "normalization", "lowercase", "strip_accents")  # settings that decide what is counted


_FIRST, _SECOND = Side(("text",)), Side(("text_b",), is_second=True)


@dataclass
class _Counted:
    """The counts of words and pre-tokens of a corpus.

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
        # All inputs are known now, and so is the recipe of the cache.
        libraries = f"{library_versions(*job.libraries)}{' pairs' * (len(texts) - 1)}"
        cache = ResumeCache(job.partial, f"{job.recipe} {libraries} {SHARD_BYTES} bytes")
        sides = sides_of(chosen, texts, given, counts)
        ways = {} if given else {
            side: resolved(job, source, chosen, side) if counts is None else with_counts_of(counts, chosen, side)
            for side in sides
        }  # fmt: skip
        # Count pre-tokens and words.
        shards = CorpusShards.of(source, cache)
        to_cut = tuple(ways.items()) if counts is None else ()
        counted = _count_shards(job, cache, CountShards(shards, texts, to_cut, chosen.sample, chosen.memory_bytes // 2))
        job.counts |= counted.figures
        # Train a tokenizer for each side that has none.
        tokenizers = list(given)
        for side, way in ways.items():
            pretokens = (
                _reported(job, "adding up counts", sum_runs(counted.runs[side.pretokens]), 0, PARTS)
                if counts is None
                else counted_before(counts, side)
            )
            tokenizers.append(trained_tokenizer(job, cache, way, side, pretokens))
        # List the words, as the first tokenizer cuts them, and encode all texts.
        listed = cache.figures(WORDS) or _write_words(job, cache, counted, tokenizers[0], chosen)
        cache.adopt(WORDS, job.writer)
        job.counts |= listed["counts"]
        for text in listed["warnings"]:
            job.warn(text)
        texts_of = tuple(tokenizer.to_str() for tokenizer in tokenizers)
        _encode_shards(job, cache, EncodeShards(shards, texts, texts_of, chosen.keep_case))
        # What readers of the artifact need to know.
        job.facts |= {
            "vocab_size": tokenizers[0].get_vocab_size(),
            "algorithm": type(tokenizers[0].model).__name__,
            "keep_case": chosen.keep_case,
        }
        if len(tokenizers) > 1:
            job.facts["vocab_size_b"] = tokenizers[1].get_vocab_size()
    return job.made


def _reported(job: Job, phase: str, parts: Iterator[StringCounts], before: int, total: int) -> Iterator[StringCounts]:
    """Yield the parts of the counts of `tokenize`; each is reported after its use."""
    job.report(phase, before, total, "parts")
    for done, part in enumerate(parts, start=before + 1):
        yield part
        job.report(phase, done, total, "parts")


def _write_words(
    job: Job, cache: ResumeCache, counted: _Counted, tokenizer: Tokenizer, chosen: TokenizeSettings
) -> dict[str, Any]:
    """Make the words of `tokenize` of the runs of letters, and list them in the cache.

    Return counts and warnings for a later run of the job.
    """
    reported = partial(_reported, job, "listing the words", total=2 * PARTS)
    split = WordSplitter(run_splitter(tokenizer), keep_case=chosen.keep_case)
    runs: list[Path] = []

    @contextmanager
    def new_run() -> Iterator[IO[bytes]]:
        runs.append(job.scratch / f"words-{len(runs):04d}.parquet")
        with runs[-1].open("wb") as file:
            yield file

    # Fold the runs into words, in bounded memory, and keep the most frequent.
    table = SpillingTable(chosen.memory_bytes // 4, new_run)
    fold_counts(reported(sum_runs(counted.runs["words"]), 0), split, table=table)
    table.spill()
    kept = keep_most_frequent(
        reported(sum_runs([partial(path.open, "rb") for path in runs]), PARTS),
        lambda size, number: size + _WORD_BYTES * number <= chosen.memory_bytes // 2,
    )
    # Write the list.
    counts, warnings = about_left_out(kept, "words", "are left out of the list")
    figures: dict[str, Any] = {"counts": counts, "warnings": warnings}
    with cache.table(WORDS, VOCABULARY, figures) as words:
        for batch in kept.strings.batches(VOCABULARY):
            words.write(batch)
    return figures


def _count_shards(job: Job, cache: ResumeCache, work: CountShards) -> _Counted:
    """Count the shards of a corpus that a stopped run has not counted, and open the runs of all shards."""
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
            f"{special:,} tokens are special tokens, because the text contains names of special tokens (such as "
            f"{figures[0]['example']}); the tokenizers library does the same"
        )
    job.rates = {"mb_per_s": round(encoded_bytes / 1e6 / job.clock.seconds, 3)}
    job.metrics = {"bytes_per_token": round(size / max(1, counts["tokens"]), 4)}
    if "text_b" in work.texts:
        job.metrics["bytes_per_token_b"] = round(size_b / max(1, counts["tokens_b"]), 4)


def sides_of(
    chosen: TokenizeSettings, texts: tuple[str, ...], given: Sequence[Tokenizer], counts: Artifact | None
) -> tuple[Side, ...]:
    """Return the sides of a corpus that have a tokenizer each in `tokenize`.

    Args:
        chosen: the settings.
        texts: columns of texts.
        given: tokenizers, if any.
        counts: the artifact whose counts are trained from, if any.

    Raises:
        ConfigError: two vocabularies of texts that are no pairs, or counts of other ones than asked for.
    """
    pairs, vocabulary = len(texts) > 1, str(chosen.vocabulary)
    if given:
        return (_FIRST, _SECOND) if len(given) > 1 else (Side(texts),)
    if vocabulary == "separate" and not pairs:
        raise ConfigError(
            "the corpus has single texts, not pairs", where="vocabulary", got=vocabulary, expected="joint",
            hint="ingest pairs with --text-b FIELD or --parallel A B",
        )  # fmt: skip
    if counts is not None:
        made = "separate" if f"{_SECOND.counts}.parquet" in counts.names() else "joint"
        if "vocabulary" in chosen.model_fields_set and vocabulary != made:
            raise _other_counts("vocabulary", vocabulary, made, counts)
        vocabulary = made
    if vocabulary == "joint":
        return (Side(texts),)
    return (_FIRST, _SECOND) if pairs else (_FIRST,)


def given_tokenizers(job: Job, path: Path | None, *, pairs: bool) -> list[Tokenizer]:
    """Return the tokenizers named by the user, recorded as an input by their content, and written to the artifact.

    Args:
        job: of the stage.
        path: a file, a folder of transformers, an artifact; None: nothing is given.
        pairs: the corpus has second texts, for which an artifact may have a second tokenizer.
    """
    if path is None:
        return []
    if is_artifact(path):
        artifact = job.open_input(path, ["tokens", "model"])
        names = [TOKENIZER, TOKENIZER_B if artifact.kind == "tokens" else TARGET + TOKENIZER]
        data = [artifact.read(name) for name in names if name == TOKENIZER or name in artifact.names()]
    else:
        with reading(job, file_entry, path):
            paths = [path, *([path / TARGET] if (path / TARGET / TOKENIZER).is_file() else [])]
            data = [read_tokenizer(one).to_str(pretty=True).encode() for one in paths]
    sides = (_FIRST, _SECOND) if pairs else (_FIRST,)
    return [_given(job, path, side.tokenizer, content) for side, content in zip(sides, data, strict=False)]


def _given(job: Job, path: Path, name: str, data: bytes) -> Tokenizer:
    """Return a given tokenizer; warn of special tokens that it lacks."""
    job.write(name, data)
    tokenizer = open_tokenizer(data, where=str(path))  # as whoever reads the artifact will have it
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        job.warn(
            f"{path.name} lacks {', '.join(missing)}: `train mlm` needs [CLS], [SEP], [MASK] and [PAD]; `train clm` needs <s>"
        )
    if drops_unknown_characters(tokenizer):
        job.warn(
            f"{path.name} has no token for unknown characters, so unknown characters disappear from the text, as in the "
            "tokenizers library; `wordpipe evaluate tokenizer` counts the texts that lose characters"
        )
    return tokenizer


def with_counts_of(artifact: Artifact, chosen: TokenizeSettings, side: Side) -> TokenizeSettings:
    """Return the settings of `tokenize` with what was decided when another artifact's pre-tokens were counted.

    Raises:
        ConfigError: another way of cutting or normalising the text was asked for.
        ArtifactError: the artifact has no counts.
    """
    if f"{side.counts}.parquet" not in artifact.names():
        raise ArtifactError(
            "the artifact has no counts, because its tokenizer was given and not trained",
            where=artifact.path,
            hint="give a tokens artifact with a tokenizer trained by wordpipe, or leave out --counts",
        )
    facts, settings = artifact.manifest.facts, artifact.manifest.settings
    decided = {name: facts.get(name + side.suffix, facts.get(name, settings.get(name))) for name in _CUTTING}
    for name in _CUTTING:
        if name in chosen.model_fields_set and getattr(chosen, name) not in (decided[name], "auto"):
            raise _other_counts(name, getattr(chosen, name), decided[name], artifact)
    return chosen.model_copy(update=decided)


def _other_counts(name: str, got: object, made: object, artifact: Artifact) -> ConfigError:
    """Return the error for a setting of `tokenize` that the given counts were not made with."""
    return ConfigError(
        "the counts were made with another value of this setting",
        where=name,
        got=got,
        expected=f"{made}, as in {artifact.path}",
        hint="leave out --counts to count again",
    )


def counted_before(artifact: Artifact, side: Side) -> Iterator[StringCounts]:
    """Return the counts of pre-tokens of another artifact."""
    return map(StringCounts.from_batches, [read_batches(artifact, side.counts, expected=COUNTS)])


def resolved(job: Job, source: Artifact, chosen: TokenizeSettings, side: Side) -> TokenizeSettings:
    """Return the settings of `tokenize` with a pre-tokenizer, for the text's scripts where that is left open."""
    name, warnings = resolve(chosen, script_shares(_some_texts(source, side.columns)))
    for text in warnings:
        job.warn(side.of_them + text)
    return chosen.model_copy(update={"pretokenizer": name})


def _some_texts(source: Artifact, columns: tuple[str, ...]) -> Iterator[pa.Array]:
    """Yield about four thousand sentences of the corpus to tokenize, evenly from sixteen places."""
    groups = shards_of(source, "corpus", shard_bytes=1)
    chosen = groups[:: -(-len(groups) // 16)]
    step = max(1, sum(group.rows for group in chosen) // 4096)
    for group in chosen:
        for batch in read_shard(source, group, columns):
            rows = pa.array(range(0, len(batch), step), pa.int64())
            yield from (batch.column(name).take(rows) for name in columns)


def trained_tokenizer(
    job: Job, cache: ResumeCache, chosen: TokenizeSettings, side: Side, pretokens: Iterator[StringCounts]
) -> Tokenizer:
    """Return the tokenizer that `tokenize` trains from counts, or the tokenizer of a stopped run.

    Both become files of the artifact.
    """
    name, table = side.tokenizer, f"{side.counts}.parquet"
    done = cache.figures(name)
    if done is None or cache.figures(table) is None:
        done = _train(job, cache, chosen, side, pretokens)
    else:
        job.note(f"continuing a stopped run: {side.of_them}the tokenizer is already trained")
    job.counts |= done["counts"]
    job.facts |= {f"{setting}{side.suffix}": getattr(chosen, setting) for setting in _CUTTING}
    for text in done["warnings"]:
        job.warn(side.of_them + text)
    data = (cache.path / name).read_bytes()
    cache.adopt(table, job.writer)
    cache.adopt(name, job.writer)
    return open_tokenizer(data, where=str(cache.path / name))


def _train(
    job: Job, cache: ResumeCache, chosen: TokenizeSettings, side: Side, pretokens: Iterator[StringCounts]
) -> dict[str, Any]:
    """Train a tokenizer on as many pre-tokens as the memory allows; return counts and warnings for a later run of the job."""
    kept = keep_most_frequent(
        pretokens, lambda size, number: training_bytes(chosen, size, number) <= chosen.memory_bytes
    )
    if not len(kept.strings):
        _refuse_nothing(kept, chosen)
    counts, warnings = about_left_out(kept, "pretokens", "are left out of training")
    with cache.table(f"{side.counts}.parquet", COUNTS, {}) as table:
        for batch in kept.strings.batches(COUNTS):
            table.write(batch)
    phase = f"training the {'second ' * side.is_second}tokenizer"
    trained = train_tokenizer(kept.strings, chosen, report=lambda done, total: job.report(phase, done, total, "tokens"))
    figures = {
        "counts": {f"{name}{side.suffix}": count for name, count in (counts | trained.counts).items()},
        "warnings": warnings + trained.warnings,
    }
    cache.put(side.tokenizer, trained.tokenizer.to_str(pretty=True).encode(), figures)
    return figures


def _refuse_nothing(kept: MostFrequent, chosen: TokenizeSettings) -> NoReturn:
    """Raise the error for a tokenizer that has no pre-tokens to train on."""
    if kept.left_out:
        least = training_bytes(chosen, 1 << 20, 1 << 17) // 10**6 + 1
        raise BudgetError(
            "the allowed memory is too small to train a tokenizer",
            where="memory",
            got=chosen.memory,
            expected=f"at least {least}MB",
            hint=f"use --memory {least}MB or more",
        )
    hint = "use a larger --sample" if chosen.sample < 1 else None
    raise InputError("there is no text to train a tokenizer", hint=hint)


def about_left_out(kept: MostFrequent, what: str, fate: str) -> tuple[dict[str, int], list[str]]:
    """Return the number of strings that `tokenize` counts, and a warning where some did not fit in the memory."""
    counts = {
        what: int(kept.strings.counts.sum()) + kept.left_out_total,
        f"distinct_{what}": len(kept.strings) + kept.left_out,
    }
    if not kept.left_out:
        return counts, []
    counts |= {f"distinct_{what}_left_out": kept.left_out, f"{what}_left_out": kept.left_out_total}
    return counts, [
        f"{kept.left_out:,} distinct {what}, each seen at most {kept.left_out_count:,} times, do not fit in the allowed "
        f"memory and {fate}; to keep more {what}, raise --memory"
    ]
