"""Texts cut into pieces at white space, and the terms and words of each different piece.

Of 10 MB of text 1,800,000 pieces are 150,000 different ones, most of them one word with signs around it. Texts are cut, pieces
told apart and signs taken off by Arrow and NumPy, without a Python string for each; the rules of words see each piece once,
and plain words all together.

Shapes: N texts, B their bytes, D different pieces, M pieces that occur, W different words.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.search.hits import Mask, Rows
from wordpipe.search.lexical.analysis import END, PLURAL, Analyser
from wordpipe.search.lexical.postings import in_order_of

Texts = Iterable[str] | Iterable[pa.Array]
"""Texts as Python has them, or as arrays of Arrow with any number of texts each, without nulls.

An array of structs has rows: of each the text, and the values of its fields with END between them, both as large strings.
"""

_BEFORE = "!\"#$%&'()*+,-/:;<=>?@[\\]^`{|}~“”„‘’‚«»‹›–—…¿¡"  # no dot, with which a name may begin: .NET
_BEHIND = "!\"$%&'()*,-./:;<=>?@[\\]^`{|}~“”„‘’‚«»‹›–—… "  # neither + nor #, with which one may end: C++
"""Signs that no run begins with, and that no run ends with."""
_POSSESSIVE = "^([0-9A-Za-z]{2,})['’][A-Za-z]$"  # a single letter beside an apostrophe is no word
_SPACES = np.zeros(256, np.bool_)
_SPACES[[*b" \t\n\v\f\r", ord(END)]] = True
_HYPHENS = (b"-", "‐".encode(), "‑".encode())  # at the end of a line they may break a word
_NO_NUMBER, _SOME_NUMBERS = -1, -2


@dataclass(frozen=True, slots=True)
class Lists:
    """D lists of numbers that are not negative, one after the other; most lists have one number."""

    items: Rows
    ends: Rows  # (D + 1,) where each begins and ends
    only: Rows  # (D,) the number of a list of one; _NO_NUMBER of an empty list, _SOME_NUMBERS of a longer one

    @classmethod
    def none(cls) -> "Lists":
        """Return no lists."""
        return cls(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.only)

    def more(self, items: Rows, of_lists: Rows, count: int) -> "Lists":
        """Return these and so many more lists; of the new ones each item belongs to one."""
        order, sizes = in_order_of(of_lists), np.bincount(of_lists, minlength=count)
        only = np.where(sizes, _SOME_NUMBERS, _NO_NUMBER)
        is_only = sizes == 1
        ends = np.cumsum(sizes)
        only[is_only] = items[order[ends[is_only] - 1]]
        joined = np.append(self.items, items[order]), np.append(self.ends, self.ends[-1] + ends)
        return Lists(*joined, np.append(self.only, only))

    def of(self, which_M: npt.NDArray[np.signedinteger[Any]]) -> tuple[Rows, Rows]:
        """Return the items of some lists, and for each item which of the M it comes from: first those of lists of one."""
        only_M = self.only[which_M]
        of_one, of_some = np.flatnonzero(only_M >= 0), np.flatnonzero(only_M == _SOME_NUMBERS)
        first_S = self.ends[which_M[of_some]]
        sizes_S = self.ends[which_M[of_some] + 1] - first_S
        at = np.repeat(first_S - (np.cumsum(sizes_S) - sizes_S), sizes_S) + np.arange(sizes_S.sum())
        items = np.concatenate([only_M[of_one], self.items[at]])
        return items, np.concatenate([of_one, np.repeat(of_some, sizes_S)])


class Numbers(dict[str, int]):
    """String → its number: in the order in which they came."""

    def of(self, some: Sequence[str]) -> tuple[Rows, list[str]]:
        """Return the number of each string; and those strings that are new, in order."""
        before, number = len(self), self.setdefault
        numbers = [number(one, len(self)) for one in some]
        new = [one for one, at in zip(some, numbers, strict=True) if at >= before] if len(self) > before else []
        return np.array(numbers, np.int64), [*dict.fromkeys(new)]


def blocks(texts: Texts, size: int) -> Iterator[pa.LargeStringArray | pa.StructArray]:
    """Yield texts some at a time, of so many bytes or characters together, or more by one text."""
    some, held = list[Any](), 0
    for one in texts:
        if isinstance(one, str):
            some.append(one)
            held += len(one) + 1
        else:
            held_N = held + np.cumsum(_sizes(one)) + np.arange(1, len(one) + 1)
            while held_N.size and held_N[-1] >= size:
                cut = int(np.searchsorted(held_N, size)) + 1
                yield _joined([*some, one[:cut]])
                one, some, held, held_N = one[cut:], [], 0, held_N[cut:] - held_N[cut - 1]
            if len(one):
                some.append(one)
                held = int(held_N[-1])
        if held >= size:
            yield _joined(some)
            some, held = [], 0
    if some:
        yield _joined(some)


def _sizes(texts: pa.Array) -> npt.NDArray[np.integer[Any]]:
    """Return the bytes of each text, (N,); of a row with fields those of all."""
    parts = texts.flatten() if pa.types.is_struct(texts.type) else [texts]
    sizes: npt.NDArray[np.integer[Any]] = np.sum([pc.binary_length(part).to_numpy() for part in parts], axis=0)
    return sizes


def _joined(some: Sequence[Any]) -> pa.LargeStringArray | pa.StructArray:
    """Return texts, or arrays of texts, as one array."""
    if isinstance(some[0], str):
        return strings(some)
    if pa.types.is_struct(some[0].type):
        return pa.concat_arrays(some)
    return pa.concat_arrays([one.cast(pa.large_string()) for one in some])


def cut(texts: pa.LargeStringArray, analyser: Analyser) -> tuple[Rows, pa.LargeStringArray]:
    """Cut texts into pieces; every run of letters lies within one piece.

    A text with a hyphen at the end of a line is cut into its runs, as a run may go over the end of that line.

    Returns:
        For each of M pieces which text it comes from; and the pieces, most of them with the space behind them.
    """
    # a space behind each text, and for all white space: a piece is what ends with a space
    nothing, space = pa.scalar("", pa.large_string()), pa.scalar(" ", pa.large_string())
    _, ends, letters = pc.binary_join_element_wise(texts, nothing, space).buffers()
    ends_N = np.frombuffer(ends, np.int64)[1 : len(texts) + 1]
    letters_B = np.frombuffer(letters, np.uint8)[: ends_N[-1]].copy()
    places_M = np.flatnonzero(_SPACES[letters_B])
    # texts with broken words
    broken = np.unique(np.searchsorted(ends_N, _breaks(letters_B, places_M), side="right")).tolist()
    runs = [analyser.runs(texts[number].as_py()) for number in broken]
    letters_B[places_M] = ord(" ")
    for number in broken:
        letters_B[ends_N[number - 1] if number else 0 : ends_N[number]] = ord(" ")
    # the pieces, and their texts
    starts = np.concatenate([[0], places_M + 1])
    pieces = pa.LargeStringArray.from_buffers(len(places_M), pa.py_buffer(starts), pa.py_buffer(letters_B))
    counts_N = np.diff(np.searchsorted(places_M, ends_N), prepend=0)
    of_texts_M = np.repeat(np.arange(len(texts)), counts_N)
    if broken:
        pieces = pa.concat_arrays([pieces, strings([*chain.from_iterable(runs)])])
        of_texts_M = np.append(of_texts_M, np.repeat(broken, [*map(len, runs)]))
    return of_texts_M, pieces


def _breaks(letters_B: npt.NDArray[np.uint8], places_M: Rows) -> Rows:
    """Return where lines end behind a hyphen; a run may go over these ends alone."""
    lines = places_M[(letters_B[places_M] == ord("\n")) & (places_M > 0)]
    behind = lines - (letters_B[lines - 1] == ord("\r"))
    is_broken = np.zeros(len(lines), np.bool_)
    for hyphen in _HYPHENS:
        size = len(hyphen)
        there = behind >= size
        for at, byte in enumerate(hyphen):
            there &= letters_B[np.maximum(behind - size + at, 0)] == byte
        is_broken |= there
    found: Rows = lines[is_broken]
    return found


def strings(texts: Sequence[str]) -> pa.LargeStringArray:
    """Return texts as an array of Arrow; halves of characters, which are no letters, become question marks."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())


class PlainWords(NamedTuple):
    """The words of pieces that are one run of ASCII letters and digits between signs."""

    is_plain: Mask  # (D,) which pieces are; a single letter or digit has rules of its own, and is none
    words: list[str]  # W different ones, no stop words
    numbers: npt.NDArray[np.int32]  # for each plain piece that is no stop word, which of them it is
    of_pieces: Rows  # and which piece it is


def plain_words(pieces: pa.LargeStringArray, analyser: Analyser) -> PlainWords:
    """Return the words of pieces that are plain: what `Analyser.plain_words` gives of each, but all at once, by Arrow."""
    if not analyser.has_plain:
        return PlainWords(np.zeros(len(pieces), np.bool_), [], np.zeros(0, np.int32), np.zeros(0, np.int64))
    # the pieces without the signs around them
    cores = pc.utf8_rtrim(pc.utf8_ltrim(pieces, _BEFORE), _BEHIND)
    cores = pc.replace_substring_regex(cores, _POSSESSIVE, r"\1")
    is_plain = pc.and_(pc.ascii_is_alnum(cores), pc.greater(pc.binary_length(cores), 1))
    is_plain_D = is_plain.to_numpy(zero_copy_only=False)
    coded = cores.filter(is_plain).dictionary_encode()
    # their words, those of equal ones once
    words = pc.ascii_lower(coded.dictionary)
    if analyser.joins_plurals:
        is_plural = pc.match_substring_regex(coded.dictionary, f"^(?:{PLURAL})$")
        words = pc.if_else(is_plural, pc.utf8_slice_codeunits(words, 0, -1), words)
    words = words.dictionary_encode()
    # without stop words
    is_stop_W = pc.is_in(words.dictionary, value_set=strings(sorted(analyser.stop))).to_numpy(zero_copy_only=False)
    number_W = np.cumsum(~is_stop_W, dtype=np.int32) - 1
    found = words.indices.to_numpy()[coded.indices.to_numpy()]
    is_word = ~is_stop_W[found]
    left = words.dictionary.filter(pa.array(~is_stop_W)).to_pylist()
    return PlainWords(is_plain_D, left, number_W[found[is_word]], np.flatnonzero(is_plain_D)[is_word])
