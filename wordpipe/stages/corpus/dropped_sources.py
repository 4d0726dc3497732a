"""Sources that an update of a corpus does not name: which of these still exist, and which are gone."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from wordpipe.artifacts import HashCache
from wordpipe.corpus import Source, SourceSummary, find_package
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import working_folder
from wordpipe.stages.corpus.ingest_changes import History
from wordpipe.stages.job import Job
from wordpipe.storage import url_of

_SHOWN = 5


def check_dropped(
    job: Job, summaries: Sequence[SourceSummary], found: Sequence[Source], names: Sequence[str], history: History, *,
    allowed: bool,
) -> None:  # fmt: skip
    """Refuse an update by `ingest` that does not name a source of the corpus which still exists.

    Warn of sources that are gone.

    Args:
        job: of the update.
        summaries: of the sources of the corpus.
        found: the sources of the update.
        names: what the user called them.
        history: of the corpus.
        allowed: sources that still exist may leave the corpus, and so may records that were added.

    Raises:
        ConfigError: a source still exists; an update with the new texts alone would lose all others. Or records were added
            with `--add`, and no source has them any more.
    """
    now = {source.name for source in found}
    digests = {summary.name: summary.digest.partition(" ")[0] for summary in summaries if summary.name not in now}
    if not digests and not history.newest:
        return
    here = {os.path.realpath(source.path) for source in found if source.path is not None}
    fates = {name: _fate(name, digest, job, names, here) for name, digest in digests.items()}
    living, gone = ([name for name in sorted(fates) if fates[name] == one] for one in ("living", "gone"))
    if living and not allowed:
        raise ConfigError(
            f"{_many(living)} of the corpus still exist{'s' * (len(living) == 1)}, but the update does not name "
            f"{'this source' if len(living) == 1 else 'these sources'}, so documents would be lost",
            where=job.target, got=_listed(living),
            expected="the names of all sources in every update",
            hint="name these sources, too, or use --drop-missing (drop_missing = true) to drop their documents",
        )  # fmt: skip
    # records that were added, and that nothing gives again
    streams = {summary.name for summary in summaries if not summary.digest}
    added = {name for name in (*gone, *streams) if history.added.get(name)} | history.earlier
    if added and not allowed:
        raise ConfigError(
            "the update would lose records that were added with --add and that no source contains now",
            where=job.target, got=_listed(sorted(added)), expected="sources that contain all records",
            hint="use --add for new and changed records; or use --drop-missing (drop_missing = true) to drop these records",
        )  # fmt: skip
    if lost := sorted(history.earlier - {*gone, *living}):
        job.warn(f"dropped records of an earlier content of {_many(lost)}: {_listed(lost)}")
    for some, why in ((gone, "no longer found"), (living, "no longer named")):
        if some:
            job.warn(f"dropped {_many(some)} from the corpus ({why}): {_listed(some)}")


def _listed(names: Sequence[str]) -> str:
    """Return the first names of many, for messages of an update."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


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
