"""One source to records: open, decompress, look whether it is text, decode, read the format."""

from collections.abc import Callable, Iterator
from itertools import chain

from wordpipe.corpus.compression import Compression, Growth, compression_of, decompress, read_blocks
from wordpipe.corpus.decoding import Decoder, refuse_binary
from wordpipe.corpus.docstrings import package_records
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.formats import csv_records, jsonl_records, parquet_records, tsv_records
from wordpipe.corpus.ledger import Ledger
from wordpipe.corpus.plaintext import text_records
from wordpipe.corpus.records import Record
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Source
from wordpipe.errors import InputError

__all__ = ["read_records"]

_LINE_FACTOR = 4  # a line of JSON may be this much longer than its text: escapes, other fields


def read_records(
    source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
) -> Iterator[Record]:
    """The records of one source.

    Args:
        source: where to read.
        settings: formats, fields, policies and bounds.
        ledger: where what is dropped, mended or left behind is counted.
        on_bytes: told how many more bytes of the source on disk were read.

    Raises:
        InputError: the source is missing, binary, damaged or malformed.
        StorageError: reading it failed.
    """
    if source.kind == "package":
        yield from package_records(source.name.removeprefix("python:"), ledger)
        on_bytes(source.bytes)
    elif source.format == "parquet":
        yield from _read_parquet(source, settings, ledger, on_bytes)
    else:
        yield from _read_lines(source, settings, ledger, on_bytes)


def _read_parquet(
    source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
) -> Iterator[Record]:
    if source.kind == "stream":
        raise InputError("Parquet cannot be read from a stream", where=source.name, hint="name the file itself")
    decoder = Decoder(source.name, settings.bad_bytes, ledger)
    growth = Growth(source.name, settings.max_expand)
    growth.taken = source.bytes
    with source.open() as file:
        yield from parquet_records(file, Fields(source.name, settings, decoder, ledger), decoder, growth)
    ledger.add("bytes_read", source.bytes)
    on_bytes(source.bytes)


def _read_lines(
    source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object]
) -> Iterator[Record]:
    def note(block: bytes) -> None:
        on_bytes(len(block))
        if source.kind == "stream":
            source.seen.note(block)

    with source.open() as file:
        blocks = _text_blocks(read_blocks(file, source.name, note), source, settings, ledger)
        yield from _format_records(blocks, source, settings, ledger)
    source.seen.is_whole = True


def _text_blocks(raw: Iterator[bytes], source: Source, settings: IngestSettings, ledger: Ledger) -> Iterator[bytes]:
    """Decompressed blocks, once the first of them has been seen to be text."""
    compression: Compression
    if source.compression == "auto":
        head = next(raw, b"")
        raw, compression = chain([head], raw), compression_of(head)
    else:
        compression = source.compression
    is_first = True
    for block in decompress(raw, compression, Growth(source.name, settings.max_expand)):
        if is_first and settings.format == "auto":
            refuse_binary(block, source.name)
        is_first = False
        ledger.add("bytes_read", len(block))
        yield block


def _format_records(
    blocks: Iterator[bytes], source: Source, settings: IngestSettings, ledger: Ledger
) -> Iterator[Record]:
    decoder = Decoder(source.name, settings.bad_bytes, ledger)
    if source.format in ("txt", "md"):
        return text_records(
            decoder.lines(blocks, longest=settings.max_document_bytes),
            source=source.name,
            documents="file" if settings.documents == "auto" else settings.documents,
            first_line_title=settings.first_line_title,
            newline="space" if source.format == "md" else "auto",
            max_bytes=settings.max_document_bytes,
        )
    longest = _LINE_FACTOR * settings.max_document_bytes
    lines = decoder.lines(blocks, longest=longest, cut_longer=False)
    fields = Fields(source.name, settings, decoder, ledger)
    if source.format == "jsonl":
        return jsonl_records(lines, fields)
    return csv_records(lines, fields, longest=longest) if source.format == "csv" else tsv_records(lines, fields)
