"""The OpenAPI document (3.1) of the server, at `/openapi.json`, from the declarations of its endpoints; words for schemas."""

from typing import Any

from wordpipe import __version__
from wordpipe.web.endpoint import TABLE, Answer, Declared, Endpoint
from wordpipe.web.params import Param, Schema
from wordpipe.web.replies import JSON
from wordpipe.web.settings import ServeSettings

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}
MAP: Schema = {"type": "object"}
_OF_KIND = {str: TEXT, int: WHOLE, float: NUMBER, bool: FLAG, dict: MAP, Any: ANY}


def maybe(schema: Schema) -> Schema:
    """This, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listing(schema: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def fields(needed: Schema, others: Schema | None = None, *, closed: bool = True) -> Schema:
    """An object with these fields, those of `others` not always; no others where it is closed."""
    found = {"type": "object", "properties": {**needed, **(others or {})}, "required": [*needed]}
    return found | {"additionalProperties": False} if closed else found


def one_or_more(text: Schema, most: int | None = None) -> Schema:
    """A text, or a list of at least one."""
    several = {"type": "array", "items": text, "minItems": 1} | ({} if most is None else {"maxItems": most})
    return {"anyOf": [text, several]}


ERROR = Answer("Error", fields({"error": fields(
    {"message": TEXT, "type": TEXT, "code": maybe(TEXT)},
    {name: maybe(TEXT) for name in ("what", "where", "got", "expected", "hint")},
)}))  # fmt: skip


def document(settings: ServeSettings) -> Schema:
    """The document of a server with these limits; with a token, where one is needed."""
    answers = [
        ERROR,
        *(one for cls in TABLE for one in (cls.declared.answer, cls.declared.error) if isinstance(one, Answer)),
    ]
    paths: Schema = {}
    for cls in TABLE:
        for method in cls.declared.methods:
            paths.setdefault(cls.declared.path, {})[method.lower()] = _operation(method, cls, settings)
    found: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "wordpipe", "version": __version__, "description": "Search, vectors and models over HTTP."},
        "paths": paths,
        "components": {"schemas": {
            name: schema for one in answers for name, schema in {**one.parts, one.name: one.schema}.items()
        }},
    }  # fmt: skip
    if settings.token_file is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def schema_of(one: Param, settings: ServeSettings) -> Schema:
    """The schema of a parameter: its type, bounds, choices and default."""
    if one.schema is not None:
        return one.schema(settings) if callable(one.schema) else one.schema
    found: Schema = {"enum": [*one.choices]} if one.choices else dict(_OF_KIND[one.kind])
    bounds = {"minimum": one.ge, "maximum": one.largest(settings)} if one.kind in (int, float) else {}
    found |= {name: one.kind(bound) for name, bound in bounds.items() if bound is not None}
    if one.default is not None and not one.is_needed:
        found["default"] = one.default
    return listing(found) if one.repeats else found


def _operation(method: str, cls: type[Endpoint], settings: ServeSettings) -> Schema:
    known = cls.declared
    # parameters of the URL and the path, and the fields of a body
    own = {one.name: one for one in known.params if method == "POST" and not one.at}
    others = [one for one in known.params if one.name not in own]
    found: Schema = {
        "summary": (cls.__doc__ or "").partition("\n")[0],
        "operationId": f"{method.lower()}_{known.path.strip('/').translate(_NO_SIGNS)}",
        "parameters": [_parameter(one, settings) for one in others],
        "responses": {
            "200": {"description": "The answer.", "content": _content(known)},
            "4XX": {"description": "It cannot be asked so; the message says why.", **_error(known)},
            "503": {"description": "Not now; Retry-After says when to come again.", **_error(known)},
        },
    }
    if method == "POST":
        found["requestBody"] = {"required": True, "content": {JSON: _body(own, known, settings)}}
    return found


_NO_SIGNS = str.maketrans({"/": "_", ".": "_", "{": None, "}": None})


def _parameter(one: Param, settings: ServeSettings) -> Schema:
    found: Schema = {
        "name": one.name,
        "in": "path" if one.at == "path" else "query",
        "required": one.is_needed,
        "schema": schema_of(one, settings),
        "description": one.text,
    }
    return found if one.example is None else found | {"example": one.example}


def _body(own: dict[str, Param], known: Declared, settings: ServeSettings) -> Schema:
    """The schema of a body, and one that can be sent."""
    schemas = {name: schema_of(one, settings) | {"description": one.text} for name, one in own.items()}
    needed = {name: schema for name, schema in schemas.items() if own[name].is_needed}
    rest = {name: schema for name, schema in schemas.items() if name not in needed}
    example = {name: one.example for name, one in own.items() if one.example is not None}
    return {"schema": fields(needed, rest, closed=not known.others), "example": example}


def _content(known: Declared) -> Schema:
    """What an endpoint answers, by type."""
    own = ref(known.answer.name) if isinstance(known.answer, Answer) else known.answer
    return ({JSON: {"schema": own}} if own is not None else {}) | {one: {"schema": TEXT} for one in known.media}


def _error(known: Declared) -> Schema:
    return {"content": {JSON: {"schema": ref((known.error or ERROR).name)}}}
