"""The fields of a source's records: which one is the text, the title, the id or a column of ours, and which are carried.

A record that cannot be read stops the ingest, or is left out, counted and told of, as `bad_records` says.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any

import pyarrow as pa

from wordpipe.corpus.columns import RepeatedFieldError, text_of, without_repeats
from wordpipe.corpus.decode import Decoder
from wordpipe.corpus.documents import Record
from wordpipe.corpus.record_fields import CONVERTED, TEXTS, Field, first_value, text_and_title
from wordpipe.corpus.settings import AUTO, IngestSettings, MetadataType
from wordpipe.errors import InputError

_USUAL_IDS = ("id", "_id")
HEAD_RECORDS, HEAD_CHARS = 100, 1 << 20  # of a source, looked at before the first record is made
_SHOWN = 60  # characters of a wrong value
_ALWAYS_THERE = frozenset({str, int, bool, type(None)})  # what is never a number that is not finite
_FLOAT_SCALARS = (pa.HalfFloatScalar, pa.FloatScalar, pa.DoubleScalar)
_NEAR, _LISTED = (
    3,
    20,
)  # names of fields that are told of: spelled like one that is not there, and of all that there are
_NUMBERED = (
    "; if the file has no header, give column numbers, for example --text-field 1, and for pairs also --text-b 2"
)


class Fields:
    """The fields of one source: makes records of them, counting what is dropped.

    Args:
        settings: which field is what.
        decoder: of the source.
        needs_id: the field that a setting names for ids must be among those of the first records.
    """

    def __init__(self, settings: IngestSettings, decoder: Decoder, *, needs_id: bool = False) -> None:
        self._needs_id = needs_id
        self.decoder, self.source, self.ledger = decoder, decoder.name, decoder.ledger
        self._own = settings.own_fields
        self._id = None if settings.id_field in ("auto", "none") else settings.id_field
        self._is_text_free = settings.text_field == AUTO
        self._use(settings.model_copy(update={"text_field": TEXTS[0]}) if self._is_text_free else settings)

    def _use(self, settings: IngestSettings) -> None:
        """Let these settings say which field is what."""
        self.settings, self._casts = settings, settings.metadata_types
        self._limited = bool(self._casts) or settings.no_metadata
        self._taken = {settings.text_field, settings.title_field, *self._own.values()}
        self._taken |= {self._id} if self._id else set()
        self._named = self._taken | {*self._casts}

    def choose_text(self, names: Iterable[str], fields: Sequence[Field]) -> None:
        """Find the fields of text and title in records without a field called text, unless a setting names the text.

        Args:
            names: of all fields that are there.
            fields: those that have values in the first records, or in a schema.
        """
        names = {*names}
        if not self._is_text_free or self.settings.text_field in names or self.settings.is_pairs:
            return  # which side of a pair is which must be said
        taken = {*self._own.values(), *({self._id} if self._id else ())}
        text, title = text_and_title([field for field in fields if field.name not in taken])
        if text is None:
            return
        chosen, said = {"text_field": text.name}, f"the text is the field {text.name!r} (see --text-field)"
        if title is not None and self.settings.title_field == "title" not in names:
            chosen["title_field"] = title.name
            if title != text:
                said = (
                    f"the text is the field {text.name!r}, the title {title.name!r} (see --text-field, --title-field)"
                )
        self._use(self.settings.model_copy(update=chosen))
        self.ledger.notes[f"{self.source}: {said}"] = None

    def columns(self, first: list[str]) -> tuple[list[str], bool]:
        """Return the names of a table's columns, and True if its first row is a header with these names.

        A number that a setting gives and no cell of the first row is names a column by its place, from 1. Where it is so and
        no setting names a cell of the first row, there is no header: the columns are called 1, 2, …, and the text is the
        first that nothing else is, unless a number says which.

        Raises:
            InputError: there are not so many columns.
        """
        if (no_header := self._no_header(first)) is not None:
            return [str(number) for number in range(1, len(first) + 1)], no_header
        numbers = sorted(int(name) for name in self._named if name.isdecimal() and name.isascii() and name not in first)
        if not numbers:
            return first, True
        if not 1 <= numbers[0] <= numbers[-1] <= len(first):
            number = numbers[0] if numbers[0] < 1 else numbers[-1]
            got = f"{len(first)} column{'s' * (len(first) != 1)} in line 1"
            hint = "column numbers start at 1; columns are separated by commas in CSV and by tabs in TSV"
            raise InputError(f"no column {number}", where=self.source, got=got, hint=hint)
        # a header names a field that a setting asks for
        usual = type(self.settings).model_fields
        asked = self._named - {usual["title_field"].default}  # which nobody asked for, and a text may be called so
        is_header = not asked.isdisjoint(first)
        names = [*first] if is_header else [str(number) for number in range(1, len(first) + 1)]
        for number in numbers:
            names[number - 1] = str(number)
        # without a header the text is the first column that nothing else is
        text = self.settings.text_field
        if not is_header and not text.isdecimal():
            free = next((place for place in range(len(first)) if place + 1 not in numbers), None)
            if self._is_text_free and free is not None:
                names[free] = text
        taken = {"text": text, **self._own}
        places = [f"{what} is column {names.index(name) + 1}" for what, name in taken.items() if name in names]
        head = "line 1 is a header" if is_header else "there is no header"
        self.ledger.notes[f"{self.source}: {head}; {', '.join(places)}"] = None
        return names, is_header

    def _no_header(self, first: list[str]) -> bool | None:
        """Return False if the first row of a table is no header, and says so; None where settings or names decide."""
        asked = self._named - {type(self.settings).model_fields["title_field"].default}
        numbered = any(name.isdecimal() and name not in first for name in self._named)
        if self.settings.header == "yes" or numbered or not asked.isdisjoint(first):
            return None
        value = first_value(first)
        if self.settings.header == "auto" and value is None:
            return None
        why = "" if value is None else f", because {value!r} is a value"
        self.ledger.notes[f"{self.source}: line 1 is read as a record, not as a header{why} (see --header)"] = None
        return False

    def require_text(self, names: Iterable[str], *, first_row: bool = False) -> None:
        """Raise unless the text field is among the names of a header, a schema or a first record.

        Args:
            names: of the fields that are there.
            first_row: they are the cells of a table's first row, which may be no header.

        Raises:
            InputError: names the fields that are there.
        """
        found = list(names)
        if self.settings.text_field not in found:
            what, hint = (
                f"the text field {self.settings.text_field!r} does not exist",
                "use --text-field to give the name of the field that contains the text",
            )
            hint += _NUMBERED if first_row else ""
            if near := [name for name in found if name.strip().lower() == self.settings.text_field.strip().lower()]:
                hint = (
                    f"field names must also match in capital letters and spaces; did you mean --text-field {near[0]!r}?"
                )
            raise InputError(what, where=self.source, got=_listed(found, first_row=first_row), hint=hint)
        self.refuse_repeated(name for name in found if name in self._named)

    def refuse_repeated(self, names: Iterable[str]) -> None:
        """Raise where a table has two columns of one name: the values of one of them would be lost.

        Raises:
            InputError: names the column.
        """
        if twice := sorted(name for name, number in Counter(names).items() if number > 1):
            raise InputError("a field occurs twice", where=self.source, got=", ".join(twice), hint="rename one field")

    def require_target(self, names: Iterable[str], *, first_row: bool = False) -> None:
        """Raise unless the field of the second text, where pairs are read, is among the names of the first records.

        Args:
            names: of the fields that are there.
            first_row: they are the cells of a table's first row, which may be no header.

        Raises:
            InputError: names the fields that are there.
        """
        found, name = list(names), self.settings.text_b
        if name and name not in found:
            what, got = f"the field {name!r} for the second text does not exist", _listed(found, first_row=first_row)
            near = near_fields(name, [one for one in found if one != self.settings.text_field])
            hint = "use --text-b to give the name of the field that contains the second text" + _NUMBERED * bool(
                first_row
            )
            hint = f"did you mean --text-b {' or '.join(near)}?" if near else hint
            raise InputError(what, where=self.source, got=got, hint=hint)

    def choose_id(self, head: Sequence[Mapping[str, Any]]) -> None:
        """Find the field that holds ids in the first records, unless a setting names one.

        Raises:
            InputError: a setting names it, and they do not have it.
        """
        if self._id and self._needs_id and head and self._id not in (seen := dict.fromkeys(chain(*head))):
            what, got = f"the id field {self._id!r} does not exist", ", ".join([*seen][:_LISTED])
            near = near_fields(self._id, [name for name in seen if name != self.settings.text_field])
            meant = f"did you mean {' or '.join(near)}? " if near else ""
            hint = f"{meant}{'U' if near else 'u'}se --id-field to give the name of the field that contains the ids"
            raise InputError(what, where=self.source, got=got, hint=hint)
        if self.settings.id_field != "auto":
            return
        for name in _USUAL_IDS:
            values = [value for record in head if (value := record.get(name)) is not None]
            taken = self._named - {*self._casts}
            if values and name not in taken and all(_is_id(value) for value in values):
                self._id = name
                self._taken.add(name)
                self.ledger.notes[f"the field {name!r} is used as the id of the records (see --id-field)"] = None
                return

    def wants(self, name: str) -> bool:
        """True if a column is needed: it is carried, named by a setting, or may hold ids."""
        may_be_id = self.settings.id_field == "auto" and name in _USUAL_IDS
        return not self._limited or name in self._named or may_be_id

    def record(self, values: dict[str, Any], line: int, width: int = 0) -> Record | None:
        """Return the record of these fields, or None (counted) where its text field is empty or it is left out.

        One field may be several things: a name that is the title and the id. What is one of these is no further column,
        unless a setting asks for it as one.

        Args:
            values: the fields by name.
            line: where the record is.
            width: characters of all of them, roughly.

        Raises:
            InputError: the text is not a string, or another field is not what the settings say it is.
        """
        # numbers that JSON does not have are left out
        ledger, settings = self.ledger, self.settings
        if not values.keys() <= ledger.fields_seen.keys():
            ledger.see_fields(values, self._named)
        if not _ALWAYS_THERE.issuperset(map(type, values.values())):
            values = {name: self._there(value, name, line) for name, value in values.items()}
        # the text, without which there is no record, but for a title or other fields that take its place
        text, title, keeps_empty = values.get(settings.text_field), values.get(settings.title_field), False
        if (text is None or (isinstance(text, str) and not text.strip())) and not settings.is_pairs:
            text, keeps_empty = self._instead(values, title, line)
        if text is None:
            ledger.add("documents_read")
            ledger.add("documents_dropped_no_text")
            self._warn_of_no_text("without the field", line)
            return None
        # a text that is none stops the ingest, or is left out
        if not isinstance(text, str):
            what, hint = (
                f"the field {settings.text_field!r} is not a string",
                "use --text-field to choose another field",
            )
            self.bad("text", what, line, got=type(text).__name__, hint=hint)
            return None
        # columns of ours, then the fields that are carried
        tidy = self.decoder.string(text)
        own: dict[str, Any] = {}
        if (self._own or self._id) and not self._fill(own, values, line, text, tidy):
            return None
        if self._limited:  # an id that was found goes by the type of its entry, and is no other column
            casts = (
                (name, kind) for name, kind in self._casts.items() if name != self._id or name == settings.id_field
            )
            values = {name: self._convert(values.get(name), kind, name, line) for name, kind in casts}
        else:
            values = {name: value for name, value in values.items() if name not in self._taken}
        # a record is told from others of the same text by all that stands beside, or by the id that somebody named
        title = None if title is None else self._as_text(title).strip() or None
        is_known = own.get("record_id") is not None and settings.id_field != AUTO
        beside = "" if is_known else _beside(title, values, own)
        return Record(
            tidy, self.source, line, title, values, own, max(0, width - len(text)),
            lines_follow=False, is_pair=settings.is_pairs, beside=beside, keeps_empty=keeps_empty,
        )  # fmt: skip

    def metadata_of(self, values: dict[str, Any], line: int) -> dict[str, Any]:
        """Return those of the fields that a reader finds by itself which the settings carry, in the types that they name.

        Args:
            values: the fields by name: the page, the sender of a mail.
            line: where the record is.
        """
        self.ledger.see_fields(values, self._named)
        if not self._limited:
            return values
        casts = ((name, kind) for name, kind in self._casts.items() if name in values)
        return {name: self._convert(values[name], kind, name, line) for name, kind in casts}

    def _instead(self, values: Mapping[str, Any], title: Any, line: int) -> tuple[str | None, bool]:
        """Return the blank text of a record, for which its title may count, or None; and whether the record is kept so."""
        name = self.settings.text_field
        blank = values.get(name) or ""
        keeps = self.settings.empty_text == "fields" and not self._own
        if title is not None and self._as_text(title).strip():
            return blank, keeps
        others = (self._casts.keys() if self._limited else values.keys()) - self._taken  # those that are carried
        if keeps and any(values.get(key) not in (None, "") for key in others):
            return blank, True
        if values.get(name) is not None:
            self._warn_of_no_text("with an empty field", line)
        return values.get(name), False

    def _warn_of_no_text(self, what: str, line: int) -> None:
        """Warn of records that are skipped as they have no text."""
        place = f"the first one is at {self.source}:{line}"
        way = ""
        if self.settings.empty_text == "skip" and not self._own:
            way = "; to keep them, so that they are found by their other fields, use --empty-text fields"
        self.ledger.warn(f"no_text {what}", f"records {what} {self.settings.text_field!r} were skipped; {place}{way}")

    def _there(self, value: Any, name: str, line: int) -> Any:
        """Return a field's value without numbers that are not finite, which are counted: None in their place."""
        if type(value) in _ALWAYS_THERE:
            return value
        try:
            return self._finite(value, name, line)
        except RecursionError:
            self.ledger.add_named("values_left_out", "(nested too deep)")
            return None

    def _finite(self, value: Any, name: str, line: int) -> Any:
        """Return the value of a field without numbers that are not finite."""
        kind = type(value)
        if kind is list:
            is_flat = {float, list, dict, *_FLOAT_SCALARS}.isdisjoint(map(type, value))
            return value if is_flat else [self._finite(item, name, line) for item in value]
        if kind is dict:
            return {key: self._finite(item, name, line) for key, item in value.items()}
        number = value.as_py() if kind in _FLOAT_SCALARS else value
        if type(number) is not float or math.isfinite(number):
            return value
        self.ledger.add_named("values_not_finite", name)
        self.ledger.warn(
            "not_finite", "numbers that are not finite (NaN, Infinity) are stored as empty values; the first one is in the "
            f"field {name!r} at {self.source}:{line}",
        )  # fmt: skip
        return None

    def bad(self, reason: str, what: str, line: int, *, place: str = "", **more: Any) -> None:
        """Leave out a record whose fields cannot be read, or stop; its place is its line, unless another is given.

        Raises:
            InputError: no record may be left out.
        """
        error = InputError(what, where=f"{self.source}, {place or f'line {line}'}", **more)
        if self.settings.bad_records != "skip":
            hint = f"{error.hint}; or use --bad-records skip to skip records that cannot be read"
            error.hint = hint if error.hint else "use --bad-records skip to skip records that cannot be read"
            raise error
        self.ledger.skip(reason, error.message)

    def bad_repeated(self, error: RepeatedFieldError, line: int, *, place: str = "") -> None:
        """Leave out a record of which an object has a key twice, or stop: it would be lost what one of the two says."""
        self.bad("repeated_key", "a key occurs twice in an object", line, place=place, got=error, hint="rename one key")

    def _fill(self, own: dict[str, Any], values: dict[str, Any], line: int, text: str, tidy: str) -> bool:
        """Put the columns of ours that fields fill into `own`; False where the record is left out."""
        if (name := self._id) is not None:
            value = values.get(name)
            if type(value) is str and name not in self._casts:  # nearly every id
                own["record_id"] = self.decoder.string(value)
            elif not self._fill_id(own, name, value, line):
                return False
        for column, name in self._own.items():
            value = values.get(name)
            if value is None:
                own[column] = None
            elif column == "spans":
                if (found := self._spans(value, text, tidy, line)) is None:
                    return False
                own[column] = found
            elif column == "tags" or (column == "label" and isinstance(value, list)):
                items = value if isinstance(value, list) else [value]
                own[column] = [None if item is None else self._as_text(item) for item in items]
            else:
                own[column] = value if column == "label" and type(value) is int else self._as_text(value)
        return True

    def _fill_id(self, own: dict[str, Any], name: str, value: Any, line: int) -> bool:
        """Put the record's own id, the value of the field `name`, into `own`; False where the record is left out."""
        if name in self._casts and self.settings.id_field == "auto":
            value = self._convert(value, self._casts[name], name, line)
        if value is None:
            self.ledger.add("records_without_id")
            message = f"records without the field {name!r} have no id; the first one is at {self.source}:{line}"
            self.ledger.warn("no_id", message)
        elif not _is_id(value):
            what, hint = (
                f"the value of the field {name!r} cannot be used as an id",
                "use --id-field to choose another field, or use --id-field none",
            )
            self.bad("id", what, line, got=_shown(value), expected="a string or a number", hint=hint)
            return False
        own["record_id"] = value if value is None or type(value) is int else self._as_text(value)
        return True

    def _spans(self, value: Any, text: str, tidy: str, line: int) -> list[dict[str, Any]] | None:
        """Return a record's spans in characters of its text in the corpus; None if they are wrong (it is left out)."""
        spans = []
        for span in value if isinstance(value, list) else [value]:
            if isinstance(span, list) and len(span) == 3:
                span = dict(zip(("start", "end", "label"), span, strict=True))
            start, end = (span.get("start"), span.get("end")) if isinstance(span, dict) else (None, None)
            if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(text):
                expected = (
                    f"an object with start, end and label; start and end are from 0 to {len(text)}, the text length"
                )
                what = f"a value of the field {self.settings.spans_field!r} is not a valid span of the text"
                self.bad("spans", what, line, got=_shown(span), expected=expected)
                return None
            if len(tidy) != len(text):  # a line end of two characters has become one
                start, end = (place - text.count("\r\n", 0, place) for place in (start, end))
            label = span.get("label")
            spans.append({"start": start, "end": end, "label": None if label is None else self._as_text(label)})
        return spans

    def tidied(self, value: Any) -> Any:
        """Return a field's value of JSON, or a record, with all its strings as the corpus has strings.

        Raises:
            RepeatedFieldError: two names of an object become one.
        """
        try:
            return self._tidied(value)
        except RecursionError:
            self.ledger.add_named("values_left_out", "(nested too deep)")
            return None

    def _tidied(self, value: Any) -> Any:
        """Return a field's value of JSON with tidy strings, without a bound on its depth."""
        if isinstance(value, str):
            return self.decoder.string(value)
        if isinstance(value, list):
            return [self._tidied(item) for item in value]
        if isinstance(value, dict):
            return without_repeats([(self.decoder.string(name), self._tidied(item)) for name, item in value.items()])
        return value

    def _as_text(self, value: Any) -> str:
        """Return the value of a field as a string of the corpus."""
        return self.decoder.string(value if type(value) is str else text_of(value))

    def _convert(self, value: Any, kind: MetadataType | None, name: str, line: int) -> Any:
        """Return the value of a field as its column's type; what cannot be converted is null and counted."""
        if kind is None or value is None or (value == "" and kind != "str"):
            return value if kind is None else None
        try:
            if kind == "str":
                return self._as_text(value)
            value = value.as_py() if isinstance(value, pa.Scalar) else value
            return CONVERTED[kind](value)
        except (TypeError, ValueError, OverflowError):
            self.ledger.add_named("metadata_not_converted", name)
            message = (
                f"some values of {name} are not of type {kind} and are left empty; the first is {str(value)[:40]!r} in "
                f"{self.source}, line {line}; use --metadata {name} without a type to keep all values as text"
            )
            self.ledger.warn(f"convert {name}", message)
            return None


def _listed(names: Sequence[str], *, first_row: bool) -> str:
    """Return the names of the fields for an error; the cells of a first row may be whole texts."""
    listed = ", ".join(_shown(name) if first_row else name for name in names[:_LISTED]) or "no fields"
    return f"{listed} in line 1" if first_row else listed


def near_fields(name: str, seen: Sequence[str]) -> list[str]:
    """Return the names of fields that are spelled like a name that is missing."""
    near = get_close_matches(name, seen, n=_NEAR, cutoff=0.5)
    begins = [one for one in seen if one.lower().startswith(name.lower()[:3])]
    return near or get_close_matches(name.lower(), begins, n=_NEAR, cutoff=0.1)


def _beside(title: str | None, values: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return the values of all fields beside a record's text and id, in one string whatever their order; empty for nothing."""
    # the second text of a pair is text, and counts as such; an id that a record loses to another changes nothing else
    mine = (value for name, value in own.items() if name not in ("text_b", "record_id"))
    said = [[text_of(value) if value is not None else None for value in (title, *mine)]]
    said += [[name, text_of(value)] for name, value in sorted(values.items()) if value is not None]
    return json.dumps(said) if len(said) > 1 or any(part is not None for part in said[0]) else ""


def _is_id(value: Any) -> bool:
    """True if the value of a field can be the id of a record."""
    return isinstance(value, (str, int, float, pa.Scalar)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """Return the value of a field for an error, cut if it is long."""
    text = text_of(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
