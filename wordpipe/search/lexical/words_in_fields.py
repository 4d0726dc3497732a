"""Words of a query that stand in no text but in a field of the records: names of hosts, numbers of tickets, tags, authors.

They are looked for in the columns when a query has such a word, so that an index is not larger for them, and a query whose
words all stand in texts is answered as if there were no fields. A row that has the word in a field is found by it, and the
word adds to its score what a word that stands once in a text of mean length adds.

Shapes: N rows, V values of a column.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from wordpipe.search.field_columns import FieldColumns
from wordpipe.search.knn import Mask
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.letters import folded
from wordpipe.search.matching import field_mask
from wordpipe.search.question import FieldIs, FieldKind, Question

_NOT_SEARCHED = ("text", "doc_id", "split", "anchor", "see_also")  # fields in which a word of a query says nothing
_REMEMBERED = 256  # words
_EDGES = re.compile(r"^[^\w@#]+|[^\w+#]+$")  # signs around a word of a query
_RUN = re.compile(r"\w+")
_ID = re.compile(r"(?=\S*\d)(?=\S*[^\W\d])\S+")  # letters and digits: a name rather than words


@dataclass(frozen=True, slots=True)
class FieldWord:
    """A word of a query that stands in no text."""

    word: str  # as it was typed
    fields: tuple[str, ...]  # where it stands
    rows: Mask  # (N,) the rows that have it in one of these
    gain: float  # what it adds to the score of each of them

    @property
    def remark(self) -> str:
        """A sentence that says where the word was found."""
        n = int(self.rows.sum())
        fields = f"field{'s' * (len(self.fields) > 1)} {', '.join(self.fields)}"
        return f"no text contains {self.word}; it was found in the {fields} ({n:,} row{'s' * (n != 1)})"


class WordsInFields:
    """A finder of the words of queries in the fields of an index's rows.

    Args:
        columns: of the rows.
        lexical: the words of their texts.
        fields: those that `field:value` may name, and what their values are.
        titled: whether titles are searched with their texts.
    """

    def __init__(
        self, columns: FieldColumns, lexical: LexicalIndex, fields: Mapping[str, FieldKind], *, titled: bool
    ) -> None:
        self._columns, self._lexical = columns, lexical
        left_out = {*_NOT_SEARCHED, *(["title"] if titled else [])}
        self._names = [name for name, kind in fields.items() if kind == "text" and name not in left_out]
        self._found: dict[str, FieldWord | None] = {}

    def of_query(self, question: Question) -> list[FieldWord]:
        """Return the words of a query that stand in no text of a row but in a field of some.

        A name of letters and digits, such as T-1003, is looked for as a whole if no text has all of its parts. A beginning
        with which no word of a text begins is looked for as the beginning of a word in a field; it ends in *.
        """
        if not self._names:
            return []
        found = [self.find(f"{one}*") for one in question.prefixes if not self._begins(one)]
        for word in dict.fromkeys(_EDGES.sub("", one) for one in question.text.split()):
            is_strange = bool(word) and bool(self._lexical.unknown_words(word))
            if is_strange or (word and _ID.fullmatch(word) and not self._stands(word)):
                found.append(self.find(word))
        return [one for one in found if one is not None]

    def _begins(self, prefix: str) -> bool:
        """True if a word of a text begins like this."""
        return any(self._lexical.read("", [one]).length for one in self._lexical.parted(prefix)[1])

    def _stands(self, word: str) -> bool:
        """True if a text has all parts of a word."""
        rows_N = self._lexical.with_all(word)
        return rows_N is None or bool(rows_N.any())

    def find(self, word: str) -> FieldWord | None:
        """Return where a word stands in fields; None if it stands in none, or in every row."""
        key = folded(word)
        if key not in self._found:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[key] = self._find(word)
        found = self._found[key]
        return found and FieldWord(word, found.fields, found.rows, found.gain)

    def _find(self, word: str) -> FieldWord | None:
        if not _RUN.search(word):
            return None
        rows_N, names = np.zeros(self._columns.rows, np.bool_), []
        for name in self._names:
            own_N = _rows_with(self._columns.values(name), FieldIs(name, "text", word))
            if own_N.any() and not own_N.all():  # what all rows have tells none from another
                rows_N |= own_N
                names.append(name)
        n = int(rows_N.sum())
        return FieldWord(word, tuple(names), rows_N, self._lexical.gain_of(n)) if 0 < n < len(rows_N) else None


def _rows_with(values: pa.ChunkedArray, wanted: FieldIs) -> Mask:
    """Return the rows whose field has a word, (N,).

    Of texts that do not repeat, those that cannot have the word are left out first: a million host names take 0.1 s.
    """
    import pyarrow.compute as pc

    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return field_mask(values, wanted)
    assert wanted.value is not None
    run = max(_RUN.findall(folded(wanted.value)), key=len)
    found_N, start = np.zeros(len(values), np.bool_), 0
    for chunk in values.chunks:
        may = pc.or_(pc.match_substring(chunk, run, ignore_case=True), pc.invert(pc.string_is_ascii(chunk)))
        rows = np.flatnonzero(may.fill_null(False).to_numpy(zero_copy_only=False))
        if len(rows):
            is_it = field_mask(pa.chunked_array([chunk.take(pa.array(rows))]), wanted)
            found_N[start + rows[is_it]] = True
        start += len(chunk)
    return found_N


def without_words(question: Question, words: Sequence[FieldWord]) -> Question:
    """Return a query without the words that stand in fields."""
    gone = {one.word for one in words}
    text = " ".join(one for one in question.text.split() if _EDGES.sub("", one) not in gone)
    begun = tuple(one for one in question.prefixes if f"{one}*" not in gone)
    return replace(question, text=text, prefixes=begun) if gone else question
