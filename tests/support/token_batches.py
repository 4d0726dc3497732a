"""Small tokens artifacts, as Arrow batches."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from wordpipe.artifacts import TOKENS_32

Doc = list[list[int]]  # sentences of word ids


def batches(docs: list[Doc], *, rows: int = 3, splits: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The documents as rows of a tokens artifact, `rows` sentences per batch, so that documents span batches."""
    flat = [
        (f"d{i}", j, (splits or ["train"] * len(docs))[i], s) for i, doc in enumerate(docs) for j, s in enumerate(doc)
    ]
    for first in range(0, len(flat), rows):
        part = flat[first : first + rows]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([r[0] for r in part]),
                pa.array([r[1] for r in part], pa.int32()),
                pa.array([r[2] for r in part]),
                pa.array([[] for _ in part], TOKENS_32.field("ids").type),
                pa.array([r[3] for r in part], TOKENS_32.field("word_ids").type),
            ],
            schema=TOKENS_32,
        )


def documents(size: int = 12) -> st.SearchStrategy[list[Doc]]:
    """Random documents, some empty, of ids below `size`."""
    sentence = st.lists(st.integers(0, size - 1), max_size=9)
    return st.lists(st.lists(sentence, min_size=1, max_size=5), max_size=6)


def topics(words: int, *, seed: int, size: int = 40) -> list[Doc]:
    """Documents of one sentence, each about the even or about the odd ids, so that ids of equal parity keep company."""
    rng = np.random.default_rng(seed)
    return [[(2 * rng.integers(size // 2, size=20) + rng.integers(2)).tolist()] for _ in range(words // 20)]
