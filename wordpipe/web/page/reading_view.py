"""The page of one text, `/text/ID`: all of the text with the words of the question marked, and links to texts beside the text.

Its parameters are `index`, `q` (the question), `row` (the row, where the record has several, or no id), `start` (the first
character of a part of a long text), `path` (rows of the texts from which one came to this similar one, for the way back), and
those of the list of answers to which the way back leads, or `map` (a layout): then it leads to the map.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, count
from typing import Any

from wordpipe.web.links import text_url
from wordpipe.web.page.parts import (
    LAYOUTS,
    Inner,
    Markup,
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
_ASKED = 40  # similar rows among which these are
_PATH = 10  # texts of a way from one to a similar one
_BEGINNING = 160  # characters of each
_LONGEST = 300  # characters of a value
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
    beside = {
        name: (await ask("/text", {"index": index, "row": str(found[name]), "length": str(_BEGINNING)}))[1]
        for name in ("before", "after")
        if found[name] is not None
    }
    first = found
    if record_id and row:
        _, first = await ask("/text", {"index": index, "id": record_id, "length": "1"})
    able = next((one["can"] for one in over_texts(about) if one["name"] == index), ())
    like, names = list[Mapping[str, Any]](), names_of([found])
    if "similar" in able:
        like_status, near = await ask(
            "/similar", {"index": index, "row": str(found["row"]), "k": str(_ASKED), "format": "json"}
        )
        like = _of_others(near["hits"], found["doc_id"]) if like_status == 200 else []
        names = names_of([found, *like])
    label, to = f"← back to the {'answers' if asked else 'search'}", url(root, q=asked, index=index, **way_back(params))
    if mapped:
        entries = menu(about, {**params, "index": index}, root=root, row=found["row"])
        label, to = "← back to the map", next((href for view, _, href in entries if view == "map"), root)
    before = await _text_before(path, ask, index, asked, root, way) if path else None
    back = tag("p", tag("a", label, href=to, class_="back"), before, class_="links")
    shown = tag(
        "article", back, tag("h1", tag("bdi", title), class_="title", dir="auto") if title else None, _facts(found, names),
        _walk(found), tag("div", _text(found), class_="text code" if found.get("code") else "text", dir="auto"),
        _parts(found, index, asked, root, {**way, "path": ",".join(path)}),
        _beside(found, first, beside, index, asked, root, way),
        _like(like, names, index, asked, root, {**way, "path": ",".join([*path, str(found["row"])][-_PATH:])}),
        class_="reading",
    )  # fmt: skip
    return 200, title or short_place(found, names) or f"row {found['row']}", found["row"], shown


async def _text_before(
    path: Sequence[str], ask: Any, index: str, asked: str, root: str, way: Mapping[str, Any]
) -> Markup | None:
    """Return a link back to the text before a similar one, the last row of the path; None for an unknown row."""
    status, found = await ask("/text", {"index": index, "row": path[-1], "length": str(_LED_TO)})
    if status != 200:
        return None
    to = text_url(found, index, asked, root, **way, path=",".join(path[:-1]))
    name = str(found.get("title") or found["text"])[:_LED_TO]
    return tag("a", "← back to ", tag("bdi", name), href=to)


def _text(found: Mapping[str, Any]) -> list[Inner]:
    """Return a text, or the part of it that is shown, in paragraphs, with its marks; the one that answers is set off."""
    pieces = found.get("pieces") or [[found["text"], False]]
    stop = found["start"] + len(found["text"])
    blocks = [(0, len(found["text"]))] if found.get("code") else paragraphs(found["text"])
    answer, ids = _answering(blocks, pieces, found.get("passage")), count(1)
    shown: list[Inner] = [
        tag("p", _piece(pieces, *block, ids), class_="answering" if place == answer else None)
        for place, block in enumerate(blocks)
    ]
    return ["… " if found["start"] else None, *shown, " …" if stop < found["characters"] else None]


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


def _walk(found: Mapping[str, Any]) -> Markup | None:
    """Return how many words of a text are marked, with a link to the first; the script goes from one to the next."""
    n = sum(is_marked for _, is_marked in found.get("pieces") or ())
    first = tag("a", "go to the first", href="#mark-1")
    return tag("p", f"{n:,} marked words · ", first, class_="marks hint") if n > 1 else None


def _piece(pieces: Sequence[Sequence[Any]], start: int, stop: int, ids: Iterator[int]) -> list[Inner]:
    """Return the characters from `start` to `stop` of a text in pieces, its marks with the next ids."""
    shown, at = list[Inner](), 0
    for text, is_marked in pieces:
        if own := text[max(0, start - at) : max(0, stop - at)]:
            shown.append(tag("mark", prose(own), id=f"mark-{next(ids)}") if is_marked else prose(own))
        at += len(text)
    return shown


def _facts(found: Mapping[str, Any], names: Mapping[str, str]) -> Markup:
    """Return where a text stands, its id and its fields."""
    metadata = {name: value for name, value in (found.get("metadata") or {}).items() if value not in (None, [], "")}
    facts = {"id": found.get("id"), "index": found["index"], **metadata}
    shown = [
        (f"{name} {value}" if value != name else value)[:_LONGEST]
        for name, given in facts.items()
        if given is not None
        for value in [", ".join(map(marks, given)) if isinstance(given, list) else marks(given)]
    ]
    place, source = short_place(found, names), found.get("source")
    return tag(
        "p", tag("bdi", place, class_="place", title=source) if place else None,
        [tag("bdi", one, class_="field") for one in shown], class_="about",
    )  # fmt: skip


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
    found: Mapping[str, Any], first: Mapping[str, Any], beside: Mapping[str, Any], index: str, asked: str, root: str,
    way: Mapping[str, Any],
) -> Markup:  # fmt: skip
    """Return links to the rows before and after a text in its document, which say what these are, and to the text itself."""
    links: list[Inner] = []
    for name, label, kind in (
        ("before", "← previous text of the document", "prev"),
        ("after", "next text of the document →", "next"),
    ):
        if other := beside.get(name):
            to = text_url({"row": found[name]}, index, asked, root, **way)
            led = [tag("span", label), tag("bdi", _led_to(other, found), class_="led")]
            links.append(tag("a", led, href=to, rel=kind))
    own = text_url(found, index, asked, root, **way)
    if found.get("id") is not None and first.get("row") == found["row"]:  # the id alone says which text it is
        own = (
            url(own.partition("?")[0], index=index, q=asked, **way) if own.partition("?")[0] != f"{root}text/" else own
        )
    links.append(tag("a", "link to this text", href=own, rel="bookmark"))
    if "link" in found:
        links.append(tag("a", "open where it comes from", href=found["link"]))
    return tag("nav", links, class_="beside", aria_label="This document")


def _of_others(hits: Sequence[Mapping[str, Any]], doc_id: str) -> list[Mapping[str, Any]]:
    """Return the most similar rows, one of each document but that of the text itself."""
    first = {hit["doc_id"]: hit for hit in reversed(hits) if hit["doc_id"] != doc_id}
    return [hit for hit in hits if first.get(hit["doc_id"]) is hit][:_LIKE]


def _led_to(other: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return the title of another text of a document; where it is the title of this text, too, how the text begins.

    >>> _led_to({"title": "Salt", "text": "Salt draws water."}, {"title": "Salt"})
    'Salt draws water.'
    """
    title = str(other.get("title") or "")
    said = " ".join((title if title and title != found.get("title") else str(other.get("text", ""))).split())
    return said if len(said) <= _LED_TO else f"{said[:_LED_TO]} …"


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
        text = str(hit["text"])
        beginning = text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]} …"
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
