"""Requests read and answers written: parameters and JSON bodies checked, errors as JSON with their status.

An error is {"error": {"message", "type", "code", "what", "where", "got", "expected", "hint"}}: the first three are what
clients of OpenAI read, the rest is what `--json` prints on the command line.
"""

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wordpipe.artifacts import parse_json_object
from wordpipe.errors import (
    ArtifactError,
    BudgetError,
    ConfigError,
    InputError,
    LockedError,
    StorageError,
    UnknownWordError,
    WordpipeError,
)

T = TypeVar("T")

JSON = "application/json"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
RETRY_AFTER_S = 1
_KIND = {401: "authentication_error", 429: "rate_limit_error"}
_BODY = "the request's body"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Refused(Exception):  # noqa: N818  (a reply, and no error of ours)
    """A request that is not answered; the reply says why.

    Args:
        status: of HTTP.
        message: what is wrong, one sentence.
        hint: the next step.
        headers: beside the usual ones.
    """

    def __init__(
        self, status: int, message: str, *, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.message, self.hint, self.headers = status, message, hint, dict(headers or {})
        super().__init__(message)


def busy(status: int, message: str) -> Refused:
    """A request that may come again in a second: 429 or 503."""
    return Refused(status, message, hint="ask again", headers={"Retry-After": str(RETRY_AFTER_S)})


def to_json(value: Any) -> bytes:
    """JSON in UTF-8; dates as text, half letters as question marks, numbers that are not finite as null."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(to_json(value), status, headers=dict(headers or {}), media_type=JSON)


def lines_reply(rows: Iterable[Mapping[str, Any]]) -> Response:
    """An answer of one JSON object per line, byte for byte those of `wordpipe query --json`."""
    lines = (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    return Response("".join(lines).encode("utf-8", "replace"), media_type=LINES)


def error_reply(error: Exception) -> Response:
    """The reply to a request that failed, or was refused."""
    if isinstance(error, WordpipeError):
        status, headers = status_of(error), {}
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        parts = {name: part for name, part in error.to_json()["error"].items() if name not in ("code", "kind")}
        body = {"message": said, "type": _type(status), "code": error.kind, **parts}
    elif isinstance(error, Refused):
        status, headers = error.status, error.headers
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        body = {"message": said, "type": _type(status), "code": None, "what": error.message, "hint": error.hint}
    else:
        status, headers = 500, {}
        said = "this is a bug of ours, not of yours; the server's log says more"
        body = {"message": said, "type": _type(status), "code": type(error).__name__}
    if status == 503:
        headers = {"Retry-After": str(RETRY_AFTER_S), **headers}
    return json_reply({"error": body}, status, headers)


class EventReply(Response):
    """Server-sent events, a JSON object each, as OpenAI has them: `data: {…}`, at the end `data: [DONE]`.

    Where an object cannot be made, an event says why as {"error": …}, and there is no `[DONE]`. Where the client has gone, no
    more are asked for.

    Args:
        first: the first object; what fails before it is an answer with its own status.
        others: those that come, closed at the end.
    """

    def __init__(self, first: Any, others: AsyncGenerator[Any, None]) -> None:
        super().__init__(media_type=EVENTS, headers={"X-Accel-Buffering": "no"})
        del self.headers["Content-Length"]
        self._first, self._others = first, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with aclosing(self._lines()) as lines:
                async for event in lines:
                    if gone.done():
                        return
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await self._others.aclose()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        yield _event(to_json(self._first))
        try:
            async for found in self._others:
                yield _event(to_json(found))
        except (WordpipeError, Refused) as error:
            yield _event(bytes(error_reply(error).body))
        else:
            yield _event(b"[DONE]")


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _type(status: int) -> str:
    return _KIND.get(status, "invalid_request_error" if status < 500 else "server_error")


def status_of(error: WordpipeError) -> int:
    """The status of HTTP for an error: 4xx where another request helps, 503 where only the server's owner can help."""
    if isinstance(error, UnknownWordError):
        return 404
    if isinstance(error, ConfigError | InputError):
        return 400
    if isinstance(error, BudgetError | LockedError | StorageError):
        return 503
    return 400 if isinstance(error, ArtifactError) and not _is_damage(error) else 503


def _is_damage(error: ArtifactError) -> bool:
    return "--fresh" in (error.hint or "") or "make it again" in (error.hint or "")


class Params:
    """The parameters of a request's URL, each taken once by its name; what is left over is refused.

    Raises:
        ConfigError: from every method: names the parameter, what it was and what it may be.
    """

    def __init__(self, request: Request) -> None:
        self._given: dict[str, list[str]] = {}
        for part in request.scope.get("query_string", b"").split(b"&"):
            if part:
                name, _, value = part.partition(b"=")
                shown = _decoded(name, "the URL")
                self._given.setdefault(shown, []).append(_decoded(value, shown[:60]))
        self._known: list[str] = []

    def text(self, name: str, default: str | None = None) -> str:
        """A text; required where there is no default."""
        self._known.append(name)
        if len(given := self._given.get(name, [])) > 1:
            raise ConfigError(
                "the parameter comes more than once", where=name, got=f"{len(given)} times", expected="once"
            )
        found = given[0] if given else default
        if found is None:
            raise ConfigError(f"the parameter {name} is missing", where=name, hint=f"…?{name}=…")
        return found

    def optional(self, name: str) -> str | None:
        """A text, or None where it is not given or empty."""
        return self.text(name, "") or None

    def every(self, name: str) -> list[str]:
        """All texts of a parameter that may be repeated."""
        self._known.append(name)
        return [text for text in self._given.get(name, []) if text]

    def whole(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`; the default where it is not given."""
        text = self.optional(name)
        return default if text is None else bounded(name, _number(name, text, int, "a whole number"), low, high)

    def number(self, name: str) -> float | None:
        """A number; None where it is not given."""
        text = self.optional(name)
        return None if text is None else _number(name, text, float, "a number")

    def flag(self, name: str) -> bool:
        """1, true, yes or on; false where it is not given."""
        text = self.text(name, "0").lower() or "0"
        if text not in _TRUE + _FALSE:
            raise ConfigError("neither true nor false", where=name, got=repr(text[:60]), expected="1 or 0")
        return text in _TRUE

    def choice(self, name: str, *choices: str) -> str:
        """One of some words; the first where it is not given."""
        text = self.optional(name) or choices[0]
        if text not in choices:
            raise ConfigError("no such value", where=name, got=repr(text[:60]), expected=", ".join(choices))
        return text

    def end(self) -> None:
        """Refuse a parameter that was not asked for."""
        if unknown := [name for name in self._given if name not in self._known]:
            expected = ", ".join(self._known)
            raise ConfigError("unknown parameter", where="the URL", got=repr(unknown[0][:60]), expected=expected)


def _decoded(part: bytes, where: str) -> str:
    """A name or a value of a URL. Raises ConfigError: not UTF-8, or with a NUL."""
    try:
        text = unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        got, expected = repr(part[:60].decode("latin-1")), "UTF-8, percent-encoded"
        raise ConfigError("not a text", where=where, got=got, expected=expected) from None
    if "\0" in text:
        raise ConfigError("a text with a NUL", where=where, hint="leave it out")
    return text


N = TypeVar("N", int, float)


def _number(name: str, text: str, kind: Callable[[str], N], expected: str) -> N:
    try:
        found = kind(text)
        if not math.isfinite(found):
            raise ValueError
    except (ValueError, OverflowError):
        raise ConfigError("not a number", where=name, got=repr(text[:60]), expected=expected) from None
    return found


def bounded(name: str, value: int, low: int, high: int) -> int:
    """The number, if it lies within its bounds. Raises ConfigError: it does not."""
    if not low <= value <= high:
        got = f"{value:,}" if abs(value) < 10**18 else "a number of many digits"
        raise ConfigError("out of bounds", where=name, got=got, expected=f"{low:,} to {high:,}")
    return value


async def json_body(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body. Raises ConfigError: there is none, a name or a text in it cannot be read."""
    found = parse_json_object(await request.body(), _BODY, error=ConfigError, hint="send a JSON object", once=True)
    for name, value in found.items():
        _refuse_unreadable(name, _BODY)
        _refuse_unreadable(value, name[:60])
    return found


def _refuse_unreadable(value: Any, where: str) -> None:
    """Refuse texts with half a letter of UTF-16, or a NUL. Raises ConfigError: names the field."""
    if isinstance(value, str):
        try:
            got = "a NUL" if b"\0" in value.encode() else None
        except UnicodeEncodeError:
            got = "half of a pair of surrogates"
        if got is not None:
            raise ConfigError("not a text", where=where, got=got, expected="letters that UTF-8 has")
    elif isinstance(value, dict):
        for name, one in value.items():
            _refuse_unreadable(name, where)
            _refuse_unreadable(one, where)
    elif isinstance(value, list):
        for number, one in enumerate(value, start=1):
            _refuse_unreadable(one, f"{where}, item {number:,}" if isinstance(one, str) else where)


def field(body: Mapping[str, Any], name: str, kind: type[T], default: T | None = None, *, needed: bool = False) -> Any:
    """A field of a JSON body; the default where it is missing or null.

    Raises:
        ConfigError: it is missing where it is needed, or of another type.
    """
    found = body.get(name)
    if found is None:
        if needed:
            raise ConfigError(f"the field {name} is missing", where=_BODY, expected=_typed(kind))
        return default
    if kind is float and type(found) is int:
        return float(found) if abs(found) < 1 << 53 else _wrong_type(name, found, kind)
    if type(found) is not kind or (isinstance(found, float) and not math.isfinite(found)):
        return _wrong_type(name, found, kind)
    return found


def _wrong_type(name: str, found: Any, kind: type) -> Any:
    raise ConfigError("not of this type", where=name, got=_typed(type(found)), expected=_typed(kind))


def _typed(kind: type) -> str:
    names = {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        list: "a list",
        dict: "an object",
    }
    return names.get(kind, "null" if kind is type(None) else kind.__name__)
