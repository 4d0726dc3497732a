"""Facets of an index: the fields of its rows, and how many answers have each value; for filters.

Of a column of text or of true and false, and of whole numbers with few values, the values are counted, the most frequent
first; of lists their items. Text columns that hold prose, and ours (text, title, line, row), have no values worth a filter
and are only named.

Numbers, dates and times with more than a few values are also counted in bins, which few far values do not flatten.

Values that were chosen, and ranges `[from, to]`, are alternatives within a column, and all columns must fit. The values of a
column are counted under what was chosen in the *other* columns, so that a further alternative can be chosen by its count.
"""

import json
import math
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import type_name
from wordpipe.errors import ConfigError
from wordpipe.search import FieldColumns, folded
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import OpenIndex, OpenTextIndex

Chosen = Sequence[tuple[str, Any]]
"""Chosen values: name of a column, value (None: rows without one) or range (from, to), of which one end may be None."""
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

MAX_CHOSEN = 64
_MAX_DISTINCT = 2_000  # values that are counted of a column; one with more, as ids have, is only named
_MAX_CHARS = 200  # of a value: longer ones are prose, and not listed
_FEW = 8  # values that are worth a choice however seldom each comes
_OFTEN = 3  # rows that more values must have in the mean
_NOT_COUNTED = {"text", "title", "row", "line", "id", "doc_id", "sentence_id", "see_also", "anchor", "vector", "word"}
_BINS = 20  # of a column that is ordered, about
_FAR = 0.01  # of its numbers, on either side: these may lie far out
_WIDE = 100  # times the smallest one, from which steps may grow
_OUT = 3  # times as far as the others reach
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal)


def chosen_values(given: Any) -> Chosen:
    """Return the values chosen in facets: `[["lang", "de"], ["year", [1990, null]], …]`, as JSON or as its text.

    Raises:
        ConfigError: it is no such list.
    """
    try:
        pairs = json.loads(given) if isinstance(given, str) else given
        read = [(name, tuple(value) if _is_range(value) else value) for name, value in pairs if isinstance(name, str)]
        found = [(name, value) for name, value in read if not isinstance(value, list | dict)]
    except (ValueError, TypeError, RecursionError):
        found, pairs = [], [None]
    if not isinstance(pairs, list) or len(found) != len(pairs) or len(found) > MAX_CHOSEN:
        expected = f'at most {MAX_CHOSEN} pairs, for example [["lang", "de"]]'
        raise ConfigError(
            "the value is not a list of pairs of column and value", where="f", got=str(given)[:60], expected=expected
        )
    return found


def _is_range(value: Any) -> bool:
    """True if a chosen value is a range: two ends, one of which may be open."""
    ends = value if isinstance(value, list) and len(value) == 2 else [None]
    return any(one is not None for one in ends) and all(
        one is None or (isinstance(one, str | int | float) and not isinstance(one, bool)) for one in ends
    )


def condition(chosen: Chosen, lists: set[str], more: str | None = None) -> str | None:
    r"""Return the condition of the values chosen in facets, one of them in every column that has some.

    Args:
        chosen: the values.
        lists: the columns that hold lists: one of the items is to be the value.
        more: a condition that must be true, too.

    >>> condition([("lang", "it's"), ("tags", "a"), ("tags", None)], {"tags"}, "year > 2000")
    '("lang" = \'it\'\'s\') and (\'a\' in "tags" or "tags" is null) and (year > 2000)'
    >>> condition([("year", (1990, None)), ("day", ("2024-01-01", "2024-02-01"))], set())
    '("day"::date >= \'2024-01-01\' and "day"::date <= \'2024-02-01\') and ("year" >= 1990)'
    """
    parts = []
    for name, values in _by_column(chosen).items():
        column = quoted(name, '"')
        said = [
            f"{column} is null" if one is None else _between(column, one) if isinstance(one, tuple)
            else f"{_literal(one)} in {column}" if name in lists
            else f"{column} = {_literal(one)}" for one in values
        ]  # fmt: skip
        parts.append(f"({' or '.join(said)})")
    return " and ".join([*parts, f"({more})" if parts else more] if more else parts) or None


def _between(column: str, ends: Sequence[Any]) -> str:
    """Return the condition that the values of a column are in a chosen range; a day as its end is the whole day."""
    said = zip((">=", "<="), ends, strict=True)
    is_of_days = any(isinstance(end, str) and _DAY.fullmatch(end) for end in ends)
    parts = [
        f"{column}{'::date' if is_of_days else ''} {than} {_literal(end)}" for than, end in said if end is not None
    ]
    return " and ".join(parts)


def column_types(opened: OpenIndex) -> dict[str, pa.DataType]:
    """Return the columns of an index by the names that a condition uses, with their types."""
    return {field.name: field.type for field in opened.columns.schema}


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
    """The columns of an index whose values can be counted, in memory: two bytes for each row, or item of a list.

    Args:
        opened: an index over texts or words; its columns are read if no condition has asked for them before.
    """

    def __init__(self, opened: OpenIndex) -> None:
        self._columns = {
            field.name: _Column(field, _counted_values(opened.columns, field.name)) for field in opened.columns.schema
        }
        self._n_documents = len(np.unique(opened.documents)) if isinstance(opened, OpenTextIndex) else len(opened)

    def count(
        self, opened: OpenIndex, options: QueryOptions, chosen: Chosen, question: str | None, n_values: int, *,
        only: str = "", find: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """Return the facets: columns that a condition may name, with their values and counts.

        Args:
            opened: the index.
            options: their condition (rows of which it is not true are not counted), and whether the question is still typed.
            chosen: values that were chosen.
            question: only rows that hold a word of it are counted, unless no row holds any.
            n_values: values of a column, at most; chosen ones are named besides.
            only: the name of the one column that is wanted; empty: all.
            find: a text that the listed values contain, whatever the marks and capitals, also those that no row has now.

        Returns:
            rows (how many fit all that was chosen), total (how many there are), documents (of all rows), among (matches, where
            only rows with a word of the question count; else rows) and columns: each has name (as a condition names it), type,
            values ([{value, count}], the most frequent first), distinct (how many values are left; None where they are not
            counted), missing (how many of these rows have none), filter (whether it is worth choosing from), and least and
            largest of all rows where it is ordered, with bins ([{from, to, count}]) if a range of it is worth choosing.

        Raises:
            ConfigError: the condition, or a chosen value, does not fit the columns.
        """
        base = opened.allowed(options)
        holding = opened.holding(question, prefix=options.prefix) if question else None
        every = np.ones(len(opened), np.bool_) if base is None else base
        every = every if holding is None else every & holding
        fits = {name: self._fitting(opened, name, values) for name, values in _by_column(chosen).items()}
        left = every
        for mask in fits.values():
            left = left & mask
        n_left, columns = int(np.count_nonzero(left)), []
        left_R = None if n_left == len(opened) else np.flatnonzero(left)  # None: all rows
        if only and only not in self._columns:
            raise ConfigError(
                "the index has no column of this name", where="column", got=only, expected=", ".join(self._columns)
            )
        for name, column in self._columns.items():
            if only not in ("", name):
                continue
            counted_R = left_R
            if name in fits and left_R is not None:
                counted = every
                for other, mask in fits.items():
                    counted = counted if other == name else counted & mask
                counted_R = np.flatnonzero(counted)
            wanted = [value for one, value in chosen if one == name and not isinstance(value, tuple)]
            columns.append({"name": name, **column.found(counted_R, wanted, n_values, find)})
        among = "rows" if holding is None else "matches"
        whole = {"total": len(opened), "documents": self._n_documents}
        return {"rows": n_left, **whole, "among": among, "columns": columns}

    def _fitting(self, opened: OpenIndex, name: str, values: Sequence[Any]) -> Mask:
        """Return (N,) the rows that have one of these values of a facet, or are in one of these ranges."""
        column = self._columns.get(name)
        if column is not None and column.is_counted and not any(isinstance(value, tuple) for value in values):
            return column.having(values, len(opened))
        said = condition([(name, value) for value in values], list_columns(opened))
        mask = opened.allowed(QueryOptions(where=said))
        assert mask is not None
        return mask


def _counted_values(columns: FieldColumns, name: str) -> pa.ChunkedArray | None:
    """Return the values of a facet's column; None of one that is only named, as titles are unless no row has one."""
    if name == "title" and not any(map(_has_text, columns.batches([name]))):
        return pa.chunked_array([pa.nulls(columns.rows, pa.string())])
    return None if name in _NOT_COUNTED else columns.values(name)


def _has_text(batch: pa.RecordBatch) -> bool:
    """True if a text of a facet's column is not empty."""
    return bool(pc.max(pc.binary_length(batch.column(0))).as_py())


class _Column:
    """The values of one column: each row's, or item's, number in the list of values, from 1; 0 where there is none.

    Args:
        field: the column.
        values: of all rows; None of a column that is only named.
    """

    def __init__(self, field: pa.Field, values: pa.ChunkedArray | None) -> None:
        self._type, self._missing, self._ends = type_name(field), None if values is None else values.null_count, None
        self._values: list[Any] = []
        self._codes, self._rows_of = np.zeros(0, np.uint16), np.zeros(0, np.int64)
        self._n_rows = 0 if values is None else len(values)
        self._is_list, self.is_counted = pa.types.is_list(field.type), False
        self._edges, self._bins = list[tuple[Any, Any]](), np.zeros(0, np.uint8)  # 0: no bin
        self._lacks: Mask | None = None  # (N,) rows without a value, of a column whose values are not counted
        if values is None:
            return
        if any(is_ordered(field.type) for is_ordered in _ORDERED) and len(values) > values.null_count:
            ends = pc.min_max(values).as_py()
            self._ends = {"least": ends["min"], "largest": ends["max"]}
        items = field.type.value_type if self._is_list else field.type
        self._edges, self._bins = _binned(values)
        self.is_counted = not pa.types.is_floating(items) and not pa.types.is_nested(items) and self._number(values)
        if values.null_count and not self.is_counted:
            self._lacks = values.is_null().combine_chunks().to_numpy(zero_copy_only=False)

    def _number(self, values: pa.ChunkedArray) -> bool:
        """Number the values of a facet's column; False if they are too many to be listed."""
        numbers: dict[Any, int] = {}
        codes, rows_of, first = [self._codes], [self._rows_of], 0
        for chunk in values.chunks:
            # of lists the items, with their rows; then the rows without a list
            items = pc.list_flatten(chunk) if self._is_list else chunk
            encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
            if len(encoded.dictionary) > _MAX_DISTINCT:
                return False
            known = [numbers.setdefault(value, len(numbers) + 1) for value in encoded.dictionary.to_pylist()]
            if len(numbers) > _MAX_DISTINCT:
                return False
            codes.append(np.array([*known, 0], np.uint16)[encoded.indices.fill_null(-1).to_numpy()])
            if self._is_list:
                empty = np.flatnonzero(np.asarray(chunk.is_null()))
                codes.append(np.zeros(len(empty), np.uint16))
                rows_of += [pc.list_parent_indices(chunk).to_numpy().astype(np.int64) + first, empty + first]
            first += len(chunk)
        self._values, self._codes, self._rows_of = [*numbers], np.concatenate(codes), np.concatenate(rows_of)
        return True

    @cached_property
    def _all_counts(self) -> npt.NDArray[np.int64]:
        """The number of rows without a value, then of each value, of all rows."""
        return self._counts(self._codes)

    def having(self, values: Sequence[Any], n_rows: int) -> Mask:
        """Return (N,) the rows that have one of the facet's values; None is none."""
        shown = {value: number for number, value in enumerate(self._shown, 1)}
        is_wanted = np.zeros(len(self._values) + 1, np.bool_)  # the first one is no value
        is_wanted[[0 if value is None else shown[value] for value in values if value is None or value in shown]] = True
        has: Mask = is_wanted[self._codes]
        if not self._is_list:
            return has
        mask = np.zeros(n_rows, np.bool_)
        mask[self._rows_of[has]] = True
        return mask

    def found(self, counted_R: Rows | None, chosen: Sequence[Any], n_values: int, find: str) -> dict[str, Any]:
        """Return a facet: the facts about the column, its values counted over some rows, ascending, or all.

        What is counted is taken by the numbers of the rows: by a mask it took six times as long where half of them are in it.
        """
        found: dict[str, Any] = {"type": self._type}
        if self.is_counted:
            # values by how often they come; chosen ones are shown in any case
            counts = (
                self._all_counts if counted_R is None else self._counts(self._codes.take(self._places_of(counted_R)))
            )
            order = self._by_place[np.argsort(-counts[1:][self._by_place], kind="stable")]
            text = folded(find)  # what is looked for is listed even where no row has it now
            order = order if text else order[: np.count_nonzero(counts[1:])]
            numbers = [one for one in order.tolist() if not text or text in self._folded[one]]
            listed = (one for one in numbers if not _is_prose(self._values[one]))
            values = [(self._shown[one], int(counts[one + 1])) for one in islice(listed, n_values)]
            named = {value for value, _ in values}
            if more := [one for one in dict.fromkeys(chosen) if one is not None and one not in named]:
                kept = dict(zip(self._shown, counts[1:].tolist(), strict=True))
                values += [(one, kept.get(one, 0)) for one in more]
            # the counts of all, and whether they are worth a choice
            found |= {
                "values": [{"value": value, "count": count} for value, count in values],
                "distinct": len(numbers),
                "missing": int(counts[0]),
                "filter": self._is_filter,
            }
        else:
            lacks = None if counted_R is None else self._lacks
            missing = self._missing if lacks is None else int(np.count_nonzero(lacks[counted_R]))
            found |= {"values": [], "distinct": None, "missing": missing, "filter": False}
        if self._edges:
            bins = self._bins if counted_R is None else self._bins.take(counted_R)
            own = np.bincount(bins, minlength=len(self._edges) + 1)
            found["bins"] = [
                {"from": _as_json(low), "to": _as_json(high), "count": n}
                for (low, high), n in zip(self._edges, own[1:].tolist(), strict=True)
            ]
        return found | (self._ends or {})

    @cached_property
    def _shown(self) -> list[Any]:
        """The values in the form of answers."""
        return [*map(_as_json, self._values)]

    @cached_property
    def _folded(self) -> list[str]:
        """The values as they are looked for, without marks and capitals."""
        return [folded(str(value)) for value in self._shown]

    @cached_property
    def _by_place(self) -> Rows:
        """The numbers of the values, from 0, in the order in which those of one count are listed."""
        return np.array(sorted(range(len(self._values)), key=lambda one: _place(self._values[one])), np.int64)

    def _places_of(self, rows_R: Rows) -> Rows:
        """Return the places of the values of some rows."""
        if not self._is_list:
            return rows_R
        has_N = np.zeros(self._n_rows, np.bool_)
        has_N[rows_R] = True
        return np.flatnonzero(has_N[self._rows_of])

    def _counts(self, codes: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
        """Return the number of rows without a value, then of each value."""
        return np.bincount(codes, minlength=len(self._values) + 1)

    @cached_property
    def _is_filter(self) -> bool:
        """True if the values of a facet tell rows apart, and most values have several rows."""
        counts, own = self._all_counts, self._all_counts[1:]
        listed = sum(1 for value in self._values if not _is_prose(value))
        if not listed or len(own) + bool(counts[0]) < 2 or own.max() < 2:
            return False
        return len(own) <= _FEW or int(own.sum()) >= _OFTEN * len(own)


def _binned(values: pa.ChunkedArray) -> tuple[list[tuple[Any, Any]], npt.NDArray[np.uint8]]:
    """Part the values of a facet's column into bins: their edges, (from, to), and the number of each row's bin, 0 for none.

    There are none where a range is not worth choosing: of a few values, and of whole numbers that all differ, as ids do.
    Whole numbers and days reach up to `to`, others stay below it.
    """
    none, kind = (list[tuple[Any, Any]](), np.zeros(0, np.uint8)), values.type
    is_whole, is_day = pa.types.is_integer(kind), pa.types.is_date(kind)
    is_time = pa.types.is_timestamp(kind)
    if not (is_whole or is_day or is_time or pa.types.is_floating(kind)):
        return none
    # numbers, of which those that are none are left out
    try:
        days = values.cast(pa.date32()).cast(pa.int32()) if is_day else values
        plain = days.cast(pa.int64() if is_whole or is_day or is_time else pa.float64())
    except pa.ArrowInvalid:  # beyond 63 bits
        return none
    has_N = ~np.asarray(plain.is_null().combine_chunks())
    numbers_N = plain.fill_null(0).to_numpy()
    has_N &= np.isfinite(numbers_N)
    own = np.unique(numbers_N[has_N])
    if len(own) <= _FEW or (is_whole and len(own) == int(has_N.sum())):
        return none
    # edges
    edges = _edges_of(numbers_N[has_N], is_whole=is_whole, is_time=is_day or is_time)
    if not edges:
        return none
    ends = [*edges[1:], own[-1].item() + (is_whole or is_day)]
    bins_N = np.where(has_N, np.searchsorted(np.array(edges), numbers_N, side="right"), 0).astype(np.uint8)
    # as values of the column
    if is_day or is_time:
        back = pa.array([*edges, *(end - is_day for end in ends)], pa.int64())
        shown = (back.cast(pa.int32()).cast(pa.date32()) if is_day else back.cast(kind)).to_pylist()
        return [*zip(shown[: len(edges)], shown[len(edges) :], strict=True)], bins_N
    return [(low, high - is_whole if is_whole else high) for low, high in zip(edges, ends, strict=True)], bins_N


def _edges_of(numbers: npt.NDArray[Any], *, is_whole: bool, is_time: bool) -> list[Any]:
    """Return the lower edges of the bins of a facet's numbers, so that few far ones do not flatten the others.

    The steps are equal, between the ends of all but the hundredth part of the numbers on either side if the others lie far
    out; they grow (1, 2, 5, 10, …) where most numbers would be in the first bin. The first and the last bin have what is
    beyond. None where the ends are too far apart for a step.
    """
    least, largest = numbers.min().item(), numbers.max().item()
    low, middle, high = np.quantile(numbers, [_FAR, 0.5, 1 - _FAR], method="nearest").tolist()
    if least >= 0 and high > 0 and middle - low < (high - low) / _BINS and not is_time:
        first = max(low, numbers[numbers > 0].min().item())
        if high >= _WIDE * first:
            return [least, *_growing(first, high, is_whole=is_whole)]
    if high == low or largest - least <= _OUT * (high - low):
        low, high = least, largest
    raw = (high - low) / _BINS
    if not math.isfinite(raw) or not raw:
        return []
    if is_time:
        edges = [*range(low, high + 1, max(1, math.ceil(raw)))]
    elif is_whole:
        step = max(1, round(_round_step(raw)))
        edges = [*range(low // step * step, high + 1, step)]
    else:
        width = _round_step(raw)
        start = math.floor(low / width)
        near = [float(f"{(start + place) * width:.12g}") for place in range(int(high / width - start) + 2)]
        return [min(near[0], least), *(edge for edge in near[1:] if edge <= high)]
    return [min(edges[0], least), *edges[1:]]


def _growing(low: float, high: float, *, is_whole: bool) -> list[Any]:
    """Return 1, 2, 5, 10, … between two positive numbers, or powers of ten where these would be too many.

    >>> _growing(3, 70, is_whole=True), _growing(0.001, 1e6, is_whole=False)[:4]
    ([5, 10, 20, 50], [0.01, 0.1, 1.0, 10.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for firsts in ((1, 2, 5), (1,)):
        steps = [step for power in powers for first in firsts if low < (step := float(f"{first}e{power}")) <= high]
        if len(steps) <= _BINS:
            break
    steps = steps[:: math.ceil(len(steps) / _BINS) or 1]
    return [*dict.fromkeys(int(step) for step in steps if step >= 1)] if is_whole else steps


def _round_step(raw: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, … for the width of bins of a facet.

    >>> [_round_step(raw) for raw in (0.3, 3, 7)]
    [0.5, 5, 10]
    """
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(one for one in (1, 2, 5, 10) if one * power >= raw * (1 - 1e-9)) * power
    return int(step) if step >= 1 else step


def _is_prose(value: Any) -> bool:
    """True if texts are too long to be listed as values of a filter."""
    return isinstance(value, str) and len(value) > _MAX_CHARS


def _place(value: Any) -> tuple[float, str]:
    """Return the place of a value among others of its count: numbers by size, all others by their letters."""
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))


def _as_json(value: Any) -> Any:
    """Return a value as answers show it: dates and times are texts."""
    return value if isinstance(value, str | int | float) else str(value)
