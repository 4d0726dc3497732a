"""The page of the API: each endpoint of the OpenAPI document with its parameters, its answers, and a form for each method.

It shows the document that programs read (`/openapi.json`), so nothing here knows an endpoint. Without a script it is a
reference, and a form of a GET leads to the answer; `files/api.js` shows answers beside the form.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from wordpipe.web.page.parts import Inner, Markup, prose, tag, url

_JSON = "application/json"
_STREAM = "text/event-stream"
_MOST_WHOLE = 1 << 53  # a larger bound says no more than that there is one
_AT_THE_END = {"errors": "Errors", "forms": "Forms of answers"}
_PLACES = {"query": "URL", "path": "path", "header": "header"}
_KINDS = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "array": "list",
    "object": "object", "null": "null",
}  # fmt: skip


def api_view(
    document: Mapping[str, Any], asked: Mapping[str, Mapping[str, str | None]], index: str, address: str, opened: str | None
) -> Markup:  # fmt: skip
    """Return the HTML of all endpoints of an OpenAPI document, in their groups, with a list of contents.

    All endpoints but one are folded.

    Args:
        document: what is shown.
        asked: what forms and commands ask, by the path of the endpoint; None: a parameter is left out.
        index: that all others ask.
        address: of the server, to which the commands go.
        opened: the endpoint that is not folded; None: the first that can answer.
    """
    needs_token, paths = "security" in document, document["paths"]
    opened = opened or next(path for path, item in paths.items() if _first(item).get("x-artifacts") != [])
    groups = {
        one["name"]: [path for path, item in paths.items() if _first(item)["tags"] == [one["name"]]]
        for one in document["tags"]
    }
    contents = [
        tag("li", tag("a", name, href=f"#{_slug(name)}"), tag("ul", [tag("li", _link(path)) for path in own]))
        for name, own in groups.items()
    ]

    def shown(path: str) -> Markup:
        own = asked.get(path, {"index": index})
        curl = _curl(path, paths[path], own, address, needs_token=needs_token)
        return _endpoint(path, paths[path], own, curl, is_open=path == opened)

    sections = [tag("section", tag("h2", name), list(map(shown, own)), id=_slug(name)) for name, own in groups.items()]
    forms = [
        tag(
            "details", tag("summary", tag("h3", name)),
            tag("pre", list(_form(schema)), tabindex="0", role="region", aria_label=name, id=name),
        )
        for name, schema in sorted(document["components"]["schemas"].items())
    ]  # fmt: skip
    contents += [tag("li", tag("a", name, href=f"#{place}")) for place, name in _AT_THE_END.items()]
    errors = _replies(document["components"]["responses"])
    sections.append(tag("section", tag("h2", "Errors"), errors, id="errors"))
    hint = tag("p", "A field with ? may be missing.", class_="hint")
    sections.append(tag("section", tag("h2", "Forms of answers"), hint, forms, id="forms"))
    return tag(
        "div", tag("nav", tag("ul", contents), class_="contents", aria_label="Endpoints"),
        tag("div", tag("h1", "HTTP API"), _lead(needs_token=needs_token), sections),
        class_="api", data_token=needs_token,
    )  # fmt: skip


def _lead(*, needs_token: bool) -> Inner:
    """Return what holds for all endpoints of the API's page."""
    said = "A GET has its parameters in the URL. A POST has them as fields of a JSON object, in which null is the same as a "
    said += "missing field. Try it sends a request to this server and shows the answer."
    token = "Programs send the token of this server as the header Authorization: Bearer TOKEN." if needs_token else None
    return [
        tag("p", said, class_="lead"),
        tag("p", "For programs: ", tag("a", "openapi.json", href="./openapi.json"), ". ", token, class_="hint"),
    ]


def _first(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the operation of an endpoint's first method, which says what holds for all of its methods."""
    first: Mapping[str, Any] = next(iter(item.values()))
    return first


def _slug(name: str) -> str:
    """Return the address of a group on the API's page.

    >>> _slug("Vectors and ranking")
    'vectors-and-ranking'
    """
    return name.lower().replace(" ", "-")


def _link(path: str) -> Markup:
    """Return a link to an endpoint on the API's page."""
    return tag("a", tag("code", path), href=f"#{quote(path)}")


def _endpoint(
    path: str, item: Mapping[str, Any], asked: Mapping[str, str | None], curl: str, *, is_open: bool
) -> Markup:
    """Return one endpoint of the API: what it is for, a command, its parameters, its answers, a form for each method."""
    first = _first(item)
    methods = [tag("span", method.upper(), class_="method") for method in item]
    able = first.get("x-artifacts")
    answered = tag("p", tag("bdi", f"Answered by: {', '.join(able)}."), class_="hint") if able else None
    unable = " No artifact of this server can answer." if able == [] else None
    known = _parameters(item)
    listed = tag("dl", [_described(one) for one in known.values()], class_="params") if known else None
    tries = [
        tag(
            "details", tag("summary", f"Try {method.upper()} {path}"), _try(method, path, operation, asked), class_="try",
            data_method=method.upper(), data_path=path,
        )
        for method, operation in item.items()
    ]  # fmt: skip
    return tag(
        "details",
        tag("summary", tag("h3", [[one, " "] for one in methods], tag("code", path)),
            tag("span", _coded(first["summary"]), unable)),
        tag("section", answered, tag("pre", prose(curl), class_="curl"), tries,
            listed or tag("p", "It has no parameters.", class_="hint"), _answers(first), id=path),
        class_="endpoint", open=is_open,
    )  # fmt: skip


# ---- parameters


@dataclass
class _Known:
    """A parameter of an endpoint of the API, in a URL, in a path, in a body, or in either of two."""

    name: str
    needed: bool
    text: str
    schema: Mapping[str, Any]
    places: list[str] = field(default_factory=list)


def _parameters(item: Mapping[str, Any]) -> dict[str, _Known]:
    """Return the parameters of an endpoint of the API by name; the schema of a body is the wider one."""
    found: dict[str, _Known] = {}
    for operation in item.values():
        for one in operation["parameters"]:
            known = _Known(one["name"], one["required"], one["description"], _schema_of(one))
            found.setdefault(one["name"], known).places.append(_PLACES[one["in"]])
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"][_JSON]["schema"]
            for name, own in schema["properties"].items():
                known = _Known(name, name in schema["required"], own["description"], own)
                found.setdefault(name, known).places.append("body")
                found[name].schema = own
    return found


def _schema_of(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a parameter of the API; one with content is JSON in a URL."""
    schema: Mapping[str, Any] = parameter["schema"] if "schema" in parameter else parameter["content"][_JSON]["schema"]
    return schema


def _described(one: _Known) -> Markup:
    """Return a parameter of the API in the list of an endpoint: its name, its meaning, its type with limits, its default."""
    default = _default(one.schema)
    facts = [kind_of(one.schema), f"in the {' or '.join(dict.fromkeys(one.places))}"]
    if default not in (None, ""):
        facts.append(f"default: {_written(default)}")
    needed = tag("span", " needed", class_="needed") if one.needed else None
    return tag(
        "div",
        tag("dt", tag("code", one.name), needed),
        tag("dd", _coded(one.text), tag("span", "; ".join(facts), class_="kind")),
    )


def _coded(text: str) -> Inner:
    """Return a text on the API's page, what stands in backticks in it as code."""
    return [tag("code", part) if number % 2 else part for number, part in enumerate(text.split("`"))]


def _default(schema: Mapping[str, Any]) -> Any:
    """Return the default of a parameter of the API, which may stand in a schema that allows null, too."""
    return next((one["default"] for one in (schema, *schema.get("anyOf", ())) if "default" in one), None)


def _written(value: Any) -> str:
    """Return a value on the API's page as a request has it: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a JSON schema in words, with limits and allowed values; null is left out beside other types.

    >>> kind_of({"type": "integer", "minimum": 1, "maximum": 1000}), kind_of({"enum": ["asc", "desc"]})
    ('whole number from 1 to 1,000', 'asc or desc')
    >>> kind_of({"anyOf": [{"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 2}, {"type": "null"}]})
    'list of at most 2: text of at most 9 characters'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"always {_written(schema['const']) or 'empty'}"
    if "enum" in schema:
        return " or ".join(map(_written, schema["enum"]))
    if "anyOf" in schema:
        kinds = [kind_of(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return ", or ".join(dict.fromkeys(kinds))
    kind = schema.get("type", "any JSON")
    if isinstance(kind, list):
        return " or ".join(_KINDS[one] for one in kind if one != "null")
    if kind == "array":
        size, items = _range(schema, "minItems", "maxItems"), _items(schema)
        return f"list{f' of {size}' if size else ''}{f': {items}' if items else ''}"
    if kind == "object":
        names = ", ".join(schema.get("properties", ()))
        return f"object with {names}" if names else "object"
    if kind == "string":
        size = _range(schema, "minLength", "maxLength")
        return f"text of {size} characters" if size else "text"
    size = _range(schema, "minimum", "maximum")
    if "exclusiveMinimum" in schema:
        size = f"above {schema['exclusiveMinimum']:,.15g}" + (f", {size}" if size else "")
    return f"{_KINDS.get(kind, kind)} {size}".strip()


def _items(schema: Mapping[str, Any]) -> str:
    """Return the type of the items of a list in the API; nothing where they may be anything."""
    if "prefixItems" in schema:
        return "; ".join(map(kind_of, schema["prefixItems"]))
    return kind_of(schema["items"]) if schema.get("items") else ""


def _range(schema: Mapping[str, Any], low: str, high: str) -> str:
    """Return the bounds of a schema of the API in words; nothing without bounds, or of a size of 0 or 1 alone."""
    least, most = schema.get(low), schema.get(high)
    most = None if most is None or most >= _MOST_WHOLE else most
    first, last = (None if one is None else f"{one:,.15g}" for one in (least, most))
    if high != "maximum":  # a size
        least = None if least in (0, 1) else least
        if None in (least, most):
            return f"at least {first}" if least is not None else f"at most {last}" if most is not None else ""
        return str(last) if least == most else f"{first} to {last}"
    if None in (least, most):
        return f"from {first}" if least is not None else f"at most {last}" if most is not None else ""
    return f"from {first} to {last}"


# ---- answers


def _answers(operation: Mapping[str, Any]) -> Markup:
    """Return the answers and errors of an endpoint of the API."""
    return tag("details", tag("summary", "Answers and errors"), _replies(operation["responses"]))


def _replies(replies: Mapping[str, Any]) -> Markup:
    """Return replies of the API: their status, what they mean, their media types, and the forms of JSON."""
    rows = [
        tag(
            "div", tag("dt", tag("code", status)),
            tag("dd", _coded(reply["description"]), [_media(media, one) for media, one in reply["content"].items()]),
        )
        for status, reply in replies.items()
    ]  # fmt: skip
    return tag("dl", rows, class_="params")


def _media(media: str, content: Mapping[str, Any]) -> Markup:
    """Return a media type of an answer of the API, with its form."""
    schema = content["schema"]
    form: Inner = None
    if media == _JSON:
        form = [
            ": ",
            _reference(schema["$ref"]) if "$ref" in schema else tag("span", list(_form(schema)), class_="form"),
        ]
    return tag("span", tag("code", media), form, class_="kind")


def _reference(ref: str) -> Markup:
    """Return a link to a named form of answers of the API."""
    name = ref.rpartition("/")[2]
    return tag("a", name, href=f"#{name}")


def _form(schema: Mapping[str, Any], indent: str = "") -> Iterator[Markup]:
    """Yield the form of an answer of the API as it looks in JSON, with the types in the place of values."""
    if "$ref" in schema:
        yield _reference(schema["$ref"])
    elif "anyOf" in schema:
        for number, one in enumerate(schema["anyOf"]):
            yield prose(" or " if number else "")
            yield from _form(one, indent)
    elif schema.get("type") == "array" and "items" in schema:
        yield prose("[")
        yield from _form(schema["items"], indent)
        yield prose(", …]")
    elif schema.get("properties"):
        needed, deeper = schema.get("required", ()), f"{indent}  "
        fields = [
            tag("span", prose(f'"{name}"{"" if name in needed else "?"}: '), list(_form(own, deeper)))
            for name, own in schema["properties"].items()
        ]
        yield prose("{")
        for number, one in enumerate(fields):
            yield prose(f"{',' if number else ''}\n{deeper}")
            yield one
        yield prose(f"\n{indent}}}")
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield prose('{"…": ')
        yield from _form(schema["additionalProperties"], indent)
        yield prose(", …}")
    else:
        yield prose(kind_of(schema))


# ---- commands, and forms that try an endpoint


def _curl(
    path: str, item: Mapping[str, Any], asked: Mapping[str, str | None], address: str, *, needs_token: bool
) -> str:
    """Return the command that asks an endpoint of the API what the form of its first method does; `api.js` does the same."""
    operation = _first(item)
    for one in operation["parameters"]:
        path = path.replace(f"{{{one['name']}}}", quote(_value(one, asked), safe=""))
    query = {one["name"]: _value(one, asked) for one in operation["parameters"] if one["in"] == "query"}
    parts = ["curl", _quoted(url(f"{address}{path[1:]}", **query))]
    if needs_token:
        parts.append('--header "Authorization: Bearer $TOKEN"')
    if body := _body(operation, asked):
        parts += ["--header 'Content-Type: application/json'", f"--data-raw {_quoted(body)}"]
    return " ".join(parts)


def _quoted(text: str) -> str:
    """Return a text of the API's page as one word for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _body(operation: Mapping[str, Any], asked: Mapping[str, str | None]) -> str:
    """Return an example of a body for an endpoint of the API, with what is `asked`; empty where it takes none."""
    if "requestBody" not in operation:
        return ""
    of_body = operation["requestBody"]["content"][_JSON]
    own = dict[str, Any]()
    for name, schema in of_body["schema"]["properties"].items():
        if name in asked and asked[name] is None:
            own[name] = None
        elif (one := asked.get(name)) and one in schema.get("examples", [one]):
            kind = kind_of(schema)
            own[name] = one == "1" if kind == "true or false" else one if kind.startswith("text") else _read(one)
    given = {name: one for name, one in (of_body["example"] | own).items() if one is not None}
    return json.dumps(given, ensure_ascii=False, indent=2)


def _read(text: str) -> Any:
    """Return a value of a URL as a body of the API has it; what is no JSON stays as it is, for the server to refuse."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _try(method: str, path: str, operation: Mapping[str, Any], asked: Mapping[str, str | None]) -> Markup:
    """Return the form that sends a request to an endpoint of the API, filled with examples and with what is `asked`.

    A form that cannot be sent without a script has no button before the script has made one.
    """
    fields = [_field(one, asked) for one in operation["parameters"]]
    is_plain = method == "get" and "{" not in path
    body = list[Inner]()
    if example := _body(operation, asked):
        area = tag("textarea", prose(example), rows=example.count("\n") + 2, spellcheck="false", data_in="body")
        body = [tag("label", tag("span", "body, as JSON"), area, class_="wide")]
        if _STREAM in operation["responses"]["200"]["content"]:
            body.append(
                tag("label", tag("input", type="checkbox", data_stream=True), tag("span", "as a stream"), class_="wide")
            )
    send = tag("button", "Send", type="submit", hidden=not is_plain)
    return tag(
        "form", tag("div", fields, body, class_="fields") if fields or body else None, tag("p", send, class_="options"),
        action=f".{path}" if is_plain else None, method="get", novalidate=True, aria_label=f"{method.upper()} {path}",
    )  # fmt: skip


def _examples(one: Mapping[str, Any]) -> list[str]:
    """Return the values that a parameter of the API may have where it names an artifact."""
    return list((one if "schema" in one else one["content"][_JSON]).get("examples", ()))


def _value(one: Mapping[str, Any], asked: Mapping[str, str | None]) -> str:
    """Return what is filled in for a parameter of the API in a URL or path: what is `asked`, or its example."""
    holder, names, own = one if "schema" in one else one["content"][_JSON], _examples(one), asked.get(one["name"], "")
    if own is None:
        return ""
    if own and (not names or own in names):
        return {"1": "true", "0": "false"}.get(own, own) if _schema_of(one).get("type") == "boolean" else own
    return str(holder.get("example", names[0] if names and one["required"] else ""))


def _field(one: Mapping[str, Any], asked: Mapping[str, str | None]) -> Markup:
    """Return the field of a form for a parameter of the API in a URL or path."""
    schema, names, value = _schema_of(one), _examples(one), _value(one, asked)
    facts: dict[str, Any] = {"name": one["name"], "data_in": one["in"]}
    choices: Sequence[str] = names or list(map(_written, schema.get("enum", ())))
    if schema.get("type") == "boolean":
        choices = ["true", "false"]
    label = tag("span", tag("code", one["name"]))
    default = _default(schema)
    if choices:
        unset = (
            []
            if one["required"]
            else [tag("option", f"({_written(default)})" if default is not None else "", value="")]
        )
        shown = [tag("option", each, value=each, selected=each == value) for each in choices]
        return tag("label", label, tag("select", unset, shown, **facts))
    is_number = schema.get("type") in ("integer", "number")
    bounds = {
        "min": schema.get("minimum"),
        "max": schema.get("maximum"),
        "step": None if schema.get("type") == "integer" else "any",
    }
    hint = None if default in (None, "") else _written(default)
    more = (
        {"type": "number", **bounds} if is_number else {"type": "text", "spellcheck": "false", "autocapitalize": "none"}
    )
    return tag("label", label, tag("input", value=value, placeholder=hint, autocomplete="off", **facts, **more))
