"""The number of words by which windows are cut: the same as the word splitter finds, in every script."""

import random

import numpy as np
import pyarrow as pa
import pytest

from wordpipe.encoders import WordLengths
from wordpipe.search.settings import IndexSettings
from wordpipe.tokens import WordSplitter

LETTERS = [
    *map(chr, range(32, 0x250)),
    *"’‐\u0300\u0301бё\u0627\u0628\u0905\u093c가中あกー々\u00ad\u200b٠०𝐀Ａ",
    "\n",
    "\t",
]
MOSTLY_ASCII = [*"abAB012.,'-- \n_\"" * 20, *"’é\u00ad中а\u00a0\u3000"]  # counted by the byte


def pieces(run: str) -> list[str]:
    """Return a run of a script without spaces in pieces as long as a word."""
    size = 2 if run[0] in "中あー々" else 5
    return [run[at : at + size] for at in range(0, len(run), size)]


@pytest.mark.parametrize("letters", [LETTERS, MOSTLY_ASCII], ids=["all", "mostly ASCII"])
def test_as_many_words_as_the_splitter_finds(letters):
    rng = random.Random(random.SystemRandom().randrange(1 << 30))
    texts = ["".join(rng.choices(letters, k=rng.randrange(40))) for _ in range(5_000)]
    split = WordSplitter(pieces)
    expected = [len(split(text)) for text in texts]
    found = WordLengths(IndexSettings.make({})).lengths(texts)
    wrong = [ascii(text) for text, a, b in zip(texts, found.tolist(), expected, strict=True) if a != b]
    assert not wrong, wrong[:3]
    column = pa.array(["before", *texts])[1:]
    most = WordLengths(IndexSettings.make({})).most(column)
    fewer = [ascii(text) for text, a, b in zip(texts, most.tolist(), expected, strict=True) if a < b]
    assert not fewer, fewer[:3]


def test_the_words_of_a_short_text_are_not_overestimated_by_much():
    texts = ["The sea-bed isn't at 3.5 km.", "one two three", "", "été"]
    assert WordLengths(IndexSettings.make({})).most(pa.array(texts)).tolist() == [9, 3, 0, 3]


def test_numbers_signs_and_apostrophes():
    texts = ["The sea-bed isn't at 3.5 km.", "1,000 or 1.000.000", "", "...", "naïve café, l’été", "don't--stop"]
    assert np.array_equal(WordLengths(IndexSettings.make({})).lengths(texts), [6, 3, 0, 0, 3, 2])
