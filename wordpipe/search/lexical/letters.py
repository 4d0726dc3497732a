"""Letters as people write them: with marks and without, in the forms that a script has of one letter, and Korean particles."""

import re
import unicodedata

from wordpipe.wording import visible

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
_NUKTA = "\u093c\u09bc\u0a3c\u0abc\u0b3c"  # a point below a letter of a foreign sound, in five scripts of India
_DIGITS = "\u0660\u06f0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66"  # zeros: Arabic, Persian, of India
SAME_LETTERS = str.maketrans(
    {"ی": "ي", "ک": "ك"} | {chr(ord(zero) + digit): str(digit) for zero in _DIGITS for digit in range(10)}
)
"""Letters of Persian and Arabic keyboards, and digits, that are written for each other; as in Lucene's PersianNormalizer and
DecimalDigitFilter."""
_FORMS = SAME_LETTERS | str.maketrans({"ٱ": "ا", "ى": "ي", "ة": "ه", "ہ": "ه", "ँ": "ं"} | dict.fromkeys(_NUKTA))
"""These and letters that some write in another form; as in Lucene's ArabicNormalizer and HindiNormalizer."""
_DEAD_N = "न्"  # before another consonant the same sound as the point of हिंदी


def without_marks(word: str, *, marks: bool = True, forms: bool = True) -> str:
    """Return a word in small letters without accents, points and vowel signs, where a script writes without them, too.

    Args:
        word: in normal form C, its case folded.
        marks: whether marks are taken off.
        forms: whether the forms of one letter become one.
    """
    apart = unicodedata.normalize("NFD", word)
    if marks:
        apart = _MARKS.sub("", apart).translate(_BARE)
    if forms:
        apart = apart.translate(_FORMS)
        if _DEAD_N in apart:
            apart = apart.replace(_DEAD_N, "ं")
    return unicodedata.normalize("NFC", apart)


def folded(text: str) -> str:
    """Return a text as words are compared that must stand as written: without case, marks and invisible characters."""
    if text.isascii():
        return text.lower()
    normal = unicodedata.normalize("NFKC", visible(text))
    return without_marks(unicodedata.normalize("NFKC", normal.casefold()))


# ---- Korean

_ANYWHERE = [
    "의",
    "에",
    "도",
    "만",
    "에서",
    "에게",
    "께서",
    "한테",
    "까지",
    "부터",
    "처럼",
    "보다",
    "마다",
    "조차",
    "마저",
    "밖에",
    "에는",
    "에도",
    "에만",
    "에서는",
    "에서도",
    "에서의",
    "에게는",
    "에게서",
    "한테서",
    "까지는",
    "까지도",
    "까지의",
    "부터는",
    "부터의",
    "만은",
    "만이",
    "만을",
    "만의",
    "보다는",
    "보다도",
    "처럼은",
    "께서는",
    "하고",
    "이라는",
    "라는",
]
_AFTER_CONSONANT = [
    "은",
    "이",
    "을",
    "과",
    "으로",
    "이나",
    "이랑",
    "이라도",
    "으로는",
    "으로도",
    "으로의",
    "으로서",
    "으로써",
    "과는",
    "과의",
    "과도",
    "이란",
]
_AFTER_VOWEL = [
    "는",
    "가",
    "를",
    "와",
    "로",
    "나",
    "랑",
    "라도",
    "로는",
    "로도",
    "로의",
    "로서",
    "로써",
    "와는",
    "와의",
    "와도",
    "란",
]
_LONGEST = max(map(len, [*_ANYWHERE, *_AFTER_CONSONANT, *_AFTER_VOWEL]))
_ENDS = (frozenset(_AFTER_VOWEL), frozenset(_AFTER_CONSONANT))
_ALWAYS = frozenset(_ANYWHERE)


def without_particle(word: str) -> int:
    """Return the length of a Korean word without its particle; its whole length where it ends in none.

    Which particle may follow depends on whether the last syllable ends in a consonant (부산은, 호수는). A particle behind
    letters of another script follows either way (NASA가).
    """
    for size in range(min(_LONGEST, len(word) - 1), 0, -1):
        end, before = word[-size:], word[-size - 1]
        is_korean = "가" <= before <= "힣"
        if not is_korean and not before.isalnum():
            continue
        last = (ord(before) - 0xAC00) % 28  # the consonant that ends the syllable; 0: none; 8: ㄹ, which 로 may follow
        fits = [_ENDS[last > 0]] if is_korean else [*_ENDS]
        if (
            end in _ALWAYS
            or any(end in some for some in fits)
            or (last == 8 and end.startswith("로") and end in _ENDS[0])
        ):
            return len(word) - size
    return len(word)


def syllable_pairs(written: str, exact: str) -> list[tuple[int, int, str]]:
    """Return neighbouring Korean syllables of a word, with their places in it: terms that are not taken for words."""
    pairs = [
        (at, at + 2, f"*{exact[at : at + 2]}*")
        for at in range(len(exact) - 1)
        if "가" <= exact[at] <= "힣" and "가" <= exact[at + 1] <= "힣"
    ]
    return pairs if len(written) == len(exact) else [(0, len(written), pair) for _, _, pair in pairs]
