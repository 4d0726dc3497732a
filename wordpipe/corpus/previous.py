"""The corpus that an update begins from: what each source gave, and the rows of those that have not changed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.corpus.digests import Digests, RecordIds, record_key
from wordpipe.corpus.documents import REPEATS, Ledger
from wordpipe.corpus.sources import CHANGED, Source


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """The yield of one source, or of one piece of a large file, in a corpus: its rows and its counts."""

    name: str  # the source
    rows: int  # rows of the corpus that came from it
    ledger: str  # of the source, as JSON: there may be a million sources, and a dict takes five times the memory
    digest: str = ""  # what its bytes are known by (`Source.digest_of`); empty where nobody knows it

    @classmethod
    def of(cls, name: str, ledger: Ledger) -> "SourceSummary":
        """Return the summary of a source with this ledger."""
        return cls(name, ledger["sentences"], ledger.to_json())

    @property
    def has_changed(self) -> bool:
        """True if the source changed while it was read: the bytes that gave its rows are unknown."""
        return CHANGED in self.ledger

    def open_ledger(self) -> Ledger:
        """Return the ledger of the source."""
        return Ledger.of_json(self.ledger)


class Copied(NamedTuple):
    """The rows of a source of a previous corpus that are copied.

    Attributes:
        ledger: what the source gave; it is whole when the rows have been taken.
        rows: its rows, in the columns of the previous corpus.
        change: what became of the source, for the counts of an update.
        can_restore: the values of its fields can be restored exactly, where the column holds other types, too.
    """

    ledger: Ledger
    rows: Iterator[pa.RecordBatch]
    change: str = "copied"
    can_restore: bool = True


class PreviousCorpus:
    """The rows of a corpus that was made with the same settings, source by source. Ask for sources in their order.

    The rows are to be the same as if everything had been read. That is so if a source has the bytes it had and each of
    its documents would again be kept, or again be dropped as a duplicate (of a text, or of an id): no earlier source has got a
    document that was kept, and no earlier source that had the double of a dropped one has changed or is gone.

    Args:
        summaries: of all its sources, in the order of its rows.
        sources: that are to be read now, large files in pieces.
        digests: content hash of each of them, by name; empty for a stream.
        rows: all its rows in order.
        documents: the same rows: doc_id, sentence_id and line, and record_id where there is one.
        schema: of the rows.

    Attributes:
        rows_of: a source by name → how many of the rows it gave.
        deleted: sources that are no longer named.
    """

    def __init__(
        self,
        summaries: Sequence[SourceSummary],
        sources: Iterable[Source],
        digests: Mapping[str, str],
        rows: Iterable[pa.RecordBatch],
        documents: Iterable[pa.RecordBatch],
        schema: pa.Schema,
    ) -> None:
        self._schema = schema
        starts = accumulate((summary.rows for summary in summaries), initial=0)
        self._known = {
            (summary.name, summary.digest): (summary, start) for summary, start in zip(summaries, starts, strict=False)
        }
        self._names, self._digests = {summary.name for summary in summaries}, digests
        self.rows_of = Counter[str]()
        for summary in summaries:
            self.rows_of[summary.name] += summary.rows
        self._now = {self._key(source) for source in sources}
        self._rows, self._documents = ForwardRows(rows), ForwardRows(documents)
        changed = [summary.name for summary in summaries if not self._is_unchanged(summary)]
        self._first_changed = min(changed, default=None)
        self.deleted = len({*changed} - digests.keys())

    def copy(
        self, source: Source, seen: Digests | None, ids: RecordIds, fits: Callable[[Ledger, pa.Schema], bool]
    ) -> Copied | None:
        """Return the counts and the rows of a source, or of a piece of one, if these can be copied; None if it must be read.

        `seen` are the documents kept so far, or None where duplicates are kept, and `ids` the ids of records; those of a
        source that is copied are added to both. `fits` says whether a source's fields can be columns as they were.
        """
        name = source.name
        summary, start = self._known.get(self._key(source), (None, 0))
        if summary is None or not self._is_unchanged(summary):
            return None
        # a change before it may bring back what was dropped here
        ledger = summary.open_ledger()
        may_return = self._first_changed is not None and self._first_changed < name
        if not fits(ledger, self._schema) or (
            may_return and (ledger["records_skipped_duplicate_id"] or ledger["ids_dropped_repeated"])
        ):
            return None
        dropped = ledger["documents_dropped_duplicate"] if seen is not None and may_return else 0
        if dropped and not ledger.has_all_doubles:
            return None
        # its documents must be new among those kept so far
        if seen is not None or "record_id" in ledger.own_kinds:
            batches = self._documents.take(start, start + summary.rows)
            firsts = [batch.filter(pc.equal(batch["sentence_id"], 0)) for batch in batches]
            documents = [document for first in firsts for document in _documents(first)]
            if any(own_id in ids for _, own_id, _ in documents if own_id is not None):
                return None
            if seen is not None and any(digest in seen for digest, own_id, _ in documents if own_id is None):
                return None
            if dropped and not _are_there(ledger.doubles, seen, documents):
                return None
            repeats = 0  # which depends on the sources before it
            for digest, own_id, line in documents:
                repeats += seen is not None and own_id is not None and digest in seen
                if own_id is not None:
                    ids.claim(own_id, name, line)
                if seen is not None:
                    seen.add(digest)
                    seen.add(_key(digest, own_id))
            ledger.add(REPEATS, repeats - ledger[REPEATS])
        return Copied(ledger, self._rows.take(start, start + summary.rows))

    def is_known(self, name: str) -> bool:
        """True if there was a source of this name."""
        return name in self._names

    def _key(self, source: Source) -> tuple[str, str]:
        """Return the name and the digest by which a source of the previous corpus is known."""
        return source.name, source.digest_of(self._digests[source.name])

    def _is_unchanged(self, summary: SourceSummary) -> bool:
        """True if a source of the previous corpus is the same now."""
        return summary.digest != "" and (summary.name, summary.digest) in self._now


def _documents(firsts: pa.RecordBatch) -> Iterator[tuple[bytes, str | None, int]]:
    """Yield the digest, the record's own id and the line of each document of the previous corpus."""
    has_ids = "record_id" in firsts.schema.names
    own_ids = firsts["record_id"].to_pylist() if has_ids else [None] * len(firsts)
    for doc_id, own_id, line in zip(firsts["doc_id"].to_pylist(), own_ids, firsts["line"].to_pylist(), strict=True):
        yield bytes.fromhex(doc_id), None if own_id is None else str(own_id), line


def _are_there(
    doubles: Iterable[str], seen: Digests | None, documents: Iterable[tuple[bytes, str | None, int]]
) -> bool:
    """True if all documents that a source dropped as doubles are among those `seen`, or among its own `documents`."""
    own = {_key(digest, own_id) for digest, own_id, _ in documents}
    for double in doubles:
        digest, space, own_id = double.partition(" ")
        key = _key(bytes.fromhex(digest), own_id if space else None)
        if key not in own and (seen is None or key not in seen):
            return False
    return True


def _key(digest: bytes, own_id: str | None) -> bytes:
    """Return the digest by which a document is known among those that were kept."""
    return digest if own_id is None else record_key(own_id, digest)


class ForwardRows:
    """Stretches of a stream of rows, each after the one before."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None
        self._ends = 0  # number of the row after the batch

    def take(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield rows start … stop of the previous corpus."""
        while start < stop:
            while self._batch is None or self._ends <= start:
                self._batch = next(self._batches)
                self._ends += len(self._batch)
            first = start - (self._ends - len(self._batch))
            part = self._batch.slice(first, stop - start)
            start += len(part)
            yield part
