"""Text to terms, as lexical search compares them: words without case, without stop words, their endings cut off.

A word is a run of letters, digits and underscores, and may be one of them alone (hepatitis C, room 8). The rules:

- Signs within a word or at its end make one more term of the whole: `C++`, `node.js`, `3.11.2` and `COVID-19` are found as
  they are written and by their parts.
- Invisible characters part no word: soft hyphens, zero-width spaces, marks of direction.
- Case is folded, not made small: ß and ss, final sigma; in Turkish by the language's own rule.
- A word with marks is found without them, too: café and cafe, ё and е, Arabic vowel signs.
- A run of a script that puts no spaces between words becomes its pairs of characters, as in Lucene's CJKBigramFilter; a Korean
  word is a term itself, too.

Who changes a rule raises the format of indexes (`FORMATS`): an index is asked by the rules that it was built with.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

from wordpipe.errors import ConfigError
from wordpipe.search.analysis.stop_words import stop_words
from wordpipe.wording import INVISIBLE, visible

_RUN = re.compile(r"\w[\w+#]*(?:[-.&/,'][\w+#]+)*", re.ASCII)
_DOTTED_RUN = re.compile(r"(?:(?<![\w.])\.)?\w[\w+#]*(?:[-.&/,'][\w+#]+)*", re.ASCII)  # takes twice as long
_DOTS = (" .", "\n.", "(.", '".', "'.", "`.", "/.", "\t.", ",.")  # what stands where a name such as .NET may begin
_PART = re.compile(r"\w+", re.ASCII)
_APART = re.compile(r"[A-Za-z]{2,}(?:[-/,][A-Za-z]{2,})+")  # words of which these signs make no name
_LONGEST_JOINED = 48  # characters: an address of a page is not looked for as a whole
_CACHED = 1 << 16  # runs whose terms are remembered
_MARKS = re.compile(
    r"(?<![иу])\u0306|(?<!і)\u0308|[\u0300-\u0305\u0307\u0309-\u036f\u0483-\u0487"  # й, ў and ї are letters
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    r"\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic, and its long line
    r"\u0711\u0730-\u074a\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u200c\u200d]"
)
_BARE = str.maketrans(
    {"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"}
)
"""Letters with a mark that Unicode does not take apart, in small letters; as in Lucene's ASCIIFoldingFilter."""
_TURKISH = str.maketrans({"I": "ı", "İ": "i"})
_PLAIN_SIGNS = str.maketrans("‐‑’＋＃．＆／", "--'+#.&/")
_BARE_SHARE = 0.3  # of a word with marks in a question: what its form without them weighs
_PAIRS_SHARE = 0.5  # of a Korean word in a question: what its pairs weigh together
_LETTER_SHARE, _SIGNS_SHARE = 0.3, 0.5
"""Of a word in a question: a single letter, and a single digit or what signs join. nDCG@10 of Cranfield, CISI, NPL and CACM is
46.1 with these, as without such terms (46.07), and 45.5 where each counts as a whole word."""


class Form(NamedTuple):
    """A term, and where in its run it comes from."""

    start: int
    end: int
    term: str
    share: float  # what it weighs in a question; the forms of a word weigh 1 together, single characters and names less
    word: int  # which word of the run it is a form of; a joined form is a word of its own
    kind: Literal[
        "word", "bare", "pair", "joined"
    ]  # the word itself, without its marks, syllables in it, or a name with signs

    @property
    def is_main(self) -> bool:
        """True if this form is the word itself."""
        return self.kind == "word"

    @property
    def is_long(self) -> bool:
        """True if the form counts in the length of a text for BM25: pairs, joined forms and single letters do not count.

        With these counted, nDCG@10 of Cranfield, CISI, NPL and CACM was lower by 0.3 points: texts full of initials, formulas
        and dates are no longer than others. A form without marks does, so that of equal texts the one that has it as a word
        comes first.
        """
        return self.kind in ("word", "bare") and self.end - self.start > 1


class Analyser:
    """Texts to terms in one language.

    Args:
        language: a Snowball algorithm, or none: words stay as they are.
        stems: whether endings are cut off.

    Raises:
        ConfigError: no such language.
    """

    def __init__(self, language: str, *, stems: bool = True) -> None:
        self.language = language
        self._stop = stop_words(language)
        self._stem = stemmer(language if stems else "none")
        self._known: dict[str, tuple[Form, ...]] = {}  # no cache around a method: it would know us, and we it, for ever

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text in order, each as often as it stands there."""
        return [form.term for run in self.runs(text) for form in self.of_run(run)]

    def of_run(self, run: str) -> tuple[Form, ...]:
        """Return the terms of one run, and where in it they come from."""
        found = self._known.get(run)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[run] = self._of_run(run)
        return found

    def runs(self, text: str) -> list[str]:
        """Return the stretches of a text, as written, out of each of which come a few terms, or none."""
        return self._pattern(text).findall(text)  # type: ignore[no-any-return]

    def forms(self, run: str) -> Iterator[tuple[str, bool]]:
        """Yield the terms of one run, and whether each makes a text longer; not remembered, as `of_run` does."""
        if len(run) > 1 and run.isascii() and (run.isalnum() or run.isidentifier()) and self.language != "turkish":
            if stem := self.stem(run):
                yield stem, True
        else:
            yield from ((form.term, form.is_long) for form in self._of_run(run))

    def apart(self, run: str) -> list[str]:
        """The words of a run whose terms are those of the run, in order; none where signs join them to one more term."""
        return _PART.findall(run) if _APART.fullmatch(run) else []

    def words(self, text: str) -> Iterator[list[tuple[str, float]]]:
        """Yield the terms of each word of a text, with the share of each term."""
        for run in self.runs(text):
            words: dict[int, list[tuple[str, float]]] = {}
            for form in self.of_run(run):
                words.setdefault(form.word, []).append((form.term, form.share))
            yield from words.values()

    def spaced_words(self, text: str) -> dict[str, list[str]]:
        """The words of a text between spaces or signs, in small letters, and the terms of each: no stop words, no pairs."""
        found: dict[str, list[str]] = {}
        for run in self.runs(text):
            if run.isascii() or not _patterns().unspaced.match(run):
                forms = self.of_run(run)
                for main in (form for form in forms if form.is_main):
                    own = [form.term for form in forms if form.word == main.word]
                    found[run[main.start : main.end].lower()] = own
        return found

    def with_words(self, text: str) -> list[tuple[str, str]]:
        """Return the stem of each word and the word, in small letters; pairs of characters come from themselves."""
        return [
            (form.term, run[form.start : form.end].lower())
            for run in self.runs(text)
            for form in self.of_run(run)
            if form.is_main
        ]

    def places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield, for each term of `self(text)` in order, its first character, the character after its last, and the term."""
        for found in self._pattern(text).finditer(text):
            first = found.start()
            for form in self.of_run(found[0]):
                yield first + form.start, first + form.end, form.term

    def stem(self, word: str) -> str:
        """Return the stem of one word; empty for a stop word."""
        exact = self._exact(word)
        return "" if exact in self._stop else self._stem(exact)

    def _pattern(self, text: str) -> Any:
        """Return the pattern that finds the runs of a text."""
        if not text.isascii():
            return _patterns().run
        return _DOTTED_RUN if text[:1] == "." or any(dots in text for dots in _DOTS) else _RUN

    def _of_run(self, run: str) -> tuple[Form, ...]:
        if not run.isascii() and _patterns().unspaced.match(run):
            return tuple(self._of_unspaced(run))
        parts = [(part.start(), part.end()) for part in (_PART if run.isascii() else _patterns().part).finditer(run)]
        forms = [form for number, (start, end) in enumerate(parts) for form in self._of_part(run, start, end, number)]
        if len(parts) > 1 or parts[-1:] != [(0, len(run))]:
            forms += self._joined(run, parts)
        return tuple(sorted(forms, key=lambda form: form[:2]))

    def _of_part(self, run: str, start: int, end: int, number: int) -> list[Form]:
        """Return a word and its other forms."""
        if end - start == 1 and run[start].isalpha() and "'" in _plain(run[max(start - 1, 0) : end + 1]):
            return []  # isn't, l'eau: no word
        exact = self._exact(run[start:end])
        if not exact or exact in self._stop:
            return []
        main = self._stem(exact)
        if len(exact) == 1:
            return [Form(start, end, main, _LETTER_SHARE if exact.isalpha() else _SIGNS_SHARE, number, "word")]
        if exact.isascii():
            return [Form(start, end, main, 1.0, number, "word")]
        share, others = 0.0, list[Form]()
        if bare := self._without_marks(exact, main):
            share, others = _BARE_SHARE, [Form(start, end, bare, _BARE_SHARE, number, "bare")]
        elif pairs := _syllable_pairs(run[start:end], exact):
            share, each = _PAIRS_SHARE, _PAIRS_SHARE / len(pairs)
            others = [Form(start + first, start + last, pair, each, number, "pair") for first, last, pair in pairs]
        return [Form(start, end, main, 1 - share, number, "word"), *others]

    def _without_marks(self, exact: str, main: str) -> str:
        """Return the stem of a word without its marks; nothing where that is no other, or a stop word."""
        bare = without_marks(exact)
        if bare == exact or bare in self._stop or not bare:
            return ""
        stem = self._stem(bare)
        return "" if stem == main else stem

    def _joined(self, run: str, parts: list[tuple[int, int]]) -> Iterator[Form]:
        """Words that signs join: one term of each group."""
        plain, groups = _plain(run), list[tuple[int, int]]()
        for number, (start, end) in enumerate(parts):
            start -= number == 0 and plain[:1] == "."
            end += _signs_behind(plain, start, end)
            if groups and end - groups[-1][0] <= _LONGEST_JOINED and self._is_joint(plain, groups[-1], start, end):
                start = groups.pop()[0]
            groups.append((start, end))
        single = {*parts}
        for number, (start, end) in enumerate(groups, start=len(parts)):
            if (start, end) not in single and end - start <= _LONGEST_JOINED:
                yield Form(start, end, self._exact(plain[start:end]), _SIGNS_SHARE, number, "joined")

    @staticmethod
    def _is_joint(plain: str, before: tuple[int, int], start: int, end: int) -> bool:
        """True if what stands between two words makes them one name."""
        sign, sides = plain[before[1] : start], (plain[before[0] : before[1]], plain[start:end])
        if sign == ",":
            return sides[0][-1:].isdigit() and sides[1].isdigit()
        if sign in ("-", "/"):
            return any(len(side) == 1 or any(letter.isdigit() for letter in side) for side in sides)
        return sign in (".", "&") or (sign == "" and sides[0][-1:] in ("+", "#"))  # C++17

    def _of_unspaced(self, run: str) -> Iterator[Form]:
        """Yield pairs of characters, or the single one."""
        plain = unicodedata.normalize("NFKC", "".join(_patterns().invisible.split(run)))
        for first in range(max(len(plain) - 1, 1) if plain else 0):
            pair = plain[first : first + 2]
            place = (first, first + len(pair)) if len(plain) == len(run) else (0, len(run))
            yield Form(*place, pair, 1.0, first, "word")

    def _exact(self, word: str) -> str:
        """Return a word with its case folded, its compatibility forms resolved, and without invisible characters."""
        if word.isascii():
            return word.translate(_TURKISH).casefold() if self.language == "turkish" else word.lower()
        normal = unicodedata.normalize("NFKC", word)
        normal = normal.translate(_TURKISH) if self.language == "turkish" else normal
        return visible(unicodedata.normalize("NFKC", normal.casefold()))


def without_marks(word: str) -> str:
    """Return a word in small letters without accents, points and vowel signs, where a script writes without them, too."""
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", word)).translate(_BARE))


def _plain(run: str) -> str:
    """Return a run with signs of ASCII in place of similar signs of Unicode, character by character."""
    return run if run.isascii() else run.translate(_PLAIN_SIGNS)


def _signs_behind(plain: str, start: int, end: int) -> int:
    """Return how many signs behind a word belong to its name: C++, C#, C++17; not the sign of a sum."""
    signs = end
    while plain[signs : signs + 1] in ("+", "#") and signs < len(plain):
        signs += 1
    after, found = plain[signs : signs + 1], plain[end:signs]
    if found not in ("+", "++", "#") or plain[start:end].isdigit():
        return 0
    return len(found) if not after.isalnum() or (found == "++" and after.isdigit()) else 0


def words_of(text: str) -> tuple[list[str], int]:
    """Return all words of a text, their case folded; and how many characters of scripts without spaces it has."""
    if text.isascii():
        return [word.lower() for word in _PART.findall(text)], 0
    runs = _patterns().run.findall(text)
    unspaced = [run for run in runs if _patterns().unspaced.match(run)]
    words = (word for run in runs if not _patterns().unspaced.match(run) for word in _patterns().part.findall(run))
    return [unicodedata.normalize("NFKC", word.casefold()) for word in words], sum(map(len, unspaced))


def _syllable_pairs(written: str, exact: str) -> list[tuple[int, int, str]]:
    """Neighbouring Korean syllables of a word, with their places in it: terms that are not taken for words."""
    pairs = [
        (at, at + 2, f"*{exact[at : at + 2]}*")
        for at in range(len(exact) - 1)
        if "가" <= exact[at] <= "힣" and "가" <= exact[at + 1] <= "힣"
    ]
    return pairs if len(written) == len(exact) else [(0, len(written), pair) for _, _, pair in pairs]


def stemmer(language: str) -> Callable[[str], str]:
    """Return the function from a word to its stem; for the language none it returns the word itself."""
    if language == "none":
        return str
    import Stemmer

    try:
        return Stemmer.Stemmer(language).stemWord  # type: ignore[no-any-return]
    except KeyError:
        known = ", ".join(["auto", "none", *Stemmer.algorithms()])
        what = "not a language that can be stemmed"
        raise ConfigError(what, where="language", got=language, expected=known) from None


class _Patterns(NamedTuple):
    run: Any  # a word with what joins it to others, or an unspaced run, in any script
    part: Any  # a word within a run
    unspaced: Any  # the beginning of a run of a script without spaces
    invisible: Any  # characters that nobody sees


@cache
def _patterns() -> _Patterns:
    """Compiled when the first text comes that is not of ASCII alone."""
    import regex

    bare = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ーｰﾞﾟ"
    hidden = INVISIBLE
    letter = rf"[[\w\p{{N}}{hidden}]--[{bare}]]"
    seen = rf"[[\w\p{{N}}]--[{bare}{hidden}]]"
    signed = rf"[[\w\p{{N}}{hidden}+#＋＃]--[{bare}]]"
    return _Patterns(
        run=regex.compile(
            rf"(?V1)[{bare}][{bare}{hidden}]*+|(?:(?<![\w.])[.．])?{seen}{signed}*+(?:[-‐‑.．&＆/／,'’]{signed}++)*+"
        ),
        part=regex.compile(rf"(?V1){seen}{letter}*+"),
        unspaced=regex.compile(rf"(?V1)[{bare}]"),
        invisible=regex.compile(rf"(?V1)[{hidden}]+"),
    )
