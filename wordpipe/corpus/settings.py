"""Settings of `wordpipe ingest`."""

import re
from typing import Literal

from pydantic import field_validator, model_validator

from wordpipe.settings import Settings, setting

MetadataType = Literal["str", "int", "float", "bool"]
Newline = Literal["auto", "paragraph", "space"]

_RESERVED = {
    "doc_id", "sentence_id", "title", "text", "split", "source", "line", "see_also", "anchor", "id", "vector",
    "rank", "score", "query", "word", "count",  # of query results
    "text_b", "label", "tags", "spans",  # kept for later stages
}  # fmt: skip
_ENTRY = re.compile(r"(?P<name>[^:]+)(?::(?P<type>str|int|float|bool))?")


class IngestSettings(Settings):
    """How sources of text become documents and sentences."""

    command = "ingest"

    documents: Literal["auto", "file", "block", "line"] = setting(
        "auto",
        "what one document of text is: the file, a block between blank lines, or a line; auto is the file, and of .md, .html "
        "and .rst the section below a heading",
    )
    first_line_title: bool = setting(
        False, "the first line of a file or block of plain text is its title, not part of its text", expert=True
    )
    newline: Newline = setting(
        "auto",
        "what a single newline is; auto decides for each document by whether its lines are wrapped at a width",
        expert=True,
    )
    format: Literal["auto", "txt", "md", "html", "rst", "jsonl", "csv", "tsv", "parquet"] = setting(
        "auto", "read every source as this, whatever its name and even if it looks binary"
    )
    text_field: str = setting("text", "field or column that holds the text", metavar="NAME", min_length=1)
    title_field: str = setting("title", "field or column that holds the title, where there is one", metavar="NAME")
    metadata: tuple[str, ...] = setting(
        (), "further fields to keep as columns: NAME, or NAME:int, NAME:float, NAME:bool", metavar="NAME[:TYPE]"
    )
    bad_bytes: Literal["replace", "skip", "fail"] = setting(
        "replace", "invalid UTF-8: put U+FFFD for it, drop the line, or stop", expert=True
    )
    deduplicate: bool = setting(True, "keep only the first of documents with the same text")
    valid: float = setting(0.01, "share of the documents kept for validation", ge=0, lt=1)
    test: float = setting(0.0, "share of the documents kept for tests", ge=0, lt=1)
    max_document_bytes: int = setting(16 << 20, "longer records are split at a space", ge=1024, le=1 << 30, expert=True)
    max_sentence_chars: int = setting(2000, "longer sentences are split at a space", ge=20, le=1 << 20, expert=True)
    max_expand: int = setting(
        200,
        "a compressed source may grow to at most this many times its size, beyond the first 64 MiB",
        ge=2,
        expert=True,
    )
    update: bool = setting(
        False,
        "copy what comes from sources that have not changed from the corpus at -o; the others are read",
        recipe=False,
    )

    @property
    def metadata_types(self) -> dict[str, MetadataType]:
        """Name and type of each metadata column, in the order given."""
        found = [_ENTRY.fullmatch(entry) for entry in self.metadata]
        return {match["name"]: match["type"] or "str" for match in found if match}  # type: ignore[misc]

    @field_validator("metadata")
    @classmethod
    def _entries_are_columns(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        names = []
        for entry in entries:
            match = _ENTRY.fullmatch(entry)
            if match is None:
                raise ValueError(f"NAME or NAME:TYPE with TYPE one of str, int, float, bool, not {entry!r}")
            names.append(match["name"])
        if taken := sorted(_RESERVED.intersection(names)):
            own = ", ".join(taken)
            raise ValueError(
                f"names other than those of the corpus's own columns ({own}): rename such fields in the source"
            )
        if len(set(names)) < len(names):
            raise ValueError("different names")
        return entries

    @model_validator(mode="after")
    def _settings_fit_together(self) -> "IngestSettings":
        if self.valid + self.test >= 1:
            raise ValueError(f"valid + test = {self.valid} + {self.test} leaves nothing to train on: keep it below 1")
        if self.first_line_title and self.documents == "line":
            raise ValueError("first_line_title needs documents of more than a line: documents = file or block")
        if set(self.metadata_types) & {self.text_field, self.title_field}:
            raise ValueError("text_field and title_field are kept anyway: leave them out of metadata")
        return self
