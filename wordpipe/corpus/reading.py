"""The reading of one source: opened, unpacked, seen to be text, and given to the reader of its format."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import BinaryIO

from wordpipe.corpus.decode import (
    Decoder,
    ExpansionLimit,
    compression_of,
    decompress_blocks,
    read_blocks,
    without_end_marks,
)
from wordpipe.corpus.detect_format import form_of, unreadable
from wordpipe.corpus.documents import NOT_TEXT, UNREADABLE, Ledger, Record
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.formats import READERS, Reader, function_of
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Source
from wordpipe.errors import InputError

LINE_FACTOR = 4  # a line of records may be this much longer than its text: escapes, other fields


@dataclass(slots=True)
class Opened:
    """A source that is open for the reader of its format, with all that a reader needs."""

    source: Source
    settings: IngestSettings
    ledger: Ledger  # counts what is dropped, mended or left behind
    decoder: Decoder
    fields: Fields  # makes records of named values
    blocks: Iterator[bytes]  # of a reader that takes blocks: its bytes, unpacked
    file: BinaryIO | None = None  # of a reader that takes a file

    @property
    def longest(self) -> int:
        """Return the most bytes that a line of records may have."""
        return LINE_FACTOR * self.settings.max_document_bytes

    def lines(self, blocks: Iterator[bytes] | None = None) -> Iterator[tuple[int, str]]:
        """Return number and text of each line of prose; one longer than a document comes in parts."""
        return self.decoder.lines(self.blocks if blocks is None else blocks, longest=self.settings.max_document_bytes)

    def record_lines(self) -> Iterator[tuple[int, str]]:
        """Return number and text of each line of records, whole. Raises InputError: one is too long."""
        return self.decoder.lines(self.blocks, longest=self.longest, cut_longer=False)

    def beginning(self) -> tuple[Iterator[tuple[int, str]], Fields] | None:
        """Return, to read a piece, all lines of its file from the first on, and fields that count nothing.

        None of a whole file.
        """
        if not self.source.is_piece:
            return None
        whole = replace(self.source, start=0, stop=None, first_line=1)
        decoder = Decoder(whole.name, self.settings.bad_bytes, Ledger())

        def lines() -> Iterator[tuple[int, str]]:
            with whole.open() as file:
                blocks = read_blocks(file, whole.name, lambda _: None)
                yield from decoder.lines(blocks, longest=self.longest, cut_longer=False)

        return lines(), Fields(self.settings, decoder)


def read_records(
    source: Source,
    settings: IngestSettings,
    ledger: Ledger,
    on_bytes: Callable[[int], object],
    *,
    needs_id: bool = False,
) -> Iterator[Record]:
    """Yield the records of one source by the reader of its format; what is dropped or mended is counted.

    `on_bytes` is called with how many more bytes of the source on disk were read; `needs_id`: see `Fields`.

    Raises:
        InputError: the source is missing, binary, damaged or malformed.
        StorageError: reading it failed.
    """
    # what a reader needs
    decoder = Decoder(source.name, settings.bad_bytes, ledger, start=source.start, first_line=source.first_line)
    fields, reader = Fields(settings, decoder, needs_id=needs_id), READERS[source.format]
    opened = Opened(source, settings, ledger, decoder, fields, iter(()))
    # a package, or rows of a program: nothing is opened here
    if reader.takes == "source":
        yield from function_of(reader.read)(opened)
        on_bytes(source.bytes)
        return
    if reader.takes == "file" and source.kind == "stream":
        what = f"{reader.title} cannot be read from a stream"
        raise InputError(what, where=source.name, hint="give the name of a file, not a stream")

    def note(block: bytes) -> None:
        on_bytes(len(block))
        if source.kind == "stream":  # which is hashed on the way
            source.seen.note(block)

    # a file: by its library, or as unpacked blocks, by which the format may be recognised
    with source.open() as file:
        if reader.takes == "file":  # which its library unpacks
            opened.file = file
        else:
            raw = read_blocks(file, source.name, note, source.start, source.stop)
            blocks = text_blocks(raw, source, settings, ledger)
            first = next(blocks, b"")
            opened.blocks, reader = chain([first], blocks), READERS[form_of(first, source, settings, ledger)]
        yield from _whole_file(reader, opened) if reader.is_whole else function_of(reader.read)(opened)
    if reader.takes == "file":
        ledger.add("bytes_read", source.bytes)
        on_bytes(source.bytes)
    source.seen.is_whole = True


def _whole_file(reader: Reader, opened: Opened) -> Iterator[Record]:
    """Yield the records of a file that is read whole or not at all; none of a file of a folder that cannot be read.

    Raises:
        InputError: a file that was named cannot be read.
    """
    records: Iterator[Record] = function_of(reader.read)(opened)
    try:
        first = next(records, None)
    except InputError as error:
        if not opened.source.is_found:
            raise
        opened.ledger.add_named("files_unreadable", reader.title)
        opened.ledger.warn(UNREADABLE, f"{error.message}{f' ({error.hint})' if error.hint else ''}")
        opened.ledger.notes[error.message] = None
        return
    if first is not None:
        yield first
        yield from records


def text_blocks(raw: Iterator[bytes], source: Source, settings: IngestSettings, ledger: Ledger) -> Iterator[bytes]:
    """Yield the blocks of a source that is being read, decompressed, once the first is seen to be text.

    None of a file of a folder that is not.

    Raises:
        InputError: a source that was named is not text, or damaged.
    """
    compression = source.compression
    if compression == "auto":
        head = next(raw, b"")
        raw, compression = chain([head], raw), compression_of(head)
    blocks = decompress_blocks(raw, compression, ExpansionLimit(source.name, settings.max_expand))
    first = next(blocks, b"")
    if not source.start and (found := unreadable(first, source, settings)) is not None:
        if not source.is_found:
            raise found.error(source.name)
        ledger.add_named("files_not_text", found.kind)
        ledger.warn(NOT_TEXT, f"{source.name} ({found.kind}; {found.hint})")
        ledger.notes[f"{source.name} was not read, because it looks like {found.kind}"] = None
        return
    blocks = chain([first], blocks)
    for block in without_end_marks(blocks, ledger) if source.stop is None else blocks:
        ledger.add("bytes_read", len(block))
        yield block
