"""HTML as an outline, read by lexbor (selectolax), the HTML5 parser that mends what browsers mend.

Left out are scripts, styles, templates, buttons, media and what is clearly no content: `nav`, the footer of the page, an
`aside` that is mostly links, what has the role navigation, search, banner or contentinfo, and the signs (¶, #, ↩) that link to
a heading, or back from a note. lexbor tells no lines: before it reads a page, a comment with the number of the line is put
before every block. So a line is exact where a block begins and counted on by the newlines of its text; after a tag that is
spread over several lines it is too small until the next block.

A title ends at the first block in its heading, as a heading that nobody closed holds all that follows; the rest is text.
Comments and processing instructions (`<?php … ?>`) are passed over, and part no word; of `<![CDATA[…]]>` the text is kept.

Elements deeper than 500 in each other become their text alone: lexbor takes 10 seconds for 100,000 in each other.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import chain

from selectolax.lexbor import LexborHTMLParser, LexborNode

from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.readers.sections import Markup, Outline, names, read_sections, title_of_properties
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError

_DEEPEST = 500
_LONGEST_NUMBER = 9  # digits of the first number of a list
_LONGEST_SIGN = 3  # characters of a link that only points to its heading
_DROPPED = names("""
    script style template noscript nav button select textarea iframe object svg canvas audio video map
    datalist dialog noembed noframes annotation annotation-xml
""")
_REPLACED = names("button select textarea iframe object svg canvas audio video")  # which stand between words
_DROPPED_ROLES = frozenset(("navigation", "search", "banner", "contentinfo"))
_PARTS = frozenset(("article", "section"))  # have footers of their own
_SILENT = names("""
    script style template noscript button select textarea iframe object svg canvas audio video map datalist
    noembed noframes annotation annotation-xml
""")
_CONTENT_OR_NOT = frozenset(["footer", "aside", "header", "div", "section", "ul", "form"])
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = names("""
    address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main menu nav ol option p plaintext pre
    search section summary table tbody td tfoot th thead tr ul xmp
""")
_OPAQUE = frozenset(
    ("script", "style", "textarea", "title", "xmp", "noembed", "noframes")
)  # hold text, whatever it looks like
_CLOSED_BY_OTHERS = names("""
    p li dt dd tr td th thead tbody tfoot caption colgroup option optgroup rp rt html head body area base br
    col embed hr img input link meta param source track wbr h1 h2 h3 h4 h5 h6
""")
_WALLS = frozenset(("table", "select", "object", "template", "button", "svg", "math"))  # an end tag reaches no further
_TAG = re.compile(
    r"<!--|<\?|<!\[CDATA\[|<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,40})(?:[^<>\"']++|\"[^\"]{0,4000}\"|'[^']{0,4000}')*+>?"
)
_PROGRAM = re.compile(r"<\?(?:php\b|=|\s)", re.IGNORECASE)  # of a program, in which ">" and "<" are signs like others
_LOOKED_AT = 4000  # characters of a page's title
_INSTRUCTION = re.compile(r"<\?.*?\?>", re.DOTALL)
_COMMENT_END = re.compile(r"--!?>")
_LINE_MARK = re.compile(r"line (\d{1,12})\Z")
_SIGNS = frozenset("¶§#🔗↩")
_UNKNOWN = "-unknown"  # what the parser has no name for: a processing instruction
_BOXES = frozenset(("section", "article", "div", "main", "a", "span", "details", "dt"))  # whose id may name a heading

_HEAD_BYTES = 2048  # in which a page says its encoding; browsers look at 1,024
_CHARSET = re.compile(rb"<meta\b[^<>]{0,300}?\bcharset\s*=\s*[\"']?\s*([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]{0,200}?\bencoding\s*=\s*[\"']\s*([A-Za-z0-9_:.+-]{1,40})")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_NO_TEXT = frozenset(("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"))  # of Python alone
_MEANT = {  # what browsers take them for (the WHATWG's Encoding Standard)
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932", "utf-16": "utf-8", "utf-16-le": "utf-8",
    "utf-16-be": "utf-8", "utf-7": "utf-8", "utf-32": "utf-8",
}  # fmt: skip


def read(opened: Opened) -> Iterator[Record]:
    """Return the sections of a page."""
    settings = opened.settings
    blocks = to_utf8(opened.blocks, name=opened.source.name, bad_bytes=settings.bad_bytes, ledger=opened.ledger)
    return read_sections(opened, MARKUP, blocks)


def read_html(text: str, line: int, outline: Outline, *, is_page: bool = True, has_title: bool = False) -> None:
    """Report the headings, words and code of an HTML text to the outline of its source; a `page` may have a title.

    Where it `has_title`, something else says the title, and that of the page is left out.
    """
    read_parsed(parsed(text, line), line, outline, is_page=is_page, has_title=has_title)


def parsed(text: str, line: int) -> LexborHTMLParser:
    """Return a parsed HTML text, whose first line has this number."""
    return LexborHTMLParser(_with_lines(text, line))


def read_parsed(
    page: LexborHTMLParser, line: int, outline: Outline, *, is_page: bool = True, has_title: bool = False
) -> None:
    """Report what `parsed` returned to the outline of its source; the arguments are those of `read_html`."""
    outline.line = line
    if not has_title and (title := page.css_first("head > title")) is not None:
        text = title.text()
        words = _INSTRUCTION.sub("", text[:_LOOKED_AT]) + text[_LOOKED_AT:]
        if not is_page or outline.title is not None:
            outline.words(words)  # a further one is text as others are
            outline.block()
        else:
            outline.title = words if title_of_properties(words) else None
    if page.body is not None:
        _Walk(outline).over(page.body)
    outline.end_list()


@dataclass(slots=True)
class _Title:
    """The words of an HTML heading, so far."""

    level: int
    line: int
    anchor: str | None  # its own id, or one inside it
    around: str | None  # the id of what it stands in
    words: list[str] = field(default_factory=list)


def shown_inline(tag: str) -> str:
    """Return the text for one HTML tag, comment or instruction within Markdown.

    >>> shown_inline("<br/>"), shown_inline("</b>"), shown_inline("<![CDATA[a]]>")
    (' ', '', 'a')
    """
    if tag.startswith("<![CDATA["):
        return tag[len("<![CDATA[") : -len("]]>")]
    found = _TAG.match(tag)
    return " " if found and (found["name"] or "").lower() in _BLOCKS else ""


class _Walk:
    """One walk over the elements of an HTML page, in order; those that are dropped are not entered."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self._lists: list[int | None] = []  # the next number of each list that is open, None where it has bullets
        self._anchor: tuple[str, int] | None = None  # an id, and how much had been said when it came
        self._cells: list[str] = []  # tags of the cells of the open row
        self._parts: list[
            str | None
        ] = []  # the ids of the sections and articles that are open, until a heading has taken one
        self._code: tuple[int, list[str]] | None = None  # the line and the text of code that is open
        self._codes = 0  # in each other
        self._title: _Title | None = None  # of the heading that is open, until a block in it ends it

    def over(self, root: LexborNode) -> None:
        """Walk over all in the root of an HTML page, without recursion: it may be deep."""
        node, depth = root, 0
        while True:
            tag = node.tag or _UNKNOWN
            is_entered = self._enter(node, tag)
            child = node.first_child if is_entered else None
            if child is not None:
                node, depth = child, depth + 1
                continue
            while True:
                if is_entered:
                    self._leave(tag)
                if depth == 0:
                    return
                if (after := node.next) is not None:
                    node = after
                    break
                above = node.parent
                assert above is not None
                node, depth, tag, is_entered = above, depth - 1, above.tag or _UNKNOWN, True

    def _enter(self, node: LexborNode, tag: str) -> bool:
        """Take an element, a text or a comment of HTML; return True if its children are to be visited."""
        out = self.outline
        if tag[0] == "-":
            if tag == "-text":
                self._words(node.text_content or "")
            elif tag == "-comment" and (mark := _LINE_MARK.match(node.comment_content or "")):
                out.line = int(mark[1])
            return False
        name = (node.id or (node.attributes.get("name") if tag == "a" else None)) if tag in _BOXES else None
        if self._title is not None and tag in ("a", "span"):
            self._title.anchor = self._title.anchor or name
        if tag in _BLOCKS and tag != "br":
            self._end_title(is_sure=tag in _HEADINGS or tag == "pre")
        if self._is_no_content(node, tag):
            return False
        if tag in _PARTS:
            self._parts.append(node.id)
        if name and self._title is None and self._code is None:
            self._anchor = (name, out.length)
        self._begin(node, tag)
        return True

    def _begin(self, node: LexborNode, tag: str) -> None:
        """Open an HTML element whose children are visited."""
        if self._code is not None:
            self._code_line(tag)
            self._codes += tag == "pre"
        elif tag == "pre":
            self._code, self._codes = (self.outline.line, []), 1
        elif tag in _HEADINGS:
            self._begin_title(node, tag)
        else:
            self._begin_block(node, tag)

    def _words(self, text: str) -> None:
        """Take words of an HTML page: of code or of a title, where one is open, or of a paragraph."""
        if self._code is not None:
            self._code[1].append(text)
        elif self._title is None:
            self.outline.words(text)
        else:
            self._title.words.append(text)
            self.outline.line += text.count("\n")

    def _begin_block(self, node: LexborNode, tag: str) -> None:
        """Begin a block of an HTML page: a paragraph, an item of a list, a row of a table."""
        out = self.outline
        if tag == "img":
            self._words(node.attributes.get("alt") or "")
        elif tag == "br" and self._title is not None:
            self._title.words.append(" ")
        elif tag in ("ul", "ol", "menu"):
            start = node.attributes.get("start") or "1"
            is_number = tag == "ol" and start.isascii() and start.isdigit() and len(start) < _LONGEST_NUMBER
            self._lists.append(int(start) if is_number else None)
            out.block()
        elif tag == "li":
            self._item()
        elif tag == "tr":
            out.row()
            self._cells = []
        elif tag == "table":
            out.table()
        elif tag in ("td", "th"):
            if any(node.attributes.get(name, "1") != "1" for name in ("colspan", "rowspan")):
                out.spans()
        elif tag in _BLOCKS:
            out.block(tight=tag == "br")

    def _leave(self, tag: str) -> None:
        """Leave an HTML element whose children have been visited."""
        if tag in _PARTS:
            self._parts.pop()
        if self._code is not None:
            self._leave_code(tag)
            return
        if tag in _BLOCKS and tag != "br":
            self._end_title(is_sure=tag in _HEADINGS)
        if tag in ("ul", "ol", "menu"):
            self._lists.pop()
            self.outline.end_list()
        elif tag == "table":
            self.outline.table()
        elif tag == "tr":
            (self.outline.header if {*self._cells} == {"th"} else self.outline.row)()
        elif tag in ("td", "th"):
            self.outline.cell()
            self._cells.append(tag)
        elif tag in _BLOCKS and tag != "br":
            self.outline.block()

    def _code_line(self, tag: str) -> None:
        """Begin another line of code: a block of HTML in code begins or ends."""
        assert self._code is not None, "code is open"
        pieces = self._code[1]
        if tag == "br" or (tag in _BLOCKS and pieces and not pieces[-1].endswith(("\n", "\r"))):
            pieces.append("\r")

    def _leave_code(self, tag: str) -> None:
        """Leave an element of code in an HTML page."""
        assert self._code is not None, "code is open"
        self._codes -= tag == "pre"
        if self._codes:
            self._code_line("" if tag == "br" else tag)
            return
        self.outline.line, pieces = self._code
        self._code = None
        self.outline.verbatim("".join(pieces))

    def _item(self) -> None:
        """Begin an item of an HTML list, with its mark or number."""
        if not self._lists:
            self.outline.block(tight=True)
            return
        number = self._lists[-1]
        self.outline.block(tight=True, mark="  " * (len(self._lists) - 1) + ("- " if number is None else f"{number}. "))
        if number is not None:
            self._lists[-1] = number + 1

    def _begin_title(self, node: LexborNode, tag: str) -> None:
        """Begin a heading of an HTML page."""
        out = self.outline
        around = self._anchor[0] if self._anchor is not None and self._anchor[1] == out.length else None
        if not around and self._parts:
            around = self._parts[-1]
        self._anchor, self._parts = None, [None] * len(self._parts)
        self._title = _Title(_HEADINGS[tag], out.line, node.id, around)

    def _end_title(self, *, is_sure: bool) -> None:
        """End the open heading of an HTML page, if it has words or this is `is_sure` its end."""
        title = self._title
        if title is not None and (is_sure or any(map(str.strip, title.words))):
            self._title, line = None, self.outline.line
            self.outline.heading(title.level, "".join(title.words), title.anchor or title.around or None, title.line)
            self.outline.line = line

    def _is_no_content(self, node: LexborNode, tag: str) -> bool:
        """True if an element is navigation of the site, not part of the page; skipped elements are counted."""
        if tag in _CONTENT_OR_NOT:
            is_foot = tag == "footer" and not self._parts
            if not (
                is_foot or node.attributes.get("role") in _DROPPED_ROLES or (tag == "aside" and _is_mostly_links(node))
            ):
                return False
        elif tag == "a":
            return _is_sign(node)
        elif tag not in _DROPPED:
            return False
        if tag in _BLOCKS and self._code is None:
            self.outline.block()
        elif tag in _REPLACED:
            self._words(" ")
        self.outline.ledger.add("html_navigation_left_out", tag not in _SILENT)
        return True


def _is_sign(link: LexborNode) -> bool:
    """True if the link only points to the heading it stands in."""
    text = link.text().strip()
    return (
        len(text) <= _LONGEST_SIGN
        and bool(text)
        and _SIGNS.issuperset(text.replace("\ufe0f", "").replace("\ufe0e", ""))
    )


def _is_mostly_links(node: LexborNode) -> bool:
    """True if most of the text of an element is links: a menu."""
    links = sum(len(link.text()) for link in node.css("a"))
    return 2 * links > len(node.text())


def _with_lines(text: str, line: int) -> str:
    """Return the HTML page with a comment before each block that says its line, and not too deep."""
    pieces: list[str] = []
    done = at = 0  # as far as the text was copied; as far as its lines were counted
    place, counted = line, 0
    open_tags: list[str] = []
    closes: list[int] = []
    never_closed: set[str] = set()
    while (tag := _TAG.search(text, at)) is not None:
        at, name = tag.end(), (tag["name"] or "").lower()
        if not name:  # a comment, an instruction or CDATA: dropped, or its text
            if (found := _not_shown(text, tag, closes)) is None:
                break
            pieces += (text[done : tag.start()], found[0])
            done = at = found[1]
            continue
        # a block: its line is written before it
        if not tag["end"] and name in _BLOCKS:
            place += text.count("\n", counted, tag.start())
            counted = tag.start()
            swallowed = name == "pre" and text.startswith("\n", tag.end())  # a newline that is no text
            pieces += (text[done : tag.start()], f"<!--line {place + swallowed}-->")
            done = tag.start()
        # tags nested too deep are left out, and what they hold stays
        if name not in _CLOSED_BY_OTHERS and _is_too_deep(open_tags, name, is_end=bool(tag["end"])):
            pieces += (text[done : tag.start()], " ")
            done = tag.end()
        # scripts and the like: no tags are looked for before their end
        if not tag["end"] and name in _OPAQUE:
            closing = None if name in never_closed else _end_of(name).search(text, at)
            if closing is None:
                never_closed.add(name)
            if closing is None and name == "title" and (after := _TAG.search(text, at)) is not None:
                pieces += (text[done : after.start()], "</title>")  # nobody means all of the page
                done = at = after.start()
            elif closing is None:
                break
            else:
                at = closing.start()
    pieces.append(text[done:])
    return "".join(pieces)


@cache
def _end_of(name: str) -> re.Pattern[str]:
    """Return the pattern of an HTML element's end tag."""
    return re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)


def _not_shown(text: str, mark: re.Match[str], closes: list[int]) -> tuple[str, int] | None:
    """Return the text for an HTML comment, instruction or CDATA that begins with a mark, and its end; None if it never ends.

    `closes` keeps where the next "?>" is, -1 where there is none.
    """
    at = mark.end()
    if mark[0] == "<!--":
        if text.startswith((">", "->"), at):
            return "", text.index(">", at) + 1
        found = _COMMENT_END.search(text, at)
        return found and ("", found.end())
    if mark[0] == "<?":
        if not closes or -1 < closes[-1] < at:  # looked for once, not again at each of a million
            closes[:] = [text.find("?>", at)]
        close, end = closes[-1], text.find(">", at)
        if close >= 0 and (_PROGRAM.match(text, mark.start()) or text.find("<", end, close) < 0):
            return "", close + 2
        return None if end < 0 else ("", end + 1)
    close = text.find("]]>", at)  # XHTML has text so; where it is not closed, a browser takes it for a comment
    return (escape(text[at:close], quote=False), close + 3) if close >= 0 else None


def _is_too_deep(open_tags: list[str], name: str, *, is_end: bool) -> bool:
    """Note a start or an end tag of HTML; True if it is to be left out, as it is nested too deeply."""
    if not is_end:
        open_tags.append(name)
        return len(open_tags) > _DEEPEST
    for place in range(len(open_tags) - 1, max(len(open_tags) - 2 * _DEEPEST, 0) - 1, -1):
        if open_tags[place] == name:
            was_deep = place >= _DEEPEST
            del open_tags[place : place + 1 if name not in _BLOCKS else None]
            return was_deep
        if open_tags[place] in _WALLS:
            break
    return len(open_tags) > _DEEPEST


def to_utf8(blocks: Iterator[bytes], *, name: str, bad_bytes: str, ledger: Ledger) -> Iterator[bytes]:
    """Yield the blocks of an HTML page as UTF-8; a page in another encoding names it in its head.

    A mark at its beginning (BOM) comes first, then a `meta` element, then an XML declaration, as the HTML standard has it.

    Raises:
        InputError: bytes that the encoding does not have, where `bad_bytes` is "fail".
    """
    # the encoding that the head declares
    head = b""
    for block in blocks:
        head += block
        if len(head) >= _HEAD_BYTES:
            break
    blocks = chain([head], blocks)
    label = _declared(head[:_HEAD_BYTES])
    encoding = None if label is None else encoding_of(label)
    if label is not None and encoding is None:
        ledger.add_named("files_of_unknown_encoding", label)
        ledger.warn("encoding", f"{name} declares the unknown encoding {label}; the page was read as UTF-8")
    # UTF-8 is decoded later, as of any file
    if encoding in (None, "utf-8"):
        yield from blocks
        return
    # decoded by that encoding, with its bad bytes counted
    assert encoding is not None
    decoder = codecs.getincrementaldecoder(encoding)("strict" if bad_bytes == "fail" else "replace")
    line, is_ascii = 1, True
    try:
        for block in chain(blocks, [b""]):
            text = decoder.decode(block, final=not block)
            if is_ascii and not text.isascii():  # else it is UTF-8, too
                ledger.add_named("files_decoded_from", encoding)
                is_ascii = False
            # characters that the encoding does not have: replaced or left out, and told with their line
            if bad := text.count("\ufffd"):
                ends = text.count("\n", 0, text.index("\ufffd"))
                done = "replaced" if bad_bytes == "replace" else "dropped"
                ledger.warn(
                    "bad_bytes",
                    f"bytes that are invalid in the declared encoding {encoding} were {done}: {name}, line {line + ends}",
                )
                ledger.add("bytes_replaced" if bad_bytes == "replace" else "bytes_skipped", bad)
            line += text.count("\n")
            yield (text if bad_bytes == "replace" else text.replace("\ufffd", "")).encode()
    except UnicodeDecodeError as error:
        hint = "fix the file, or use --bad-bytes replace or --bad-bytes skip"
        what = f"the page has bytes that are invalid in the declared encoding {encoding}"
        raise InputError(what, where=name, got=error, hint=hint) from None


def _declared(head: bytes) -> str | None:
    """Return the encoding that an HTML page declares."""
    if head.startswith(b"\xef\xbb\xbf"):
        return None
    found = _CHARSET.search(_COMMENT.sub(b"", head)) or _XML.match(head)
    return found and found[1].decode().lower()


def encoding_of(label: str) -> str | None:
    """Return Python's name of an HTML page's encoding, "utf-8" too; None where there is none."""
    for name in (label, label.removeprefix("x-"), label.removesuffix("-i"), label.replace("windows-", "cp")):
        try:
            known = codecs.lookup(name)
            encoding = _MEANT.get(known.name, known.name)
            "".encode(encoding)  # hex, rot13 and their like are no encodings of text
        except (LookupError, TypeError):
            continue
        return None if known.name.replace("-", "_") in _NO_TEXT else encoding.replace("utf-8-sig", "utf-8")
    return None


MARKUP = Markup("html", read_html, re.compile(r"\s*<(?:h[1-6]|section|article|div|p)\b", re.IGNORECASE), 4 << 20)
