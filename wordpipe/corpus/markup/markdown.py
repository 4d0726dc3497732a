"""Markdown as an outline: CommonMark with tables and strikethrough, read by markdown-it-py.

Links and emphasis leave their text, images their description, code its lines; HTML in it is read as HTML, comments and the
block of settings at the head of a file (front matter) are no text. Lines are exact, but for words behind a line end inside a
code span or the target of a link, which count from the line before.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from wordpipe.corpus.markup.html_pages import read_html
from wordpipe.corpus.markup.outline import Outline

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_DEEPEST = 60  # quotes and lists in each other
_LONGEST_INLINE = 1 << 16  # characters of a paragraph whose marks are looked at
_MOST_BRACKETS = 1 << 22  # brackets in it times its length: they take quadratic time, 200 s in 5 MB of "[a][a][a]"
_FRONT = re.compile(r"\A---[ \t]*\n(?P<front>(?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE = re.compile(r"^title[ \t]*:[ \t]*(?P<quote>[\"']?)(?P<title>[^\n]+?)(?P=quote)[ \t]*$", re.MULTILINE)
_OWN_ANCHOR = re.compile(r"\s*\{#(?P<anchor>[^\s{}]+)\}\s*\Z")  # kramdown, Pandoc, MyST
_ALERT = re.compile(r"\A\[!(?P<kind>NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]", re.IGNORECASE)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_PLAIN_OF = {"softbreak": "\n", "hardbreak": "\n"}
_DROPPED_TAG = re.compile(r"</?[A-Za-z]")


class TooDeepError(ValueError):
    """More in each other than anyone writes."""


def read_markdown(text: str, line: int, outline: Outline) -> None:
    """Tell the outline what a Markdown text, which begins in this line of the source, holds.

    Raises:
        TooDeepError: over 60 quotes or lists in each other.
    """
    if line == 1 and (front := _FRONT.match(text)):
        if title := _TITLE.search(front["front"]):
            outline.title = title["title"]
        line += text.count("\n", 0, front.end())
        text = text[front.end() :]
    lists: list[int | None] = []  # the next number of each list that is open, None where it has bullets
    tokens = iter(_parser().parse(text))
    for token in tokens:
        if token.map is not None:
            outline.line = line + token.map[0]
        match token.type:
            case "heading_open":
                _heading(next(tokens), int(token.tag[1:]), outline)
            case "inline":
                _inline(token, outline)
            case "fence" | "code_block":
                outline.line += token.type == "fence"
                outline.verbatim(token.content)
            case "html_block":
                read_html(token.content, outline.line, outline, is_page=False)
            case _:
                _structure(token, lists, outline)


def _structure(token: "Token", lists: list[int | None], outline: Outline) -> None:
    """The beginnings and ends of paragraphs, lists and tables."""
    match token.type:
        case "bullet_list_open":
            lists.append(None)
        case "ordered_list_open":
            lists.append(int(token.attrs.get("start", 1)))
        case "list_item_open":
            number = lists[-1]
            outline.block(tight=True, mark="  " * (len(lists) - 1) + ("- " if number is None else f"{number}. "))
            lists[-1] = None if number is None else number + 1
        case "bullet_list_close" | "ordered_list_close":
            lists.pop()
            outline.end_list()
        case "tr_open" | "tr_close":
            outline.row()
        case "td_close" | "th_close":
            outline.cell()
        case "paragraph_open" | "paragraph_close" | "hr" | "blockquote_open":
            outline.block(tight=token.hidden)  # of a list without blank lines


def slug(text: str) -> str:
    """The anchor that GitHub gives a heading of this text, before it numbers those that come again.

    >>> slug("What's new in `2.0`?")
    'whats-new-in-20'
    """
    return _NOT_IN_SLUG.sub("", text.strip().lower()).replace(" ", "-")


def _heading(inline: "Token", level: int, outline: Outline) -> None:
    line, title = outline.line, _plain(inline)
    if own := _OWN_ANCHOR.search(title):
        title, anchor = title[: own.start()], own["anchor"]
    else:
        anchor = outline.anchor(slug(title)) or None
    outline.heading(level, title, anchor, line)


def _inline(token: "Token", outline: Outline) -> None:
    if not token.children and token.content:
        outline.ledger.add("paragraphs_left_with_markup")
    outline.words(_ALERT.sub(lambda found: f"{found['kind'].capitalize()}:", _plain(token)))


def _plain(token: "Token") -> str:
    """The words of a line of text with markup, newlines where the source has them."""
    if not token.children:
        return token.content
    pieces = []
    for child in token.children:
        if child.type == "image":
            pieces.append(_plain(child))
        elif child.type == "html_inline":
            pieces.append(" " if child.content.startswith(("<br", "<BR")) else "")
        else:
            pieces.append(_PLAIN_OF.get(child.type) or child.content)
    return "".join(pieces)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    parser.block.tokenize = _refusing(parser.block.tokenize)  # type: ignore[method-assign]
    parser.inline.parse = _bounded(parser.inline.parse)  # type: ignore[assignment,method-assign]
    return parser


def _refusing(tokenize: Callable[..., None]) -> Callable[..., None]:
    """The parser of blocks, which would leave out in silence what lies deeper than it goes."""

    def checked(state: object, first: int, last: int) -> None:
        if getattr(state, "level", 0) >= _DEEPEST:
            raise TooDeepError
        tokenize(state, first, last)

    return checked


def _bounded(parse: Callable[..., object]) -> Callable[..., object]:
    """The parser of text with markup, which leaves a very long one as it is."""

    def bounded(source: str, md: object, env: object, tokens: object) -> None:
        if len(source) <= _LONGEST_INLINE and len(source) * source.count("[") <= _MOST_BRACKETS:
            parse(source, md, env, tokens)

    return bounded
