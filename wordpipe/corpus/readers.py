"""The readers of the formats: one source to records, by opening, decompressing, decoding and reading its format."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import IO, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq

from wordpipe.corpus.decode import (
    Decoder,
    ExpansionLimit,
    compression_of,
    decompress_blocks,
    read_blocks,
    refuse_binary,
)
from wordpipe.corpus.docstrings import package_records
from wordpipe.corpus.documents import LONGEST_TITLE, Ledger, Record, split_record
from wordpipe.corpus.markup import MarkupFormat, markup_records, to_utf8
from wordpipe.corpus.settings import IngestSettings, MetadataType, Newline
from wordpipe.corpus.sources import Source
from wordpipe.errors import InputError, StorageError

_LINE_FACTOR = 4  # a line of JSON may be this much longer than its text: escapes, other fields
_PARQUET_ROWS = 256  # decoded at a time: rows may be as long as documents


def read_records(
    source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
) -> Iterator[Record]:
    """The records of one source. What is dropped, mended or left behind is counted in the ledger.

    `on_bytes` is called with how many more bytes of the source on disk were read.

    Raises:
        InputError: the source is missing, binary, damaged or malformed.
        StorageError: reading it failed.
    """
    if source.kind == "package":
        yield from package_records(source.name.removeprefix("python:"), ledger)
        on_bytes(source.bytes)
        return
    decoder = Decoder(source.name, settings.bad_bytes, ledger)
    fields = Fields(settings, decoder)
    if source.format == "parquet":  # it is read column by column, and decompressed by its library
        if source.kind == "stream":
            raise InputError("Parquet cannot be read from a stream", where=source.name, hint="name the file itself")
        limit = ExpansionLimit(source.name, settings.max_expand)
        limit.taken = source.bytes
        with source.open() as file:
            yield from parquet_records(file, fields, limit)
        ledger.add("bytes_read", source.bytes)
        on_bytes(source.bytes)
        return

    def note(block: bytes) -> None:
        on_bytes(len(block))
        if source.kind == "stream":
            source.seen.note(block)

    # all others: blocks of bytes, then lines of text, then records
    with source.open() as file:
        blocks = _text_blocks(read_blocks(file, source.name, note), source, settings, ledger)
        longest = settings.max_document_bytes
        if is_structured(source, settings):
            form, documents = cast(MarkupFormat, source.format), settings.documents
            if form == "html":
                blocks = to_utf8(blocks, name=source.name, bad_bytes=settings.bad_bytes, ledger=ledger)
            yield from markup_records(
                decoder.lines(blocks, longest=longest),
                source=source.name,
                format=form,
                documents="section" if documents == "auto" else documents,
                max_bytes=longest,
                ledger=ledger,
            )
        elif source.format in ("txt", "md"):
            yield from text_records(
                decoder.lines(blocks, longest=longest),
                source=source.name,
                documents="file" if settings.documents == "auto" else settings.documents,
                first_line_title=settings.first_line_title,
                newline="space" if source.format == "md" else "auto",
                max_bytes=longest,
            )
        else:
            longest *= _LINE_FACTOR
            lines = decoder.lines(blocks, longest=longest, cut_longer=False)
            if source.format == "csv":
                yield from csv_records(lines, fields, longest=longest)
            else:
                yield from (jsonl_records if source.format == "jsonl" else tsv_records)(lines, fields)
    source.seen.is_whole = True


def is_structured(source: Source, settings: IngestSettings) -> bool:
    """Whether its markup is read; blocks and lines of Markdown are taken as they are."""
    is_markdown = source.format == "md" and settings.documents in ("auto", "file") and not settings.first_line_title
    return source.kind != "package" and (is_markdown or source.format in ("html", "rst"))


def _text_blocks(raw: Iterator[bytes], source: Source, settings: IngestSettings, ledger: Ledger) -> Iterator[bytes]:
    """Decompressed blocks, once the first of them has been seen to be text."""
    compression = source.compression
    if compression == "auto":
        head = next(raw, b"")
        raw, compression = chain([head], raw), compression_of(head)
    is_first = True
    for block in decompress_blocks(raw, compression, ExpansionLimit(source.name, settings.max_expand)):
        if is_first and settings.format == "auto":
            refuse_binary(block, source.name)
        is_first = False
        ledger.add("bytes_read", len(block))
        yield block


def text_records(
    lines: Iterable[tuple[int, str]],
    *,
    source: str,
    documents: Literal["file", "block", "line"],
    first_line_title: bool,
    newline: Newline,
    max_bytes: int,
) -> Iterator[Record]:
    r"""Records of numbered lines, each with its "\n"; a record beyond `max_bytes` is given in parts as it grows.

    Args:
        lines: what `Decoder.lines` gives; the parts of one long line share its number.
        source: value of the `source` column.
        documents: what one record is.
        first_line_title: the first line of a record is its title, unless it is longer than 1,000 characters.
        newline: what a single newline means in this format.
        max_bytes: bound on the UTF-8 of one record.
    """
    growing = _Growing(source, newline, first_line_title, max_bytes)
    for number, line in lines:
        if line.isspace():
            if documents == "block":
                yield from growing.finish()
            if not growing.is_open:
                continue
        elif documents == "line" and not growing.is_open and line[-1] == "\n" and 4 * len(line) <= max_bytes:
            yield Record(line, source, number, newline=newline)  # nearly every line: nothing to collect
            continue
        growing.add(number, line)
        if growing.size > max_bytes:
            yield from growing.full_parts()
        if documents == "line" and line[-1] == "\n":
            yield from growing.finish()
    yield from growing.finish()


class _Growing:
    """The record whose lines are being collected; it opens with a line that is not blank."""

    def __init__(self, source: str, newline: Newline, first_line_title: bool, max_bytes: int) -> None:
        self.source, self.newline, self.first_line_title, self.max_bytes = source, newline, first_line_title, max_bytes
        self._clear()

    def _clear(self) -> None:
        self.is_open = False
        self.size = 0  # characters, at most as many as bytes: non-ASCII text is cut later, at the same places
        self.title: str | None = None
        self.line = self.part = 0
        self.lines: list[str] = []

    def add(self, number: int, line: str) -> None:
        if not self.is_open:
            self.is_open, self.line = True, number
            if self.first_line_title and len(line) <= LONGEST_TITLE:  # a longer one is text
                self.title, self.line = line.strip(), number + 1
                return
        self.lines.append(line)
        self.size += len(line)

    def full_parts(self) -> Iterator[Record]:
        """Parts that are full; the last one stays and grows on."""
        *full, last = split_record(self._record(), self.max_bytes)
        yield from full
        self.lines, self.size, self.line, self.part = [last.text], len(last.text), last.line, last.part

    def finish(self) -> Iterator[Record]:
        """The record, if one is open, in as many parts as it needs; nothing is open then."""
        if self.is_open:
            yield from split_record(self._record(), self.max_bytes)
            self._clear()

    def _record(self) -> Record:
        text = "".join(self.lines)
        return Record(text, self.source, self.line, title=self.title, newline=self.newline, part=self.part)


_TRUE, _FALSE = {"true", "yes", "1", "t", "y"}, {"false", "no", "0", "f", "n"}


class Fields:
    """The fields of one source: makes records of them, counting what is dropped or left behind."""

    def __init__(self, settings: IngestSettings, decoder: Decoder) -> None:
        self.settings, self.decoder, self.source, self.ledger = settings, decoder, decoder.name, decoder.ledger
        self._types = settings.metadata_types
        self.kept = {settings.text_field, settings.title_field, *self._types}

    def require_text(self, names: Iterable[str]) -> None:
        """Raise unless the text field is among the names of a header, a schema or a first record.

        Raises:
            InputError: names the fields that are there.
        """
        found = list(names)
        if self.settings.text_field not in found:
            what, got = (
                f"no field {self.settings.text_field!r} to take the text from",
                ", ".join(found[:20]) or "no fields",
            )
            raise InputError(what, where=self.source, got=got, hint="name the right one with --text-field")
        if twice := sorted(name for name in self.kept if found.count(name) > 1):
            raise InputError("a field occurs twice", where=self.source, got=", ".join(twice), hint="rename one of them")

    def left_behind(self, names: Iterable[str], number: int = 1) -> None:
        """Count fields that `number` records have and the corpus does not keep."""
        for name in names:
            if name not in self.kept:
                self.ledger.add_named("fields_not_carried", name, number)

    def record(self, values: Mapping[str, object], line: int) -> Record | None:
        """The record of these fields, or None (counted) where it has no text.

        Raises:
            InputError: the text is not a string.
        """
        text, title = values.get(self.settings.text_field), values.get(self.settings.title_field)
        if text is None:
            self.ledger.add("documents_read")
            self.ledger.add("documents_dropped_no_text")
            self.ledger.warn("no_text", f"records without {self.settings.text_field!r}, first in {self.source}:{line}")
            return None
        if not isinstance(text, str):
            what, where = f"field {self.settings.text_field!r} is not a string", f"{self.source}, line {line}"
            raise InputError(what, where=where, got=type(text).__name__, hint="name another with --text-field")
        return Record(
            text=self.decoder.string(text),
            source=self.source,
            line=line,
            title=None if title is None else self._as_text(title).strip() or None,
            metadata={name: self._convert(values.get(name), kind, name) for name, kind in self._types.items()},
            lines_follow=False,
        )

    def _as_text(self, value: object) -> str:
        if isinstance(value, (dict, list)):
            value = json.dumps(value, ensure_ascii=False)
        elif isinstance(value, bool):
            value = "true" if value else "false"
        return self.decoder.string(str(value))

    def _convert(self, value: object, kind: MetadataType, name: str) -> object:
        """`value` as its column's type; what cannot be converted is null and counted."""
        if value is None or (value == "" and kind != "str"):
            return None
        try:
            if kind == "str":
                return self._as_text(value)
            return {"int": _integer, "float": float, "bool": _boolean}[kind](value)  # type: ignore[operator]
        except (TypeError, ValueError, OverflowError):
            self.ledger.add_named("metadata_not_converted", name)
            message = f"{name} is not always {kind}, first {str(value)[:40]!r} in {self.source}"
            self.ledger.warn(f"convert {name}", message)
            return None


def _integer(value: object) -> int:
    """A 64-bit integer; 3.0 is one, 3.5 is none."""
    number = int(value) if isinstance(value, (int, str)) else float(value)  # type: ignore[arg-type]
    if number != int(number) or not -(2**63) <= number < 2**63:
        raise ValueError
    return int(number)


def _boolean(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


def jsonl_records(lines: Iterable[tuple[int, str]], fields: Fields) -> Iterator[Record]:
    """One record for each line that holds a JSON object; blank lines are skipped.

    Raises:
        InputError: a line is not a JSON object, or the first one has no text field.
    """
    is_first, hint = True, "one JSON object per line"
    for number, line in lines:
        if line.isspace():
            continue
        where = f"{fields.source}, line {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError("not a line of JSON", where=where, got=error, hint=hint) from None
        if not isinstance(values, dict):
            raise InputError("not a JSON object", where=where, got=type(values).__name__, hint=hint)
        if is_first:
            fields.require_text(values)
            is_first = False
        fields.left_behind(values)
        if record := fields.record(values, number):
            yield record


def csv_records(lines: Iterable[tuple[int, str]], fields: Fields, *, longest: int) -> Iterator[Record]:
    """One record for each row after the header; the comma may also be a semicolon, tab or bar.

    Raises:
        InputError: bad quoting, more cells than the header has, or no text column.
    """
    texts = (line for _, line in lines)
    header = next(texts, "")
    delimiter = max(",;\t|", key=header.count)  # the first of them where none occurs
    # the csv module has one bound for the whole process, 128 KiB unless raised
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    return _rows(_csv_rows(chain([header], texts), delimiter, fields.source), fields)


def tsv_records(lines: Iterable[tuple[int, str]], fields: Fields) -> Iterator[Record]:
    """One record for each line after the header. TSV knows no quotes: a cell has neither tab nor line end.

    Raises:
        InputError: a line has more cells than the header, or there is no text column.
    """
    return _rows(((number, line.rstrip("\n").split("\t")) for number, line in lines if not line.isspace()), fields)


def _csv_rows(lines: Iterator[str], delimiter: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row that is not blank."""
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            hint = "mend the quotes there"
            raise InputError("bad CSV", where=f"{source}, line {line}", got=error, hint=hint) from None
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
            what, where = "more cells than the header has", f"{fields.source}, line {line}"
            expected, hint = f"at most {len(names)}", "mend the quotes or tabs there"
            raise InputError(what, where=where, got=len(cells), expected=expected, hint=hint)
        fields.left_behind(names)
        if record := fields.record(dict(zip(names, cells, strict=False)), line):
            yield record


def parquet_records(file: IO[bytes], fields: Fields, limit: ExpansionLimit) -> Iterator[Record]:
    """One record for each row; only the columns wanted are read, a few rows at a time.

    Raises:
        InputError: not a sound Parquet file, no text column, or the text column holds no strings.
    """
    number = 0
    for batch in _parquet_batches(file, fields):
        columns = {name: _decoded(batch[name], fields.decoder, number) for name in batch.schema.names}
        for row in range(len(batch)):
            number += 1
            values = {name: column[row] for name, column in columns.items()}
            text = values.get(fields.settings.text_field)
            limit.add(len(text) if isinstance(text, str) else 0)
            if record := fields.record(values, number):
                yield record


def _parquet_batches(file: IO[bytes], fields: Fields) -> Iterator[pa.RecordBatch]:
    try:
        table = pq.ParquetFile(file, memory_map=False, pre_buffer=False, buffer_size=1 << 20)
        names = table.schema_arrow.names
        fields.require_text(names)
        fields.left_behind(names, table.metadata.num_rows)
        wanted = [column for column in names if column in fields.kept]
        yield from table.iter_batches(_PARQUET_ROWS, columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None):  # the disk's own; of damaged files pyarrow says OSError without a number
            raise StorageError("reading failed", where=fields.source, got=error) from None
        got = " ".join(str(error).split())
        raise InputError("not a sound Parquet file", where=fields.source, got=got) from None


def _decoded(column: pa.Array, decoder: Decoder, before: int) -> list[object]:
    """Values of a column, which `before` rows precede in the file.

    Strings go by the policy for bad bytes, because Parquet files are not checked for UTF-8.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return list(column.to_pylist())
    values = column.cast(pa.large_binary()).to_pylist()
    return [None if v is None else decoder.value(v, line=n) for n, v in enumerate(values, before + 1)]
