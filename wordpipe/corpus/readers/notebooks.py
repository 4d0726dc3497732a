"""Notebooks of Jupyter: a record for each cell, or for each part of a cell of text below a heading.

Cells of text are Markdown, whose headings stand above the cells that follow; cells of code are code. What the code has printed
is left out, and counted. The place of a record is the number of its cell from the top (`notes.ipynb[7]`), which is also the
field `cell`. Cells of format 4, and of format 3, in which sheets have them.

Source: the notebook format, nbformat 4.5.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Outline, outline_records
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError
from wordpipe.wording import place_anchor

_LARGEST = 512 << 20  # bytes of a notebook: pictures in it are base64


def looks_like_notebook(first: bytes, settings: object) -> bool:
    """True if a source begins as a notebook does."""
    from wordpipe.corpus.detect_format import is_notebook

    del settings
    return is_notebook(first.lstrip(b"\xef\xbb\xbf \t\r\n"))


def read(opened: Opened) -> Iterator[Record]:
    """Yield the cells of a notebook. Raises InputError: it is damaged, or no notebook."""
    outline = Outline(opened.ledger)
    yield from outline_records(outline, _steps(_cells(opened), outline), opened)


def _cells(opened: Opened) -> list[Mapping[str, Any]]:
    """Return the cells of a notebook. Raises InputError: there are none."""
    name, data = opened.source.name, bytearray()
    for block in opened.blocks:
        data += block
        if len(data) > _LARGEST:
            raise InputError("the notebook is too large", where=name, expected=f"at most {_LARGEST >> 20} MiB")
    try:
        found = json.loads(data.decode("utf-8-sig", "replace"))
        sheets = [found, *found.get("worksheets", ())]
        cells = [one for sheet in sheets for one in sheet.get("cells", ())]
        is_sound = all(isinstance(one, dict) for one in cells) and ("cells" in found or "worksheets" in found)
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise InputError("the notebook is damaged", where=name, got=f"{type(error).__name__}: {error}"[:200]) from None
    if not is_sound:
        raise InputError("the file contains no notebook", where=name)
    return cells


def _steps(cells: list[Mapping[str, Any]], outline: Outline) -> Iterator[None]:
    """Report the cells to an outline, one after the other."""
    from wordpipe.corpus.readers.markdown import (
        read_markdown,
    )  # 35 ms, which a look at plain text spares

    for number, cell in enumerate(cells, 1):
        kind, text = cell.get("cell_type"), _text(cell.get("source", cell.get("input", "")))
        if kind == "heading":
            outline.heading(_level(cell), text, None, number)
        elif kind == "markdown":
            try:
                read_markdown(text, 2, outline)  # line 1 could be front matter
            except (ValueError, RecursionError):
                outline.verbatim(text)
        else:
            outline.verbatim(text)
        outputs = cell.get("outputs")
        outline.ledger.add("notebook_outputs_left_out", len(outputs) if isinstance(outputs, list) else 0)
        outline.ledger.add("notebook_cells")
        outline.finish()
        for section in outline.sections:
            section.anchor, section.line = place_anchor("cell", number), number
            section.places, section.columns = [(0, number)], {"cell": number}
        yield


def _text(source: Any) -> str:
    """Return the text of a cell, which is a string or a list of lines."""
    if isinstance(source, list):
        source = "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


def _level(cell: Mapping[str, Any]) -> int:
    """Return the level of a heading of format 3."""
    level = cell.get("level")
    return level if isinstance(level, int) and 1 <= level <= 9 else 1
