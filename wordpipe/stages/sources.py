"""The sources of text that stages read: their list, their fingerprints, their entries in manifests; arguments that are URLs.

An artifact at a URL stays a URL, which whatever opens artifacts understands; its copy is fetched here, where progress can be
shown. Anything else (texts, files of other programs, folders) becomes the path of a copy, whose files are named by their URLs.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from wordpipe.artifacts import (
    MANIFEST,
    HashCache,
    InputEntry,
    fetch_artifact,
    fetch_objects,
    hash_bytes,
    is_artifact,
    why_unfinished,
)
from wordpipe.corpus import Source, Sources
from wordpipe.errors import ArtifactError, ConfigError, DamageError, InputError, StorageError
from wordpipe.runtime import Progress, Report, quiet
from wordpipe.stages.job import PathLike
from wordpipe.storage import as_path, url_of

_OURS = re.compile(  # names of files that no other program writes
    r"(corpus|tokens|words|outputs|ngrams|sentences|index|predictions)-\d{5}\.parquet|(steps|counts|sources|removed)\.parquet"
    r"|training\.json|optimiser\.safetensors"
)
_MAX_ENTRIES = 1000  # of a manifest; more sources become one entry


SourceLike: TypeAlias = PathLike | Iterable[Any]
"""What `ingest` reads: names of files, folders, globs and packages, or what a program has in memory."""


def as_list(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """One path or many, as strings."""
    if isinstance(paths, str) or hasattr(paths, "__fspath__"):
        return [str(paths)]
    return [str(path) for path in paths]


def named_or_rows(sources: SourceLike) -> tuple[list[str], Any]:
    """Return the names of sources and None, or no names and rows: mappings, a data frame, an Arrow table or reader.

    A string is always the name of a source, never a text: a text is given as {"text": …}.

    Raises:
        ConfigError: neither.
        InputError: an empty list.
    """
    # one name, or a table
    if isinstance(sources, str) or hasattr(sources, "__fspath__"):
        return [str(sources)], None
    if any(hasattr(sources, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "itertuples")):
        return [], sources
    expected = 'names of sources, dicts such as {"text": …}, a data frame or an Arrow table'
    if isinstance(sources, (bytes, Mapping)) or not hasattr(sources, "__iter__"):
        hint = "put the dict into a list" if isinstance(sources, Mapping) else None
        hint = "call collect() on the data first" if hasattr(sources, "collect") else hint  # a lazy frame
        raise ConfigError(
            "this value is not a source of text", got=type(sources).__name__, expected=expected, hint=hint
        )
    # several records or names: the first item says which
    items = iter(sources)
    first = next(items, None)
    if isinstance(first, Mapping):
        return [], chain([first], items)
    if first is None:
        hint = None if hasattr(sources, "__len__") else "a generator can be read only once"
        raise InputError("there is no source of text", got="no items", expected=expected, hint=hint)
    names = [first, *items]
    if other := [name for name in names if not (isinstance(name, str) or hasattr(name, "__fspath__"))]:
        hint = f"give a list of dicts; this list has an item of type {type(other[0]).__name__}"
        raise ConfigError(
            "this value is not a source of text", got=type(sources).__name__, expected=expected, hint=hint
        )
    return [str(name) for name in names], None


def shown_names(sources: SourceLike) -> list[str]:
    """Return the names of the sources as the user gave them; "memory" for sources without names."""
    if isinstance(sources, str) or hasattr(sources, "__fspath__"):
        return [str(sources)]
    named = isinstance(sources, (list, tuple)) and not any(isinstance(source, Mapping) for source in sources)
    return [str(source) for source in sources] if named else ["memory"]


def refuse_artifacts(sources: Iterable[str]) -> None:
    """Refuse an artifact as a source of text: its tables would be read as if they were data of the user.

    Raises:
        ArtifactError: a source is an artifact.
    """
    for source in sources:
        if is_artifact(Path(source)):
            raise ArtifactError(
                "this is an artifact, not a source of text", where=source, hint="give files or folders of text"
            )


def refuse_source_as_output(output: Path, names: Iterable[str]) -> None:
    """Refuse to write over a file that is read: one of these names, what a glob finds, or what lies in a folder.

    Raises:
        StorageError: names the file.
    """
    if not output.is_file():
        return
    for name in names:
        there = [name] if Path(name).exists() else glob(name, recursive=True)  # noqa: PTH207  (Path globs in one folder)
        for path in map(Path, there):
            if output.samefile(path) or (path.is_dir() and output.resolve().is_relative_to(path.resolve())):
                hint = "choose another output with -o"
                raise StorageError(
                    "the output is one of the input files and would be overwritten", where=output, hint=hint
                )


def refuse_headless(folder: Path) -> None:
    """Refuse a folder with files of an artifact and no manifest, without which these files cannot be checked.

    Raises:
        ArtifactError: names such a file, and how to go on.
    """
    try:
        names = sorted(one.name for one in folder.iterdir())
    except OSError:
        return
    if MANIFEST not in names and (unfinished := why_unfinished(folder)) is not None:
        raise unfinished
    if MANIFEST not in names and (ours := next(filter(_OURS.fullmatch, names), None)):
        unchecked = f"to read the folder as a Hugging Face model folder without checks, remove {ours}"
        hint = f"copy the whole folder again, or make the artifact again; {unchecked}"
        what = f"this folder is a wordpipe artifact without its {MANIFEST}, so its files cannot be checked"
        raise DamageError(what, where=folder, got=ours, hint=hint)


def fingerprints(sources: Iterable[Source], settings: Any = None) -> list[dict[str, str | int]]:
    """Return name, bytes and BLAKE3 of each source of text, from the cache where files have not changed.

    `settings` of `ingest` may say that files which cannot be read are left out.
    """
    from wordpipe.corpus import fingerprint, may_be_left  # a query needs no reader
    from wordpipe.corpus.settings import IngestSettings

    cache = HashCache()
    settings = settings if isinstance(settings, IngestSettings) else IngestSettings()
    entries = fingerprint(sources, cache.hash_file, lambda source: may_be_left(source, settings))
    cache.save()
    return entries


def entries_of(sources: Sources, settings: Any = None) -> list[InputEntry]:
    """Return the manifest entries of sources: name, size and content hash. A stream must have been read before."""
    return listed_entries(fingerprints(sources, settings))


def listed_entries(entries: list[dict[str, str | int]]) -> list[InputEntry]:
    """Return the manifest entries of sources with these fingerprints.

    Many sources become one entry, a hash over all of theirs: a manifest should stay readable.
    """
    found = [(str(entry["name"]), str(entry["blake3"]), int(entry["bytes"])) for entry in entries]
    if len(found) > _MAX_ENTRIES:
        digest = joint_hash((name, digest) for name, digest, _ in found)
        size = sum(size for _, _, size in found)
        return [InputEntry(kind="source", digest=digest, path=f"{len(found)} sources", bytes=size)]
    return [InputEntry(kind="source", digest=digest, path=name, bytes=size) for name, digest, size in found]


def joint_hash(files: Iterable[tuple[str, str]]) -> str:
    """Return one hash for the names and hashes of many files."""
    return hash_bytes("\n".join(f"{name}\t{digest}" for name, digest in files).encode())


PLACES = ("output", "config", "folder")
"""Arguments that name where something is written, or what must be on this machine: nothing is fetched for them."""


def fetched(value: Any, report: Report = quiet) -> Any:
    """Fetch the objects of an argument that is a URL, or a list with URLs; return other arguments unchanged.

    Args:
        value: a path, a URL, a list or a tuple of them, or anything else. A URL where nothing is stays as it is: what wants
            it says so, as of a path of this machine.
        report: hears how much has been fetched.

    Raises:
        InputError, ArtifactError: it changes, is damaged, or has a name that no file can have.
        StorageError: the store refused, or cannot be reached.
    """
    if isinstance(value, (list, tuple)) and not isinstance(value, str):
        return type(value)(fetched(one, report) for one in value) if names_url(value) else value
    url = url_of(value)
    if url is None:
        return value

    def on_bytes(done: int, total: int) -> None:
        report(Progress("fetching", done / 1e6, total / 1e6, "MB"))

    if is_artifact(as_path(value)):
        fetch_artifact(url, on_bytes)
    elif (found := fetch_objects(url, on_bytes)) is not None:
        return found if isinstance(value, str) else Path(found)
    return str(as_path(value)) if isinstance(value, str) else as_path(value)


def names_url(value: Any) -> bool:
    """True if an argument is a URL, or a list with one."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return any(isinstance(one, (str, os.PathLike)) and url_of(one) is not None for one in value)
    return isinstance(value, (str, os.PathLike)) and url_of(value) is not None


def prepared(name: str, value: Any, run: Any = None) -> Any:
    """Return an argument for a function of a stage, a source at a URL fetched, except for outputs.

    Args:
        name: of the argument.
        value: as it was given.
        run: the run options of the call, if it has some.

    Raises:
        WordpipeError: as from `fetched`.
    """
    if not names_url(value):
        return value
    if name in PLACES:
        return as_path(value)
    return fetched(value, quiet if run is None else run.report)
