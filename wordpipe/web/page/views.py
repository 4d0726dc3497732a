"""The frame of the page, and the views of words, of models and of what is served, which need no script but to generate."""

from collections.abc import Mapping, Sequence
from typing import Any

from wordpipe.web.page.looks import attention_section, findings, map_view
from wordpipe.web.page.parts import (
    Inner,
    Markup,
    artifact_choice,
    definitions,
    hidden,
    problem,
    share_bar,
    tag,
    text_form,
    url,
)
from wordpipe.wording import human_bytes, human_count, human_seconds

_TABS = {"search": "Search", "words": "Words", "model": "Model", "about": "About"}
_NEIGHBOURS = 20
_CANDIDATES = 8


def frame(tab: str, able: Sequence[str], view: Markup, *, version: str = "", index: str | None = None) -> str:
    """The whole page around a view; its tabs keep the index that was asked."""
    title = "wordpipe" if tab == "search" else f"{_TABS[tab]} · wordpipe"
    links = [
        tag(
            "a", _TABS[one], href=url(tab=one if one != "search" else None, index=index),
            aria_current="page" if one == tab else None,
        )
        for one in able
    ]  # fmt: skip
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"), tag("title", title),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/page.css"),
        tag("script", type="module", src="/static/main.js"),
    )  # fmt: skip
    body = tag(
        "body", tag("a", "Skip to the answers", href="#main", class_="skip"),
        tag("header", tag("a", "wordpipe", href="/", class_="name"), tag("nav", links, aria_label="Views")),
        tag("main", tag("h1", _TABS[tab], class_="unseen"), view, id="main", class_=f"view-{tab}"),
        tag("footer", tag("p", f"wordpipe {version} · this page asks its own server and nothing else")),
    )  # fmt: skip
    return f"<!doctype html>{tag('html', head, body, lang='en')}"


async def words_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """The nearest words of a word, or of an expression such as king - man + woman."""
    asked = params.get("word", "").strip()
    names = [one["name"] for one in about["artifacts"] if "neighbours" in one["can"]]
    name = params.get("words") if params.get("words") in names else names[0]
    field = tag(
        "input", type="search", id="word", name="word", value=asked[:2_000], placeholder="a word, or king - man + woman",
        autocomplete="off", autocapitalize="none", spellcheck="false",
    )  # fmt: skip
    label, button = tag("label", "Word", for_="word", class_="unseen"), tag("button", "Show", type="submit")
    form = tag(
        "form", hidden(tab="words", index=params.get("index")), tag("div", label, field, button, class_="field-row"),
        tag("div", artifact_choice("words", about, ["neighbours"], name, "of"), class_="options"), action="/", method="get",
    )  # fmt: skip
    mapped = [one["name"] for one in about["artifacts"] if "map" in one["can"]]
    if mapped and params.get("map"):
        return tag("div", form, await map_view(params, ask, str(name if name in mapped else mapped[0])))
    if not asked:
        hint = "A word shows the words that stand in like places of your texts. "
        hint += "An analogy adds and takes away: king - man + woman."
        link = tag(
            "a",
            "Show the commonest words on a map",
            href=url(tab="words", map=1, words=name, index=params.get("index")),
        )
        empty = tag("div", tag("p", hint, class_="lead"), tag("p", link) if name in mapped else None, class_="empty")
        return tag("div", form, empty)
    status, found = await ask("/search", {"index": str(name), "q": asked, "k": str(_NEIGHBOURS), "format": "json"})
    if status != 200:
        return tag("div", form, problem(found))
    rows = [_word_row(hit, str(name), params.get("index")) for hit in found["hits"]]
    unknown = [_unknown(word, near, str(name), params.get("index")) for word, near in found["unknown"].items()]
    columns = (("word", None), ("cosine", "n"), ("times", "n"))
    head = tag("thead", tag("tr", [tag("th", text, scope="col", class_=kind) for text, kind in columns]))
    table = tag(
        "table", tag("caption", tag("bdi", f"nearest to {asked[:200]}")), head, tag("tbody", rows), class_="words"
    )
    nothing = (found.get("nothing") or {}).get("message", "nothing was found")
    return tag("div", form, unknown, table if rows else tag("div", tag("p", nothing), class_="empty"))


def _word_row(hit: Mapping[str, Any], words: str, index: str | None) -> Markup:
    count = f"{hit['count']:,}" if hit.get("count") else ""
    to = url(tab="words", word=hit["word"], words=words, index=index)
    link = tag("a", tag("bdi", str(hit["word"])[:200]), href=to)
    return tag(
        "tr",
        tag("th", link, scope="row"),
        tag("td", f"{hit['score']:.3f} ", share_bar(hit["score"]), class_="n"),
        tag("td", count, class_="n"),
    )


def _unknown(word: str, near: Sequence[str], words: str, index: str | None) -> Markup:
    links: list[Inner] = [
        [" ", tag("a", tag("bdi", one), href=url(tab="words", word=one, words=words, index=index))] for one in near
    ]
    return tag(
        "p",
        tag("bdi", word[:200]),
        " has no vector here.",
        [" Did you mean", links, "?"] if links else None,
        class_="unknown",
    )


async def model_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """What models make of a text: gaps that are filled, labels, and (with a script) texts that go on."""
    able = {ability for one in about["artifacts"] for ability in one["can"]}
    parts: list[Inner] = []
    if "fill" in able:
        parts.append(await _fill(params, ask, about))
    if "predict" in able:
        parts.append(await _predict(params, ask, about))
    if "complete" in able:
        parts.append(_complete(about))
    if "attend" in able:
        parts.append(await attention_section(params, ask, about))
    return tag("div", parts, class_="models")


async def _fill(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    form, answer = text_form(about, "fill", params, "A text with gaps, each written [MASK]", "Fill"), list[Inner]()
    if text := params.get("fill", "").strip():
        status, found = await ask(
            "/fill", {"text": text, "model": params.get("fill_by", ""), "top_k": str(_CANDIDATES)}
        )
        if status != 200:
            answer = [problem(found)]
        else:
            answer = [tag("p", tag("bdi", found["filled"]), class_="text")]
            for number, candidates in enumerate(found["masks"], start=1):
                rows = [_share(repr_of(one["token"]), one["probability"]) for one in candidates]
                answer.append(tag("table", tag("caption", f"gap {number}"), tag("tbody", rows)))
            answer += [tag("p", tag("bdi", one["filled"]), class_="text") for one in found["fillings"][1:]]
    return tag("section", tag("h2", "Fill"), form, answer)


async def _predict(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    form, answer = text_form(about, "predict", params, "A text to label", "Predict"), list[Inner]()
    if text := params.get("predict", "").strip():
        status, found = await ask("/predict", {"text": text, "model": params.get("predict_by", "")})
        if status != 200:
            answer = [problem(found)]
        elif found.get("probabilities"):
            shares = sorted(found["probabilities"].items(), key=lambda one: -one[1])[:_CANDIDATES]
            answer = [
                tag("table", tag("caption", "labels"), tag("tbody", [_share(name, share) for name, share in shares]))
            ]
        elif "spans" in found:
            rows = [_share(f"{one['text']}: {one['label']}", one.get("probability") or 0) for one in found["spans"]]
            answer = [
                tag("table", tag("caption", "names"), tag("tbody", rows)) if rows else tag("p", "no name was found")
            ]
        else:
            answer = [
                tag("p", f"score {found['score']:.3f}" if "score" in found else str(found.get("answer")), class_="text")
            ]
    return tag("section", tag("h2", "Predict"), form, answer)


def _complete(about: Mapping[str, Any]) -> Markup:
    form = text_form(about, "complete", {}, "A text to go on with", "Generate")
    note = tag("noscript", tag("p", "To generate needs JavaScript, or: curl -X POST …/v1/completions", class_="hint"))
    return tag(
        "section",
        tag("h2", "Generate"),
        form,
        note,
        tag("output", id="completion", class_="text", aria_live="polite", dir="auto"),
    )


def _share(text: str, share: float) -> Markup:
    return tag(
        "tr", tag("th", tag("bdi", text[:200]), scope="row"), tag("td", f"{share:.1%} ", share_bar(share), class_="n")
    )


def repr_of(token: str) -> str:
    """A token so that its spaces can be seen."""
    return token.replace(" ", "␣").replace("\n", "⏎") if not token.strip() or token != token.strip() else token


async def about_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """What is served: each artifact's manifest, ledger, figures and warnings."""
    found = [await ask("/about", {"artifact": one["name"]}) for one in about["artifacts"]]
    examined = params.get("doctor", "")
    health = await findings(ask, examined) if examined in {one["name"] for one in about["artifacts"]} else None
    index = params.get("index")
    parts = [
        _artifact(
            one, reply.get("manifest", {}) if status == 200 else {}, health if one["name"] == examined else None, index
        )
        for one, (status, reply) in zip(about["artifacts"], found, strict=True)
    ]
    links = [
        tag("a", text, href=href)
        for text, href in (("health", "/health"), ("metrics", "/metrics"), ("about, as JSON", "/about"))
    ]
    return tag("div", parts, tag("p", links, class_="links"), class_="artifacts")


def _artifact(one: Mapping[str, Any], manifest: Mapping[str, Any], health: Inner, index: str | None) -> Markup:
    size = sum(file["bytes"] for file in manifest.get("outputs", ()))
    figures = {
        "made by": f"wordpipe {one['command']}", "rows": f"{one['rows']:,}" if one["rows"] is not None else "",
        "dimensions": str(one["dim"] or ""), "size": human_bytes(size), "made in": human_seconds(manifest.get("seconds", 0.0)),
        "device": str(manifest.get("device", "")), "same bytes every run": "yes" if manifest.get("bitwise") else "no",
        "digest": one["digest"][:16], "generations seen": str(one["swaps"] + 1), "folder": one["path"],
    }  # fmt: skip
    metrics = {name.replace("_", " "): f"{value:.4g}" for name, value in one["metrics"].items()}
    counts = {
        name.replace("_", " "): human_count(value) if value >= 1e6 else f"{value:,}"
        for name, value in one["counts"].items()
    }
    settings = {name: str(value) for name, value in manifest.get("settings", {}).items() if value not in (None, "")}
    warnings = [
        *([f"the newest generation cannot be opened: {one['error']}"] if one["error"] else []),
        *one["warnings"],
    ]
    if health is None and "examine" in one["can"]:
        label = f"Examine {one['name']}: is it healthy?"
        health = tag(
            "p", tag("a", tag("bdi", label), href=url(tab="about", doctor=one["name"], index=index) + "#doctor")
        )
    return tag(
        "section", tag("h2", tag("bdi", one["name"]), " ", tag("small", one["kind"])),
        tag("ul", [tag("li", tag("bdi", text)) for text in warnings], class_="warnings") if warnings else None,
        definitions(figures), health, _titled("Figures", metrics), _titled("Ledger", counts),
        tag("details", tag("summary", "Settings"), definitions(settings)) if settings else None,
    )  # fmt: skip


def _titled(title: str, items: Mapping[str, str]) -> Inner:
    return [tag("h3", title), definitions(items)] if items else None
