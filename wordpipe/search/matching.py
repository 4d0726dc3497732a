"""The rows that fulfil the operators of a query: its phrases, its excluded and required words, its fields.

Words are looked up in the postings. A phrase is looked for in the texts of the rows that contain all of its words, so
that it is found as written. Both give masks of rows, which a search by words or by vectors takes as the rows that it may find.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wordpipe.search.field_columns import amount_in, is_date, numbers_of, span_of, without_number
from wordpipe.search.hits import Mask, Rows
from wordpipe.search.lexical.analysis import is_unspaced
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.letters import folded
from wordpipe.search.lexical.names import name_of
from wordpipe.search.question import AllOf, AnyOf, Clause, FieldIs, FieldKind, Not, Phrase, Prefix, Words
from wordpipe.wording import counted

_PART = re.compile(r"(\w+)([+#]*)")
_SIGNS = re.compile(r"[-‐‑−./&]+")  # that join words to a name, and stand so in it
_HYPHENS = re.compile("[-‐‑−]")
_MAY_GO_ON = re.compile(r"(?<!\w)\d{4}-\d\d-\d\d$|(?<!\d)\d\d:\d\d(?:\.\d+)?$")  # by a time, or by the Z of its zone
_BEGINS_WITH_TIME = re.compile(r"\d\d:\d\d(?!\w)")
_BEGINS_WITH_HOUR, _LAST_WORD = re.compile(r"\d\d:"), re.compile(r"\w+$")
_JOINED = re.compile(r"\w[^\w\s]+\w")
_AFTER_T = r"(?:(?<!\w)|(?<=\d\d-\d\dt))"  # a time behind its date
_HOUR = 2  # characters
_RANGE = re.compile(
    r"\s*([\d.,/]+|\d{4}-\d\d(?:-\d\d)?)\s*[-–]\s*([\d.,/]+|\d{4}-\d\d(?:-\d\d)?)\s*"
)  # as people write one
_WORDS = re.compile(r"\w+")
_LIKE_DATE = re.compile(r"\d{4}-\d\d(-\d\d)?(?!\d)")
_FEW_VALUES, _NAMED, _LONGEST = (
    100,
    8,
    40,
)  # values of a field of which one may be meant; those that are named; characters
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
            case Prefix() if name_of(clause.text):
                return self._phrase(clause.text, among, is_begun=True)
            case Prefix():
                sure_N, other_N = self._searched.lexical.beginning(clause.text)
                return (among & sure_N) | self._in_texts(prefix_pattern(clause.text), among & other_N & ~sure_N)
            case FieldIs():
                return among & field_mask(self._searched.field_values(clause.name), clause)

    def _words(self, text: str, among: Mask) -> Mask:
        """Return the rows that contain all words of a text; a word that is not indexed is looked for in the texts.

        A name with signs is found as it is in quotes, also as a part of a longer name.
        """
        for word in text.split():
            if name := name_of(word):
                among = self._phrase(name, among)
                continue
            rows_N = self._searched.lexical.with_all(word)
            if rows_N is None:
                pattern = phrase_pattern(word)
                among = self._in_texts(pattern, among) if pattern else among
            elif _JOINED.search(word):  # db-primary in db-primary.internal
                among = (among & rows_N) | self._phrase(word, among & ~rows_N)
            else:
                among = among & rows_N
        return among

    def _phrase(self, text: str, among: Mask, *, is_begun: bool = False) -> Mask:
        """Return the rows that contain the words of a text next to each other; the last one may be a beginning."""
        pattern = phrase_pattern(text, is_begun=is_begun)
        if pattern is None:
            return among
        rows_N = _may_have(self._searched.lexical, text.strip(), is_begun=is_begun)
        return self._in_texts(pattern, among if rows_N is None else among & rows_N)

    def _in_texts(self, pattern: Any, among: Mask) -> Mask:
        """Return the rows among some whose texts a pattern is found in."""
        rows_R, found_N = np.flatnonzero(among), np.zeros(len(among), np.bool_)
        if len(rows_R):
            texts = self._searched.texts_of(rows_R)
            is_found = (any(pattern.search(folded(part)) for part in parts) for parts in texts)
            found_N[rows_R] = np.fromiter(is_found, np.bool_, len(rows_R))
        return found_N


def _may_have(lexical: LexicalIndex, phrase: str, *, is_begun: bool = False) -> Mask | None:
    """Return the rows that have all words of a phrase, (N,), whose last word may be a beginning; None where it has no words.

    The last word of a date, and the first of a time, may be one word with the T between the two: 2024-05-03T10:00Z.
    """
    rest, last_N = phrase, None
    if (last := _LAST_WORD.search(phrase)) and (is_begun or _MAY_GO_ON.search(phrase)):
        sure_N, other_N = lexical.beginning(last[0])
        rest, last_N = phrase[: last.start()], sure_N | other_N
    rest_N = lexical.with_parts(rest[_HOUR:] if _BEGINS_WITH_HOUR.match(rest) else rest)
    return last_N if rest_N is None else rest_N if last_N is None else rest_N & last_N


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


def phrase_pattern(text: str, *, is_begun: bool = False) -> Any:
    """Return the pattern that finds the words of a text, as written, next to each other in a folded text; None without words.

    Between two words any signs but letters may stand, so that "progress bar" finds progress-bar. Hyphens, dots, slashes and &
    without a space stand as they are: "10.0.0.5" finds no other numbers. Scripts without spaces are found inside longer runs.
    If the last word is a beginning (`is_begun`), it may go on.
    """
    plain = folded(text)
    is_ascii = plain.isascii()
    words = [*(_PART if is_ascii else _other_words()).finditer(plain)]
    if not words:
        return None
    # of scripts without spaces each character is a part, which white space may separate from the next
    pattern, before, ended = "", "", 0
    for found in words:
        (word, signs), between = found.groups(), plain[ended : found.start()]
        ended = found.end()
        is_open = is_unspaced(word)
        shown = r"\s*".join(map(re.escape, word)) if is_open else re.escape(word)
        if not before:
            pattern += "" if is_open else _AFTER_T if _BEGINS_WITH_TIME.match(plain.strip()) else r"(?<!\w)"
        else:
            is_name = _SIGNS.fullmatch(between)
            if is_open and before == "open":
                pattern += r"[\W_]*"
            else:
                pattern += "(?![+#])" + (_as_they_are(between) if is_name else r"[\W_]+")
        pattern += shown + re.escape(signs)
        before = "open" if is_open else "word"
    if before == "word" and not is_begun:
        pattern += rf"(?:(?=t\d\d:|z(?!\w))|{_WORD_ENDS})" if _MAY_GO_ON.search(plain.strip()) else _WORD_ENDS
    if is_ascii:
        return re.compile(pattern)
    import regex

    return regex.compile(pattern)


def _as_they_are(signs: str) -> str:
    """Return the pattern of signs within a name; behind a hyphen the name may go on in the next line."""
    return "".join(r"[-‐‑−–]\s*" if _HYPHENS.match(sign) else re.escape(sign) for sign in signs)


def prefix_pattern(text: str) -> Any:
    """Return the pattern that finds a word that begins like this in a folded text."""
    import regex

    return regex.compile(("" if is_unspaced(text) else r"(?<!\w)") + re.escape(folded(text)))


# ---- fields


def remarks_on_fields(clause: Clause, searched: Searched, *, finds_none: bool) -> Iterator[str]:
    """Yield what must be said of the fields in a clause: cells that are no numbers; where no row meets it, what is wrong.

    Args:
        clause: of a question.
        searched: the rows.
        finds_none: whether no row meets it.
    """
    for one, is_wanted in _fields_in(clause):
        values = searched.field_values(one.name)
        bounds = [bound for bound in (one.low, one.high) if bound is not None]
        if one.kind == "text" and bounds and all(amount_in(bound) is not None for bound in bounds):
            rows, text = without_number(values)
            if rows:
                yield f"{one.name} is no number in {counted(rows, 'rows')} ({text[:_LONGEST]}): left out of the comparison"
        elif one.kind == "text" and bounds and numbers_of(_different(values)) is not None:
            wrong = next(bound for bound in bounds if amount_in(bound) is None)
            yield f"the field {one.name} has numbers, and {wrong[:_LONGEST]} is no number: compared as texts"
        if finds_none and is_wanted and not field_mask(values, one).any():
            yield _why_none(one, values)


def _fields_in(clause: Clause, *, is_wanted: bool = True) -> Iterator[tuple[FieldIs, bool]]:
    """Yield the fields that a clause asks for, each with whether it is to be there."""
    if isinstance(clause, FieldIs):
        yield clause, is_wanted and clause.value != ""
    for part in clause.parts if isinstance(clause, AllOf | AnyOf) else ():
        yield from _fields_in(part, is_wanted=is_wanted)
    if isinstance(clause, Not):
        yield from _fields_in(clause.part, is_wanted=not is_wanted)


def _different(values: pa.ChunkedArray) -> list[str]:
    """Return the different texts of a field; none of a field of lists."""
    return [] if pa.types.is_list(values.type) else [value or "" for value in values.unique().to_pylist()]


def may_lack_words(clause: Clause) -> bool:
    """True if rows can meet a clause without a word of its own: by a field, or by what they do not contain."""
    if isinstance(clause, AllOf):
        return all(map(may_lack_words, clause.parts))
    if isinstance(clause, AnyOf):
        return any(map(may_lack_words, clause.parts))
    return isinstance(clause, FieldIs | Not)


def fields_of_clause(clause: Clause) -> tuple[str, ...]:
    """Return the names of the fields that a clause speaks of, each once."""
    return tuple(dict.fromkeys(one.name for one, _ in _fields_in(clause)))


def _why_none(clause: FieldIs, values: pa.ChunkedArray) -> str:
    """Return why no row has what a clause about a field asks for."""
    name, asked = clause.name, [one for one in (clause.value, clause.low, clause.high) if one is not None]
    if clause.low is not None and clause.high is not None and _is_above(clause.low, clause.high):
        return f"{name}: the lower bound {clause.low} is above the upper bound {clause.high}"
    if wrong := next((one for one in asked if _LIKE_DATE.match(one) and not is_date(one)), None):
        return f"{name}: there is no date {wrong}"
    shown = clause.value if clause.value is not None else f"{clause.low or ''}..{clause.high or ''}"
    what = f"no row has {shown} in the field {name}"
    ends = _RANGE.fullmatch(clause.value or "")
    if ends and all(amount_in(end) is not None or is_date(end) for end in ends.groups()):
        return f"{what}; a range is written {name}:{ends[1]}..{ends[2]}"
    if clause.kind != "text" or clause.value is None or pa.types.is_list(values.type):
        return what
    there = {value for chunk in values.chunks for value in chunk.unique().to_pylist() if value}
    if len(there) > _FEW_VALUES:
        return what
    known = {folded(value): value for value in sorted(there, reverse=True)}
    wanted = sorted(_WORDS.findall(folded(clause.value)))  # a name may have its parts in another order
    near = [value for value in known if sorted(_WORDS.findall(value)) == wanted]
    near += get_close_matches(folded(clause.value), known, 1, 0.6)
    meant = f"did you mean {known[near[0]][:_LONGEST]}? " if near else ""
    named = [value[:_LONGEST] for value in sorted(there)[:_NAMED]] + ["…"] * (len(there) > _NAMED)
    return f"{what}; {meant}its values are: {', '.join(named)}"


def _is_above(low: str, high: str) -> bool:
    """True if a lower bound lies above an upper one: two numbers, two dates, or two texts."""
    numbers = amount_in(low), amount_in(high)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] > numbers[1]
    if is_date(low) and is_date(high):
        return bool(span_of(low)[0] >= span_of(high)[1])
    return folded(low) > folded(high) and not folded(low).startswith(folded(high))


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
    """Return the rows whose value a clause asks for, (N,).

    A row without a value is found by an empty value alone. A text is compared without case and marks: its words must be in the
    field, next to each other. A list has the value if one of its items has.
    """
    if clause.value == "":
        return _concatenated([_empty_mask(chunk) for chunk in values.chunks])
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _concatenated([_list_mask(chunk, clause) for chunk in values.chunks])
    if clause.kind == "text":
        return _text_mask(values, clause)
    return _concatenated([_value_mask(chunk, clause) for chunk in values.chunks])


def _concatenated(masks: Sequence[Mask]) -> Mask:
    return np.concatenate([np.zeros(0, np.bool_), *masks])


def _empty_mask(values: pa.Array) -> Mask:
    """Return which rows of a field have no value: none, a blank text, or a list without items."""
    import pyarrow.compute as pc

    no_value = values.is_null()
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        no_value = pc.or_(no_value, pc.equal(pc.utf8_trim_whitespace(values.cast(kind)), "").fill_null(True))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        no_value = pc.or_(no_value, pc.equal(pc.list_value_length(values), 0).fill_null(True))
    empty_N: Mask = no_value.to_numpy(zero_copy_only=False)
    return empty_N


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
        found_N = _date_test(clause, values)
    elif pa.types.is_decimal(values.type):
        holds = _number_test(clause)
        found_N = np.array([value is not None and holds(value) for value in values.to_pylist()], np.bool_)
    else:
        numbers_N = values.fill_null(0).to_numpy()
        if numbers_N.dtype.kind == "f":  # the value asked for is no 32-bit number
            numbers_N = numbers_N.astype(np.float64)
        found_N = _number_test(clause)(numbers_N)
    return there_N & found_N


def _moments_of(values: pa.Array, *, in_utc: bool) -> npt.NDArray[np.datetime64]:
    """Return the moments of dates and times, each in its own time zone or in UTC."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        if not in_utc:
            moments = [None if value is None else value.replace(tzinfo=None) for value in values.to_pylist()]
            return np.array(moments, "datetime64[us]")
        values = values.cast(pa.timestamp(values.type.unit))
    moments_N: npt.NDArray[np.datetime64] = values.to_numpy(zero_copy_only=False).astype("datetime64[us]")
    return moments_N


def _text_test(clause: FieldIs, different: Sequence[str]) -> Callable[[str], bool]:
    """Return the function from a text of a field, which is not blank, to True if a clause asks for this text.

    Where the `different` texts of the field are numbers (see `numbers_of`), as in a cell of CSV, a number is compared as one:
    5.3 is 5.30, and 5,30.
    """
    if clause.value is None:
        return _text_bounds(clause)
    if clause.name == "id":
        exact = folded(clause.value.removesuffix("*"))
        if clause.value.endswith("*"):
            return lambda value: folded(value).startswith(exact)
        return lambda value: folded(value) == exact
    wanted_number = amount_in(clause.value)
    if wanted_number is not None and numbers_of(different) is not None:
        return lambda value: amount_in(value) == wanted_number
    wanted, pattern = clause.value, phrase_pattern(clause.value)
    if pattern is None:  # signs alone
        return lambda value: wanted in value
    if wanted.endswith("*"):
        pattern = re.compile(pattern.pattern.removesuffix(_WORD_ENDS))
    return lambda value: pattern.search(folded(value)) is not None


def _number(written: str) -> float | int:
    """Return the number that a question gives; a clause is made of numbers alone."""
    number = amount_in(written)
    assert number is not None
    return number


def _number_test(clause: FieldIs) -> Callable[[Any], Any]:
    """Return the test of a number, or of an array of numbers: equal, or within bounds."""
    if clause.value is not None:
        wanted = _number(clause.value)
        return lambda value: value == wanted
    low = float("-inf") if clause.low is None else _number(clause.low)
    high = float("inf") if clause.high is None else _number(clause.high)
    above, below = operator.gt if clause.open_low else operator.ge, operator.lt if clause.open_high else operator.le
    return lambda value: above(value, low) & below(value, high)


def _date_test(clause: FieldIs, values: pa.Array) -> Mask:
    """Return which dates or times lie within a year, a month, a day or a time, or from one to another."""
    found_N = np.ones(len(values), np.bool_)
    ends = [(clause.value, False, False), (clause.value, True, True)]
    if clause.value is None:
        ends = [(clause.low, False, clause.open_low), (clause.high, True, not clause.open_high)]
    for written, is_upper, is_after in ends:
        if written is not None:
            first, last, in_utc = span_of(written)
            moments_N, bound = _moments_of(values, in_utc=in_utc), last if is_after else first
            found_N &= moments_N < bound if is_upper else moments_N >= bound
    return found_N


def _text_bounds(clause: FieldIs) -> Callable[[Any], bool]:
    """Return the test of a text that lies between two others; texts that begin with the upper one are included.

    Where the bounds are numbers, a text that is a number, or an amount such as $1,200, is compared as one: the cells of CSV
    and TSV are texts. A text that does not begin with a digit lies between no numbers.
    """
    bounds = [bound for bound in (clause.low, clause.high) if bound is not None]
    is_between = _number_test(clause) if all(amount_in(bound) is not None for bound in bounds) else None
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
