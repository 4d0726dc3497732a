r"""The format of a source, and the pieces in which a large one is read.

A source whose name does not say its format is looked at: JSON Lines, CSV, TSV, labelled or plain text, by its first lines.
Prose must never be taken for a table: the header has to name the text field, and all first rows have as many cells as it.

Pieces are read apart, each as the whole file would be read there. A piece begins where a record begins whatever came before:
after a line end, or after a blank line where those part documents. So only plain files of such formats have pieces: text (a
document for each block or line), JSON Lines, and TSV, which knows no quotes. "\r" alone ends a line, but no piece.
"""

import csv
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from wordpipe.corpus.decode import read_blocks
from wordpipe.corpus.documents import Ledger
from wordpipe.corpus.labelled import PREFIX
from wordpipe.corpus.looks.not_text import NotText, is_page, not_text
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Format, Source, Sources, stamp_of

FORMAT_NAMES: dict[Format, str] = {
    "jsonl": "JSON Lines", "csv": "CSV", "tsv": "TSV", "squad": "SQuAD's JSON", "label-first": "lines of fastText",
    "html": "HTML",
}  # fmt: skip
_LINES = 10  # looked at
_HEAD_BYTES = 1 << 16  # of a source that has as many the last line may be cut
_LINE_END = re.compile(r"\r\n|\r|\n")
_BOM = "\ufeff"
_SAID = re.compile(
    rb'(?:\xef\xbb\xbf)?"?sep=(?:\\t|[^\w\s"]|\t)"?[ \t]*[\r\n]', re.IGNORECASE
)  # a table that says what parts its cells
_SQUAD = re.compile(r'\s*\{.*"data"\s*:\s*\[.*"paragraphs"\s*:', re.DOTALL)
_RECORD_LINE, _RECORD_BLOCK = re.compile(rb"\n"), re.compile(rb"\n\r?\n")  # what a line, and what a block, ends with
OnBytes = Callable[[int], object]
_BEFORE = 2  # bytes of the block before in which the end of a piece may begin


def is_structured(form: Format, settings: IngestSettings) -> bool:
    """Whether its markup is read; blocks and lines of Markdown are taken as they are."""
    is_markdown = form == "md" and settings.documents in ("auto", "file") and not settings.first_line_title
    return is_markdown or form in ("html", "rst")


def unreadable(first: bytes, source: Source, settings: IngestSettings) -> NotText | None:
    """What a source looks like, by its first block, that holds no text to read; None where it does."""
    is_plain = source.format == "txt" and settings.format == "auto"
    return not_text(first, source.name, is_plain=is_plain, as_it_is=settings.format != "auto")


def form_of(first: bytes, source: Source, settings: IngestSettings, ledger: Ledger) -> Format:
    """The format of a source; where its name does not say it, what its first block looks like."""
    if source.format != "txt" or source.start:
        return source.format
    name = "standard input" if source.name == "-" else source.name
    if source.is_unnamed and (found := looks_like(first, settings)) != "txt":
        ledger.notes[f"{name}: {FORMAT_NAMES[found]}"] = None
        return found
    if settings.format == "auto" and has_labels_first(first):
        return "label-first"
    if looks_like_json(first):
        ledger.warn("looks", f"{name} looks like JSON Lines, and was read as text: --format jsonl reads records")
    elif is_page(first):
        ledger.warn("looks", f"{name} looks like HTML, and was read as text: --format html reads pages")
    return "txt"


def looks_like(first: bytes, settings: IngestSettings) -> Format:
    """The format of a source that begins with these bytes."""
    if has_labels_first(first):
        return "label-first"
    if is_page(first):
        return "html"
    lines = _first_lines(first)
    if _SQUAD.match(first[:_HEAD_BYTES].decode(errors="replace").removeprefix(_BOM)):
        return "squad"
    if _SAID.match(first):
        return "csv"
    good = sum(map(_is_object, lines))
    if lines and (good == len(lines) or (settings.bad_records == "skip" and 2 * good > len(lines))):
        return "jsonl"
    cells = [line.split("\t") for line in lines]
    if _is_table(cells, settings.text_field) or _has_columns(cells, settings):
        return "tsv"
    for delimiter in ",;|":
        try:
            rows = [*csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)]
        except csv.Error:
            continue
        if _is_table(rows, settings.text_field):
            return "csv"
    return "txt"


def has_labels_first(first: bytes) -> bool:
    """Whether the first lines all begin with a label as fastText writes it."""
    lines = _first_lines(first[:_HEAD_BYTES])
    return bool(lines) and all(line.startswith(PREFIX) for line in lines)


def looks_like_json(first: bytes) -> bool:
    """Whether the first lines are JSON objects."""
    lines = _first_lines(first[:_HEAD_BYTES])
    return bool(lines) and all(map(_is_object, lines))


def _first_lines(first: bytes) -> list[str]:
    """The first lines that are whole and not blank; the last one of a short source needs no line end."""
    text = first.decode(errors="replace").removeprefix(_BOM)
    whole = _LINE_END.split(text)
    if len(first) >= _HEAD_BYTES:
        whole = whole[:-1]  # which the block may have cut; after a line end it is nothing
    return [line for line in whole if line.strip()][:_LINES]


def _is_object(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_table(rows: list[list[str]], text_field: str) -> bool:
    """Whether the first row is a header that names the text field, and the others have as many cells."""
    if len(rows) < 2 or len(rows[0]) < 2 or text_field not in rows[0] or len(set(rows[0])) < len(rows[0]):
        return False
    return all(len(row) == len(rows[0]) for row in rows)


def _has_columns(rows: list[list[str]], settings: IngestSettings) -> bool:
    """Whether a setting asks for a column by its number, and all first rows have as many cells, and that one."""
    asked = [int(name) for name in (settings.text_field, settings.text_b) if name.isdecimal() and name.isascii()]
    width = len(rows[0]) if rows else 0
    return bool(asked) and max(asked) <= width > 1 and all(len(row) == width for row in rows)


def in_pieces(
    sources: Sources, settings: IngestSettings, least_bytes: int, on_bytes: OnBytes = lambda done: None
) -> Sources:
    """The same sources in order, large ones in pieces. Where these begin depends on the files and the settings alone.

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

    found = (piece for source in sources for piece in _pieces(source, settings, least_bytes, note))
    return Sources(found, sources.skipped, sources.examples, is_sorted=False)


def _pieces(source: Source, settings: IngestSettings, least_bytes: int, on_bytes: OnBytes) -> Iterator[Source]:
    is_plain = source.kind == "file" and source.compression == "none" and source.format in ("txt", "md", "jsonl", "tsv")
    if not is_plain or source.bytes < 2 * least_bytes:
        yield source
        return
    with source.open() as file:
        stamp = stamp_of(os.fstat(file.fileno()))
        source = replace(source, stamp=stamp, bytes=stamp.size)
        first = next(read_blocks(file, source.name, lambda _: None), b"")
        form = form_of(first, source, settings, Ledger())
    start, line = 0, 1
    if _SAID.match(first) or unreadable(first, source, settings) is not None:  # its reader says so, once
        yield source
        return
    if source.bytes >= 2 * least_bytes and (end := _end_of_record(form, settings)) is not None:
        for stop, next_line in _ends(source, end, least_bytes, on_bytes):
            yield _piece(source, form, start, stop, line)
            start, line = stop, next_line
    yield _piece(source, form, start, None, line) if start else source


def _piece(source: Source, form: Format, start: int, stop: int | None, line: int) -> Source:
    """A piece of a source; only the first is looked at once more, and told of."""
    size = (source.bytes if stop is None else stop) - start
    form = form if start else source.format
    return replace(source, format=form, start=start, stop=stop, first_line=line, bytes=size, seen=type(source.seen)())


def _end_of_record(form: Format, settings: IngestSettings) -> re.Pattern[bytes] | None:
    """What a record ends with; None where that is not to be seen from the bytes around it."""
    if form in ("jsonl", "tsv"):
        return _RECORD_LINE
    if form not in ("txt", "md") or is_structured(form, settings):
        return None
    return {"line": _RECORD_LINE, "block": _RECORD_BLOCK}.get(settings.documents)


def _ends(source: Source, end: re.Pattern[bytes], least_bytes: int, on_bytes: OnBytes) -> Iterator[tuple[int, int]]:
    """The byte at which each piece but the last ends, and the number of the line that begins there; all of about a size."""
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
    """The first place, at `least` or behind it, where a record ends."""
    found = end.finditer(data, max(least - _BEFORE, 0))
    return next((one.end() for one in found if one.end() >= least), None)


def _line_ends(data: bytes, start: int, stop: int) -> int:
    r"""Lines that end in data[start:stop]; not the "\n" at its start whose "\r" comes before, which ended the line."""
    found, returns = data.count(b"\n", start, stop), data.count(b"\r", start, stop)
    if returns:  # which few files have
        found += returns - data.count(b"\r\n", start, stop)
    return found - (0 < start < stop and data[start - 1 : start + 1] == b"\r\n")
