"""The training text as lines of vocabulary rows; a window never reaches beyond its line.

A line is a sentence or a whole document, without the words that were dropped as rare (the window closes over them, as in
word2vec). A text longer than `MAX_LINE` words becomes several lines; nothing is cut off.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.words.vocabulary import Vocabulary, rows_of_split

__all__ = ["MAX_LINE", "LineCutter", "Lines", "read_lines"]

MAX_LINE = 9_999  # what gensim surely trains in full (see corpus_file); a cut costs the few pairs across it, no word


@dataclass(frozen=True, slots=True)
class Lines:
    """Some whole lines, one after the other.

    Attributes:
        rows: vocabulary rows of all words, int32.
        lengths: words per line, int64, each from 1 to `MAX_LINE`; they sum to `len(rows)`.
        texts: texts that gave their first word since the last report; lines minus texts is the number of cuts.
    """

    rows: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]
    texts: int


class LineCutter:
    """Cuts a stream of words into lines; holds back the end that the next piece may continue."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._open = np.zeros(0, dtype=np.int32)  # words of the open text that are in no line yet
        self._begun = False  # whether the open text has any word

    def feed(self, rows: npt.NDArray[np.int32], starts: npt.NDArray[np.int64]) -> Lines:
        """Take more words and give the lines that are complete.

        Args:
            rows: words, int32.
            starts: where in `rows` new texts begin, ascending; words before the first continue the open text.
        """
        sizes = np.diff(np.concatenate([[0], starts, [len(rows)]])).astype(np.int64)
        texts = int(np.count_nonzero(sizes)) - int(self._begun and sizes[0] > 0)
        self._begun = bool(sizes[-1] > 0 or (len(sizes) == 1 and self._begun))

        sizes[0] += len(self._open)
        rows = np.concatenate([self._open, rows])
        lengths = _line_lengths(sizes, self._max_line)
        held = int(sizes[-1] % self._max_line)
        self._open = rows[len(rows) - held :]
        return Lines(rows[: len(rows) - held], lengths[:-1] if held else lengths, texts)

    def finish(self) -> Lines:
        """Give what was held back, as the last line."""
        return self.feed(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))


def _line_lengths(sizes: npt.NDArray[np.int64], max_line: int) -> npt.NDArray[np.int64]:
    """Words per line when texts of these sizes are cut after every `max_line` words."""
    lines = -(-sizes // max_line)
    lengths = np.full(int(lines.sum()), max_line, dtype=np.int64)
    uneven = sizes % max_line > 0
    lengths[np.cumsum(lines)[uneven] - 1] = (sizes % max_line)[uneven]
    return lengths


def read_lines(
    batches: Iterable[pa.RecordBatch],
    vocabulary: Vocabulary,
    *,
    column: str,
    context: Literal["sentence", "document"],
    split: str,
) -> Iterator[Lines]:
    """Read the lines of one split of a tokens artifact, in order, in memory bounded by a batch.

    Args:
        batches: with columns `doc_id`, `sentence_id`, `split` and `column`, the sentences of a document together and in order.
        vocabulary: which ids are kept, and their rows.
        column: `word_ids` or `ids`.
        context: what is one text.
        split: train, valid or test.
    """
    cutter = LineCutter()
    last: tuple[str, int] | None = None
    for whole_batch in batches:
        batch = rows_of_split(whole_batch, split)
        if not batch.num_rows:
            continue
        begins = _text_begins(batch, last, context)
        last = (batch.column("doc_id")[-1].as_py(), batch.column("sentence_id")[-1].as_py())
        yield cutter.feed(*_kept_words(batch.column(column), begins, vocabulary))
    yield cutter.finish()


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


def _kept_words(
    sentences: pa.ListArray, begins: npt.NDArray[np.bool_], vocabulary: Vocabulary
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The rows of a column's kept words, and where among them the marked sentences begin."""
    rows = vocabulary.row_of_id[sentences.flatten().to_numpy(zero_copy_only=False)]
    kept_before = np.concatenate([[0], np.cumsum(rows >= 0)])
    ends = np.cumsum(sentences.value_lengths().to_numpy(zero_copy_only=False))
    sentence_starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return rows[rows >= 0], kept_before[sentence_starts[begins]]
