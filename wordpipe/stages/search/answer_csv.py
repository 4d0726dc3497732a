"""The hits of queries as CSV (RFC 4180), for spreadsheets and data frames: all fields, one line for each hit.

A spreadsheet takes a cell that begins with one of `= + - @` for a formula, which may send what stands beside it to somebody:
texts of others are no formulas, so such a text has an apostrophe before it, which spreadsheets take for "this is text".
Numbers are as they are.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wordpipe.artifacts import is_ours, read_schema, user_name
from wordpipe.stages.search.opened_artifact import OpenArtifact
from wordpipe.wording import safe_text

_FORMULA = re.compile("[=+\\-@\t\r＝＋－＠]")  # the wide ones, too
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*")
_DIGITS = 6  # of a score
_OF_WORDS = ("rank", "score", "word", "count")
_OF_TEXTS = ("rank", "score", "id", "title", "text", "place")


class CsvAnswers:
    """A writer of hits as the lines of a CSV table.

    Args:
        opened: what was asked.
        titled: whether the first column is the query.
        explained: whether the last column is the explanation of the score, as JSON.
    """

    def __init__(self, opened: OpenArtifact, *, titled: bool = False, explained: bool = False) -> None:
        self._titled, self._explained = titled, explained
        columns = read_schema(opened.artifact, opened.kind)
        is_texts = "doc_id" in columns.names
        self._own = _OF_TEXTS if is_texts else _OF_WORDS
        names = [user_name(column) for column in columns if not is_ours(column)] if is_texts else []
        self._fields = {name: name for name in names}
        taken = {"query", "explain", *self._own}
        for name in names:
            while self._fields[name] in taken:
                self._fields[name] = f"metadata.{self._fields[name]}"
            taken.add(self._fields[name])

    @property
    def header(self) -> str:
        """The line with the names of the columns."""
        names = [*(["query"] if self._titled else []), *self._own, *self._fields.values()]
        return csv_line([*names, *(["explain"] if self._explained else [])])

    def lines(self, query: str, hits: Iterable[Mapping[str, Any]]) -> str:
        """Return a line for each hit of a query."""
        return "".join(csv_line(self._cells(query, hit)) for hit in hits)

    def _cells(self, query: str, hit: Mapping[str, Any]) -> list[Any]:
        """Return the values of the columns for one hit."""
        score = None if hit.get("score") is None else round(float(hit["score"]), _DIGITS)
        own = {**hit, "score": score, "place": csv_place(hit)}
        metadata = hit.get("metadata") or {}
        values = [own.get(name) for name in self._own] + [metadata.get(name) for name in self._fields]
        return [*([query] if self._titled else []), *values, *([hit.get("explain")] if self._explained else [])]


def csv_line(values: Sequence[Any]) -> str:
    r"""Return values as one line of CSV, which ends in CR LF; a missing one is empty, lists and objects are JSON.

    >>> csv_line([1, 0.5, None, True, "a, b", "=SUM(A1)", "-3", -3, ["x"]])
    '1,0.5,,true,"a, b",\'=SUM(A1),-3,-3,"[""x""]"\r\n'
    """
    line = io.StringIO()
    csv.writer(line).writerow([_cell(value) for value in values])
    return line.getvalue()


def csv_place(hit: Mapping[str, Any]) -> str:
    """Return the place of a hit for CSV: source#anchor:line; empty where it has no source."""
    if not hit.get("source"):
        return ""
    anchor = str(hit.get("anchor") or "").removeprefix("#")
    return f"{hit['source']}{f'#{anchor}' if anchor else ''}:{hit['line']}"


def _cell(value: Any) -> Any:
    """Return a value as it stands in a cell of CSV."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, bool | list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = safe_text(str(value))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
