"""The view that searches: a form, the hits, and the filters of an index, for the parameters of its URL.

Its parameters are `q` (with `prefix=1`, its last word may be a beginning), or `similar` (a row), or `similar_id` (the id of
a record); `index`, `k`, `mix` (auto, or 0, words alone, to 10, vectors alone), `docs` (1: one row of each document),
`texts` (whole: no passages), `sort` (a field, or `FIELD:desc`), `where` (a condition), `f`: chosen values and ranges as JSON,
[["lang", "de"], ["year", [1990, null]], …], of which those of one column are alternatives; and what weighs the rows,
`newer_better`, `half_life`, `boost`, or takes the question as it is typed, `exact`.
The script knows the same.
"""

import json
import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from wordpipe.stages import less_related_from
from wordpipe.web.page.card import DOTS, card, cut, room_of
from wordpipe.web.page.filters_view import (
    KEPT,
    Chosen,
    about_conditions,
    chips_of,
    chosen_name,
    example_of,
    filters_of,
    in_words,
    is_shown,
    liked_of,
    mixed,
    question_of,
    read_chosen,
    typed_example_of,
    weighed,
)
from wordpipe.web.page.parts import (
    ALL,
    Inner,
    Markup,
    artifact_choice,
    cut_words,
    hidden,
    names_of,
    on_page,
    options,
    over_texts,
    problem,
    tag,
    url,
)
from wordpipe.web.page.start_view import AS_IN_FILES, first_of, looks_of, made_of, orders_of, welcome_of

K = 10  # hits at first
_MIXES = [
    ("auto", "automatic"),
    ("0", "exact words only"),
    ("3", "mostly exact words"),
    ("5", "exact words and meaning equally"),
    ("7", "mostly meaning"),
    ("10", "meaning only"),
]
_VALUES = 8  # of a filter
_OTHER = re.compile(
    r"(?P<before>(?P<words>\S+(?: \S+)?) is (?:also written as one word|in only \d texts?): .* have )(?P<word>\S+)\."
)
"""The remark on two words that texts write as one, or on a rare word beside a frequent one; as in main.js."""
_ALIKE = 0.7  # share of runs of three words in common, from which a text is folded below another one; as in results.js
_LONGEST = 2_000  # characters of an address that the server reads
_BEGINNING = 160  # characters of the text that others are similar to
_COMPARED = 4_000  # characters of a text


async def search_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """Return the form, with hits and filters of the URL's query."""
    # the index that is asked
    texts = with_all(over_texts(about))
    index = next((one for one in texts if one["name"] == (params.get("index") or texts[0]["name"])), None)
    if index is None:  # never another one's answers
        served = [
            [" ", tag("a", tag("bdi", one["name"]), href=url(q=params.get("q"), index=one["name"]))] for one in texts
        ]
        said = tag("p", "This server has no index named ", tag("bdi", params["index"][:200]), ".")
        return tag("div", said, tag("p", "Choose one of:", served, class_="hint"), class_="problem", role="alert")
    # what narrows the search, and the values to choose from
    name = index["name"]
    if name == ALL:
        mixes, has_words = bool(index["dim"]), True
    else:
        _, whole = await ask("/about", {"artifact": name})
        facts = whole.get("manifest", {}).get("facts", {})
        has_words = "lexical" in facts
        mixes = has_words and facts.get("dim") != 0  # words alone are not mixed with vectors
    chosen = read_chosen(params.get("f", ""))
    narrowed = {"where": params.get("where", ""), "f": json.dumps(chosen, ensure_ascii=False) if chosen else ""}
    asked = params.get("q", "").strip()
    begun = "1" if asked and params.get("prefix") == "1" else "0"
    liked = params.get("similar") or params.get("similar_id")
    counted = {} if liked or params.get("mix") == "10" else {"q": asked, "prefix": begun}
    listed = {"index": name, "values": str(_VALUES), **counted}
    status, facets = await ask("/facets", {**listed, **narrowed})
    fields_status, fields = (
        (status, facets) if status != 400 else await ask("/facets", listed)
    )  # filters stay on an error
    # the hits
    hits: Inner = None
    lists = any(narrowed.values()) or params.get("sort")  # filters alone, or an order, list rows
    if asked or liked or (lists and status == 200):
        hits = await _hits(params, ask, name, asked, narrowed, facets if status == 200 and not liked else None, about)
    elif status != 200:
        hits = problem(facets)
    columns = fields["columns"] if fields_status == 200 else ()
    has_filters = any(is_shown(one, fields["total"]) for one in columns)
    made = await made_of(ask, index)
    columns_of_order = columns if has_words else ()
    orders = orders_of(columns_of_order, params.get("sort", ""))
    looks = looks_of(index, orders_of(columns_of_order, ""), fields) if fields_status == 200 else None
    n_documents = fields["documents"] if fields_status == 200 else index["rows"]
    welcome = await welcome_of(ask, index, n_documents, made, looks, has_filters=has_filters)
    has_parts = fields_status != 200 or n_documents < fields["total"]
    texts_said = tag(
        "p", "index: ", tag("bdi", index.get("label", name)), f" · {index['rows']:,} texts. ", made, class_="of"
    )
    return tag(
        "div", tag("div", _asked_on_paper(params, chosen, dict(orders)), texts_said, class_="paper top"),
        _form(params, texts, index, columns, orders, mixes=mixes, has_words=has_words, has_parts=has_parts),
        tag("div", chips_of(chosen, params), hits or welcome, id="results"), tag("template", welcome, id="welcome"),
        filters_of(fields if fields_status == 200 else None, chosen, params),
        class_="search likes" if liked else "search", data_index=name,
        data_several=str(len(texts) > 1).lower(), data_most=about["limits"]["k"],
        data_show=json.dumps(about["show"]),
        data_mixes=str(mixes).lower(),
    )  # fmt: skip


def _asked_on_paper(params: Mapping[str, str], chosen: Chosen, orders: Mapping[str, str]) -> list[Markup]:
    """Return what stands on paper above the answers: the question, the filters, the order, what else is set; see paper.js."""
    asked, mix, sort = params.get("q", "").strip(), params.get("mix", ""), params.get("sort", "")
    is_like = params.get("similar") or params.get("similar_id")
    narrowed = [tag("bdi", one) for one in in_words(chosen, params)]
    said = ["one answer per document"] if params.get("docs") == "1" else []
    said += ["whole texts"] if params.get("texts") == "whole" else []
    if not is_like:
        by = {"0": "exact words only", "10": "meaning only"}.get(mix, f"meaning {mix}0 %") if mixed(mix) else ""
        order = orders[sort] if sort or asked else AS_IN_FILES
        said = [
            f"order: {first_of(params)}{order}",
            *said,
            by,
            *(f"{name}={value}" for name, value in weighed(params).items()),
        ]
    return [
        tag("p", "" if is_like else asked, class_="asked", dir="auto"),
        tag("p", [[" · " if at else "filters: ", one] for at, one in enumerate(narrowed)], class_="narrowed"),
        tag("p", tag("bdi", " · ".join(filter(None, said))), class_="set"),
    ]


def with_all(texts: Sequence[Any]) -> list[Any]:
    """Return the served indexes over texts, and, of several, behind them all as one."""
    if len(texts) < 2 or any(one["name"] == ALL for one in texts):
        return [*texts]
    dims = {one["dim"] for one in texts}
    whole = {"rows": sum(one["rows"] for one in texts), "dim": dims.pop() if len(dims) == 1 else 0}
    return [*texts, {**texts[0], **whole, "name": ALL, "label": "all indexes", "can": ["search"]}]


async def _hits(
    params: Mapping[str, str], ask: Any, index: str, asked: str, narrowed: Mapping[str, str],
    facets: Mapping[str, Any] | None, about: Mapping[str, Any],
) -> Inner:  # fmt: skip
    """Return the search view's HTML of the hits of a query, or of the rows similar to a row; `facets` say how many match."""
    # ask by a text, or for rows like a row
    most = about["limits"]["k"]
    k = params.get("k") or str(K)
    given = {"index": index, "k": k, "format": "json", **narrowed}
    path, liked = "/search", params.get("similar_id") or params.get("similar")
    if liked:
        path, mix = "/similar", liked_of(params)
        _, like = await ask(
            "/text",
            {"index": index, "length": str(_BEGINNING + 1)} | {one: mix[one] for one in ("id", "row") if one in mix},
        )
    else:
        mix = question_of(params)
        mix |= {"count": "1"} if not asked and params.get("docs") == "1" else {}  # the documents that are listed
    status, found = await ask(path, {**given, **mix, "passage": str(room_of(params))})
    # an error, or no hits
    if status != 200:
        return problem(found)
    passages = found["passages"]
    kept = {name: params.get(name) for name in KEPT}
    notes = [tag("p", _exact(one, kept), class_="unknown") for one in _notes(found)]
    if not found["hits"]:
        nothing = found.get("nothing") or {"message": "nothing was found", "hint": None}
        return tag(
            "div",
            notes,
            tag("p", nothing["message"]),
            nothing["hint"] and tag("p", _exact(nothing["hint"], kept), class_="hint"),
            class_="empty",
        )
    # hits that say nearly the same stand below the first of them
    shown = ["".join(piece for piece, _ in one["pieces"]) for one in passages]
    alone = [[place] for place in range(len(shown))]  # in a list that is not by relevance
    is_ranked = liked or (asked and not params.get("sort"))
    groups = folded([(one["text"], two) for one, two in zip(found["hits"], shown, strict=True)]) if is_ranked else alone
    border, rows = less_related_from([_best_of(found["hits"], places) for places in groups]), list[Markup]()
    names, chosen = names_of(found["hits"]), read_chosen(params.get("f", ""))
    ahead = [*([] if liked else [re.sub(r":(asc|desc)$", "", params.get("sort", ""))]), *(name for name, _ in chosen)]
    largest = max(1e-12, *(hit["score"] for hit in found["hits"])) if is_ranked else 0.0

    def drawn(place: int, below: Sequence[Markup] = (), *, is_border: bool = False) -> Markup:
        hit, passage, is_less = found["hits"][place], passages[place], border is not None and len(rows) >= border
        return card(
            hit,
            passage,
            params,
            index,
            largest,
            about["show"],
            names,
            below,
            ahead,
            is_border=is_border,
            is_less=is_less,
        )

    for first, *others in groups:
        rows.append(drawn(first, [*map(drawn, others)], is_border=len(rows) == border))
    n = len(passages)
    is_counted = facets and (facets["among"] == "matches" or not asked) and params.get("docs") != "1"
    matches = facets["rows"] if facets and is_counted else found.get("matches", 0)
    is_list = matches and (found["mode"] == "lexical" or not asked)
    said = (
        "1 answer" if n == 1 else f"{n} answers" if n < int(k) or (is_list and matches == n) else f"First {n} answers"
    )
    if matches > n and is_list:
        said = f"{n} of {matches:,} answers"
    elif matches not in (0, n) and not is_list:  # with vectors every row has a score
        said += f"; {matches:,} {'text has' if matches == 1 else 'texts have'} words of the question"
    elif facets and asked and facets["among"] == "matches" and not facets["rows"]:
        said += "; no text that fits the filters has words of the question"
    given |= {name: value for name, value in mix.items() if name != "count" and value != "0"}
    kinds = _files(
        given,
        most,
        n,
        matches,
        facets["total"] if facets else 0,
        is_list=bool(is_list),
        is_narrow=any(narrowed.values()),
    )
    own, on = (
        f"like {_name_of(like, liked)}" if liked else asked,
        chosen_name(chosen, params.get("where", "")),
    )
    by = f"by {params['sort']}" if params.get("sort") and not liked else ""
    files, own_page = [], url(**kept, k=params.get("k"))
    own_page = own_page if len(own_page) <= _LONGEST else "./"
    for said_of, kind, of in kinds:
        forms = [
            (
                url(f".{path}", **of, format=form, base=own_page),
                f"{_file_name(own, on, kind, by)}.{one}",
                one.upper(),
            )
            for one, form in (("csv", "spreadsheet"), ("json", "json"))
        ]
        files.append(
            tag("li", f"{said_of}:", [[" ", tag("a", one, href=to, download=name)] for to, name, one in forms])
        )
    exports = tag("details", tag("summary", "export"), tag("ul", files), class_="export")
    take = tag("span", " · ", exports, class_="take")
    more = None
    if n >= int(k) and n < most:
        more = tag(
            "p", tag("a", "more answers", href=url(**kept, k=min(most, n + K)) + f"#answer-{n + 1}", class_="more")
        )
    if liked:
        said += ", only texts that fit the filters" if any(narrowed.values()) else ""
    dots = tag("p", DOTS, class_="hint dots") if largest else None
    return [
        tag("div", _similar_to(like, liked, kept) if liked else None, said, take, class_="status"),
        notes,
        tag("ol", rows, class_="hits"),
        more,
        dots,
    ]


def _files(
    given: Mapping[str, Any], most: int, n: int, matches: int, total: int, *, is_list: bool, is_narrow: bool
) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the files that the search view offers: what is in each, that in short, and the parameters that give the file.

    These are the answers that are shown, if the others have more, and all answers of a list, else the texts that have a
    word of the question, and the nearest ones, as in main.js.
    """
    shown = {name: value for name, value in given.items() if name != "format"}
    all_of_these = shown | {"k": str(most)}
    is_all = 0 < total <= most and not is_narrow
    whole = min(matches, most) if is_list else total if is_all else most
    these = (
        [(f"these {n:,} answers, as on the page" if n > 1 else "this answer", f"{n} shown", shown)]
        if n != whole
        else []
    )
    cut_to = f"the first {most:,} of {matches:,}" if matches > most else f"all {matches:,}"
    if is_list:
        return [*these, (f"{cut_to} answers", cut_to, all_of_these)]
    onward = "this list and further answers" if "q" in given else "the most similar texts"
    nearest = (f"all {total:,} texts, in the order of the page", f"all {total}")
    nearest = nearest if is_all else (f"{onward} in the order of the page, {most:,} at most", f"up to {most}")
    files = [(*nearest, all_of_these)]
    if matches:
        by_words = {**all_of_these, "mode": "lexical", "weight": None}
        files.insert(
            0, (f"{cut_to} texts with words of the question, ordered by words alone", f"{cut_to} by words", by_words)
        )
    return [*these, *files]


def _name_of(text: Mapping[str, Any], liked: str) -> str:
    """Return what the text is called to which rows of the search view are similar; an unknown one as the address says."""
    return str(text.get("title") or text.get("text") or liked)


def _similar_to(text: Mapping[str, Any], liked: str, kept: Mapping[str, Any]) -> Markup:
    """Return what the rows of the search view are similar to, with a link back to the question, or to the search."""
    begun = cut_words(str(text["text"]), _BEGINNING) if text.get("title") and text.get("text") else None
    to = url(**{**kept, "similar": None, "similar_id": None})
    said = f"back to the {'question' if kept['q'] else 'search'}"
    return tag(
        "div",
        tag("h2", "Similar to ", tag("bdi", cut(_name_of(text, liked)))),
        begun and tag("p", tag("bdi", begun), class_="hint"),
        tag("a", f"← {said}", href=to),
        class_="like",
    )


def _file_name(asked: str, narrowed: str, kind: str, order: str) -> str:
    """Return a name for the file of answers of the search view: query, chosen values, which answers, order, day."""
    kind = re.sub(r"(?<=\d),(?=\d)", "", kind)
    parts = [asked, narrowed, kind, order, time.strftime("%Y-%m-%d", time.gmtime())]
    plain = [re.sub(r"[\W_]+", "-", unicodedata.normalize("NFKC", one))[:60].strip("-") for one in parts]
    return "_".join(one for one in plain if one)


def _notes(found: Mapping[str, Any]) -> list[str]:
    """Return the sentences on how the query was read: corrections, remarks, unknown words, as in main.js."""
    said = [
        f'searched for {meant} instead of {word}, which no text contains; to search for {word}, write "{word}"'
        for word, meant in found.get("corrected", {}).items()
    ]
    said += [f"{one}." for one in found.get("remarks", ())]
    for word, near in found.get("unknown", {}).items():
        if word in found["by_words"]:
            continue  # a word of the texts
        where = "is unknown to the vectors" if found["mode"] == "dense" else "is in no text"
        said.append(f"{word} {where}." + (f" Similar words: {', '.join(near)}." if near else ""))
    return said


def _exact(remark: str, kept: Mapping[str, Any]) -> Inner:
    """Return a remark of the search view with a link in the place of the parameter that takes a question as it is typed."""
    before, parameter, after = on_page(remark).partition("exact=1")
    link = tag("a", "a plain search", href=url(**{**kept, "exact": "1"})) if parameter else None
    if other := _OTHER.fullmatch(remark):
        before, after = other["before"], "."
        link = tag("a", tag("bdi", other["word"]), href=url(**{**kept, "q": _with_other(str(kept["q"]), other)}))
    return [tag("bdi", before), link, tag("bdi", after) if after else None]


def _with_other(question: str, other: re.Match[str]) -> str:
    """Return a question of the search view with the other word of a remark; that word alone if the first is not there."""
    bare = question.replace(f'"{other["words"]}"', other["words"])
    found = re.sub(rf"(?<!\w){re.escape(other['words'])}(?!\w)", other["word"], bare, flags=re.IGNORECASE)
    return found if found != question else other["word"]


def _best_of(hits: Sequence[Mapping[str, Any]], places: Sequence[int]) -> Mapping[str, Any]:
    """Return of hits that say nearly the same one that fulfils the query, if any does."""
    return max((hits[place] for place in places), key=lambda hit: bool(hit.get("related", True)))


def folded(texts: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Group in the search view the places of texts that say nearly the same, or whose passages do, under the first place.

    Args:
        texts: of the answers, each with its passage.

    >>> folded([(one, one) for one in ("the tide rises with the moon", "rust eats iron", "The tide rises, with the moon!")])
    [[0, 2], [1]]
    """
    groups: list[tuple[list[set[str]], list[int]]] = []
    for place, both in enumerate(texts):
        runs = [_runs_of(one) for one in both]
        for first, places in groups:
            if any(len(one & own) >= _ALIKE * len(one | own) for one, own in zip(first, runs, strict=True)):
                places.append(place)
                break
        else:
            groups.append((runs, [place]))
    return [places for _, places in groups]


def _runs_of(text: str) -> set[str]:
    """Runs of three words; of fewer than four words all of them in one."""
    words = re.findall(r"[^\W_]+", text[:_COMPARED].lower())
    return {" ".join(words[at : at + 3]) for at in range(len(words) - 2)} if len(words) > 3 else {" ".join(words)}


def _form(
    params: Mapping[str, str], texts: Sequence[Any], index: Mapping[str, Any], columns: Sequence[Mapping[str, Any]],
    orders: Sequence[tuple[str, str]], *, mixes: bool, has_words: bool, has_parts: bool,
) -> Markup:  # fmt: skip
    """Return the HTML form of the search tab; `columns`, of the facets, are the fields of its examples."""
    typed = [
        tag("code", '"two words"'),
        " keeps words together, ",
        tag("code", "+word"),
        " must be there, ",
        tag("code", "-word"),
        " must not",
    ]
    if of_field := typed_example_of(columns):
        typed += [", ", tag("code", tag("bdi", of_field)), " narrows by a field"]
        typed += [", ", tag("code", tag("bdi", f"-{of_field}")), " leaves it out"] if ":" in of_field else []
    field = tag(
        "input", type="search", id="q", name="q", value=params.get("q", "")[:2_000], placeholder="Search your texts",
        autocomplete="off", spellcheck="false", enterkeyhint="search", maxlength=10_000, dir="auto",
        aria_describedby="typed" if has_words else None,
    )  # fmt: skip
    example, asked_where = example_of(columns), params.get("where", "")[:2_000]
    has_where = bool(example or asked_where)  # of an index without fields there is nothing to compare
    where = tag(
        "input", type="text" if has_where else "hidden", name="where", value=asked_where, placeholder=example,
        autocomplete="off", spellcheck="false", aria_describedby="where-note",
    )  # fmt: skip
    kept = {name: value for name, value in weighed(params).items() if name != "exact"}  # that is of one question
    docs = tag("input", type="checkbox", name="docs", value="1", checked=params.get("docs") == "1")
    texts_box = tag("input", type="checkbox", name="texts", value="whole", checked=params.get("texts") == "whole")
    button, first = tag("button", "Search", type="submit"), first_of(params)
    return tag(
        "form", tag("div", tag("label", "Search", for_="q", class_="unseen"), field, button, class_="field-row"),
        tag("p", typed, ".", class_="hint typed", id="typed") if has_words else None,
        tag("details", tag("summary", "Options"), tag(
            "div", artifact_choice("index", {"artifacts": texts}, ["search"], index["name"], "Search in"),
            options("mix", _MIXES, params.get("mix", "auto"), "search by") if mixes else None,
            tag("label", docs, tag("span", "one answer per document"), hidden=not has_parts and params.get("docs") != "1"),
            tag("label", texts_box, tag("span", "whole texts")),
            options("sort", orders, params.get("sort", ""), "order"),
            tag("span", first, tag("bdi", re.sub(r":(asc|desc)$", "", params.get("sort", ""))) if first else None,
                class_="hint order-note", hidden=not first),
            tag("label", tag("span", "condition"), where, class_="where") if has_where else where,
            tag("span", about_conditions(columns, index["rows"]), class_="hint where-note", id="where-note")
            if has_where else None,
            tag("input", type="hidden", name="f", value=params.get("f", "")[:4_000]), hidden(**kept),
            class_="options",
        ), open=True, class_="fold"),
        action="./", method="get", role="search", id="form",
    )  # fmt: skip
