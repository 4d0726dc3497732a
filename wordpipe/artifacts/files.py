"""A single file that is whole or absent, for what leaves the artifacts: exports, configs."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wordpipe.artifacts.draft import HashedFile

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[HashedFile]:
    """Write beside `path`, force it to the disk, and rename it into place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    file = HashedFile(beside, path.name)
    try:
        yield file
        file.close()
        file.raise_error()
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            file.close()
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
