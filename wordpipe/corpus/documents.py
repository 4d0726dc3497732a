"""A compact set of digests, by which exact duplicates are known."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, islice

import numpy as np
import pyarrow as pa
from blake3 import blake3

from wordpipe.corpus.records import Ledger, Record
from wordpipe.corpus.sentences import split_sentences
from wordpipe.corpus.settings import IngestSettings

_SIZE = 10  # bytes: the 80 bits of a doc_id, which two of a billion different texts share once in a million corpora
_FIRST_SLOTS = 1 << 12
_EMPTY = bytes(_SIZE)  # no digest of a text: one in 2**80 would be


class Digests:
    """Remembers digests of 10 bytes in one table with open addressing: 16 to 32 bytes for each.

    A Python set of them takes 120 bytes each, which a corpus of short documents feels: 10 million lines are 1.2 GB.
    """

    def __init__(self) -> None:
        self._count = 0
        self._table = bytearray(_FIRST_SLOTS * _SIZE)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, digest: bytes) -> bool:
        place = self._place(digest)
        return self._table[place : place + _SIZE] == digest

    def add(self, digest: bytes) -> bool:
        """Remember `digest` (10 evenly distributed bytes); False where it was known."""
        if 8 * self._count >= 5 * len(self._table) // _SIZE:
            old, self._table = self._table, bytearray(2 * len(self._table))
            for start in range(0, len(old), _SIZE):
                held = bytes(old[start : start + _SIZE])
                if held != _EMPTY:
                    place = self._place(held)
                    self._table[place : place + _SIZE] = held
        place = self._place(digest)
        if self._table[place : place + _SIZE] == digest:
            return False
        self._table[place : place + _SIZE] = digest
        self._count += 1
        return True

    def _place(self, digest: bytes) -> int:
        """Offset of the slot that holds the digest, or of the free one where it belongs."""
        table, mask = self._table, len(self._table) // _SIZE - 1
        slot = int.from_bytes(digest, "little") & mask
        while True:
            held = table[slot * _SIZE : slot * _SIZE + _SIZE]
            if held in (digest, _EMPTY):
                return slot * _SIZE
            slot = (slot + 1) & mask


_LONGEST_TITLE = 1000  # characters; it stands beside every sentence
_SPLIT_DIGITS = 13  # 52 bits, which a float holds exactly


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is kept."""

    doc_id: str  # BLAKE3 of the text, first 80 bits, in hex
    split: str  # train, valid or test
    record: Record  # text, title, source, line and metadata, cleaned
    width: int  # characters that stand beside each of its sentences, roughly

    def sentences(self, settings: IngestSettings, ledger: Ledger, chunk: int) -> Iterator[tuple[list[str], list[int]]]:
        """Texts and lines of the next `chunk` sentences, until all were given."""
        record = self.record
        newline = record.newline if settings.newline == "auto" else settings.newline
        pieces = split_sentences(
            record.text, newline, max_chars=settings.max_sentence_chars, on_cut=lambda: ledger.add("sentences_split")
        )
        line = record.line
        while texts := list(islice(pieces, chunk)):
            steps = (text.count("\n") if record.lines_follow else 0 for text in texts)
            *lines, line = accumulate(chain([line], steps))
            yield texts, lines


def split_of(doc_id: str, valid: float, test: float) -> str:
    """The split of a document: a pure function of its text, so that it never moves when a corpus grows.

    >>> split_of("00000000000000000000", 0.01, 0.0), split_of("ffffffffffffffffffff", 0.01, 0.0)
    ('valid', 'train')
    """
    place = int(doc_id[:_SPLIT_DIGITS], 16) / 16**_SPLIT_DIGITS
    return "valid" if place < valid else "test" if place < valid + test else "train"


def document_of(record: Record, settings: IngestSettings, ledger: Ledger, seen: Digests) -> Document | None:
    """The document that `record` makes, or None (counted) where it is empty, too short or has been `seen`."""
    ledger.add("documents_read")
    ledger.add("records_split", record.part == 1)
    body = record.text.lstrip()
    if body:
        record.line += record.text.count("\n", 0, len(record.text) - len(body)) if record.lines_follow else 0
        record.text = body.rstrip()
    else:  # the title is the text where there is no other
        record.text, record.title = record.title or "", None
        record.line -= bool(record.text) and record.lines_follow  # the line above, which was read as the title
        ledger.add("documents_title_as_text", bool(record.text))
    if record.title and len(record.title) > _LONGEST_TITLE:
        record.title = record.title[:_LONGEST_TITLE]
        ledger.add("titles_cut")
    if not record.text:
        ledger.add("documents_dropped_empty")
        return None
    if record.min_words and len(record.text.split(maxsplit=record.min_words)) < record.min_words:
        ledger.add("documents_dropped_short")
        return None
    data = record.text.encode()
    digest = blake3(data).digest(_SIZE)
    if settings.deduplicate and not seen.add(digest):
        ledger.add("documents_dropped_duplicate")
        ledger.add("bytes_dropped_duplicate", len(data))
        return None
    split = split_of(digest.hex(), settings.valid, settings.test)
    ledger.add("documents_kept")
    ledger.add(f"documents_{split}")
    ledger.add("bytes_kept", len(data))
    width = 100 + len(record.title or "") + sum(len(str(value)) for value in record.metadata.values())
    return Document(digest.hex(), split, record, width)


_CHARS = 4 << 20  # in one batch
_ROWS = 1 << 14
_CHUNK = 512  # sentences added at a time


class Rows:
    """The batch being filled.

    What all sentences of a document share is kept once, and repeated by Arrow when the batch is taken.

    Args:
        schema: the corpus schema, then the metadata columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._clear()

    def _clear(self) -> None:
        self._texts: list[str] = []
        self._lines: list[int] = []
        self._sentence_ids: list[int] = []
        self._documents: list[Document] = []
        self._runs: list[int] = []  # sentences of each
        self._chars = 0

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def is_full(self) -> bool:
        """Time to take the batch."""
        return self._chars >= _CHARS or len(self._texts) >= _ROWS

    @staticmethod
    def chunk(document: Document) -> int:
        """How many of its sentences to add at once: few, where a long title or metadata stands beside each."""
        return max(1, min(_CHUNK, _CHARS // 4 // document.width))

    def add(self, document: Document, first: int, texts: list[str], lines: list[int]) -> None:
        """Add sentences of one document, numbered from `first`."""
        self._texts += texts
        self._lines += lines
        self._sentence_ids += range(first, first + len(texts))
        self._documents.append(document)
        self._runs.append(len(texts))
        self._chars += sum(map(len, texts)) + len(texts) * document.width

    def take(self) -> pa.RecordBatch:
        """The batch; an empty one is begun."""
        own = {"text": self._texts, "line": self._lines, "sentence_id": self._sentence_ids}
        document_of_row = pa.array(np.repeat(np.arange(len(self._runs)), self._runs))
        arrays = [
            pa.array(own[field.name], field.type) if field.name in own else self._shared(field).take(document_of_row)
            for field in self.schema
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _shared(self, field: pa.Field) -> pa.Array:
        """One value for each document."""
        if field.name in ("doc_id", "split"):
            values = [getattr(document, field.name) for document in self._documents]
        elif field.name in ("title", "source"):
            values = [getattr(document.record, field.name) for document in self._documents]
        else:
            values = [document.record.metadata.get(field.name) for document in self._documents]
        return pa.array(values, field.type)
