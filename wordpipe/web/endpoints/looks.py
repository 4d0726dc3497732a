"""The API that looks into artifacts: `/attention` of a model in a text, `/map` of words, `/doctor` of any of them."""

import shlex
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wordpipe.errors import ConfigError, InputError
from wordpipe.pages import GRID, INSTALL_UMAP, WordMap, has_umap
from wordpipe.runtime import Progress
from wordpipe.stages import AttendedText, RunOptions, attend_in, examine, map_of
from wordpipe.web.endpoints.search import checked_text
from wordpipe.web.replies import Params, json_reply
from wordpipe.web.served import ServedArtifacts
from wordpipe.web.settings import ServeSettings

_KINDS = ("", "encoder", "decoder", "cross")
_LAYOUTS = ("auto", "umap", "pca")
_MOST_NUMBER = 10_000  # of a layer or a head
_MAPPED = 400  # words of a map
_SAMPLE = 4_000  # vectors, or tokens, that are examined
_LONGEST = 120.0  # seconds of an examination
_PATIENCE = 10.0  # seconds that a request waits for what is made once


class LooksApi:
    """The endpoints, over the artifacts of a server."""

    def __init__(self, artifacts: ServedArtifacts, settings: ServeSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self._seconds = min(_PATIENCE, settings.timeout / 2)
        self.routes = [
            Route("/attention", self.attention, methods=["GET"]),
            Route("/map", self.map, methods=["GET"]),
            Route("/doctor", self.doctor, methods=["GET"]),
        ]

    async def attention(self, request: Request) -> Response:
        """The weights of one head of a layer, or the mean of its heads: numbers of `wordpipe attention --json`.

        Layers and heads count from 1; without a layer it is the last one.
        """
        params = Params(request)
        text, second = self._text(params.text("text")), params.optional("second")
        served = self._artifacts.pick(params.optional("model"), "attend")
        kind = params.choice("kind", *_KINDS)
        layer, head = (params.whole(name, None, 1, _MOST_NUMBER) for name in ("layer", "head"))
        params.end()
        item = (text, None if second is None else self._text(second))

        def answer(items: Sequence[tuple[str, str | None]]) -> list[dict[str, Any]]:
            return [_attention(attend_in(generation.inspected, *one), kind, layer, head) for one in items]

        with served.lease() as generation:
            found = await served.ask(generation, answer, item, key=("attention", kind, layer, head))
        return json_reply({"model": served.name, "digest": generation.digest, "text": text, **found})

    async def map(self, request: Request) -> Response:
        """The commonest words on a plane, laid out as `wordpipe map` does; made once of each generation."""
        params = Params(request)
        served, layout = self._artifacts.pick(params.optional("words"), "map"), params.choice("layout", *_LAYOUTS)
        params.end()

        def make() -> dict[str, Any]:
            run = self._bounded(f"wordpipe map {shlex.quote(str(served.path))} -o map.html")
            return _mapped(map_of(generation.opened.artifact, _MAPPED, layout=layout, run=run))

        with served.lease() as generation:
            found = await self._artifacts.look(generation, ("map", layout), make, self._seconds)
        install = None if has_umap() else INSTALL_UMAP
        return json_reply({"words": served.name, "digest": generation.digest, "install": install, **found})

    async def doctor(self, request: Request) -> Response:
        """What `wordpipe doctor` finds on a sample; made once of each generation."""
        params = Params(request)
        served = self._artifacts.pick(params.optional("artifact"), "examine")
        params.end()
        command = f"wordpipe doctor {shlex.quote(str(served.path))}"

        def make() -> dict[str, Any]:
            found = examine(generation.opened.artifact, sample=_SAMPLE, run=self._bounded(command))
            return {name: found[name] for name in ("kind", "metrics", "findings")}

        with served.lease() as generation:
            found = await self._artifacts.look(generation, "doctor", make, self._seconds)
        about = {"artifact": served.name, "digest": generation.digest, "sample": _SAMPLE, "command": command}
        return json_reply({**about, **found})

    def _bounded(self, command: str) -> RunOptions:
        """Options of work that ends, with InputError, once it has taken too long, or the server is to end."""
        ends = time.monotonic() + _LONGEST

        def report(_: Progress) -> None:
            if time.monotonic() > ends or self._artifacts.slow.is_stopping:
                raise InputError(f"this takes longer than {_LONGEST:g} s, too long for a server", hint=command)

        return RunOptions(report=report)

    def _text(self, text: str) -> str:
        return checked_text(text, "the text", self._settings.max_chars)


def _attention(read: AttendedText, kind: str, layer: int | None, head: int | None) -> dict[str, Any]:
    kind = kind or next(iter(read.maps))
    if kind not in read.maps:
        raise ConfigError("the model has no such attention", where="kind", got=kind, expected=", ".join(read.maps))
    layers, heads = read.maps[kind].shape[:2]
    layer = layer or layers
    for name, number, most in (("layer", layer, layers), ("head", head or 1, heads)):
        if number > most:
            raise ConfigError(f"the model has no such {name}", where=name, got=number, expected=f"1 to {most}")
    queries, keys = read.sides(kind)
    return {
        "kind": kind, "kinds": [*read.maps], "layer": layer, "layers": layers, "head": head, "heads": heads,
        "queries": queries.shown, "keys": keys.shown, "notes": [*read.notes],
        "weights": read.weights(kind, layer - 1, None if head is None else head - 1).tolist(),
    }  # fmt: skip


def _mapped(shown: WordMap) -> dict[str, Any]:
    """A map as JSON: points from 0 to 1, to the right and downwards; groups by number, the words that stand for each."""
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
