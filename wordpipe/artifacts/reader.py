"""Opening an artifact: its manifest, its files, checked against their hashes before use.

The folder is opened once and everything is read through its descriptor, so a reader stays with one generation while a
newer one is published over it.
"""

import errno
import io
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from wordpipe.artifacts.manifest import HashCache, InputEntry, Kind, Manifest, OutputEntry, hash_fd
from wordpipe.artifacts.publish import OutputLock, asides, files_under, recover
from wordpipe.artifacts.safe_reading import MANIFEST, MAX_MANIFEST, damage_named, holds_artifact, parse_array, read_fact
from wordpipe.artifacts.stopped_trainings import why_unfinished
from wordpipe.errors import ArtifactError, ConfigError, DamageError, LockedError, StorageError, WordpipeError
from wordpipe.storage import as_path, name_beside, other_scheme, refuse_controls, standing, url_of

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T")

_TRIES = 50  # how often to begin again when a writer replaces the artifact while it is being opened
_LOOKED_AT, _SHOWN = 1_000, 5  # entries of a folder that is no artifact; artifacts in it that a hint names
_KEPT_OPEN = 64  # files opened at once with the folder; more are opened when they are read


class _PositionedFile(io.RawIOBase):
    """A file that is read by position, so that many readers of one descriptor do not disturb each other."""

    def __init__(self, fd: int, path: Path) -> None:
        super().__init__()
        self.name = path.name
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position; beyond the end is allowed, before the beginning is not."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Read at the position, and move the position."""
        with naming(self._path):
            if hasattr(os, "preadv"):
                got = os.preadv(self._fd, [buffer], self._at)
            else:
                data = os.pread(self._fd, len(buffer), self._at)
                got = len(data)
                buffer[:got] = data
        self._at += got
        return got

    def close(self) -> None:
        """Close the descriptor."""
        if not self.closed:
            os.close(self._fd)
            super().close()


def open_regular(folder: int, name: str, where: Path) -> int:
    """Open the file `name` of an artifact for reading, following no link on the way.

    Raises:
        FileNotFoundError: no such file.
        ArtifactError: a link, a device or a folder stands there.
        StorageError: this user may not read it.
    """
    # folder by folder, so that no link on the way is followed
    *folders, last = name.split("/")
    with ExitStack() as opened:
        try:
            for part in folders:
                folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                opened.callback(os.close, folder)
            fd = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        # a link, a file without permission, or an error of the disk
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _not_ours(where) from None
            if isinstance(error, PermissionError):
                hint = f"to allow reading: chmod -R u+rX {shlex.quote(str(where.parents[name.count('/')]))}"
                raise StorageError(
                    "permission denied: this user may not read the file", where=where, hint=hint
                ) from None
            # it names the file within its folder, which is no path for the user
            raise OSError(error.errno, error.strerror, str(where)) from None
    # a device or a pipe might never end
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_ours(where)
    return fd


def _not_ours(where: Path) -> ArtifactError:
    """Return the error that a link or a special file is in the place of a file of an artifact."""
    what = "a file that wordpipe wrote was replaced by a link or a special file"
    return DamageError(what, where=where)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give errors of reading an artifact by a descriptor the name of the file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


_MADE_BY: dict[Kind, str] = {
    "corpus": "ingest", "tokens": "tokenize", "words": "train word2vec", "model": "train mlm", "sentences": "embed",
    "index": "index", "clusters": "cluster", "predictions": "predict",
}  # fmt: skip


def is_artifact(path: Path) -> bool:
    """True if `path` is a folder with a manifest of ours, whole or damaged, or a URL with one.

    Raises:
        StorageError: a store refused to say.
    """
    if (url := url_of(path)) is not None:
        from wordpipe.artifacts.remote import has_manifest  # a folder of this machine does without

        return has_manifest(url)
    return holds_artifact(path)


def refuse_inside_artifact(target: Path) -> None:
    """Refuse to write into the folder of an artifact, to a URL, or under a name with control characters.

    Raises:
        ConfigError: `target` is such a place.
    """
    refuse_controls(str(target), "the name of the output")
    if (url := url_of(target)) is not None:
        hint = "write to a local folder; only commands that make artifacts can write to a URL"
        raise ConfigError(
            "this output cannot be written to a bucket, because it is not an artifact", where=str(url), hint=hint
        )
    if scheme := other_scheme(target):
        hint = "for a store other than Amazon S3, set AWS_ENDPOINT_URL"
        raise ConfigError(
            "wordpipe cannot write to a URL of this kind", where=f"{scheme}…", expected="s3://BUCKET/KEY", hint=hint
        )
    for folder in target.absolute().parents:
        if is_artifact(folder):
            what, hint = "the output is inside another artifact", "choose another output with -o"
            raise ConfigError(what, where=target, got=folder, hint=hint)


class Artifact:
    """An open artifact: to be used as a context, or closed by `close`.

    Args:
        path: the artifact's folder, or its URL; a copy of what lies there is opened.
        kinds: the kinds that will do; none means any.
        verify: check first that there is no file too many and that every file has its hash (files unchanged since they
            were last checked are not read again). Without it, only the sizes are checked.
        on_bytes: called with the number of bytes checked so far.

    Attributes:
        path: as it was given.
        place: the same, wherever the program works later: absolute, or a URL.

    Raises:
        ArtifactError: missing, incomplete, corrupt, of another kind, or of a newer format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        kinds: Iterable[Kind] = (),
        *,
        verify: bool = True,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self._folder = -1
        self._open: dict[str, int] = {}
        self.path = as_path(path)
        self._at = self.place = standing(self.path)  # of a URL the copy
        self._is_damaged = False
        self.verified = verify
        kinds = tuple(kinds)
        # opened anew where a writer has replaced it meanwhile, or a copy is damaged
        for left in reversed(range(_TRIES)):
            self._at = self._local_folder()
            try:
                self._open_all(kinds, verify, on_bytes)
                return
            except BaseException as error:
                again = left > 0 and isinstance(error, ArtifactError) and self._folder >= 0 and self._was_replaced()
                damaged_copy = left == _TRIES - 1 and self._is_damaged and self._at is not self.place
                self.close()
                if not (again or damaged_copy):
                    raise
                if damaged_copy:  # which is fetched again
                    from wordpipe.artifacts.remote import forget_copy

                    forget_copy(self._at)

    def _local_folder(self) -> Path:
        """Return the folder to open: the path, or of a URL the copy. Raises WordpipeError: as from `fetch_artifact`."""
        if (url := url_of(self.path)) is None:
            return self.place
        from wordpipe.artifacts.remote import fetch_artifact

        return fetch_artifact(url)

    def __enter__(self) -> "Artifact":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder and its files."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @property
    def folder(self) -> Path:
        """The folder of its files on this machine."""
        return self._at

    @property
    def is_closed(self) -> bool:
        """True if the artifact was closed."""
        return self._folder < 0

    @property
    def kind(self) -> Kind:
        """The kind of the artifact: corpus, tokens, words, model and so on."""
        return self.manifest.kind

    @property
    def digest(self) -> str:
        """The hash of what the artifact holds."""
        return self.manifest.digest

    def as_input(self, *, beside: Path) -> InputEntry:
        """Return the entry by which a manifest in the folder `beside` names this artifact."""
        path = name_beside(self.place, beside)  # what moves together keeps finding each other
        recipe = self.manifest.recipe
        return InputEntry(kind=self.kind, digest=self.digest, recipe=recipe, path=path, verified=self.verified)

    def names(self, prefix: str = "") -> list[str]:
        """Return the paths of the artifact's files that begin with `prefix`, sorted."""
        return sorted(output.path for output in self.manifest.outputs if output.path.startswith(prefix))

    def rows_of(self, name: str) -> int | None:
        """Return the rows of a table, as the manifest says; None where it does not."""
        return self.entry(name).rows

    def read(self, name: str) -> bytes:
        """Return the whole content of a small file."""
        with self.open(name) as file:
            return file.read(self.entry(name).bytes)  # without a size it would be read 8 KiB at a time

    def read_array(self, name: str) -> "npt.NDArray[Any]":
        """Return the array of a small .npy file. Raises ArtifactError: it is none, or not whole."""
        with self.damage_of(name, "the file does not contain a readable array"):
            return parse_array(self.read(name))

    def fact(self, name: str, kind: type[T], default: T | None = None, *, least: int | None = None) -> T:
        """Return a fact of the manifest. Raises ArtifactError: missing without a default, of another type, too small."""
        return read_fact(self.manifest.facts, name, kind, self.path / MANIFEST, default, least)

    def damage_of(self, name: str, what: str = "the file is damaged") -> AbstractContextManager[None]:
        """Return a context for reading one of the files (or folders): any error in it is an ArtifactError with its name."""
        return damage_named(self.path / name, what, self.make_again)

    def open(self, name: str) -> BinaryIO:
        """Open one of the artifact's files for reading, from its beginning.

        Raises:
            ArtifactError: the artifact has no such file, or is closed.
        """
        if self.is_closed:
            raise ArtifactError("the artifact is already closed", where=self.path, hint="open the artifact again")
        self.entry(name)
        fd = os.dup(self._open[name]) if name in self._open else self._open_at(name)
        return io.BufferedReader(_PositionedFile(fd, self.path / name))

    def check_hashes(self, cache: HashCache | None = None, *, on_bytes: Callable[[int], None] | None = None) -> None:
        """Compare every file of the artifact with its hash in the manifest, and check that there are no other files.

        Args:
            cache: hashes of files that were read before; without it every byte is read.
            on_bytes: called with the number of bytes checked so far.

        Raises:
            ArtifactError: a file differs; names it, and the command that makes the artifact again.
        """
        ours = {MANIFEST, *self.names()}
        if extra := [name for name in files_under(self._folder) if name not in ours]:
            raise self._corrupt(extra[0], "wordpipe did not write this file", hint="move the file out of the artifact")
        done = 0
        for entry in self.manifest.outputs:
            self._check_hash(entry, cache)
            done += entry.bytes
            if on_bytes is not None:
                on_bytes(done)
        if cache is not None:
            cache.save()

    def _open_all(self, kinds: tuple[Kind, ...], verify: bool, on_bytes: Callable[[int], None] | None) -> None:
        """Open the artifact's folder, manifest and files, and check kind, sizes and, with `verify`, hashes."""
        self._folder = _open_folder(self._at)
        self.manifest = self._read_manifest()
        _check_kind(self.manifest, kinds, self.path)
        for entry in self.manifest.outputs:
            fd = self._open_at(entry.path)
            size = os.fstat(fd).st_size
            if len(self._open) < _KEPT_OPEN:
                self._open[entry.path] = fd
            else:
                os.close(fd)
            if size != entry.bytes:
                raise self._corrupt(entry.path, "wrong size", got=f"{size} bytes", expected=f"{entry.bytes} bytes")
        if verify:
            self.check_hashes(HashCache(), on_bytes=on_bytes)

    def _check_hash(self, entry: OutputEntry, cache: HashCache | None) -> None:
        fd = self._open[entry.path] if entry.path in self._open else self._open_at(entry.path)
        try:
            with naming(self.path / entry.path):
                good = cache is not None and cache.hash_fd(fd) == entry.blake3
                if not good:  # the cache may remember wrongly; only the file's bytes can condemn it
                    good = (cache.read_fd(fd) if cache is not None else hash_fd(fd)) == entry.blake3
        finally:
            if entry.path not in self._open:
                os.close(fd)
        if not good:
            raise self._corrupt(entry.path, "the content of the file has changed since the artifact was made")

    def _was_replaced(self) -> bool:
        """True if another folder than the open one stands at the path now."""
        try:
            return not os.path.samestat(os.fstat(self._folder), self._at.stat())
        except FileNotFoundError:
            return True

    def _read_manifest(self) -> Manifest:
        """Read the manifest of the open folder. Raises ArtifactError: none, or a stopped training."""
        where = self.path / MANIFEST
        try:
            fd = open_regular(self._folder, MANIFEST, where)
        except FileNotFoundError:
            if (unfinished := why_unfinished(self.path)) is not None:
                raise unfinished from None
            what = "the folder has no manifest, so it is not an artifact"
            raise ArtifactError(what, where=self.path, hint=_about_folder(self.path)) from None
        with io.BufferedReader(_PositionedFile(fd, where)) as file:
            return Manifest.from_bytes(file.read(min(MAX_MANIFEST, os.fstat(fd).st_size)), where=str(where))

    def _open_at(self, name: str) -> int:
        """Open a file of the artifact by its name, and return the descriptor."""
        try:
            return open_regular(self._folder, name, self.path / name)
        except FileNotFoundError:
            if self._was_replaced():
                what = "the artifact was replaced while it was being read"
                raise ArtifactError(what, where=self.path, hint="run the command again") from None
            raise self._corrupt(name, "the file is missing") from None

    def entry(self, name: str) -> OutputEntry:
        """Return the entry of a file in the manifest."""
        if (found := next((entry for entry in self.manifest.outputs if entry.path == name), None)) is None:
            raise self._corrupt(name, f"the manifest of the {self.kind} artifact does not list this file")
        return found

    def _corrupt(self, name: str, what: str, **more: str) -> ArtifactError:
        """Return the error that a file of the artifact is damaged, with the command that makes it anew."""
        self._is_damaged = True
        return DamageError(what, where=self.path / name, **{"hint": self.make_again, **more})

    @property
    def make_again(self) -> str:
        """The hint of an error about a file of the artifact: the command that makes the artifact again."""
        return f"make the artifact again: wordpipe {self.manifest.command} … -o {self.path} --fresh"


def manifest_at(path: str | os.PathLike[str], kinds: Iterable[Kind] = ()) -> Manifest:
    """Return the manifest of an artifact; of one at a URL no file is fetched.

    Raises:
        ArtifactError: as from `Artifact`.
    """
    if (url := url_of(path)) is None:
        with Artifact(path, kinds, verify=False) as artifact:
            return artifact.manifest
    from wordpipe.artifacts.remote import read_remote_manifest
    from wordpipe.storage import open_bucket

    found = read_remote_manifest(open_bucket(url.bucket), url)
    if found is None:
        hint = "check the URL, or run the stage that makes this artifact"
        raise ArtifactError("the artifact does not exist", where=str(url), hint=hint)
    _check_kind(found.manifest, tuple(kinds), as_path(path))
    return found.manifest


def input_of(artifact: Path, entry: InputEntry) -> tuple[Path, Manifest] | None:
    """Return the path and the manifest of an input, if it still exists unchanged; None otherwise; no file of a URL is fetched.

    Args:
        artifact: its folder or URL.
        entry: of its manifest.
    """
    path = as_path(artifact.absolute().parent / (entry.path or ""))
    try:
        manifest = manifest_at(path)
    except (WordpipeError, OSError):
        return None
    return (path, manifest) if manifest.digest == entry.digest else None


def _check_kind(manifest: Manifest, kinds: tuple[Kind, ...], where: Path) -> None:
    """Refuse an artifact of another kind than these; none means any."""
    if kinds and manifest.kind not in kinds:
        hint, expected = f"to make an artifact of the right kind: wordpipe {_MADE_BY[kinds[0]]}", " or ".join(kinds)
        raise ArtifactError(
            "the artifact is of the wrong kind", where=where, got=manifest.kind, expected=expected, hint=hint
        )


class BundledFiles(Mapping[str, bytes]):
    """The files of an artifact's folder such as `encoder/`, by their names there; each is read when it is needed."""

    def __init__(self, artifact: Artifact, folder: str = "") -> None:
        self._artifact, self._folder, self._last = artifact, folder, ""

    def __getitem__(self, name: str) -> bytes:
        self._last = name
        return self._artifact.read(self._folder + name)

    def damage(self, what: str = "the file is damaged") -> AbstractContextManager[None]:
        """Return a context for reading the files: any error in it is an ArtifactError that names the file read last."""
        return damage_named(lambda: self._artifact.path / self._folder / self._last, what, self._artifact.make_again)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._folder) for name in self._artifact.names(self._folder))

    def __len__(self) -> int:
        return len(self._artifact.names(self._folder))


def _open_folder(path: Path) -> int:
    """Open the folder at `path`; where it was set aside for a moment, wait for its successor or put it back."""
    missed = 0
    for _ in range(_TRIES):
        try:
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            what = "this is a file, but an artifact is a folder"
            raise ArtifactError(what, where=path, hint=_ways_of_text(path)) from None
        except FileNotFoundError:
            missed = 0 if asides(path) and _complete(path) else missed + 1
        if missed == 2:  # once may mean that a writer finished between the look at the path and the one beside it
            break
    if (unfinished := why_unfinished(path)) is not None:
        raise unfinished
    hint = "check the path, or run the stage that makes this artifact"
    hint += ": wordpipe run" if Path("wordpipe.toml").is_file() else ""
    raise ArtifactError("the artifact does not exist", where=path, hint=hint)


def _about_folder(path: Path) -> str:
    """Return what to do with a folder that is no artifact: it has a model, artifacts, texts, or is empty."""
    if any((path / name).is_file() for name in ("modules.json", "config.json")):
        return f"to use the model of another program as an encoder: wordpipe import {path} -o ENCODER"
    there = sorted(islice((one for one in path.iterdir() if one.name[:1] != "."), _LOOKED_AT))
    if inside := [str(one) for one in there if (one / MANIFEST).is_file()]:
        more = ", …" * (len(inside) > _SHOWN)
        return f"give one of the artifacts in this folder: {', '.join(inside[:_SHOWN])}{more}"
    again = "if the stage that makes this artifact was stopped, run the stage again"
    return f"{_ways_of_text(path)}; {again}" if there else again


def _ways_of_text(path: Path) -> str:
    """Return what to do with text that was given where an artifact is wanted."""
    name = shlex.quote(str(path))
    corpus = f"wordpipe ingest {name} -o run/corpus"
    return f"if this is text, search it: wordpipe search QUESTION {name}; or make a corpus: {corpus}"


def _complete(path: Path) -> bool:
    """Complete a publication that was killed between its two renames, or give one that is at work there a moment.

    Returns:
        Whether it is worth looking again.
    """
    try:
        with OutputLock(path, patience=0):
            recover(path)
    except LockedError:
        time.sleep(0.02)
        return True
    except (OSError, StorageError):  # this user may not write there, or nothing can be locked there
        return False
    return os.path.lexists(path)
