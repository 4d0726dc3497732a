"""`wordpipe tokenize`: corpus → tokens.

First the corpus is counted; the tokenizer is trained from the counts; then the corpus is encoded, shard by shard. Whatever of
this a killed run has finished lies on its shelf and is not done again.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts import (
    CORPUS,
    COUNTS,
    TOKENIZER,
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
from wordpipe.runtime import cpu_count
from wordpipe.stages.inputs import file_entry, open_corpus
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.text.token_shards import Counted, count_shards, encode_shards
from wordpipe.tokens import (
    SPECIAL_TOKENS,
    Cut,
    Kept,
    Pretokens,
    SpillingTable,
    WordNumbers,
    WordSplitter,
    added_up,
    cut_pretokens,
    cut_words,
    empty_tokenizer,
    fold_counts,
    keep_commonest,
    loses_letters,
    open_tokenizer,
    piece_splitter,
    read_tokenizer,
    resolve,
    scheme_of,
    script_shares,
    train_tokenizer,
    training_bytes,
)
from wordpipe.tokens.settings import TokenizeSettings

_WORD_BYTES = 48  # memory that a word takes in the list, beside its letters


def _list_words(job: Job, counted: Counted, tokenizer: Tokenizer, chosen: TokenizeSettings) -> WordNumbers:
    """Make words of the runs that were counted, write the list of them and number them."""
    job.report("listing the words")
    split = WordSplitter(piece_splitter(tokenizer), keep_case=chosen.keep_case)
    runs: list[Path] = []
    table = SpillingTable(chosen.memory_bytes // 4, partial(_new_run, job.scratch, runs))
    fold_counts(added_up(counted.words), split, keep_case=chosen.keep_case, table=table)
    table.spill()
    kept = keep_commonest(
        added_up([partial(path.open, "rb") for path in runs]),
        lambda size, number: size + _WORD_BYTES * number <= chosen.memory_bytes // 2,
    )
    with job.table("words", VOCABULARY, single=True) as words:
        for batch in _batches_of(kept.units, VOCABULARY):
            words.write(batch)
    job.counts |= {
        "words": int(kept.units.counts.sum()) + kept.left_out_total,
        "distinct_words": len(kept.units) + kept.left_out,
    }
    for text in _about_left_out(job, kept, "words", "get no number"):
        job.warn(text)
    return WordNumbers(kept.units, split, keep_case=chosen.keep_case)


@contextmanager
def _new_run(folder: Path, runs: list[Path]) -> Iterator[IO[bytes]]:
    path = folder / f"words-{len(runs):04d}.parquet"
    runs.append(path)
    with path.open("wb") as file:
        yield file


_COUNTS = "counts.parquet"
_CUTTING = ("pretokenizer", "normalization", "lowercase", "strip_accents")  # settings that decide what is counted


def given_tokenizer(job: Job, path: Path | None) -> Tokenizer | None:
    """The tokenizer named by the user, recorded as an input by its content, and written to the artifact."""
    if path is None:
        return None
    if is_artifact(path):
        data = job.open_input(path, ["tokens", "model"]).read(TOKENIZER)
    else:
        job.inputs.append(file_entry(path))
        data = read_tokenizer(path, warn=job.warn).to_str(pretty=True).encode()
    job.write(TOKENIZER, data)
    tokenizer = open_tokenizer(data, where=str(path))  # as whoever reads the artifact will have it
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        job.warn(
            f"{path.name} lacks {', '.join(missing)}: train mlm needs [CLS], [SEP], [MASK] and [PAD], train clm <s>"
        )
    if loses_letters(tokenizer):
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


def _counts_of(artifact: Artifact) -> Pretokens:
    """The counts that a tokenizer was trained from."""
    texts, counts = [], []
    for batch in read_batches(artifact, "counts", expected=COUNTS):
        texts.append(batch.column("pretoken").cast(pa.large_string()))
        counts.append(batch.column("count").to_numpy())
    joined = pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())
    _, ends, data = joined.buffers()
    return Pretokens(
        np.frombuffer(data or b"", np.uint8),
        np.frombuffer(ends, np.int64)[: len(joined) + 1] if len(joined) else np.zeros(1, np.int64),
        np.concatenate(counts) if counts else np.zeros(0, np.int64),
    )


def _that_fit(job: Job, parts: Iterator[Pretokens], chosen: TokenizeSettings) -> tuple[Pretokens, list[str]]:
    """As many of the pre-tokens as the memory allows to train on, and what to say about the others."""
    job.report("adding up")
    kept = keep_commonest(parts, lambda size, number: training_bytes(chosen, size, number) <= chosen.memory_bytes)
    if not len(kept.units):
        _refuse_nothing(kept, chosen)
    total = int(kept.units.counts.sum()) + kept.left_out_total
    job.counts |= {"pretokens": total, "distinct_pretokens": len(kept.units) + kept.left_out}
    return kept.units, _about_left_out(job, kept, "pretokens", "are not trained on")


def _refuse_nothing(kept: Kept, chosen: TokenizeSettings) -> None:
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


def _trained_tokenizer(
    job: Job, shelf: ResumeCache, chosen: TokenizeSettings, pretokens: Callable[[], Iterator[Pretokens]]
) -> Tokenizer:
    """A tokenizer trained from counts, unless a stopped run has done it; it and the counts become files of the artifact."""
    done = shelf.figures(TOKENIZER)
    if done is None or shelf.figures(_COUNTS) is None:
        done = _train(job, shelf, chosen, pretokens)
    else:
        job.note("continuing a stopped run: the tokenizer was trained before")
    job.counts |= done["counts"]
    job.facts |= {name: getattr(chosen, name) for name in _CUTTING}
    for text in done["warnings"]:
        job.warn(text)
    data = (shelf.path / TOKENIZER).read_bytes()
    shelf.adopt(_COUNTS, job.draft)
    shelf.adopt(TOKENIZER, job.draft)
    return open_tokenizer(data, where=str(shelf.path / TOKENIZER))


def _train(
    job: Job, shelf: ResumeCache, chosen: TokenizeSettings, pretokens: Callable[[], Iterator[Pretokens]]
) -> dict[str, Any]:
    before = set(job.counts)
    units, warnings = _that_fit(job, pretokens(), chosen)
    with shelf.table(_COUNTS, COUNTS, {}) as table:
        for batch in _batches_of(units, COUNTS):
            table.write(batch)
    trained = train_tokenizer(
        units, chosen, report=lambda done, total: job.report("training the tokenizer", done, total, "tokens")
    )
    job.counts |= trained.counts
    figures = {
        "counts": {name: value for name, value in job.counts.items() if name not in before},
        "warnings": warnings + trained.warnings,
    }
    shelf.put(TOKENIZER, trained.tokenizer.to_str(pretty=True).encode(), figures)
    return figures


def _about_left_out(job: Job, kept: Kept, what: str, fate: str) -> list[str]:
    """Count what did not fit in the memory; the warning about it."""
    if not kept.left_out:
        return []
    job.counts |= {f"distinct_{what}_left_out": kept.left_out, f"{what}_left_out": kept.left_out_total}
    return [
        f"{kept.left_out:,} distinct {what}, none of them seen more than {kept.left_out_count:,} times, do not fit in the "
        f"memory allowed and {fate}; allow more with --memory"
    ]


def _batches_of(units: Pretokens, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Units and counts as record batches."""
    for start in range(0, len(units), 65_536):
        stop = min(len(units), start + 65_536)
        offsets = units.offsets[start : stop + 1]
        data = units.data[offsets[0] : offsets[-1]]
        texts = pa.StringArray.from_buffers(
            stop - start,
            pa.py_buffer((offsets - offsets[0]).astype(np.int32)),
            pa.py_buffer(np.ascontiguousarray(data)),
        )
        yield pa.RecordBatch.from_arrays([texts, pa.array(units.counts[start:stop])], schema=schema)


def tokenize(
    corpus: PathLike | Iterable[PathLike], *, output: PathLike, run: RunOptions | None = None, **settings: Any
) -> Made:
    """Train a tokenizer on a corpus, encode the corpus and count its words.

    Args:
        corpus: a corpus artifact, or sources of text, which are then ingested with the default settings.
        output: folder of the tokens artifact.
        run: progress, fresh start, verification.
        settings: fields of `TokenizeSettings`.

    Raises:
        WordpipeError: see wordpipe/errors.py.
    """
    chosen = TokenizeSettings.make(settings)
    with open_job("tokens", "tokenize", output, chosen, run) as job, job.telling_of_compilation():
        job.libraries = ("tokenizers", "regex", "pyarrow", "numba")
        job.threads = cpu_count()
        source = open_corpus(job, corpus)
        read_schema(source, "corpus", CORPUS)
        given = given_tokenizer(job, chosen.tokenizer)
        counts = None if chosen.counts is None else job.open_input(chosen.counts, ["tokens"])
        shelf = ResumeCache(
            job.partial, f"{job.recipe} {library_versions(*job.libraries)}"
        )  # all inputs are known now, and so is the recipe
        to_count = given is None and counts is None
        if counts is not None:
            chosen = _with_counts_of(counts, chosen)
        elif to_count:
            chosen = _resolved(job, source, chosen)
        shards = shards_of(source, "corpus")
        counted = count_shards(
            job, shelf, source, shards,
            pretokens=_cut(chosen) if to_count else None, words=cut_words(), sample=chosen.sample,
            memory=chosen.memory_bytes // 2, threads=job.threads,
        )  # fmt: skip
        job.counts |= counted.figures
        if given is not None:
            tokenizer = given
        else:
            tokenizer = _trained_tokenizer(
                job,
                shelf,
                chosen,
                lambda: added_up(counted.pretokens) if counts is None else iter([_counts_of(counts)]),
            )
        numbers = _list_words(job, counted, tokenizer, chosen)
        encode_shards(job, shelf, source, shards, tokenizer, numbers)
        job.facts |= {
            "vocab_size": tokenizer.get_vocab_size(),
            "algorithm": type(tokenizer.model).__name__,
            "keep_case": chosen.keep_case,
        }
    return job.made


def _resolved(job: Job, source: Artifact, chosen: TokenizeSettings) -> TokenizeSettings:
    """The settings with a pre-tokenizer: where that is left open, one for the scripts that the text is written in."""
    name, warnings = resolve(chosen, script_shares(_some_texts(source)))
    for text in warnings:
        job.warn(text)
    return chosen.model_copy(update={"pretokenizer": name})


def _some_texts(source: Artifact) -> Iterator[pa.Array]:
    """About four thousand sentences of the corpus, evenly from the row groups in sixteen places."""
    groups = shards_of(source, "corpus", shard_bytes=1)
    chosen = groups[:: -(-len(groups) // 16)]
    step = max(1, sum(group.rows for group in chosen) // 4096)
    for group in chosen:
        for batch in read_shard(source, group, ["text"]):
            yield batch.column("text").take(pa.array(range(0, len(batch), step), pa.int64()))


def _cut(chosen: TokenizeSettings) -> Cut:
    tokenizer = empty_tokenizer(chosen)
    scheme = scheme_of(tokenizer)
    assert scheme is not None, f"{chosen.pretokenizer} is not recognised"
    return cut_pretokens(tokenizer, scheme)
