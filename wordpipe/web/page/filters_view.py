"""The search view by its URL: what it asks, what is chosen, chips that take that away, and values to choose from.

`f` in the URL has chosen values and ranges as JSON, [["lang", "de"], ["year", [1990, null]], …]; those of one column are
alternatives. The script knows the same.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wordpipe.web.endpoints.facets import quoted
from wordpipe.web.page.card import cut
from wordpipe.web.page.parts import Inner, Markup, distinct_names, marks, spaced, tag, url

OURS = ("row", "doc_id", "title", "text", "line", "id", "record_id", "anchor")  # no filters
WEIGHED = ("newer_better", "half_life", "boost", "exact")  # options of a query that have no field in the form
NO_VALUE = "no value"
MATCHES = "The numbers count only texts that contain a word of the query. "
ANY_OF = "Of one field, texts with any of the chosen values are shown."
KEPT = (
    "q",
    "prefix",
    "similar",
    "similar_id",
    "index",
    "mix",
    "docs",
    "texts",
    "sort",
    "where",
    "f",
    *WEIGHED,
)  # in the address of further answers
_CONDITION = "A condition compares fields with =, <, >, in ('a', 'b') or like '%part%', joined by and, or, not."
_SQL = {"all", "any", "asc", "case", "check", "column", "default", "desc", "end", "from", "group", "limit", "offset", "order",
        "primary", "references", "select", "table", "to", "union", "user", "when", "where"}  # fmt: skip
_PLAIN = re.compile(r"\w+( \w+)*")  # a value for an example
_MAX_CHOSEN = 64  # values of filters in a URL
_BAR, _LOWEST_BAR = 100, 6  # height of the tallest bar of a range, and of the lowest

_COMPARED = (("<=", " to "), (">=", " from "), ("!=", " not "), ("<>", " not "), ("<", " under "), (">", " over "))
"""Comparisons of a condition, as the name of a file says them; as in state.js."""

Chosen = list[tuple[str, Any]]


def read_chosen(text: str) -> Chosen:
    """Return the chosen values of the search view's filters; any other text chooses nothing."""
    try:
        pairs = json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")) if text else []
    except (ValueError, RecursionError):
        return []
    good = isinstance(pairs, list) and all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in pairs
    )
    if not good:
        return []
    read = [(name, tuple(value) if isinstance(value, list) else value) for name, value in pairs]
    plain = [one for one in read if not any(isinstance(part, (list, dict)) for part in [one[1], *_ends(one[1])])]
    return [one for one in plain if len(_ends(one[1])) in (0, 2)][:_MAX_CHOSEN]


def _ends(value: Any) -> tuple[Any, ...]:
    """Return the ends of a range chosen in the search view; none of a value."""
    return value if isinstance(value, tuple) else ()


def chips_of(chosen: Chosen, params: Mapping[str, str]) -> Markup | None:
    """Return the HTML of what is chosen in the search view, each a link that takes it away."""
    kept = {name: params.get(name) for name in KEPT}

    def chip(name: str, value: str, pairs: Chosen, where: str | None) -> Markup:
        link = url(**{**kept, "f": json.dumps(pairs, ensure_ascii=False) if pairs else "", "where": where})
        shown = [tag("bdi", cut(name)), ": ", tag("bdi", cut(value)), " ×"]
        return tag("a", shown, tag("span", ", take away", class_="unseen"), href=link, class_="chip")

    where = params.get("where")
    chips = [
        chip(name, _said(value), [other for other in chosen if other != (name, value)], where) for name, value in chosen
    ]
    if where and where.strip():
        chips.append(chip("condition", where, chosen, None))
    if len(chips) > 1:
        chips.append(tag("a", "clear all", href=url(**{**kept, "f": "", "where": ""}), class_="clear"))
    return tag("div", [[one, " "] for one in chips], class_="chips") if chips else None


def _said(value: Any) -> str:
    """Return a chosen value, or a range, of the search view in words."""
    if isinstance(value, tuple):
        written = zip(("from", "to"), marks_alike(value), strict=True)
        return " ".join(f"{end} {one}" for end, one in written if one is not None)
    return NO_VALUE if value is None else spaced(value)


def in_words(chosen: Chosen, params: Mapping[str, str]) -> list[str]:
    """Return what narrows the answers of the search view, a text for each field, whose values are alternatives.

    >>> in_words([("section", "mail"), ("year", (1990, None)), ("section", None)], {"where": "size > 3"})
    ['section: mail or no value', 'year: from 1990', 'condition: size > 3']
    """
    names = dict.fromkeys(name for name, _ in chosen)
    condition = params.get("where", "").strip()
    fields = [f"{name}: {' or '.join(_said(value) for one, value in chosen if one == name)}" for name in names]
    return [*fields, f"condition: {condition}"] if condition else fields


def marks_alike(ends: tuple[Any, ...]) -> list[str | None]:
    """Return the ends of a range of a filter; where one of two numbers has marks of thousands, the other one has them, too.

    >>> marks_alike((1000, 20000)), marks_alike((1998, 2004)), marks_alike((None, "2024-01-01"))
    (['1,000', '20,000'], ['1998', '2004'], [None, '2024-01-01'])
    """
    written = [None if one is None else marks(one) for one in ends]
    if not any("," in (one or "") for one in written):
        return written
    return [f"{one:,.15g}" if isinstance(one, int | float) else said for one, said in zip(ends, written, strict=True)]


def is_shown(column: Mapping[str, Any], total: int) -> bool:
    """True if a field is worth a filter: values or a range to choose, or texts without a value beside others."""
    return column["name"] not in OURS and bool(column["filter"] or "bins" in column or lacks_some(column, total))


def lacks_some(column: Mapping[str, Any], total: int) -> bool:
    """True if some of all texts have no value of a field of the filters, and others have one."""
    return 0 < (column["missing"] or 0) < total and column["distinct"] != 0


def chosen_name(chosen: Chosen, where: str) -> str:
    """Return what is chosen in the search view, and its condition, for the name of a file.

    >>> chosen_name([("lang", "de"), ("year", (1990, None)), ("kind", None)], ""), chosen_name([], "kb<5 and not a!=2")
    ('de 1990 to  no value ', 'kb under 5 and not a not 2')
    """
    for sign, words in _COMPARED:
        where = where.replace(sign, words)
    ends = [["" if end is None else str(end) for end in _ends(value)] for _, value in chosen]
    said = [
        " to ".join(own) or (NO_VALUE if value is None else str(value))
        for own, (_, value) in zip(ends, chosen, strict=True)
    ]
    return " ".join([*said, where])


def mixed(mix: str) -> dict[str, str]:
    """Return parameters of `/search` for the search view's slider from words (0) to vectors (10)."""
    if not mix.isdecimal() or int(mix) > 10:
        return {}
    share = int(mix)
    if share in (0, 10):
        return {"mode": "dense" if share else "lexical"}
    return {"mode": "hybrid", "weight": str(share / 10)}


def question_of(params: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of `/search` for the question, order and weights of the search view's address."""
    asked = params.get("q", "").strip()
    ranked = {**mixed(params.get("mix", "")), **weighed(params)}  # which rows in another order are not
    found = {"sort": params["sort"]} if params.get("sort") else ranked
    found |= {"per_document": "1"} if params.get("docs") == "1" else {}
    return {**found, "q": asked, **({"prefix": "1"} if asked and params.get("prefix") == "1" else {})}


def weighed(params: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the search view that weigh the rows."""
    return {name: params[name] for name in WEIGHED if params.get(name)}


def liked_of(params: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of `/similar` for the search view's address; none of another search."""
    liked = {name: params[f"similar{end}"] for name, end in (("id", "_id"), ("row", "")) if params.get(f"similar{end}")}
    return dict([*liked.items()][:1]) | ({"per_document": "1"} if liked else {})


def filters_of(facets: Mapping[str, Any] | None, chosen: Chosen, params: Mapping[str, str]) -> Markup:
    """Return the HTML of the filters: values of each field with counts, as links that choose a value or take it back."""
    kept = {name: params.get(name) for name in KEPT if name != "f"}
    # a group for each field that is worth a choice
    groups = []
    columns = [one for one in facets["columns"] if one["name"] not in OURS] if facets else []
    total = facets["total"] if facets else 0
    for column in sorted(columns, key=lambda one: one["name"] == "source"):
        values = {one["value"]: one["count"] for one in column["values"]}
        taken = {value for name, value in chosen if name == column["name"]}
        values |= {value: None for value in taken if isinstance(value, tuple)}
        if column["missing"] or None in taken:
            values[None] = column["missing"] or 0
        bars = _bars(column, chosen, kept) if "bins" in column else None
        if not (is_shown(column, total) or taken):
            continue
        if bars or not column["filter"]:
            values = {value: count for value, count in values.items() if value is None or value in taken}
        # a link for each value: chosen it is taken back
        items, names = [], {}
        if column["name"] == "source":
            paths = [value for value in values if isinstance(value, str)]
            names = dict(zip(paths, distinct_names(paths), strict=True))
        for value, count in values.items():
            pair = (column["name"], value)
            pairs = [other for other in chosen if other != pair] if value in taken else [*chosen, pair]
            link = url(**kept, f=json.dumps(pairs, ensure_ascii=False) if pairs else "")
            shown = cut(names.get(value, _said(value)))
            text = [
                tag("bdi", shown, class_="value", title=str(value)[:300] if value in names else None),
                tag("span", f"{count:,}", class_="count") if count is not None else None,
            ]
            items.append(tag("li", tag("a", text, href=link, aria_current="true" if value in taken else None)))
        groups.append(tag("section", tag("h2", tag("bdi", cut(column["name"]))), bars, tag("ul", items)))
    # a note on what is counted
    any_of = _any_of(facets["columns"] if facets else ())
    note = tag("p", MATCHES if facets and facets["among"] == "matches" else None, any_of, class_="hint")
    return tag(
        "aside",
        tag("details", tag("summary", "Filters"), note, groups) if groups else None,
        id="filters",
        aria_label="Filters",
        data_any_of=any_of,
    )


def _any_of(columns: Sequence[Mapping[str, Any]]) -> str:
    """Return what several values of one field mean; of a field of lists, how all are asked for."""
    named = (one["name"] for one in columns if one["filter"] and one["type"].startswith("list"))
    name = next((one for one in named if re.fullmatch(r"[A-Za-z_]\w*", one, re.ASCII)), None)
    return ANY_OF + (f" To ask for two values of {name} at once, type {name}:one {name}:another." if name else "")


def _bars(column: Mapping[str, Any], chosen: Chosen, kept: Mapping[str, Any]) -> list[Markup]:
    """Return the bars of a filter of numbers or dates, each a link that chooses its range, and how far the values reach."""
    name, bins = column["name"], column["bins"]
    others = [pair for pair in chosen if pair[0] != name or not isinstance(pair[1], tuple)]
    ranges = [value for own, value in chosen if own == name and isinstance(value, tuple)]
    is_whole = column["type"].startswith(("int", "uint", "date"))
    largest, bars = max(1, *(one["count"] for one in bins)), list[Markup]()
    for place, one in ((place, one) for place, one in enumerate(bins) if one["count"]):
        tall = max(_LOWEST_BAR, _BAR * one["count"] / largest)
        held = _held(one, ranges[0], is_whole=is_whole, is_last=place == len(bins) - 1) if ranges else None
        said = f"{cut(name)} {_end(one['from'])} to {_end(one['to'])}: {one['count']:,}"
        link = url(**kept, f=json.dumps([*others, (name, (one["from"], one["to"]))], ensure_ascii=False))
        bars.append(tag(
            "a", tag("title", said), tag("rect", x=place, y=0, width=1, height=_BAR, class_="all"),
            tag("rect", x=f"{place + 0.05:g}", y=f"{_BAR - tall:.1f}", width="0.9", height=f"{tall:.1f}",
                class_=held),
            href=link, aria_label=said,
        ))  # fmt: skip
    ends = [tag("span", tag("bdi", _end(column[end]))) for end in ("least", "largest")]
    return [
        tag("svg", bars, viewBox=f"0 0 {len(bins)} {_BAR}", preserveAspectRatio="none", class_="bars"),
        tag("p", ends, class_="reach"),
    ]


def _held(one: Mapping[str, Any], ends: tuple[Any, ...], *, is_whole: bool, is_last: bool = False) -> str | None:
    """Return the class of a bar of a filter: `out` of a range, `part` of it in the range; None: all of it is in the range.

    Bars of whole numbers and days, and the last bar, reach up to `to`, others stay below it.

    >>> [_held({"from": low, "to": low + 1}, (1, 2.5), is_whole=False) for low in (0, 1, 2, 3)]
    ['out', None, 'part', 'out']
    """
    first, last, low, high = (
        value[:10] if isinstance(value, str) else value for value in (one["from"], one["to"], *ends)
    )
    try:
        if (low is None or low <= first) and (high is None or last <= high):
            return None
        is_below = high is not None and (high < first or (high == first and not is_whole))
        is_above = low is not None and (last < low or (last == low and not (is_whole or is_last)))
        return "out" if is_below or is_above else "part"
    except TypeError:  # an end of another kind than the values
        return "out"


def _end(value: Any) -> str:
    """Return an end of a range of a filter: of a time its day, of a fraction four digits."""
    is_fraction = isinstance(value, float) and not value.is_integer()
    return f"{value:.4g}" if is_fraction else marks(value)[: 10 if isinstance(value, str) else None]


def example_of(columns: Sequence[Mapping[str, Any]]) -> str:
    """Return a condition on a field of the index that the search tab asks; empty where no field is good for one."""
    columns = [one for one in columns if one["name"] not in OURS]
    for column in columns:
        if len(bins := column.get("bins", ())) > 1:
            end = bins[len(bins) // 2]["from"]
            return f"{_column(column['name'])} > {end if isinstance(end, int | float) else repr(str(end)[:10])}"
    for column in columns:
        texts = [one["value"] for one in column["values"] if isinstance(one["value"], str)]
        if column["filter"] and texts and column["type"] == "string":
            return f"{_column(column['name'])} = " + quoted(min(texts, key=len), "'")
    return ""


def typed_example_of(columns: Sequence[Mapping[str, Any]]) -> str:
    """Return the same example as it is typed in the question of the search tab; empty where no field is good for one."""
    for column in [
        one for one in columns if one["name"] not in OURS and re.fullmatch(r"[A-Za-z_]\w*", one["name"], re.ASCII)
    ]:
        if len(bins := column.get("bins", ())) > 1:
            end = bins[len(bins) // 2]["from"]
            return f"{column['name']}>{end if isinstance(end, int | float) else str(end)[:10]}"
        texts = [one["value"] for one in column["values"] if isinstance(one["value"], str)]
        if (
            column["filter"]
            and column["type"] == "string"
            and (plain := [one for one in texts if _PLAIN.fullmatch(one)])
        ):
            value = min(plain, key=len)
            return f"{column['name']}:{value if value.isalnum() else quoted(value, chr(34))}"
    return ""


def _column(name: str) -> str:
    """Return a field as it is written in the condition of the search tab, in quotes if it may be a word of SQL."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.lower() not in _SQL else quoted(name, '"')


def about_conditions(columns: Sequence[Mapping[str, Any]], total: int) -> Inner:
    """Return the sentences on the conditions of the search view, one of them on a field that some texts lack."""
    lacking = next((one["name"] for one in columns if one["name"] not in OURS and lacks_some(one, total)), None)
    said = [" ", tag("bdi", f"{_column(lacking)} is null"), " finds texts without a value."] if lacking else None
    return [_CONDITION, said]
