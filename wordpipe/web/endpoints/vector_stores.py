"""OpenAI's vector stores: the list of them, and `/v1/vector_stores/{index}/search`, whose filters become a condition.

A filter compares one attribute, or joins others by and, or. Names are quoted as names of columns and must be some; texts are
quoted as texts; so no filter can say more than a comparison. The condition is then checked as every other is.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from wordpipe.errors import ConfigError
from wordpipe.search.settings import QueryOptions
from wordpipe.stages import OpenIndex, QueryResult
from wordpipe.web.endpoint import Answer, At, Endpoint, Serving, artifact_param, endpoint, param
from wordpipe.web.endpoints.facets import column_types, quoted
from wordpipe.web.params import (
    FLAG,
    GIVEN,
    MAP,
    NO_NUL,
    NUMBER,
    TEXT,
    WHOLE,
    checked_text,
    fields,
    listing,
    maybe,
    one_or_more,
    ref,
    said_schema,
    typed,
)
from wordpipe.web.replies import json_reply, to_json
from wordpipe.web.served_artifacts import Served, rows_of
from wordpipe.web.settings import ServeSettings

_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_RANKERS = ("auto", "none", "default-2024-11-15")
_LEAST = QueryOptions.model_fields["min_score"].bounds
_SCORE = NUMBER | {"minimum": _LEAST["ge"], "maximum": _LEAST["le"]}
_DEEPEST = 16  # filters within each other
_MOST = 200  # filters in all
_LONGEST_LIST = 500  # values of in, nin
_LONGEST_TEXT = 10_000  # characters of a value
_BITS = 127  # of a whole number
_OURS = ("title", "line", "passage_line", "anchor", "place", "doc_id", "row", "word", "count", "split")


_FOUND = Answer("Found", fields({
    "object": {"const": "vector_store.search_results.page"}, "search_query": listing(TEXT), "has_more": FLAG,
    "next_page": maybe(TEXT),
    "data": listing(fields({
        "file_id": TEXT, "filename": TEXT, "score": NUMBER, "attributes": MAP,
        "content": listing(fields({"type": {"const": "text"}, "text": TEXT})),
    })),
}))  # fmt: skip


_STORE = fields({
    "id": TEXT, "object": {"const": "vector_store"}, "created_at": WHOLE, "last_active_at": WHOLE, "name": TEXT,
    "usage_bytes": WHOLE, "status": {"const": "completed"}, "metadata": MAP,
    "file_counts": fields(dict.fromkeys(("in_progress", "completed", "failed", "cancelled", "total"), WHOLE)),
})  # fmt: skip
_STORES = Answer("VectorStores", fields({
    "object": {"const": "list"}, "data": listing(ref("VectorStore")), "first_id": maybe(TEXT), "last_id": maybe(TEXT),
    "has_more": FLAG,
}), {"VectorStore": _STORE})  # fmt: skip


_VALUE = {"type": ["number", "string", "boolean"], **NO_NUL}
_COMPARED = fields({
    "type": {"enum": [*_SIGNS, "in", "nin"]}, "key": GIVEN | {"minLength": 1},
    "value": {"anyOf": [_VALUE, listing(_VALUE) | {"minItems": 1, "maxItems": _LONGEST_LIST}]},
})  # fmt: skip
_FILTER = {"anyOf": [_COMPARED, fields({
    "type": {"enum": ["and", "or"]}, "filters": listing(_COMPARED) | {"minItems": 1, "maxItems": _MOST},
})]}  # fmt: skip


@endpoint("/v1/vector_stores", group="Vector stores", answer=_STORES, methods=["GET"])
class VectorStores(Endpoint):
    """The artifacts that can be searched, in the form of OpenAI's list of vector stores."""

    limit: int = param(20, "maximum number of vector stores", ge=1, le=100)
    order: Literal["asc", "desc"] = param("desc", "order by the time at which the server opened the artifact")
    after: str | None = param(None, "list only vector stores after this one")
    before: str | None = param(None, "list only vector stores before this one")

    async def respond(self, server: Serving, request: Request) -> Response:
        """List the artifacts that can be searched in the form of OpenAI's vector stores."""
        able = [one for one in server.artifacts.by_name.values() if "search" in one.current.abilities]
        stores = sorted(map(_store, able), key=lambda one: one["created_at"], reverse=self.order == "desc")
        ids = [one["id"] for one in stores]
        for name, place in (("after", self.after), ("before", self.before)):
            if place is not None and place not in ids:
                raise ConfigError("no vector store has this id", where=name, got=place[:60], expected=", ".join(ids))
        stop = ids.index(self.before) if self.before is not None else len(ids)
        left = stores[0 if self.after is None else ids.index(self.after) + 1 : stop]
        data = left[: self.limit]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        return json_reply({"object": "list", "data": data, **ends, "has_more": len(left) > len(data)})


@endpoint("/v1/vector_stores/{index}", group="Vector stores", answer=ref("VectorStore"), methods=["GET"], others=True)
class OneVectorStore(Endpoint):
    """One artifact that can be searched, in the form of OpenAI's vector stores."""

    index: str = artifact_param("an index or a words artifact", at="path", can="search")

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return one artifact in the form of OpenAI's vector stores."""
        return json_reply(_store(server.artifacts.pick(self.index, "search")))


def _store(one: Served) -> dict[str, Any]:
    """Return an artifact in the form of a vector store; its rows are counted as files."""
    manifest, rows = one.current.opened.artifact.manifest, rows_of(one.current) or 0
    counts = {"in_progress": 0, "completed": rows, "failed": 0, "cancelled": 0, "total": rows}
    return {
        "id": one.name, "object": "vector_store", "created_at": int(one.current.since),
        "last_active_at": int(one.current.since), "name": one.name,
        "usage_bytes": sum(file.bytes for file in manifest.outputs), "status": "completed", "metadata": {},
        "file_counts": counts,
    }  # fmt: skip


def _query(given: Any, settings: ServeSettings) -> str:
    """Return the query of a vector store as one text; several texts are joined."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigError("the value is not a text or a list of texts", where="query", expected="a text")
    return checked_text(" ".join(texts), "the query", settings.max_chars)


def _least_score(ranking: Mapping[str, Any]) -> float | None:
    """Return the score below which hits are left out; a ranker changes nothing."""
    if (ranker := typed(ranking, "ranker", str, "auto")) not in _RANKERS:
        raise ConfigError("unknown ranker", where="ranker", got=repr(ranker[:60]), expected=", ".join(_RANKERS))
    return typed(ranking, "score_threshold", float) or None


@endpoint(
    "/v1/vector_stores/{index}/search",
    group="Vector stores",
    can="search",
    answer=_FOUND,
    methods=["POST"],
    others=True,
)
class VectorStore(Endpoint):
    """The hits of a query, in the form of OpenAI's vector stores."""

    index: str = artifact_param("an index or a words artifact", at="path")
    query: Any = param(
        text="the query; several texts are joined into one query", example="salt and water", each=True, check=_query,
        schema=lambda settings: one_or_more(said_schema(settings)),
    )  # fmt: skip
    max_num_results: int = param(10, "maximum number of hits", ge=1, most="max_k")
    filters: Any = param(None, "conditions on attributes", schema=_FILTER)
    ranking_options: dict[str, Any] | None = param(
        None,
        "score_threshold: hits with a lower score are omitted",
        schema=fields({}, {"score_threshold": maybe(_SCORE), "ranker": maybe({"enum": [*_RANKERS]})}),
    )
    rewrite_query: bool = param(False, "must be false, because queries are not rewritten", schema={"const": False})

    def validate(self) -> None:
        """Refuse ranking options and rewriting that wordpipe does not support. Raises ConfigError."""
        _least_score(self.ranking_options or {})
        if self.rewrite_query:
            raise ConfigError("queries cannot be rewritten", where="rewrite_query", hint="leave rewrite_query out")

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[QueryResult]:
        """Return the hits of queries of a vector store.

        The columns of a condition are read from disk once for each generation.
        """
        asked, where = items[0], None
        if asked.filters is not None:
            is_index = isinstance(at.opened, OpenIndex)  # words have no columns
            columns = at.generation.remember("columns", partial(column_types, at.opened)) if is_index else {}
            where = condition_of(asked.filters, columns)
        options = QueryOptions.make({"where": where, "min_score": _least_score(asked.ranking_options or {})})
        found: list[QueryResult] = at.opened.query_all([one.query for one in items], asked.max_num_results, options)
        return found

    def reply(self, at: At, found: QueryResult) -> dict[str, Any]:
        """Return the reply in the form of OpenAI."""
        del at
        return {
            "object": "vector_store.search_results.page",
            "search_query": [found.query],
            "data": [stored_hit(hit) for hit in found.hits],
            "has_more": False,
            "next_page": None,
        }


def stored_hit(hit: Mapping[str, Any]) -> dict[str, Any]:
    """Return a hit in the form of a vector store: the id of the record or the row, the source, the fields as attributes."""
    attributes = {name: _attribute(value) for name, value in (hit.get("metadata") or {}).items() if value is not None}
    for name in _OURS:
        if hit.get(name) not in (None, ""):
            attributes.setdefault(name, hit[name])
    return {
        "file_id": str(hit["id"] if hit.get("id") is not None else hit["row"]),
        "filename": str(hit.get("source") or ""),
        "score": hit["score"],
        "attributes": attributes,
        "content": [{"type": "text", "text": str(hit.get("text") or hit.get("word") or "")}],
    }


def _attribute(value: Any) -> str | float | bool:
    """Return a value that an attribute may have; lists, objects and dates as text."""
    if isinstance(value, bool | int | float | str):
        return value
    return to_json(value).decode() if isinstance(value, list | dict) else str(value)


def condition_of(filters: Any, columns: Mapping[str, pa.DataType]) -> str:
    """Return the condition of a vector store's filters.

    Args:
        filters: of a JSON body.
        columns: name → type; others are refused.

    Raises:
        ConfigError: not a filter, of no column, too many or too deep.
    """
    return _condition(filters, columns, [0], 1)


def _condition(given: Any, columns: Mapping[str, pa.DataType], counted: list[int], depth: int) -> str:
    """Return the condition of one filter of a vector store, or of filters joined by and, or."""
    counted[0] += 1
    if depth > _DEEPEST or counted[0] > _MOST:
        got = f"more than {_MOST:,}" if counted[0] > _MOST else f"filters on more than {_DEEPEST} levels"
        raise ConfigError("too many filters", where="filters", got=got)
    if not isinstance(given, dict):
        raise ConfigError("not a filter", where="filters", expected='{"type": "eq", "key": "year", "value": 2020}')
    kind = typed(given, "type", str, needed=True)
    if kind in ("and", "or"):
        parts = typed(given, "filters", list, needed=True)
        if not parts:
            raise ConfigError("the list of filters is empty", where=f"filters of {kind}")
        return f"({f' {kind} '.join(_condition(one, columns, counted, depth + 1) for one in parts)})"
    if kind not in (*_SIGNS, "in", "nin"):
        expected = ", ".join((*_SIGNS, "in", "nin", "and", "or"))
        raise ConfigError("unknown filter", where="filters", got=repr(kind[:60]), expected=expected)
    name = typed(given, "key", str, needed=True)
    if name not in columns:
        raise ConfigError("unknown attribute", where="filters", got=repr(name[:60]), expected=", ".join(columns))
    return _comparison(kind, name, given.get("value"), columns[name])


def _comparison(kind: str, name: str, value: Any, of: pa.DataType) -> str:
    """Return the condition of one comparison of a vector store's filter, for a list with its items."""
    column = quoted(name, '"')
    if kind in ("in", "nin"):
        if not isinstance(value, list) or not value or len(value) > _LONGEST_LIST:
            raise ConfigError(
                "not a list of values", where=f"filter on {name}", expected=f"1 to {_LONGEST_LIST} values"
            )
        values = [_literal(one, name) for one in value]
    else:
        values = [_literal(value, name)]
    is_list = pa.types.is_list(of) or pa.types.is_large_list(of)
    if kind in ("eq", "in", "ne", "nin"):
        parts = [f"{one} in {column}" for one in values] if is_list else [f"{column} in ({', '.join(values)})"]
        if kind in ("eq", "in"):
            return f"({' or '.join(parts)})"
        return f"({column} is null or not ({' or '.join(parts)}))"
    if is_list:
        what = "a list cannot be compared with <, <=, > or >="
        raise ConfigError(what, where=f"filter on {name}", got=kind, expected="eq, ne, in, nin")
    return f"({column} {_SIGNS[kind]} {values[0]})"


def _literal(value: Any, name: str) -> str:
    """Return a value of a vector store's filter as it is written in a condition."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT and "\0" not in value:
        return quoted(value.encode("utf-8", "replace").decode(), "'")
    if isinstance(value, int) and value.bit_length() < _BITS:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    expected = f"a text of at most {_LONGEST_TEXT:,} characters, a number, true or false"
    got = None if isinstance(value, int) else repr(value)[:60]
    raise ConfigError("this value cannot be compared", where=f"filter on {name}", got=got, expected=expected)
