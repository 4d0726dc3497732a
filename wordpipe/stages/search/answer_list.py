"""The list of a query's answers: the rows that match at all, counted or sorted by a field; answers merely near; CSV.

As by vectors every row has a score, a row matches by its words: what a search by words lists.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import is_ours, read_schema, user_name
from wordpipe.errors import ConfigError
from wordpipe.search import RELATED, Analyser, Hits, LexicalIndex, Result, fields_of_hit, fields_with, texts_in
from wordpipe.search.settings import QueryOptions
from wordpipe.stages.search.asked_query import Asked, Mask, QueryResult
from wordpipe.stages.search.opened_artifact import OpenArtifact
from wordpipe.stages.search.row_facts import with_file_name
from wordpipe.wording import place_of_hit, safe_text

if TYPE_CHECKING:
    from wordpipe.stages.search.query import OpenTextIndex

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

_ROUNDING = 1e-6
_FORMULA = re.compile("[=+\\-@\t\r＝＋－＠]")  # the wide ones, too
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*")
_DIGITS = 6  # of a score
_OF_WORDS = ("rank", "score", "word", "count")
_OF_TEXTS = ("rank", "score", "id", "title", "text", "place")


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
        holding_N = rows_holding(index.lexical_of(asked), asked)
        found_N &= False if holding_N is None else holding_N
        if options.min_score is not None:
            rows_R = np.flatnonzero(found_N)
            scores_R = scores_of_words(index.lexical_of(asked), asked, rows_R)
            found_N[rows_R] = scores_R >= options.min_score
    return found_N


def sorted_answers(index: "OpenTextIndex", asked: Asked, k: int, options: QueryOptions) -> QueryResult:
    """Return k rows of an index that match a query in the order of a field, each with its BM25 score.

    Those that fulfil the query come first, then the merely near ones, each kind in this order: of a question of some words a
    text may have the least one alone. A score is 1 where the query has operators alone. Of each document the first row in
    this order counts, if only one of each is wanted.

    Raises:
        ConfigError: see `matching_rows`.
    """
    assert options.sort is not None
    rows_R = index.row_facts.sorted(np.flatnonzero(matching_rows(index, asked, options)), options.sort)
    rows_R = rows_R[np.argsort(~fulfilled(index, asked, rows_R), kind="stable")]
    if options.per_document:
        rows_R = _first_of_documents(index, rows_R)
    # the scores of the rows that are shown
    rows_R, lists = rows_R[: k + options.offset], index.lists(asked)
    scores_R = np.ones(len(rows_R), np.float32) if lists else scores_of_words(index.lexical_of(asked), asked, rows_R)
    found = Hits(rows_R, scores_R)
    return _answers_of(index, asked, found, None if lists else found, options)


def _first_of_documents(index: "OpenTextIndex", rows_R: Rows) -> Rows:
    """Return the first of some rows of each document."""
    _, first = np.unique(index.documents[rows_R], return_index=True)
    return rows_R[np.sort(first)]


def _answers_of(
    index: "OpenTextIndex", asked: Asked, found: Hits, worded: Hits | None, options: QueryOptions
) -> QueryResult:
    """Return rows of an index as the answers of a query by words; `worded` are those with a score by words."""
    (hits,) = index.rows_of([found], options.offset)
    if worded is not None:
        mark_related(index.lexical_of(asked), asked, hits)
    if options.explain:
        index.explain(asked, "lexical", Result(found, lexical=worded), hits, options)
    unknown = {} if asked.is_whole else index.lexical_of(asked).strangers(asked.words)
    return QueryResult(
        asked.text, hits, unknown, mode="lexical", corrected={**asked.corrected},
        remarks=[*asked.remarks], searched=index.marked_words(asked), fields=asked.fields, is_of_any=asked.is_of_any,
    )  # fmt: skip


def mark_related(lexical: LexicalIndex, asked: Asked, hits: Sequence[dict[str, Any]]) -> None:
    """Say of each hit of a query by words, or by words and vectors, whether it fulfils the query: `related` true or false.

    It does if it contains half of the words of the query, each word by its idf: see `RELATED`; and where operators say it all.
    None does where the words of the query are in almost every text.
    """
    rows_R = np.array([hit["row"] for hit in hits], np.int64)
    for hit, is_related in zip(hits, _fulfilled_by_words(lexical, asked, rows_R).tolist(), strict=True):
        hit["related"] = is_related


def fulfilled(index: "OpenTextIndex", asked: Asked, rows_R: Rows) -> Mask:
    """Return which rows of an index that match a query fulfil the query, (R,): all, where it lists rows and ranks none."""
    if index.lists(asked):
        return np.ones(len(rows_R), np.bool_)
    return _fulfilled_by_words(index.lexical_of(asked), asked, rows_R)


def _fulfilled_by_words(lexical: LexicalIndex, asked: Asked, rows_R: Rows) -> Mask:
    """Return which rows fulfil a query of words, (R,); see `mark_related`."""
    if asked.says_little or asked.takes_all:
        return np.full(len(rows_R), not asked.says_little)
    is_related_R: Mask = lexical.shares_of_words(asked.words, rows_R, asked.prefixes) >= RELATED - _ROUNDING
    return is_related_R


def mark_fields(lexical: LexicalIndex, asked: Asked, hits: Sequence[dict[str, Any]]) -> None:
    """Say of each hit in which fields it has words of the query that its text has not: `found_in`, in the order of the fields.

    And say it of each term of an explanation, as `fields`, and, as `word`, how the hit writes it.
    """
    for hit in hits:
        if terms := ((hit.get("explain") or {}).get("lexical") or {}).get("terms"):
            _mark_words(lexical.analyser, asked.words, hit, terms)
    texts = lexical.texts(np.array([hit["row"] for hit in hits], np.int64))
    beside = np.flatnonzero(texts.counts == 0)
    if not len(beside):  # as where no fields are searched
        return
    beside = beside[np.isin(texts.numbers[beside], lexical.read(asked.words, asked.prefixes).numbers)]
    for at in np.unique(texts.at[beside]).tolist():
        own, hit = texts.numbers[beside[texts.at[beside] == at]].tolist(), hits[at]
        stems = set().union(*map(lexical.stems_of, own))
        explained = ((hit.get("explain") or {}).get("lexical") or {}).get("terms", ())
        of_fields = [term for term in explained if not term["count"]]  # with those that feedback added
        found = fields_with(stems.union(term["stem"] for term in of_fields), with_file_name(hit), lexical.analyser)
        hit["found_in"] = [name for name, some in found.items() if not stems.isdisjoint(some)]
        for term in of_fields:
            term["fields"] = [name for name, some in found.items() if term["stem"] in some]


def _mark_words(analyser: Analyser, query: str, hit: Mapping[str, Any], terms: Sequence[dict[str, Any]]) -> None:
    """Say of each term of an explanation how the hit writes it most often: in text and title, else in its fields.

    A term that stands in none of them is written as in the query, or as it is.
    """
    fields = " ".join(text for value in fields_of_hit(with_file_name(hit)).values() for text in texts_in(value))
    forms = dict[str, str]()
    for text in (f"{hit.get('title') or ''}\n{hit.get('text') or ''}", fields, query):
        written = Counter((stem, text[start:stop]) for start, stop, stem in analyser.places(text))
        for (stem, word), _ in written.most_common():
            forms.setdefault(stem, "".join(word.split()))
    for term in terms:
        term["word"] = forms.get(term["stem"], term["stem"])


def rows_holding(lexical: LexicalIndex, asked: Asked) -> Mask | None:
    """Return the rows that have a word of a query, or come first whatever they have, (N,); None where there are none."""
    if asked.takes_all:
        return asked.rows
    held_N = lexical.holding(asked.words, asked.prefixes)
    return held_N if asked.first is None else asked.first if held_N is None else held_N | asked.first


def with_first(lexical: LexicalIndex, asked: Asked, found: Hits, allowed: Mask | None) -> Hits:
    """Return the hits of a query with the rows that come first before the others; each has its score by words."""
    if asked.first is None:
        return found
    rows_R = np.flatnonzero(asked.first if allowed is None else asked.first & allowed)
    others = found.where(~np.isin(found.rows, rows_R))
    scores_R = scores_of_words(lexical, asked, rows_R)
    return Hits(np.concatenate([rows_R, others.rows]), np.concatenate([scores_R, others.scores]))


def with_all(asked: Asked, found: Hits, allowed: Mask | None) -> Hits:
    """Return the hits of a query, then the rows without a word of it that its operators allow."""
    assert asked.rows is not None
    others_N = asked.rows.copy() if allowed is None else asked.rows & allowed
    others_N[found.rows] = False
    others_R = np.flatnonzero(others_N)
    scores = np.concatenate([found.scores, np.zeros(len(others_R), found.scores.dtype)])
    return Hits(np.concatenate([found.rows, others_R]), scores)


def scores_of_words(lexical: LexicalIndex, asked: Asked, rows_R: Rows) -> Floats:
    """Return the scores of some rows by the words of a query, (R,)."""
    return lexical.score_rows(lexical.read(asked.words, asked.prefixes), rows_R)


def less_related_from(hits: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the first of the hits that are merely near at the end of a list; None where the list has none there.

    >>> less_related_from([{"related": True}, {"related": False}, {"related": True}, {"related": False}])
    3
    """
    related = [bool(hit.get("related", True)) for hit in hits]
    place = len(related) - next((n for n, one in enumerate(reversed(related)) if one), len(related))
    return place if place < len(related) else None


class CsvAnswers:
    """A writer of hits as the lines of a table in CSV (RFC 4180), for spreadsheets and data frames: all fields.

    A spreadsheet takes a cell that begins with one of `= + - @` for a formula, which may send what stands beside it to
    somebody: texts of others are no formulas, so such a text has an apostrophe before it, which spreadsheets take for "this is
    text". Numbers are as they are.

    Args:
        opened: what was asked.
        titled: whether the first column is the query.
        explained: whether the last column is the explanation of the score, as JSON.
        linked: whether it is a table for people: a column has the link of a hit, the last one the address of the list, and
            the values of a list have commas between them.
    """

    def __init__(
        self, opened: OpenArtifact, *, titled: bool = False, explained: bool = False, linked: bool = False
    ) -> None:
        self._titled, self._explained, self._linked = titled, explained, linked
        parts: list[OpenArtifact] = getattr(opened, "parts", [opened])
        columns = [column for part in parts for column in read_schema(part.artifact, part.kind)]
        is_texts = any(column.name == "doc_id" for column in columns)
        self._own = [
            *(_OF_TEXTS if is_texts else _OF_WORDS),
            *(["index"] if len(parts) > 1 else []),
            *(["link"] if linked else []),
        ]
        names = [*dict.fromkeys(user_name(one) for one in columns if not is_ours(one))] if is_texts else []
        self._fields = {name: name for name in names}
        taken = {"query", "explain", "list", *self._own}
        for name in names:
            while self._fields[name] in taken:
                self._fields[name] = f"metadata.{self._fields[name]}"
            taken.add(self._fields[name])

    @property
    def header(self) -> str:
        """The line with the names of the columns."""
        return csv_line(self._names)

    @property
    def _names(self) -> list[str]:
        names = [*(["query"] if self._titled else []), *self._own, *self._fields.values()]
        return [*names, *(["list"] if self._linked else []), *(["explain"] if self._explained else [])]

    def filled(self, answers: Iterable[tuple[str, Iterable[Mapping[str, Any]]]]) -> str:
        """Return the whole table of queries with their hits, without the columns that are empty in all rows."""
        rows = [self._cells(query, hit) for query, hits in answers for hit in hits]
        empty: tuple[Any, ...] = (None, "", [])
        kept = [at for at in range(len(self._names)) if not rows or any(row[at] not in empty for row in rows)]
        return "".join(csv_line([row[at] for at in kept]) for row in (self._names, *rows))

    def lines(self, query: str, hits: Iterable[Mapping[str, Any]]) -> str:
        """Return a line for each hit of a query."""
        return "".join(csv_line(self._cells(query, hit)) for hit in hits)

    def _cells(self, query: str, hit: Mapping[str, Any]) -> list[Any]:
        """Return the values of the columns for one hit."""
        score = None if hit.get("score") is None else round(float(hit["score"]), _DIGITS)
        own = {**hit, "score": score, "place": place_of_hit(hit)}
        metadata = hit.get("metadata") or {}
        values = [own.get(name) for name in self._own] + [metadata.get(name) for name in self._fields]
        if self._linked:
            values = [", ".join(map(str, one)) if isinstance(one, list) else one for one in (*values, hit.get("list"))]
        return [*([query] if self._titled else []), *values, *([hit.get("explain")] if self._explained else [])]


def csv_line(values: Sequence[Any]) -> str:
    r"""Return values as one line of CSV, which ends in CR LF; a missing one is empty, lists and objects are JSON.

    >>> csv_line([1, 0.5, None, True, "a, b", "=SUM(A1)", "-3", -3, ["x"]])
    '1,0.5,,true,"a, b",\'=SUM(A1),-3,-3,"[""x""]"\r\n'
    """
    line = io.StringIO()
    csv.writer(line).writerow([_cell(value) for value in values])
    return line.getvalue()


def _cell(value: Any) -> Any:
    """Return a value as it stands in a cell of CSV."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, bool | list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = safe_text(str(value))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
