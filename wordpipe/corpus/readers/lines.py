"""The readers of lines: plain text, records as JSON Lines, CSV and TSV, and two files whose lines are pairs.

Of two files each line of the first and the same line of the second are a pair. A line ends with a newline, or a carriage
return and a newline. A carriage return within a line is white space there: read as the end of a line, as everywhere else, it
would move all lines after it away from their partners.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice
from typing import Any, Literal

from wordpipe.corpus.columns import RepeatedFieldError, without_repeats
from wordpipe.corpus.decode import Decoder, read_blocks
from wordpipe.corpus.detect_format import first_lines
from wordpipe.corpus.documents import LONGEST_TITLE, Ledger, Record, split_record
from wordpipe.corpus.fields import HEAD_CHARS, HEAD_RECORDS, Fields
from wordpipe.corpus.reading import LINE_FACTOR, Opened, text_blocks
from wordpipe.corpus.record_fields import TEXTS, seen_fields
from wordpipe.corpus.settings import AUTO, IngestSettings, Newline
from wordpipe.corpus.sources import Source
from wordpipe.errors import InputError

_JSON = json.JSONDecoder(object_pairs_hook=without_repeats)
_SAID_DELIMITER = re.compile(
    r'"?sep=(\\t|[^\w\s"]|\t)"?[ \t]*\n?\Z', re.IGNORECASE
)  # a first line that Excel reads and writes
_COLUMN = re.compile(
    r"[^\W\d][\w.-]*(?: [\w.-]+){0,3}"
)  # the name of a column; behind the comma of a sentence stands a space
_SAID = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(?:\\t|[^\w\s"]|\t)"?[ \t]*[\r\n]', re.IGNORECASE)


def read_text(opened: Opened, newline: Newline = "auto") -> Iterator[Record]:
    """Return the documents of plain text: the file, its blocks or its lines."""
    source, settings, documents = opened.source, opened.settings, opened.documents_of_text()
    is_log = documents == "line" and settings.documents == "section"
    for record in text_records(
        opened.lines(_counting_lines(opened.blocks, source)), source=source.name, documents=documents,
        first_line_title=settings.first_line_title, newline=newline, max_bytes=settings.max_document_bytes,
    ):  # fmt: skip
        if is_log:  # a line that says the same as an earlier one is another event, and counts
            record.beside = f"line {record.line}"
        yield record


def is_json_lines(first: bytes, settings: IngestSettings) -> bool:
    """True if the first lines are JSON objects; if bad records are left out, most lines have to be objects."""
    lines = first_lines(first)
    good = sum(map(_is_object, lines))
    return good > 0 and (good == len(lines) or (settings.bad_records == "skip" and 2 * good > len(lines)))


def is_csv(first: bytes, settings: IngestSettings) -> bool:
    """True if the first line says what parts cells, or is a header with the text field and as many cells as those below."""
    if says_delimiter(first):
        return True
    for delimiter in ",;|":
        try:
            rows = [*csv.reader((f"{line}\n" for line in first_lines(first)), delimiter=delimiter, strict=True)]
        except csv.Error:
            continue
        if _is_table(rows, settings):
            return True
    return False


def is_tsv(first: bytes, settings: IngestSettings) -> bool:
    """True if the first line is a header with the text field, or a setting names a column by a number that all lines have."""
    cells = [line.split("\t") for line in first_lines(first)]
    return not says_delimiter(first) and (_is_table(cells, settings) or _has_columns(cells, settings))


def says_delimiter(first: bytes) -> bool:
    """True if a table says in its first line what parts its cells."""
    return _SAID.match(first) is not None


def _is_object(line: str) -> bool:
    """True if a line is an object of JSON Lines."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_table(rows: list[list[str]], settings: IngestSettings) -> bool:
    """True if the first row is a header, which names the text field or three columns, and the others have as many cells."""
    head = rows[0] if rows else []
    if len(rows) < 2 or len(head) < 2 or len({*head}) < len(head) or any(len(row) != len(head) for row in rows):
        return False
    if settings.text_field != AUTO:
        return settings.text_field in head
    return TEXTS[0] in head or (len(rows) > 2 and len(head) > 2 and all(map(_COLUMN.fullmatch, head)))


def _has_columns(rows: list[list[str]], settings: IngestSettings) -> bool:
    """True if a setting names a column by its number, and all first rows have that column and equally many cells."""
    asked = [int(name) for name in (settings.text_field, settings.text_b) if name.isdecimal() and name.isascii()]
    width = len(rows[0]) if rows else 0
    return bool(asked) and max(asked) <= width > 1 and all(len(row) == width for row in rows)


def _counting_lines(blocks: Iterator[bytes], source: Source) -> Iterator[bytes]:
    """Yield the blocks of a file of lines; `source.seen` counts its lines."""
    block = b"\n"
    for block in filter(None, blocks):
        source.seen.lines += block.count(b"\n")
        yield block
    source.seen.lines += not block.endswith(b"\n")


def text_records(
    lines: Iterable[tuple[int, str]], *, source: str, documents: Literal["file", "block", "line"], first_line_title: bool,
    newline: Newline, max_bytes: int,
) -> Iterator[Record]:  # fmt: skip
    r"""Yield records of numbered lines of plain text; a record beyond `max_bytes` is given in parts as it grows.

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
    """The record of plain text whose lines are being collected; it opens with a line that is not blank."""

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
        """Add a line to the record of plain text."""
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
        """Yield the record, if one is open, in as many parts as it needs; nothing is open then."""
        if self.is_open:
            yield from split_record(self._record(), self.max_bytes)
            self._clear()

    def _record(self) -> Record:
        """Return the record of the lines of plain text collected so far."""
        text = "".join(self.lines)
        return Record(text, self.source, self.line, title=self.title, newline=self.newline, part=self.part)


_NOT_TIDY = re.compile(r"\\(?:r|u000[0dD]|u[dD][89a-fA-F])")  # escapes of what a corpus's strings do not have


def read_json_lines(opened: Opened) -> Iterator[Record]:
    """Yield one record for each line that holds a JSON object; blank lines are skipped.

    Raises:
        InputError: a line is not a JSON object, or the first one has no text field.
    """
    fields, beginning = opened.fields, opened.beginning()
    objects = _objects(opened.record_lines(), fields)
    head = _head(objects) if beginning is None else []
    if known := [one[2] for one in head or (_head(_objects(*beginning)) if beginning is not None else [])]:
        fields.choose_text(chain(*known), seen_fields(known, from_text=False))
        some = known if fields.settings.bad_records == "skip" else known[:1]
        fields.require_text(dict.fromkeys(chain(*some)))
        fields.require_target(dict.fromkeys(chain(*known)))
        fields.choose_id(known)
    for number, width, values in chain(head, objects):
        if record := fields.record(values, number, width):
            yield record


def _objects(lines: Iterable[tuple[int, str]], fields: Fields) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield number, length and object of each line of JSON Lines that has one."""
    hint = "write one JSON object per line"
    for number, line in lines:
        if line.isspace():
            continue
        try:
            values = _JSON.decode(line.rstrip("\r\n"))  # of a line that was cut off its end is what is wrong
        except RepeatedFieldError as error:
            fields.bad_repeated(error, number)
            continue
        except (ValueError, RecursionError) as error:
            got: object = error
            if isinstance(error, json.JSONDecodeError):  # to which every line is the first
                got = f"{error.msg.removesuffix(' at')} at column {error.colno}"
            fields.bad("not_json", "the line is not valid JSON", number, got=got, hint=hint)
            continue
        if not isinstance(values, dict):
            fields.bad("not_object", "not a JSON object", number, got=type(values).__name__, hint=hint)
            continue
        if "\\" in line and _NOT_TIDY.search(line):
            text = {name: values.pop(name) for name in (fields.settings.text_field,) if name in values}
            try:
                values = text | (fields.tidied(values) or {})  # the text is made tidy later, with the spans in it
            except RepeatedFieldError as error:
                fields.bad_repeated(error, number)
                continue
        yield number, len(line), values


def _head(records: Iterator[tuple[int, int, dict[str, Any]]]) -> list[tuple[int, int, dict[str, Any]]]:
    """Return the first records of lines of JSON, CSV or TSV, by which the fields are known."""
    head, chars = [], 0
    for record in records:
        head.append(record)
        chars += record[1]
        if len(head) == HEAD_RECORDS or chars >= HEAD_CHARS:
            break
    return head


def csv_delimiter(header: str) -> str:
    """Return what parts the cells of a CSV: the commonest of comma, semicolon, tab and bar in its header, else comma.

    >>> csv_delimiter("title;text;year")
    ';'
    """
    return max(",;\t|", key=header.count)


def said_delimiter(line: str) -> str | None:
    """Return what a line such as "sep=;" says parts the cells below, as Excel reads and writes it; None of any other line.

    >>> said_delimiter("sep=;")
    ';'
    """
    said = _SAID_DELIMITER.match(line)
    return None if said is None else said[1].replace("\\t", "\t")


def read_csv(opened: Opened) -> Iterator[Record]:
    """Yield one record for each row of a CSV after the header, if there is one; the comma may also be a semicolon, tab or bar.

    Raises:
        InputError: bad quoting, more cells than the header has, or no text column.
    """
    return _rows(_csv_rows(opened.record_lines(), opened.fields, opened.longest), opened.fields)


def read_tsv(opened: Opened) -> Iterator[Record]:
    """Yield a record for each line of a TSV after its header, if any. TSV has no quotes: no cell has a tab or a line end.

    Raises:
        InputError: a line has more cells than the header, or there is no text column.
    """
    beginning = opened.beginning()
    known = None if beginning is None else (_tsv_rows(beginning[0]), beginning[1])
    return _rows(_tsv_rows(opened.record_lines()), opened.fields, known)


def _tsv_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of each row of a TSV that is not blank."""
    delimiter = "\t"
    for place, (number, line) in enumerate(lines):
        if place == 0 and (said := said_delimiter(line)) is not None:
            delimiter = said
        elif not line.isspace():
            yield number, line.rstrip("\n").split(delimiter)


def _csv_rows(lines: Iterable[tuple[int, str]], fields: Fields, longest: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of each row of a CSV that is not blank; after bad quotes it goes on with the next line."""
    all_texts = (line for _, line in lines)
    # a first line may say what parts cells; else the header shows it
    header, before = next(all_texts, ""), 0
    if (said := said_delimiter(header)) is not None:
        header, before = next(all_texts, ""), 1
    delimiter = said or csv_delimiter(header)
    texts = chain([header], all_texts)
    # the csv module has one bound for the whole process, 128 KiB unless raised
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    rows = csv.reader(texts, delimiter=delimiter, strict=True)
    # row by row: after bad quotes a new reader begins with the next line
    while True:
        line = before + rows.line_num + 1
        try:
            cells = next(rows, None)
        # a cell that never ends has taken all lines up to where the reader gave up
        except csv.Error as error:
            fields.bad("bad_quotes", "bad CSV", line, got=error, hint="fix the quotes in this line")
            before += rows.line_num
            rows = csv.reader(texts, delimiter=delimiter, strict=True)
            continue
        if cells is None:
            return
        if cells:
            yield line, cells


def _rows(
    rows: Iterator[tuple[int, list[str]]],
    fields: Fields,
    beginning: tuple[Iterator[tuple[int, list[str]]], Fields] | None = None,
) -> Iterator[Record]:
    """Yield the records of the rows of a CSV or TSV, once header and fields are known."""
    of_file, silent = beginning or (rows, fields)
    first = next(of_file, None)
    if first is None:
        return
    names, is_header = fields.columns(first[1])
    if beginning is not None and is_header and (one := next(rows, None)) is not None:
        rows = rows if one[0] == first[0] else chain([one], rows)  # the header is in the first piece alone
    of_file, holder = (of_file, "the header") if is_header else (chain([first], of_file), "the first line")
    known = _named_cells(of_file, _unique(names), silent, holder)
    head = _head(known)
    fields.choose_text(names, seen_fields([one[2] for one in head], from_text=True))
    fields.require_text(names, first_row=True)
    fields.require_target(names, first_row=True)
    fields.choose_id([one[2] for one in head])
    records = chain(head, known) if beginning is None else _named_cells(rows, _unique(names), fields, holder)
    for line, width, values in records:
        if record := fields.record(values, line, width):
            yield record


def _unique(names: Iterable[str]) -> list[str]:
    """Return different names of columns of a CSV or TSV: a number is added to a name that came before."""
    found: dict[str, None] = {}
    for name in names:
        number, unique = 1, name
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found[unique] = None
    return [*found]


def _named_cells(
    rows: Iterator[tuple[int, list[str]]], names: list[str], fields: Fields, holder: str
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield line, width and cells by the names of their columns, of each row of a CSV or TSV."""
    for line, cells in rows:
        if len(cells) > len(names):
            expected, hint = f"at most {len(names)}", "fix the quotes or tabs in this line"
            what = f"the row has more cells than {holder}"
            fields.bad("too_many_cells", what, line, got=len(cells), expected=expected, hint=hint)
            continue
        if len(cells) < len(names):
            fields.ledger.add("rows_with_missing_cells")
            what = f"some rows have fewer cells than the header ({len(names)} cells); missing cells are empty"
            fields.ledger.warn("missing_cells", f"{what}; see {fields.source}:{line}")
        yield line, sum(map(len, cells)), dict(zip(names, cells, strict=False))


def first_values(source: Source) -> list[dict[str, Any]]:
    """Return the fields of the first records of a file of JSON Lines, CSV or TSV; what cannot be read among them is left out.

    Raises:
        InputError: the file is missing, binary or damaged.
        StorageError: reading it failed.
    """
    settings, ledger = IngestSettings(bad_records="skip"), Ledger()
    decoder = Decoder(source.name, settings.bad_bytes, ledger)
    fields, longest = Fields(settings, decoder), LINE_FACTOR * settings.max_document_bytes
    with source.open() as file:
        blocks = text_blocks(read_blocks(file, source.name, lambda _: None), source, settings, ledger)
        lines = islice(decoder.lines(blocks, longest=longest, cut_longer=False), 10 * HEAD_RECORDS)
        if source.format == "jsonl":
            found = _objects(lines, fields)
        else:
            rows = _csv_rows(lines, fields, longest) if source.format == "csv" else _tsv_rows(lines)
            names, is_header = fields.columns((first := next(rows, (1, [])))[1])
            found = _named_cells(rows if is_header else chain([first], rows), _unique(names), fields, "the first line")
        return [values for _, _, values in _head(found)]


_LONE_RETURN = re.compile(rb"\r(?!\n)")


def parallel_records(
    first: Source, second: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
) -> Iterator[Record]:
    """Yield one record for each line of two parallel files, `text_b` among its own columns; empty lines are records as well.

    Args:
        first: its lines are the texts; its name and its line stand beside each pair.
        second: its lines are the second texts.
        settings: policies and bounds.
        ledger: of both; counts what is replaced or dropped in either.
        on_bytes: called with how many more bytes on disk were read.

    Raises:
        InputError: one file has more lines than the other, a line is too long, or a file is missing, binary or damaged.
        StorageError: reading failed.
    """
    files = [_Lines(source, settings, ledger, on_bytes) for source in (first, second)]
    texts, seconds = (iter(file) for file in files)
    for line in count(1):
        text, second_text = next(texts, None), next(seconds, None)
        if text is None and second_text is None:
            return
        if text is None or second_text is None:
            for rest in (texts, seconds):
                for _ in rest:  # to the end, for the number of lines
                    pass
            numbers = [file.number for file in files]
            longer = files[numbers.index(max(numbers))].source.name
            raise InputError(
                "the two files must have the same number of lines", where=f"{first.name}, {second.name}",
                got=f"{numbers[0]:,} and {numbers[1]:,} lines",
                hint=f"line {line:,} of {longer} has no matching line; look for a missing or extra line before line {line:,}",
            )  # fmt: skip
        own = {"text_b": second_text}
        yield Record(text, first.name, line, own=own, width=len(second_text), lines_follow=False)


class _Lines:
    """The lines of one of two parallel files, without their ends; one that the policy for bad bytes drops is empty.

    Attributes:
        number: how many have been read so far.
    """

    def __init__(
        self, source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
    ) -> None:
        self.source, self.number = source, 0
        self._settings, self._ledger, self._on_bytes = settings, ledger, on_bytes
        self._ends, self._is_open = 0, False  # line ends so far, and whether bytes follow the last

    def __iter__(self) -> Iterator[str]:
        source, settings = self.source, self._settings
        decoder = Decoder(source.name, settings.bad_bytes, self._ledger)
        with source.open() as file:
            blocks = text_blocks(read_blocks(file, source.name, self._note), source, settings, self._ledger)
            lines = decoder.lines(self._tidied(blocks), longest=settings.max_document_bytes, cut_longer=False)
            for number, line in lines:
                while self.number < number - 1:
                    self.number += 1
                    yield ""
                self.number += 1
                yield line.removesuffix("\n")
        while self.number < self._ends + self._is_open:
            self.number += 1
            yield ""
        source.seen.is_whole = True

    def _note(self, block: bytes) -> None:
        self._on_bytes(len(block))
        if self.source.kind == "stream":
            self.source.seen.note(block)

    def _tidied(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the blocks of a CSV, each lone carriage return a space; ends of lines are counted."""
        held = b""  # a carriage return at the end of a block, of which the next one says what it is
        for block in blocks:
            block = held + block
            held = b"\r" if block.endswith(b"\r") else b""
            block = block.removesuffix(held)
            if b"\r" in block:
                block, lone = _LONE_RETURN.subn(b" ", block)
                self._ledger.add("carriage_returns_replaced", lone)
            if block:
                self._ends += block.count(b"\n")
                self._is_open = not block.endswith(b"\n")
                yield block
