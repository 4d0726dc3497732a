"""`wordpipe ingest`: sources → corpus.

The sources, large files of lines in pieces, are parted into runs of some size, each with files of its own (`ingest_shards`).
One reading takes them one after the other; more workers, and Ray, read them apart and put them together, with the same bytes.

An update names all sources each time. Sources of the corpus that it does not name leave the corpus where they are gone; where
they still exist, the update is refused.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts import (
    CORPUS,
    SOURCES,
    Artifact,
    HashCache,
    ResumeCache,
    hash_bytes,
    library_versions,
    read_batches,
    read_schema,
    row_count,
)
from wordpipe.corpus import (
    Digests,
    Ingest,
    PreviousCorpus,
    RecordIds,
    Source,
    Sources,
    SourceSummary,
    expand,
    find_package,
    from_memory,
    in_pieces,
    source_parts,
)
from wordpipe.corpus.settings import NOTHING, IngestSettings
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import working_folder
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
)
from wordpipe.storage import url_of

_MANY_SENTENCES = 500  # too many for one document
_SOURCES_AT_ONCE = 1000  # rows of sources.parquet written at a time
_SHOWN = 5


@public(IngestSettings)
def ingest(
    sources: SourceLike, *, output: PathLike, run: RunOptions | None = None, name: str = "memory", **settings: Any
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
    names, rows = named_or_rows(sources)
    refuse_artifacts(names)
    with open_job("corpus", output, chosen, run) as job:
        job.libraries = LIBRARIES
        job.threads = 1
        # Find the sources. A stream is hashed while it is read, as it cannot be read twice.
        if chosen.parallel and rows is not None:
            hint = 'give each pair as {"text": …, "text_b": …}, and the option text_b="text_b"'
            raise ConfigError("parallel reads two text files, not records", got="records", hint=hint)
        found = (
            expand(names, read_as=chosen.format, parallel=chosen.parallel) if rows is None else from_memory(rows, name)
        )
        streams = [source for source in found if source.is_read_once]
        prints = fingerprints([source for source in found if not source.is_read_once])
        # The bytes to read are known where nothing is a stream.
        whole, total = found, 0 if streams else found.bytes

        def report_look(done: int) -> None:
            job.report("finding pieces", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB")

        # Cut large files of lines into pieces, and see what the corpus at the output knows of these sources.
        found = in_pieces(whole, chosen, PART_BYTES, report_look)
        digests = dict.fromkeys((source.name for source in found), "")
        digests |= {str(entry["name"]): str(entry["blake3"]) for entry in prints}
        if chosen.parallel:  # they are one source, which has the name of the first
            digests[found[0].name] = joint_hash(digests.items()) if all(digests.values()) else ""
        previous = _open_previous(job, chosen, found, digests, names) if chosen.update and not job.run.fresh else None

        def report(done: int) -> None:
            """Bytes read, of the total where it is known."""
            speed = done / 1e6 / max(job.clock.seconds, 1e-9)
            job.report("reading", round(done / 1e6, 1), round(total / 1e6, 1) or None, "MB", **{"MB/s": f"{speed:.1f}"})

        # Read them, apart or in order. What each source gave is written down for the next update.
        with job.table("sources", SOURCES, single=True, log=True) as log:
            given: list[dict[str, Any]] = []
            numbered = iter(found)  # which are read one after the other

            def write_given() -> None:
                log.write(pa.RecordBatch.from_pylist(given, schema=SOURCES))
                given.clear()

            def add_source(source: SourceSummary) -> None:
                digest = next(numbered).digest_of(digests[source.name])
                given.append({"source": source.name, "digest": digest, "rows": source.rows, "told": source.ledger})
                if len(given) == _SOURCES_AT_ONCE:
                    write_given()
                # a stream that gives less than before loses rows
                if previous is not None and not digests[source.name]:
                    warn_of_fewer(job, source, previous.rows_of[source.name])

            # Several processes read parts; where these cannot be put together, and else, one reads all.
            parts, summaries = source_parts(found, PART_BYTES), list[SourceSummary]()
            if previous is None and _can_part(job, parts, chosen):
                job.inputs = listed_entries(prints)
                reader, summaries = _read_apart(job, found, parts, chosen)
                for summary in summaries:
                    add_source(summary)
            if not summaries:
                reader = Ingest(found, chosen, on_bytes=report, on_source=add_source, previous=previous)
                written = write_parts(reader.parts(parts), lambda number: ScratchFiles(job.scratch / f"rows-{number}"))
                _adopt(job, reader, written)
            write_given()
        # The hash of a stream is known now.
        job.inputs = entries_of(whole) if streams else listed_entries(prints)
        _record(job, reader, found, chosen, is_update=previous is not None)
    return job.made


def _record(job: Job, reader: Ingest, found: Sources, chosen: IngestSettings, *, is_update: bool) -> None:
    """Put counts, facts, notes and warnings of what was read into the job of `ingest`."""
    job.counts = {**reader.counts, **(reader.changes if is_update else {})}
    job.facts = {
        **({"not_read": found.skipped} if found.skipped else {}),
        **({"held_out": NOTHING} if reader.all_train else {}),
    }
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


def _open_previous(
    job: Job, settings: IngestSettings, found: Sources, digests: Mapping[str, str], names: list[str]
) -> PreviousCorpus | None:
    """Return the corpus at the output of `ingest`, if it was made as this one is; else a note says why not.

    Args:
        job: the job.
        settings: how sources are read now.
        found: the sources, large files in pieces.
        digests: content hash of each source by name; empty for a stream.
        names: what the user called the sources.

    Raises:
        ConfigError: a source of that corpus still exists and is none of these.
    """
    artifact = job.previous_artifact("all sources are read")
    if artifact is None:
        return None
    summaries = [
        SourceSummary(row["source"], row["rows"], row["told"], row["digest"])
        for batch in read_batches(artifact, "sources", expected=SOURCES)
        for row in batch.to_pylist()
    ]
    check_dropped(job, summaries, found, names, allowed=settings.drop_missing)
    if (reason := _unusable(artifact, settings)) is not None:
        job.note(f"{reason}, so all sources are read")
        return None
    if sum(summary.rows for summary in summaries) != row_count(artifact, "corpus"):
        job.note("the corpus does not have the number of rows that its sources gave, so all sources are read")
        return None
    rows = read_batches(artifact, "corpus", expected=CORPUS)
    schema = read_schema(artifact, "corpus")
    columns = ["doc_id", "sentence_id", "line", *({"record_id"} & {*schema.names})]
    documents = read_batches(artifact, "corpus", columns, expected=CORPUS)
    return PreviousCorpus(summaries, found, digests, rows, documents, schema)


def _unusable(artifact: Artifact, settings: IngestSettings) -> str | None:
    """Return why the rows of a previous corpus are not those that `ingest` would read now; None: they are."""
    before, now = artifact.manifest.settings, settings.recipe()
    if changed := [name for name in now if before.get(name) != now[name]]:
        return f"the setting {changed[0]} was {before.get(changed[0])} and is now {now[changed[0]]}"
    if artifact.manifest.wordpipe != __version__:
        return f"the corpus was made by another version, wordpipe {artifact.manifest.wordpipe}"
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


def check_dropped(
    job: Job, summaries: Iterable[SourceSummary], found: Sequence[Source], names: Sequence[str], *, allowed: bool
) -> None:
    """Refuse an update by `ingest` that does not name a source of the corpus which still exists.

    Warn of sources that are gone.

    Args:
        job: of the update.
        summaries: of the sources of the corpus.
        found: the sources of the update.
        names: what the user called them.
        allowed: sources that still exist may leave the corpus.

    Raises:
        ConfigError: a source still exists; an update with the new texts alone would lose all others.
    """
    now = {source.name for source in found}
    digests = {summary.name: summary.digest.partition(" ")[0] for summary in summaries if summary.name not in now}
    if not digests:
        return
    here = {os.path.realpath(source.path) for source in found if source.path is not None}
    fates = {name: _fate(name, digest, job, names, here) for name, digest in digests.items()}
    living, gone = ([name for name in sorted(fates) if fates[name] == one] for one in ("living", "gone"))
    if living and not allowed:
        shown = ", ".join(living[:_SHOWN])
        raise ConfigError(
            f"{_many(living)} of the corpus still exist{'s' * (len(living) == 1)}, but the update does not name "
            f"{'this source' if len(living) == 1 else 'these sources'}, so documents would be lost",
            where=job.target, got=f"{shown} and {len(living) - _SHOWN:,} more" if len(living) > _SHOWN else shown,
            expected="the names of all sources in every update",
            hint="name these sources, too, or use --drop-missing (drop_missing = true) to drop their documents",
        )  # fmt: skip
    for some, why in ((gone, "no longer found"), (living, "no longer named")):
        if some:
            more = f" and {len(some) - _SHOWN:,} more" if len(some) > _SHOWN else ""
            job.warn(f"dropped {_many(some)} from the corpus ({why}): {', '.join(some[:_SHOWN])}{more}")


def warn_of_fewer(job: Job, source: SourceSummary, before: int) -> None:
    """Warn that standard input, or a program, gave `ingest` fewer rows than before.

    Args:
        job: of the update.
        source: what it gave now.
        before: rows that it had in the corpus.
    """
    if source.rows < before:
        what = "standard input" if source.name == "-" else source.name
        job.warn(
            f"{what} gave {source.rows:,} rows now and {before:,} rows before; the new rows replace all earlier rows of "
            f"{what}; to add rows to a corpus, give all rows each time, or put the new rows into a separate file"
        )


def _many(names: Sequence[str]) -> str:
    """Return the number of sources in words, for messages of an update."""
    return f"{len(names):,} source{'s' * (len(names) != 1)}"


def _fate(name: str, digest: str, job: Job, names: Sequence[str], here: set[str]) -> Literal["living", "gone", "named"]:
    """Return whether a source that `ingest --update` does not name still exists, is gone, or has another path.

    Standard input and records of a program count as gone; objects of a bucket count as there.
    """
    if name.startswith("python:"):
        try:
            find_package(name.removeprefix("python:"))
        except InputError:
            return "gone"
        return "living"
    if name == "-" or name.startswith("s3://"):  # objects below a URL that is named were looked for there
        urls = [url for one in names if (url := url_of(Path(one))) is not None]
        is_gone = name == "-" or any(name.startswith(f"{str(url).rstrip('/')}/") for url in urls)
        return "gone" if is_gone else "living"
    there = [one for one in _places(name, job, names) if one[0].is_file()]
    for path, is_sure in there:
        if os.path.realpath(path) not in here and (is_sure or HashCache().hash_file(path) == digest):
            return "living"
    return "named" if there else "gone"


def _places(name: str, job: Job, names: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Yield the paths where a source of `ingest --update` may lie, whose name is the end of its path.

    With each: True if no other file can be there.
    """
    folder, depth = working_folder(), len(Path(name).parts)
    yield folder / name, True
    for one in names:
        above = Path(os.path.abspath(one)).parents  # noqa: PTH100  (links stay as they are named)
        yield from ((root / name, number in (0, depth - 1)) for number, root in enumerate(above))
    yield from ((root / name, False) for root in [*folder.parents, *Path(os.path.abspath(job.output)).parents])  # noqa: PTH100
