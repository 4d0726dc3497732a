"""Character n-grams: parts of words, so that words that are spelled alike share what they learn; and strings found by hashes.

As in fastText the n-grams are those of the word between two marks, `<word>`, so beginnings and endings differ from middles.
Unlike there, every n-gram has a row of its own: none are thrown into a common bucket by their hash. What only one word has is
left out: it would say nothing that the word's own vector does not.

Two of n different strings share a 64-bit hash with odds of about n² / 2**65: one in ten thousand for 60 million n-grams, and a
word that is not among five million is taken for one of them once in 4e12 look-ups. So a hash stands for its string.

Source: Bojanowski, Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information".
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.artifacts import ngrams_schema, vector_batches
from wordpipe.compiled import character, inlined, kernel, read_only, scrambled
from wordpipe.words.vocabulary import arrow_words

_BLOCK = 1 << 20  # n-grams hashed at a time: 16 MB
_SHARE = 1 << 23  # n-grams counted at a time: 350 MB
_WORDS = 1_024  # guessed together

_NOTHING = np.uint64(0x9E3779B97F4A7C15)  # where every hash begins

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@inlined
def _hashed(before: np.uint64, code_point: int) -> np.uint64:
    """Return the hash of a string that has one character more than the string of `before`; other characters, other hashes."""
    return scrambled(before ^ np.uint64(code_point))


@kernel
def _hashes(data: Bytes, offsets: Ints) -> Hashes:
    """Return the hashes of whole words, which are told from their n-grams."""
    hashes = np.empty(len(offsets) - 1, dtype=np.uint64)
    for word in range(len(hashes)):
        bits, at = _NOTHING, int(offsets[word])
        while at < offsets[word + 1]:
            point, at = character(data, at)
            bits = _hashed(bits, point)
        hashes[word] = bits
    return hashes


@kernel
def _fill(hashes: Hashes, slots: Ints) -> None:
    """Put every n-gram's row where its hash points to, or behind; of equal hashes the first is found."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(hashes)):
        slot = hashes[row] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = row


@kernel
def _look_up(wanted: Hashes, hashes: Hashes, slots: Ints) -> Ints:
    rows = np.empty(len(wanted), dtype=np.int32)
    mask = np.uint64(len(slots) - 1)
    for at in range(len(wanted)):
        slot = wanted[at] & mask
        while slots[slot] >= 0 and hashes[slots[slot]] != wanted[at]:
            slot = (slot + np.uint64(1)) & mask
        rows[at] = slots[slot]
    return rows


class HashRows:
    """The row of each of n hashes, and of each of n strings by its hash; 12 to 16 bytes are kept for each."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        self._slots = np.full(1 << max(1, int(2 * len(hashes)).bit_length()), -1, dtype=np.int32)
        _fill(hashes, self._slots)

    def rows_of(self, wanted: Hashes) -> Ints:
        """Return the rows of some hashes, (N,) int32; -1 for an unknown hash."""
        return _look_up(wanted, self._hashes, self._slots)

    def row_of(self, word: str) -> int:
        """Return the row of one string, -1 for an unknown string: in a few microseconds."""
        data = np.frombuffer(word.encode("utf-8", "surrogatepass"), np.uint8)
        return int(self.rows_of(_hashes(data, read_only(np.array([0, len(data)], dtype=np.int32))))[0])


def _text_of(words: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of words to cut into n-grams, uint8, and their offsets, (N + 1,) int32; nothing is copied."""
    _, offsets, data = words.buffers()
    if not len(words) or data is None:
        return read_only(np.zeros(0, dtype=np.uint8)), read_only(np.zeros(len(words) + 1, dtype=np.int32))
    some = np.frombuffer(offsets, dtype=np.int32)[words.offset : words.offset + len(words) + 1]
    return read_only(np.frombuffer(data, dtype=np.uint8)), read_only(some)


def hashes_of(words: "pa.Array | Sequence[str]") -> Hashes:
    """Return the hash of every word, (N,) uint64."""
    return _hashes(*_text_of(arrow_words(words)))


class _Marked:
    """Words between marks, to be cut into n-grams of `min_n` to `max_n` characters (code points), marks included."""

    def __init__(self, words: "pa.Array | Sequence[str]", min_n: int, max_n: int) -> None:
        some = arrow_words(words)
        begin, end, nothing = (pa.scalar(mark).cast(some.type) for mark in (b"<", b">", b""))
        self._array = pc.binary_join_element_wise(begin, some, end, nothing)  # owns the bytes
        self.data, self._offsets = _text_of(self._array)
        self._min_n, self._max_n = min_n, max_n
        lengths = np.diff(self._offsets).astype(np.int64)
        counts = (np.maximum(lengths - n + 1, 0) for n in range(min_n, max_n + 1))
        self._ends = np.cumsum(sum(counts, np.zeros(len(lengths), dtype=np.int64)))  # if every byte were a character

    @property
    def at_most(self) -> int:
        """Return the most n-grams that there can be."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def ngrams(self, share: int = 0, shares: int = 1) -> Iterator[tuple[Hashes, Ints, Ints]]:
        """Yield the n-grams of one of so many shares of all hashes, once for each occurrence, some of the words at a time.

        Returns:
            their hashes; the rows of their words, ascending, the n-grams of a word from its first character on, the shorter
            first; where in `data` each begins and ends, (n, 2).
        """
        first = done = 0
        while first < len(self._ends):
            stop = max(first + 1, int(np.searchsorted(self._ends, done + _BLOCK, side="right")))
            hashes = np.empty(self._ends[stop - 1] - done, dtype=np.uint64)
            owners, spans = np.empty(len(hashes), dtype=np.int32), np.empty((len(hashes), 2), dtype=np.int32)
            some = self._offsets[first : stop + 1]
            n = _write_ngrams(self.data, some, self._min_n, self._max_n, share, shares, first, hashes, owners, spans)
            yield hashes[:n], owners[:n], spans[:n]
            first, done = stop, int(self._ends[stop - 1])


@kernel
def _write_ngrams(
    data: Bytes, offsets: Ints, min_n: int, max_n: int, share: int, shares: int, row: int,
    hashes: Hashes, owners: Ints, spans: Ints,
) -> int:  # fmt: skip
    """Fill the arrays with the n-grams of words from `row` on; how many there are. None is a mark alone or the whole word."""
    written = 0
    for word in range(len(offsets) - 1):
        begin, end = int(offsets[word]), int(offsets[word + 1])
        first = begin
        while first < end:
            bits, at, size = _NOTHING, first, 0
            while at < end and size < max_n:
                point, at = character(data, at)
                bits, size = _hashed(bits, point), size + 1
                is_mark = size == 1 and (first == begin or at == end)
                if size < min_n or is_mark or (first == begin and at == end):
                    continue
                if np.int64(((bits >> np.uint64(32)) * np.uint64(shares)) >> np.uint64(32)) == share:
                    hashes[written], owners[written] = bits, row + word
                    spans[written, 0], spans[written, 1] = first, at
                    written += 1
            _, first = character(data, first)
    return written


class NGrams:
    """G n-grams, which of them any word has, and their vectors, of which those of words that were never seen are made.

    Args:
        spelled: (G,) the n-grams, `<` and `>` for the marks.
        min_n, max_n: characters of the shortest and of the longest.
        vectors_GD: float32; none before they are trained.

    Attributes:
        dropped: n-grams of two or more words that have no row, as there are more than were to be kept.
        of_one_word: n-grams that have no row, as only one word has them.
    """

    def __init__(self, spelled: pa.Array, min_n: int, max_n: int, vectors_GD: Floats | None = None) -> None:
        self.spelled, self.min_n, self.max_n = spelled, min_n, max_n
        self.vectors = np.zeros((len(spelled), 0), dtype=np.float32) if vectors_GD is None else vectors_GD
        assert len(spelled) == len(self.vectors), (len(spelled), len(self.vectors))
        self.dropped = self.of_one_word = 0

    def __len__(self) -> int:
        return len(self.spelled)

    @cached_property
    def _row_of(self) -> HashRows:
        """Return the rows of n-grams by their hashes."""
        return HashRows(hashes_of(self.spelled))

    def parts_of(self, word: str) -> Ints:
        """Return the rows of a word's n-grams, from its beginning on, int32; n-grams without a row are left out."""
        return self.parts_of_all([word])[1]

    def parts_of_all(self, words: "pa.Array | Sequence[str]") -> tuple[Offsets, Ints]:
        """Return the rows of the n-grams of N words.

        Returns:
            (N + 1,) int64: where each word's begin and the last's end; and the rows, int32, of all words one after the other.
        """
        marked = _Marked(words, self.min_n, self.max_n)
        counts_N, n = np.zeros(len(words), dtype=np.int64), 0
        parts = np.empty(marked.at_most, dtype=np.int32)  # what is not written to takes no memory
        for hashes, owners, _ in marked.ngrams():
            rows = self._row_of.rows_of(hashes)
            known = rows >= 0
            np.add.at(counts_N, owners[known], 1)
            before, n = n, n + int(known.sum())
            parts[before:n] = rows[known]
        parts.resize(n, refcheck=False)
        return np.append(0, np.cumsum(counts_N)), parts

    def vector_of(self, word: str) -> npt.NDArray[np.float32] | None:
        """Return the mean of the vectors of a word's n-grams, (D,); None where all n-grams are unknown."""
        vectors_1D, known_1 = self.vectors_of([word])
        return vectors_1D[0] if known_1[0] else None

    def vectors_of(self, words: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Return the means of the vectors of N words' n-grams, (N, D) float32, zero without known n-grams; and a flag each."""
        starts, parts = self.parts_of_all(words)
        known_N = np.diff(starts) > 0
        vectors_ND = np.zeros((len(words), self.vectors.shape[1]), dtype=np.float32)
        filled = np.flatnonzero(known_N)
        for first in range(0, len(filled), _WORDS):
            some = filled[first : first + _WORDS]
            here = parts[starts[some[0]] : starts[some[-1] + 1]]  # words between them have none
            sums = np.add.reduceat(self.vectors[here], starts[some] - starts[some[0]], axis=0)
            vectors_ND[some] = sums / (starts[some + 1] - starts[some])[:, None].astype(np.float32)
        return vectors_ND, known_N

    def to_batches(self, rows_per_batch: int = 16_384) -> Iterator[pa.RecordBatch]:
        """Return the n-grams as batches of the `ngrams` schema: ngram, vector."""
        return vector_batches(ngrams_schema(self.vectors.shape[1]), self.vectors, self.spelled, rows=rows_per_batch)

    @classmethod
    def of(
        cls, words: "pa.Array | Sequence[str]", counts_V: Offsets, min_n: int = 3, max_n: int = 6, max_ngrams: int = 2_000_000,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> "NGrams":  # fmt: skip
        """Choose the commonest n-grams of two or more of V different words, at most `max_ngrams`.

        Common n-grams are worth their memory: one is trained as often as it occurs. Of equally common ones that with the
        lowest hash comes first. The words of a dictionary of millions have tens of millions of different n-grams, most in one
        word alone; they are counted a share of all hashes at a time, which bounds the memory. `report` is called with how
        often the words were cut, and how often they are in all.
        """
        assert 1 <= min_n <= max_n, (min_n, max_n)
        marked = _Marked(words, min_n, max_n)
        shares = 1 + marked.at_most // _SHARE
        kept, weights = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        of_several = of_one_word = 0
        for share in range(shares):
            report(share, shares + 1)
            # the n-grams of this share, equal ones side by side
            found = [(hashes, owners) for hashes, owners, _ in marked.ngrams(share, shares)]
            hashes, owners = (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else (kept, kept)
            order = np.argsort(hashes)
            hashes, owners = hashes[order], owners[order]
            begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
            if not len(hashes):
                continue

            # those of two or more words, with their counts in the text; the best of all shares so far are kept
            several = np.minimum.reduceat(owners, begins) != np.maximum.reduceat(owners, begins)
            of_several, of_one_word = of_several + int(several.sum()), of_one_word + int((~several).sum())
            counts = np.add.reduceat(np.asarray(counts_V, dtype=np.int64)[owners], begins)
            kept, weights = np.append(kept, hashes[begins][several]), np.append(weights, counts[several])
            best = np.lexsort((kept, -weights))[:max_ngrams]
            kept, weights = kept[best], weights[best]
        report(shares, shares + 1)
        ngrams = cls(_spelled(marked, kept), min_n, max_n)
        report(shares + 1, shares + 1)
        ngrams.dropped, ngrams.of_one_word = of_several - len(kept), of_one_word
        return ngrams


def _spelled(marked: _Marked, hashes: Hashes) -> pa.Array:
    """Return the n-grams of G hashes as text, (G,): each from the first word with the n-gram."""
    row_of, spans = HashRows(hashes), np.full((len(hashes), 2), -1, dtype=np.int64)
    for found, _, places in marked.ngrams():
        rows = row_of.rows_of(found)
        new = np.flatnonzero(rows >= 0)[::-1]  # backwards, as the last that is written stays
        new = new[spans[rows[new], 0] < 0]
        spans[rows[new]] = places[new]
    lengths = spans[:, 1] - spans[:, 0]
    ends = np.append(0, np.cumsum(lengths))
    taken = np.repeat(spans[:, 0] - ends[:-1], lengths) + np.arange(ends[-1])
    text = pa.py_buffer(marked.data[taken].tobytes())
    return pa.StringArray.from_buffers(len(hashes), pa.py_buffer(ends.astype(np.int32)), text)
