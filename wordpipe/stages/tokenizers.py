"""Where the tokenizer of `wordpipe tokenize` comes from: given, or trained from counts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.artifacts.reader import Artifact, is_artifact
from wordpipe.artifacts.schemas import COUNTS
from wordpipe.artifacts.shelf import Shelf
from wordpipe.artifacts.tables import read_batches
from wordpipe.errors import ArtifactError, BudgetError, ConfigError, InputError
from wordpipe.stages.carried import TOKENIZER
from wordpipe.stages.counting import Counted
from wordpipe.stages.making import Job
from wordpipe.stages.sources import file_entry
from wordpipe.tokens.counting import Kept, Pretokens, added_up, keep_commonest
from wordpipe.tokens.formats.reading import open_tokenizer, read_tokenizer
from wordpipe.tokens.settings import TokenizeSettings
from wordpipe.tokens.train.training import train_tokenizer, training_bytes
from wordpipe.tokens.vocabulary import SPECIAL_TOKENS, loses_letters

__all__ = [
    "batches_of",
    "counts_of",
    "counts_that_fit",
    "given_tokenizer",
    "keep_pretokens",
    "about_left_out",
    "trained_tokenizer",
    "with_counts_of",
]

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


def with_counts_of(artifact: Artifact, chosen: TokenizeSettings) -> TokenizeSettings:
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


def counts_that_fit(job: Job, artifact: Artifact, chosen: TokenizeSettings) -> tuple[Pretokens, list[str]]:
    """The counts of another artifact, as many as the memory allows to train on."""
    return _that_fit(job, iter([counts_of(artifact)]), chosen)


def counts_of(artifact: Artifact) -> Pretokens:
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


def keep_pretokens(job: Job, counted: Counted, chosen: TokenizeSettings) -> tuple[Pretokens, list[str]]:
    """The counted pre-tokens, as many as the memory allows to train on, and what to say about the others."""
    job.report("adding up")
    return _that_fit(job, added_up(counted.pretokens), chosen)


def _that_fit(job: Job, parts: Iterator[Pretokens], chosen: TokenizeSettings) -> tuple[Pretokens, list[str]]:
    kept = keep_commonest(parts, lambda size, number: training_bytes(chosen, size, number) <= chosen.memory_bytes)
    if not len(kept.units):
        _refuse_nothing(kept, chosen)
    total = int(kept.units.counts.sum()) + kept.left_out_total
    job.counts |= {"pretokens": total, "distinct_pretokens": len(kept.units) + kept.left_out}
    return kept.units, about_left_out(job, kept, "pretokens", "are not trained on")


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


def trained_tokenizer(
    job: Job, shelf: Shelf, chosen: TokenizeSettings, pretokens: Callable[[], tuple[Pretokens, list[str]]]
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
    job: Job, shelf: Shelf, chosen: TokenizeSettings, pretokens: Callable[[], tuple[Pretokens, list[str]]]
) -> dict[str, Any]:
    before = set(job.counts)
    units, warnings = pretokens()
    with shelf.table(_COUNTS, COUNTS, {}) as table:
        for batch in batches_of(units, COUNTS):
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


def about_left_out(job: Job, kept: Kept, what: str, fate: str) -> list[str]:
    """Count what did not fit in the memory; the warning about it."""
    if not kept.left_out:
        return []
    job.counts |= {f"distinct_{what}_left_out": kept.left_out, f"{what}_left_out": kept.left_out_total}
    return [
        f"{kept.left_out:,} distinct {what}, none of them seen more than {kept.left_out_count:,} times, do not fit in the "
        f"memory allowed and {fate}; allow more with --memory"
    ]


def batches_of(units: Pretokens, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
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
