"""Parameters of requests: their types and bounds, how a URL or a JSON body gives them, their errors and schemas.

The words for schemas are those of JSON Schema, as OpenAPI 3.1 has it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from wordpipe.artifacts import parse_json_object
from wordpipe.errors import ConfigError
from wordpipe.web.settings import ServeSettings

T = TypeVar("T")

Schema = dict[str, Any]
"""A JSON Schema, as OpenAPI 3.1 has it."""
Check = Callable[[Any, ServeSettings], Any]
"""Takes a value that was read and the server's limits, and gives what the endpoint gets. Raises ConfigError, Refused."""

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}
MAP: Schema = {"type": "object"}
NO_NUL = {"pattern": "^[^\\u0000]*$"}
GIVEN: Schema = TEXT | NO_NUL
"""The schema of a text that a request may have."""
PROSE: Schema = TEXT | {"pattern": "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$"}
PLAIN: Schema = TEXT | {"pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$"}
"""The schemas of texts of settings: of several lines, and of one line."""
_OF_KIND = {str: GIVEN, int: WHOLE, float: NUMBER, bool: FLAG, dict: MAP, Any: ANY}

_SHOWN = str, int, float, bool  # types of a default that a schema names
_LARGEST = 1 << 62  # of a whole number without a bound above
_BODY = "the request's body"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_TYPED = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class Param:
    """One parameter: a field of an endpoint's class, or an option of a settings class that stands in one.

    Attributes:
        kind: str, int, float, bool, dict; Any is JSON in a body and a text in a URL.
        default: what it is where it is not given; ... where it is needed.
        text: what it is, for people.
        example: a value of it.
        choices: the values that it may have.
        most: the field of `ServeSettings` that bounds it.
        each: requests that differ in it may be answered together.
        at: "url" or "path" where it is always there; else in the URL of a GET and in the body of a POST.
        repeats: in a URL it may come several times.
        nullable: in a body null says that it is not given, where it is not needed.
        check: changes what was read, or refuses it.
        schema: in the place of the one that follows from the rest.
        is_artifact: it names a served artifact, or several.
        can: an ability of the artifact, where that is not the one of the endpoint.
    """

    name: str
    kind: Any = str
    default: Any = ...
    text: str = ""
    example: Any = None
    choices: tuple[Any, ...] = ()
    ge: float | None = None
    le: float | None = None
    most: str = ""
    each: bool = False
    at: Literal["", "url", "path"] = ""
    repeats: bool = False
    nullable: bool = True
    check: Check | None = None
    schema: Schema | Callable[[ServeSettings], Schema] | None = None
    is_artifact: bool = False
    can: str = ""

    @property
    def is_needed(self) -> bool:
        """True if a request without it is refused."""
        return self.default is ...

    def largest(self, settings: ServeSettings) -> float | None:
        """Return the largest value that the parameter may have."""
        return getattr(settings, self.most) if self.most and self.kind is int else self.le

    def read(self, source: "Url | Body", settings: ServeSettings) -> Any:
        """Read the parameter's value in a request. Raises ConfigError, Refused: missing, of another type, or out of bounds."""
        value: Any = source.several(self.name) or None if self.repeats else source.one(self.name, self.kind)
        if value is None or (value == "" and not self.is_needed):
            if self.is_needed:
                raise source.missing(self.name)
            return self.default
        if self.choices and value not in self.choices:
            expected = ", ".join(map(str, self.choices))
            raise ConfigError("unknown value", where=self.name, got=repr(value[:60]), expected=expected)
        most = self.largest(settings)
        if self.kind in (int, float) and self.ge is not None:
            bounded(self.name, value, self.ge, _LARGEST if most is None else most)
        return value if self.check is None else self.check(value, settings)

    def schema_in_url(self, settings: ServeSettings) -> Schema | None:
        """Return the JSON schema of the parameter in a URL; None where its text there is JSON of the schema of a body."""
        found = self.schema_in(settings)
        if self.kind is not Any or self.repeats:
            return found
        return next((one for one in found.get("anyOf", [found]) if one.get("type") == "string"), None)

    def schema_in(self, settings: ServeSettings) -> Schema:
        """Return the JSON schema of the parameter: type, bounds, choices and default."""
        default = {"default": self.default} if isinstance(self.default, _SHOWN) else {}
        if self.schema is not None:
            return (self.schema(settings) if callable(self.schema) else self.schema) | default
        found: Schema = {"enum": [*self.choices]} if self.choices else dict(_OF_KIND[self.kind])
        most = self.largest(settings)
        most = _LARGEST if most is None and self.kind is int and self.ge is not None else most
        bounds = {"minimum": self.ge, "maximum": most} if self.kind in (int, float) else {}
        found |= {name: self.kind(bound) for name, bound in bounds.items() if bound is not None}
        return listing(found) | default if self.repeats else found | default


class Url:
    """The parameters of a URL. Raises ConfigError: one comes more than once, is no text, or of another type."""

    place, noun = "the URL", "parameter"

    def __init__(self, request: Request) -> None:
        self.given: dict[str, list[str]] = {}
        for part in request.scope.get("query_string", b"").split(b"&"):
            if part:
                name, _, value = part.partition(b"=")
                shown = _decoded(name, self.place)
                self.given.setdefault(shown, []).append(_decoded(value, shown[:60]))

    def several(self, name: str) -> Sequence[str]:
        """All texts of a parameter that may be repeated, but for empty ones."""
        return [text for text in self.given.get(name, []) if text]

    def one(self, name: str, kind: Any) -> Any:
        """Return the value of a parameter of this type; None where it is not given."""
        given = self.given.get(name, [])
        if len(given) > 1:
            got = f"{len(given)} times"
            raise ConfigError("the parameter is given more than once", where=name, got=got, expected="once")
        if not given or (not given[0] and kind is not str):
            return None
        read = _FROM_TEXT.get(kind)
        return given[0] if read is None else read(name, given[0])

    def missing(self, name: str) -> ConfigError:
        """Return the error of a parameter that is needed."""
        return ConfigError(f"the parameter {name} is missing", where=name, hint=f"…?{name}=…")


class Body:
    """The fields of a JSON object in a body. Raises ConfigError: there is none, or a field is of another type.

    Args:
        data: the body, or the object where it has been read already.
    """

    place, noun = _BODY, "field"

    def __init__(self, data: bytes | Mapping[str, Any]) -> None:
        self.given = (
            parse_json_object(data, _BODY, error=ConfigError, hint="send a JSON object", once=True)
            if isinstance(data, bytes)
            else data
        )

    def several(self, name: str) -> Sequence[str]:
        """Return all texts of a parameter that may be a list of them, but for empty ones."""
        found = self._readable(name)
        texts = [found] if isinstance(found, str) else [] if found is None else found
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise ConfigError(
                "the value is not a text or a list of texts", where=name, expected="a text, or a list of texts"
            )
        return [text for text in texts if text]

    def one(self, name: str, kind: Any) -> Any:
        """Return a value of this type; None where it is not given."""
        found = self._readable(name)
        return found if kind is Any else typed(self.given, name, kind)

    def _readable(self, name: str) -> Any:
        """Return a value as it is in the body. Raises ConfigError: no text of UTF-8, or with a NUL."""
        found = self.given.get(name)
        _refuse_unreadable(found, name[:60])
        return found

    def missing(self, name: str) -> ConfigError:
        """Return the error of a field that is needed."""
        return ConfigError(f"the field {name} is missing", where=_BODY)


def refuse_others(source: Url | Body, known: Sequence[str]) -> None:
    """Refuse parameters or fields that are not among the known names. Raises ConfigError."""
    if unknown := [name for name in source.given if name not in known]:
        got, expected = repr(unknown[0][:60]), ", ".join(known)
        raise ConfigError(f"unknown {source.noun}", where=source.place, got=got, expected=expected)


def _decoded(part: bytes, where: str) -> str:
    """Return a parameter's name or value of a URL. Raises ConfigError: not UTF-8, or with a NUL."""
    try:
        text = unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        got, expected = repr(part[:60].decode("latin-1")), "UTF-8 text, percent-encoded"
        raise ConfigError("not valid UTF-8", where=where, got=got, expected=expected) from None
    if "\0" in text:
        raise ConfigError("the text contains a NUL character", where=where, hint="remove the NUL character")
    return text


def _number(kind: Callable[[str], float], expected: str) -> Callable[[str, str], float]:
    """Return the reader of a parameter that is a number in a URL."""

    def read(name: str, text: str) -> float:
        try:
            found = kind(text)
            if not math.isfinite(found):
                raise ValueError
        except (ValueError, OverflowError):
            raise ConfigError("not a number", where=name, got=repr(text[:60]), expected=expected) from None
        return found

    return read


def _flag(name: str, text: str) -> bool:
    """Read true or false in a URL. Raises ConfigError: another text."""
    if text.lower() not in _TRUE + _FALSE:
        raise ConfigError("the value is not true or false", where=name, got=repr(text[:60]), expected="1 or 0")
    return text.lower() in _TRUE


_FROM_TEXT: dict[Any, Callable[[str, str], Any]] = {
    int: _number(int, "a whole number"), float: _number(float, "a number"), bool: _flag,
}  # fmt: skip


def _refuse_unreadable(value: Any, where: str) -> None:
    """Refuse parameters with half a letter of UTF-16, or a NUL. Raises ConfigError: names the field."""
    if isinstance(value, str):
        try:
            got = "a NUL character" if b"\0" in value.encode() else None
        except UnicodeEncodeError:
            got = "half of a UTF-16 surrogate pair"
        if got is not None:
            raise ConfigError(
                "the text contains a character that is not allowed",
                where=where,
                got=got,
                expected="valid UTF-8 without NUL",
            )
    elif isinstance(value, dict):
        for name, one in value.items():
            _refuse_unreadable(name, where)
            _refuse_unreadable(one, where)
    elif isinstance(value, list):
        for number, one in enumerate(value, start=1):
            _refuse_unreadable(one, f"{where}, item {number:,}" if isinstance(one, str) else where)


def typed(body: Mapping[str, Any], name: str, kind: type[T], default: T | None = None, *, needed: bool = False) -> Any:
    """Return a parameter out of a JSON object; the default where it is missing or null.

    Raises:
        ConfigError: it is missing where it is needed, or of another type.
    """
    found = body.get(name)
    if found is None:
        if needed:
            raise ConfigError(f"the field {name} is missing", where=_BODY, expected=_TYPED.get(kind))
        return default
    if kind is float and type(found) is int and abs(found) < 1 << 53:
        return float(found)
    if kind is int and type(found) is float and found.is_integer():  # as JSON Schema has whole numbers
        return int(found)
    if type(found) is not kind or (isinstance(found, float) and not math.isfinite(found)):
        got = _TYPED.get(type(found), type(found).__name__)
        raise ConfigError("the value has the wrong type", where=name, got=got, expected=_TYPED.get(kind))
    return found


def bounded(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number that does not lie within its bounds. Raises ConfigError."""
    if not low <= value <= high:
        got = f"{value:,}" if abs(value) < 10**18 else "a number with very many digits"
        raise ConfigError("out of bounds", where=name, got=got, expected=f"{low:,} to {high:,}")


def checked_text(text: str, what: str, most: int) -> str:
    """Return a parameter's text without the spaces around. Raises ConfigError: it is empty or too long."""
    if len(text) > most:
        raise ConfigError(f"{what} is too long", got=f"{len(text):,} characters", expected=f"at most {most:,}")
    if not text.strip():
        raise ConfigError(f"{what} is empty", hint="write some words")
    return text.strip()


def said_schema(settings: ServeSettings) -> Schema:
    """Return the schema of a text that is not blank."""
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": settings.max_chars,
        "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$",
    }


# ---- schemas


def maybe(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listing(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    """Return a reference to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def fields(needed: Schema, others: Schema | None = None, *, closed: bool = True) -> Schema:
    """Return the schema of an object with these fields; `others` are optional; closed: no further fields."""
    found = {"type": "object", "properties": {**needed, **(others or {})}, "required": [*needed]}
    return found | {"additionalProperties": False} if closed else found


def one_or_more(text: Schema, most: int | None = None) -> Schema:
    """Return the schema of a text, or a list of at least one text."""
    several = {"type": "array", "items": text, "minItems": 1} | ({} if most is None else {"maxItems": most})
    return {"anyOf": [text, several]}
