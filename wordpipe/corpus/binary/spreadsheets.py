"""Spreadsheets (XLSX, XLSB, XLS, ODS) as records: a row below the header of its sheet is a record, with typed columns.

The header is the first row that fills at least 60 % of the columns and of which all filled cells are different words; rows
above it are one text. A sheet without such a row has its columns called A, B, …. Where a column is called as a text usually is
(`text`, `body`, `description`, …), or a setting names one, it is the text of a record, as in CSV. Otherwise the text is the
whole row, as "column: value; column: value", and the title is that of the sheet. The column `sheet` names the sheet; the line
is the row.

Numbers, dates and truth values are typed as the cells are; a whole number is an integer. A formula is read as the value that
it had when the file was saved. Hidden sheets, hidden rows (of XLSX and ODS), and sheets of charts, are left out and counted.

The library is calamine, in a child process: `cells` runs there, and the rest in the process that reads.
"""

import io
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from importlib.util import find_spec
from itertools import chain, groupby, islice
from typing import Any, BinaryIO
from xml.sax.saxutils import unescape
from zipfile import ZipFile

import pyarrow as pa

from wordpipe.corpus.binary.bounded import Unreadable, values_of
from wordpipe.corpus.binary.packages import DAMAGED, OLD_OFFICE
from wordpipe.corpus.binary.word import LEFT_OUT
from wordpipe.corpus.documents import Record
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.formats import READERS
from wordpipe.corpus.reading import Opened
from wordpipe.corpus.record_fields import TEXTS, seen_fields
from wordpipe.corpus.settings import AUTO
from wordpipe.errors import InputError
from wordpipe.wording import place_anchor

_LONGEST_PART = 64 << 20  # bytes of the content that is rewritten
_MOST_HIDDEN = 1 << 16  # rows that one row stands for
_OF_TABLE = re.compile(rb"<table:table(?:-row)?(?=[\s>/])[^>]*>")
_BETWEEN = re.compile(rb">\s+<")
_SHEET, _LINK = re.compile(rb"<(?:\w+:)?sheet\s[^>]*>"), re.compile(rb"<(?:\w+:)?Relationship\s[^>]*>")
_ROW, _HIDDEN = re.compile(rb"<(?:\w+:)?row\s[^>]*>"), re.compile(rb"\shidden\s*=\s*[\"'](?:1|true)[\"']")
_PARSER = "wordpipe.corpus.binary.spreadsheets:cells"
_AT_ONCE = 256  # rows that come from the child at a time
_LOOKED_AT = 50  # rows, by which the header is known
_FILLED = 0.6  # of the columns that a header fills, at least
_LONGEST_NAME = 100  # characters of a cell of a header
_WHOLE = "the row"  # the field of the text, where it is the whole row
_UNNAMED = re.compile(r"[^\W\d_]+ ?\d{1,2}\Z")  # of a sheet that nobody gave a name: "Sheet1", "Tabelle 2"

Row = tuple[int, list[Any]]
"""The number of a row, from 1, and its cells; None for an empty one."""


def cells(file: BinaryIO) -> Iterator[Any]:
    """Yield the sheets of a spreadsheet as values of JSON, in a child process: some rows of a sheet at a time, with its name.

    Raises:
        Unreadable: it is damaged, or has a password.
    """
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

    try:
        try:
            book = CalamineWorkbook.from_filelike(file)
        except CalamineError:
            file.seek(0)
            if file.read(len(OLD_OFFICE)) == OLD_OFFICE:
                what = "the file has a password, or is damaged"
                raise Unreadable(what, hint="save the file without a password") from None
            if (other := _without_spaces(file)) is None:
                raise
            book = CalamineWorkbook.from_filelike(other)
        hidden = _hidden_rows(file)
        for about in book.sheets_metadata:
            if about.typ != SheetTypeEnum.WorkSheet:
                yield {"left_out": "sheets of charts"}
                continue
            if about.visible != SheetVisibleEnum.Visible:
                yield {"left_out": "hidden sheets"}
                continue
            sheet = book.get_sheet_by_name(about.name)
            first = sheet.start[0] + 1 if sheet.start is not None else 1
            rows = enumerate(sheet.iter_rows(), start=first)
            not_shown, left_out = hidden.get(about.name, frozenset[int]()), 0
            while some := [[number, [*map(_plain, row)]] for number, row in islice(rows, _AT_ONCE)]:
                shown = [row for row in some if row[0] not in not_shown]
                left_out += len(some) - len(shown)
                yield {"sheet": about.name, "rows": shown}
            for _ in range(left_out):
                yield {"left_out": "hidden rows"}
    except PasswordError:
        raise Unreadable("the file has a password", hint="save the file without a password") from None
    except CalamineError as error:
        raise Unreadable("the file is damaged", str(error)[:200]) from None


def _without_spaces(file: BinaryIO) -> BinaryIO | None:
    """Return an OpenDocument spreadsheet without white space between its elements, which calamine takes for damage."""
    copy = io.BytesIO()
    try:
        with ZipFile(file) as old, ZipFile(copy, "w") as new:
            if b"opendocument.spreadsheet" not in old.read("mimetype"):
                return None
            for name in ("mimetype", "content.xml", "META-INF/manifest.xml"):
                with old.open(name) as part:
                    data = part.read(_LONGEST_PART + 1)
                if len(data) > _LONGEST_PART:
                    return None
                new.writestr(name, _BETWEEN.sub(b"><", data))
    except (*DAMAGED, KeyError):
        return None
    copy.seek(0)
    return copy


def _hidden_rows(file: BinaryIO) -> dict[str, frozenset[int]]:
    """Return the numbers of the hidden rows of each sheet of an XLSX or ODS file; of other files nothing is known."""
    found: dict[str, frozenset[int]] = {}
    try:
        with ZipFile(file) as parts:
            if "content.xml" in parts.NameToInfo:
                return _hidden_rows_of_ods(parts)
            book = parts.read("xl/workbook.xml")
            links = dict(_of_links(parts.read("xl/_rels/workbook.xml.rels")))
            for tag in _SHEET.findall(book):
                name, link = (_attribute(tag, one) for one in (b"name", b"id"))
                rows = set[int]()
                with parts.open(f"xl/{links[link].removeprefix('/xl/')}") as part:
                    held = b""
                    while block := part.read(1 << 20):
                        held += block
                        for row in _ROW.findall(held):
                            if _HIDDEN.search(row):
                                rows.add(int(_attribute(row, b"r")))
                        held = held[held.rfind(b"<") :]  # a tag that the block has cut
                found[_plain_text(name)] = frozenset(rows)
    except (*DAMAGED, KeyError, ValueError):
        return {}
    return found


def _hidden_rows_of_ods(parts: ZipFile) -> dict[str, frozenset[int]]:
    """Return the same for an OpenDocument spreadsheet, whose rows have no numbers, but say how often they are repeated."""
    found: dict[str, set[int]] = {}
    rows, number, held = set[int](), 1, b""
    with parts.open("content.xml") as part:
        while block := part.read(1 << 20):
            held += block
            for tag in _OF_TABLE.findall(held):
                if tag.startswith(b"<table:table "):
                    rows, number = found.setdefault(_plain_text(_attribute(tag, b"name")), set()), 1
                    continue
                times = int(_attribute(tag, b"number-rows-repeated") or 1)
                if _attribute(tag, b"visibility") in ("collapse", "filter"):
                    rows.update(range(number, number + min(times, _MOST_HIDDEN)))
                number += times
            held = held[held.rfind(b"<") :]  # a tag that the block has cut
    return {name: frozenset(some) for name, some in found.items()}


def _plain_text(text: str) -> str:
    """Return the value of an attribute of XML without entities."""
    return unescape(text, {"&quot;": '"', "&apos;": "'"})


def _of_links(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield id and target of the links of a part of an XLSX file."""
    for tag in _LINK.findall(data):
        yield _attribute(tag, b"Id"), _attribute(tag, b"Target")


def _attribute(tag: bytes, name: bytes) -> str:
    """Return an attribute of a tag; "" where it has none."""
    found = re.search(rb"(?:\s|:)" + name + rb"\s*=\s*([\"'])(.*?)\1", tag, re.DOTALL)
    return found[2].decode(errors="replace") if found else ""


def _plain(value: Any) -> Any:
    """Return a cell as a value of JSON: days and times in an object, of one key; nothing of an empty one."""
    if value == "" or value is None:
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1 << 53 else value
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    return {"day": value.isoformat()} if isinstance(value, date) else str(value)


def read(opened: Opened) -> Iterator[Record]:
    """Yield the records of a spreadsheet.

    Raises:
        InputError: it is damaged, has a password, or is a bomb; a setting names a column that a sheet does not have.
    """
    assert opened.file is not None
    name = opened.source.name
    if find_spec(READERS["spreadsheet"].needs) is None:
        what = "reading spreadsheets needs the package python-calamine, which is not installed"
        raise InputError(what, where=name, hint="pip install 'wordpipe[documents]'")
    found = values_of(_PARSER, opened.file, name)
    for (sheet, what), values in groupby(found, lambda one: (one.get("sheet"), one.get("left_out"))):
        if what is not None:
            opened.ledger.add_named(LEFT_OUT, what, len([*values]))
        else:
            yield from _records(opened, sheet, ((n, [*map(_typed, row)]) for one in values for n, row in one["rows"]))


def _typed(value: Any) -> Any:
    """Return a cell from the child as the value of a field."""
    if not isinstance(value, dict):
        return value
    if "day" in value:
        return pa.scalar(date.fromisoformat(value["day"]), pa.date32())
    return pa.scalar(datetime.fromisoformat(value["time"]), pa.timestamp("us"))


def _records(opened: Opened, sheet: str, rows: Iterator[Row]) -> Iterator[Record]:
    """Yield the records of a sheet: the text above its header, then its rows."""
    filled = ((number, row) for number, row in rows if any(cell is not None for cell in row))
    head = [*islice(filled, _LOOKED_AT)]
    if not head:
        return
    fields, title = Fields(opened.settings, opened.decoder), None if _UNNAMED.fullmatch(sheet) else sheet
    # what stands above the header is text
    at = _header(head)
    above = [" | ".join(_shown(cell) for cell in row if cell is not None) for _, row in head[: at or 0]]
    if above:
        yield Record(
            opened.decoder.string("\n".join(above)), opened.source.name, head[0][0], title, newline="paragraph",
            metadata=fields.metadata_of({"sheet": sheet}, head[0][0]), own=_place(sheet, head[0][0]), lines_follow=False,
        )  # fmt: skip
    names = _names([] if at is None else head[at][1], max(len(row) for _, row in head))
    records = _named(names, chain(head[0 if at is None else at + 1 :], filled), sheet)
    known = [*islice(records, _LOOKED_AT)]
    # which column is the text, or that the whole row is
    settings = opened.settings
    has_text = settings.text_field != AUTO or any(name.lower() in TEXTS for name in names)
    if has_text:
        fields.choose_text(names, seen_fields([values for _, values in known], from_text=False))
        fields.require_text(names, first_row=True)
        fields.require_target(names, first_row=True)
    else:
        fields = Fields(settings.model_copy(update={"text_field": _WHOLE}), opened.decoder)
    fields.choose_id([values for _, values in known])
    for number, values in chain(known, records):
        whole = "; ".join(f"{name}: {_shown(value)}" for name, value in values.items() if name != "sheet")
        record = fields.record({**values, **({} if has_text else {_WHOLE: whole})}, number, len(whole))
        if record is not None:
            record.title = record.title or title
            record.own = {**record.own, **_place(sheet, number)}
            yield record


def _place(sheet: str, row: int) -> dict[str, Any]:
    """Return the columns of ours that say where a row stands."""
    return {"anchor": place_anchor("sheet", f"{sheet}:{row}")}


def _header(head: Sequence[Row]) -> int | None:
    """Return which of the first rows is the header; None where there is none."""
    width = max(sum(cell is not None for cell in row) for _, row in head)
    for at, (_, row) in enumerate(head[:-1]):  # one below it has values
        found = [cell for cell in row if cell is not None]
        words = {" ".join(cell.split()) for cell in found if isinstance(cell, str) and len(cell) <= _LONGEST_NAME}
        is_one = len(found) > 1 or (width == 1 and str(found[0]).strip().lower() in TEXTS)
        if len(words) == len(found) >= _FILLED * width and is_one:
            return at
    return None


def _names(header: Sequence[Any], width: int) -> list[str]:
    """Return the names of columns, each another: the words of the header, or the letter of the column.

    >>> _names(["Year", None, "Year"], 4)
    ['Year', 'B', 'Year C', 'D']
    """
    names: list[str] = []
    for at in range(max(width, len(header))):
        letters, number = "", at + 1
        while number:
            number, letter = divmod(number - 1, 26)
            letters = chr(ord("A") + letter) + letters
        cell = header[at] if at < len(header) else None
        name = " ".join(str(cell).split()) if cell is not None else letters
        names.append(name if name not in names else f"{name} {letters}")
    return names


def _named(names: Sequence[str], rows: Iterator[Row], sheet: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and fields of each row; empty cells are no fields."""
    about = {} if "sheet" in names else {"sheet": sheet}
    for number, row in rows:
        yield number, {**{name: cell for name, cell in zip(names, row, strict=False) if cell is not None}, **about}


def _shown(cell: Any) -> str:
    """Return a cell as text, on one line."""
    if isinstance(cell, pa.Scalar):
        value = cell.as_py()
        return str(value.isoformat(" ") if isinstance(value, datetime) else value.isoformat())
    return ("yes" if cell else "no") if isinstance(cell, bool) else " ".join(str(cell).split())
