"""Text to stems, as lexical search compares them: words in lower case, without English stop words, their endings cut off.

A word is two or more letters, digits or underscores; a run of a script that puts no spaces between words becomes its pairs
of characters, as in Lucene's CJKBigramFilter.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

from wordpipe.errors import ConfigError

# the words that Lucene's EnglishAnalyzer leaves out
_ENGLISH = """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
to was will with"""
_STOP_WORDS = frozenset(_ENGLISH.split())
_ASCII_WORD = re.compile(r"\w\w+", re.ASCII)
_WORD = re.compile(r"\w\w+")
_ENGLISH_SHARE = 0.12
"""Of stop words: 0.21 of English titles to 0.36 of abstracts; at most 0.04 of eleven other languages."""


class Analyser:
    """Texts to stems in one language.

    Args:
        language: a Snowball algorithm, or none: words stay as they are.

    Raises:
        ConfigError: no such language.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._stop = _STOP_WORDS if language == "english" else frozenset()
        self._stem = stemmer(language)

    def __call__(self, text: str) -> list[str]:
        """The stems of a text in order, each as often as it stands there."""
        if text.isascii():
            return [stem for word in self.ascii_words(text) if (stem := self.stem(word))]
        words, unspaced = _patterns()
        stems: list[str] = []
        for word in words.findall(text):
            if unspaced.match(word):  # its pairs of characters, or the single one
                stems += [word[first : first + 2] for first in range(max(len(word) - 1, 1))]
            elif stem := self.stem(word):
                stems.append(stem)
        return stems

    def with_words(self, text: str) -> list[tuple[str, str]]:
        """The same, each with the word that it comes from, in small letters; pairs of characters come from themselves."""
        return [(stem, text[first:end].lower()) for first, end, stem in self.places(text)]

    def places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where each stem of `self(text)` comes from, in the same order: first character, the one after the last, stem."""
        words, unspaced = (_ASCII_WORD, None) if text.isascii() else _patterns()
        for found in words.finditer(text):
            word, start = found[0], found.start()
            if unspaced is not None and unspaced.match(word):
                for first in range(max(len(word) - 1, 1)):
                    pair = word[first : first + 2]
                    yield start + first, start + first + len(pair), pair
            elif stem := self.stem(word):
                yield start, found.end(), stem

    @staticmethod
    def ascii_words(text: str) -> list[str]:
        """The words of a text of ASCII alone, as written: each becomes one stem, or none."""
        return _ASCII_WORD.findall(text)

    def stem(self, word: str) -> str:
        """The stem of one word; empty for a stop word."""
        small = (word if word.isascii() else unicodedata.normalize("NFKC", word)).lower()
        return "" if small in self._stop else self._stem(small)


def looks_english(texts: Iterable[str], *, sample: int = 1_000) -> bool:
    """Whether so many words of the first texts are English stop words that the texts must be English."""
    words = [word.lower() for text in islice(texts, sample) for word in _WORD.findall(text)]
    return bool(words) and sum(word in _STOP_WORDS for word in words) >= _ENGLISH_SHARE * len(words)


def stemmer(language: str) -> Callable[[str], str]:
    """A word to its stem; of the language none, the word itself."""
    if language == "none":
        return str
    import Stemmer

    try:
        return Stemmer.Stemmer(language).stemWord  # type: ignore[no-any-return]
    except KeyError:
        known = ", ".join(["auto", "none", *Stemmer.algorithms()])
        what = "not a language that can be stemmed"
        raise ConfigError(what, where="language", got=language, expected=known) from None


@cache
def _patterns() -> tuple[Any, Any]:
    """A word or an unspaced run in any script; and what tells the run. Compiled when the first such text comes."""
    import regex

    unspaced = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
    return regex.compile(rf"(?V1)[{unspaced}]+|[\w--[{unspaced}]]{{2,}}"), regex.compile(rf"(?V1)[{unspaced}]")
