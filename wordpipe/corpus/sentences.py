"""A rule-based sentence splitter for many languages: sentences concatenate to the text, in time linear in its length.

Candidates are found by one regular expression (stop, closing quotes, space; or a CJK or Indic stop alone), and each is
judged by the words around it: abbreviations, initials, ordinals, list numbers, ellipses, and whether what follows begins
with a small letter. Knowledge of languages is in `abbreviations.py`, of layout in `paragraphs.py`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

from wordpipe.corpus.abbreviations import BEFORE_NAME, BEFORE_NUMBER, MAYBE_LAST, ORDINAL_FOLLOWERS, STARTERS, TITLES
from wordpipe.corpus.paragraphs import is_hard_wrapped, paragraphs
from wordpipe.corpus.records import Newline

__all__ = ["split_sentences"]

_SOFT = ".!?…‥؟۔．։⁇⁈⁉‽"  # need a space after them
_HARD = "。！？｡।॥។៕။።፧"  # end a sentence by themselves
_CLOSE = "\"'”’“‘»«›‹)\\]}」』）】》〉〕］｝＂＇*_`"
_HARD_CLOSE = "\"'”’»›)\\]}」』）】》〉〕］｝＂＇"  # no “: it opens where these stops are used
_OPEN = "\"'“‘„‚«»‹›([{「『（【《〈¿¡*_`—–-"
_STOP = re.compile(
    rf"""
    [{_SOFT}{_HARD}]
    (?: (?<=[{_SOFT}]) (?<![{_SOFT}]{{2}})  # only the first of a row of stops: a long row is looked at once
        [{_SOFT}{_HARD}]*+ CLOSE (?=\s)
      | (?<=[{_HARD}]) [{_SOFT}{_HARD}]*+ [{_HARD_CLOSE}]*+
    )
    \s*+
    """.replace("CLOSE", rf"(?:[{_CLOSE}]|\[\d{{1,4}}\])*+ (?:[ \u00a0\u202f]»(?!\S))?+"),
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’])?")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,4}\.-?)+[^\W\d_]{1,4}")  # U.S, a.m, Ph.D, J.-C
_LISTED = re.compile(r"[(\[]?(?:\d{1,3}|[^\W\d_]|[ivxlc]{1,5}|[IVXLC]{1,5})")
_ROMAN = re.compile(r"[IVXLC]{1,6}")
_THAI = re.compile("[\u0e00-\u0eff]")  # Thai and Lao write spaces between phrases and have no stop
# A space between phrases, unless the words beside it tie them together (and, that, which, of).
_THAI_SPACE = re.compile(
    '(?<=[\u0e00-\u0eff"”)])(?<!ว่า)(?<!และ)(?<!คือ)(?<!ของ)(?<!กับ)(?<!ที่)(?<!เป็น)(?<!ๆ) +(?=[\u0e00-\u0eff"“(])'
    "(?!และ|หรือ|ที่|ซึ่ง|โดย|เพื่อ|เพราะ|ว่า|ของ|กับ|คือ|ให้|ก็|จึง|จะ|ได้|รวม|พร้อม|กล่าว)"
)
# Such a space this far into a sentence is taken for its end: F1 of boundaries in news 0.51, and 0.43 at 90.
_THAI_CHARS = 40
_LOOK_BACK = 24  # characters in which the word before a stop is looked for; abbreviations are shorter


def split_sentences(
    text: str, newline: Newline = "auto", *, max_chars: int = 2000, on_cut: Callable[[], object] = lambda: None
) -> Iterator[str]:
    r"""Sentences of `text`, each with the space after it; together they are exactly the text.

    Args:
        text: with "\n" line ends.
        newline: a single newline ends a paragraph, or is a space; auto judges by whether lines are wrapped at a margin.
        max_chars: a longer sentence is cut at a space, or where there is none in its second half, between characters.
        on_cut: called for each such cut.

    >>> list(split_sentences("Dr. Smith came at 3.30 p.m. from the U.S. office. He left."))
    ['Dr. Smith came at 3.30 p.m. from the U.S. office. ', 'He left.']
    """
    wrapped = newline == "space" or (newline == "auto" and is_hard_wrapped(text))
    for start, end, is_code in paragraphs(text, wrapped=wrapped):
        begin = start
        for stop in (end,) if is_code else _ends(text, start, end):
            while stop - begin > max_chars:
                cut = _cut(text, begin, max_chars)
                on_cut()
                yield text[begin:cut]
                begin = cut
            yield text[begin:stop]
            begin = stop


def _ends(text: str, start: int, end: int) -> Iterator[int]:
    """Where the sentences of one paragraph end, the paragraph's own end included."""
    begin = start
    is_thai = _THAI.search(text, start, min(end, start + 100)) is not None
    for match in _STOP.finditer(text, start, end):
        after = match.end()
        if text[match.start()] in _HARD:
            after = _before_quote(text, begin, match.start(), after)
        if after < end and _is_end(text, begin, match.start(), after):
            if is_thai:
                yield from _thai_ends(text, begin, after)
            yield after
            begin = after
    if is_thai:
        yield from _thai_ends(text, begin, end)
    yield end


def _is_end(text: str, begin: int, stop: int, after: int) -> bool:
    """Does the sentence that begins at `begin` end with the stop at `stop`, when `after` is the next that is no space?"""
    if stop - begin < 8 and not text[begin:stop].strip():
        return False  # a sentence has something before its stop
    mark, follow = text[stop], text[after]
    if mark in _HARD:
        return _is_hard_end(text, begin, stop, after)
    if follow.islower():  # "etc. and", "Why? he asked", but a stop that stands alone ends in tokenised text
        return mark == "." and text[stop - 1 : stop + 2] == " . "
    if not follow.isalnum():
        after = _skip_open(text, after)
        follow = text[after : after + 1]
        if follow.islower() or follow in tuple(",;:)"):
            return False
    if mark != "." or text[stop + 1] == ".":
        return True
    return not _belongs_to_word(text, begin, stop, after)


def _is_hard_end(text: str, begin: int, stop: int, after: int) -> bool:
    """Stops of scripts without spaces: not inside brackets or at the end of a quotation when the sentence goes on."""
    closing = text[after - 1]
    if closing in ')）」』”’"':
        if text[after] in "とってのがはをにでも、，,と说說道":
            return False
        opened = max(text.rfind(mark, max(begin, stop - 500), stop) for mark in "(（")
        return closing not in ")）" or opened <= begin
    return True


def _before_quote(text: str, begin: int, stop: int, after: int) -> int:
    """`after`, or the place of a straight quote behind the stop that opens a quotation: the sentence has no open one."""
    quote = text.find('"', stop, after)
    if quote < 0 or text.count('"', max(begin, quote - 1000), quote) % 2 or text[quote + 1 : quote + 2].isspace():
        return after
    return quote


def _skip_open(text: str, after: int) -> int:
    """The first letter or digit after opening quotes, brackets and dashes."""
    for place in range(after, min(after + 6, len(text))):
        if text[place] not in _OPEN and not text[place].isspace():
            return place
    return after


def _belongs_to_word(text: str, begin: int, stop: int, after: int) -> bool:
    """Is the stop at `stop` part of an abbreviation, an initial, an ordinal or a list number?"""
    before = text[max(begin, stop - _LOOK_BACK) : stop].rsplit(None, 1)
    word = before[-1].lstrip(_OPEN) if before else ""
    if not word:
        return False  # only a closing quote or dash stands there
    if stop - begin <= 6 and _LISTED.fullmatch(text[begin:stop].strip()):
        return True
    key = word.lower()
    if word in TITLES or key in BEFORE_NAME or (key in BEFORE_NUMBER and text[after].isdigit()):
        return True
    if len(word) > 6 and "." not in word:
        return False  # an ordinary word, nearly always
    if word.isdigit() or _ROMAN.fullmatch(word):
        if len(word) <= 2 and _next_word(text, after) in ORDINAL_FOLLOWERS:
            return True
        if word.isdigit():
            return False
    is_short = key in MAYBE_LAST or _is_initial(word) or _ROMAN.fullmatch(word) or _DOTTED.fullmatch(word)
    return bool(is_short) and not _starts_sentence(text, after)


def _is_initial(word: str) -> bool:
    """One letter of a script with capitals, or of Arabic, which abbreviates titles so."""
    return len(word) == 1 and (word.isupper() or word.islower() or "\u0620" <= word <= "\u064a")


def _next_word(text: str, after: int) -> str:
    match = _WORD.match(text, after)
    return match[0] if match else ""


def _starts_sentence(text: str, after: int) -> bool:
    """Is the word at `after` one that often begins a sentence, and not itself an initial?"""
    word = _next_word(text, after)
    return word in STARTERS and not (len(word) == 1 and text[after + 1 : after + 2] == ".")


def _thai_ends(text: str, begin: int, end: int) -> Iterator[int]:
    for match in _THAI_SPACE.finditer(text, begin, end):
        if match.start() - begin >= _THAI_CHARS and end - match.end() >= _THAI_CHARS // 3:
            begin = match.end()
            yield begin


def _cut(text: str, begin: int, max_chars: int) -> int:
    """Where to cut a sentence that is too long: after a space, else not before a combining character."""
    limit = begin + max_chars
    middle = begin + max_chars // 2
    space = max(text.rfind(mark, middle, limit) for mark in (" ", "\n", "\t"))
    if space >= 0:
        return space + 1
    for cut in range(limit, max(middle, limit - 64), -1):
        if not unicodedata.combining(text[cut]) and text[cut] not in "\u200d\ufe0f" and text[cut - 1] != "\u200d":
            return cut
    return limit
