"""Single rows of a Parquet table by their number, reading only the row groups they lie in."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import open_part, part_names

__all__ = ["RowReader"]


class RowReader:
    """Fetches rows of an artifact's table; the row groups read last stay in memory.

    Args:
        artifact: stays open as long as the reader is used.
        stem: the table's name.
        columns: the columns to read.
    """

    def __init__(self, artifact: Artifact, stem: str, columns: Sequence[str]) -> None:
        self._groups: list[tuple[pq.ParquetFile, int]] = []
        self._starts: list[int] = []
        rows = 0
        for name in part_names(artifact, stem):
            part = open_part(artifact, name)
            for group in range(part.metadata.num_row_groups):
                self._groups.append((part, group))
                self._starts.append(rows)
                rows += part.metadata.row_group(group).num_rows
        self.rows = rows
        self._read = lru_cache(maxsize=4)(partial(_read_group, self._groups, list(columns)))

    def fetch(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """The rows, in the order asked."""
        found = []
        for row in rows:
            group = bisect_right(self._starts, row) - 1
            table = self._read(group)
            found.append(table.slice(row - self._starts[group], 1).to_pylist()[0])
        return found


def _read_group(groups: list[tuple[pq.ParquetFile, int]], columns: list[str], number: int) -> pa.Table:
    part, group = groups[number]
    return part.read_row_group(group, columns=columns, use_threads=False)
