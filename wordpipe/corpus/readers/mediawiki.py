"""Dumps of MediaWiki as sections: the pages of Wikipedia and other wikis, read in a stream.

A dump is XML in which each page has its title and its text in wiki markup. The text is made plain: links leave their words,
items of lists stay items, rows of tables are lines. Left out are templates, notes, pictures, comments and categories. Pages
that only lead to another one, and pages of other namespaces (talk, templates, files), are left out and counted. Entities are
refused.

The anchor of a record is its page and its section: `dump.xml#Tide#Causes`. Source: MediaWiki's export format 0.11.
"""

import html
import re
from collections.abc import Iterator
from xml.parsers import expat

from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Outline, outline_records
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError

_LONGEST_PAGE = 16 << 20  # characters of a page; longer ones are cut
_KEPT = frozenset(("title", "ns", "text", "redirect"))
_HEADING = re.compile(r"(={1,6})\s*(.+?)\s*\1\s*\Z")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LEFT_OUT = re.compile(
    r"<(?P<tag>ref|math|gallery|timeline|score|imagemap|chem|graph|templatestyles)\b[^<>]*?(?:/>|>.*?(?:</(?P=tag)\s*>|\Z))",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_INNERMOST = re.compile(r"\{\{[^{}]*\}\}")
_LINK = re.compile(r"\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]")
_OUTER_LINK = re.compile(r"\[(?:https?:|ftp:|mailto:)?//?[^\s\]]+\s*([^\]]*)\]")
_QUOTES = re.compile(r"'{2,5}")
_PREFIX = re.compile(r"([*#:;]+)\s*")
_CELL = re.compile(r"\|\||!!")
_SPANS = re.compile(r"\b(?:col|row)span\s*=")
_ATTRIBUTES = re.compile(r"\A(?:\s*[\w-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'|\S+)\s*)+\|(?!\|)")
_MAGIC = re.compile(r"__[A-Z]{3,30}__")
_DEEPEST = 60  # templates in each other
_NOT_ANCHOR = re.compile(r"\s+")


def looks_like_dump(first: bytes, settings: object) -> bool:
    """True if a source begins as a dump of MediaWiki does."""
    del settings
    return re.match(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,300}>\s*)?<mediawiki[\s>]", first[:2048]) is not None


def read(opened: Opened) -> Iterator[Record]:
    """Yield the sections of the pages of a dump. Raises InputError: it is damaged, or no dump of MediaWiki."""
    first = next(opened.blocks, b"")
    if not looks_like_dump(first, opened.settings):
        hint = "convert the XML to text first, or use --format txt to read the markup as text"
        raise InputError("the file is XML, but no dump of MediaWiki", where=opened.source.name, hint=hint)
    outline = Outline(opened.ledger)
    yield from outline_records(outline, _Pages(opened, outline).steps(first), opened)


class _Pages:
    """The pages of a dump, as they are read."""

    def __init__(self, opened: Opened, outline: Outline) -> None:
        self._opened, self._outline = opened, outline
        self._kept: dict[str, list[str]] = {}
        self._open = ""
        self._length = self._line = 0
        self._pages = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._refuse

    def steps(self, first: bytes) -> Iterator[None]:
        """Read the dump, a block at a time. Raises InputError: it is damaged."""
        try:
            self._parser.Parse(first, False)
            yield
            for block in self._opened.blocks:
                self._parser.Parse(block, False)
                yield
            self._parser.Parse(b"", True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            what = f"the dump is damaged, after {self._pages:,} pages"
            raise InputError(what, where=self._opened.source.name, got=error) from None

    def _refuse(self, name: str, *_: object) -> None:
        raise InputError(
            "the file declares XML entities, which are never read", where=self._opened.source.name, got=name
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._open = name if name in _KEPT else ""
        if name == "page":
            self._kept, self._length = {}, 0
        elif name == "text":
            self._line = self._parser.CurrentLineNumber
            self._kept["text"] = []  # the last revision counts
        elif name == "redirect":
            self._kept["redirect"] = [attributes.get("title", "")]

    def _text(self, text: str) -> None:
        if self._open and self._length < _LONGEST_PAGE:
            self._kept.setdefault(self._open, []).append(text)
            self._length += len(text)

    def _end(self, name: str) -> None:
        self._open = ""
        if name != "page":
            return
        self._pages += 1
        title, space = "".join(self._kept.get("title", ())).strip(), "".join(self._kept.get("ns", ())).strip()
        ledger = self._outline.ledger
        if "redirect" in self._kept:
            ledger.add("wiki_pages_redirect")
        elif space not in ("", "0"):
            ledger.add("wiki_pages_of_other_namespaces")
        else:
            ledger.add("wiki_pages")
            self._report(title, "".join(self._kept.get("text", ())))

    def _report(self, title: str, text: str) -> None:
        """Report a page to the outline."""
        out, page = self._outline, _NOT_ANCHOR.sub("_", title)
        out.heading(1, title, page, self._line)
        text, templates = plain_wiki(text)
        out.ledger.add("wiki_templates_left_out", templates)
        in_table, signs = False, set[str]()  # the signs before the cells of the open row
        for row in text.split("\n"):
            row = row.strip()
            if (found := _HEADING.fullmatch(row)) is not None:
                name = _without_marks(found[2])
                out.heading(len(found[1]), name, f"{page}#{_NOT_ANCHOR.sub('_', name)}", self._line)
            elif row.startswith("{|"):
                in_table, signs = True, set[str]()
                out.table()
            elif in_table and row.startswith("|}"):
                in_table = False
                out.table()
            elif in_table and row.startswith(("|-", "|+")):
                (out.header if signs == {"!"} else out.row)()
                signs = set()
            elif in_table and row[:1] in "|!":
                signs.add(row[0])
                if _SPANS.search(row):
                    out.spans()
                for cell in _CELL.split(row[1:]):
                    out.words(_without_marks(_ATTRIBUTES.sub("", cell)))
                    out.cell()
            elif (item := _PREFIX.match(row)) is not None:
                out.block(mark="  " * (len(item[1]) - 1) + ("- " if item[1][-1] in "*#" else ""))
                out.words(_without_marks(row[item.end() :]))
                out.block(tight=True)
            elif row:
                out.words(_without_marks(row) + " ")
            else:
                out.block()
        out.finish()


def plain_wiki(text: str) -> tuple[str, int]:
    """Return wiki markup without templates, notes, comments and pictures, its lines still apart; and how many went."""
    text = _LEFT_OUT.sub("", _COMMENT.sub("", text))
    gone = 0
    for _ in range(_DEEPEST):
        text, number = _INNERMOST.subn("", text)
        gone += number
        if not number:
            break
    for _ in range(5):  # a picture may have links in its words
        text, number = _LINK.subn(_words_of_link, text)
        if not number:
            break
    text = _OUTER_LINK.sub(r"\1", text)
    text = _TAG.sub(lambda found: "\n" if found[0].lower().startswith(("<br", "<p", "</p", "<li")) else "", text)
    return _MAGIC.sub("", html.unescape(text)).replace("\xa0", " "), gone


def _words_of_link(found: re.Match[str]) -> str:
    """Return the words of a link within the wiki; a picture and a category have none."""
    target, words = found[1].strip(), found[2]
    space = target.partition(":")[0].lower() if ":" in target[1:] else ""
    if space and not target.startswith(":"):
        if words is None and space.isalpha():
            return ""
        if space in ("file", "image", "datei", "bild", "fichier", "archivo", "category", "kategorie", "catégorie"):
            return ""
    return (words.rpartition("|")[2] if words else target.lstrip(":").replace("_", " ")) or target


def _without_marks(text: str) -> str:
    """Return a text without the quotes that make it bold or slanted."""
    return _QUOTES.sub("", text).strip()
