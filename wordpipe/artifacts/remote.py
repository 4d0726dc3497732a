"""Publication at a URL: the files of an artifact first, each under the hash of its content, the manifest last and in one step.

    s3://bucket/run/model/manifest.json                    what a reader begins with
    s3://bucket/run/model/<16 hex of its BLAKE3>/FILE      the files that it names

The manifest is put if there is none, where there was none when the run began, and else if it is still the one that was there:
of two runs the second to end is refused. Files of a name never change, so readers of the manifest before find theirs until
the next publication. Two rules keep publications from removing what another one counts on:

- a file that lies there is taken as sent only if the manifest that is replaced names it, or it is no older than that one;
- a file is removed only if neither the old nor the new manifest names it, and it is older than the old manifest; and only
  while the new manifest stands. After its manifest a run looks once more whether its files are there.
"""

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from wordpipe.artifacts.manifest import Kind, Manifest
from wordpipe.artifacts.mirror import RemoteManifest, adopt_copy, cache_of, copy_at, part_key, read_remote_manifest
from wordpipe.artifacts.publish import ELSEWHERE, failpoint, manifest_bytes
from wordpipe.artifacts.untrusted import MANIFEST
from wordpipe.errors import ArtifactError, ConfigError, InputError, LockedError, StorageError, WordpipeError
from wordpipe.storage import Replaced, StoredObject, Url, open_bucket

_PART = re.compile(r"[0-9a-f]{16}/.+", re.S)

OnBytes = Callable[[int, int], None]
"""Called with the bytes sent so far, and those of all."""


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
            raise ConfigError("the output needs a name in the bucket", where=str(url), expected="s3://BUCKET/KEY")
        self.url = url
        self._bucket = open_bucket(url.bucket)
        # where it is made
        self.folder = cache_of("outputs", url, self._bucket.endpoint) / url.name
        self._before = self._replaceable(kind)
        for above in url.parents:
            if (found := _read_ours(self._bucket.read((above / MANIFEST).key))) is not None:
                what = f"the output lies inside another artifact ({found.kind})"
                raise ConfigError(what, where=str(url), got=str(above), hint=ELSEWHERE)

    @property
    def has_unsent(self) -> bool:
        """Whether an earlier run made an artifact here that did not reach the URL."""
        made = manifest_bytes(self.folder)
        return made is not None and (self._before is None or made != self._before.data)

    def _replaceable(self, kind: Kind) -> RemoteManifest | None:
        """The manifest that stands there."""
        where = str(self.url)
        try:
            found = read_remote_manifest(self._bucket, self.url)
        except ArtifactError:
            what = f"what is there has a {MANIFEST} that is damaged or not wordpipe's, so nothing is replaced"
            raise StorageError(what, where=where, hint=f"remove it yourself, or {ELSEWHERE}") from None
        if found is not None and found.manifest.kind != kind:
            what = f"the output is an artifact of the kind {found.manifest.kind}, and this would replace it by {kind}"
            raise ArtifactError(what, where=where, hint=ELSEWHERE)
        below = len(self.url.key) + 1
        for one in self._bucket.list(self.url.key):
            name = one.key[below:]
            if name != MANIFEST and not _PART.fullmatch(name):
                what = f"there are other objects below the output ({name})"
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
        """Send the files that are not there.

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
        """Put the manifest, and give its e_tag."""
        key = (self.url / MANIFEST).key
        try:
            return self._bucket.write_if(key, data, None if self._before is None else self._before.stored.e_tag)
        except Replaced:
            raise LockedError("another run has published there meanwhile", where=str(self.url)) from None

    def _explained(self, error: WordpipeError | OSError, folder: Path) -> WordpipeError:
        """The error with where the artifact lies, and how to go on."""
        on = f"the artifact is whole in {folder}; wordpipe copy {folder} {self.url} sends it"
        if isinstance(error, OSError):
            what = (error.strerror or "input or output failed").lower()
            return StorageError(what, where=error.filename or str(self.url), hint=on)
        hint = f"{error.hint}; {on}" if error.hint else on
        return type(error)(error.what, where=error.where, got=error.got, expected=error.expected, hint=hint)

    def _remove_old(self, manifest: Manifest, e_tag: str) -> None:
        """Remove what neither this generation nor the one before has; what fails is left to the next publication.

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
    """The manifest, if it is one of ours."""
    try:
        return None if found is None else Manifest.from_bytes(found[0], where=MANIFEST)
    except ArtifactError:
        return None
