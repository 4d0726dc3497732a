"""The fields of records, as far as the first records show: which of them are text, title and id; their values by type."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

import pyarrow as pa

TEXTS = (
    "text", "body", "content", "contents", "article", "abstract", "description", "passage", "answer", "inhalt",
    "beschreibung", "texte", "contenu", "texto", "contenido", "testo",
)  # fmt: skip
TITLES = (
    "title",
    "headline",
    "heading",
    "titel",
    "überschrift",
    "titre",
    "título",
    "titulo",
    "titolo",
    "subject",
    "name",
)
IDS = (
    "id", "_id", "uuid", "key", "record_id", "doc_id", "isbn", "doi", "number", "no", "nr", "call number", "call no.",
    "callno", "call_number", "signature", "signatur", "reference", "ref",
)  # fmt: skip
_TRUE, _FALSE = {"true", "yes", "1", "t", "y"}, {"false", "no", "0", "f", "n"}
_VALUE = re.compile(r"[+-]?(\d+([.,]\d+)*|\.\d+)([eE][+-]?\d+)?%?|\d{4}-\d\d-\d\d([T ][\d:.+Z-]*)?")
_YEAR = re.compile(r"[12]\d{3}")
_NO_NUMBER = re.compile(r"[+-]?(0\d|nan|inf)|.*_", re.IGNORECASE)


@dataclass(frozen=True)
class Field:
    """A field of records, as far as the first records show."""

    name: str
    type: str  # str, int, float, bool, or other: lists and objects
    length: float  # characters in the mean, of strings
    distinct: bool  # every record has another value
    is_full: bool = False  # every record that was looked at has a value


def called(names: Sequence[str], fields: Iterable[Field]) -> Field | None:
    """Return the field of the records that has the first of these names, in upper or lower case."""
    by_name = {field.name.lower(): field for field in fields}
    return next((by_name[name] for name in names if name in by_name), None)


def seen_fields(records: Sequence[Mapping[str, Any]], *, from_text: bool) -> list[Field]:
    """Return the fields of the first records, in their order; empty values say nothing.

    Args:
        records: name → value of each.
        from_text: the values are the cells of a table, where a number is text.
    """
    values: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None and value != "":
                values.setdefault(name, []).append(value)
    return [_seen_field(name, found, len(records), from_text=from_text) for name, found in values.items()]


def _seen_field(name: str, values: Sequence[Any], records: int, *, from_text: bool) -> Field:
    """Return a field of the first records by its values: type, mean length, whether all differ."""
    if from_text:
        values = [_parsed(value) for value in values]
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        kinds = {float}
    if from_text and len(kinds) > 1:
        kinds, values = {str}, [str(value) for value in values]
    kind = next(iter(kinds)).__name__ if len(kinds) == 1 else "other"
    strings = [value for value in values if isinstance(value, str)]
    length = sum(map(len, strings)) / len(strings) if strings else 0.0
    distinct = kind in ("str", "int") and len(set(values)) == len(values)
    kind = kind if kind in ("str", "int", "float", "bool") else "other"
    return Field(name, kind, length, distinct, len(values) == records > 1)


def _parsed(text: str) -> str | int | float:
    """Return the number in a cell of a table, or the text if it says more than a number."""
    if _NO_NUMBER.match(text.strip()):
        return text
    for number in (int, float):
        try:
            if len(text) < 30:
                return number(text)
        except ValueError:
            continue
    return text


def text_and_title(fields: Sequence[Field]) -> tuple[Field | None, Field | None]:
    """Return the field that is the text of records, by its name or its length; and their title, by its name.

    Records that have nothing longer than a title have one field for both.
    """
    strings = [field for field in fields if field.type == "str"]
    text = called(TEXTS, strings) or max(strings, key=lambda field: field.length, default=None)
    if text is not None and called(TITLES, [text]) is not None:
        return text, text
    return text, called(TITLES, [field for field in strings if field != text])


def first_value(cells: Sequence[str]) -> str | None:
    """Return the first cell of a row that is a value, a number or a date, and no name of a column; None if all may be names.

    Years in a row are names, as in a table of figures by year; and a row with a usual name, such as id or title, is a header.

    >>> first_value(["7", "2.5", "a bee"]), first_value(["city", "2019", "2020"]), first_value(["id", "1"])
    ('7', None, None)
    """
    if any(cell.strip().lower() in (*TEXTS, *TITLES, *IDS) for cell in cells):
        return None
    values = [cell.strip() for cell in cells if _VALUE.fullmatch(cell.strip())]
    years = [int(value) for value in values if _YEAR.fullmatch(value)]
    is_by_year = len(years) > 1 and len(years) == len(values) and {abs(b - a) for a, b in pairwise(years)} == {1}
    return None if is_by_year or not values else values[0]


def _integer(value: Any) -> int:
    """Return the 64-bit integer of a field, exactly, however a program writes it: 3, "3.0", "3e2"; 3.5 is none."""
    try:
        number = Decimal(value) if isinstance(value, (str, Decimal)) else value
        is_whole = number == number and -(2**63) <= number < 2**63 and number == int(number)
    except InvalidOperation:
        raise ValueError from None
    if not is_whole:
        raise ValueError
    return int(number)


def _float(value: Any) -> float:
    """Return the finite number of a field."""
    if not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _date(value: Any) -> pa.Scalar:
    """Return the day of a field, written as in ISO 8601; with a time of day other than midnight it is refused."""
    found = value if isinstance(value, date) else datetime.fromisoformat(str(value).strip())
    if isinstance(found, datetime):
        if found.timetz() != time(tzinfo=found.tzinfo):
            raise ValueError
        found = found.date()
    return pa.scalar(found, pa.date32())


def _boolean(value: Any) -> bool:
    """Return the truth value of a field: true, yes, 1 or false, no, 0."""
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


CONVERTED: dict[str, Callable[[Any], Any]] = {"int": _integer, "float": _float, "bool": _boolean, "date": _date}
"""Type of a column → what makes a value of that type of one of a field. Raises TypeError, ValueError, OverflowError."""
