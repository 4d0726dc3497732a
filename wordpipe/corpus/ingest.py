"""Sources in, corpus rows out: the core of `wordpipe ingest`, as one pass with bounded memory.

ingest = Ingest(expand(["notes/", "python:numpy"]), IngestSettings(valid=0.05))
for batch in ingest.batches():
    ...
ingest.counts["documents_kept"]
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from wordpipe.artifacts.schemas import CORPUS
from wordpipe.corpus.documents import Document, Documents
from wordpipe.corpus.duplicates import Digests
from wordpipe.corpus.ledger import Ledger
from wordpipe.corpus.reading import read_records
from wordpipe.corpus.records import split_record
from wordpipe.corpus.reuse import EarlierCorpus, SourceNote
from wordpipe.corpus.rows import Rows
from wordpipe.corpus.settings import IngestSettings, MetadataType
from wordpipe.corpus.sources import Source, Sources
from wordpipe.errors import InputError

__all__ = ["Ingest", "corpus_schema"]

_CHANGES = ("sources_copied", "sources_read_again", "sources_added", "sources_deleted")
_TYPES: dict[MetadataType, pa.DataType] = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}


class Ingest:
    """One reading of some sources.

    Rows are the same on every machine: they depend on the sources' bytes, their names and the settings alone. Memory
    does not grow with the corpus, except by 16 to 32 bytes for each document where duplicates are looked for.

    Args:
        sources: what to read, in this order.
        settings: how.
        on_bytes: told, as reading goes on, how many bytes of all sources on disk have been read.
        on_source: told, after each source, what it gave.
        earlier: an earlier corpus made with the same settings; the sources that have not changed are copied from it.

    Attributes:
        schema: the corpus schema; then a column for each metadata setting; then `see_also` (list of names; null for
            other sources) where a source is a package.
        changes: with an earlier corpus, how many sources were copied, read again, are new, and are gone.
        bytes_copied: bytes of sources that were not read, as `counts` has them among `bytes_read`.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        settings: IngestSettings,
        *,
        on_bytes: Callable[[int], object] = lambda done: None,
        on_source: Callable[[SourceNote], object] = lambda note: None,
        earlier: EarlierCorpus | None = None,
    ) -> None:
        self.sources = tuple(sources)
        self.settings = settings
        self.schema = corpus_schema(self.sources, settings)
        self._ledger = Ledger()
        self._never_found = set(settings.metadata_types)
        self._on_bytes, self._on_source, self._earlier = on_bytes, on_source, earlier
        self._seen = Digests()
        self.bytes_copied = 0
        self.changes = dict.fromkeys(_CHANGES, 0)
        self._done = 0
        for reason, number in sources.skipped.items() if isinstance(sources, Sources) else ():
            self._ledger.add_named("files_skipped", reason, number)

    @property
    def counts(self) -> dict[str, int]:
        """What has happened so far, by name, zeros left out.

        Documents read, kept and dropped (and why), bytes, sentences, everything split, replaced, skipped or not carried.
        `documents_read` is the sum of `documents_kept` and of all `documents_dropped_…`.
        """
        return self._ledger.counts()

    @property
    def warnings(self) -> list[str]:
        """Messages worth showing, in the order in which they arose."""
        return list(self._ledger.warnings)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in batches of at most about 4 MiB of text. To be asked for once.

        Raises:
            InputError: a source is missing, binary, damaged or malformed; or nothing was kept of all.
            StorageError: reading failed.
        """
        rows = Rows(self.schema)
        for source in self.sources:
            if (note := self._copyable(source)) is not None:
                if len(rows):
                    yield rows.take()
                yield from self._copy(source, note)
            else:
                yield from self._read(source, rows)
        if len(rows):
            yield rows.take()
        self._ledger.add("sources", len(self.sources))
        self._conclude()

    def _copyable(self, source: Source) -> SourceNote | None:
        """The note of a source that is copied, and the reckoning of what becomes of each."""
        if self._earlier is None:
            return None
        note = self._earlier.copyable(source.name, self._seen if self.settings.deduplicate else None)
        self.changes["sources_deleted"] = self._earlier.deleted
        if note is not None:
            self.changes["sources_copied"] += 1
        elif self._earlier.is_known(source.name):
            self.changes["sources_read_again"] += 1
        else:
            self.changes["sources_added"] += 1
        return note

    def _copy(self, source: Source, note: SourceNote) -> Iterator[pa.RecordBatch]:
        assert self._earlier is not None
        for batch in self._earlier.rows(note):
            self._never_found -= {name for name in self._never_found if batch.column(name).null_count < len(batch)}
            yield batch
        self.bytes_copied += note.counts.get("bytes_read", 0)
        self._ledger.take_over(note.counts, note.warnings)
        self._on_source(note)
        self._progress(source.bytes)

    def _read(self, source: Source, rows: Rows) -> Iterator[pa.RecordBatch]:
        ledger = Ledger()
        documents = Documents(self.settings, ledger, self._seen)
        for record in read_records(source, self.settings, ledger, self._progress):
            for part in split_record(record, self.settings.max_document_bytes):
                if (document := documents.accept(part)) is not None:
                    yield from self._add(document, rows, ledger)
        self._ledger.take_over(ledger.counts(), ledger.warned)
        self._on_source(SourceNote.of(source.name, ledger))

    def _add(self, document: Document, rows: Rows, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        self._never_found -= {name for name, value in document.record.metadata.items() if value is not None}
        first = 0
        for texts, lines in document.sentences(self.settings, ledger, rows.chunk(document)):
            rows.add(document, first, texts, lines)
            first += len(texts)
            if rows.is_full:
                yield rows.take()
        ledger.add("sentences", first)

    def _progress(self, number: int) -> None:
        self._done += number
        self._on_bytes(self._done)

    def _conclude(self) -> None:
        counts = self.counts
        if not counts.get("documents_kept"):
            found = ", ".join(f"{name} {number}" for name, number in counts.items())
            names = ", ".join(source.name for source in self.sources[:3])
            where = names if len(self.sources) <= 3 else f"{names} and {len(self.sources) - 3} more"
            hint = "name files that hold text; the counts say what was dropped"
            raise InputError("nothing to keep: no source has any text", where=where, got=found, hint=hint)
        if self._never_found:
            names = ", ".join(sorted(self._never_found))
            self._ledger.warn("metadata", f"no record has the metadata field {names}: the column is empty")
        left = self._ledger.named("fields_not_carried")
        if left:
            listed = ", ".join(f"{name} ({number:,})" for name, number in list(left.items())[:8])
            self._ledger.warn("fields", f"fields not carried: {listed}; keep them with --metadata NAME")
        for split, share in (("train", 1.0), ("valid", self.settings.valid), ("test", self.settings.test)):
            kept = counts["documents_kept"]
            if share * kept >= 1 and not counts.get(f"documents_{split}"):
                self._ledger.warn(
                    split, f"no document fell into the split {split!r}: {kept} documents are few for that"
                )


def corpus_schema(sources: Iterable[Source], settings: IngestSettings) -> pa.Schema:
    """The columns that these sources and settings give."""
    schema = CORPUS
    for name, kind in settings.metadata_types.items():
        schema = schema.append(pa.field(name, _TYPES[kind]))
    if any(source.kind == "package" for source in sources):
        schema = schema.append(pa.field("see_also", pa.list_(pa.field("item", pa.string(), nullable=False))))
    return schema
