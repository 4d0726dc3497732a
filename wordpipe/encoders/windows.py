"""Windows of a long text's tokens, as a model reads them, and batches of windows; windows of words.

Shapes: N texts, B their bytes, W windows, S sequences of a batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import regex

from wordpipe.search.settings import UnitSettings
from wordpipe.tokens import WordSplitter

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """W windows of N texts.

    Attributes:
        ids: of all windows, special ones included, window after window.
        lengths: (W,) ids of each window, special ones included.
        firsts: (W,) where each window begins among the tokens of its text.
        tokens: (W,) tokens of the text in each window.
        counts: (N,) windows of each text; 0 of a text without a token.
    """

    ids: Ids
    lengths: Ids
    firsts: Ids
    tokens: Ids
    counts: Ids

    @property
    def starts(self) -> Ids:
        """The place in `ids` where each window begins, (W,)."""
        starts: Ids = np.cumsum(self.lengths) - self.lengths
        return starts


def frame(ids: Ids, offsets: Ids, *, size: int, overlap: int, before: list[int], after: list[int]) -> Windows:
    """Cut texts into windows: each at most `size` long, every token in one, the last one may be shorter; no token, no window.

    Args:
        ids: of all texts, one after the other.
        offsets: (N + 1,) where each text begins and ends in `ids`.
        size: tokens per window, at most.
        overlap: tokens that a window shares with the one before it; less than `size`.
        before: special ids before every window.
        after: special ids after it.
    """
    lengths_N, step = np.diff(offsets), size - overlap
    counts_N = np.where(lengths_N > 0, -(-np.maximum(lengths_N - overlap, 1) // step), 0)
    text_W = np.repeat(np.arange(len(lengths_N)), counts_N)
    firsts_W = (np.arange(len(text_W)) - np.repeat(np.cumsum(counts_N) - counts_N, counts_N)) * step
    tokens_W = np.minimum(size, lengths_N[text_W] - firsts_W)
    # each window is three stretches of what follows: the ids before, its tokens, the ids after
    values = np.concatenate([ids, np.array([*before, *after], dtype=np.int64)])
    starts_W3, lengths_W3 = np.empty((len(text_W), 3), np.int64), np.empty((len(text_W), 3), np.int64)
    starts_W3[:, 0], starts_W3[:, 1], starts_W3[:, 2] = len(ids), offsets[text_W] + firsts_W, len(ids) + len(before)
    lengths_W3[:, 0], lengths_W3[:, 1], lengths_W3[:, 2] = len(before), tokens_W, len(after)
    framed = gathered(values, starts_W3.ravel(), lengths_W3.ravel())
    return Windows(framed, lengths_W3.sum(axis=1), firsts_W, tokens_W, counts_N)


def token_batches(lengths_W: Ids, budget: int) -> Iterator[Ids]:
    """Yield batches of windows as groups of their numbers, longest first, so that longest x count is at most `budget`.

    A sequence longer than the budget is a group of its own. Sequences of equal length keep their order.
    """
    order = np.argsort(-lengths_W, kind="stable")
    first = 0
    while first < len(order):
        size = max(1, budget // max(1, int(lengths_W[order[first]])))
        yield order[first : first + size]
        first += size


def gathered(values: Ids, starts_S: Ids, lengths_S: Ids) -> Ids:
    """Return the ids of some windows, one after the other."""
    ends_S = np.cumsum(lengths_S)
    into = np.repeat(starts_S - (ends_S - lengths_S), lengths_S)
    picked: Ids = values[into + np.arange(len(into))]
    return picked


def padded(ids_N: Ids, lengths_S: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Return the ids of windows padded to one length, (S, T) int64, filled up with 0, and where they are real, (S, T) bool."""
    real_ST = np.arange(int(lengths_S.max(initial=0))) < lengths_S[:, None]
    ids_ST = np.zeros(real_ST.shape, dtype=np.int64)
    ids_ST[real_ST] = ids_N
    return ids_ST, real_ST


def runs_of(lengths_S: Ids) -> list[tuple[int, int]]:
    """Return, for each run of sequences of equal length, their number and that length."""
    return [(len([*same]), length) for length, same in groupby(lengths_S.tolist())]


def pack_sentences(
    lengths_S: npt.NDArray[np.int64], size: int, overlap: int, ends_S: npt.NDArray[np.bool_] | None = None
) -> list[tuple[int, int]]:
    """Return windows (first, stop) of whole sentences of one document, each of at most `size` tokens.

    A window that is full ends with the last paragraph that ends in its second half, and the next one begins with the
    next paragraph. Where there is none it ends with a sentence, and the next one repeats the last sentences that have
    at most `overlap` tokens together. A sentence longer than `size` is a passage of its own.

    Args:
        lengths_S: tokens per sentence.
        size: tokens per passage.
        overlap: tokens repeated, at most.
        ends_S: whether a paragraph ends with the sentence; None: with none of them.
    """
    passages: list[tuple[int, int]] = []
    paragraphs = [False] * len(lengths_S) if ends_S is None else ends_S.tolist()
    first = stop = held = 0
    at = rest = 0  # where the last paragraph in the second half ends, and the tokens behind it; 0: there is none
    for number, length in enumerate(lengths_S.tolist()):
        if stop > first and held + length > size and at:
            passages.append((first, at))
            first, held, at = at, rest, 0
        if stop > first and held + length > size:
            passages.append((first, stop))
            room = min(overlap, size - length)
            while first < stop and held > room:
                held -= int(lengths_S[first])
                first += 1
        held += length
        rest += length
        stop = number + 1
        if paragraphs[number] and 2 * held >= size:
            at, rest = stop, 0
    return [*passages, (first, stop)] if stop > first else passages


_REMEMBERED, _LONGEST_REMEMBERED = 1 << 18, 64  # pieces whose words are counted once; characters
_MOST_OTHER = 0.05  # of the bytes; with more it is quicker to count all pieces one by one
_SHORT_WORDS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー々]")  # of scripts without spaces
_LETTER, _DIGIT, _JOINT, _POINT, _SPACE, _OTHER, _FIRST, _IN_NUMBER = (1 << bit for bit in range(8))
_KINDS = bytes(
    (_LETTER if byte < 128 and chr(byte).isalnum() else 0)
    | (_DIGIT if chr(byte) in "0123456789" else 0)
    | (_JOINT if chr(byte) in "'-" else 0)
    | (_POINT if chr(byte) in ".," else 0)
    | (_SPACE if byte < 128 and chr(byte).isspace() else 0)
    | (_OTHER if byte >= 128 else 0)
    | (_FIRST if byte >= 192 else 0)
    for byte in range(256)
)
"""What each byte of UTF-8 is, in bits: a letter or digit of ASCII, and a digit; what may join two words, or parts of a number;
white space; a byte of another character, and its first."""


class _WordCounts(dict[str | bytes, int]):
    """Piece of text between white space → its words, counted when it first comes: no word goes over white space."""

    def __init__(self) -> None:
        super().__init__()
        self._split = WordSplitter(_as_long_as_words, keep_case=True)

    def __missing__(self, piece: str | bytes) -> int:
        count = len(self._split(piece if isinstance(piece, str) else piece.decode()))
        if len(piece) <= _LONGEST_REMEMBERED:
            self[piece] = count
        return count


class _Letters(NamedTuple):
    """The bytes of N texts."""

    data: bytes  # (B,)
    kinds: npt.NDArray[np.uint8]  # (B,) by `_KINDS`
    starts: Ids  # (N + 1,) where each text begins and ends
    is_begun: npt.NDArray[np.bool_]  # (B,) whether a run of letters and digits of ASCII begins there

    @classmethod
    def of(cls, texts: pa.StringArray) -> "_Letters":
        """Return the bytes of a column."""
        starts_N1 = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
        data = bytes(memoryview(texts.buffers()[2] or b"").cast("B")[starts_N1[0] : starts_N1[-1]])
        starts_N1 -= starts_N1[0]
        kinds_B = np.frombuffer(bytearray(data).translate(_KINDS), np.uint8)
        is_letter_B = (kinds_B & _LETTER).view(np.bool_)
        is_begun_B = is_letter_B.copy()
        is_begun_B[1:] &= ~is_letter_B[:-1]
        first = starts_N1[:-1][starts_N1[:-1] < len(kinds_B)]
        is_begun_B[first] = is_letter_B[first]
        return cls(data, kinds_B, starts_N1, is_begun_B)


class WordLengths:
    """A count of words, by which a corpus is cut into windows without an encoder, as with word vectors.

    Args:
        settings: window and overlap.
    """

    def __init__(self, settings: UnitSettings) -> None:
        self.window, self.overlap = settings.word_window
        self._known = _WordCounts()

    def lengths(self, texts: Sequence[str]) -> Ids:
        """Words of each text, (N,); in scripts without spaces a word is taken to be so many characters long."""
        return self.of_column(pa.array(texts, pa.string()))

    def of_column(self, texts: pa.StringArray) -> Ids:
        """Return the words of each text of a column, (N,), as `lengths` does.

        Of ASCII a word is a run of letters and digits, or several that a hyphen or an apostrophe joins: these are counted by
        the byte. Pieces between white space with other characters, or with a point in a number, are counted each once; so are
        all pieces where many are such. 10 MB of English took 0.36 s piece by piece, and so 0.1 s.
        """
        data, kinds_B, starts_N1, is_begun_B = _Letters.of(texts)
        if not len(kinds_B):
            return np.zeros(len(texts), np.int64)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        count = self._known.__getitem__
        if np.count_nonzero(kinds_B & _OTHER) > _MOST_OTHER * len(kinds_B):
            return np.fromiter((sum(map(count, text.split())) for text in texts.to_pylist()), np.int64, len(texts))
        is_begun_B[_between(kinds_B, _JOINT, _LETTER) + 1] = False
        first = starts_N1[:-1][starts_N1[:-1] < len(kinds_B) - 1]  # nothing joins a text to the one before
        is_begun_B[first + 1] |= ((kinds_B[first] & _JOINT) > 0) & ((kinds_B[first + 1] & _LETTER) > 0)
        first = starts_N1[:-1][starts_N1[:-1] < len(kinds_B)]
        is_begun_B[first] = (kinds_B[first] & _LETTER) > 0
        places = np.flatnonzero(is_begun_B)
        counts_N = np.diff(np.searchsorted(places, starts_N1))
        # pieces that are counted by the splitter
        kinds_B[_between(kinds_B, _POINT, _DIGIT)] |= _IN_NUMBER
        is_bound_B = (kinds_B & _SPACE) > 0
        is_bound_B[first] = True
        bounds = np.flatnonzero(is_bound_B)
        is_hard = (np.bitwise_or.reduceat(kinds_B, bounds) & (_OTHER | _IN_NUMBER)) > 0
        begin, end = bounds[is_hard], np.append(bounds[1:], len(kinds_B))[is_hard]
        more = np.array([count(data[at:to]) for at, to in zip(begin.tolist(), end.tolist(), strict=True)], np.int64)
        more -= np.searchsorted(places, end) - np.searchsorted(places, begin)
        counts_N += np.bincount(
            np.searchsorted(starts_N1, begin, side="right") - 1, weights=more, minlength=len(texts)
        ).astype(np.int64)
        return counts_N

    def most(self, texts: pa.StringArray) -> Ids:
        """Return an upper bound of the number of words of each text, (N,), which takes no time in any script.

        A word begins at a letter or digit of ASCII behind another byte, or at another character. Only a number with a point in
        it ends within letters and digits (3.5km), and it has more than one run of these.
        """
        letters = _Letters.of(texts)
        places = np.flatnonzero(letters.is_begun | ((letters.kinds & _FIRST) > 0))
        found: Ids = np.diff(np.searchsorted(places, letters.starts))
        return found


def _between(kinds_B: npt.NDArray[np.uint8], sign: int, sides: int) -> Ids:
    """Return where a byte of one kind stands between two of another kind."""
    places = np.flatnonzero((kinds_B[1:-1] & sign) > 0) + 1
    found: Ids = places[(kinds_B[places - 1] & kinds_B[places + 1] & sides) > 0]
    return found


def _as_long_as_words(run: str) -> list[str]:
    """Return a run of a script without spaces in pieces that are about as long as words.

    Translations of one text of 42,109 English words have 1.7 Chinese, 2.5 Japanese and 5.4 Thai characters for each word.
    """
    size = 2 if _SHORT_WORDS.match(run) else 5
    return [run[at : at + size] for at in range(0, len(run), size)]
