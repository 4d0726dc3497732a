"""The page of one text, `/text/ID`: all of the text with the words of the question marked, and links to texts beside the text.

Its parameters are `index`, `q` (the question), `row` (the row, where the record has several, or no id), `start` (the first
character of a part of a long text), `whole` (1: all texts of its document) and `part` (a row of the part of a long document),
`path` (rows of the texts from which one came to this similar one, for the way back), and those of the list of answers to which
the way back leads, or `map` (a layout): then it leads to the map.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, count
from typing import Any

from wordpipe.corpus import unwrapped
from wordpipe.web.links import text_url
from wordpipe.web.page.parts import (
    LAYOUTS,
    Inner,
    Markup,
    cut_words,
    marks,
    menu,
    names_of,
    over_texts,
    problem,
    prose,
    short_place,
    tag,
    url,
    way_back,
)

_PART = 100_000  # characters of a text
_LED_TO = 60  # characters of the text that a link leads to
_LIKE = 5  # similar texts, each of another document
_PATH = 10  # texts of a way from one to a similar one
_BEGINNING = 160  # characters of each
_LONGEST = 300  # characters of a value
_LONG = 1_500  # characters of a text below which the links beside it stand again on a wide screen, too
_KEYS = [
    tag("kbd", "j"), tag("kbd", "k"), " next or previous text, ", tag("kbd", "Esc"), " back",
]  # fmt: skip
_MARK_KEYS = [tag("kbd", "n"), tag("kbd", "p"), " next or previous marked word, "]
_ADDRESS = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_BREAK = re.compile(
    r"\n(?:[^\S\n]*\n)+|(?<=[^\n]{100})\n"
)  # of paragraphs: empty lines, and the end of a line that is long


async def reading_view(
    record_id: str, params: Mapping[str, str], ask: Any, about: Mapping[str, Any], root: str
) -> tuple[int, str, int | None, Markup]:
    """Return the status, the title, the row and the HTML of the page of a text.

    Args:
        record_id: of the record; empty where the row alone says which text it is.
        params: of the URL.
        ask: gives the JSON of the endpoints.
        about: what is served.
        root: the way from the address of the page to that of `/`.
    """
    asked, row = params.get("q", "").strip(), params.get("row", "")
    given = {"index": params.get("index", ""), "q": asked, "start": params.get("start", ""), "length": str(_PART)}
    status, found = await ask("/text", {**given, "row": row} if row else {**given, "id": record_id})
    if row and record_id and (status != 200 or str(found.get("id")) != record_id):  # the index was made again
        row = ""
        status, found = await ask("/text", {**given, "id": record_id})
    if status != 200:
        to = url(root, q=asked, index=params.get("index"), **way_back(params))
        back = tag("p", tag("a", f"← back to the {'answers' if asked else 'search'}", href=to), class_="links")
        return status, "text", None, tag("div", back, tag("h1", "Not shown", class_="unseen"), problem(found))
    index, title = found["index"], str(found.get("title") or "")
    path = [one for one in params.get("path", "").split(",") if one.isdecimal()][-_PATH:]
    mapped = params.get("map") if params.get("map") in ("auto", *LAYOUTS) else None  # the text was opened from the map
    way = {**way_back(params), "map": mapped}
    here = {**way, "path": ",".join(path)}
    whole = await _whole(found, params.get("part", ""), ask, asked) if params.get("whole") == "1" else []
    beside = {
        name: (await ask("/text", {"index": index, "row": str(row_there), "length": str(_BEGINNING)}))[1]
        for name in ("before", "after", "document_before", "document_after")
        if (row_there := found[name]) is not None and not (whole and name in ("before", "after"))
    }
    first = found
    if record_id and row:
        _, first = await ask("/text", {"index": index, "id": record_id, "length": "1"})
    able = next((one["can"] for one in over_texts(about) if one["name"] == index), ())
    like, names = list[Mapping[str, Any]](), names_of([found])
    if "similar" in able and not whole:
        like_status, near = await ask(
            "/similar",
            {"index": index, "row": str(found["row"]), "k": str(_LIKE + 1), "per_document": "1", "format": "json"},
        )
        hits = near["hits"] if like_status == 200 else []
        like = [hit for hit in hits if hit["doc_id"] != found["doc_id"]][:_LIKE]
        names = names_of([found, *like])
    label, to = f"← back to the {'answers' if asked else 'search'}", url(root, q=asked, index=index, **way_back(params))
    if mapped:
        entries = menu(about, {**params, "index": index}, root=root, row=found["row"])
        label, to = "← back to the map", next((href for view, _, href in entries if view == "map"), root)
    before = await _text_before(path, ask, index, asked, root, way) if path else None
    back = tag("a", label, href=to, class_="back")
    ids, titled = count(1), found.get("title_pieces") or [[title, False]]
    walk = _beside(found, beside, whole, lambda row, **more: text_url({"row": row}, index, asked, root, **here, **more))
    own = _own(found, first, index, asked, root, {"whole": "1", "part": params.get("part")} if whole else None)
    heading = tag("h1", tag("bdi", _piece(titled, 0, len(title), ids)), class_="title", dir="auto") if title else None
    is_long = bool(whole) or len(found["text"]) > _LONG
    begun = found
    if whole:  # stands where its first text begins
        _, begun = await ask("/text", {"index": index, "row": str(whole[0]["row"]), "length": "1"})
    facts = _facts(found, begun, names, ids, is_one=len(over_texts(about)) < 2)
    marked = _marked(found, whole)
    body = (
        tag("div", _texts(whole, found, ids), class_="text whole code" if found.get("code") else "text whole")
        if whole
        else [
            tag("div", _text(found, ids), class_="text code" if found.get("code") else "text", dir="auto"),
            _parts(found, index, asked, root, here),
        ]
    )
    shown = tag(
        "article", tag("p", back, before, class_="links"), walk and tag("nav", walk, aria_label="This document"),
        heading, facts, _on_paper(asked, index, found, whole), marked, body,
        walk and tag("nav", walk, aria_label="This document, below its text", class_=None if is_long else "narrow"),
        tag("p", back, tag("a", "to the top", href="#main", class_="to-top"), class_="links") if whole else None, own,
        _like(like, names, index, asked, root, {**way, "path": ",".join([*path, str(found["row"])][-_PATH:])}),
        tag("p", "Keys: ", _MARK_KEYS if marked else None, _KEYS, class_="keys by-keys"), class_="reading",
    )  # fmt: skip
    return 200, title or short_place(found, names) or f"row {found['row']}", found["row"], shown


async def _whole(found: Mapping[str, Any], part: str, ask: Any, asked: str) -> list[Mapping[str, Any]]:
    """Return the texts of the document of a text, or of a part of a long document; none of a document of one text."""
    is_part = part.isdecimal() and found["first"] <= int(part) <= found["last"]
    row = part if is_part else str(found["row"])
    status, whole = await ask("/text", {"index": found["index"], "row": row, "q": asked, "length": "1", "whole": "1"})
    return whole["texts"] if status == 200 and found["first"] < found["last"] else []


async def _text_before(
    path: Sequence[str], ask: Any, index: str, asked: str, root: str, way: Mapping[str, Any]
) -> Markup | None:
    """Return a link back to the text before a similar one, the last row of the path; None for an unknown row."""
    status, found = await ask("/text", {"index": index, "row": path[-1], "length": str(_BEGINNING)})
    if status != 200:
        return None
    to = text_url(found, index, asked, root, **way, path=",".join(path[:-1]))
    name = cut_words(str(found.get("title") or found["text"]), _LED_TO)
    return tag("a", "← back to ", tag("bdi", name), href=to, class_="back-text")


def _text(found: Mapping[str, Any], ids: Iterator[int]) -> list[Inner]:
    """Return a text, or the part of it that is shown, in paragraphs, with its marks; the one that answers is set off."""
    pieces = _flowing(found.get("pieces") or [[found["text"], False]], found)
    stop = found["start"] + len(found["text"])
    blocks = [(0, len(found["text"]))] if found.get("code") else paragraphs(found["text"])
    answer = _answering(blocks, pieces, found.get("passage"))
    shown: list[Inner] = [
        _paragraph(pieces, block, ids, is_answer=place == answer) for place, block in enumerate(blocks)
    ]
    return ["… " if found["start"] else None, *shown, " …" if stop < found["characters"] else None]


def _texts(texts: Sequence[Mapping[str, Any]], found: Mapping[str, Any], ids: Iterator[int]) -> list[Inner]:
    """Return the texts of a document one after the other, each with its number; the one that was found is set off."""
    shown = list[Inner]()
    for one in texts:
        pieces = _flowing(one.get("pieces") or [[one["text"], False]], found)
        blocks = [(0, len(one["text"]))] if found.get("code") else paragraphs(one["text"])
        is_found = one["row"] == found["row"] and any(is_marked for _, is_marked in pieces)  # else it answers nothing
        shown.append(
            tag(
                "div", [_paragraph(pieces, block, ids) for block in blocks],
                id=f"text-{one['row']}", class_="answering" if is_found else None, dir="auto",
            )
        )  # fmt: skip
    return shown


def _flowing(pieces: Sequence[Sequence[Any]], found: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Return the pieces of a text in which newlines that are only a right margin's work are spaces; code stays."""
    if found.get("code"):
        return pieces
    text, starts = unwrapped("".join(own for own, _ in pieces)), accumulate((len(own) for own, _ in pieces), initial=0)
    return [[text[at : at + len(own)], is_marked] for at, (own, is_marked) in zip(starts, pieces, strict=False)]


def _paragraph(
    pieces: Sequence[Sequence[Any]], block: tuple[int, int], ids: Iterator[int], *, is_answer: bool = False
) -> Markup:
    """Return a paragraph of a text with its marks; the one that answers says so."""
    title = "the paragraph with most words of the question" if is_answer else None
    return tag("p", _piece(pieces, *block, ids), class_="answering" if is_answer else None, title=title)


def paragraphs(text: str) -> list[tuple[int, int]]:
    r"""Return where the paragraphs of a text begin and end; lines of wrapped prose, of verses and lists stay together.

    >>> paragraphs("one\nline\n\ntwo"), paragraphs(" ")
    ([(0, 8), (10, 13)], [(0, 1)])
    """
    ends = [(one.start(), one.end()) for one in _BREAK.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    blocks = zip(starts, [*(start for start, _ in ends), len(text)], strict=True)
    return [(start, stop) for start, stop in blocks if stop > start] or [(0, len(text))]


def _answering(
    blocks: Sequence[tuple[int, int]], pieces: Sequence[Sequence[Any]], passage: Mapping[str, int] | None
) -> int | None:
    """Return the place of the paragraph that has most marks of a passage; None without a passage, or of a single paragraph."""
    if passage is None or len(blocks) < 2:
        return None
    starts = accumulate((len(text) for text, _ in pieces), initial=0)
    marks = [at for at, (_, is_marked) in zip(starts, pieces, strict=False) if is_marked]
    counts = [
        sum(max(start, passage["start"]) <= at < min(stop, passage["stop"]) for at in marks) for start, stop in blocks
    ]
    return counts.index(max(counts))


def _on_paper(asked: str, index: str, found: Mapping[str, Any], whole: Sequence[Mapping[str, Any]]) -> Markup:
    """Return what paper says of a text: which part of its document it is, its index, and what marked words are of."""
    n, number = found["last"] - found["first"] + 1, found["row"] - found["first"] + 1
    shown = (
        f"texts {whole[0]['row'] - found['first'] + 1:,} to {whole[-1]['row'] - found['first'] + 1:,}" if whole else ""
    )
    part = f"{shown or f'text {number:,}'} of the {n:,} of this document" if n > len(whole or [found]) else ""
    bold = f"bold: words of the question “{asked}”" if asked else ""
    said = " · ".join(filter(None, [part or ("whole document" if whole else ""), f"index: {index}", bold]))
    return tag("p", tag("bdi", said), class_="paper")


def _marked(found: Mapping[str, Any], whole: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return how many words of a text and its title are marked, with a link to the first; the script goes on to the next."""
    n, of_title, of_fields = (
        sum(is_marked for one in shown for _, is_marked in one)
        for shown in (
            [one.get("pieces") or () for one in whole or [found]],
            [found.get("title_pieces") or ()],
            (found.get("field_pieces") or {}).values(),
        )
    )
    elsewhere = [f"{count} in the {where}" for count, where in ((of_title, "title"), (of_fields, "fields")) if count]
    total = n + of_title + of_fields
    said = f"{total:,} marked words" + "".join(f", {one}" for one in elsewhere if n or len(elsewhere) > 1)
    first = tag("a", "go to the first", href="#mark-1")
    return tag("p", f"{said} · ", first, class_="marks hint") if total > 1 else None


def _piece(pieces: Sequence[Sequence[Any]], start: int, stop: int, ids: Iterator[int]) -> list[Inner]:
    """Return the characters from `start` to `stop` of a text in pieces, its marks with the next ids."""
    shown, at = list[Inner](), 0
    for text, is_marked in pieces:
        if own := text[max(0, start - at) : max(0, stop - at)]:
            shown.append(tag("mark", prose(own), id=f"mark-{next(ids)}") if is_marked else prose(own))
        at += len(text)
    return shown


def _facts(
    found: Mapping[str, Any], begun: Mapping[str, Any], names: Mapping[str, str], ids: Iterator[int], *, is_one: bool
) -> Markup:
    """Return where the shown texts begin, id and fields of a text with their marks, and its index if not the only one."""
    metadata = {name: value for name, value in (found.get("metadata") or {}).items() if value not in (None, [], "")}
    facts = {"id": found.get("id"), "index": None if is_one else found["index"], **metadata}
    marked = found.get("field_pieces") or {}
    shown = [_fact(name, given, marked.get(name), ids) for name, given in facts.items() if given is not None]
    place, source = short_place(begun, names), found.get("source")
    return tag("p", tag("bdi", place, class_="place", title=source) if place else None, shown, class_="about")


def _fact(name: str, given: Any, pieces: Sequence[Sequence[Any]] | None, ids: Iterator[int]) -> Markup:
    """Return a field of a text, in pieces if words of it are marked; a value that is the address of a page leads there."""
    value = ", ".join(map(marks, given)) if isinstance(given, list) else marks(given)
    said: Inner = _piece(pieces or [[value, False]], 0, _LONGEST, ids)
    if _ADDRESS.fullmatch(value):
        said = tag("a", said, href=value, rel="noreferrer")
    return tag("bdi", f"{name} " if value != name or pieces else None, said, class_="field")


def _parts(found: Mapping[str, Any], index: str, asked: str, root: str, way: Mapping[str, Any]) -> Markup | None:
    """Return links to the other parts of a long text."""
    start, stop = found["start"], found["start"] + len(found["text"])
    if not start and stop >= found["characters"]:
        return None
    links: list[Inner] = [f"characters {start + 1:,} to {stop:,} of {found['characters']:,} "]
    if start:
        links.append(
            [
                tag("a", "previous part", href=text_url(found, index, asked, root, start=max(0, start - _PART), **way)),
                " ",
            ]
        )
    if found["next"] is not None:
        links.append(tag("a", "next part", href=text_url(found, index, asked, root, start=found["next"], **way)))
    return tag("p", links, class_="links")


def _beside(
    found: Mapping[str, Any], beside: Mapping[str, Any], whole: Sequence[Mapping[str, Any]], address: Callable[..., str]
) -> Markup | None:
    """Return links to the texts before and after a text in its document, which say what these are, and to all of the document.

    Beside all texts of a long document these lead to its other parts. Where a document begins or ends they lead to those
    beside it in the index.

    Args:
        found: the text.
        beside: the beginnings of the texts before and after, and of those of the documents before and after.
        whole: the texts of the document that are shown instead.
        address: of a text of the document.
    """
    first, last, row = found["first"], found["last"], found["row"]
    number, n = row - first + 1, last - first + 1
    sides = dict[str, Inner]()
    if whole:
        begun, ended = whole[0]["row"], whole[-1]["row"]
        given = {"whole": "1"}
        if begun > first:
            to = address(row, **given, part=begun - 1)
            sides["before"] = tag("a", "← previous part", href=to)
        if ended < last:
            sides["after"] = tag("a", "continue →", href=address(row, **given, part=ended + 1))
        is_part = begun > first or ended < last
        said = (
            f"texts {begun - first + 1:,} to {ended - first + 1:,} of {n:,}"
            if is_part
            else f"whole document, {n:,} texts"
        )
        middle: list[Inner] = [said, " · ", tag("a", f"text {number:,} alone", href=address(row))]
    else:
        for name, label, kind in (("before", "← previous text", "prev"), ("after", "next text →", "next")):
            if other := beside.get(name):
                sides[name] = _beside_link(label, other, found, address(found[name]), kind)
        middle = [
            f"text {number:,} of {n:,} · ",
            [tag("a", "to the beginning", href=address(first)), " · "] if row > first else None,
            tag("a", "whole document", href=f"{address(row, whole='1')}#text-{row}"),
        ] if n > 1 else []  # fmt: skip
    for name, label, kind in (("before", "← previous document", "prev"), ("after", "next document →", "next")):
        if name not in sides and (other := beside.get(f"document_{name}")):
            to = address(found[f"document_{name}"], **({"whole": "1"} if whole else {}))
            sides[name] = _beside_link(label, other, found, to, kind)
    if not sides and n == 1:
        return None
    cells = [tag("span", sides.get("before")), tag("span", middle), tag("span", sides.get("after"))]
    return tag("div", cells, class_="beside")


def _beside_link(label: str, other: Mapping[str, Any], found: Mapping[str, Any], to: str, kind: str) -> Markup:
    """Return the link from a text to the one before or after it, which says how that begins, and its key."""
    led = [tag("span", label), tag("bdi", _led_to(other, found), class_="led")]
    return tag("a", led, href=to, rel=kind, title=f"or the key {'j' if kind == 'next' else 'k'}")


def _own(
    found: Mapping[str, Any],
    first: Mapping[str, Any],
    index: str,
    asked: str,
    root: str,
    whole: Mapping[str, Any] | None,
) -> Markup:
    """Return links to the page itself, with the question and without, and the one to where its text comes from.

    They say which text it is, and nothing of the list of answers from which one came.
    """

    def to(question: str) -> str:
        own = text_url(found, index, question, root, **(whole or {}))
        path = own.partition("?")[0]
        if found.get("id") is not None and first.get("row") == found["row"] and path != f"{root}text/":
            own = url(path, index=index, q=question, **(whole or {}))  # the id alone says which text it is
        return f"{own}#text-{found['row']}" if whole else own

    links: list[Inner] = [tag("a", f"link to this {'document' if whole else 'text'}", href=to(asked), rel="bookmark")]
    if asked:
        links.append(tag("a", "link without the question", href=to(""), class_="plain"))
    if "link" in found:
        links.append(tag("a", "open where it comes from", href=found["link"]))
    return tag("nav", links, class_="own", aria_label="This text")


def _led_to(other: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return the title of another text of a document; where it is the title of this text, too, how the text begins.

    >>> _led_to({"title": "Salt", "text": "Salt draws water."}, {"title": "Salt"})
    'Salt draws water.'
    """
    title = str(other.get("title") or "")
    said = " ".join((title if title and title != found.get("title") else str(other.get("text", ""))).split())
    return cut_words(said, _LED_TO)


def _like(
    hits: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    index: str,
    asked: str,
    root: str,
    way: Mapping[str, Any],
) -> Markup | None:
    """Return the texts that are similar to a text, each with the way back; nothing where there are none."""
    items = []
    for hit in hits:
        beginning = cut_words(str(hit["text"]), _BEGINNING)
        name = str(hit.get("title") or "") or short_place(hit, names) or f"row {hit['row']}"
        items.append(
            tag(
                "li",
                tag(
                    "a", tag("bdi", name[:200]), tag("bdi", " ".join(beginning.split()), class_="led"),
                    href=text_url(hit, index, asked, root, **way),
                ),
            )
        )  # fmt: skip
    return tag("section", tag("h2", "Similar texts"), tag("ul", items), class_="like-texts") if items else None
