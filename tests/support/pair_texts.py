"""Small texts that pairs are cut from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from wordpipe.artifacts import TOKENS_16
from wordpipe.training.contrastive import PairText, write_pair_text

__all__ = ["Document", "made_text", "random_documents", "title_batches", "token_batches"]

Document = tuple[str, str, list[list[int]]]
"""Name, split, and the ids of each sentence."""


def token_batches(documents: Sequence[Document], rows_per_batch: int = 7) -> list[pa.RecordBatch]:
    """Documents as rows of the tokens schema."""
    rows = [
        {"doc_id": name, "sentence_id": number, "split": split, "ids": ids, "word_ids": ids}
        for name, split, sentences in documents
        for number, ids in enumerate(sentences)
    ]
    table = pa.Table.from_pylist(rows, TOKENS_16)
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=rows_per_batch)
    return batches


def title_batches(titles: Sequence[tuple[str, list[int]]]) -> list[pa.RecordBatch]:
    """One row per document."""
    schema = pa.schema([("doc_id", pa.string()), ("ids", pa.list_(pa.uint32()))])
    table = pa.Table.from_pylist([{"doc_id": name, "ids": ids} for name, ids in titles], schema)
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=3)
    return batches


def random_documents(n: int = 30, vocab_size: int = 50, seed: int = 0) -> list[Document]:
    """Documents of 1 to 6 sentences of 1 to 12 ids; every fifth is held out."""
    rng = np.random.default_rng(seed)
    return [
        (
            f"d{number}",
            "valid" if number % 5 == 4 else "train",
            [rng.integers(0, vocab_size, rng.integers(1, 13)).tolist() for _ in range(rng.integers(1, 7))],
        )
        for number in range(n)
    ]


def made_text(folder: Path, documents: Sequence[Document], *, titles: bool = False, vocab_size: int = 50) -> PairText:
    """The text of documents, with a title of two ids for every second one if wanted."""
    folder.mkdir(exist_ok=True)
    named = [(name, [1, 2] if place % 2 else []) for place, (name, _, _) in enumerate(documents)]
    return write_pair_text(
        token_batches(documents), folder, vocab_size=vocab_size, titles=title_batches(named) if titles else None
    )
