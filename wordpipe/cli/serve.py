"""`wordpipe serve`: artifacts over HTTP, until Ctrl-C; a line for each request goes to stderr.

`wordpipe mcp`: indexes for an assistant, over standard input and output.
"""

from pathlib import Path
from typing import Any

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import escaped, say
from wordpipe.web.settings import ServeSettings

_EXAMPLES = """wordpipe serve run/index --open
wordpipe serve run/index run/words run/model --port 8080"""


def _serve(artifacts: tuple[Path, ...], *, verify: bool, as_json: bool, quiet: bool, **given: Any) -> None:
    """Answer queries over HTTP, with a web page and an API that existing clients can use.

    The server opens each artifact once. An artifact has the name of its folder; to give it another name, write NAME=PATH. If
    an artifact is made again, the server changes to the new one. Only programs on this machine get answers; with --host, also
    programs on other machines that send the token.

    Search as with `query`: curl 'http://127.0.0.1:8000/search?q=TEXT&k=5' returns the lines of `wordpipe query --json`.
    Clients for OpenAI and for text-embeddings-inference get vectors and hits. For each request, a line of JSON is written to
    stderr, without the text of the query.

    On Ctrl-C or SIGTERM, the server first answers the requests that it has received.
    """
    import json

    from wordpipe.web import serve

    # errors name the option
    flags = chosen_settings(ServeSettings, given)
    shown = {name: f"--{name.replace('_', '-')}" for name in flags}
    ServeSettings.make(flags, flags=shown)
    log = None if quiet else lambda line: say(line, as_it_is=True)
    with serve([*artifacts], verify=verify, report=say, log=log, **flags) as server:
        names = [*server.artifacts.by_name]
        if as_json:
            click.echo(json.dumps({"url": server.url, "artifacts": names}, ensure_ascii=False))
        elif not quiet:
            say(f"{escaped(', '.join(names))} at {server.url}  (Ctrl-C stops the server)")
        server.wait()


serve = ExampleCommand(
    "serve",
    params=[
        click.Argument(["artifacts"], nargs=-1, required=True, metavar="ARTIFACT...", type=PATH),
        *settings_options(ServeSettings),
    ],
    callback=_serve,
    example=_EXAMPLES,
    help=_serve.__doc__,
    json="When the server is ready, print one JSON object on stdout, with url and artifacts.",
    quiet="Print nothing but errors.",
    verify="artifacts'",
)


def _mcp(artifacts: tuple[Path, ...], *, verify: bool, quiet: bool, link: str | None) -> None:
    """Let an assistant on this machine search indexes: answer the Model Context Protocol (MCP) on standard input.

    The assistant's program starts this command itself; write the command into the settings of that program. The page "For your
    assistant" of the book shows how. The assistant gets four tools: search, get (a text or a part of it), similar, fields.
    An assistant can only read.

    The program opens each index once. An index has the name of its folder; to give it another name, write NAME=PATH. If an
    index is made again, the new version answers. To answer assistants over HTTP, use `wordpipe serve`: the path is /mcp.
    """
    import os
    import sys

    from wordpipe import web

    web.need_libraries()
    # what is printed by mistake must not stand between the messages
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    report = (lambda _: None) if quiet else say
    web.answer_assistant(
        [*artifacts], source=sys.stdin.buffer, sink=sink, verify=verify, report=report, link=link or ""
    )


mcp = ExampleCommand(
    "mcp",
    params=[
        click.Argument(["artifacts"], nargs=-1, required=True, metavar="INDEX...", type=PATH),
        *(one for one in settings_options(ServeSettings) if one.name == "link"),
    ],
    callback=_mcp,
    example="wordpipe mcp run/index\nwordpipe mcp notes=run/index mail=mail/index",
    help=_mcp.__doc__,
    quiet="Print nothing but errors.",
    verify="artifacts'",
)
