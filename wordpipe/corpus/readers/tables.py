"""Records of tables: Parquet files, and what a program has in memory (dicts, data frames, Arrow tables).

A Parquet file of 2 kB may say "this string of 20 MB, sixty times": strings are read as numbers into a dictionary, so that each
is held once, however often it comes. (The Parquet format, "Dictionary Encoding".)
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.corpus.columns import RepeatedFieldError, Strings, natives, text_of, without_repeats
from wordpipe.corpus.decode import ExpansionLimit
from wordpipe.corpus.documents import Record
from wordpipe.corpus.fields import HEAD_RECORDS, Fields
from wordpipe.corpus.reading import Opened
from wordpipe.corpus.record_fields import Field, seen_fields
from wordpipe.errors import InputError, StorageError

_ROWS = 256  # decoded at a time: rows may be as long as documents
_BATCH_BYTES = 32 << 20  # and so many bytes of them
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_MOST_ZEROS = 20  # at the end of a decimal number
_EXACT_TYPES = (datetime, date, time, timedelta, Decimal, bytes)  # of which Arrow has scalars


def read_parquet(opened: Opened) -> Iterator[Record]:
    """Return a record for each row of a Parquet file."""
    assert opened.file is not None
    limit = ExpansionLimit(opened.source.name, opened.settings.max_expand)
    limit.taken = opened.source.bytes
    return parquet_records(opened.file, opened.fields, limit)


def read_rows(opened: Opened) -> Iterator[Record]:
    """Yield a record for each that a program has."""
    yield from memory_records(opened.source.rows, opened.fields, opened.source.seen.note)
    opened.source.seen.is_whole = True


def parquet_records(file: IO[bytes], fields: Fields, limit: ExpansionLimit) -> Iterator[Record]:
    """Yield one record for each row of a Parquet file; only the columns wanted are read, a few rows at a time.

    Raises:
        InputError: not a sound Parquet file, no text column, or the text column holds no strings.
    """
    return _records(_parquet_batches(file, fields, limit), fields, limit)


def memory_records(rows: Any, fields: Fields, note: Callable[[bytes], None]) -> Iterator[Record]:
    """Yield one record for each dict, or each row of a data frame or table; `note` is called with each as bytes, to be hashed.

    Raises:
        InputError: an item is no mapping, there is no text column, or a text is no string.
    """
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or hasattr(rows, "itertuples"):
        numbered = _frame_values(rows, fields)
    else:
        numbered = _dict_values(rows, fields)
    head = [*islice(numbered, HEAD_RECORDS)]
    if head:
        records = [values for _, values in head]
        fields.choose_text(chain(*records), seen_fields(records, from_text=False))
        fields.require_text(dict.fromkeys(chain(*(values for _, values in head))))
        fields.require_target(dict.fromkeys(chain(*(values for _, values in head))))
        fields.choose_id([values for _, values in head])
    for number, values in chain(head, numbered):
        data = json.dumps(values, ensure_ascii=False, default=text_of).encode(errors="replace") + b"\n"
        note(data)
        fields.ledger.add("bytes_read", len(data))
        if record := fields.record(values, number, len(data)):
            yield record


def _records(batches: Iterator[pa.RecordBatch], fields: Fields, limit: ExpansionLimit) -> Iterator[Record]:
    """Yield the records of a table's rows, once the first rows have shown the fields."""
    number, is_first = 0, True
    for batch in batches:
        width = batch.nbytes // max(1, len(batch))
        columns = [_values(column, fields, number) for column in batch.columns]
        names = [fields.decoder.string(name) for name in batch.schema.names]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if is_first:
            fields.choose_id(rows)
            is_first = False
        for values in rows:
            number += 1
            text = values.get(fields.settings.text_field)
            length = len(text) if isinstance(text, str) else 0
            limit.add(length)
            if record := fields.record(values, number, width + length):
                yield record


def _parquet_batches(file: IO[bytes], fields: Fields, limit: ExpansionLimit) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a Parquet file, of the columns that are needed."""
    try:
        # the columns that are wanted
        table = pq.ParquetFile(file, memory_map=False, pre_buffer=False, buffer_size=1 << 20)
        about, names = table.metadata, table.schema_arrow.names
        fields.choose_text(names, parquet_fields(table.schema_arrow, about))
        fields.require_text(names)
        fields.require_target(names)
        fields.ledger.see_fields(names, names)
        wanted = [name for name in names if fields.wants(name)]
        fields.refuse_repeated(wanted)
        # texts as dictionaries: one that comes often is in memory once
        leaves = [about.schema.column(number) for number in range(about.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        _refuse_bomb(about, limit)
        table = pq.ParquetFile(
            file, metadata=about, read_dictionary=texts, memory_map=False, pre_buffer=False, buffer_size=1 << 20
        )
        # row group by row group, few rows at once where they are long
        for group in range(about.num_row_groups):
            rows, size = about.row_group(group).num_rows, about.row_group(group).total_byte_size
            at_once = max(1, min(_ROWS, _BATCH_BYTES * rows // max(1, size)))
            yield from table.iter_batches(at_once, row_groups=[group], columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None):  # the disk's own; of damaged files pyarrow says OSError without a number
            raise StorageError("reading failed", where=fields.source, got=error) from None
        got = " ".join(str(error).split())
        raise InputError("not a valid Parquet file", where=fields.source, got=got) from None


def _refuse_bomb(about: pq.FileMetaData, limit: ExpansionLimit) -> None:
    """Refuse a Parquet file whose pages, unpacked, or whose lists are beyond the bound, before any of it is decoded.

    Raises:
        InputError: says how large it would be.
    """
    for group in range(about.num_row_groups):
        row_group = about.row_group(group)
        for number in range(row_group.num_columns):
            column, leaf = row_group.column(number), about.schema.column(number)
            in_lists = 4 * column.num_values if leaf.max_repetition_level else 0
            one = ExpansionLimit(limit.name, limit.max_expand)
            one.taken = limit.taken
            one.add(max(column.total_uncompressed_size, in_lists))


def _values(column: pa.Array, fields: Fields, before: int) -> list[Any]:
    """Return the values of a Parquet column, which `before` rows precede in the file.

    Strings go by the policy for bad bytes, because Parquet files are not checked for UTF-8.

    Raises:
        InputError: a struct has two fields of one name, or a map a key twice.
    """
    flat = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not (pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type)):
        return _natives(column, fields, lambda some: [fields.decoder.value(v, line=before + 1) if v is not None else None
                                                      for v in some.to_pylist()])  # fmt: skip
    if flat is column:
        values = column.cast(pa.large_binary()).to_pylist()
        return [None if v is None else fields.decoder.value(v, line=n) for n, v in enumerate(values, before + 1)]
    numbers = column.indices.to_pylist()
    found: dict[int | None, str | None] = {None: None}
    for line, number in enumerate(numbers, before + 1):
        if number not in found:
            data = flat[number].cast(pa.large_binary()).as_py()
            found[number] = None if data is None else fields.decoder.value(data, line=line)
    return [found[number] for number in numbers]


def _natives(column: Any, fields: Fields, *strings: Strings) -> list[Any]:
    """Return the values of an Arrow array; of a column that Arrow does not accept, each value converted by `_known`."""
    try:
        if not isinstance(column, pa.Array):
            return [_known(value) for value in column]
        if pa.types.is_run_end_encoded(column.type):
            runs = np.searchsorted(column.run_ends.to_numpy(), column.offset + np.arange(len(column)), side="right")
            values = _natives(column.values, fields, *strings)
            return [values[run] for run in runs.tolist()]
        if _is_rare(column.type) or _is_far(column):  # value by value
            return [_known(_of_python(value)) for value in column]
        return natives(column, *strings)
    except RepeatedFieldError as error:
        what, hint = "a key occurs twice in an object of a column", "rename one key"
        raise InputError(what, where=fields.source, got=error, hint=hint) from None


def _is_rare(kind: pa.DataType) -> bool:
    """True if Parquet, or functions of Arrow, do not know the type of a column, or of its items."""
    types = pa.types
    if types.is_dictionary(kind):
        return (
            types.is_string_view(kind.value_type) or types.is_binary_view(kind.value_type) or _is_rare(kind.value_type)
        )
    if types.is_union(kind) or types.is_run_end_encoded(kind) or types.is_interval(kind):
        return True
    if types.is_list_view(kind) or types.is_large_list_view(kind) or (types.is_decimal(kind) and kind.scale < 0):
        return True
    return any(_is_rare(kind.field(number).type) for number in range(kind.num_fields))


def _is_far(column: pa.Array) -> bool:
    """True if a column has times or days that are not in the years 1 to 9999."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _is_far(column.storage)
    if pa.types.is_dictionary(kind):
        return _is_far(column.dictionary)
    if kind.num_fields:
        if pa.types.is_map(kind):
            return _is_far(column.keys) or _is_far(column.items)
        return any(map(_is_far, column.flatten() if pa.types.is_struct(kind) else [column.flatten()]))
    if pa.types.is_date32(kind):
        per_day, numbers = 1, column.view(pa.int32())
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        per_day, numbers = 86_400 * _PER_SECOND[getattr(kind, "unit", "ms")], column.view(pa.int64())
    else:
        return False
    known = numbers.drop_null().to_numpy()
    return bool(len(known)) and (known.min() < _FIRST_DAY * per_day or known.max() >= (_LAST_DAY + 1) * per_day)


def _of_python(value: pa.Scalar) -> Any:
    """Return the value of an Arrow scalar, of a rare type or far in time; as text where Python has none."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    if isinstance(getattr(value, "values", None), pa.Array):  # lists of all kinds, and maps
        return [_of_python(item) for item in value.values]
    if isinstance(value, pa.StructScalar):
        return {name: _of_python(item) for name, item in value.items()}
    try:
        return str(value.cast(pa.string()))
    except pa.ArrowException:
        return str(value)


def _frame_values(frame: Any, fields: Fields) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and fields of each row of a data frame, an Arrow table or a reader of batches."""
    chunks = _pandas_chunks(frame, fields) if hasattr(frame, "iloc") else _arrow_chunks(frame, fields)
    number = 0
    for names, columns in chunks:
        for row in zip(*columns, strict=True):
            number += 1
            try:
                values = {name: fields.tidied(value) for name, value in zip(names, row, strict=True)}
            except RepeatedFieldError as error:
                fields.bad_repeated(error, number)
                continue
            yield number, values


_Chunk = tuple[list[str], list[list[Any]]]
"""Names of columns, and the values that each has in some rows."""


def _arrow_chunks(frame: Any, fields: Fields) -> Iterator[_Chunk]:
    """Yield the columns of an Arrow table or reader of batches, some rows at a time."""
    try:
        if hasattr(frame, "__arrow_c_stream__"):
            batches: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(frame)
        else:
            batches = [pa.record_batch(frame)]
    except (pa.ArrowException, TypeError, ValueError):
        raise _no_table(frame, fields) from None
    for batch in batches:
        names = [fields.decoder.string(name) for name in batch.schema.names]
        kept = [place for place, name in enumerate(names) if not name.startswith("__index_level_")]
        names = [names[place] for place in kept]
        fields.refuse_repeated(filter(fields.wants, names))
        for start in range(0, len(batch), _ROWS):
            some = batch.slice(start, _ROWS)
            yield names, [_natives(some.column(place), fields) for place in kept]


def _pandas_chunks(frame: Any, fields: Fields) -> Iterator[_Chunk]:
    """Yield the columns of a frame of pandas, those of a named index too; each by itself, as some hold this and that."""
    if not hasattr(frame, "columns"):
        raise _no_table(frame, fields)
    named = [(name, frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    if not hasattr(frame.index, "step"):  # a range is no column
        levels = enumerate(frame.index.names)
        named += [(name, frame.index.get_level_values(place)) for place, name in levels if name is not None]
    names = [fields.decoder.string(str(name)) for name, _ in named]
    fields.refuse_repeated(filter(fields.wants, names))
    columns = [_pandas_column(values) for _, values in named]
    for start in range(0, len(frame), _ROWS):
        some = [column[start : start + _ROWS] for column in columns]
        yield names, [_natives(one, fields) for one in some]


def _pandas_column(values: Any) -> Any:
    """Return a pandas column as an Arrow array, in which NaN is missing; unchanged where Arrow has no type for its values."""
    try:
        found = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return values
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _no_table(frame: Any, fields: Fields) -> InputError:
    """Return the error for a column that was given in the place of a table."""
    what, hint = (
        "a single column without a name is not a table",
        f'convert the column to a table: series.to_frame("{fields.settings.text_field}")',
    )
    return InputError(what, where=fields.source, got=type(frame).__name__, hint=hint)


def _dict_values(rows: Iterable[Any], fields: Fields) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and fields of each mapping that a program gives."""
    text_field = fields.settings.text_field
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            hint = f'give each item as a dict, for example {{"{text_field}": …}}'
            what = "an item is not a mapping of field names to values"
            fields.bad("not_object", what, number, got=type(row).__name__, hint=hint)
            continue
        try:
            values = _known(row)
            text = values.pop(text_field, None)
            values = fields.tidied(values) or {}
        except RepeatedFieldError as error:
            fields.bad_repeated(error, number)
            continue
        yield number, values if text is None else {text_field: text, **values}


def _known(value: Any) -> Any:
    """Return a value of a program's table as JSON has it, or as an Arrow scalar; else as text. NaN is no value.

    Raises:
        RepeatedFieldError: two names of a mapping are one as text.
    """
    if value is None or type(value) in (str, int, bool) or isinstance(value, pa.Scalar):
        return value
    if type(value) is float:
        return None if value != value else value
    if isinstance(value, Mapping):
        return without_repeats([(str(name), _known(item)) for name, item in value.items()])
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return [_known(item) for item in items]
    if isinstance(value, (np.ndarray, np.generic)):
        return _known_of_numpy(value)
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas: no value
        return None
    if isinstance(value, (str, int, float)):  # of a class made from one
        return next(_known(kind(value)) for kind in (str, int, float) if isinstance(value, kind))
    return _exact(value) if isinstance(value, _EXACT_TYPES) else str(value)


def _known_of_numpy(value: Any) -> Any:
    """Return a value of a table in NumPy's type as a value of JSON or Arrow."""
    if isinstance(value, np.ndarray):
        return _known([*value] if value.dtype.kind in "mM" else value.tolist())  # which of times are numbers
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else pa.scalar(value)
    return _known(value.item()) if isinstance(value, (np.bool_, np.integer, np.floating, np.str_)) else str(value)


def _exact(value: Any) -> Any:
    """Return a value of a table as an Arrow scalar; as text where Arrow has no type for the value."""
    if isinstance(value, Decimal) and not value.is_finite():
        return None if value.is_nan() else float(value)
    if isinstance(value, Decimal) and 0 < value.as_tuple().exponent < _MOST_ZEROS:  # type: ignore[operator]
        value = value.quantize(Decimal(1))  # 2E+3 is 2000: Parquet has no negative scale
    try:
        return pa.scalar(value)
    except (pa.ArrowException, ValueError):
        return str(value)


def parquet_fields(schema: pa.Schema, about: pq.FileMetaData) -> list[Field]:
    """Return the fields of a Parquet file by its schema; no value is decoded."""
    sizes: dict[str, int] = {}
    for group in range(min(about.num_row_groups, 20)):
        for place in range(about.num_columns):
            column = about.row_group(group).column(place)
            sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_uncompressed_size
    return [
        Field(field.name, _kind_of(field.type), sizes.get(field.name, 0) / max(about.num_rows, 1), distinct=True)
        for field in schema
    ]


def _kind_of(kind: Any) -> str:
    """Return the type of a field by the Arrow type of its column."""
    tests = {
        "str": (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary), "int": (pa.types.is_integer,),
        "float": (pa.types.is_floating,), "bool": (pa.types.is_boolean,),
    }  # fmt: skip
    return next((name for name, holds in tests.items() if any(one(kind) for one in holds)), "other")
