"""Facets: the fields of an index's rows, and how many rows have each value; for filters.

Of a column of text or of true and false, and of whole numbers with few values, the values are counted, the most frequent
first; of lists their items; of numbers, dates and times the least and the largest value are found. Text columns that hold
prose, and ours (text, title, line, row), have no values worth a filter and are only named.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import read_batches, read_schema, type_name, visible_columns
from wordpipe.stages import OpenIndex, QueryOptions

_MAX_DISTINCT = 2_000  # values that are counted of a column; one with more, as ids have, is only named
_MAX_CHARS = 200  # of a value: longer ones are prose
_NOT_COUNTED = {"text", "title", "row", "line", "id", "doc_id", "sentence_id", "see_also", "anchor", "vector", "word"}
_ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal)


def facets_of(opened: OpenIndex, where: str | None, n_values: int) -> dict[str, Any]:
    """The columns that a condition may name, with their values.

    Args:
        opened: an index over texts or words.
        where: a condition; rows of which it is not true are not counted.
        n_values: values of a column, at most.

    Returns:
        rows (how many were counted), total (how many there are) and columns: each has name (as a condition names it), type,
        values ([{value, count}], the most frequent first), distinct (how many values there are; None where they were not
        counted), missing (rows without one), and least and largest where it is ordered.

    Raises:
        ConfigError: the condition cannot be read.
    """
    allowed_N = opened.allowed(QueryOptions(where=where))
    schema = read_schema(opened.artifact, "index")
    shown = {name: stored for name, stored in visible_columns(schema).items() if stored != "vector"}
    counted = {name: stored for name, stored in shown.items() if name not in _NOT_COUNTED}
    columns = {name: _Column(schema.field(stored)) for name, stored in shown.items()}
    if counted:
        wanted = [*counted.values()]
        for batch in _kept(opened, wanted, allowed_N):
            for name, stored in counted.items():
                columns[name].add(batch.column(stored))
    return {
        "rows": len(opened) if allowed_N is None else int(allowed_N.sum()),
        "total": len(opened),
        "columns": [{"name": name, **column.found(n_values)} for name, column in columns.items()],
    }


def _kept(opened: OpenIndex, columns: list[str], allowed_N: npt.NDArray[np.bool_] | None) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in read_batches(opened.artifact, "index", columns):
        kept = batch if allowed_N is None else batch.filter(pa.array(allowed_N[first : first + len(batch)]))
        first += len(batch)
        yield kept


class _Column:
    """What is known of the values of one column so far."""

    def __init__(self, field: pa.Field) -> None:
        self._type, self._of = type_name(field), field.type
        self._counts: Counter[Any] | None = None
        self._missing = self._seen = 0
        self._least: Any = None
        self._largest: Any = None

    def add(self, column: pa.Array) -> None:
        """Count the values of some rows."""
        if not self._seen:
            self._counts = Counter()
        self._seen += max(1, len(column))
        self._missing += column.null_count
        if any(is_ordered(self._of) for is_ordered in _ORDERED) and len(column) > column.null_count:
            ends = pc.min_max(column).as_py()
            self._least = ends["min"] if self._least is None else min(self._least, ends["min"])
            self._largest = ends["max"] if self._largest is None else max(self._largest, ends["max"])
        if self._counts is None:
            return
        items = pc.list_flatten(column) if pa.types.is_list(self._of) else column
        if pa.types.is_floating(self._of) or pa.types.is_nested(items.type):
            self._counts = None
            return
        found = pc.value_counts(items)
        values, counts = found.field("values"), found.field("counts")
        if len(values) > _MAX_DISTINCT:
            self._counts = None
            return
        self._counts.update(dict(zip(values.to_pylist(), counts.to_pylist(), strict=True)))
        self._counts.pop(None, None)
        too_long = any(isinstance(value, str) and len(value) > _MAX_CHARS for value in self._counts)
        if too_long or len(self._counts) > _MAX_DISTINCT:
            self._counts = None

    def found(self, n_values: int) -> dict[str, Any]:
        """The facts about the column."""
        ordered = [] if self._counts is None else sorted(self._counts.items(), key=lambda one: (-one[1], str(one[0])))
        found: dict[str, Any] = {
            "type": self._type,
            "values": [{"value": value, "count": count} for value, count in ordered[:n_values]],
            "distinct": None if self._counts is None else len(ordered),
            "missing": self._missing if self._seen else None,
        }
        if self._least is not None:
            found |= {"least": self._least, "largest": self._largest}
        return found
