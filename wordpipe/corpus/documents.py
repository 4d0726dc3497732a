"""Records to documents: identity, duplicates, splits, and what is too little to keep."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, islice

from blake3 import blake3

from wordpipe.corpus.duplicates import Digests
from wordpipe.corpus.ledger import Ledger
from wordpipe.corpus.records import Record
from wordpipe.corpus.sentences import split_sentences
from wordpipe.corpus.settings import IngestSettings

__all__ = ["Document", "Documents", "split_of"]

_ID_BYTES = 10
_LONGEST_TITLE = 1000  # characters; it stands beside every sentence
_SPLIT_DIGITS = 13  # 52 bits, which a float holds exactly


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is kept.

    Attributes:
        doc_id: BLAKE3 of the text, first 80 bits, in hex.
        split: train, valid or test.
        record: text, title, source, line and metadata, cleaned.
        width: characters that stand beside each of its sentences, roughly.
    """

    doc_id: str
    split: str
    record: Record
    width: int

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


class Documents:
    """Decides which records become documents, and counts the others.

    Args:
        settings: how.
        ledger: where what is kept and dropped is counted.
        seen: the ids of the documents kept so far, to know duplicates.
    """

    def __init__(self, settings: IngestSettings, ledger: Ledger, seen: Digests) -> None:
        self._settings, self._ledger, self._seen = settings, ledger, seen

    def accept(self, record: Record) -> Document | None:
        """The document that `record` makes, or None (counted) where it is empty, too short or a duplicate."""
        self._ledger.add("documents_read")
        self._ledger.add("records_split", record.part == 1)
        self._clean(record)
        if not record.text:
            self._ledger.add("documents_dropped_empty")
            return None
        if record.min_words and len(record.text.split(maxsplit=record.min_words)) < record.min_words:
            self._ledger.add("documents_dropped_short")
            return None
        data = record.text.encode()
        digest = blake3(data).digest(_ID_BYTES)
        if self._settings.deduplicate and not self._seen.add(digest):
            self._ledger.add("documents_dropped_duplicate")
            self._ledger.add("bytes_dropped_duplicate", len(data))
            return None
        doc_id = digest.hex()
        split = split_of(doc_id, self._settings.valid, self._settings.test)
        self._ledger.add("documents_kept")
        self._ledger.add(f"documents_{split}")
        self._ledger.add("bytes_kept", len(data))
        width = 100 + len(record.title or "") + sum(len(str(value)) for value in record.metadata.values())
        return Document(doc_id, split, record, width)

    def _clean(self, record: Record) -> None:
        """Take the space around the text away, and the title for the text where there is no other."""
        body = record.text.lstrip()
        if body:
            record.line += record.text.count("\n", 0, len(record.text) - len(body)) if record.lines_follow else 0
            record.text = body.rstrip()
        else:
            record.text, record.title = record.title or "", None
            record.line -= bool(record.text) and record.lines_follow  # the line above, which was read as the title
            self._ledger.add("documents_title_as_text", bool(record.text))
        if record.title and len(record.title) > _LONGEST_TITLE:
            record.title = record.title[:_LONGEST_TITLE]
            self._ledger.add("titles_cut")
