"""The terms and the words of texts: counted as the texts stream by, merged when some texts are new and others gone.

Shapes: N texts, V terms, W words, P postings, R runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from wordpipe.search.knn import Rows
from wordpipe.search.lexical.analysis import END, Analyser
from wordpipe.search.lexical.postings import Int32s, Postings, Terms
from wordpipe.search.lexical.spelling import WordTable

_BLOCK = 4_096  # texts whose words are counted at a time
_REMEMBERED = 1 << 20  # runs whose terms are remembered


@dataclass(frozen=True, slots=True)
class Counted:
    """The terms, postings and words of N texts."""

    terms: Terms
    postings: Postings
    words: WordTable


class _Runs(dict[str, int]):
    """Run as written → its number; what is new is remembered until its terms are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, run: str) -> int:
        self[run] = number = len(self)
        self.new.append(run)
        return number


class _Lists:
    """Lists of numbers, to which more are added; kept one after the other."""

    def __init__(self) -> None:
        self._items, self._ends = np.zeros(0, np.int64), np.zeros(1, np.int64)

    def add(self, lists: Sequence[Sequence[int]]) -> None:
        """Add some lists."""
        self._items = np.append(self._items, np.fromiter(chain.from_iterable(lists), np.int64))
        self._ends = np.append(self._ends, self._ends[-1] + np.cumsum([*map(len, lists)], dtype=np.int64))

    def of(self, which_M: Rows) -> tuple[Rows, Rows]:
        """Return the items of some lists one after the other, and for each item which of the M it comes from."""
        first_M = self._ends[which_M]
        sizes_M = self._ends[which_M + 1] - first_M
        at = np.repeat(first_M - (np.cumsum(sizes_M) - sizes_M), sizes_M) + np.arange(sizes_M.sum())
        return self._items[at], np.repeat(np.arange(len(which_M)), sizes_M)


class _Counter:
    """A counter of terms and words, block by block."""

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self.terms: dict[str, int] = {}  # term → number
        self.words: dict[str, int] = {}  # word → number
        self.word_terms: list[int] = []  # by number of the word
        self.word_counts = np.zeros(0, np.int64)
        self._forget()

    def _forget(self) -> None:
        self._runs, self._of_run, self._words_of_run = _Runs(), _Lists(), _Lists()
        self._end = self._runs[END]
        self._run_counts = np.zeros(0, np.int64)

    def count(self, texts: Sequence[str]) -> tuple[Rows, Rows, Rows]:
        """Count the terms of some texts.

        Returns:
            For each term of a text, which of the texts it is; the number of the term; and 1 where it makes the text longer,
            else 0.
        """
        if len(self._runs) > _REMEMBERED:
            self.end()
            self._forget()
        found_M, text_M = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for numbers, runs in self._analyser.all_runs(texts):
            runs_M = np.fromiter(map(self._runs.__getitem__, runs), np.int64, len(runs))
            is_run_M = runs_M != self._end
            found_M.append(runs_M[is_run_M])
            text_M.append(np.array(numbers)[np.cumsum(~is_run_M)[is_run_M]])
        self._look_up()
        runs_M = np.concatenate(found_M)
        more = len(self._runs) - len(self._run_counts)
        self._run_counts = np.pad(self._run_counts, (0, more)) + np.bincount(runs_M, minlength=len(self._runs))
        coded, at = self._of_run.of(runs_M)
        return np.concatenate(text_M)[at], coded >> 1, 1 - (coded & 1)

    def _look_up(self) -> None:
        """Look up the terms and the words of runs that are new."""
        terms, of_terms, of_words = self.terms, list[list[int]](), list[list[int]]()
        new = [run for run in self._runs.new if run != END]
        if len(new) < len(self._runs.new):  # the sign between texts has no terms
            self._of_run.add([()])
            self._words_of_run.add([()])
        for forms, words in self._analyser.terms_of_runs(new):
            of_terms.append([2 * terms.setdefault(term, len(terms)) + (not is_long) for term, is_long in forms])
            of_words.append([self._number_of(word, term) for word, term in words])
        self._of_run.add(of_terms)
        self._words_of_run.add(of_words)
        self._runs.new.clear()

    def _number_of(self, word: str, term: str) -> int:
        """Return the number of a word, which is a new one where the word is."""
        number = self.words.setdefault(word, len(self.words))
        if number == len(self.word_terms):
            self.word_terms.append(self.terms.setdefault(term, len(self.terms)))
        return number

    def end(self) -> None:
        """Add what was counted of runs to the words."""
        words, run_of = self._words_of_run.of(np.arange(len(self._run_counts)))
        found = np.bincount(words, weights=self._run_counts[run_of], minlength=len(self.words)).astype(np.int64)
        found[: len(self.word_counts)] += self.word_counts
        self.word_counts = found


def counted(texts: Iterable[str], analyser: Analyser) -> Counted:
    """Count the terms of texts that stream by: terms in the order of their bytes, and postings; no text is kept in memory."""
    iterator, counter, n_texts = iter(texts), _Counter(analyser), 0
    lengths, keys, counts = ([np.zeros(0, dtype=dtype)] for dtype in (np.int32, np.int64, np.int32))
    # block by block: the numbers of terms as they come, counted for each text
    while some := list(islice(iterator, _BLOCK)):
        text_of, number_of, is_long = counter.count(some)
        lengths.append(np.bincount(text_of, weights=is_long, minlength=len(some)).astype(np.int32))
        block_keys, block_counts = np.unique((text_of + n_texts) << 32 | number_of, return_counts=True)
        keys.append(block_keys)
        counts.append(block_counts.astype(np.int32))
        n_texts += len(some)
    counter.end()
    # terms in the order of their bytes, and the postings in that order
    stems = sorted((stem.encode("utf-8", "replace"), number) for stem, number in counter.terms.items())
    rank_V = np.empty(len(stems), dtype=np.int64)
    rank_V[[number for _, number in stems]] = np.arange(len(stems))
    keys_P, counts_P = np.concatenate(keys), np.concatenate(counts)
    keys_P = rank_V[keys_P & 0xFFFF_FFFF] << 32 | keys_P >> 32  # by term, then by text
    order = np.argsort(keys_P)
    texts_V = np.bincount(keys_P >> 32, minlength=len(stems))
    postings = Postings.of(texts_V, keys_P[order], counts_P[order], np.concatenate(lengths))
    own = zip(counter.words, rank_V[counter.word_terms].tolist(), counter.word_counts.tolist(), strict=True)
    words = WordTable.of((word.encode("utf-8", "replace"), term, count) for word, term, count in own)
    return Counted(Terms.of([stem for stem, _ in stems]), postings, words)


def merged(old: Counted, new: Counted, gone: Counted, old_rows_N: Rows) -> Counted:
    """Merge what N texts consist of, some of them old, the others new; terms and words that no text has any more are gone.

    Args:
        old: all old texts.
        new: the new ones.
        gone: the old ones that are not among the N.
        old_rows_N: for each text its row among the old ones, -1 for the next of the new ones.
    """
    is_new_N = old_rows_N < 0
    new_rows, kept_rows = np.flatnonzero(is_new_N).astype(np.int32), np.flatnonzero(~is_new_N).astype(np.int32)
    row_of_old = np.full(len(old.postings.lengths), -1, dtype=np.int32)
    row_of_old[old_rows_N[kept_rows]] = kept_rows
    lengths_N = np.empty(len(old_rows_N), dtype=np.int32)
    lengths_N[kept_rows], lengths_N[new_rows] = old.postings.lengths[old_rows_N[kept_rows]], new.postings.lengths
    # the postings of old and new texts, by the numbers of terms among all
    all_terms, numbers = _joined(old.terms, new.terms)
    keys_P = _keys(numbers[0][old.postings.terms_of_postings()], row_of_old[old.postings.rows])
    counts_P = old.postings.counts.astype(np.int32)
    if not (there := keys_P >= 0).all():
        keys_P, counts_P = keys_P[there], counts_P[there]
    if not (keys_P[1:] > keys_P[:-1]).all():  # rows have changed places
        order = np.argsort(keys_P)
        keys_P, counts_P = keys_P[order], counts_P[order]
    keys_C = _keys(numbers[1][new.postings.terms_of_postings()], new_rows[new.postings.rows])
    places = np.searchsorted(keys_P, keys_C)
    keys_P, counts_P = np.insert(keys_P, places, keys_C), np.insert(counts_P, places, new.postings.counts)
    # without terms and words that no text has
    texts_V = np.bincount(keys_P >> 32, minlength=len(all_terms))
    left = Terms.of([term for term, texts in zip(all_terms, texts_V.tolist(), strict=True) if texts])
    postings = Postings.of(texts_V[texts_V > 0], keys_P, counts_P, lengths_N)
    return Counted(left, postings, _merged_words(old, new, gone, left))


def _merged_words(old: Counted, new: Counted, gone: Counted, terms: Terms) -> WordTable:
    """Return the words of old and new texts without those of texts that are gone."""
    counts: dict[bytes, int] = {word: count for word, _, count in old.words.rows()}
    term_of = {word: old.terms[term] for word, term, _ in old.words.rows()}
    for word, term, count in new.words.rows():
        counts[word] = counts.get(word, 0) + count
        term_of[word] = new.terms[term]
    for word, _, count in gone.words.rows():
        counts[word] = counts.get(word, 0) - count
    number_of = {term: number for number, term in enumerate(terms)}
    left = ((word, number_of.get(term_of[word], -1), count) for word, count in counts.items() if count > 0)
    return WordTable.of(one for one in left if one[1] >= 0)


def _joined(terms: Terms, new_terms: Terms) -> tuple[list[bytes], list[Rows]]:
    """Return the terms of two sides in order, and the numbers that the terms of each side have among all."""
    joined = sorted({*terms, *new_terms})
    number_of = {term: number for number, term in enumerate(joined)}
    return joined, [np.array([number_of[term] for term in side], dtype=np.int64) for side in (terms, new_terms)]


def _keys(terms_P: Rows, rows_P: Int32s) -> Rows:
    """Return the sort keys of postings: by term, then by text; negative where the text is gone."""
    return np.where(rows_P >= 0, terms_P << 32 | rows_P, -1)
