"""URLs of objects as paths: `s3://bucket/key` goes wherever the path of an artifact goes.

A path with a part that is called `s3:` is a URL from there on, so the URL is found again in what programs make of it:

    s3:/bucket/run/model                     Path("s3://bucket/run/model"), which merges slashes
    /home/me/s3:/bucket/run/model            the same, made absolute
    …/sources/0f3a…/s3:/bucket/text/a.txt    a copy of an object, in the cache

No stage needs to know: what opens artifacts asks `url_of`, and what shows a path shows the URL.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path, PosixPath

from wordpipe.errors import ConfigError

_SCHEME = "s3:"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")  # other stores take more than Amazon does
_MASKED = "s3://…"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OTHER_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)/")


@dataclass(frozen=True)
class Url:
    """The name of an object, or of all objects whose keys begin with it and a slash.

    Attributes:
        bucket: that holds it.
        key: of the object, without a slash at the ends; empty for the bucket itself.
    """

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str) -> "Url":
        return Url(self.bucket, f"{self.key}/{name}".lstrip("/"))

    @property
    def name(self) -> str:
        """The last part of the URL's key; the name of the bucket if the key is empty."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def parents(self) -> list["Url"]:
        """The URLs above this one, nearest first, without the bucket."""
        parts = self.key.split("/")
        return [Url(self.bucket, "/".join(parts[:end])) for end in range(len(parts) - 1, 0, -1)]


def url_of(path: object) -> Url | None:
    """Return the URL of an object that a path stands for; None for a path of this machine, and for other values.

    Raises:
        ConfigError: no bucket of this name can be; or what looks like keys stands in it, which is not said again.
    """
    # only a path with a part `s3:` is a URL
    if not isinstance(path, (str, os.PathLike)):
        return None
    text = os.fspath(path)
    if not isinstance(text, str) or _SCHEME not in text:
        return None
    parts = text.split("/")
    if _SCHEME not in parts:
        return None
    # bucket and key, without . and ..
    found: list[str] = []
    for part in parts[
        len(parts) - parts[::-1].index(_SCHEME) :
    ]:  # the last: a folder of a URL may be joined with another
        if part == ".." and len(found) > 1:
            found.pop()
        elif part == "..":
            raise ConfigError("the path contains too many .. and leads out of the bucket", where=_MASKED)
        elif part not in ("", "."):
            found.append(part)
    # no keys in the URL, and a name that a bucket can have
    if not found or "@" in found[0]:
        hint = "set keys in environment variables, not in the URL: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
        raise ConfigError("this is not the URL of an object", where=_MASKED, expected="s3://BUCKET/KEY", hint=hint)
    if not _BUCKET.fullmatch(found[0]):
        allowed = "at least 2 characters: letters, digits, -, _ and ."
        raise ConfigError("this is not a valid bucket name", where=_MASKED, got=found[0], expected=allowed)
    return Url(found[0], "/".join(found[1:]))


def other_scheme(path: Path) -> str | None:
    """Return the scheme of a URL of another kind, such as `gs://`; None for other paths, and if a folder is called `gs:`."""
    found = _OTHER_SCHEME.match(str(path))
    return f"{found[1]}//" if found and not Path(found[1]).exists() else None


class UrlPath(PosixPath):
    """A URL as a path: it is shown as the URL, it is absolute, and nothing of this machine is there."""

    def __str__(self) -> str:
        as_posix = super().__str__()
        try:
            return str(url_of(as_posix) or as_posix)
        except ConfigError:  # what lies above a bucket
            return as_posix

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> "UrlPath":
        """Return the URL itself: a URL is absolute."""
        return self


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path; a URL becomes a `UrlPath`, which is shown as a URL. Raises ConfigError: it contains NUL."""
    if "\0" in str(path):
        raise ConfigError("a path cannot contain the character NUL", where=ascii(str(path)))
    url = url_of(path)
    return Path(path) if url is None else UrlPath(str(url))


def standing(path: Path) -> Path:
    """Return the absolute path, valid wherever the program works later; as it is if the working folder is gone."""
    try:
        return path.absolute()
    except FileNotFoundError:
        return path


def parent_of(path: str) -> str:
    """Return the folder that contains a path; of a URL it is a URL."""
    return str(as_path(path).parent)


def name_beside(path: Path, beside: Path) -> str:
    """Return the path or URL of an artifact for a manifest in the folder `beside`: relative if possible.

    Two of one bucket, or two of this machine, are named from one to the other; of others the URL or the whole path stands.
    """
    one, other = url_of(path), url_of(beside)
    if one is None and other is None:
        return os.path.relpath(path.absolute(), beside.absolute())
    if one is None or other is None or one.bucket != other.bucket:
        return str(one or path.absolute())
    return os.path.relpath(f"/{one.key}", f"/{other.key}")


def refuse_controls(text: str, where: str, *, but: str = "") -> None:
    """Refuse control characters in a text that goes into the name of a file, a manifest or a log.

    Args:
        text: given by a user.
        where: the setting, option or variable that it was given by.
        but: what is taken all the same.

    Raises:
        ConfigError: it holds a control character: NUL, the end of a line, what drives a terminal.
    """
    found = next((one for one in _CONTROL.findall(text) if one not in but), None)
    if found is not None:
        what = f"the text contains a control character (U+{ord(found):04X})"
        raise ConfigError(what, where=where, got=ascii(text), expected="letters, digits, punctuation and spaces")


def cache_folder() -> Path:
    """Return the folder of the cache that wordpipe keeps between runs: `$XDG_CACHE_HOME/wordpipe`, else `~/.cache/wordpipe`.

    Raises:
        ConfigError: the variable holds a control character.
    """
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118
    refuse_controls(root, "XDG_CACHE_HOME")
    return Path(root) / "wordpipe"
