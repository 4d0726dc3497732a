"""From the rows of a tokens artifact to one flat file of ids per split: documents joined, nothing padded, nothing cut.

The file is raw little-endian uint16 or uint32 and is read through a memory map, so a corpus need not fit in memory.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.errors import ArtifactError

__all__ = ["Stream", "unigram_entropy", "write_streams"]

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Stream:
    """A split as one sequence of ids.

    Attributes:
        path: the file of ids.
        dtype: their type, `<u2` or `<u4`.
        n_ids: ids in the file, boundary tokens included.
        n_documents: documents in it.
        n_sentences: rows that gave at least one id.
        n_empty: rows without any id, which left nothing.
        counts: how often each id occurs in the rows, boundary tokens not counted, (V,), int64.
    """

    path: Path
    dtype: str
    n_ids: int
    n_documents: int
    n_sentences: int
    n_empty: int
    counts: npt.NDArray[np.int64]

    @property
    def n_tokens(self) -> int:
        """Ids that came from the rows."""
        return int(self.counts.sum())

    def open(self) -> Ids:
        """The ids, memory-mapped, read-only."""
        if self.n_ids == 0:  # an empty file cannot be mapped
            return np.zeros(0, dtype=self.dtype)
        return np.memmap(self.path, dtype=self.dtype, mode="r", shape=(self.n_ids,))


def write_streams(
    batches: Iterable[pa.RecordBatch],
    paths: Mapping[str, Path],
    *,
    vocab_size: int,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
) -> dict[str, Stream]:
    """Write the ids of each wanted split to its file, in one pass over the rows.

    A file appears whole or not at all; one that is there is replaced.

    Args:
        batches: rows of the `tokens` schema, in order.
        paths: the file for each split; rows of other splits are passed over.
        vocab_size: tokens of the tokenizer; every id must be below.
        before: boundary ids put before each document.
        after: boundary ids put after each document.

    Raises:
        ArtifactError: an id outside the vocabulary.
    """
    dtype = "<u2" if vocab_size <= 1 << 16 else "<u4"
    with contextlib.ExitStack() as stack:
        writers = {
            split: stack.enter_context(_writing(path, dtype, vocab_size, before, after))
            for split, path in sorted(paths.items())
        }
        for batch in batches:
            for split, writer in writers.items():
                writer.add(batch.filter(pc.equal(batch["split"], split)))
        return {split: writer.finish() for split, writer in writers.items()}


def unigram_entropy(counts_V: npt.NDArray[np.int64]) -> float:
    """Entropy of single tokens, in nats: the loss of a model that knows frequencies and nothing else.

    A masked model whose loss stays here has learned no more than that.

    >>> round(unigram_entropy(np.array([2, 1, 1, 0])) / np.log(2), 3)
    1.5
    """
    share = counts_V[counts_V > 0] / max(1, counts_V.sum())
    return float(-(share * np.log(share)).sum())


@contextlib.contextmanager
def _writing(
    path: Path, dtype: str, vocab_size: int, before: Sequence[int], after: Sequence[int]
) -> Iterator["_Writer"]:
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        writer = _Writer(file, path, dtype, vocab_size, before, after)
        yield writer
    os.replace(part, path)  # noqa: PTH105


class _Writer:
    """One split's file, and where in its documents it is."""

    def __init__(
        self, file: IO[bytes], path: Path, dtype: str, vocab_size: int, before: Sequence[int], after: Sequence[int]
    ) -> None:
        self._file, self._path, self._dtype = file, path, dtype
        self._before, self._after = np.array(before, dtype=dtype), np.array(after, dtype=dtype)
        self._between = np.concatenate((self._after, self._before))
        self._counts = np.zeros(vocab_size, dtype=np.int64)
        self._last: tuple[str, int] | None = None  # doc_id and sentence_id of the last row that had ids
        self._n_ids = self._n_documents = self._n_sentences = self._n_empty = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows, with boundary ids where a document ends and the next begins."""
        lengths = pc.list_value_length(rows["ids"]).to_numpy(zero_copy_only=False)
        self._n_empty += int((lengths == 0).sum())
        rows = rows.filter(pa.array(lengths > 0))
        if rows.num_rows == 0:
            return
        ids = rows["ids"].flatten().to_numpy(zero_copy_only=False)
        self._count(ids)
        starts = np.concatenate(([0], np.cumsum(lengths[lengths > 0])[:-1]))
        opens = self._opens_document(rows)
        self._n_documents += int(opens.sum())
        self._n_sentences += rows.num_rows
        self._write(_insert(ids.astype(self._dtype), starts[opens], self._between))

    def finish(self) -> Stream:
        """Close the last document."""
        if self._last is not None:
            self._write(self._after)
        return Stream(
            self._path, self._dtype, self._n_ids, self._n_documents, self._n_sentences, self._n_empty, self._counts
        )

    def _count(self, ids: npt.NDArray[np.unsignedinteger]) -> None:
        counts = np.bincount(ids, minlength=len(self._counts))
        if len(counts) > len(self._counts):
            raise ArtifactError(
                "a token id lies outside the tokenizer's vocabulary",
                got=len(counts) - 1,
                expected=f"0 to {len(self._counts) - 1}",
                hint="tokenize the corpus again",
            )
        self._counts += counts

    def _opens_document(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows begin a document: another doc_id, or the same text once more (its sentences count from 0 again)."""
        doc_ids, sentence_ids = rows["doc_id"], rows["sentence_id"].to_numpy(zero_copy_only=False)
        opens = np.ones(rows.num_rows, dtype=bool)
        changed = pc.not_equal(doc_ids[1:], doc_ids[:-1]).to_numpy(zero_copy_only=False)
        opens[1:] = changed | (sentence_ids[1:] <= sentence_ids[:-1])
        if self._last is not None:
            opens[0] = doc_ids[0].as_py() != self._last[0] or sentence_ids[0] <= self._last[1]
        self._last = (doc_ids[-1].as_py(), int(sentence_ids[-1]))
        return opens

    def _write(self, ids: Ids) -> None:
        if self._n_ids == 0:  # nothing ends before the first document
            ids = ids[len(self._after) :]
        self._file.write(ids.tobytes())
        self._n_ids += len(ids)


def _insert(ids: Ids, at: npt.NDArray[np.int64], between: Ids) -> Ids:
    """`ids` with `between` put in before each position in `at`."""
    out = np.empty(len(ids) + len(at) * len(between), dtype=ids.dtype)
    places = at + np.arange(len(at)) * len(between)
    is_boundary = np.zeros(len(out), dtype=bool)
    is_boundary[(places[:, None] + np.arange(len(between))).ravel()] = True
    out[is_boundary] = np.tile(between, len(at))
    out[~is_boundary] = ids
    return out
