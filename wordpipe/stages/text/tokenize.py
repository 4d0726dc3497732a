"""`wordpipe tokenize`: corpus → tokens.

First it is counted how often each pre-token and each run of a word occurs. Every thread counts into tables of its own, of
bounded size. What does not fit, and what is there at the end of a shard, goes to disk as runs, which are summed at the end.
Then the tokenizer is trained from the counts, and the corpus is encoded, shard by shard: rows of text become ids of tokens and
numbers of words. Whatever of this a killed run has finished is in its resume cache and is not done again.

Of a corpus of pairs both texts train the one tokenizer, and both are encoded, the second as `ids_b`; words are those of the
first text alone.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import RawIOBase
from itertools import count
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import (
    CORPUS,
    COUNTS,
    TOKENIZER,
    VOCABULARY,
    Artifact,
    ResumeCache,
    Shard,
    is_artifact,
    library_versions,
    read_batches,
    read_schema,
    read_shard,
    shards_of,
    tokens_schema,
)
from wordpipe.corpus.settings import WHOLE_PAIRS
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, InputError
from wordpipe.runtime import cpu_count
from wordpipe.stages.calls import public
from wordpipe.stages.inputs import file_entry, open_corpus
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.sources import SourceLike
from wordpipe.tokens import (
    FIGURES,
    FIGURES_OF_PAIRS,
    PARTS,
    SPECIAL_TOKENS,
    TABLE_BYTES,
    CorpusEncoder,
    MostFrequent,
    RowCutter,
    SpillingTable,
    StringCounts,
    WordNumbers,
    WordSplitter,
    count_batch,
    cut_pretokens,
    cut_words,
    drops_unknown_characters,
    empty_tokenizer,
    fold_counts,
    in_order,
    keep_most_frequent,
    open_tokenizer,
    read_tokenizer,
    resolve,
    run_splitter,
    scheme_of,
    script_shares,
    sum_runs,
    train_tokenizer,
    training_bytes,
)
from wordpipe.tokens.settings import TokenizeSettings

_COUNTS = "counts.parquet"
_CUTTING = ("pretokenizer", "normalization", "lowercase", "strip_accents")  # settings that decide what is counted
_KINDS = ("pretokens", "words")
_WORD_BYTES = 48  # memory that a word takes in the list, beside its letters


@dataclass
class _Counted:
    """What was counted.

    Attributes:
        pretokens, words: opens each run of counts.
        figures: what happened on the way, by name.
    """

    pretokens: list[Callable[[], Any]] = field(default_factory=list)
    words: list[Callable[[], Any]] = field(default_factory=list)
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
        tokenizer = given_tokenizer(job, chosen.tokenizer)
        counts = None if chosen.counts is None else job.open_input(chosen.counts, ["tokens"])
        # All inputs are known now, and so is the recipe.
        texts = _text_columns(job, source)
        cache = ResumeCache(
            job.partial, f"{job.recipe} {library_versions(*job.libraries)}{' pairs' * (len(texts) - 1)}"
        )
        cut = None
        if counts is not None:
            chosen = _with_counts_of(counts, chosen)
        elif tokenizer is None:
            chosen = _resolved(job, source, chosen, texts)
            cut = _pretoken_cutter(chosen)
        # Count, train, list the words, encode.
        shards = shards_of(source, "corpus")
        counted = _count_shards(
            job, cache, source, shards, texts,
            pretokens=cut, words=cut_words(), sample=chosen.sample, memory=chosen.memory_bytes // 2,
        )  # fmt: skip
        job.counts |= counted.figures
        if tokenizer is None:
            pretokens = _reported(job, "adding up", sum_runs(counted.pretokens), 0, PARTS)
            if counts is not None:
                pretokens = map(StringCounts.from_batches, [read_batches(counts, "counts", expected=COUNTS)])
            tokenizer = _trained_tokenizer(job, cache, chosen, pretokens)
        numbers = _list_words(job, counted, tokenizer, chosen)
        _encode_shards(job, cache, source, shards, texts, tokenizer, numbers)
        job.facts |= {
            "vocab_size": tokenizer.get_vocab_size(),
            "algorithm": type(tokenizer.model).__name__,
            "keep_case": chosen.keep_case,
        }
    return job.made


def _text_columns(job: Job, source: Artifact) -> tuple[str, ...]:
    """The columns of texts that are tokenized: `text`, and of pairs `text_b`."""
    if "text_b" not in read_schema(source, "corpus").names:
        return ("text",)
    if source.manifest.facts.get("pairs") != WHOLE_PAIRS:
        job.warn("the corpus was made before a pair was one row: its second texts are not tokenized; ingest them again")
        return ("text",)
    return ("text", "text_b")


def given_tokenizer(job: Job, path: Path | None) -> Tokenizer | None:
    """The tokenizer named by the user, recorded as an input by its content, and written to the artifact."""
    if path is None:
        return None
    if is_artifact(path):
        data = job.open_input(path, ["tokens", "model"]).read(TOKENIZER)
    else:
        job.inputs.append(file_entry(path))
        data = read_tokenizer(path).to_str(pretty=True).encode()
    job.write(TOKENIZER, data)
    tokenizer = open_tokenizer(data, where=str(path))  # as whoever reads the artifact will have it
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        job.warn(
            f"{path.name} lacks {', '.join(missing)}: train mlm needs [CLS], [SEP], [MASK] and [PAD], train clm <s>"
        )
    if drops_unknown_characters(tokenizer):
        job.warn(
            f"{path.name} has no token for the unknown: characters that it cannot spell vanish from the text, as they do in "
            "tokenizers; `wordpipe evaluate tokenizer` counts the texts that suffer"
        )
    return tokenizer


def _with_counts_of(artifact: Artifact, chosen: TokenizeSettings) -> TokenizeSettings:
    """The settings with what was decided when the pre-tokens of another artifact were counted.

    Raises:
        ConfigError: another way of cutting or normalising the text was asked for.
        ArtifactError: the artifact has no counts.
    """
    if _COUNTS not in artifact.names():
        raise ArtifactError(
            "the artifact has no counts: its tokenizer was given, not trained",
            where=artifact.path,
            hint="name a tokens artifact with a tokenizer trained by wordpipe, or leave out --counts",
        )
    facts, settings = artifact.manifest.facts, artifact.manifest.settings
    decided = {name: facts.get(name, settings.get(name)) for name in _CUTTING}
    for name in _CUTTING:
        if name in chosen.model_fields_set and getattr(chosen, name) not in (decided[name], "auto"):
            raise ConfigError(
                "the counts were made with another setting",
                where=name,
                got=getattr(chosen, name),
                expected=f"{decided[name]}, as in {artifact.path}",
                hint="leave out --counts to count again",
            )
    return chosen.model_copy(update=decided)


def _resolved(job: Job, source: Artifact, chosen: TokenizeSettings, texts: tuple[str, ...]) -> TokenizeSettings:
    """The settings with a pre-tokenizer: where that is left open, one for the scripts that the text is written in."""
    name, warnings = resolve(chosen, script_shares(_some_texts(source, texts)))
    for text in warnings:
        job.warn(text)
    return chosen.model_copy(update={"pretokenizer": name})


def _some_texts(source: Artifact, texts: tuple[str, ...]) -> Iterator[pa.Array]:
    """About four thousand sentences of the corpus, evenly from the row groups in sixteen places."""
    groups = shards_of(source, "corpus", shard_bytes=1)
    chosen = groups[:: -(-len(groups) // 16)]
    step = max(1, sum(group.rows for group in chosen) // 4096)
    for group in chosen:
        for batch in read_shard(source, group, texts):
            rows = pa.array(range(0, len(batch), step), pa.int64())
            yield from (batch.column(name).take(rows) for name in texts)


def _pretoken_cutter(chosen: TokenizeSettings) -> RowCutter:
    tokenizer = empty_tokenizer(chosen)
    scheme = scheme_of(tokenizer)
    assert scheme is not None, f"{chosen.pretokenizer} is not recognised"
    return cut_pretokens(tokenizer, scheme)


def _trained_tokenizer(
    job: Job, cache: ResumeCache, chosen: TokenizeSettings, pretokens: Iterator[StringCounts]
) -> Tokenizer:
    """A tokenizer trained from counts, unless a stopped run has done it; it and the counts become files of the artifact."""
    done = cache.figures(TOKENIZER)
    if done is None or cache.figures(_COUNTS) is None:
        done = _train(job, cache, chosen, pretokens)
    else:
        job.note("continuing a stopped run: the tokenizer was trained before")
    job.counts |= done["counts"]
    job.facts |= {name: getattr(chosen, name) for name in _CUTTING}
    for text in done["warnings"]:
        job.warn(text)
    data = (cache.path / TOKENIZER).read_bytes()
    cache.adopt(_COUNTS, job.writer)
    cache.adopt(TOKENIZER, job.writer)
    return open_tokenizer(data, where=str(cache.path / TOKENIZER))


def _train(job: Job, cache: ResumeCache, chosen: TokenizeSettings, pretokens: Iterator[StringCounts]) -> dict[str, Any]:
    """Train on as many of the pre-tokens as the memory allows; gives what a later run of the job has to know."""
    kept = keep_most_frequent(
        pretokens, lambda size, number: training_bytes(chosen, size, number) <= chosen.memory_bytes
    )
    if not len(kept.strings):
        _refuse_nothing(kept, chosen)
    counts, warnings = _about_left_out(kept, "pretokens", "are not trained on")
    with cache.table(_COUNTS, COUNTS, {}) as table:
        for batch in kept.strings.batches(COUNTS):
            table.write(batch)
    trained = train_tokenizer(
        kept.strings, chosen, report=lambda done, total: job.report("training the tokenizer", done, total, "tokens")
    )
    figures = {"counts": counts | trained.counts, "warnings": warnings + trained.warnings}
    cache.put(TOKENIZER, trained.tokenizer.to_str(pretty=True).encode(), figures)
    return figures


def _reported(job: Job, phase: str, parts: Iterator[StringCounts], before: int, total: int) -> Iterator[StringCounts]:
    """The parts of what was counted; each is reported once it has been worked on."""
    job.report(phase, before, total, "parts")
    for done, part in enumerate(parts, start=before + 1):
        yield part
        job.report(phase, done, total, "parts")


def _refuse_nothing(kept: MostFrequent, chosen: TokenizeSettings) -> NoReturn:
    if kept.left_out:
        least = training_bytes(chosen, 1 << 20, 1 << 17) // 10**6 + 1
        raise BudgetError(
            "the memory allowed is too little to train a tokenizer in",
            where="memory",
            got=chosen.memory,
            expected=f"at least {least}MB",
            hint=f"--memory {least}MB or more",
        )
    hint = "take a larger --sample" if chosen.sample < 1 else None
    raise InputError("no text to train a tokenizer on", hint=hint)


def _about_left_out(kept: MostFrequent, what: str, fate: str) -> tuple[dict[str, int], list[str]]:
    """How many strings there are, and a warning where some did not fit in the memory."""
    counts = {
        what: int(kept.strings.counts.sum()) + kept.left_out_total,
        f"distinct_{what}": len(kept.strings) + kept.left_out,
    }
    if not kept.left_out:
        return counts, []
    counts |= {f"distinct_{what}_left_out": kept.left_out, f"{what}_left_out": kept.left_out_total}
    return counts, [
        f"{kept.left_out:,} distinct {what}, none of them seen more than {kept.left_out_count:,} times, do not fit in the "
        f"memory allowed and {fate}; allow more with --memory"
    ]


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
    fold_counts(reported(sum_runs(counted.words), 0), split, keep_case=chosen.keep_case, table=table)
    table.spill()
    kept = keep_most_frequent(
        reported(sum_runs([partial(path.open, "rb") for path in runs]), PARTS),
        lambda size, number: size + _WORD_BYTES * number <= chosen.memory_bytes // 2,
    )
    with job.table("words", VOCABULARY, single=True) as words:
        for batch in kept.strings.batches(VOCABULARY):
            words.write(batch)
    counts, warnings = _about_left_out(kept, "words", "get no number")
    job.counts |= counts
    for text in warnings:
        job.warn(text)
    return WordNumbers(kept.strings, split, keep_case=chosen.keep_case)


def _count_shards(
    job: Job, cache: ResumeCache, source: Artifact, shards: list[Shard], texts: tuple[str, ...], *,
    pretokens: RowCutter | None, words: RowCutter, sample: float, memory: int,
) -> _Counted:  # fmt: skip
    """Count a corpus.

    Args:
        job: says how many threads, and reports how far the work is.
        cache: keeps the runs.
        source: the corpus.
        shards: its shards.
        texts: its columns of texts.
        pretokens: cuts rows into pre-tokens; None where they are not wanted.
        words: cuts rows into runs of words.
        sample: share of the documents whose pre-tokens are counted.
        memory: bytes for the tables of all threads.
    """
    table_bytes = min(memory // (2 * job.threads), TABLE_BYTES)
    counted, total, done = _Counted(), sum(shard.rows for shard in shards), 0
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
            for counts in in_order(count_one, read_shard(source, shard, ("doc_id", *texts)), tables):
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


def _encode_shards(
    job: Job, cache: ResumeCache, source: Artifact, shards: list[Shard], texts: tuple[str, ...], tokenizer: Tokenizer,
    numbers: WordNumbers,
) -> None:  # fmt: skip
    """Encode a corpus: every shard becomes a part of the table of tokens."""
    encoder = CorpusEncoder(tokenizer, numbers, job.threads)
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
