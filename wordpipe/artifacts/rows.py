"""Rows of a Parquet table by their number, and its vectors: of some rows, or all in order.

Of sentences, and of an index over them, some rows may have no vector: nothing in their text is known to the encoder. They
have zeros in the table, so that a row's number stays its place, and are listed in `rows_without_vector.npy`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

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

    Arrow puts every number of a list together from its levels: 0.41 s of processor time for 180,000 vectors of width 384.
    Reading the pages here, in which they lie as plain float32 one after the other, took 0.08 and 200 lines; an update of an
    index of 40,000 took 1.2 s so, and takes 1.6.

    Yields:
        The other `columns` of some rows, each in one chunk, or None where none is wanted; and the rows' vectors, (B, D).

    Raises:
        ArtifactError: damaged Parquet data.
    """
    for name in part_names(artifact, stem):
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            for group in range(part.metadata.num_row_groups):
                others = None
                if columns:
                    others = part.read_row_group(group, columns=list(columns), use_threads=False).combine_chunks()
                yield others, _vectors(part, group)


def shard_vectors(artifact: Artifact, shard: Shard) -> Iterator[NDArray[np.float32]]:
    """The vectors of a shard of a table in order, (B, D) of each row group; see `read_vectors`."""
    for name, group in shard.groups:
        with open_part(artifact, name) as part, parquet_errors(artifact.path / name):
            yield _vectors(part, group)


def _vectors(part: pq.ParquetFile, group: int) -> NDArray[np.float32]:
    """The vectors of one row group, (B, D)."""
    table = part.read_row_group(group, columns=[_COLUMN], use_threads=False).combine_chunks()
    return matrix_of(table.column(_COLUMN).chunk(0))
