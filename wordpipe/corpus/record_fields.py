"""The fields of records, as far as the first records show: which of them are text, title and id."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TEXTS = ("text", "body", "content", "contents", "article", "abstract", "description", "passage", "answer")
TITLES = ("title", "headline", "heading", "subject", "name")
IDS = (
    "id", "_id", "uuid", "key", "record_id", "doc_id", "isbn", "doi", "number", "no", "nr", "call number", "call no.",
    "callno", "call_number", "signature", "signatur", "reference", "ref",
)  # fmt: skip
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
    """Return the field that is the text of records, by its name or its length; and their title, by its name."""
    strings = [field for field in fields if field.type == "str"]
    text = called(TEXTS, strings) or max(strings, key=lambda field: field.length, default=None)
    return text, called(TITLES, [field for field in strings if field != text])
