"""Records: pieces of text with what their source says about them, before they become documents and sentences.

Also the ledger, which counts what happened to the input, and how the fields of a record are chosen.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from wordpipe.corpus.settings import IngestSettings, MetadataType
from wordpipe.errors import InputError

if TYPE_CHECKING:
    from wordpipe.corpus.decode import Decoder

Newline = Literal["auto", "paragraph", "space"]

_LOOK_BACK = 1 << 16  # bytes searched for a space before a word is cut


@dataclass(slots=True)
class Record:
    r"""One text of a source, or one part of a text that is too long for one document."""

    text: str  # the text as the source has it, with "\n" for every line end
    source: str  # value of the `source` column
    line: int  # 1-based line (or record) of the source where the text begins
    title: str | None = None  # its title, or None
    # values of the further columns by name, already of the column's type
    metadata: dict[str, object] = field(default_factory=dict)
    newline: Newline = "auto"  # what a single newline means here, where the format says; else "auto"
    # True where a newline in the text is a newline of the source, so that lines can be counted
    lines_follow: bool = True
    min_words: int = 0  # a text of fewer words is no document
    part: int = 0  # 0 for a whole text or its first part, then 1, 2, …


def split_record(record: Record, limit: int) -> Iterator[Record]:
    """The record in parts of at most `limit` bytes of text; nearly always the record itself."""
    if len(record.text) * 4 <= limit:
        yield record
        return
    line = record.line
    for part, text in enumerate(split_oversize(record.text, limit)):
        yield replace(record, text=text, line=line, part=record.part + part)
        line += text.count("\n") if record.lines_follow else 0


def split_oversize(text: str, limit: int) -> list[str]:
    """Cut `text` into pieces of at most `limit` bytes of UTF-8; the pieces concatenate to the text.

    >>> split_oversize("one two three", 8)
    ['one two ', 'three']
    """
    data = text.encode()
    pieces, start = [], 0
    while len(data) - start > limit:
        end = start + cut_point(data[start : start + limit + 1], limit)
        pieces.append(data[start:end].decode())
        start = end
    return [*pieces, data[start:].decode()]


def cut_point(data: bytes, limit: int) -> int:
    """Where to cut UTF-8 `data` so that at most `limit` bytes come before: after a space, else between characters.

    The space is looked for in the last 64 KiB. Bytes that are no UTF-8 are cut within three bytes of the limit. Needs
    `len(data) > limit >= 4`.
    """
    start = max(0, limit - _LOOK_BACK)
    space = max(data.rfind(mark, start, limit) for mark in (b" ", b"\n", b"\t"))
    if space >= 0:
        return space + 1
    cut = limit
    while cut > limit - 3 and data[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


_NAMES = 50  # different names under one heading; an input with random field names must not fill the memory


class Ledger:
    """Counts and warnings of one ingest, handed down to everything that reads or drops."""

    def __init__(self) -> None:
        self.warned: dict[str, str] = {}  # the message of each kind, in the order in which they came
        self._counts: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def add(self, what: str, number: int = 1) -> None:
        """Count `number` more of `what`."""
        self._counts[what] += number

    def add_named(self, what: str, name: str, number: int = 1) -> None:
        """Count under `what.name`; after 50 names of one heading the others share `what.(other)`."""
        key = f"{what}.{name[:100].encode(errors='replace').decode()}"
        if key not in self._counts:
            if self._names[what] >= _NAMES:
                key = f"{what}.(other)"
            else:
                self._names[what] += 1
        self._counts[key] += number

    def warn(self, kind: str, message: str) -> None:
        """Keep the first message of each kind; the counts tell how many more there were."""
        self.warned.setdefault(kind, message)

    def take_over(self, counts: Mapping[str, int], warnings: Mapping[str, str]) -> None:
        """Add what another ledger counted (`counts()`) and warned of (`warned`)."""
        for name, number in counts.items():
            heading, _, rest = name.partition(".")
            if rest:
                self.add_named(heading, rest, number)
            else:
                self.add(name, number)
        for kind, message in warnings.items():
            self.warn(kind, message)

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def counts(self) -> dict[str, int]:
        """All counts that are not zero, in alphabetical order."""
        return {name: number for name, number in sorted(self._counts.items()) if number}

    def named(self, what: str) -> dict[str, int]:
        """The counts under one heading by their names, the largest first."""
        found = {key[len(what) + 1 :]: n for key, n in self._counts.items() if key.startswith(f"{what}.")}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


_TRUE, _FALSE = {"true", "yes", "1", "t", "y"}, {"false", "no", "0", "f", "n"}


class Fields:
    """Makes records of one source's fields, counting what is dropped or not carried."""

    def __init__(self, source: str, settings: IngestSettings, decoder: "Decoder", ledger: Ledger) -> None:
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
            what, hint = (
                f"no field {self.settings.text_field!r} to take the text from",
                "name the right one with --text-field",
            )
            raise InputError(what, where=self.source, got=", ".join(found[:20]) or "no fields", hint=hint)
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
