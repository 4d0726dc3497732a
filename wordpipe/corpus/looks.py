"""The look of a source whose name does not say its format: JSON Lines, CSV, TSV, labelled or plain text, by its first lines.

Prose must never be taken for a table: the header has to name the text field, and all first rows have as many cells as it.
"""

import csv
import json
import re

from wordpipe.corpus.labelled import PREFIX
from wordpipe.corpus.settings import IngestSettings
from wordpipe.corpus.sources import Format

FORMAT_NAMES: dict[Format, str] = {
    "jsonl": "JSON Lines", "csv": "CSV", "tsv": "TSV", "squad": "SQuAD's JSON", "label-first": "lines of fastText",
}  # fmt: skip
_LINES = 10  # looked at
_HEAD_BYTES = 1 << 16  # of a source that has as many the last line may be cut
_LINE_END = re.compile(r"\r\n|\r|\n")
_BOM = "\ufeff"
_SQUAD = re.compile(r'\s*\{.*"data"\s*:\s*\[.*"paragraphs"\s*:', re.DOTALL)


def looks_like(first: bytes, settings: IngestSettings) -> Format:
    """The format of a source that begins with these bytes."""
    if has_labels_first(first):
        return "label-first"
    lines = _first_lines(first)
    if _SQUAD.match(first[:_HEAD_BYTES].decode(errors="replace").removeprefix(_BOM)):
        return "squad"
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
