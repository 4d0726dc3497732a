"""The terms of texts and where they stand: by term, and turned round by text.

Shapes: N texts, V terms, P postings.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Rows
from wordpipe.search.hits import Vectors as Floats
from wordpipe.search.lexical.packed_lists import Counts, Int32s, PackedLists

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD = 8  # bytes of a term that are compared at once


@dataclass(frozen=True, slots=True)
class Terms:
    """V terms in the order of their UTF-8 bytes, each once, as one run of bytes: nothing to unpack when it is opened."""

    letters: npt.NDArray[np.uint8]  # uint8, the terms' bytes one after the other
    ends: Rows  # (V,) int64, where each ends

    @classmethod
    def of(cls, encoded: Sequence[bytes]) -> "Terms":
        """Return the table of terms that are sorted already."""
        ends = np.cumsum([len(term) for term in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    @classmethod
    def sorted(cls, unsorted: "Sequence[str] | pa.LargeBinaryArray") -> "tuple[Terms, Rows]":
        """Return the table of terms in any order, each once; and (V,) which of them each is."""
        import pyarrow as pa
        import pyarrow.compute as pc

        terms = unsorted if isinstance(unsorted, pa.Array) else pa.array(unsorted, pa.large_binary())
        order = pc.sort_indices(terms)
        _, ends, letters = terms.take(order).buffers()
        found = np.frombuffer(ends, np.int64)[1:], np.frombuffer(letters or b"", np.uint8)
        return cls(found[1], found[0]), order.to_numpy().astype(np.int64)

    @property
    def array(self) -> "pa.LargeBinaryArray":
        """The terms as an array of Arrow, which has no copy of their bytes."""
        import pyarrow as pa

        ends = np.concatenate([[0], self.ends]).astype(np.int64)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(self.letters))]
        return pa.Array.from_buffers(pa.large_binary(), len(self.ends), buffers)

    @property
    def sizes(self) -> Rows:
        """(V,) the bytes of each term."""
        return np.diff(self.ends, prepend=0)

    @property
    def fits(self) -> bool:
        """True if the terms end where their letters do, one after the other."""
        return bool((self.sizes >= 0).all()) and int(self.ends[-1] if len(self) else 0) == len(self.letters)

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
        """Return the number of a term, -1 where it is not there. About 10 microseconds of a million terms."""
        wanted = term.encode("utf-8", "replace")
        at = bisect_left(self, wanted)
        return at if at < len(self) and self[at] == wanted else -1

    def find_all(self, terms: Sequence[str]) -> Rows:
        """Return the numbers of S terms, (S,), as `find` has them: 500 of 50,000 terms in 1 ms, one after the other in 5."""
        wanted = [term.encode("utf-8", "replace") for term in terms]
        heads_S = np.frombuffer(b"".join(one[:_HEAD].ljust(_HEAD, b"\0") for one in wanted), ">u8")
        heads_H, of_S = np.unique(heads_S, return_inverse=True)
        low_H, high_H = np.zeros(len(heads_H), np.int64), np.full(len(heads_H), len(self))
        while (open_H := np.flatnonzero(low_H < high_H)).size:  # all heads halve their ranges at once
            middle = (low_H[open_H] + high_H[open_H]) // 2
            is_before = self._heads(middle) < heads_H[open_H]
            low_H[open_H[is_before]], high_H[open_H[~is_before]] = middle[is_before] + 1, middle[~is_before]
        some_H = np.flatnonzero(low_H < len(self))
        has_H = np.zeros(len(heads_H), bool)  # whether any term begins so
        has_H[some_H] = self._heads(low_H[some_H]) == heads_H[some_H]
        found_S = np.full(len(wanted), -1)
        for number in np.flatnonzero(has_H[of_S]).tolist():
            at = bisect_left(self, wanted[number], int(low_H[of_S[number]]))
            if at < len(self) and self[at] == wanted[number]:
                found_S[number] = at
        return found_S

    def beginning(self, prefix: bytes) -> range:
        """Return the numbers of the terms that begin with some bytes."""
        first = bisect_left(self, prefix)
        return range(first, bisect_left(self, prefix + b"\xff", first))

    def _heads(self, numbers_M: Rows) -> npt.NDArray[np.uint64]:
        """(M,) the first eight bytes of terms as numbers in the order of the terms, 0 beyond their ends."""
        starts_M = np.where(numbers_M > 0, self.ends[numbers_M - 1], 0)
        places_MB = starts_M[:, None] + np.arange(_HEAD)
        letters_MB = self.letters[np.minimum(places_MB, len(self.letters) - 1)]
        letters_MB[places_MB >= self.ends[numbers_M][:, None]] = 0
        return letters_MB.view(">u8")[:, 0]


@dataclass(frozen=True, slots=True)
class Postings:
    """P postings of V terms in N texts."""

    lists: PackedLists  # of each term its texts, and how often it stands in each: 0 where it stands in fields beside it
    lengths: Int32s  # (N,) int32, words of each text: see `Form.is_long`

    @classmethod
    def of(cls, texts_V: Rows, rows_P: Rows, counts_P: Int32s, lengths_N: Int32s) -> "Postings":
        """Return the postings of terms in so many texts each: these texts, term after term, and each term's count in each."""
        return cls(PackedLists.of(texts_V, rows_P, counts_P), lengths_N)

    @property
    def fits(self) -> bool:
        """True if the postings of the terms fill their bytes one after the other; the rows they name are not checked."""
        return self.lists.fits and (not len(self.lengths) or bool(self.lengths.min() >= 0))

    def all(self) -> tuple[Int32s, Int32s, Counts]:
        """Return of all postings, term after term, the term, the text and the count, (P,) each."""
        terms_P = np.repeat(np.arange(len(self.lists), dtype=np.int32), self.lists.sizes)
        return terms_P, *self.lists.all()

    def by_text(self) -> PackedLists:
        """Return the postings turned round: the terms of each text, in their order, each with its count in the text."""
        terms_P, rows_P, counts_P = self.all()
        order = in_order_of(rows_P)
        return PackedLists.of(np.bincount(rows_P, minlength=len(self.lengths)), terms_P[order], counts_P[order])


def in_order_of(numbers_P: npt.NDArray[np.signedinteger[Any]]) -> Rows:
    """Return which of P numbers from 0 to 2³¹ - 1 comes when they are sorted, (P,); equal ones in their order.

    By 16 bits at a time, which NumPy sorts by counting: 1,000,000 in 20 ms, where a comparing sort takes 100.
    """
    order = np.argsort((numbers_P & 0xFFFF).astype(np.uint16), kind="stable")
    if numbers_P.max(initial=0) > 0xFFFF:
        order = order[np.argsort((numbers_P >> 16).astype(np.uint16)[order], kind="stable")]
    return order


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The T terms of a query that any text has, in the order of their numbers."""

    numbers: Rows  # (T,) int64
    weights: Floats  # (T,) float32, how often each stands in the query; with feedback, what its first hits add to that

    @property
    def length(self) -> float:
        """The words of the query that stand anywhere."""
        return float(self.weights.sum())


@dataclass(frozen=True, slots=True)
class TextCounts:
    """The terms of R texts: M terms of an index, those of a text together."""

    at: Rows  # (M,) at which of the R each stands
    numbers: npt.NDArray[np.integer[Any]]  # (M,) the term
    counts: Floats  # (M,) how often it stands there
    lengths: npt.NDArray[np.integer[Any]]  # (R,) terms of each text, known or not

    def have(self, numbers_M: Rows, words_M: Rows, words: int) -> npt.NDArray[np.bool_]:
        """Return which of the texts have which of W words, (R, W), each of which is any of some terms.

        Args:
            numbers_M: the terms of all words, ascending.
            words_M: of which word each is, from 0.
            words: W.
        """
        has_RW = np.zeros((len(self.lengths), words), np.bool_)
        for number, word in zip(numbers_M.tolist(), words_M.tolist(), strict=True):
            has_RW[self.at[self.numbers == number], word] = True
        return has_RW

    @classmethod
    def joined(cls, texts: "Sequence[TextCounts]") -> "TextCounts":
        """Return the term counts of texts one after the other."""
        before = np.cumsum([0, *(len(one.lengths) for one in texts)])
        at = [one.at + first for one, first in zip(texts, before, strict=False)]
        parts = ([one.numbers for one in texts], [one.counts for one in texts], [one.lengths for one in texts])
        return cls(np.concatenate(at), *(np.concatenate(part) for part in parts))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view of the array that cannot be written to."""
    view = array[:]
    view.flags.writeable = False
    return view
