"""The objects of a bucket: read in ranges, written, listed, removed, by obstore; every refusal is one of our errors.

Keys come from the environment alone (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN); without them requests are
not signed, which public buckets answer. What a store says of a refusal may hold parts of keys and signatures, so nothing of
it is shown but the number and the name of the error.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from wordpipe.errors import ConfigError, InputError, StorageError, WordpipeError
from wordpipe.storage.urls import Url

T = TypeVar("T")

RANGE = 4 << 20  # bytes of one request
_PART = 8 << 20  # bytes of a part of an upload; Amazon takes 10,000 of them
_LARGEST_PART = 512 << 20
_AT_ONCE = 4  # parts of one upload under way
TIMEOUT_S = 60.0  # for one request
PAUSES_S = (0.3, 3.0)  # before a request that failed is sent again, beside the library's own tries
_OWN_TRIES = 2  # of the library, for each request and each part of an upload
_MULTIPART_FROM = 64 << 20  # smaller files are one request
_STATUS = re.compile(
    r"\b(?:status(?: code)?:?|Client error with status|returned non-2xx status code:)\s*(\d{3})\b", re.I
)
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_NO_SPACE = ("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge", "XMinioAdminBucketQuotaExceeded",
             "StorageFull", "InsufficientCapacity")  # fmt: skip
_TIMED_OUT = re.compile(r"timed? ?out", re.I)
_REGION = "us-east-1"  # what other stores than Amazon's expect
_ENDPOINT = re.compile(
    r"https?://(?:[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?(?:/[A-Za-z0-9._~/%-]*)?"
)
_WORD = re.compile(r"[!-~]+")  # what a header can hold, without blanks
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Replaced(Exception):  # noqa: N818  (it is an answer, and goes no further than those who asked)
    """The object is not, or no more, what the condition of a request says."""


@dataclass(frozen=True)
class StoredObject:
    """The facts that a store tells about an object.

    Attributes:
        key: its name in the bucket.
        size: bytes.
        e_tag: changes with its content.
        modified: when it was written, by the clock of the store.
    """

    key: str
    size: int
    e_tag: str
    modified: datetime


class Bucket:
    """An open bucket, made by `open_bucket`."""

    def __init__(self, name: str, store: Any, endpoint: str) -> None:
        self.name = name
        self.endpoint = endpoint  # of the store, empty for Amazon's own
        self._store = store
        self._obstore: Any = import_module("obstore")
        self._errors: type[Exception] = import_module("obstore.exceptions").BaseError

    def read(self, key: str) -> tuple[bytes, StoredObject] | None:
        """Return the bytes of a small object of a bucket and its facts; None if it does not exist.

        Raises:
            StorageError: the store refused, or cannot be reached.
        """

        def ask() -> tuple[bytes, StoredObject]:
            answer = self._obstore.get(self._store, key)
            return _described(answer.meta), bytes(answer.bytes())  # type: ignore[return-value]

        try:
            described, data = self._tried(key, ask)
        except FileNotFoundError:
            return None
        return data, described  # type: ignore[return-value]

    def look(self, key: str) -> StoredObject | None:
        """Return the facts about an object; None if the object does not exist. Raises StorageError: as from `read`."""
        try:
            return self._tried(key, lambda: _described(self._obstore.head(self._store, key)))
        except FileNotFoundError:
            return None

    def read_range(self, key: str, start: int, end: int, e_tag: str | None = None) -> bytes:
        """Return the bytes `start` to `end` of an object of a bucket.

        Args:
            key: of the object.
            start: the first byte.
            end: behind the last one.
            e_tag: that it must still have; None: any.

        Raises:
            FileNotFoundError: it is gone.
            Replaced: it has another e_tag.
            StorageError: as from `read`, or it is shorter.
        """
        options: dict[str, Any] = {"range": (start, end)} | ({"if_match": e_tag} if e_tag else {})

        def ask() -> bytes:
            data = bytes(self._obstore.get(self._store, key, options=options).bytes())
            if len(data) != end - start:  # a connection that ended early
                raise ConnectionError(f"the store sent only {len(data)} of {end - start} bytes")
            return data

        return self._tried(key, ask, conditional=True)

    def list(self, folder: str) -> Iterator[StoredObject]:
        """Yield all objects whose keys begin with `folder` and a slash (all of the bucket if it is empty), by their keys.

        Raises:
            StorageError: as from `read`.
        """

        def ask() -> list[StoredObject]:
            chunks = self._obstore.list(self._store, folder or None, chunk_size=1000)
            return [_described(one) for chunk in chunks for one in chunk]

        try:
            found = self._tried(folder, ask)
        except FileNotFoundError as error:  # of a folder that is not there, a store lists nothing
            raise StorageError("the store refused to list the folder", where=str(error), got="404") from None
        yield from sorted(found, key=lambda one: one.key)

    def upload(self, key: str, path: Path) -> None:
        """Write a file as an object, a large one in parts. Raises StorageError: as from `read`, or there is no room."""
        size = path.stat().st_size
        part = min(max(_PART, -(-size // 9_000)), _LARGEST_PART)
        many = {"use_multipart": size > _MULTIPART_FROM, "chunk_size": part, "max_concurrency": _AT_ONCE}

        def send() -> None:
            with path.open("rb") as file:
                self._obstore.put(self._store, key, file, **many)

        self._tried(key, send)

    def write_if(self, key: str, data: bytes, e_tag: str | None) -> str:
        """Write a small object if it still has this e_tag (None: if it does not exist yet), and return its new e_tag.

        Raises:
            Replaced: it has another, or there is one; nothing was written.
            StorageError: as from `read`, or the store knows no such condition.
        """
        mode: Any = "create" if e_tag is None else {"e_tag": e_tag}
        try:
            put = lambda: self._obstore.put(self._store, key, data, mode=mode, use_multipart=False)  # noqa: E731
            return str(self._tried(key, put, conditional=True)["e_tag"])
        except (FileNotFoundError, Replaced):
            found = self.read(key)  # an answer that was lost on the way may have been "written"
            if found is None or found[0] != data:
                raise Replaced from None
            return found[1].e_tag

    def remove(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are gone already are no error. Raises StorageError: as from `read`."""
        for key in keys:
            try:
                self._tried(key, lambda key=key: self._obstore.delete(self._store, key))  # type: ignore[misc]
            except FileNotFoundError:
                continue

    def _tried(self, key: str, ask: Callable[[], T], *, conditional: bool = False) -> T:
        """Return a bucket's answer to a request, which is sent again if the store or the network failed.

        Args:
            key: of the object.
            ask: sends it.
            conditional: whether it has a condition, so that a store may say that it does not hold.

        Raises:
            FileNotFoundError: no such object.
            Replaced: its condition does not hold.
            StorageError: what the store refused, why it cannot be reached, or that the library gave up.
        """
        where = Url(self.name, key)
        for pause in (*PAUSES_S, None):
            try:
                return ask()
            # no such object or bucket
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise _no_bucket(where) from None
                raise FileNotFoundError(str(where)) from None
            # a failure on the way, or of the store
            except OSError as error:
                if error.filename is not None:  # a file of this machine
                    raise
                problem, passes = _problem(error, where)
            # a condition that does not hold, or a failure of the store
            except self._errors as error:
                if conditional and type(error).__name__ in _OF_CONDITIONS:
                    raise Replaced from None
                problem, passes = _problem(error, where)
            # the library gave up, perhaps by a panic
            except BaseException as error:
                if not _is_the_librarys(error):
                    raise
                hint = f"check the environment variables {', '.join(_SETTINGS)}, and the name of the object"
                raise StorageError("the request could not be sent", where=str(where), hint=hint) from None
            # try again after a pause
            if not passes or pause is None:
                raise problem from None
            time.sleep(pause)
        raise AssertionError(where)


_OF_CONDITIONS = ("AlreadyExistsError", "PreconditionError", "NotModifiedError")
_SETTINGS = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def _is_the_librarys(error: BaseException) -> bool:
    """True if an error comes from the library obstore: a panic of Rust, or an exception that is not one of wordpipe's."""
    if type(error).__name__ == "PanicException":
        return True
    return isinstance(error, Exception) and not isinstance(error, (WordpipeError, MemoryError))


def _described(meta: Any) -> StoredObject:
    """Return the facts about an object out of obstore's answer."""
    return StoredObject(meta["path"], int(meta["size"]), meta["e_tag"] or "", meta["last_modified"])


def _no_bucket(where: Url) -> StorageError:
    """Return the error that the bucket does not exist."""
    hint = "check the name of the bucket; for a store other than Amazon S3, set AWS_ENDPOINT_URL"
    return StorageError("the bucket does not exist", where=f"s3://{where.bucket}", hint=hint)


def _problem(error: Exception, where: Url) -> tuple[WordpipeError, bool]:
    """Return a bucket's error for the user, without the text of the store; True if a new try may help."""
    # the number and the name of the error; nothing else of the answer is shown
    said, kind = str(error), type(error).__name__
    status = int(found[1]) if (found := _STATUS.search(said)) else None
    code = found[1] if (found := _CODE.search(said)) else None
    got = " ".join(str(part) for part in (status, code) if part) or None
    # refusals that a new try does not change
    if code == "NoSuchBucket":
        return _no_bucket(where), False
    # no space left, or a store that lacks conditions
    if code in _NO_SPACE or status == 507:
        hint = "free some space in the bucket, or raise its quota; then run the same command again"
        return StorageError("the store has no space left", where=str(where), got=got, hint=hint), False
    if code == "NotImplemented" or status == 501 or kind == "NotSupportedError":
        what = "the store does not support conditional writes, so wordpipe could not detect a second writer"
        hint = "write to a store that supports If-None-Match and If-Match; for inputs, any store works"
        return StorageError(what, where=str(where), got=got, hint=hint), False
    # no permission, or a name that is no path
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        return _forbidden(where, got), False
    if kind == "InvalidPathError":
        return InputError("the name of this object cannot be the name of a file on a disk", where=str(where)), False
    # by the number: another region, a refusal, a failure of the store
    if status is not None and 300 <= status < 400:
        hint = "set AWS_REGION to the region of the bucket"
        return StorageError("the bucket is in another region", where=str(where), got=got, hint=hint), False
    if status is not None and 400 <= status < 500 and status not in (408, 409, 429):
        return StorageError("the store refused the request", where=str(where), got=got), False
    if status is not None:
        hint = "the request was sent several times; run the same command again later"
        return StorageError("the store failed", where=str(where), got=got, hint=hint), True
    # no answer at all
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    hint = "check the network" + (
        " and AWS_ENDPOINT_URL" if endpoint else "; for a store other than Amazon S3, set AWS_ENDPOINT_URL"
    )
    what = (
        "the store did not answer in time"
        if _TIMED_OUT.search(said)
        else "the store cannot be reached, or the connection was lost"
    )
    return StorageError(what, where=str(where), hint=f"{hint}; then run the same command again"), True


def _forbidden(where: Url, got: str | None) -> StorageError:
    """Return the error that the store denied permission, with or without keys."""
    if has_keys():
        hint = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and the permissions of the keys"
        return StorageError(
            "the store does not allow this request with the given keys", where=str(where), got=got, hint=hint
        )
    hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; without these keys, only public objects can be read"
    return StorageError("the store does not allow this request without keys", where=str(where), got=got, hint=hint)


def has_keys() -> bool:
    """True if the environment has keys to sign requests with."""
    return bool(os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"))


def _setting(names: Iterable[str], form: re.Pattern[str], expected: str) -> str:
    """Return the value of the first environment variable about buckets that is set, after a check; "" if none is set.

    Raises:
        ConfigError: it cannot go into a request: a line end, as of a file from elsewhere, or a blank. Its value is not said.
    """
    for name in names:
        if value := os.environ.get(name):
            if not form.fullmatch(value):
                strange = not value.isprintable() or value != value.strip()
                hint = "the value contains a space, a line end or another invisible character" if strange else None
                raise ConfigError(
                    "this environment variable has a value that cannot be used",
                    where=name,
                    expected=expected,
                    hint=hint,
                )
            return value
    return ""


def _endpoint() -> str:
    """Return the address of the store from the environment; empty for Amazon S3. Raises ConfigError: not a valid address."""
    expected = "https://HOST[:PORT]"
    found = _setting(("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), _ENDPOINT, expected)
    try:
        parts = urlsplit(found)
        port = parts.port  # up to 65,535
    except ValueError:
        port = 0
    if port == 0:
        raise ConfigError("this is not a valid address of a store", where="AWS_ENDPOINT_URL", expected=expected)
    return found


def open_bucket(name: str) -> Bucket:
    """Open a bucket of the store that the environment names.

    Raises:
        ConfigError: the extra is not installed; a variable of the environment cannot be what it is for.
    """
    if not _is_installed("obstore"):
        raise ConfigError("obstore is not installed", where=f"s3://{name}", hint="pip install 'wordpipe[s3]'")
    # address, region and keys, each checked
    endpoint = _endpoint()
    options: dict[str, Any] = {"region": _setting(("AWS_REGION", "AWS_DEFAULT_REGION"), _NAME, "a name") or _REGION}
    if has_keys():
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            if value := _setting((variable,), _WORD, "ASCII letters, digits and punctuation"):
                options[variable.removeprefix("AWS_").lower()] = value
    else:
        options["skip_signature"] = True
    if endpoint:
        options["endpoint"] = endpoint
    # times and retries of the library
    client = {
        "timeout": timedelta(seconds=TIMEOUT_S),
        "connect_timeout": timedelta(seconds=min(TIMEOUT_S, 10.0)),
        "allow_http": endpoint.startswith("http://"),
    }
    retry = {
        "max_retries": _OWN_TRIES,
        "retry_timeout": timedelta(seconds=2 * TIMEOUT_S),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=1), "base": 2},
    }
    # open the store; what the library says may hold keys, so it is not shown
    module: Any = import_module("obstore.store")
    try:
        store = module.S3Store(name, client_options=client, retry_config=retry, **options)
    except BaseException as error:
        if not _is_the_librarys(error):
            raise
        others = sorted(one for one in os.environ if one.startswith("AWS_") and one not in _SETTINGS)[:9]
        hint = f"check {', '.join([*_SETTINGS, *others])}"  # and not what it says, which may hold what it was given
        raise ConfigError(
            "the store cannot be opened", where=f"s3://{name}", got=type(error).__name__, hint=hint
        ) from None
    return Bucket(name, store, endpoint)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # something stands in its place
        return False
