"""Small texts that pairs are cut from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from wordpipe.artifacts import TOKENS_16
from wordpipe.training.contrastive import PairText, write_pair_text

__all__ = ["Document", "id_lists", "made_text", "random_documents", "token_batches"]

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


def id_lists(rows: Sequence[list[int]]) -> list[pa.Array]:
    """Lists of ids, three at a time."""
    return [pa.array(rows[at : at + 3], pa.list_(pa.uint32())) for at in range(0, len(rows), 3)]


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
    given = id_lists([[1, 2] if place % 2 else [] for place in range(len(documents))]) if titles else None
    return write_pair_text(token_batches(documents), folder, vocab_size=vocab_size, titles=given)
