"""`wordpipe query`: nearest neighbours from the shell."""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordpipe.cli.lines import given_lines, is_prompt
from wordpipe.cli.output import safe_text, say
from wordpipe.cli.stage import ExampleCommand

if TYPE_CHECKING:
    from wordpipe.stages.query import Answers

__all__ = ["query"]

_AT_ONCE = 256  # queries encoded together
_PIPED_CHARS = 200  # of a text, where the output is no terminal


@click.command(
    cls=ExampleCommand,
    example='wordpipe query run/index "how do bees find their way"\nwordpipe query run/words water - salt + sugar',
)
@click.argument("artifact", metavar="INDEX|WORDS", type=click.Path(path_type=Path))
@click.argument("text", nargs=-1, metavar="[QUERY]...")
@click.option("-k", type=click.IntRange(1, 100_000), default=10, help="Answers per query.  [default: 10]")
@click.option(
    "--queries", type=click.Path(path_type=Path), metavar="FILE", help="Read queries from a file, one per line."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per hit.")
@click.option("--verify/--no-verify", default=True, help="Check the artifact's hashes before use.  [on]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the answers and errors.")
def query(
    artifact: Path, text: tuple[str, ...], k: int, queries: Path | None, as_json: bool, verify: bool, quiet: bool
) -> None:
    """Find the nearest neighbours of a text in an index, or of words in a words artifact.

    All QUERY words are one query. Without QUERY, queries are read from --queries or stdin, one per line; on a terminal
    there is a prompt. Exit code 3 when nothing was answered.
    """
    from wordpipe.errors import ConfigError, InputError
    from wordpipe.stages.query import open_artifact

    if text and not " ".join(text).strip():
        raise ConfigError("the query is empty", hint="give words, or a file with --queries")
    answered = 0
    with open_artifact(artifact, verify=verify) as target:
        lines = given_lines(text, queries, what="query", option="--queries")
        at_once = _AT_ONCE if target.batches and not is_prompt(text, queries) else 1
        for some in _grouped((line.strip() for line in lines), at_once):
            try:
                answers = target.answer(some, k)
            except ConfigError as error:
                if text:
                    raise
                say(f"skipped: {error.message}")  # one bad line ends no batch
                continue
            for answer in answers:
                _complain(answer, quiet=quiet)
                answered += bool(answer.hits)
                _print(answer, as_json=as_json, titled=not text)
    if not answered:
        raise InputError("nothing was found", hint="ask with other words; wordpipe show lists what the artifact holds")


def _grouped(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while some := list(islice(iterator, size)):
        yield some


def _complain(answer: "Answers", *, quiet: bool) -> None:
    """Name the words that have no vector, and those whose vector was guessed."""
    if quiet:
        return
    if answer.guessed:
        say(f"guessed from {'its' if len(answer.guessed) == 1 else 'their'} letters: {', '.join(answer.guessed)}")
    if not answer.unknown:
        return
    words = [f"{word} (did you mean {', '.join(near)}?)" if near else word for word, near in answer.unknown.items()]
    say(f"unknown: {', '.join(words)}")


def _print(answer: "Answers", *, as_json: bool, titled: bool) -> None:
    if as_json:
        for hit in answer.hits:
            click.echo(json.dumps({"query": answer.query, **hit}, ensure_ascii=False, default=str))
        return
    if titled:
        click.echo(click.style(f"# {safe_text(answer.query)}", bold=True))
    for hit in answer.hits:
        click.echo(_row(hit))


def _row(hit: dict[str, object]) -> str:
    """score, text, place: as wide as the terminal, or separated by tabs elsewhere. `--json` has the whole text."""
    text = " ".join(str(hit.get("word") or hit.get("text") or "").split())
    if title := hit.get("title"):
        text = f"{title} · {text}" if text else str(title)
    place = f"{hit['source']}:{hit['line']}" if "source" in hit else ""
    score = f"{hit['score']:.4f}"
    if not sys.stdout.isatty():
        return safe_text("\t".join(filter(None, (score, _cut(text, _PIPED_CHARS), place))))
    room = max(20, shutil.get_terminal_size().columns - len(score) - len(place) - 4)
    return safe_text(f"{score}  {_cut(text, room):<{room}}  {place}".rstrip())


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
