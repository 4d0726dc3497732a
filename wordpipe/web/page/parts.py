"""Elements of a page as text that is safe by its type: what is no `Markup` is escaped when it is put into an element."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from wordpipe.pages import bar, shown
from wordpipe.wording import place_of_hit

LAYOUTS = ("umap", "pca")
"""Of a map, that its address may name."""
ALL = "*"
"""Stands for all indexes over texts, as in web/together.py."""
TABS = {"search": "Search", "words": "Words", "model": "Model", "about": "About"}
"""The views of the page, with their labels; see `tabs_of`."""
_NEEDS = {
    "search": {"search"},
    "words": {"neighbours"},
    "model": {"fill", "complete", "predict", "attend"},
    "about": set[str](),
}  # of the abilities of artifacts one
_VOID = {"input", "meta", "link", "br"}
_MOST = 60  # counts or settings in a list
_MARKED = 10_000  # the least number with a mark of thousands
_LONGEST = 2_000  # characters of a text within an element
_BLANK = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u00ad\u200b\u2060\ufeff"
_UNSEEN_SPACE = re.compile(rf"^[{_BLANK}]+|[{_BLANK}]+$|[{_BLANK}]{{2,}}|(?![ \u3000])[{_BLANK}]")  # as in dom.js
_SPACE = {" ": "␣", "\t": "⇥", "\n": "↵"}
_FOLDERS = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\"`,;]+/)+(?=[^\s/])")  # of an absolute path
_LAST_WORD = re.compile(r"\s+\S{0,30}\Z")
_EMPTY = "“” (empty)"  # a text without a letter
HINTS = {
    "search by words, with mode=lexical": "move the slider to exact words, or choose auto",
    "search by vectors, with mode=dense": "move the slider to meaning",
    "use --mode lexical, or ask each index by itself": "move the slider to exact words, or search in one index",
    "to see the columns and their values, ask /facets": "the filters show the fields and their values",
    "to see the record, use where=": "to see the record, write as the condition ",
}
"""Next steps by the parameters of the server, and the same ones on the page; the script has the same table."""
_WAY_BACK = (
    "k",
    "mix",
    "docs",
    "texts",
    "sort",
    "where",
    "f",
    "prefix",
    "newer_better",
    "half_life",
    "boost",
    "exact",
)  # as in state.js


class Markup(str):
    """HTML; made by `tag` alone."""

    __slots__ = ()


Inner = str | int | float | None | Iterable["Inner"]
"""What may stand in an element: texts, elements, several of them; None is nothing."""


def tag(name: str, /, *inner: Inner, **attributes: str | int | bool | None) -> Markup:
    """Return an HTML element.

    Args:
        name: of the element.
        inner: what is in it.
        attributes: of it; True has no value, False and None are left out; `class_` and `for_` are class and for, and every
            other underscore is a hyphen.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{shown(value, _LONGEST)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{given}>" + ("" if name in _VOID else f"{joined(inner)}</{name}>"))


def joined(inner: Inner) -> Markup:
    """Return the contents of an element of a page, one after the other."""
    if inner is None:
        return Markup("")
    if isinstance(inner, Markup):
        return inner
    if isinstance(inner, (str, int, float)):
        return Markup(shown(inner, _LONGEST))
    return Markup("".join(map(joined, inner)))


def url(path: str = "./", /, **params: Any) -> str:
    """Return the URL of a view, or of an endpoint; what is empty is left out.

    It goes from the page on, which may have a prefix behind a proxy.
    """
    given = {name: value for name, value in params.items() if value not in (None, "", [], False)}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def hidden(**fields: str | None) -> Inner:
    """Return hidden fields of a form; empty ones are left out."""
    return [tag("input", type="hidden", name=name, value=value) for name, value in fields.items() if value]


def way_back(params: Mapping[str, str]) -> dict[str, Any]:
    """Return what the address of a text keeps of the list of answers: filters, order, and how was searched."""
    return {name: params.get(name) for name in _WAY_BACK}


def kept_of(params: Mapping[str, str]) -> dict[str, Any]:
    """Return what links and forms of the page keep of the list of answers: question, index, filters, order."""
    return {"q": params.get("q"), "index": params.get("index"), **way_back(params)}


def options(name: str, choices: Sequence[tuple[str, str]], chosen: str, label: str) -> Markup:
    """Return the element of a page with the choices of a form.

    Args:
        name: of the field.
        choices: value and what is shown of it.
        chosen: the value that is chosen.
        label: of the field.
    """
    return tag(
        "label", tag("span", label),
        tag("select", [tag("option", text, value=value, selected=value == chosen) for value, text in choices], name=name),
    )  # fmt: skip


def over_texts(about: Mapping[str, Any]) -> list[Any]:
    """Return the served indexes over texts; words, and indexes over words, have neighbours too."""
    return [one for one in about["artifacts"] if "search" in one["can"] and "neighbours" not in one["can"]]


def tabs_of(about: Mapping[str, Any]) -> list[str]:
    """Return the views that a server has, by what its artifacts can; an index over words alone gives no search of texts."""
    found = {ability for one in about["artifacts"] for ability in one["can"]}
    found -= set() if over_texts(about) else {"search"}
    return [tab for tab, needed in _NEEDS.items() if not needed or needed & found]


def menu(
    about: Mapping[str, Any], params: Mapping[str, str], *, tab: str = "", root: str = "./", row: int | None = None
) -> list[tuple[str, str, str]]:
    """Return the entries of the menu as view, label and address; they keep what was asked and chosen.

    Args:
        about: what is served.
        params: of the URL.
        tab: the view that has the menu.
        root: the way from the address of the page to that of `/`.
        row: of the text that is shown, which the map marks.
    """
    kept = kept_of(params)
    shown = {"words": {"tab": "words", "words": params.get("words")}, "search": {}}
    links = [(one, TABS[one], url(root, **shown.get(one, {"tab": one}), **kept)) for one in tabs_of(about)]
    if (to := _map_of_menu(about, params, tab)) is not None:
        mapped, place = to
        layout = params.get("map") if params.get("map") in LAYOUTS else None  # a text that was opened from the map
        asked = {name: params.get(name) for name in ("q", "f", "where")}
        address = url(f"{root}map/{quote(mapped, safe='')}", layout=layout, **asked)
        place = place if row is None else str(row)
        links.insert(1, ("map", "Map", f"{address}#{place}" if place else address))
    return links


def _map_of_menu(about: Mapping[str, Any], params: Mapping[str, str], tab: str) -> tuple[str, str] | None:
    """Return the artifact to whose map the menu leads, and the place there; None if no artifact has a map.

    Beside the words view that is the one of the chosen words, with the word; else the one of the chosen index with vectors,
    or, where none or all are chosen, of the first; where there is no such index that of words.
    """
    words: list[str] = [one["name"] for one in about["artifacts"] if "map" in one["can"]]
    chosen, word = params.get("words"), params.get("word", "").strip()
    if words and tab == "words":
        place = quote(word.encode("utf-8", "replace")) if len(word.split()) == 1 else ""
        return (chosen if chosen and chosen in words else words[0]), place
    able: list[str] = [one["name"] for one in over_texts(about) if "similar" in one["can"]]
    if (index := params.get("index")) and index in able:
        return index, ""
    if able and (not index or index == ALL):
        return able[0], ""
    return (words[0], "") if words else None


def artifact_choice(name: str, about: Mapping[str, Any], able: Iterable[str], chosen: str | None, label: str) -> Inner:
    """Return the element of a page that lists the artifacts with an ability; a hidden field if there is only one."""
    wanted = {*able}
    named = [(one["name"], one.get("label", one["name"])) for one in about["artifacts"] if wanted & {*one["can"]}]
    if len(named) < 2:
        return [tag("input", type="hidden", name=name, value=one) for one, _ in named]
    return options(name, named, chosen or named[0][0], label)


def text_form(
    about: Mapping[str, Any], ability: str, params: Mapping[str, str], label: str, button: str, more: Inner = None
) -> Markup:
    """Return the element of a page that is a form of the model's tab.

    Its field and its parameter have the name of the ability.

    Args:
        about: what is served.
        ability: what is asked of a model.
        params: of the URL.
        label: of the field.
        button: what is written on the button.
        more: further fields.
    """
    text = params.get(ability, "")[:10_000]
    field = tag("textarea", text, id=ability, name=ability, rows=2, spellcheck="false", maxlength=10_000)
    return tag(
        "form", hidden(tab="model", do=ability, **kept_of(params)),
        tag("label", label, for_=ability), field,
        tag("div", artifact_choice(f"{ability}_by", about, [ability], params.get(f"{ability}_by"), "model"), more,
            tag("button", button, type="submit", title="Ctrl+Enter", aria_keyshortcuts="Control+Enter"), class_="options"),
        action=f"./#{ability}", method="get", data_ability=ability,
    )  # fmt: skip


def without_folders(text: str) -> str:
    """Return a text for a page without the folders of absolute paths, which are the server's own.

    >>> without_folders("wordpipe embed MODEL CORPUS -o /srv/data/run/index"), without_folders("run/index and/or https://a.org/b/c")
    ('wordpipe embed MODEL CORPUS -o index', 'run/index and/or https://a.org/b/c')
    """
    return _FOLDERS.sub("", text)


def explained(items: Mapping[str, tuple[str, str]]) -> Markup:
    """Return the element of a page with names, their values, and what each value means; empty values are left out."""
    shown = []
    for name, (value, means) in items.items():
        if value:
            said = tag("bdi", without_folders(value)[:300])
            shown.append(
                tag("div", tag("dt", tag("bdi", name)), tag("dd", said, means and tag("span", means, class_="kind")))
            )
    return tag("dl", shown[:_MOST], class_="params")


def definitions(items: Mapping[str, str]) -> Markup:
    """Return the element of a page with names and their values; empty values are left out."""
    shown = [(name, value) for name, value in items.items() if value][:_MOST]
    return tag(
        "dl", [tag("div", tag("dt", tag("bdi", name)), tag("dd", tag("bdi", value[:300]))) for name, value in shown]
    )


def share_bar(share: float) -> Markup:
    """Return a bar, filled by this share, for a number beside the bar."""
    return Markup(bar(share, "share"))


def share_row(text: str, share: float) -> Markup:
    """Return a table row of the page with a share as number and bar."""
    return tag(
        "tr", tag("th", tag("bdi", text[:200]), scope="row"), tag("td", f"{share:.1%} ", share_bar(share), class_="n")
    )


def marks(value: Any) -> str:
    """Return a value on the page as a text, a number with marks of thousands, but for those of four digits, as years are.

    >>> marks(12345), marks(-1234567.5), marks(1998), marks("12345"), marks(True)
    ('12,345', '-1,234,567.5', '1998', '12345', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float) or abs(value) < _MARKED:
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.15g}"


def spaced(value: Any) -> str:
    r"""Return a value of a filter as a text on the page, in which white space that one would not see has marks.

    >>> spaced("sea port"), spaced(" sea  port\t"), spaced("  "), spaced(""), spaced(1998)
    ('sea port', '␣sea␣␣port⇥', '␣␣', '“” (empty)', '1998')
    """
    text = marks(value)
    return (
        _UNSEEN_SPACE.sub(lambda found: "".join(_SPACE.get(one, f"\\u{ord(one):04x}") for one in found[0]), text)
        or _EMPTY
    )


def cut_words(text: str, most: int) -> str:
    """Return the beginning of a text, at most so many characters, cut behind a word; a script without spaces anywhere.

    >>> cut_words("Salt responds.", 12), cut_words("Salt.", 5), cut_words("x" * 9, 4)
    ('Salt …', 'Salt.', 'xxxx …')
    """
    if len(text) <= most:
        return text
    return f"{_LAST_WORD.sub('', text[: most + 1])[:most]} …"


def prose(text: str) -> Markup:
    """Return a text from a corpus as it stands on a page, with its lines and their indentation."""
    return Markup("\n".join(shown(line.expandtabs(4), len(text) + _LONGEST) for line in text.split("\n")))


def distinct_names(paths: Sequence[str]) -> list[str]:
    """Return names of files for a page, each with as many of its folders as tell it from the others.

    >>> distinct_names(["notes/a/x.md", "notes/b/x.md", "notes/b/y.md"])
    ['a/x.md', 'b/x.md', 'y.md']
    """
    parts = {path: path.split("/") for path in paths}

    def is_alone(path: str, n: int) -> bool:
        return not any(other != path and own[-n:] == parts[path][-n:] for other, own in parts.items())

    least = {path: next((n for n in range(1, len(own)) if is_alone(path, n)), len(own)) for path, own in parts.items()}
    return ["/".join(parts[path][-least[path] :]) for path in paths]


def names_of(hits: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the sources of texts that stand together on a page, and what each is called there."""
    sources = list(dict.fromkeys(str(hit.get("source") or "") for hit in hits))
    return dict(zip(sources, distinct_names(sources), strict=True))


def with_short_sources(hits: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return hits whose sources are called as on a page.

    >>> with_short_sources([{"source": "../../data/a.log", "line": 3}])
    [{'source': 'a.log', 'line': 3}]
    """
    names = names_of(whole := [*hits])
    return [{**one, "source": names[str(one["source"])]} if one.get("source") else {**one} for one in whole]


def short_place(hit: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the place of a text on the page, with as much of its path as `names` has; without a name, as that is a link.

    >>> hit = {"source": "../../data/a.log", "line": 3}
    >>> short_place(hit, names_of([hit])), short_place({"text": "tides"}, {})
    ('a.log:3', '')
    """
    source = str(hit.get("source") or "")
    place = place_of_hit({**hit, "anchor": hit.get("anchor") if hit.get("place") else None})
    return names[source] + place.removeprefix(source) if source else ""


def on_page(hint: str) -> str:
    """Return a next step that the server names as one on the page.

    >>> on_page("try other words, or search by words, with mode=lexical")
    'try other words, or move the slider to exact words, or choose auto'
    """
    for theirs, ours in HINTS.items():
        hint = hint.replace(theirs, ours)
    return without_folders(hint) if hint.startswith("wordpipe ") else hint


def problem(reply: Any) -> Markup:
    """Return the element of a page with the message of a refused request, and its next step."""
    error = reply.get("error", {}) if isinstance(reply, Mapping) else {}
    hint = error.get("hint")
    said = tag("p", tag("bdi", (error.get("message") or "no answer").removesuffix(f"; {hint}")))
    return tag("div", said, hint and tag("p", tag("bdi", on_page(hint)), class_="hint"), class_="problem", role="alert")
