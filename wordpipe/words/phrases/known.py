"""Phrases in a new text: neighbours whose joined spelling a table of words knows."""

from collections.abc import Iterable, Sequence

__all__ = ["JOINT", "KnownPhrases"]

JOINT = "_"  # stands in no word of a text (see tokens/words.py), so a spelling says whether it is a phrase


class KnownPhrases:
    """The phrases among the words of a table.

    Args:
        words: all spellings, the commonest first; those with `_` between words are the phrases.

    >>> KnownPhrases(["new", "york", "new_york", "new_york_city"]).join(["old", "new", "york", "city", "hall"])
    ['old', 'new_york_city', 'hall']
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._phrases = dict.fromkeys(word for word in words if JOINT in word and JOINT in word.strip(JOINT))
        self._longest: dict[str, int] = {}  # words of the longest phrase that begins with this one
        for phrase in self._phrases:
            first, *others = phrase.split(JOINT)
            self._longest[first] = max(self._longest.get(first, 0), 1 + len(others))

    def __len__(self) -> int:
        return len(self._phrases)

    def join(self, words: Sequence[str]) -> list[str]:
        """Join the longest phrase at every place, from left to right. Case matters, as it does in the table."""
        joined: list[str] = []
        at = 0
        while at < len(words):
            size = min(self._longest.get(words[at], 1), len(words) - at)
            while size > 1 and JOINT.join(words[at : at + size]) not in self._phrases:
                size -= 1
            joined.append(JOINT.join(words[at : at + size]))
            at += size
        return joined

    def having(self, word: str) -> list[str]:
        """The phrases with this word in them, the commonest first: a word that hardly occurs but in phrases has no vector."""
        return [phrase for phrase in self._phrases if word in phrase and word in phrase.split(JOINT)]
