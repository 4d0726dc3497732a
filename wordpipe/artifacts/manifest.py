"""The manifest: what an artifact says of itself, in `manifest.json`, published last.

Its **recipe** hashes what was asked for (kind, format, settings that matter, the inputs' digests); its **digest** hashes
what came out. Artifacts are chained by digest, so two runs of one recipe that gave different bytes are never confused.

Hashes are BLAKE3. That of a file is remembered until the file changes, in a small SQLite file outside the artifacts
(`$XDG_CACHE_HOME/wordpipe/hashes.sqlite`), which maps a file's identity (device, inode, size, mtime, ctime) to its hash. It is
only a cache: whatever goes wrong with it, the file is read.
"""

import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from blake3 import blake3
from pydantic import BaseModel, ConfigDict, Field, field_validator

from wordpipe.artifacts.safe_reading import MANIFEST, is_ours, parse_json
from wordpipe.errors import ArtifactError, DamageError
from wordpipe.storage import cache_folder

Kind = Literal["corpus", "tokens", "words", "model", "sentences", "index", "clusters", "predictions"]
InputKind = Kind | Literal["source", "file"]  # text at the start of the chain; a file that a setting names
KINDS: tuple[Kind, ...] = ("corpus", "tokens", "words", "model", "sentences", "index", "clusters", "predictions")
FORMATS: dict[Kind, int] = {**dict.fromkeys(KINDS, 2), "index": 5}
"""The format of every kind, raised when artifacts of before would be misread. From 1.0 on it is raised only together with a
reader of the one before, which is kept until 2.0."""
LONGEST_NAME = 255  # bytes, of most file systems

# Names of what is bundled with artifacts, so that an index can be queried wherever its folder is moved.
ENCODER = "encoder/"  # folder of the query encoder, bundled with sentences and index
INDEX_FILE = "index.faiss"
TOKENIZER = "tokenizer.json"
TOKENIZER_B = "tokenizer_b.json"  # of tokens: that of the second texts, where these have a vocabulary of their own
TARGET = "target/"  # of a model: folder of the tokenizer of what it writes, where that is another one
WEIGHTS_FILE = "word_weights.safetensors"  # of a model that pools `weighted`: `weights` (V,) float32, of each token id


_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$", max_length=64)]
_Size = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)  # JSON has no NaN


class InputEntry(_Entry):
    """One input: an artifact, or a source of text at the start of the chain."""

    kind: InputKind
    digest: _Hash
    recipe: _Hash | None = None
    path: str | None = None  # relative to the output's parent folder where that is possible
    bytes: _Size | None = None
    verified: bool = True

    @field_validator("path", mode="before")
    @classmethod
    def _as_unicode(cls, path: object) -> object:
        """Escape bytes in a path that are not Unicode: Linux allows any bytes in names, JSON does not."""
        return path.encode(errors="backslashreplace").decode() if isinstance(path, str) else path


class OutputEntry(_Entry):
    """One file of the artifact. A log (timings, losses) is checked but does not enter the digest."""

    path: str
    bytes: _Size
    blake3: _Hash
    rows: _Size | None = None
    log: bool = False

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        """Refuse a path that leads out of the artifact's folder."""
        if not is_plain_path(path):
            raise ValueError(f"{path!r} is not the path of a file inside an artifact")
        return path


class Manifest(_Entry):
    """Everything that is recorded about an artifact: an allow-list, never the command line, environment or user name."""

    format: int
    kind: Kind
    command: str
    wordpipe: str
    settings: dict[str, Any]
    inputs: list[InputEntry]
    outputs: list[OutputEntry]
    counts: dict[str, int] = Field(default_factory=dict)
    metrics: dict[str, float] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)  # what a reader needs to know: dim, id type, index type, …
    warnings: list[str] = Field(default_factory=list)
    bitwise: bool = True  # the same recipe gives the same bytes
    device: str = "cpu"
    threads: int = 1
    versions: dict[str, str] = Field(default_factory=dict)
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    recipe: _Hash
    digest: _Hash

    @field_validator("outputs")
    @classmethod
    def _are_files(cls, outputs: list[OutputEntry]) -> list[OutputEntry]:
        """Refuse two outputs of one path, or one in the place of another's folder."""
        names = {one.path for one in outputs}
        folders = {path[:at] for path in names for at, letter in enumerate(path) if letter == "/"}
        if len(names) < len(outputs) or names & folders:
            raise ValueError("two outputs have the same path")
        return outputs

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON with a hash of itself, so that a flipped bit in the manifest is found too."""
        body = self.model_dump(mode="json")
        text = json.dumps({**body, "blake3": _hash_json(body)}, indent=1, ensure_ascii=False)
        return text.encode(errors="backslashreplace") + b"\n"  # a lone surrogate (an undecodable file name) as \udcXX

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> "Manifest":
        """Read and check a manifest.

        Raises:
            ArtifactError: not JSON, another program's, changed since it was written, or of another format than today's.
        """
        if not is_ours(data):
            what = (
                f"this {MANIFEST} is damaged, or wordpipe did not write it, so the folder cannot be read as an artifact"
            )
            raise DamageError(what, where=where, hint="use another folder, or make the artifact again")
        # of this format: another is refused with what to do
        try:
            body = parse_json(data, where)
            stated, found, kind, command = body.pop("blake3"), int(body["format"]), body["kind"], body["command"]
            expected = FORMATS[kind]
        except (ArtifactError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise DamageError("the manifest is damaged", where=where) from None
        # an earlier format is made again, a newer one needs a newer version
        if found != expected:
            what = f"the artifact was made by {'a newer' if found > expected else 'an earlier'} version of wordpipe"
            again = f"make the artifact again: wordpipe {command}, or wordpipe run --from STAGE"
            hint = "pip install --upgrade wordpipe" if found > expected else again
            raise DamageError(what, where=where, got=f"{kind} format {found}", expected=f"format {expected}", hint=hint)
        # unchanged since it was written
        try:
            if _hash_json(body) != stated:
                raise ValueError
            return cls(**body)
        except ValueError:  # pydantic's is one
            raise DamageError("the manifest was changed", where=where) from None


def recipe_of(kind: Kind, settings: Mapping[str, Any], inputs: Iterable[InputEntry]) -> str:
    """Return the recipe, the hash of what was requested: kind, format, settings that matter, the inputs' digests.

    A source's name counts too: it stands in the rows, and its ending says how it is read.
    """
    named = [[i.kind, i.digest, i.path if i.kind == "source" else None] for i in inputs]
    body = {"kind": kind, "format": FORMATS[kind], "settings": settings, "inputs": named}
    return _hash_json(body)


def digest_of(outputs: Iterable[OutputEntry]) -> str:
    """Return the digest of an artifact, the hash of the paths and hashes of all its files but logs."""
    return _hash_json(sorted([o.path, o.blake3] for o in outputs if not o.log))


def is_plain_path(path: str) -> bool:
    """True if `path` names a file inside an artifact: relative, with `/`, without `..`, printable, and not the manifest.

    Nor is a part longer than file systems allow, or called `s3:`, from which on a path is a URL.
    """
    parts = path.split("/")
    if not path.isprintable() or any(len(part.encode(errors="replace")) > LONGEST_NAME for part in parts):
        return False
    return path != MANIFEST and not {"", ".", "..", "s3:"} & {*parts}


def library_versions(*names: str) -> dict[str, str]:
    """Return the Python version and those of the named packages that are installed."""
    from importlib.metadata import PackageNotFoundError, version  # 9 ms, which reading an artifact does without

    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _hash_json(value: Any) -> str:
    """Return the BLAKE3 hash of a JSON value."""
    return hash_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


_BLOCK = 1 << 20
_RACY_NS = 50_000_000  # a file changed less than 50 ms ago may change again within one clock tick, unseen


def hash_bytes(data: bytes | bytearray | memoryview) -> str:
    """Return the BLAKE3 hash of `data`, 64 hex digits."""
    return blake3(data).hexdigest()


def hash_fd(fd: int) -> str:
    """Return the BLAKE3 hash of an open file for a manifest, read in blocks of 1 MiB; the position is left alone."""
    hasher = blake3()
    offset = 0
    while block := os.pread(fd, _BLOCK, offset):
        hasher.update(block)
        offset += len(block)
    return hasher.hexdigest()


class HashCache:
    """Hashes of files, read only when the file is new or has changed.

    The database is opened once and stays open until `save`: to open it took half a millisecond for each file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path if path is not None else cache_folder() / "hashes.sqlite"
        self._new: dict[tuple[int, ...], str] = {}

    def hash_file(self, path: Path) -> str:
        """Return the BLAKE3 hash of a file for a manifest, from the cache of hashes if the file has not changed."""
        fd = os.open(path, os.O_RDONLY)
        try:
            return self.hash_fd(fd)
        except OSError as error:  # of reading, it does not say what was read
            error.filename = error.filename or str(path)
            raise
        finally:
            os.close(fd)

    def hash_fd(self, fd: int) -> str:
        """Return the BLAKE3 hash of an open file, from the cache if the file has not changed."""
        key = _identity(os.fstat(fd))
        known = self._new.get(key) or self._look_up(key)
        return known if known is not None else self.read_fd(fd)

    def read_fd(self, fd: int) -> str:
        """Return the BLAKE3 hash of an open file for a manifest, always read; the cache of hashes remembers the hash."""
        key = _identity(os.fstat(fd))
        found = hash_fd(fd)
        if _identity(os.fstat(fd)) == key and time.time_ns() - max(key[3], key[4]) > _RACY_NS:
            self._new[key] = found
        return found

    def save(self) -> None:
        """Write the new hashes of files for manifests to the database. Never fails: without it the next run reads more."""
        self._close()
        if not self._new:
            return
        rows = [(*map(_signed, key), digest) for key, digest in self._new.items()]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=1.0)) as db, db:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS files"
                    " (dev, ino, size, mtime, ctime, blake3, PRIMARY KEY (dev, ino)) WITHOUT ROWID"
                )
                db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)
        except (sqlite3.OperationalError, OSError):  # locked, full or read-only: perhaps next time
            return
        except sqlite3.DatabaseError:  # no database, or a damaged one: the next run begins a new one
            with suppress(OSError):
                self._path.unlink()
            return
        self._new.clear()

    def _look_up(self, key: tuple[int, ...]) -> str | None:
        """Return the hash that the database has for the identity of a file; None if it has none."""
        query = "SELECT blake3 FROM files WHERE dev = ? AND ino = ? AND size = ? AND mtime = ? AND ctime = ?"
        try:
            row = self._known.execute(query, [*map(_signed, key)]).fetchone()
        except sqlite3.Error:
            self._close()  # it may be there the next time
            return None
        return row[0] if row is not None and isinstance(row[0], str) else None

    @cached_property
    def _known(self) -> sqlite3.Connection:
        """The database of hashes, opened to be read; the thread that drops a cache, and closes it, may be another one."""
        where = f"{self._path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(where, uri=True, timeout=1.0, check_same_thread=False)

    def __del__(self) -> None:
        """Close the database, where `save` has not: since Python 3.13 an open one is a warning."""
        self._close()

    def _close(self) -> None:
        if "_known" in self.__dict__:
            self._known.close()
            del self._known


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    """Return the identity of a file, by which the cache knows its hash."""
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _signed(value: int) -> int:
    """Return an unsigned number of 64 bits as a signed one, as SQLite stores integers."""
    return value - (1 << 64) if value >= 1 << 63 else value
