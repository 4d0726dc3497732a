"""The sources of text: files, folders, globs, standard input and the docstrings of installed packages."""

import errno
import os
import shlex
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, Literal

from blake3 import blake3

from wordpipe.artifacts import holds_artifact, is_broken_artifact
from wordpipe.corpus.decode import Compression, Inner, Stamp, stamp_of
from wordpipe.corpus.detect_format import contains_text, form_by_beginning, patterns_for, way_to_read
from wordpipe.corpus.formats import COMPRESSIONS, ENDINGS, READERS, kind_of
from wordpipe.corpus.readers.package import find_package
from wordpipe.errors import ArtifactError, InputError, StorageError, WordpipeError
from wordpipe.runtime import working_folder
from wordpipe.storage import url_of

_IF_NAMED = {ending: one.name for one in READERS.values() for ending in one.endings_if_named}
OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # errors that are no fault of a file
CHANGED = "the file changed while it was read"
_MAILDIR = {"cur", "new", "tmp"}  # the folders in a folder of mail, whose files have no endings
NAMED_TWICE = "named twice"
"""What was not skipped, but counted beside it: files that the user's words name twice."""
_EXAMPLES = 3  # names of what was skipped, of each kind


class _Seen:
    """The bytes and lines of a stream that was read and hashed, as a stream can be read only once."""

    __slots__ = ("_hash", "bytes", "is_whole", "lines")

    def __init__(self) -> None:
        self.bytes = self.lines = 0
        self.is_whole = False
        self._hash: blake3 | None = None  # it takes 2 kB, and there may be a million files

    def note(self, block: bytes) -> None:
        if self._hash is None:
            self._hash = blake3()
        self.bytes += len(block)
        self._hash.update(block)

    def digest(self) -> str:
        return str((self._hash or blake3()).hexdigest())


@dataclass(frozen=True, slots=True)
class Source:
    """One file, stream or package."""

    # what the `source` column shows: the path below the working folder, or as the user gave it; of an absolute path
    # elsewhere what begins with the last name of the input; of an object its URL; "-" for standard input; "python:PACKAGE"
    name: str
    # a file, a stream (standard input, a named pipe), a package, or rows of a program (read once, as a stream is)
    kind: Literal["file", "stream", "package", "rows"]
    format: str = "txt"  # how to read it, after decompression
    # what it is compressed with; "auto" (streams) is seen from the first bytes
    compression: Compression | Literal["auto"] = "none"
    path: Path | None = None  # the file or pipe; None for standard input and packages
    bytes: int = 0  # its size on disk, of a piece that of the piece; 0 for streams
    is_unnamed: bool = False  # no ending of a name says what it holds: its first block is looked at
    is_found: bool = False  # in a folder, or by a pattern: it is passed over where it is no text
    is_meant: bool = False  # somebody wants it read in its format, whatever it looks like
    # of a piece of a large file: its first byte, the byte after its last (None: to the end), the number of its first line
    start: int = 0
    stop: int | None = None
    first_line: int = 1
    stamp: Stamp | None = (
        None  # of the whole file when it was found, before it is hashed: what it must still be when read
    )
    rows: Any = field(default=None, compare=False, repr=False)  # dicts, a data frame, an Arrow table
    inner: Inner | None = field(default=None, compare=False, repr=False)  # of a file within another one
    seen: _Seen = field(default_factory=_Seen, compare=False, repr=False)

    @property
    def is_piece(self) -> bool:
        """True if it is a part of a large file."""
        return self.start > 0 or self.stop is not None

    def digest_of(self, whole: str) -> str:
        """Return what identifies a source's bytes: the BLAKE3 of the file; of a piece, its first and last byte, too."""
        return f"{whole} {self.start}-{self.start + self.bytes}" if self.is_piece and whole else whole

    @property
    def is_read_once(self) -> bool:
        """True if it is hashed while it is read, as there is no second reading."""
        return self.kind in ("stream", "rows")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give the raw bytes of a source of text; of a piece, the whole file, at its first byte.

        Raises:
            InputError: the file is gone, or there is no standard input.
            StorageError: it may not be read, or has changed since it was found.
        """
        if self.inner is not None:
            self.inner.file.seek(0)
            yield self.inner.file
            return
        if self.path is None:
            if sys.stdin is None:
                raise InputError("standard input is not available", where=self.name)
            with _named("standard input"):
                yield sys.stdin.buffer
            return
        # a file: it must be the one that was found, before and after it is read
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise InputError("the file no longer exists", where=self.name) from None
        except OSError as error:
            raise StorageError("cannot be read", where=self.name, got=error.strerror) from None
        with file, _named(self.name):
            self._refuse_changed(file)
            if self.start:  # a pipe cannot seek
                file.seek(self.start)
            try:
                yield file
            except Exception:  # of a file that somebody writes to, this may be all that is wrong
                self._refuse_changed(file)
                raise
            self._refuse_changed(file)

    def _refuse_changed(self, file: BinaryIO) -> None:
        """Refuse a file that has changed since it was found and hashed. Raises StorageError."""
        if self.stamp is None or self.path is None:
            return
        with suppress(FileNotFoundError):
            if all(map(self.stamp.is_of, (os.fstat(file.fileno()), self.path.stat()))):
                return
        hint = "ingest a copy, or wait until no program writes to this file"
        raise StorageError(CHANGED, where=self.name, hint=hint)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of the source to an error of reading, which the system leaves out."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or name
        raise


class Sources(list[Source]):
    """The sources of one ingest, sorted by name.

    Args:
        sources: in any order.
        skipped: how many files of folders were left out, by name ending (".pdf", "without ending"), or by reason ("hidden",
            "link to a folder", "broken link", "artifact", "broken artifact", "not a file", "named twice").
        examples: names of some of them.
        skipped_bytes: the size on disk of those that are files, likewise.
        unreadable: files and folders that cannot be read, by what is wrong with them.
        is_sorted: False where they stay as they are: two files of lines.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        skipped: Mapping[str, int],
        examples: Mapping[str, Sequence[str]] | None = None,
        *,
        skipped_bytes: Mapping[str, int] | None = None,
        unreadable: Mapping[str, Sequence[str]] | None = None,
        is_sorted: bool = True,
    ) -> None:
        super().__init__(sorted(sources, key=lambda source: source.name) if is_sorted else sources)
        self.skipped = dict(sorted(skipped.items()))
        self.examples = dict(examples or {})
        self.skipped_bytes = dict(skipped_bytes or {})
        self.unreadable = {what: [*names] for what, names in (unreadable or {}).items()}

    @property
    def bytes(self) -> int:
        """Size of all files on disk; streams count nothing."""
        return sum(source.bytes for source in self)


def expand(
    texts: Iterable[str],
    *,
    read_as: str = "auto",
    parallel: bool = False,
    unreadable: str = "auto",
    include: Iterable[str] = (),
) -> Sources:
    """Return the sources of text that the user's words name: files, folders, globs, "-", "python:PACKAGE".

    Of a folder and its subfolders, files are taken whose names end in a known format, files without an ending that contain
    text, and what `include` names, as the setting does; hidden ones never. With `read_as` every file is read as this, and
    folders give all their files. `parallel` files of lines are two, and stay in the order in which they are named. As the
    setting, `unreadable` says whether files that cannot be read are left out.

    Raises:
        InputError: nothing is there, or not in a format that can be read; not two files of lines.
        StorageError: no permission.
    """
    finder = _Finder("txt" if parallel else read_as, "error" if parallel else unreadable, include)
    texts = list(texts)
    for text in texts:
        finder.add(text)
    if not finder.found:
        skipped = ", ".join(f"{number} {kind}" for kind, number in sorted(finder.skipped.items()))
        got, hint = (
            f"only skipped files ({skipped})" if skipped else "no files",
            "put text files there, or give other sources",
        )
        texts_there = [one for kind, names in sorted(finder.examples.items()) for one in patterns_for(kind, names)]
        if texts_there:
            hint = f"to read the text files among them: --include {shlex.quote(','.join(dict.fromkeys(texts_there)))}"
        if finder.first_error is not None:  # which says more
            raise finder.first_error
        raise InputError("no text to read", where=", ".join(texts), got=got, expected=_known(), hint=hint)
    found = finder.named()
    if parallel:
        _require_two_files(texts, found, read_as)
    return Sources(
        found, finder.skipped, finder.examples, skipped_bytes=finder.skipped_bytes, unreadable=finder.unreadable,
        is_sorted=not parallel,
    )  # fmt: skip


def sources_of(texts: Iterable[str], settings: Any) -> Sources:
    """Return the sources that the user's words name, by the settings of a stage that reads text.

    Raises:
        InputError, StorageError: as `expand` does.
    """
    wanted = {
        name: getattr(settings, name) for name in ("parallel", "unreadable", "include") if hasattr(settings, name)
    }
    return expand(texts, read_as=getattr(settings, "format", "auto"), **wanted)


def _require_two_files(texts: list[str], found: list[Source], read_as: str) -> None:
    """Raise unless what was found are two files, or streams, of lines."""
    are_files = all(source.kind != "package" for source in found) and not any(Path(text).is_dir() for text in texts)
    if len(texts) != 2 or len(found) != 2 or not are_files:  # two by one pattern would be in no order of the user's
        what, expected = (
            "parallel needs two files",
            "the file with the first texts, then the file with the second texts",
        )
        got, hint = f"{len(found)} source{'s' * (len(found) != 1)}", "wordpipe ingest --parallel FIRST SECOND -o CORPUS"
        raise InputError(what, where=", ".join(texts), got=got, expected=expected, hint=hint)
    for source in found:
        form, ending, _ = kind_of(source.path) if source.path is not None else (None, "", "none")
        if read_as == "auto" and form not in (None, "txt", "md"):
            hint = "for pairs of records, use --text-field and --text-b; to read the files as lines anyway, use --format txt"
            raise InputError(f"{ending} files do not contain plain lines of text", where=source.name, hint=hint)


def from_memory(rows: Any, name: str = "memory") -> Sources:
    """Return values of a program as a source: mappings of names to values, a data frame, an Arrow table or batch reader."""
    return Sources([Source(name, "rows", "rows", rows=rows)], {})


class _Finder:
    """The search for sources; a file that is named twice counts once."""

    def __init__(self, read_as: str, unreadable: str, include: Iterable[str]) -> None:
        from wordpipe.corpus.settings import parsed_includes

        self.read_as, self._policy = read_as, unreadable
        self._included = parsed_includes(include)
        self.unreadable: dict[str, list[str]] = {}  # what is wrong → names
        self.first_error: WordpipeError | None = None
        self.found: dict[str, Source] = {}
        self.skipped: Counter[str] = Counter()
        self.skipped_bytes: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}  # of what was skipped: the first names of each kind
        self._left_out: dict[str, str] = {}  # absolute path of what was skipped → its kind
        self._input = Path()  # what the user named, as far as it has no magic
        self._outer: dict[
            str, Path
        ] = {}  # key of a source outside the working folder → the absolute input it lies below

    def named(self) -> list[Source]:
        """Return the sources of text that were found. Of absolute inputs only the telling part of the path is shown."""
        depths = dict.fromkeys(self._outer.values(), 1)
        while True:
            names = {key: self._outer_name(key, depths) if key in self._outer else source.name
                     for key, source in self.found.items()}  # fmt: skip
            often = Counter(names.values())
            same = {self._outer[key] for key, name in names.items() if often[name] > 1 and key in self._outer}
            longer = {root for root in same if depths[root] < len(root.parts)}
            if not longer:
                return [replace(source, name=names[key]) for key, source in self.found.items()]
            for root in longer:
                depths[root] += 1

    def _outer_name(self, key: str, depths: Mapping[Path, int]) -> str:
        """Return the name to show for a source outside the working folder."""
        root, path = self._outer[key], self.found[key].path
        assert path is not None
        shown = Path(*root.parts[-depths[root] :], path.relative_to(root))
        return os.fsencode(shown.as_posix()).decode(errors="replace")

    def add(self, text: str) -> None:
        if text == "-":
            unnamed = self.read_as == "auto"
            self._keep("-", Source("-", "stream", self._format(None), "auto", is_unnamed=unnamed))
        elif text.startswith("python:"):
            for package in map(str.strip, text.removeprefix("python:").split(",")):
                size = sum(file.path.stat().st_size for file in find_package(package))
                self._keep(f"python:{package}", Source(f"python:{package}", "package", "python", bytes=size))
        elif os.path.lexists(text):
            self._add_path(Path(text))
        elif not has_magic(text):
            raise _missing(text)
        elif not (matches := sorted(glob(text, recursive=True))):  # noqa: PTH207  (Path.glob refuses absolute patterns)
            raise _missing(text) if url_of(text) is not None else InputError("no file matches this pattern", where=text)
        else:
            for match in matches:
                self._add_path(Path(match), is_found=len(matches) > 1)

    def _may_leave(self, *, is_found: bool) -> bool:
        """True if a file that cannot be read is left out."""
        return self._policy == "skip" or (self._policy == "auto" and is_found)

    def _leave(self, error: WordpipeError, path: str | Path, *, is_found: bool = True) -> None:
        """Leave out a file or folder that cannot be read. Raises the error where that is not wanted."""
        if not self._may_leave(is_found=is_found):
            raise error
        self.first_error = self.first_error or error
        self.unreadable.setdefault(error.what, []).append(shown_path(Path(path)))

    def _add_path(self, path: Path, *, is_found: bool = False) -> None:
        """Add a file or folder that the user named, or one of several that a pattern has `found`."""
        self._input = path
        if path.is_dir():
            if is_broken_artifact(path):
                broken = ArtifactError(
                    "this folder contains tables of wordpipe, but no manifest; a broken artifact cannot be a source of text",
                    where=path,
                    hint=f"make the artifact again; to read its tables anyway, give the files: {path}/*.parquet",
                )
                self._leave(broken, path, is_found=is_found)
                return
            self._add_folder(path)
            return
        known, suffix, _ = kind_of(path)
        is_refused = known is None and suffix in ENDINGS and suffix not in _IF_NAMED
        if self.read_as == "auto" and is_refused and self._wanted(path) is None:
            if is_found:
                self._skip(suffix, path)
                return
            hint = way_to_read(ENDINGS[suffix], str(path))
            error = InputError(f"wordpipe cannot read {suffix} files", where=path, expected=_known(), hint=hint)
            self._leave(error, path, is_found=False)
            return
        self._add_file(path, _IF_NAMED.get(suffix), is_found=is_found)

    def _add_folder(self, folder: Path) -> None:
        """Add the files of a folder and its subfolders whose endings are known; count the others."""

        def note_unlisted(error: OSError) -> None:
            what = StorageError("no permission to list this folder", where=error.filename, got=error.strerror)
            self._leave(what, error.filename, is_found=Path(error.filename) != folder)

        for where, folders, files in os.walk(folder, onerror=note_unlisted):
            found, folders[:] = sorted(folders), []
            of_mail = {*found} >= _MAILDIR or (Path(where).name in _MAILDIR and _is_maildir(Path(where).parent))
            for name in found:
                if (reason := _passed_over(Path(where, name), of_mail=of_mail)) is None:
                    folders.append(name)
                else:
                    self.skipped[reason] += 1
            for path in (Path(where, name) for name in sorted(files)):  # taken if the name says that it can be read
                known, suffix, _ = kind_of(path)
                if path.name.startswith("."):
                    self._skip("hidden", path, is_named=False)
                elif of_mail and path.parent.name in ("cur", "new"):
                    self._add_file(path, "mail", is_found=True)
                elif not path.is_file():
                    self.skipped["not a file" if path.exists() else "broken link"] += 1
                elif (
                    known is None
                    and self.read_as == "auto"
                    and self._wanted(path) is None
                    and not contains_text(path, suffix)
                    and (suffix or form_by_beginning(path) is None)
                ):
                    self._skip(suffix or "without ending", path)
                else:
                    self._add_file(path, is_found=True)

    def _wanted(self, path: Path) -> str | None:
        """Return the format of a file by `include`; "auto": recognised by name or content; None: the file is not included."""
        for pattern, form in self._included.items():
            if fnmatchcase(path.name, pattern) or ("/" in pattern and fnmatchcase(path.as_posix(), f"*{pattern}")):
                return form
        return None

    def _skip(self, kind: str, path: Path, *, is_named: bool = True) -> None:
        """Count a file of a folder that is left out, and its bytes, with the names of the first ones."""
        place = str(path.absolute())
        if place in self.found or place in self._left_out:
            return
        self._left_out[place] = kind
        self.skipped[kind] += 1
        with suppress(OSError):
            self.skipped_bytes[kind] += path.stat().st_size
        if not is_named:
            return
        names = self.examples.setdefault(kind, [])
        if len(names) < _EXAMPLES:
            names.append(shown_path(path))

    def _add_file(self, path: Path, meant: str | None = None, *, is_found: bool = False) -> None:
        """Add a file that can be read, as a source of its format."""
        try:
            self._add_readable(path, meant, is_found=is_found)
        except (InputError, StorageError) as error:
            self._leave(error, path, is_found=is_found)

    def _add_readable(self, path: Path, meant: str | None = None, *, is_found: bool = False) -> None:
        """Add a file as a source of its format. Raises InputError, StorageError: it cannot be read."""
        # only what can be read, to its end
        try:
            found = path.stat()
        except FileNotFoundError:
            raise InputError("the link points to a file that does not exist", where=path) from None
        except OSError as error:
            raise StorageError("cannot be read", where=path, got=error.strerror) from None
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
            raise InputError("not a file, a folder or a pipe", where=path)
        if not os.access(path, os.R_OK):
            raise StorageError("no permission to read this file", where=path, hint=f"chmod u+r {path}")
        # what it is read as
        known, suffix, compression = kind_of(path)
        wanted = self._wanted(path)
        if wanted is not None and (form := _IF_NAMED.get(suffix)) and not READERS[form].looks_like:
            meant = meant or form  # as if it were named; what its content shows better is left to the content
        known, wanted = known or meant, wanted or "auto"
        if known is None and self.read_as == "auto" and stat.S_ISREG(found.st_mode):
            known = form_by_beginning(path)
        known = known if wanted == "auto" else wanted
        form, name, unnamed = self._format(known), shown_path(path), known is None and self.read_as == "auto"
        # a pipe has neither size nor stamp, and its compression is seen later
        if stat.S_ISFIFO(found.st_mode):
            source = Source(name, "stream", form, "auto", path, is_unnamed=unnamed)
        else:
            source = Source(
                name, "file", form, compression, path, found.st_size, unnamed, is_found, wanted != "auto",
                stamp=stamp_of(found),
            )  # fmt: skip
        # known by where it really is: a file named twice counts once
        key = os.path.realpath(path)
        if key not in self.found and path.is_absolute() and Path(name).is_absolute():
            self._outer[key] = self._input
        self._keep(key, source)

    def _format(self, known: str | None) -> str:
        """Return the format in which a file is read."""
        return (known or "txt") if self.read_as == "auto" else self.read_as

    def _keep(self, key: str, source: Source) -> None:
        """Keep a source, once for each real path."""
        if key in self.found:
            self.skipped[NAMED_TWICE] += 1
            if not source.is_found:
                self.found[key] = replace(self.found[key], is_found=False)
        self.found.setdefault(key, source)
        kind = None if source.path is None else self._left_out.pop(str(source.path.absolute()), None)
        if source.path is not None and kind is not None:
            self.skipped -= Counter([kind])  # passed over in its folder, and named beside it
            self.skipped_bytes -= Counter({kind: source.bytes})
            some = self.examples.get(kind, [])
            self.examples[kind] = [name for name in some if name != shown_path(source.path)] or some


def _passed_over(folder: Path, *, of_mail: bool) -> str | None:
    """Return why a folder in a folder is not read; None if it is. In one of mail, hidden ones may hold mail, too."""
    if folder.name.startswith(".") and not (of_mail and _is_maildir(folder)):
        return "hidden"
    if folder.is_symlink():  # which os.walk does not follow
        return "link to a folder"
    if holds_artifact(folder):
        return "artifact"
    return "broken artifact" if is_broken_artifact(folder) else None


def _is_maildir(folder: Path) -> bool:
    """True if a folder holds mail, a file each message."""
    return all((folder / name).is_dir() for name in _MAILDIR)


def _known() -> str:
    """Return the endings of the files that are read, for errors."""
    endings = sorted(ending for ending, one in ENDINGS.items() if one.read)
    return f"{' '.join(endings)}, or compressed: {' '.join(COMPRESSIONS)}"


def shown_path(path: Path) -> str:
    """Return the name of a source: its path seen from the working folder, else as given, or the URL that it is a copy of."""
    if (url := url_of(path)) is not None:
        return os.fsencode(str(url)).decode(errors="replace")
    here = working_folder()
    whole = Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow links, and show another name)
    name = next((one.relative_to(here) for one in (whole, path) if one.is_relative_to(here)), path)  # ../texts stays so
    return os.fsencode(name.as_posix()).decode(errors="replace")


def _missing(text: str) -> InputError:
    """Return the error for a file or folder of a source that does not exist."""
    if (url := url_of(text)) is not None:
        hint = "give a folder, an object or a pattern such as s3://BUCKET/folder/*.txt"
        return InputError("the object or folder does not exist", where=str(url), hint=hint)
    path = Path(text)
    try:
        near = get_close_matches(path.name, sorted(os.listdir(path.parent)), n=3, cutoff=0.7)  # noqa: PTH208
    except (OSError, ValueError):
        near = []
    hint = f"did you mean {', '.join(str(path.parent / name) for name in near)}?"
    hint = (
        hint
        if near
        else "give files, folders or patterns such as *.txt; use - for standard input, or python:NAME for a Python package"
    )
    if not near and len(text.split()) > 1:
        hint += '; in Python, give a text as {"text": …}'
    return InputError(
        "the file or folder does not exist", where=text if len(text) <= 200 else f"{text[:199]}…", hint=hint
    )
