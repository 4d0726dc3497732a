"""Facets of an index: the fields of its rows, and how many answers have each value; for filters.

Of a column of text or of true and false, and of whole numbers with few values, the values are counted, the most frequent
first; of lists their items. Text columns that hold prose, and ours (text, title, line, row), have no values worth a filter
and are only named.

Values that were chosen are alternatives within a column, and all columns must fit. The values of a column are counted under
what was chosen in the *other* columns, so that a further alternative can be chosen by its count.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import read_batches, read_schema, type_name, visible_columns
from wordpipe.errors import ConfigError
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import OpenIndex

Chosen = Sequence[tuple[str, Any]]
"""Chosen values: name of a column, value (None: rows without one)."""
Mask = npt.NDArray[np.bool_]

_MAX_CHOSEN = 64
_MAX_DISTINCT = 2_000  # values that are counted of a column; one with more, as ids have, is only named
_MAX_CHARS = 200  # of a value: longer ones are prose, and not listed
_FEW = 8  # values that are worth a choice however seldom each comes
_OFTEN = 3  # rows that more values must have in the mean
_NOT_COUNTED = {"text", "title", "row", "line", "id", "doc_id", "sentence_id", "see_also", "anchor", "vector", "word"}
_ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal)


def chosen_values(given: Any) -> Chosen:
    """Return the values chosen in facets: `[["lang", "de"], …]`, as JSON or as its text.

    Raises:
        ConfigError: it is no such list.
    """
    try:
        pairs = json.loads(given) if isinstance(given, str) else given
        found = [(name, value) for name, value in pairs if isinstance(name, str) and not isinstance(value, list | dict)]
    except (ValueError, TypeError, RecursionError):
        found, pairs = [], [None]
    if not isinstance(pairs, list) or len(found) != len(pairs) or len(found) > _MAX_CHOSEN:
        expected = f'at most {_MAX_CHOSEN} pairs, for example [["lang", "de"]]'
        raise ConfigError(
            "the value is not a list of pairs of column and value", where="f", got=str(given)[:60], expected=expected
        )
    return found


def condition(chosen: Chosen, lists: set[str], more: str | None = None) -> str | None:
    r"""Return the condition of the values chosen in facets, one of them in every column that has some.

    Args:
        chosen: the values.
        lists: the columns that hold lists: one of the items is to be the value.
        more: a condition that must be true, too.

    >>> condition([("lang", "it's"), ("tags", "a"), ("tags", None)], {"tags"}, "year > 2000")
    '("lang" = \'it\'\'s\') and (\'a\' in "tags" or "tags" is null) and (year > 2000)'
    """
    parts = []
    for name, values in _by_column(chosen).items():
        column = quoted(name, '"')
        said = [
            f"{column} is null" if one is None else f"{_literal(one)} in {column}" if name in lists
            else f"{column} = {_literal(one)}" for one in values
        ]  # fmt: skip
        parts.append(f"({' or '.join(said)})")
    return " and ".join([*parts, f"({more})" if parts else more] if more else parts) or None


def column_types(opened: OpenIndex) -> dict[str, pa.DataType]:
    """Return the columns of an index by the names that a condition uses, with their types."""
    schema = read_schema(opened.artifact, "index")
    return {name: schema.field(stored).type for name, stored in visible_columns(schema).items() if stored != "vector"}


def list_columns(opened: OpenIndex) -> set[str]:
    """Return the names of columns that hold lists."""
    return {name for name, of in column_types(opened).items() if pa.types.is_list(of)}


def _by_column(chosen: Chosen) -> dict[str, list[Any]]:
    """Group chosen values by their columns."""
    return {name: [value for _, value in pairs] for name, pairs in groupby(sorted(chosen, key=_name), key=_name)}


def _name(pair: tuple[str, Any]) -> str:
    return pair[0]


def _literal(value: Any) -> str:
    """Return a chosen value in the form of a condition."""
    return quoted(value, "'") if isinstance(value, str) else str(value).lower()  # true, false, numbers


def quoted(text: str, mark: str) -> str:
    """Return a name of a column (in ") or a text (in ') in the form of a condition."""
    return mark + text.replace(mark, 2 * mark) + mark


class Facets:
    """The columns of an index whose values can be counted, in memory: four bytes for each row, or item of a list.

    Args:
        opened: an index over texts or words; it is read once.
    """

    def __init__(self, opened: OpenIndex) -> None:
        schema = read_schema(opened.artifact, "index")
        shown = {name: stored for name, stored in visible_columns(schema).items() if stored != "vector"}
        counted = {name: stored for name, stored in shown.items() if name not in _NOT_COUNTED}
        self._columns = {name: _Column(schema.field(stored), name in counted) for name, stored in shown.items()}
        if counted:
            for batch in read_batches(opened.artifact, "index", [*counted.values()]):
                for name, stored in counted.items():
                    self._columns[name].add(batch.column(stored))

    def count(
        self, opened: OpenIndex, where: str | None, chosen: Chosen, question: str | None, n_values: int
    ) -> dict[str, Any]:
        """Return the facets: columns that a condition may name, with their values and counts.

        Args:
            opened: the index.
            where: a condition; rows of which it is not true are not counted.
            chosen: values that were chosen.
            question: only rows that hold a word of it are counted, unless no row holds any.
            n_values: values of a column, at most; chosen ones are named besides.

        Returns:
            rows (how many fit all that was chosen), total (how many there are), among (matches, where only rows with a word of
            the question count; else rows) and columns: each has name (as a condition names it), type, values ([{value,
            count}], the most frequent first), distinct (how many values are left; None where they are not counted), missing
            (how many of these rows have none), filter (whether it is worth choosing from), and least and largest of all rows
            where it is ordered.

        Raises:
            ConfigError: the condition, or a chosen value, does not fit the columns.
        """
        base = opened.allowed(QueryOptions(where=where))
        holding = opened.holding(question) if question else None
        every = np.ones(len(opened), np.bool_) if base is None else base
        every = every if holding is None else every & holding
        fits = {name: self._fitting(opened, name, values) for name, values in _by_column(chosen).items()}
        left = every
        for mask in fits.values():
            left = left & mask
        columns = []
        for name, column in self._columns.items():
            counted = left
            if name in fits:
                counted = every
                for other, mask in fits.items():
                    counted = counted if other == name else counted & mask
            wanted = [value for one, value in chosen if one == name]
            columns.append({"name": name, **column.found(counted, wanted, n_values)})
        among = "rows" if holding is None else "matches"
        return {"rows": int(left.sum()), "total": len(opened), "among": among, "columns": columns}

    def _fitting(self, opened: OpenIndex, name: str, values: Sequence[Any]) -> Mask:
        """Return (N,) the rows that have one of these values of a facet."""
        column = self._columns.get(name)
        if column is not None and column.is_counted:
            return column.having(values, len(opened))
        said = condition([(name, value) for value in values], list_columns(opened))
        mask = opened.allowed(QueryOptions(where=said))
        assert mask is not None
        return mask


class _Column:
    """The values of one column: each row's, or item's, number in the list of values; -1 where there is none."""

    def __init__(self, field: pa.Field, is_counted: bool) -> None:
        self._type, self._of = type_name(field), field.type
        items = field.type.value_type if pa.types.is_list(field.type) else field.type
        self.is_counted = is_counted and not pa.types.is_floating(items) and not pa.types.is_nested(items)
        self._was_read = is_counted
        self._missing = self._rows = 0
        self._numbers: dict[Any, int] = {}
        self._codes: list[npt.NDArray[np.int32]] = []
        self._rows_of: list[npt.NDArray[np.int64]] = []  # of lists: the row of each item
        self._least: Any = None
        self._largest: Any = None

    def add(self, column: pa.Array) -> None:
        """Take the values of some rows for the facet."""
        self._missing += column.null_count
        if any(is_ordered(self._of) for is_ordered in _ORDERED) and len(column) > column.null_count:
            ends = pc.min_max(column).as_py()
            self._least = ends["min"] if self._least is None else min(self._least, ends["min"])
            self._largest = ends["max"] if self._largest is None else max(self._largest, ends["max"])
        if self.is_counted:
            self._number(column)
        self._rows += len(column)

    def _number(self, column: pa.Array) -> None:
        """Number the values of a facet's column."""
        items = column
        if pa.types.is_list(self._of):
            empty = np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False))
            rows = np.concatenate([pc.list_parent_indices(column).to_numpy(), empty]) + self._rows
            items = pc.list_flatten(column)
            self._rows_of.append(rows.astype(np.int64))
            self._codes.append(np.full(len(rows), -1, np.int32))
        else:
            self._codes.append(np.full(len(column), -1, np.int32))
        found = items.dictionary_encode()
        values = found.dictionary.to_pylist() if len(found.dictionary) <= _MAX_DISTINCT else None
        if values is not None:
            numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in values]
        if values is None or len(self._numbers) > _MAX_DISTINCT:
            self.is_counted = False
            self._codes, self._rows_of, self._numbers = [], [], {}
            return
        own = found.indices.fill_null(-1).to_numpy()
        table = np.array([*numbers, -1], np.int32)
        self._codes[-1][: len(own)] = table[own]

    def _whole(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64] | None]:
        """Return all codes of a facet's column, and their rows where these are lists; put together once."""
        if len(self._codes) != 1:
            self._codes = [np.concatenate([np.zeros(0, np.int32), *self._codes])]
            self._rows_of = [np.concatenate([np.zeros(0, np.int64), *self._rows_of])]
        return self._codes[0], self._rows_of[0] if pa.types.is_list(self._of) else None

    def having(self, values: Sequence[Any], n_rows: int) -> Mask:
        """Return (N,) the rows that have one of the facet's values; None is none."""
        shown = {_as_json(value): number for value, number in self._numbers.items()}
        wanted = [-1 if value is None else shown.get(value, -2) for value in values]
        codes, rows = self._whole()
        has = np.isin(codes, np.array(wanted, np.int32))
        if rows is None:
            return has
        mask = np.zeros(n_rows, np.bool_)
        mask[rows[has]] = True
        return mask

    def found(self, counted_N: Mask, chosen: Sequence[Any], n_values: int) -> dict[str, Any]:
        """Return a facet: the facts about the column, its values counted over some rows."""
        found: dict[str, Any] = {"type": self._type}
        if self.is_counted:
            # values by how often they come; chosen ones are shown in any case
            codes, rows = self._whole()
            counts = self._counts(codes[counted_N if rows is None else counted_N[rows]])
            order = sorted(
                ((value, counts[number + 1]) for value, number in self._numbers.items() if counts[number + 1]),
                key=lambda one: (-one[1], *_place(one[0])),
            )
            values = [(_as_json(value), count) for value, count in order if not _is_prose(value)][:n_values]
            named = {value for value, _ in values}
            kept = {_as_json(value): counts[number + 1] for value, number in self._numbers.items()}
            values += [(one, kept.get(one, 0)) for one in dict.fromkeys(chosen) if one is not None and one not in named]
            # the counts of all, and whether they are worth a choice
            found |= {
                "values": [{"value": value, "count": int(count)} for value, count in values],
                "distinct": len(order),
                "missing": int(counts[0]),
                "filter": self._is_filter(self._counts(codes)),
            }
        else:
            missing = self._missing if self._was_read else None
            found |= {"values": [], "distinct": None, "missing": missing, "filter": False}
        if self._least is not None:
            found |= {"least": self._least, "largest": self._largest}
        return found

    def _counts(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the number of rows without a value, then of each value."""
        return np.bincount(codes + 1, minlength=len(self._numbers) + 1)

    def _is_filter(self, counts: npt.NDArray[np.int64]) -> bool:
        """True if the values of a facet tell rows apart, and most values have several rows."""
        own = counts[1:]
        listed = sum(1 for value in self._numbers if not _is_prose(value))
        if not listed or len(own) + bool(counts[0]) < 2 or own.max() < 2:
            return False
        return len(own) <= _FEW or int(own.sum()) >= _OFTEN * len(own)


def _is_prose(value: Any) -> bool:
    """True if texts are too long to be listed as values of a filter."""
    return isinstance(value, str) and len(value) > _MAX_CHARS


def _place(value: Any) -> tuple[float, str]:
    """Return the place of a value among others of its count: numbers by size, all others by their letters."""
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))


def _as_json(value: Any) -> Any:
    """Return a value as answers show it: dates and times are texts."""
    return value if isinstance(value, str | int | float) else str(value)
