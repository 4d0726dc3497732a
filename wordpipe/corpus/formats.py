"""Readers of the formats: decompressed blocks (or a Parquet file) in, records out, one at a time."""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import IO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.corpus.compression import Growth
from wordpipe.corpus.decoding import Decoder
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.records import Record
from wordpipe.errors import InputError, StorageError

__all__ = ["Format", "csv_records", "jsonl_records", "parquet_records", "tsv_records"]

Format = Literal["txt", "md", "jsonl", "csv", "tsv", "parquet"]

_PARQUET_ROWS = 256  # decoded at a time: rows may be as long as documents


def jsonl_records(lines: Iterable[tuple[int, str]], fields: Fields) -> Iterator[Record]:
    """One record for each line that holds a JSON object; blank lines are skipped.

    Raises:
        InputError: a line is not a JSON object, or the first one has no text field.
    """
    first = True
    for number, line in lines:
        if line.isspace():
            continue
        values = _json_object(line, f"{fields.source}, line {number}")
        if first:
            fields.require_text(values)
            first = False
        fields.left_behind(values)
        if record := fields.record(values, number):
            yield record


def _json_object(line: str, where: str) -> dict[str, object]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError("not a line of JSON", where=where, got=error, hint="one JSON object per line") from None
    if not isinstance(values, dict):
        raise InputError("not a JSON object", where=where, got=type(values).__name__, hint="one JSON object per line")
    return values


def csv_records(lines: Iterable[tuple[int, str]], fields: Fields, *, longest: int) -> Iterator[Record]:
    """One record for each row after the header; the comma may also be a semicolon, tab or bar.

    Raises:
        InputError: bad quoting, more cells than the header has, or no text column.
    """
    numbered = iter(lines)
    _, header = next(numbered, (1, ""))
    delimiter = max(",;\t|", key=header.count)  # the first of them where none occurs
    # the csv module has one bound for the whole process, 128 KiB unless raised
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    return _rows(_csv_rows(_again(header, numbered), delimiter, fields.source), fields)


def tsv_records(lines: Iterable[tuple[int, str]], fields: Fields) -> Iterator[Record]:
    """One record for each line after the header. TSV knows no quotes: a cell has neither tab nor line end.

    Raises:
        InputError: a line has more cells than the header, or there is no text column.
    """
    return _rows(((number, line.rstrip("\n").split("\t")) for number, line in lines if not line.isspace()), fields)


def _again(header: str, rest: Iterator[tuple[int, str]]) -> Iterator[str]:
    yield header
    yield from (line for _, line in rest)


def _csv_rows(lines: Iterator[str], delimiter: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row that is not blank."""
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise InputError(
                "bad CSV", where=f"{source}, line {line}", got=error, hint="mend the quotes there"
            ) from None
        if cells is None:
            return
        if cells:
            yield line, cells


def _rows(rows: Iterator[tuple[int, list[str]]], fields: Fields) -> Iterator[Record]:
    header = next(rows, None)
    if header is None:
        return
    names = header[1]
    fields.require_text(names)
    for line, cells in rows:
        if len(cells) > len(names):
            raise InputError(
                "more cells than the header has",
                where=f"{fields.source}, line {line}",
                got=len(cells),
                expected=f"at most {len(names)}",
                hint="mend the quotes or tabs there",
            )
        fields.left_behind(names)
        if record := fields.record(dict(zip(names, cells, strict=False)), line):
            yield record


def parquet_records(file: IO[bytes], fields: Fields, decoder: Decoder, growth: Growth) -> Iterator[Record]:
    """One record for each row; only the columns wanted are read, a few rows at a time.

    Raises:
        InputError: not a sound Parquet file, no text column, or the text column holds no strings.
    """
    number = 0
    for batch in _parquet_batches(file, fields, growth.name):
        columns = {name: _decoded(batch[name], decoder, number) for name in batch.schema.names}
        for row in range(len(batch)):
            number += 1
            values = {name: column[row] for name, column in columns.items()}
            text = values.get(fields.settings.text_field)
            growth.give(len(text) if isinstance(text, str) else 0)
            if record := fields.record(values, number):
                yield record


def _parquet_batches(file: IO[bytes], fields: Fields, name: str) -> Iterator[pa.RecordBatch]:
    try:
        table = pq.ParquetFile(file, memory_map=False, pre_buffer=False, buffer_size=1 << 20)
        names = table.schema_arrow.names
        fields.require_text(names)
        fields.left_behind(names, table.metadata.num_rows)
        wanted = [column for column in names if column in fields.carried]
        yield from table.iter_batches(_PARQUET_ROWS, columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        if getattr(
            error, "errno", None
        ):  # the disk's own; pyarrow says OSError of damaged files, too, without a number
            raise StorageError("reading failed", where=name, got=error) from None
        raise InputError("not a sound Parquet file", where=name, got=" ".join(str(error).split())) from None


def _decoded(column: pa.Array, decoder: Decoder, before: int) -> list[object]:
    """Values of a column; strings by the policy for bad bytes, because Parquet files are not checked for UTF-8.

    Args:
        column: one column of a batch.
        decoder: holds the policy.
        before: rows of the file before this column's first.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return list(column.to_pylist())
    values = column.cast(pa.large_binary()).to_pylist()
    return [None if v is None else decoder.value(v, line=n) for n, v in enumerate(values, before + 1)]
