"""Artifacts of given vectors, without an encoder having been there, or with one that made others."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wordpipe.artifacts import ENCODER, Artifact, read_batches, sentences_schema, vector_column, words_schema
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


def with_other_vectors(path: Path, source: Path, vectors_ND: np.ndarray) -> Path:
    """The texts and the encoder of a sentences artifact, with other vectors."""
    with Artifact(source, ["sentences"]) as artifact, open_job("sentences", path, Settings(), None) as job:
        rows = pa.Table.from_batches(read_batches(artifact, "sentences"))
        schema = sentences_schema(vectors_ND.shape[1])
        columns = [rows.column(name).combine_chunks() for name in schema.names if name != "vector"]
        columns.insert(schema.get_field_index("vector"), vector_column(vectors_ND))
        with job.table("sentences", schema) as table:
            table.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        for name in artifact.names(ENCODER):
            job.write(name, artifact.read(name))
        job.facts = {**artifact.manifest.facts, "dim": vectors_ND.shape[1]}
    return path


def made_words(path: Path, vectors_ND: np.ndarray, counts: list[int], words: list[str] | None = None) -> Path:
    """Words w0, w1, …, or others."""
    n, dim = vectors_ND.shape
    arrays = [
        pa.array(words or [f"w{row}" for row in range(n)]),
        pa.array(counts, pa.int64()),
        vector_column(vectors_ND),
    ]
    with open_job("words", path, Settings(), None) as job:
        with job.table("words", words_schema(dim)) as table:
            table.write(pa.RecordBatch.from_arrays(arrays, schema=words_schema(dim)))
        job.facts = {"dim": dim}
    return path
