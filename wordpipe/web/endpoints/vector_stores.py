"""OpenAI's vector stores: `/v1/vector_stores/{index}/search`, whose filters become a condition of `--where`.

A filter compares one attribute, or joins others by and, or. Names are quoted as names of columns and must be some; texts are
quoted as texts; so no filter can say more than a comparison. The condition is then checked as every other is.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wordpipe.artifacts import read_schema, visible_columns
from wordpipe.errors import ConfigError
from wordpipe.stages import OpenArtifact, OpenIndex, QueryOptions
from wordpipe.web.endpoints.search import ask, checked_text
from wordpipe.web.replies import Params, bounded, field, json_body, json_reply, to_json
from wordpipe.web.served import Generation, ServedArtifacts
from wordpipe.web.settings import ServeSettings

_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_RANKERS = ("auto", "none", "default-2024-11-15")
_DEEPEST = 16  # filters within each other
_MOST = 200  # filters in all
_LONGEST_LIST = 500  # values of in, nin
_LONGEST_TEXT = 10_000  # characters of a value
_BITS = 127  # of a whole number
_OURS = ("title", "line", "anchor", "doc_id", "row", "word", "count", "split")


class VectorStoresApi:
    """The endpoint, over the artifacts of a server."""

    def __init__(self, artifacts: ServedArtifacts, settings: ServeSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self.routes = [Route("/v1/vector_stores/{index}/search", self.search, methods=["POST"])]

    async def search(self, request: Request) -> Response:
        """The hits of a query, as clients of OpenAI read them."""
        Params(request)
        body = await json_body(request)
        served = self._artifacts.pick(request.path_params["index"], "search")
        text = self._query(body)
        k = bounded("max_num_results", field(body, "max_num_results", int, 10), 1, self._settings.max_k)
        ranking = field(body, "ranking_options", dict, {})
        if (ranker := field(ranking, "ranker", str, "auto")) not in _RANKERS:
            raise ConfigError("no such ranker", where="ranker", got=repr(ranker[:60]), expected=", ".join(_RANKERS))
        if field(body, "rewrite_query", bool, default=False):
            raise ConfigError("queries are asked as they are", where="rewrite_query", hint="leave it out")
        with served.lease() as generation:
            where = None
            if (filters := body.get("filters")) is not None:
                where = await served.ask(generation, _conditions, (generation, filters), key=object())
            options = QueryOptions(where=where, min_score=field(ranking, "score_threshold", float) or None)
            result = await ask(served, generation, text, k, options)
        return json_reply({
            "object": "vector_store.search_results.page",
            "search_query": [result.query],
            "data": [stored_hit(hit) for hit in result.hits],
            "has_more": False,
            "next_page": None,
        })  # fmt: skip

    def _query(self, body: Mapping[str, Any]) -> str:
        """The query of a body: a text, or several that are one query, as the words of a command line are."""
        given = body.get("query")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise ConfigError("not a text, nor a list of texts", where="query", expected="a text")
        return checked_text(" ".join(texts), "the query", self._settings.max_chars)


def stored_hit(hit: Mapping[str, Any]) -> dict[str, Any]:
    """A hit as a vector store has it: the id of the record or the row's number, the source, the fields as attributes."""
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
    """A value that an attribute may have; lists, objects and dates as text."""
    if isinstance(value, bool | int | float | str):
        return value
    return to_json(value).decode() if isinstance(value, list | dict) else str(value)


def _conditions(items: Sequence[tuple[Generation, Any]]) -> list[str | None]:
    """For the artifact's thread: the columns of a condition are read from disk once for each generation."""
    return [
        condition_of(filters, generation.remember("columns", partial(columns_of, generation.opened)))
        for generation, filters in items
    ]


def columns_of(opened: OpenArtifact) -> dict[str, pa.DataType]:
    """The names that a condition on an index may use, with their types; none of words."""
    if not isinstance(opened, OpenIndex):
        return {}
    schema = read_schema(opened.artifact, "index")
    return {name: schema.field(stored).type for name, stored in visible_columns(schema).items() if stored != "vector"}


def condition_of(filters: Any, columns: Mapping[str, pa.DataType]) -> str | None:
    """The condition that filters mean; None where there are none.

    Args:
        filters: of a JSON body.
        columns: name → type; others are refused.

    Raises:
        ConfigError: not a filter, of no column, too many or too deep.
    """
    if filters is None:
        return None
    counted = [0]
    return _condition(filters, columns, counted, 1)


def _condition(given: Any, columns: Mapping[str, pa.DataType], counted: list[int], depth: int) -> str:
    counted[0] += 1
    if depth > _DEEPEST or counted[0] > _MOST:
        got = f"more than {_MOST:,}" if counted[0] > _MOST else f"more than {_DEEPEST} within each other"
        raise ConfigError("too many filters", where="filters", got=got)
    if not isinstance(given, dict):
        raise ConfigError("not a filter", where="filters", expected='{"type": "eq", "key": "year", "value": 2020}')
    kind = field(given, "type", str, needed=True)
    if kind in ("and", "or"):
        parts = field(given, "filters", list, needed=True)
        if not parts:
            raise ConfigError("there is no filter in it", where=f"filters of {kind}")
        return f"({f' {kind} '.join(_condition(one, columns, counted, depth + 1) for one in parts)})"
    if kind not in (*_SIGNS, "in", "nin"):
        expected = ", ".join((*_SIGNS, "in", "nin", "and", "or"))
        raise ConfigError("no such filter", where="filters", got=repr(kind[:60]), expected=expected)
    name = field(given, "key", str, needed=True)
    if name not in columns:
        raise ConfigError("no such attribute", where="filters", got=repr(name[:60]), expected=", ".join(columns))
    return _comparison(kind, name, given.get("value"), columns[name])


def _comparison(kind: str, name: str, value: Any, of: pa.DataType) -> str:
    """One comparison; of a list, with its items. What is missing is not equal to anything."""
    column = '"' + name.replace('"', '""') + '"'
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
        raise ConfigError("a list has no order", where=f"filter on {name}", got=kind, expected="eq, ne, in, nin")
    return f"({column} {_SIGNS[kind]} {values[0]})"


def _literal(value: Any, name: str) -> str:
    """A value as it is written in a condition."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT and "\0" not in value:
        return "'" + value.encode("utf-8", "replace").decode().replace("'", "''") + "'"
    if isinstance(value, int) and value.bit_length() < _BITS:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    expected = f"a text of at most {_LONGEST_TEXT:,} characters, a number, true or false"
    raise ConfigError("no such value", where=f"filter on {name}", got=repr(value)[:60] if not isinstance(value, int) else None,
                      expected=expected)  # fmt: skip
