"""The text that pairs are cut from, on disk: ids of all rows one after the other, and where rows and documents begin.

    ids.i32, rows.i64        ids of all rows, and where each row begins (R + 1)
    documents.i64            the first row of each document (N + 1)
    titles.i32, titles.i64   ids of all titles, and where each document's begins (N + 1), where there are titles

Everything is read through memory maps; what is kept in memory is a split and a first row per document.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts.layout import DocumentStarts
from wordpipe.errors import ArtifactError, InputError
from wordpipe.tokens.ragged import offsets_of

__all__ = ["SPLITS", "PairText", "RaggedFile", "rows_of", "write_pair_text", "write_ragged"]

SPLITS = ("train", "valid", "test")

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RaggedFile:
    """Texts as ids, memory-mapped.

    Attributes:
        ids: (S,) int32.
        offsets: (R + 1,) int64, where in `ids` each text begins and the last ends.
    """

    ids: npt.NDArray[np.int32]
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class PairText:
    """Documents as rows of ids.

    Attributes:
        rows: the R rows (sentences) that have any id.
        documents: (N + 1,) int64, the first row of each document; one without rows ends where it begins.
        splits: (N,) int8, a place in `SPLITS`.
        titles: N titles, an empty one where a document has none; None where nobody gave any.
        counts: (V,) int64, how often each id occurs in the rows of train.
        ledger: what became of what was read: rows kept, rows without any id, ids outside the vocabulary.
    """

    rows: RaggedFile
    documents: Int64s
    splits: npt.NDArray[np.int8]
    titles: RaggedFile | None
    counts: Int64s
    ledger: dict[str, int]


def write_pair_text(
    batches: Iterable[pa.RecordBatch],
    folder: Path,
    *,
    vocab_size: int,
    column: Literal["ids", "word_ids"] = "ids",
    titles: Iterable[pa.RecordBatch] | None = None,
) -> PairText:
    """Write rows of tokens to `folder`, in one pass.

    Args:
        batches: rows of the `tokens` schema, in order.
        folder: empty; stays as long as the text is used.
        vocab_size: ids from this on are left out, and counted.
        column: the subword ids, or the numbers of words.
        titles: columns doc_id and ids: one row for each document, in their order.

    Raises:
        InputError: no row has an id.
        ArtifactError: the titles are those of other documents.
    """
    with ExitStack() as stack:
        writer = _Rows(
            stack.enter_context((folder / "ids.i32").open("wb")),
            stack.enter_context((folder / "rows.i64").open("wb")),
            vocab_size,
        )
        for batch in batches:
            writer.add(batch, column)
    if not writer.n_rows:
        raise InputError("no sentence has a known word", hint="give more text, or lower --min-count")
    names = pa.chunked_array(writer.names, pa.string())
    found = None
    if titles is not None:
        found = write_ragged(_checked_titles(titles, names), folder / "titles", vocab_size=vocab_size)
    return PairText(
        rows=_opened(folder / "ids.i32", folder / "rows.i64"),
        documents=np.array([*writer.begins, writer.n_rows], np.int64),
        splits=np.array(writer.splits, np.int8),
        titles=found,
        counts=writer.counts,
        ledger=dict(writer.ledger),
    )


def write_ragged(batches: Iterable[pa.Array], stem: Path, *, vocab_size: int) -> RaggedFile:
    """Write lists of ids to STEM.i32 and STEM.i64; ids outside the vocabulary are left out, empty lists stay."""
    ids_path, offsets_path = stem.with_suffix(".i32"), stem.with_suffix(".i64")
    total = 0
    with ids_path.open("wb") as ids_file, offsets_path.open("wb") as offsets_file:
        offsets_file.write(np.zeros(1, "<i8").data)
        for lists in batches:
            ids, lengths = _known(lists, vocab_size)
            ids_file.write(ids.data)
            offsets_file.write((np.cumsum(lengths) + total).astype("<i8").data)
            total += len(ids)
    return _opened(ids_path, offsets_path)


class _Rows:
    """The files of rows, and where in the documents they are."""

    def __init__(self, ids: IO[bytes], offsets: IO[bytes], vocab_size: int) -> None:
        self._ids, self._offsets, self._vocab_size = ids, offsets, vocab_size
        self._starts = DocumentStarts()
        self._n_ids = self.n_rows = 0
        self.names: list[pa.Array] = []
        self.begins: list[int] = []
        self.splits: list[int] = []
        self.counts = np.zeros(vocab_size, np.int64)
        self.ledger: Counter[str] = Counter()
        offsets.write(np.zeros(1, "<i8").data)

    def add(self, batch: pa.RecordBatch, column: str) -> None:
        """Append rows; those without any id leave no trace but a count."""
        if batch.num_rows == 0:
            return
        opens = np.flatnonzero(self._starts.of(batch))
        splits = pc.index_in(batch["split"], pa.array(SPLITS)).to_numpy(zero_copy_only=False).astype(np.int8)
        ids, lengths = _known(batch[column], self._vocab_size)
        self.ledger["ids_left_out"] += len(batch[column].flatten()) - len(ids)
        self.ledger["rows_without_ids"] += int((lengths == 0).sum())
        kept_before = offsets_of(lengths > 0)
        self.names.append(batch["doc_id"].take(pa.array(opens)))
        self.begins.extend((kept_before[opens] + self.n_rows).tolist())
        self.splits.extend(splits[opens].tolist())
        self.counts += np.bincount(ids[np.repeat(splits == 0, lengths)], minlength=self._vocab_size)
        self._write(ids, lengths[lengths > 0])

    def _write(self, ids: npt.NDArray[np.int32], lengths: Int64s) -> None:
        self._ids.write(ids.data)  # tofile says nothing when the disk is full
        self._offsets.write((np.cumsum(lengths) + self._n_ids).astype("<i8").data)
        self._n_ids += len(ids)
        self.n_rows += len(lengths)
        self.ledger["rows"] += len(lengths)


def _known(lists: pa.Array, vocab_size: int) -> tuple[npt.NDArray[np.int32], Int64s]:
    """The ids of lists that are below `vocab_size`, and how many each list has of them."""
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    known = ids < vocab_size
    if not known.all():
        before = offsets_of(known)
        lengths = np.diff(before[offsets_of(lengths)])
        ids = ids[known]
    return ids.astype("<i4"), lengths


def _checked_titles(titles: Iterable[pa.RecordBatch], names: pa.ChunkedArray) -> Iterable[pa.Array]:
    done = 0
    for batch in titles:
        here = names.slice(done, batch.num_rows)
        if not pa.chunked_array([batch["doc_id"]], pa.string()).equals(here):
            break
        done += batch.num_rows
        yield batch["ids"]
    if done != len(names):
        raise ArtifactError(
            "the titles are those of other documents",
            got=f"{done} of {len(names)} documents in the same order",
            hint="tokenize the corpus again",
        )


def _opened(ids_path: Path, offsets_path: Path) -> RaggedFile:
    return RaggedFile(_mapped(ids_path, "<i4"), _mapped(offsets_path, "<i8"))


def _mapped(path: Path, dtype: str) -> npt.NDArray[Any]:
    size = path.stat().st_size // np.dtype(dtype).itemsize
    if size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r", shape=(size,)).view(np.ndarray)


def rows_of(documents: Int64s, chosen: npt.NDArray[np.bool_]) -> Int64s:
    """The rows of some documents, in order."""
    return np.flatnonzero(np.repeat(chosen, np.diff(documents)))
