"""The files of the page, in the form in which the server sends them: scripts, style, icon."""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class StaticFile:
    """A file of the page: its bytes, also compressed, its media type, and its name for caches."""

    data: bytes
    packed: bytes
    media: str
    etag: str


def static(name: str) -> StaticFile | None:
    """Return the file `/static/NAME`; None of an unknown file."""
    return _files().get(name)


@cache
def _files() -> dict[str, StaticFile]:
    """Return the scripts, style and icon of the page by name."""
    folder = files("wordpipe.web.page").joinpath("files")
    found = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    return {
        name: StaticFile(data, gzip.compress(data, mtime=0), _TYPES[ending], f'"{sha256(data).hexdigest()[:16]}"')
        for name, data in found.items()
        if (ending := "." + name.rsplit(".")[-1]) in _TYPES
    }
