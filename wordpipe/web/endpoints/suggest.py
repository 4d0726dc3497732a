"""Queries that are suggested: `/suggest`, an unfinished one completed, or, of none, some to begin with."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

from wordpipe.errors import ConfigError
from wordpipe.search import LEXICAL
from wordpipe.stages import OpenTextIndex
from wordpipe.web.endpoint import Answer, At, Endpoint, artifact_param, endpoint, param
from wordpipe.web.endpoints.search import checked_query
from wordpipe.web.params import GIVEN, TEXT, fields, listing

_MAX_SUGGESTED = 50
_PLACES, _IN_A_ROW = 16, 16  # places of an index, and rows from each, that are read for queries to begin with
_READ = 2_000  # characters of a text
_WORDS, _LETTERS = (2, 9), 70  # of a title that is a query
_PAIR = re.compile(r"(?<![\w'’-])(?=([^\W\d_][\w'’-]{2,30} [^\W\d_][\w'’-]{2,30})(?![\w'’-]))")
_WORD = re.compile(r"(?<![\w'’-])(?=([^\W\d_][\w'’-]{2,30})(?![\w'’-]))")
_ROWS_WITH = 2  # that have a pair of words, at least

_SUGGESTIONS = Answer("Suggestions", fields({
    "index": TEXT, "digest": TEXT, "query": TEXT, "suggestions": listing(fields({"word": TEXT, "query": TEXT})),
}))  # fmt: skip


@endpoint("/suggest", can="search", answer=_SUGGESTIONS)
class Suggest(Endpoint):
    """Words of the texts that the last word of an unfinished query may become, the most frequent first; or queries."""

    q: str = param(
        "", "the query, whose last word is not finished; empty: some queries to begin with", example="how do be", each=True,
        check=checked_query, schema=GIVEN,
    )  # fmt: skip
    k: int = param(8, "maximum number of suggestions", ge=1, le=_MAX_SUGGESTED)
    index: tuple[str, ...] | None = artifact_param("an index of texts", several=True)

    @classmethod
    def answer(cls, at: At, items: Sequence[Self]) -> list[dict[str, Any]]:
        """Return for `/suggest` the completions of each query, or some queries to begin with."""
        opened = at.opened
        if not isinstance(opened, OpenTextIndex):
            raise ConfigError("only an index over texts can suggest words", where=at.served.name, got=opened.kind)
        found = []
        for one in items:
            if one.q:
                before, _, begun = one.q.rpartition(" ")
                words = opened.completions(begun, one.k)
                said = [{"word": word, "query": f"{before} {word}".strip()} for word in words]
            else:
                first = at.generation.remember("queries", lambda: queries_to_begin_with(opened))
                said = [{"word": "", "query": query} for query in _spread(first, one.k)]
            found.append({"query": one.q, "suggestions": said})
        return found


def queries_to_begin_with(opened: OpenTextIndex) -> list[str]:
    """Return queries for `/suggest` that find something: titles of an index, else pairs of words of several texts, else words.

    They are those of at most 256 rows, at 16 places: the same each time, in a few milliseconds.
    """
    starts = {len(opened) * place // _PLACES for place in range(_PLACES)}
    rows = sorted({row for start in starts for row in range(start, min(start + _IN_A_ROW, len(opened)))})
    read = opened.row_reader(rows)
    titles = dict.fromkeys(" ".join(str(row.get("title") or "").split()) for row in read)
    good = [one for one in titles if len(one) <= _LETTERS and _WORDS[0] <= len(one.split()) <= _WORDS[1]]
    texts = [str(row["text"])[:_READ] for row in read]
    return good or _frequent(opened, texts, _PAIR) or _frequent(opened, texts, _WORD)


def _frequent(opened: OpenTextIndex, texts: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """Return for `/suggest` words, or pairs of words, of several texts, the most frequent first, each word once."""
    first: OpenTextIndex = getattr(opened, "parts", [opened])[0]
    if not first.artifact.names(LEXICAL):
        return []
    counts = Counter(phrase for text in texts for phrase in {one[1].lower() for one in pattern.finditer(text)})
    found, taken = list[str](), set[str]()
    for phrase, n in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        words = phrase.split()
        if n < _ROWS_WITH or len(found) == _MAX_SUGGESTED:
            break
        if taken.isdisjoint(words) and all(map(first.lexical.analyser, words)):  # no small words
            taken.update(words)
            found.append(phrase)
    return found


def _spread(queries: Sequence[str], n: int) -> list[str]:
    """Return n of the queries that `/suggest` knows, from all of its index.

    >>> _spread(["a", "b", "c", "d", "e", "f"], 3)
    ['a', 'c', 'e']
    """
    return [queries[len(queries) * place // n] for place in range(n)] if len(queries) > n else [*queries]
