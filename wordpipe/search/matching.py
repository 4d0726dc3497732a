"""The rows that fulfil the operators of a query: its phrases, its excluded and required words, its fields.

Words are looked up in the postings. A phrase is looked for in the texts of the rows that contain all of its words, so
that it is found as written. Both give masks of rows, which a search by words or by vectors takes as the rows that it may find.
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.search.knn import Mask, Rows
from wordpipe.search.lexical.analysis import is_unspaced
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.letters import folded
from wordpipe.search.question import AllOf, AnyOf, Clause, FieldIs, FieldKind, Not, Phrase, Prefix, Words

_NUMBER = re.compile(r"\s*[-+]?(?:[0-9]{1,300}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?\s*")
_AMOUNT = re.compile(r"([-+]?)[$€£¥₹]?\s?((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s?[$€£¥₹]?")
_PART = re.compile(r"(\w+)([+#]*)")
_WORD_ENDS = r"(?!\w|[+#]+(?!\w))"  # no letter, and none of the signs of C++ and C#, follows


class Searched(Protocol):
    """The N rows that a query searches."""

    @property
    def lexical(self) -> LexicalIndex:
        """The words of the rows."""

    def texts_of(self, rows_R: Rows) -> Iterable[tuple[str, ...]]:
        """Return the texts of R rows, ascending, each in the parts over whose borders no phrase runs: title, text, fields."""

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

    return regex.compile(("" if is_unspaced(text) else r"(?<!\w)") + re.escape(folded(text)))


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
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _concatenated([_list_mask(chunk, clause) for chunk in values.chunks])
    if clause.kind == "text":
        return _text_mask(values, clause)
    return _concatenated([_value_mask(chunk, clause) for chunk in values.chunks])


def _concatenated(masks: Sequence[Mask]) -> Mask:
    return np.concatenate([np.zeros(0, np.bool_), *masks])


def _list_mask(lists: pa.Array, clause: FieldIs) -> Mask:
    """Return which lists of texts have an item that a clause about a field asks for."""
    import pyarrow.compute as pc

    has_I = _text_mask(pa.chunked_array([pc.list_flatten(lists)]), clause)
    found_N = np.zeros(len(lists), np.bool_)
    found_N[pc.list_parent_indices(lists).to_numpy()[has_I]] = True
    return found_N


def _text_mask(texts: pa.ChunkedArray, clause: FieldIs) -> Mask:
    """Return the texts that a clause about a field asks for; each different one is compared once."""
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    chunks = texts.unify_dictionaries().chunks
    if not chunks:
        return np.zeros(0, np.bool_)
    different = [value or "" for value in chunks[0].dictionary.to_pylist()]
    holds = _text_test(clause, different)
    is_true = np.array([bool(value.strip()) and holds(value) for value in different] + [False])
    no_text = len(is_true) - 1
    return _concatenated([is_true[chunk.indices.fill_null(no_text).to_numpy()] for chunk in chunks])


def _value_mask(values: pa.Array, clause: FieldIs) -> Mask:
    """Return the numbers, dates, or values of true and false that a clause about a field asks for."""
    there_N = np.asarray(values.is_valid())
    if clause.kind == "flag":
        wanted = (clause.value or "").lower() in ("true", "yes")
        found_N: Mask = np.asarray(values.fill_null(False)) == wanted
    elif clause.kind == "date":
        found_N = _date_test(clause)(_days_of(values))
    elif pa.types.is_decimal(values.type):
        holds = _number_test(clause)
        found_N = np.array([value is not None and holds(value) for value in values.to_pylist()], np.bool_)
    else:
        numbers_N = values.fill_null(0).to_numpy()
        if numbers_N.dtype.kind == "f":  # the value asked for is no 32-bit number
            numbers_N = numbers_N.astype(np.float64)
        found_N = _number_test(clause)(numbers_N)
    return there_N & found_N


def _days_of(values: pa.Array) -> npt.NDArray[np.datetime64]:
    """Return the days of dates and times, each in its own time zone."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        days = [None if value is None else value.date() for value in values.to_pylist()]
        return np.array(days, "datetime64[D]")
    days_N: npt.NDArray[np.datetime64] = values.to_numpy(zero_copy_only=False).astype("datetime64[D]")
    return days_N


def _text_test(clause: FieldIs, different: Sequence[str]) -> Callable[[str], bool]:
    """Return the function from a text of a field, which is not blank, to True if a clause asks for this text.

    Where all `different` texts of the field are numbers, as in a cell of CSV, a number is compared as one: 5.3 is 5.30.
    """
    if clause.value is None:
        return _text_bounds(clause)
    if clause.name == "id":
        exact = folded(clause.value.removesuffix("*"))
        if clause.value.endswith("*"):
            return lambda value: folded(value).startswith(exact)
        return lambda value: folded(value) == exact
    wanted_number = number_in(clause.value)
    if wanted_number is not None and all(number_in(value) is not None for value in different if value.strip()):
        return lambda value: number_in(value) == wanted_number
    wanted, pattern = clause.value, phrase_pattern(clause.value)
    if pattern is None:  # signs alone
        return lambda value: wanted in value
    if wanted.endswith("*"):
        pattern = re.compile(pattern.pattern.removesuffix(_WORD_ENDS))
    return lambda value: pattern.search(folded(value)) is not None


def _number_test(clause: FieldIs) -> Callable[[Any], Any]:
    """Return the test of a number, or of an array of numbers: equal, or within bounds."""
    if clause.value is not None:
        wanted = _exact(clause.value)
        return lambda value: value == wanted
    low = float("-inf") if clause.low is None else _exact(clause.low)
    high = float("inf") if clause.high is None else _exact(clause.high)
    above, below = operator.gt if clause.open_low else operator.ge, operator.lt if clause.open_high else operator.le
    return lambda value: above(value, low) & below(value, high)


def number_in(text: str) -> float | int | None:
    """Return the finite number that a text is, as people write numbers in a table; None if the text is none.

    >>> number_in("10"), number_in(" 2.50 "), number_in("1e3"), number_in("1_0"), number_in("nan"), number_in("")
    (10, 2.5, 1000.0, None, None, None)
    """
    return _exact(text) if _NUMBER.fullmatch(text) else None


def amount_in(text: str) -> float | int | None:
    """Return the number of a text that is a number, also with commas between thousands and a sign of a currency.

    >>> amount_in("-$9.00"), amount_in("1,200"), amount_in("3,50 €"), amount_in("12.50 €"), amount_in("May 5")
    (-9.0, 1200, None, 12.5, None)
    """
    if (number := number_in(text)) is not None:
        return number
    found = _AMOUNT.fullmatch(text.strip())
    return None if found is None else number_in(found[1] + found[2].replace(",", ""))


def _exact(written: str) -> float | int:
    """Return the number that is written; of a whole number all digits count."""
    try:
        return int(written)
    except ValueError:
        return float(written)


def _date_test(clause: FieldIs) -> Callable[[npt.NDArray[np.datetime64]], Mask]:
    """Return the test of days: within a year, a month or a day, or from one to another."""
    if clause.value is not None:
        low, high = _days(clause.value)
    else:
        low = date.min if clause.low is None else _days(clause.low)[clause.open_low]
        high = date.max if clause.high is None else _days(clause.high)[not clause.open_high]
    begin, end = np.datetime64(low), np.datetime64(high)
    return lambda days_N: (begin <= days_N) & (days_N < end)


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
    """Return the test of a text that lies between two others; texts that begin with the upper one are included.

    Where the bounds are numbers, a text that is a number, or an amount such as $1,200, is compared as one: the cells of CSV
    and TSV are texts. A text that does not begin with a digit lies between no numbers.
    """
    bounds = [bound for bound in (clause.low, clause.high) if bound is not None]
    is_between = _number_test(clause) if all(number_in(bound) is not None for bound in bounds) else None
    low = None if clause.low is None else folded(clause.low)
    high = None if clause.high is None else folded(clause.high)

    def holds(value: str) -> bool:
        if is_between is not None:
            if (number := amount_in(value)) is not None:
                return bool(is_between(number))
            if not value.strip()[:1].isdigit():
                return False
        text = folded(value)
        is_above = low is None or (text > low and not text.startswith(low) if clause.open_low else text >= low)
        if high is None:
            return is_above
        return is_above and (text < high or (not clause.open_high and text.startswith(high)))

    return holds
