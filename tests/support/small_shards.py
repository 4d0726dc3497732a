"""`wordpipe tokenize`, `embed` and `index` in shards so small that a few pages make many, for processes that are killed."""

import json

import wordpipe
from wordpipe.stages.corpus import tokenize_shards
from wordpipe.stages.encode import embed_shards
from wordpipe.stages.search import index_shards

SMALL = 8_000
"""Bytes of a shard."""


def tokenize(corpus: str, output: str, settings: str) -> None:
    """The settings are JSON."""
    tokenize_shards.SHARD_BYTES = SMALL
    wordpipe.tokenize(corpus, output=output, **json.loads(settings))


def embed(encoder: str, corpus: str, output: str, settings: str) -> None:
    """Likewise, a thousand units in a shard."""
    embed_shards.LEAST_UNITS.update(dict.fromkeys(embed_shards.LEAST_UNITS, 1000))
    wordpipe.embed(encoder, corpus, output=output, **json.loads(settings))


def index(vectors: str, output: str, settings: str) -> None:
    """Likewise, a shard for each row group."""
    index_shards.SHARD_BYTES = 1
    wordpipe.index(vectors, output=output, **json.loads(settings))
