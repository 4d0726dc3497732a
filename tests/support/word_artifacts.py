"""Small words artifacts to index: rows that come and go, and an index's notes. Of words no lexical index is made."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import wordpipe
from wordpipe import RunOptions
from wordpipe.artifacts import vector_column, words_schema
from wordpipe.settings import Settings
from wordpipe.stages import open_job

DIM = 16


class _None(Settings):
    """No settings."""


def words(path: Path, rows: dict[str, np.ndarray], *, tokenizer: bytes = b"{}") -> Path:
    """A words artifact: word → vector. Of words no lexical index is made, so that a test is about the vectors alone."""
    schema = words_schema(DIM)
    with open_job("words", path, _None(), None) as job:
        with job.table("words", schema) as table:
            vectors = vector_column(np.array(list(rows.values())))
            columns = [pa.array(list(rows), pa.string()), pa.array(np.ones(len(rows), dtype=np.int64)), vectors]
            table.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        job.write("tokenizer.json", tokenizer)
        job.facts = {"dim": DIM}
    return path


def texts(n: int, seed: int, name: str = "text") -> dict[str, np.ndarray]:
    vectors_ND = np.random.default_rng(seed).standard_normal((n, DIM)).astype(np.float32)
    vectors_ND /= np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return {f"{chr(97 + row % 20)} {name} number {row}": vector_D for row, vector_D in enumerate(vectors_ND)}


def notes_of(*args: Any, **settings: Any) -> tuple[Any, list[str]]:
    notes: list[str] = []
    run = RunOptions(report=lambda progress: notes.append(progress.note) if progress.note else None)
    return wordpipe.index(*args, run=run, **settings), notes


def changed(rows: dict[str, np.ndarray], fresh: dict[str, np.ndarray], gone: int) -> dict[str, np.ndarray]:
    """The rows without the first few, new ones among them."""
    kept = list(rows.items())[gone:]
    return dict([*kept[:50], *fresh.items(), *kept[50:]])
