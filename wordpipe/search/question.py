"""The search language: what a query asks for beside its words.

    "progress bar"      rows that contain these words, as written, next to each other
    -boiler  +water     rows without the word; rows with the word
    kube*  2024-05*     words, and names with signs, that begin so
    lang:en  year:2000..2010  year:>=2000      rows with this value in a field
    year>=2000  year >= 2000  lang=en          the same, of fields that rows have
    year!=2000                                 rows with another value in it
    lang:""                                    rows without a value in it
    "ship date":2024-05  @level:high           fields whose names have spaces or signs
    cat OR dog          rows that contain at least one of the two
    (a b) OR c          brackets join several words, all of which a row must contain
    AND, NOT            between words: rows with both; before a word: rows without it

Reading never fails. A sign is an operator only where it begins or ends a word (C++, f(x), 10:30, e-mail and http://… are
words); where it cannot be one, its words are searched as plain words, and a remark says so.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from wordpipe.search.field_columns import amount_in, doubt_of_number, is_date
from wordpipe.search.lexical.names import name_of

FieldKind = Literal["text", "number", "date", "flag"]

_CLOSING = {'"': '"', "“": '”"“', "”": '”"', "„": '“”"', "«": "»", "»": "«"}
"""The sign that opens a phrase → those that may close it."""
_SIGNS = {"-": "-", "−": "-", "+": "+"}
_FIELD = re.compile(r"([^\W\d]\w*):(?![/:])")
_COMPARED = re.compile(r"([^\W\d]\w*)\s*(?:(?=[<>]=?\s*[-+]?\.?\d)|(?<=\w)(?=[<>]=?\w)|(?:!=|={1,2})\s*(?=[^\s=]))")
"""A name before a comparison with a value."""
_VALUE = re.compile(r'[\w<>=."“„«*-]')  # how a value begins
_BEFORE_NUMBER = re.compile(r"[<>]=?\s*(?=[-+.\d])")
_BOUND = re.compile(r"(>=|<=|>|<)(.+)")
_INNER_STAR = re.compile(r"[^\W\d]{2,}\*[^\W\d]+|\*[^\W\d]{2,}")
_PREFIX = re.compile(r"([^*]*\w)\*")
_JOINING, _FLAGS = ("and", "or"), ("true", "false", "yes", "no")
_DEEPEST, _MOST = 20, 64  # brackets within each other; items with an operator: a longer query is words
_SHOUTED = 5  # words, all in capitals, among which AND, OR and NOT are words, too
_SHOWN, _NAMED = 40, 20  # characters of the query, and fields, in a remark


@dataclass(frozen=True, slots=True)
class Words:
    """The row contains all words of the text, in any form and order."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """The row contains the words of the text, as written there, next to each other."""

    text: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """The row contains a word that begins with these letters."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldIs:
    """A field of the row has a value, or lies within bounds, which are included; None: no bound on that side."""

    name: str
    kind: FieldKind
    value: str | None = None  # one value; None: bounds; "": the row has no value
    low: str | None = None
    high: str | None = None
    open_low: bool = False  # the lower bound itself is left out
    open_high: bool = False


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts are true of the row."""

    parts: "tuple[Clause, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part is true of the row."""

    parts: "tuple[Clause, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The part is not true of the row."""

    part: "Clause"


Clause = Words | Phrase | Prefix | FieldIs | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True)
class Question:
    """A query as it was read: its words, and the operators that rows must fulfil."""

    text: str  # the words that rows are ranked by; empty where the query has none
    clause: Clause | None = None  # what must be true of each row; None: nothing
    prefixes: tuple[str, ...] = ()  # beginnings of words, by which rows are ranked, too
    remarks: tuple[str, ...] = ()  # what could not be read as an operator, a sentence each
    fixed: frozenset[str] = frozenset()  # the parts of `text` that `clause` is about, too


@dataclass(slots=True)
class _Item:
    """A word, a phrase, a field or a group of a query."""

    kind: Literal["word", "phrase", "field", "group", "and", "or", "not", "open", "close"]
    text: str = ""  # as written, without the sign
    sign: str = ""  # "+" or "-" before it
    clause: "Clause | None" = None
    items: "list[_Item]" = field(default_factory=list)  # of a group: one after the other
    choices: bool = False  # of a group: one of the items is enough
    is_begun: bool = False  # of a word: it is still being typed


def read_question(
    query: str, fields: Mapping[str, FieldKind], *, also: Mapping[str, str] | None = None, is_unfinished: bool = False
) -> Question:
    """Return what a query asks for; see the module.

    Args:
        query: as it was typed.
        fields: name of each field that rows have → what its values are; `name:value` of other names is words.
        also: other names by which fields are known: what a column was called before it became the title or the text.
        is_unfinished: the last word is still being typed: it may be the beginning of a longer one.
    """
    remarks: list[str] = []
    flat = [*_Lexer(query, fields, also or {}, remarks.append).items()]
    if is_unfinished and flat and flat[-1].kind == "word" and query.endswith(flat[-1].text) and query[-1:].isalnum():
        flat[-1].text, flat[-1].is_begun = flat[-1].text + "*", True
    is_words = not remarks and all(item.kind in ("word", "open", "close") and not item.sign for item in flat)
    items = _joined(_grouped(flat, remarks.append), remarks.append)
    found = _Collected()
    clauses = [clause for item in items if (clause := found.top(item)) is not None]
    if _size(clauses) > _MOST:
        return Question(query.strip(), remarks=(f"more than {_MOST} operators: searched as plain words",))
    clause = None if not clauses else clauses[0] if len(clauses) == 1 else AllOf(tuple(clauses))
    if is_words and not remarks and not found.prefixes:
        return Question(query.strip())
    said, fixed = tuple(dict.fromkeys(remarks)), frozenset(found.fixed)
    return Question(" ".join(found.texts), clause, tuple(found.prefixes), said, fixed)


def _size(clauses: Sequence[Clause]) -> int:
    """Return the number of clauses that have no parts."""
    return sum(_size(parts) if (parts := _parts_of(clause)) else 1 for clause in clauses)


def _parts_of(clause: Clause) -> Sequence[Clause]:
    """Return the clauses that a clause is made of; none of a simple one."""
    if isinstance(clause, AllOf | AnyOf):
        return clause.parts
    return [clause.part] if isinstance(clause, Not) else []


class _Lexer:
    """The words, phrases, fields and brackets of a query, in order."""

    def __init__(
        self, query: str, fields: Mapping[str, FieldKind], also: Mapping[str, str], remark: Callable[[str], None]
    ) -> None:
        self._query, self._remark, self._names = query, remark, [*fields]
        others = {other.casefold(): (name, fields[name]) for other, name in also.items() if name in fields}
        self._fields = others | {name.casefold(): (name, kind) for name, kind in fields.items()}
        # names that are no words: the longest first, as one may be the beginning of another
        odd = [name for name in self._fields if not _FIELD.fullmatch(f"{name}:")]
        self._odd = sorted(odd, key=len, reverse=True) if ":" in query else []
        words = query.split()
        self._is_shouted = len(words) >= _SHOUTED and query == query.upper() != query.lower()
        self._never_closed: set[str] = set()  # signs for which no closing sign is left

    def items(self) -> Iterator[_Item]:
        """Yield the items; brackets and joining words stand for themselves."""
        query, at = self._query, 0
        while at < len(query):
            if query[at].isspace():
                at += 1
                continue
            # the sign before a word, a phrase or a bracket
            sign = _SIGNS.get(query[at], "")
            after = query[at + 1 : at + 2]
            is_begun = after == "(" or after in _CLOSING or (after and (after.isalnum() or after in "_."))
            if sign and (is_begun or self._odd_name(at + 1)):
                at += 1
            else:
                sign = ""
            item, at = self._item(at)
            if item is not None:
                item.sign = sign
                yield item

    def _item(self, at: int) -> tuple[_Item | None, int]:
        """Return the item that begins at a place, and where it ends."""
        query = self._query
        if query[at] in "()":
            return _Item("open" if query[at] == "(" else "close", query[at]), at + 1
        # a field, whose value may be a phrase
        named = self._name(at)
        if named is not None and (known := self._fields.get(named[0].casefold())) is not None:
            return self._field(at, named[1], *known)
        if named is not None and len(named[0]) > 1 and _VALUE.match(query, named[1]):
            self._say_unknown(named[0])
        if query[at] in _CLOSING:
            text, end = self._phrase(at)
            if text is None:
                self._remark("a quotation mark is not closed: the words after it are searched as plain words")
                return None, at + 1
            return (self._phrase_item(text) if _has_word(text) else None), end
        end = self._word_end(at)
        text = query[at:end]
        if _INNER_STAR.fullmatch(text):
            begun = text.strip("*").partition("*")[0]
            self._remark(f"a star stands for letters only at the end of a word ({begun}*): {text} is searched as words")
        joins = {"AND": "and", "OR": "or", "NOT": "not"}
        return _Item(joins.get(text, "word") if not self._is_shouted else "word", text), end  # type: ignore[arg-type]

    def _phrase_item(self, text: str) -> _Item:
        """Return a phrase; of one as an answer shows a field ("host: db-07") also the rows with this value in the field."""
        named = _FIELD.match(text)
        known = self._fields.get(named[1].casefold()) if named else None
        value = text[named.end() :].strip() if named else ""
        field = _field_is(*known, value) if known and value else None
        if field is None:
            return _Item("phrase", text)
        return _Item("field", value if field.kind == "text" else "", clause=AnyOf((Phrase(text), field)))

    def _name(self, at: int) -> tuple[str, int] | None:
        """Return the name before a colon or a comparison that begins at a place, and where its value begins, or None.

        A name in quotation marks may have spaces and signs, as may one that a field has.
        """
        query = self._query
        if query[at] in _CLOSING:
            name, end = self._phrase(at)
            return (name.strip(), end + 1) if name and query[end : end + 1] == ":" else None
        if name := self._odd_name(at):
            return name, at + len(name) + 1
        if found := _FIELD.match(query, at):
            return found[1], found.end()
        found = _COMPARED.match(query, at)
        return (found[1], found.end()) if found and self._is_compared(found[1], query[found.end()]) else None

    def _is_compared(self, name: str, sign: str) -> bool:
        """True if a name before < or >, or before a value after =, is that of a field; title="…" may be a piece of HTML."""
        if (known := self._fields.get(name.casefold())) is None and sign in "<>" and self._near(name.casefold()):
            self._say_unknown(name)
        return known is not None and (sign in "<>" or known[0] not in ("title", "text"))

    def _odd_name(self, at: int) -> str | None:
        """Return the name of a field, which is no word, that stands at a place before a colon."""
        for name in self._odd:
            end = at + len(name)
            if self._query[end : end + 1] == ":" and self._query[at:end].casefold() == name:
                return name
        return None

    def _near(self, name: str) -> list[str]:
        """Return the fields that a name was perhaps meant to be: with a few other letters, or with the name as a part."""
        return get_close_matches(name, self._fields, 1, 0.75) or [one for one in self._fields if name in one.split("_")]

    def _say_unknown(self, name: str) -> None:
        """Say that no field has a name, and which there are."""
        shown = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…"
        meant = f" (did you mean {self._fields[near[0]][0]}?)" if (near := self._near(name.casefold())) else ""
        names = ", ".join([*self._names[:_NAMED], *(["…"] if len(self._names) > _NAMED else [])])
        self._remark(f"no field is called {shown!r}{meant}: searched as words; fields: {names}")

    def _phrase(self, at: int) -> tuple[str | None, int]:
        """Return the text between quotation marks, and where they end; None where they are not closed."""
        sign = self._query[at]
        if sign in self._never_closed:  # else a query of such signs would be searched again from each
            return None, at + 1
        ends = [end for one in _CLOSING[sign] if (end := self._query.find(one, at + 1)) >= 0]
        if not ends:
            self._never_closed.add(sign)
            return None, at + 1
        return self._query[at + 1 : min(ends)], min(ends) + 1

    def _word_end(self, at: int) -> int:
        """Return where a word ends: at a space, or at a bracket that it did not open."""
        depth = 0
        for end in range(at, len(self._query)):
            letter = self._query[end]
            depth += (letter == "(") - (letter == ")")
            if letter.isspace() or depth < 0:
                return max(end, at + 1)
        return len(self._query)

    def _field(self, at: int, value_at: int, name: str, kind: FieldKind) -> tuple[_Item, int]:
        """Return the field whose name begins at `at` and whose value begins at `value_at`, and where the value ends."""
        # a space behind the colon, as an answer shows a field
        spaced = len(self._query) - len(self._query[value_at:].lstrip())
        if spaced > value_at and (
            self._query[spaced : spaced + 1].isalnum() or self._query[spaced : spaced + 1] in _CLOSING
        ):
            item, end = self._field(at, spaced, name, kind)
            if item.kind == "field":
                return item, end
        quoted = self._query[value_at : value_at + 1] in _CLOSING and self._phrase(value_at)
        if quoted and quoted[0] is not None:
            value, end = quoted[0], quoted[1]
        else:
            first = sign.end() if (sign := _BEFORE_NUMBER.match(self._query, value_at)) else value_at  # year > 5
            end = self._word_end(first) if first < len(self._query) else first
            value = "".join(self._query[value_at:end].split())
        clause = _field_is(name, kind, value)
        if clause is None or not (value or quoted):
            expected = {"number": "a number", "date": "a date such as 2024-05", "flag": "true or false"}.get(kind)
            if shown := expected and value.lstrip("<>=")[:_SHOWN]:
                self._remark(f"the field {name} needs {expected}, not {shown!r}: searched as plain words")
            return _Item("word", self._query[at:end]), end
        if kind == "number" and (doubt := doubt_of_number(value, self._query[end:])):
            self._remark(f"{name}: {doubt}")
        if self._query[at:value_at].rstrip().endswith("!="):  # another value, not none
            return _Item("field", clause=AllOf((Not(FieldIs(name, kind, "")), Not(clause)))), end
        ranked = (clause.value or "") if name.casefold() in ("title", "text") else ""
        return _Item("field", ranked, clause=clause), end


def _field_is(name: str, kind: FieldKind, value: str) -> FieldIs | None:
    """Return the clause of a field; None where the value is none of its kind."""
    if bound := _BOUND.fullmatch(value):
        sign, end = bound[1], bound[2].strip()
        low, high = (end, None) if sign[0] == ">" else (None, end)
        found = FieldIs(name, kind, None, low, high, sign == ">", sign == "<")
    elif ".." in value and value.strip("."):
        low, _, high = value.partition("..")
        found = FieldIs(name, kind, None, low.strip() or None, high.strip(" .") or None)
    else:
        found = FieldIs(name, kind, value)
    ends = [end for end in (found.value, found.low, found.high) if end is not None]
    return found if ends and all(_is_value(kind, end) for end in ends) else None


def _is_value(kind: FieldKind, text: str) -> bool:
    """True if a text can be a value of a field; an empty one stands for no value."""
    if not text or kind == "text":
        return True
    if kind == "flag":
        return text.lower() in _FLAGS
    return amount_in(text) is not None if kind == "number" else is_date(text)


def _beginning(item: _Item) -> str:
    """Return the beginning of words that a word with a star is; "" of another word, and of names with signs.

    A name with a star, such as 2024-05*, stays in the text as it is, unless it is still being typed.
    """
    found = _PREFIX.fullmatch(item.text) if item.kind == "word" else None
    return found[1] if found and (item.is_begun or not name_of(found[1])) else ""


def _has_word(text: str) -> bool:
    """True if a text has a letter or a digit."""
    return any(letter.isalnum() for letter in text)


def _grouped(flat: Sequence[_Item], remark: Callable[[str], None]) -> list[_Item]:
    """Return the items with those between brackets in groups; brackets without a partner are left out."""
    levels: list[list[_Item]] = [[]]
    opened: list[_Item] = []
    for item in flat:
        if item.kind == "open" and len(opened) < _DEEPEST:
            opened.append(item)
            levels.append([])
        elif item.kind == "close" and opened:
            group = _Item("group", sign=opened.pop().sign, items=levels.pop())
            levels[-1] += [group] if group.items else []
        elif item.kind not in ("open", "close"):
            levels[-1].append(item)
    if opened:
        remark("a bracket is not closed: its words are searched as plain words")
    return [item for level in levels for item in level]


def _joined(items: Sequence[_Item], remark: Callable[[str], None]) -> list[_Item]:
    """Return the items with AND, OR and NOT worked into them; where one of these joins nothing, it is a plain word."""
    for item in items:
        item.items = _joined(item.items, remark)
    plain = [at for at, item in enumerate(items) if item.kind not in _JOINING] or [len(items)]
    once = [  # a joining word that is doubled between two others counts once
        one
        for at, (one, before) in enumerate(zip(items, [None, *items], strict=False))
        if not (before and one.kind == before.kind in _JOINING and plain[0] < at < plain[-1])
    ]
    joined = _with_and(_with_choices(_negated(once, remark), remark))
    # brackets that mean nothing: their words are words of the query
    return [one for item in joined for one in (item.items if _is_loose(item) else [item])]


def _negated(items: Sequence[_Item], remark: Callable[[str], None]) -> list[_Item]:
    """Return the items without NOT, which changes the sign of the next item."""
    found: list[_Item] = []
    waiting = 0  # NOTs before the next item
    for item in items:
        if item.kind == "not":
            waiting += 1
            continue
        if item.kind in _JOINING:
            found += [_word("NOT", remark) for _ in range(waiting)]
        elif waiting % 2:
            item.sign = "" if item.sign == "-" else "-"
        waiting = 0
        found.append(item)
    return found + [_word("NOT", remark) for _ in range(waiting)]


def _with_choices(items: Sequence[_Item], remark: Callable[[str], None]) -> list[_Item]:
    """Return the items with each chain of OR as one group of choices, and AND only where it stands between two items."""
    found: list[_Item] = []
    for at, item in enumerate(items):
        sides = (found[-1:], items[at + 1 : at + 2])
        if item.kind in _JOINING and not all(side and side[0].kind not in _JOINING for side in sides):
            item = _word(item.text, remark)
        if found and found[-1].kind == "or":
            found.pop()
            if not found[-1].choices or found[-1].sign:
                found[-1] = _Item("group", items=[found[-1]], choices=True)
            found[-1].items.append(item)
        else:
            found.append(item)
    return found


def _with_and(items: Sequence[_Item]) -> list[_Item]:
    """Return the items without AND, both sides of which are required."""
    found: list[_Item] = []
    for item in items:
        if found and found[-1].kind == "and":
            found.pop()
            for side in (found[-1], item):
                side.sign = side.sign or "+"
        found.append(item)
    return found


def _is_loose(item: _Item) -> bool:
    """True for brackets without a sign, of which no part is a choice."""
    return item.kind == "group" and not item.choices and not item.sign


def _word(text: str, remark: Callable[[str], None]) -> _Item:
    """Return a joining word as a plain word, with a remark."""
    remark(f"{text} does not stand between two words here: searched as a plain word")
    return _Item("word", text.lower())


class _Collected:
    """The words that rows are ranked by, collected from the items of a query."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.prefixes: list[str] = []
        self.fixed: list[str] = []

    def top(self, item: _Item) -> Clause | None:
        """Return what an item of the query itself demands of a row; a plain word demands nothing."""
        if item.kind == "word" and not item.sign:
            if prefix := _beginning(item):
                self.prefixes.append(prefix)
            else:
                self.texts.append(item.text)
            return None
        return self.clause(item, is_ranked=True)

    def clause(self, item: _Item, *, is_ranked: bool) -> Clause:
        """Return what an item demands of a row; its words count for the ranking unless it is to be absent."""
        is_ranked = is_ranked and item.sign != "-"
        found = self._unsigned(item, is_ranked=is_ranked)
        return Not(found) if item.sign == "-" else found

    def _unsigned(self, item: _Item, *, is_ranked: bool) -> Clause:
        if item.kind == "group":
            parts = tuple(self.clause(one, is_ranked=is_ranked) for one in item.items)
            if len(parts) == 1:
                return parts[0]
            return AnyOf(parts) if item.choices else AllOf(parts)
        if is_ranked and (prefix := _beginning(item)):
            self.prefixes.append(prefix)
        elif is_ranked and item.text:
            self.texts.append(item.text)
            self.fixed.append(item.text)
        if item.clause is not None:
            return item.clause
        if item.kind == "word" and (begun := _PREFIX.fullmatch(item.text)):
            return Prefix(begun[1])
        return Phrase(item.text) if item.kind == "phrase" else Words(item.text)
