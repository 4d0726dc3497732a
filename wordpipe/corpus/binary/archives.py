"""Archives (zip, tar) as folders: the files in them are read by the readers of their formats, as those of a folder are.

A file of an archive is called by its path in it: `papers.zip/minutes/march.docx`. Archives within archives are read, three in
each other. What is not a file, is hidden, or has a name that leads out of the archive (`..`), is left out and counted; so is
what no reader reads, by the ending of its name. Files that come with a mail are read in the same way.

All that is unpacked, at all depths, is at most `--max-expand` times as large as the archive (64 MiB are always allowed), in at
most 100,000 files. A file of more than 16 MiB goes through a temporary file that has no name; nothing else is written, and no
link is followed. What is damaged or encrypted costs its file, and what is behind it in a tar.

Sources: ISO/IEC 21320-1 (zip), POSIX.1-2017 (pax, ustar).
"""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, cast
from zipfile import ZipFile

from wordpipe.corpus.binary.packages import DAMAGED, refuse_long_list
from wordpipe.corpus.decode import BLOCK, ExpansionLimit, Inner, compression_of, decompress_blocks, read_blocks
from wordpipe.corpus.documents import Record
from wordpipe.corpus.formats import kind_of
from wordpipe.corpus.reading import UNREADABLE, Opened, read_records
from wordpipe.corpus.sources import Source
from wordpipe.errors import InputError

PASSED_OVER = "archive_files_passed_over"
_MOST_FILES = 100_000
_DEEPEST = 3
_IN_MEMORY = 16 << 20  # bytes of a file
_LONGEST_NAME = 1000
_HEAD = 16  # bytes that show how it is compressed


def read_zip(opened: Opened) -> Iterator[Record]:
    """Yield the records of all files of a zip archive.

    Raises:
        InputError: it is damaged or a bomb, or has too many files.
    """
    assert opened.file is not None
    name = opened.source.name
    try:
        refuse_long_list(opened.file, name)
        opened.file.seek(0)
        archive = ZipFile(opened.file)
    except DAMAGED as error:
        raise _damaged(name, error) from None
    inside = Inside(opened)
    with archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if (source := inside.source_of(info.filename, info.file_size)) is None:
                continue
            try:
                with archive.open(info) as file:
                    copy = inside.copied(file)
            except DAMAGED as error:
                inside.note_unreadable(source, error)
                continue
            yield from inside.records(source, copy)


def read_tar(opened: Opened) -> Iterator[Record]:
    """Yield the records of all files of a tar archive, which may be compressed.

    Raises:
        InputError: it is damaged or a bomb, or has too many files.
    """
    assert opened.file is not None
    name, inside = opened.source.name, Inside(opened)
    head = opened.file.read(_HEAD)
    opened.file.seek(0)
    blocks = read_blocks(opened.file, name, lambda _: None)
    unpacked = decompress_blocks(blocks, compression_of(head), ExpansionLimit(name, opened.settings.max_expand))
    try:
        with tarfile.open(fileobj=cast(BinaryIO, io.BufferedReader(_Blocks(unpacked), BLOCK)), mode="r|") as archive:
            for info in archive:
                if info.isdir():
                    continue
                if not info.isreg():
                    inside.pass_over("links and devices")
                    continue
                source = inside.source_of(info.name, info.size)
                file = archive.extractfile(info) if source is not None else None
                if source is not None and file is not None:
                    yield from inside.records(source, inside.copied(file))
    except (tarfile.TarError, *DAMAGED) as error:
        raise _damaged(name, error) from None


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file that is read from its beginning to its end."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._held = blocks, b""

    def readable(self) -> bool:
        """True: it is made to be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill a buffer with the next bytes, and return how many they are."""
        view = memoryview(cast(bytearray, buffer))
        while not self._held:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._held = block
        some = self._held[: len(view)]
        view[: len(some)] = some
        self._held = self._held[len(some) :]
        return len(some)


class Inside:
    """The files in one file, as they are read one after the other.

    Args:
        opened: the file that holds them.
    """

    def __init__(self, opened: Opened) -> None:
        self._archive, self._ledger = opened.source, opened.ledger
        self._settings = opened.settings.model_copy(update={"format": "auto"})
        outer = self._archive.inner
        self._depth = 1 if outer is None else outer.depth + 1
        self._limit = ExpansionLimit(self._archive.name, opened.settings.max_expand) if outer is None else outer.limit
        self._limit.taken += self._archive.bytes if outer is None else 0
        self._number = 0

    def pass_over(self, what: str) -> None:
        """Count a file that is left out."""
        self._ledger.add_named(PASSED_OVER, what)

    def source_of(self, path: str, size: int) -> Source | None:
        """Return a file of the archive as a source; None (counted) of one that is left out."""
        self._number += 1
        if self._number > _MOST_FILES:
            expected = f"at most {_MOST_FILES:,}"
            raise InputError("the archive contains too many files", where=self._archive.name, expected=expected)
        path = path.replace("\\", "/").encode(errors="replace").decode()[:_LONGEST_NAME]
        parts = PurePosixPath(path).parts
        if not parts or ".." in parts or path.startswith("/") or ":" in parts[0]:
            self.pass_over("unsafe names")
            return None
        if any(part.startswith((".", "__MACOSX")) for part in parts):
            self.pass_over("hidden")
            return None
        form, suffix, compression = kind_of(PurePosixPath(path))
        if form is None and suffix:
            self.pass_over(suffix)
            return None
        if form in ("zip", "tar") and self._depth >= _DEEPEST:
            self.pass_over("archives in archives")
            return None
        name, compression = f"{self._archive.name}/{path}", "none" if form == "tar" else compression
        return Source(name, "file", form or "txt", compression, bytes=size, is_unnamed=form is None, is_found=True)

    def copied(self, file: IO[bytes]) -> BinaryIO:
        """Return a file of the archive as one that seeks."""
        copy = cast(BinaryIO, SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115  (its reader closes it)
        try:
            while block := file.read(BLOCK):
                self._limit.add(len(block))
                copy.write(block)
        except Exception:
            copy.close()
            raise
        return copy

    def records(self, source: Source, file: BinaryIO) -> Iterator[Record]:
        """Yield the records of a file of the archive; the bytes of the archive itself are counted elsewhere."""
        before = self._ledger["bytes_read"]
        with file:
            inner = Inner(file, self._depth, self._limit)
            opened = replace(source, inner=inner, bytes=file.seek(0, io.SEEK_END))
            yield from read_records(opened, self._settings, self._ledger, lambda _: None)
        self._ledger.add("bytes_read", before - self._ledger["bytes_read"])

    def note_unreadable(self, source: Source, error: Exception) -> None:
        """Note a file that cannot be unpacked."""
        is_locked = isinstance(error, RuntimeError) and "encrypted" in str(error)
        what = "the file has a password" if is_locked else "the file is damaged"
        self._ledger.add_file(UNREADABLE, what, source.name)


def _damaged(name: str, error: Exception) -> InputError:
    """Return the error for an archive that is damaged."""
    hint = "download or create the file again"
    return InputError("the archive is damaged", where=name, got=str(error) or type(error).__name__, hint=hint)
