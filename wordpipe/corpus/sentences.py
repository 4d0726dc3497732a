"""A rule-based sentence splitter for many languages: sentences concatenate to the text, in time linear in its length.

Candidates are found by one regular expression (stop, closing quotes, space; or a CJK or Indic stop alone), and each is
decided by the words around it: abbreviations, initials, ordinals, list numbers, ellipses, and whether what follows begins
with a small letter. What comes before: paragraphs, that is what a newline means, and where prose ends and a list, table,
heading or code begins.

sentencex was tried: it parted 2,871 of our sentences into 1,786, which did not always concatenate to the text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from wordpipe.corpus.settings import Newline

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
_MIN_THAI_CHARS = 40
_LOOK_BACK = 24  # characters in which the word before a stop is looked for; abbreviations are shorter


def split_sentences(
    text: str, newline: Newline = "auto", *, max_chars: int = 2000, on_cut: Callable[[], object] = lambda: None
) -> Iterator[str]:
    r"""Yield the sentences of `text`, each with the space after it; together they are exactly the text.

    Args:
        text: with "\n" line ends.
        newline: a single newline ends a paragraph, or is a space; auto decides by whether lines are wrapped at a margin.
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


def is_one_sentence(text: str, max_chars: int = 2000) -> bool:
    """True if a text is surely one sentence of `split_sentences`: one line with no stop but at its end, as short texts are.

    >>> is_one_sentence("A parser of dates."), is_one_sentence("Dr. Smith came.")
    (True, False)
    """
    if "\n" in text or not 0 < len(text) <= max_chars:
        return False
    first = _STOP.search(text)
    if first is not None and (first.end() < len(text) or text[first.start()] in _HARD):
        return False
    return text.isascii() or _THAI.search(text, 0, 100) is None


def _ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where the sentences of one paragraph end, the paragraph's own end included."""
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
    """True if the sentence from `begin` ends with the stop at `stop`, when `after` is the next that is no space."""
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
    """True if a stop of a script without spaces ends a sentence: not in brackets, nor at a quotation within a sentence."""
    if text[after - 1] not in ')）」』”’"':
        return True
    if text[after] in "とってのがはをにでも、，,と说說道":
        return False
    return (
        text[after - 1] not in ")）" or max(text.rfind(mark, max(begin, stop - 500), stop) for mark in "(（") <= begin
    )


def _before_quote(text: str, begin: int, stop: int, after: int) -> int:
    """`after`, or the place of a straight quote behind the stop that opens a quotation: the sentence has no open one."""
    quote = text.find('"', stop, after)
    if quote < 0 or text.count('"', max(begin, quote - 1000), quote) % 2 or text[quote + 1 : quote + 2].isspace():
        return after
    return quote


def _skip_open(text: str, after: int) -> int:
    """Return the first letter or digit after opening quotes, brackets and dashes."""
    for place in range(after, min(after + 6, len(text))):
        if text[place] not in _OPEN and not text[place].isspace():
            return place
    return after


def _belongs_to_word(text: str, begin: int, stop: int, after: int) -> bool:
    """True if the stop at `stop` is part of an abbreviation, an initial, an ordinal or a list number."""
    before = text[max(begin, stop - _LOOK_BACK) : stop].rsplit(None, 1)
    word = before[-1].lstrip(_OPEN) if before else ""
    if not word:
        return False  # only a closing quote or dash stands there
    if stop - begin <= 6 and _LISTED.fullmatch(text[begin:stop].strip()):
        return True
    key = word.lower()
    if word in _TITLES or key in _BEFORE_NAME or (key in _BEFORE_NUMBER and text[after].isdigit()):
        return True
    if len(word) > 6 and "." not in word:
        return False  # an ordinary word, nearly always
    if word.isdigit() or _ROMAN.fullmatch(word):
        if len(word) <= 2 and _next_word(text, after) in _ORDINAL_FOLLOWERS:
            return True
        if word.isdigit():
            return False
    # an initial is one letter of a script with capitals, or of Arabic, which abbreviates titles so
    is_initial = len(word) == 1 and (word.isupper() or word.islower() or "\u0620" <= word <= "\u064a")
    is_short = key in _MAYBE_LAST or is_initial or _ROMAN.fullmatch(word) or _DOTTED.fullmatch(word)
    return bool(is_short) and not _starts_sentence(text, after)


def _next_word(text: str, after: int) -> str:
    """Return the word of a sentence that follows a place."""
    return match[0] if (match := _WORD.match(text, after)) else ""


def _starts_sentence(text: str, after: int) -> bool:
    """True if the word at `after` is one that often begins a sentence, and not itself an initial."""
    word = _next_word(text, after)
    return word in _STARTERS and not (len(word) == 1 and text[after + 1 : after + 2] == ".")


def _thai_ends(text: str, begin: int, end: int) -> Iterator[int]:
    """Yield the places where sentences of Thai text end."""
    for match in _THAI_SPACE.finditer(text, begin, end):
        if match.start() - begin >= _MIN_THAI_CHARS and end - match.end() >= _MIN_THAI_CHARS // 3:
            begin = match.end()
            yield begin


def _cut(text: str, begin: int, max_chars: int) -> int:
    """Return where to cut a sentence that is too long: after a space, else not before a combining character."""
    limit = begin + max_chars
    middle = begin + max_chars // 2
    space = max(text.rfind(mark, middle, limit) for mark in (" ", "\n", "\t"))
    if space >= 0:
        return space + 1
    for cut in range(limit, max(middle, limit - 64), -1):
        if not unicodedata.combining(text[cut]) and text[cut] not in "\u200d\ufe0f" and text[cut - 1] != "\u200d":
            return cut
    return limit


_LINE = re.compile(r"[^\n]*+(?:\n(?:[^\S\n]*+\n)*+)?")  # a line, and the blank ones after it
_LINES = re.compile(  # or a row of lines of prose, which begin with a letter
    rf"(?:[^\W\d_](?!\))(?!\w*+(?:\.\w++)*+[ ]:[ ])[^\n]*+\n)++(?:[^\S\n]*+\n)*+|{_LINE.pattern}"
)
_KIND = re.compile(
    r"""(?P<indent>[ \t]*+)(?:
      (?P<code> >>>|``` )
    | (?P<rule> ([-=~^*_\#"'`+])\4{2,}+ [-=+ \t]*+ (?=\n|\Z) )
    | (?P<item> (?:[-*+•‣▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\)) [ \t]++ (?=\S) )
    | (?P<heading> \#{1,6}[ \t] )
    | (?P<table> \||\+[-=+] )
    | (?P<field> \*{0,2}\w++(?:\.\w++)*+ (?:[ ]:[ ]|[ ]\([^()\n]{1,80}\):[ ]) | (?<=[ \t])\w++:[ ] )
    | (?P<directive> \.\.[ ]|:\w+[^:\n]{0,60}:(?=\s) )
    )?""",
    re.VERBOSE,
)
_SAMPLE = 1 << 16  # characters by which it is decided what a document's newlines are
_MARGIN = re.compile(r"(?<=\S)\n(?=\S)")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
)  # no spaces between words
_NARROWEST, _WIDEST = 40, 160  # margins that people and programs wrap prose at
_SHORT_LINE = 50  # a line that stops before this was not stopped by a margin
_ENDS = frozenset(".!?:;…。！？；：।॥؟\"'”’»)")


class _Line(NamedTuple):
    """A line, or several lines that begin with a letter (nothing parts these), with the blank lines that follow."""

    start: int  # where it begins in the text
    end: int  # where the next line that is not blank begins
    kind: str  # what its first characters make it; "" for prose
    indent: int  # characters before the first that is not blank
    column: int  # where its text begins, behind the mark of a list item
    is_last: bool  # True before a blank line
    opens: bool  # it (the last of a row) announces a block: "Args:", "x : array", "Returns"


def paragraphs(text: str, *, wrapped: bool) -> Iterator[tuple[int, int, bool]]:
    r"""Yield start, end, and whether it is code, of each paragraph to split into sentences; together they are the whole text.

    A blank line ends a paragraph, and belongs to it. Where lines are `wrapped`, single newlines are spaces, except around list
    items, tables, headings, definitions and code; otherwise every newline ends a paragraph.
    """
    if wrapped:
        return _wrapped(text)
    spans = (match.span() for match in _LINE.finditer(text))
    return ((start, end, text.startswith(">>>", start)) for start, end in spans if start < end)


def _wrapped(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start, end, and whether it is code, of each paragraph to split, of a text whose lines are wrapped."""
    start, is_code, in_fence, after_blank = 0, False, False, True
    last: _Line | None = None
    for line in _lines(text):
        if last is not None and not is_code and _begins(line, last, is_first=after_blank and last.start == start):
            yield start, line.start, False
            start, last, after_blank = line.start, None, False
        is_fence = line.kind == "code" and text.startswith("```", line.start + line.indent)
        if last is None:
            is_code = line.kind == "code"
            in_fence = is_fence
        elif is_fence:
            in_fence = False
        last = line
        if line.is_last and not in_fence:
            yield start, line.end, is_code
            start, last, after_blank = line.end, None, True
    if start < len(text):
        yield start, len(text), is_code


def unwrapped(text: str) -> str:
    r"""Return a text of as many characters in which newlines that are only a right margin's work are spaces.

    Each paragraph is looked at by itself. Newlines before an indent stay, as do those of a paragraph in a script without
    spaces between words.

    >>> unwrapped("This line stops because the margin is near,\nand the sentence goes on.\n\n- one\n- two")
    'This line stops because the margin is near, and the sentence goes on.\n\n- one\n- two'
    """
    if "\n" not in text:
        return text
    shown = list[str]()
    for start, end, is_code in _wrapped(text):
        own = text[start:end].rstrip()
        is_prose = not is_code and "\n" in own and is_hard_wrapped(own) and not _UNSPACED.search(own)
        shown.append((_MARGIN.sub(" ", own) if is_prose else own) + text[start + len(own) : end])
    return "".join(shown)


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines of a text to split into sentences, those that begin with a letter together."""
    for match in _LINES.finditer(text):
        start, end = match.span()
        if start == end:
            return
        mark = _KIND.match(text, start, end)
        assert mark is not None
        kind, indent = mark.lastgroup or "", mark.end("indent") - start
        rows = text[start:end].rstrip()
        last = rows[rows.rfind("\n") + 1 :]
        yield _Line(
            start=start,
            end=end,
            kind="" if kind == "indent" else kind,
            indent=indent,
            column=mark.end() - start if kind == "item" else indent,
            is_last=text.find("\n", start + len(rows), end - 1) >= 0,
            opens=len(last) < _SHORT_LINE or last[-1] == ":" or " : " in last,
        )


def _begins(line: _Line, last: _Line, *, is_first: bool) -> bool:
    """True if `line` begins a paragraph, and so a sentence, though no blank line comes before the line."""
    if line.kind in ("code", "item", "field", "heading", "table", "directive"):
        return True
    if last.kind in ("rule", "heading", "table"):
        return True
    if line.kind == "rule":
        return False  # the underline of the heading before it
    if line.indent > last.column:
        return last.opens
    return line.indent < last.column and not is_first and last.kind != "item"


def is_hard_wrapped(text: str) -> bool:
    r"""True if the single newlines of this text are a right margin's work, and end no sentences.

    They are if most lines that are followed by another reach so far that its first word would not have fitted. Decided by
    the first 64 Ki characters.

    >>> is_hard_wrapped("This line stops because the margin is near,\nand the sentence goes on in this one.")
    True
    >>> is_hard_wrapped("One sentence a line.\nAnother one, which is a little longer than that.\nThe third.")
    False
    """
    if "\n" not in text:
        return False
    sample = text[:_SAMPLE].split("\n")
    if len(text) > _SAMPLE:
        sample.pop()
    inner = [(line.rstrip(), after) for line, after in pairwise(sample) if line.strip() and after.strip()]
    if not inner:
        return False
    widths = sorted(len(line) for line, _ in inner)
    margin = widths[(len(widths) - 1) * 19 // 20]  # one line in twenty may be a long link
    if not _NARROWEST <= margin <= _WIDEST:
        return False
    few = len(inner) < 5
    return 2 * sum(_reaches(line, after, margin, few=few) for line, after in inner) > len(inner)


def _reaches(line: str, after: str, margin: int, *, few: bool) -> bool:
    """True if the first word after `line` would have crossed the margin: the sentence goes on.

    Among few lines not if a full stop ends `line`.
    """
    if few and line[-1] in _ENDS:
        return False
    word = len(after.split(maxsplit=1)[0])
    return len(line) + 1 + (word if word <= 20 else 2) > margin  # scripts without spaces break anywhere


def _words(text: str) -> frozenset[str]:
    """Return the abbreviations written in a list of words."""
    return frozenset(text.split())


# Words that end in a stop without ending a sentence, and words that begin one, all without their last stop. Languages share
# one table, because a corpus mixes them; what is a common word in one of them ("ago", "sun", "est") is left out. Single
# letters are not listed: every one may be an initial.
# A name follows: "Mr. Smith". Only as written here: Swedish sentences end in "hon".
_TITLES = _words("""
    Mr Mrs Ms Messrs Dr Drs Prof Profs Rev Revd Fr Hon Gen Col Maj Capt Cpt Cmdr Lt Sgt Cpl Pvt Gov Sen Sens Rep Reps Det
    Mme Mmes Mlle Mlles Mgr Msgr Mons Sr Sra Srta Sres Dra D.ª Dña Ud Uds Sta Ste Sto Sig Sigg Dott Dott.ssa Ing Avv Exmo
    Dhr Mevr Hr Hrn Frl Dipl Doç Yrd Sn Av Pres Supt
""")
# Something always follows, small letters or capitals: "e.g. Rome".
_BEFORE_NAME = _words("""
    dr prof ing mw drs dipl им св тов акад проф доц ул пл наб пос англ лат нем фр греч исп ит яп
    e.g i.e viz cf vs incl excl esp resp z.b d.h i.d.r u.a s.o s.u m.e sog sogen bzw vgl evtl ggf insb zzgl bspw p.ex p.ej
    c.-à-d т.е т.к напр см ср bijv d.w.z m.b.t esim ks örn bkz
""")
# A number follows, or else the sentence ends: "No. 5", but "He said no.".
_BEFORE_NUMBER = _words("""
    no nos nr nrs num núm n° nº vol vols ch chap chaps sec secs art arts fig figs eq eqs pp pg pgs par para ver vers
    bd bde kap abb tab abs ff ziff anm aufl pág págs cap pag tav стр рис табл гл ст bl blz hfst sayı madde
    approx ca circa aprox env ок ed eds op tel ext jan feb mar apr jun jul aug sep sept oct nov dec
""")
# May end a sentence: it does when a word follows that begins one ("the U.S. The …").
_MAYBE_LAST = _words("""
    etc inc ltd co corp bros jr esq st mt ft ave blvd rd sq dept univ assn al cie govt
    jan feb apr jun jul aug sep sept oct nov dec jän mär okt dez janv févr juil déc
    gmbh mbh usw u.s.w o.ä u.ä dgl mio mrd tsd jh jhdt chr str nachf geb gest verh
    ecc srl e.d cs n.chr v.chr j.-c b.v n.v ş şti vd vb yy ym jne
    гг вв др пр тыс млн млрд трлн руб коп кв эт чел км кг см мин т.д т.п н.э
""")
# Capitalised words before which a number and a stop are an ordinal: "3. Oktober".
_ORDINAL_FOLLOWERS = _words("""
    Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan Feb Apr Jun Jul Aug Sep
    Sept Okt Nov Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jahrtausend Jahrtausends Weltkrieg Weltkriegs Weltkrieges
    Geburtstag Platz Rang Klasse Stock Kapitel Auflage Band Teil Bezirk Liga Bundesliga Armee Division Etage Runde Minute
    Tag Woche Monat Jahr Lebensjahr Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık Lig Yüzyıl
    Dünya
""")
# Words that, capitalised after a possible abbreviation, begin a sentence.
_STARTERS = _words("""
    The This That These Those A An It Its He She They We You I His Her Their Our My Your But And Or So Yet In On At By For
    From To With Without Within After Before During Since Until While When Where Why What Who Which How However Although
    Though Because If As Then Thus Therefore Hence Moreover Furthermore Meanwhile Instead Also Another Other Others Some Many
    Most Much Few Several All Both Each Every No Not Nor Once One Two Three There Here Today Later Now Under Over Between
    Among Despite According Upon Such Only Even Is Are Was Were Has Have Had Do Does Did Can Could Will Would Should May
    Let Suppose Consider Note Given Assume Define See Use Using Return Returns
    Der Die Das Den Dem Des Ein Eine Einen Einem Er Sie Es Wir Ich Ihr Seine Sein Ihre Im Am Auf Aus Bei Mit Nach Von Vor Zu
    Zum Zur Für Um Über Unter Und Aber Oder Doch Als Wenn Weil Da Dass Dies Diese Dieser Dieses Dort Hier Nun Auch Nur Noch
    Seit Wie Was Wer Wo Warum Man Alle Viele Einige Nicht Kein Keine Bis Während Obwohl Jedoch Dabei Damit Danach
    Le La Les Un Une Des Il Elle Ils Elles Nous Vous Je Tu Ce Cet Cette Ces Son Sa Ses Leur Leurs Dans En Sur Sous Par Pour
    Avec Sans Et Mais Ou Donc Car Si Quand Comme Au Aux À Après Avant Selon Depuis Lorsque Cela Ainsi Toutefois Puis
    El Los Las Lo Una Unos Unas Él Ella Ellos Ellas Yo Nosotros Se Su Sus Este Esta Esto Estos Estas Ese Esa Eso Con Sin Por
    Para Según Desde Hasta Y O Pero Aunque Cuando Donde Como Al Del Tras Entre También Hay Ya
    Gli Uno Nel Nella Nei Di Per Tra Fra Ma Anche Questo Questa Quando Dopo Però Os Um Uma Na Nos Nas Ele Ela Eles Não Mas
    Isso Após Também Het De Een Hij Zij Ze Dit Dat Deze Maar Ook Naar Van Voor Met Bij Toen
    В На С К О У И А Но Он Она Они Оно Мы Вы Я Ты Это Этот Эта Эти Тот Та Те По Из За От До Для При Под Над Без Через После
    Перед Во Со Ко Об Как Так Что Кто Где Когда Если Хотя Также Однако Потом Затем Его Её Ее Их Не Ни Все Всё Был Была Было
    Были Есть Тогда Там Здесь Сейчас Или Среди Между
    Hän Ne Tämä Nämä Ja Mutta Kun Jos Myös Siitä Sen Ei Oli Bu Şu Bir Ve Ama Ancak Fakat İlk Daha Onun
""")
