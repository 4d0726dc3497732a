"""The rows that fulfil the operators of a query: its phrases, its excluded and required words, its fields.

Words are looked up in the postings. A phrase is looked for in the texts of the rows that contain all of its words, so
that it is found as written. Both give masks of rows, which a search by words or by vectors takes as the rows that it may find.
"""

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from wordpipe.search.knn import Mask, Rows
from wordpipe.search.lexical.analysis import folded, is_unspaced
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.question import AllOf, AnyOf, Clause, FieldIs, FieldKind, Not, Phrase, Prefix, Words

_PART = re.compile(r"(\w+)([+#]*)")
_WORD_ENDS = r"(?!\w|[+#]+(?!\w))"  # no letter, and none of the signs of C++ and C#, follows


class Searched(Protocol):
    """The N rows that a query searches."""

    @property
    def lexical(self) -> LexicalIndex:
        """The words of the rows."""

    def texts_of(self, rows_R: Rows) -> Iterable[tuple[str, ...]]:
        """Return the texts of R rows, ascending, each in the parts in which it is indexed: title and text, or text."""

    def field_values(self, name: str) -> pa.ChunkedArray:
        """Return the values of a field, (N,)."""


def rows_matching(clause: Clause, searched: Searched, among: Mask | None = None) -> Mask:
    """Return the rows that meet a clause, (N,); of rows that are not `among` the mask says False."""
    some = np.ones(len(searched.lexical), np.bool_) if among is None else among
    return _Matcher(searched).of(clause, some)


class _Matcher:
    """A finder of the rows of each kind of clause."""

    def __init__(self, searched: Searched) -> None:
        self._searched = searched

    def of(self, clause: Clause, among: Mask) -> Mask:
        """Return the rows among some that meet a clause."""
        match clause:
            case AllOf():  # what reads texts comes last, when few rows are left
                for part in sorted(clause.parts, key=_cost):
                    among = self.of(part, among)
                return among
            case AnyOf():
                found = np.zeros(len(among), np.bool_)
                for part in sorted(clause.parts, key=_cost):
                    found |= self.of(part, among & ~found)
                return found
            case Not():
                return among & ~self.of(clause.part, among)
            case Words():
                return self._words(clause.text, among)
            case Phrase():
                return self._phrase(clause.text, among)
            case Prefix():
                sure_N, other_N = self._searched.lexical.beginning(clause.text)
                return (among & sure_N) | self._in_texts(prefix_pattern(clause.text), among & other_N & ~sure_N)
            case FieldIs():
                return among & field_mask(self._searched.field_values(clause.name), clause)

    def _words(self, text: str, among: Mask) -> Mask:
        """Return the rows that contain all words of a text; a word that is not indexed is looked for in the texts."""
        for word in text.split():
            rows_N = self._searched.lexical.with_all(word)
            if rows_N is not None:
                among = among & rows_N
            elif pattern := phrase_pattern(word):
                among = self._in_texts(pattern, among)
        return among

    def _phrase(self, text: str, among: Mask) -> Mask:
        """Return the rows that contain the words of a text next to each other."""
        pattern = phrase_pattern(text)
        if pattern is None:
            return among
        rows_N = self._searched.lexical.with_all(text)
        return self._in_texts(pattern, among if rows_N is None else among & rows_N)

    def _in_texts(self, pattern: Any, among: Mask) -> Mask:
        """Return the rows among some whose texts a pattern is found in."""
        rows_R, found_N = np.flatnonzero(among), np.zeros(len(among), np.bool_)
        if len(rows_R):
            texts = self._searched.texts_of(rows_R)
            is_found = (any(pattern.search(folded(part)) for part in parts) for parts in texts)
            found_N[rows_R] = np.fromiter(is_found, np.bool_, len(rows_R))
        return found_N


def _cost(clause: Clause) -> int:
    """Return a rank of how long a clause takes."""
    match clause:
        case Words() | Prefix():
            return 0
        case FieldIs():
            return 1
        case Phrase():
            return 2
        case Not():
            return _cost(clause.part)
        case _:
            return max(map(_cost, clause.parts))


@cache
def _other_words() -> Any:
    """Return the pattern of a word with the signs after it, in any script."""
    import regex

    return regex.compile(r"([\w\p{M}]+)([+#]*)")


def phrase_pattern(text: str) -> Any:
    """Return the pattern that finds the words of a text, as written, next to each other in a folded text; None without words.

    Between two words any signs but letters may stand, so that "progress bar" finds progress-bar; scripts without spaces are
    found inside longer runs.
    """
    plain = folded(text)
    is_ascii = plain.isascii()
    words = (_PART if is_ascii else _other_words()).findall(plain)
    if not words:
        return None
    # of scripts without spaces each character is a part, which white space may separate from the next
    pattern, before = "", ""
    for word, signs in words:
        is_open = is_unspaced(word)
        shown = r"\s*".join(map(re.escape, word)) if is_open else re.escape(word)
        if not before:
            pattern += "" if is_open else r"(?<!\w)"
        else:
            pattern += r"[\W_]*" if is_open and before == "open" else r"(?![+#])[\W_]+"
        pattern += shown + re.escape(signs)
        before = "open" if is_open else "word"
    if before == "word":
        pattern += _WORD_ENDS
    if is_ascii:
        return re.compile(pattern)
    import regex

    return regex.compile(pattern)


def prefix_pattern(text: str) -> Any:
    """Return the pattern that finds a word that begins like this in a folded text."""
    import regex

    return regex.compile(r"(?<!\w)" + re.escape(folded(text)))


# ---- fields


def field_kind(kind: pa.DataType) -> FieldKind | None:
    """Return the kind of a field by the type of its column; None where `field:value` cannot ask for its values."""
    if pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "text" if field_kind(kind.value_type) == "text" else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "date" if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else None


def field_mask(values: pa.ChunkedArray, clause: FieldIs) -> Mask:
    """Return the rows whose value a clause asks for, (N,); False for a row without a value.

    A text is compared without case and marks: its words must be in the field, next to each other. A list has the value if one
    of its items has.
    """
    holds = _test(clause)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        found = [any(item is not None and holds(item) for item in items or ()) for items in values.to_pylist()]
        return np.array(found, np.bool_)
    if clause.kind != "text":
        return np.array([value is not None and holds(value) for value in values.to_pylist()], np.bool_)
    # of texts each different one is compared once
    texts = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    is_true = np.array([value is not None and holds(value) for value in coded.dictionary.to_pylist()] + [False])
    places_N = np.full(len(coded), len(is_true) - 1)  # a null is no text
    has_value_N = np.asarray(coded.is_valid())
    places_N[has_value_N] = coded.indices.drop_null().to_numpy()
    found_N: Mask = is_true[places_N]
    return found_N


def _test(clause: FieldIs) -> Callable[[Any], bool]:
    """Return the function from one value of a field to True if a clause asks for this value."""
    if clause.kind == "flag":
        wanted = (clause.value or "").lower() in ("true", "yes")
        return lambda value: value is wanted
    if clause.kind == "number":
        return _number_test(clause)
    if clause.kind == "date":
        return _date_test(clause)
    if clause.value is None:
        return _text_bounds(clause)
    if clause.name == "id":
        exact = folded(clause.value)
        return lambda value: folded(str(value)) == exact
    pattern = phrase_pattern(clause.value)
    if pattern is None:  # signs alone
        return lambda value: clause.value in value
    if clause.value.endswith("*"):
        pattern = re.compile(pattern.pattern.removesuffix(_WORD_ENDS))
    return lambda value: pattern.search(folded(value)) is not None


def _number_test(clause: FieldIs) -> Callable[[Any], bool]:
    """Return the test of a number: equal, or within bounds."""
    if clause.value is not None:
        wanted = float(clause.value)
        return lambda value: value == wanted
    low = float("-inf") if clause.low is None else float(clause.low)
    high = float("inf") if clause.high is None else float(clause.high)
    return lambda value: (
        (value > low if clause.open_low else value >= low) and (value < high if clause.open_high else value <= high)
    )


def _date_test(clause: FieldIs) -> Callable[[Any], bool]:
    """Return the test of a date or a time: within a year, a month or a day, or from one to another."""
    if clause.value is not None:
        begin, end = _days(clause.value)
        return lambda value: begin <= _day(value) < end
    low = date.min if clause.low is None else _days(clause.low)[clause.open_low]
    high = date.max if clause.high is None else _days(clause.high)[not clause.open_high]
    return lambda value: low <= _day(value) < high


def _day(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _days(written: str) -> tuple[date, date]:
    """Return the first day of a year, a month or a day, and the day after its last."""
    year, month, day = (int(part) for part in (written + "-01-01")[:10].split("-"))
    if len(written) == 4:
        return date(year, 1, 1), date(min(year + 1, date.max.year), 1, 1)
    if len(written) == 7:
        return date(year, month, 1), date(year + month // 12, month % 12 + 1, 1)
    first = date(year, month, day)
    return first, date.fromordinal(first.toordinal() + 1)


def _text_bounds(clause: FieldIs) -> Callable[[Any], bool]:
    """Return the test of a text that lies between two others; texts that begin with the upper one are included."""
    low = None if clause.low is None else folded(clause.low)
    high = None if clause.high is None else folded(clause.high)

    def holds(value: str) -> bool:
        text = folded(value)
        is_above = low is None or (text > low and not text.startswith(low) if clause.open_low else text >= low)
        if high is None:
            return is_above
        return is_above and (text < high or (not clause.open_high and text.startswith(high)))

    return holds
