"""Text to terms, as search by words compares them, the small words of languages, and the language that texts are in.

Terms are words without case, without small words, their endings cut off.

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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple

from wordpipe.errors import ConfigError
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
    """A term of a text, and where in its run it comes from."""

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
        """True if the analysed form counts in the length of a text for BM25: pairs and single letters do not.

        With these counted, nDCG@10 of Cranfield, CISI, NPL and CACM was lower by 0.3 points: texts full of initials, formulas
        and dates are no longer than others. A form without marks does, so that of equal texts the one that has it as a word
        comes first.
        """
        return self.kind in ("word", "bare") and self.end - self.start > 1


class Analyser:
    """An analyser of texts into terms, in one language.

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
        """Analyse one run of letters: return its terms, and where in it they come from."""
        found = self._known.get(run)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[run] = self._of_run(run)
        return found

    def runs(self, text: str) -> list[str]:
        """Return the runs of a text, as written, out of each of which come a few terms, or none."""
        return self._pattern(text).findall(text)  # type: ignore[no-any-return]

    def forms(self, run: str) -> Iterator[tuple[str, bool]]:
        """Yield the terms that analysis makes of one run, and whether each makes a text longer; not remembered."""
        if len(run) > 1 and run.isascii() and (run.isalnum() or run.isidentifier()) and self.language != "turkish":
            if stem := self.stem(run):
                yield stem, True
        else:
            yield from ((form.term, form.is_long) for form in self._of_run(run))

    def apart(self, run: str) -> list[str]:
        """Return the words of a run whose terms are those of the run, in order; none where signs join them to one term."""
        return _PART.findall(run) if _APART.fullmatch(run) else []

    def words(self, text: str) -> Iterator[list[tuple[str, float]]]:
        """Yield the analysed terms of each word of a text, with the share of each term."""
        for run in self.runs(text):
            words: dict[int, list[tuple[str, float]]] = {}
            for form in self.of_run(run):
                words.setdefault(form.word, []).append((form.term, form.share))
            yield from words.values()

    def spaced_words(self, text: str) -> dict[str, list[str]]:
        """Analyse a text's words between spaces or signs: in small letters, with the terms of each."""
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
        """Yield, for each term that analysis finds in a text in order, its characters and the term."""
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
        """Return the terms of one run."""
        if not run.isascii() and _patterns().unspaced.match(run):
            return tuple(self._of_unspaced(run))
        parts = [(part.start(), part.end()) for part in (_PART if run.isascii() else _patterns().part).finditer(run)]
        forms = [form for number, (start, end) in enumerate(parts) for form in self._of_part(run, start, end, number)]
        if len(parts) > 1 or parts[-1:] != [(0, len(run))]:
            forms += self._joined(run, parts)
        return tuple(sorted(forms, key=lambda form: form[:2]))

    def _of_part(self, run: str, start: int, end: int, number: int) -> list[Form]:
        """Analyse a word: return it and its other forms."""
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
        """Yield one term of the analysis for each group of words that signs join."""
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
        """True if what stands between two words makes them one name in the analysis."""
        sign, sides = plain[before[1] : start], (plain[before[0] : before[1]], plain[start:end])
        if sign == ",":
            return sides[0][-1:].isdigit() and sides[1].isdigit()
        if sign in ("-", "/"):
            return any(len(side) == 1 or any(letter.isdigit() for letter in side) for side in sides)
        return sign in (".", "&") or (sign == "" and sides[0][-1:] in ("+", "#"))  # C++17

    def _of_unspaced(self, run: str) -> Iterator[Form]:
        """Yield pairs of characters as terms of a script without spaces, or the single character."""
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


def folded(text: str) -> str:
    """Return a text as words are compared that must stand as written: without case, marks and invisible characters."""
    if text.isascii():
        return text.lower()
    normal = unicodedata.normalize("NFKC", visible(text))
    return without_marks(unicodedata.normalize("NFKC", normal.casefold()))


def is_unspaced(word: str) -> bool:
    """True if a word begins with a character of a script that puts no spaces between words."""
    return not word.isascii() and _patterns().unspaced.match(word) is not None


def _plain(run: str) -> str:
    """Return a run with signs of ASCII in place of similar signs of Unicode, character by character."""
    return run if run.isascii() else run.translate(_PLAIN_SIGNS)


def _signs_behind(plain: str, start: int, end: int) -> int:
    """Return how many signs behind a word belong to its name in the analysis: C++, C#, C++17; not the sign of a sum."""
    signs = end
    while plain[signs : signs + 1] in ("+", "#") and signs < len(plain):
        signs += 1
    after, found = plain[signs : signs + 1], plain[end:signs]
    if found not in ("+", "++", "#") or plain[start:end].isdigit():
        return 0
    return len(found) if not after.isalnum() or (found == "++" and after.isdigit()) else 0


def words_of(text: str) -> tuple[list[str], int]:
    """Return all words of a text to analyse, their case folded; and its characters of unspaced scripts."""
    if text.isascii():
        return [word.lower() for word in _PART.findall(text)], 0
    runs = _patterns().run.findall(text)
    unspaced = [run for run in runs if _patterns().unspaced.match(run)]
    words = (word for run in runs if not _patterns().unspaced.match(run) for word in _patterns().part.findall(run))
    return [unicodedata.normalize("NFKC", word.casefold()) for word in words], sum(map(len, unspaced))


def _syllable_pairs(written: str, exact: str) -> list[tuple[int, int, str]]:
    """Return neighbouring Korean syllables of a word, with their places in it: terms that are not taken for words."""
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
        what = "this language has no stemmer"
        raise ConfigError(what, where="language", got=language, expected=known) from None


class _Patterns(NamedTuple):
    """Patterns that find runs and words in any script."""

    run: Any  # a word with what joins it to others, or an unspaced run, in any script
    part: Any  # a word within a run
    unspaced: Any  # the beginning of a run of a script without spaces
    invisible: Any  # characters that nobody sees


@cache
def _patterns() -> _Patterns:
    """Return the patterns of analysis of any script, compiled when a text comes that is not ASCII alone."""
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


# Function words alone are listed (articles, pronouns, prepositions, conjunctions, auxiliary verbs, words that ask), so that no
# word is left out that somebody may look for. English has the words that Lucene's EnglishAnalyzer leaves out, and I.
_SMALL_WORDS = {
    "arabic": """في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون تكون ما لا لم لن قد أن إن أو ثم و
        هو هي هم نحن أنت أنا كل بعد قبل بين حتى إذا لكن كما عند غير أي كيف متى أين لماذا هل ليس منذ حيث أيضا
        وقد وكان ولا وفي ومن""",
    "armenian": """և ու կամ է են էր էին եմ ենք եք ես այս այդ այն որ որը որի որոնք մի մեջ համար հետ մասին պետք իր իրենց
        նրա նրանց ինչ ինչպես երբ որտեղ ինչու ոչ նաև բայց եթե ըստ դեպի մինչև հետո նա մենք դու դուք նրանք""",
    "basque": """eta da dira zen ziren du dute zuen zuten bat edo ez ere baina baino hau hori hura hauek horiek izan
        den duen dituen behar egin zer nor non noiz nola zergatik gaur bere beren haren gure zure ni zu gu
        haiek bezala arte gabe oso dago daude""",
    "catalan": """el la els les un una uns unes de del dels i o que en a al als amb per és són va van ha han aquest
        aquesta aquests aquestes això no més com quan on qui què perquè si es se li seu seva seus seves
        entre sobre fins també però era ser hi ho molt jo tu ell ella nosaltres""",
    "danish": """og i at det en et den til er som på de med han af for ikke der var mig sig men har om vi min havde
        ham hun nu over da fra du ud sin dem os op hvor eller hvad skal selv her alle vil blev kunne ind når
        være noget ville deres efter jeg hvem hvordan hvorfor dette denne disse mod også kan bliver""",
    "dutch": """de het een en van in is dat op te zijn voor met niet aan er om ook als dan maar bij door naar uit
        over wordt werd worden heeft hebben had was waren ik je jij hij zij wij we jullie deze dit die wat
        wie waar wanneer hoe waarom kan kunnen zal zou tot nog of geen hun haar mijn zich tegen onder""",
    "english": """a an and are as at be but by for if in into is it no not of on or such that the their then there
        these they this to was will with i""",
    "finnish": """ja on ei se että oli hän en joka mutta ovat kun myös tai niin kuin mitä mikä missä milloin miten
        miksi kuka tämä tämän nämä ne sen niiden hänen heidän minä sinä me te he olla olen olet olemme olisi
        ollut eivät jos sekä vain jo sitä jonka jotka kanssa""",
    "french": """le la les un une des de du et à au aux en dans par pour sur avec sans sous est sont était été être a
        ont avait avoir il elle ils elles on nous vous je tu ce cet cette ces que qui quoi dont où quand
        comment pourquoi ne pas plus ou mais donc si se son sa ses leur leurs mon ma mes notre votre y comme
        entre""",
    "german": """der die das den dem des ein eine einen einem einer eines und oder aber nicht auch ist sind war waren
        wird werden wurde wurden hat haben hatte sein zu zum zur in im an am auf aus bei mit von vom nach
        für über um durch vor als wie wenn dass daß es er sie wir ihr ich du man sich dieser diese dieses
        was wer wo wann warum kann können so nur noch mein dein seine ihre ob""",
    "greek": """ο η το οι τα του της των τον την τους τις και κι να σε στο στη στον στην στα στις στους με από για
        που πως ότι δεν μην είναι ήταν έχει έχουν θα ένα μια ένας ως ή αλλά αν όταν πού πότε γιατί ποιος
        ποια τι αυτό αυτή αυτός αυτά μου σου μας σας""",
    "hindi": """के का की है में से को और पर ने यह वह एक हैं कि था थे थी हो इस उस जो तो भी नहीं ही कर या अपने लिए साथ
        किया गया गई कहा करने हुए होने क्या कैसे कब कहां कौन क्यों हम आप मैं वे ये इन उन तक जब अगर लेकिन""",
    "hungarian": """a az egy és hogy nem is van volt vannak voltak lesz ez ezt azt ezek azok de ha már csak még meg mint
        vagy mert aki ami amely amit akik amelyek mi ki hol mikor hogyan miért ő ők én te mi ti el fel be
        után között alatt szerint által majd kell lehet""",
    "indonesian": """yang dan di ke dari untuk dengan pada adalah ini itu dalam tidak akan oleh juga atau sebagai karena
        ada bisa dapat telah sudah kami kita mereka dia ia saya anda apa siapa mana kapan bagaimana mengapa
        para lebih antara saat tetapi jika bahwa secara hanya""",
    "irish": """agus an na ar ag is le go i do ní bhí tá atá sé sí siad mé tú muid sibh de den don sa san ó ach nó
        mar más nach gur cad cé conas cathain cén fáth seo sin é í iad a faoi leis chun raibh bhfuil""",
    "italian": """il lo la i gli le un uno una di del dello della dei degli delle a al alla ai alle da dal dalla in
        nel nella nei con su sul sulla per tra fra e ed o ma che chi cui non è sono era erano ha hanno
        essere avere si se come quando dove perché cosa questo questa questi queste anche più io tu lui lei
        noi voi loro suo sua""",
    "lithuanian": """ir yra buvo kad iš su į ne bet ar tai kaip už dėl po per nuo apie prie iki jis ji jie jos aš tu mes
        jūs šis ši tas ta kuris kuri kurie kas kur kada kodėl jo jų savo būti bus taip dar jau tik o pagal""",
    "nepali": """को का की मा ले लाई र छ छन् थियो थिए हो हुन् गर्न गरेको गर्ने भएको यो त्यो यस त्यस पनि एक बाट देखि
        सम्म तर वा कि के कसरी कहिले कहाँ किन म तिमी हामी उनी उनले गरी हुने भने साथ लागि""",
    "norwegian": """og i det på som er en til å han av for med at var de ikke den har jeg om et men så seg hun hadde fra
        vi du kunne da ut når være kom opp eller hva skal selv her alle vil ble mot etter noe ville deres
        hvem hvor hvordan hvorfor dette denne disse også kan blir ved etter""",
    "portuguese": """o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela para com sem sob e ou mas
        que quem não é são foi era ser está estão tem têm ter se seu sua seus suas como quando onde porque
        qual ao à aos às este esta isso isto esse essa mais também eu tu ele ela nós eles já""",
    "romanian": """și în de la cu pe din pentru nu este sunt era au a fi un o unei unui al ale ai lui ei lor că care ce
        cine unde când cum dacă sau dar mai să se s-a prin după între către acest această acestea aceste eu
        tu el ea noi voi fost""",
    "russian": """и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по её ее мне было вот
        от меня о из ему когда ли если уже или ни быть был до вас для мы их чем была были где кто почему это
        этот эта эти тот при также которые который которая является""",
    "serbian": """i u je da se na za su od sa kao ne koji koja koje ali ili iz po bi biti bio bila bilo nije što šta
        ko gde kada kako zašto ovo to taj ta te ovaj ova on ona ono oni mi vi ja ti sam si smo ste do o pri
        kod и у је да се на за су од са као не који која које али или из по би бити био била било није што
        шта ко где када како зашто ово то тај он она ја""",
    "spanish": """el la los las un una unos unas de del y e o u que en a al con por para sin sobre entre es son fue
        era ser está están ha han haber no se su sus le les lo me te nos mi tu como cuando donde quien cual
        qué cómo cuándo dónde quién porque más pero si también este esta estos estas eso esto yo él ella""",
    "swedish": """och i att det som en på är av för med den till inte har de om ett han var men sig från vi så kan man
        när år hon under också efter eller nu sin där vid mot ska skulle kommer ut får finns vara hade alla
        andra mycket än här då sedan över bara in blir upp även vad vem hur varför denna detta dessa jag du""",
    "tamil": """ஒரு என்று மற்றும் இந்த இது என்ற அந்த அது உள்ள கொண்டு என இருந்து அவர் அவர்கள் நான் நாம் நீங்கள் அவன்
        அவள் என்ன யார் எங்கே எப்போது எப்படி ஏன் ஆனால் அல்லது போன்ற பற்றி மூலம் வரை இல்லை ஆகும் இருந்தது
        முதல் பின்னர்""",
    "turkish": """ve bir bu da de için ile olarak olan çok daha en gibi kadar ama ise ya veya ki ne mi mı mu mü değil
        var yok her o şu ben sen biz siz onlar bunu buna bunun onun kim nasıl neden nerede hangi sonra önce
        göre oldu olduğu olduğunu tarafından ancak""",
    "yiddish": """און די דער דאָס אין פֿון איז צו מיט אַז נישט ניט אויף ער זי זיי מיר איר איך דו האָט האָבן זענען
        געווען אַ אַן וואָס ווער וווּ ווען ווי פאַר פֿאַר נאָך אָבער אויב אָדער זיך דעם זיין""",
}  # fmt: skip


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the words of a language that tell nothing, their case folded; none of a language without a list."""
    return listed(_SMALL_WORDS.get(language, ""))


def listed(words: str) -> frozenset[str]:
    """Return the words of a list of stop words, their case folded."""
    return frozenset(unicodedata.normalize("NFKC", word.casefold()) for word in words.split())


_OTHERS = {
    "afrikaans": "die en van in is nie het dat vir om te met sy as word ook aan op hierdie was wat moet kan",
    "bulgarian": "на и да се за от с по не е са като че ще или при това този към със във която който бъде",
    "czech": "a se v na je že o do s z i k pro ve za by jsou jako po nebo od při není ale který která které byl jen",
    "esperanto": "la de kaj en ne al por estas kun aŭ ke ĉi el tiu ĝi per ni vi mi kiu",
    "estonian": "ja on ei ka et see oli kui või ning mis ta aga seda mida nii oma ole kes",
    "galician": "o a e de que do da en un unha dos das para con non se na no por ao os as máis como é está xa foi polo pola",
    "icelandic": "og að í á er til um við sem ekki en það var með fyrir af hann eru frá eða úr þú",
    "latvian": "un ir ar no uz par ka nav vai kas tiek pie pēc bet lai kā tas šo arī ja",
    "macedonian": "на и да се за од со не е во што или како ќе кој која ова оваа при но беше",
    "polish": "i w nie na się z do że o jest to jak za od po przez dla nie ma są oraz lub przy ale czy który",
    "slovak": "a sa v na je že s z o do pre nie sú ako alebo pri po ale ktorý ktorá ktoré bol nebol nie je od",
    "slovene": "in je na za se da so ni v z po s ki bi od pri kot ali ter bo biti to tudi ne iz",
    "ukrainian": "і в на та що не з до у як це за від є для його або чи про який яка але бути й",
    "welsh": "y yn i ar o a yr ei am gan wedi oedd ac nid yw neu mae fod hwn hon",
}
"""Of languages without a stemmer, so that none of them is taken for its neighbour."""

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


@cache
def _small_words() -> dict[str, frozenset[str]]:
    """Return the function words of every language."""
    return {language: stop_words(language) for language in _SMALL_WORDS} | {
        name: listed(some) for name, some in _OTHERS.items()
    }


def recognised_language(texts: Iterable[str]) -> str:
    """Return the language of the first texts, by their function words; none where no language, or no single one, stands out.

    Letters alone and scripts are not asked: they do not tell Spanish from Catalan. Single letters of ASCII are no words here.
    """
    seen, total = Counter[str](), 0
    for text in islice(texts, _SAMPLE):
        words, unspaced = words_of(text)
        total += len(words) + unspaced // 2
        seen.update(word for word in words if len(word) > 1 or not word.isascii())
        if total >= _WORDS_SEEN:
            break
    own = {language: {word for word in words if word in seen} for language, words in _small_words().items()}
    counts = {language: sum(seen[word] for word in words) for language, words in own.items()}
    best = max(counts, key=counts.__getitem__)
    is_seen = len(own[best]) >= min(_LEAST_SEEN, 2 + total // 20)
    if best in _OTHERS or not is_seen or counts[best] < _LEAST_SHARES.get(best, _LEAST_SHARE) * total:
        return "none"
    for other in own.keys() - {best}:
        ours, theirs = (sum(seen[word] for word in words) for words in (own[best] - own[other], own[other] - own[best]))
        if theirs > _SHARED_AT_MOST * ours or (ours < _LEAST_OWN and 2 * counts[other] > counts[best]):
            return "none"
    return best
