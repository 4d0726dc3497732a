"""Scanners: rows of UTF-8 text cut into pre-tokens, byte for byte as tokenizers does, at hundreds of megabytes a second.

Each scanner is one of tokenizers' pre-tokenizers, read as a left-to-right machine over the classes of code points. All are
called alike:

    scan(data, offsets, classes, starts, ends, row_ends) -> number of spans

`data` uint8[bytes], `offsets` int64[rows + 1]: valid UTF-8 rows, as an Arrow string array holds them; `classes`:
`code_point_classes()`. Filled by the scanner, made by the caller: `starts` and `ends` int32[bytes + 1], positions in `data`
of the spans of all rows in order, and `row_ends` int64[rows], the number of spans up to and with each row. So a batch is
less than 2 GiB. White space that a pre-tokenizer drops lies in no span. The time is linear in the length of the data,
whatever it holds. A scanner is compiled once if all callers pass it `compiled.read_only` data.

Classes: Hugging Face tokenizers asks three Unicode tables of different ages (Oniguruma's, the Rust regex crate's and its own
of punctuation), Python's `regex` a fourth. To cut text exactly where they cut it, all four answers were asked of the libraries
themselves, code point by code point, and are carried along as runs; a test asks again. tokenizers 0.22.0 and 0.23.3 give the
same answers.
"""

import base64
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np
from tokenizers import Regex, pre_tokenizers

from wordpipe.compiled import character, kernel, load_eight, read_only
from wordpipe.tokens.vocabulary import I32, I64, U8

CODE_POINTS = 0x110000
# as tokenizers sees them
LETTER = 1  # \p{L} of the GPT-2 and cl100k patterns
NUMBER = 2  # \p{N} of them; no code point is two of LETTER, NUMBER and SPACE
SPACE = 4  # \s; all of tokenizers' pre-tokenizers agree on it
WORD = 8  # \w of Whitespace
PUNCTUATION = 16  # stands alone in BertPreTokenizer
# as `words` sees them
SPOKEN = 32  # a letter, mark or number of a script with spaces
COUNTED = 64  # \p{N}
UNSPACED = 128  # of a script without spaces


@cache
def code_point_classes() -> U8:
    """The flags of every code point: uint8[0x110000], read-only. Surrogates, which no text holds, have none."""
    runs = zlib.decompress(base64.b85decode(RUNS))
    count = len(runs) // 5  # a run is four bytes of length and one of flags
    lengths = np.frombuffer(runs, dtype="<u4", count=count)
    flags = np.frombuffer(runs, dtype=np.uint8, offset=4 * count)
    classes = np.repeat(flags, lengths)
    classes.flags.writeable = False
    return classes


# eight bytes at once, as numbers of 64 bits
CASE = np.uint64(0x2020202020202020)
HIGH = np.uint64(0x8080808080808080)
LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
FROM_A = np.uint64(0x1F1F1F1F1F1F1F1F)  # added to a byte of 7 bits: the high bit says that it is at least "a"
PAST_Z = np.uint64(0x0505050505050505)  # and this that it is past "z"
PLACES = np.uint64(0x0001020304050607)
ONE, SEVEN, TOP = np.uint64(1), np.uint64(7), np.uint64(56)


@kernel
def step(data: U8, at: int, classes: U8) -> tuple[int, int]:
    """Return the class of the code point at `at`, and where the next one begins."""
    point, after = character(data, at)
    return classes[point], after


@kernel
def letters_end(data: U8, at: int, stop: int) -> int:
    """Return where the scanner finds the end of letters A to Z and a to z, eight bytes at once.

    Nearly every word ends in the first eight bytes, so the processor has nothing to guess: byte by byte it guesses wrong
    once a word, which took half of the time on English.
    """
    while at + 8 <= len(data):
        eight = load_eight(data, at)
        folded = (eight | CASE) & LOW
        others = ~((folded + FROM_A) & ~(folded + PAST_Z)) | eight
        others &= HIGH
        if others != 0:
            first = (others & (~others + ONE)) >> SEVEN  # 1 << 8 * place
            at += np.int64(first * PLACES >> TOP)  # type: ignore[assignment]
            return min(at, stop)
        at += 8
        if at >= stop:
            return stop
    return at


@kernel
def run_end(data: U8, at: int, stop: int, classes: U8, mask: int, kind: int) -> int:
    """Return where the scanner finds the end of code points from `at` on whose class is `kind`."""
    while at < stop:
        if data[at] < 0x80:
            if classes[data[at]] & mask != kind:
                return at
            at += 1
        else:
            point, after = character(data, at)
            if classes[point] & mask != kind:
                return at
            at = after
    return at


@kernel
def worded_end(data: U8, at: int, stop: int, classes: U8, mask: int, kind: int) -> int:
    """As `run_end`, for a kind that has the letters A to Z."""
    return run_end(data, letters_end(data, at, stop), stop, classes, mask, kind)


KINDS = LETTER | NUMBER | SPACE  # of these three a code point has one or none
OTHER = 0


@kernel
def _space_end(data: U8, at: int, stop: int, classes: U8) -> int:
    r"""Return where the scanner ends `\s+(?!\S)|\s+`: before the last space of several, if text follows."""
    last = at
    after = at
    while after < stop:
        seen, following = step(data, after, classes)
        if not seen & SPACE:
            return last if last > at else after
        last = after
        after = following
    return after


@kernel
def _contraction(data: U8, at: int, stop: int, case: int) -> int:
    """Return the length of 's 't 'm 'd 're 've 'll at `at`, where an apostrophe stands; else 0.

    `case` is 0x20 where capitals are as good as small letters; Oniguruma takes the long s (ſ) for an s then, too.
    """
    if at + 1 >= stop:
        return 0
    if case and data[at + 1] == 0xC5 and data[at + 2] == 0xBF:
        return 3
    first = data[at + 1] | case
    if first == 0x73 or first == 0x74 or first == 0x6D or first == 0x64:
        return 2
    if at + 2 >= stop:
        return 0
    second = data[at + 2] | case
    if ((first == 0x72 or first == 0x76) and second == 0x65) or (first == 0x6C and second == 0x6C):
        return 3
    return 0


@kernel
def gpt2(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut by the pattern of GPT-2: letters, numbers or signs, each run with the space before."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            starts[spans] = at
            begin = at
            # one space belongs to what follows
            seen, at = step(data, at, classes)
            if seen & SPACE and data[begin] == 0x20 and at < stop:
                seen, at = step(data, at, classes)
            # the run that begins here, by its first code point
            if seen & SPACE:
                at = _space_end(data, begin, stop, classes)
            elif data[begin] == 0x27 and _contraction(data, begin, stop, 0):
                at = begin + _contraction(data, begin, stop, 0)
            elif seen & LETTER:
                at = worded_end(data, at, stop, classes, KINDS, LETTER)
            else:
                at = run_end(data, at, stop, classes, KINDS, seen & KINDS)
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def _newlines_end(data: U8, at: int, stop: int) -> int:
    while at < stop and (data[at] == 0x0A or data[at] == 0x0D):
        at += 1
    return at


@kernel
def _blank_end(data: U8, at: int, stop: int, classes: U8) -> int:
    r"""Return where the scanner ends `\s*[\r\n]+|\s+(?!\S)|\s+`."""
    after = run_end(data, at, stop, classes, SPACE, SPACE)
    while after > at:
        after -= 1
        if data[after] == 0x0A or data[after] == 0x0D:
            return after + 1
    return _space_end(data, at, stop, classes)


@kernel
def _three_end(data: U8, at: int, stop: int, classes: U8) -> int:
    """Return where the scanner ends at most two more numbers."""
    for _ in range(2):
        if at < stop:
            seen, after = step(data, at, classes)
            if seen & NUMBER:
                at = after
    return at


@kernel
def digits(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut by the pattern of cl100k and Llama 3: numbers in threes, one sign before letters, line ends together."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            # the first code point and, where it is no letter or number, the kind of the next
            begin = at
            first = data[at]
            seen, at = step(data, at, classes)
            kind = seen & KINDS
            following, after = kind, at
            if at < stop and kind != LETTER and kind != NUMBER:
                following, after = step(data, at, classes)
                following &= KINDS
            # the alternatives of the pattern, in its order
            if first == 0x27 and _contraction(data, begin, stop, 0x20):
                at = begin + _contraction(data, begin, stop, 0x20)
            elif following == LETTER and first != 0x0A and first != 0x0D:
                at = worded_end(data, after, stop, classes, KINDS, LETTER)
            # no letters: numbers, then signs with line ends, then white space
            elif kind == NUMBER:
                at = _three_end(data, at, stop, classes)
            elif kind == OTHER or (first == 0x20 and following == OTHER):
                at = run_end(data, at, stop, classes, KINDS, OTHER)
                at = _newlines_end(data, at, stop)
            else:
                at = _blank_end(data, begin, stop, classes)
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


_SURROGATES = range(0xD800, 0xE000)


def marks(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut as `digits`, with marks among the letters; `classes` must be `code_point_classes()`."""
    return digits(data, offsets, _with_marks(), starts, ends, row_ends)


@cache
def _with_marks() -> U8:
    """Return the classes of code points, marks being letters: uint8 [0x110000]."""
    classes = code_point_classes().copy()
    points = np.array([point for point in range(CODE_POINTS) if point not in _SURROGATES])
    text = "".join(map(chr, points))
    for _, (start, end) in pre_tokenizers.Split(Regex(r"\p{M}+"), "removed", invert=True).pre_tokenize_str(text):
        classes[points[start:end]] |= LETTER
    return read_only(classes)


def bert(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut at white space, every punctuation mark alone."""
    return _between_spaces(data, offsets, classes, PUNCTUATION, starts, ends, row_ends)


def whitespace_split(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut at white space."""
    return _between_spaces(data, offsets, classes, 0, starts, ends, row_ends)


@kernel
def _between_spaces(data: U8, offsets: I64, classes: U8, alone: int, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut at white space; code points of the class `alone` are each by themselves."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if seen & SPACE:
                continue
            if not seen & alone:
                at = worded_end(data, at, stop, classes, SPACE | alone, 0)
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def whitespace(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    r"""Cut at white space, and between word characters and others: `\w+|[^\w\s]+`."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if seen & SPACE:
                continue
            if seen & WORD:
                at = worded_end(data, at, stop, classes, WORD, WORD)
            else:
                at = run_end(data, at, stop, classes, SPACE | WORD, 0)
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def metaspace(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut before every ▁, which stands in the place of a space already."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            starts[spans] = at
            at = letters_end(data, at + 1, stop)
            while at < stop and not (data[at] == 0xE2 and data[at + 1] == 0x96 and data[at + 2] == 0x81):
                at += 1
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


@kernel
def characters(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut between all characters."""
    spans = 0
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            if data[at] & 0xC0 != 0x80:
                starts[spans] = at
                spans += 1
            ends[spans - 1] = at + 1
        row_ends[row] = spans
    return spans


@kernel
def _number_end(data: U8, at: int, stop: int, classes: U8) -> int:
    r"""Return where `\p{N}+(?:[.,]\p{N}+)+` ends; `at` itself where the pattern does not match."""
    end = at
    after = run_end(data, at, stop, classes, COUNTED, COUNTED)
    while after < stop and (data[after] == 0x2E or data[after] == 0x2C):
        following = run_end(data, after + 1, stop, classes, COUNTED, COUNTED)
        if following == after + 1:
            break
        after = end = following
    return end


@kernel
def _joiner(data: U8, at: int, stop: int) -> int:
    """Return the length of the apostrophe or hyphen (' - ’ ‐) that the scanner of words meets at `at`; 0 if there is none."""
    if at >= stop:
        return 0
    if data[at] == 0x27 or data[at] == 0x2D:
        return 1
    if data[at] == 0xE2 and data[at + 1] == 0x80 and (data[at + 2] == 0x99 or data[at + 2] == 0x90):
        return 3
    return 0


@kernel
def words(data: U8, offsets: I64, classes: U8, starts: I32, ends: I32, row_ends: I64) -> int:
    """Cut the words of `words.WordSplitter` as they are written; a run of a script without spaces is one span."""
    spans = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            begin = at
            seen, at = step(data, at, classes)
            if not seen & (SPOKEN | COUNTED | UNSPACED):
                continue
            # a run without spaces, a number with its points, or letters joined by apostrophes and hyphens
            if seen & UNSPACED:
                at = run_end(data, at, stop, classes, UNSPACED, UNSPACED)
            else:
                end = _number_end(data, begin, stop, classes) if seen & COUNTED else begin
                at = begin if end == begin else stop
                while at < stop:  # letters, again behind an apostrophe or hyphen
                    after = worded_end(data, at, stop, classes, SPOKEN, SPOKEN)
                    if after == at:
                        break
                    # up to here it is a word; a joiner belongs to it only if letters follow
                    end = after
                    at = end + _joiner(data, end, stop)
                    if at == end:
                        break
                at = end
            starts[spans] = begin
            ends[spans] = at
            spans += 1
        row_ends[row] = spans
    return spans


Scanner = Callable[[U8, I64, U8, I32, I32, I64], int]

SCANNERS: dict[str, Scanner] = {
    "gpt2": gpt2,
    "digits": digits,
    "bert": bert,
    "whitespace": whitespace,
    "whitespace-split": whitespace_split,
    "metaspace": metaspace,
    "characters": characters,
    "marks": marks,
    "words": words,
}

# written by tests/support/code_point_probe.py
RUNS = (
    "c-o~}OOG8#74Fx4^}K4vW6zzjXM7Wnoo?H)$FYqa2qqCxB4iL2kPx!~a}f`9tPq661__O_Aie@53s@0}1ws+**k)%%kj4A}FIXT8i7l{Xg{V{Y)x"
    "F;ws;>i4yKZ+^pQ<{~@0_afAW4#rZELorwyoG!+Sape%eDgjDZO{;J$&ono>5;{z4LQuIqn;{pTzwj^=mEKwv73EYV4|QZ>qI3#d9~ZR%q+Ee-Zb"
    "e;4bUDi{~?HjLcW7wVqZqSw!9pV~=A@fxdM`FKt1+pR?^K>{1Z@H)#GIt&tH;pf4eR=wDX+?SMDwyG=YSW9$>Q4QNark@XnqexT?&pjpBDrs5~Xn"
    "nE{Jw(DWOv-C~)`54W=MzkgAphUkR+CF^`e5cC4a;0n5acDeWs_1jYL#FJb{Us-vi#fbyk$a}%uuweaG)JN2Db@N5^sH^z#!E->&{yNw&MQiXr5e"
    "*!V;^U$HXdTO>d^B%TXC$Hk@#nw77;&Yo3agZ;8_7)^gNl;!7|0|62|mfaMMKOPu2XrNc^VCk5~`=NKB-2cqr%CqK%hMi$Ak1!ndG1?Uyyt#MVkl"
    "-+@Nke9+>5Yj_^2m<W9J)LLDo*FO1CrexVu^MoANCw<Dd(-Hp)dK;>K*4cobJBqHS))3xDB>Rf8dq#4UkvyI%KMpeNqHkUCvOwPlq+7<X)5v}6#A"
    "}x@vWQ?zkK%g?dS=~(xzDuJF6Z$4x%99+y%srZ_5MWi;l>61KCAjaO_(u&>^b6F+N+T~ayRqOt5lbTIc^fpgm_+~I66YQ8{k_8y)8v@z4Tv!ujF&"
    "Eq$Gdos=UIsyiL9@<DOJ@c?q;96$UI)ZYWW|uy36Q-Il`f4tU?7HKko8nr+gpmZPU?+mqmV1@m2m9r}>Bq&zzS-#PeQBL2?<@B83;mu%mmJP_vGr"
    "CPBAzs<<bebV<)!ohB&=8*9ZY<phvYkJtf&M1HD&x!p|zXyHBYATJv1<hYjp3`)?CLStWTTwDCwcw(O)a1FcH@`38eGjp{s`84i8G^mKkHN@LYh_"
    "dqbX0vNyq;2fnjc|b6nylmeSZ#qeg*Z>cQWrw;$xS{PleB4q@Lzeg!xXV_UCV8hn)1wvbN#ob!F>istpG8?f<=x5L+oQ>yxzqyp6beh&@6KlQ`Ec"
    "QoiY`nkA3yPhV}R`@a&gd&nPOCI2qL{~l~QBFyTO|Azjj@NP)v*KGTp#ObDw)8q?D^0UI{iwoduDV^ntlJ=Ju$%dth)0c?0i~g|B`?ktSS){gMe_"
    "mEGrfaYb<xe?b>lO3|On(NssIT(L8pW*MZwt){8nc1;T_9W!Hn|9Xms;wB4)vAvUSr&#Wsk!3)JCK}*^AUwS)^tTwOy`op7#|c;WFQ2@pew_`$PL"
    "a*)db|{`Q=Yl?})vSW;LJd;>Y60Uq=aQyo=jmI{kIk2xo~3yggo^Bd%(414{G^1mTI4e4a4^2~AscT<JC^8U7}C%ZJJRC?cv;KWu0Z+fJIry*P3V"
    "zV&+DZ-~M!n-uGhh9eQ@k7d);XG;)Ik-U168i69{96<Ym#7v!PC22V`jcb51Dgk1?~uH^6vKg5@c7rtuXd@%DPY$=FkpdlV@kZ~{r<e~Ipz`_TuZ"
    "$i$7oMGB>SFKdynTMXEf&{HB(0W-k_fis`*c%Z-AITqV_)>@WfcQMgF)2JzrPnIbolFAyS)nXkWzNw$-^uN*EFDT=NFs7?CYcsF(?3!x>x;@`M`k"
    "2%T4~(b>}?o^RRq8L^LTmw^$N@vW<TiEHo^lxssy`7`Yg&PL8(j5>qqBr~7jJ;k;<k2(fFD-auD-*gr=br12eLHXb+e6mOT-ZFAlH=tNuQ0KJ)Gd"
    "BrCf}iXXrj@ET3w)naeFLgtms@-!i|p%jIwxPCGuBP$tgF_!(X!v=I4ucZFH+tpsrLL|&;3$${-bL(eXiC~d%qs}#e&iU;{eybgBF^iCD(<$-Zp$"
    ">jbf=(_Sk`~)+6VtCH^*Xkz^fEjt+b1J>Wi{>z0t=9OY#8uXV)NaXO<YB4@-h<~`t|(0miP$$Q+s%I|%ptD*8A{dXHaZzxfxhB==i*?W<^dz^f&A"
    "{x$3ebUPX_4k1_U{l!Zy#o5zki%C<XTc9nN9GQ6M<`daFE3*q?bB!G)VRHfKXfCpIEutZCt~ySWaE(c{tliC^*0}`<(^b=vqW+83dw&I{`M<N_$_"
    "<?F7YC||0CyVyV%z;Zm*c_Bf6x^cUJt^mn~E8ZF!xp;oAq6@Y!sZe|1g&d3C0<6RGw0=sc=Wd-YP;;3()sSAR%7mWT714-gX}H*8|9P3Zil^7m_$"
    "GnT0CP1WDWGIc)quMO`94-3!BF4mX$`WotcneXSh_czJ0+dH$hweOuu5Bv3Y<nM+&_NQ_lVToTSKgg-B(B~<)4D_GP_N}6$N2vLqqgu90XIUZEcd"
    "-61>0BsR`68urjT^wVMcnVg25*y}z8uNVSp=6BTh7p5XgT}tQSH>08*-xiQabD3RQHn~@tyb8@^B6OJVX30t6FkJov+<0{Ja5gzKk(F)Pa{tmQ{t"
    "%naaI4=&bzBWEML;!gkJ!FQl`*#;U@thpE@`^qpcm#Py#@C&x%1k5qop`>YgWGxBLU19(x5lQlN10H27QeSDVwkATeiKCN}U<^KxkJ#-PtbKN=L("
    "w4u|xBWkiww6Wq%xOetMay~Xsyff@Q2&dW$BR>RPS5urfc75)V1`}f(YrpjKW;qTUuey@j`<iBJ}+&1UB6*peq+b)*!y4Y;x~_Y9`4xj2e$qA9gD"
    "TrnI05n@=vJ){+)?1g=tJ}hPJsEn~Lny*!|RIZ0dxs%H0eacaCh286}m$HFAWBT$TN)E4xZ%X(~%Dt#O}gd9go9BR_Ud_vS8P#Qn%M!YEwAa-|rv"
    "pM?|GUD^3W2I)$a1k+328b2;F6Q*%Y#0f@$CaK3zOmr=|H$)M}S59kwhH-L8o*79XaMHW=f}nLZuHD4-A^yU^M$|sJH@Rnj?jPJwCbP?S`loxzf&"
    "Hz$ksOb58Mlz!{7mxIjySmQ22QVod;3_^#AH9D2Q$W#^^v*|yPL)dW=$C+uY}Rb{r!n>^?qXP(hUTjN#=%m%Z-zL@ej{rW91bOuAHOPVmI$D4QPy"
    "=s{yCR3x}Dj$8qnk!s4ir02w-`9@^)z_?WTAHzRS-IfKVdZTXdf<D_pN{IkD23mj=C=1rA|x9=_+q?7tU#va(-<X~dIOhkWXVtzmI3)(iZzu}T$*"
    "5b}s#>JilspzK)5#}$8IHPF<Rvrf`ufNKTt*l0!LY<e|!B+9&9TRU(=d5O8tvIQt;p&#HbjVuocWfjLUMGoX{=ZCOraG|yhOj_To_}hLv;Pp7GpQ"
    "$Swh$XMq7%5?Si;w;r16gEuuV8>W+Uc$#^~_u;uK#0@*w_U-2>0#Y3zD;7B{HJ;z2GL#>Ow^r!Ywf8W-n+XjKwW&8_RMsvbKmaNLg*SY_NewYz6i"
    "Icc0}jCXl&yxLs1>X)d%T0Z7k?G8s;;IT?(NC~?I^r<T#xm!1Jzz+~JKI;9e{2l-xeIz7xGgcGAsp^1%Aw?ipz>`M7WR9pg1pZU5f>B|H#*Vt<yf"
    "6V42q!_y%^h>6w%>!)ex#p4(8f*X@XMvlW@;~&5Ijc}c;25>$-VstF3hH;3wXRgd*FC?s<#<{QdX6Op+2lX6m*SRJ~Y!wjaL=IpEG3T(>oOFq<5`"
    "uzz1PmF!&60>W_R`xOCUPomUhjy4s&*vVEtW{{T#CsT%"
)
