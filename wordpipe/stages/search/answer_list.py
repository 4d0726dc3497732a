"""The list of a query's answers: the rows that match at all, counted or sorted by a field; answers that are merely near.

As by vectors every row has a score, a row matches by its words: what a search by words lists.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordpipe.errors import ConfigError
from wordpipe.search import RELATED, Hits, LexicalIndex, Result
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.search.asked_query import Asked, Mask, QueryResult

if TYPE_CHECKING:
    from wordpipe.stages.search.query import OpenTextIndex

_ROUNDING = 1e-6


def matching_rows(index: "OpenTextIndex", asked: Asked, options: QueryOptions) -> Mask:
    """Return the rows of an index that match a query, (N,): those of which all of this is true.

    - The condition is true, and the row fulfils the operators of the query.
    - The row contains a word of the query. With mode dense words do not matter: every row with a vector matches.
    - Its BM25 score is at least `min_score`, if that is given.

    A blank query matches every row of which the condition is true; without a condition it matches none.

    Raises:
        ConfigError: `min_score` is a score of another kind.
    """
    allowed = index.allowed(options)
    found_N = np.ones(len(index), np.bool_) if allowed is None else allowed.copy()
    if options.min_score is not None and index.mode(options) != "lexical":
        what = "rows are counted and sorted by the words in them, so min_score needs mode = lexical"
        raise ConfigError(what, where="min_score", got=options.min_score)
    if not asked.text.strip():
        return found_N if options.where is not None else np.zeros(len(index), np.bool_)
    # operators
    if asked.rows is not None:
        found_N &= asked.rows
    # vectors, or words
    if options.mode == "dense":
        if index.with_vector is not None:
            found_N &= np.isin(np.arange(len(index)), index.with_vector)
    elif not index.lists(asked):
        holding_N = index.lexical.holding(asked.words, asked.prefixes)
        found_N &= False if holding_N is None else holding_N
        if options.min_score is not None:
            rows_R = np.flatnonzero(found_N)
            scores_R = index.lexical.score_rows(index.lexical.read(asked.words, asked.prefixes), rows_R)
            found_N[rows_R] = scores_R >= options.min_score
    return found_N


def sorted_answers(index: "OpenTextIndex", asked: Asked, k: int, options: QueryOptions) -> QueryResult:
    """Return k rows of an index that match a query in the order of a field, each with its BM25 score.

    A score is 1 where the query has operators alone. Of each document the first row in this order counts, if only one of each
    is wanted.

    Raises:
        ConfigError: see `matching_rows`.
    """
    assert options.sort is not None
    rows_R = index.row_facts.sorted(np.flatnonzero(matching_rows(index, asked, options)), options.sort)
    if options.per_document:
        _, first = np.unique(index.documents[rows_R], return_index=True)
        rows_R = rows_R[np.sort(first)]
    # the scores of the rows that are shown
    rows_R, lists = rows_R[: k + options.offset], index.lists(asked)
    terms = index.lexical.read(asked.words, asked.prefixes)
    found = Hits(rows_R, np.ones(len(rows_R), np.float32) if lists else index.lexical.score_rows(terms, rows_R))
    (hits,) = index.rows_of([found], options.offset)
    if options.explain:
        index.explain(asked, "lexical", Result(found, lexical=None if lists else found), hits, options)
    return QueryResult(
        asked.text, hits, index.lexical.strangers(asked.words), mode="lexical", corrected={**asked.corrected},
        remarks=[*asked.remarks], searched=index.marked_words(asked),
    )  # fmt: skip


def mark_related(lexical: LexicalIndex, asked: Asked, hits: Sequence[dict[str, Any]]) -> None:
    """Say of each hit of a query by words, or by words and vectors, whether it fulfils the query: `related` true or false.

    It does if it contains half of the words of the query, each word by its idf (see `RELATED`).
    """
    rows_R = np.array([hit["row"] for hit in hits], np.int64)
    for hit, share in zip(hits, lexical.shares_of_words(asked.words, rows_R, asked.prefixes).tolist(), strict=True):
        hit["related"] = share >= RELATED - _ROUNDING


def less_related_from(hits: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the first hit after all that fulfil the query; None where there is none, or nothing is known.

    >>> less_related_from([{"related": True}, {"related": False}, {"related": True}, {"related": False}])
    3
    """
    related = [bool(hit.get("related", True)) for hit in hits]
    place = len(related) - next((n for n, one in enumerate(reversed(related)) if one), len(related))
    return place if place < len(related) else None
