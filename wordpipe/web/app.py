"""The ASGI application of `wordpipe serve`: the routes of the endpoints, and the page with its files."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Message, Receive, Scope, Send

from wordpipe.errors import WordpipeError
from wordpipe.web.endpoint import TABLE
from wordpipe.web.endpoints import (  # noqa: F401  (they declare)
    about,
    assistants,
    embeddings,
    examine,
    models,
    rerank,
    search,
    suggest,
    texts,
    vector_stores,
)
from wordpipe.web.endpoints.search import joined_conditions
from wordpipe.web.guard import API_POLICY, Guard, Log
from wordpipe.web.metrics import Metrics
from wordpipe.web.params import Url
from wordpipe.web.replies import Refused, error_reply
from wordpipe.web.served_artifacts import ServedArtifacts
from wordpipe.web.settings import ServeSettings

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser may do with the page: load from this server alone, and run no script that stands in the page."""


class Application:
    """The ASGI application over some artifacts.

    Args:
        artifacts: what is served; closed by whoever opened it.
        settings: who may ask, and how much.
        metrics: counts what comes.
        token: see `Guard`.
        log: takes a line for each request.
        report: takes what the server's owner is to know: failures.
        page: what draws `/`, by its `home`, `reading`, `api` and `static`, as the module `page` does; None: the API alone.
    """

    def __init__(
        self, artifacts: ServedArtifacts, settings: ServeSettings, metrics: Metrics, *, token: bytes | None = None,
        log: Log | None = None, report: Log = lambda _: None, page: Any = None,
    ) -> None:  # fmt: skip
        self.artifacts, self.settings, self.metrics, self._page = artifacts, settings, metrics, page
        routes = [one.route(self) for one in TABLE]
        if page is not None:
            routes = [
                Route("/map/{name}", self.mapped, methods=["GET"]),
                *routes,
                Route("/", self.home, methods=["GET"]),
                Route("/api", self.api, methods=["GET"]),
                Route("/text/{id:path}", self.reading, methods=["GET"]),
                Route("/static/{name:path}", self.static, methods=["GET"]),
            ]
        self.routes = routes
        self._router = Router(routes, redirect_slashes=False, lifespan=self._lifespan)
        self.guard = Guard(
            self._routed, settings, metrics, token=token, log=log, report=report, route_of=self._route_of
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of ASGI."""
        await self.guard(scope, receive, send)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request of the application that the guard admitted; a bug is left to the guard."""
        scope["app"] = self  # or the router answers in words of its own where there is no such path
        try:
            await self._router(scope, receive, send)
        except WordpipeError as error:
            await error_reply(error)(scope, receive, send)
        except HTTPException as error:
            reply = _not_routed(error)
            if error.status_code == 404 and self.has_page and scope["method"] == "GET":
                reply = await self._unknown(Request(scope, receive), reply)
            await reply(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        """Check for new generations of the artifacts while the application runs."""
        await self.artifacts.start_polling()
        try:
            yield
        finally:
            await self.artifacts.stop_polling()

    def _route_of(self, path: str) -> str:
        """Return the route that a path belongs to, for the metrics; `other` for an unknown path."""
        scope = {"type": "http", "path": path, "method": "GET", "root_path": ""}
        return next((route.path for route in self.routes if route.matches(scope)[0] != Match.NONE), "other")

    @property
    def has_page(self) -> bool:
        """True if it has a page beside the API."""
        return self._page is not None

    @property
    def is_stopping(self) -> bool:
        """True if it takes no more requests."""
        return self.guard.draining

    async def home(self, request: Request) -> Response:
        """Return the page; an address with several `where` conditions is redirected to one with a joined condition."""
        Url(request)  # what cannot be read is refused
        given = request.query_params
        if len(conditions := given.getlist("where")) > 1:
            others = [(name, value) for name, value in given.multi_items() if name != "where"]
            joined = joined_conditions(conditions, self.settings)
            address = urlencode([*others, *([("where", joined)] if joined else [])], errors="replace")
            return Response(status_code=307, headers={"Location": f"?{address}"})
        text = await self._page.home(dict(request.query_params), self._asker(request))
        return _page_reply(text)

    async def reading(self, request: Request) -> Response:
        """Return the page of one text."""
        Url(request)  # what cannot be read is refused
        way = (request.scope.get("raw_path") or b"").partition(b"/text/")[2].partition(b"?")[0]
        root = "../" * (1 + way.count(b"/"))
        asker = self._asker(request)
        status, text = await self._page.reading(request.path_params["id"], dict(request.query_params), asker, root)
        return _page_reply(text, status)

    async def api(self, request: Request) -> Response:
        """Return the page of all endpoints, with a form for each."""
        Url(request)  # what cannot be read is refused
        params, address = dict(request.query_params), str(request.base_url)
        status, text = await self._page.api(params, self._asker(request), address)
        return _page_reply(text, status)

    async def mapped(self, request: Request) -> Response:
        """Return the page of a map of texts or words; where it is not ready yet a page that asks again by itself.

        A client that accepts JSON and no page is told errors as JSON.
        """
        try:
            return await examine.MapPage.handle(self, request)
        except (WordpipeError, Refused) as error:
            accepted = request.headers.get("accept", "").lower()
            if "json" in accepted and "text/html" not in accepted:
                raise
            reply = error_reply(error)
            if isinstance(error, Refused) and error.status == 503:  # not so a damaged artifact
                params, name, far = dict(request.query_params), request.path_params["name"], str(error)
                text = await self._page.being_made(params, name, far, self._asker(request), "../")
                return _page_reply(text, 503, Refresh="1")
            text = await self._page.refused(json.loads(bytes(reply.body)), self._asker(request), "../")
            return _page_reply(text, reply.status_code)

    async def _unknown(self, request: Request, reply: Response) -> Response:
        """Return for a browser the page that says that an address is unknown; for any other client the reply as it is."""
        if "text/html" not in request.headers.get("accept", "").lower():
            return reply
        root = "../" * (request.scope["path"].count("/") - 1) or "./"
        said = {"error": {"message": "There is no page at this address."}}
        text = await self._page.refused(said, self._asker(request), root)
        return _page_reply(text, reply.status_code)

    async def static(self, request: Request) -> Response:
        """Return a file of the page: a script, the style, the icon."""
        found = self._page.static(request.path_params["name"])
        if found is None:
            raise Refused(404, "unknown file")
        headers = {
            "Content-Security-Policy": API_POLICY, "Content-Type": found.media, "Cache-Control": "no-cache",
            "ETag": found.etag, "Vary": "Accept-Encoding",
        }  # fmt: skip
        if found.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.packed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(found.data, headers=headers)

    def _asker(self, request: Request) -> Callable[..., Awaitable[tuple[int, Any]]]:
        """Return a function that asks an endpoint in the application.

        It takes a path, parameters of the URL and, for a POST, an object as the body, and gives back the status and the JSON.
        """
        by_path = {
            route.path: route.endpoint
            for route in self.routes
            if route.path not in ("/", "/api", "/text/{id:path}", "/static/{name:path}")
        }

        async def ask(path: str, params: Mapping[str, str], body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
            scope = {**request.scope, "path": path, "query_string": urlencode(params, errors="replace").encode()}
            receive = request.receive
            if body is not None:
                scope["method"], data = "POST", json.dumps(body).encode()

                async def receive() -> Message:
                    return {"type": "http.request", "body": data, "more_body": False}

            try:
                reply = await by_path[path](Request(scope, receive))
            except (WordpipeError, Refused) as error:
                reply = error_reply(error)
            return reply.status_code, json.loads(reply.body)

        return ask


def _page_reply(text: str, status: int = 200, **more: str) -> Response:
    """Return a page of the server, with its policy and more headers."""
    headers = {"Content-Security-Policy": PAGE_POLICY, "Content-Type": "text/html; charset=utf-8", **more}
    return Response(text.encode("utf-8", "replace"), status, headers=headers)


def _not_routed(error: HTTPException) -> Response:
    """Return the reply to a request of an unknown path or method."""
    known = {404: "unknown path", 405: "this path does not accept this HTTP method"}
    said = known.get(error.status_code, error.detail)
    return error_reply(Refused(error.status_code, said, hint="see /openapi.json", headers=error.headers))
