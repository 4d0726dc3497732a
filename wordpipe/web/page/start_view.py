"""The search tab before a question: what is searched, queries to begin with, and the orders in which all texts are listed.

An order by a field also stands beside the answers to a question.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from wordpipe.web.page.card import cut
from wordpipe.web.page.filters_view import OURS
from wordpipe.web.page.parts import ALL, Inner, Markup, distinct_names, tag, url

AS_IN_FILES = "as in the files"
_ROW, _NEWEST = "row", "newest first"  # orders; as in main.js
_ORDERED = 8  # fields by which answers can be put in order
_NO_WORD = re.compile(r"^-|[:<>=]|^(AND|OR|NOT)$")  # of a question
_BEGIN = 6  # queries to begin with
_SOURCES = 3  # that are named


def orders_of(columns: Sequence[Mapping[str, Any]], chosen: str) -> list[tuple[str, str]]:
    """Return the orders of answers that the search tab offers: by relevance, title, and dates and numbers that differ."""
    orders = [("", "relevance")]
    differing = [one for one in columns if one.get("least") != one.get("largest") and one["name"] not in OURS]
    for column in differing[:_ORDERED]:
        name = column["name"]
        is_time = column["type"].startswith(("date", "timestamp")) or "year" in name.lower()
        first, last = (_NEWEST, "oldest first") if is_time else ("largest first", "smallest first")
        orders += [(f"{name}:desc", f"{name}, {first}"), (f"{name}:asc", f"{name}, {last}")]
    if any(one["name"] == "title" and one["distinct"] != 0 for one in columns):
        orders.append(("title", "title, A to Z"))
    return orders if chosen in dict(orders) else [*orders, (chosen, AS_IN_FILES if chosen == _ROW else chosen)]


def first_of(params: Mapping[str, str]) -> str:
    """Return what comes before an order by a field in the search view, if the question has several words; as in state.js."""
    words = [one for one in params.get("q", "").split() if re.search(r"[^\W_]", one) and not _NO_WORD.search(one)]
    has_both = params.get("sort") and not (params.get("similar") or params.get("similar_id")) and len(words) > 1
    return (
        "first texts with at least half of the question's words (rare ones count more), these by " if has_both else ""
    )


def looks_of(index: Mapping[str, Any], orders: Sequence[tuple[str, str]], facets: Mapping[str, Any]) -> Markup:
    """Return the line of the search tab that lists all texts, in orders that they have; one of each document of several."""
    found = [(value, "by title") for value, _ in orders if value == "title"]
    found += [(value, "newest first") for value, said in orders if said.endswith(_NEWEST)][:1]
    found.append((_ROW, "from the beginning"))
    documents = facets["documents"] if facets["documents"] < facets["total"] else 0
    kept = {"index": index["name"], "docs": "1" if documents else None}
    links = [[" · " if at else None, tag("a", said, href=url(sort=to, **kept))] for at, (to, said) in enumerate(found)]
    what = f"{documents:,} documents" if documents else "texts"
    return tag("p", f"Or look through all {what}: ", links, class_="looks")


async def welcome_of(
    ask: Any, index: Mapping[str, Any], n_documents: int, made: Inner, looks: Inner, *, has_filters: bool
) -> Markup:
    """Return the HTML that the search tab shows before a query: what is searched, and some queries."""
    keys = [
        "Keys: ", tag("kbd", "/"), " search field, ", tag("kbd", "↓"), tag("kbd", "↑"),
        " next or previous answer, ", tag("kbd", "Enter"), " its text, ", tag("kbd", "Esc"),
        " back to the search field, from a text back to the answers",
    ]  # fmt: skip
    of = f", passages of {n_documents:,} documents," if n_documents < index["rows"] else ""
    lead = f"Search {index['rows']:,} texts{of} by words{' and by meaning' if index['dim'] else ''}."
    status, found = await ask("/suggest", {"index": index["name"], "k": str(_BEGIN)})
    queries = [one["query"] for one in found["suggestions"]] if status == 200 else []
    links = [
        tag("li", tag("a", tag("bdi", one), href=url(q=one, index=index["name"]), class_="ask")) for one in queries
    ]
    return tag(
        "div", tag("p", lead, class_="lead"), tag("p", made, class_="hint"),
        [tag("p", "Some queries to begin with:"), tag("ul", links, class_="begin")] if links else None, looks,
        tag("p", "Or choose a filter to look without a question.", class_="hint") if has_filters else None,
        tag("p", "Answers appear while you type. ", tag("span", keys, class_="by-keys"), class_="keys"), class_="empty",
    )  # fmt: skip


async def made_of(ask: Any, index: Mapping[str, Any]) -> list[Inner]:
    """Return the sentences of a page on what an index was made from, and when."""
    said: list[Inner] = []
    status, found = await ask("/facets", {"index": index["name"], "values": str(_SOURCES)})
    column = next((one for one in found["columns"] if one["name"] == "source"), None) if status == 200 else None
    if column and column["distinct"]:
        n, names = column["distinct"], distinct_names([str(one["value"]) for one in column["values"]])
        more = f" and {n - len(names):,} more" if n > len(names) else ""
        said += [
            f"From {n:,} {'source' if n == 1 else 'sources'}: ",
            tag("bdi", ", ".join(map(cut, names))),
            f"{more}. ",
        ]
    if index.get("made") and index["name"] != ALL:
        day = time.strftime("%Y-%m-%d", time.gmtime(index["made"]))
        said += ["The index is of ", tag("time", day, datetime=day), "."]
    return said
