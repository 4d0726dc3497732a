"""Sentences in, token ids and word numbers out, one Arrow batch at a time."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from wordpipe.tokens.words import WordSplitter

__all__ = ["encode_batch", "ragged"]


def encode_batch(
    batch: pa.RecordBatch, tokenizer: Tokenizer, split: WordSplitter, number: Mapping[str, int], schema: pa.Schema
) -> pa.RecordBatch:
    """Encode the `text` of corpus rows.

    Args:
        batch: rows with doc_id, sentence_id, split and text.
        tokenizer: adds no special tokens and cuts nothing here.
        split: text to words.
        number: word to its row in the table of words; every word of the batch is in it.
        schema: the `tokens` schema, with uint16 or uint32 ids.

    Returns:
        As many rows as came in.
    """
    texts = batch.column("text").to_pylist()
    ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    word_ids = [[number[word] for word in split(text)] for text in texts]
    columns = [
        batch.column("doc_id"),
        batch.column("sentence_id"),
        batch.column("split"),
        ragged(ids, schema.field("ids").type),
        ragged(word_ids, schema.field("word_ids").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def ragged(rows: list[list[int]], kind: pa.ListType) -> pa.ListArray:
    """Lists of numbers of unequal length as one Arrow array."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    flat = np.fromiter((value for row in rows for value in row), kind.value_type.to_pandas_dtype(), int(offsets[-1]))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), type=kind)
