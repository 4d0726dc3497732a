"""The core of `wordpipe ingest`: sources in, corpus rows out, as one pass with bounded memory.

ingest = Ingest(expand(["notes/", "python:numpy"]), IngestSettings(valid=0.05))
for batch in ingest.batches():
    ...
ingest.counts["documents_kept"]
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wordpipe.corpus.columns import Columns
from wordpipe.corpus.digests import Digests, RecordIds
from wordpipe.corpus.documents import (
    BATCH_CHARS,
    NOT_TEXT,
    SAME_ID,
    Document,
    Ledger,
    Record,
    SameIdError,
    document_of,
    no_reason,
    split_record,
)
from wordpipe.corpus.fields import near_fields
from wordpipe.corpus.kept import GrowingCorpus
from wordpipe.corpus.previous import Copied, PreviousCorpus, SourceSummary
from wordpipe.corpus.readers.lines import parallel_records
from wordpipe.corpus.reading import (
    UNREADABLE,
    lines_about_skipped,
    may_be_left,
    read_records,
    say_of_records,
    settings_for,
)
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Source, Sources
from wordpipe.errors import InputError, StorageError

_CHANGES = ("sources_copied", "sources_read_again", "sources_added", "sources_deleted")
_MERGED_ROWS, _MERGED_BYTES = 4096, 1 << 20  # a batch of either is not tiny
_BATCH_ROWS = 1 << 14
_MOST_DOUBLES = 100_000  # places of documents that were dropped as doubles, of all sources
_NAMED = {"labels": "label", "tags": "tags"}  # heading of counts → the column whose values are counted
_SHOWN_NAMES, _MANY_LINES = 12, 20  # two files with as many lines are rarely equal by chance


def _merged(batches: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of an ingest, small ones joined: a thousand copied files become one batch."""
    waiting: list[pa.RecordBatch] = []
    part = rows = size = 0
    for number, batch in batches:
        if waiting and (number != part or not batch.schema.equals(waiting[0].schema, check_metadata=True)):
            yield part, pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        part, rows, size = number, rows + len(batch), size + batch.nbytes
        if rows >= _MERGED_ROWS or size >= _MERGED_BYTES:
            yield part, pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield part, pa.concat_batches(waiting)


def source_parts(sources: Sequence[Source], least_bytes: int) -> list[list[Source]]:
    """Return the sources of an ingest in runs of at least `least_bytes`: the parts of a corpus."""
    parts: list[list[Source]] = [[]]
    size = 0
    for source in sources:
        if size >= least_bytes:
            parts.append([])
            size = 0
        parts[-1].append(source)
        size += source.bytes
    return parts


class _Rows:
    """The batch of corpus rows that an ingest is filling.

    What all sentences of a document share is kept once, and repeated by Arrow when the batch is taken.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._clear()

    def _clear(self) -> None:
        self._texts: list[str] = []
        self._lines: list[int] = []
        self._sentence_ids: list[int] = []
        self._documents: list[Document] = []
        self._runs: list[int] = []  # sentences of each
        self._chars = 0
        self.has_fields = False  # then all documents must be of one source, whose ledger learns the kinds of its values

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def is_full(self) -> bool:
        """True if it is time to take the batch."""
        return self._chars >= BATCH_CHARS or len(self._texts) >= _BATCH_ROWS

    def add(self, document: Document, first: int, texts: list[str], lines: list[int]) -> None:
        """Add the sentences of one ingested document to the batch, numbered from `first`."""
        self._texts += texts
        self._lines += lines
        self._sentence_ids += range(first, first + len(texts))
        self._documents.append(document)
        self._runs.append(len(texts))
        self._chars += sum(map(len, texts)) + len(texts) * document.width
        self.has_fields = self.has_fields or bool(document.record.metadata or document.record.own)

    def take(self, ledger: Ledger) -> pa.RecordBatch:
        """Return the batch of ingested rows, in the schema that the columns have with it; an empty one is begun."""
        documents = self._documents
        records = [document.record for document in documents]
        found = self._columns.arrays(records, ledger)
        shared = {
            "doc_id": [document.doc_id for document in documents],
            "split": [document.split for document in documents],
            "title": [record.title for record in records],
            "source": [record.source for record in records],
        }
        found |= {name: pa.array(values, pa.string()) for name, values in shared.items()}
        own = {"text": self._texts, "line": self._lines, "sentence_id": self._sentence_ids}
        document_of_row = pa.array(np.repeat(np.arange(len(self._runs)), self._runs))
        schema = self._columns.schema
        arrays = [
            pa.array(own[field.name], field.type) if field.name in own else found[field.name].take(document_of_row)
            for field in schema
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Ingest:
    """One reading of sources: text in, corpus rows out.

    Rows are the same on every machine: they depend on the sources' bytes, their names and the settings alone. Memory
    does not grow with the corpus, except by 16 to 32 bytes for each document where duplicates are looked for, and 32 to 64 for
    each record with an id.

    Args:
        sources: read in this order, the pieces of a large file one after the other; with `settings.parallel` two files of
            lines, which are read as one source.
        settings: formats, fields, policies and bounds.
        on_bytes: called, as reading goes on, with how many bytes of all sources on disk have been read.
        on_source: called, after each source, with what it gave.
        previous: the corpus made before with the same settings; the sources that have not changed are copied from it.
        left_out: called with the id of a record and the digest of its text; returns why it is left out of the corpus, or "".
        is_first: no source before these has fields.

    Attributes:
        seen: the digests of the documents that were kept.
        ids: the ids of their records.
        changes: with a previous corpus, how many sources were copied, read again, are new, and are gone.
        doubles: where else documents of the corpus stand, as rows of the schema `DOUBLES`.
        bytes_copied: bytes of sources that were not read, as `counts` has them among `bytes_read`.
        all_train: no document fell to the texts to train on, so all are: `converted` moves them there.
        missing: messages about fields that settings name and no record has; they are among the warnings too.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        settings: IngestSettings,
        *,
        on_bytes: Callable[[int], object] = lambda done: None,
        on_source: Callable[[SourceSummary], object] = lambda summary: None,
        previous: PreviousCorpus | GrowingCorpus | None = None,
        left_out: Callable[[str | None, bytes], str] = no_reason,
        is_first: bool = True,
    ) -> None:
        self.sources = tuple(sources)
        self.settings = settings
        self.missing: list[str] = []
        self._columns = Columns(settings, see_also=any(source.kind == "package" for source in self.sources))
        self._ledger = Ledger()
        self._on_bytes, self._on_source, self._previous = on_bytes, on_source, previous
        self._is_first, self.all_train, self._left_out = is_first, False, left_out
        self.seen, self.ids = Digests(), RecordIds()
        self.bytes_copied = 0
        self.doubles: list[dict[str, Any]] = []
        self.changes, self._change = dict.fromkeys(_CHANGES, 0), ""
        self._done = 0
        self._skipped, self._examples = (
            (sources.skipped, sources.examples) if isinstance(sources, Sources) else ({}, {})
        )
        self._wanted = {name for _, name in self._named_fields()}
        self._ledger.add("files_skipped", sum(self._skipped.values()))
        if isinstance(sources, Sources):
            for what, named in sources.unreadable.items():
                for one in named:
                    self._ledger.add_file(UNREADABLE, what, one)

    @property
    def schema(self) -> pa.Schema:
        """The corpus schema; columns of ours that fields fill; one for each field; and `see_also` where a source is a package.

        It grows while batches are read: a field comes late, or its values are of another type than before.
        """
        return self._columns.schema

    def converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch that came before the schema was what it is now, in this schema."""
        batch = self._columns.converted(batch)
        if not self.all_train:
            return batch
        place = batch.schema.get_field_index("split")
        return batch.set_column(place, batch.schema.field(place), pa.array(["train"] * len(batch), pa.string()))

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts of the whole ingest so far, by name, zeros left out.

        Documents read, kept and dropped (and why), bytes, sentences, everything split, replaced, skipped or left behind.
        `documents_read` is the sum of `documents_kept` and of all `documents_dropped_…`.
        """
        return self._ledger.counts()

    @property
    def warnings(self) -> list[str]:
        """Return the warnings of the ingest, in the order in which they arose."""
        return list(self._ledger.warned.values())

    @property
    def unreadable(self) -> dict[str, list[str]]:
        """Return the names of the unreadable files, by the reason."""
        return self._ledger.files.get(UNREADABLE, {})

    @property
    def source_notes(self) -> list[str]:
        """Return the lines for the screen about single sources."""
        return list(self._ledger.notes)

    @property
    def notes(self) -> list[str]:
        """Return the notes of an ingest for the screen: what a source looked like, where ids come from."""
        found = self.source_notes
        for heading in _NAMED:
            if counts := [*self._ledger.named(heading).items()]:
                more = f" and {len(counts) - _SHOWN_NAMES:,} more" if len(counts) > _SHOWN_NAMES else ""
                shown = ", ".join(f"{name} {number:,}" for name, number in counts[:_SHOWN_NAMES])
                found.append(f"{heading}: {shown}{more}")
        return [*found, *lines_about_skipped(self._skipped, self._examples)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an ingest, in batches of at most about 5 MiB, each in the schema as it then is.

        Raises:
            InputError: a source is missing, binary, damaged or malformed; two records have one id; nothing was kept of all.
            StorageError: reading failed.
        """
        yield from (batch for _, batch in self.parts([self.sources]))

    def parts(self, parts: Sequence[Sequence[Source]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows as `batches` does, each batch with the number of its part; `parts` are runs of all sources."""
        yield from self.rows(parts)
        self.conclude()

    def rows(self, parts: Sequence[Sequence[Source]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows as `parts` does, without `conclude` at the end: the sources are a part of another reading."""
        return _merged(self._batches(parts))

    def _batches(self, parts: Sequence[Sequence[Source]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches before they are joined: those of copied sources may be small."""
        for number, sources in enumerate(parts):
            for batch in self._batches_of(sources[:1] if self.settings.parallel else sources):
                yield number, batch

    def _batches_of(self, sources: Iterable[Source]) -> Iterator[pa.RecordBatch]:
        """Yield the ingested rows of some sources, each read or copied from the previous corpus."""
        rows = _Rows(self._columns)
        for source in sources:
            copied = None
            if self._previous is not None:
                seen = self.seen if self.settings.deduplicate else None
                copied = self._previous.copy(source, seen, self.ids, self._columns.has_room)
                self.changes["sources_deleted"] = self._previous.deleted
                change = "read_again" if self._previous.is_known(source.name) else "added"
                self._note_change(source, change if copied is None else copied.change)
            if copied is not None and len(rows):
                yield rows.take(self._ledger)
            yield from self._read(source, rows) if copied is None else self._copy(source, copied)
        if len(rows):
            yield rows.take(self._ledger)

    def _note_change(self, source: Source, change: str) -> None:
        """Count what became of a source: of one of several pieces it is read again if one of these is."""
        if source.start and (change == self._change or change == "copied"):
            return
        if source.start:
            self.changes[f"sources_{self._change}"] -= 1
        self.changes[f"sources_{change}"] += 1
        self._change = change

    def _copy(self, source: Source, copied: Copied) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source that an updating ingest copies from the previous corpus."""
        ledger = copied.ledger
        self._columns.adopt(ledger, source.name)
        for batch in copied.rows:
            yield self._columns.converted(batch, ledger if copied.can_restore else None)
        self.bytes_copied += ledger["bytes_read"] * (copied.change == "copied")
        self._take(SourceSummary.of(source.name, ledger), ledger)
        self._progress(sum(one.bytes for one in self.sources) if self.settings.parallel else source.bytes)

    def _read(self, source: Source, rows: _Rows) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source that the ingest reads."""
        ledger = Ledger()
        if self.settings.parallel:
            records = parallel_records(source, self.sources[1], self.settings, ledger, self._progress)
        else:
            is_first = self._is_first and not self._ledger.fields_seen and not may_be_left(source, self.settings)
            records = read_records(source, self.settings, ledger, self._progress, needs_id=is_first)
        # their documents and sentences; nearly every record is one document
        is_pairs, longest = self.settings.is_pairs, self.settings.max_document_bytes
        for record in records:
            if not rows.has_fields and (record.metadata or record.own) and len(rows):
                yield rows.take(ledger)  # of sources before this one
            is_whole = 4 * len(record.text) <= longest or is_pairs or record.is_pair
            for part in (record,) if is_whole else split_record(record, longest):
                if (document := self._document(part, source, ledger)) is not None:
                    self._count_names(document, ledger)
                    first = 0
                    for texts, lines in document.sentences(self.settings, ledger):
                        rows.add(document, first, texts, lines)
                        first += len(texts)
                        if rows.is_full:
                            yield rows.take(ledger)
                    ledger.add("sentences", first)
        if rows.has_fields:
            yield rows.take(ledger)
        self._take(SourceSummary.of(source.name, ledger), ledger)

    def take_over(self, summary: SourceSummary, notes: Iterable[str]) -> bool:
        """Count in the ingest what another reading of a source gave, and take its fields.

        False where there are more than can be columns.

        Args:
            summary: of the source.
            notes: of the reading.
        """
        ledger = summary.open_ledger()
        ledger.notes.update(dict.fromkeys(notes))
        if not self._columns.has_room(ledger, pa.schema([])):
            return False
        self._columns.adopt(ledger, summary.name)
        self._take(summary, ledger)
        return True

    def _take(self, summary: SourceSummary, ledger: Ledger) -> None:
        """Add the counts of a source to those of the ingest."""
        self._ledger.take_over(ledger, self._wanted)
        if len(self.doubles) < _MOST_DOUBLES:
            self.doubles += ledger.places_of_doubles(summary.name)
        self._on_source(summary)

    def _document(self, record: Record, source: Source, ledger: Ledger) -> Document | None:
        """Return the document of a record, if it is kept.

        Raises:
            InputError: another record has its id.
        """
        try:
            return document_of(record, self.settings, ledger, self.seen, self.ids, self._left_out)
        except SameIdError as error:
            own_id, place = str(record.own["record_id"]), f"{record.source}, line {record.line}"
            got = f"{own_id[:60]!r}, as in {error.args[0]}"
            found = InputError("two records have the same id", where=place, got=got)
            reading = settings_for(source, self.settings)
            if reading.bad_records == "fail":
                found.hint = "use --id-field to choose another field, or --bad-records skip to skip the later record"
                raise found from None
            # a field that nobody named as the id, and is none, costs no record
            if self.settings.bad_records == "auto" and self.settings.id_field == "auto":
                ledger.add("ids_dropped_repeated")
                ledger.add("records_split", -(record.part == 1))
                ledger.warn(SAME_ID, f"{found.message}")
                record.own = {**record.own, "record_id": None}
                return document_of(record, self.settings, ledger, self.seen, self.ids, self._left_out)
            ledger.skip("duplicate_id", found.message)
            return None

    def _count_names(self, document: Document, ledger: Ledger) -> None:
        """Count the labels and tags of an ingested document."""
        for heading, column in _NAMED.items():
            value = document.record.own.get(column)
            for name in value if isinstance(value, list) else (value,):
                if name is not None:
                    ledger.add_named(heading, str(name))

    def _progress(self, number: int) -> None:
        """Report how many bytes of the sources have been read."""
        self._done += number
        self._on_bytes(self._done)

    def conclude(self) -> None:
        """Add the notes and warnings of an ingest that need the counts of all sources.

        Raises:
            InputError: nothing was kept.
        """
        names = [*dict.fromkeys(source.name for source in self.sources)]
        self._ledger.add("sources", len(names))
        counts, ledger = self.counts, self._ledger
        if not counts.get("documents_kept"):
            raise self._nothing_kept(names)
        # all documents fell to what is held out
        if not counts.get("documents_train"):
            self._hold_none_out(counts["documents_kept"])
            counts = self.counts
        say_of_records(ledger)
        # fields: missing, of several types, too long, too many
        for option, name in self._named_fields():
            if name not in ledger.fields_seen:
                self.missing.append(self._missing(option, name))
                ledger.warn(f"missing {name}", self.missing[-1])
        for name, place in self._columns.mixed().items():
            what = f"the values of {name!r} have different types, so all of them are kept as text"
            ledger.warn(f"mixed {name}", f"{what}; the first value with a different type is in {place}")
        # splits without a document
        for split, share in (("train", 1.0), ("valid", self.settings.valid), ("test", self.settings.test)):
            kept = counts["documents_kept"]
            if share * kept >= 1 and not counts.get(f"documents_{split}"):
                message = f"the split {split!r} has no documents, because {kept} documents are too few for all splits"
                ledger.warn(split, message)
        self._note_equal_lines()

    def _nothing_kept(self, names: Sequence[str]) -> InputError | StorageError:
        """Return the error for an ingest that kept no document."""
        counts, ledger = self.counts, self._ledger
        if isinstance(ledger.first_error, (InputError, StorageError)):
            return ledger.first_error
        found = ", ".join(f"{name} {number}" for name, number in counts.items())
        shown = ", ".join(names[:3])
        where = shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
        is_dropped = any("dropped" in name or "skipped" in name for name in counts)
        hint = f"give files that contain text{'; the counts show how much was dropped and why' if is_dropped else ''}"
        if first := ledger.warned.get(NOT_TEXT):
            hint = f"the files contain no plain text: {first}"
        if self.settings.text_b and counts.get("documents_dropped_empty_target"):
            hint = "plain text files have no second text; use --format tsv for columns, or --parallel for two files of lines"
        return InputError("no source contains any text", where=where, got=found, hint=hint)

    def _hold_none_out(self, kept: int) -> None:
        """Train on all ingested documents: all of these few fell to what is held out."""
        self.all_train = True
        for split in ("valid", "test"):
            self._ledger.add(f"documents_{split}", -self._ledger[f"documents_{split}"])
        self._ledger.add("documents_train", kept)
        which = "the only document is" if kept == 1 else f"all {kept:,} documents are"
        self._ledger.notes[
            f"{which} used for training; no document is held out, because then no text would be left for training"
        ] = None

    def _note_equal_lines(self) -> None:
        """Note where two files of lines may be pairs."""
        lines = Counter[str]()
        for source in self.sources:
            lines[source.name] += source.seen.lines
        first, *others = lines.values()
        if [first] == others and first >= _MANY_LINES and not self.settings.parallel:
            what = f"both files have {first:,} lines; if line N of one file translates line N of the other file"
            self._ledger.notes[f"{what}, use --parallel"] = None

    def _named_fields(self) -> Iterator[tuple[str, str]]:
        """Yield option and field of all fields that settings of the ingest name, but for the text."""
        usual = type(self.settings).model_fields["title_field"].default
        if self.settings.title_field != usual:
            yield "--title-field", self.settings.title_field
        if self.settings.id_field not in ("auto", "none"):
            yield "--id-field", self.settings.id_field
        options = {"text_b": "--text-b", "label": "--label-field", "tags": "--tags-field", "spans": "--spans-field"}
        for column, name in self.settings.own_fields.items():
            yield options[column], name
        for name in self.settings.metadata_types:
            yield "--metadata", name

    def _missing(self, option: str, name: str) -> str:
        """Return the warning about a field that settings name and no record has."""
        seen = [*self._ledger.fields_seen]
        near = near_fields(name, seen)
        empty = ", so the column is empty" if option == "--metadata" else ""
        if near:
            return f"no record has the field {name!r} ({option}){empty}; did you mean {', '.join(near)}?"
        there = f"; the fields are {', '.join(seen[:20])}" if seen else ""
        return f"no record has the field {name!r} ({option}){empty}{there}"
