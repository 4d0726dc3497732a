"""`wordpipe ingest`: sources → corpus.

The sources, large files of lines in pieces, are parted into runs of some size, each with files of its own (`ingest_shards`).
One reading takes them one after the other; more workers, and Ray, read them apart and put them together, with the same bytes.

An update names all sources each time. Sources of the corpus that it does not name leave the corpus where they are gone; where
they still exist, the update is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts import (
    CORPUS,
    SOURCES,
    Artifact,
    InputEntry,
    ResumeCache,
    TableWriter,
    hash_bytes,
    is_artifact,
    library_versions,
    manifest_at,
    read_batches,
    read_schema,
    row_count,
)
from wordpipe.corpus import (
    TAKEN_OUT,
    Digests,
    Ingest,
    PreviousCorpus,
    RecordIds,
    Source,
    Sources,
    SourceSummary,
    from_memory,
    in_pieces,
    source_parts,
    sources_of,
)
from wordpipe.corpus.settings import NOTHING, IngestSettings
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import working_folder
from wordpipe.stages.corpus.dropped_sources import check_dropped, warn_of_fewer
from wordpipe.stages.corpus.ingest_changes import (
    MADE_BY,
    History,
    Reading,
    joined_inputs,
    plan_addition,
    plan_removal,
    plan_update,
    summaries_of,
    warn_of_forgotten,
)
from wordpipe.stages.corpus.ingest_shards import (
    LIBRARIES,
    PART_BYTES,
    IngestShards,
    Part,
    ScratchFiles,
    adopt_parts,
    files_of,
    ids_in,
    keys_in,
    known_name,
    part_of,
    write_doubles,
    write_parts,
)
from wordpipe.stages.job import Job, Made, PathLike, RunOptions, open_job
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import (
    SourceLike,
    entries_of,
    fingerprints,
    joint_hash,
    listed_entries,
    named_or_rows,
    refuse_artifacts,
    shown_names,
)

_MANY_SENTENCES = 500  # too many for one document
_SOURCES_AT_ONCE = 1000  # rows of sources.parquet written at a time


@public(IngestSettings)
def ingest(
    sources: SourceLike = (), *, output: PathLike, run: RunOptions | None = None, name: str = "memory", **settings: Any
) -> Made:
    """Read text into a corpus of documents and sentences.

        ingest("notes/", output="run/corpus")
        ingest([{"text": "Bees dance.", "year": 1927}], output="run/corpus")
        ingest(({"text": text} for text in texts), output="run/corpus")
        ingest(frame, text_field="body", id_field="key", output="run/corpus")
        ingest([{"text": "Ein Hund.", "text_b": "A dog."}], text_b="text_b", output="run/corpus")
        ingest(["train.de", "train.en"], parallel=True, output="run/corpus")

    Args:
        sources: files, folders, globs, "-" for standard input, or "python:PACKAGE"; or what a program has in memory: an
            iterable of dicts, a data frame (pandas, polars), an Arrow table or reader of batches. A string is always the name
            of a source: a text is given as {"text": …}.
        output: folder of the corpus artifact.
        run: progress, fresh start, verification.
        name: what the `source` of records from memory is; their `line` is the number of the record, from 1.
        settings: fields of `IngestSettings`.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> made = wordpipe.ingest("notes/*.txt", output="new/corpus", documents="block", first_line_title=True)
        >>> made.kind, made.counts["documents_kept"]
        ('corpus', 165)
    """
    chosen = IngestSettings.make(settings)
    if chosen.remove and sources:
        raise ConfigError("remove takes no sources", got=", ".join(shown_names(sources)), expected="where or ids")
    names, rows = ([], None) if chosen.remove else named_or_rows(sources)
    refuse_artifacts(names)
    with open_job("corpus", output, chosen, run) as job:
        job.libraries = LIBRARIES
        job.threads = 1
        if chosen.remove:
            _write_changed(job, plan_removal(job, chosen))
        else:
            _ingest(job, chosen, _find(job, chosen, names, rows, name))
    return job.made


@dataclass
class _Found:
    """The sources that a job of `ingest` reads.

    Attributes:
        names: what the user called them.
        whole: the sources.
        pieces: the same, large files of lines in pieces.
        prints: fingerprints of those that are no streams.
        digests: content hash of each by name; empty for a stream, which is hashed while it is read.
    """

    names: list[str]
    whole: Sources
    pieces: Sources
    prints: list[dict[str, str | int]]
    digests: dict[str, str]

    @property
    def total(self) -> int:
        """The bytes to read, where nothing is a stream; else 0."""
        return self.whole.bytes if all(self.digests.values()) else 0

    def entries(self) -> list[InputEntry]:
        """Return the entries of the sources in a manifest; streams must have been read before."""
        return listed_entries(self.prints) if len(self.prints) == len(self.whole) else entries_of(self.whole)


def _find(job: Job, chosen: IngestSettings, names: list[str], rows: Any, name: str) -> _Found:
    """Find the sources that a job of `ingest` reads.

    Args:
        job: the job.
        chosen: how they are read.
        names: what the user called them.
        rows: of a program; None: sources have names.
        name: of such rows.
    """
    if chosen.parallel and rows is not None:
        hint = 'give each pair as {"text": …, "text_b": …}, and the option text_b="text_b"'
        raise ConfigError("parallel reads two text files, not records", got="records", hint=hint)
    whole = sources_of(names, chosen) if rows is None else from_memory(rows, name)
    prints = fingerprints([source for source in whole if not source.is_read_once], chosen)
    total = whole.bytes if len(prints) == len(whole) else 0

    def report_look(done: int) -> None:
        job.report("finding pieces", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB")

    pieces = in_pieces(whole, chosen, PART_BYTES, report_look)
    digests = dict.fromkeys((source.name for source in pieces), "")
    digests |= {str(entry["name"]): str(entry["blake3"]) for entry in prints}
    if chosen.parallel:  # they are one source, which has the name of the first
        digests[pieces[0].name] = joint_hash(digests.items()) if all(digests.values()) else ""
    return _Found(names, whole, pieces, prints, digests)


def _ingest(job: Job, chosen: IngestSettings, sources: _Found) -> None:
    """Read sources into the corpus of a job of `ingest`: anew, as an update, or beside those that it has."""
    found, digests, total = sources.pieces, sources.digests, sources.total

    def report(done: int) -> None:
        speed = done / 1e6 / max(job.clock.seconds, 1e-9)
        job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB", **{"MB/s": f"{speed:.1f}"})

    # Add them to the corpus, whose other sources stay.
    if chosen.add and is_artifact(job.target):
        reading, dropped = plan_addition(job, chosen, found, digests, report)
        job.inputs = joined_inputs(manifest_at(job.target).inputs, sources.entries())
        _write_changed(job, reading, dropped)
        return
    previous, history = None, History()
    if chosen.update and not job.run.fresh:
        previous, history = _open_previous(job, chosen, sources)
    elif chosen.add:
        job.note(f"there is no corpus at {job.target} yet, so a new corpus is made")
    else:
        warn_of_forgotten(job)
    if history.newest:
        reading = plan_update(job, chosen, found, digests, history, report)
        job.inputs = sources.entries()
        _write_changed(job, reading, of_records=False)
        return
    # Read them, apart or in order. What each source gave is written down for the next update.
    with job.table("sources", SOURCES, single=True, log=True) as table:
        log = _SourceLog(table)
        numbered = iter(found)  # which are read one after the other

        def add_source(source: SourceSummary) -> None:
            log.add(source, next(numbered).digest_of(digests[source.name]))
            # a stream that gives less than before loses rows
            if previous is not None and not digests[source.name]:
                warn_of_fewer(job, source, previous.rows_of[source.name])

        # Several processes read parts; where these cannot be put together, and else, one reads all.
        parts, summaries = source_parts(found, PART_BYTES), list[SourceSummary]()
        if previous is None and not history.removed and _can_part(job, parts, chosen):
            job.inputs = sources.entries()
            reader, summaries = _read_apart(job, found, parts, chosen)
            for summary in summaries:
                add_source(summary)
        if not summaries:
            reader = Ingest(
                found, chosen, on_bytes=report, on_source=add_source, previous=previous, left_out=history.why_left_out
            )
            _write_rows(job, reader, parts)
        log.flush()
    history.write(job)
    # The hash of a stream is known now.
    job.inputs = sources.entries()
    _record(job, reader, found.skipped, chosen)
    job.counts |= {} if previous is None else reader.changes
    _say_what_stays_removed(job)


def _write_changed(job: Job, reading: Reading, dropped: int = 0, *, of_records: bool = True) -> None:
    """Write the corpus of a job of `ingest` to which sources were added, or from which records were removed.

    Args:
        job: its inputs are known.
        reading: the sources, with their rows.
        dropped: records of sources that are in the corpus as they are.
        of_records: count the records that came and went.
    """
    settings = job.settings
    assert isinstance(settings, IngestSettings)
    with job.table("sources", SOURCES, single=True, log=True) as table:
        log, numbered = _SourceLog(table), iter(zip(reading.kept, reading.digests, strict=True))

        def add_source(source: SourceSummary) -> None:
            kept, digest = next(numbered)
            if source.rows or kept.is_new or source.name not in reading.additions.names:
                log.add(source, digest)  # else nothing is left of an earlier content of the source

        def report(done: int) -> None:
            job.report("writing", round(done / 1e6, 1), None, "MB")

        reader = Ingest(reading.sources, settings, on_bytes=report, on_source=add_source, previous=reading.growing)
        _write_rows(job, reader, source_parts(reading.sources, PART_BYTES))
        log.flush()
    reading.history.write(job)
    _record(job, reader, reading.sources.skipped, settings)
    job.counts = {**(reading.counts(dropped) if of_records else reader.changes), **job.counts}
    if not of_records:
        _say_what_stays_removed(job)


def _say_what_stays_removed(job: Job) -> None:
    """Note, after an update, how many documents of the sources were left out as they had been removed."""
    if number := job.counts.get(f"documents_dropped_{TAKEN_OUT}"):
        documents = "1 document stays" if number == 1 else f"{number:,} documents stay"
        job.note(f"{documents} out of the corpus, because of an earlier --remove; to bring records back, use --add")


class _SourceLog:
    """The table of what each source gave, which an update begins from."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table
        self._given: list[dict[str, Any]] = []

    def add(self, source: SourceSummary, digest: str) -> None:
        """Add what a source with this digest gave."""
        digest *= not source.has_changed
        self._given.append({"source": source.name, "digest": digest, "rows": source.rows, "told": source.ledger})
        if len(self._given) == _SOURCES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        self._table.write(pa.RecordBatch.from_pylist(self._given, schema=SOURCES))
        self._given.clear()


def _write_rows(job: Job, reader: Ingest, parts: Sequence[Sequence[Source]]) -> None:
    """Write the rows of one reader into the artifact of a job of `ingest`."""
    written = write_parts(reader.parts(parts), lambda at: ScratchFiles(job.scratch / f"rows-{at}"), job.run.ahead)
    _adopt(job, reader, written)


def _record(job: Job, reader: Ingest, skipped: Mapping[str, int], chosen: IngestSettings) -> None:
    """Put counts, facts, notes and warnings of what was read into the job of `ingest`."""
    job.counts = dict(reader.counts)
    write_doubles(job.writer, reader.doubles)
    facts = {"not_read": skipped, "unreadable": reader.unreadable, "held_out": NOTHING if reader.all_train else ""}
    job.facts |= {name: fact for name, fact in facts.items() if fact}
    if chosen.is_pairs or job.counts.get("pairs"):  # of some formats all records are
        job.counts = {"pairs": job.counts.get("sentences", 0)} | job.counts
    for text in reader.notes:
        job.note(text)
    for text in reader.warnings:
        job.warn(text, always=text in reader.missing)
    is_held_out = chosen.valid > 0 or chosen.test > 0
    if (
        is_held_out
        and job.counts.get("documents_kept") == 1
        and (sentences := job.counts.get("sentences", 0)) >= _MANY_SENTENCES
    ):
        job.warn(  # a whole book is one document: what compares documents then has nothing to compare
            f"all {sentences:,} sentences are one document, so no text is held out, `train static` has no negatives, and a "
            "search for documents has only one answer; to split the text at blank lines, use --documents block; to split the "
            "text at every line, use --documents line"
        )
    read = job.counts.get("bytes_read", 0) - reader.bytes_copied
    job.rates = {"mb_per_s": round(read / 1e6 / job.clock.seconds, 3)}


def _open_previous(job: Job, settings: IngestSettings, sources: _Found) -> tuple[PreviousCorpus | None, History]:
    """Return the corpus at the output of `ingest`, if it was made as this one is, and what it remembers; else a note says why.

    Args:
        job: the job.
        settings: how sources are read now.
        sources: that are to be read.

    Raises:
        ConfigError: a source of that corpus still exists and is none of these, or was added to the corpus.
    """
    artifact = job.previous_artifact("all sources are read")
    if artifact is None:
        return None, History()
    summaries = summaries_of(artifact)
    history = History.of(artifact, summaries)
    check_dropped(job, summaries, sources.pieces, sources.names, history, allowed=settings.drop_missing)
    if history.newest:
        job.note("sources were added to the corpus with --add, so all sources are read")
        return None, history
    if (reason := _unusable(artifact, settings)) is not None:
        job.note(f"{reason}, so all sources are read")
        return None, history
    if sum(summary.rows for summary in summaries) != row_count(artifact, "corpus"):
        job.note("the corpus does not have the number of rows that its sources gave, so all sources are read")
        return None, history
    rows = read_batches(artifact, "corpus", expected=CORPUS)
    schema = read_schema(artifact, "corpus")
    columns = ["doc_id", "sentence_id", "line", *({"record_id"} & {*schema.names})]
    documents = read_batches(artifact, "corpus", columns, expected=CORPUS)
    return PreviousCorpus(summaries, sources.pieces, sources.digests, rows, documents, schema), history


def _unusable(artifact: Artifact, settings: IngestSettings) -> str | None:
    """Return why the rows of a previous corpus are not those that `ingest` would read now; None: they are."""
    before, now = artifact.manifest.settings, settings.recipe()
    if changed := [name for name in now if before.get(name) != now[name]]:
        return f"the setting {changed[0]} was {before.get(changed[0])} and is now {now[changed[0]]}"
    version = artifact.manifest.facts.get(MADE_BY, artifact.manifest.wordpipe)
    if version != __version__:
        return f"the corpus was made by another version, wordpipe {version}"
    if artifact.manifest.facts.get("held_out") == NOTHING:
        return "the corpus was too small for held-out documents"
    return None


def _can_part(job: Job, parts: list[list[Source]], chosen: IngestSettings) -> bool:
    """True if several processes can ingest the sources: files, and more than one part; a note says why not."""
    asked_for, options = job.run.workers not in (None, 1), job.engine_options
    if options.engine == "local" and options.threads == 1:
        return False
    are_files = all(source.kind == "file" for sources in parts for source in sources)
    if not are_files or chosen.parallel or len(parts) == 1:
        if asked_for or options.engine != "local":
            job.note(
                f"one process reads the sources; several processes need more than {PART_BYTES >> 20} MiB of files, and one "
                "file is split only if it is JSON Lines, TSV, or plain text with a document for each line or block"
            )
        return False
    return True


def _adopt(job: Job, reader: Ingest, parts: Iterable[Part]) -> None:
    """Make the files of each part files of the corpus artifact, in the columns of the whole corpus."""
    adopt_parts(
        parts, job.writer, reader.schema, reader.converted, lambda: job.scratch,
        lambda done: job.report("writing", done, None, "sentences"), again=reader.all_train,
    )  # fmt: skip


def _read_apart(
    job: Job, found: Sources, parts: list[list[Source]], chosen: IngestSettings
) -> tuple[Ingest, list[SourceSummary]]:
    """Read each part of the sources of `ingest` by itself, in the processes of the engine.

    Args:
        job: its inputs are known.
        found: the sources.
        parts: the same, parted.
        chosen: how they are read.

    Returns:
        The reader with all counts, and what each source gave: an empty list where the sources have to be read in order.
    """
    summaries: list[SourceSummary] = []
    reader = Ingest(found, chosen, on_source=summaries.append)
    way = f"{job.recipe} {library_versions(*LIBRARIES)} {__version__} {PART_BYTES} bytes"
    cache = ResumeCache(job.partial, way)
    work = IngestShards(tuple(map(tuple, parts)), working_folder(), chosen, cache.path.absolute(), cache.recipe)
    # Read the parts. Several may fail: the error of the first in order is raised.
    try:
        names = _make(job, work, cache, range(len(parts)))
    except InputError:
        _raise_first(work, cache)
        raise
    # Read parts again without the texts that earlier sources have.
    if known := _known_before(cache, names):
        names |= _make(job, replace(work, known=known), cache, known)
    figures = [cache.made_figures(names[number]) for number in range(len(parts))]
    # Ids and fields depend on all sources: some need one reading in order.
    ids = RecordIds()
    if any(ids.claim(*claimed) is not None for name in names.values() for claimed in ids_in(cache, name)):
        job.note("several records have the same id, so all sources are read in one process")
        return reader, []
    for sources, one in zip(parts, figures, strict=True):
        notes = one["notes"]
        for source, given, lines in zip(sources, one["sources"], one["lines"], strict=True):
            source.seen.lines = lines  # notes name pieces by the lines of their file
            summary = SourceSummary(given["name"], given["rows"], given["ledger"])
            if not reader.take_over(summary, notes):
                job.note(
                    "the sources have more fields than a corpus can have columns, so all sources are read in one process"
                )
                return reader, []
            notes = ()
    # Put the parts together.
    reader.conclude()
    _adopt(job, reader, [part_of(cache, one) for one in figures if one["stretches"]])
    return reader, summaries


def _make(job: Job, work: IngestShards, cache: ResumeCache, numbers: Iterable[int]) -> dict[int, str]:
    """Make the shards of an ingest that no stopped run has finished; return the names of the figures of all."""
    names = {number: work.name_of(number) for number in numbers}
    job.make_missing(work, names, cache, "read", files_of)
    for name in names.values():
        cache.made_figures(name)
    return names


def _raise_first(work: IngestShards, cache: ResumeCache) -> None:
    """Read the parts of the sources that were not read yet, in order, until one fails."""
    for number in range(len(work.parts)):
        if cache.figures(work.name_of(number)) is None:
            work.make(number, cache, lambda done: None)


def _known_before(cache: ResumeCache, names: Mapping[int, str]) -> dict[int, str]:
    """Save, for each shard of `ingest`, the digests of documents that earlier sources have too.

    Return shard → hash of the file.
    """
    seen, found = Digests(), dict[int, str]()
    for number, name in names.items():
        double, own = [], Digests()
        for key, digest in keys_in(cache, name):
            if key in seen:
                double.append(key)
            else:
                seen.add(key)
                if digest != key and not seen.add(digest) and digest not in own:
                    double.append(digest)  # of a text that sources before have under another id, which is counted
                own.add(digest)
        if double:
            cache.put(known_name(number), known := b"".join(double))
            found[number] = hash_bytes(known)
    return found
