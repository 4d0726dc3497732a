"""One answer on the page: title, passage, one line of where it stands and of its best fields, all its fields, actions.

The line begins with the fields by which answers are ordered and filtered. It has at most three others: those of
`serve --show`, else the ones in which words of the query were found, then a date, then the first ones whose values are short.
The script draws the same.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wordpipe.web.links import text_url
from wordpipe.web.page.parts import Inner, Markup, definitions, marks, prose, short_place, tag, url, way_back
from wordpipe.wording import counted

PASSAGE, WHOLE = 320, 100_000  # characters shown of a hit, and of a text that is shown whole
LESS_RELATED = "less related: less than half of the question's words (rare ones count more)"  # as in results.js
_LACKED = 3  # words that a text lacks, as in results.js
# as in why.js
DOTS = (
    "Dots show the score beside that of the strongest answer, in quarters; "
    "less related answers, below the others, have at most two."
)
_PLACES = 3  # where else a text stands
_STEPS = 4  # of the strength of an answer
_FIELDS = 3  # in the line
_SAID = ("title", "text", "source")  # elsewhere in an answer
_SHORT = 60  # characters of a value in the line
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EMPTY_LINES = re.compile(r"\n(?:[^\S\n]*\n){2,}")  # of which one is shown


def card(
    hit: Mapping[str, Any], passage: Mapping[str, Any], params: Mapping[str, str], index: str, largest: float,
    show: Sequence[str], names: Mapping[str, str], others: Sequence[Markup] = (), ahead: Sequence[str] = (), *,
    is_border: bool = False, is_less: bool = False,
) -> Markup:  # fmt: skip
    """Return the HTML of one answer.

    Args:
        hit: as `/search` gives it.
        passage: of its text.
        params: of the URL.
        index: that was asked.
        largest: the score of the strongest answer; 0: scores say nothing.
        show: the fields of its line; none: the best ones.
        names: of sources, as the list of answers calls them.
        others: answers that say nearly the same.
        ahead: the fields with which its line begins: that of the order, and those of filters.
        is_border: true of the first of the less related ones, which stand below the others.
        is_less: true of each of these.
    """
    # what is shown of the text
    title = passage.get("title") or [["", False]]
    pieces = passage["pieces"]
    # what one can do with it: a row without a vector has no like rows
    asked, own = params.get("q", ""), hit.get("index", index)
    is_titled, text = any(text for text, _ in title), text_url(hit, own, asked, **way_back(params))
    to = hit.get("link", text)
    actions = [tag("a", "read", href=text)] if to != text or not is_titled else []
    if passage["has_vector"]:
        # an id stays with its record when the index is made again
        like = {"similar": hit["row"]} if hit.get("id") is None else {"similar_id": str(hit["id"])}
        narrowed = {"index": own} | {name: params.get(name) for name in ("f", "where", "docs", "texts")}
        actions.append(tag("a", "more like this", href=url(**like, q=asked, **narrowed)))
    # title, text, facts, and what says nearly the same
    return tag(
        "li",
        tag("p", LESS_RELATED, class_="near") if is_border else None,
        tag("h2", tag("a", _marked(title), href=to), class_="title", dir="auto") if is_titled else None,
        tag(
            "p", begun(pieces) if passage["before"] else None, _marked(pieces), " …" if passage["after"] else None,
            class_="text code" if passage.get("code") else "text", dir="auto",
        ),
        tag(
            "div", _about(hit, passage, largest, show, names, ahead, is_less=is_less),
            tag("p", actions, class_="actions") if actions else None,
            class_="foot",
        ),
        # below it
        tag(
            "details", tag("summary", f"{counted(len(others), 'more hits')} with nearly the same text"),
            tag("ol", others), class_="others",
        ) if others else None,
        class_="hit", id=f"answer-{hit['rank']}", value=hit["rank"],
    )  # fmt: skip


def room_of(params: Mapping[str, str]) -> int:
    """Return how many characters of each answer an address asks for."""
    return WHOLE if params.get("texts") == "whole" else PASSAGE


def _about(
    hit: Mapping[str, Any], passage: Mapping[str, Any], largest: float, show: Sequence[str], names: Mapping[str, str],
    ahead: Sequence[str], *, is_less: bool,
) -> Markup:  # fmt: skip
    """Return the line of an answer, which opens a list of all its fields if it has any."""
    place = short_place(hit, names)
    fields = {name: value for name, value in (hit.get("metadata") or {}).items() if value not in (None, [], "")}
    marked = passage.get("fields") or {}
    known = {**hit, **fields}
    first = {name: known[name] for name in ahead if name not in _SAID and known.get(name) not in (None, [], "")}
    named = best_fields(known if show else fields, marked, show)

    def field(name: str, value: Any) -> Markup:
        shown = _marked(marked[name]) if name in marked else cut(value)
        return tag("span", tag("span", tag("bdi", name), " ", class_="field-name"), tag("bdi", shown), class_="field")

    facts: list[Inner] = [_strength(hit["score"] / largest, is_less=is_less)] if largest else []
    facts += [field(*one) for one in first.items()]
    if lacks := passage.get("lacks"):
        lacked, more = ", ".join(map(cut, lacks[:_LACKED])), len(lacks) - _LACKED
        said = ["without ", tag("s", lacked), f" and {more} more" if more > 0 else None]
        facts.append(tag("span", said, class_="lacks", title=f"without {', '.join(lacks)}"[:300]))
    facts.append(tag("bdi", place, class_="place"))
    if "index" in hit:
        facts.append(
            tag("span", tag("span", "index ", class_="field-name"), tag("bdi", hit["index"]), class_="field index")
        )
    facts += [field(name, value) for name, value in named.items() if name not in first]
    line = tag("span", [[one, " "] for one in facts], class_="facts")
    rest = {"id": hit.get("id"), "also in": _also_in(hit), **fields}
    if not any(value is not None for value in rest.values()):
        return tag("p", line, class_="about")
    whole = {name: cut(value, 2_000) for name, value in {"place": place, **rest}.items() if value is not None}
    return tag(
        "details", tag("summary", line, tag("span", "details", class_="rest")), definitions(whole), class_="about"
    )


def best_fields(fields: Mapping[str, Any], marked: Mapping[str, Any], show: Sequence[str]) -> dict[str, Any]:
    """Return at most three fields for the line of an answer, or those that are to be shown.

    >>> best_fields({"a": "x" * 99, "b": 1, "c": 2, "day": "2024-05-03", "d": 3, "e": 4}, {"d": []}, [])
    {'d': 3, 'day': '2024-05-03', 'b': 1}
    """
    if show:
        return {name: fields[name] for name in show if fields.get(name) not in (None, [], "")}
    short = [name for name, value in fields.items() if name in marked or len(cut(value, _SHORT + 1)) <= _SHORT]
    order = sorted(short, key=lambda name: (name not in marked, not _DATE.match(str(fields[name]))))
    return {name: fields[name] for name in order[:_FIELDS]}


def _also_in(hit: Mapping[str, Any]) -> str | None:
    """Return where else the text of an answer stands."""
    if not (also := hit.get("also_in")):
        return None
    places = also["places"][:_PLACES]
    more = f" and {also['count'] - len(places):,} more" if also["count"] > len(places) else ""
    return f"{', '.join(places)}{more}"


def begun(pieces: Sequence[Sequence[Any]]) -> Markup:
    r"""Return what says that a passage does not begin its text: on a line of its own above an indented one.

    >>> begun([["salt", True]]), begun([["    return 1", False]])
    ('… ', '…\n')
    """
    return prose("…\n" if str(pieces[0][0])[:1].isspace() else "… ")


def _marked(pieces: Sequence[Sequence[Any]]) -> list[Inner]:
    """Return the pieces of a passage with the words of the query marked."""
    return [
        tag("mark", prose(text)) if is_marked else prose(_EMPTY_LINES.sub("\n\n", text)) for text, is_marked in pieces
    ]


def cut(value: Any, most: int = 80) -> str:
    """Return a value on the page as a text of at most so many characters."""
    text = ", ".join(map(marks, value)) if isinstance(value, list) else marks(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _strength(share: float, *, is_less: bool) -> Markup:
    """Return how strong an answer of the search view is: its share of the best score in four steps; two if less related."""
    n = max(1, min(_STEPS // 2 if is_less else _STEPS, math.ceil(_STEPS * share)))
    said = f"strength {n} of {_STEPS}"
    title = f"{said} beside the strongest answer"
    return tag("span", "●" * n + "○" * (_STEPS - n), class_="score", role="img", aria_label=said, title=title)
