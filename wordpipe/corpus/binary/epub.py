"""EPUB as sections: the pages of a book in the order in which it is read, each through the reader of HTML.

The title of the book stands before the headings of a section. The column `chapter` is what the table of contents calls the
page on which the section stands, else its highest heading; a page that has neither goes on with the chapter before. The line
of a section is counted through all pages of the book. The number of a note that the text refers to stands in brackets.

The page with the table of contents is left out, and counted. A book whose pages are encrypted is refused.

Source: EPUB 3.3 (W3C), sections 4 (container), 5 (package document), 7 (navigation document); EPUB 2.0.1 for the NCX.
"""

import codecs
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from selectolax.lexbor import LexborHTMLParser

from wordpipe.corpus.binary.packages import Package, path_in
from wordpipe.corpus.binary.word import LEFT_OUT
from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.html_pages import MARKUP, read_html, to_utf8
from wordpipe.corpus.readers.sections import Outline, outline_records, parts, title_of_properties
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError
from wordpipe.wording import place_anchor

_PAGES = frozenset(("application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml"))
_VOID = "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"
_CLOSED = re.compile(rf"<(?!(?:{_VOID})[\s/])([A-Za-z][\w:.-]*+)((?:[^<>\"'/]++|\"[^\"]*\"|'[^']*'|/(?!>))*+)/>")
_SHORT = r"([^<>\[ ]{1,6})"
_LINK = r"(<a\b[^<>]*\bhref=\"[^<>\"#]*#[^<>]*>)"
_NOTES = (  # links to a note: as the book says it, or raised and short
    re.compile(
        r"(<a\b[^<>]*\b(?:epub:type|role|class)=\"[^<>\"]*\b(?:noteref|footnote-ref)\b[^<>]*>)(?:<sup>)?"
        rf"{_SHORT}(?:</sup>)?</a>"
    ),
    re.compile(rf"{_LINK}<sup[^<>]{{0,100}}>{_SHORT}</sup></a>"),
    re.compile(rf"<sup[^<>]{{0,100}}>{_LINK}{_SHORT}</a></sup>"),
)
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LONGEST_CONTENTS = 4 << 20  # bytes of a table of contents
_LONGEST_LABEL = 500


def read(opened: Opened) -> Iterator[Record]:
    """Yield the sections of a book.

    Raises:
        InputError: it is damaged, encrypted or a bomb, or no book.
    """
    package, container = Package(opened), _Container()
    # the list of its parts, and the pages in their order
    package.parse("META-INF/container.xml", container)
    book = _Book(posixpath.dirname(container.path))
    if container.path not in package.names:
        raise InputError("the file contains no book", where=opened.source.name)
    package.parse(container.path, book)
    package.parse("META-INF/encryption.xml", locked := _Locked())
    if any(path in locked.paths for path, _ in book.pages()):
        hint = "open the book in the program of its seller; wordpipe cannot read encrypted books"
        raise InputError("the book is encrypted", where=opened.source.name, hint=hint)
    outline = Outline(opened.ledger)
    outline.title = title_of_properties(book.title)
    yield from outline_records(outline, _pages(package, book, outline, opened), opened)


def _pages(package: Package, book: "_Book", outline: Outline, opened: Opened) -> Iterator[None]:
    """Report the pages of a book to an outline, one at a time."""
    labels = _labels(package, book)
    line, chapter = 1, ""
    path: tuple[str, ...] = ()
    for page, is_contents in book.pages():
        if is_contents:
            opened.ledger.add_named(LEFT_OUT, "tables of contents")
            continue
        # a page has headings of its own: those before do not stand above them
        inner, label = Outline(opened.ledger), labels.get(page, "")
        inner.title, last = outline.title, line
        for first, text in parts(_lines(package, page, line, opened), MARKUP.begins, MARKUP.part_bytes):
            text = _CLOSED.sub(r"<\1\2></\1>", text)
            for link in _NOTES:
                text = link.sub(r"\1[\2]</a>", text)
            read_html(text, first, inner, has_title=True)
            last = first + text.count("\n")
            yield
        inner.finish()
        # text without a heading stands below that of the table of contents, or goes on with the section before
        if label:
            path = (label,)
        for section in inner.take():
            path = section.path or path
            chapter = label or (section.path[0] if section.path else chapter)
            section.path, section.anchor = path, place_anchor("chapter", chapter) if chapter else None
            section.columns = {"chapter": chapter} if chapter else {}
            outline.sections.append(section)
        line = last + 1
        yield


def _lines(package: Package, page: str, first: int, opened: Opened) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a page, counted from `first` on."""
    blocks = package.blocks(page)
    head = next(blocks, b"")
    blocks = chain([head], blocks)
    if head.startswith(_WIDE):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        blocks = (decoder.decode(block).encode(errors="replace") for block in blocks)
    else:
        name, bad_bytes = f"{opened.source.name}, {page}", opened.settings.bad_bytes
        blocks = to_utf8(blocks, name=name, bad_bytes=bad_bytes, ledger=opened.ledger)
    for number, line in opened.lines(blocks):
        yield first + number - 1, line


def _labels(package: Package, book: "_Book") -> dict[str, str]:
    """Return what the table of contents calls each page: path → label."""
    found: dict[str, str] = {}
    for page in filter(None, (book.contents, book.ncx)):
        data = b"".join(package.blocks(page))
        if len(data) > _LONGEST_CONTENTS:
            continue
        parser, folder = LexborHTMLParser(data.decode(errors="replace")), posixpath.dirname(page)
        is_list = page == book.contents
        links = parser.css("nav a" if is_list else "navPoint")
        for link in links:
            if is_list:
                target, label = link.attributes.get("href"), link.text()
            else:
                content, words = link.css_first("content"), link.css_first("navLabel")
                target = content.attributes.get("src") if content is not None else None
                label = words.text() if words is not None else ""
            if target and (label := " ".join(label.split())[:_LONGEST_LABEL]):
                found.setdefault(path_in(folder, target), label)
        if found:
            break
    return found


class _Container:
    """The part that says where the list of a book's parts is."""

    def __init__(self) -> None:
        self.path = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.endswith(":rootfile") and not self.path:
            self.path = path_in("", attributes.get("full-path", ""))

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Locked(_Container):
    """The part that says which parts of a book are encrypted."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.endswith(":CipherReference"):
            self.paths.add(path_in("", attributes.get("URI", "")))


@dataclass(slots=True)
class _Item:
    """A part of a book, by the list of parts."""

    path: str
    kind: str
    is_contents: bool


@dataclass
class _Book:
    """The list of a book's parts: its title, and its pages in order."""

    folder: str
    title: str = ""
    contents: str = ""  # the path of the table of contents of EPUB 3
    ncx: str = ""  # that of EPUB 2
    items: dict[str, _Item] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # ids of the pages
    _tag: str = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._tag = tag
        if tag == "opf:item":
            path, kind = path_in(self.folder, attributes.get("href", "")), attributes.get("media-type", "")
            is_contents = "nav" in attributes.get("properties", "").split()
            self.items[attributes.get("id", "")] = _Item(path, kind, is_contents)
            if is_contents:
                self.contents = path
            elif kind == "application/x-dtbncx+xml":
                self.ncx = path
        elif tag == "opf:itemref":
            self.order.append(attributes.get("idref", ""))

    def end(self, tag: str) -> None:
        if tag == "dc:title" and self.title:
            self.title += "\n"
        self._tag = ""

    def text(self, text: str) -> None:
        if self._tag == "dc:title" and "\n" not in self.title:  # the first of several
            self.title += text.replace("\n", " ")

    def pages(self) -> Iterator[tuple[str, bool]]:
        """Yield the path of each page in the order of reading, and True if it is the table of contents; each once."""
        seen: set[str] = set()
        for item in map(self.items.get, self.order):
            if item is not None and item.kind in _PAGES and item.path not in seen:
                seen.add(item.path)
                yield item.path, item.is_contents
