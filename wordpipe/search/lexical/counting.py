"""The terms and the words of texts: counted as the texts stream by, merged when some texts are new and others gone.

Shapes: N texts, V terms, W words, P postings, D different pieces, M pieces that occur.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.search.hits import Mask, Rows
from wordpipe.search.lexical.analysis import Analyser
from wordpipe.search.lexical.packed_lists import Int32s, strangers, within
from wordpipe.search.lexical.pieces import Lists, Numbers, Texts, blocks, cut, plain_words
from wordpipe.search.lexical.postings import Postings, Terms, in_order_of
from wordpipe.search.lexical.spelling import WordTable

_BLOCK = 1 << 21  # characters of texts whose words are counted at a time
_REMEMBERED = 1 << 26  # bytes, about, of pieces whose terms are remembered
_LOW_BITS = 0xFFFF_FFFF
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
        self._pieces, self._runs, self._remembered = pa.array([], pa.large_string()), Numbers(), 0
        # by number of the piece and of the run; of a term twice its number, and 1 more where it makes no text longer
        self._terms_of, self._words_of = Lists.none(), Lists.none()
        self._terms_of_run, self._words_of_run = Lists.none(), Lists.none()
        self._piece_counts = np.zeros(0, np.int64)

    def count(self, texts: pa.LargeStringArray) -> tuple[Rows, Rows, Rows]:
        """Count the terms of some texts.

        Returns:
            For each term of a text, which of the texts it is; the number of the term; and 1 where it makes the text longer,
            else 0.
        """
        if self._remembered > _REMEMBERED:
            self.end()
            self._forget()
        of_texts_M, pieces = cut(texts, self._analyser)
        coded = pieces.dictionary_encode()
        numbers_M = self._pieces_numbered(coded.dictionary)[coded.indices.to_numpy()]
        counts = np.bincount(numbers_M, minlength=len(self._pieces))
        counts[: len(self._piece_counts)] += self._piece_counts
        self._piece_counts = counts
        terms, at = self._terms_of.of(numbers_M)
        return of_texts_M[at], terms >> 1, 1 - (terms & 1)

    def _pieces_numbered(self, different: pa.LargeStringArray) -> npt.NDArray[np.int32]:
        """Return the numbers of D different pieces; the terms and the words of those that are new are looked up."""
        numbers_D = np.array(pc.index_in(different, value_set=self._pieces).fill_null(-1))
        is_new_D = numbers_D < 0
        numbers_D[is_new_D] = len(self._pieces) + np.arange(is_new_D.sum())
        new = different.filter(pa.array(is_new_D))
        self._pieces = pa.concat_arrays([self._pieces, new])
        self._look_up(new)
        return numbers_D

    def _look_up(self, new: pa.LargeStringArray) -> None:
        """Look up the terms and the words of new pieces: of the plain ones a word, of the others those of their runs."""
        self._remembered += (pc.sum(pc.binary_length(new)).as_py() or 0) + _COST * len(new)
        plain = plain_words(new, self._analyser)
        words = self._words_numbered(plain.words)[plain.numbers]
        others = np.flatnonzero(~plain.is_plain)
        found, of_others = self._analyser.all_runs(new.take(pa.array(others)).to_pylist())
        runs, of_runs = self._runs_numbered(found), others[np.array(of_others, np.int64)]
        terms, at = self._terms_of_run.of(runs)
        both = _joined((2 * self.word_terms[words], plain.of_pieces), (terms, of_runs[at]))
        self._terms_of = self._terms_of.more(*both, len(new))
        others_words, at = self._words_of_run.of(runs)
        both = _joined((words, plain.of_pieces), (others_words, of_runs[at]))
        self._words_of = self._words_of.more(*both, len(new))

    def _runs_numbered(self, runs: Sequence[str]) -> Rows:
        """Return the numbers of runs; the terms and the words of those that are new are looked up."""
        numbers, new = self._runs.of(runs)
        found = self._analyser.terms_of_runs(new)
        plain, written = (self._words_numbered([word for _, word in some]) for some in (found.plain, found.written))
        joined, _ = self.terms.of(self._analyser.stems(found.joined))
        others, _ = self.terms.of([term for _, term, _ in found.terms])
        is_short = np.array([not is_long for _, _, is_long in found.terms], np.int64)
        of_plain, of_written, of_others = (
            np.array([one[0] for one in some], np.int64) for some in (found.plain, found.written, found.terms)
        )
        of_joined = np.array(found.of_joined, np.int64)
        terms = [
            (2 * self.word_terms[plain], of_plain),
            (2 * joined + 1, of_joined),
            (2 * others + is_short, of_others),
        ]
        self._terms_of_run = self._terms_of_run.more(*_joined(*terms), len(new))
        words = [(plain, of_plain), (written, of_written)]
        self._words_of_run = self._words_of_run.more(*_joined(*words), len(new))
        return numbers

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


def _joined(*parts: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
    """Return items of lists, and the list of each, as one."""
    items, of_lists = zip(*parts, strict=True)
    return np.concatenate(items), np.concatenate(of_lists)


def counted(texts: Texts, analyser: Analyser) -> Counted:
    """Count the terms of texts that stream by: terms in the order of their bytes, and postings; no text is kept in memory.

    A term that stands in fields of a row alone has the count 0 there, and no field makes a text longer.
    """
    counter, n_texts = _Counter(analyser), 0
    lengths, keys, counts = ([np.zeros(0, dtype=dtype)] for dtype in (np.int32, np.int64, np.int32))
    # block by block: the numbers of terms as they come, counted for each text
    for some in blocks(texts, _BLOCK):
        has_fields = pa.types.is_struct(some.type)
        # texts and fields are looked up in one go
        text_of, number_of, is_long = counter.count(pa.concat_arrays(some.flatten()) if has_fields else some)
        is_text = text_of < len(some)
        lengths.append(np.bincount(text_of[is_text], weights=is_long[is_text], minlength=len(some)).astype(np.int32))
        found = (text_of % len(some) + n_texts) << 32 | number_of if len(some) else number_of
        block_keys, block_counts = np.unique(found[is_text], return_counts=True)
        if has_fields:
            block_keys, block_counts = _with_fields(block_keys, block_counts, np.unique(found[~is_text]))
        keys.append(block_keys)
        counts.append(block_counts.astype(np.int32))
        n_texts += len(some)
    counter.end()
    # terms in the order of their bytes, and the postings in that order
    terms, order_V = Terms.sorted([*counter.terms])
    rank_V = np.empty(len(terms), dtype=np.int64)
    rank_V[order_V] = np.arange(len(terms))
    keys_P, counts_P = np.concatenate(keys), np.concatenate(counts)
    terms_P = rank_V[keys_P & _LOW_BITS]
    order = in_order_of(terms_P)
    texts_V = np.bincount(terms_P, minlength=len(terms))
    postings = Postings.of(texts_V, keys_P[order] >> 32, counts_P[order], np.concatenate(lengths))
    words, order_W = Terms.sorted([*counter.words])
    of_words = (rank_V[counter.word_terms][order_W].astype(np.int32), counter.word_counts[order_W].astype(np.int32))
    return Counted(terms, postings, WordTable(words, *of_words))


def _with_fields(keys_T: Rows, counts_T: Rows, keys_F: Rows) -> tuple[Rows, Rows]:
    """Return the keys and the counts of texts with those of fields among them, ascending; what a text has, it has alone."""
    at_F = np.searchsorted(keys_T, keys_F)
    is_new_F = np.append(keys_T, -1)[at_F] != keys_F
    return np.insert(keys_T, at_F[is_new_F], keys_F[is_new_F]), np.insert(counts_T, at_F[is_new_F], 0)


def restricted(terms: Terms, postings: Postings, chosen_N: Mask) -> tuple[Terms, Postings]:
    """Return the terms and postings of some of N texts, which are numbered anew."""
    terms_P, rows_P, counts_P = postings.all()
    is_left_P, row_of_N = chosen_N[rows_P], np.cumsum(chosen_N) - 1
    texts_V = np.bincount(terms_P[is_left_P], minlength=len(terms))
    left, _ = Terms.sorted(terms.array.filter(pa.array(texts_V > 0)))
    of_left = row_of_N[rows_P[is_left_P]], counts_P[is_left_P].astype(np.int32)
    return left, Postings.of(texts_V[texts_V > 0], *of_left, postings.lengths[chosen_N])


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
    all_terms, numbers = _all_terms(old.terms, new.terms)
    keys_P, counts_P = _keys(old.postings, numbers[0], row_of_old)
    if not (there := keys_P >= 0).all():
        keys_P, counts_P = keys_P[there], counts_P[there]
    if not (keys_P[1:] > keys_P[:-1]).all():  # rows have changed places
        order = np.argsort(keys_P)
        keys_P, counts_P = keys_P[order], counts_P[order]
    keys_C, counts_C = _keys(new.postings, numbers[1], new_rows)
    places = np.searchsorted(keys_P, keys_C)
    keys_P, counts_P = np.insert(keys_P, places, keys_C), np.insert(counts_P, places, counts_C)
    # without terms and words that no text has
    texts_V = np.bincount(keys_P >> 32, minlength=len(all_terms))
    left, _ = Terms.sorted(all_terms.array.filter(pa.array(texts_V > 0)))
    postings = Postings.of(texts_V[texts_V > 0], keys_P & _LOW_BITS, counts_P, lengths_N)
    return Counted(left, postings, _merged_words(old, new, gone, left))


def _merged_words(old: Counted, new: Counted, gone: Counted, terms: Terms) -> WordTable:
    """Return the words of old and new texts without those of texts that are gone."""
    # the words of all, each once, and their counts
    sides = [side.words for side in (old, new, gone)]
    coded = pa.concat_arrays([side.words.array for side in sides]).dictionary_encode()
    of_old, of_new, of_gone = np.split(coded.indices.to_numpy(), np.cumsum([len(side) for side in sides])[:2])
    counts = np.zeros(len(coded.dictionary), np.int64)
    counts[of_old] += sides[0].counts
    counts[of_new] += sides[1].counts
    counts[of_gone] -= sides[2].counts
    # the term of each, by its number among those that are left; -1 where it is gone
    numbers = [np.array(pc.index_in(side.terms.array, value_set=terms.array).fill_null(-1)) for side in (old, new)]
    term_of = np.full(len(counts), -1, np.int32)
    term_of[of_old] = numbers[0][sides[0].terms]
    term_of[of_new] = numbers[1][sides[1].terms]
    is_left = (counts > 0) & (term_of >= 0)
    words, order = Terms.sorted(coded.dictionary.filter(pa.array(is_left)))
    return WordTable(words, term_of[is_left][order], counts[is_left][order].astype(np.int32))


def _all_terms(terms: Terms, new_terms: Terms) -> tuple[Terms, list[Rows]]:
    """Return the terms of two sides in order, and the numbers that the terms of each side have among all."""
    coded = pa.concat_arrays([terms.array, new_terms.array]).dictionary_encode()
    joined, order = Terms.sorted(coded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return joined, np.split(rank[coded.indices.to_numpy()], [len(terms)])


def _keys(postings: Postings, number_of_V: Rows, row_of_N: Int32s) -> tuple[Rows, Int32s]:
    """Return the sort keys of postings, by term, then by text, and the counts; a key is negative where the text is gone.

    Raises:
        ArtifactError: a posting is of no text.
    """
    terms_P, rows_P, counts_P = postings.all()
    if not within(rows_P, len(row_of_N)):
        raise strangers()
    rows_P = row_of_N[rows_P]
    return np.where(rows_P >= 0, number_of_V[terms_P] << 32 | rows_P, -1), counts_P.astype(np.int32)
