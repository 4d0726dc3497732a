"""`wordpipe query`: nearest neighbours of texts and words; queries from arguments, files, pipes and a prompt."""

import gc
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wordpipe.cli.command import COMMON, PATH, ExampleCommand, Option
from wordpipe.cli.input_lines import (
    given_lines,
    is_prompt,
    no_artifact,
    refuse_missing,
    refuse_words_of_question,
    together,
    usual_source,
)
from wordpipe.cli.options import chosen_settings, settings_options
from wordpipe.cli.output import ProgressDrawer, escaped, human_bytes, say
from wordpipe.cli.query_answers import FORMATS, Answers, named_fields
from wordpipe.search.settings import QueryOptions, sort_key
from wordpipe.storage import url_of
from wordpipe.wording import counted

if TYPE_CHECKING:
    from wordpipe.stages import OpenArtifact, OpenIndex, QueryResult

T = TypeVar("T")

_AT_ONCE = 1_024  # queries encoded, searched and fetched together
_SAID = 1_000  # characters of a remark
_SHOWN = 60  # of a question in a hint
_EXCLUDED = re.compile(r"-(?![hq]+$)[^\W\d_]{2}.*", re.DOTALL)  # a word that is to be absent; no short option
_OF_VECTORS = ("mode", "weight", "feedback")  # options of a query that an index of words does not need

_EXAMPLES = """wordpipe query run "how do bees find their way"
wordpipe query run/index "bees" --where "year > 2000 and lang = 'en'" --explain
wordpipe query run/index '"progress bar" -quantum lang:en kube*'
wordpipe query run/words water - salt + sugar"""
_FORMAT = (
    "Output format; plain: lines of text; tsv: columns separated by tabs; csv: all fields, for spreadsheets.  [default: plain "
    "on a terminal, tsv in a pipe]"
)

_COUNT = (
    "Print only the number of rows that match; these are the rows that contain a word of the query and fulfil its operators "
    "and --where; with --mode dense every row with a vector counts"
)


def _query(
    artifact: Path, text: tuple[str, ...], *, k: int, queries: Path | None, form: str | None, count: bool, as_json: bool,
    verify: bool, quiet: bool, **given: Any,
) -> None:  # fmt: skip
    """Find the nearest neighbours of a text in an index, or of words in a words artifact.

    A folder of artifacts such as run, or of a project, is asked by the index in it: by `index` if it is there, else by the
    only index with vectors, else by the only index of words alone. Several indexes before QUERY are asked as one index, with
    one scale of scores.

    All QUERY words are one query. Without QUERY, queries are read from --queries or standard input, one per line; on a
    terminal you can type them, or with --where or --sort alone the first rows that match are listed. From a pipe, every
    query is answered as soon as it is read, so a program can keep the command running; with --json, the answers of each query
    then end with a line {"query": …, "hits": N}. N is 0 if nothing was found, or if the line is empty.

    A query may have operators: "an exact phrase" (in single quotes, so that the shell keeps the double quotes), -without,
    +with, begin*, FIELD:VALUE, FIELD:LOW..HIGH, OR, AND, NOT and brackets. --exact searches for the words alone.

    A score is a cosine in a search by vectors, BM25 in a search by words, and 0 to 1 in a hybrid search. With --mode auto or
    hybrid, a query with words that have no vector but occur in the texts is searched by words too.

    --offset 10 begins with the answer after the tenth: pages together are the same as one long list. Exit code 1: no query has
    an answer; this is no error.
    """
    from wordpipe.artifacts import is_artifact
    from wordpipe.errors import ConfigError
    from wordpipe.stages import open_artifact

    # options that go together, before anything is opened
    if text and not " ".join(text).strip() and not (given.get("where") or given.get("sort")):
        hint = "give a query of at least one word, or a file of queries with --queries"
        raise ConfigError("the query is empty", hint=hint)
    options, form = query_options(given), chosen_format(form, as_json=as_json)
    # the artifact, which may have been left out
    if not os.path.lexists(artifact) and url_of(artifact) is None:
        raise no_artifact(artifact, text)
    indexes, text = _several(artifact, text)
    if len(indexes) > 1 and not quiet:
        say(f"indexes: {', '.join(escaped(str(index)) for index in indexes)}")
    with open_artifact([*indexes] if len(indexes) > 1 else artifact, ("index", "words"), verify=verify) as opened:
        if (
            len(indexes) == 1
            and opened.path != artifact
            and not quiet
            and artifact.is_dir()
            and not is_artifact(artifact)
        ):
            say(f"index: {escaped(str(opened.path))}")
        print_answers(opened, options, text=text, queries=queries, k=k, form=form, quiet=quiet, count=count)


def _several(artifact: Path, text: tuple[str, ...]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the indexes that a command line begins with, and its query, of which no index is a word."""
    from wordpipe.artifacts import is_artifact

    indexes = [artifact]
    while text and is_artifact(Path(text[0])) and _is_index(Path(text[0])) and _is_index(indexes[-1]):
        indexes, text = [*indexes, Path(text[0])], text[1:]
    refuse_missing(indexes, text)
    return indexes, text


def _is_index(path: Path) -> bool:
    """True if an artifact, or the folder of one, is an index."""
    from wordpipe.artifacts import Artifact
    from wordpipe.errors import WordpipeError
    from wordpipe.stages import index_in

    with suppress(WordpipeError), Artifact(index_in(path), ["index"], verify=False):
        return True
    return False


def query_options(given: dict[str, Any]) -> QueryOptions:
    """Return the options of a query that the command line gives; errors name them as they are written there."""
    chosen = chosen_settings(QueryOptions, given)
    return QueryOptions.make(chosen, flags={name: f"--{name.replace('_', '-')}" for name in chosen})


def chosen_format(form: str | None, *, as_json: bool) -> str:
    """Return the output format: as it was asked for, else plain on a terminal and tsv in a pipe."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(
            f"--json and --format {form} cannot be used together, because --json means --format json.",
            click.get_current_context(),
        )
    return "json" if as_json else form or ("plain" if sys.stdout.isatty() else "tsv")


def print_answers(
    opened: "OpenArtifact", options: QueryOptions, *, text: tuple[str, ...], queries: Path | None, k: int, form: str,
    quiet: bool, count: bool = False,
) -> None:  # fmt: skip
    """Print the answers of an opened artifact to a query, or to the queries of a file, a pipe or a prompt; or their numbers.

    Raises:
        NothingFound: no query has an answer; with `quiet` the command ends without a word.
        WordpipeError: the only query cannot be asked.
    """
    from wordpipe.errors import NothingFound
    from wordpipe.stages import changed_input

    text = tuple(one.replace("−", "-", 1) if one.startswith("−") else one for one in text)
    opened.check(options)
    for part in () if quiet else getattr(opened, "parts", [opened]):
        if (changed := changed_input(part.artifact)) is not None:
            said = f"{os.path.relpath(changed)} has changed since the index {part.path} was made"
            say(f"{escaped(said)}; to bring the index up to date, make it again with --update")
    # queries are answered together, as many as have come; None: there is none, and a condition alone lists rows
    lines = _lines(opened, text, queries, options, quiet=quiet)
    asked = None if lines is None else together(map(str.strip, lines), text, queries, _AT_ONCE)
    titled = asked is not None and not text
    answer = _count if count else _answer
    if not answer(opened, asked, k, options, form, titled=titled, quiet=quiet):
        if quiet:
            click.get_current_context().exit(NothingFound.exit_code)
        raise opened.nothing_found(options, " ".join(text))


def _lines(
    opened: "OpenArtifact", text: tuple[str, ...], queries: Path | None, options: QueryOptions, *, quiet: bool
) -> Iterator[str] | None:
    """Return the queries; None where a condition or an order stands alone."""
    from wordpipe.stages import OpenIndex

    if text and not " ".join(text).strip() and isinstance(opened, OpenIndex):
        return None  # which is refused where there is no condition and no order
    lines = given_lines(text, queries, what="query", option="--queries", quiet=quiet)
    if not (options.where or options.sort) or text or queries is not None or not isinstance(opened, OpenIndex):
        return lines
    return None if is_prompt(text, queries) else _any_of(lines)


def _answer(
    opened: "OpenArtifact", asked: Iterable[list[str]] | None, k: int, options: QueryOptions, form: str, *, titled: bool,
    quiet: bool,
) -> int:  # fmt: skip
    """Print the answers to queries, or the rows that a condition or an order lists; return how many have any."""
    from wordpipe.stages import OpenIndex, QueryResult

    by = [sort_key(options.sort)[0] if options.sort else None, options.newer_better, options.boost]
    shown = [*named_fields(options.where), *(name for name in by if name)]
    answers = Answers(form, opened, titled=titled, shown=shown, explained=options.explain)
    answered, ask = 0, partial(opened.query_all, k=k, options=options)
    if asked is None:
        assert isinstance(opened, OpenIndex)
        answered = _list(opened, answers, k, options, quiet=quiet)
    for some in asked or ():
        for result in _answered(ask, some, lambda line: QueryResult(line, []), strict=not titled):
            answered += bool(result.hits)
            for remark in () if quiet else _remarks(result, options):
                say(remark)
            answers.print(result)
            if not quiet and not titled and isinstance(opened, OpenIndex) and options.mode != "dense":
                _say_of_more(opened, result, k, options, form)
            if titled and form == "json":  # a program that asks through a pipe need not wait for more
                click.echo(json.dumps({"query": result.query, "hits": len(result.hits)}, ensure_ascii=False))
    answers.end()
    return answered


def _count(
    opened: "OpenArtifact", asked: Iterable[list[str]] | None, k: int, options: QueryOptions, form: str, *, titled: bool,
    quiet: bool,
) -> int:  # fmt: skip
    """Print the number of rows that match each query; return the sum of all."""
    from wordpipe.cli.tables import print_counts

    del k
    counts, total = partial(opened.count_all, options=options), 0
    for some in [[""]] if asked is None else asked:
        numbers = _answered(counts, some, lambda _: 0, strict=not titled)
        # of one query it is said how it was read, as beside its answers
        for result in () if quiet or titled or asked is None else opened.query_all(some, 1, options):
            for remark in _remarks(result, options):
                say(remark)
            if result.is_of_any and form not in ("json", "csv"):
                say("counted: rows with any of the words; to count rows with all of them, put + before each word")
        print_counts(form, some, numbers, titled=titled)
        total += sum(numbers)
    if options.mode == "dense" and not quiet:
        say("counted: all rows that have a vector, because a search by vectors ranks every row")
    return total


def answer_options() -> list[Option]:
    """Return the options of a command that prints answers to queries."""
    count = Option(["--count"], is_flag=True, help=_COUNT)
    form = Option(["--format", "form"], type=click.Choice(FORMATS), help=_FORMAT)
    return [*settings_options(QueryOptions), count, form]


class _QueryCommand(ExampleCommand):
    """A command with a query, which may have words after a minus sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; of words such as -boiler, which are no options, the sign is written as a minus sign of Unicode."""
        return super().parse_args(ctx, [f"−{one[1:]}" if _EXCLUDED.fullmatch(one) else one for one in args])


class _SearchCommand(_QueryCommand):
    """A search, which begins sooner than other commands: warm, it takes 0.70 s of processor time instead of 0.75."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the search with one thread of linear algebra, which words do not need, and with rare collections of garbage."""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy starts its threads when it is imported
        gc.set_threshold(50_000, 20, 20)
        return super().invoke(ctx)


query = _QueryCommand(
    "query",
    params=[
        click.Argument(["artifact"], metavar="INDEX|WORDS", type=PATH),
        click.Argument(["text"], nargs=-1, metavar="[QUERY]..."),
        Option(["-k"], type=click.IntRange(1, 100_000), default=10, help="Number of answers per query.  [default: 10]"),
        Option(["--queries"], type=PATH, metavar="FILE", help="Read queries from a file, one per line."),
        *answer_options(),
    ],
    callback=_query,
    example=_EXAMPLES,
    help=_query.__doc__,
    json="Same as --format json: one object per hit; without QUERY, also one object at the end of each query.",
    quiet="Print nothing but the answers and errors.",
    verify="artifact's",
)


def _list(opened: "OpenIndex", answers: Answers, k: int, options: QueryOptions, *, quiet: bool) -> int:
    """Print the rows of which a condition is true, or all in an order, k of them; return how many are printed."""
    found, n_rows = opened.fulfilling(options, k)
    for remark in () if quiet else found.remarks:
        say(remark)
    answers.print(found)
    if not quiet:
        _say_how_many(len(found.hits), n_rows, options, "the condition" if options.where else "")
    return len(found.hits)


def _say_of_more(opened: "OpenIndex", result: "QueryResult", k: int, options: QueryOptions, form: str) -> None:
    """Say how many rows match a query, where a list that is cut may look whole: in a table, and without a ranking."""
    is_ranked = len({hit["score"] for hit in result.hits}) > 1
    if len(result.hits) == k > 1 and (form == "csv" or not is_ranked):
        _say_how_many(k, opened.count_all([result.query], options)[0], options, "the query")


def _say_how_many(shown: int, there: int, options: QueryOptions, what: str) -> None:
    """Say how many of the rows that match a query or a condition, or of all, are shown, where there are more."""
    last = options.offset + shown
    if there > last:
        rows = f"{options.offset + 1:,} to {last:,}" if options.offset else f"{last:,}"
        say(
            f"shown: {rows} of {there:,} rows{what and f' that match {what}'}; to see more rows, use a larger -k, or --offset"
        )


def _any_of(lines: Iterator[str] | None) -> Iterator[str] | None:
    """Return the lines of a query once the first has come; None if there are none."""
    from wordpipe.errors import InputError

    try:
        return None if lines is None else chain([next(lines)], lines)
    except InputError:
        return None


def _answered(
    ask: "Callable[[list[str]], list[T]]", texts: list[str], nothing: "Callable[[str], T]", *, strict: bool
) -> "list[T]":
    """Return what is answered to some queries; of many lines, a bad one is named and skipped, and answered with nothing."""
    from wordpipe.errors import ConfigError, InputError

    try:
        return ask(texts)
    except (ConfigError, InputError) as error:
        if strict:
            raise
        if len(texts) == 1:
            say(f"skipped: {error.message}")
            return [nothing(texts[0])]
    return [one for text in texts for one in _answered(ask, [text], nothing, strict=False)]


def _remarks(result: "QueryResult", options: QueryOptions) -> Iterator[str]:
    """Yield remarks on a result: words that have no vector, or one guessed from their letters."""
    from wordpipe.errors import shortened

    yield from result.remarks
    for word, meant in result.corrected.items():
        typed = shortened(word, _SHOWN)
        yield f"searched for {meant} instead of {typed}, which no text contains; --exact searches for {typed}"
    if result.guessed:
        yield f"vectors computed from the letters of unknown words: {shortened(', '.join(result.guessed), _SAID)}"
    if result.by_words:
        words = shortened(", ".join(result.by_words), _SAID)
        if result.mode == "lexical":
            yield f"no vector for: {words}; the search was done only by words"
        else:
            yield f"no vector for: {words}; the search was done by vectors and by words"
    unknown = [(word, near) for word, near in result.unknown.items() if word not in result.by_words]
    if unknown:
        named = (f"{word} (did you mean {', '.join(near)}?)" if near else word for word, near in unknown)
        what = "no vector for" if result.mode == "dense" else "unknown"  # the texts may have it
        yield f"{what}: {shortened(', '.join(named), _SAID)}"
        if result.mode == "dense" and options.mode == "auto" and options.min_score is not None:
            yield "the search was done only by vectors, because --min-score is compared with cosines"


_EXAMPLES_OF_SEARCH = """wordpipe search "how do bees find their way" notes/
wordpipe search 'tides -moon "spring tide"' papers/ records.csv
journalctl | wordpipe search "disk full" --documents line"""


def _search(
    question: str | None, source: tuple[str, ...], *, k: int, count: bool, form: str | None, lists: bool, clears: bool,
    as_json: bool, quiet: bool, verify: bool, **given: Any,
) -> None:  # fmt: skip
    """Search files, folders, records or standard input by words.

    SOURCE: files, folders or globs; - for standard input; an index, or a folder with one. Without SOURCE: standard input if it
    is a pipe or a file, otherwise this folder.

    Nothing has to be made first. The texts are read, and an index of their words is kept in the cache, in a folder that only
    you can read ($XDG_CACHE_HOME/wordpipe/search). The next search reads only the files that have changed.

    QUESTION is one argument: put several words into quotes. It may have operators: "an exact phrase", -without, +with, begin*,
    FIELD:VALUE, FIELD:LOW..HIGH, OR, AND, NOT and brackets. --exact searches for the words alone.
    """
    from wordpipe.corpus.settings import OF_SEARCH
    from wordpipe.errors import ConfigError, NothingFound
    from wordpipe.stages import RunOptions, files_passed_over, open_sources, remark_on_documents

    # the cache
    if lists or clears:
        if question is not None:
            raise click.UsageError("--cache and --clear take no QUESTION.", click.get_current_context())
        if clears:
            _clear_cache(quiet=quiet)
        if lists:
            _list_cache(as_json=as_json)
        return
    # a question
    if question is None:
        raise click.UsageError("Missing argument 'QUESTION'.", click.get_current_context())
    refuse_words_of_question(question, source)
    options, form = query_options(given), chosen_format(form, as_json=as_json)
    if not question.strip() and not (options.where or options.sort):
        hint = "give a question of at least one word, a condition with --where, or an order with --sort"
        raise ConfigError("the question is empty", hint=hint)
    settings = {name: given[name] for name in OF_SEARCH if given.get(name) is not None}
    with ProgressDrawer(quiet=quiet) as draw:
        opened = open_sources(source or usual_source(), run=RunOptions(report=draw, verify=verify), **settings)
    with opened:
        if options.per_document and not quiet and (remark := remark_on_documents(opened, settings)):
            say(remark)
        try:
            print_answers(opened, options, text=(question,), queries=None, k=k, form=form, quiet=quiet, count=count)
        except NothingFound as error:
            if number := files_passed_over(opened):
                passed = f"{counted(number, 'files')} passed over, which wordpipe search --cache lists"
                error.hint = f"{error.hint}; {passed}" if error.hint else passed
            raise


def _reading_options() -> list[Option]:
    """Return the options of `search` that say how sources are read."""
    from wordpipe.corpus.settings import OF_SEARCH, IngestSettings

    options = [option for option in settings_options(IngestSettings) if option.name in OF_SEARCH]
    for option in options:
        option.section, option.expert = "How the sources are read", True
    return options


def _list_cache(*, as_json: bool) -> None:
    """Print what `search` has in the cache."""
    from wordpipe.stages import cached_searches

    there = cached_searches()
    for one in there:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.asked))
        sources = escaped(" ".join(shlex.quote(name) for name in one.sources))
        place = f"  (in {escaped(one.folder)})" if one.folder else ""
        how = "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in one.options.items())
        line = f"{when}  {one.texts:>9,} texts  {human_bytes(one.bytes):>8}  {sources}{escaped(how)}{place}"
        click.echo(json.dumps(asdict(one), ensure_ascii=False, default=str) if as_json else line)
        for kind, number in {} if as_json else one.passed_over.items():
            some = [escaped(str(name)) for name in one.names.get(kind, ())]
            more = ", …" * (len(some) < number)
            size = f" ({human_bytes(bytes_of)})" if (bytes_of := one.sizes.get(kind)) else ""
            listed = f"{': ' * bool(some)}{', '.join(some)}{more if some else ''}"
            click.echo(f"  not in it: {number:,} {escaped(kind)}{size}{listed}")
        for warning in () if as_json else one.warnings:
            click.echo(f"  {escaped(warning)}")
    if not as_json:
        size = human_bytes(sum(one.bytes for one in there))
        say(f"indexes in the cache: {len(there)}, {size}; to remove them: wordpipe search --clear")


def _clear_cache(*, quiet: bool) -> None:
    """Remove what `search` has in the cache."""
    from wordpipe.stages import clear_searches

    number, size = clear_searches()
    if not quiet:
        say(f"indexes removed from the cache: {number}, {human_bytes(size)}")


@cache
def _search_command() -> click.Command:
    """Return the command `search`."""
    return _SearchCommand(
        "search",
        params=[
            click.Argument(["question"], required=False, metavar="QUESTION"),
            click.Argument(["source"], nargs=-1, metavar="[SOURCE]..."),
            Option(["-k"], type=click.IntRange(1, 100_000), default=10, help="Number of answers.  [default: 10]"),
            *(option for option in answer_options() if option.name not in _OF_VECTORS),
            *_reading_options(),
            Option(["--cache", "lists"], is_flag=True, help="List the indexes in the cache.", section=COMMON),
            Option(["--clear", "clears"], is_flag=True, help="Remove the indexes from the cache.", section=COMMON),
        ],
        callback=_search,
        example=_EXAMPLES_OF_SEARCH,
        help=_search.__doc__,
        json="Same as --format json: one object per hit.",
        quiet="Print nothing but the answers and errors.",
        verify="index's",
    )


def __getattr__(name: str) -> click.Command:
    """Return `search`, whose options need the settings of `ingest`, which `query` does without."""
    if name != "search":
        raise AttributeError(name)
    return _search_command()
