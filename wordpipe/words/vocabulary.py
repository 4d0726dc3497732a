"""The vocabulary and the training text: words counted, cut at `min_count` and numbered by frequency; the text as their rows.

A word (or token) has the *id* under which the tokens artifact stores it, and, once kept, the *row* of its vector: 0 for the
commonest. `row_of_id` leads from one to the other; -1 marks what was dropped.

The training text on disk is a flat file of int32, the row of every kept word in order. The first word of a text is stored as
`~row`, which is negative, so a chunk from anywhere knows where texts begin in it; a window never reaches beyond its text. A
text may be as long as it likes.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.errors import InputError

COLUMN_OF_UNIT: dict[Literal["word", "token"], str] = {"word": "word_ids", "token": "ids"}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that get vectors, the commonest first; words of equal count in the order of their ids."""

    ids: npt.NDArray[np.int64]  # id of each row's word, (V,) int64
    counts: npt.NDArray[np.int64]  # how often it occurs in the training text, (V,) int64
    row_of_id: npt.NDArray[np.int32]  # row of every id, int32, -1 where the word was dropped
    dropped_kinds: int  # different words dropped for being rare
    dropped_tokens: int  # their occurrences

    def __post_init__(self) -> None:
        assert len(self.ids) == len(self.counts), (len(self.ids), len(self.counts))  # kernels check no bounds

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Return the occurrences of the kept words: the words of one epoch."""
        return int(self.counts.sum())

    @classmethod
    def keep(cls, counts: npt.NDArray[np.int64], min_count: int) -> "Vocabulary":
        """Keep the words that occur at least `min_count` times, given the occurrences of every id.

        Raises:
            InputError: nothing occurs that often.
        """
        kept = np.flatnonzero(counts >= max(min_count, 1))
        if not len(kept):
            raise _nothing_kept(counts, min_count)
        ids_V = kept[np.argsort(-counts[kept], kind="stable")]
        row_of_id = np.full(len(counts), -1, dtype=np.int32)
        row_of_id[ids_V] = np.arange(len(ids_V), dtype=np.int32)
        dropped = (counts > 0) & (row_of_id < 0)
        return cls(ids_V, counts[ids_V], row_of_id, int(dropped.sum()), int(counts[dropped].sum()))


def _nothing_kept(counts: npt.NDArray[np.int64], min_count: int) -> InputError:
    """Return the error of a text in which no word is frequent enough for the vocabulary."""
    kinds = int((counts > 0).sum())
    if not kinds:
        hint = "give more text; if all text was held out, use wordpipe ingest --valid 0"
        return InputError("the training text has no words", hint=hint)
    what, hint = (
        f"none of the {kinds:,} words occurs often enough to get a vector",
        "lower --min-count or give more text",
    )
    expected = f"at most {int(counts.max())}, the count of the most frequent word"
    return InputError(what, where="min_count", got=min_count, expected=expected, hint=hint)


def rows_of_split(batch: pa.RecordBatch, split: str) -> pa.RecordBatch:
    """Return the rows of a batch that belong to a split (train, valid or test)."""
    return batch.filter(pc.equal(batch.column("split"), split))


def count_ids(batches: Iterable[pa.RecordBatch], size: int, *, column: str = "word_ids") -> npt.NDArray[np.int64]:
    """Count for the vocabulary how often each of `size` ids occurs in a column of the train split, int64.

    Raises:
        InputError: an id of `size` or more: the tokens and the vocabulary do not belong together.
    """
    counts = np.zeros(size, dtype=np.int64)
    for batch in batches:
        largest = batch.column(column).flatten().to_numpy(zero_copy_only=False).max(initial=0)
        if largest >= max(size, 1):  # in any split: all are read later
            what, hint = (
                "the tokens contain an id that is not in their vocabulary",
                "make the tokens artifact again: wordpipe tokenize",
            )
            raise InputError(
                what, where=f"column {column!r}", got=int(largest), expected=f"less than {size}", hint=hint
            )
        np.add.at(counts, rows_of_split(batch, "train").column(column).flatten().to_numpy(zero_copy_only=False), 1)
    return counts


@dataclass(frozen=True, slots=True)
class Words:
    """A block of the words of the training text, in order.

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
        """Read words `begin` to `end` of the vocabulary's text, int32, the first of each text as `~row`.

        What lies outside the text is left out.

        Raises:
            OSError: the file is shorter than it was.
        """
        begin, end = max(begin, 0), min(end, self.words)
        found = np.fromfile(self.path, dtype="<i4", count=max(end - begin, 0), offset=4 * begin)
        if len(found) < end - begin:
            raise OSError(errno.EIO, "the file of the training text is too short", str(self.path))
        return found


def write_text(blocks: Iterable[Words], path: Path) -> TrainingText:
    """Write the training text, as rows of the vocabulary, to a new file.

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
    """Yield the words of one split of a tokens artifact, in order, in memory bounded by a batch.

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
    """Turn a text of ids into rows of the vocabulary, without the words that were dropped (row -1)."""
    for block in blocks:
        rows = row_of_id[block.ids]
        kept_before = np.concatenate([[0], np.cumsum(rows >= 0)])
        yield Words(rows[rows >= 0], kept_before[block.starts])


def _text_begins(
    batch: pa.RecordBatch, last: tuple[str, int] | None, context: Literal["sentence", "document"]
) -> npt.NDArray[np.bool_]:
    """Return for every sentence of the training text if the sentence begins a new text."""
    begins = np.ones(len(batch), dtype=np.bool_)
    if context == "sentence":
        return begins
    doc_ids, numbers = batch.column("doc_id"), batch.column("sentence_id").to_numpy(zero_copy_only=False)
    changed = pc.not_equal(doc_ids[1:], doc_ids[:-1]).to_numpy(zero_copy_only=False)
    begins[1:] = changed | (numbers[1:] <= numbers[:-1])
    if last is not None:
        begins[0] = doc_ids[0].as_py() != last[0] or numbers[0] <= last[1]
    return begins


def arrow_words(words: "pa.Array | Sequence[str]") -> pa.Array:
    """Return the vocabulary's words as one Arrow array of contiguous UTF-8."""
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    if isinstance(words, pa.Array):
        return words if words.type == pa.string() else words.cast(pa.string())
    some = list(words)
    try:
        return pa.array(some, pa.string())
    except UnicodeEncodeError:
        return pa.array([word.encode("utf-8", "surrogatepass") for word in some], pa.binary())
