"""The text that pairs are cut from: rows of ids in files of our own, and the reader of a file of pairs.

On the disk are ids of all rows one after the other, and where they begin:

    rows.i32, rows.i64       ids of all rows, and where each row begins (R + 1)
    titles.i32, titles.i64   ids of all titles, and where each document's begins (N + 1), where there are titles

Everything is read through memory maps; what is kept in memory is a split and a first row per document.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wordpipe.artifacts import DocumentStarts, bounded_lines, open_regular_file, parse_json
from wordpipe.errors import ArtifactError, InputError
from wordpipe.tokens import offsets_of
from wordpipe.training.token_stream import mapped

SPLITS = ("train", "valid", "test")

Int64s = npt.NDArray[np.int64]

_TEXTS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class RaggedFile:
    """Texts as ids of different numbers, memory-mapped.

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
    batches: Iterable[pa.RecordBatch], folder: Path, *, vocab_size: int, column: Literal["ids", "word_ids"] = "ids",
    titles: Iterable[pa.Array] | None = None,
) -> PairText:  # fmt: skip
    """Write the text that pairs are cut from, rows of tokens, to `folder`, in one pass.

    Args:
        batches: rows of the `tokens` schema, in order.
        folder: empty; stays as long as the text is used.
        vocab_size: ids from this on are left out, and counted.
        column: the subword ids, or the numbers of words.
        titles: lists of ids, one for each document, in their order.

    Raises:
        InputError: no row has an id.
        ArtifactError: the titles are those of other documents.
    """
    starts, ledger, counts = DocumentStarts(), Counter[str](), np.zeros(vocab_size, np.int64)
    begins: list[int] = []
    splits: list[int] = []

    def lists() -> Iterator[pa.Array]:
        """Return lists of ids of text for pairs; rows without any leave no trace but a count."""
        # which documents begin here, and which ids are known
        for batch in batches:
            if batch.num_rows == 0:
                continue
            opens = np.flatnonzero(starts.of(batch))
            split_N = pc.index_in(batch["split"], pa.array(SPLITS)).to_numpy(zero_copy_only=False).astype(np.int8)
            ids, lengths = _known(batch[column], vocab_size)
            ledger["ids_left_out"] += len(batch[column].flatten()) - len(ids)
            ledger["rows_without_ids"] += int((lengths == 0).sum())
            # documents and counts are noted while their ids are written
            kept_before = offsets_of(lengths > 0)
            begins.extend((kept_before[opens] + ledger["rows"]).tolist())
            splits.extend(split_N[opens].tolist())
            counts[:] += np.bincount(ids[np.repeat(split_N == 0, lengths)], minlength=vocab_size)
            ledger["rows"] += int(kept_before[-1])
            yield pa.LargeListArray.from_arrays(offsets_of(lengths[lengths > 0]), ids)

    # one pass: `lists` notes the documents while their ids are written
    rows = write_ragged(lists(), folder / "rows", vocab_size=vocab_size)
    if not len(rows):
        raise InputError("no sentence has a word of the vocabulary", hint="add more text, or use a lower --min-count")
    found = None if titles is None else write_ragged(titles, folder / "titles", vocab_size=vocab_size)
    if found is not None and len(found) != len(splits):
        raise ArtifactError(
            "the number of titles is different from the number of documents", got=len(found), expected=len(splits)
        )
    return PairText(
        rows=rows, documents=np.array([*begins, len(rows)], np.int64), splits=np.array(splits, np.int8), titles=found,
        counts=counts, ledger=dict(ledger),
    )  # fmt: skip


def write_ragged(batches: Iterable[pa.Array], stem: Path, *, vocab_size: int) -> RaggedFile:
    """Write lists of ids of text for pairs to STEM.i32 and STEM.i64; ids outside the vocabulary are left out."""
    ids_path, offsets_path = stem.with_suffix(".i32"), stem.with_suffix(".i64")
    total = 0
    with ids_path.open("wb") as ids_file, offsets_path.open("wb") as offsets_file:
        offsets_file.write(np.zeros(1, "<i8").data)
        for lists in batches:
            ids, lengths = _known(lists, vocab_size)
            ids_file.write(ids.data)
            offsets_file.write((np.cumsum(lengths) + total).astype("<i8").data)
            total += len(ids)
    return RaggedFile(mapped(ids_path, "<i4").view(np.ndarray), mapped(offsets_path, "<i8").view(np.ndarray))


def _known(lists: pa.Array, vocab_size: int) -> tuple[npt.NDArray[np.int32], Int64s]:
    """Return the ids of text for pairs that are below `vocab_size`, and how many each list has."""
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    known = ids < vocab_size
    if not known.all():
        before = offsets_of(known)
        lengths = np.diff(before[offsets_of(lengths)])
        ids = ids[known]
    return ids.astype("<i4"), lengths


def rows_of(documents: Int64s, chosen: npt.NDArray[np.bool_]) -> Int64s:
    """Return the rows of some documents, in order."""
    return np.flatnonzero(np.repeat(chosen, np.diff(documents)))


@dataclass(frozen=True, slots=True)
class FilePairs:
    """Pairs that the user gave.

    Attributes:
        texts: 2 P texts, those of a pair one after the other.
        usable: (U,) int64, the pairs of which both texts have an id.
    """

    texts: RaggedFile
    usable: Int64s

    @classmethod
    def of(cls, texts: RaggedFile) -> "FilePairs":
        """Find the usable pairs.

        Raises:
            InputError: there is none.
        """
        filled = (np.diff(texts.offsets).reshape(-1, 2) > 0).all(axis=1)
        if not filled.any():
            got = f"{len(texts) // 2} pairs"
            raise InputError(
                "every pair in the file has a text without any word of the vocabulary", where="pairs", got=got
            )
        return cls(texts, np.flatnonzero(filled))


def read_pair_file(path: Path) -> Iterator[list[str]]:
    """Yield the texts of a file of pairs, those of a pair one after the other, some at a time.

    Raises:
        InputError: neither Parquet nor JSON Lines, or a row without two texts.
    """
    if path.suffix == ".parquet":
        yield from _parquet_texts(path)
        return
    texts: list[str] = []
    with open_regular_file(path, what="a file of pairs") as file:
        for number, line in enumerate(bounded_lines(file, str(path)), 1):
            if not line.isspace():
                texts += _two_texts(line, f"{path}, line {number}")
            if len(texts) >= _TEXTS_AT_ONCE:
                yield texts
                texts = []
    yield texts


def _parquet_texts(path: Path) -> Iterator[list[str]]:
    """Yield the texts of the first two text columns of a Parquet file of pairs."""
    try:
        with pq.ParquetFile(path) as file:
            columns = [field.name for field in file.schema_arrow if _is_text(field.type)][:2]
            if len(columns) < 2:
                raise InputError(
                    "a file of pairs must have two text columns", where=path, got=", ".join(columns) or "none"
                )
            for batch in file.iter_batches(_TEXTS_AT_ONCE // 2, columns=columns):
                first, second = (pc.fill_null(batch[name], "").to_pylist() for name in columns)
                yield [text for pair in zip(first, second, strict=True) for text in pair]
    except pa.ArrowException as error:
        raise InputError("not a valid Parquet file", where=path, got=" ".join(str(error).split())) from None


def _is_text(kind: pa.DataType) -> bool:
    """Return True if a Parquet column is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _two_texts(line: bytes, where: str) -> list[str]:
    """Return both texts of a line of JSON of a file of pairs."""
    hint = "write one JSON object or one JSON list per line, in an uncompressed UTF-8 file"
    values = parse_json(line, where, what="the line is not valid JSON", error=InputError, hint=hint)
    fields = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    texts = [value for value in fields if isinstance(value, str)][:2]
    if len(texts) < 2:
        raise InputError(
            "each line in a file of pairs must have two texts", where=where, got=f"{len(texts)} texts",
            hint='for example {"question": "…", "answer": "…"}',
        )  # fmt: skip
    return texts
