"""Which term stands how often in which text: counted from texts, kept by term."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.analysis import Analyser
from wordpipe.search.terms import Terms

__all__ = ["Postings", "TermCounter", "by_term", "merged"]

_BLOCK = 4_096  # texts whose words are counted at a time


@dataclass(frozen=True, slots=True)
class Postings:
    """P postings of V terms in N texts, those of a term together and in the order of the texts.

    Attributes:
        starts: (V + 1,) int64, where the postings of each term begin.
        rows: (P,) int32, the text.
        counts: (P,) unsigned, how often the term stands in it; as narrow as the largest count allows.
        lengths: (N,) int32, terms of each text.
    """

    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.unsignedinteger[Any]]
    lengths: npt.NDArray[np.int32]

    def of(self, term: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.unsignedinteger[Any]]]:
        """The texts of a term, and how often it stands in each."""
        here = slice(int(self.starts[term]), int(self.starts[term + 1]))
        return self.rows[here], self.counts[here]

    def terms_of_postings(self) -> npt.NDArray[np.int32]:
        """(P,) the term of every posting."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))


class _Numbers(dict[str, int]):
    """Word as written → the number of its stem, -1 for a stop word; a new stem gets the next number."""

    def __init__(self, analyser: Analyser) -> None:
        super().__init__()
        self.stems: dict[str, int] = {}
        self._analyser = analyser

    def __missing__(self, word: str) -> int:
        stem = self._analyser.stem(word)
        self[word] = number = self.number(stem) if stem else -1
        return number

    def number(self, stem: str) -> int:
        """The number of a stem."""
        return self.stems.setdefault(stem, len(self.stems))


class TermCounter:
    """Counts the terms of texts that stream by; memory holds the postings and the vocabulary, not the texts.

    Args:
        analyser: text to stems.
    """

    def __init__(self, analyser: Analyser) -> None:
        self.texts = 0
        self._analyser = analyser
        self._numbers = _Numbers(analyser)
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._blocks: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]] = []

    def add(self, texts: Iterable[str]) -> None:
        """Count more texts."""
        iterator = iter(texts)
        while some := list(islice(iterator, _BLOCK)):
            self._add(some)

    def finish(self) -> tuple[Terms, Postings]:
        """The terms in the order of their bytes, and their postings."""
        stems = sorted((stem.encode("utf-8", "replace"), number) for stem, number in self._numbers.stems.items())
        rank_V = np.empty(len(stems), dtype=np.int32)
        rank_V[[number for _, number in stems]] = np.arange(len(stems), dtype=np.int32)
        rows, numbers, counts = (
            np.concatenate([block[part] for block in self._blocks] or [np.zeros(0, dtype=np.int32)])
            for part in range(3)
        )
        self._blocks.clear()
        lengths = np.concatenate(self._lengths or [np.zeros(0, dtype=np.int32)])
        return Terms.of([stem for stem, _ in stems]), by_term(rows, rank_V[numbers], counts, lengths, len(stems))

    def _add(self, texts: list[str]) -> None:
        found = [self._numbers_of(text) for text in texts]
        of = np.repeat(np.arange(len(texts)), [len(some) for some in found])
        numbers = np.fromiter((number for some in found for number in some), dtype=np.int64, count=len(of))
        of, numbers = of[numbers >= 0], numbers[numbers >= 0]
        self._lengths.append(np.bincount(of, minlength=len(texts)).astype(np.int32))
        keys, counts = np.unique(of << 32 | numbers, return_counts=True)
        rows = (keys >> 32).astype(np.int32) + np.int32(self.texts)
        self._blocks.append((rows, (keys & 0xFFFF_FFFF).astype(np.int32), counts.astype(np.int32)))
        self.texts += len(texts)

    def _numbers_of(self, text: str) -> list[int]:
        if text.isascii():
            return [self._numbers[word] for word in self._analyser.ascii_words(text)]
        return [self._numbers.number(stem) for stem in self._analyser(text)]


def by_term(
    rows: npt.NDArray[np.int32],
    terms: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int32],
    n_terms: int,
) -> Postings:
    """Postings in any order, (P,) each, as `Postings` keeps them.

    Args:
        rows: the text of each.
        terms: its term, below `n_terms`.
        counts: how often.
        lengths: (N,) terms per text.
        n_terms: V.
    """
    order = np.argsort(terms.astype(np.int64) << 32 | rows)
    starts = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=n_terms))]).astype(np.int64)
    narrow = np.min_scalar_type(int(counts.max(initial=0)))
    return Postings(starts, rows[order], counts[order].astype(narrow), lengths)


def merged(
    terms: Terms, old: Postings, new_terms: Terms, new: Postings, old_rows_N: npt.NDArray[np.int64]
) -> tuple[Terms, Postings]:
    """Terms and postings of N texts, some of them old, the others new; terms that no text has any more are gone.

    Args:
        terms: of the old texts.
        old: their postings.
        new_terms: of the new texts.
        new: their postings.
        old_rows_N: for each text its row among the old ones, -1 for the next of the new ones.
    """
    is_new_N = old_rows_N < 0
    new_rows, kept_rows = np.flatnonzero(is_new_N).astype(np.int32), np.flatnonzero(~is_new_N).astype(np.int32)
    row_of_old = np.full(len(old.lengths), -1, dtype=np.int32)
    row_of_old[old_rows_N[kept_rows]] = kept_rows
    lengths_N = np.empty(len(old_rows_N), dtype=np.int32)
    lengths_N[kept_rows], lengths_N[new_rows] = old.lengths[old_rows_N[kept_rows]], new.lengths

    all_terms = sorted({*terms, *new_terms})
    number_of = {term: number for number, term in enumerate(all_terms)}
    numbers = [np.array([number_of[term] for term in some], dtype=np.int32) for some in (terms, new_terms)]
    rows_P = np.concatenate([row_of_old[old.rows], new_rows[new.rows]])
    terms_P = np.concatenate([numbers[0][old.terms_of_postings()], numbers[1][new.terms_of_postings()]])
    counts_P = np.concatenate([old.counts.astype(np.int32), new.counts.astype(np.int32)])
    there = rows_P >= 0
    rows_P, terms_P, counts_P = rows_P[there], terms_P[there], counts_P[there]

    used = np.bincount(terms_P, minlength=len(all_terms)) > 0
    rank = np.cumsum(used, dtype=np.int32) - 1
    left = [term for term, keep in zip(all_terms, used.tolist(), strict=True) if keep]
    return Terms.of(left), by_term(rows_P, rank[terms_P], counts_P, lengths_N, len(left))
