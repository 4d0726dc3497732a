"""`ingest --dry-run`: what would be read of some sources, by kind, and what would be passed over, and why. Nothing is written.

Files are found as `ingest` finds them; only files whose names do not say what they hold are opened, for their first block.
"""

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wordpipe.corpus import (
    ENDINGS,
    READERS,
    Ledger,
    Source,
    Sources,
    form_of,
    may_be_left,
    patterns_for,
    read_blocks,
    sources_of,
    text_blocks,
    way_to_read,
)
from wordpipe.corpus.settings import IngestSettings
from wordpipe.errors import InputError, StorageError
from wordpipe.stages.estimate import Estimate, Estimator, size_of_sources
from wordpipe.stages.job import PathLike
from wordpipe.stages.python_calls import public
from wordpipe.stages.sources import refuse_artifacts

_EXTRA = "pip install 'wordpipe[documents]'"


@dataclass(frozen=True)
class ReadKind:
    """Files of one format that would be read: how many, and their bytes on disk."""

    title: str
    files: int
    bytes: int
    missing: str = ""  # the command that installs the library that they need


@dataclass(frozen=True)
class PassedOver:
    """Files of one kind that would not be read: the ending of their names or the reason, how many, bytes, and what helps."""

    kind: str
    files: int
    bytes: int = 0  # on disk; 0 of folders
    way: str = ""


@dataclass(frozen=True)
class Preview:
    """The sources that `ingest` would read, and the files that it would pass over.

    Attributes:
        kinds: of files that would be read, those with most bytes first.
        passed_over: kinds of files of folders that would not be read.
        unreadable: what is wrong → names of files that cannot be read.
        estimate: of the time, memory and disk that it would take.
    """

    kinds: tuple[ReadKind, ...]
    passed_over: tuple[PassedOver, ...]
    unreadable: dict[str, list[str]]
    estimate: Estimate

    @property
    def files(self) -> int:
        """The number of sources that would be read."""
        return sum(kind.files for kind in self.kinds)

    @property
    def bytes(self) -> int:
        """Their size on disk."""
        return sum(kind.bytes for kind in self.kinds)

    @property
    def is_mixed(self) -> bool:
        """True if there is more than files of one kind."""
        return len(self.kinds) > 1 or bool(self.passed_over or self.unreadable)

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "kinds": [vars(kind) for kind in self.kinds],
            "passed_over": [vars(kind) for kind in self.passed_over],
            "unreadable": self.unreadable,
            "estimate": self.estimate.to_json(),
        }


@public(IngestSettings)
def preview(sources: PathLike | Sequence[PathLike], **settings: Any) -> Preview:
    """Find what `ingest` would read of some sources, and write nothing: `ingest --dry-run`.

        seen = preview("notes/")
        [(kind.title, kind.files, kind.bytes) for kind in seen.kinds]
        [(one.kind, one.files, one.bytes, one.way) for one in seen.passed_over]

    Args:
        sources: files, folders, globs, "-" or "python:PACKAGE".
        settings: fields of `IngestSettings`.

    Returns:
        What would be read, by kind, what would be passed over, and what it would take.

    Raises:
        WordpipeError: as `ingest` does before it reads.

    Example:
        >>> seen = wordpipe.preview("notes")
        >>> seen.files, seen.kinds[0].title, seen.passed_over
        (1, 'plain text', ())
    """
    chosen = IngestSettings.make(settings)
    names = [str(one) for one in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]
    refuse_artifacts(names)
    return preview_of(sources_of(names, chosen), chosen)


def preview_of(found: Sources, settings: IngestSettings) -> Preview:
    """Return what `ingest` would read of sources that were found."""
    files, sizes, skipped, left = Counter[str](), Counter[str](), Counter(found.skipped), Counter(found.skipped_bytes)
    unreadable = {what: [*names] for what, names in found.unreadable.items()}
    ways: dict[str, str] = {}
    for source in found:
        try:
            form, left_for, way = _look_at(source, settings)
        except (InputError, StorageError) as error:
            if not may_be_left(source, settings):
                raise
            unreadable.setdefault(error.what, []).append(source.name)
            continue
        if left_for:
            skipped[left_for] += 1
            left[left_for] += source.bytes
            ways[left_for] = way
        else:
            files[form] += 1
            sizes[form] += source.bytes
    kinds = (
        ReadKind(READERS[form].title, number, sizes[form], _EXTRA if is_without_library(form) else "")
        for form, number in files.items()
    )
    return Preview(
        tuple(sorted(kinds, key=lambda kind: (-kind.bytes, kind.title))),
        tuple(
            PassedOver(kind, number, left[kind], ways.get(kind) or _way(kind, found.examples.get(kind, ())))
            for kind, number in skipped.most_common()
        ),
        unreadable,
        Estimator().estimate("corpus", settings, [size_of_sources(found)], Path()),
    )


def is_without_library(form: str) -> bool:
    """True if a format needs a library that is not installed."""
    needs = READERS[form].needs
    return bool(needs) and find_spec(needs) is None


def _look_at(source: Source, settings: IngestSettings) -> tuple[str, str, str]:
    """Return the format of a source, the reason why `ingest` would leave it out ("": none), and what helps."""
    if not source.is_unnamed or source.kind != "file":
        return source.format, "", ""
    ledger = Ledger()
    with source.open() as file:
        blocks = text_blocks(read_blocks(file, source.name, lambda _: None), source, settings, ledger)
        first = next(blocks, b"")
    if kinds := ledger.named("files_not_text"):
        return "", next(iter(kinds)), ""
    return form_of(first, source, settings, ledger), "", ""


def _way(kind: str, examples: Sequence[str]) -> str:
    """Return how files of folders that would be passed over can be read; "": in no way that is known."""
    if kind in ENDINGS:
        return way_to_read(ENDINGS[kind], examples[0]) if examples else ENDINGS[kind].hint
    patterns = patterns_for(kind, examples)
    return f"--include {shlex.quote(','.join(patterns))}" if patterns else ""
