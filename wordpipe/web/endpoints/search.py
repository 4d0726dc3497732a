"""Our own API over indexes and words: `/search`, `/similar`, `/neighbours` and `/facets`."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wordpipe.errors import ConfigError, InputError
from wordpipe.stages import OpenArtifact, OpenIndex, OpenWords, PassageFinder, QueryOptions, QueryResult
from wordpipe.web.endpoints.facets import Chosen, Facets, chosen_values, condition, list_columns
from wordpipe.web.replies import Params, bounded, json_reply, lines_reply
from wordpipe.web.served import Generation, Served, ServedArtifacts
from wordpipe.web.settings import ServeSettings

MODES = ("auto", "dense", "lexical", "hybrid")
FORMATS = ("lines", "json")
_CARRIES = 0.1  # of the likeness by vectors: a word of the text that brings less is not marked
_MARKED_WORDS = 5
_MAX_EXPLAINED = 100  # hits
MAX_ROOM = 5_000  # characters of a passage
FACET_VALUES = 1_000
MAX_CONDITION = 10_000  # characters


class SearchApi:
    """The endpoints, over the artifacts of a server."""

    def __init__(self, artifacts: ServedArtifacts, settings: ServeSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self.routes = [
            Route("/search", self.search, methods=["GET"]),
            Route("/similar", self.similar, methods=["GET"]),
            Route("/neighbours", self.neighbours, methods=["GET"]),
            Route("/facets", self.facets, methods=["GET"]),
        ]

    async def search(self, request: Request) -> Response:
        """The hits of one query: the lines of `wordpipe query --json`, or one object with all that is known of it."""
        params = Params(request)
        text, k = self._text(params.text("q")), self._k(params)
        served = self._artifacts.pick(params.optional("index"), "search")
        options, chosen = query_options(params), chosen_values(params.optional("f"))
        form, room = params.choice("format", *FORMATS), params.whole("passage", 0, 0, MAX_ROOM) or 0
        params.end()
        if options.explain:  # 10 ms a hit
            bounded("k with explain", k, 1, _MAX_EXPLAINED)
        began = time.monotonic()
        with served.lease() as generation:
            options = await _narrowed(served, generation, options, chosen)
            result = await ask(served, generation, text, k, options)
            if form == "lines":
                return lines_reply({"query": result.query} | hit for hit in result.hits)
            about = await served.ask(generation, _about_result, (generation, result, options, room), key=object())
        return json_reply(_reply(served, generation, k, result, began) | about)

    async def similar(self, request: Request) -> Response:
        """The rows whose vectors are nearest to that of one row, which is named by its number or the user's id."""
        params = Params(request)
        served, k = self._artifacts.pick(params.optional("index"), "similar"), self._k(params)
        row, record_id = params.whole("row", None, 0, 1 << 62), params.optional("id")
        where, min_score = joined_conditions(params.every("where")), params.number("min_score")
        form, chosen = params.choice("format", *FORMATS), chosen_values(params.optional("f"))
        params.end()
        if (row is None) == (record_id is None):
            raise ConfigError("name one row", where="row, id", hint="…?row=N, or …?id=ID where records have ids")
        asked, began = QueryOptions(where=where, min_score=min_score), time.monotonic()

        def answer(items: Sequence[int | str]) -> list[tuple[int, list[dict[str, Any]]]]:
            opened: Any = generation.opened
            rows = [opened.row_of(item) if isinstance(item, str) else item for item in items]
            return [(one, opened.similar(one, k, options)) for one in rows]

        with served.lease() as generation:
            options = await _narrowed(served, generation, asked, chosen)
            item = record_id if record_id is not None else row
            assert item is not None
            number, hits = await served.ask(generation, answer, item, key=("similar", k, options))
        if form == "lines":
            return lines_reply({"query": f"row {number}"} | hit for hit in hits)
        return json_reply(
            _reply(served, generation, k, QueryResult(f"row {number}", hits, mode="dense"), began) | {"row": number}
        )

    async def neighbours(self, request: Request) -> Response:
        """The words nearest to a word, with their cosines."""
        params = Params(request)
        word, k = self._text(params.text("word")), self._k(params)
        served = self._artifacts.pick(params.optional("words"), "neighbours")
        params.end()

        def answer(items: Sequence[str]) -> list[list[dict[str, Any]]]:
            opened = generation.opened
            if isinstance(opened, OpenWords):
                return [[{"word": near, "score": score} for near, score in opened.neighbours(one, k)] for one in items]
            return [result.hits for result in opened.query_all(items, k)]

        with served.lease() as generation:
            found = await served.ask(generation, answer, word, key=("neighbours", k))
        return json_reply({"word": word, "words": served.name, "digest": generation.digest, "neighbours": found})

    async def facets(self, request: Request) -> Response:
        """The fields of an index's rows, with how many of the answers have each value; see `Facets.count`."""
        params = Params(request)
        served = self._artifacts.pick(params.optional("index"), "search")
        where, chosen = joined_conditions(params.every("where")), chosen_values(params.optional("f"))
        question, values = params.optional("q"), params.whole("values", 20, 1, FACET_VALUES) or 1
        params.end()
        question = self._text(question) if question and question.strip() else None

        def answer(items: Sequence[tuple[str | None, Chosen, str | None]]) -> list[dict[str, Any]]:
            opened = generation.opened
            assert isinstance(opened, OpenIndex)
            facets = generation.remember("facets", lambda: Facets(opened))
            return [facets.count(opened, *one, values) for one in items]

        with served.lease() as generation:
            if not isinstance(generation.opened, OpenIndex):
                raise ConfigError("words have no fields", where=served.name, expected="an index")
            found = await served.ask(generation, answer, (where, chosen, question), key=("facets", values))
        return json_reply({"index": served.name, "digest": generation.digest, "where": where, **found})

    def _text(self, text: str) -> str:
        return checked_text(text, "the query", self._settings.max_chars)

    def _k(self, params: Params) -> int:
        found = params.whole("k", 10, 1, self._settings.max_k)
        assert found is not None
        return found


def checked_text(text: str, what: str, most: int) -> str:
    """A text without the spaces around it. Raises ConfigError: it is empty or too long."""
    if len(text) > most:
        raise ConfigError(f"{what} is too long", got=f"{len(text):,} characters", expected=f"at most {most:,}")
    if not text.strip():
        raise ConfigError(f"{what} is empty", hint="give words")
    return text.strip()


def query_options(params: Params) -> QueryOptions:
    """The options of a query, from a URL."""
    return QueryOptions(
        mode=params.choice("mode", *MODES),  # type: ignore[arg-type]
        weight=params.number("weight"),
        feedback=params.whole("feedback", None, 0, 1_000),
        where=joined_conditions(params.every("where")),
        per_document=params.flag("per_document"),
        min_score=params.number("min_score"),
        explain=params.flag("explain"),
    )


def joined_conditions(conditions: Sequence[str]) -> str | None:
    """Conditions of which all are to be true, as the command line joins them. Raises ConfigError: too long."""
    bounded("characters of where", sum(map(len, conditions)), 0, MAX_CONDITION)
    return " and ".join(conditions if len(conditions) == 1 else map("({})".format, conditions)) or None


async def _narrowed(served: Served, generation: Generation, options: QueryOptions, chosen: Chosen) -> QueryOptions:
    """The options with chosen values of columns in their condition."""
    if not chosen:
        return options
    asked = (generation, chosen, options.where)
    return replace(options, where=await served.ask(generation, _conditions, asked, key=object()))


def _conditions(items: Sequence[tuple[Generation, Chosen, str | None]]) -> list[str | None]:
    """For the artifact's thread: the columns are read from disk once for each generation."""
    found = []
    for generation, chosen, where in items:
        opened = generation.opened
        if not isinstance(opened, OpenIndex):
            raise ConfigError("words have no fields", where="f", expected="an index")
        found.append(condition(chosen, generation.remember("lists", partial(list_columns, opened)), where))
    return found


async def ask(served: Served, generation: Generation, text: str, k: int, options: QueryOptions) -> QueryResult:
    """What one query finds, answered with others of the same options."""
    answer = _searcher(generation, k, options)
    return await served.ask(generation, answer, text, key=("search", k, options))


def _searcher(generation: Generation, k: int, options: QueryOptions) -> Any:
    return lambda texts: generation.opened.query_all(texts, k, options)


def _reply(served: Served, generation: Generation, k: int, result: QueryResult, began: float) -> dict[str, Any]:
    return {
        "query": result.query,
        "index": served.name,
        "digest": generation.digest,
        "k": k,
        "mode": result.mode,
        "seconds": round(time.monotonic() - began, 6),
        "hits": result.hits,
        "unknown": result.unknown,
        "guessed": result.guessed,
        "by_words": result.by_words,
    }


def _about_result(items: Sequence[tuple[Generation, QueryResult, QueryOptions, int]]) -> list[dict[str, Any]]:
    """What a page shows beside the hits: their passages with the marked words, or why there are none."""
    found = []
    for generation, result, options, room in items:
        about: dict[str, Any] = {"nothing": None, "passages": []}
        if not result.hits:
            error: InputError = generation.opened.nothing_found(options, result.query)
            about["nothing"] = {"message": error.message, "hint": error.hint}
        if room:
            finder = generation.opened.passages(result.query)
            there = _have_vectors(generation.opened, [hit["row"] for hit in result.hits])
            about["passages"] = [
                _passage(hit, finder, room) | {"has_vector": has} for hit, has in zip(result.hits, there, strict=True)
            ]
        found.append(about)
    return found


def _have_vectors(opened: OpenArtifact, rows: Sequence[int]) -> list[bool]:
    """Whether each row has a vector; what has none is found by words, ids and conditions alone."""
    known = opened.with_vector if isinstance(opened, OpenIndex) else None
    if known is None:
        return [True] * len(rows)
    return [bool(known[min(int(known.searchsorted(row)), len(known) - 1)] == row) for row in rows]


def _passage(hit: dict[str, Any], finder: PassageFinder, room: int) -> dict[str, Any]:
    """What of a hit answers best, in pieces: pairs of text and whether it is marked."""
    text = str(hit.get("text") or hit.get("word") or "")
    strongest = dict[str, float]()
    if dense := (hit.get("explain") or {}).get("dense"):
        for word in sorted(dense["text"], key=lambda one: -one["score"])[:_MARKED_WORDS]:
            if len(word["word"].strip()) > 1 and word["score"] >= _CARRIES * dense["score"]:
                strongest[word["word"]] = word["score"]
    passage = finder.passage(text, room, strongest)
    found: dict[str, Any] = {
        "pieces": _pieces(text, passage.start, passage.stop, passage.marks),
        "before": passage.start > 0,
        "after": passage.stop < len(text),
    }
    if title := str(hit.get("title") or ""):
        found["title"] = _pieces(title, 0, len(title), finder.marks(title))
    return found


def _pieces(text: str, start: int, stop: int, marks: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    """A stretch of a text, cut where a marked word begins or ends."""
    found, at = list[tuple[str, bool]](), start
    for first, last in marks:
        found += [(text[at:first], False), (text[first:last], True)]
        at = last
    return [piece for piece in [*found, (text[at:stop], False)] if piece[0]]
