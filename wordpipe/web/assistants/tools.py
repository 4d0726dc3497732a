"""The tools that an assistant may call: search, get, similar, fields. Each asks an endpoint of the server.

A tool has some of its endpoint's parameters, under names and with bounds of its own, as an assistant pays for every word that
it reads. Its answer is a text that can be read as it is, and the same as an object for programs. Both are bounded, and what
was left out is said.
"""

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from wordpipe.errors import ConfigError, WordpipeError
from wordpipe.stages import OpenTextIndex
from wordpipe.web.endpoint import At, Endpoint, Serving
from wordpipe.web.endpoints.search import FacetsOf, Found, Search, Similar
from wordpipe.web.endpoints.texts import TextOf
from wordpipe.web.params import TEXT, Body, Param, Schema, bounded, fields, typed
from wordpipe.web.replies import Refused
from wordpipe.web.settings import ServeSettings
from wordpipe.web.together import ALL
from wordpipe.wording import place_of_hit

Shape = Callable[[Any, At, Any], dict[str, Any]]
"""Takes a request to an endpoint and what the endpoint answered, and gives the object of the tool."""

_PASSAGE = 600  # characters of an answer
_VALUE = 120  # characters of a field's value
_FIELDS = 12  # of a record
_VALUES = 8  # of a field
_COLUMNS = 40  # of an index
_PART = 6_000  # characters of a text
_NAMED = 100  # artifacts that are listed
_NEAR = 3  # words that are spelt like an unknown one
_COUNTED = {
    "all": "all rows",
    "matches": "only rows that contain a word of the query",
    "rows": "all rows, because no row contains a word of the query",
}
_PARTS = re.compile(r";\s+|(?<=[?.])\s+|\s*\n\s*")  # of a hint
_FLAG = re.compile(r"--where (?=[\"'])")  # before an example of a condition
_COMMAND = re.compile(r"\bwordpipe \w|(?<![\w-])--[a-z]|\bcurl |\?\w+=|\brun:")


@dataclass(frozen=True)
class Argument:
    """One argument of a tool.

    Attributes:
        param: the parameter of the endpoint that gets it.
        text: what it is, for an assistant.
        most: its largest value, where that is less than the endpoint's.
        default: in the place of the endpoint's.
        schema: in the place of the endpoint's.
    """

    param: str
    text: str
    most: int | None = None
    default: Any = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Tool:
    """One tool: the endpoint that it asks, its arguments, and how its answer is shown."""

    name: str
    title: str
    text: str
    endpoint: type[Endpoint]
    arguments: Mapping[str, Argument]
    shape: Shape
    show: Callable[[dict[str, Any]], str]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # parameters of the endpoint that no assistant chooses

    def _param(self, argument: Argument) -> Param:
        return next(one for one in self.endpoint.declared.params if one.name == argument.param)

    def described(self, settings: ServeSettings) -> Schema:
        """Return the tool as `tools/list` lists it: name, description, and the schema of its arguments."""
        schemas: Schema = {}
        for name, one in self.arguments.items():
            schema = {**(one.schema or self._param(one).schema_in(settings)), "description": one.text}
            schema |= {} if one.most is None else {"maximum": one.most}
            schemas[name] = schema | ({} if one.default is None else {"default": one.default})
        needed = {name: schema for name, schema in schemas.items() if self._param(self.arguments[name]).is_needed}
        rest = {name: schema for name, schema in schemas.items() if name not in needed}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.text,
            "inputSchema": fields(needed, rest),
            "annotations": {"title": self.title, "readOnlyHint": True, "openWorldHint": False},
        }

    def is_for(self, server: Serving) -> bool:
        """True if an artifact of a server can answer the tool."""
        return any(self.endpoint.declared.can in one.current.abilities for one in server.artifacts.by_name.values())

    def request(self, given: Mapping[str, Any], settings: ServeSettings) -> Endpoint:
        """Return the request to the endpoint that these arguments make. Raises ConfigError, Refused: names a wrong one."""
        if unknown := [name for name in given if name not in self.arguments]:
            got, expected = repr(unknown[0][:60]), ", ".join(self.arguments)
            raise ConfigError("unknown argument", where=self.name, got=got, expected=expected)
        values: dict[str, Any] = dict(self.fixed)
        for name, one in self.arguments.items():
            value = one.default if given.get(name) is None else given[name]
            if one.most is not None and type(value) is int:
                bounded(name, value, self._param(one).ge or 0, one.most)
            if one.schema is TEXT:
                value = typed({name: value}, name, str)
            if value is not None:
                values[one.param] = value
        body = Body(values)
        asked = self.endpoint.made_of(body, body, {}, settings)
        asked.validate()
        return asked


async def call(server: Serving, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool that an assistant calls: content, and whether it is an error that another call may avoid.

    Args:
        server: whose artifacts are asked.
        name: of a tool that there is.
        given: its arguments.
    """
    tool = TOOLS[name]
    try:
        asked = tool.request(given, server.settings)
        found = await asked.answered(server, partial(tool.shape, asked))
    except (WordpipeError, Refused) as error:
        return {"content": [_text(_mistake(server, tool, given, error))], "isError": True}
    return {"content": [_text(tool.show(found))], "structuredContent": found, "isError": False}


def _mistake(server: Serving, tool: Tool, given: Mapping[str, Any], error: WordpipeError | Refused) -> str:
    """Return an error as one sentence for an assistant: the argument, what is wrong with it, and what helps."""
    if isinstance(error, WordpipeError) and error.where is not None:
        names = {one.param: name for name, one in tool.arguments.items()}
        names |= {str(one.path): one.name for one in server.artifacts.by_name.values()}
        quoting = [name for name, value in given.items() if isinstance(value, str) and _quotes(error.where, value)]
        error = copy(error)  # other requests may have the same
        error.where = names.get(str(error.where)) or next(iter(quoting), error.where)
    hint = neutral(error.hint or "")
    return f"{error.message}; {hint}" if hint else error.message


def _quotes(where: str, value: str) -> bool:
    """True if the place of an error is the value of an argument, perhaps cut, or with names of fields in quotes."""
    begin = where.removesuffix("…").replace('"', "").strip()
    return bool(begin) and value.replace('"', "").strip().startswith(begin)


def neutral(said: str) -> str:
    """Return a hint or a remark without the parts that are of the command line: an assistant has its tools alone.

    >>> neutral("did you mean year? Otherwise, run: wordpipe ingest … --metadata jear:int; columns: row, year")
    'did you mean year? columns: row, year'
    """
    parts = [one for one in _PARTS.split(_FLAG.sub("", said)) if one and not _COMMAND.search(one)]
    return "".join(f"{one} " if one[-1] in "?." else f"{one}; " for one in parts).rstrip("; ")


def _text(said: str) -> dict[str, str]:
    """Return a text as a block of content."""
    return {"type": "text", "text": said.encode("utf-8", "replace").decode()}


# ---- answers as objects


def _of_search(asked: Search, at: At, found: list[Found]) -> dict[str, Any]:
    """Return the answers of a search with one query."""
    return _answers(asked, at, found[0])


def _answers(asked: Search | Similar, at: At, found: Found) -> dict[str, Any]:
    """Return the answers of a search as an object of bounded size."""
    del asked
    result, beside = found.result, found.beside or {}
    passages = beside.get("passages") or [None] * len(result.hits)
    answers = [_answer(at, hit, passage) for hit, passage in zip(result.hits, passages, strict=True)]
    said = {
        "remarks": [one for one in map(neutral, result.remarks) if one],
        "corrected": result.corrected,
        "unknown": {word: near[:_NEAR] for word, near in result.unknown.items() if word not in result.by_words},
    }
    nothing = {"nothing": beside["nothing"]["message"]} if beside.get("nothing") else {}
    return {"query": result.query, "answers": answers, **{name: one for name, one in said.items() if one}, **nothing}


def _answer(at: At, hit: Mapping[str, Any], passage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return one answer of a search: which row of which index it is, where it stands, its passage and its fields."""
    text = str(hit.get("text") or hit.get("word") or "")
    if passage is not None:
        shown = "".join(piece for piece, _ in passage["pieces"])
        text = f"{'… ' if passage['before'] else ''}{shown}{' …' if passage['after'] else ''}"
    elif len(text) > _PASSAGE:
        text = f"{text[:_PASSAGE]} …"
    place = place_of_hit(hit)
    return {
        "rank": hit["rank"],
        "index": hit.get("index", at.served.name),
        "row": hit["row"],
        **({} if hit.get("id") is None else {"id": hit["id"]}),
        **({"title": hit["title"]} if hit.get("title") else {}),
        **({"place": place} if place else {}),
        **({"link": hit["link"]} if "link" in hit else {}),
        "score": round(float(hit["score"]), 4),
        **({"related": False} if hit.get("related") is False else {}),
        "text": text,
        **_fields_of(hit),
    }


def _fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row as far as they have values: the first ones, and long values cut."""
    known = {name: value for name, value in (row.get("metadata") or {}).items() if value not in (None, "", [])}
    shown = {name: _cut(value) for name, value in [*known.items()][:_FIELDS]}
    left_out = len(known) - len(shown)
    return ({"fields": shown} if shown else {}) | ({"fields_left_out": left_out} if left_out else {})


def _cut(value: Any) -> Any:
    """Return a value of a field, a long one cut, with … at its end."""
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def _whole(asked: TextOf, at: At, found: Any) -> dict[str, Any]:
    """Return a text, or a part of it, as an object."""
    del asked
    place = place_of_hit(found)
    beside = {name: found[name] for name in ("before", "after", "next") if found[name] is not None}
    return {
        "index": at.served.name,
        "row": found["row"],
        **({} if found.get("id") is None else {"id": found["id"]}),
        **({"title": found["title"]} if found.get("title") else {}),
        **({"place": place} if place else {}),
        **({"link": found["link"]} if "link" in found else {}),
        **_fields_of(found),
        "start": found["start"],
        "characters": found["characters"],
        **beside,
        "text": found["text"],
    }


def _fields(asked: FacetsOf, at: At, found: Any) -> dict[str, Any]:
    """Return the fields of an index with their types and values, how these were counted, and which indexes there are."""
    columns = [_column(one) for one in found["columns"][:_COLUMNS]]
    indexes = about_indexes(at.server)
    left_out = len(found["columns"]) - len(columns)
    more = {"fields_left_out": left_out} if left_out else {}
    counted = _COUNTED[found["among"] if asked.q else "all"]
    about = {"index": at.served.name, "rows": found["rows"], "counted": counted}
    return {**about, "fields": columns, **more, "indexes": indexes}


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return one field of an index: its type, how far its values reach, and its most frequent ones."""
    values = [{"value": _cut(one["value"]), "rows": one["count"]} for one in column["values"][:_VALUES]]
    reach = {name: _cut(column[name]) for name in ("least", "largest") if column.get(name) is not None}
    distinct = {} if column.get("distinct") is None else {"distinct": column["distinct"]}
    return {
        "name": column["name"],
        "type": column["type"],
        **reach,
        **distinct,
        **({"values": values} if values else {}),
    }


def about_indexes(server: Serving) -> list[dict[str, Any]]:
    """Return the indexes over texts of a server: name and number of rows; the first ones where they are many."""
    found = []
    for one in server.artifacts.by_name.values():
        opened = one.current.opened
        if isinstance(opened, OpenTextIndex):
            found.append({"index": one.name, "rows": len(opened), "similar": "similar" in one.current.abilities})
    return found[:_NAMED]


# ---- answers as texts


def _answers_text(found: dict[str, Any]) -> str:
    """Return the answers of a search as a text."""
    said = [*found.get("remarks", ())]
    said += [
        f"searched for {right} instead of {word}, which no text contains"
        for word, right in found.get("corrected", {}).items()
    ]
    said += [
        f"unknown word: {word}" + (f"; similar words: {', '.join(near)}" if near else "")
        for word, near in found.get("unknown", {}).items()
    ]
    if not found["answers"]:
        return "\n".join([*said, found.get("nothing") or "nothing was found"])
    return "\n\n".join([*(["\n".join(said)] if said else []), *map(_answer_text, found["answers"])])


def _answer_text(one: Mapping[str, Any]) -> str:
    """Return one answer as a text: a line of what it is and where it stands, then its passage."""
    own = f"id {one['id']}" if "id" in one else ""
    names = (one.get("title", ""), one.get("place", ""), own, f"index {one['index']}", f"row {one['row']}")
    said = "" if one.get("related") is not False else "  (less related)"
    return f"{one['rank']}. {'  ·  '.join(str(name) for name in names if name)}{said}{_fields_text(one)}\n{one['text']}"


def _fields_text(one: Mapping[str, Any]) -> str:
    """Return link and fields of a row as one line, with a line break before it; empty where it has none."""
    shown = [f"link: {one['link']}"] if "link" in one else []
    shown += [f"{name}: {value}" for name, value in one.get("fields", {}).items()]
    if left_out := one.get("fields_left_out"):
        shown.append(f"{left_out} more fields")
    return f"\n{'  ·  '.join(shown)}" if shown else ""


def _whole_text(found: dict[str, Any]) -> str:
    """Return a text below a line with its title and place, with the start of the next part."""
    own = f"id {found['id']}" if "id" in found else ""
    names = (found.get("title", ""), found.get("place", ""), own, f"index {found['index']}", f"row {found['row']}")
    stop = found["start"] + len(found["text"])
    part = "" if not found["start"] and "next" not in found else (
        f"\ncharacters {found['start']:,} to {stop:,} of {found['characters']:,}"
        + (f"; for more of the text, get it with start {found['next']}" if "next" in found else "")
    )  # fmt: skip
    beside = [f"{name}: row {found[name]}" for name in ("before", "after") if name in found]
    near = f"\nin the same document, {'  ·  '.join(beside)}" if beside else ""
    return f"{'  ·  '.join(str(name) for name in names if name)}{_fields_text(found)}{part}{near}\n\n{found['text']}"


def _fields_show(found: dict[str, Any]) -> str:
    """Return the fields of an index as a text, a line each."""
    lines = [f"index {found['index']}: {found['rows']:,} rows; counted: {found['counted']}"]
    for one in found["fields"]:
        reach = f", {one['least']} to {one['largest']}" if "least" in one and "largest" in one else ""
        values = ", ".join(f"{value['value']} ({value['rows']:,})" for value in one.get("values", ()))
        lines.append(f"{one['name']} ({one['type']}{reach})" + (f": {values}" if values else ""))
    if left_out := found.get("fields_left_out"):
        lines.append(f"{left_out} more fields")
    if len(found["indexes"]) > 1:
        lines.append("indexes: " + ", ".join(f"{one['index']} ({one['rows']:,} rows)" for one in found["indexes"]))
    return "\n".join(lines)


# ---- the tools

_INDEX = Argument("index", "name of the index; needed only where there are several")
_ROW = Argument("row", "number of the row, from an answer of search")
_ID = Argument("id", "id of the record; give either id or row")
_MOST = Argument("k", "maximum number of answers", most=50, default=8)


def _where(text: str) -> Argument:
    """Return the argument for a condition on fields."""
    return Argument("where", f"{text}, for example year >= 2020 and lang = 'de'; see fields", schema=TEXT)


TOOLS: dict[str, Tool] = {
    one.name: one
    for one in (
        Tool(
            "search",
            "Search the user's texts",
            "Search the texts of the user by words and, where the index has vectors, by meaning. Returns passages, each with "
            'its place. Operators in the query: "exact phrase", -without, +with, begin*, field:value, field:low..high, OR, '
            "brackets. To read more of an answer, call get with its index and row.",
            Search,
            {
                "query": Argument(
                    "q", "words to search for, or a question; may be empty if there is a condition", schema=TEXT
                ),
                "k": _MOST,
                "index": Argument("index", "names of the indexes to search; default: all, as one", default=ALL),
                "where": _where("a condition on fields"),
                "sort": Argument("sort", "FIELD or FIELD:desc: sort the matching rows by a field, not by relevance"),
                "offset": Argument("offset", "leave out the first answers, to get the next page", most=1_000),
            },
            _of_search,
            _answers_text,
            {"format": "json", "passage": _PASSAGE},
        ),
        Tool(
            "get",
            "Read a text",
            "Read the text of an answer, or a part of a long text. Returns also the rows before and after it in the same "
            "document.",
            TextOf,
            {
                "row": _ROW,
                "id": _ID,
                "index": _INDEX,
                "start": Argument("start", "first character to read"),
                "length": Argument("length", "maximum number of characters", most=4 * _PART, default=_PART),
            },
            _whole,
            _whole_text,
        ),
        Tool(
            "similar",
            "Find similar texts",
            "Find the texts whose meaning is nearest to the text of a row. The index needs vectors.",
            Similar,
            {
                "row": _ROW,
                "id": _ID,
                "index": _INDEX,
                "k": _MOST,
                "where": _where("a condition on fields"),
            },
            _answers,
            _answers_text,
            {"format": "json"},
        ),
        Tool(
            "fields",
            "List the fields of an index",
            "List the fields of an index that conditions can use, with their types and most frequent values, and all indexes.",
            FacetsOf,
            {
                "query": Argument("q", "count only rows that contain a word of this query"),
                "index": _INDEX,
                "where": _where("count only rows that meet a condition"),
            },
            _fields,
            _fields_show,
            {"values": _VALUES},
        ),
    )
}
"""Name → tool."""
