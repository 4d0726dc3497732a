"""The vocabularies of a corpus: tokenizers that are given, or trained from counted pre-tokens.

Plain texts have one. Of pairs it is the one of both texts (joint), or each side has its own (separate), which learns from the
texts of this side alone. Both are made by the same settings, and a pre-tokenizer that is left open suits the scripts of its
side. In a joint vocabulary what both sides have, names and numbers, is one token, and T5 and BART know no other kind; in
separate ones each side has all the tokens for itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import (
    COUNTS,
    TARGET,
    TOKENIZER,
    TOKENIZER_B,
    Artifact,
    ResumeCache,
    is_artifact,
    read_batches,
    read_shard,
    shards_of,
)
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, InputError
from wordpipe.stages.inputs import file_entry, reading
from wordpipe.stages.job import Job
from wordpipe.tokens import (
    SPECIAL_TOKENS,
    MostFrequent,
    RowCutter,
    StringCounts,
    cut_pretokens,
    drops_unknown_characters,
    empty_tokenizer,
    keep_most_frequent,
    open_tokenizer,
    read_tokenizer,
    resolve,
    scheme_of,
    script_shares,
    train_tokenizer,
    training_bytes,
)
from wordpipe.tokens.settings import TokenizeSettings

_CUTTING = ("pretokenizer", "normalization", "lowercase", "strip_accents")  # settings that decide what is counted


@dataclass(frozen=True)
class Side:
    """Texts that have a tokenizer of their own.

    Attributes:
        columns: of the corpus.
        is_second: they are the second texts of pairs alone.
    """

    columns: tuple[str, ...]
    is_second: bool = False

    @property
    def suffix(self) -> str:
        """Behind names of what is theirs."""
        return "_b" if self.is_second else ""

    @property
    def of_them(self) -> str:
        """What a message about them begins with."""
        return "second texts: " if self.is_second else ""

    @property
    def pretokens(self) -> str:
        """The name of their counts while these are made."""
        return f"pretokens{self.suffix}"

    @property
    def counts(self) -> str:
        """The table of their counts in the artifact."""
        return f"counts{self.suffix}"

    @property
    def tokenizer(self) -> str:
        """The file of their tokenizer in the artifact."""
        return TOKENIZER_B if self.is_second else TOKENIZER


_FIRST, _SECOND = Side(("text",)), Side(("text_b",), is_second=True)


def sides_of(
    chosen: TokenizeSettings, texts: tuple[str, ...], given: Sequence[Tokenizer], counts: Artifact | None
) -> tuple[Side, ...]:
    """The sides of a corpus that have a tokenizer each: as many as are given, were counted, or are asked for.

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
            "the corpus has no second texts", where="vocabulary", got=vocabulary, expected="joint",
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
    """The tokenizers named by the user, recorded as an input by their content, and written to the artifact.

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
    job.write(name, data)
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


def with_counts_of(artifact: Artifact, chosen: TokenizeSettings, side: Side) -> TokenizeSettings:
    """The settings with what was decided when the pre-tokens of another artifact were counted.

    Raises:
        ConfigError: another way of cutting or normalising the text was asked for.
        ArtifactError: the artifact has no counts.
    """
    if f"{side.counts}.parquet" not in artifact.names():
        raise ArtifactError(
            "the artifact has no counts: its tokenizer was given, not trained",
            where=artifact.path,
            hint="name a tokens artifact with a tokenizer trained by wordpipe, or leave out --counts",
        )
    facts, settings = artifact.manifest.facts, artifact.manifest.settings
    decided = {name: facts.get(name + side.suffix, facts.get(name, settings.get(name))) for name in _CUTTING}
    for name in _CUTTING:
        if name in chosen.model_fields_set and getattr(chosen, name) not in (decided[name], "auto"):
            raise _other_counts(name, getattr(chosen, name), decided[name], artifact)
    return chosen.model_copy(update=decided)


def _other_counts(name: str, got: object, made: object, artifact: Artifact) -> ConfigError:
    return ConfigError(
        "the counts were made with another setting",
        where=name,
        got=got,
        expected=f"{made}, as in {artifact.path}",
        hint="leave out --counts to count again",
    )


def counted_before(artifact: Artifact, side: Side) -> Iterator[StringCounts]:
    """The counts of another artifact."""
    return map(StringCounts.from_batches, [read_batches(artifact, side.counts, expected=COUNTS)])


def resolved(job: Job, source: Artifact, chosen: TokenizeSettings, side: Side) -> TokenizeSettings:
    """The settings with a pre-tokenizer: where that is left open, one for the scripts that the text is written in."""
    name, warnings = resolve(chosen, script_shares(_some_texts(source, side.columns)))
    for text in warnings:
        job.warn(side.of_them + text)
    return chosen.model_copy(update={"pretokenizer": name})


def _some_texts(source: Artifact, columns: tuple[str, ...]) -> Iterator[pa.Array]:
    """About four thousand sentences of the corpus, evenly from the row groups in sixteen places."""
    groups = shards_of(source, "corpus", shard_bytes=1)
    chosen = groups[:: -(-len(groups) // 16)]
    step = max(1, sum(group.rows for group in chosen) // 4096)
    for group in chosen:
        for batch in read_shard(source, group, columns):
            rows = pa.array(range(0, len(batch), step), pa.int64())
            yield from (batch.column(name).take(rows) for name in columns)


def cutter_of(chosen: TokenizeSettings) -> RowCutter:
    """What cuts rows into pre-tokens as the tokenizer will."""
    tokenizer = empty_tokenizer(chosen)
    scheme = scheme_of(tokenizer)
    assert scheme is not None, f"{chosen.pretokenizer} is not recognised"
    return cut_pretokens(tokenizer, scheme)


def trained_tokenizer(
    job: Job, cache: ResumeCache, chosen: TokenizeSettings, side: Side, pretokens: Iterator[StringCounts]
) -> Tokenizer:
    """A tokenizer trained from counts, unless a stopped run has done it; it and the counts become files of the artifact."""
    name, table = side.tokenizer, f"{side.counts}.parquet"
    done = cache.figures(name)
    if done is None or cache.figures(table) is None:
        done = _train(job, cache, chosen, side, pretokens)
    else:
        job.note(f"continuing a stopped run: {side.of_them}the tokenizer was trained before")
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
    """Train on as many of the pre-tokens as the memory allows; gives what a later run of the job has to know."""
    kept = keep_most_frequent(
        pretokens, lambda size, number: training_bytes(chosen, size, number) <= chosen.memory_bytes
    )
    if not len(kept.strings):
        _refuse_nothing(kept, chosen)
    counts, warnings = about_left_out(kept, "pretokens", "are not trained on")
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


def about_left_out(kept: MostFrequent, what: str, fate: str) -> tuple[dict[str, int], list[str]]:
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
