"""The words of a lexical index: the terms of queries, the texts that contain a word, words as they were meant.

Shapes: N texts, T terms of a query, V terms, W words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any
from unicodedata import category

import numpy as np
import numpy.typing as npt

from wordpipe.search import loops as plain_loops
from wordpipe.search.hits import Mask, Rows
from wordpipe.search.hits import Vectors as Floats
from wordpipe.search.lexical.analysis import Analyser, Form, is_unspaced
from wordpipe.search.lexical.letters import folded
from wordpipe.search.lexical.packed_lists import Counts, Pairs, strangers, within
from wordpipe.search.lexical.postings import Postings, QueryTerms, Terms, read_only
from wordpipe.search.lexical.spelling import Speller, WordTable, is_sure
from wordpipe.search.settings import LexicalSettings
from wordpipe.search.vectors.knn import MayCompile

_LEAST_HALF = 3  # letters of the second of two words that may be written as one
READ_WORDS = 1 << 16  # whose terms an open index remembers
_COMMON_TERMS = 64  # of which an open index also remembers the count in each text
_BEGUN = 200  # terms that an unfinished word stands for: those of most texts
_PREFIXES = 64  # beginnings whose terms are remembered
_NAMES = 1_000  # terms that are looked at for signs in them
_RARE, _FREQUENT = (
    2,
    50,
)  # texts of a word that is perhaps misspelt, and times as many of the word that was perhaps meant
_SUGGESTED = 5  # words of a query for which others are looked up


@dataclass(frozen=True)
class WordLookup(MayCompile):
    """The words of N texts, for queries to look up."""

    settings: LexicalSettings  # with the language that auto came to
    terms: Terms  # the terms
    postings: Postings  # where they stand
    words: WordTable  # the words as written that the terms are made of
    _files: Mapping[str, bytes] | None = field(default=None, repr=False, compare=False)  # where it was loaded from
    stems: bool = True  # whether the endings of words were cut off

    def __len__(self) -> int:
        return len(self.postings.lengths)

    @cached_property
    def analyser(self) -> Analyser:
        """The analyser that turns texts into stems."""
        return Analyser(self.settings.language, stems=self.stems, without=self.settings.without_rules)

    def knows(self, word: str) -> bool:
        """True if the word stands in any of the texts or fields, in whatever form; stop words stand in none."""
        return any(self._number_of(stem) >= 0 for stem in self.analyser(word))

    def has_name(self, name: str) -> bool:
        """True if a word, or what signs join, stands somewhere as a whole, and not only its parts."""
        forms = [form for run in self.analyser.runs(name) for form in self.analyser.of_run(run)]
        return bool(forms) and self._number_of(max(forms, key=lambda form: form.end - form.start).term) >= 0

    def stands_in_text(self, word: str) -> bool:
        """True if the word stands in any of the texts, not in fields alone."""
        numbers = (self._number_of(stem) for stem in self.analyser(word))
        return any(number >= 0 and self._of_term(number)[1].any() for number in numbers)

    def with_all(self, text: str) -> Mask | None:
        """Return which texts contain every word of a text in any form, (N,); None where all its words are stop words."""
        words, found_N = [*self.analyser.words(text)], np.ones(len(self), np.bool_)
        for forms in words:
            found_N &= self._with_word(forms)
        return found_N if words else None

    def with_parts(self, text: str) -> Mask | None:
        """Return which texts contain every word of a text, also as parts of other names, (N,); None where it has none."""
        words = [forms for forms in self.analyser.words(text) if forms[0].kind != "joined"]
        found_N = np.ones(len(self), np.bool_)
        for forms in words:
            found_N &= self._with_word(forms)
        return found_N if words else None

    def with_name(self, name: str) -> Mask:
        """Return which texts contain what signs join as one word, (N,): COVID-19 is covid19; a longer name is another word."""
        runs = self.analyser.runs(name)
        forms = self.analyser.of_run(runs[0]) if len(runs) == 1 else ()
        whole = (form for form in forms if form.end - form.start == len(runs[0]))
        return self._with_any(number for form in whole if (number := self._number_of(form.term)) >= 0)

    def _with_word(self, forms: Sequence[Form]) -> Mask:
        """Return which texts have a word, (N,): any of its forms, or all its pairs of syllables."""
        whole = [self._number_of(form.term) for form in forms if form.kind not in ("pair", "character")]
        found_N = self._with_any(number for number in whole if number >= 0)
        pairs = [self._number_of(form.term) for form in forms if form.kind == "pair"]
        if pairs and min(pairs) >= 0:
            with_pairs_N = np.ones(len(self), np.bool_)
            for number in pairs:
                with_pairs_N &= self._with_any([number])
            found_N |= with_pairs_N
        return found_N

    def beginning(self, prefix: str) -> tuple[Mask, Mask]:
        """Return which texts contain a word that begins with a prefix, (N,), and which contain another form of this word.

        The texts of the second kind may contain no word that begins so: "connects" is a form of "connecting".
        """
        finished, begun = self.parted(prefix)
        if finished:  # whose parts a text may have without having them next to each other
            either_N, whole_N = np.zeros(len(self), np.bool_), self.with_all(finished)
            for mask in (mask for one in begun for mask in self.beginning(one)):
                either_N |= mask
            return np.zeros(len(self), np.bool_), either_N if whole_N is None else either_N & whole_N
        if is_unspaced(prefix):  # within a run, which has no words
            some = self._with_any(self._pairs_begun(prefix))
            return np.zeros(len(self), np.bool_), some
        here = self._place_of(prefix)
        terms = np.unique(self.words.terms[here])
        others = np.concatenate([self.words.terms[: here.start], self.words.terms[here.stop :]])
        is_mixed = np.isin(terms, others)
        sure = [*terms[~is_mixed].tolist(), *self._names_beginning(prefix)]
        return self._with_any(sure), self._with_any(terms[is_mixed].tolist())

    def parted(self, prefix: str) -> tuple[str, tuple[str, ...]]:
        """Return the finished words of a beginning with signs in it, and the beginnings of words that are left.

        The words of a text are parts of what signs join: `thin-wal` is the word thin and the beginning wal. What a hyphen
        joins may also be one word (e-mai, email). A name with signs (node.j, node.js) stays whole, where a text has one.
        """
        start = next((at for at in range(len(prefix), 0, -1) if not _is_of_word(prefix[at - 1])), 0)
        finished, last = prefix[:start], prefix[start:]
        if not last or not any(map(str.isalnum, finished)) or self._names_beginning(prefix):
            return "", (prefix,)
        joined = prefix.replace("-", "")
        return finished, (last, joined) if len(joined) < len(prefix) and joined.isalpha() else (last,)

    def completions(self, prefix: str, most: int) -> list[str]:
        """Return the words that begin with a prefix, the most frequent first."""
        return self.words.most_frequent(self._place_of(prefix), most)

    def _place_of(self, prefix: str) -> slice:
        """Return the place of the words that begin with a prefix; without its marks if no word begins with them all."""
        here = self.words.beginning(self.analyser.exact(prefix))
        return here if here.start < here.stop else self.words.beginning(folded(prefix))

    def _pairs_begun(self, prefix: str) -> list[int]:
        """Return the numbers of the terms that a beginning in a script without spaces has, or, of one character, begins."""
        terms = self.analyser(prefix)
        if len(terms) > 1 or len(prefix) > 1:
            return [number for term in terms if (number := self._number_of(term)) >= 0]
        return [*self.terms.beginning(prefix.encode("utf-8", "replace"))]

    def _names_beginning(self, prefix: str) -> list[int]:
        """Return the numbers of the terms with signs in them that begin with a prefix: node.js, c++17."""
        found = self.terms.beginning(prefix.lower().encode("utf-8", "replace"))
        first, last = np.searchsorted(self._names, [found.start, found.stop]).tolist()
        names: list[int] = self._names[first:last][:_NAMES].tolist()
        return names

    @cached_property
    def _names(self) -> npt.NDArray[np.int64]:
        """The numbers of the terms of ASCII with signs in them, ascending."""
        letters = self.terms.letters
        if not len(self.terms) or not len(letters):
            return np.zeros(0, np.int64)
        starts_V = np.append(0, self.terms.ends[:-1])
        is_plain = (letters >= 128) | (letters - 48 < 10) | ((letters | 32) - 97 < 26)  # numbers without sign
        with_sign_V = np.logical_or.reduceat(~is_plain, np.minimum(starts_V, len(letters) - 1))
        beyond_V = np.logical_or.reduceat(letters >= 128, np.minimum(starts_V, len(letters) - 1))
        return np.flatnonzero(with_sign_V & ~beyond_V)

    def _with_any(self, numbers: Iterable[int]) -> Mask:
        """Return which texts have one of some terms, (N,)."""
        found_N = np.zeros(len(self), np.bool_)
        for number in numbers:
            rows, _ = self._of_term(number)
            if not within(rows, len(self)):
                raise strangers()
            found_N[rows] = True
        return found_N

    def strangers(self, query: str) -> dict[str, list[str]]:
        """Return the words of a query that stand in no text, the first few each with the words that it may be meant for.

        Pairs of characters of a script without spaces are no words, and none of these.
        """
        found = self.unknown_words(query)
        return {word: self.meant_by(word) if number < _SUGGESTED else [] for number, word in enumerate(found)}

    def unknown_words(self, query: str) -> list[str]:
        """Return the words of a query that stand in no text; no pairs of characters of a script without spaces."""
        words = self.analyser.spaced_words(query)
        return [word for word, terms in words.items() if all(self._number_of(term) < 0 for term in terms)]

    def meant_by(self, word: str) -> list[str]:
        """Return the words, or two words with a space, that a word of no text was most likely meant to be."""
        exact = self.analyser.exact(word)
        near = self.speller.near(exact) or self.speller.near(folded(word))
        apart = self.speller.apart(exact)
        return [*near, apart] if apart else near

    def as_one_word(self, words: Sequence[str]) -> Iterator[tuple[str, str, str, int]]:
        """Yield of two neighbouring words of a question, which some texts write as one word, the two, the one, and its texts.

        It is said where that is a habit: where these texts are half as many as those of the rarer word, and more than one. To
        search for the one word, too, was tried: nDCG@10 of four collections was lower by 0.01 points with these pairs, by 0.3
        with all pairs that any text joins (boundarylayer, an error of one text).

        Args:
            words: as written.
        """
        for one, other in pairwise(words):
            if not (one.isalpha() and other.isalpha() and len(other) >= _LEAST_HALF) or is_unspaced(one):
                continue
            stems = [self.analyser.stem(half) for half in (one, other)]
            if not all(stems):  # a stop word
                continue
            # also with or without an s: not all texts are in a language with stems
            joined = self.analyser.exact(one + other)
            here = self.words.beginning(joined[:-1])
            written = [at for at in range(here.start, here.stop) if self._differs_by_end(at, joined)]
            if not written:
                continue
            n_texts = int(np.count_nonzero(self._with_any(np.unique(self.words.terms[written]).tolist())))
            known = [number for stem in stems if (number := self._number_of(stem)) >= 0]
            rarer = int(self._texts_of(np.array(known)).min()) if len(known) == len(stems) else 0
            if n_texts >= max(2, rarer / 2):
                most = written[int(self.words.counts[written].argmax())]
                yield one, other, self.words.words[most].decode(), n_texts

    def rare_beside(self, words: Iterable[str]) -> Iterator[tuple[str, int, str, int]]:
        """Yield the words of a question that very few texts have, and frequent words one slip away; both with their texts.

        A misspelt word may stand in a text by chance: it is searched for as it is written, and the other word is offered.

        Args:
            words: as written.
        """
        for word in dict.fromkeys(words):
            number, exact = self._number_of(self.analyser.stem(word)), self.analyser.exact(word)
            if number < 0 or not word.isalpha() or (n_texts := int(self._texts_of(np.array([number]))[0])) > _RARE:
                continue
            for other in self.speller.near(exact):
                near = self._number_of(self.analyser.stem(other))
                if near in (-1, number) or not is_sure(folded(exact), folded(other)):
                    continue
                if (n_near := int(self._texts_of(np.array([near]))[0])) >= _FREQUENT * n_texts:
                    yield word, n_texts, other, n_near
                    break

    def _differs_by_end(self, at: int, joined: str) -> bool:
        """True if a word of the texts is a given one, or has one letter more or less at its end."""
        word = self.words.words[at].decode()
        return word == joined[:-1] or (word.startswith(joined) and len(word) <= len(joined) + 1)

    @cached_property
    def speller(self) -> Speller:
        """The finder of the words that a misspelt word was meant to be."""
        return Speller(self.words)

    def written(self, number: int) -> str:
        """Return a term by its number."""
        return self.terms[number].decode()

    def stems_of(self, number: int) -> set[str]:
        """Return the terms that texts have where they have a term: itself."""
        return {self.written(number)}

    def weight_of(self, stem: str) -> float:
        """Return the idf of a stem; 0 if no text has the stem."""
        number = self._number_of(stem)
        return 0.0 if number < 0 else float(self._idf(np.array([number]))[0])

    def read(self, query: str, prefixes: Sequence[str] = ()) -> QueryTerms:
        """Return the terms of a query that any text has; the forms of a word that stand anywhere weigh as much as one word.

        Args:
            query: words.
            prefixes: beginnings of words; all words that begin so weigh together what one word in as many texts weighs.
        """
        weights: dict[int, float] = {}
        for forms in self.words_asked(query):
            known = [(number, form.share) for form in forms if (number := self._number_of(form.term)) >= 0]
            scale = sum(form.share for form in forms) / sum(share for _, share in known) if known else 0.0
            for number, share in known:
                weights[number] = weights.get(number, 0.0) + share * scale
        for prefix in prefixes:
            for number, share in self.begun(prefix).items():
                weights[number] = weights.get(number, 0.0) + share
        numbers, times = zip(*sorted(weights.items()), strict=True) if weights else ((), ())
        return QueryTerms(np.array(numbers, dtype=np.int64), np.array(times, dtype=np.float32))

    def words_asked(self, query: str) -> Iterator[list[Form]]:
        """Yield the forms of each word of a query.

        A name with a digit (T-1003, db-07.example.org) is one word if fields have it whole and no text has all of its parts:
        each part by itself may stand in the fields of all rows.
        """
        for words in self.analyser.words_of_runs(query):
            forms = [form for one in words for form in one]
            names = [form for form in forms if form.kind == "joined" and self._is_of_fields(form, forms)]
            for one in words:
                if one[0] in names:
                    yield [one[0]._replace(share=1.0)]
                elif not any(_lies_within(one[0], name) for name in names):
                    yield one

    def _is_of_fields(self, name: Form, forms: Sequence[Form]) -> bool:
        """True if fields have a name with a digit, and no text has all of its parts."""
        if not any(map(str.isdigit, name.term)) or self._number_of(name.term) < 0:
            return False
        with_all_N = np.ones(len(self), np.bool_)
        for form in forms:
            if form.is_main and _lies_within(form, name) and (number := self._number_of(form.term)) >= 0:
                rows, counts = self._of_term(number)
                with_part_N = np.zeros(len(self), np.bool_)
                with_part_N[rows[counts > 0]] = True
                with_all_N &= with_part_N
        return not with_all_N.any()

    @cached_property
    def _known_begun(self) -> dict[str, Mapping[int, float]]:
        """Beginnings with their terms: a question reads its own several times."""
        return {}

    def begun(self, prefix: str) -> Mapping[int, float]:
        """Return the terms of words that begin with a prefix, each with its weight in the query; see `_begun`."""
        if (found := self._known_begun.get(prefix)) is None:
            if len(self._known_begun) >= _PREFIXES:
                self._known_begun.clear()
            found = self._known_begun[prefix] = self._begun(prefix)
        return found

    def _begun(self, prefix: str) -> dict[int, float]:
        """Return the terms of words that begin with a prefix, each with its weight in the query.

        The word itself weighs as always; a number that stands in the texts is whole: 13 is no beginning of 1314. The others
        weigh what one term in all of their texts would, so that a rare word does not come first because it is rare. To weigh
        them by their frequency, too, was tried and lost: while titles are typed (benchmarks/letter_by_letter.py) the title or
        its word was shown in 96.6 % of the states with equal weights, in 96.1, 95.6 and 94.8 % with the frequency to the power
        of 0.25, 0.5 and 1; each of four collections was best with equal ones.
        """
        if is_unspaced(prefix):
            return dict.fromkeys(self._pairs_begun(prefix)[:_BEGUN], 1.0)
        own = self._number_of(self.analyser.stem(prefix)) if self.words.count_of(self.analyser.exact(prefix)) else -1
        if own >= 0 and prefix.isdecimal():
            return {own: 1.0}
        here = self._place_of(prefix)
        terms, at = np.unique(self.words.terms[here], return_inverse=True)
        counts = np.bincount(at, weights=self.words.counts[here], minlength=len(terms))
        names = np.array(self._names_beginning(prefix)[:_BEGUN], np.int64)
        terms = np.append(terms[np.argsort(-counts, kind="stable")[:_BEGUN]].astype(np.int64), names)
        if not len(terms):
            return {}
        texts_T = self._texts_of(terms)
        idf_T, (idf,) = self._idf_of(texts_T), self._idf_of(np.array([min(int(texts_T.sum()), len(self))]))
        weights = dict(zip(terms.tolist(), (idf / idf_T).tolist(), strict=True))
        return weights | ({own: 1.0} if own >= 0 else {})

    def holding(self, query: str, prefixes: Sequence[str] = ()) -> Mask | None:
        """Return which texts hold a term of the query, (N,); None where no text does."""
        terms = self.read(query, prefixes).numbers.tolist()
        return self._with_any(terms) if terms else None

    @cached_property
    def _number_of(self) -> Callable[[str], int]:
        """A function from a term to its number; -1 if no text has the term."""
        return lru_cache(READ_WORDS)(self.terms.find)

    @cached_property
    def _of_term(self) -> Callable[[int], Pairs]:
        """A function from a term to its texts and its count in each; read-only arrays, for which loops are compiled once."""
        lists, loops = self.postings.lists, self.loops  # not this object, which would keep itself in memory

        def find(number: int) -> Pairs:
            rows, counts = lists.one(number, loops)
            return read_only(rows), read_only(counts)

        return lru_cache(READ_WORDS)(find)

    @cached_property
    def _of_common(self) -> Callable[[int], Counts]:
        """A function from a common term to one more than its count in each of all texts, (N,), 0 where it does not stand."""
        of_term, n, kind = self._of_term, len(self), np.min_scalar_type(self.postings.lists.largest + 1)

        def find(number: int) -> Counts:
            rows, counts = of_term(number)
            if not within(rows, n):
                raise strangers()
            counts_N = np.zeros(n, kind)
            counts_N[rows] = counts.astype(kind) + 1
            return read_only(counts_N)

        return lru_cache(_COMMON_TERMS)(find)

    def _with_words(self, numbers_M: Rows, words_M: Rows, words: int) -> npt.NDArray[np.bool_]:
        """Return which of all texts have which of W words, (N, W); see `TextCounts.have`."""
        has_NW = np.zeros((len(self), words), np.bool_)
        for number, word in zip(numbers_M.tolist(), words_M.tolist(), strict=True):
            has_NW[self._of_term(number)[0], word] = True
        return has_NW

    @cached_property
    def loops(self) -> Any:
        """The module with the loops of a search: NumPy's, unless `compile` was called."""
        return plain_loops

    def _idf(self, terms_T: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return BM25's idf of terms, (T,): ln(1 + (N - n + 0.5) / (n + 0.5)), n the texts that have the term."""
        known_V: Floats | None = self.__dict__.get("_idf_V")  # where many queries come: see `compile`
        return self._idf_of(self._texts_of(terms_T)) if known_V is None else known_V[terms_T]

    def _texts_of(self, terms_T: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """Return the number of texts that have each term, (T,)."""
        texts_T: npt.NDArray[np.int64] = self.postings.lists.sizes[terms_T].astype(np.int64)
        return texts_T

    def _idf_of(self, texts_T: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return BM25's idf of terms in so many texts, (T,)."""
        idf_T: Floats = np.log1p((len(self) - texts_T + 0.5) / (texts_T + 0.5)).astype(np.float32)
        return idf_T


def _lies_within(form: Form, name: Form) -> bool:
    """True if a form is a part of a name of the same run."""
    return name.start <= form.start and form.end <= name.end


def _is_of_word(letter: str) -> bool:
    """True if a character is part of a word: a letter, a digit, a mark on a letter, or invisible."""
    return letter.isalnum() or letter == "_" or category(letter)[0] == "M" or category(letter) == "Cf"
