"""What gets a vector: the sentences, documents or windows of a corpus, one after the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from wordpipe.sentences.encoder import TextEncoder
from wordpipe.sentences.settings import EmbedSettings
from wordpipe.sentences.windows import pack_sentences

__all__ = ["Unit", "read_units"]

_OWN = ("doc_id", "sentence_id", "title", "text", "split", "source", "line")


@dataclass(frozen=True, slots=True)
class Unit:
    """One text to embed.

    Attributes:
        doc_id: the document it belongs to.
        title: the document's title.
        text: the text, without white space around it.
        embedded: what the encoder reads: the text, after the title where the settings say so.
        source: the file it came from.
        line: 1-based line where it begins.
        metadata: further columns of the corpus.
        rows: rows of the corpus that it covers (those of overlapping windows are counted once).
    """

    doc_id: str
    title: str | None
    text: str
    embedded: str
    source: str
    line: int
    metadata: dict[str, Any]
    rows: int


def read_units(batches: Iterable[pa.RecordBatch], settings: EmbedSettings, encoder: TextEncoder) -> Iterator[Unit]:
    """Cut a corpus into units.

    Args:
        batches: corpus rows, the sentences of a document together and in order.
        settings: `unit` and `with_title`.
        encoder: tells how long sentences are, and how long a window is.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    if settings.unit == "sentence":
        for row in rows:
            yield _unit([row], row["text"], title=False, rows=1)
        return
    for document in _documents(rows):
        if settings.unit == "document":
            yield _unit(
                document, "".join(row["text"] for row in document), title=settings.with_title, rows=len(document)
            )
        else:
            yield from _windows(document, settings, encoder)


def _documents(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows of one document at a time. The same text once more has the same id, but counts its sentences from 0 again."""
    document: list[dict[str, Any]] = []
    for row in rows:
        last = document[-1] if document else row
        if document and (row["doc_id"] != last["doc_id"] or row["sentence_id"] <= last["sentence_id"]):
            yield document
            document = []
        document.append(row)
    if document:
        yield document


def _windows(document: list[dict[str, Any]], settings: EmbedSettings, encoder: TextEncoder) -> Iterator[Unit]:
    """Passages of whole sentences that fit a window."""
    lengths = encoder.lengths([row["text"] for row in document])
    seen = 0
    for first, stop in pack_sentences(lengths, encoder.window, encoder.overlap):
        part = document[first:stop]
        text = "".join(row["text"] for row in part)
        yield _unit(part, text, title=settings.with_title, rows=stop - seen)
        seen = stop


def _unit(part: list[dict[str, Any]], text: str, *, title: bool, rows: int) -> Unit:
    row, text = part[0], text.strip()
    embedded = f"{row['title']}\n{text}" if title and row["title"] else text
    metadata = {name: value for name, value in row.items() if name not in _OWN}
    return Unit(row["doc_id"], row["title"], text, embedded, row["source"], row["line"], metadata, rows)
