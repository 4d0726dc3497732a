"""`/mcp`: the Model Context Protocol over HTTP, for assistants."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from wordpipe.web.assistants.messages import Answered, ProtocolError, answer, failed, read_message
from wordpipe.web.endpoint import Answer, Endpoint, Serving, endpoint, param
from wordpipe.web.params import ANY, MAP, TEXT, WHOLE, fields, listing, ref
from wordpipe.web.replies import json_reply

_REPLY = Answer("Message", fields({"jsonrpc": TEXT, "id": ANY}, {"result": MAP, "error": MAP}))
_REPLIES = Answer("Messages", {"anyOf": [ref("Message"), listing(ref("Message"))]}, {_REPLY.name: _REPLY.schema})


@endpoint("/mcp", group="Assistants", methods=["POST"], answer=_REPLIES, error=_REPLIES, others=True)
class Mcp(Endpoint):
    """A message of the Model Context Protocol, by which an assistant searches the indexes."""

    jsonrpc: str = param("2.0", "always 2.0", example="2.0", schema={"const": "2.0"}, nullable=False)
    id: Any = param(
        None, "a number or a text, which the answer repeats", example=1, nullable=False,
        schema={"anyOf": [WHOLE, TEXT | {"maxLength": 256}]},
    )  # fmt: skip
    method: str = param(
        "", "initialize, server/discover, tools/list, tools/call, ping", example="ping", nullable=False, schema=TEXT
    )
    params: dict[str, Any] | None = param(None, "what the method needs", schema=MAP, nullable=False)

    @classmethod
    async def handle(cls, server: Serving, request: Request) -> Response:
        """Answer a message, or a list of messages; an error has the form of the protocol."""
        try:
            given = read_message(await request.body())
        except ProtocolError as error:
            return _reply(failed(error))
        return _reply(await answer(server, given, {name.lower(): value for name, value in request.headers.items()}))


def _reply(answered: Answered) -> Response:
    """Return the reply of HTTP with an answer."""
    return (
        Response(status_code=answered.status) if answered.body is None else json_reply(answered.body, answered.status)
    )
