"""`wordpipe query`: nearest neighbours of texts and words; queries from arguments, files, pipes and a prompt."""

import io
import json
import os
import re
import select
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from wordpipe.cli.command import PATH, ExampleCommand, Option
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import counted, escaped, say
from wordpipe.cli.query_answers import FORMATS, Answers, named_fields
from wordpipe.search.settings import QueryOptions
from wordpipe.storage import url_of
from wordpipe.wording import is_unicode

if TYPE_CHECKING:
    from wordpipe.errors import ArtifactError
    from wordpipe.stages import OpenArtifact, QueryResult

_AT_ONCE = 1_024  # queries encoded, searched and fetched together
_LONGEST = 1 << 20  # characters of a line
_SAID = 1_000  # characters of a remark
_SHOWN = 60  # of a question in a hint
_LOOKED_AT = 100  # artifacts in ./run, for the index that nobody named
_ENDLESS = 64 << 20  # characters after which a line is taken for one without an end
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # as `surrogateescape` reads it

_EXAMPLES = """wordpipe query run/index "how do bees find their way"
wordpipe query run/index "bees" --where "year > 2000 and lang = 'en'" --explain
wordpipe query run/index --where "opened >= '2024-01-31'"
wordpipe query run/words water - salt + sugar"""
_FORMAT = "Lines for people, a table, lines separated by tabs, or JSON.  [default: plain on a terminal, tsv in a pipe]"


def _query(
    artifact: Path, text: tuple[str, ...], *, k: int, queries: Path | None, form: str | None, as_json: bool, verify: bool,
    quiet: bool, **given: Any,
) -> None:  # fmt: skip
    """Find the nearest neighbours of a text in an index, or of words in a words artifact.

    All QUERY words are one query. Without QUERY, queries are read from --queries or standard input, one per line; on a
    terminal you can type them, or with --where alone the first rows that match the condition are listed. From a pipe, every
    query is answered as soon as it is read, so a program can keep the command running; with --json, the answers of each query
    then end with a line {"query": …, "hits": N}. N is 0 if nothing was found, or if the line is empty.

    A score is a cosine in a search by vectors, BM25 in a search by words, and 0 to 1 in a hybrid search. With --mode auto or
    hybrid, a query with words that have no vector but occur in the texts is searched by words too. Exit code 3: no query has
    an answer.
    """
    from wordpipe.errors import ConfigError
    from wordpipe.stages import OpenIndex, open_artifact

    # options that go together, before anything is opened
    if text and not " ".join(text).strip():
        raise ConfigError("the query is empty", hint="give words, or a file with --queries")
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json means --format json: leave out --format {form}.", click.get_current_context())
    form = "json" if as_json else form or ("plain" if sys.stdout.isatty() else "tsv")
    as_json = form == "json"
    # the artifact, which may have been left out
    chosen = chosen_settings(QueryOptions, given)
    options = QueryOptions.make(chosen, flags={name: f"--{name.replace('_', '-')}" for name in chosen})
    if not os.path.lexists(artifact) and url_of(artifact) is None:
        raise _no_artifact(artifact, text)
    answered = 0
    with open_artifact(artifact, ("index", "words"), verify=verify) as opened:
        opened.check(options)
        answers = Answers(form, opened, titled=not text, shown=named_fields(options.where))
        lines: Iterator[str] | None = given_lines(text, queries, what="query", option="--queries", quiet=quiet)
        # a condition alone lists rows
        lists = options.where is not None and not text and queries is None and isinstance(opened, OpenIndex)
        if lists and (is_prompt(text, queries) or (lines := _any_of(lines)) is None):
            assert isinstance(opened, OpenIndex)
            found, n_rows = opened.fulfilling(options, k)
            answers.titled, answered, lines = False, bool(found.hits), iter(())
            answers.print(found)
            if not quiet and n_rows > k:
                say(f"{k:,} of {n_rows:,} rows that match the condition; a larger -k shows more")
        # queries are answered together, as many as have come
        for some in together((line.strip() for line in lines or ()), text, queries, _AT_ONCE):
            for result in _results(opened, some, k, options, strict=bool(text)):
                answered += bool(result.hits)
                for remark in () if quiet else _remarks(result, options):
                    say(remark)
                answers.print(result)
                if as_json and not text:  # a program that asks through a pipe need not wait for more
                    click.echo(json.dumps({"query": result.query, "hits": len(result.hits)}, ensure_ascii=False))
        answers.end()
        if not answered:
            raise opened.nothing_found(options, " ".join(text))


query = ExampleCommand(
    "query",
    params=[
        click.Argument(["artifact"], metavar="INDEX|WORDS", type=PATH),
        click.Argument(["text"], nargs=-1, metavar="[QUERY]..."),
        Option(["-k"], type=click.IntRange(1, 100_000), default=10, help="Number of answers per query.  [default: 10]"),
        Option(["--queries"], type=PATH, metavar="FILE", help="Read queries from a file, one per line."),
        *settings_options(QueryOptions),
        Option(["--format", "form"], type=click.Choice(FORMATS), help=_FORMAT),
    ],
    callback=_query,
    example=_EXAMPLES,
    help=_query.__doc__,
    json="As --format json: one object per hit; without QUERY, one more after each query.",
    quiet="Print nothing but the answers and errors.",
    verify="artifact's",
)


def _any_of(lines: Iterator[str] | None) -> Iterator[str] | None:
    """Return the lines of a query once the first has come; None if there are none."""
    from wordpipe.errors import InputError

    try:
        return None if lines is None else chain([next(lines)], lines)
    except InputError:
        return None


def _no_artifact(path: Path, text: tuple[str, ...]) -> "ArtifactError":
    """The error for a path where nothing is, which may be the question; its hint names the only index in ./run."""
    from wordpipe.artifacts import MANIFEST, Artifact
    from wordpipe.errors import ArtifactError, shortened

    # the index that may be meant
    found: list[Path] = []
    for manifest in islice(Path("run").glob(f"*/{MANIFEST}"), _LOOKED_AT):
        with suppress(ArtifactError), Artifact(manifest.parent, ["index"], verify=False) as artifact:
            found.append(artifact.path)
    meant = [one for one in found if text and one.name == str(path)] or found
    index = shlex.quote(str(meant[0])) if len(meant) == 1 else None
    maker = "train word2vec" if re.search("word|vec", path.name.lower()) else "index"
    what = "an index" if maker == "index" else "word vectors"
    made = "" if found else f"; wordpipe {maker} makes {what}"
    # the path is an index that is missing, or a word of the question
    is_path = (len(path.parts) > 1 and " " not in str(path)) or (
        text and str(path) in ("index", *(one.name for one in found))
    )
    words = text if is_path else (str(path), *text)
    asked = shlex.quote(shortened(" ".join(words), _SHOWN)) if words else '"your question"'
    hint = f"wordpipe query {index or 'INDEX'} {asked}{made}"
    # the hint
    if is_path and not found and Path("wordpipe.toml").is_file():
        hint = "wordpipe run makes the artifacts of wordpipe.toml"
    elif is_path and text and not index:
        hint = f"wordpipe {maker} makes {what}; wordpipe run makes all artifacts of a pipeline"
    elif not (is_path and text):
        hint = f"write the index before the question: {hint}"
    return ArtifactError("the artifact does not exist", where=shortened(str(path), _SAID), hint=hint)


def _results(
    opened: "OpenArtifact", texts: list[str], k: int, options: QueryOptions, *, strict: bool
) -> "list[QueryResult]":
    """Return the results of some queries; of many lines, a bad one is named and skipped, and has no hits."""
    from wordpipe.errors import ConfigError, InputError
    from wordpipe.stages import QueryResult

    try:
        return opened.query_all(texts, k, options)
    except (ConfigError, InputError) as error:
        if strict:
            raise
        if len(texts) == 1:
            say(f"skipped: {error.message}")
            return [QueryResult(texts[0], [])]
    return [result for text in texts for result in _results(opened, [text], k, options, strict=False)]


def _remarks(result: "QueryResult", options: QueryOptions) -> Iterator[str]:
    """Yield remarks on a result: words that have no vector, or one guessed from their letters."""
    from wordpipe.errors import shortened

    if result.guessed:
        what = "vector" if len(result.guessed) == 1 else "vectors"
        yield f"{what} guessed from the letters of: {shortened(', '.join(result.guessed), _SAID)}"
    if result.by_words:
        have = "has" if len(result.by_words) == 1 else "have"
        how = "by words" if result.mode == "lexical" else "by words too"
        yield f"{shortened(', '.join(result.by_words), _SAID)} {have} no vector: searched {how}"
    unknown = [(word, near) for word, near in result.unknown.items() if word not in result.by_words]
    if unknown:
        named = (f"{word} (did you mean {', '.join(near)}?)" if near else word for word, near in unknown)
        what = "no vector for" if result.mode == "dense" else "unknown"  # the texts may have it
        yield f"{what}: {shortened(', '.join(named), _SAID)}"
        if result.mode == "dense" and options.mode == "auto" and options.min_score is not None:
            yield "--min-score is compared with cosines: searched by vectors only"


def given_lines(words: tuple[str, ...], path: Path | None, *, what: str, option: str, quiet: bool) -> Iterator[str]:
    """Yield all words as one line, otherwise the lines of a file or of standard input, without line ends.

    Blank lines of a file or a pipe come too, and an empty one for a line that is too long: answers stay in step with lines.

    Args:
        words: arguments; where there are any, even an empty one, they are all.
        path: of a file.
        what: a line is called ("prompt").
        option: which names the file ("--prompts").
        quiet: do not say that bytes were replaced.

    Raises:
        ConfigError: words and a file.
        InputError: no such file, or no line at all.
    """
    from wordpipe.errors import ConfigError, InputError

    if words and path is not None:
        raise ConfigError(f"give either {what.upper()} or {option}, not both")
    if words:
        yield _as_unicode(" ".join(words), what)
        return
    line = None
    for line in _prompted(what) if is_prompt(words, path) else _read_lines(path, quiet=quiet):
        yield line.rstrip("\r\n")
    if line is None:
        raise InputError(f"there is no {what}", hint=f"give {what.upper()}, {option} FILE, or lines on standard input")


def _as_unicode(text: str, what: str) -> str:
    """Return the text of arguments; invalid UTF-8 is replaced, with a message."""
    if not is_unicode(text):
        say(f"replaced invalid UTF-8 by U+FFFD in the {what}")
    return text.encode(errors="surrogateescape").decode(errors="replace")


def is_prompt(words: tuple[str, ...], path: Path | None) -> bool:
    """True if the lines are going to be typed."""
    return not words and path is None and sys.stdin is not None and sys.stdin.isatty()


def _prompted(what: str) -> Iterator[str]:
    """Yield the lines that are typed at a prompt of `query`, `fill` and the like."""
    while True:
        try:
            if not sys.stdout.isatty():  # there the answers go
                click.echo(f"{what}> ", nl=False, err=True)
            line = input(f"{what}> " if sys.stdout.isatty() else "")
        except EOFError:
            say("")
            return
        if line.strip():
            yield _BAD_BYTE.sub("\ufffd", line)


def _read_lines(path: Path | None, *, quiet: bool) -> Iterator[str]:
    """Yield the lines of a file or of standard input."""
    from wordpipe.errors import InputError

    if path is None and sys.stdin is None:
        return
    if path is None and hasattr(sys.stdin, "reconfigure"):
        # the mark of a file's begin is no part of a query, and a carriage return within a line ends none;
        # what has been read from is read on as it was
        with suppress(io.UnsupportedOperation):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": "\n"}
    try:
        file: TextIO
        with path.open(**how) if path else nullcontext(sys.stdin) as file:
            yield from bounded_lines(file, str(path or "standard input"), quiet=quiet)
    except (FileNotFoundError, IsADirectoryError) as error:
        what = "the file does not exist" if isinstance(error, FileNotFoundError) else "this is a folder, not a file"
        raise InputError(what, where=path) from None


def bounded_lines(file: TextIO, where: str, *, quiet: bool = False) -> Iterator[str]:
    """Yield the lines of a file in bounded memory: one of more than a million characters is named, and comes as an empty one.

    Invalid UTF-8, which the file must give as `surrogateescape` does, becomes U+FFFD; after the last line a message says in
    how many lines, unless `quiet`.

    Raises:
        InputError: a line that does not end, as /dev/zero has it; UTF-16 or UTF-32.
    """
    from wordpipe.errors import InputError

    number = n_mended = first_mended = 0
    while line := file.readline(_LONGEST):
        # bytes that are no text
        number += 1
        if number == 1:
            _refuse_wide(line, where)
        if not line.isascii() and _BAD_BYTE.search(line):
            line = line.encode(errors="surrogateescape").decode(errors="replace")
            n_mended, first_mended = n_mended + 1, first_mended or number
        if line.endswith("\n") or len(line) < _LONGEST:
            yield line
            continue
        # a line that is too long is read to its end, piece by piece
        taken = len(line)
        while (more := file.readline(_LONGEST)) and not more.endswith("\n"):
            taken += len(more)
            if taken > _ENDLESS:
                got, expected = f"more than {_ENDLESS:,} characters", "lines of text"
                raise InputError("this line does not end", where=f"{where}, line {number}", got=got, expected=expected)
        if taken + len(more.rstrip("\n")) > _LONGEST:
            say(f"skipped: {escaped(where)}, line {number}: longer than {_LONGEST:,} characters")
            yield "\n"
        else:
            yield line + more  # which is a line end
    if n_mended and not quiet:
        more = f" in {counted(n_mended, 'lines')}, the first" if n_mended > 1 else ""
        say(f"replaced invalid UTF-8 by U+FFFD{more}: {escaped(where)}, line {first_mended}")


def _refuse_wide(line: str, where: str) -> None:
    """Refuse the first line of a file in UTF-16 or UTF-32, which would come as unreadable text."""
    if "\0" not in line and not _BAD_BYTE.match(line):
        return
    from wordpipe.corpus import not_text
    from wordpipe.errors import InputError

    data = line.removesuffix("\n").encode(errors="surrogateescape")
    for head in (data, data.rstrip(b"\0")):  # the zeros may be halves of the end of the line
        if (found := not_text(head, where, is_plain=False, as_it_is=True)) is not None:
            raise InputError("not UTF-8 text", where=where, got=found.kind, hint=f"iconv -f {found.kind} -t UTF-8")


def together(lines: Iterable[str], words: tuple[str, ...], path: Path | None, size: int) -> Iterator[list[str]]:
    """Yield lines of `given_lines` in lists: as many as have come, at most `size`; a typed line comes alone."""
    has_more = stdin_has_more if path is None and not words else lambda: True
    return batches(lines, 1 if is_prompt(words, path) else size, has_more)


def print_unanswered(*, as_json: bool, **about: str) -> None:
    """Print the output line of an input line without an answer: an empty line, or an object with the input alone."""
    click.echo(json.dumps(about, ensure_ascii=False) if as_json else "")


def batches(lines: Iterable[str], size: int, has_more: Callable[[], bool]) -> Iterator[list[str]]:
    """Lists of at most `size` lines, of long ones fewer, in their order; none waits for one that has not come yet.

    `has_more` is called after every line: whether the next can be had without waiting for it.
    """
    some: list[str] = []
    taken = 0
    for line in lines:
        some.append(line)
        taken += len(line)
        if len(some) == size or taken > _LONGEST or not has_more():
            yield some
            some, taken = [], 0
    if some:
        yield some


def stdin_has_more() -> bool:
    """True if reading on from stdin would not wait: always for a file; for a pipe that has something, or has ended.

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
