"""The language that texts are in, recognised by their function words; and the small words of a question."""

import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import chain, islice

from wordpipe.search.lexical.analysis import written_words
from wordpipe.search.lexical.stop_words import (
    WITHOUT_STEMMER,
    asked_words,
    languages_of_small_words,
    small_words,
    words_that_ask,
)

_SAMPLE = 1_000  # texts that are looked at
_WORDS_SEEN = 200_000  # of them, at most
_LEAST_SHARES = {"english": 0.12, "tamil": 0.03}
"""Of the words of texts: 0.21 of English titles to 0.36 of abstracts are on the short list of English."""
_LEAST_SHARE = 0.08
"""That the list of another language must have at least: of news and messages in 26 languages 0.12 to 0.42 of the words are on
theirs, of Tamil 0.07."""
_LEAST_SEEN = 5  # different words of the list
_SHARED_AT_MOST = 0.4
"""Of the words that only one of two languages lists, at most so many times as many may be the other's: 0.1 of Danish and
Norwegian, 0.4 to 1 of texts in two languages."""
_LEAST_OWN = 3  # words that a near language does not list
_LEAST_ASKED, _LEAST_SMALL = 3, 2  # words of a question with small words; small ones that tell its language
_ENDS = ".,;:!?…¿¡"


def words_of(text: str) -> tuple[list[str], int]:
    """Return all words of a text, their case folded; and how many characters of scripts without spaces it has."""
    words, unspaced = written_words(text)
    return words if text.isascii() else [*map(_folded, words)], unspaced


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word.casefold())


def recognised_language(texts: Iterable[str]) -> str:
    """Return the language of the first texts, by their function words; none where no language, or no single one, stands out.

    Letters alone and scripts are not asked: they do not tell Spanish from Catalan. Single letters of ASCII are no words here.
    """
    written, seen, total = Counter[str](), Counter[str](), 0
    for text in islice(texts, _SAMPLE):
        words, unspaced = written_words(text)
        total += len(words) + unspaced // 2
        written.update(words)
        if total >= _WORDS_SEEN:
            break
    for word, often in written.items():
        folded = _folded(word)
        if len(folded) > 1 or not folded.isascii():
            seen[folded] += often
    own = {language: {word for word in words if word in seen} for language, words in small_words().items()}
    counts = {language: sum(seen[word] for word in words) for language, words in own.items()}
    best = max(counts, key=counts.__getitem__)
    is_seen = len(own[best]) >= min(_LEAST_SEEN, 2 + total // 20)
    if best in WITHOUT_STEMMER or not is_seen or counts[best] < _LEAST_SHARES.get(best, _LEAST_SHARE) * total:
        return "none"
    for other in own.keys() - {best}:
        ours, theirs = (sum(seen[word] for word in words) for words in (own[best] - own[other], own[other] - own[best]))
        if theirs > _SHARED_AT_MOST * ours or (ours < _LEAST_OWN and 2 * counts[other] > counts[best]):
            return "none"
    return best


def with_language(texts: Iterable[str]) -> tuple[Iterable[str], str]:
    """Return all texts, and their language by the first ones; see `recognised_language`."""
    iterator = iter(texts)
    first = list(islice(iterator, _SAMPLE))
    return chain(first, iterator), recognised_language(first)


def are_small(words: Sequence[str], language: str) -> bool:
    """True if all words are small ones of a language (of any, where the language is not known): of, the.

    >>> are_small(["Of", "the"], "english"), are_small(["the", "sea"], "none"), are_small([], "english")
    (True, False, False)
    """
    known: Container[str] = languages_of_small_words() if language == "none" else asked_words(language)
    return bool(words) and all(_folded(word.strip(_ENDS).replace("’", "'")) in known for word in words)


def small_in_question(words: Sequence[str], language: str) -> frozenset[str]:
    """Return which words only make a question a sentence: of "how a ship knows where it is" all but ship and knows.

    A question of fewer than three words has none, nor is a word in capitals one (WHO). A title is no question: in English one
    of the words asks. Where the language of the texts is not known, that of the question is the one with most small words in
    it. On Cranfield, CISI, NPL and CACM nDCG@10 by words is higher by 0.8 points without them (`benchmarks/word_rules.py`).

    Args:
        words: of the question, as written.
        language: of the texts; none: it is not known.
    """
    if len(words) < _LEAST_ASKED:
        return frozenset()
    is_loud = all(word == word.upper() for word in words)
    plain = {word: _folded(word.strip(_ENDS).replace("’", "'")) for word in words}
    able = {word for word in plain if is_loud or len(word) == 1 or word != word.upper()}
    if language == "none":
        found: dict[str, set[str]] = {}
        for word in able:
            for name in languages_of_small_words().get(plain[word], ()):
                found.setdefault(name, set()).add(word)
        most = max(map(len, found.values()), default=0)
        best = [name for name, some in found.items() if len(some) == most]
        small = set.intersection(*(found[name] for name in best)) if most >= _LEAST_SMALL else set[str]()
    else:
        best, small = [language], {word for word in able if plain[word] in asked_words(language)}
    asks = best != ["english"] or any(plain[word] in words_that_ask() for word in able)
    return frozenset(small) if asks else frozenset()
