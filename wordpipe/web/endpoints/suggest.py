"""Queries that are suggested: `/suggest`, an unfinished one completed, or, of none, some to begin with."""

from collections.abc import Sequence
from typing import Any, Self

from wordpipe.errors import ConfigError
from wordpipe.stages import OpenTextIndex, queries_to_begin_with, spread
from wordpipe.web.endpoint import Answer, At, Endpoint, artifact_param, endpoint, param
from wordpipe.web.endpoints.search import checked_query
from wordpipe.web.params import GIVEN, TEXT, fields, listing

_MAX_SUGGESTED = 50

_SUGGESTIONS = Answer("Suggestions", fields({
    "index": TEXT, "digest": TEXT, "query": TEXT, "suggestions": listing(fields({"word": TEXT, "query": TEXT})),
}))  # fmt: skip


@endpoint("/suggest", group="Search", place=4, can="search", answer=_SUGGESTIONS)
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
                said = [{"word": "", "query": query} for query in spread(first, one.k)]
            found.append({"query": one.q, "suggestions": said})
        return found
