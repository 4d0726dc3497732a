r"""The pieces in which a large file is read.

Pieces are read apart, each as the whole file would be read there. A piece begins where a record begins whatever came before:
after a line end, or after a blank line where those part documents. So only plain files of such formats have pieces: text (a
document for each block or line), JSON Lines, and TSV, which knows no quotes. "\r" alone ends a line, but no piece.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from wordpipe.corpus.decode import read_blocks, stamp_of
from wordpipe.corpus.detect_format import encoding_of, form_of, unreadable
from wordpipe.corpus.documents import Ledger
from wordpipe.corpus.formats import READERS
from wordpipe.corpus.readers.lines import says_delimiter
from wordpipe.corpus.reading import may_be_left, settings_for
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Source, Sources
from wordpipe.errors import InputError, StorageError

OnBytes = Callable[[int], object]
_BEFORE = 2  # bytes of the block before in which the end of a piece may begin


def in_pieces(
    sources: Sources, settings: IngestSettings, least_bytes: int, on_bytes: OnBytes = lambda done: None
) -> Sources:
    """Return the sources in order, large ones in pieces; where a piece begins depends on files and settings alone.

    Args:
        sources: that are to be read.
        settings: how they are read.
        least_bytes: of a piece.
        on_bytes: called with how many bytes have been looked through, for the ends of lines.

    Raises:
        InputError: a file is gone.
        StorageError: it cannot be read.
    """
    if settings.parallel:
        return sources
    done = 0

    def note(number: int) -> None:
        nonlocal done
        done += number
        on_bytes(done)

    found = (piece for source in sources for piece in _pieces_if_readable(source, settings, least_bytes, note))
    return Sources(
        found, sources.skipped, sources.examples, skipped_bytes=sources.skipped_bytes, unreadable=sources.unreadable,
        is_sorted=False,
    )  # fmt: skip


def _pieces_if_readable(
    source: Source, settings: IngestSettings, least_bytes: int, on_bytes: OnBytes
) -> Iterator[Source]:
    """Yield a large file in pieces; one that cannot be read as it is, if it may be left out: its reader says so."""
    try:
        yield from [*_pieces(source, settings_for(source, settings), least_bytes, on_bytes)]
    except (InputError, StorageError):
        if not may_be_left(source, settings):
            raise
        yield source


def _pieces(source: Source, settings: IngestSettings, least_bytes: int, on_bytes: OnBytes) -> Iterator[Source]:
    """Yield a large file of lines in pieces; any other source as it is."""
    is_plain = source.kind == "file" and source.compression == "none"
    if not is_plain or not READERS[source.format].piece_ends or source.bytes < 2 * least_bytes:
        yield source
        return
    with source.open() as file:
        stamp = stamp_of(os.fstat(file.fileno()))
        source = replace(source, stamp=stamp, bytes=stamp.size)
        first = next(read_blocks(file, source.name, lambda _: None), b"")
        form = form_of(first, source, settings, Ledger())
    start, line = 0, 1
    is_other = encoding_of(first, source, settings) is not None  # of which pieces cannot be told
    if is_other or says_delimiter(first) or unreadable(first, source, settings) is not None:  # its reader says so, once
        yield source
        return
    if source.bytes >= 2 * least_bytes and (end := READERS[form].piece_ends.get(settings.documents)) is not None:
        for stop, next_line in _ends(source, re.compile(end), least_bytes, on_bytes):
            yield _piece(source, form, start, stop, line)
            start, line = stop, next_line
    yield _piece(source, form, start, None, line) if start else source


def _piece(source: Source, form: str, start: int, stop: int | None, line: int) -> Source:
    """Return a piece of a source; only the first is looked at once more, and told of."""
    size = (source.bytes if stop is None else stop) - start
    form = form if start else source.format
    return replace(source, format=form, start=start, stop=stop, first_line=line, bytes=size, seen=type(source.seen)())


def _ends(source: Source, end: re.Pattern[bytes], least_bytes: int, on_bytes: OnBytes) -> Iterator[tuple[int, int]]:
    """Yield the byte where each piece of a file but the last ends, and the number of the line that begins there."""
    offset, line, before, size = 0, 1, b"", source.bytes
    wanted = size // (size // least_bytes)
    with source.open() as file:
        for block in read_blocks(file, source.name, lambda _: None):
            known, first, counted = before + block, offset - len(before), len(before)
            offset += len(block)
            on_bytes(len(block))
            while wanted < offset and (stop := _end_from(wanted - first, known, end)) is not None:
                left = size - first - stop
                if (pieces := left // least_bytes) < 1:
                    return
                line += _line_ends(known, counted, stop)
                counted = max(counted, stop)
                yield first + stop, line
                if pieces == 1:
                    return
                wanted = first + stop + left // pieces
            line += _line_ends(known, counted, len(known))
            before = known[-_BEFORE:]


def _end_from(least: int, data: bytes, end: re.Pattern[bytes]) -> int | None:
    """Return the first place, at `least` or behind it, where a record of a file ends."""
    found = end.finditer(data, max(least - _BEFORE, 0))
    return next((one.end() for one in found if one.end() >= least), None)


def _line_ends(data: bytes, start: int, stop: int) -> int:
    r"""Count lines that end in data[start:stop]; not the "\n" at its start whose "\r" comes before, which ended the line."""
    found, returns = data.count(b"\n", start, stop), data.count(b"\r", start, stop)
    if returns:  # which few files have
        found += returns - data.count(b"\r\n", start, stop)
    return found - (0 < start < stop and data[start - 1 : start + 1] == b"\r\n")
