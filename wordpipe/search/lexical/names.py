"""Names with signs, such as dates, addresses, paths and numbers of tickets: each is one word of a question.

The terms of an index are words and what signs join: the day of 2024-05-03T10:00 is no term, as little as a domain within the
name of a host. Which texts have a name as it is written is found by reading texts (`search/matching.py`); the name is then a
term of the index as long as one question is answered.

Shapes: N texts, V terms, R rows.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Mask, Rows
from wordpipe.search.hits import Vectors as Floats
from wordpipe.search.lexical.analysis import Form
from wordpipe.search.lexical.bm25 import LexicalIndex
from wordpipe.search.lexical.packed_lists import Int32s
from wordpipe.search.lexical.postings import QueryTerms, TextCounts, read_only

_NAME = re.compile(r"(?![^\W\d]\w*:\w)(?=.*\w[^\w\s]+\w)(?:(?=.*\d)|(?=.*\w[.@\\]+\w)|[~.]*[/\\]|(?:.*\w/){2}).{1,200}")
"""What is meant as a whole: words that signs join, with a digit, a dot or @, or a path; not e-mail, and not his/her."""
_SPOKEN = re.compile(r"\d+[^\W\d]*(?:-[^\W\d]{3,})+")  # 5-year and 19th-century are words of a sentence
_AROUND = (""".,;:!?)'"”»""", """('"“«""")  # signs behind a name, and before a name, that are no part of the name
_SHARED = ("analyser", "by_text", "speller", "_names", "_zeros", "loops", "_damping", "_mean_length", "_in_field",
           "_of_common")  # fmt: skip
"""What an index with names has of the index without: these do not depend on the terms."""


def name_of(word: str) -> str:
    """Return the name with signs (2024-05-03, 10.0.0.5, /var/log, db-2) that a word of a question is; "" if it is none."""
    bare = word.rstrip(_AROUND[0]).lstrip(_AROUND[1])
    return bare if _NAME.fullmatch(bare) else ""


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names with signs among the words of a question, each with the word as typed; 5-year is no name."""
    for word in dict.fromkeys(text.split()):
        if (name := name_of(word)) and not _SPOKEN.fullmatch(name):
            yield name, word


@dataclass(frozen=True)
class IndexWithNames(LexicalIndex):
    """A lexical index in which some names with signs are terms, too: V, V + 1, … in their order.

    A text has a name once. The parts of a name are then no words of a question: in a log, the 03 of a date would find seconds.
    """

    # word of a question → the rows that have this name, ascending, and 1 for each, 0 where it stands in fields alone
    names: Mapping[str, tuple[Int32s, npt.NDArray[Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, index: LexicalIndex, names: Mapping[str, Mask]) -> LexicalIndex:
        """Return an index with some more names, each with the rows that have it, (N,)."""
        if not names:
            return index
        index._damping, index._zeros, index._of_common, index.by_text  # noqa: B018  computed once for all questions
        known = {word: _postings(index, word, rows_N) for word, rows_N in names.items()}
        found = cls(index.settings, index.terms, index.postings, index.words, index._files, index.stems, known)
        found.__dict__.update({name: index.__dict__[name] for name in _SHARED if name in index.__dict__})
        return found

    def words_asked(self, query: str) -> Iterator[list[Form]]:
        """Yield the forms of each word of a query; a name is one word."""
        for word in query.split():
            if word in self.names:
                yield [Form(0, len(word), word, 1.0, 0, "joined")]
        yield from super().words_asked(self._without_names(query))

    def unknown_words(self, query: str) -> list[str]:
        """Return the words of a query that stand in no text; the names do."""
        return super().unknown_words(self._without_names(query))

    def texts(self, rows_R: Rows) -> TextCounts:
        """Return the terms of R texts of the index, with their names."""
        found = super().texts(rows_R)
        at, numbers, counts = [found.at], [found.numbers], [found.counts]
        for number, (rows, of_rows) in enumerate(self.names.values(), len(self.terms)):
            places_R = np.minimum(np.searchsorted(rows, rows_R), len(rows) - 1)
            own = np.flatnonzero(rows[places_R] == rows_R)
            at.append(own)
            numbers.append(np.full(len(own), number))
            counts.append(of_rows[places_R[own]].astype(np.float32))
        return TextCounts(np.concatenate(at), np.concatenate(numbers), np.concatenate(counts), found.lengths)

    def score_rows(self, query: QueryTerms, rows_R: Rows) -> Floats:
        """Return the BM25 scores of some rows, (R,) float32, in whatever order."""
        return self.score_texts(query, self.texts(rows_R))

    def _have_words(self, rows_R: Rows, numbers_M: Rows, words_M: Rows, words: int) -> npt.NDArray[np.bool_]:
        """Return which of R texts have which of W words, (R, W)."""
        return self.texts(rows_R).have(numbers_M, words_M, words)

    def written(self, number: int) -> str:
        """Return a term by its number."""
        return [*self.names][number - len(self.terms)] if number >= len(self.terms) else super().written(number)

    def stems_of(self, number: int) -> set[str]:
        """Return the terms that texts have where they have a term: of a name its parts."""
        return super().stems_of(number) if number < len(self.terms) else {*self.analyser(self.written(number))}

    def _without_names(self, query: str) -> str:
        return " ".join(word for word in query.split() if word not in self.names)

    @cached_property
    def _number_of(self) -> Callable[[str], int]:
        """The finder of the number of a term, or of a name; -1 for a word of no text."""
        known = {name: number for number, name in enumerate(self.names, len(self.terms))}
        return lambda term: known[term] if term in known else self.terms.find(term)

    @cached_property
    def _of_term(self) -> Callable[[int], tuple[Int32s, npt.NDArray[Any]]]:
        """A function from a term to its texts and its count in each."""
        names, of_term = [*self.names.values()], super()._of_term
        return lambda number: names[number - len(self.terms)] if number >= len(self.terms) else of_term(number)

    def _texts_of(self, terms_T: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """Return the number of texts that have each term, (T,)."""
        of_names = np.array([len(rows) for rows, _ in self.names.values()], np.int64)
        is_name = terms_T >= len(self.terms)
        texts_T = (
            super()._texts_of(np.where(is_name, 0, terms_T)) if len(self.terms) else np.zeros(len(terms_T), np.int64)
        )
        texts_T[is_name] = of_names[terms_T[is_name] - len(self.terms)]
        return texts_T


def _postings(index: LexicalIndex, name: str, rows_N: Mask) -> tuple[Int32s, npt.NDArray[Any]]:
    """Return the rows of a name, and 1 for each; 0 where the parts of the name stand in fields alone."""
    rows, in_text_N = np.flatnonzero(rows_N), np.zeros(len(rows_N), np.bool_)
    of_parts = [index._of_term(number) for number in index.read(name).numbers.tolist()]
    for texts, counts in of_parts:
        in_text_N[texts[counts > 0]] = True
    is_text = in_text_N[rows] if of_parts else np.ones(len(rows), np.bool_)
    return read_only(rows.astype(np.int32)), read_only(is_text.astype(index.postings.lists.kind))
