"""Artifacts of given vectors, without an encoder having been there."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wordpipe.artifacts import sentences_schema, vector_column, words_schema
from wordpipe.settings import Settings
from wordpipe.stages import open_job


def made_sentences(path: Path, vectors_ND: np.ndarray, texts: list[str], **columns: Any) -> Path:
    """Sentences; further columns are metadata."""
    n, dim = vectors_ND.shape
    metadata = pa.schema([pa.field(name, pa.array(values).type) for name, values in columns.items()])
    schema = sentences_schema(dim, metadata)
    arrays = [
        pa.array(np.arange(n)), pa.array([f"d{row // 3}" for row in range(n)]), pa.nulls(n, pa.string()), pa.array(texts),
        pa.array(["notes.txt"] * n), pa.array(np.arange(1, n + 1)), vector_column(vectors_ND),
        *map(pa.array, columns.values()),
    ]  # fmt: skip
    with open_job("sentences", path, Settings(), None) as job:
        with job.table("sentences", schema) as table:
            table.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        job.facts = {"dim": dim, "transform": "none"}
    return path


def made_words(path: Path, vectors_ND: np.ndarray, counts: list[int]) -> Path:
    """Words w0, w1, …."""
    n, dim = vectors_ND.shape
    arrays = [pa.array([f"w{row}" for row in range(n)]), pa.array(counts, pa.int64()), vector_column(vectors_ND)]
    with open_job("words", path, Settings(), None) as job:
        with job.table("words", words_schema(dim)) as table:
            table.write(pa.RecordBatch.from_arrays(arrays, schema=words_schema(dim)))
        job.facts = {"dim": dim}
    return path
