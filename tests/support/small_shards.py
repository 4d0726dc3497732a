"""`wordpipe tokenize` in shards so small that a few pages make many, for processes that are killed."""

import json

import wordpipe
from wordpipe.artifacts import tables

SMALL = 8_000
"""Bytes of a shard."""


def tokenize(corpus: str, output: str, settings: str) -> None:
    """The settings are JSON."""
    tables.SHARD_BYTES = SMALL
    wordpipe.tokenize(corpus, output=output, **json.loads(settings))
