"""PDF: a record for each page, or for each part of a page below a heading of the outline.

The pages are read in a child process (`pdf_pages.py`, with `bounded.py`). What a person would not read as text is left out and
counted: headers and footers that run over the pages, page numbers. Pages without text, such as scanned ones, are counted and
named. The place of a record is its page, which is also the field `page`, a number.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from wordpipe.corpus.binary.bounded import values_of
from wordpipe.corpus.detect_format import filled_hint
from wordpipe.corpus.documents import Record
from wordpipe.corpus.formats import READERS
from wordpipe.corpus.readers.sections import Section, pieces_of, title_of_properties
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError
from wordpipe.wording import place_anchor

_PARSER = "wordpipe.corpus.binary.pdf_pages:read_pages"
_SHOWN_RANGES = 8  # of pages without text that a warning names


def read(opened: Opened) -> Iterator[Record]:
    """Yield the records of a PDF, all of them or none. Raises InputError: it is encrypted, damaged, has no text, is a bomb."""
    assert opened.file is not None
    name = opened.source.name
    if find_spec(READERS["pdf"].needs) is None:
        what = "reading PDF needs the package pypdfium2, which is not installed"
        raise InputError(what, where=name, hint="pip install 'wordpipe[documents]'")
    head, *pages, end = values_of(_PARSER, opened.file, name)
    title = title_of_properties(head["title"])
    # what was counted, and what has no text
    for what, number in end["counts"].items():
        opened.ledger.add(what, number)
    opened.ledger.add("pdf_pages", head["pages"])
    for numbers, said in ((end["without_text"], "have no text"), (end["damaged"], "cannot be read")):
        if numbers:
            opened.ledger.notes[f"{name}: pages that {said}: {_ranges(numbers)}"] = None
    if scanned := end["counts"].get("pdf_pages_scanned"):
        opened.ledger.warn("scanned", _about_scanned(name, scanned))
    documents = opened.settings.documents
    if documents == "file":
        yield _whole(opened, pages, title)
        return
    # a record for each part of a page
    sections = [
        (page["page"], Section(tuple(path), place_anchor("page", page["page"]), page["page"], "\n\n".join(paragraphs)))
        for page in pages
        for path, paragraphs in page["parts"]
    ]
    opened.ledger.add("sections_read", len(sections))
    for number, section in sections:
        record = section.record(name, title)
        record.metadata = opened.fields.metadata_of({"page": number}, number)
        yield from [record] if documents in ("auto", "section") else pieces_of(record, documents)


def _whole(opened: Opened, pages: Sequence[Mapping[str, Any]], title: str | None) -> Record:
    """Return a PDF as one record; the line of each sentence is its page."""
    texts: list[str] = []
    places: list[tuple[int, int]] = []
    length = 0
    before: list[str] = []
    for page in pages:
        for path, paragraphs in page["parts"]:
            heads = [one for level, one in enumerate(path) if path[: level + 1] != before[: level + 1]]
            before = path
            text = "\n\n".join([*heads, *paragraphs])
            places.append((length, page["page"]))
            texts.append(text)
            length += len(text) + 2
    whole = Section((), None, places[0][1], "\n\n".join(texts), places)
    opened.ledger.add("sections_read", len(texts))
    return whole.record(opened.source.name, title)


def _about_scanned(name: str, number: int) -> str:
    """Return the warning about pages that are pictures."""
    pages = "1 page contains only a picture" if number == 1 else f"{number:,} pages contain only pictures"
    hint = filled_hint("ocrmypdf --skip-text FILE STEM.pdf", name)
    return f"{name}: {pages} and no text; to get the text, use OCR: {hint}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers of pages in words: "2, 5–9"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = [str(first) if first == last else f"{first}–{last}" for first, last in ranges[:_SHOWN_RANGES]]
    return ", ".join(shown) + (", …" if len(ranges) > _SHOWN_RANGES else "")
