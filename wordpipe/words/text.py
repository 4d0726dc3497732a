"""The training text as numbers: blocks of it on their way, and the whole of it on disk.

On disk it is a flat file of int32, the row of every kept word in order. The first word of a text is stored as `~row`, which is
negative, so a piece from anywhere knows where texts begin in it; a window never reaches beyond its text. A text may be as
long as it likes.
"""

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.errors import InputError
from wordpipe.words.vocabulary import rows_of_split


@dataclass(frozen=True, slots=True)
class Words:
    """Some of the text's words, in order.

    Attributes:
        ids: the words, int32; ids of the tokens artifact or rows of the vocabulary, as the context says.
        starts: where in `ids` new texts begin, ascending, int64; words before the first go on with the text before. A text
            without any word leaves no trace but a start that equals the next one, or the length of `ids`.
    """

    ids: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TrainingText:
    """The whole training text on disk."""

    path: Path  # a flat file of little-endian int32
    words: int  # how many there are
    texts: int  # texts with any word

    def read(self, begin: int, end: int) -> npt.NDArray[np.int32]:
        """Words `begin` to `end`, int32, the first of each text as `~row`; what lies outside the text is left out.

        Raises:
            OSError: the file is shorter than it was.
        """
        begin, end = max(begin, 0), min(end, self.words)
        found = np.fromfile(self.path, dtype="<i4", count=max(end - begin, 0), offset=4 * begin)
        if len(found) < end - begin:
            raise OSError(errno.EIO, "the training text was cut", str(self.path))
        return found


def write_text(blocks: Iterable[Words], path: Path) -> TrainingText:
    """Write the text, as rows of the vocabulary, to a new file.

    Raises:
        InputError: there is no word at all.
    """
    words = texts = 0
    begun = False  # whether the open text has any word
    with path.open("wb") as file:
        for block in blocks:
            rows = block.ids.astype("<i4")
            begins = np.unique(block.starts[block.starts < len(rows)])
            if not begun and len(rows) and not (len(begins) and begins[0] == 0):
                begins = np.concatenate([[0], begins])
            rows[begins] = ~rows[begins]
            file.write(rows.data)  # tofile says nothing when the disk is full
            words += len(rows)
            texts += len(begins)
            ends = len(block.starts) > 0 and block.starts[-1] == len(rows)
            begun = not ends and (begun or len(rows) > 0)
    if not words:
        raise InputError("the training text has no words", hint="give more text or lower --min-count")
    return TrainingText(path, words, texts)


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
    """The same text, given as ids, as rows of the vocabulary, without the words that were dropped (row -1)."""
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
