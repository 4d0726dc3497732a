"""`wordpipe ingest --add` and `--remove`: records come into a corpus and leave it, while all others stay.

Sources that are added are read first, into files of their own. Then the corpus is written anew, in the order of the names of
its sources: the rows of each source are copied, without those that were replaced or removed.

A corpus remembers which source was added when, as of two records with the same id the one that was added later counts. It
also remembers what was removed. `--update` reads all sources of such a corpus again, those added last first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts import (
    CORPUS,
    REMOVED,
    SOURCES,
    Artifact,
    InputEntry,
    is_artifact,
    manifest_at,
    open_regular_file,
    read_batches,
    read_schema,
    row_count,
)
from wordpipe.corpus import (
    READERS,
    REPLACED,
    TAKEN_OUT,
    Additions,
    ForwardRows,
    GrowingCorpus,
    Ingest,
    KeptSource,
    RemovedRecords,
    Source,
    Sources,
    SourceSummary,
    no_reason,
    with_splits,
)
from wordpipe.corpus.settings import NOTHING, IngestSettings
from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.stages.corpus.ingest_shards import ScratchFiles, write_parts
from wordpipe.stages.job import Job
from wordpipe.stages.search.row_facts import field_columns, rows_of_condition
from wordpipe.stages.sources import joint_hash

_REMOVED = "removed"
MADE_BY = "rows_of_version"
"""Fact of a corpus: the version that made its oldest rows, if it is another one."""
_SHOWN, _MAX_ENTRIES = 5, 1000
_MAX_ID_BYTES = 1 << 30  # of a file of ids


@dataclass
class History:
    """The additions to a corpus and the removals from it, as far as they are remembered.

    Attributes:
        removed: records that stay out.
        added: a source by name → the number of the addition by which its newest records came; 0: none.
        earlier: names of sources that have records of an earlier content, which no reading gives again.
    """

    removed: RemovedRecords = field(default_factory=RemovedRecords)
    added: dict[str, int] = field(default_factory=dict)
    earlier: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, artifact: Artifact, summaries: Iterable[SourceSummary]) -> "History":
        """Return what a corpus remembers."""
        found = cls()
        if f"{_REMOVED}.parquet" in artifact.names():
            found.removed = RemovedRecords(read_batches(artifact, _REMOVED, expected=REMOVED))
        numbers: dict[str, dict[int, int]] = {}  # source → addition → rows
        for summary in summaries:
            rows_of, number = numbers.setdefault(summary.name, {}), summary.open_ledger().added
            rows_of[number] = rows_of.get(number, 0) + summary.rows
        found.added = {name: max(rows_of) for name, rows_of in numbers.items()}
        found.earlier = {
            name for name, rows_of in numbers.items() if any(rows_of[n] for n in rows_of if n < max(rows_of))
        }
        return found

    @property
    def newest(self) -> int:
        """The number of the last addition; 0: there was none."""
        return max(self.added.values(), default=0)

    def number_of(self, name: str) -> int:
        """Return the number of the addition by which a source came; one that is new counts as added last."""
        return self.added.get(name, self.newest + 1 if self.newest else 0)

    def why_left_out(self, own_id: str | None, digest: bytes) -> str:
        """Return why a record is left out where no source was added: it was removed. Otherwise ""."""
        return TAKEN_OUT if self.removed.holds(own_id, digest) else ""

    def write(self, job: Job) -> None:
        """Write the removed records into the artifact of a job, if there are any."""
        if self.removed:
            with job.table(_REMOVED, REMOVED, single=True, log=True) as table:
                table.write(self.removed.batch())


@dataclass
class Reading:
    """The sources of a changed corpus, in the order of its rows, and their reader.

    Attributes:
        sources: in order; none of them is read again.
        digests: of each, as a later update knows them.
        kept: the sources with their rows.
        history: what the corpus is to remember.
        additions: what is known of the added records.
        growing: gives the rows, and counts records.
    """

    sources: Sources
    digests: list[str]
    kept: list[KeptSource]
    history: History
    additions: Additions
    growing: GrowingCorpus = field(init=False)

    def __post_init__(self) -> None:
        self.growing = GrowingCorpus(self.kept, self.history.removed, self.additions)

    def counts(self, dropped: int) -> dict[str, int]:
        """Return how many records were added, replaced, left as they are, and removed.

        Args:
            dropped: sources that are in the corpus as they are, and were not read: their records.
        """
        changes = self.growing.changes
        new = sum(one.ledger["documents_kept"] for one in self.kept if one.is_new)
        taken = changes["replaced"] + changes["unchanged"]
        return {
            "records_added": max(0, new - taken), "records_replaced": changes["replaced"],
            "records_unchanged": changes["unchanged"] + changes["copies"] + dropped, "records_removed": changes["removed"],
        }  # fmt: skip


def summaries_of(artifact: Artifact) -> list[SourceSummary]:
    """Return what each source of a corpus gave, in the order of its rows."""
    return [
        SourceSummary(row["source"], row["rows"], row["told"], row["digest"])
        for batch in read_batches(artifact, "sources", expected=SOURCES)
        for row in batch.to_pylist()
    ]


def warn_of_forgotten(job: Job) -> None:
    """Warn where a corpus is made anew that others were added to or removed from: that is forgotten."""
    with suppress(ArtifactError, OSError):
        if not is_artifact(job.target) or (manifest := manifest_at(job.target)).kind != job.kind:
            return
        removed = sum(entry.rows or 0 for entry in manifest.outputs if entry.path == f"{_REMOVED}.parquet")
        if removed or manifest.facts.get("additions"):
            parts = [f"{removed:,} removals"] * bool(removed) + ["additions"] * bool(manifest.facts.get("additions"))
            job.warn(
                f"the corpus is made anew from the named sources, and its earlier {' and '.join(parts)} are forgotten; to "
                "keep them, use --add, --remove or --update"
            )


def open_corpus_to_change(job: Job, chosen: IngestSettings) -> tuple[Artifact, list[SourceSummary], History]:
    """Open the corpus at the output, for `--add` or `--remove`; the job takes the settings of the corpus.

    Raises:
        ArtifactError: there is none, or it is damaged.
        ConfigError: a setting that was given is another than that of the corpus.
    """
    artifact = job.keep_open(Artifact(job.target, [job.kind], verify=job.run.verify))
    # its records were read with its settings, and so are those that are added
    fields = IngestSettings.model_fields
    given = {
        name: value for name, value in artifact.manifest.settings.items() if name in fields and fields[name].recipe
    }
    own = IngestSettings.make(given)
    for name in sorted(chosen.model_fields_set):
        if fields[name].recipe and getattr(chosen, name) != getattr(own, name):
            hint = f"leave out --{name.replace('_', '-')}: records are added with the settings of the corpus"
            raise ConfigError(
                f"the corpus was made with another value of {name}", where=job.target, got=getattr(chosen, name),
                expected=getattr(own, name), hint=hint,
            )  # fmt: skip
    if own.parallel and chosen.add:
        hint = "name both files with all lines, and use --update"
        raise ConfigError("lines of two files cannot be added to a corpus of pairs", where=job.target, hint=hint)
    job.settings = own
    summaries = summaries_of(artifact)
    if sum(summary.rows for summary in summaries) != row_count(artifact, "corpus"):
        hint = "make the corpus again from all its sources"
        raise ArtifactError("the corpus does not say which rows came from which source", where=job.target, hint=hint)
    made_by = artifact.manifest.facts.get(MADE_BY, artifact.manifest.wordpipe)
    job.facts |= {name: artifact.manifest.facts[name] for name in ("not_read",) if name in artifact.manifest.facts}
    job.facts |= {MADE_BY: made_by} if made_by != __version__ else {}
    return artifact, summaries, History.of(artifact, summaries)


def kept_sources(artifact: Artifact, summaries: Sequence[SourceSummary], settings: IngestSettings) -> list[KeptSource]:
    """Return the sources of a corpus, each with its rows."""
    rows, schema = ForwardRows(read_batches(artifact, "corpus", expected=CORPUS)), read_schema(artifact, "corpus")
    ends = [*accumulate((summary.rows for summary in summaries), initial=0)]
    hidden_splits = artifact.manifest.facts.get("held_out") == NOTHING

    def rows_between(start: int, stop: int) -> Iterator[pa.RecordBatch]:
        found = rows.take(start, stop)
        return with_splits(found, settings) if hidden_splits else found

    found = []
    for summary, start, stop in zip(summaries, ends, ends[1:], strict=False):
        ledger = summary.open_ledger()
        kind: Any = "package" if summary.name.startswith("python:") else "file"
        source = Source(summary.name, kind, bytes=ledger["bytes_read"])
        found.append(KeptSource(source, ledger, partial(rows_between, start, stop), schema))
    return found


def read_apart(
    job: Job, sources: Sequence[Source], chosen: IngestSettings, number: int, history: History,
    left_out: Callable[[str | None, bytes], str], on_rows: Callable[[pa.RecordBatch], object],
    on_bytes: Callable[[int], object],
) -> tuple[Ingest, list[KeptSource]]:  # fmt: skip
    """Read sources into files of their own.

    Args:
        job: gives the folder for them.
        sources: in the order of their names.
        chosen: how they are read.
        number: of the addition by which they come.
        history: of the corpus.
        left_out: see `Ingest`.
        on_rows: called with the rows.
        on_bytes: called with how many bytes have been read.

    Returns:
        The reader, and each source with its rows.
    """
    summaries: list[SourceSummary] = []
    reader = Ingest(sources, chosen, on_bytes=on_bytes, on_source=summaries.append, left_out=left_out)

    def noted() -> Iterator[tuple[int, pa.RecordBatch]]:
        for part, batch in reader.rows([sources]):
            on_rows(batch)
            yield part, batch

    written = write_parts(noted(), lambda stretch: ScratchFiles(job.scratch / f"added-{number}-{stretch}"))
    stretches = [files for part in written for _, files in part]
    rows = ForwardRows(map(reader.converted, chain.from_iterable(files.batches() for files in stretches)))
    ends = [*accumulate((summary.rows for summary in summaries), initial=0)]
    found = []
    for source, summary, start, stop in zip(sources, summaries, ends, ends[1:], strict=False):
        ledger = summary.open_ledger()
        ledger.added = number
        change = "read_again" if source.name in history.added else "added"
        found.append(KeptSource(source, ledger, partial(rows.take, start, stop), reader.schema, change, is_new=True))
    for text in reader.source_notes:
        job.note(text)
    return reader, found


def plan_addition(
    job: Job, chosen: IngestSettings, found: Sources, digests: dict[str, str], on_bytes: Callable[[int], object]
) -> tuple[Reading, int]:
    """Read the sources that are added, and return how the corpus is put together; and how many records need not be read.

    Args:
        job: of the addition.
        chosen: the settings that were given.
        found: the sources.
        digests: content hash of each by name; empty for a stream.
        on_bytes: called with how many bytes have been read.

    Raises:
        ConfigError: a table that the corpus has already was given again with other content, and its records have no ids.
    """
    artifact, summaries, history = open_corpus_to_change(job, chosen)
    assert isinstance(job.settings, IngestSettings)
    settings = job.settings
    old = kept_sources(artifact, summaries, settings)
    # a source that is whole in the corpus as it is now need not be read
    whole, dropped = set[str](), 0
    for name in {source.name for source in found if digests[source.name]}:
        entries = [(one.ledger, summary) for one, summary in zip(old, summaries, strict=True) if summary.name == name]
        newest = [pair for pair in entries if pair[0].added == history.added.get(name)]
        lost = any(ledger[f"documents_dropped_{why}"] for ledger, _ in newest for why in (REPLACED, TAKEN_OUT))
        if newest and not lost and {summary.digest.partition(" ")[0] for _, summary in newest} == {digests[name]}:
            whole.add(name)
            dropped += sum(ledger["documents_kept"] for ledger, _ in newest)
    added = [source for source in found if source.name not in whole]
    _refuse_tables_without_ids(job, added, old)
    # read the others
    names = frozenset(source.name for source in added if not source.is_read_once) & history.added.keys()
    additions = Additions(names=names)

    def learn(batch: pa.RecordBatch) -> None:
        additions.learn(batch)
        ids = batch["record_id"].to_pylist() if "record_id" in batch.schema.names else [None] * len(batch)
        if history.removed:
            for own_id, doc_id in zip(ids, batch["doc_id"].to_pylist(), strict=True):
                history.removed.forget(None if own_id is None else str(own_id), bytes.fromhex(doc_id))

    number = history.newest + 1
    new: list[KeptSource] = []
    if added:
        reader, new = read_apart(job, added, settings, number, history, no_reason, learn, on_bytes)
        additions.ids, additions.seen = reader.ids, reader.seen
    job.facts["additions"] = number if added else history.newest
    # put both in the order of their names
    known = {id(one): summary.digest for one, summary in zip(old, summaries, strict=True)}
    known |= {id(one): one.source.digest_of(digests[one.source.name]) for one in new}
    kept = sorted([*old, *new], key=lambda one: (one.source.name, one.ledger.added))
    sources = Sources([one.source for one in kept], found.skipped, found.examples, is_sorted=False)
    return Reading(sources, [known[id(one)] for one in kept], kept, history, additions), dropped


def _refuse_tables_without_ids(job: Job, added: Sequence[Source], old: Sequence[KeptSource]) -> None:
    """Refuse to add a table of records that has changed, if no id says which of its records are new. Raises ConfigError."""
    without = {
        one.source.name for one in old if one.ledger["documents_kept"] and "record_id" not in one.ledger.own_kinds
    }
    for source in added:
        if source.name in without and not source.is_read_once and READERS[source.format].fields == "named":
            hint = "to replace all its records, name all sources and use --update; to keep its earlier records, too, put the "
            raise ConfigError(
                "the corpus has records of this file already; they have no ids, so nothing says which of its records are new",
                where=source.name, hint=f"{hint}new records into a file with another name",
            )  # fmt: skip


def plan_update(
    job: Job, settings: IngestSettings, found: Sources, digests: dict[str, str], history: History,
    on_bytes: Callable[[int], object],
) -> Reading:  # fmt: skip
    """Read all sources of an update of a corpus that sources were added to, and return how the corpus is put together.

    The sources that were added last are read first, as their records replace others.
    """
    order = {id(source): place for place, source in enumerate(found)}
    numbers = {source.name: history.number_of(source.name) for source in found}
    readers: list[Ingest] = []
    kept: list[KeptSource] = []

    def left_out(own_id: str | None, digest: bytes) -> str:
        if own_id is not None and any(own_id in reader.ids for reader in readers):
            return REPLACED
        return history.why_left_out(own_id, digest)

    for number in sorted({*numbers.values()}, reverse=True):
        some = [source for source in found if numbers[source.name] == number]
        reader, read = read_apart(job, some, settings, number, history, left_out, lambda batch: None, on_bytes)
        readers.append(reader)
        kept += read
    kept.sort(key=lambda one: order[id(one.source)])
    job.facts["additions"] = max(numbers.values())
    known = [one.source.digest_of(digests[one.source.name]) for one in kept]
    return Reading(found, known, kept, history, Additions())


def plan_removal(job: Job, chosen: IngestSettings) -> Reading:
    """Return how a corpus is put together without the records that are removed.

    Raises:
        InputError: no record would be left; there is no file of ids, or none in it.
        ConfigError: the condition is none.
    """
    artifact, summaries, history = open_corpus_to_change(job, chosen)
    assert isinstance(job.settings, IngestSettings)
    job.inputs = list(artifact.manifest.inputs)
    if history.newest:
        job.facts["additions"] = history.newest
    # which documents leave
    before = len(history.removed)
    wanted = None if chosen.ids is None else _ids_in(chosen.ids)
    fulfils = _rows_where(artifact, chosen.where) if wanted is None else None
    left = _note_removed(artifact, history.removed, wanted, fulfils)
    if not left:
        hint = "to remove the whole corpus, remove its folder"
        raise InputError("all records would be removed, so the corpus would be empty", where=job.target, hint=hint)
    if wanted is not None and (missing := [own_id for own_id, is_there in wanted.items() if not is_there]):
        more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
        verb = "is" if len(missing) == 1 else "are"
        ids = "id" if len(missing) == 1 else "ids"
        job.warn(f"{len(missing):,} {ids} {verb} not in the corpus: {', '.join(missing[:_SHOWN])}{more}")
        # ids that no record ever had are a mistake; those that were removed before are none
        if len(missing) == len(wanted) and not any(history.removed.holds(own_id, b"") for own_id in missing):
            what, hint = "no record has one of these ids", "wordpipe show says which columns the corpus has"
            raise InputError(what, where=job.target, got=", ".join(missing[:_SHOWN]) + more, hint=hint)
    if len(history.removed) == before:
        job.warn(
            "nothing was removed: " + ("the condition is true of no record" if wanted is None else "no id is there")
        )
    kept = kept_sources(artifact, summaries, job.settings)
    sources = Sources([one.source for one in kept], {}, is_sorted=False)
    return Reading(sources, [summary.digest for summary in summaries], kept, history, Additions())


def _rows_where(artifact: Artifact, condition: str) -> "np.ndarray[Any, Any]":
    """Return the rows of a corpus of which a condition is true, (N,) bool. Raises ConfigError: it does not fit the columns."""
    from wordpipe.search import RowFilter

    with closing(RowFilter(field_columns(artifact))) as rows:
        return rows_of_condition(artifact, rows, condition)


def _note_removed(
    artifact: Artifact, removed: RemovedRecords, wanted: dict[str, bool] | None, fulfils: "np.ndarray[Any, Any] | None"
) -> int:
    """Add the documents that leave to the removed records; return how many stay.

    Args:
        artifact: the corpus.
        removed: the removed records.
        wanted: the ids of those that leave; each that is found becomes True.
        fulfils: or the rows of which one condition is true: a document leaves if it is true of one of its rows.
    """
    # a row belongs to the last document that begins before it
    rows, begins = 0, [np.zeros(0, np.int64)]
    for batch in read_batches(artifact, "corpus", ["sentence_id"]):
        begins.append(rows + np.flatnonzero(np.asarray(batch["sentence_id"]) == 0))
        rows += len(batch)
    starts = np.concatenate(begins)
    leaves = np.zeros(len(starts), np.bool_)
    if fulfils is not None:
        leaves[np.searchsorted(starts, np.flatnonzero(fulfils), side="right") - 1] = True
    for number, (own_id, digest) in enumerate(_documents_of(artifact)):
        if wanted is not None and own_id is not None and own_id in wanted:
            wanted[own_id] = leaves[number] = True
        if leaves[number]:
            removed.add(own_id, digest)
    return sum(not removed.holds(*document) for document in _documents_of(artifact))


def _documents_of(artifact: Artifact) -> Iterator[tuple[str | None, bytes]]:
    """Yield the id of the record of each document of a corpus, and the digest of its text."""
    columns = ["doc_id", "sentence_id", *({"record_id"} & {*read_schema(artifact, "corpus").names})]
    for batch in read_batches(artifact, "corpus", columns):
        begun = batch.filter(pa.array(np.asarray(batch["sentence_id"]) == 0))
        ids = begun["record_id"].to_pylist() if "record_id" in columns else [None] * len(begun)
        for own_id, doc_id in zip(ids, begun["doc_id"].to_pylist(), strict=True):
            yield None if own_id is None else str(own_id), bytes.fromhex(doc_id)


def _ids_in(given: Path | tuple[str, ...]) -> dict[str, bool]:
    """Return the ids of a file, one a line, or of a list; each with False. Raises InputError: there is none."""
    if isinstance(given, tuple):
        ids = dict.fromkeys(map(str, given), False)
        where = "ids"
    else:
        with open_regular_file(given) as file:
            lines = file.read(_MAX_ID_BYTES).decode("utf-8", "replace").splitlines()
        ids, where = dict.fromkeys((line.strip() for line in lines if line.strip()), False), str(given)
    if not ids:
        raise InputError("there are no ids", where=where, expected="one id per line")
    return ids


def joined_inputs(before: Sequence[InputEntry], new: Sequence[InputEntry]) -> list[InputEntry]:
    """Return the entries of the sources of a corpus and of those that were added; many become one."""
    names = {entry.path for entry in new}
    found = sorted([*(entry for entry in before if entry.path not in names), *new], key=lambda entry: entry.path or "")
    if len(found) <= _MAX_ENTRIES:
        return found
    digest, size = joint_hash((entry.path or "", entry.digest) for entry in found), sum(one.bytes or 0 for one in found)
    return [InputEntry(kind="source", digest=digest, path=f"{len(found)} sources", bytes=size)]
