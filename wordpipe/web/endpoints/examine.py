"""The API that looks into artifacts: `/attention` of a model in a text, `/map` of words or texts, `/doctor` of any kind."""

import asyncio
import gzip
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from starlette.requests import Request
from starlette.responses import Response

from wordpipe.errors import ConfigError, InputError
from wordpipe.pages import (
    GRID,
    INSTALL_UMAP,
    WordMap,
    has_umap,
    text_map_page,
    text_map_policy,
    word_map_page,
    word_map_policy,
)
from wordpipe.runtime import Progress
from wordpipe.stages import (
    AttendedText,
    OpenWords,
    RunOptions,
    attend_in,
    doctor_of,
    map_of,
    map_of_texts,
    pick_text_layout,
)
from wordpipe.web.endpoint import Answer, At, Endpoint, Serving, artifact_param, endpoint, param, words_param
from wordpipe.web.endpoints.models import second_param
from wordpipe.web.page.parts import menu
from wordpipe.web.params import GIVEN, MAP, NUMBER, TEXT, WHOLE, fields, listing, maybe
from wordpipe.web.replies import Refused, busy

_MOST_NUMBER = 10_000  # of a layer or a head
_MAPPED = 400  # words of a map
_GROUPS = 10  # of texts
_SAMPLE = 4_000  # vectors, or tokens, that are examined
_LONGEST = 120.0  # seconds of an examination
_UNTIL_SAID_S = 2.0  # that a browser waits for a map, until a page says how far it is

_ATTENTION = Answer("Attention", fields({
    "model": TEXT, "digest": TEXT, "text": TEXT, "kind": TEXT, "kinds": listing(TEXT), "layer": WHOLE, "layers": WHOLE,
    "head": maybe(WHOLE), "heads": WHOLE, "queries": listing(TEXT), "keys": listing(TEXT),
    "weights": listing(listing(NUMBER)), "notes": listing(TEXT),
}))  # fmt: skip
_WORD_MAP = Answer("WordMap", fields({
    "words": TEXT, "digest": TEXT, "layout": {"enum": ["umap", "pca"]}, "neighbours_kept": NUMBER, "install": maybe(TEXT),
    "groups": listing(listing(TEXT)),
    "points": listing(fields({"word": TEXT, "count": WHOLE, "x": NUMBER, "y": NUMBER, "group": WHOLE})),
}))  # fmt: skip
_EXAMINED = Answer("Examined", fields({
    "artifact": TEXT, "digest": TEXT, "kind": TEXT, "sample": WHOLE, "metrics": MAP, "meanings": MAP,
    "command": TEXT,
    "findings": listing(fields({
        "name": TEXT, "state": {"enum": ["sick", "weak", "unknown", "healthy"]}, "says": TEXT, "mend": TEXT,
    })),
}))  # fmt: skip


@endpoint("/attention", group="Models", can="attend", answer=_ATTENTION)
class Attention(Endpoint):
    """The attention weights of a model for a text."""

    text: str = words_param("a text", "salt and water", "the text")
    second: str | None = second_param("the second text of a pair; for an encoder-decoder: the target text")
    model: str | None = artifact_param("a transformer model")
    kind: Literal["encoder", "decoder", "cross"] | None = param(
        None,
        "kind of attention: in the encoder, in the decoder, or cross-attention; default: the first kind that the model has",
    )
    layer: int | None = param(
        None, "number of the layer, counted from 1; default: the last layer", ge=1, le=_MOST_NUMBER
    )
    head: int | None = param(
        None, "number of the head, counted from 1; default: the mean of all heads of the layer", ge=1, le=_MOST_NUMBER
    )

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return the weights of one head of a layer, or the mean of its heads: numbers of `wordpipe attention --json`."""
        inspected, asked = at.generation.inspected, items[0]
        read = [attend_in(inspected, one.text, one.second) for one in items]
        return [
            {"text": one.text, **_attention(found, asked.kind, asked.layer, asked.head)}
            for one, found in zip(items, read, strict=True)
        ]


@endpoint("/map", group="Words", can="map", answer=_WORD_MAP, made_once=True)
class Map(Endpoint):
    """A map of the most frequent words."""

    words: str | None = artifact_param("words")
    layout: Literal["auto", "umap", "pca"] = param(
        "auto", "method for the layout; auto: umap if umap is installed, otherwise pca"
    )

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return the map of words that `wordpipe map` computes."""
        run = _bounded(at, f"wordpipe map {shlex.quote(str(at.served.path))} -o map.html")
        return [_mapped(map_of(at.opened.artifact, _MAPPED, layout=one.layout, run=run)) for one in items]

    def reply(self, at: At, found: dict[str, Any]) -> dict[str, Any]:
        """Return the map, with the command that installs UMAP if UMAP is missing."""
        install = None if has_umap() else INSTALL_UMAP
        return {"words": at.served.name, **at.about, "install": install, **found}


@dataclass(frozen=True)
class _MadePage:
    """The page of a map, also compressed, and its policy for browsers."""

    page: bytes
    packed: bytes
    policy: str


def _analogy_param(text: str) -> Any:
    """Declare a word of an analogy, which the script of the page of a map reads in its address."""
    return param("", text, each=True, schema=GIVEN)


@endpoint("/map/{name}", group="Search", can="similar map", media=["text/html"], made_once=True)
class MapPage(Endpoint):
    """The page of a map of the texts of an index, or of the most frequent words, as `wordpipe map` makes the page."""

    name: str = artifact_param("an index over texts with vectors, or a words artifact", at="path")
    q: str = param("", "of texts: a query, whose answers are lit on the map", each=True, schema=GIVEN)
    f: str = param(
        "", "of texts: chosen values of filters, as in `/search`, for these answers", each=True, schema=GIVEN
    )
    where: str = param("", "of texts: a condition for these answers", each=True, schema=GIVEN)
    view: str = param("", "of texts: the shown part of the map, which the page itself writes", each=True, schema=GIVEN)
    colour: str = param("", "of texts: the field by which the dots are coloured", each=True, schema=GIVEN)
    a: str = _analogy_param("of words: first word of an analogy, which is drawn: a is to b as c is to d")
    b: str = _analogy_param("of words: second word of the analogy")
    c: str = _analogy_param("of words: third word of the analogy")
    d: str = _analogy_param("of words: fourth word of the analogy")
    layout: Literal["auto", "umap", "pca"] = param(
        "auto",
        "method for the layout; auto: umap for words, and for up to 10,000 texts, if umap is installed, otherwise pca",
    )

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[_MadePage]:
        """Return the page of the map of an index or of words."""
        steps, key, began, made = at.generation.steps, items[0].batch, time.monotonic(), []
        steps[key] = began, "beginning"

        def heard(step: Progress) -> None:
            if not step.note:
                done = f", {step.done:,} of {step.total:,} {step.unit}" if step.total else ""
                steps[key] = began, f"{step.phase}{done}"

        run = _bounded(at, f"wordpipe map {shlex.quote(str(at.served.path))} -o map.html", heard)
        for one in items:
            if isinstance(at.opened, OpenWords):
                words = map_of(at.opened.artifact, layout=one.layout, run=run)
                page, policy = word_map_page(words, at.served.name, _menu(at, words=at.served.name)), word_map_policy()
            else:
                opened = type(at.opened)(at.opened.artifact)  # its readers are of this thread, those of `at` of another
                layout = pick_text_layout(one.layout, len(opened), run)
                texts = map_of_texts(opened, at.served.path, None, layout, _GROUPS, run)
                page, policy = text_map_page(texts, at.served.name, _menu(at, index=at.served.name)), text_map_policy()
            made.append(_MadePage(page, gzip.compress(page, 6, mtime=0), policy))
        return made

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return the page, which may load nothing, and ask this server alone. Raises Refused: it says how far the map is."""
        is_seen = "text/html" in request.headers.get("accept", "").lower()
        try:
            async with asyncio.timeout(_UNTIL_SAID_S if is_seen else None):  # the work goes on
                made = await self.answered(server, lambda _, found: found)
        except (TimeoutError, Refused) as error:
            now = server.artifacts.pick(self.name, self.declared.can).current.steps.get(self.batch)
            if isinstance(error, Refused) and (error.status != 503 or now is None):
                raise
            if now is None:
                raise busy(503, "the server does other work first") from None
            seconds = max(1, round(time.monotonic() - now[0]))
            raise busy(503, f"the server has worked on the map for {seconds} s; step: {now[1]}") from None
        policy = f"{made.policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        headers = {"Content-Security-Policy": policy, "Vary": "Accept-Encoding"}
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        headers |= {"Content-Encoding": "gzip"} if is_packed else {}
        return Response(made.packed if is_packed else made.page, headers=headers, media_type="text/html")


def _menu(at: At, **shown: str) -> list[tuple[str, str, str]]:
    """Return the entries of the menu of a map's page, for the artifact that is shown; none of a server without a page."""
    served = at.server.artifacts.by_name.values()
    about = {"artifacts": [{"name": one.name, "can": [*one.current.abilities]} for one in served]}
    return menu(about, shown, tab="map", root="../") if at.server.has_page else []


@endpoint("/doctor", group="Server", can="examine", answer=_EXAMINED, made_once=True)
class Doctor(Endpoint):
    """The health of an artifact, and the next steps."""

    artifact: str | None = artifact_param("of any kind")

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return the findings of `/doctor` on a sample."""
        command = f"wordpipe doctor {shlex.quote(str(at.served.path))}"
        found = doctor_of(at.opened.artifact, sample=_SAMPLE, run=_bounded(at, command))
        about = {"sample": _SAMPLE, "command": command}
        return [about | {name: found[name] for name in ("kind", "metrics", "meanings", "findings")} for _ in items]


def _bounded(at: At, command: str, heard: Callable[[Progress], None] = lambda _: None) -> RunOptions:
    """Return run options that end slow work of `/doctor` or `/map` after a time limit; its steps are `heard`."""
    ends = time.monotonic() + _LONGEST

    def report(step: Progress) -> None:
        heard(step)
        if time.monotonic() > ends or at.server.artifacts.slow.is_stopping:
            raise InputError(
                f"this work takes longer than {_LONGEST:g} seconds, the maximum for a server", hint=command
            )

    return RunOptions(report=report)


def _attention(read: AttendedText, kind: str | None, layer: int | None, head: int | None) -> dict[str, Any]:
    """Return the attention weights of a layer and head as JSON, after a check of kind, layer and head."""
    kind = kind or next(iter(read.maps))
    if kind not in read.maps:
        raise ConfigError(
            "the model has no attention of this kind", where="kind", got=kind, expected=", ".join(read.maps)
        )
    layers, heads = read.maps[kind].shape[:2]
    layer = layer or layers
    for name, number, most in (("layer", layer, layers), ("head", head or 1, heads)):
        if number > most:
            raise ConfigError(
                f"the model has no {name} with this number", where=name, got=number, expected=f"1 to {most}"
            )
    queries, keys = read.sides(kind)
    return {
        "kind": kind, "kinds": [*read.maps], "layer": layer, "layers": layers, "head": head, "heads": heads,
        "queries": queries.shown, "keys": keys.shown, "notes": [*read.notes],
        "weights": read.weights(kind, layer - 1, None if head is None else head - 1).tolist(),
    }  # fmt: skip


def _mapped(shown: WordMap) -> dict[str, Any]:
    """Return for `/map` a map of words as JSON: points from 0 to 1; groups with their words."""
    colours = [*shown.group_names]
    points = [
        {"word": word, "count": int(count), "x": round(x / GRID, 4), "y": round(y / GRID, 4), "group": colours.index(group)}
        for word, count, (x, y), group in zip(
            shown.words, shown.counts, shown.places.tolist(), shown.groups.tolist(), strict=True
        )
    ]  # fmt: skip
    return {
        "layout": shown.layout, "neighbours_kept": round(shown.neighbours_kept, 4), "points": points,
        "groups": [shown.group_names[colour] for colour in colours],
    }  # fmt: skip
