"""`wordpipe search`: files, folders, records or a stream, searched by words; the index is made at once and kept in the cache.

The cache has a folder for each list of sources, named by the hash of their names, of the folder from which they are seen, and
of the settings by which they are read. In it lie a corpus and an index of words. A later search compares the hashes of the
files with those of the corpus: if all are equal, the index is asked as it is; else only the changed files are read. A stream
is kept by the hash of its bytes.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from wordpipe.artifacts import (
    Artifact,
    InputEntry,
    OutputLock,
    atomic_file,
    hash_bytes,
    hash_fd,
    is_artifact,
    parse_json_object,
    read_regular_file,
)
from wordpipe.corpus import (
    CONFIGURATION,
    NAMED_TWICE,
    Sources,
    about_repeats,
    line_about_include,
    lines_about_skipped,
    sources_of,
)
from wordpipe.corpus.settings import OF_SEARCH, IngestSettings
from wordpipe.errors import ArtifactError, ConfigError, LockedError, StorageError, WordpipeError
from wordpipe.runtime import Progress, Report, seen_from, working_folder
from wordpipe.search.settings import IndexSettings, QueryOptions
from wordpipe.stages.job import PathLike, RunOptions, storage_errors
from wordpipe.stages.python_calls import public
from wordpipe.stages.search.index_in_folder import index_in
from wordpipe.stages.search.opened_artifact import OpenIndex
from wordpipe.stages.search.opening import open_artifact
from wordpipe.stages.sources import as_list, entries_of, prepared
from wordpipe.storage import cache_folder, url_of

_CORPUS, _INDEX, _ABOUT = "corpus", "index", "about.json"
_INDEXING = {"endings": "remove"}  # nothing is measured
_STREAM = "standard-input"  # what the source of its answers is
_MOST_BYTES = 4 << 30  # of the cache; above, what was asked longest ago is removed
_IN_USE_S = 600  # what was asked so shortly ago may be open in another process
_PATIENCE_S = 3600  # to wait for another search that reads the same sources
_LEFT_S = 86_400  # after which a stream that was not read to its end belongs to nobody
_BLOCK = 1 << 20
_SHOWN = 5  # names of files
_SAID = 100  # notes that are not said again
_OPTION = re.compile(r"--[a-z][a-z-]+")
_FORMAT = re.compile(r"--format (\w[\w-]*)")  # of a source
_JOINED = re.compile(r", (?:and|or) ")  # parts of a clause
_LEFT = ("passed_over", "names", "sizes")  # what is kept of files that are not in an index
_LARGEST = 1 << 20  # bytes of what is kept about a search


@dataclass(frozen=True)
class CachedSearch:
    """An index of `wordpipe search` in the cache."""

    sources: tuple[str, ...]  # as they were named
    folder: str  # from which they are seen
    texts: int
    bytes: int  # on disk
    asked: float  # when, in seconds since 1970
    path: Path
    passed_over: Mapping[str, int] = field(default_factory=dict)  # files that are not in it: kind → how many
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)  # kind, or what is wrong → names of some files
    sizes: Mapping[str, int] = field(default_factory=dict)  # kind → bytes on disk
    options: Mapping[str, str] = field(default_factory=dict)  # by which the sources are read
    warnings: Sequence[str] = ()  # of the last reading, such as dropped duplicates


@public(QueryOptions, name="search_texts")
def search_texts(
    question: str,
    sources: PathLike | Sequence[PathLike] = ".",
    k: int = 10,
    *,
    run: RunOptions | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Search files and folders by words, without making an artifact: the index is kept in the cache.

    Args:
        question: the query, which may have operators.
        sources: files, folders or globs; "-" for standard input. An index, or a folder of a project, is asked as it is.
        k: hits wanted.
        run: progress, verification.
        options: fields of `QueryOptions`.

    Returns:
        What `query` returns.

    Raises:
        WordpipeError: its class and its hint say what to do.

    Example:
        >>> hits = wordpipe.search_texts("why do tides come", "notes/", k=3)
        >>> [hit["rank"] for hit in hits]
        [1, 2, 3]
    """
    QueryOptions.make(options)
    with open_sources(sources, run=run) as opened:
        return opened.query(question, k, **options)


def open_sources(
    sources: PathLike | Sequence[PathLike], *, run: RunOptions | None = None, **settings: Any
) -> OpenIndex:
    """Open the index of some sources, which is made or brought up to date where it has to be; close it afterwards.

    Args:
        sources: files, folders or globs; "-" for standard input; or one index, or a folder with one.
        run: progress, verification.
        settings: fields of `IngestSettings`, which say how the sources are read.

    Raises:
        WordpipeError: its class and its hint say what to do.
    """
    run = run or RunOptions()
    names = as_list(prepared("sources", as_list(sources), run))
    if (index := _index_among(names)) is not None:
        return open_artifact(index, "index", verify=run.verify)
    if "-" in names and len(names) > 1:
        hint = "give - alone, or put the text of standard input into a file"
        raise ConfigError("standard input cannot be searched together with files", got=", ".join(names), hint=hint)
    with storage_errors(), _hints_for_search():
        home = _home()
        if names == ["-"]:
            return _opened(_made_of_stream(home, settings, run), run)
        entry = _made(home, names, settings, run)
        try:
            return _opened(entry, run)
        except ArtifactError:  # damaged after it was made
            _remove(entry)
            return _opened(_made(home, names, settings, run), run)


@contextmanager
def _hints_for_search() -> Iterator[None]:
    """Let the hint of an error in the block name only options that `search` has."""
    try:
        yield
    except WordpipeError as error:
        if error.hint is not None:
            name = Path(error.where or "").name.partition(",")[0]
            error.hint = _for_search(error.hint, name or "PATTERN") or None
        raise


def _for_search(text: str, name: str = "PATTERN") -> str:
    """Return what `ingest` says, without the clauses that name an option which `search` does not have.

    Args:
        text: of a hint or a warning.
        name: of the file that it is about; the format of answers is another option than that of files.
    """
    if "--" not in text and "wordpipe ingest" not in text:
        return text
    text = _FORMAT.sub(lambda found: f"--include {shlex.quote(f'{name}:{found[1]}')}", text)
    known = {f"--{one.replace('_', '-')}" for one in OF_SEARCH}
    clauses = []
    for clause in text.split("; "):
        parts = _JOINED.split(clause)
        kept = [part for part in parts if known.issuperset(_OPTION.findall(part)) and "wordpipe ingest" not in part]
        if kept[:1] == parts[:1]:
            clauses.append(clause if kept == parts else kept[0])
    return "; ".join(clauses)


def _opened(entry: Path, run: RunOptions) -> OpenIndex:
    """Open the index of an entry of the cache, and note the time, by which old entries are removed."""
    os.utime(entry / _ABOUT)
    return open_artifact(entry / _INDEX, "index", verify=run.verify)


def cached_searches() -> list[CachedSearch]:
    """Return what `search` has in the cache, what was asked last first."""
    home = _folder()
    found = [one for path in (home.iterdir() if home.is_dir() else ()) if (one := _cached(path)) is not None]
    return sorted(found, key=lambda one: -one.asked)


def _cached(entry: Path) -> CachedSearch | None:
    """Return what an entry of the cache is; None if it is none, or is damaged."""
    with suppress(OSError):
        if (about := _about(entry)) is not None:
            size = sum(one.stat().st_size for one in entry.rglob("*") if one.is_file())
            asked = (entry / _ABOUT).stat().st_mtime
            kept = {name: dict(about.get(name, {})) for name in (*_LEFT, "options")}
            warnings, sources = [*map(str, about.get("warnings", ()))], tuple(about["sources"])
            return CachedSearch(sources, about["folder"], about["texts"], size, asked, entry, warnings=warnings, **kept)
    return None


def _about(entry: Path) -> dict[str, Any] | None:
    """Return the sources, the folder, the number of texts … of an entry of the cache; None if it is none, or is damaged."""
    with suppress(WordpipeError, OSError, KeyError, TypeError, ValueError):
        about = parse_json_object(read_regular_file(entry / _ABOUT, _LARGEST), entry / _ABOUT)
        known = {"sources": [*map(str, about["sources"])], "folder": str(about["folder"]), "texts": int(about["texts"])}
        return {**about, **known}
    return None


def remark_on_documents(opened: OpenIndex, settings: Mapping[str, Any]) -> str:
    """Return what a document is where a search asks for one answer of each; "" of an index, and where it was said.

    Args:
        opened: what `open_sources` opened.
        settings: the settings of the reading that were given.
    """
    if settings.get("documents") is not None or opened.path.parent.parent != _folder():
        return ""
    return "a document is a record, a section or a paragraph here; with --documents file, each file of text is one"


def files_passed_over(opened: OpenIndex) -> int:
    """Return the number of files of folders that an index of a search left out; 0 of an index that is no search's."""
    entry = opened.path.parent
    return sum((_about(entry) or {}).get("passed_over", {}).values()) if entry.parent == _folder() else 0


def clear_searches() -> tuple[int, int]:
    """Remove what `search` has in the cache; return how many indexes and how many bytes. What is being made stays."""
    removed = [one for one in cached_searches() if _remove(one.path)]
    _remove_leftovers(_folder(), older_than=0)
    return len(removed), sum(one.bytes for one in removed)


def _folder() -> Path:
    """Return the folder of the cache for searches, which may not be there."""
    return cache_folder() / "search"


def _home() -> Path:
    """Return the folder of the cache for searches, made so that others cannot read it: it holds the texts."""
    home = _folder()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        hint = "set XDG_CACHE_HOME to a folder that you can write to"
        raise StorageError("the cache cannot be written", where=home, got=error.strerror, hint=hint) from None
    return home


def _index_among(names: Sequence[str]) -> Path | None:
    """Return the index that the only source is or has; None if the sources are texts.

    Raises:
        ConfigError: one of several sources is an artifact.
        ArtifactError: the only one is an artifact and no index, or has several indexes.
    """
    if len(names) == 1:
        index = index_in(Path(names[0])) if url_of(names[0]) is None else Path(names[0])
        return index if is_artifact(index) else None
    if artifacts := [name for name in names if is_artifact(Path(name))]:
        hint = f"search it alone: wordpipe search QUESTION {artifacts[0]}"
        raise ConfigError("an artifact cannot be searched together with other sources", got=artifacts[0], hint=hint)
    return None


def _key(*parts: Any) -> str:
    return hash_bytes(json.dumps(parts).encode())[:32]


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `ingest` for a search: a document for each section or block; no file stops the reading.

    In folders the settings of programs are read, too.
    """
    include = [*_included(given), *(f"*{ending}" for ending in CONFIGURATION)]
    return {"valid": 0.0, "unreadable": "skip", "documents": "section", **given, "include": include}


def _included(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the entries of `include` that were given."""
    return IngestSettings.make({"include": given.get("include") or ()}).include


def _as_written(given: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as their options are written, of those that say something."""
    some = {name: value for name, value in given.items() if value not in (None, "", (), [])}
    return {name: ",".join(map(str, one)) if isinstance(one, list | tuple) else str(one) for name, one in some.items()}


def _made(home: Path, names: list[str], given: dict[str, Any], run: RunOptions) -> Path:
    """Return the folder of the cache that has the index of sources, as their files are now."""
    chosen = IngestSettings.make(_settings(given))
    found = sources_of(names, chosen)
    standing = str(working_folder())
    entry = home / _key(standing, names, chosen.recipe())
    if not _is_current(entry, entries := entries_of(found, chosen)):
        with _locked(entry, run):
            if not _is_current(entry, entries):  # another process may have made it meanwhile
                about = {"sources": names, "folder": standing, "options": _as_written(given)}
                before = _about(entry) or {}
                about |= {name: before[name] for name in (*_LEFT, "said") if name in before}
                if line := line_about_include(found, names, _included(given)):
                    run.report(Progress("note", note=line))
                _make(entry, names, given, run, about, found)
                _keep_bounded(home, entry)
    _say_passed_over(found, entry, run)
    return entry


def _made_of_stream(home: Path, given: dict[str, Any], run: RunOptions) -> Path:
    """Return the folder of the cache that has the index of standard input, which is copied to the disk first."""
    spool = home / f".{secrets.token_hex(8)}.stream"
    spool.mkdir(mode=0o700)
    try:
        path = spool / _STREAM
        with path.open("xb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, _BLOCK)
        with path.open("rb") as file:
            entry = home / _key(hash_fd(file.fileno()), IngestSettings.make(_settings(given)).recipe())
        if _about(entry) is None:
            with _locked(entry, run), seen_from(spool):
                if _about(entry) is None:
                    _make(
                        entry, [str(path)], given, run, {"sources": ["-"], "folder": "", "options": _as_written(given)}
                    )
                    _keep_bounded(home, entry)
        return entry
    finally:
        shutil.rmtree(spool, ignore_errors=True)


@contextmanager
def _locked(entry: Path, run: RunOptions) -> Iterator[None]:
    """Let no other process make an entry of the cache in the block; wait for one that does."""
    with suppress(LockedError), OutputLock(entry):
        yield
        return
    run.report(Progress("note", note="waiting for another search that reads the same sources"))
    with OutputLock(entry, patience=_PATIENCE_S):
        yield


def _is_current(entry: Path, entries: list[InputEntry]) -> bool:
    """True if the index of an entry is of the corpus beside it, and the corpus of sources with these hashes."""
    with (
        suppress(ArtifactError),
        Artifact(entry / _CORPUS, ["corpus"], verify=False) as corpus,
        Artifact(entry / _INDEX, ["index"], verify=False) as index,
    ):
        is_of_corpus = [one.digest for one in index.manifest.inputs] == [corpus.manifest.digest]
        return is_of_corpus and corpus.manifest.inputs == entries and _about(entry) is not None
    return False


def _make(
    entry: Path, names: list[str], given: dict[str, Any], run: RunOptions, about: dict[str, Any],
    found: Sources | None = None,
) -> None:  # fmt: skip
    """Make or update the corpus and the index of an entry of the cache.

    Args:
        entry: its folder.
        names: the sources, as they were named.
        given: settings of the reading.
        run: progress.
        about: what is kept about the entry.
        found: the sources; what was passed over is not said here. None: a stream, copied to the only name.
    """
    from wordpipe.stages.corpus.ingest import ingest
    from wordpipe.stages.search.index import index
    from wordpipe.stages.search.index_rows import words_ahead

    begun = time.perf_counter()
    entry.mkdir(mode=0o700, exist_ok=True)
    known, has_index = (_is_whole(entry / name) for name in (_CORPUS, _INDEX))
    reading = _settings(given) | ({"update": True, "drop_missing": True} if known else {})
    unsaid = [] if found is None else [*lines_about_skipped(found.skipped, found.examples)]
    said, warnings = dict.fromkeys(about.get("said", ())), list[str]()
    reporting = partial(_report_reading, run.report, [*unsaid, *said], said, warnings)
    how = replace(run, verify=False, keeps_settings=False, report=reporting)
    size = Path(names[0]).stat().st_size if found is None else found.bytes
    with words_ahead(IndexSettings.make(_INDEXING), 0 if known else size, reading) as ahead:
        corpus = ingest(names, output=entry / _CORPUS, run=replace(how, ahead=ahead), **reading)
        indexing = replace(how, report=partial(_report_work, run.report), ahead=ahead)
        made = index(corpus, output=entry / _INDEX, run=indexing, update=has_index, **_INDEXING)
    with atomic_file(entry / _ABOUT) as file:
        about |= {"texts": made.counts["texts"], "said": [*said][-_SAID:], "warnings": warnings}
        file.write(json.dumps(about).encode())
    megabytes, seconds = corpus.counts.get("bytes_read", 0) / 1e6, time.perf_counter() - begun
    text = f"read: {megabytes:,.1f} MB in {made.counts['texts']:,} texts{about_repeats(corpus.counts)}, {seconds:.1f} s"
    if "sources_copied" in corpus.counts:
        new, gone = (
            sum(corpus.counts.get(f"sources_{name}", 0) for name in names)
            for names in (("read_again", "added"), ("deleted",))
        )
        left = f", {gone:,} removed" if gone else ""
        of_all = f"{new:,} of {corpus.counts['sources']:,} files read{left}"
        text = f"updated: {of_all}, {made.counts['texts']:,} texts, {seconds:.1f} s"
    run.report(Progress("note", note=f"{text}; the next search of these sources uses this index"))


def _is_whole(artifact: Path) -> bool:
    """True if an artifact of the cache can be updated; a damaged one is removed."""
    with suppress(ArtifactError), Artifact(artifact, verify=False):
        return True
    if artifact.exists():
        shutil.rmtree(artifact)
    return False


def _report_reading(
    report: Report, unsaid: Sequence[str], said: dict[str, None], warnings: list[str], progress: Progress
) -> None:
    """Report the progress and what is said while sources are read, as far as it fits a search.

    Args:
        report: takes it.
        unsaid: notes that are not said: they were said before, or will be.
        said: takes the notes.
        warnings: takes the warnings.
        progress: what is reported.
    """
    if progress.note is not None:
        if progress.note in unsaid and not progress.is_warning:
            return
        note = _for_search(progress.note)
        if not note or (note != progress.note and not progress.is_warning and "--include" not in note):
            return  # a note about an option
        if progress.is_warning and " could not be read: " not in note:  # these are listed by name
            warnings.append(note)
        elif not progress.is_warning:
            said[progress.note] = None
        progress = replace(progress, note=note)
    report(progress)


def _say_passed_over(found: Sources, entry: Path, run: RunOptions) -> None:
    """Say which files of the sources are not in an index of the cache, if that is new; and keep it for the list."""
    about, unreadable = _about(entry), dict[str, list[str]]()
    with suppress(ArtifactError), Artifact(entry / _CORPUS, ["corpus"], verify=False) as corpus:
        unreadable = corpus.manifest.facts.get("unreadable", {})
    names = {**found.examples, **{what: some[:_SHOWN] for what, some in unreadable.items()}}
    skipped = {kind: number for kind, number in found.skipped.items() if kind != NAMED_TWICE}
    now = {**skipped, **{what: len(some) for what, some in unreadable.items()}}
    if about is None or about.get("passed_over", {}) == now:
        return
    for line in filter(None, map(_for_search, lines_about_skipped(skipped, found.examples))):
        more = " (to list them: wordpipe search --cache)" if " passed over: " in line else ""
        run.report(Progress("note", note=line + more))
    with atomic_file(entry / _ABOUT) as file:
        file.write(json.dumps(about | dict(zip(_LEFT, (now, names, found.skipped_bytes), strict=True))).encode())


def _report_work(report: Report, progress: Progress) -> None:
    """Report the progress and the warnings of an index in the cache; its notes are about an artifact that is not shown."""
    if progress.note is None or progress.is_warning:
        report(progress)


def _keep_bounded(home: Path, made: Path) -> None:
    """Remove what was asked longest ago while the cache is larger than its bound; never the entry that was just made."""
    _remove_leftovers(home, older_than=_LEFT_S)
    there = cached_searches()
    size = sum(one.bytes for one in there)
    for one in reversed(there):
        if size <= _MOST_BYTES:
            return
        if one.path != made and time.time() - one.asked > _IN_USE_S and _remove(one.path):
            size -= one.bytes


def _remove(entry: Path) -> bool:
    """Remove an entry of the cache; False if another process makes it just now."""
    with suppress(LockedError), OutputLock(entry, patience=0):
        going = entry.parent / f".{secrets.token_hex(8)}.stream"
        entry.rename(going)
        shutil.rmtree(going, ignore_errors=True)
        return True
    return False


def _remove_leftovers(home: Path, *, older_than: float) -> None:
    """Remove streams, and what was to be removed, that an ended process has left."""
    for path in home.glob(".*.stream"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > older_than:
                shutil.rmtree(path, ignore_errors=True)
