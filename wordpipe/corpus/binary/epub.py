"""EPUB as sections: the pages of a book in the order in which it is read, each through the reader of HTML.

The title of the book stands before the headings of a section, then what the table of contents puts above its page. The column
`chapter` is the deepest entry of the table of contents that the section stands below, with those above it (`Part I › Storms`);
of a page that it does not list, the headings. A page that has neither goes on with the chapter before. The line of a section
is counted through all pages of the book. The number of a note that the text refers to stands in brackets.

The page with the table of contents is left out, and counted. A book whose pages are encrypted is refused.

Source: EPUB 3.3 (W3C), sections 4 (container), 5 (package document), 7 (navigation document); EPUB 2.0.1 for the NCX.
"""

import codecs
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from selectolax.lexbor import LexborHTMLParser, LexborNode

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
_SHORT = r"([^<>\[ ↩]{1,6})"
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
_DEEPEST_CONTENTS = 12  # entries below each other
_JOIN = " › "


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
    contents = _contents(package, book)
    line = 1
    path: tuple[str, ...] = ()  # of the section before: what stands above it
    chapter: tuple[str, ...] = ()
    for page, is_contents in book.pages():
        if is_contents:
            opened.ledger.add_named(LEFT_OUT, "tables of contents")
            continue
        # a page has headings of its own: those before do not stand above them
        inner, entries, last = Outline(opened.ledger), _Entries(contents.get(page, [])), line
        inner.title = outline.title
        for first, text in parts(_lines(package, page, line, opened), MARKUP.begins, MARKUP.part_bytes):
            text = _CLOSED.sub(r"<\1\2></\1>", text)
            for link in _NOTES:
                text = link.sub(r"\1[\2]</a>", text)
            read_html(text, first, inner, has_title=True)
            last = first + text.count("\n")
            yield
        inner.finish()
        # text without a heading stands below that of the table of contents, or goes on with the section before
        path, above = entries.first or path, entries.first[:-1]
        for section in inner.take():
            chapter = entries.above(section.path) or section.path or chapter
            names = {_key(name) for name in section.path}
            path = (*(name for name in above if _key(name) not in names), *section.path) if section.path else path
            section.path, section.anchor = path, place_anchor("chapter", _JOIN.join(chapter)) if chapter else None
            section.columns = {"chapter": _JOIN.join(chapter)} if chapter else {}
            outline.sections.append(section)
        line = last + 1
        yield


def _key(name: str) -> str:
    """Return the form of a heading in which it is compared with an entry of the table of contents."""
    return " ".join(name.split()).casefold()


class _Entries:
    """The entries of the table of contents that lead to one page: each with its parents, in their order."""

    def __init__(self, entries: list[tuple[str, ...]]) -> None:
        self.first: tuple[str, ...] = entries[0] if entries else ()
        self._entries = entries
        self._keys = [_key(entry[-1]) for entry in entries]
        self._at = 0  # the entry of the section before

    def above(self, headings: tuple[str, ...]) -> tuple[str, ...]:
        """Return the deepest entry that a section stands below, by its headings: the next one of this name, or an earlier."""
        for heading in reversed(headings):
            for start, stop in ((self._at, len(self._keys)), (0, self._at)):
                try:
                    found = self._keys.index(_key(heading), start, stop)
                except ValueError:
                    continue
                self._at = max(self._at, found)
                return self._entries[found]
        return self.first


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


def _contents(package: Package, book: "_Book") -> dict[str, list[tuple[str, ...]]]:
    """Return the entries of the table of contents by their pages: each with the entries above it, the highest first."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for page in filter(None, (book.contents, book.ncx)):
        data = b"".join(package.blocks(page))
        if len(data) > _LONGEST_CONTENTS:
            continue
        parser, folder = LexborHTMLParser(data.decode(errors="replace")), posixpath.dirname(page)
        is_list, labels = page == book.contents, dict[int, str]()
        for link in _links(parser) if is_list else parser.css("navPoint"):
            content = link if is_list else link.css_first("content")
            target = content.attributes.get("href" if is_list else "src") if content is not None else None
            path = _path_of(link, labels)
            if path and path[0] == book.title.strip() and len(path) > 1:  # the title of the book stands above anyway
                path = path[1:]
            if target and path:
                found.setdefault(path_in(folder, target), []).append(path)
        if found:
            break
    return found


def _links(parser: LexborHTMLParser) -> list[LexborNode]:
    """Return the links of the table of contents of EPUB 3; not those of its lists of pages and landmarks."""
    lists = parser.css("nav")
    chosen = [one for one in lists if "toc" in (one.attributes.get("epub:type") or "").split()] or lists
    return [link for one in chosen for link in one.css("a")]


def _path_of(link: LexborNode, labels: dict[int, str]) -> tuple[str, ...]:
    """Return the label of an entry of the table of contents, below those of the entries around it; () where it has none."""
    path: list[str] = []
    node: LexborNode | None = link
    while node is not None and len(path) < _DEEPEST_CONTENTS:
        if node.tag in ("li", "navpoint"):
            if (label := labels.get(node.mem_id)) is None:
                words = node.css_first("navLabel" if node.tag == "navpoint" else "a, span")
                label = labels[node.mem_id] = (
                    " ".join(words.text().split())[:_LONGEST_LABEL] if words is not None else ""
                )
            path += [label] * bool(label)
        node = node.parent
    return tuple(reversed(path)) or tuple(filter(None, [" ".join(link.text().split())[:_LONGEST_LABEL]]))


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
