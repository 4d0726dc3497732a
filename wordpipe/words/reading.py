"""Reading a tokens artifact as blocks of words."""

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.words.text import Words
from wordpipe.words.vocabulary import rows_of_split

__all__ = ["kept_rows", "read_words"]


def read_words(
    batches: Iterable[pa.RecordBatch], *, column: str, context: Literal["sentence", "document"], split: str
) -> Iterator[Words]:
    """The words of one split of a tokens artifact, in order, in memory bounded by a batch.

    Args:
        batches: with columns `doc_id`, `sentence_id`, `split` and `column`, the sentences of a document together and in order.
        column: `word_ids` or `ids`.
        context: what is one text.
        split: train, valid or test.
    """
    last: tuple[str, int] | None = None
    for whole_batch in batches:
        batch = rows_of_split(whole_batch, split)
        if not batch.num_rows:
            continue
        begins = _text_begins(batch, last, context)
        last = (batch.column("doc_id")[-1].as_py(), batch.column("sentence_id")[-1].as_py())
        sentences = batch.column(column)
        ends = np.cumsum(sentences.value_lengths().to_numpy(zero_copy_only=False))
        sentence_starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        ids = sentences.flatten().to_numpy(zero_copy_only=False).astype(np.int32)
        yield Words(ids, sentence_starts[begins])


def kept_rows(blocks: Iterable[Words], row_of_id: npt.NDArray[np.int32]) -> Iterator[Words]:
    """The same text without the words that were dropped, as rows of the vocabulary.

    Args:
        blocks: ids.
        row_of_id: int32, -1 where the word was dropped.
    """
    for block in blocks:
        rows = row_of_id[block.ids]
        kept_before = np.concatenate([[0], np.cumsum(rows >= 0)])
        yield Words(rows[rows >= 0], kept_before[block.starts])


def _text_begins(
    batch: pa.RecordBatch, last: tuple[str, int] | None, context: Literal["sentence", "document"]
) -> npt.NDArray[np.bool_]:
    """For every sentence, whether a new text begins with it: another document, or the same text once more."""
    begins = np.ones(len(batch), dtype=np.bool_)
    if context == "sentence":
        return begins
    doc_ids, numbers = batch.column("doc_id"), batch.column("sentence_id").to_numpy(zero_copy_only=False)
    changed = pc.not_equal(doc_ids[1:], doc_ids[:-1]).to_numpy(zero_copy_only=False)
    begins[1:] = changed | (numbers[1:] <= numbers[:-1])
    if last is not None:
        begins[0] = doc_ids[0].as_py() != last[0] or numbers[0] <= last[1]
    return begins
