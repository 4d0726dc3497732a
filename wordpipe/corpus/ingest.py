"""The core of `wordpipe ingest`: sources in, corpus rows out, as one pass with bounded memory.

ingest = Ingest(expand(["notes/", "python:numpy"]), IngestSettings(valid=0.05))
for batch in ingest.batches():
    ...
ingest.counts["documents_kept"]
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import CORPUS, parse_json_object
from wordpipe.corpus.documents import BATCH_CHARS, Digests, Document, Ledger, document_of, split_record
from wordpipe.corpus.readers import read_records
from wordpipe.corpus.settings import IngestSettings, MetadataType
from wordpipe.corpus.sources import Source, Sources
from wordpipe.errors import InputError

_CHANGES = ("sources_copied", "sources_read_again", "sources_added", "sources_deleted")
_TYPES: dict[MetadataType, pa.DataType] = {
    "str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(),
}  # fmt: skip
_MERGED_ROWS, _MERGED_BYTES = 4096, 1 << 20  # a batch of either is not tiny
_BATCH_ROWS = 1 << 14
_LEDGER = "sources.parquet"
DOCUMENT_COLUMNS = ("doc_id", "sentence_id")


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """What one source gave."""

    name: str  # the source
    rows: int  # rows of the corpus that came from it
    ledger: str  # of the source, as JSON: there may be a million sources, and a dict takes five times the memory
    digest: str = ""  # BLAKE3 of its content, in hex; empty where nobody knows it

    @classmethod
    def of(cls, name: str, ledger: Ledger) -> "SourceSummary":
        """What the ledger of one source says."""
        counts = ledger.counts()
        return cls(name, counts.get("sentences", 0), json.dumps({"counts": counts, "warnings": ledger.warned}))

    @property
    def counts(self) -> dict[str, int]:
        """The ledger's counts."""
        return dict(parse_json_object(self.ledger, _LEDGER).get("counts", {}))

    @property
    def warnings(self) -> dict[str, str]:
        """The ledger's first message of each kind."""
        return dict(parse_json_object(self.ledger, _LEDGER).get("warnings", {}))


class PreviousCorpus:
    """The rows of a corpus that was made with the same settings, source by source. Ask for sources in their order.

    The rows are to be the same as if everything had been read. That is so if a source has the bytes it had and none of its
    documents changes sides in the search for duplicates: none that was kept has come up in a source before it by now, and
    none that was dropped may have lost its double, in a source before it that has changed or is gone.

    Args:
        summaries: of all its sources, in the order of its rows.
        digests: content hash of each source that is to be read now, by name; empty for a stream.
        rows: all its rows in order.
        documents: the same rows, of `DOCUMENT_COLUMNS` alone.
    """

    def __init__(
        self,
        summaries: Sequence[SourceSummary],
        digests: Mapping[str, str],
        rows: Iterable[pa.RecordBatch],
        documents: Iterable[pa.RecordBatch],
    ) -> None:
        starts = accumulate((summary.rows for summary in summaries), initial=0)
        self._sources = {summary.name: (summary, start) for summary, start in zip(summaries, starts, strict=False)}
        self._digests = digests
        self._rows, self._documents = _ForwardRows(rows), _ForwardRows(documents)
        changed = [summary.name for summary in summaries if not self._is_unchanged(summary)]
        self._first_changed = min(changed, default=None)
        self.deleted = sum(name not in digests for name in changed)

    def copy(self, name: str, seen: Digests | None) -> tuple[SourceSummary, Iterator[pa.RecordBatch]] | None:
        """The summary and the rows of a source, where these can be copied; None where it must be read.

        `seen` are the documents kept so far, or None where duplicates are kept; those of a source that is copied are added.
        """
        summary, start = self._sources.get(name, (None, 0))
        if summary is None or not self._is_unchanged(summary):
            return None
        if seen is not None:
            may_return = self._first_changed is not None and self._first_changed < name
            if may_return and summary.counts.get("documents_dropped_duplicate"):
                return None
            batches = self._documents.take(start, start + summary.rows)
            firsts = (batch["doc_id"].filter(pc.equal(batch["sentence_id"], 0)).to_pylist() for batch in batches)
            digests = [bytes.fromhex(doc_id) for first in firsts for doc_id in first]
            if any(digest in seen for digest in digests):
                return None
            for digest in digests:
                seen.add(digest)
        return summary, self._rows.take(start, start + summary.rows)

    def is_known(self, name: str) -> bool:
        """Whether there was a source of this name."""
        return name in self._sources

    def _is_unchanged(self, summary: SourceSummary) -> bool:
        return summary.digest != "" and self._digests.get(summary.name) == summary.digest


class _ForwardRows:
    """Stretches of a stream of rows, each after the one before."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None
        self._ends = 0  # number of the row after the batch

    def take(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Rows start … stop."""
        while start < stop:
            while self._batch is None or self._ends <= start:
                self._batch = next(self._batches)
                self._ends += len(self._batch)
            first = start - (self._ends - len(self._batch))
            part = self._batch.slice(first, stop - start)
            start += len(part)
            yield part


def _merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not tiny: a thousand copied files of two sentences are one batch, not a thousand."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _MERGED_ROWS or size >= _MERGED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


class _Rows:
    """The batch of corpus rows that is being filled.

    What all sentences of a document share is kept once, and repeated by Arrow when the batch is taken. Its schema is that of
    the corpus, then the metadata columns.
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
        return self._chars >= BATCH_CHARS or len(self._texts) >= _BATCH_ROWS

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


class Ingest:
    """One reading of some sources.

    Rows are the same on every machine: they depend on the sources' bytes, their names and the settings alone. Memory
    does not grow with the corpus, except by 16 to 32 bytes for each document where duplicates are looked for.

    Args:
        sources: read in this order.
        settings: formats, fields, policies and bounds.
        on_bytes: called, as reading goes on, with how many bytes of all sources on disk have been read.
        on_source: called, after each source, with what it gave.
        previous: the corpus made before with the same settings; the sources that have not changed are copied from it.

    Attributes:
        schema: the corpus schema; then a column for each metadata setting; then `see_also` (list of names; null for
            other sources) where a source is a package.
        changes: with a previous corpus, how many sources were copied, read again, are new, and are gone.
        bytes_copied: bytes of sources that were not read, as `counts` has them among `bytes_read`.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        settings: IngestSettings,
        *,
        on_bytes: Callable[[int], object] = lambda done: None,
        on_source: Callable[[SourceSummary], object] = lambda summary: None,
        previous: PreviousCorpus | None = None,
    ) -> None:
        self.sources = tuple(sources)
        self.settings = settings
        self.schema = corpus_schema(self.sources, settings)
        self._ledger = Ledger()
        self._never_found = set(settings.metadata_types)
        self._on_bytes, self._on_source, self._previous = on_bytes, on_source, previous
        self._seen = Digests()
        self.bytes_copied = 0
        self.changes = dict.fromkeys(_CHANGES, 0)
        self._done = 0
        for reason, number in sources.skipped.items() if isinstance(sources, Sources) else ():
            self._ledger.add_named("files_skipped", reason, number)

    @property
    def counts(self) -> dict[str, int]:
        """What has happened so far, by name, zeros left out.

        Documents read, kept and dropped (and why), bytes, sentences, everything split, replaced, skipped or left behind.
        `documents_read` is the sum of `documents_kept` and of all `documents_dropped_…`.
        """
        return self._ledger.counts()

    @property
    def warnings(self) -> list[str]:
        """Messages worth showing, in the order in which they arose."""
        return list(self._ledger.warned.values())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in batches of at most about 5 MiB. To be called once.

        Raises:
            InputError: a source is missing, binary, damaged or malformed; or nothing was kept of all.
            StorageError: reading failed.
        """
        yield from _merged(self._batches())
        self._ledger.add("sources", len(self.sources))
        self._conclude()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The same, those of copied sources as small as the sources are."""
        rows = _Rows(self.schema)
        for source in self.sources:
            copied = None
            if self._previous is not None:
                copied = self._previous.copy(source.name, self._seen if self.settings.deduplicate else None)
                self.changes["sources_deleted"] = self._previous.deleted
                change = "read_again" if self._previous.is_known(source.name) else "added"
                self.changes[f"sources_{'copied' if copied is not None else change}"] += 1
            if copied is not None:
                if len(rows):
                    yield rows.take()
                yield from self._copy(source, *copied)
            else:
                yield from self._read(source, rows)
        if len(rows):
            yield rows.take()

    def _copy(
        self, source: Source, summary: SourceSummary, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._never_found -= {name for name in self._never_found if batch.column(name).null_count < len(batch)}
            yield batch
        self.bytes_copied += summary.counts.get("bytes_read", 0)
        self._ledger.take_over(summary.counts, summary.warnings)
        self._on_source(summary)
        self._progress(source.bytes)

    def _read(self, source: Source, rows: _Rows) -> Iterator[pa.RecordBatch]:
        ledger = Ledger()
        for record in read_records(source, self.settings, ledger, self._progress):
            for part in split_record(record, self.settings.max_document_bytes):
                if (document := document_of(part, self.settings, ledger, self._seen)) is not None:
                    yield from self._add(document, rows, ledger)
        self._ledger.take_over(ledger.counts(), ledger.warned)
        self._on_source(SourceSummary.of(source.name, ledger))

    def _add(self, document: Document, rows: _Rows, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        self._never_found -= {name for name, value in document.record.metadata.items() if value is not None}
        first = 0
        for texts, lines in document.sentences(self.settings, ledger):
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
                message = f"no document fell into the split {split!r}: {kept} documents are few for that"
                self._ledger.warn(split, message)


def corpus_schema(sources: Iterable[Source], settings: IngestSettings) -> pa.Schema:
    """The columns that these sources and settings give."""
    schema = CORPUS
    for name, kind in settings.metadata_types.items():
        schema = schema.append(pa.field(name, _TYPES[kind]))
    if any(source.kind == "package" for source in sources):
        schema = schema.append(pa.field("see_also", pa.list_(pa.field("item", pa.string(), nullable=False))))
    return schema
