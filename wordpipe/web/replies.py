"""Replies of the server: JSON, JSON lines, server-sent events, and errors with their HTTP status.

An error is {"error": {"message", "type", "code", "what", "where", "got", "expected", "hint"}}: the first three are what
clients of OpenAI read, the rest is what `--json` prints on the command line.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wordpipe.errors import (
    ArtifactError,
    ConfigError,
    DamageError,
    InputError,
    NothingFound,
    UnknownWordError,
    WordpipeError,
)

JSON = "application/json"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
CSV = "text/csv"
BYTE_ORDER_MARK = "\ufeff"
RETRY_AFTER_S = 1
STATUSES = {
    400: "a parameter, a body, a condition or a text is wrong (also if it is given twice, or is not UTF-8); the artifact "
    "cannot do this",
    401: "the token is missing or wrong",
    403: "the request comes from a page of another server, which `--cors-origin` does not name",
    404: "unknown path, artifact, word, id, row or file",
    405: "this path does not accept this HTTP method",
    408: "the body of the request did not arrive in time",
    413: "the body is too large",
    421: "the Host header is not a name of this server",
    422: "texts without a vector, by their number",
    429: "too many requests are waiting; `Retry-After` says when to try again",
    503: "the answer took too long, the server stops, an artifact is damaged, or there are too many connections; "
    "`Retry-After` as well",
}
"""HTTP status of an error → why a reply has it."""
_SHELL = re.compile(
    r'(\? )?(?:Otherwise, )?to make a field [^;]* run: wordpipe ingest … --metadata (?:"[^"]*"|[^\s;"])+(?:; |$)|--where (?=")'
)
"""What a hint on a condition says of the command line, which who asks over HTTP may not have."""
_KIND = {401: "authentication_error", 429: "rate_limit_error"}


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
    """Return the refusal of a request that may be sent again in a second: 429 or 503."""
    return Refused(status, message, hint="try again in a second", headers={"Retry-After": str(RETRY_AFTER_S)})


def to_json(value: Any) -> bytes:
    """Return a value as a reply's JSON in UTF-8: dates as text, infinity and NaN as null."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    """Replace infinity and NaN in a value for a reply's JSON by null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON reply."""
    return Response(to_json(value), status, headers=dict(headers or {}), media_type=JSON)


def lines_reply(rows: Iterable[Mapping[str, Any]], headers: Mapping[str, str] | None = None) -> Response:
    """Return a reply with one JSON object per line, byte for byte the lines of `wordpipe query --json`."""
    written = json.JSONEncoder(ensure_ascii=False, default=str).encode
    lines = (written(row) + "\n" for row in rows)
    return Response("".join(lines).encode("utf-8", "replace"), headers=dict(headers or {}), media_type=LINES)


def csv_reply(table: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a reply with a table as CSV, with a header line."""
    kind = f"{CSV}; charset=utf-8; header=present"
    return Response(table.encode("utf-8", "replace"), headers=dict(headers or {}), media_type=kind)


def error_reply(error: Exception) -> Response:
    """Return the JSON reply to a request that failed or was refused."""
    if isinstance(error, WordpipeError):
        status, headers = status_of(error), {}
        hint = _SHELL.sub(r"\1", error.hint) if error.hint else None
        said = f"{error.message}; {hint}" if hint else error.message
        parts = {name: part for name, part in error.to_json()["error"].items() if name not in ("code", "kind")}
        body = {"message": said, "type": _type(status), "code": error.kind, **parts, "hint": hint}
    elif isinstance(error, Refused):
        status, headers = error.status, error.headers
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        body = {"message": said, "type": _type(status), "code": None, "what": error.message, "hint": error.hint}
    else:
        status, headers = 500, {}
        said = "this is a bug in wordpipe, not in your request; the server's log has the details"
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
        """Send all events."""

        async def disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        gone = asyncio.create_task(disconnected())
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
        """Yield the server-sent events: each object, then `[DONE]` or the error."""
        yield _event(to_json(self._first))
        try:
            async for found in self._others:
                yield _event(to_json(found))
        except (WordpipeError, Refused) as error:
            yield _event(bytes(error_reply(error).body))
        else:
            yield _event(b"[DONE]")


def _event(data: bytes) -> bytes:
    """Return the bytes of a server-sent event."""
    return b"data: " + data + b"\n\n"


def _type(status: int) -> str:
    """Return OpenAI's type of an error for an HTTP status."""
    return _KIND.get(status, "invalid_request_error" if status < 500 else "server_error")


def status_of(error: WordpipeError) -> int:
    """Return the reply's status of HTTP for an error: 4xx where another request helps, else 503."""
    if isinstance(error, UnknownWordError | NothingFound):
        return 404
    if isinstance(error, DamageError):
        return 503
    return 400 if isinstance(error, ConfigError | InputError | ArtifactError) else 503
