"""The rows of an index: the very files of the table that it was made of, under a second name.

A million rows of width 384 are 1.6 GB that need neither be written again nor lie on the disk twice; an artifact's files never
change, so two may share them. Where the file system has no links, or the two lie on different ones, they are copied.
"""

import os
from typing import BinaryIO

from wordpipe.artifacts.manifest import OutputEntry
from wordpipe.artifacts.reader import Artifact
from wordpipe.artifacts.tables import part_names
from wordpipe.stages.making import Job

__all__ = ["carry_rows"]

_BLOCK = 4 << 20


def carry_rows(job: Job, source: Artifact) -> None:
    """Make the main table of a sentences or words artifact the table `index` of the artifact being made."""
    entries = {entry.path: entry for entry in source.manifest.outputs}
    rows = 0
    for name in part_names(source, source.kind):
        entry = entries[name].model_copy(update={"path": "index" + name.removeprefix(source.kind)})
        with source.open(name) as file:
            if not _linked(job, source, name, file, entry):
                _copy(job, file, entry)
        rows += entry.rows or 0
        job.report("writing", rows, None, "rows")


def _linked(job: Job, source: Artifact, name: str, file: BinaryIO, entry: OutputEntry) -> bool:
    """Give the file a second name in the draft; False where that cannot be done, or another file took its place."""
    path = job.scratch / entry.path
    try:
        os.link(source.path / name, path, follow_symlinks=False)
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return False
    except OSError:
        return False
    job.draft.adopt(path, entry)
    return True


def _copy(job: Job, file: BinaryIO, entry: OutputEntry) -> None:
    """Copy the bytes as they are."""
    made = job.draft.open(entry.path)
    while block := file.read(_BLOCK):
        made.write(block)
    job.draft.close(made, rows=entry.rows)
