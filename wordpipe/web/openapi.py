"""The OpenAPI document (3.1) of a server at `/openapi.json`, made of the declarations of all endpoints.

The page `/api` shows this document to people, so what the page says of an endpoint stands here, and is declared once.
"""

from wordpipe import __version__
from wordpipe.web.endpoint import GROUPS, TABLE, Answer, Declared, Endpoint, Serving
from wordpipe.web.params import ANY, TEXT, Param, Schema, fields, maybe, ref
from wordpipe.web.replies import EVENTS, JSON, STATUSES
from wordpipe.web.together import ALL

ERROR = Answer("Error", fields({"error": fields(
    {"message": TEXT, "type": TEXT, "code": maybe(TEXT)},
    {name: maybe(TEXT) for name in ("what", "where", "got", "expected", "hint")},
)}))  # fmt: skip


def document(server: Serving) -> Schema:
    """Return the OpenAPI document of all endpoints: with the limits of a server, its artifacts, and a token if needed."""
    answers = [
        ERROR,
        *(one for cls in TABLE for one in (cls.declared.answer, cls.declared.error) if isinstance(one, Answer)),
    ]
    paths: Schema = {}
    for cls in sorted(TABLE, key=_reading_order):
        for method in cls.declared.methods:
            paths.setdefault(cls.declared.path, {})[method.lower()] = _operation(method, cls, server)
    found: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "wordpipe", "version": __version__, "description": "Search, vectors and models over HTTP."},
        "tags": [{"name": group} for group in GROUPS],
        "paths": paths,
        "components": {
            "schemas": {name: schema for one in answers for name, schema in {**one.parts, one.name: one.schema}.items()},
            "responses": {
                str(status): {"description": f"{why[0].upper()}{why[1:]}.", "content": {JSON: {"schema": ref(ERROR.name)}}}
                for status, why in STATUSES.items()
            },
        },
    }  # fmt: skip
    if server.has_page:
        found["externalDocs"] = {"description": "All endpoints, with a form for each.", "url": "./api"}
    if server.settings.token_file is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _reading_order(cls: type[Endpoint]) -> tuple[int, int, str]:
    """Return the key by which the OpenAPI document lists endpoints: first what most people come for."""
    known = cls.declared
    return GROUPS.index(known.group), known.place, known.path


def _operation(method: str, cls: type[Endpoint], server: Serving) -> Schema:
    """Return the OpenAPI operation of an endpoint for a method."""
    known = cls.declared
    # parameters of the URL and the path, and the fields of a body
    own = {one.name: one for one in known.params if method == "POST" and not one.at}
    others = [one for one in known.params if one.name not in own]
    found: Schema = {
        "summary": (cls.__doc__ or "").partition("\n")[0],
        "operationId": f"{method.lower()}_{known.path.strip('/').translate(_NO_SIGNS)}",
        "tags": [known.group],
        "parameters": [_parameter(one, known, server) for one in others],
        "responses": {
            "200": {"description": "The answer.", "content": _content(known)},
            "4XX": {"description": "The request is refused; the message says why.", **_error(known)},
            "503": {
                "description": "The server cannot answer now; the header Retry-After says when to try again.",
                **_error(known),
            },
        },
    }
    if known.can:
        found["x-artifacts"] = _able(known.can, server)
    if method == "POST":
        found["requestBody"] = {"required": True, "content": {JSON: _body(own, known, server)}}
    return found


def _able(ability: str, server: Serving) -> list[str]:
    """Return the names of the served artifacts with an ability, or, without an ability, of all artifacts."""
    return [one.name for one in server.artifacts.by_name.values() if not ability or one.current.has(ability)]


def _names(one: Param, known: Declared, server: Serving) -> list[str]:
    """Return the names that an endpoint's parameter may have where it names an artifact."""
    if not one.is_artifact:
        return []
    able = _able(one.can or known.can, server)
    return [*able, ALL] if one.repeats and able else able


_NO_SIGNS = str.maketrans({"/": "_", ".": "_", "{": None, "}": None})


def _parameter(one: Param, known: Declared, server: Serving) -> Schema:
    """Return the OpenAPI description of an endpoint's parameter in a URL or path."""
    found: Schema = {
        "name": one.name,
        "in": "path" if one.at == "path" else "query",
        "required": one.is_needed,
        "description": one.text,
    }
    example = {} if one.example is None else {"example": one.example}
    if names := _names(one, known, server):
        example = {"examples": {name: {"value": name} for name in names}}
    schema = one.schema_in_url(server.settings)
    if schema is None:
        return found | {"content": {JSON: {"schema": one.schema_in(server.settings), **example}}}
    return found | {"schema": schema, **example}


def _body(own: dict[str, Param], known: Declared, server: Serving) -> Schema:
    """Return the schema of the body of a request to an endpoint, and an example of a body."""
    needed, rest = dict[str, Schema](), dict[str, Schema]()
    for name, one in own.items():
        schema = one.schema_in(server.settings)
        may_be_null = one.nullable and not one.is_needed
        described = (maybe(schema) if may_be_null else schema) | {"description": one.text}
        if names := _names(one, known, server):
            described["examples"] = names
        (needed if one.is_needed else rest)[name] = described
    example = {name: one.example for name, one in own.items() if one.example is not None}
    return {"schema": fields(needed, rest, closed=not known.others), "example": example}


def _content(known: Declared) -> Schema:
    """Return the schemas of an endpoint's answer, by media type."""
    own = ref(known.answer.name) if isinstance(known.answer, Answer) else known.answer
    return ({JSON: {"schema": own}} if own is not None else {}) | {
        one: {"schema": ANY if one == EVENTS else TEXT} for one in known.media
    }


def _error(known: Declared) -> Schema:
    """Return the OpenAPI schema of an endpoint's errors; a page says its errors as a page."""
    page = {one: {"schema": TEXT} for one in known.media if one == "text/html"}
    return {"content": {JSON: {"schema": ref((known.error or ERROR).name)}, **page}}
