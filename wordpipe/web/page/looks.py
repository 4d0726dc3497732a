"""The views that look into artifacts: the attention of a model in a text, a map of words, the findings of `doctor`.

A table or a drawing never stands alone: cells have their numbers, and the words of a map are links in a list of groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wordpipe.web.page.parts import Inner, Markup, definitions, options, problem, tag, text_form, url

_TOKENS = 32  # of the table's rows and columns
_SHADES = 10  # of a cell, in page.css
_WIDTH, _LOWEST = 1_000, 260  # of the map
_MARGIN = 24
_LETTER = 9.4, 20  # about the width and the height of a label's letter
_COMMON = 40  # words of a group that are listed


async def attention_section(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """Which tokens attend to which: one head of a layer, or the mean of its heads, as a table."""
    found, answer, second = dict[str, Any](), list[Inner](), params.get("second", "")[:10_000]
    if text := params.get("attend", "").strip():
        given = {name: params.get(name, "") for name in ("kind", "layer", "head")}
        given |= {"second": second} if second.strip() else {}
        status, found = await ask("/attention", {"text": text, "model": params.get("attend_by", ""), **given})
        answer = [_attention_table(found)] if status == 200 else [problem(found)]
        found = found if status == 200 else {}
        if found:
            link = {"text": text, "model": found["model"], **given}
            answer.append(tag("p", tag("a", "as JSON", href=url("/attention", **link)), class_="links"))
    field = tag("input", type="text", name="second", value=second, maxlength=10_000, spellcheck="false")
    more: list[Inner] = [tag("label", tag("span", "a second text, if any"), field)]
    if len(found.get("kinds", ())) > 1:
        more.append(options("kind", [(one, one) for one in found["kinds"]], found["kind"], "attention of"))
    if found:
        for name, first in (("layer", []), ("head", [("", "mean of all")])):
            numbers = [(str(n), str(n)) for n in range(1, found[f"{name}s"] + 1)]
            more.append(options(name, [*first, *numbers], str(found[name] or ""), name))
    form = text_form(about, "attend", params, "A text, to see which of its tokens look at which", "Look", more)
    return tag("section", tag("h2", "Attention"), form, answer)


def _attention_table(found: Mapping[str, Any]) -> Markup:
    queries, keys = found["queries"][:_TOKENS], found["keys"][:_TOKENS]
    head = "mean of its heads" if found["head"] is None else f"head {found['head']}"
    which = f"{found['kind']}, layer {found['layer']}, {head}"
    notes = [*found["notes"]]
    if (n := max(len(found["queries"]), len(found["keys"]))) > _TOKENS:
        notes.append(f"the first {_TOKENS} of {n:,} tokens are shown; all are in the JSON")
    caption = f"{which}. A row is a token; its cells say how many percent of its attention go to each token."
    columns = [tag("th", tag("span", tag("bdi", _seen(one))), scope="col") for one in keys]
    shown = [row[: len(keys)] for row in found["weights"][: len(queries)]]
    largest = max((weight for row in shown for weight in row), default=0.0) or 1.0
    rows = [
        tag("tr", tag("th", tag("bdi", _seen(token)), scope="row"), [_cell(weight, largest) for weight in weights])
        for token, weights in zip(queries, shown, strict=True)
    ]
    table = tag(
        "table",
        tag("caption", which, class_="unseen"),
        tag("thead", tag("tr", tag("td"), columns)),
        tag("tbody", rows),
        class_="heat",
    )
    said = [tag("p", tag("bdi", note), class_="hint") for note in [*notes, caption]]
    return tag("div", said, tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=which))


def _cell(weight: float, largest: float) -> Markup:
    """A weight in percent, on a ground whose colour is as strong as its share of the largest one."""
    shade = round(_SHADES * weight / largest)
    return tag("td", f"{100 * weight:.0f}", class_=f"s{shade}", title=f"{weight:.4f}")


def _seen(token: str) -> str:
    return token.replace(" ", "␣").replace("\n", "⏎")[:40] or "␣"


async def map_view(params: Mapping[str, str], ask: Any, words: str) -> Markup:
    """The commonest words on a plane, and, for those who do not see it, in groups."""
    layout = "pca" if params.get("map") == "pca" else "auto"
    status, found = await ask("/map", {"words": words, "layout": layout})
    if status != 200:
        return problem(found)
    points, kept = found["points"], found["neighbours_kept"]
    title = f"The {len(points)} commonest words of “{words}”"
    said = f"laid out by {found['layout'].upper()}. Of a word's nearest neighbours {kept:.0%} are its nearest here too."
    install = found["install"] and tag(
        "p", "UMAP keeps more neighbours together: ", tag("code", found["install"]), class_="hint"
    )
    index = params.get("index")
    groups = [
        tag("section", tag("h3", tag("span", "●", class_=f"g{number}", aria_hidden="true"), " ", tag("bdi", ", ".join(names))),
            tag("p", _links([one["word"] for one in points if one["group"] == number], words, index)))
        for number, names in enumerate(found["groups"])
    ]  # fmt: skip
    drawing = tag("div", _drawing(points, title), class_="scroll", tabindex="0", role="region", aria_label="Map")
    listed = tag("details", tag("summary", "The same words in groups, as links"), groups, class_="groups")
    return tag("figure", tag("figcaption", tag("bdi", title), ", ", said), install, drawing, listed)


def _links(shown: Sequence[str], words: str, index: str | None) -> Inner:
    links: list[Inner] = [
        [tag("a", tag("bdi", one[:60]), href=url(tab="words", word=one, words=words, index=index)), " "]
        for one in shown[:_COMMON]
    ]
    return [*links, f"and {len(shown) - _COMMON} more" if len(shown) > _COMMON else None]


def _drawing(points: Sequence[Mapping[str, Any]], title: str) -> Markup:
    """Points, with the names of those that leave each other room, the commonest first."""
    scale = _WIDTH - 2 * _MARGIN  # of both axes, so that distances mean the same everywhere
    top = min(one["y"] for one in points)
    height = max(_LOWEST, 2 * _MARGIN + scale * (max(one["y"] for one in points) - top))
    dots, names, taken = list[Markup](), list[Markup](), list[tuple[float, float, float]]()
    for one in points:
        x, y = _MARGIN + scale * one["x"], _MARGIN + scale * (one["y"] - top)
        dots.append(tag("circle", cx=f"{x:.0f}", cy=f"{y:.0f}", r="3", class_=f"g{one['group']}"))
        long = min(len(one["word"]), 24) * _LETTER[0]
        left = x - 6 - long if x + 6 + long > _WIDTH else x + 6
        if all(abs(y - other) >= _LETTER[1] or left > right or left + long < begin for begin, right, other in taken):
            taken.append((left, left + long, y))
            names.append(tag("text", one["word"][:24], x=f"{left:.0f}", y=f"{y + 5:.0f}"))
    return tag(
        "svg", tag("title", f"{title}: a drawing; the same words stand in groups below"), tag("g", dots), tag("g", names),
        viewBox=f"0 0 {_WIDTH} {height:.0f}", role="img", class_="map",
    )  # fmt: skip


async def findings(ask: Any, name: str) -> Markup:
    """What `doctor` finds of an artifact: how bad, what, and the next step."""
    status, found = await ask("/doctor", {"artifact": name})
    if status != 200:
        return tag("div", tag("h3", "Doctor"), problem(found), id="doctor")
    rows = [
        tag(
            "li", tag("strong", one["state"]), " ", tag("bdi", one["says"]),
            tag("p", "next: ", tag("bdi", one["mend"]), class_="hint"), class_=f"is-{one['state']}",
        )
        for one in found["findings"]
    ]  # fmt: skip
    metrics = {name.replace("_", " "): f"{value:.4g}" for name, value in found["metrics"].items() if value is not None}
    foot = tag(
        "p", f"On a sample of {found['sample']:,}; more says ", tag("code", tag("bdi", found["command"])), class_="hint"
    )
    healthy = tag("p", "Nothing is sick: leave it as it is.")
    return tag(
        "div", tag("h3", "Doctor"), tag("ul", rows, class_="findings") if rows else healthy, definitions(metrics), foot,
        id="doctor",
    )  # fmt: skip
