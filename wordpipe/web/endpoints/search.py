"""Our own API over indexes and words: `/search`, `/similar`, `/neighbours` and `/facets`."""

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

from starlette.responses import Response

from wordpipe.errors import ConfigError, NothingFound
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import (
    CsvAnswers,
    OpenArtifact,
    OpenIndex,
    OpenTextIndex,
    OpenWords,
    QueryResult,
)
from wordpipe.web.endpoint import Answer, At, Endpoint, artifact_param, endpoint, inline, param, words_param
from wordpipe.web.endpoints.facets import MAX_CHOSEN, Chosen, Facets, chosen_values, condition, list_columns
from wordpipe.web.endpoints.texts import PASSAGE, OfOneRow, WithTable, base_param, origin_of, passages_of
from wordpipe.web.links import add_links, text_url
from wordpipe.web.page.parts import with_short_sources
from wordpipe.web.params import (
    ANY,
    FLAG,
    GIVEN,
    MAP,
    NO_NUL,
    NUMBER,
    TEXT,
    WHOLE,
    Schema,
    bounded,
    checked_text,
    fields,
    listing,
    maybe,
    ref,
    said_schema,
)
from wordpipe.web.replies import BYTE_ORDER_MARK, CSV, LINES, Refused, csv_reply, lines_reply
from wordpipe.web.settings import ServeSettings

_MAX_EXPLAINED = 100  # hits
_MAX_PASSAGE, _MAX_FIELD = 100_000, 5_000  # characters
_MAX_OFFSET = 100_000
_MAX_HITS = 10_000  # of all queries of a request
_FACET_VALUES = 1_000
_LONGEST_HEADER = 4_000  # characters
_MAX_CONDITION = 10_000  # characters
_OPTION = re.compile(
    r"--(mode|where) |--(exact)\b|use: wordpipe show .*"
)  # of the command line, in what is said of a query

_HIT = fields(
    {"rank": {"type": "integer", "minimum": 1}, "score": NUMBER, "row": {"type": "integer", "minimum": 0}},
    {
        "id": ANY, "doc_id": TEXT, "sentence_id": WHOLE, "title": maybe(TEXT), "text": TEXT, "word": TEXT,
        "count": WHOLE, "source": TEXT, "line": WHOLE, "passage_line": WHOLE, "anchor": maybe(TEXT), "place": TEXT,
        "split": TEXT, "metadata": MAP, "explain": MAP, "related": FLAG, "index": TEXT, "link": TEXT,
        "found_in": listing(TEXT), "also_in": fields({"count": WHOLE, "places": listing(TEXT)}),
    },
    closed=False,
)  # fmt: skip
_RESULT = Answer("Result", fields(
    {
        "query": TEXT, "index": TEXT, "digest": TEXT, "k": WHOLE, "seconds": NUMBER,
        "mode": maybe({"enum": ["dense", "lexical", "hybrid"]}), "hits": listing(ref("Hit")),
        "unknown": {"type": "object", "additionalProperties": listing(TEXT)}, "guessed": listing(TEXT),
        "by_words": listing(TEXT), "corrected": {"type": "object", "additionalProperties": TEXT}, "remarks": listing(TEXT),
    },
    {
        "matches": WHOLE, "nothing": maybe(fields({"message": TEXT, "hint": maybe(TEXT)})),
        "passages": listing(ref("Passage")), "row": WHOLE, "where": maybe(TEXT), "sort": maybe(TEXT),
        "date": TEXT, "page": TEXT, "similar_to": fields({}, {"id": ANY, "title": TEXT}),
    },
), {"Hit": _HIT, "Passage": PASSAGE})  # fmt: skip
_RESULTS = Answer(
    "Results", fields({"results": listing(ref("Result"))}), {_RESULT.name: _RESULT.schema, **_RESULT.parts}
)
_OF_SEARCH = Answer(
    "SearchResult", {"anyOf": [ref("Result"), ref("Results")]}, {_RESULTS.name: _RESULTS.schema, **_RESULTS.parts}
)
_COLUMN = fields(
    {
        "name": TEXT, "type": TEXT, "values": listing(fields({"value": ANY, "count": WHOLE})), "distinct": maybe(WHOLE),
        "missing": maybe(WHOLE), "filter": FLAG,
    },
    {"least": ANY, "largest": ANY, "bins": listing(fields({"from": ANY, "to": ANY, "count": WHOLE}))},
)  # fmt: skip
_FACETS = Answer("Facets", fields({
    "index": TEXT, "digest": TEXT, "where": maybe(TEXT), "rows": WHOLE, "total": WHOLE, "documents": WHOLE,
    "among": {"enum": ["rows", "matches"]}, "columns": listing(_COLUMN),
}))  # fmt: skip
_NEIGHBOURS = Answer("Neighbours", fields({
    "word": TEXT, "words": TEXT, "digest": TEXT, "neighbours": listing(fields({"word": TEXT, "score": NUMBER}, closed=False)),
}))  # fmt: skip


def _within(conditions: Sequence[str], settings: ServeSettings) -> Sequence[str]:
    """Refuse `where` conditions that are too long to parse at once; return the others."""
    del settings
    bounded("characters of where", sum(map(len, conditions)), 0, _MAX_CONDITION)
    return conditions


def checked_query(text: str, settings: ServeSettings) -> str:
    """Check the text of a search that may be blank."""
    return checked_text(text, "the query", settings.max_chars) if text.strip() else ""


def _questions(given: Any, settings: ServeSettings) -> str | tuple[str, ...]:
    """Check one question, or a list of them, none of which is blank. Raises ConfigError."""
    if isinstance(given, str):
        return checked_query(given, settings)
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ConfigError(
            "the value is not a text or a list of texts", where="q", expected="a text, or a list of texts"
        )
    bounded("number of queries", len(given), 1, settings.max_texts)
    return tuple(checked_text(one, "the query", settings.max_chars) for one in given)


def _questions_schema(settings: ServeSettings) -> Schema:
    """Return the schema of one question, which may be blank, or of a list of questions."""
    several = listing(said_schema(settings)) | {"minItems": 1, "maxItems": settings.max_texts}
    return {"anyOf": [GIVEN | {"maxLength": settings.max_chars}, several]}


_WHERE: dict[str, Any] = {"check": _within}
_EXPLAIN = {"text": "say which words contributed to each score"}


def joined_conditions(conditions: Sequence[str], settings: ServeSettings) -> str | None:
    """Join several `where` conditions into one, as the command line does. Raises ConfigError: too long."""
    return QueryOptions.make({"where": _within(conditions, settings)}).where


def _hits_param(text: str = "maximum number of hits") -> Any:
    """Declare the parameter `k`, the number of hits."""
    return param(10, text, ge=1, most="max_k")


_END: Schema = {"type": ["number", "string", "null"], **NO_NUL}
_RANGE: Schema = {
    "type": "array",
    "items": _END,
    "minItems": 2,
    "maxItems": 2,
    "contains": {"type": ["number", "string"]},
}
_PAIR: Schema = {
    "type": "array", "prefixItems": [GIVEN | {"minLength": 1}, {"anyOf": [_END, FLAG, _RANGE]}], "minItems": 2, "maxItems": 2,
}  # fmt: skip


def _chosen_param() -> Any:
    """Declare the parameter `f`, the chosen values of filters."""
    return param(
        (), 'keep only rows with these column values, or ranges, for example [["lang", "de"], ["year", [1990, null]]]',
        check=lambda given, _: chosen_values(given), schema=listing(_PAIR) | {"maxItems": MAX_CHOSEN},
    )  # fmt: skip


def _passage_param() -> Any:
    """Declare the parameter `passage`, the length of the passages."""
    said = "number of characters in the passage of each hit, with format json, in which newlines of a right margin are spaces"
    return param(0, f"{said}; 0: no passage", ge=0, le=_MAX_PASSAGE)


def _format_param() -> Any:
    """Declare the parameter `format` of search results."""
    return param(
        "lines",
        "format of the answer; lines: one JSON object per hit, as in `wordpipe query --json`; json: one object; "
        "csv: a table with all fields, as in `wordpipe query --format csv`; spreadsheet: that table for people, with a byte "
        "order mark, by which Excel knows UTF-8, without columns that are empty in all rows, and with a link to each text",
    )


@endpoint("/search", group="Search", place=1, can="search", answer=_OF_SEARCH, media=[LINES, CSV])
class Search(WithTable):
    """The hits of a query in an index or words."""

    q: Any = param(
        "", "the query; for a words artifact, also an expression such as king - man + woman; empty: the first rows that fit "
        "where and f, in the order of sort; in a body also a list of queries", example="how do bees fly", each=True,
        check=_questions, schema=_questions_schema,
    )  # fmt: skip
    k: int = _hits_param()
    index: tuple[str, ...] | None = artifact_param("an index or a words artifact", several=True)
    f: Chosen = _chosen_param()
    format: Literal["lines", "json", "csv", "spreadsheet"] = _format_param()
    base: str = base_param()
    count: bool = param(
        False, "with format json, also say in `matches` how many rows match: those that contain a word of the query and meet "
        "its operators and the condition"
    )  # fmt: skip
    options: QueryOptions = inline(where=_WHERE, feedback={"le": 1_000}, offset={"le": _MAX_OFFSET}, explain=_EXPLAIN)
    passage: int = _passage_param()

    def validate(self) -> None:
        """Refuse explanations of too many hits (10 ms each), and no query without condition or order. Raises ConfigError."""
        if not (self.q or self.f or self.options.where or self.options.sort):
            raise ConfigError("the query is empty", hint="write some words, a condition, or an order")
        n = len(self.questions)
        if self.options.explain:
            bounded("k with explain", self.k * n, 1, _MAX_EXPLAINED)
        if n > 1:
            bounded("k times the number of queries", self.k * n, 1, _MAX_HITS)

    @property
    def questions(self) -> tuple[str, ...]:
        """The queries of the request."""
        return (self.q,) if isinstance(self.q, str) else self.q

    @property
    def weight(self) -> int:
        """The number of queries in the request."""
        return len(self.questions)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> "list[list[Found]]":
        """Return the hits of the queries of each request to `/search`, and for a page the passages."""
        found = iter(cls._found(at, items[0], [one for item in items for one in item.questions]))
        return [[next(found) for _ in item.questions] for item in items]

    @classmethod
    def _found(cls, at: At, asked: Self, questions: Sequence[str]) -> "list[Found]":
        """Return the hits of queries that are asked with the same options."""
        options = _narrowed(at, asked.options, asked.f)
        found = iter(at.opened.query_all([one for one in questions if one], asked.k, options))
        listed = [None if one else _listed(at.opened, options, asked.k) for one in questions]
        results = [next(found) if one is None else one[0] for one in listed]
        if asked.format != "json":
            return [_addressed(at, Found(result)) for result in results]
        beside = [_beside(at.opened, result, options, asked.passage) for result in results]
        counts = at.opened.count_all(questions, options) if asked.count else ()
        for about, one, n in zip(beside, listed, counts, strict=False):
            about["matches"] = n if one is None else one[1]
        return [_addressed(at, Found(*one)) for one in zip(results, beside, strict=True)]

    def reply(self, at: At, found: "list[Found]", page: str = "") -> Response | dict[str, Any]:
        """Return the lines of `wordpipe query --json`, or one object with all that is known; of several queries `results`."""
        if isinstance(self.q, str):
            return found[0].reply(at, self.k, self.format, page, base=self.base)
        if self.format == "json":
            return {"results": [one.object(at, self.k, page, self.base) for one in found]}
        results = [one.result for one in found]
        if self.format == "lines":
            return lines_reply({"query": one.query} | hit for one in results for hit in one.hits)
        if self.format == "spreadsheet":
            return _spreadsheet(at, results, page, self.base, titled=True)
        table = CsvAnswers(at.opened, titled=True, explained=self.options.explain)
        return csv_reply(table.header + "".join(table.lines(one.query, one.hits) for one in results))


@endpoint("/similar", group="Search", place=2, can="similar", answer=_RESULT, media=[LINES, CSV])
class Similar(WithTable, OfOneRow):
    """The rows nearest to a row."""

    row: int | None = param(None, "number of the row", example=3, ge=0, each=True)
    id: str | None = param(None, "id of the record; give either id or row", each=True)
    k: int = _hits_param()
    index: str | None = artifact_param("an index of texts")
    f: Chosen = _chosen_param()
    format: Literal["lines", "json", "csv", "spreadsheet"] = _format_param()
    base: str = base_param()
    passage: int = _passage_param()
    options: QueryOptions = inline("where", "min_score", "per_document", where=_WHERE)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> "list[Found | Refused]":
        """Return for `/similar` the rows nearest to each row, in the form of the hits of a query."""
        options = _narrowed(at, items[0].options, items[0].f)
        rows, found = [one.row_in(at) for one in items], list[Found | Refused]()
        for one, row in zip(items, rows, strict=True):
            if isinstance(row, Refused):
                found.append(row)
                continue
            hits = at.opened.similar(row, items[0].k, options)
            add_links(hits, at.server.settings.link)
            about: dict[str, Any] = {"row": row, "where": options.where}
            if one.passage:
                about["passages"] = passages_of(at.opened, hits, "", one.passage)
            for own in at.opened.row_reader([row]) if one.base else ():
                about["similar_to"] = {name: own[name] for name in ("id", "title") if own.get(name) is not None}
            found.append(Found(QueryResult(f"row {row}", hits, mode="dense"), about))
        return found

    def reply(self, at: At, found: "Found", page: str = "") -> Response | dict[str, Any]:
        """Return the similar rows in the form of `/search`."""
        return found.reply(at, self.k, self.format, page, base=self.base)


@endpoint("/neighbours", group="Words", place=1, can="neighbours", answer=_NEIGHBOURS)
class Neighbours(Endpoint):
    """The words nearest to a word."""

    word: str = words_param("the word", "water", "the query")
    k: int = _hits_param("maximum number of words")
    words: str | None = artifact_param("a words artifact or an index of words")

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return for `/neighbours` the neighbours of each word, with their cosines."""
        opened, k = at.opened, items[0].k
        if isinstance(opened, OpenWords):
            near = [[{"word": word, "score": score} for word, score in opened.neighbours(one.word, k)] for one in items]
        else:
            near = [result.hits for result in opened.query_all([one.word for one in items], k)]
        return [{"word": one.word, "neighbours": found} for one, found in zip(items, near, strict=True)]


@endpoint("/facets", group="Search", place=5, can="search", answer=_FACETS)
class FacetsOf(Endpoint):
    """The fields of an index's rows, with the number of rows for each value."""

    q: str = param(
        "",
        "count only rows that contain a word of this query",
        example="salt",
        each=True,
        check=checked_query,
        schema=GIVEN,
    )
    index: tuple[str, ...] | None = artifact_param("an index", several=True)
    f: Chosen = _chosen_param()
    options: QueryOptions = inline("where", "prefix", where=_WHERE)
    values: int = param(20, "maximum number of values listed for each field", ge=1, le=_FACET_VALUES)
    column: str = param("", "only this field")
    find: str = param("", "list only values that contain this text", check=checked_query, schema=GIVEN)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return for `/facets` the counts for each search; see `Facets.count`."""
        asked, opened = items[0], at.opened
        if not isinstance(opened, OpenIndex):
            raise ConfigError("a words artifact has no fields", where=at.served.name, expected="an index")
        facets = at.generation.remember("facets", lambda: Facets(opened))
        options = asked.options
        only = {"only": asked.column, "find": asked.find}
        counts = [facets.count(opened, options, asked.f, one.q or None, asked.values, **only) for one in items]
        return [{"where": options.where, **found} for found in counts]


@dataclass(frozen=True)
class Found:
    """The hits of one query, and what a page shows beside the hits."""

    result: QueryResult
    beside: dict[str, Any] | None = None

    def reply(self, at: At, k: int, form: str, page: str, *, base: str) -> Response | dict[str, Any]:
        """Return the hits of a search as JSON lines, as a table, or as one object, which has links to texts if asked for."""
        result = self.result
        if form == "spreadsheet":
            return _spreadsheet(at, [result], page, base)
        if form == "lines":
            return lines_reply(({"query": result.query} | hit for hit in result.hits), _remarks_header(result))
        if form == "csv":
            table = CsvAnswers(at.opened, explained=any("explain" in hit for hit in result.hits))
            return csv_reply(table.header + table.lines(result.query, result.hits), _remarks_header(result))
        return self.object(at, k, page, base)

    def object(self, at: At, k: int, page: str, base: str) -> dict[str, Any]:
        """Return the hits of a search as one object; with the address of the page as `base`, with day and links."""
        result = self.result
        hits = [*_linked(at, result.hits, page)] if base else result.hits
        return origin_of(page, base) | {
            "query": result.query, "index": at.served.name, **at.about, "k": k, "mode": result.mode,
            "seconds": round(time.monotonic() - at.began, 6), "hits": hits, "unknown": result.unknown,
            "guessed": result.guessed, "by_words": result.by_words, "corrected": result.corrected,
            "remarks": [*map(_as_parameters, result.remarks)], **(self.beside or {}),
        }  # fmt: skip


def _spreadsheet(at: At, results: Sequence[QueryResult], page: str, base: str, *, titled: bool = False) -> Response:
    """Return the hits of searches as a table for people, with a link to each text, and to the list."""
    table, own = CsvAnswers(at.opened, titled=titled, linked=True), {"list": origin_of(page, base).get("page", "")}
    rows = ((one.query, with_short_sources(hit | own for hit in _linked(at, one.hits, page))) for one in results)
    return csv_reply(BYTE_ORDER_MARK + table.filled(rows))


def _linked(at: At, hits: Sequence[dict[str, Any]], page: str) -> Iterable[dict[str, Any]]:
    """Return the hits of a search over texts with a link to each text: its own, or that of the server's page."""
    if not isinstance(at.opened, OpenTextIndex):
        return hits
    return ({"link": text_url(one, one.get("index", at.served.name), root=page)} | one for one in hits)


def _remarks_header(result: QueryResult) -> dict[str, str]:
    """Return the header that says, beside lines of hits, what was corrected and remarked; none where nothing was."""
    said = {"corrected": result.corrected, "remarks": [*map(_as_parameters, result.remarks)]}
    remarks = {name: value for name, value in said.items() if value}
    text = json.dumps(remarks)  # in ASCII, as headers are
    return {"Wordpipe-Remarks": text} if remarks and len(text) <= _LONGEST_HEADER else {}


def _as_parameters(said: str) -> str:
    """Return what is said of a query, with parameters of `/search` where the command line has options.

    >>> _as_parameters("this is a record; --exact searches for the words")
    'this is a record; exact=1 searches for the words'
    """
    written = {1: "{}=", 2: "{}=1", None: "ask /facets"}
    return _OPTION.sub(lambda found: written[found.lastindex].format(found[found.lastindex or 0]), said)


def _addressed(at: At, found: Found) -> Found:
    """Add to each hit its link, and, of several indexes, the index's name in the server, where the index says its folder."""
    add_links(found.result.hits, at.server.settings.link)
    if at.served.parts:
        names = {str(one.path): name for one, name in zip(at.opened.parts, at.served.parts, strict=True)}
        for hit in found.result.hits:
            hit["index"] = names[hit["index"]]
    return found


def _narrowed(at: At, options: QueryOptions, chosen: Chosen) -> QueryOptions:
    """Return a search's options with chosen values of columns in their condition.

    The columns are read once of each generation.
    """
    if not chosen:
        return options
    if not isinstance(at.opened, OpenIndex):
        raise ConfigError("a words artifact has no fields", where="f", expected="an index")
    lists = at.generation.remember("lists", partial(list_columns, at.opened))
    return options.model_copy(update={"where": condition(chosen, lists, options.where)})


def _listed(opened: OpenArtifact, options: QueryOptions, k: int) -> tuple[QueryResult, int]:
    """Return the first rows that fit the condition of a search without a question, in its order, and how many there are."""
    if not isinstance(opened, OpenIndex):
        raise ConfigError("the query is empty", hint="write some words")
    opened.check(options)
    return opened.fulfilling(options, k)


def _beside(opened: OpenArtifact, result: QueryResult, options: QueryOptions, n_chars: int) -> dict[str, Any]:
    """Return beside the hits of a search their passages with marks, or why there are no hits."""
    about: dict[str, Any] = {"nothing": None, "passages": [], "where": options.where, "sort": options.sort}
    if not result.hits:
        error: NothingFound = opened.nothing_found(options, result.query)
        about["nothing"] = {"message": error.message, "hint": error.hint and _as_parameters(error.hint)}
    if n_chars:
        is_whole = not options.prefix and result.mode != "dense"  # a word that is still typed is lacking everywhere
        asked = result.searched or result.query
        about["passages"] = passages_of(opened, result.hits, asked, n_chars, is_whole=is_whole)
    return about
