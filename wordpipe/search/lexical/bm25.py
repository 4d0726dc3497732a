"""BM25 as Lucene scores it, over an inverted index of plain arrays: texts are found by their words.

Kept are counts, not scores: an index then grows and shrinks without its old texts, and a score can be taken apart. It is no
wrapper around bm25s, whose import takes 1.2 s with the numba that it wants (a cold query answers in less) and whose index
keeps scores; the tests compare the two.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.artifacts import array_data, damage_named, parse_array, parse_json_object
from wordpipe.errors import ConfigError
from wordpipe.search import loops as plain_loops
from wordpipe.search.hits import Hits, Mask, Rows
from wordpipe.search.hits import Vectors as Floats
from wordpipe.search.lexical.analysis import Analyser
from wordpipe.search.lexical.packed_lists import (
    BUILD_AGAIN,
    LEXICAL,
    Int32s,
    PackedLists,
    packed,
    strangers,
    unpacked,
    within,
)
from wordpipe.search.lexical.postings import (
    Postings,
    QueryTerms,
    Terms,
    TextCounts,
    read_only,
)
from wordpipe.search.lexical.spelling import WordTable
from wordpipe.search.lexical.word_lookup import READ_WORDS, WordLookup
from wordpipe.search.loops import among, gains_of
from wordpipe.search.settings import LexicalSettings

if TYPE_CHECKING:
    import pyarrow as pa

_SETTINGS = "lexical.json"
_UNPACKED = ("_of_term", "_of_common", "_largest_count")
_OF_TERMS = ("letters", "sizes", "texts", "text_bytes", "postings", "lengths")
_OF_WORDS = ("word_letters", "word_sizes", "word_terms", "word_counts")
_OF_TEXTS = ("terms", "term_bytes", "text_terms")
_ARRAYS = _OF_TERMS + _OF_WORDS + _OF_TEXTS
_NUMBERED = "word_terms"  # the array of int32; the others are bytes
_LOOKED_AT = 4_096  # texts found so far, of which the k-th best is looked for
_COMMON = 32  # what is asked of more than one of so many texts is looked up by the number of the text
_LEAST_SAVED = 1_000  # postings of a term, below which it is quicker to add them up than to see whether that is needed
_ADDED_TERMS = 50
"""Terms that feedback adds to a query. On Cranfield, CISI, NPL and CACM hybrid search gained 3.2 points of nDCG@10 over BM25
with 40, 3.3 with 50, 3.2 with 60, 3.1 with 100, and less than 2.5 with 10."""

RELATED = 0.5
"""Share of a query's words, by idf, that a text contains where it fulfils the query; with less it is merely near.

Chosen by leave-one-out on Cranfield, CISI, NPL and CACM (`benchmarks/related.py`). Of the first 20 answers by words, texts
with more are relevant more often by 14 points than others of the same rank; a share of the best score, the usual limit, tells
2 points more than the rank alone."""

FIELD_SHARE = 0.5
"""How often a word stands in a text of mean length where it stands in fields beside the text, however often.

A row whose text has the word once then ranks above rows whose category has it, unless the text is longer than the mean by
more than two times. Measured by `benchmarks/fields.py` on Cranfield, CISI and CACM: where the titles are a field, nDCG@10 is
higher by 2.4, 0.3 and 1.4 points than without the field (with 1: 3.0, 0.5, 2.0; with 0.25: 1.3, 0.0, 0.8). Where the field has
three words of queries drawn by chance for every row, it is lower by 0.2, 0.4 and 2.8 (with 1: 1.3, 1.4, 6.9; with 0.25: 0.1,
-0.1, 1.6)."""


@dataclass(frozen=True)
class LexicalIndex(WordLookup):
    """BM25 over N texts: sum over query terms of idf · tf / (tf + k1 · (1 - b + b · length / mean length)).

    idf = ln(1 + (N - n + 0.5) / (n + 0.5)) for a term in n texts. A term that comes twice in the query counts twice. A row may
    have fields beside its text: for a term of these alone the fraction is that of a text of mean length and tf = FIELD_SHARE,
    and no field makes a text longer.

    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework"; as in Lucene from version 8, which leaves
    out the factor k1 + 1, but for its rounding of lengths to one byte.
    """

    @classmethod
    def build(
        cls, texts: "Iterable[str] | Iterable[pa.Array]", settings: LexicalSettings, *, stems: bool = True
    ) -> "LexicalIndex":
        """Index N texts, in the order of their rows, each read once; without `stems` words keep their endings.

        Arrays of texts need a language other than auto.
        """
        from wordpipe.search.lexical.counting import counted  # Arrow's functions, which queries do without

        language: str = settings.language
        if language == "auto":
            from wordpipe.search.lexical.language import with_language  # which queries do without

            texts, language = with_language(texts)
        settings = settings.in_language(language)
        found = counted(texts, Analyser(settings.language, stems=stems, without=settings.without_rules))
        return cls(settings, found.terms, found.postings, found.words, stems=stems)

    def updated(
        self, old_rows_N: Rows, texts: "Iterable[str] | Iterable[pa.Array]", gone: "Iterable[str] | Iterable[pa.Array]"
    ) -> "LexicalIndex":
        """Return the lexical index of N texts, some of which this index holds: the bytes as if built of all in its language.

        Args:
            old_rows_N: for each text its row in this index, -1 for a new one.
            texts: the new ones, in order.
            gone: the texts of this index that are not among the N, in any order.
        """
        from wordpipe.search.lexical.counting import Counted, counted, merged

        old = Counted(self.terms, self.postings, self.words)
        new, lost = counted(texts, self.analyser), counted(gone, self.analyser)
        found = merged(old, new, lost, old_rows_N)
        return replace(self, terms=found.terms, postings=found.postings, words=found.words, _files=None)

    def of_some(self, chosen_N: Mask) -> "LexicalIndex":
        """Return the lexical index of some of the texts, (N,), to be asked by whole words; its table of words is empty."""
        from wordpipe.search.lexical.counting import restricted

        terms, postings = restricted(self.terms, self.postings, chosen_N)
        return replace(self, terms=terms, postings=postings, words=WordTable.of(()), _files=None)

    def joined(self, others: Sequence["LexicalIndex"]) -> "LexicalIndex":
        """Return the lexical index of these texts and then those of others: the bytes as if built of all in its language.

        Raises:
            ConfigError: an index has other words: of another language, or with other settings.
        """
        from wordpipe.search.lexical.counting import Counted, counted, merged

        found = Counted(self.terms, self.postings, self.words)
        for other in others:
            if (self.settings, self.stems) != (other.settings, other.stems):
                what = "indexes with words of different languages or settings have no common scale of scores"
                got = " and ".join(f"{one.settings.language} ({_settings_of(one)})" for one in (self, other))
                hint = "ask each index by itself, or make them with the same --language"
                raise ConfigError(what, got=got, hint=hint)
            rows_N = np.append(np.arange(len(found.postings.lengths)), np.full(len(other), -1))
            more = Counted(other.terms, other.postings, other.words)
            found = merged(found, more, counted((), self.analyser), rows_N)
        return replace(self, terms=found.terms, postings=found.postings, words=found.words, _files=None)

    def scores(self, query: str) -> Floats:
        """Return the BM25 score of every text, (N,) float32, all postings added up; 0 where no term of the query stands."""
        terms, scores_N = self.read(query), np.zeros(len(self), dtype=np.float32)
        for number, weight in zip(terms.numbers.tolist(), self._weights(terms), strict=True):
            rows, counts = self._of_term(number)
            if not within(rows, len(self)):
                raise strangers()
            scores_N[rows] += weight * gains_of(counts, self._damping[rows], self._in_field)
        return scores_N

    def read_text(self, text: str) -> TextCounts:
        """Return a text that need not be in the index, in the index's terms; others count for its length alone."""
        forms = [form for run in self.analyser.runs(text) for form in self.analyser.of_run(run)]
        counts = Counter[int]()
        for term, often in Counter(form.term for form in forms).items():
            counts[self._number_of(term)] += often
        counts.pop(-1, None)  # of terms that no text has
        length = sum(form.is_long for form in forms)
        numbers, times = np.array([*counts], np.int64), np.array([*counts.values()], np.float32)
        return TextCounts(np.zeros(len(numbers), np.int64), numbers, times, np.array([length]))

    def texts(self, rows_R: Rows) -> TextCounts:
        """Return the terms of R texts of the index."""
        at, numbers, counts = self.by_text.some(rows_R, self.loops)
        if not within(numbers, len(self.terms)):
            raise strangers()
        return TextCounts(at, numbers, counts.astype(np.float32), self.postings.lengths[rows_R])

    def search(self, queries: Sequence[str], k: int, allowed: Mask | None = None) -> list[Hits]:
        """Return the k best texts of every query among those `allowed`, (N,), those without any of its words left out."""
        return self.best([self.read(query) for query in queries], k, allowed)

    def best(self, queries: Sequence[QueryTerms], k: int, allowed: Mask | None = None) -> list[Hits]:
        """Return the k best texts of every query by its terms; see `search`."""
        self.begin_compiling()
        try:
            scores_N = self._zeros.pop()
        except IndexError:
            scores_N = np.zeros(len(self), dtype=np.float32)
        found = [self._best(query, k, allowed, scores_N) for query in queries]
        self._zeros.append(scores_N)
        return found

    def score_texts(self, query: QueryTerms, texts: TextCounts) -> Floats:
        """Return the BM25 scores of R texts, (R,) float32, at the cost of reading these alone."""
        places = np.searchsorted(query.numbers, texts.numbers)
        own = np.flatnonzero(np.append(query.numbers, -1)[places] == texts.numbers)
        at, counts, terms = texts.at[own], texts.counts[own], places[own]
        weights_T = self._weights(query)
        gains = weights_T[terms] * gains_of(counts, self._damping_of(texts.lengths)[at], self._in_field)
        return np.bincount(at, weights=gains, minlength=len(texts.lengths)).astype(np.float32)

    def score_rows(self, query: QueryTerms, rows_R: Rows) -> Floats:
        """Return the BM25 scores of some rows, (R,) float32, in whatever order."""
        if self.loops is plain_loops:
            return self.score_texts(query, self.texts(rows_R))
        own, scores_R = self.by_text, np.empty(len(rows_R), np.float32)
        of_texts, asked = (own.sizes, own.ends, own.data), (query.numbers, self._weights(query))
        weighed = self._damping, self._in_field, len(self.terms)
        if not self.loops.score_rows(rows_R, *of_texts, *asked, *weighed, scores_R):
            raise strangers()
        return scores_R

    def expanded(self, query: QueryTerms, found: TextCounts) -> QueryTerms:
        """Return the query with the weightiest terms of what it found, which together weigh as much as its own.

        A term weighs what it adds to the scores of these texts, the text of rank r counting 1 / r: relevance feedback in the
        space of BM25 itself. Relevance models by frequencies (RM3, Abdul-Jaleel et al. 2004) chose common words: from the
        same first hits they brought 0.5 points of nDCG@10 on Cranfield, CISI, NPL and CACM where these bring 1.8. Terms of
        fields alone are not among them.

        Args:
            query: its own terms.
            found: R texts that are taken for right, the best first.

        Source: Rocchio 1971, "Relevance feedback in information retrieval", with equal weights and nothing to move away from.
        """
        damping_R = self._damping_of(found.lengths)
        numbers, gains_T = self.loops.term_gains(found.at, found.numbers, found.counts, damping_R)
        if not len(numbers) or not query.length:
            return query
        gains_T = gains_T * self._idf(numbers)
        best = np.lexsort((numbers, -gains_T))[:_ADDED_TERMS]
        best = best[np.argsort(numbers[best])]
        added = gains_T[best] * (query.length / gains_T[best].sum())
        both, at = np.unique(np.concatenate([query.numbers, numbers[best]]), return_inverse=True)
        weights = np.bincount(at, weights=np.concatenate([query.weights, added]), minlength=len(both))
        return QueryTerms(both, weights.astype(np.float32))

    def explain(self, query: QueryTerms, row: int, own: QueryTerms | None = None) -> list[dict[str, Any]]:
        """Return what each term of a query adds to the score of one text, most first; terms not in the text are left out.

        Args:
            query: the terms that were searched for.
            row: of the text.
            own: the query without what feedback added; None where there was none.

        Returns:
            stem; score, its share: the shares of all terms add up to the score; count, how often it stands in the text, 0
            where it stands in fields alone; texts, in how many texts, or their fields, it stands; answers, where there was
            feedback: how much of the score that added.
        """
        text, shares = self.texts(np.array([row])), []
        asked = dict(zip(own.numbers.tolist(), own.weights.tolist(), strict=True)) if own else {}
        for number, weight in zip(query.numbers.tolist(), query.weights, strict=True):
            at = np.flatnonzero(text.numbers == number)
            if not at.size:
                continue
            one = QueryTerms(np.array([number]), np.array([weight], np.float32))
            score, count = float(self.score_texts(one, text)[0]), int(text.counts[at[0]])
            share = {
                "stem": self.written(number),
                "score": score,
                "count": count,
                "texts": int(self._texts_of(one.numbers)[0]),
            }
            shares.append(share | ({"answers": score * (1 - asked.get(number, 0.0) / float(weight))} if own else {}))
        return sorted(shares, key=lambda share: -share["score"])

    def shares_of_words(self, query: str, rows_R: Rows, prefixes: Sequence[str] = ()) -> Floats:
        """Return the share of a query's words that each of some texts contains, (R,) float32, each word by its idf.

        A text contains a word in any form, and a beginning of a word as any word that begins so. Words that no text contains
        are no part of the query; without any other, every share is 1.
        """
        words = [
            [number for form in forms if form.kind != "character" and (number := self._number_of(form.term)) >= 0]
            for forms in self.words_asked(query)
        ]
        words = [one for one in (*words, *([*self.begun(prefix)] for prefix in prefixes)) if one]
        if not words:
            return np.ones(len(rows_R), np.float32)
        pairs = sorted((number, at) for at, one in enumerate(words) for number in one)
        numbers_M, words_M = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
        idf_W = np.full(len(words), np.inf, np.float32)
        np.minimum.at(idf_W, words_M, self._idf(numbers_M))
        own = numbers_M, words_M, len(words)
        has_RW = self._have_words(rows_R, *own) if _COMMON * len(rows_R) < len(self) else self._with_words(*own)[rows_R]
        shares_R: Floats = np.where(has_RW, idf_W, 0).sum(axis=1) / idf_W.sum()
        return shares_R

    def _have_words(self, rows_R: Rows, numbers_M: Rows, words_M: Rows, words: int) -> npt.NDArray[np.bool_]:
        """Return which of R texts have which of W words, (R, W); see `TextCounts.have`."""
        if self.loops is plain_loops:
            return self.texts(rows_R).have(numbers_M, words_M, words)
        own, has_RW = self.by_text, np.zeros((len(rows_R), words), np.bool_)
        self.loops.mark_words(rows_R, own.sizes, own.ends, own.data, numbers_M, words_M, has_RW)
        return has_RW

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each file of the lexical index: lexical.json and one .npy per array."""
        terms, postings, words = self.terms, self.postings, self.words
        settings, most = self.settings.model_dump(mode="json"), postings.lists.largest
        about = {"settings": settings, "stems": self.stems, "largest_count": most}
        yield _SETTINGS, json.dumps(about, indent=2, sort_keys=True).encode()
        of_terms = (terms.letters, packed(terms.sizes), *postings.lists.arrays(), packed(postings.lengths))
        of_words = (words.words.letters, packed(words.words.sizes), words.terms, packed(words.counts))
        arrays: tuple[npt.NDArray[Any], ...] = (*of_terms, *of_words, *self.by_text.arrays())
        for name, array in zip(_ARRAYS, arrays, strict=True):
            yield f"{name}.npy", array_data(array)

    @classmethod
    def load(cls, files: Mapping[str, bytes]) -> "LexicalIndex":
        """Read a lexical index from its files; the arrays stay where they were read to.

        Raises:
            ArtifactError: the files do not belong together.
        """
        with damage_named(f"{LEXICAL}{_SETTINGS}", "the lexical index cannot be read", BUILD_AGAIN):
            about = parse_json_object(files[_SETTINGS], _SETTINGS)
            settings, stems, most = LexicalSettings.make(about["settings"]), about["stems"], about["largest_count"]
            if type(stems) is not bool or type(most) is not int:
                raise ValueError(f"stems {stems!r}, largest_count {most!r}")
        letters, sizes, *of_terms, lengths = (_array(files, name) for name in _OF_TERMS)
        terms = Terms(letters, np.cumsum(unpacked(sizes)))
        postings = Postings(PackedLists.stored(most, *of_terms), unpacked(lengths).astype(np.int32))
        letters, sizes, word_terms, counts = (_array(files, name) for name in _OF_WORDS)
        words = WordTable(Terms(letters, np.cumsum(unpacked(sizes))), word_terms, unpacked(counts).astype(np.int32))
        if not (terms.fits and postings.fits and len(postings.lists) == len(terms) and words.fits(len(terms))):
            raise strangers()
        return cls(settings, terms, postings, words, files, stems)

    @cached_property
    def by_text(self) -> PackedLists:
        """The terms of each text, and how often each stands in it: from the files, else counted."""
        if self._files is None:
            return self.postings.by_text()
        arrays = (_array(self._files, name) for name in _OF_TEXTS)
        found = PackedLists.stored(self.postings.lists.largest, *arrays)
        if not found.fits or len(found) != len(self):
            raise strangers()
        return found

    @cached_property
    def _zeros(self) -> list[Floats]:
        """Arrays (N,) of zeros that no query is using: to make one took longer than most queries."""
        return []

    @cached_property
    def _damping(self) -> Floats:
        """(N,) the length norm of each text in BM25's denominator."""
        return read_only(self._damping_of(self.postings.lengths))

    def _damping_of(self, lengths: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return the length norm of BM25: k1 · (1 - b + b · length / mean length)."""
        k1, b = self.settings.k1, self.settings.b
        return (k1 * (1 - b + b * lengths / self._mean_length)).astype(np.float32)

    @cached_property
    def _in_field(self) -> np.float32:
        """The addition of a word of a field to a score, but for its weight; see `FIELD_SHARE`."""
        return np.float32(FIELD_SHARE / (FIELD_SHARE + self.settings.k1))

    @cached_property
    def _mean_length(self) -> float:
        lengths = self.postings.lengths
        return float(lengths.mean()) if lengths.any() else 1.0

    def _weights(self, query: QueryTerms) -> Floats:
        """Return the weight of each query term in BM25, (T,): its weight in the query times idf."""
        return query.weights * self._idf(query.numbers)

    def compile(self) -> None:
        """Search by compiled loops from now on, which are loaded here in half a second: the same hits, to the same bits."""
        from wordpipe.search import kernels

        tried = copy(self)  # others may search meanwhile
        tried.__dict__["loops"] = kernels
        for name in _UNPACKED:  # which unpack by the other loops
            tried.__dict__.pop(name, None)
        if len(self) and len(self.terms):
            query = QueryTerms(np.arange(n := min(2, len(self.terms))), np.ones(n, np.float32))
            (hits,) = tried.best([query], 1)
            first = np.zeros(1, np.int64)
            tried.score_rows(query, first)
            tried.expanded(query, tried.texts(first))
            tried._have_words(first, query.numbers, query.numbers, n)
            kernels.fuse(hits, hits, 0.5, 1)
            kernels.distinct(first)
        idf_V = self._idf(np.arange(len(self.terms)))
        self.__dict__.update({name: getattr(tried, name) for name in _UNPACKED}, loops=kernels, _idf_V=idf_V)

    def compile_meanwhile(self) -> None:
        """Load compiled loops in a thread when the next query comes; see `MayCompile`."""
        _ = self.by_text  # read while the files are open
        super().compile_meanwhile()

    def _look_up(self, rows_C: Int32s, scores_C: Floats, least: float, number: int, weight: np.float32) -> int:
        """Add what a term adds to the scores of some texts, at the cost of looking these up; see `add_looked_up`."""
        of_term, loops, weighed = self._of_term(number), self.loops, (self._damping, self._in_field, weight)
        is_term = loops is not plain_loops and number < len(self.terms)  # a name is none
        is_common = is_term and _COMMON * len(of_term[0]) >= len(self)
        add, *own = (loops.add_common, self._of_common(number)) if is_common else (loops.add_looked_up, *of_term)
        n: int = add(rows_C, scores_C, least, *own, *weighed)
        return n

    @cached_property
    def _largest_count(self) -> Callable[[int], int]:
        """A function from a term's number to its largest count in a text."""
        of_term = self._of_term
        return lru_cache(READ_WORDS)(lambda number: int(of_term(number)[1].max(initial=1)))

    def _most(self, number: int, weight: np.float32) -> float:
        """Return the most that a term can add to the score of a text."""
        tf = float(self._largest_count(number))
        return float(weight) * max(tf / (tf + self._least_damping), float(self._in_field))

    @cached_property
    def _least_damping(self) -> float:
        return float(self._damping.min(initial=np.inf))

    def _best(self, query: QueryTerms, k: int, allowed: Mask | None, scores_N: Floats) -> Hits:
        """Return the k best texts of a query by BM25; `scores_N` is zero, and is so again at the end.

        Terms of few texts come first. Once the k-th best score is above all that the others can add, a text has to have one
        of the first terms: of the others only the texts that can still be among the best are looked up. Queries of five words
        over 500,000 texts took 9.5 ms of processor time with all postings added up, and take 2.2, or 0.9 by compiled loops
        (as in `benchmarks/serve.py`, where common words stand in up to 72 % of the texts).

        Source: Turtle and Flood 1995, "Query evaluation: strategies and optimizations" (MaxScore).
        """
        if not len(query.numbers) or k < 1:
            return Hits.none()
        # terms, those of few texts first, and what all later ones can add together
        weights = self._weights(query)
        within = self._texts_of(query.numbers).tolist()
        order = sorted(range(len(within)), key=within.__getitem__)
        terms = [(int(query.numbers[at]), weights[at]) for at in order]
        others, to_come = [0.0], [0]  # what the terms from each on can add together, and how many texts they have
        for at in reversed(range(len(terms))):
            others.insert(0, others[0] + self._most(*terms[at]))
            to_come.insert(0, to_come[0] + within[order[at]])
        slack = 1 - (len(terms) + 1) * 2.0**-22  # sums in another order differ by their rounding

        # all postings of the first terms are added up, until the others cannot lift a new text among the best
        touched: list[Int32s] = []  # the texts that each of the first terms was the first to find
        done, seen, border = 0, 0, 0.0
        while done < len(terms):
            is_long = within[order[done]] >= _LEAST_SAVED
            if is_long and k <= seen < to_come[done] and others[0] > 2 * others[done]:
                some = np.concatenate(touched)[: max(_LOOKED_AT, k)]  # any k texts say what the k best have at least
                border = self.loops.border_of(scores_N[among(some, allowed)], k) * slack
                if border > others[done]:
                    break
            number, weight = terms[done]
            rows, counts = self._of_term(number)
            new = np.empty(len(rows), np.int32)
            n_new = self.loops.add_gains(rows, counts, self._damping, self._in_field, weight, scores_N, new)
            if n_new < 0:
                raise strangers()
            touched.append(new[:n_new])
            seen, done = seen + n_new, done + 1

        # of the others only what these texts have is looked up
        all_found, least = np.concatenate(touched), border - others[done] if done < len(terms) else -np.inf
        found, scores_C = np.empty(seen, np.int32), np.empty(seen, np.float32)
        any_row = read_only(np.zeros(0, np.bool_) if allowed is None else allowed)
        n = self.loops.take_scores(all_found, any_row, float(least), scores_N, found, scores_C)
        found, scores_C = found[:n], scores_C[:n]
        for at in range(done, len(terms)):
            n = self._look_up(found, scores_C, float(border - others[at]), *terms[at])
            found, scores_C = found[:n], scores_C[:n]
            border = self.loops.border_of(scores_C, k) * slack
        if len(terms) > 1:  # added up in the order of `scores`, to the same bits
            found = np.sort(found[scores_C >= self.loops.border_of(scores_C, k) * slack])
            scores_C = np.zeros(len(found), np.float32)
            for term in zip(query.numbers.tolist(), weights, strict=True):
                self._look_up(found, scores_C, 0.0, *term)
        hits: Hits = self.loops.best_of(found, scores_C, k)
        return hits


def _settings_of(index: LexicalIndex) -> str:
    """Return the settings of a lexical index beside its language."""
    return f"{'stems' if index.stems else 'whole words'}, k1 {index.settings.k1:g}, b {index.settings.b:g}"


def _array(files: Mapping[str, bytes], name: str) -> npt.NDArray[Any]:
    """Read one of the arrays of BM25's index, without a copy. Raises ArtifactError: it is none."""
    with damage_named(f"{LEXICAL}{name}.npy", "the lexical index cannot be read", BUILD_AGAIN):
        array = parse_array(files[f"{name}.npy"])
        if array.ndim != 1 or array.dtype != (np.int32 if name == _NUMBERED else np.uint8):
            raise ValueError(f"{array.dtype} {array.shape}")
        return array
