"""Which neighbours are phrases: those that follow each other far more often than words of their frequency would by chance.

Source: Mikolov, Sutskever, Chen, Corrado and Dean 2013, "Distributed Representations of Words and Phrases and their
Compositionality", section 4, equation 6, in the scale of their tool word2phrase: times the number of words in the text. A
score of 100 then says: a hundred times as often as chance has it (less the discount), whatever the size of the text. gensim
multiplies by the number of distinct words and pairs it has stored instead, so that its scores depend on how much it has
stored, and its threshold of 10 is about 27 here (4.8 million words).

Bouma's normalised pointwise mutual information (2009) was tried: for the same number of pairs it finds as many article titles
(567 and 563 in 3,142 pairs of 4.8 million words of Wikipedia), and it joins common words more (such_as, there_are).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel, read_only
from wordpipe.errors import ConfigError, InputError
from wordpipe.words.phrases.joining import PairJoiner
from wordpipe.words.phrases.known import JOINT
from wordpipe.words.phrases.pairs import TABLE_BYTES, PairCounts, key_of_pair, pairs_of_keys
from wordpipe.words.text import Words

__all__ = ["Phrases"]


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrases of a text. Their ids follow those of the words, in the order in which the passes found them.

    Attributes:
        members: the word ids of every phrase, two or more.
        counts: occurrences of every word and phrase after joining, int64 [words + phrases]; words have lost those that
            are in phrases, and a phrase whose words were always taken by its neighbours has 0.
        joiners: one for each pass that found anything.
    """

    members: tuple[tuple[int, ...], ...]
    counts: NDArray[np.int64]
    joiners: tuple[PairJoiner, ...]

    def __len__(self) -> int:
        return len(self.members)

    @classmethod
    def learn(
        cls,
        blocks: Callable[[], Iterable[Words]],
        counts_V: NDArray[np.int64],
        *,
        scratch: Path,
        threshold: float = 100.0,
        min_count: int = 10,
        passes: int = 2,
        max_bytes: int = TABLE_BYTES,
    ) -> "Phrases":
        """Find the phrases of a text. It is read twice for each pass.

        Args:
            blocks: gives the text from its beginning, every time the same; word ids below V.
            counts_V: occurrences of every word in this text, int64.
            scratch: an existing folder for what does not fit in memory.
            threshold: pairs with a higher score become phrases; 0 or more. 10 also joins was_elected and the_soviet_union, and
                spoils the vectors of plain words (WS-353 of 5 million words: 45 without phrases, 44 with 100, 32 with 10).
            min_count: the discount of equation 6: only pairs that occur more often can become phrases. 10 gives fewer than
                word2phrase's 5, and a larger share of them are names and terms.
            passes: rounds of joining: one gives phrases of two words, two of up to four.
            max_bytes: memory for counting.

        Raises:
            ConfigError: a threshold below 0 or not a number.
            InputError: the text has a word id that `counts_V` does not know.
        """
        if not threshold >= 0:
            raise ConfigError("not a threshold of phrases", where="threshold", got=threshold, expected="0 or more")
        found = cls((), counts_V, ())
        for _ in range(passes):
            left, right = found._pairs(blocks, threshold, min_count, PairCounts(scratch, max_bytes))
            if not len(left):
                break
            found = found._with(left, right, len(counts_V), blocks)
        return found

    def join(self, blocks: Iterable[Words]) -> Iterator[Words]:
        """The text with its phrases joined, in blocks of about the same size; texts stay apart, empty ones are kept.

        Raises:
            InputError: an unknown word id.
        """
        blocks = _checked(blocks, len(self.counts) - len(self))
        for joiner in self.joiners:
            blocks = joiner.join(blocks)
        return iter(blocks)

    def spell(self, words: Sequence[str]) -> list[str]:
        """The spelling of every phrase: its words with `_` between them, which no word of a text has in it.

        Args:
            words: the spelling of every word id.
        """
        return [JOINT.join([words[number] for number in phrase]) for phrase in self.members]

    def _pairs(
        self, blocks: Callable[[], Iterable[Words]], threshold: float, min_count: int, pairs: PairCounts
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs of the joined text whose score is above the threshold, in the order of their ids."""
        counts, total = self.counts.astype(np.float64), float(self.counts.sum())
        before = -1
        for block in self.join(blocks()):
            keys = np.empty(len(block.ids), np.uint64)
            number, before = _candidates(
                read_only(block.ids), read_only(block.starts), before, counts, min_count, threshold, total, keys
            )
            pairs.add(keys[:number])
        chosen = []
        for keys, together in pairs.counted():
            left, right = pairs_of_keys(keys)
            above = _score(together.astype(np.float64), counts[left], counts[right], min_count, total) > threshold
            chosen.append(keys[above])
        left, right = pairs_of_keys(np.concatenate(chosen))
        order = np.lexsort((right, left))
        return left[order], right[order]

    def _with(
        self,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        words: int,
        blocks: Callable[[], Iterable[Words]],
    ) -> "Phrases":
        """These phrases and those that joining one more set of pairs gives.

        No words become a phrase in two ways: where a phrase begins, joining from left to right begins afresh, so the same
        words are joined in the same way wherever they are one phrase in the end.
        """
        size = words + len(self)
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        new = tuple(self._words_of(first, words) + self._words_of(second, words) for first, second in pairs)
        joiner = PairJoiner(left, right, np.arange(size, size + len(new)), size)
        counts = np.zeros(size + len(new), np.int64)
        grown = Phrases(self.members + new, counts, (*self.joiners, joiner))
        for block in grown.join(blocks()):
            _count(read_only(block.ids), counts)
        return grown

    def _words_of(self, number: int, words: int) -> tuple[int, ...]:
        return (number,) if number < words else self.members[number - words]


def _checked(blocks: Iterable[Words], words: int) -> Iterator[Words]:
    """The same blocks; compiled loops do not look where they reach."""
    for block in blocks:
        if len(block.ids) and (int(block.ids.max()) >= words or int(block.ids.min()) < 0):
            got = int(block.ids.max()) if int(block.ids.max()) >= words else int(block.ids.min())
            raise InputError("the text has an unknown word id", got=got, expected=f"0 to {words - 1}")
        yield block


def _score(
    together: NDArray[np.float64], left: NDArray[np.float64], right: NDArray[np.float64], discount: int, total: float
) -> NDArray[np.float64]:
    """Equation 6 times the number of words, from the counts of pairs and of their words."""
    return (together - discount) / left / right * total


@kernel
def _candidates(
    ids: NDArray[np.int32],
    starts: NDArray[np.int64],
    before: int,
    counts: NDArray[np.float64],
    discount: int,
    threshold: float,
    total: float,
    keys: NDArray[np.uint64],
) -> tuple[int, int]:
    """Write the keys of all pairs that could become phrases; gives their number and the last word, -1 where a text begins.

    A pair occurs at most as often as the rarer of its words. Where even that would not be enough it is not counted, which
    changes nothing: the score is written as in `_score`, so it rises with the count in rounded numbers too.
    """
    size = text = 0
    for at in range(len(ids)):
        while text < len(starts) and starts[text] == at:
            before = -1
            text += 1
        word = int(ids[at])
        if before >= 0:
            left, right = counts[before], counts[word]
            if (min(left, right) - discount) / left / right * total > threshold:
                keys[size] = key_of_pair(before, word)
                size += 1
        before = word
    return size, before if text == len(starts) else -1


@kernel
def _count(ids: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    for at in range(len(ids)):
        counts[ids[at]] += 1
