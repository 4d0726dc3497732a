"""The guard before all endpoints: who may ask, how much, how long; safe headers on every answer; one line of log for each.

In this order: the Host must be a name of this server (else a foreign page could reach it by a name of its own, DNS
rebinding: 421), the Origin must be this server or one that its owner allows (403), the token must be right (401), fewer
requests than the limit must be at work (429), the body must be small (413) and come in time (408), and the answer must be
ready in time (503). A page of an allowed origin asks first whether it may ask (`OPTIONS`), without the token.
"""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wordpipe.web.metrics import Metrics
from wordpipe.web.replies import Refused, busy, error_reply
from wordpipe.web.settings import LOCAL_HOSTS, ServeSettings

API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""What a browser may do with an answer that is no page: nothing."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_OPEN = ("/health",)  # asked without a token, by what watches the server; it says nothing of artifacts then
_UNCOUNTED = ("/health", "/metrics")  # answered however many requests wait
_BODY_SECONDS = 10.0  # that a body may take to come
_THROWN_AWAY = 64 << 20  # bytes of a body that is too large, which are read so that its client sees the answer
# Chromium looks at the first scheme of the line alone, and asks for a password only where that is Basic
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="wordpipe", Bearer realm="wordpipe"'}
_LOGGED_CHARS = 200  # of a path
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type, mcp-protocol-version, mcp-method, mcp-name",
    "Access-Control-Max-Age": "600",
}
_EXPOSED = "Wordpipe-Remarks, Retry-After"  # headers of answers that a page of another origin can read

Log = Callable[[str], None]
"""Takes a line."""


class Guard:
    """The ASGI application around another one.

    Args:
        app: what answers.
        settings: who may ask, and how much.
        metrics: counts what comes.
        token: of those who may ask; None for all, on this machine alone.
        log: takes a line for each request; None where nobody wants it.
        report: takes the traceback of a bug.
        route_of: the route that a path belongs to, for counts: paths are the client's and have no end.
    """

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, *, token: bytes | None, log: Log | None, report: Log,
        route_of: Callable[[str], str],
    ) -> None:  # fmt: skip
        self._app, self._settings, self._metrics = app, settings, metrics
        self._token, self._log, self._report, self._route_of = token, log, report, route_of
        self._origins = {one.lower() for one in settings.cors_origin}
        self._names = {name.lower() for name in (*LOCAL_HOSTS, settings.host, *settings.allow_host)}
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = _Call(scope, send)
        self._metrics.at_work += 1
        try:
            await self._answer(call, receive)
        finally:
            self._metrics.at_work -= 1
            self._metrics.add_request(self._route_of(scope["path"]), call.status, time.monotonic() - call.began)
            if self._log is not None:
                try:
                    self._log(call.line(log_queries=self._settings.log_queries))
                except Exception:  # noqa: BLE001  (a log that cannot be written ends no request)
                    self._metrics.lost_lines += 1

    async def _answer(self, call: "_Call", receive: Receive) -> None:
        """Admit a request, read its body and let the application answer, all within the time limit."""
        try:
            self._admit(call)
            if call.is_preflight:
                await Response(status_code=204, headers=_PREFLIGHT)(call.scope, _nothing, call.send)
                return
            async with asyncio.timeout(self._settings.timeout):
                body = await self._body(call, receive)
                await self._app(call.scope, _replay(body, receive), call.send)
        except Refused as refused:
            await self._refuse(call, refused)
        except TimeoutError:
            most = f"{self._settings.timeout:g} s"
            await self._refuse(call, busy(503, f"the answer was not ready within {most}"))
        except asyncio.CancelledError:
            if self.draining and not call.started:  # its time to end is over
                await self._send_error(call, busy(503, "the server is stopping"))
            raise
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001  (a bug ends one request)
            self._report("".join(traceback.format_exception(error)))
            if call.started:
                raise ClientGone from None
            await self._send_error(call, error)

    def _admit(self, call: "_Call") -> None:
        """Refuse at the guard a request with a wrong host, origin or token, or one too many. Raises Refused."""
        if call.header(b"transfer-encoding") and call.header(
            b"content-length"
        ):  # a proxy may have counted the other way
            raise Refused(
                400, "the request has both Content-Length and Transfer-Encoding", headers={"Connection": "close"}
            )
        # asked by a name of this server, and by its own page
        host = call.header(b"host")
        if not self._is_ours(host):
            raise Refused(
                421,
                "the Host header is not a name of this server",
                hint="use 127.0.0.1 or localhost, or start the server with --allow-host",
            )
        origin, site = call.header(b"origin"), call.header(b"sec-fetch-site")
        navigates = call.header(b"sec-fetch-mode") == "navigate" and call.scope["method"] == "GET"
        call.allowed = origin if origin.lower() in self._origins else ""
        is_ours = not origin or _same_origin(origin, host)
        if not call.allowed and (not is_ours or (site in ("cross-site", "same-site") and not navigates)):
            raise Refused(403, "the request comes from a page of another server", hint="open the page of this server")
        # a path that can be read, and a token
        path = call.scope["path"]
        try:
            unquote_to_bytes(call.scope.get("raw_path") or b"").decode()
        except UnicodeDecodeError:
            raise Refused(400, "the path is not UTF-8", hint="see /openapi.json") from None
        if call.is_preflight:
            return
        authorised = self._token is None or is_token(call.header(b"authorization"), self._token)
        if not authorised and path not in _OPEN:
            raise Refused(
                401, "the token is missing or wrong", hint="send Authorization: Bearer TOKEN", headers=_CHALLENGE
            )
        call.scope.setdefault("state", {})["authorised"] = authorised
        # no more at once than the limit
        if path in _UNCOUNTED:
            return
        if self.draining:
            raise busy(503, "the server is stopping")
        if self._metrics.at_work > self._settings.max_waiting:
            raise busy(
                429, f"too many requests; {self._settings.max_waiting:,} requests are already being answered or waiting"
            )

    def _is_ours(self, host: str) -> bool:
        """True if a Host header names this server: one of its names, with any port, as a tunnel has another one."""
        name = _host_name(host)
        if name is None:
            return False
        if name in self._names:
            return True
        with suppress(ValueError):  # an address is no name that somebody could make point here
            address = ipaddress.ip_address(name)
            return address.is_loopback or self._settings.host not in LOCAL_HOSTS
        return False

    async def _body(self, call: "_Call", receive: Receive) -> bytes:
        """Read the whole body of a guarded request. Raises Refused: it is too large, or takes too long."""
        # what says that it is too large is not read
        most = self._settings.max_body
        too_large = Refused(413, f"the body is larger than {most:,} bytes", hint="send fewer texts in one request")
        length = call.header(b"content-length")
        if length.isascii() and length.isdecimal() and (len(length) > 15 or int(length) > most):
            waits = call.header(b"expect").lower() == "100-continue"  # it has not begun to send
            await _throw_away(receive, 0 if waits or len(length) > 15 or int(length) > _THROWN_AWAY else int(length))
            raise too_large
        # the others are read up to the limit, within the time
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(min(_BODY_SECONDS, self._settings.timeout)):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    # the rest is read, or its client would not see the answer
                    if size > most:
                        await _throw_away(receive, _THROWN_AWAY if message.get("more_body", False) else 0)
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            late = "the body of the request did not arrive in time"
            raise Refused(408, late, headers={"Connection": "close"}) from None

    async def _refuse(self, call: "_Call", refused: Refused) -> None:
        """Send the guard's refusal, or end the connection if the answer has begun."""
        if not call.started:
            await self._send_error(call, refused)
        else:  # the answer stays a part, and the connection says so by its end
            raise ClientGone

    async def _send_error(self, call: "_Call", error: Exception) -> None:
        """Send an error as the guard's reply to a request."""
        reply = error_reply(error)
        if isinstance(error, Refused) and error.status in (408, 413):
            reply.headers["Connection"] = "close"  # what is left of the body is not read
        await reply(call.scope, _nothing, call.send)


class ClientGone(Exception):  # noqa: N818  (no error of ours)
    """The client has closed the connection, or is to see that its answer is no whole one."""


class _Call:
    """One request with its headers, and the status, bytes and time of its answer for the log."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope, self._send = scope, send
        self.began = time.monotonic()
        self.allowed = ""  # the other origin whose page may read the answer
        self.started, self.status, self.bytes = False, 499, 0  # 499: the client has gone before there was an answer
        self._headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self._headers.setdefault(name, []).append(value)

    def header(self, name: bytes) -> str:
        """Return a header's value; empty where it is missing, and not to be trusted where it comes twice."""
        values = self._headers.get(name, [])
        return values[0].decode("latin-1") if len(values) == 1 else "," if values else ""

    @property
    def is_preflight(self) -> bool:
        """True if a browser asks whether a page of an allowed origin may ask."""
        return bool(
            self.allowed and self.scope["method"] == "OPTIONS" and self.header(b"access-control-request-method")
        )

    async def send(self, message: Message) -> None:
        """Send an answer on, with the headers that the guard puts on every answer."""
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = {**_HEADERS, "Content-Security-Policy": API_POLICY}
            if self.allowed:
                more |= {"Access-Control-Allow-Origin": self.allowed, "Access-Control-Expose-Headers": _EXPOSED}
                more["Vary"] = "Origin"
            added = [
                (name.encode(), value.encode()) for name, value in more.items() if name.lower().encode() not in given
            ]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    def line(self, *, log_queries: bool) -> str:
        """Return the guard's line of the log for a request, one JSON object."""
        client = self.scope.get("client") or ("", 0)
        found: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "client": client[0],
            "method": self.scope["method"],
            "path": self.scope["path"][:_LOGGED_CHARS],
            "status": self.status,
            "bytes": self.bytes,
            "ms": round((time.monotonic() - self.began) * 1000, 1),
        }
        if log_queries:
            found["query"] = self.scope.get("query_string", b"").decode("latin-1")
        return json.dumps(found)


async def _throw_away(receive: Receive, most: int) -> None:
    """Read the rest of a body that the guard does not want, up to so many bytes."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            while size < most:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return


async def _nothing() -> Message:
    """Return the message that no more of a request comes."""
    return {"type": "http.disconnect"}


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that the guard has read, then what else comes."""
    sent = False

    async def read() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return read


def is_token(header: str, token: bytes) -> bool:
    """True if an Authorization header has the token: as Bearer, or as the password of Basic, which browsers ask people for."""
    kind, _, given = header.partition(" ")
    found = given.strip().encode("latin-1")
    if kind.lower() == "basic":
        try:
            found = base64.b64decode(found, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(found, token)


def _host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port and brackets; None where it is none."""
    if not host or len(host) > 300 or any(sign in host for sign in "/@\\?#, "):
        return None
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or None) if parts.port != 0 else None
    except ValueError:
        return None


def _same_origin(origin: str, host: str) -> bool:
    """True if an Origin is the server that the Host header names; a proxy in between may have spoken HTTPS."""
    scheme, sign, rest = origin.partition("://")
    if scheme not in ("http", "https") or not sign:
        return False
    return rest.lower() == host.lower()
