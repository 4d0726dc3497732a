"""Artifacts and objects at URLs: copies of them in the cache, whole or absent, and publication in one step.

    $XDG_CACHE_HOME/wordpipe/artifacts/<hash of the URL>/<hash of the manifest>/NAME      an artifact
    $XDG_CACHE_HOME/wordpipe/sources/<hash of the URL>/<hash of the listing>/s3:/BUCKET/KEY   files of text
    $XDG_CACHE_HOME/wordpipe/outputs/<hash of the URL>/NAME                               an artifact being made

A copy is a folder that takes its place by one renaming, and never changes: what differs from what was fetched, by size or
BLAKE3, is fetched again when it is next used, and nothing else is. Of each URL the two newest copies are kept, as another
process may read the older one. The whole cache may be removed at any time.

Of an artifact the files are sent first, each under the hash of its content, and the manifest last:

    s3://bucket/run/model/manifest.json                    what a reader begins with
    s3://bucket/run/model/<16 hex of its BLAKE3>/FILE      the files that it names

The manifest is put if there is none, where there was none when the run began, and else if it is still the one that was there:
of two runs the second to end is refused. Files of a name never change, so readers of the manifest before find theirs until
the next publication. Two rules keep publications from removing what another one counts on:

- a file that lies there is taken as sent only if the manifest that is replaced names it, or it is no older than that one;
- a file is removed only if neither the old nor the new manifest names it, and it is older than the old manifest; and only
  while the new manifest stands. After its manifest a run looks once more whether its files are there.
"""

import json
import os
import re
import secrets
import shutil
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from glob import escape, has_magic
from itertools import chain
from pathlib import Path

from blake3 import blake3

from wordpipe.artifacts.manifest import LONGEST_NAME, HashCache, Kind, Manifest, OutputEntry, hash_bytes
from wordpipe.artifacts.publish import ELSEWHERE, failpoint, files_at, manifest_bytes
from wordpipe.artifacts.safe_reading import MANIFEST, MAX_MANIFEST, is_ours
from wordpipe.errors import (
    ArtifactError,
    ConfigError,
    DamageError,
    InputError,
    LockedError,
    StorageError,
    WordpipeError,
)
from wordpipe.storage import Bucket, Replaced, StoredObject, Url, cache_folder, open_bucket

_REQUESTS = 8  # under way at once
RANGE = 4 << 20  # bytes of one of them
_KEPT = 2  # copies of one URL
_TRIES = 5  # how often to begin again when what is fetched is replaced meanwhile
_MOMENT_S = 0.5
_OLD_S = 86_400  # age of an unfinished copy whose process is gone
_LISTING = "listing.json"

_PART_FOLDER = re.compile(r"[0-9a-f]{16}")  # the folder of a file of an artifact, see `part_key`

_OF_NAMES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)

OnBytes = Callable[[int, int], None]
"""Called with the bytes fetched or sent so far, and those of all."""


@dataclass(frozen=True)
class RemoteManifest:
    """The manifest of an artifact at a URL.

    Attributes:
        data: its bytes.
        manifest: what they say.
        stored: what the store says of it.
    """

    data: bytes
    manifest: Manifest
    stored: StoredObject


@dataclass(frozen=True)
class _Wanted:
    """An object of a bucket that is to be fetched as a file."""

    key: str
    name: str  # of the file, below the folder of the copy
    size: int
    e_tag: str | None = None
    blake3: str | None = None


def cache_of(kind: str, url: Url, endpoint: str) -> Path:
    """Return the folder of the cache for one URL; the address of the store is part of its name."""
    return cache_folder() / kind / hash_bytes(f"{endpoint} {url}".encode())[:16]


def part_key(url: Url, entry: OutputEntry) -> str:
    """Return the key of a file of an artifact: under the hash of its content, so that no generation overwrites another's."""
    return (url / entry.blake3[:16] / entry.path).key


def has_manifest(url: Url) -> bool:
    """True if an artifact, whole or damaged, is at a URL: others have files of this name, too."""
    return bool(url.key) and _is_ours(open_bucket(url.bucket), (url / MANIFEST).key)


def _is_ours(bucket: Bucket, key: str) -> bool:
    """True if an object of a bucket is the manifest of an artifact."""
    there = bucket.look(key)
    found = bucket.read(key) if there is not None and there.size <= MAX_MANIFEST else None
    return found is not None and is_ours(found[0])


def read_remote_manifest(bucket: Bucket, url: Url) -> RemoteManifest | None:
    """Return the manifest at a URL; None where there is none.

    Raises:
        ArtifactError: it is damaged, or no artifact's.
        StorageError: the store refused, or cannot be reached.
    """
    key = (url / MANIFEST).key
    found = bucket.look(key)
    if found is None:
        return None
    if found.size > MAX_MANIFEST:
        raise ArtifactError("the manifest is damaged", where=str(url / MANIFEST), got=f"{found.size} bytes")
    read = bucket.read(key)
    if read is None:
        return None
    data, stored = read
    return RemoteManifest(data, Manifest.from_bytes(data, where=str(url / MANIFEST)), stored)


def fetch_artifact(url: Url, on_bytes: OnBytes | None = None) -> Path:
    """Return the folder of a copy of the artifact at a URL, with every file as its manifest says.

    Raises:
        ArtifactError: there is none; a file is missing or differs.
        StorageError: the store refused or cannot be reached; the cache cannot be written.
    """
    bucket, missing = open_bucket(url.bucket), 0
    for _ in range(_TRIES):
        found = read_remote_manifest(bucket, url) if url.key else None
        if found is None:
            hint = "check the URL, or run the stage that makes this artifact"
            raise ArtifactError("the artifact does not exist", where=str(url), hint=hint)
        copy = copy_at(url, bucket, found.data)
        if (copy / MANIFEST).is_file():
            with suppress(OSError):
                os.utime(copy.parent)  # it is in use: others go first
            return copy
        wanted = [
            _Wanted(part_key(url, entry), entry.path, entry.bytes, blake3=entry.blake3)
            for entry in found.manifest.outputs
        ]
        try:
            with _new_copy(copy, lambda copy=copy: (copy / MANIFEST).is_file()) as folder:  # type: ignore[misc]
                _fetch(bucket, wanted, folder, url, on_bytes)
                (folder / MANIFEST).write_bytes(found.data)
            return copy
        except FileNotFoundError as error:
            again = bucket.look((url / MANIFEST).key)
            if again is not None and again.e_tag == found.stored.e_tag:
                missing += 1
                if missing > 1:
                    hint = f"make the artifact again: wordpipe {found.manifest.command} … -o {url} --fresh"
                    raise DamageError("a file of the artifact is missing", where=str(error), hint=hint) from None
                time.sleep(_MOMENT_S)  # its writer may be looking whether all is there
    what = "the artifact was replaced several times while it was being read"
    raise ArtifactError(what, where=str(url), hint="run the command again")


def copy_at(url: Url, bucket: Bucket, manifest: bytes) -> Path:
    """Return the folder for the copy of the artifact with this manifest."""
    return cache_of("artifacts", url, bucket.endpoint) / hash_bytes(manifest)[:16] / url.name


def forget_copy(copy: Path) -> None:
    """Remove a copy that has been damaged since it was fetched."""
    shutil.rmtree(copy.parent, ignore_errors=True)


def adopt_copy(folder: Path, copy: Path) -> None:
    """Move the folder of an artifact that was just published into the cache, as the copy; else the next reader fetches."""
    with suppress(OSError, StorageError), _new_copy(copy, (copy / MANIFEST).is_file) as new:
        new.rmdir()
        folder.rename(new)
    shutil.rmtree(folder, ignore_errors=True)


def fetch_objects(url: Url, on_bytes: OnBytes | None = None) -> str | None:
    """Fetch the objects that a URL names (one, all below, or by a pattern), and return the path of the copies.

    The path ends in the URL's own parts, so that a name of a file in it is a URL (see `wordpipe.storage`). None where nothing
    is there.

    Raises:
        InputError: an object changed meanwhile, or has a name that no file can have.
        StorageError: the store refused or cannot be reached; the cache cannot be written.
    """
    bucket = open_bucket(url.bucket)
    for _ in range(_TRIES):
        found = _objects_at(bucket, url)
        if not found:
            return None
        # a copy for each state of these objects
        listing = {one.key: [one.size, one.e_tag] for one in found}
        home = cache_of("sources", url, bucket.endpoint)
        copy = home / hash_bytes(json.dumps(listing, sort_keys=True).encode())[:16] / "s3:"
        wanted = [_Wanted(one.key, _file_name(bucket.name, one), one.size, one.e_tag) for one in found]
        # what an earlier copy has is linked, the rest is fetched
        try:
            if not _is_whole(copy, wanted):
                with _new_copy(copy, lambda copy=copy, wanted=wanted: _is_whole(copy, wanted)) as folder:  # type: ignore[misc]
                    hashes = _linked(wanted, folder, home)
                    hashes |= _fetch(bucket, [one for one in wanted if one.key not in hashes], folder, url, on_bytes)
                    found_hashes = {one.key: [one.size, one.e_tag, hashes[one.key]] for one in wanted}
                    (folder.parent / _LISTING).write_text(json.dumps(found_hashes))
            # it is in use: others go first
            with suppress(OSError):
                os.utime(copy.parent)
            return f"{escape(str(copy)) if has_magic(url.key) else copy}/{url.bucket}/{url.key}".rstrip("/")
        except (FileNotFoundError, Replaced):
            continue
        except _OF_NAMES[1:]:
            what = "an object and a folder have the same name, which is not possible on a disk"
            raise InputError(
                what, where=str(url), hint="use a pattern (*) that selects only the object or only the folder"
            ) from None
    what = "the objects changed several times while they were being read"
    raise InputError(what, where=str(url), hint="run the command again")


def _objects_at(bucket: Bucket, url: Url) -> list[StoredObject]:
    """Return the remote objects that a URL names, without empty objects for folders, and files of artifacts."""
    if url.key and (one := bucket.look(url.key)) is not None:
        return [one]
    folder, pattern = url.key, None
    if has_magic(url.key):
        parts = url.key.split("/")
        folder = "/".join(parts[: next(place for place, part in enumerate(parts) if has_magic(part))])
        pattern = parts
    there = list(bucket.list(folder))
    keys = {one.key for one in there}
    manifests = {key: sorted({*_manifests_above(key)} & keys) for key in keys}
    ours = {key for key in {*chain.from_iterable(manifests.values())} if _is_ours(bucket, key)}
    return [
        one
        for one in there
        if not (one.key.endswith("/") and one.size == 0)
        and not ours.intersection(manifests[one.key])
        and (pattern is None or _is_meant(one.key.split("/"), pattern))
    ]


def _manifests_above(key: str) -> Iterator[str]:
    """Yield the keys that the manifest of an artifact would have, for which the object of this key is one of its files."""
    parts = key.split("/")
    for place, part in enumerate(parts[:-1]):
        if _PART_FOLDER.fullmatch(part):
            yield "/".join([*parts[:place], MANIFEST])


def _is_meant(key: list[str], pattern: list[str]) -> bool:
    """True if a pattern of a URL may match the key of an object, both in parts; glob then chooses among the copies."""
    if not pattern:
        return not key
    if pattern[0] == "**":
        return len(pattern) == 1 or any(_is_meant(key[at:], pattern[1:]) for at in range(len(key)))
    return bool(key) and fnmatchcase(key[0], pattern[0]) and _is_meant(key[1:], pattern[1:])


def _file_name(bucket: str, one: StoredObject) -> str:
    """Return the name of the file that an object becomes. Raises InputError: no file can have the object's name."""
    parts = one.key.split("/")
    if {"", ".", "..", "s3:"} & {*parts} or "\0" in one.key or any(len(p.encode()) > LONGEST_NAME for p in parts):
        hint = "use a pattern (*) that does not select this object"
        raise InputError(
            "the name of this object cannot be the name of a file on a disk",
            where=f"s3://{bucket}/{one.key}",
            hint=hint,
        )
    return f"{bucket}/{one.key}"


@contextmanager
def _new_copy(copy: Path, is_whole: Callable[[], bool]) -> Iterator[Path]:
    """Make a new folder in the cache of remote artifacts, which becomes `copy` when the block ends well.

    Args:
        copy: of another process that made the same meanwhile, or what is left of an earlier one.
        is_whole: whether what stands there will do; else it is replaced.

    Raises:
        StorageError: the cache cannot be written.
    """
    home = copy.parent.parent
    new = home / f".{copy.parent.name}.{secrets.token_hex(8)}.tmp"
    try:
        (new / copy.name).mkdir(parents=True)
        yield new / copy.name
        # put the folder in place, unless another process has made the same copy
        failpoint("copy.before_rename")
        if not is_whole():
            shutil.rmtree(copy.parent, ignore_errors=True)
            with suppress(OSError):  # it is there by now, from another process
                new.rename(copy.parent)
        if not is_whole():
            raise StorageError("the copy could not be moved to its place in the cache", where=copy)
        _prune(home, copy.parent)
    # a full disk, or no permission
    except OSError as error:
        if error.errno is None or isinstance(error, _OF_NAMES):
            raise
        hint = (
            "downloads are kept in the cache: free some space there, or set XDG_CACHE_HOME to a folder on another disk"
        )
        what = (error.strerror or "the cache cannot be written").lower()
        raise StorageError(what, where=error.filename or copy, hint=hint) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _prune(home: Path, newest: Path) -> None:
    """Remove old copies of a URL from the cache, and unfinished copies of killed processes."""
    with suppress(OSError):
        entries = [(one.stat().st_mtime, one) for one in home.iterdir()]
        copies = sorted((entry for entry in entries if not entry[1].name.startswith(".")), reverse=True)
        for _, one in [entry for entry in copies if entry[1] != newest][_KEPT - 1 :]:
            shutil.rmtree(one, ignore_errors=True)
        for modified, one in entries:
            if one.name.endswith(".tmp") and time.time() - modified > _OLD_S:
                shutil.rmtree(one, ignore_errors=True)


def _listed(copy: Path) -> dict[str, str]:
    """Return the listing of a copy: key, size and e_tag as JSON → BLAKE3; empty if it was not kept, or is damaged."""
    try:
        listing = json.loads((copy.parent / _LISTING).read_bytes())
        return {json.dumps([key, size, e_tag]): str(found) for key, (size, e_tag, found) in listing.items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _hash_in(listed: dict[str, str], wanted: _Wanted) -> str | None:
    """Return the BLAKE3 that a copy's listing has for an object."""
    return listed.get(json.dumps([wanted.key, wanted.size, wanted.e_tag]))


def _is_whole(copy: Path, wanted: Iterable[_Wanted]) -> bool:
    """True if a copy of a remote artifact has these objects as they were fetched, and nothing else.

    What has not changed is not read again.
    """
    listed, cache = _listed(copy), HashCache()
    try:
        whole = all(_is_as_fetched(copy / one.name, one.size, _hash_in(listed, one), cache) for one in wanted)
        return whole and not {*files_at(copy)} - {one.name for one in wanted}
    except OSError:
        return False
    finally:
        cache.save()


def _is_as_fetched(path: Path, size: int, fetched: str | None, cache: HashCache) -> bool:
    """True if a file has this size and this BLAKE3. Raises OSError: it is gone, or cannot be read."""
    about = path.lstat()
    return stat.S_ISREG(about.st_mode) and about.st_size == size and cache.hash_file(path) == fetched


def _linked(wanted: Iterable[_Wanted], folder: Path, home: Path) -> dict[str, str]:
    """Give files of earlier copies of a URL a second name in the new copy, where e_tag and BLAKE3 are right; key → BLAKE3."""
    cache, found = HashCache(), dict[str, str]()
    earlier = {copy: _listed(copy) for copy in sorted(home.glob("[!.]*/s3:"))}
    for one in wanted:
        path = folder / one.name
        for copy, listed in earlier.items():
            if one.key in found or (known := _hash_in(listed, one)) is None:
                continue
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                os.link(copy / one.name, path, follow_symlinks=False)
                if _is_as_fetched(path, one.size, known, cache):
                    found[one.key] = known
                else:
                    path.unlink()
    cache.save()
    return found


def _fetch(
    bucket: Bucket, wanted: Iterable[_Wanted], folder: Path, url: Url, on_bytes: OnBytes | None
) -> dict[str, str]:  # fmt: skip
    """Fetch remote objects as files, several ranges at once, written and hashed in their order; key → BLAKE3.

    Raises:
        FileNotFoundError: one of them is gone.
        Replaced: one has changed since it was listed.
        ArtifactError: one is not what the manifest says.
        StorageError: the store refused or cannot be reached.
    """
    files, hashes = list(wanted), dict[str, str]()
    total, done = sum(one.size for one in files), 0
    tasks = ((one, start) for one in files for start in range(0, max(one.size, 1), RANGE))
    with ThreadPoolExecutor(_REQUESTS) as pool:
        waiting: deque[tuple[_Wanted, int, Future[bytes] | None]] = deque()
        file, hasher = None, blake3()
        try:
            while True:
                # keep requests under way
                while len(waiting) < 2 * _REQUESTS and (task := next(tasks, None)) is not None:
                    waiting.append((*task, _asked(pool, bucket, *task)))
                if not waiting:
                    break
                # write the next range, in order
                one, start, answer = waiting.popleft()
                if start == 0:
                    path = folder / one.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    file, hasher = path.open("xb"), blake3()
                assert file is not None
                # it may still be on its way
                data = b"" if answer is None else answer.result()
                file.write(data)
                hasher.update(data)
                failpoint("copy.range_written")
                done += len(data)
                if on_bytes is not None:
                    on_bytes(done, total)
                # the file is whole: is it what the manifest says?
                if start + RANGE >= one.size:
                    file.close()
                    hashes[one.key] = hasher.hexdigest()
                    if one.blake3 not in (None, hashes[one.key]):
                        what = "the object differs from its entry in the manifest"
                        hint = f"make the artifact again, because its files in the bucket are damaged ({url})"
                        raise DamageError(what, where=f"s3://{bucket.name}/{one.key}", hint=hint)
        # what is under way when something fails is given up
        finally:
            if file is not None:
                file.close()
            for _, _, answer in waiting:
                if answer is not None:
                    answer.cancel()
    return hashes


def _asked(pool: ThreadPoolExecutor, bucket: Bucket, one: _Wanted, start: int) -> "Future[bytes] | None":
    """Request a range of an object, and return its future bytes; None if the object is empty."""
    if one.size == 0:
        return None
    return pool.submit(bucket.read_range, one.key, start, min(start + RANGE, one.size), one.e_tag)


_SENT_FILE = re.compile(r"[0-9a-f]{16}/.+", re.S)


class RemoteOutput:
    """The place of an artifact at a URL, as a run finds it when it begins.

    Args:
        url: the place.
        kind: what is going to stand there.

    Raises:
        ConfigError: the URL is a bucket's, or lies in another artifact.
        StorageError: something else lies there; the store refused, or cannot be reached.
        ArtifactError: an artifact of another kind is there.
    """

    def __init__(self, url: Url, kind: Kind) -> None:
        if not url.key:
            raise ConfigError("the output needs a name inside the bucket", where=str(url), expected="s3://BUCKET/KEY")
        self.url = url
        self._bucket = open_bucket(url.bucket)
        # where it is made
        self.folder = cache_of("outputs", url, self._bucket.endpoint) / url.name
        self._before = self._replaceable(kind)
        for above in url.parents:
            if (found := _read_ours(self._bucket.read((above / MANIFEST).key))) is not None:
                what = f"the output is inside another artifact ({found.kind})"
                raise ConfigError(what, where=str(url), got=str(above), hint=ELSEWHERE)

    @property
    def has_unsent(self) -> bool:
        """True if an earlier run made an artifact here that did not reach the URL."""
        made = manifest_bytes(self.folder)
        return made is not None and (self._before is None or made != self._before.data)

    def _replaceable(self, kind: Kind) -> RemoteManifest | None:
        """Return the manifest of the remote artifact to replace; refuse other objects, and other kinds."""
        where = str(self.url)
        try:
            found = read_remote_manifest(self._bucket, self.url)
        except ArtifactError:
            what = f"the {MANIFEST} of the output is damaged, or wordpipe did not write it, so nothing is replaced"
            raise StorageError(what, where=where, hint=f"remove the objects yourself, or {ELSEWHERE}") from None
        if found is not None and found.manifest.kind != kind:
            there = found.manifest.kind
            what = (
                f"the output already contains an artifact of the kind {there}; "
                f"an artifact of the kind {kind} cannot replace an artifact of another kind"
            )
            raise ArtifactError(what, where=where, hint=ELSEWHERE)
        below = len(self.url.key) + 1
        for one in self._bucket.list(self.url.key):
            name = one.key[below:]
            if name != MANIFEST and not _SENT_FILE.fullmatch(name):
                what = f"the output already contains other objects ({name})"
                raise StorageError(what, where=where, hint=ELSEWHERE)
        return found

    def send(self, folder: Path, on_bytes: OnBytes | None = None) -> None:
        """Publish the whole artifact of a folder of this machine; a copy of it stays in the cache.

        Raises:
            LockedError: another run has published there since this one began.
            WordpipeError: the store refused or cannot be reached; what readers see is as it was.
        """
        data = (folder / MANIFEST).read_bytes()
        manifest = Manifest.from_bytes(data, where=str(folder / MANIFEST))
        try:
            since = None if self._before is None else self._before.stored.modified
            self._send_files(folder, manifest, on_bytes, since=since)
            failpoint("remote.before_manifest")
            e_tag = self._put(data)
            failpoint("remote.after_manifest")
            self._send_files(folder, manifest, None, since=None)
        except (WordpipeError, OSError) as error:
            raise self._explained(error, folder) from None
        self._remove_old(manifest, e_tag)
        if folder == self.folder:
            adopt_copy(folder, copy_at(self.url, self._bucket, data))  # readers on this machine fetch nothing

    def _send_files(
        self, folder: Path, manifest: Manifest, on_bytes: OnBytes | None, *, since: datetime | None
    ) -> None:  # fmt: skip
        """Upload the files of the artifact that are not in the bucket yet.

        Args:
            folder: where they are.
            manifest: names them.
            on_bytes: see `send`.
            since: what is older and not named by the manifest that is replaced may be about to go, and is sent again.
        """
        before = self._before
        named = set() if before is None else {part_key(self.url, entry) for entry in before.manifest.outputs}
        there = {
            one.key: one.size
            for one in self._bucket.list(self.url.key)
            if since is None or one.key in named or one.modified >= since
        }
        total, done = sum(entry.bytes for entry in manifest.outputs), 0
        for entry in manifest.outputs:
            key = part_key(self.url, entry)
            if there.get(key) != entry.bytes:
                failpoint("remote.before_file")
                self._bucket.upload(key, folder / entry.path)
                failpoint("remote.file_sent")
                there[key] = entry.bytes  # two files of one content and one name are one object
            done += entry.bytes
            if on_bytes is not None:
                on_bytes(done, total)

    def _put(self, data: bytes) -> str:
        """Upload the manifest, if no other run has published meanwhile, and return its e_tag."""
        key = (self.url / MANIFEST).key
        try:
            return self._bucket.write_if(key, data, None if self._before is None else self._before.stored.e_tag)
        except Replaced:
            raise LockedError(
                "while this run was working, another run wrote an artifact to this URL", where=str(self.url)
            ) from None

    def _explained(self, error: WordpipeError | OSError, folder: Path) -> WordpipeError:
        """Return the error of an upload with the folder of the artifact, and how to send it again."""
        on = f"the complete artifact is in {folder}; to upload it again: wordpipe copy {folder} {self.url}"
        if isinstance(error, OSError):
            what = (error.strerror or "reading or writing failed").lower()
            return StorageError(what, where=error.filename or str(self.url), hint=on)
        hint = f"{error.hint}; {on}" if error.hint else on
        return type(error)(error.what, where=error.where, got=error.got, expected=error.expected, hint=hint)

    def _remove_old(self, manifest: Manifest, e_tag: str) -> None:
        """Remove remote files that neither this artifact nor the one before has; the next publication tries again.

        What fails is left to the next publication.

        Where another one has begun to stand there, all is left to it: it may count on what this one would remove.
        """
        if self._before is None:
            return
        entries = [*manifest.outputs, *self._before.manifest.outputs]
        own = (self.url / MANIFEST).key
        keep = {own, *(part_key(self.url, entry) for entry in entries)}
        since = self._before.stored.modified
        try:
            old = [one.key for one in self._bucket.list(self.url.key) if one.key not in keep and one.modified < since]
            for key in old:
                if (now := self._bucket.look(own)) is None or now.e_tag != e_tag:
                    return
                self._bucket.remove([key])
        except (StorageError, InputError):  # the artifact is published: this is no reason to call it failed
            return


def _read_ours(found: tuple[bytes, StoredObject] | None) -> Manifest | None:
    """Return the manifest out of a stored object; None if it is not from wordpipe."""
    try:
        return None if found is None else Manifest.from_bytes(found[0], where=MANIFEST)
    except ArtifactError:
        return None
