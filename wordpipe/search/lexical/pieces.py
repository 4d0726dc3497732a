"""Texts cut into pieces at white space, and the terms and words of each different piece.

Of 10 MB of text 1,800,000 pieces are 150,000 different ones, most of them one word with signs around it. Texts are cut, pieces
told apart and signs taken off by Arrow; the rules of words see each piece once, and plain words all together.

Shapes: D different pieces, M pieces that occur.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wordpipe.search.knn import Rows
from wordpipe.search.lexical.analysis import Analyser, is_broken

_BEFORE = "!\"#$%&'()*+,-/:;<=>?@[\\]^`{|}~“”„‘’‚«»‹›–—…¿¡"  # no dot, with which a name may begin: .NET
_BEHIND = "!\"$%&'()*,-./:;<=>?@[\\]^`{|}~“”„‘’‚«»‹›–—…"  # neither + nor #, with which one may end: C++
"""Signs that no run begins with, and that no run ends with."""
_POSSESSIVE = "^([0-9A-Za-z]{2,})['’][A-Za-z]$"  # a single letter beside an apostrophe is no word


@dataclass(frozen=True, slots=True)
class Lists:
    """D lists of numbers, one after the other."""

    items: Rows
    ends: Rows  # (D + 1,) where each begins and ends

    @classmethod
    def none(cls) -> "Lists":
        """Return no lists."""
        return cls(np.zeros(0, np.int64), np.zeros(1, np.int64))

    def more(self, items: Rows, sizes: Rows) -> "Lists":
        """Return these and more lists, of so many items each."""
        return Lists(np.append(self.items, items), np.append(self.ends, self.ends[-1] + np.cumsum(sizes)))

    def of(self, which_M: Rows) -> tuple[Rows, Rows]:
        """Return the items of some lists one after the other, and for each item which of the M it comes from."""
        first_M = self.ends[which_M]
        sizes_M = self.ends[which_M + 1] - first_M
        at = np.repeat(first_M - (np.cumsum(sizes_M) - sizes_M), sizes_M) + np.arange(sizes_M.sum())
        return self.items[at], np.repeat(np.arange(len(which_M)), sizes_M)


class Numbers(dict[str, int]):
    """String → its number: in the order in which they came."""

    def of(self, some: Sequence[str]) -> tuple[Rows, list[str]]:
        """Return the number of each string; and those strings that are new, in order."""
        before, number = len(self), self.setdefault
        numbers = [number(one, len(self)) for one in some]
        new = [one for one, at in zip(some, numbers, strict=True) if at >= before] if len(self) > before else []
        return np.array(numbers, np.int64), [*dict.fromkeys(new)]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of some texts."""

    of_texts: Rows  # (M,) which text each comes from
    numbers: npt.NDArray[np.int32]  # (M,) which of the different ones it is
    different: list[str]  # D


def cut(texts: Sequence[str], analyser: Analyser) -> Pieces:
    """Cut texts into pieces; every run of letters lies within one piece.

    A text with a hyphen at the end of a line is cut into its runs, as a run may go over the end of that line.
    """
    broken = [number for number, text in enumerate(texts) if "\n" in text and is_broken(text)]
    runs, whole = [analyser.runs(texts[number]) for number in broken], [*texts]
    for number in broken:
        whole[number] = ""
    lists = pc.ascii_split_whitespace(_strings(whole))
    sizes = pc.list_value_length(lists).to_numpy()
    pieces = pa.concat_arrays([lists.flatten(), _strings([*chain.from_iterable(runs)])]).dictionary_encode()
    numbers = np.array([*range(len(texts)), *broken], np.int64)
    of_texts_M = np.repeat(numbers, np.append(sizes, np.array([*map(len, runs)], np.int64)))
    return Pieces(of_texts_M, pieces.indices.to_numpy(), pieces.dictionary.to_pylist())


def _strings(texts: Sequence[str]) -> Any:
    """Return texts as an array of Arrow; halves of characters, which are no letters, become question marks."""
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())


def plain_words(pieces: Sequence[str], analyser: Analyser) -> tuple[npt.NDArray[np.bool_], list[str]]:
    """Return which pieces are a run of letters and digits of ASCII with signs around it, (D,), and their words.

    A stop word is empty. A single letter or digit has rules of its own.
    """
    if not analyser.has_plain:
        return np.zeros(len(pieces), np.bool_), []
    cores = pc.utf8_rtrim(pc.utf8_ltrim(_strings(pieces), _BEFORE), _BEHIND)
    cores = pc.replace_substring_regex(cores, _POSSESSIVE, r"\1")
    is_plain = pc.and_(pc.ascii_is_alnum(cores), pc.greater(pc.binary_length(cores), 1))
    return is_plain.to_numpy(zero_copy_only=False), analyser.plain_words(cores.filter(is_plain).to_pylist())
