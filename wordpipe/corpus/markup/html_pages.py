"""HTML as an outline, read by lexbor (selectolax), the HTML5 parser that mends what browsers mend.

Left out are scripts, styles, templates, buttons, media and what is clearly no content: `nav`, the footer of the page, an
`aside` that is mostly links, what has the role navigation, search, banner or contentinfo, and the signs (¶, #) that link to a
heading. lexbor tells no lines: before it reads a page, a comment with the number of the line is put before every block. So a
line is exact where a block begins and counted on by the newlines of its text; after a tag that is spread over several lines it
is too small until the next block.

Elements deeper than 500 in each other become their text alone: lexbor takes 10 seconds for 100,000 in each other.
"""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from wordpipe.corpus.markup.outline import Outline, names

_DEEPEST = 500
_LONGEST_NUMBER = 9  # digits of the first number of a list
_LONGEST_SIGN = 3  # characters of a link that only points to its heading
_DROPPED = names("""
    script style template noscript nav button select textarea iframe object svg canvas audio video map
    datalist dialog
""")
_DROPPED_ROLES = frozenset(("navigation", "search", "banner", "contentinfo"))
_PARTS = frozenset(("article", "section"))  # have footers of their own
_SILENT = names("""
    script style template noscript button select textarea iframe object svg canvas audio video map datalist
""")
_CONTENT_OR_NOT = frozenset(["footer", "aside", "header", "div", "section", "ul", "form"])
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = names("""
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main ol option p pre search section
    summary table tbody td tfoot th thead tr ul
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
    r"<!--|<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,40})(?:[^<>\"']++|\"[^\"]{0,4000}\"|'[^']{0,4000}')*+>?"
)
_COMMENT_END = re.compile(r"--!?>")
_LINE_MARK = re.compile(r"line (\d{1,12})\Z")
_SIGNS = frozenset("¶§#🔗")
_BOXES = frozenset(("section", "article", "div", "main", "a", "span", "details", "dt"))  # whose id may name a heading


def read_html(text: str, line: int, outline: Outline, *, is_page: bool = True) -> None:
    """Tell the outline what an HTML text, which begins in this line of the source, holds; a `page` may have a title."""
    page = LexborHTMLParser(_with_lines(text, line))
    if is_page and outline.title is None and (title := page.css_first("head > title")) is not None:
        outline.title = title.text() or None
    outline.line = line
    if page.body is not None:
        _Walk(outline).over(page.body)
    outline.end_list()


class _Walk:
    """One walk over a page: elements in order, those that are dropped not entered."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self._lists: list[int | None] = []  # the next number of each list that is open, None where it has bullets
        self._anchor: tuple[str, int] | None = None  # an id, and how much had been said when it came
        self._parts: list[
            str | None
        ] = []  # the ids of the sections and articles that are open, until a heading has taken one

    def over(self, root: LexborNode) -> None:
        """Walk over all in `root`, without recursion: it may be deep."""
        node, depth = root, 0
        while True:
            tag = node.tag or ""
            child = node.first_child if self._enter(node, tag) else None
            if child is not None:
                node, depth = child, depth + 1
                continue
            while True:
                if tag[0] != "-":
                    self._leave(tag)
                if depth == 0:
                    return
                if (after := node.next) is not None:
                    node = after
                    break
                above = node.parent
                assert above is not None
                node, depth, tag = above, depth - 1, above.tag or ""

    def _enter(self, node: LexborNode, tag: str) -> bool:
        """What an element, text or comment begins; whether to look into it."""
        out = self.outline
        if tag[0] == "-":
            if tag == "-text":
                out.words(node.text_content or "")
            elif tag == "-comment" and (mark := _LINE_MARK.match(node.comment_content or "")):
                out.line = int(mark[1])
            return False
        if self._is_no_content(node, tag):
            return False
        if tag in _PARTS:
            self._parts.append(node.id)
        if tag in _BOXES and (name := node.id or (node.attributes.get("name") if tag == "a" else None)):
            self._anchor = (name, out.length)
        if tag in _HEADINGS:
            self._heading(node, tag)
        elif tag == "pre":
            out.verbatim(node.text())
        else:
            self._begin_block(node, tag)
            return True
        return False

    def _begin_block(self, node: LexborNode, tag: str) -> None:
        out = self.outline
        if tag == "img":
            out.words(node.attributes.get("alt") or "")
        elif tag in ("ul", "ol", "menu"):
            start = node.attributes.get("start") or "1"
            is_number = tag == "ol" and start.isascii() and start.isdigit() and len(start) < _LONGEST_NUMBER
            self._lists.append(int(start) if is_number else None)
            out.block()
        elif tag == "li":
            self._item()
        elif tag == "tr":
            out.row()
        elif tag in _BLOCKS and tag not in ("td", "th"):
            out.block(tight=tag == "br")

    def _leave(self, tag: str) -> None:
        if tag in _PARTS:
            self._parts.pop()
        if tag in ("ul", "ol", "menu"):
            self._lists.pop()
            self.outline.end_list()
        elif tag == "tr":
            self.outline.row()
        elif tag in ("td", "th"):
            self.outline.cell()
        elif tag in _BLOCKS and tag != "br":
            self.outline.block()

    def _item(self) -> None:
        if not self._lists:
            self.outline.block(tight=True)
            return
        number = self._lists[-1]
        self.outline.block(tight=True, mark="  " * (len(self._lists) - 1) + ("- " if number is None else f"{number}. "))
        if number is not None:
            self._lists[-1] = number + 1

    def _heading(self, node: LexborNode, tag: str) -> None:
        out = self.outline
        inside = node.css_first("a[id], span[id], a[name]")
        anchor = node.id or (inside and (inside.id or inside.attributes.get("name")))
        if not anchor and self._anchor is not None and self._anchor[1] == out.length:
            anchor = self._anchor[0]
        if not anchor and self._parts:
            anchor = self._parts[-1]
        self._anchor, self._parts = None, [None] * len(self._parts)
        line, title = out.line, _text_of(node)
        out.heading(_HEADINGS[tag], title, anchor or None, line)

    def _is_no_content(self, node: LexborNode, tag: str) -> bool:
        """Whether it is a way through the site, not part of the page; such are counted."""
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
        self.outline.ledger.add("html_navigation_left_out", tag not in _SILENT)
        return True


def _is_sign(link: LexborNode) -> bool:
    """Whether the link only points to the heading it stands in."""
    text = link.text().strip()
    return len(text) <= _LONGEST_SIGN and bool(text) and _SIGNS.issuperset(text.replace("\ufe0f", ""))


def _is_mostly_links(node: LexborNode) -> bool:
    links = sum(len(link.text()) for link in node.css("a"))
    return 2 * links > len(node.text())


def _text_of(heading: LexborNode) -> str:
    """The text of a heading without signs and buttons, which are taken out of the page."""
    for node in heading.css("a, button, script, style, template"):
        if node.tag != "a" or _is_sign(node):
            node.decompose()
    return heading.text()


def _with_lines(text: str, line: int) -> str:
    """The page with a comment before each block that says its line, without its own comments, and not too deep."""
    pieces: list[str] = []
    done = at = 0  # as far as the text was copied; as far as its lines were counted
    place, counted = line, 0
    open_tags: list[str] = []
    while (tag := _TAG.search(text, at)) is not None:
        at, name = tag.end(), (tag["name"] or "").lower()
        if not name:
            if (end := _comment_end(text, tag.end())) is None:
                break
            pieces.append(text[done : tag.start()])
            done = at = end
            continue
        if not tag["end"] and name in _BLOCKS:
            place += text.count("\n", counted, tag.start())
            counted = tag.start()
            swallowed = name == "pre" and text.startswith("\n", tag.end())  # a newline that is no text
            pieces += (text[done : tag.start()], f"<!--line {place + swallowed}-->")
            done = tag.start()
        if name not in _CLOSED_BY_OTHERS and _is_too_deep(open_tags, name, is_end=bool(tag["end"])):
            pieces += (text[done : tag.start()], " ")
            done = tag.end()
        if not tag["end"] and name in _OPAQUE:
            closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, at)
            if closing is None:
                break
            at = closing.start()
    pieces.append(text[done:])
    return "".join(pieces)


def _comment_end(text: str, at: int) -> int | None:
    """Where a comment ends that was opened before `at`; None where it never does."""
    if text.startswith((">", "->"), at):
        return text.index(">", at) + 1
    end = _COMMENT_END.search(text, at)
    return end and end.end()


def _is_too_deep(open_tags: list[str], name: str, *, is_end: bool) -> bool:
    """Note a start or an end tag; whether it is to be left out, as it lies too deep."""
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
