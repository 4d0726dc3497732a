"""The model's tab: gaps that are filled, texts that are labelled or go on, attention; one at a time, each with an example."""

import re
from collections.abc import Mapping
from typing import Any

from wordpipe.web.page.parts import Inner, Markup, kept_of, options, over_texts, problem, share_row, tag, text_form, url

_CANDIDATES = 8
_TOKENS = 32  # of the table's rows and columns
_SHADES = 10  # of a cell, in page.css
_EXAMPLE = "The sea rises and falls with the moon."
_LONGEST_EXAMPLE = 120  # characters
_BEGINNING = 6  # words of a text that is to go on
_SURE = 0.9  # of a label beside which no other is named
_DOES = {"fill": "Fill a gap", "predict": "Label", "complete": "Generate", "attend": "Attention"}


async def model_view(params: Mapping[str, str], ask: Any, about: Mapping[str, Any]) -> Markup:
    """Return the model's tab: a tab for each thing that the served models do, and the section of the chosen tab.

    Args:
        params: of the URL: `do` (fill, predict, complete, attend), what that section takes; without `do` it is the first that
            has a text.
        ask: gives the JSON of the endpoints.
        about: what is served.
    """
    able = [one for one in _DOES if any(one in artifact["can"] for artifact in about["artifacts"])]
    asked = [params.get("do"), *(one for one in able if params.get(one, "").strip()), *able]
    do = next(one for one in asked if one in able)
    kept = kept_of(params)
    links = [
        tag("a", _DOES[one], href=url(tab="model", do=one, **kept), aria_current="page" if one == do else None)
        for one in able
    ]
    example = await _example(ask, about)
    sections = {"fill": _fill, "predict": _predict, "complete": _complete, "attend": _attend}
    section = await sections[do](params, ask, about, example)
    tabs = tag("nav", links, aria_label="What the models do") if len(links) > 1 else None
    return tag("div", tabs, section, class_="models")


async def _example(ask: Any, about: Mapping[str, Any]) -> str:
    """Return the first sentence of the served texts; without an index, one about the sea."""
    for one in over_texts(about)[:1]:
        status, found = await ask("/text", {"index": one["name"], "row": "0", "length": "1000"})
        text = " ".join(found["text"].split()) if status == 200 else ""
        if sentence := re.split(r"(?<=[.!?。！？]) ?", text)[0]:
            return sentence if len(sentence) <= _LONGEST_EXAMPLE else sentence[:_LONGEST_EXAMPLE].rpartition(" ")[0]
    return _EXAMPLE


def _with_gap(text: str) -> str:
    """Return a text with a gap in the place of its longest word.

    >>> _with_gap("The sea rises.")
    'The sea [MASK].'
    """
    word = max(re.findall(r"\w+", text), key=len, default="")
    return text.replace(word, "[MASK]", 1) if word else "[MASK]"


async def _fill(params: Mapping[str, str], ask: Any, about: Mapping[str, Any], example: str) -> Markup:
    """Return the section of the model's tab that fills gaps."""
    form = text_form(about, "fill", {"fill": _with_gap(example), **params}, "A text with [MASK] in each gap", "Fill")
    answer = list[Inner]()
    if text := params.get("fill", "").strip():
        status, found = await ask(
            "/fill", {"text": text, "model": params.get("fill_by", ""), "top_k": str(_CANDIDATES)}
        )
        if status != 200:
            answer = [problem(found)]
        else:
            answer = [tag("p", tag("bdi", found["filled"]), class_="text")]
            for number, candidates in enumerate(found["masks"], start=1):
                rows = [share_row(repr_of(one["token"]), one["probability"]) for one in candidates]
                answer.append(tag("table", tag("caption", f"gap {number}"), tag("tbody", rows)))
            answer += [tag("p", tag("bdi", one["filled"]), class_="text") for one in found["fillings"][1:]]
    return tag("section", form, answer)


async def _predict(params: Mapping[str, str], ask: Any, about: Mapping[str, Any], example: str) -> Markup:
    """Return the section of the model's tab that labels texts."""
    form = text_form(about, "predict", {"predict": example, **params}, "A text to label", "Label")
    answer = list[Inner]()
    if text := params.get("predict", "").strip():
        status, found = await ask("/predict", {"text": text, "model": params.get("predict_by", "")})
        if status != 200:
            answer = [problem(found)]
        elif found.get("probabilities"):
            shares = sorted(found["probabilities"].items(), key=lambda one: -one[1])[:_CANDIDATES]
            table = tag(
                "table", tag("caption", "labels"), tag("tbody", [share_row(name, share) for name, share in shares])
            )
            answer = [_label(shares), table]
        elif "spans" in found:
            rows = [share_row(f"{one['text']}: {one['label']}", one.get("probability") or 0) for one in found["spans"]]
            answer = [
                tag("table", tag("caption", "names"), tag("tbody", rows)) if rows else tag("p", "no names were found")
            ]
        else:
            answer = [
                tag("p", f"score {found['score']:.3f}" if "score" in found else str(found.get("answer")), class_="text")
            ]
    return tag("section", form, answer)


def _label(shares: list[tuple[str, float]]) -> Markup:
    """Return the likeliest label of a text, with its probability."""
    (best, share), *others = shares
    doubt = f" {share:.0%} sure"
    if others and share < _SURE:
        doubt += f"; or {others[0][0][:200]}, {others[0][1]:.0%}"
    return tag("p", tag("b", tag("bdi", best[:200]), class_="chip"), tag("bdi", doubt), class_="label")


async def _complete(params: Mapping[str, str], ask: Any, about: Mapping[str, Any], example: str) -> Markup:
    """Return the section of the model's tab that continues texts."""
    begun = " ".join(example.split()[:_BEGINNING])
    given = {name: params.get(name, "")[:20] or usual for name, usual in (("temperature", "0.8"), ("length", "60"))}
    more: list[Inner] = [
        tag("label", tag("span", shown), tag("input", type="number", name=name, value=given[name], **bounds))
        for name, shown, bounds in (
            ("temperature", "temperature", {"min": "0", "max": "2", "step": "0.1"}),
            ("length", "tokens", {"min": "1", "max": "4096"}),
        )
    ]
    form = text_form(about, "complete", {"complete": begun, **params}, "A text to continue", "Generate", more)
    answer: Inner = None
    if text := params.get("complete", "").strip():
        try:
            body = {"temperature": float(given["temperature"]), "max_tokens": int(given["length"])}
        except ValueError:
            body = {}
        model = {"model": name} if (name := params.get("complete_by", "")) else {}
        status, found = await ask("/v1/completions", {}, {"prompt": text, **model, **body})
        answer = [tag("bdi", text), tag("mark", found["choices"][0]["text"])] if status == 200 else problem(found)
    output = tag("output", answer, id="completion", class_="text", aria_live="polite", dir="auto")
    return tag("section", form, output)


def repr_of(token: str) -> str:
    """Return a token so that its spaces can be seen."""
    return token.replace(" ", "␣").replace("\n", "⏎") if not token.strip() or token != token.strip() else token


async def _attend(params: Mapping[str, str], ask: Any, about: Mapping[str, Any], example: str) -> Markup:
    """Return the view of the attention of tokens to tokens: one head, or the mean of all heads."""
    found, answer, second = dict[str, Any](), list[Inner](), params.get("second", "")[:10_000]
    if text := params.get("attend", "").strip():
        given = {name: params.get(name, "") for name in ("kind", "layer", "head")}
        given |= {"second": second} if second.strip() else {}
        status, found = await ask("/attention", {"text": text, "model": params.get("attend_by", ""), **given})
        answer = [_attention_table(found)] if status == 200 else [problem(found)]
        found = found if status == 200 else {}
        if found:
            link = {"text": text, "model": found["model"], **given}
            answer.append(tag("p", tag("a", "as JSON", href=url("./attention", **link)), class_="links"))
    field = tag("input", type="text", name="second", value=second, maxlength=10_000, spellcheck="false")
    more: list[Inner] = [tag("label", tag("span", "a second text (optional)"), field)]
    if len(found.get("kinds", ())) > 1:
        more.append(options("kind", [(one, one) for one in found["kinds"]], found["kind"], "attention of"))
    if found:
        for name, first in (("layer", []), ("head", [("", "mean of all heads")])):
            numbers = [(str(n), str(n)) for n in range(1, found[f"{name}s"] + 1)]
            more.append(options(name, [*first, *numbers], str(found[name] or ""), name))
    shown = {"attend": example, **params}
    form = text_form(about, "attend", shown, "A text whose attention weights you want to see", "Show", more)
    return tag("section", form, answer)


def _attention_table(found: Mapping[str, Any]) -> Markup:
    """Return the view's attention weights as an HTML table."""
    # what is shown, and what is left out
    queries, keys = found["queries"][:_TOKENS], found["keys"][:_TOKENS]
    head = "mean of all heads" if found["head"] is None else f"head {found['head']}"
    which = f"{found['kind']}, layer {found['layer']}, {head}"
    notes = [*found["notes"]]
    if (n := max(len(found["queries"]), len(found["keys"]))) > _TOKENS:
        notes.append(f"the first {_TOKENS} of {n:,} tokens are shown; the JSON answer contains all tokens")
    caption = f"{which}. Each row shows how one token divides its attention among all tokens, in percent."
    # the table
    columns = [tag("th", tag("span", tag("bdi", _seen(one))), scope="col") for one in keys]
    shown = [row[: len(keys)] for row in found["weights"][: len(queries)]]
    largest = max((weight for row in shown for weight in row), default=0.0) or 1.0
    rows = [
        tag("tr", tag("th", tag("bdi", _seen(token)), scope="row"), [_cell(weight, largest) for weight in weights])
        for token, weights in zip(queries, shown, strict=True)
    ]
    # the table, with what is not in it
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
    """Return a cell of the attention table: a weight in percent, on a ground as dark as its share of the largest weight."""
    shade = round(_SHADES * weight / largest)
    return tag("td", f"{100 * weight:.0f}", class_=f"s{shade}", title=f"{weight:.4f}")


def _seen(token: str) -> str:
    """Return a token for the attention table, with its spaces shown."""
    return token.replace(" ", "␣").replace("\n", "⏎")[:40] or "␣"
