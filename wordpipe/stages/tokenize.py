"""`wordpipe tokenize`: corpus → tokens.

First the corpus is counted; the tokenizer is trained from the counts; then the corpus is encoded, shard by shard. Whatever of
this a killed run has finished lies on its shelf and is not done again.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from wordpipe.artifacts.manifest import library_versions
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import CORPUS
from wordpipe.artifacts.shards import read_shard, shards_of
from wordpipe.artifacts.shelf import Shelf
from wordpipe.artifacts.tables import read_schema
from wordpipe.runtime import cpu_count
from wordpipe.stages.counting import count_shards
from wordpipe.stages.encoding import encode_shards
from wordpipe.stages.listing import list_words
from wordpipe.stages.making import Job, Made, PathLike, RunOptions, making
from wordpipe.stages.texts import open_corpus
from wordpipe.stages.tokenizers import (
    counts_that_fit,
    given_tokenizer,
    keep_pretokens,
    trained_tokenizer,
    with_counts_of,
)
from wordpipe.tokens.cutting import Cut, cut_pretokens, cut_words
from wordpipe.tokens.normal.schemes import empty_tokenizer, resolve, scheme_of, script_shares
from wordpipe.tokens.settings import TokenizeSettings

__all__ = ["tokenize"]


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
    with making("tokens", "tokenize", output, chosen, run) as job, job.telling_of_compilation():
        job.libraries = ("tokenizers", "regex", "pyarrow", "numba")
        job.threads = cpu_count()
        source = open_corpus(job, corpus)
        read_schema(source, "corpus", CORPUS)
        given = given_tokenizer(job, chosen.tokenizer)
        counts = None if chosen.counts is None else job.open_input(chosen.counts, ["tokens"])
        shelf = Shelf(
            job.partial, f"{job.recipe} {library_versions(*job.libraries)}"
        )  # all inputs are known now, and so is the recipe
        to_count = given is None and counts is None
        if counts is not None:
            chosen = with_counts_of(counts, chosen)
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
            units = (
                partial(keep_pretokens, job, counted, chosen)
                if counts is None
                else partial(counts_that_fit, job, counts, chosen)
            )
            tokenizer = trained_tokenizer(job, shelf, chosen, units)
        numbers = list_words(job, counted, tokenizer, chosen)
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
