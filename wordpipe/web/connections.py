"""Connections of the server: uvicorn's protocol for HTTP/1.1, with an end for clients that are slow or too many.

uvicorn waits for ever for the headers of a request and for a client that does not read its answer. A look at all connections
twice a second ends those; the guard ends slow bodies and slow answers.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from wordpipe.web.metrics import Metrics
from wordpipe.web.replies import RETRY_AFTER_S, Refused, error_reply

_HEADER_SECONDS = 10.0  # that the headers of a request may take to come, from its first byte or the connection's begin
_CLOSE_SECONDS = 5.0  # that a client has to read the rest of an answer when its connection is being closed
_KEEP_ALIVE_S = 15  # that a connection may wait for its next request
_MAX_HEADERS = 32 << 10  # bytes of a request's headers
_TICKS = 5  # of uvicorn, 0.1 s each, between two looks


class _Connection(H11Protocol):
    """One connection, which knows since when it waits for its client."""

    metrics: Metrics
    max_connections: int
    cycle: Any  # the request that is being answered; None before the first
    waits_since: float | None = None  # for headers; None while a request is answered, and between requests
    closing_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or say that there are too many."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self.metrics.connections = len(self.connections)
        if len(self.connections) > self.max_connections:
            self.metrics.cut["too many"] += 1
            transport.write(_full())
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
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
            self.end("malformed")
        if not self._is_idle():
            self.waits_since = None

    def look(self, now: float) -> None:
        """End the connection where its client is too slow."""
        if self.transport.is_closing():
            if self.closing_since is None:
                self.closing_since = now
            if now - self.closing_since > _CLOSE_SECONDS:
                self.end("slow to read")
        elif self.waits_since is not None and now - self.waits_since > _HEADER_SECONDS:
            self.end("slow headers")

    def end(self, reason: str) -> None:
        """Close it now, whatever has not been sent."""
        self.metrics.cut[reason] += 1
        self.transport.abort()

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete


def _full() -> bytes:
    """The answer to one connection too many."""
    reply = error_reply(Refused(503, "too many connections", hint="ask again"))
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {reply.media_type}\r\nRetry-After: {RETRY_AFTER_S}\r\n"
    return f"{head}Content-Length: {len(reply.body)}\r\nConnection: close\r\n\r\n".encode() + bytes(reply.body)


class Listener(uvicorn.Server):
    """uvicorn's server, which also looks at its connections, and says when it has begun.

    Args:
        app: the ASGI application.
        metrics: counts connections.
        max_connections: at most.
        drain: seconds that requests have to end.
        begun: called when it listens.
    """

    def __init__(
        self, app: Any, metrics: Metrics, *, max_connections: int, drain: float, begun: Callable[[], None]
    ) -> None:
        protocol = type("Connection", (_Connection,), {"metrics": metrics, "max_connections": max_connections})
        config = uvicorn.Config(
            app, http=protocol, ws="none", loop="asyncio", lifespan="on", log_config=None, log_level="critical",
            access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=_KEEP_ALIVE_S,
            h11_max_incomplete_event_size=_MAX_HEADERS, timeout_graceful_shutdown=max(1, round(drain)),
        )  # fmt: skip
        super().__init__(config)
        self._begun = begun

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._begun()

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections now and then."""
        if counter % _TICKS == 0:
            self.look()
        return await super().on_tick(counter)

    def look(self) -> None:
        """End connections whose clients are too slow."""
        now = asyncio.get_running_loop().time()
        for connection in [*self.server_state.connections]:
            if isinstance(connection, _Connection):
                connection.look(now)
