"""Rows of a Parquet table by their number, and its vectors: of some rows, or all straight from the pages they lie in.

Of sentences, and of an index over them, some rows may have no vector: nothing in their text is known to the encoder. They
have zeros in the table, so that a row's number stays its place, and are listed in `rows_without_vector.npy`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from wordpipe.artifacts.layout import matrix_of, unit_vectors
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import Shard, open_part, parquet_errors, part_names, row_count

ROWS_WITHOUT_VECTOR = "rows_without_vector.npy"
_COLUMN = "vector"
_LEAST_KEPT, _KEPT_BYTES = 3, 256 << 20  # row groups beside the one in use; bytes of all
_SELECTIONS = 2  # kept: of 50,000 rows of width 384 one is 77 MB
_MAX_HEADER = 128  # bytes of a page that hold its header; ours, without statistics, has about 20
_TYPE, _SIZE, _PACKED, _DATA = 1, 2, 3, 5  # numbers of the fields of a page's header, the last a struct
_VALUES, _ENCODING = 1, 2  # numbers of its fields
_DATA_PAGE, _PLAIN = 0, 0
_BOOLEANS, _INTEGERS, _BYTES, _STRUCT = (1, 2), (4, 5, 6), 8, 12  # kinds of a field


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
        """The number of the row group that holds a row."""
        return bisect_right(self.starts, row) - 1

    def read(self, number: int) -> pa.Table:
        """The wanted columns of a row group. Raises ArtifactError: damaged Parquet data."""
        path, part, group = self._groups[number]
        with parquet_errors(path):
            return part.read_row_group(group, columns=self._columns, use_threads=False)


class RowReader:
    """Fetches rows of an artifact's table, which stays open; the row groups read last stay in memory.

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
        """The rows, in the order of their numbers given. Raises IndexError: there is no such row."""
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


def rows_without_vector(artifact: Artifact) -> NDArray[np.int64]:
    """The rows of sentences or an index that have no vector, ascending; none where they all have one.

    Raises:
        ArtifactError: the list is not one of this table's rows.
    """
    if ROWS_WITHOUT_VECTOR not in artifact.names():
        return np.zeros(0, np.int64)
    rows: NDArray[np.int64] = artifact.read_array(ROWS_WITHOUT_VECTOR)
    with artifact.damage_of(ROWS_WITHOUT_VECTOR, "not a list of rows"):
        ends = np.concatenate([[-1], rows, [row_count(artifact, artifact.kind)]])
        if rows.dtype != np.int64 or rows.ndim != 1 or (np.diff(ends) <= 0).any():
            raise ValueError(f"{rows.dtype}{rows.shape}")
    return rows


def rows_with_vector(artifact: Artifact) -> NDArray[np.int64] | None:
    """(M,) the rows that have a vector, ascending; None where all have. Raises as `rows_without_vector`."""
    without = rows_without_vector(artifact)
    return np.delete(np.arange(row_count(artifact, artifact.kind)), without) if len(without) else None


def vectors_there(
    blocks: Iterable[NDArray[np.float32]], with_vector: NDArray[np.int64] | None, first: int = 0
) -> Iterator[NDArray[np.float32]]:
    """The blocks of a table's vectors, from row `first` on, without the rows that have no vector; see `rows_with_vector`."""
    for block_BD in blocks:
        if with_vector is None:
            yield block_BD
            continue
        low, high = np.searchsorted(with_vector, [first, first + len(block_BD)])
        yield block_BD if high - low == len(block_BD) else block_BD[with_vector[low:high] - first]
        first += len(block_BD)


class RowVectors:
    """The vectors of some rows of a table at length 1, from the row groups that hold them; the last selections stay in memory.

    A condition selects the same rows with every query: to read 50,000 of 118,000 rows of width 384 takes 0.5 s, to compare
    them 11 ms. The artifact stays open as long as this is used.
    """

    def __init__(self, artifact: Artifact, stem: str) -> None:
        self._groups = _RowGroups(artifact, stem, [_COLUMN])
        self._kept: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []

    def close(self) -> None:
        """Close the table's files, and forget what was read."""
        self._groups.close()
        self._kept.clear()

    def __call__(self, rows_R: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit vectors of some rows, ascending, (R, D) float32; zero where a row has none.

        Raises:
            DivergedError: one is not finite; no index is made of such.
            ArtifactError: the table is damaged.
        """
        for kept_R, vectors_RD in self._kept:
            if np.array_equal(kept_R, rows_R):
                return vectors_RD
        vectors_RD = self.read(rows_R)
        self._kept = [(rows_R, vectors_RD), *self._kept][:_SELECTIONS]
        return vectors_RD

    def read(self, rows_R: NDArray[np.int64]) -> NDArray[np.float32]:
        """The same, from the files and not kept."""
        blocks = []
        for group in sorted({self._groups.of(row) for row in rows_R.tolist()}):
            first, column = self._groups.starts[group], self._groups.read(group)[_COLUMN]
            vectors = np.concatenate([matrix_of(chunk) for chunk in column.chunks])
            low, high = np.searchsorted(rows_R, [first, first + len(vectors)])
            blocks.append(vectors[rows_R[low:high] - first])
        return unit_vectors(np.concatenate(blocks), zero=True)


def read_vectors(
    artifact: Artifact, stem: str, columns: Sequence[str] = ()
) -> Iterator[tuple[pa.Table | None, NDArray[np.float32]]]:
    """Stream a table's vectors row group by row group.

    Arrow puts every number of a list together from its levels: 0.41 s of processor time for 180,000 vectors of width 384,
    which lie in the file as plain float32 one after the other and are read so in 0.08 (an update of an index of 40,000
    takes 1.2 s, and 1.6 by Arrow). What is not laid out so, or may have nulls (a missing vector or number takes no room in
    a page), goes through Arrow. (The Parquet format, "Data Pages" and the compact protocol of Thrift.)

    Yields:
        The other `columns` of some rows, each in one chunk, or None where none is wanted; and the rows' vectors, (B, D).

    Raises:
        ArtifactError: damaged Parquet data.
    """
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part, artifact.open(name) as file, parquet_errors(artifact.path / name):
            for group in range(part.metadata.num_row_groups):
                others = None
                if columns:
                    others = part.read_row_group(group, columns=list(columns), use_threads=False).combine_chunks()
                yield others, _vectors(part, file, group)


def shard_vectors(artifact: Artifact, shard: Shard) -> Iterator[NDArray[np.float32]]:
    """The vectors of a shard of a table in order, (B, D) of each row group; see `read_vectors`."""
    for name, group in shard.groups:
        with open_part(artifact, name) as part, artifact.open(name) as file, parquet_errors(artifact.path / name):
            yield _vectors(part, file, group)


def _vectors(part: pq.ParquetFile, file: BinaryIO, group: int) -> NDArray[np.float32]:
    """The vectors of one row group, (B, D)."""
    about = part.metadata.row_group(group)
    at = next(at for at in range(about.num_columns) if about.column(at).path_in_schema.split(".")[0] == _COLUMN)
    chunk, leaf = about.column(at), part.schema.column(at)
    # float32, as many in every row and none missing: Parquet's one level is that a list may be empty; each thing that may
    # be missing has another
    whole = pa.types.is_fixed_size_list(part.schema_arrow.field(_COLUMN).type) and leaf.max_definition_level == 1
    plain = chunk.compression == "UNCOMPRESSED" and not chunk.has_dictionary_page and leaf.physical_type == "FLOAT"
    if whole and plain and (values := _plain_values(file, chunk.data_page_offset, chunk.num_values)) is not None:
        return values.reshape(about.num_rows, -1)
    table = part.read_row_group(group, columns=[_COLUMN], use_threads=False).combine_chunks()
    return matrix_of(table.column(_COLUMN).chunk(0))


def _plain_values(file: BinaryIO, at: int, count: int) -> NDArray[np.float32] | None:
    """The numbers of the pages from `at` on; None where they are not plain numbers without nulls.

    They are the last thing in a page; the levels before them say of a list of fixed size nothing that is not known.
    """
    values = np.empty(count, dtype=np.float32)
    done = 0
    while done < count:
        file.seek(at)
        if (page := _page(file.read(_MAX_HEADER))) is None:
            return None
        end, held = at + page[0], page[1]
        if not 0 < held <= count - done or end - 4 * held <= at:
            return None
        file.seek(end - 4 * held)
        if file.readinto(values[done : done + held].view(np.uint8)) < 4 * held:  # type: ignore[attr-defined]
            return None
        at, done = end, done + held
    return values


def _page(head: bytes) -> tuple[int, int] | None:
    """The bytes of a page with its header, and how many values it holds; None where it is not plain data."""
    try:
        about, at = _struct(head, 0)
        data = about[_DATA]
        if (about[_TYPE], about[_SIZE], data[_ENCODING]) != (_DATA_PAGE, about[_PACKED], _PLAIN):
            return None
        return at + about[_SIZE], data[_VALUES]
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _struct(head: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their numbers (integers, and structs in it; of all else nothing), and where it ends.

    Raises:
        ValueError: a kind of field that no header of a page has.
        IndexError: it does not end here.
    """
    found: dict[int, Any] = {}
    number = 0
    while kind := head[at] & 15:
        number += head[at] >> 4
        at += 1
        if kind in _INTEGERS:
            found[number], at = _varint(head, at)
        elif kind == _STRUCT:
            found[number], at = _struct(head, at)
        elif kind == _BYTES:  # a value of the statistics
            size, at = _varint(head, at)
            at += 2 * size if size >= 0 else -2 * size - 1  # a length has no sign
        elif kind not in _BOOLEANS:
            raise ValueError(f"a field of kind {kind}")
    return found, at + 1


def _varint(head: bytes, at: int) -> tuple[int, int]:
    """A signed integer of variable length, and where it ends."""
    value = shift = 0
    while True:
        value |= (head[at] & 127) << shift
        shift += 7
        at += 1
        if head[at - 1] < 128:
            return (value >> 1) ^ -(value & 1), at
