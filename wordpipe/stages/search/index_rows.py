"""The rows of an index: sentences or words unchanged, or a corpus that is cut as `embed` cuts a corpus."""

import os
from shutil import copyfileobj
from typing import BinaryIO

import pyarrow as pa

from wordpipe import __version__
from wordpipe.artifacts import (
    CORPUS,
    FORMATS,
    Artifact,
    ArtifactWriter,
    Manifest,
    OutputEntry,
    TableWriter,
    digest_of,
    part_names,
    read_batches,
    read_schema,
    row_count,
    sentences_schema,
)
from wordpipe.encoders import UnitCutter, WordLengths
from wordpipe.search.settings import IndexSettings
from wordpipe.stages.job import Job

_BLOCK = 4 << 20  # bytes copied at a time


def rows_of_corpus(job: Job, corpus: Artifact, settings: IndexSettings) -> Artifact:
    """Cut a corpus into rows, and return sentences without vectors in the job's scratch folder, open as long as the job.

    They are the rows that `embed` makes of the same corpus with the same unit; windows are counted in words.
    """
    further = list(read_schema(corpus, "corpus", CORPUS))[len(CORPUS) :]
    schema, cutter = sentences_schema(0, pa.schema(further)), UnitCutter(settings, WordLengths(settings))
    rows = done = 0
    total = row_count(corpus, "corpus")
    with ArtifactWriter(job.scratch / "rows") as writer:
        with TableWriter(writer, "sentences", schema) as table:
            for units in cutter.read(read_batches(corpus, "corpus", expected=CORPUS)):
                table.write(units.as_rows(schema, rows))
                rows += len(units)
                done += len(units.rows)
                job.report("cutting", done, total, "sentences")
        outputs = sorted(writer.outputs, key=lambda entry: entry.path)
        writer.publish(
            Manifest(
                format=FORMATS["sentences"], kind="sentences", command="index", wordpipe=__version__,
                settings=settings.manifest(), inputs=job.inputs, outputs=outputs, facts={"dim": 0}, recipe=job.recipe,
                digest=digest_of(outputs),
            )
        )  # fmt: skip
    return job.keep_open(Artifact(job.scratch / "rows", ["sentences"], verify=False))


def bundle_rows(job: Job, source: Artifact) -> None:
    """Make the main table of a sentences or words artifact the table `index` of the artifact being made.

    A million rows of width 384 are 1.6 GB that need neither be written again nor lie on the disk twice: an artifact's files
    never change, so two may share them. Where the file system has no links, or the two lie on different ones, they are
    copied.
    """
    entries = {entry.path: entry for entry in source.manifest.outputs}
    rows, total = 0, row_count(source, source.kind)
    for name in part_names(source, source.kind):
        entry = entries[name].model_copy(update={"path": "index" + name.removeprefix(source.kind)})
        with source.open(name) as file:
            if not _linked(job, source, name, file, entry):
                copyfileobj(file, made := job.writer.open(entry.path), _BLOCK)
                job.writer.close(made, rows=entry.rows)
        rows += entry.rows or 0
        job.report("writing", rows, total, "rows")


def _linked(job: Job, source: Artifact, name: str, file: BinaryIO, entry: OutputEntry) -> bool:
    """Link a file of the source into the new index; False where that cannot be done, or another file took its place."""
    path = job.scratch / entry.path
    try:
        os.link(source.path / name, path, follow_symlinks=False)
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return False
    except OSError:
        return False
    job.writer.adopt(path, entry)
    return True
