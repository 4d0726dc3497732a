"""The terms and the words of texts: counted as the texts stream by, merged when some texts are new and others gone.

Shapes: N texts, V terms, W words, P postings, D different pieces, M pieces that occur.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from wordpipe.search.knn import Mask, Rows
from wordpipe.search.lexical.analysis import Analyser
from wordpipe.search.lexical.pieces import Lists, Numbers, cut, plain_words
from wordpipe.search.lexical.postings import Int32s, Postings, Terms
from wordpipe.search.lexical.spelling import WordTable

_BLOCK = 1 << 21  # characters of texts whose words are counted at a time
_REMEMBERED = 1 << 26  # bytes, about, of pieces whose terms are remembered
_COST = 100  # bytes that a piece costs beside its letters


@dataclass(frozen=True, slots=True)
class Counted:
    """The terms, postings and words of N texts."""

    terms: Terms
    postings: Postings
    words: WordTable


class _Counter:
    """A counter of terms and words, block by block."""

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self.terms, self.words = Numbers(), Numbers()
        self.word_terms = np.zeros(0, np.int64)  # by number of the word
        self.word_counts = np.zeros(0, np.int64)
        self._forget()

    def _forget(self) -> None:
        self._pieces, self._runs, self._remembered = Numbers(), Numbers(), 0
        self._terms_of, self._words_of = Lists.none(), Lists.none()  # by number of the piece
        # by number of the run; of a term twice its number, and 1 more where it makes no text longer
        self._terms_of_run, self._words_of_run = list[list[int]](), list[list[int]]()
        self._piece_counts = np.zeros(0, np.int64)

    def count(self, texts: Sequence[str]) -> tuple[Rows, Rows, Rows]:
        """Count the terms of some texts.

        Returns:
            For each term of a text, which of the texts it is; the number of the term; and 1 where it makes the text longer,
            else 0.
        """
        if self._remembered > _REMEMBERED:
            self.end()
            self._forget()
        pieces = cut(texts, self._analyser)
        numbers, new = self._pieces.of(pieces.different)
        numbers_M = numbers[pieces.numbers]
        self._look_up(new)
        counts = np.bincount(numbers_M, minlength=len(self._pieces))
        counts[: len(self._piece_counts)] += self._piece_counts
        self._piece_counts = counts
        coded, at = self._terms_of.of(numbers_M)
        return pieces.of_texts[at], coded >> 1, 1 - (coded & 1)

    def _look_up(self, new: Sequence[str]) -> None:
        """Look up the terms and the words of new pieces: of the plain ones a word, of the others those of their runs."""
        self._remembered += sum(map(len, new)) + _COST * len(new)
        is_plain_D, plain = plain_words(new, self._analyser)
        words = self._words_numbered([word for word in plain if word])
        sizes = np.array([word != "" for word in plain], np.int64)
        runs = self._analyser.all_runs([new[piece] for piece in np.flatnonzero(~is_plain_D).tolist()])
        of_others = self._runs_numbered([*chain.from_iterable(runs)])
        others = [[*islice(of_others, len(own))] for own in runs]
        terms = _mixed(is_plain_D, 2 * self.word_terms[words], sizes, others, self._terms_of_run)
        self._terms_of = self._terms_of.more(*terms)
        self._words_of = self._words_of.more(*_mixed(is_plain_D, words, sizes, others, self._words_of_run))

    def _runs_numbered(self, runs: Sequence[str]) -> Iterator[int]:
        """Yield the numbers of runs; the terms and the words of those that are new are looked up."""
        found, new = self._runs.of(runs)
        terms, words, sizes = self.terms, list[str](), list[int]()
        for forms, own in self._analyser.terms_of_runs(new):
            self._terms_of_run.append(
                [2 * terms.setdefault(term, len(terms)) + (not is_long) for term, is_long in forms]
            )
            words += [word for word, _ in own]
            sizes.append(len(own))
        numbers = iter(self._words_numbered(words).tolist())
        self._words_of_run += [[*islice(numbers, size)] for size in sizes]
        return iter(found.tolist())

    def _words_numbered(self, words: Sequence[str]) -> Rows:
        """Return the numbers of words; the terms of those that are new are looked up."""
        numbers, new = self.words.of(words)
        if new:
            terms, _ = self.terms.of(self._analyser.stems(new))
            self.word_terms = np.append(self.word_terms, terms)
        return numbers

    def end(self) -> None:
        """Add what was counted of pieces to the words."""
        words, piece_of = self._words_of.of(np.arange(len(self._piece_counts)))
        found = np.bincount(words, weights=self._piece_counts[piece_of], minlength=len(self.words)).astype(np.int64)
        found[: len(self.word_counts)] += self.word_counts
        self.word_counts = found


def _mixed(
    is_plain_D: Mask, items: Rows, sizes: Rows, others: Sequence[Sequence[int]], of_run: Sequence[Sequence[int]]
) -> tuple[Rows, Rows]:
    """Return the items of D pieces one after the other, and their numbers: of plain ones, and of the runs of the others."""
    lists = [[item for run in runs for item in of_run[run]] for runs in others]
    sizes_D = np.empty(len(is_plain_D), np.int64)
    sizes_D[is_plain_D], sizes_D[~is_plain_D] = sizes, [*map(len, lists)]
    is_plain = np.repeat(is_plain_D, sizes_D)
    mixed = np.empty(len(is_plain), np.int64)
    mixed[is_plain], mixed[~is_plain] = items, [*chain.from_iterable(lists)]
    return mixed, sizes_D


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts some at a time."""
    some, size = list[str](), 0
    for text in texts:
        some.append(text)
        size += len(text) + 1
        if size >= _BLOCK:
            yield some
            some, size = [], 0
    if some:
        yield some


def counted(texts: Iterable[str], analyser: Analyser) -> Counted:
    """Count the terms of texts that stream by: terms in the order of their bytes, and postings; no text is kept in memory."""
    counter, n_texts = _Counter(analyser), 0
    lengths, keys, counts = ([np.zeros(0, dtype=dtype)] for dtype in (np.int32, np.int64, np.int32))
    # block by block: the numbers of terms as they come, counted for each text
    for some in _blocks(texts):
        text_of, number_of, is_long = counter.count(some)
        lengths.append(np.bincount(text_of, weights=is_long, minlength=len(some)).astype(np.int32))
        block_keys, block_counts = np.unique((text_of + n_texts) << 32 | number_of, return_counts=True)
        keys.append(block_keys)
        counts.append(block_counts.astype(np.int32))
        n_texts += len(some)
    counter.end()
    # terms in the order of their bytes, and the postings in that order
    terms, order_V = Terms.sorted([*counter.terms])
    rank_V = np.empty(len(terms), dtype=np.int64)
    rank_V[order_V] = np.arange(len(terms))
    keys_P, counts_P = np.concatenate(keys), np.concatenate(counts)
    keys_P = rank_V[keys_P & 0xFFFF_FFFF] << 32 | keys_P >> 32  # by term, then by text
    order = np.argsort(keys_P)
    texts_V = np.bincount(keys_P >> 32, minlength=len(terms))
    postings = Postings.of(texts_V, keys_P[order], counts_P[order], np.concatenate(lengths))
    words, order_W = Terms.sorted([*counter.words])
    of_words = (rank_V[counter.word_terms][order_W].astype(np.int32), counter.word_counts[order_W].astype(np.int32))
    return Counted(terms, postings, WordTable(words, *of_words))


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
