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

from wordpipe.corpus.columns import natives, text_of
from wordpipe.corpus.decode import ExpansionLimit
from wordpipe.corpus.documents import Record
from wordpipe.corpus.fields import HEAD_RECORDS, Fields
from wordpipe.errors import InputError, StorageError

_ROWS = 256  # decoded at a time: rows may be as long as documents
_BATCH_BYTES = 32 << 20  # and so many bytes of them
_EXACT_TYPES = (datetime, date, time, timedelta, Decimal, bytes)  # of which Arrow has scalars


def parquet_records(file: IO[bytes], fields: Fields, limit: ExpansionLimit) -> Iterator[Record]:
    """One record for each row; only the columns wanted are read, a few rows at a time.

    Raises:
        InputError: not a sound Parquet file, no text column, or the text column holds no strings.
    """
    return _records(_parquet_batches(file, fields, limit), fields, limit)


def memory_records(rows: Any, fields: Fields, note: Callable[[bytes], None]) -> Iterator[Record]:
    """One record for each dict, or each row of a data frame or table; `note` is called with each as bytes, to be hashed.

    Raises:
        InputError: an item is no mapping, there is no text column, or a text is no string.
    """
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or hasattr(rows, "itertuples"):
        numbered = _frame_values(rows, fields)
    else:
        numbered = _dict_values(rows, fields)
    head = [*islice(numbered, HEAD_RECORDS)]
    if head:
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
    number, is_first, text_field = 0, True, fields.settings.text_field
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
            text = values.get(text_field)
            length = len(text) if isinstance(text, str) else 0
            limit.add(length)
            if record := fields.record(values, number, width + length):
                yield record


def _parquet_batches(file: IO[bytes], fields: Fields, limit: ExpansionLimit) -> Iterator[pa.RecordBatch]:
    try:
        table = pq.ParquetFile(file, memory_map=False, pre_buffer=False, buffer_size=1 << 20)
        about, names = table.metadata, table.schema_arrow.names
        fields.require_text(names)
        fields.require_target(names)
        fields.ledger.see_fields(names, names)
        wanted = [name for name in names if fields.wants(name) and names.count(name) == 1]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            fields.ledger.warn(
                "twice", f"fields that occur twice in {fields.source} are not carried: {', '.join(twice)}"
            )
        leaves = [about.schema.column(number) for number in range(about.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        _refuse_bomb(about, limit)
        table = pq.ParquetFile(
            file, metadata=about, read_dictionary=texts, memory_map=False, pre_buffer=False, buffer_size=1 << 20
        )
        for group in range(about.num_row_groups):
            rows, size = about.row_group(group).num_rows, about.row_group(group).total_byte_size
            at_once = max(1, min(_ROWS, _BATCH_BYTES * rows // max(1, size)))
            yield from table.iter_batches(at_once, row_groups=[group], columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None):  # the disk's own; of damaged files pyarrow says OSError without a number
            raise StorageError("reading failed", where=fields.source, got=error) from None
        got = " ".join(str(error).split())
        raise InputError("not a sound Parquet file", where=fields.source, got=got) from None


def _refuse_bomb(about: pq.FileMetaData, limit: ExpansionLimit) -> None:
    """Refuse a file whose pages, unpacked, or whose lists are beyond the bound, before any of it is decoded.

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
    """Values of a column, which `before` rows precede in the file.

    Strings go by the policy for bad bytes, because Parquet files are not checked for UTF-8.
    """
    flat = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not (pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type)):
        return natives(column, lambda some: [fields.decoder.value(v, line=before + 1) if v is not None else None
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


def _frame_values(frame: Any, fields: Fields) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and fields of each row of a data frame, an Arrow table or a reader of batches."""
    try:
        if hasattr(frame, "__arrow_c_stream__"):
            batches: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(frame)
        elif hasattr(frame, "__arrow_c_array__"):
            batches = [pa.record_batch(frame)]
        else:
            batches = pa.Table.from_pandas(frame, preserve_index=False).to_batches()
    except (pa.ArrowException, TypeError, ValueError):
        if not hasattr(frame, "itertuples"):  # one column: a Series, an Arrow array
            what, hint = "one column is no table", f'name it: series.to_frame("{fields.settings.text_field}")'
            raise InputError(what, where=fields.source, got=type(frame).__name__, hint=hint) from None
        # a column of a frame that holds this and that
        names = [str(name) for name in frame.columns]
        rows = (dict(zip(names, row, strict=True)) for row in frame.itertuples(index=False, name=None))
        yield from _dict_values(rows, fields)
        return
    number = 0
    for batch in batches:
        names = [fields.decoder.string(name) for name in batch.schema.names]
        kept = [place for place, name in enumerate(names) if not name.startswith("__index_level_")]
        for start in range(0, len(batch), _ROWS):
            some = batch.slice(start, _ROWS)
            columns = [natives(some.column(place)) for place in kept]
            for row in zip(*columns, strict=True):
                number += 1
                yield number, {names[place]: fields.tidied(value) for place, value in zip(kept, row, strict=True)}


def _dict_values(rows: Iterable[Any], fields: Fields) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and fields of each mapping."""
    text_field = fields.settings.text_field
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            hint = f'give each as a dict: {{"{text_field}": …}}'
            what = "an item is no mapping of field names to values"
            fields.bad("not_object", what, number, got=type(row).__name__, hint=hint)
            continue
        values = {str(name): _known(value) for name, value in row.items()}
        text = values.pop(text_field, None)
        values = fields.tidied(values) or {}
        yield number, values if text is None else {text_field: text, **values}


def _known(value: Any) -> Any:
    """A value of a program as JSON has it, or as an Arrow scalar; as text where neither has it."""
    if value is None or type(value) in (str, int, float, bool) or isinstance(value, pa.Scalar):
        return value
    if isinstance(value, Mapping):
        return {str(name): _known(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return [_known(item) for item in items]
    if isinstance(value, np.ndarray):
        return _known(value.tolist())
    if isinstance(value, (np.bool_, np.integer, np.floating, np.str_)):
        return value.item()
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas: no value
        return None
    if isinstance(value, (str, int, float)):  # of a class made from one
        return next(kind(value) for kind in (str, int, float) if isinstance(value, kind))
    if isinstance(value, _EXACT_TYPES):
        try:
            return pa.scalar(value)
        except (pa.ArrowException, ValueError):
            return str(value)
    return str(value)
