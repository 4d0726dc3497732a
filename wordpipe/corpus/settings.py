"""Settings of `wordpipe ingest`."""

import codecs
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wordpipe.corpus.formats import FORMATS, READERS
from wordpipe.settings import Settings, checked, parted_by_commas, setting

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal["auto", *FORMATS]

MetadataType = Literal["str", "int", "float", "bool", "date"]
Newline = Literal["auto", "paragraph", "space"]

_SECTIONED = [reader.endings[0] for reader in READERS.values() if reader.is_structured and reader.endings]
_ENTRY = re.compile(r"(?P<name>.+):(?P<type>str|int|float|bool|date)|(?P<plain>[^:]+)", re.DOTALL)
AUTO = "auto"
"""As a field: the one that the first records show."""
OF_SEARCH = ("text_field", "title_field", "id_field", "header", "documents", "include", "encoding", "unreadable")
"""Settings that `search` takes, too."""
NOTHING = "nothing"
"""What a manifest says that was held out, where all documents would have been."""
_NOT_OF_LINES = (
    "text_b", "documents", "first_line_title", "newline", "text_field", "title_field", "id_field", "metadata", "no_metadata",
    "label_field", "tags_field", "spans_field",
)  # fmt: skip
"""Settings that say nothing of two files of lines."""


def _refuse_no_columns(entries: tuple[str, ...]) -> None:
    """Raise ValueError unless each entry of `metadata` is NAME or NAME:TYPE and the names differ."""
    names = []
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"NAME or NAME:TYPE, where TYPE is str, int, float, bool or date, but it is {entry!r}")
        names.append(match["name"] or match["plain"])
    if len(set(names)) < len(names):
        raise ValueError("different names")


def parsed_includes(entries: Iterable[str]) -> dict[str, str]:
    """Return pattern → format ("auto": what the file shows) of the entries PATTERN and PATTERN:FORMAT of `include`.

    >>> parsed_includes(["*.conf", "*.rst.txt:rst", "*.xml:text"])
    {'*.conf': 'auto', '*.rst.txt': 'rst', '*.xml': 'txt'}
    """
    found = {}
    for entry in entries:
        pattern, colon, form = entry.rpartition(":")
        form = "txt" if form == "text" else form
        found[pattern if colon else entry] = form if colon else AUTO
    return found


def _require_formats(entries: tuple[str, ...]) -> None:
    """Raise ValueError unless each entry of `include` is PATTERN or PATTERN:FORMAT."""
    for pattern, form in parsed_includes(entries).items():
        if not pattern or form not in (AUTO, *FORMATS):
            raise ValueError(f"PATTERN or PATTERN:FORMAT, where FORMAT is text or one of {', '.join(FORMATS)}")


def _require_encoding(name: str) -> None:
    """Raise ValueError unless Python knows an encoding of text by this name."""
    try:
        if name != AUTO and not codecs.lookup(name)._is_text_encoding:  # not hex, rot13
            raise LookupError
    except (LookupError, ValueError):
        raise ValueError(
            "auto or the name of an encoding, such as utf-8, utf-16, cp1252, latin-1 or shift_jis"
        ) from None


class IngestSettings(Settings):
    """Settings of `ingest`: which texts, documents and sentences are made of sources."""

    command = "ingest"

    documents: Literal["auto", "section", "file", "block", "line"] = setting(
        "auto",
        "unit that becomes one document: a file, a block between blank lines, or a line; auto: a section below a heading "
        f"for {', '.join(_SECTIONED[:-1])} and {_SECTIONED[-1]}, and the whole file for other text; section: the same, but a "
        "block for other text, and a line of a log",
        section="Documents",
    )
    first_line_title: bool = setting(
        False,
        "use the first line of each file or block of plain text as the title, not as part of the text",
        expert=True,
    )
    newline: Newline = setting(
        "auto",
        "meaning of a single newline: the end of a paragraph, or a space; auto: a space if the lines of a document are "
        "wrapped at a fixed width",
        expert=True,
    )
    format: Format = setting(
        "auto",
        "format of all sources, even if their names or contents look different; auto: recognised by name or content",
    )
    include: tuple[str, ...] = setting(
        (),
        "read more files of folders: beside the others those with these names, with :FORMAT in that format, for example "
        "'*.conf' or '*.rst.txt:rst'; default: files with a known ending, and files without an ending that contain text",
        metavar="PATTERN[:FORMAT],…",
        read=parted_by_commas,
        check=_require_formats,
        expert=True,
    )
    text_field: str = setting(
        AUTO,
        "field or column with the text; for CSV and TSV without a header: the number of the column, starting at 1; auto: the "
        "field text, or the field with a similar name or with the longest strings",
        metavar="NAME",
        min_length=1,
        section="Records",
    )
    header: Literal["auto", "yes", "no"] = setting(
        "auto",
        "whether the first line of CSV and TSV files has the names of the columns; auto: no if one of its cells is a number "
        "or a date; without names, the columns are called 1, 2, …",
        expert=True,
    )
    title_field: str = setting("title", "field or column with the title, if there is one", metavar="NAME", expert=True)
    id_field: str = setting(
        "auto",
        "field with the id of each record; search results show this id; auto: the field id or _id, if the first records have "
        "it; none: no ids",
        metavar="NAME",
        min_length=1,
    )
    metadata: tuple[str, ...] = setting(
        (),
        "keep only these fields (each NAME or NAME:TYPE, where TYPE is int, float, bool, str or date); default: all fields",
        metavar="NAME[:TYPE],…",
        read=parted_by_commas,
        check=_refuse_no_columns,
    )
    no_metadata: bool = setting(False, "keep only the fields text, title and id", expert=True)
    empty_text: Literal["fields", "skip"] = setting(
        "fields",
        "for a record without a text: fields = keep the record with an empty text, so that it is found by its title and "
        "its other fields; skip = take the title as the text, or skip the record if it has no title",
        expert=True,
    )
    bad_records: Literal["auto", "fail", "skip"] = setting(
        "auto",
        "for a record that cannot be read: fail = stop, skip = skip the record; skipped records are counted, and the first "
        "five are shown; auto: the same as for files that cannot be read (--unreadable)",
        expert=True,
    )
    text_b: str = setting(
        "",
        "field with the second text of a pair; each pair becomes one row; a pair with an empty text is skipped; for "
        "CSV and TSV without a header: the number of the column, starting at 1",
        metavar="NAME",
    )
    parallel: bool = setting(
        False,
        "make pairs from two files: line N of the first SOURCE and line N of the second SOURCE",
    )
    label_field: str = setting(
        "",
        "field with the label of a record: a string, a number or a list of strings",
        metavar="NAME",
        expert=True,
    )
    tags_field: str = setting("", "field with a list of tags", metavar="NAME", expert=True)
    spans_field: str = setting(
        "",
        "field with spans of the text, as a list of objects with start, end (in characters) and label",
        metavar="NAME",
        expert=True,
    )
    encoding: str = setting(
        AUTO,
        "encoding of all sources, for example cp1252; auto: UTF-8, or UTF-16, UTF-32 or an older code page, "
        "recognised by the bytes of a file",
        metavar="NAME",
        check=_require_encoding,
        expert=True,
    )
    bad_bytes: Literal["replace", "skip", "fail"] = setting(
        "replace",
        "for bytes that are invalid in the encoding of a source: replace = put U+FFFD in their place, skip = drop the line, "
        "fail = stop; with skip and fail, no code page is guessed",
        expert=True,
        section="What is kept",
    )
    deduplicate: bool = setting(
        True,
        "keep only the first of several documents with the same text (or of several records with all fields equal)",
        expert=True,
    )
    valid: float = setting(0.01, "fraction of the documents for validation", ge=0, lt=1, expert=True)
    test: float = setting(0.0, "fraction of the documents for tests", ge=0, lt=1, expert=True)
    unreadable: Literal["auto", "skip", "error"] = setting(
        "auto",
        "for a file that cannot be read: error = stop, skip = skip the file; skipped files are counted and listed; auto: skip "
        "for files in folders and files that match a pattern, error for files that are named",
        expert=True,
    )
    attachments: bool = setting(
        False, "read the files that are attached to mails, by the readers of their formats", expert=True
    )
    max_document_bytes: int = setting(
        16 << 20,
        "maximum size of a record in bytes; longer records are split at a space",
        ge=1024,
        le=1 << 30,
        expert=True,
        section="Bounds",
    )
    max_sentence_chars: int = setting(
        2000, "maximum length of a sentence; longer sentences are split at a space", ge=20, le=1 << 20, expert=True
    )
    max_expand: int = setting(
        200,
        "maximum size of an unpacked source, as a multiple of its compressed size (64 MiB are always allowed)",
        ge=2,
        expert=True,
    )
    update: bool = setting(
        False,
        "read only new and changed sources; rows of unchanged sources are copied from the corpus in the output folder",
        recipe=False,
        section="Update",
    )
    add: bool = setting(
        False,
        "add the sources to the corpus; an added record replaces the record with the same id; all other records stay",
        recipe=False,
    )
    remove: bool = setting(
        False,
        "remove records from the corpus (those of --ids FILE or --where CONDITION); a later update does not bring them back",
        recipe=False,
        expert=True,
    )
    where: str = setting(
        "",
        "remove the records that fulfil it; for example, year < 2000",
        recipe=False,
        metavar="CONDITION",
        expert=True,
    )
    ids: Path | tuple[str, ...] | None = setting(
        None,
        "remove the records with these ids; the file has one id per line; in Python, also a list of ids",
        recipe=False,
        metavar="FILE",
        expert=True,
    )
    drop_missing: bool = setting(
        False,
        "let an update drop sources that exist but are not given again; without this option, the update stops and lists the "
        "sources",
        recipe=False,
        expert=True,
    )

    @property
    def metadata_types(self) -> dict[str, MetadataType | None]:
        """Return name and type of each field of `metadata`, in the order given; None: of the type that its values have.

        A text, and a field that is a column of ours of the same name already, are none of them.
        """
        found = [_ENTRY.fullmatch(entry) for entry in self.metadata]
        types = {match["name"] or match["plain"]: match["type"] for match in found if match}
        shown = {"title": self.title_field, "id": self.id_field, **self.own_fields}
        texts = (self.text_field, self.text_b)
        return {name: kind for name, kind in types.items() if shown.get(name) != name and name not in texts}  # type: ignore[misc]

    @property
    def own_fields(self) -> dict[str, str]:
        """Return, for each column of the corpus that is filled only where a setting names a field, that field."""
        named = {"text_b": self.text_b, "label": self.label_field, "tags": self.tags_field, "spans": self.spans_field}
        return {column: name for column, name in named.items() if name}

    @property
    def takes_no_input(self) -> bool:
        """True if records are only removed from a corpus."""
        return self.remove

    @property
    def is_pairs(self) -> bool:
        """True if every record is a pair of texts, and one row."""
        return self.parallel or bool(self.text_b)

    def _one_change(self) -> None:
        """Raise ValueError if two changes of a corpus are given together."""
        if sum((self.update, self.add, self.remove)) > 1:
            raise ValueError("update, add and remove exclude each other: give only one")
        given = [name for name, value in (("where", self.where), ("ids", self.ids)) if value not in ("", None)]
        if given and not self.remove:
            raise ValueError(f"{given[0]} says which records are removed, so it needs remove")
        if self.remove and len(given) != 1:
            raise ValueError("remove needs where or ids, and not both" if given else "remove needs where or ids")

    @checked
    def _settings_fit_together(self) -> None:
        """Raise ValueError where settings of `ingest` exclude each other."""
        self._one_change()
        if self.valid + self.test >= 1:
            raise ValueError(
                f"valid + test = {self.valid} + {self.test} leaves no text for training: the sum must be below 1"
            )
        if self.first_line_title and self.documents == "line":
            raise ValueError("first_line_title needs documents of more than one line: use documents = file or block")
        if self.parallel:
            fields = type(self).model_fields
            extra = [name for name in _NOT_OF_LINES if getattr(self, name) != fields[name].default]
            extra += ["format"] * (self.format not in ("auto", "txt"))
            if extra:
                raise ValueError(
                    f"parallel reads lines and cannot be used with {', '.join(extra)}: leave out {', '.join(extra)}"
                )
        if self.format != "auto" and READERS[self.format].fields == "own":
            names = ("text_field", "text_b", "label_field", "tags_field", "spans_field")
            if extra := [name for name in names if getattr(self, name) != type(self).model_fields[name].default]:
                raise ValueError(f"the format {self.format} already defines the fields; leave out {', '.join(extra)}")
        if self.metadata and self.no_metadata:
            raise ValueError("metadata names fields to keep, but no_metadata keeps no fields: give only one of the two")
