"""Parquet tables of artifacts: rows in, part files out, and back again as streams, by their number, or as vectors.

The schema is checked at both ends, and memory is bounded. Of sentences, and of an index over them, some rows may have no
vector: nothing in their text is known to the encoder. They have zeros in the table, and stand in `rows_without_vector.npy`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.schemas import leaf_paths, misfit_of, row_bytes
from wordpipe.artifacts.vectors import VECTOR, bytes_of, is_int8, listed, matrix_of, unit_vectors, width_of, with_lists
from wordpipe.artifacts.writer import HashedFile
from wordpipe.errors import ConfigError, DamageError

ROW_GROUP_BYTES = 16 << 20
PART_BYTES = 1 << 30
_REPEATED = ("doc_id", "title", "split", "source", "lang")  # columns worth a dictionary; vectors and ids never are
BATCH_ROWS = 4096
DOUBLES_FILE = "doubles.parquet"
DOUBLES = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=name == "record_id") for name in ("doc_id", "record_id", "source")),
        *(pa.field("line", pa.int64(), nullable=False), pa.field("anchor", pa.string())),
    ]
)
"""Schema of doubles.parquet beside a corpus, and what is made of it: in which other sources its documents stand."""

ROWS_WITHOUT_VECTOR = "rows_without_vector.npy"
_Number = TypeVar("_Number", np.float32, np.uint8)
_LEAST_KEPT, _KEPT_BYTES = 3, 256 << 20  # row groups beside the one in use; bytes of all


class PartFiles(Protocol):
    """The maker of a table's files: an artifact writer, or an object that keeps one file."""

    def open(self, name: str) -> HashedFile:
        """Return a new file."""
        ...

    def close(self, file: HashedFile, *, rows: int | None = None, log: bool = False) -> None:
        """Take back a finished file."""
        ...


class TableWriter:
    """A writer of record batches as `STEM-00000.parquet`, `STEM-00001.parquet`, … of an artifact.

    Rows are collected into row groups of about 16 MiB. The files' bytes depend on the rows alone, not on how they were cut
    into batches. `single=True` writes the one file `STEM.parquet`; `log=True` keeps it out of the digest.
    """

    def __init__(
        self, files: PartFiles, stem: str, schema: pa.Schema, *, single: bool = False, log: bool = False
    ) -> None:
        self.rows = 0
        self._files, self._stem, self._schema = files, stem, schema
        self._single, self._log = single, log
        self._part = 0
        self._part_rows = 0
        self._file: HashedFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self._abandon()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. The batch must have exactly the schema given."""
        assert batch.schema.equals(self._schema), f"{self._stem}: {batch.schema} is not {self._schema}"
        for field, column in zip(self._schema, batch.columns, strict=True):
            # pyarrow would write a missing list as an empty one
            assert field.nullable or not column.null_count, f"{self._stem}.{field.name} has nulls"
        filled = self._waiting_bytes + np.cumsum(row_bytes(batch))
        start = 0
        while (last := int(np.searchsorted(filled, ROW_GROUP_BYTES))) < len(batch):
            self._waiting.append(batch.slice(start, last + 1 - start))
            self._flush()
            filled -= filled[last]
            start = last + 1
        if start < len(batch):
            self._waiting.append(batch.slice(start))
            self._waiting_bytes = int(filled[-1])

    def finish(self) -> None:
        """Write what is waiting and close the last part. A table without rows still has one part."""
        self._flush()
        if self._file is None and self._part == 0:
            self._open_part()
        self._close_part()

    def _flush(self) -> None:
        """Write the rows that are waiting as one row group."""
        if not self._waiting:
            return
        if self._writer is None:
            self._open_part()
        assert self._writer is not None
        assert self._file is not None
        # in one chunk, as the writer's pages would show where the chunks meet
        table = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        self._writer.write_table(table, row_group_size=len(table))
        self.rows += len(table)
        self._part_rows += len(table)
        self._waiting, self._waiting_bytes = [], 0
        if self._file.size >= PART_BYTES and not self._single:
            self._close_part()

    def _open_part(self) -> None:
        """Open the next part file of the table."""
        name = f"{self._stem}.parquet" if self._single else f"{self._stem}-{self._part:05d}.parquet"
        self._file = self._files.open(name)
        self._writer = pq.ParquetWriter(self._file, self._schema, **_encodings(self._schema), write_statistics=False)
        self._part_rows = 0

    def _close_part(self) -> None:
        """Close the part file that is being written."""
        if self._writer is None or self._file is None:
            return
        self._writer.close()
        self._files.close(self._file, rows=self._part_rows, log=self._log)
        self._writer, self._file = None, None
        self._part += 1

    def _abandon(self) -> None:
        """Let go of a part that will never be whole, before the Parquet writer tries to end it at garbage collection."""
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
            self._writer = None


def part_names(artifact: Artifact, stem: str) -> list[str]:
    """Return the part files of a table, in order."""
    names = [name for name in artifact.names(stem) if re.fullmatch(r"(-\d{5})?\.parquet", name[len(stem) :])]
    if not names:
        raise DamageError(f"the artifact has no table {stem!r}", where=artifact.path)
    return names


def open_part(artifact: Artifact, name: str) -> pq.ParquetFile:
    """Open one part for reading, as a context or to be closed; it streams, never maps, so memory stays flat.

    Raises:
        ArtifactError: not a Parquet file.
    """
    file = artifact.open(name)
    try:
        with parquet_errors(artifact.path / name):
            part = _Part(file, memory_map=False, pre_buffer=False)
            found, rows = part.schema_arrow, part.metadata.num_rows
        if (misfit := misfit_of(found, name, has_vectors=has_vectors(artifact))) is not None:
            raise DamageError(
                "wordpipe did not write this table", where=artifact.path / name, got=misfit, hint=artifact.make_again
            )
        if (expected := artifact.rows_of(name)) not in (None, rows):
            what = "the number of rows in the table has changed"
            raise DamageError(what, where=artifact.path / name, got=rows, expected=expected, hint=artifact.make_again)
        return part
    except BaseException:
        file.close()
        raise


def read_schema(artifact: Artifact, stem: str, expected: pa.Schema | None = None) -> pa.Schema:
    """Return the schema of a table, which must begin with the fields of `expected`.

    Raises:
        ArtifactError: the file holds other columns.
    """
    name = part_names(artifact, stem)[0]
    with open_part(artifact, name) as part:
        found = pa.schema([listed(field) for field in part.schema_arrow])
    if expected is not None and not pa.schema(list(found)[: len(expected)]).equals(expected):
        where, names = artifact.path / name, expected.names
        raise DamageError("unexpected columns", where=where, got=found.names, expected=names)
    return found


def read_batches(
    artifact: Artifact, stem: str, columns: Sequence[str] | None = None, *, expected: pa.Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """Stream a table's rows in order, a few thousand at a time."""
    read_schema(artifact, stem, expected)
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            yield from map(with_lists, part.iter_batches(BATCH_ROWS, columns=columns, use_threads=False))


def read_from(
    artifact: Artifact, stem: str, first: int, columns: Sequence[str], *, expected: pa.Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a table from number `first` on, a few thousand at a time; row groups before it are not decoded."""
    read_schema(artifact, stem, expected)
    skip = first
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            for group in range(part.metadata.num_row_groups):
                if skip >= (rows := part.metadata.row_group(group).num_rows):
                    skip -= rows
                    continue
                for batch in part.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=list(columns), use_threads=False
                ):
                    if skip < len(batch):
                        yield with_lists(batch.slice(skip))
                    skip = max(0, skip - len(batch))


def row_count(artifact: Artifact, stem: str) -> int:
    """Return the number of rows of a table, from the manifest; `read_batches` compares it with the files."""
    parts = set(part_names(artifact, stem))
    return sum(output.rows or 0 for output in artifact.manifest.outputs if output.path in parts)


class _Part(pq.ParquetFile):  # type: ignore[misc]
    """A Parquet file that closes the Python file under it: pyarrow leaves that to the garbage collector."""

    def close(self, force: bool = True) -> None:
        super().close(force=force)


@contextmanager
def parquet_errors(where: Path) -> Iterator[None]:
    """Raise ArtifactError for damaged data, which pyarrow reports as OSError without a number too; a disk's errors pass."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise DamageError("damaged Parquet data", where=where, got=error) from None


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return the encodings of a Parquet file: vectors as they are, a dictionary where values repeat, the rest by zstd.

    Bytes of ids are parted first, all low bytes and then all high ones: 6.2 MB instead of 6.9 for 10 MB of text, in 64 ms
    instead of 105, which counts, as tokenizing takes no longer. No encoding of Parquet takes less for them: by level 9
    instead of 1 it is 2 % less, by differences or a dictionary more.

    Texts are compressed by level 3: of 25.7 MB 9.6 are left instead of 10.8, in 0.16 s of processor time instead of 0.10, and
    reading takes as long (level 6: 9.0 in 0.39 s).
    """
    leaves = {path: field for field in schema for path in leaf_paths(field)}
    vectors = {path for path, field in leaves.items() if width_of(field)}
    texts = {path for path, field in leaves.items() if pa.types.is_string(field.type) and field.name not in _REPEATED}
    lists = {path: field.type.value_type for path, field in leaves.items() if pa.types.is_list(field.type)}
    return {
        "use_dictionary": [path for path, field in leaves.items() if field.name in _REPEATED],
        "use_byte_stream_split": [path for path, kind in lists.items() if pa.types.is_integer(kind)],
        "compression": {path: "NONE" if path in vectors else "ZSTD" for path in leaves},
        "compression_level": {path: 3 if path in texts else 1 for path in leaves if path not in vectors} or None,
    }


@dataclass(frozen=True)
class Shard:
    """A shard of a table: some of its row groups, one after the other."""

    number: int  # 0, 1, … in the order of the table
    groups: tuple[tuple[str, int], ...]  # part file and row group
    rows: int  # rows in them


def shards_of(artifact: Artifact, stem: str, shard_bytes: int) -> list[Shard]:
    """Part a table at row groups into shards of about `shard_bytes` of uncompressed data.

    The shards depend on the table alone, not on the machine or the number of threads.
    """
    shards: list[Shard] = []
    groups: list[tuple[str, int]] = []
    rows = size = 0
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part:
            found = [part.metadata.row_group(number) for number in range(part.metadata.num_row_groups)]
        for number, group in enumerate(found):
            groups.append((name, number))
            rows, size = rows + group.num_rows, size + group.total_byte_size
            if size >= shard_bytes:
                shards.append(Shard(len(shards), tuple(groups), rows))
                groups, rows, size = [], 0, 0
    if groups or not shards:
        shards.append(Shard(len(shards), tuple(groups), rows))
    return shards


def read_shard(artifact: Artifact, shard: Shard, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard in order, a few thousand at a time."""
    for name, number in shard.groups:
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            found = part.iter_batches(BATCH_ROWS, row_groups=[number], columns=list(columns), use_threads=False)
            yield from map(with_lists, found)


class _RowGroups:
    """The row groups of an artifact's table, whose files stay open."""

    def __init__(self, artifact: Artifact, stem: str, columns: Sequence[str]) -> None:
        parts = [(artifact.path / name, open_part(artifact, name)) for name in part_names(artifact, stem)]
        self._groups = [(path, part, group) for path, part in parts for group in range(part.metadata.num_row_groups)]
        self._columns = list(columns)
        sizes = (part.metadata.row_group(group).num_rows for _, part, group in self._groups)
        *self.starts, self.rows = accumulate(sizes, initial=0)

    def close(self) -> None:
        """Close the files."""
        for _, part, _ in self._groups:
            part.close()

    def of(self, row: int) -> int:
        """Return the number of the row group that holds a row."""
        return bisect_right(self.starts, row) - 1

    def read(self, number: int) -> pa.Table:
        """Return the wanted columns of a row group. Raises ArtifactError: damaged Parquet data."""
        path, part, group = self._groups[number]
        with parquet_errors(path):
            return with_lists(part.read_row_group(group, columns=self._columns, use_threads=False))


class RowReader:
    """A reader of single rows of an artifact's table, which stays open; the row groups read last stay in memory.

    Hits lie anywhere: of 500,000 rows ten were fetched in 170 ms where four row groups stayed, as nine were unpacked again.
    """

    def __init__(self, artifact: Artifact, stem: str, columns: Sequence[str]) -> None:
        self._groups = _RowGroups(artifact, stem, columns)
        self._kept: dict[int, dict[str, pa.Array]] = {}  # columns of a group; the one used last is the last
        self._kept_bytes = 0
        self.rows = self._groups.rows

    def close(self) -> None:
        """Close the table's files, and forget what was read."""
        self._groups.close()
        self._kept.clear()

    def _read(self, number: int) -> dict[str, pa.Array]:
        """Return the columns of a row group of a Parquet table, from memory or from its file."""
        found = self._kept.pop(number, None)
        if found is None:
            table = self._groups.read(number)
            found = {name: table.column(name).combine_chunks() for name in table.column_names}
            self._kept_bytes += _bytes_of(found)
            while len(self._kept) >= _LEAST_KEPT and self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= _bytes_of(self._kept.pop(next(iter(self._kept))))
        self._kept[number] = found
        return found

    def fetch(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows of a Parquet table with these numbers, in the given order. Raises IndexError: out of range."""
        found = []
        for row in rows:
            if not 0 <= row < self.rows:
                raise IndexError(row)
            group = self._groups.of(row)
            place = row - self._groups.starts[group]  # value by value: a slice of a table took three times as long
            found.append({name: column[place].as_py() for name, column in self._read(group).items()})
        return found


def _bytes_of(columns: dict[str, pa.Array]) -> int:
    return sum(column.nbytes for column in columns.values())


def has_vectors(artifact: Artifact) -> bool:
    """Return False for an index of words alone, and for its rows: the table has no column of vectors."""
    return artifact.manifest.facts.get("dim") != 0


def refuse_without_vectors(artifact: Artifact) -> None:
    """Refuse an index of words alone for what needs vectors. Raises ConfigError, which says how one with vectors is made."""
    if not has_vectors(artifact):
        steps = "wordpipe embed MODEL CORPUS -o SENTENCES, then wordpipe index SENTENCES -o INDEX"
        what, hint = "this index has no vectors: it is searched by words alone", f"make an index with vectors: {steps}"
        raise ConfigError(what, where=artifact.path, hint=hint)


def rows_without_vector(artifact: Artifact) -> NDArray[np.int64]:
    """Return the rows of sentences or an index that have no vector, ascending; none where they all have one.

    Raises:
        ArtifactError: the list is not one of this table's rows.
    """
    if not has_vectors(artifact):
        return np.arange(row_count(artifact, artifact.kind))
    if ROWS_WITHOUT_VECTOR not in artifact.names():
        return np.zeros(0, np.int64)
    rows: NDArray[np.int64] = artifact.read_array(ROWS_WITHOUT_VECTOR)
    with artifact.damage_of(ROWS_WITHOUT_VECTOR, "the file does not contain a list of row numbers"):
        ends = np.concatenate([[-1], rows, [row_count(artifact, artifact.kind)]])
        if rows.dtype != np.int64 or rows.ndim != 1 or (np.diff(ends) <= 0).any():
            raise ValueError(f"{rows.dtype}{rows.shape}")
    return rows


def rows_with_vector(artifact: Artifact) -> NDArray[np.int64] | None:
    """Return the rows that have a vector, (M,), ascending; None if all have. Raises as `rows_without_vector`."""
    without = rows_without_vector(artifact)
    return np.delete(np.arange(row_count(artifact, artifact.kind)), without) if len(without) else None


def vectors_there(
    blocks: Iterable[NDArray[_Number]], with_vector: NDArray[np.int64] | None, first: int = 0
) -> Iterator[NDArray[_Number]]:
    """Yield the blocks of a table's vectors, from row `first` on, without rows that have no vector; see `rows_with_vector`."""
    for block_BD in blocks:
        if with_vector is None:
            yield block_BD
            continue
        low, high = np.searchsorted(with_vector, [first, first + len(block_BD)])
        yield block_BD if high - low == len(block_BD) else block_BD[with_vector[low:high] - first]
        first += len(block_BD)


class RowVectors:
    """The vectors of some rows of a table at length 1, from the row groups that hold them; the artifact stays open."""

    def __init__(self, artifact: Artifact, stem: str) -> None:
        self._groups = _RowGroups(artifact, stem, [VECTOR])

    def close(self) -> None:
        """Close the table's files."""
        self._groups.close()

    def read(self, rows_R: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the unit vectors of some rows, ascending, (R, D) float32; zero where a row has none.

        Raises:
            DivergedError: one is not finite; no index is made of such.
            ArtifactError: the table is damaged.
        """
        blocks = []
        for group in sorted({self._groups.of(row) for row in rows_R.tolist()}):
            first, column = self._groups.starts[group], self._groups.read(group)[VECTOR]
            vectors = np.concatenate([matrix_of(chunk) for chunk in column.chunks])
            low, high = np.searchsorted(rows_R, [first, first + len(vectors)])
            blocks.append(vectors[rows_R[low:high] - first])
        return unit_vectors(np.concatenate(blocks), zero=True)


def read_vectors(
    artifact: Artifact, stem: str, columns: Sequence[str] = ()
) -> Iterator[tuple[pa.Table | None, NDArray[np.float32]]]:
    """Stream a table's vectors row group by row group. Raises ArtifactError: damaged Parquet data.

    Yields:
        The other `columns` of some rows, each in one chunk, or None where none is wanted; and the rows' vectors, (B, D).
    """
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            for group in range(part.metadata.num_row_groups):
                others = None
                if columns:
                    others = part.read_row_group(group, columns=list(columns), use_threads=False).combine_chunks()
                yield others, _vectors(part, group)


def int8_vectors(artifact: Artifact, stem: str) -> Iterator[NDArray[np.uint8]]:
    """Stream the bytes of a table's vectors, (B, 4 + D) of each row group, if they are int8; else nothing."""
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            for group in range(part.metadata.num_row_groups if is_int8(part.schema_arrow) else 0):
                table = part.read_row_group(group, columns=[VECTOR], use_threads=False)
                yield from map(bytes_of, table.column(VECTOR).chunks)


def shard_vectors(artifact: Artifact, shard: Shard) -> Iterator[NDArray[np.float32]]:
    """Yield the vectors of a shard of a table in order, (B, D) of each row group; see `read_vectors`."""
    for name, group in shard.groups:
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            yield _vectors(part, group)


def _vectors(part: pq.ParquetFile, group: int) -> NDArray[np.float32]:
    """Return the vectors of one row group, (B, D); of a table without vectors D is 0."""
    if VECTOR not in part.schema_arrow.names:
        return np.zeros((part.metadata.row_group(group).num_rows, 0), np.float32)
    table = with_lists(part.read_row_group(group, columns=[VECTOR], use_threads=False).combine_chunks())
    return matrix_of(table.column(VECTOR).chunk(0))
