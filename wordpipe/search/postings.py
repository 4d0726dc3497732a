"""The terms of an inverted index, and which stands how often in which text: counted from texts, kept by term."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.analysis import Analyser

_BLOCK = 4_096  # texts whose words are counted at a time


@dataclass(frozen=True, slots=True)
class Terms:
    """V terms in the order of their UTF-8 bytes, each once, as one run of bytes: nothing to unpack when it is opened."""

    letters: npt.NDArray[np.uint8]  # uint8, the terms' bytes one after the other
    ends: npt.NDArray[np.int64]  # (V,) int64, where each ends

    @classmethod
    def of(cls, encoded: Sequence[bytes]) -> "Terms":
        """Terms that are sorted already."""
        ends = np.cumsum([len(term) for term in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[bytes]:
        letters, start = self.letters.tobytes(), 0
        for end in self.ends.tolist():
            yield letters[start:end]
            start = end

    def __getitem__(self, number: int) -> bytes:
        start = self.ends[number - 1] if number else 0
        return self.letters[start : self.ends[number]].tobytes()

    def find(self, term: str) -> int:
        """The number of a term, -1 where it is not there. About 10 microseconds of a million terms."""
        wanted = term.encode("utf-8", "replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self[low] == wanted else -1


@dataclass(frozen=True, slots=True)
class Postings:
    """P postings of V terms in N texts, those of a term together and in the order of the texts."""

    starts: npt.NDArray[np.int64]  # (V + 1,) int64, where the postings of each term begin
    rows: npt.NDArray[np.int32]  # (P,) int32, the text
    # (P,) unsigned, how often the term stands in it; as narrow as the largest count allows
    counts: npt.NDArray[np.unsignedinteger[Any]]
    lengths: npt.NDArray[np.int32]  # (N,) int32, terms of each text

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
        none = [(np.zeros(0, dtype=np.int32),) * 3]
        rows, numbers, counts = (np.concatenate(parts) for parts in zip(*(self._blocks or none), strict=True))
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
    """Postings in any order, (P,) each, as `Postings` keeps them: of each its text, its term below `n_terms`, how often."""
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

    all_terms, numbers = _joined(terms, new_terms)
    keys_P = _in_order(numbers[0][old.terms_of_postings()], row_of_old[old.rows])
    counts_P = old.counts.astype(np.int32)
    if not (there := keys_P >= 0).all():
        keys_P, counts_P = keys_P[there], counts_P[there]
    if not (keys_P[1:] > keys_P[:-1]).all():  # rows have changed places
        order = np.argsort(keys_P)
        keys_P, counts_P = keys_P[order], counts_P[order]
    keys_C = _in_order(numbers[1][new.terms_of_postings()], new_rows[new.rows])
    places = np.searchsorted(keys_P, keys_C)
    keys_P, counts_P = np.insert(keys_P, places, keys_C), np.insert(counts_P, places, new.counts)

    texts_V = np.bincount(keys_P >> 32, minlength=len(all_terms))
    left = [term for term, texts in zip(all_terms, texts_V.tolist(), strict=True) if texts]
    starts = np.concatenate([[0], np.cumsum(texts_V[texts_V > 0])]).astype(np.int64)
    narrow = np.min_scalar_type(int(counts_P.max(initial=0)))
    rows_P = (keys_P & 0xFFFF_FFFF).astype(np.int32)
    return Terms.of(left), Postings(starts, rows_P, counts_P.astype(narrow), lengths_N)


def _joined(terms: Terms, new_terms: Terms) -> tuple[list[bytes], list[npt.NDArray[np.int64]]]:
    """All terms in order, and for those of either side their numbers among them.

    The new ones are few and find their places by halving: a set and a dictionary of all took a fifth of an update's time.
    """
    held, coming = list(terms), list(new_terms)
    places = [bisect_left(held, term) for term in coming]
    unknown = [at == len(held) or held[at] != term for term, at in zip(coming, places, strict=True)]
    joined, start = [], 0
    for term, at, new in zip(coming, places, unknown, strict=True):
        if new:
            joined += [*held[start:at], term]
            start = at
    places_C, new_C = np.array(places, dtype=np.int64), np.array(unknown, dtype=bool)
    numbers_C = places_C + np.cumsum(new_C, dtype=np.int64) - new_C
    numbers_V = np.arange(len(held)) + np.searchsorted(places_C[new_C], np.arange(len(held)), side="right")
    return joined + held[start:], [numbers_V, numbers_C]


def _in_order(terms_P: npt.NDArray[np.int64], rows_P: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Numbers that grow as postings are kept: by term, then by text; negative where the text is gone."""
    return np.where(rows_P >= 0, terms_P << 32 | rows_P, -1)
