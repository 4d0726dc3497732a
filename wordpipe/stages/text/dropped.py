"""The sources of a corpus that an update does not name: those that are gone leave it, those that still exist are told of."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from wordpipe.artifacts import HashCache
from wordpipe.corpus import Source, SourceSummary, find_package
from wordpipe.errors import ConfigError, InputError
from wordpipe.runtime import working_folder
from wordpipe.stages.job import Job
from wordpipe.storage import url_of

_SHOWN = 5


def check_dropped(
    job: Job, summaries: Iterable[SourceSummary], found: Sequence[Source], names: Sequence[str], *, allowed: bool
) -> None:
    """Look at the sources that a corpus has and an update does not name; those that are gone are said in a warning.

    Args:
        job: of the update.
        summaries: of the sources of the corpus.
        found: the sources of the update.
        names: what the user called them.
        allowed: sources that still exist may leave the corpus.

    Raises:
        ConfigError: one still exists: who names the texts of today alone would lose all others.
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
            f"{_many(living)} of the corpus still exist{'s' * (len(living) == 1)}, and the update does not name "
            f"{'it: its' if len(living) == 1 else 'them: their'} documents would be lost",
            where=job.target, got=f"{shown} and {len(living) - _SHOWN:,} more" if len(living) > _SHOWN else shown,
            expected="all sources, each time", hint="name them too, or give --drop-missing (drop_missing = true)",
        )  # fmt: skip
    for some, why in ((gone, "no longer there"), (living, "no longer named (--drop-missing)")):
        if some:
            more = f" and {len(some) - _SHOWN:,} more" if len(some) > _SHOWN else ""
            job.warn(f"{_many(some)} left the corpus, {why}: {', '.join(some[:_SHOWN])}{more}")


def warn_of_fewer(job: Job, source: SourceSummary, before: int) -> None:
    """Say that standard input, or what a program gave, has less than it had: it is one source, which is given whole each time.

    Args:
        job: of the update.
        source: what it gave now.
        before: rows that it had in the corpus.
    """
    if source.rows < before:
        what = "standard input" if source.name == "-" else source.name
        job.warn(
            f"{what} gave {source.rows:,} rows and had {before:,}: it is one source, whose new rows take the place of those "
            "before; to add to a corpus, give all of it each time, or name files"
        )


def _many(names: Sequence[str]) -> str:
    return f"{len(names):,} source{'s' * (len(names) != 1)}"


def _fate(name: str, digest: str, job: Job, names: Sequence[str], here: set[str]) -> Literal["living", "gone", "named"]:
    """What became of a source: it is there still, or not, or it is named, in another way.

    Of standard input and of what a program had nobody can say; objects of a bucket are believed to be there.
    """
    if name.startswith("python:"):
        try:
            find_package(name.removeprefix("python:"))
        except InputError:
            return "gone"
        return "living"
    if name == "-" or name.startswith("s3://"):  # what lies below a folder that is named was looked for there
        return "gone" if name == "-" or any(_is_below(name, one) for one in names) else "living"
    there = [one for one in _places(name, job, names) if one[0].is_file()]
    for path, is_sure in there:
        if os.path.realpath(path) not in here and (is_sure or HashCache().hash_file(path) == digest):
            return "living"
    return "named" if there else "gone"


def _is_below(name: str, one: str) -> bool:
    url = url_of(Path(one))
    return url is not None and name.startswith(f"{str(url).rstrip('/')}/")


def _places(name: str, job: Job, names: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Where a source may lie, whose name is the end of its path; and whether what lies there is it for sure."""
    folder, depth = working_folder(), len(Path(name).parts)
    yield folder / name, True
    for one in names:
        above = Path(os.path.abspath(one)).parents  # noqa: PTH100  (links stay as they are named)
        yield from ((root / name, number in (0, depth - 1)) for number, root in enumerate(above))
    yield from ((root / name, False) for root in [*folder.parents, *Path(os.path.abspath(job.output)).parents])  # noqa: PTH100
