"""The reading of one source: opened, unpacked, seen to be text, and given to the reader of its format.

A source that cannot be read, or not to its end, stops the reading, or is left out, counted and told of, as `unreadable` says.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, Literal, cast

from blake3 import blake3

from wordpipe.corpus.columns import LONGEST_VALUE, MAX_FIELDS
from wordpipe.corpus.decode import (
    Decoder,
    ExpansionLimit,
    compression_of,
    decompress_blocks,
    in_utf8,
    read_blocks,
    without_end_marks,
)
from wordpipe.corpus.detect_format import encoding_of, form_of, is_log, patterns_for, unreadable, way_to_read
from wordpipe.corpus.documents import NOT_TEXT, REPEATS, SAME_ID, SAME_RECORDS, Ledger, Record
from wordpipe.corpus.fields import Fields
from wordpipe.corpus.formats import ENDINGS, READERS, function_of
from wordpipe.corpus.readers.package import find_package
from wordpipe.corpus.settings import IngestSettings, parsed_includes
from wordpipe.corpus.sources import NAMED_TWICE, OF_MACHINE, Source
from wordpipe.errors import InputError, StorageError, WordpipeError, shortened
from wordpipe.wording import counted

LINE_FACTOR = 4  # a line of records may be this much longer than its text: escapes, other fields
DECODED = "files_decoded_from"  # heading of counts, by the encoding
UNREADABLE = "files_unreadable"  # heading of counts, by what is wrong
_OF_MACHINE = {os.strerror(number) for number in OF_MACHINE}
_IN_MEMORY = 16 << 20  # bytes of a file that is unpacked; a larger one lies on the disk
_SHOWN_DECODED = 3  # names of files in one encoding
_SHOWN_FILES, _SHOWN_WHY = 10, 100  # names of files that are listed; characters of what is wrong with one
_SHOWN_KINDS, _NAMED_KINDS = 6, 12  # of files that were passed over: with their numbers, and without
_SHOWN_WAYS = 3  # kinds of skipped files of which it is said how they can be read


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

    def documents_of_text(self) -> Literal["file", "block", "line"]:
        """Return what a document is of text without headings; for `section` a line of a log, and a block of other text."""
        wanted = self.settings.documents
        if wanted != "section":
            return "file" if wanted == "auto" else wanted
        first = next(self.blocks, b"")
        self.blocks = chain([first], self.blocks)
        return "line" if is_log(self.source.name, first) else "block"

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

    Of a source that may be left out and cannot be read to its end, the records before that place are kept.

    Args:
        source: a file, a stream, a package, or rows of a program.
        settings: how it is read.
        ledger: counts.
        on_bytes: called with how many more bytes of the source on disk were read.
        needs_id: see `Fields`.

    Raises:
        InputError: the source is missing, binary, damaged or malformed.
        StorageError: reading it failed.
    """
    records = _records(source, settings_for(source, settings), ledger, on_bytes, needs_id=needs_id)
    if not may_be_left(source, settings):
        yield from records
        return
    try:
        yield from records
    except (InputError, StorageError) as error:
        if error.got in _OF_MACHINE:
            raise
        ledger.first_error = error
        if error.hint:
            ledger.warn(f"{UNREADABLE}: {error.what}", error.hint)
        ledger.add_file(UNREADABLE, error.what, _trouble(error, source.name, ledger["documents_kept"]))


def may_be_left(source: Source, settings: IngestSettings) -> bool:
    """True if a source that cannot be read is left out."""
    is_left = settings.unreadable == "skip" or (settings.unreadable == "auto" and source.is_found)
    return is_left and source.kind == "file" and not settings.parallel


def settings_for(source: Source, settings: IngestSettings) -> IngestSettings:
    """Return the settings with which a source is read: they say whether bad records are left out."""
    if settings.bad_records != "auto":
        return settings
    leaves = settings.unreadable == "skip" or (settings.unreadable == "auto" and source.is_found)
    return settings.model_copy(update={"bad_records": "skip" if leaves else "fail"})


def _trouble(error: WordpipeError, name: str, kept: int) -> str:
    """Return where a source cannot be read, and why, for a list; `kept` documents were read before."""
    where = error.where if error.where and error.where.startswith(name) else name
    parts = [] if error.got is None else [shortened(str(error.got), _SHOWN_WHY)]
    parts += [f"{kept:,} document{'s' * (kept != 1)} before this place kept"] * (kept > 0)
    return f"{where} ({'; '.join(parts)})" if parts else where


def lines_about_unreadable(ledger: Ledger) -> Iterator[str]:
    """Yield a line for each kind of files that could not be read: how many, what is wrong, and their names."""
    for what, number in ledger.named(UNREADABLE).items():
        names = ledger.files.get(UNREADABLE, {}).get(what, [])
        more = f", and {number - _SHOWN_FILES:,} more" if number > _SHOWN_FILES else ""
        files = "1 file" if number == 1 else f"{number:,} files"
        hint = f"; {first}" if (first := ledger.warned.get(f"{UNREADABLE}: {what}")) else ""
        yield f"{files} could not be read: {what}: {', '.join(names[:_SHOWN_FILES])}{more}{hint}"


def say_of_records(ledger: Ledger) -> None:
    """Note what the sources of an ingest had that was left out: records, values, files; and which records came before."""
    counts = ledger.counts()
    # records
    if repeats := counts.get(REPEATS):
        text = "1 record is" if repeats == 1 else f"{repeats:,} records are"
        ledger.notes[f"{text} kept although an earlier record has the same text, because the ids differ"] = None
    if skipped := sum(number for name, number in counts.items() if name.startswith("records_skipped_")):
        more = "" if skipped <= len(ledger.skipped) else f"; and {skipped - len(ledger.skipped):,} more"
        ledger.warn("skipped", f"number of skipped records: {skipped:,}; {'; '.join(ledger.skipped)}{more}")
    if first := ledger.warned.get(SAME_ID):
        number = counts["ids_dropped_repeated"]
        ledger.warned[SAME_ID] = (
            f"records whose id an earlier record has are kept without an id: {number:,}; the first one: {first}; use "
            "--id-field to choose the field with the ids, or --id-field none"
        )
    if first := ledger.warned.get(SAME_RECORDS):
        ledger.warned[SAME_RECORDS] = (
            f"duplicate records with fields were dropped: {counts['records_dropped_duplicate']:,}; each of them is equal to "
            f"an earlier record in all kept fields; the first one is at {first}; use --no-deduplicate to keep all records"
        )
    # values and fields that were left out
    if long := ledger.named("values_left_out"):
        listed = ", ".join(f"{name} ({number:,})" for name, number in list(long.items())[:8])
        ledger.warn(
            "long",
            f"values of more than {LONGEST_VALUE >> 10} kB were skipped; their number in each field: {listed}",
        )
    if left := [name for name in ledger.named("fields_not_carried") if name != "(other)"]:
        ledger.warn("fields", f"only the first {MAX_FIELDS:,} fields are kept; for example, {left[0]!r} is not kept")
    # files
    if first := ledger.warned.get(NOT_TEXT):
        kinds = ledger.named("files_not_text")
        listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
        ledger.warned[NOT_TEXT] = f"files without plain text were skipped: {listed}; the first one is {first}"
    for line in [*lines_about_unreadable(ledger)]:
        ledger.warn(line, line)
    for what in ledger.named(UNREADABLE):  # which the lines have said
        ledger.warned.pop(f"{UNREADABLE}: {what}", None)
    if kinds := ledger.named(DECODED):
        names = ledger.files.get(DECODED, {})
        listed = ", ".join(
            f"{number:,} as {kind}{_some(names.get(kind, ()), number)}" for kind, number in kinds.items()
        )
        ledger.notes[f"files read in another encoding than UTF-8: {listed}; to choose the encoding: --encoding"] = None


def _some(names: Sequence[str], number: int) -> str:
    """Return some of the names of a number of files, in brackets."""
    more = ", …" * (number > min(len(names), _SHOWN_DECODED))
    return f" ({', '.join(names[:_SHOWN_DECODED])}{more})" if names else ""


def _records(
    source: Source, settings: IngestSettings, ledger: Ledger, on_bytes: Callable[[int], object], *, needs_id: bool
) -> Iterator[Record]:
    """Yield the records of one source, to its end."""
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
    with source.open() as file, ExitStack() as resources:
        if reader.takes == "file":
            opened.file = resources.enter_context(_as_one_that_seeks(file, source, settings, unpacks=reader.unpacks))
        else:
            raw = read_blocks(file, source.name, note, source.start, source.stop)
            blocks = text_blocks(raw, source, settings, ledger)
            first = next(blocks, b"")
            opened.blocks, reader = chain([first], blocks), READERS[form_of(first, source, settings, ledger)]
        yield from function_of(reader.read)(opened)
    if reader.takes == "file":
        ledger.add("bytes_read", source.bytes)
        on_bytes(source.bytes)
    source.seen.is_whole = True


@contextmanager
def _as_one_that_seeks(
    file: BinaryIO, source: Source, settings: IngestSettings, *, unpacks: bool
) -> Iterator[BinaryIO]:
    """Give the file of a source that is not read in blocks: the same, or what it unpacks to, in a temporary file."""
    compression = source.compression
    if compression == "none" or compression == "auto" or unpacks:
        yield file
        return
    blocks = read_blocks(file, source.name, lambda _: None)
    with SpooledTemporaryFile(_IN_MEMORY) as copy:
        for block in decompress_blocks(blocks, compression, ExpansionLimit(source.name, settings.max_expand)):
            copy.write(block)
        copy.seek(0)
        yield cast(BinaryIO, copy)


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
    if not source.start and (encoding := encoding_of(first, source, settings)) is not None:
        ledger.add_file(DECODED, encoding, source.name)
        blocks = in_utf8(chain([first], blocks), encoding)
        first = next(blocks, b"")
    if not source.start and (found := unreadable(first, source, settings)) is not None:
        if not (source.is_found and may_be_left(source, settings)):
            raise found.error(source.name)
        ledger.add_named("files_not_text", found.kind)
        ledger.warn(NOT_TEXT, f"{source.name} ({found.kind}; {found.hint})")
        ledger.notes[f"{source.name} was not read, because it looks like {found.kind}"] = None
        return
    blocks = chain([first], blocks)
    for block in without_end_marks(blocks, ledger) if source.stop is None else blocks:
        ledger.add("bytes_read", len(block))
        yield block


def fingerprint(
    sources: Iterable[Source], hash_file: Callable[[Path], str], may_be_left: Callable[[Source], bool] = lambda _: False
) -> list[dict[str, str | int]]:
    """Return name, bytes and BLAKE3 of each source.

    `hash_file` gives the BLAKE3 of a file, in hex. A package has one hash over the sorted names and hashes of its Python
    files. A stream has been hashed while it was read: ask after ingest. A file that cannot be read has the hash of the reason,
    if it `may_be_left` out; its reader will say so.
    """
    entries: list[dict[str, str | int]] = []
    for source in sources:
        size, digest = source.bytes, ""
        if source.is_read_once:
            assert source.seen.is_whole, f"{source.name} has no fingerprint before it is read to the end"
            size, digest = source.seen.bytes, source.seen.digest()
        elif source.kind == "package":
            files = find_package(source.name.removeprefix("python:"))
            digest = blake3("".join(f"{one.relative}\0{hash_file(one.path)}\n" for one in files).encode()).hexdigest()
        elif source.path is not None:
            try:
                digest = hash_file(source.path)
            except OSError as error:
                if error.errno in OF_MACHINE or not may_be_left(source):
                    raise
                digest = blake3(f"cannot be read: {error.strerror}".encode()).hexdigest()
        entries.append({"name": source.name, "bytes": size, "blake3": digest})
    return entries


def lines_about_skipped(skipped: Mapping[str, int], examples: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield lines about the files of folders that were passed over: how many of which kind, and how some could be read.

    Args:
        skipped: how many, by the ending of their names, "without ending", or the reason.
        examples: names of some of those that were passed over for their ending.
    """
    if not skipped:
        return
    if twice := skipped.get(NAMED_TWICE):
        yield f"{counted(twice, 'files')} named twice, and read once"
    # how many of which kind
    kinds = sorted(
        ((kind, number) for kind, number in skipped.items() if kind != NAMED_TWICE),
        key=lambda item: (-item[1], item[0]),
    )
    if not kinds:
        return
    n_shown = _SHOWN_KINDS + (len(kinds) == _SHOWN_KINDS + 1)
    shown, others = kinds[:n_shown], kinds[n_shown:]
    parts = [f"{number:,} {kind}" for kind, number in shown]
    if others:
        named = ", ".join(kind for kind, _ in others[:_NAMED_KINDS]) + ", …" * (len(others) > _NAMED_KINDS)
        parts.append(f"{sum(number for _, number in others):,} others ({named})")
    total = sum(number for _, number in kinds)
    line = f"{total:,} file{'s' * (total != 1)} passed over: {', '.join(parts)}"
    # which of them contain text
    texts = [pattern for kind, _ in kinds for pattern in patterns_for(kind, examples.get(kind, ()))]
    patterns = shlex.quote(",".join(dict.fromkeys(texts[: _SHOWN_KINDS + _NAMED_KINDS])))
    yield f"{line}; to read the text files among them: --include {patterns}" if texts else line
    # what people wrote, and other programs turn into text
    for kind in [one for one, _ in kinds if one in ENDINGS and ENDINGS[one].is_document][:_SHOWN_WAYS]:
        yield f"{ENDINGS[kind].title}: {way_to_read(ENDINGS[kind], examples[kind][0])}"


def about_repeats(counts: Mapping[str, int]) -> str:
    """Return how many sections are equal to an earlier one, behind the number of texts that were read; "" for none.

    >>> about_repeats({"documents_dropped_duplicate": 3, "records_dropped_duplicate": 1}), about_repeats({})
    (' (2 more are equal to one of these: its answer says "also in")', '')
    """
    more = counts.get("documents_dropped_duplicate", 0) - counts.get("records_dropped_duplicate", 0)
    return (
        f' ({more:,} more {"is" if more == 1 else "are"} equal to one of these: its answer says "also in")'
        if more
        else ""
    )


def line_about_include(sources: Sequence[Source], names: Sequence[str], include: Iterable[str]) -> str:
    """Return that `include` adds files to others, where there are others, and how to read some files alone; else "".

    Args:
        sources: what was found.
        names: as the user named the sources.
        include: entries of the setting.
    """
    patterns = [*parsed_includes(include)]
    others = sum(one.is_found and not any(fnmatchcase(one.name, f"*{name}") for name in patterns) for one in sources)
    if not patterns or not others:
        return ""
    folder = next((name.rstrip("/") for name in names if Path(name).is_dir()), ".")
    alone = shlex.quote(f"{folder}/**/{patterns[0].rpartition('/')[2]}")
    what = f"{counted(others, 'other files')} {'was' if others == 1 else 'were'} read, too"
    return f"--include adds files: {what}; to read some files alone, name {alone}"
