"""`wordpipe query` and `wordpipe duplicates`: nearest neighbours, and groups of near neighbours, from the shell."""

import json
import os
import select
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from wordpipe.cli.command import PATH, ExampleCommand
from wordpipe.cli.output import counted, one_line, safe_text, say

if TYPE_CHECKING:
    from wordpipe.stages import OpenArtifact, QueryOptions, QueryResult

_AT_ONCE = 1_024  # queries encoded, searched and fetched together
_PIPED_CHARS = 200  # of a text, where the output is no terminal
_GROUP_CHARS = 160  # of a text in a group of duplicates
_GROUP_ROWS = 10  # of a group, for people: one of 1,503 texts filled the screen fifty times
_MANY = 20  # rows in one group: of fewer texts more than half may well be copies
_SHOWN_PARTS = 5  # pairs or terms of a line that says why a hit scored as it did


_EXAMPLES = """wordpipe query run/index "how do bees find their way"
wordpipe query run/index "bees" --where "year > 2000 and lang = 'en'" --explain
wordpipe query run/words water - salt + sugar"""
_MODE = "By vectors, by words (BM25), or both mixed; auto: what found best when the index was built.  [default: auto]"
_WEIGHT = "Share of the vectors in a hybrid score, 0 to 1.  [default: measured; more for long queries]"
_FEEDBACK = (
    "In a hybrid search, ask again with the first N answers, by vectors and by words; 0 asks once.  [default: 10]"
)
_WHERE = "Only rows of which this is true, over the columns that `show --rows 1` lists."


@click.command(
    cls=ExampleCommand,
    example=_EXAMPLES,
    json="Print one JSON object per hit; of several queries, one after each.",
    quiet="Print nothing but the answers and errors.",
    verify="artifact's",
)
@click.argument("artifact", metavar="INDEX|WORDS", type=PATH)
@click.argument("text", nargs=-1, metavar="[QUERY]...")
@click.option("-k", type=click.IntRange(1, 100_000), default=10, help="Answers per query.  [default: 10]")
@click.option("--queries", type=PATH, metavar="FILE", help="Read queries from a file, one per line.")
@click.option("--mode", type=click.Choice(["auto", "dense", "lexical", "hybrid"]), default="auto", help=_MODE)
@click.option("--weight", type=click.FloatRange(0, 1), metavar="SHARE", help=_WEIGHT)
@click.option("--feedback", type=click.IntRange(min=0), metavar="N", help=_FEEDBACK)
@click.option("--where", metavar="SQL", help=_WHERE)
@click.option("--per-document", is_flag=True, help="Of every document its best row alone.")
@click.option("--min-score", type=float, metavar="SCORE", help="Leave out answers that score less.")
@click.option("--explain", is_flag=True, help="Say which words carried each score; with --json in full.")
def query(
    artifact: Path, text: tuple[str, ...], k: int, queries: Path | None, as_json: bool, verify: bool, quiet: bool, **given: Any
) -> None:  # fmt: skip
    """Find the nearest neighbours of a text in an index, or of words in a words artifact.

    All QUERY words are one query. Without QUERY, queries are read from --queries or stdin, one per line; on a terminal
    there is a prompt. From a pipe every query is answered when it comes, so that a shell may keep the command running; with
    --json each answer then ends with a line {"query": …, "hits": N}, also where N is 0; a blank line is no query. A score is
    a cosine by vectors, BM25 by words, and 0 to 1 where both are mixed. With --mode auto or hybrid, a query with words that
    have no vector but stand in the texts is asked by words too. Exit code 3 when nothing was answered.
    """
    from wordpipe.errors import ConfigError
    from wordpipe.stages import QueryOptions, open_artifact

    if text and not " ".join(text).strip():
        raise ConfigError("the query is empty", hint="give words, or a file with --queries")
    options = QueryOptions(**given)
    answered = 0
    with open_artifact(artifact, ("index", "words"), verify=verify) as opened:
        opened.check(options)
        lines = given_lines(text, queries, what="query", option="--queries")
        size = 1 if is_prompt(text, queries) else _AT_ONCE
        has_more = stdin_has_more if queries is None else lambda: True
        for some in batches((line.strip() for line in lines), size, has_more):
            for line, result in zip(some, _results(opened, some, k, options, strict=bool(text)), strict=True):
                if result is not None:
                    answered += bool(result.hits)
                    for remark in () if quiet else _remarks(result):
                        say(remark)
                    _print(result, as_json=as_json, titled=not text)
                if as_json and not text:  # a program that asks through a pipe need not wait for more
                    end = {"query": result.query, "hits": len(result.hits)} if result else {"query": line, "hits": 0}
                    click.echo(json.dumps(end, ensure_ascii=False))
        if not answered:
            raise opened.nothing_found(options)


def _results(
    opened: "OpenArtifact", texts: list[str], k: int, options: "QueryOptions", *, strict: bool
) -> "list[QueryResult | None]":
    """The results of some queries; of many lines a bad one is skipped and named, its result None, and ends no batch."""
    from wordpipe.errors import ConfigError, InputError

    try:
        return [*opened.query_all(texts, k, options)]
    except (ConfigError, InputError) as error:
        if strict:
            raise
        if len(texts) == 1:
            say(f"skipped: {error.message}")
            return [None]
    return [result for text in texts for result in _results(opened, [text], k, options, strict=False)]


def _remarks(result: "QueryResult") -> Iterator[str]:
    """The words that have no vector, and those whose vector was guessed."""
    if result.guessed:
        yield f"guessed from {'its' if len(result.guessed) == 1 else 'their'} letters: {', '.join(result.guessed)}"
    if result.by_words:
        have = "has" if len(result.by_words) == 1 else "have"
        how = "by words" if result.mode == "lexical" else "by words too"
        yield f"{', '.join(result.by_words)} {have} no vector: answered {how}"
    unknown = [(word, near) for word, near in result.unknown.items() if word not in result.by_words]
    if unknown:
        named = (f"{word} (did you mean {', '.join(near)}?)" if near else word for word, near in unknown)
        yield f"unknown: {', '.join(named)}"


def _print(result: "QueryResult", *, as_json: bool, titled: bool) -> None:
    if as_json:
        for hit in result.hits:
            click.echo(json.dumps({"query": result.query} | hit, ensure_ascii=False, default=str))
        return
    if titled:
        click.echo(click.style(f"# {safe_text(result.query)}", bold=True))
    for hit in result.hits:
        click.echo(_row(hit))
        for line in _explained(hit.get("explain")):
            click.echo(safe_text(f"    {line}"))


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


def given_lines(words: tuple[str, ...], path: Path | None, *, what: str, option: str) -> Iterator[str]:
    """All words as one line; else the lines of a file or of standard input that are not blank, without their ends.

    Args:
        words: arguments; where there are any, even an empty one, they are all.
        path: of a file.
        what: a line is called ("prompt").
        option: which names the file ("--prompts").

    Raises:
        ConfigError: words and a file.
        InputError: no such file, or no line at all.
    """
    from wordpipe.errors import ConfigError, InputError

    if words and path is not None:
        raise ConfigError(f"give either {what.upper()} or {option}, not both")
    if words:
        yield " ".join(words)
        return
    n_lines = 0
    for line in _prompted(what) if is_prompt(words, path) else _read_lines(path):
        if line.strip():
            n_lines += 1
            yield line.rstrip("\r\n")
    if not n_lines:
        raise InputError(f"there is no {what}", hint=f"give {what.upper()}, {option} FILE, or lines on standard input")


def is_prompt(words: tuple[str, ...], path: Path | None) -> bool:
    """Whether someone is going to type the lines."""
    return not words and path is None and sys.stdin is not None and sys.stdin.isatty()


def _prompted(what: str) -> Iterator[str]:
    while True:
        try:
            if not sys.stdout.isatty():  # there the answers go
                click.echo(f"{what}> ", nl=False, err=True)
            yield input(f"{what}> " if sys.stdout.isatty() else "")
        except EOFError:
            say("")
            return


def _read_lines(path: Path | None) -> Iterator[str]:
    from wordpipe.errors import InputError

    if path is None and sys.stdin is None:
        return
    if path is None and hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    try:
        file: TextIO
        with path.open(encoding="utf-8", errors="replace") if path else nullcontext(sys.stdin) as file:
            yield from file
    except FileNotFoundError:
        raise InputError("no such file", where=path) from None


def batches(lines: Iterable[str], size: int, has_more: Callable[[], bool]) -> Iterator[list[str]]:
    """Lists of at most `size` lines, in their order; none waits for one that has not come yet.

    `has_more` is called after every line: whether the next can be had without waiting for it.
    """
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == size or not has_more():
            yield some
            some = []
    if some:
        yield some


def stdin_has_more() -> bool:
    """Whether reading on from stdin would not wait: always for a file; for a pipe if something is in it, or it has ended.

    Lines that were read ahead of the one in hand are not seen; they are answered one by one then, and nobody waits.
    """
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError):
        return True
    if sys.platform == "win32" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    return bool(select.select([number], [], [], 0)[0])


def _explained(explained: dict[str, Any] | None) -> Iterator[str]:
    """Why a hit scored as it did, in a line or two; `--json` has it all. None tells nothing."""
    if explained is None:
        return
    if dense := explained.get("dense"):
        pairs = [(_pair(pair), pair["score"]) for pair in dense["pairs"]]
        if answers := dense.get("answers"):
            pairs.append(("first answers", answers["score"]))
        yield f"vectors {_of(dense)} = {_sum(pairs, dense['score'])}"
    if lexical := explained.get("lexical"):
        terms = [(term["stem"], term["score"] - term.get("answers", 0.0)) for term in lexical["terms"]]
        if added := sum(term.get("answers", 0.0) for term in lexical["terms"]):
            terms.append(("first answers", added))
        yield f"words {_of(lexical)} = {_sum(terms, lexical['score'])}"


def _pair(pair: dict[str, Any]) -> str:
    one, other = pair["query"].strip() or "·", pair["text"].strip() or "·"
    return one if one.lower() == other.lower() else f"{one}~{other}"


def _of(side: dict[str, Any]) -> str:
    """The side's score, and what the mix makes of it."""
    score = f"{side['score']:.3f}"
    return f"{score} (adds {side['share']:.3f})" if "share" in side else score


def _sum(parts: list[tuple[str, float]], score: float) -> str:
    """The largest parts, equal ones together, and what is left."""
    added: dict[str, float] = {}
    for name, value in parts:
        added[name] = added.get(name, 0.0) + value
    largest = sorted(added.items(), key=lambda part: -abs(part[1]))[:_SHOWN_PARTS]
    parts_shown = [f"{name} {value:.3f}" for name, value in largest if abs(value) >= 0.0005]
    if abs(rest := score - sum(value for _, value in largest)) >= 0.0005:
        parts_shown.append(f"others {rest:.3f}")
    return " + ".join(parts_shown)


@click.command(
    cls=ExampleCommand,
    example="wordpipe duplicates run/sentences --threshold 0.95",
    json="Print one JSON object: totals, and the groups shown with all rows.",
    quiet="Print nothing but the groups and errors.",
    verify="artifact's",
)
@click.argument("artifact", metavar="INDEX|SENTENCES", type=click.Path(path_type=Path))
@click.option(
    "--threshold", type=click.FloatRange(-1, 1), default=0.95, metavar="COSINE",
    help="How near two texts must be to be linked.  [default: 0.95]",
)  # fmt: skip
@click.option(
    "-n", type=click.IntRange(0, 1_000_000), default=20,
    help="Groups to show, the largest first, ten texts of each.  [default: 20]",
)  # fmt: skip
def duplicates(artifact: Path, **options: Any) -> None:
    """Report groups of texts whose vectors are nearly the same.

    Every text is linked to those near it, and what is linked is a group, so its ends may be farther apart than the threshold.
    Up to 200,000 rows all pairs are compared; of more, the index is asked for the nearest of every row.
    """
    from wordpipe.cli.tables import answer
    from wordpipe.stages import duplicates as stage

    answer(stage, artifact, show=_show_groups, remarks=_group_remarks, **options)


def _show_groups(found: dict[str, Any]) -> None:
    for number, group in enumerate(found["shown"], start=1):
        click.echo(click.style(f"# group {number}: {len(group):,} texts", bold=True))
        for row in group[:_GROUP_ROWS]:
            click.echo(_group_line(row))
        if len(group) > _GROUP_ROWS:
            click.echo(f"… {len(group) - _GROUP_ROWS:,} more")


def _group_remarks(found: dict[str, Any]) -> list[str]:
    rows = counted(found["rows"], "rows")
    lines = [
        f"{found['rows_in_groups']:,} of {rows} in {counted(found['groups'], 'groups')}, {counted(found['pairs'], 'pairs')} "
        f"at {found['threshold']:g} or nearer; "
        f"{'all pairs compared' if found['exact'] else 'as far as the index found them'}"
    ]
    if found["largest"] >= _MANY and 2 * found["largest"] > found["rows"]:
        lines.append(
            f"one group holds {found['largest']:,} of {rows}: at {found['threshold']:g} these vectors cannot tell the texts "
            f"apart; raise --threshold, or see what is wrong with: wordpipe doctor {shlex.quote(found['path'])}"
        )
    return lines


def _group_line(row: dict[str, Any]) -> str:
    text = one_line(row.get("text") or row.get("word") or "")
    place = [f"{row['source']}:{row['line']}"] if "source" in row else []
    return safe_text("\t".join([f"{row['cosine']:.4f}", _cut(text, _GROUP_CHARS), *place]))
