"""Connections of the server: uvicorn's protocol for HTTP/1.1, with an end for clients that are slow or too many.

uvicorn waits for ever for the headers of a request and for a client that does not read its answer, and knows no connection
that has not agreed on TLS. A look at all connections twice a second ends those; the guard ends slow bodies and slow answers.
"""

import asyncio
import errno
import math
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from wordpipe.web.metrics import Metrics
from wordpipe.web.replies import RETRY_AFTER_S, Refused, error_reply

_HANDSHAKE_SECONDS = 10.0  # that a client has to agree on TLS, from the connection's begin
_HEADER_SECONDS = 10.0  # that the headers of a request may take to come, from its first byte or the connection's begin
_CLOSE_SECONDS = 5.0  # that a client has to read the rest of an answer when its connection is being closed
_KEEP_ALIVE_S = 15  # that a connection may wait for its next request
_MAX_HEADERS = 32 << 10  # bytes of a request's headers
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_MORE_S = 0.05  # to wait where not even a connection that is refused can be taken
_SAID_S = 60.0  # between two lines of the log about that
_TICKS = 5  # of uvicorn, 0.1 s each, between two looks


class _Handshakes:
    """The connections of a server that have not agreed on TLS yet, of which asyncio tells nothing: counted, and ended.

    Args:
        metrics: counts connections.
        max_connections: at most, with those that have agreed.
    """

    def __init__(self, metrics: Metrics, max_connections: int) -> None:
        self._metrics, self._most = metrics, max_connections
        self._begun: dict[int, tuple[socket.socket, float]] = {}  # descriptor → the connection, and when it began

    def take(self, one: socket.socket) -> bool:
        """Count a connection that begins; False if there are too many, and it is to be closed."""
        self._begun = {number: begun for number, begun in self._begun.items() if begun[0].fileno() == number}
        if self._metrics.connections + len(self._begun) >= self._most:
            self._metrics.cut["too many"] += 1
            return False
        self._begun[one.fileno()] = one, time.monotonic()
        return True

    def done(self, number: int) -> None:
        """Take a connection out of the count, as it has agreed on TLS."""
        self._begun.pop(number, None)

    def look(self) -> None:
        """End connections whose clients are too slow to agree; asyncio then closes their sockets."""
        for number, (one, since) in [*self._begun.items()]:
            if time.monotonic() - since > _HANDSHAKE_SECONDS:
                del self._begun[number]
                if one.fileno() == number:
                    self._metrics.cut["slow handshake"] += 1
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)


class _Joined:
    """A transport that sends at once what is written in one turn of the event loop: head and body of an answer.

    It is one call of the system and one packet in place of two.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._written = transport, loop, list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send some bytes before the loop waits for others."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        """Close the connection once what was written is sent."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        """Send all that was written."""
        if self._written:
            written, self._written = self._written, []
            self._transport.write(written[0] if len(written) == 1 else b"".join(written))


class _Connection(H11Protocol):
    """One connection, which knows since when it waits for its client."""

    metrics: Metrics
    max_connections: int
    handshakes: _Handshakes | None
    cycle: Any  # the request that is being answered; None before the first
    waits_since: float | None = None  # for headers; None while a request is answered, and between requests
    closing_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection of a client, or refuse it if there are too many."""
        super().connection_made(cast("asyncio.Transport", _Joined(transport, self.loop)))
        if self.handshakes is not None:
            self.handshakes.done(transport.get_extra_info("socket").fileno())
        self.waits_since = self.loop.time()
        self.metrics.connections = len(self.connections)
        if len(self.connections) > self.max_connections:
            self.metrics.cut["too many"] += 1
            transport.write(_full())
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count one connection less."""
        super().connection_lost(exc)
        self.metrics.connections = len(self.connections)

    def data_received(self, data: bytes) -> None:
        """Read what has come; what is no HTTP ends the connection and nothing else."""
        if self.transport.is_closing():
            return
        if self._is_idle() and self.waits_since is None:
            self.waits_since = self.loop.time()
        try:
            super().data_received(data)
        except (h11.ProtocolError, UnicodeError, ValueError):
            if self._is_idle() and not self.transport.is_closing():
                self.send_400_response("")
            else:
                self.end("malformed")
        if not self._is_idle():
            self.waits_since = None

    def look(self, now: float) -> None:
        """Close the connection if its client is too slow to send headers or to read."""
        if self.transport.is_closing():
            if self.closing_since is None:
                self.closing_since = now
            if now - self.closing_since > _CLOSE_SECONDS:
                self.end("slow to read")
        elif self.waits_since is not None and now - self.waits_since > _HEADER_SECONDS:
            self.end("slow headers")

    def send_400_response(self, msg: str) -> None:
        """Answer that this is no valid HTTP request, and close the connection."""
        self.metrics.cut["malformed"] += 1
        self.transport.write(
            _written(Refused(400, "this is not a valid HTTP request", hint="send HTTP/1.1 (RFC 9112)"))
        )
        self.transport.close()

    def end(self, reason: str) -> None:
        """Close the connection at once, even if an answer has not been sent."""
        self.metrics.cut[reason] += 1
        self.transport.abort()

    def _is_idle(self) -> bool:
        """True if no request is being answered."""
        return self.cycle is None or self.cycle.response_complete


def _full() -> bytes:
    """Return the answer to a connection above the limit."""
    return _written(Refused(503, "too many connections", hint="try again"))


def _written(refused: Refused) -> bytes:
    """Return the bytes of an HTTP answer for a connection without a valid request."""
    reply = error_reply(refused)
    head = [f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}", f"Content-Type: {reply.media_type}"]
    head += [f"Retry-After: {RETRY_AFTER_S}"] if refused.status == 503 else []
    head += [f"Content-Length: {len(reply.body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode() + bytes(reply.body)


class ListeningSocket(socket.socket):
    """A socket that listens, and keeps a descriptor in reserve for when there are no more.

    asyncio tries to accept 2,048 times a second then, each with a traceback. Here the descriptor in reserve takes the
    connection, which is told to come again.

    Attributes:
        report: takes a line, once a minute, that connections were refused.
        handshakes: counts the connections that are to agree on TLS; None: there is no TLS.
    """

    report: Callable[[str], None] = staticmethod(lambda _: None)
    handshakes: _Handshakes | None = None
    _reserve = -1
    _refused, _said_at = 0, -math.inf

    def keep_reserve(self) -> None:
        """Open the file descriptor that is kept in reserve. Raises OSError: there is none."""
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises BlockingIOError: none waits, or it was refused, as there are too many."""
        try:
            one, address = super().accept()
        except OSError as error:
            if error.errno not in _NO_MORE:
                raise
            self._refuse_one(error)
            raise BlockingIOError from None
        if self.handshakes is not None and not self.handshakes.take(one):
            one.close()
            raise BlockingIOError
        return one, address

    def close(self) -> None:
        """Close the socket and the descriptor in reserve."""
        self._release()
        super().close()

    def _release(self) -> None:
        """Close the file descriptor in reserve."""
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _refuse_one(self, why: OSError) -> None:
        """Refuse one connection for lack of file descriptors, by means of the descriptor in reserve."""
        self._release()
        try:
            one, _ = super().accept()
            with one, suppress(OSError):
                one.setblocking(False)
                one.send(_full())
        except OSError:
            time.sleep(_NO_MORE_S)  # or this loop would do nothing but ask
        with suppress(OSError):
            self.keep_reserve()
        self._refused += 1
        if time.monotonic() - self._said_at > _SAID_S:
            what = f"{self._refused:,} connection{'s were' if self._refused > 1 else ' was'} refused"
            self._said_at, self._refused = time.monotonic(), 0
            self.report(
                f"{what} ({os.strerror(why.errno or 0).lower()}); run ulimit -n 4096 before you start the server"
            )


class Listener(uvicorn.Server):
    """uvicorn's server, which also looks at its connections, and says when it has begun.

    Args:
        app: the ASGI application.
        metrics: counts connections.
        max_connections: at most.
        drain: seconds that requests have to end.
        begun: called when it listens.
        tls: answers over HTTPS; None: over plain HTTP.
    """

    def __init__(
        self, app: Any, metrics: Metrics, *, max_connections: int, drain: float, begun: Callable[[], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._handshakes = None if tls is None else _Handshakes(metrics, max_connections)
        own = {"metrics": metrics, "max_connections": max_connections, "handshakes": self._handshakes}
        protocol = type("Connection", (_Connection,), own)
        config = uvicorn.Config(
            app, http=protocol, ws="none", loop="asyncio", lifespan="on", log_config=None, log_level="critical",
            access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=_KEEP_ALIVE_S,
            h11_max_incomplete_event_size=_MAX_HEADERS, timeout_graceful_shutdown=max(1, round(drain)),
        )  # fmt: skip
        config.load()
        config.ssl = tls
        super().__init__(config)
        self._begun = begun

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen for connections."""
        for one in sockets or ():
            if isinstance(one, ListeningSocket):
                one.handshakes = self._handshakes
        await super().startup(sockets)
        self._begun()

    async def on_tick(self, counter: int) -> bool:
        """Check all connections twice a second."""
        if counter % _TICKS == 0:
            self.look()
        return await super().on_tick(counter)

    def look(self) -> None:
        """End connections whose clients are too slow."""
        if self._handshakes is not None:
            self._handshakes.look()
        now = asyncio.get_running_loop().time()
        for connection in [*self.server_state.connections]:
            if isinstance(connection, _Connection):
                connection.look(now)
