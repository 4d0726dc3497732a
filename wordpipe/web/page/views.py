"""The page: HTML that says all without a script, and the files that make it quick to use; the views but that of search.

`home` draws a view for the parameters of the URL; scripts in `files/` then answer as one types, with the same parameters in
the URL, so that every view can be linked to. Nothing in the page is a script, a handler or a style: the policy of the server
lets none run. All text that comes from a corpus is escaped here, and is text alone (`textContent`) there.

A bar never stands alone: it has its number beside it.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from wordpipe.stages import COMMANDS, QUERIES_MEASURED
from wordpipe.web.page.api_view import api_view
from wordpipe.web.page.filters_view import liked_of, question_of
from wordpipe.web.page.model_view import model_view
from wordpipe.web.page.parts import (
    HINTS,
    TABS,
    Inner,
    Markup,
    artifact_choice,
    definitions,
    explained,
    hidden,
    kept_of,
    marks,
    menu,
    over_texts,
    problem,
    share_bar,
    tabs_of,
    tag,
    url,
    without_folders,
)
from wordpipe.web.page.reading_view import reading_view
from wordpipe.web.page.search_view import search_view
from wordpipe.web.page.start_view import made_of
from wordpipe.wording import counted, human_bytes, human_count, human_seconds

Ask = Callable[..., Awaitable[tuple[int, Any]]]
"""One of the server's endpoints: path and parameters, and the body of a POST → status and decoded JSON."""

_SKIP = [("main", "content")]
_SKIPS = {"search": [("results", "answers"), ("filters", "filters")]}
_NEIGHBOURS = 20
_ANALOGY = ("a", "b", "c")  # fields of an analogy
_ALL_BUT_ROUNDING = 0.9995  # a share that is written as 100 %
_DOES = {
    "fill": "fills gaps in texts",
    "complete": "continues texts",
    "predict": "labels texts",
    "attend": "shows the attention between the words of a text",
}
_MEANS = {
    "recall_at_10": "how much of the 10 nearest vectors a search by meaning finds: 1 is all; at least {recall} was asked for",
    "loss": "how badly it guesses the texts that it learned from: lower is better",
    "valid_loss": "how badly it guesses texts that it did not learn from: lower is better",
    "perplexity": "among how many tokens it wavers on average: lower is better, and 1 is the least",
    "valid_nearest": "how many held-out pairs of texts find each other: 1 is all",
    "valid_pairs": "how many pairs this was measured with",
    "mean_cosine": "how alike two texts are on average: near 0 is good, and at 1 all are the same",
    "teacher_cosine": "how near its vectors are to those it learned from: 1 is the same",
    "teacher_cosine_held_out": "how near they are for texts that it did not learn from",
    "accuracy": "how many held-out texts have the right label: 1 is all",
    "macro_f1": "how well each label is found, as a mean over the labels: 1 is the best",
    "span_f1": "how well whole names are found: 1 is the best",
}
"""What a figure of an artifact says, and what is good."""
_UNKNOWN = tag("p", "The server cannot list its artifacts.", role="alert")


async def home(params: Mapping[str, str], ask: Ask) -> str:
    """Return the HTML of `/`, the page of the server.

    Args:
        params: of the URL: `tab` (search, words, model, about), and what the view of that tab takes; unknown ones say nothing.
        ask: gives the JSON of the endpoints.
    """
    status, about = await ask("/about", {})
    if status != 200:
        return frame("about", None, _UNKNOWN, params)
    able = tabs_of(about)
    wanted = params.get("tab", able[0])
    tab = wanted if wanted in able else able[0]
    views = {"search": search_view, "words": words_view, "model": model_view, "about": about_view}
    return frame(tab, about, await views[tab](params, ask, about), params)


async def reading(record_id: str, params: Mapping[str, str], ask: Ask, root: str) -> tuple[int, str]:
    """Return the status and the HTML of `/text/ID`, the page of one text.

    Args:
        record_id: of the text; empty where its row is among the parameters.
        params: of the URL; see `reading_view`.
        ask: gives the JSON of the endpoints.
        root: the way from the address of the page to that of `/`: `../`.
    """
    status, about = await ask("/about", {})
    if status != 200:
        return status, frame("about", None, _UNKNOWN, params, root=root)
    status, title, row, view = await reading_view(record_id, params, ask, about, root)
    return status, frame("text", about, view, params, title=title, root=root, row=row)


async def api(params: Mapping[str, str], ask: Ask, address: str) -> tuple[int, str]:
    """Return the status and the HTML of `/api`, the page of all endpoints.

    Args:
        params: of the URL: what the menu keeps; the forms ask its index, and that of `/search`, or of `/similar`, all that it
            asks.
        ask: gives the JSON of the endpoints.
        address: of the server, as it was asked, for commands.
    """
    status, about = await ask("/about", {})
    _, document = await ask("/openapi.json", {})
    if status != 200:
        return status, frame("about", None, _UNKNOWN, params)
    own = {name: params.get(name, "") for name in ("index", "where", "f")}
    listed, liked = {**own, "k": params.get("k", "")}, liked_of(params)
    asked: dict[str, dict[str, str | None]] = {"/search": {**listed, **question_of(params)}, "/facets": {**own}}
    asked |= {"/similar": {**listed, "row": None, **liked}} if liked else {}
    view = api_view(document, asked, own["index"], address, "/similar" if liked else None)
    return 200, frame("api", about, view, params, title="HTTP API")


async def refused(reply: Mapping[str, Any], ask: Ask, root: str) -> str:
    """Return the HTML of a page, with its menu, that says why something is not shown; `root` as in `reading`."""
    first = tag("p", tag("a", "To the first page", href=root), class_="links")
    view = tag("div", tag("h1", "Not shown", class_="unseen"), problem(reply), first)
    return await _beside_menu(view, "not shown", {}, ask, root)


async def being_made(params: Mapping[str, str], index: str, far: str, ask: Ask, root: str) -> str:
    """Return the HTML of the page, with its menu, that stands for a map of texts or words until that map is made.

    Args:
        params: of the URL, which the link to ask again keeps.
        index: of the texts, or the words.
        far: how far the work is.
        ask: gives the JSON of the endpoints.
        root: as in `reading`.
    """
    again = tag("a", "ask again", href=url(f"{root}map/{quote(index, safe='')}", **params))
    said = tag("p", "The map of ", tag("bdi", index[:200]), " is being made.", class_="lead")
    view = tag(
        "div",
        tag("h1", "Map", class_="unseen"),
        said,
        tag("p", far[:1].upper(), far[1:], "."),
        tag("p", "This page asks again by itself; you can also ", again, ".", class_="hint"),
        role="status",
    )
    return await _beside_menu(view, "Map", {**params, "index": index}, ask, root)


async def _beside_menu(view: Markup, title: str, params: Mapping[str, str], ask: Ask, root: str) -> str:
    """Return the page around what stands for another page, with the menu where the server can list its artifacts."""
    status, about = await ask("/about", {})
    return frame("text", about if status == 200 else None, view, params, title=title, root=root)


def frame(
    tab: str, about: Mapping[str, Any] | None, view: Markup, params: Mapping[str, str], *, title: str = "",
    root: str = "./", row: int | None = None,
) -> str:  # fmt: skip
    """Return the whole page around a view, with the menu, if it is known what is served.

    The page of a text is in no tab, and has a title and a heading of its own; the map marks its `row`.
    """
    name = title[:60] or (params.get("q", "").strip()[:60] if tab == "search" else TABS[tab])
    whole = f"{name} · wordpipe" if name else "wordpipe"
    entries = menu(about, params, tab=tab, root=root, row=row) if about else []
    links = [tag("a", label, href=href, aria_current="page" if one == tab else None) for one, label, href in entries]
    version = about["version"] if about else ""
    label = "this search as an API call" if tab == "search" else "API for programs"
    liked = {name: params.get(name) for name in ("similar", "similar_id") if tab == "search"}
    place = "#/similar" if any(liked.values()) else ""
    to_api = tag("a", label, href=url(f"{root}api", **liked, **kept_of(params)) + place)
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"), tag("title", whole),
        tag("link", rel="icon", href=f"{root}static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"{root}static/page.css"),
        tag("script", type="module", src=f"{root}static/main.js"),
    )  # fmt: skip
    body = tag(
        "body", [tag("a", f"Skip to the {what}", href=f"#{place}", class_="skip") for place, what in _SKIPS.get(tab, _SKIP)],
        tag("header", tag("a", "wordpipe", href=root, class_="name"), tag("nav", links, aria_label="Views")),
        tag("main", tag("h1", TABS[tab], class_="unseen") if tab in TABS else None, view, id="main", class_=f"view-{tab}",
            data_hints=json.dumps(HINTS)),
        tag("footer", tag("p", f"wordpipe {version} · this page connects only to this server · ", to_api)),
    )  # fmt: skip
    return f"<!doctype html>{tag('html', head, body, lang='en')}"


async def words_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """Return the HTML of the words tab: the nearest words of a word, or of an expression such as king - man + woman."""
    # the form
    pair = [params.get(one, "").strip()[:200] for one in _ANALOGY]
    asked = params.get("word", "").strip() or ("{2} - {0} + {1}".format(*pair) if all(pair) else "")
    names = [one["name"] for one in about["artifacts"] if "neighbours" in one["can"]]
    name = params.get("words") if params.get("words") in names else names[0]
    field = tag(
        "input", type="search", id="word", name="word", value=asked[:2_000], autocomplete="off", autocapitalize="none",
        placeholder="a word, or king - man + woman", spellcheck="false",
    )  # fmt: skip
    label, button = tag("label", "Word", for_="word", class_="unseen"), tag("button", "Show", type="submit")
    form = tag(
        "form", hidden(tab="words", **kept_of(params)),
        tag("div", label, field, button, class_="field-row"),
        tag("div", artifact_choice("words", about, ["neighbours"], name, "words from"), class_="options"),
        action="./", method="get",
    )  # fmt: skip
    form = tag("div", form, _analogy(params, str(name), pair))
    has_map = any(one["name"] == name and "map" in one["can"] for one in about["artifacts"])
    # what a word can be
    if not asked:
        hint = "Enter a word to see which words are used in similar ways in your texts. "
        hint += "Words can be added and subtracted: king - man + woman."
        link = tag("a", "Show the most frequent words on a map", href=_map_of(str(name)))
        empty = tag("div", tag("p", hint, class_="lead"), tag("p", link) if has_map else None, class_="empty")
        return tag("div", form, empty)
    # the nearest words, and those that are not known
    status, found = await ask("/search", {"index": str(name), "q": asked, "k": str(_NEIGHBOURS), "format": "json"})
    if status != 200:
        return tag("div", form, problem(found))
    rows = [_word_row(hit, str(name), kept_of(params)) for hit in found["hits"]]
    unknown = [_unknown(word, near, str(name), kept_of(params)) for word, near in found["unknown"].items()]
    columns = (("word", None), ("cosine", "n"), ("count", "n"))
    head = tag("thead", tag("tr", [tag("th", text, scope="col", class_=kind) for text, kind in columns]))
    table = tag(
        "table", tag("caption", tag("bdi", f"words nearest to {asked[:200]}")), head, tag("tbody", rows), class_="words"
    )
    nothing = (found.get("nothing") or {}).get("message", "nothing was found")
    words = [*pair, found["hits"][0]["word"]] if rows and all(pair) and not params.get("word", "").strip() else [asked]
    on_map = _on_map(str(name), words) if has_map else None
    return tag("div", form, unknown, on_map, table if rows else tag("div", tag("p", nothing), class_="empty"))


def _map_of(words: str) -> str:
    """Return the address of the map of a words artifact, from the words tab on."""
    return f"./map/{quote(words, safe='')}"


def _on_map(words: str, shown: Sequence[str]) -> Inner:
    """Return the link of the words tab to the map: to one word, or to the four words of an analogy; of an expression none."""
    if len(shown) == len(_ANALOGY) + 1:
        to, label = (
            url(_map_of(words), **dict(zip((*_ANALOGY, "d"), shown, strict=True))),
            "Draw this analogy on the map",
        )
    elif len(shown[0].split()) == 1:
        to, label = f"{_map_of(words)}#{quote(shown[0].encode('utf-8', 'replace'))}", f"Show {shown[0][:60]} on the map"
    else:
        return None
    return tag("p", tag("a", tag("bdi", label), href=to))


def _analogy(params: Mapping[str, str], words: str, pair: Sequence[str]) -> Markup:
    """Return the form of the words tab that asks what is to a third word as the second is to the first."""
    usual: dict[str, Any] = {"type": "text", "required": True, "autocapitalize": "none", "spellcheck": "false"}
    first, second, third = (
        tag("input", name=name, value=value, aria_label=f"{nth} word", **usual)
        for name, value, nth in zip(_ANALOGY, pair, ("first", "second", "third"), strict=True)
    )
    return tag(
        "form", hidden(tab="words", words=words, **kept_of(params)),
        tag("p", first, " is to ", second, " as ", third, " is to ", tag("button", "what?", type="submit"), class_="options"),
        action="./", method="get", class_="analogy", aria_label="Analogy",
    )  # fmt: skip


def _word_row(hit: Mapping[str, Any], words: str, kept: Mapping[str, Any]) -> Markup:
    """Return the table row of a near word: word, cosine, count."""
    count = f"{hit['count']:,}" if hit.get("count") else ""
    to = url(tab="words", word=hit["word"], words=words, **kept)
    link = tag("a", tag("bdi", str(hit["word"])[:200]), href=to)
    return tag(
        "tr",
        tag("th", link, scope="row"),
        tag("td", f"{hit['score']:.3f} ", share_bar(hit["score"]), class_="n"),
        tag("td", count, class_="n"),
    )


def _unknown(word: str, near: Sequence[str], words: str, kept: Mapping[str, Any]) -> Markup:
    """Return the note of the words view on a word without a vector, with words of similar spelling."""
    links: list[Inner] = [
        [" ", tag("a", tag("bdi", one), href=url(tab="words", word=one, words=words, **kept))] for one in near
    ]
    return tag(
        "p",
        tag("bdi", word[:200]),
        " has no vector.",
        [" Did you mean", links, "?"] if links else None,
        class_="unknown",
    )


async def about_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """Return of each artifact a few sentences and its warnings; figures, counts and settings are folded."""
    found = [await ask("/about", {"artifact": one["name"]}) for one in about["artifacts"]]
    examined = params.get("doctor", "")
    health = await findings(ask, examined) if examined in {one["name"] for one in about["artifacts"]} else None
    kept, parts = kept_of(params), []
    for one, (status, reply) in zip(about["artifacts"], found, strict=True):
        whole = {**one, **reply} if status == 200 else one
        parts.append(_artifact(whole, await _said_of(whole, ask), health if one["name"] == examined else None, kept))
    links = [
        tag("a", text, href=href)
        for text, href in (
            ("the API, with forms that send requests", url("./api", **kept)),
            ("health, as JSON", "./health"),
            ("metrics, for Prometheus", "./metrics"),
            ("about, as JSON", "./about"),
        )
    ]
    return tag("div", parts, tag("p", links, class_="links"), class_="artifacts")


async def _said_of(one: Mapping[str, Any], ask: Any) -> list[Inner]:
    """Return sentences on what an artifact is for, from what it was made, and how well it does that."""
    counts, rows = one["counts"], one["rows"] or 0
    if over_texts({"artifacts": [one]}):
        by_meaning = " and by meaning" if one["dim"] else ""
        said: list[Inner] = [f"{rows:,} texts, which are searched by words{by_meaning}. ", await made_of(ask, one)]
        if without := one["without_vector"]:
            n_texts = "1 text without a vector is" if without == 1 else f"{without:,} texts without a vector are"
            said.append(f" {n_texts} found by words alone.")
        if (recall := one["metrics"].get("recall_at_10")) is not None:
            share = "all" if recall >= _ALL_BUT_ROUNDING else f"{recall:.1%}"
            said.append(
                f" A search by meaning finds {share} of the 10 nearest vectors that a comparison with all vectors finds. "
                "This is how exactly the index searches, and says nothing of how useful the answers are."
            )
        lexical = one.get("manifest", {}).get("facts", {}).get("lexical") or {}
        if found := lexical.get("measured"):
            score, how = found["ndcg_at_10"][lexical["mode"]], QUERIES_MEASURED[found["by"]]
            said.append(
                f" How useful they are was measured with {counted(found['queries'], 'queries')} out of the texts ({how}): "
                f"{score:.2f} of 1 (nDCG@10; with 1 each is found in the first place)."
            )
        return said
    if "neighbours" in one["can"]:
        said = [f"{rows:,} words; words that are used in similar ways are near each other."]
    elif does := [text for ability, text in _DOES.items() if ability in one["can"]]:
        said = [f"A model that {does[0] if len(does) == 1 else ', '.join(does[:-1]) + ' and ' + does[-1]}."]
    else:
        said = []
    if n_texts := counts.get("texts") or counts.get("documents_train"):
        said.append(f" Learned from {n_texts:,} texts.")
    if one["made"]:
        day = time.strftime("%Y-%m-%d", time.gmtime(one["made"]))
        said += [" Made on ", tag("time", day, datetime=day), "."]
    return said


def _artifact(one: Mapping[str, Any], said: Inner, health: Inner, kept: Mapping[str, Any]) -> Markup:
    """Return the HTML of one artifact in the about tab: what is said of it, what is wrong, and, folded, all that is known."""
    manifest = one.get("manifest", {})
    # figures, metrics, counts and settings, each with what it means
    size = sum(file["bytes"] for file in manifest.get("outputs", ()))
    seconds, settings = manifest.get("seconds"), manifest.get("settings", {})
    figures = {
        "made by": (f"wordpipe {one['command']}", ""),
        "made on": (time.strftime("%Y-%m-%d", time.gmtime(one["made"])) if one["made"] else "", ""),
        "time to make": ("" if seconds is None else human_seconds(seconds) if seconds >= 1 else "under 1 s", ""),
        "rows": (f"{one['rows']:,}" if one["rows"] is not None else "", "texts or words that can be found"),
        "dimensions": (str(one["dim"] or ""), "numbers in each vector"),
        "size": (human_bytes(size), "on the disk of the server"),
        "device": (str(manifest.get("device", "")), "on which it was made"),
        "same bytes every run": ("yes" if manifest.get("bitwise") else "no", "if made again of the same texts"),
        "digest": (one["digest"][:16], "another one says that the content is another"),
        "versions opened": (str(one["swaps"] + 1), "since the server began"),
        "folder": (one["path"], ""),
    }  # fmt: skip
    figures |= {name: (value, "") for name, value in _brought(manifest.get("facts", {})).items()}
    metrics = {
        name.replace("_", " "): (f"{value:.4g}", _MEANS.get(name, "").format(recall=settings.get("recall", "")))
        for name, value in one["metrics"].items()
    }
    counts = {
        name.replace("_", " "): human_count(value) if value >= 1e6 else f"{value:,}"
        for name, value in one["counts"].items()
    }
    known = COMMANDS[one["command"]].load_settings().model_fields if one["command"] in COMMANDS else {}
    given = {
        name: (marks(value), known[name].description if name in known else "")
        for name, value in settings.items() if value not in (0, "", None, [])
    }  # fmt: skip
    # what is wrong, and a link to the doctor
    warnings = [
        *([f"the newest version cannot be opened: {one['error']}"] if one["error"] else []),
        *one["warnings"],
    ]
    warnings = list(map(without_folders, warnings))
    if health is None and "examine" in one["can"]:
        label = f"Check the health of {one['name']}"
        health = tag("p", tag("a", tag("bdi", label), href=url(tab="about", doctor=one["name"], **kept) + "#doctor"))
    kind = [" ", tag("small", one["kind"])] if one["kind"] != one["name"] else None
    return tag(
        "section", tag("h2", tag("bdi", one["name"]), kind),
        tag("p", said, class_="said"),
        tag("ul", [tag("li", tag("bdi", text)) for text in warnings], class_="warnings") if warnings else None,
        health,
        tag(
            "details", tag("summary", "Technical details"), explained(figures),
            _titled("Figures", explained(metrics), metrics), _titled("Counts", definitions(counts), counts),
            _titled("Settings", explained(given), given),
        ),
    )  # fmt: skip


def _brought(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return origin and licence of an encoder from elsewhere: of a model, or of the one that made an artifact's vectors."""
    of_encoder = facts if "origin" in facts else facts.get("encoder")
    if not isinstance(of_encoder, dict) or "origin" not in of_encoder:
        return {}
    return {"encoder from": str(of_encoder["origin"]), "licence": str(of_encoder.get("licence") or "not known")}


def _titled(title: str, shown: Markup, items: Mapping[str, Any]) -> Inner:
    """Return a heading with what is shown below, or nothing without items."""
    return [tag("h3", title), shown] if items else None


async def findings(ask: Any, name: str) -> Markup:
    """Return the view of the findings of `doctor`: state, complaint, and the next step."""
    status, found = await ask("/doctor", {"artifact": name})
    if status != 200:
        return tag("div", tag("h3", "Doctor"), problem(found), id="doctor")
    rows = [
        tag(
            "li", tag("strong", one["state"]), " ", tag("bdi", one["says"]),
            tag("p", "next: ", tag("bdi", without_folders(one["mend"])), class_="hint"), class_=f"is-{one['state']}",
        )
        for one in found["findings"]
    ]  # fmt: skip
    metrics = {}
    for name, words in found["meanings"].items():
        if (value := found["metrics"][name]) is not None:
            healthy = f"; healthy: {words['healthy']}" if words["healthy"] else ""
            of = f" of {found['metrics']['directions']:,}" if name == "effective_rank" else ""
            metrics[words["what"]] = f"{value:.4g}{of}", f"{words['means']}{healthy}"
    foot = tag(
        "p",
        f"Measured on a sample of at most {found['sample']:,} vectors or tokens; for a larger sample, run ",
        tag("code", tag("bdi", without_folders(found["command"]))),
        class_="hint",
    )
    healthy = tag("p", "No problem was found.")
    return tag(
        "div", tag("h3", "Doctor"), tag("ul", rows, class_="findings") if rows else healthy, explained(metrics), foot,
        id="doctor",
    )  # fmt: skip
