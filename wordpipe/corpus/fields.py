"""Fields of a record: which become the text, the title and the metadata columns, and which are left behind."""

import json
from collections.abc import Iterable, Mapping

from wordpipe.corpus.decoding import Decoder
from wordpipe.corpus.ledger import Ledger
from wordpipe.corpus.records import Record
from wordpipe.corpus.settings import IngestSettings, MetadataType
from wordpipe.errors import InputError

__all__ = ["Fields"]

_TRUE, _FALSE = {"true", "yes", "1", "t", "y"}, {"false", "no", "0", "f", "n"}


class Fields:
    """Makes records of one source's fields.

    Args:
        source: value of the `source` column.
        settings: names of the fields wanted.
        decoder: tidies strings.
        ledger: where to count what is dropped or not carried.
    """

    def __init__(self, source: str, settings: IngestSettings, decoder: Decoder, ledger: Ledger) -> None:
        self.source, self.settings, self.decoder, self.ledger = source, settings, decoder, ledger
        self._types = settings.metadata_types
        self.carried = {settings.text_field, settings.title_field, *self._types}

    def require_text(self, names: Iterable[str]) -> None:
        """Raise unless the text field is among the names of a header, a schema or a first record.

        Raises:
            InputError: names the fields that are there.
        """
        found = list(names)
        if self.settings.text_field not in found:
            raise InputError(
                f"no field {self.settings.text_field!r} to take the text from",
                where=self.source,
                got=", ".join(found[:20]) or "no fields",
                hint="name the right one with --text-field",
            )
        if twice := sorted(name for name in self.carried if found.count(name) > 1):
            raise InputError("a field occurs twice", where=self.source, got=", ".join(twice), hint="rename one of them")

    def left_behind(self, names: Iterable[str], number: int = 1) -> None:
        """Count fields that `number` records have and the corpus does not carry."""
        for name in names:
            if name not in self.carried:
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
            raise InputError(
                f"field {self.settings.text_field!r} is not a string",
                where=f"{self.source}, line {line}",
                got=type(text).__name__,
                hint="name another with --text-field",
            )
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
            self.ledger.warn(
                f"convert {name}", f"{name} is not always {kind}, first {str(value)[:40]!r} in {self.source}"
            )
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
