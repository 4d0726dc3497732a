"""`wordpipe serve`: artifacts over HTTP, until Ctrl-C; a line for each request goes to stderr."""

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
    """Answer queries over HTTP: a page, and an API that clients speak already.

    Indexes, words, sentences and models are opened once, each under its folder's name, or NAME=PATH, and swapped whole when
    they are made anew. Only programs of this machine are answered, or with --host those that have the token.

    Ask it as `query` is asked: curl 'http://127.0.0.1:8000/search?q=TEXT&k=5' gives the lines of `wordpipe query --json`;
    clients of OpenAI and of text-embeddings-inference get vectors and hits. A line of JSON for each request goes to stderr,
    without what was asked.

    On Ctrl-C or SIGTERM what was asked before is answered first.
    """
    import json

    from wordpipe.web import serve

    # what cannot be is said by the flag that gave it

    flags = chosen_settings(ServeSettings, given)
    shown = {name: f"--{name.replace('_', '-')}" for name in flags}
    ServeSettings.make(flags, flags=shown)
    log = None if quiet else lambda line: say(line, as_it_is=True)
    with serve([*artifacts], verify=verify, report=say, log=log, **flags) as server:
        names = [*server.artifacts.by_name]
        if as_json:
            click.echo(json.dumps({"url": server.url, "artifacts": names}, ensure_ascii=False))
        elif not quiet:
            say(f"{escaped(', '.join(names))} at {server.url}  (Ctrl-C ends it)")
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
    json="Print one JSON object on stdout when it answers: url, artifacts.",
    quiet="Print nothing but errors.",
    verify="artifacts'",
)
