"""Endpoints about the server itself: `/about`, `/health`, `/metrics` and `/openapi.json`."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from wordpipe import __version__
from wordpipe.artifacts import Artifact, read_batches
from wordpipe.pages import overfit
from wordpipe.web.endpoint import Answer, Endpoint, Serving, endpoint, param
from wordpipe.web.metrics import CONTENT_TYPE
from wordpipe.web.openapi import document
from wordpipe.web.params import MAP, NUMBER, TEXT, WHOLE, fields, listing, maybe, ref
from wordpipe.web.replies import Refused, json_reply
from wordpipe.web.served_artifacts import Generation, Served, rows_of

_STATE = {
    "name": TEXT, "kind": TEXT, "digest": TEXT, "since": NUMBER, "swaps": WHOLE, "error": maybe(TEXT),
    "without_vector": WHOLE,
}  # fmt: skip
_ARTIFACT = fields({
    **_STATE, "path": TEXT, "can": listing(TEXT), "command": TEXT, "rows": maybe(WHOLE), "dim": maybe(WHOLE),
    "made": maybe(NUMBER), "metrics": MAP, "counts": MAP, "warnings": listing(TEXT),
}, {"manifest": MAP})  # fmt: skip
_ALL = fields({"version": TEXT, "artifacts": listing(ref("Artifact")), "show": listing(TEXT), "limits": MAP})
_HEALTH = Answer("Health", fields(
    {"status": {"enum": ["ok", "stale", "stopping"]}},
    {"version": TEXT, "seconds": NUMBER, "artifacts": listing(fields(_STATE))},
))  # fmt: skip


@endpoint(
    "/about", group="Server", methods=["GET"],
    answer=Answer("AboutOne", {"anyOf": [ref("About"), ref("Artifact")]}, {"About": _ALL, "Artifact": _ARTIFACT}),
)  # fmt: skip
class About(Endpoint):
    """The artifacts of the server, and what each supports."""

    artifact: str | None = param(
        None, "name of an artifact, to get its whole manifest; default: a list of all artifacts"
    )

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return for `/about` the artifacts and their abilities; for a named artifact also its manifest."""
        by_name, limits = server.artifacts.by_name, server.settings
        if self.artifact is None:
            return json_reply({
                "version": __version__, "artifacts": [_about(one) for one in by_name.values()],
                "show": [*limits.show],
                "limits": {
                    "k": limits.max_k, "texts": limits.max_texts, "chars": limits.max_chars, "body": limits.max_body,
                    "seconds": limits.timeout,
                },
            })  # fmt: skip
        if (one := by_name.get(self.artifact)) is None:
            hint = f"choose one of: {', '.join(by_name)}"
            raise Refused(404, f"there is no artifact named {self.artifact[:80]!r}", hint=hint)
        with one.lease() as generation:
            artifact = generation.opened.artifact
            warnings = [*artifact.manifest.warnings, *_too_long(artifact)]
            return json_reply(
                _about(one) | {"warnings": warnings, "manifest": artifact.manifest.model_dump(mode="json")}
            )


@endpoint("/health", group="Server", methods=["GET"], answer=_HEALTH, others=True)
class Health(Endpoint):
    """The health of the server."""

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return for `/health` the server's state; without a token only the status."""
        served = [*server.artifacts.by_name.values()]
        stale = any(one.error is not None for one in served)
        found: dict[str, Any] = {"status": "stopping" if server.is_stopping else "stale" if stale else "ok"}
        if request.scope["state"]["authorised"]:
            found |= {
                "version": __version__,
                "seconds": round(time.time() - server.metrics.started, 3),
                "artifacts": [_state(one) for one in served],
            }
        return json_reply(found, 503 if server.is_stopping else 200)


@endpoint("/metrics", group="Server", methods=["GET"], media=["text/plain"])
class ShowMetrics(Endpoint):
    """Metrics for Prometheus."""

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return the metrics of the server in Prometheus' text format."""
        return Response(server.metrics.text(server.artifacts), headers={"Content-Type": CONTENT_TYPE})


@endpoint("/openapi.json", group="Server", methods=["GET"], answer=MAP)
class OpenApi(Endpoint):
    """The OpenAPI document of this server."""

    async def respond(self, server: Serving, request: Request) -> Response:
        """Return the OpenAPI document of the server."""
        return json_reply(document(server))


def _state(one: Served) -> dict[str, Any]:
    """Return name, kind, digest and health of a served artifact, for `/health`."""
    generation = one.current
    return {
        "name": one.name,
        "kind": generation.opened.kind,
        "digest": generation.digest,
        "since": round(generation.since, 3),
        "swaps": one.swaps,
        "error": one.error,
        "without_vector": generation.opened.artifact.manifest.counts.get("without_vector", 0),  # rows
    }


def _made(generation: Generation) -> float | None:
    """Return when an artifact was published at its path, in seconds of the Unix clock; None of one in a bucket."""
    stamp = generation.stamp
    return stamp[1] / 1e9 if isinstance(stamp, tuple) and isinstance(stamp[1], int) else None


def _too_long(artifact: Artifact) -> list[str]:
    """Return for `/about` what the log of a training says, if that took too long for its text."""
    if "steps.parquet" not in artifact.names():
        return []
    batches = read_batches(artifact, "steps", ["split", "loss", "tokens"])
    said = overfit([row for batch in batches for row in batch.to_pylist()])
    return [said] if said else []


def _about(one: Served) -> dict[str, Any]:
    """Return the facts of a served artifact for `/about`."""
    with one.lease() as generation:
        manifest = generation.opened.artifact.manifest
        return _state(one) | {
            "path": str(one.path),
            "can": [*generation.abilities],
            "command": manifest.command,
            "made": _made(generation),
            "rows": rows_of(generation),
            "dim": manifest.facts.get("dim"),
            "metrics": manifest.metrics,
            "counts": manifest.counts,
            "warnings": manifest.warnings,
        }
