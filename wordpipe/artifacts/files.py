"""A file, or a folder of files, that is whole or absent, for what leaves the artifacts: exports, configs."""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from wordpipe.artifacts.draft import HashedFile
from wordpipe.artifacts.exchange import exchange
from wordpipe.artifacts.reader import refuse_inside_artifact
from wordpipe.artifacts.target import files_at
from wordpipe.errors import StorageError

__all__ = ["whole_file", "whole_folder"]


@contextmanager
def whole_file(path: Path) -> Iterator[HashedFile]:
    """Write beside `path`, force it to the disk, and rename it into place when the block ends well.

    A link is replaced, and what it leads to stays as it is.

    Raises:
        StorageError: something stands there that is no file: a device, a pipe, a folder.
        ConfigError: it would lie in an artifact.
    """
    device = path.absolute().is_relative_to("/dev")  # /dev/stdout may lead to a file
    if path.exists() and (device or not path.is_file()):
        raise StorageError("this is no file, and would be replaced", where=path, hint="name another output with -o")
    refuse_inside_artifact(path)
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
    _sync_folder(path.parent)


def whole_folder(
    path: Path, files: Mapping[str, Iterable[bytes]], *, may_replace: AbstractSet[str] = frozenset()
) -> dict[str, int]:
    """Write a folder of these files beside `path`, force it to the disk, and put it in place in one step.

    Args:
        path: the folder.
        files: name (of a file in a folder below too: "1_Pooling/config.json") → content, chunk by chunk.
        may_replace: an older folder that holds only files of these names and of those in `files` is replaced; nothing else is.

    Returns:
        Name → bytes.

    Raises:
        StorageError: something else stands at `path`.
        ConfigError: it would lie in an artifact.
        OSError: the disk refused; what was there is untouched.
    """
    _refuse_other(path, may_replace | set(files))
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    aside = beside.with_suffix(".old")
    beside.mkdir()
    try:
        sizes = {name: _write(beside / name, chunks) for name, chunks in files.items()}
        for folder, _, _ in os.walk(beside):
            _sync_folder(Path(folder))
        if not (path.exists() and exchange(beside, path)):
            if path.exists():
                path.rename(aside)
            beside.rename(path)
        _sync_folder(path.parent)
        return sizes
    finally:
        if aside.exists() and not path.exists():
            aside.rename(path)
        for left in (beside, aside):
            shutil.rmtree(left, ignore_errors=True)


def _write(path: Path, chunks: Iterable[bytes]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    with HashedFile(path, path.name) as file:
        for chunk in chunks:
            file.write(chunk)
    file.raise_error()
    return file.size


def _refuse_other(path: Path, names: AbstractSet[str]) -> None:
    """Refuse to put a folder of files of these names where something else stands; `whole_folder` does, after the work.

    Raises:
        StorageError: a file, a link, or a folder with other files stands there.
        ConfigError: it would lie in an artifact.
    """
    refuse_inside_artifact(path)
    hint = "name another output with -o"
    if path.name in ("", ".."):
        raise StorageError("the output needs a name of its own", where=path, hint=hint)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise StorageError("a file or a link is there, and this format is a folder", where=path, hint=hint)
    if path.exists() and (other := [name for name in files_at(path) if name not in names]):
        raise StorageError(f"the folder holds other files ({other[0]})", where=path, hint=hint)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
