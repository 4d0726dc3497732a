"""Text to terms, as search by words compares texts.

Terms are words without case, without small words, their endings cut off.

A word is a run of letters, digits and underscores, and may be one of them alone (hepatitis C, room 8). The rules stand in a
table, `rules.py`, which says what switches each off. How they are kept:

- Signs within a word or at its end make one more term of the whole: `C++`, `node.js` and `3.11.2` are found as they are
  written and by their parts.
- Hyphens join: `e-mail`, `COVID-19` and a word that a hyphen breaks at the end of a line are found as `email`, `covid19` and
  the whole word, and by their parts.
- The plural of an abbreviation is the abbreviation: LLMs, PDFs, GPUs.
- Invisible characters part no word: soft hyphens, zero-width spaces, marks of direction.
- Case is folded, not made small: ß and ss, final sigma; in Turkish by the language's own rule.
- A word with marks is found without them, too: café and cafe, ё and е, Arabic vowel signs; and so are forms of one letter.
- A run of a script that puts no spaces between words becomes its pairs of characters, as in Lucene's CJKBigramFilter, and each
  Chinese character. A Korean word is a term itself, is one without its particle, and has its pairs of syllables.

Who changes a rule raises the format of indexes (`FORMATS`): an index is asked by the rules that it was built with.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from wordpipe.errors import ConfigError
from wordpipe.search.lexical.letters import SAME_LETTERS, syllable_pairs, without_marks, without_particle
from wordpipe.search.lexical.rules import SWITCHED
from wordpipe.search.lexical.stop_words import stop_words
from wordpipe.wording import INVISIBLE, visible

_BREAK = r"(?:\r?\n[ \t]*)?"  # behind a hyphen: the word goes on in the next line
END = "\x1e"  # between texts that are cut together
_RUN = re.compile(rf"{END}|(?:(?<![\w.])\.)?\w[\w+#]*(?:(?:[.&/,']|-{_BREAK})[\w+#]+)*", re.ASCII)
_PART = re.compile(r"\w+", re.ASCII)
_COMPOUND = re.compile(r"[A-Za-z0-9]{2,}(?:[-.][A-Za-z0-9]{2,})+")
_HYPHEN = re.compile(r"-\s*")
PLURAL = "[A-Z0-9]*[A-Z][A-Z0-9]+s|[b-df-hj-np-tv-xz]{2,}[b-df-hj-np-rtv-xz]s"
"""The plural of an abbreviation: in capitals but for its s, or without a vowel (llms, pdfs)."""
_PLURAL = re.compile(PLURAL)
_PLACE = itemgetter(0, 1)  # of a form in its run
_LONGEST_JOINED = 48  # characters: an address of a page is not looked for as a whole
_CACHED = 1 << 16  # runs whose terms are remembered
_TURKISH = str.maketrans({"I": "ı", "İ": "i"})
_PLAIN_SIGNS = str.maketrans("‐‑’＋＃．＆／", "--'+#.&/")
_BARE_SHARE = 0.3  # of a word with marks in a question: what its form without them weighs
_NOUN_SHARE, _PAIRS_SHARE = 0.4, 0.4
"""Of a Korean word in a question: what it weighs without its particle, and what its pairs weigh together. The first of five
sentences, in a text of 1,997, finds the other four at nDCG@10 38.5 with these, 35.9 without nouns, 37.0 without pairs, 26.7
without both; with 0.2 to 0.5 for each at 37.2 to 38.9."""
_CHARACTER_SHARE = 0.2
"""Of two Chinese characters in a question: what the first, or the last, weighs beside them. As above 38.4 in Chinese and 39.4
in Japanese, without it 37.7 and 38.3; with 0.05 to 0.5 at 37.9 to 38.4 and 38.9 to 39.5."""
_LETTER_SHARE, _SIGNS_SHARE = 0.3, 0.5
"""Of a word in a question: a single letter, and a single digit or what signs join. nDCG@10 of Cranfield, CISI, NPL and CACM is
46.1 with these, as without such terms (46.07), and 45.5 where each counts as a whole word."""


class Form(NamedTuple):
    """A term of a text, and where in its run it comes from."""

    start: int
    end: int
    term: str
    share: float  # what it weighs in a question; the forms of a word weigh 1 together, single characters and names less
    word: int  # which word of the run it is a form of; a joined form is a word of its own
    # the word itself, without marks or particle, syllables in it, one Chinese character of a pair, or a name with signs
    kind: Literal["word", "bare", "pair", "character", "joined"]

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


class RunTerms(NamedTuple):
    """The terms and the words of runs, each with the number of its run."""

    plain: list[tuple[int, str]]  # words whose stems are terms that make a text longer
    joined: list[str]  # words whose stems are terms that make none longer
    of_joined: list[int]
    terms: list[tuple[int, str, bool]]  # other terms, with whether they make a text longer
    written: list[tuple[int, str]]  # words whose stems are not among the terms for their sake


class Analyser:
    """An analyser of texts into terms, in one language.

    Attributes:
        stop: the words that are no terms.

    Args:
        language: a Snowball algorithm, or none: words stay as they are.
        stems: whether endings are cut off.
        without: names of rules that are switched off, see `rules.SWITCHED`.

    Raises:
        ConfigError: no such language.
    """

    def __init__(self, language: str, *, stems: bool = True, without: Collection[str] = ()) -> None:
        self.language = language
        self._rules = frozenset(SWITCHED) - {*without}
        self._plain_word = _singular if "abbreviations" in self._rules else str.lower
        self._folds_letters = bool(self._rules & {"marks", "letters"})
        self.stop = stop_words(language)
        self._language = language if stems else "none"  # whose endings are cut off
        self._stem = stemmer(self._language)
        self._known: dict[str, tuple[Form, ...]] = {}  # no cache around a method: it would know us, and we it, for ever

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text in order, each as often as it stands there."""
        return [form.term for run in self.runs(text) for form in self.of_run(run)]

    def of_run(self, run: str) -> tuple[Form, ...]:
        """Return the terms of one run of letters, and where in it they come from."""
        found = self._known.get(run)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[run] = self._of_run(run)
        return found

    def runs(self, text: str) -> list[str]:
        """Return the runs of a text, as written, out of each of which come a few terms, or none."""
        plain = text.replace(END, " ")
        return self._pattern(plain).findall(plain)  # type: ignore[no-any-return]

    def all_runs(self, pieces: Sequence[str]) -> tuple[list[str], list[int]]:
        """Return the runs of all pieces of text, and which piece each comes from.

        Pieces are cut together, as the calls took longer than the cutting: those of ASCII alone first, then the others.
        """
        runs, of_pieces, kinds = list[str](), list[int](), dict[bool, list[int]]()
        for number, piece in enumerate(pieces):
            kinds.setdefault(piece.isascii(), []).append(number)
        for numbers in kinds.values():
            text = END.join([pieces[number].replace(END, " ") for number in numbers])
            following = iter(numbers)
            at = next(following)
            for run in self._pattern(text).findall(text):
                if run == END:
                    at = next(following)
                else:
                    runs.append(run)
                    of_pieces.append(at)
        return runs, of_pieces

    def plain_words(self, runs: Sequence[str]) -> list[str]:
        """Return the word that each of some runs that are plain is; empty for a stop word."""
        return ["" if (word := self._plain_word(run)) in self.stop else word for run in runs]

    @property
    def joins_plurals(self) -> bool:
        """True if the plural of an abbreviation is the abbreviation."""
        return "abbreviations" in self._rules

    @property
    def has_plain(self) -> bool:
        """True if a run of two or more letters and digits of ASCII is always one word; I is no letter i in Turkish."""
        return self.language != "turkish"

    def stems(self, words: Sequence[str]) -> list[str]:
        """Return the stem of each word that is no stop word, its case folded: in a third of the time of one by one."""
        return [*words] if self._language == "none" else _snowball(self._language).stemWords(words)

    def terms_of_runs(self, runs: Sequence[str]) -> "RunTerms":
        """Return the terms and the words of runs.

        Words are what people write between spaces and signs, with marks and without: no stop words, no single letters, no
        pairs of characters.
        """
        is_turkish, stop, plain_word = self.language == "turkish", self.stop, self._plain_word
        joins, found = self._rules >= {"hyphens", "signs"}, RunTerms([], [], [], [], [])
        for number, run in enumerate(runs):
            # short ways for a word, and for words and numbers that hyphens and dots join
            if run.isascii() and not is_turkish:
                if len(run) > 1 and (run.isalnum() or run.isidentifier()):
                    if (word := plain_word(run)) not in stop:
                        found.plain.append((number, word))
                    continue
                if joins and len(run) <= _LONGEST_JOINED and _COMPOUND.fullmatch(run):
                    words = map(plain_word, run.replace(".", "-").split("-"))
                    found.plain.extend([(number, word) for word in words if word not in stop])
                    whole = plain_word(run.replace("-", ""))
                    if whole.isalpha():
                        found.joined.append(whole)
                        found.of_joined.append(number)
                    else:
                        found.terms.append((number, whole, False))
                    continue
            # all others form by form
            forms = self._of_run(run)
            found.terms.extend([(number, form.term, form.is_long) for form in forms])
            if run.isascii() or not _patterns().unspaced.match(run):
                for form in forms:
                    if form.kind in ("word", "bare") and form.end - form.start > 1:
                        word = self.exact(run[form.start : form.end])
                        found.written.append((number, word if form.is_main else without_marks(word)))
        return found

    def words(self, text: str) -> Iterator[list[Form]]:
        """Yield the forms of each word of a text."""
        for words in self.words_of_runs(text):
            yield from words

    def words_of_runs(self, text: str) -> Iterator[list[list[Form]]]:
        """Yield the words of each run of a text, each of them with its forms."""
        for forms in map(self.of_run, self.runs(text)):
            yield [[form for form in forms if form.word == word] for word in dict.fromkeys(one.word for one in forms)]

    def spaced_words(self, text: str) -> dict[str, list[str]]:
        """Return a text's words between spaces or signs, in small letters, and the terms of each: no stop words, no pairs."""
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
        plain = text.replace(END, " ")
        for found in self._pattern(plain).finditer(plain):
            first = found.start()
            for form in self.of_run(found[0]):
                yield first + form.start, first + form.end, form.term

    def stem(self, word: str) -> str:
        """Return the stem of one word; empty for a stop word."""
        exact = self.exact(word)
        return "" if exact in self.stop else self._stem(exact)

    def _pattern(self, text: str) -> Any:
        """Return the pattern that finds the runs of a text."""
        return _RUN if text.isascii() else _patterns().run

    def _of_run(self, run: str) -> tuple[Form, ...]:
        """Return the terms of one run."""
        if run.isalnum() and run.isascii() and len(run) > 1 and self.has_plain:  # nearly all
            (word,) = self.plain_words([run])
            return (Form(0, len(run), self._stem(word), 1.0, 0, "word"),) if word else ()
        if not run.isascii() and _patterns().unspaced.match(run):
            return tuple(self._of_unspaced(run))
        parts = [(part.start(), part.end()) for part in (_PART if run.isascii() else _patterns().part).finditer(run)]
        forms = [form for number, (start, end) in enumerate(parts) for form in self._of_part(run, start, end, number)]
        if len(parts) > 1 or parts[-1:] != [(0, len(run))]:
            forms += self._joined(run, parts)
        return tuple(sorted(forms, key=_PLACE))

    def _of_part(self, run: str, start: int, end: int, number: int) -> list[Form]:
        """Return a word and its other forms."""
        if end - start == 1 and run[start].isalpha() and "'" in _plain(run[max(start - 1, 0) : end + 1]):
            return []  # isn't, l'eau: no word
        exact = self.exact(run[start:end])
        if not exact or exact in self.stop:
            return []
        main = self._stem(exact)
        if len(exact) == 1 and not "가" <= exact <= "힣":
            share = _LETTER_SHARE if exact.isalpha() else _SIGNS_SHARE
            return [Form(start, end, main, share, number, "word")] if "single" in self._rules else []
        if exact.isascii():
            return [Form(start, end, main, 1.0, number, "word")]
        others = self._other_forms(run[start:end], exact, main, start, number)
        return [Form(start, end, main, 1 - sum(form.share for form in others), number, "word"), *others]

    def _other_forms(self, written: str, exact: str, main: str, start: int, number: int) -> list[Form]:
        """Return the forms of a word that is not of ASCII alone: without its marks, without its particle, its syllables."""
        if bare := self._without_marks(exact, main):
            return [Form(start, start + len(written), bare, _BARE_SHARE, number, "bare")]
        found = list[Form]()
        if "particles" in self._rules and "가" <= exact[-1] <= "힣" and (size := without_particle(exact)) < len(exact):
            size = size if len(written) == len(exact) else len(written)
            noun = self._stem(self.exact(written[:size]))
            found.append(Form(start, start + size, noun, _NOUN_SHARE, number, "bare"))
        if "syllables" in self._rules and (pairs := syllable_pairs(written, exact)):
            each = _PAIRS_SHARE / len(pairs)
            found += [Form(start + first, start + last, pair, each, number, "pair") for first, last, pair in pairs]
        return found

    def _without_marks(self, exact: str, main: str) -> str:
        """Return the stem of a word without its marks; nothing where that is no other, or a stop word."""
        if not self._folds_letters:
            return ""
        bare = without_marks(exact, marks="marks" in self._rules, forms="letters" in self._rules)
        if bare == exact or bare in self.stop or not bare:
            return ""
        stem = self._stem(bare)
        return "" if stem == main else stem

    def _joined(self, run: str, parts: list[tuple[int, int]]) -> Iterator[Form]:
        """Yield one term for each group of words that signs join."""
        plain, groups = _plain(run), list[tuple[int, int]]()
        for number, (start, end) in enumerate(parts):
            start -= number == 0 and plain[:1] == "."
            end += _signs_behind(plain, start, end) if "signs" in self._rules else 0
            if groups and end - groups[-1][0] <= _LONGEST_JOINED and self._is_joint(plain, groups[-1], start, end):
                start = groups.pop()[0]
            groups.append((start, end))
        single = {*parts}
        for number, (start, end) in enumerate(groups, start=len(parts)):
            if (start, end) not in single and end - start <= _LONGEST_JOINED:
                yield Form(start, end, self._joined_term(plain[start:end]), _SIGNS_SHARE, number, "joined")

    def _joined_term(self, plain: str) -> str:
        """Return the term of words that signs join; hyphens are left out, so that e-mail is email."""
        whole = self.exact(_HYPHEN.sub("", plain))
        return self._stem(whole) if _HYPHEN.search(plain) and whole.isalpha() else whole

    def _is_joint(self, plain: str, before: tuple[int, int], start: int, end: int) -> bool:
        """True if what stands between two words makes them one name."""
        sign, sides = plain[before[1] : start], (plain[before[0] : before[1]], plain[start:end])
        if sign[:1] == "-":
            return "hyphens" in self._rules
        if "signs" not in self._rules:
            return False
        if sign == ",":
            return sides[0][-1:].isdigit() and sides[1].isdigit()
        if sign == "/":
            return any(len(side) == 1 or any(letter.isdigit() for letter in side) for side in sides)
        return sign in (".", "&") or (sign == "" and sides[0][-1:] in ("+", "#"))  # C++17

    def _of_unspaced(self, run: str) -> Iterator[Form]:
        """Yield pairs of characters as terms of a script without spaces, or the single character; and Chinese characters."""
        plain = unicodedata.normalize("NFKC", "".join(_patterns().invisible.split(run)))
        for first in range(max(len(plain) - 1, 1) if plain else 0):
            pair = plain[first : first + 2]
            place = (first, first + len(pair)) if len(plain) == len(run) else (0, len(run))
            yield Form(*place, pair, 1.0, first, "word")
            if len(pair) == 2 and "single" in self._rules:
                is_whole = place[1] - place[0] == 2
                for at in range(2 if first == len(plain) - 2 else 1):  # the last character is no first one of a pair
                    if _patterns().chinese.match(pair[at]):
                        own = (place[0] + at, place[0] + at + 1) if is_whole else place
                        yield Form(*own, pair[at], _CHARACTER_SHARE, first, "character")

    def exact(self, word: str) -> str:
        """Return a word with its case folded, its compatibility forms resolved, and without invisible characters."""
        if word.isascii():
            if self.language != "turkish":
                return self._plain_word(word)
            is_plural = "abbreviations" in self._rules and word[-1:] == "s" and _PLURAL.fullmatch(word)
            return (word[:-1] if is_plural else word).translate(_TURKISH).casefold()
        normal = unicodedata.normalize("NFKC", word)
        normal = normal.translate(_TURKISH) if self.language == "turkish" else normal
        seen = visible(unicodedata.normalize("NFKC", normal.casefold()))
        return seen.translate(SAME_LETTERS) if "letters" in self._rules else seen


def _singular(word: str) -> str:
    """Return a word of ASCII in small letters, an abbreviation without the s of its plural."""
    return word[:-1].lower() if word[-1:] == "s" and _PLURAL.fullmatch(word) else word.lower()


def is_unspaced(word: str) -> bool:
    """True if a word begins with a character of a script that puts no spaces between words."""
    return not word.isascii() and _patterns().unspaced.match(word) is not None


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


def written_words(text: str) -> tuple[list[str], int]:
    """Return the words of a text, those of ASCII in small letters; and how many characters of unspaced scripts it has."""
    if text.isascii():
        return _PART.findall(text.lower()), 0
    patterns, plain = _patterns(), text.replace(END, " ")
    if not patterns.unspaced.search(plain):
        return patterns.part.findall(plain), 0
    runs = patterns.run.findall(plain)
    unspaced = [run for run in runs if patterns.unspaced.match(run)]
    words = [word for run in runs if not patterns.unspaced.match(run) for word in patterns.part.findall(run)]
    return words, sum(map(len, unspaced))


def stemmer(language: str) -> Callable[[str], str]:
    """Return the function from a word to its stem; for the language none it returns the word itself."""
    return str if language == "none" else _snowball(language).stemWord


def _snowball(language: str) -> Any:
    """Return the stemmer of a language. Raises ConfigError: there is none."""
    import Stemmer

    try:
        found = Stemmer.Stemmer(language)
    except KeyError:
        known = ", ".join(["auto", "none", *Stemmer.algorithms()])
        what = "this language has no stemmer"
        raise ConfigError(what, where="language", got=language, expected=known) from None
    found.maxCacheSize = 0  # who asks remembers: of 60,000 words the cache took 0.4 s, the stems 0.05
    return found


class _Patterns(NamedTuple):
    """Patterns that find runs and words in any script."""

    run: Any  # a word with what joins it to others, or an unspaced run, in any script
    part: Any  # a word within a run
    unspaced: Any  # the beginning of a run of a script without spaces
    invisible: Any  # characters that nobody sees
    chinese: Any  # one Chinese character


@cache
def _patterns() -> _Patterns:
    """Return the patterns of any script, compiled when the first text comes that is not of ASCII alone."""
    import regex

    bare = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ーｰﾞﾟ"
    hidden = INVISIBLE
    letter = rf"[[\w\p{{N}}{hidden}]--[{bare}]]"
    seen = rf"[[\w\p{{N}}]--[{bare}{hidden}]]"
    signed = rf"[[\w\p{{N}}{hidden}+#＋＃]--[{bare}]]"
    return _Patterns(
        run=regex.compile(
            rf"(?V1){END}|[{bare}][{bare}{hidden}]*+"
            rf"|(?:(?<![\w.])[.．])?{seen}{signed}*+(?:(?:[.．&＆/／,'’]|[-‐‑]{_BREAK}){signed}++)*+"
        ),
        part=regex.compile(rf"(?V1){seen}{letter}*+"),
        unspaced=regex.compile(rf"(?V1)[{bare}]"),
        invisible=regex.compile(rf"(?V1)[{hidden}]+"),
        chinese=regex.compile(r"\p{Han}"),
    )
