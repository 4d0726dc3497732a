r"""LaTeX as an outline: its text without commands, and nothing that it names is opened or run.

Sections are headings, items are items, rows of tables are lines, equations and listings are code as they stand. A command that
is not known leaves what stands in its braces. Left out are the preamble, comments, labels, references, citations, and included
files, which are counted.
"""

import re
import unicodedata
from collections.abc import Iterator

from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Markup, Outline, names, read_sections
from wordpipe.corpus.reading import Opened

_TOKEN = re.compile(
    r"(?P<comment>%[^\n]*(?:\n[ \t]*(?!\s*\n))?)|\\begin\s*\{(?P<begin>[^}]*)\}|\\end\s*\{(?P<end>[^}]*)\}"
    r"|\\(?P<command>[A-Za-z@]+)\*?[ \t]*|\\(?P<sign>.|\n)|(?P<paragraph>\n[ \t]*\n\s*)|(?P<math>\$\$?)"
    r"|(?P<cell>&)|(?P<space>~)|[{}]|(?P<text>[^\\%${}&~\n]+|\n)"
)
_LEVELS = {
    "part": 1,
    "chapter": 2,
    "section": 3,
    "subsection": 4,
    "subsubsection": 5,
    "paragraph": 6,
    "subparagraph": 7,
}
_CODE = names(
    "verbatim Verbatim lstlisting minted alltt equation align gather multline eqnarray displaymath math tikzpicture"
)
_LEFT_OUT = names("comment tikzpicture filecontents")
_TABLES = names("tabular tabularx longtable array tabulary supertabular")
_DROPPED = names("""
    hypertarget hyperlink label ref eqref pageref autoref cref Cref cite citep citet citealp parencite textcite footcite nocite
    bibliographystyle bibliography usepackage documentclass RequirePackage vspace hspace includegraphics
    pagestyle thispagestyle setlength addtolength index hypersetup geometry graphicspath addbibresource
    newtheorem newcommand renewcommand providecommand newenvironment renewenvironment setcounter addtocounter
    pagenumbering bibitem hyphenation color definecolor input include subfile newlength DeclareMathOperator
    theoremstyle lstset captionsetup fancyhead fancyfoot lhead rhead cfoot addcontentsline markboth markright
    href rule raisebox resizebox scalebox multicolumn multirow selectlanguage fontsize
""")
_KEPT = {
    "hypertarget": 1,
    "hyperlink": 1,
    "href": 1,
    "multicolumn": 2,
    "multirow": 2,
    "raisebox": 1,
    "resizebox": 2,
    "scalebox": 1,
    "bibitem": 1,
    "color": 1,
}
_INCLUDED = names("input include subfile")
_SAID = {
    "ldots": "…", "dots": "…", "textellipsis": "…", "LaTeX": "LaTeX", "TeX": "TeX", "ss": "ß", "ae": "æ",
    "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł", "i": "ı",
    "textbackslash": "\\", "textendash": "–", "textemdash": "—", "S": "§", "P": "¶", "copyright": "©",
    "pounds": "£", "euro": "€", "texteuro": "€", "quad": " ", "qquad": " ", "textasciitilde": "~",
    "textquotedblleft": "“", "textquotedblright": "”", "glqq": "„", "grqq": "“",
}  # fmt: skip
_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307"}
_NAMED_ACCENTS = {
    "c": "\u0327",
    "v": "\u030c",
    "H": "\u030b",
    "u": "\u0306",
    "k": "\u0328",
    "r": "\u030a",
    "d": "\u0323",
}
_QUOTES = ((re.compile("---"), "—"), (re.compile("--"), "–"), (re.compile("``"), "“"), (re.compile("''"), "”"))
_BLANK = re.compile(r"[ \t]*\n?[ \t]*")


def read(opened: Opened) -> Iterator[Record]:
    """Return the sections of a LaTeX file."""
    return read_sections(opened, MARKUP)


def looks_like_latex(first: bytes, settings: object) -> bool:
    """True if a source begins as LaTeX does."""
    del settings
    return re.match(rb"(?:\s|%.*\n)*+\\documentclass\b", first[:8192]) is not None


def read_latex(text: str, line: int, outline: Outline) -> None:
    """Report the text of LaTeX to the outline of its source."""
    start = text.find("\\begin{document}") if line == 1 else -1
    if start >= 0:
        if (found := re.search(r"\\title\s*(?:\[[^\]]*\]\s*)?(?=\{)", text[:start])) is not None:
            outline.title = plain(_group(text, found.end())[0]) or None
        line += text.count("\n", 0, start)
        text = text[start:]
    _Walk(text, line, outline).over()


class _Walk:
    """One walk over a text of LaTeX."""

    def __init__(self, text: str, line: int, outline: Outline) -> None:
        self.text, self.line, self.outline = text, line, outline
        self._counted = 0  # characters up to which lines are counted
        self._tables = 0

    def over(self) -> None:
        """Report all of the text in order."""
        at = 0
        while at < len(self.text) and (found := _TOKEN.match(self.text, at)) is not None:
            at = max(self._report(found), found.end())
        self._to_line(len(self.text))

    def _to_line(self, at: int) -> None:
        """Count the lines up to a character, and tell the outline."""
        self.line += self.text.count("\n", self._counted, at)
        self._counted = max(self._counted, at)
        self.outline.line = self.line

    def _report(self, found: re.Match[str]) -> int:
        """Report a token, and return where the next one begins."""
        out, at = self.outline, found.start()
        if found["command"] is not None:
            return self._command(found)
        if found["text"] is not None:
            self._words(found["text"], at)
        elif found["paragraph"] is not None:
            out.block()
        elif found["begin"] is not None:
            return self._begin(found["begin"].rstrip("*"), found.end())
        elif found["end"] is not None:
            self._tables -= found["end"].rstrip("*") in _TABLES and self._tables > 0
            out.block()
        elif found["sign"] is not None:
            return self._sign(found["sign"], at, found.end())
        elif found["math"] is not None:
            stop = self.text.find(found["math"], found.end())
            if 0 <= stop < found.end() + 2000:
                self._words(self.text[found.end() : stop], found.end(), is_math=True)
                return stop + len(found["math"])
        elif found["cell"] is not None:
            if self._tables:
                out.cell()
            else:
                self._words("&", at)
        elif found["space"] is not None:
            self._words(" ", at)
        return found.end()

    def _words(self, text: str, at: int, *, is_math: bool = False) -> None:
        """Report words of a paragraph."""
        self._to_line(at)
        for pattern, sign in () if is_math else _QUOTES:
            text = pattern.sub(sign, text)
        self.outline.words(text)

    def _begin(self, name: str, at: int) -> int:
        """Begin an environment; one of code is reported as it stands."""
        self.outline.block()
        if name in _CODE or name in _LEFT_OUT:
            stop = re.compile(rf"\\end\s*\{{{re.escape(name)}\*?\}}").search(self.text, at)
            end = stop.start() if stop else len(self.text)
            if name not in _LEFT_OUT:
                self._to_line(at)
                self.outline.verbatim(re.sub(r"\\label\{[^}]*\}", "", self.text[_options(self.text, at) : end]))
            return stop.end() if stop else end
        at = _options(self.text, at)
        if name in _TABLES or name in ("thebibliography", "minipage", "multicols"):
            self._tables += name in _TABLES
            for _ in range(1 + (name in ("tabularx", "tabulary"))):
                at = _group(self.text, at)[1]
        if name == "abstract":
            self.outline.heading(3, "Abstract", None, self.line)
        return at

    def _sign(self, sign: str, at: int, end: int) -> int:
        """Report a sign behind a backslash: a line end, an accent, a bracket of an equation."""
        if sign == "\\":
            if self._tables:
                self.outline.row()
            else:
                self._words(" ", at)
            return _options(self.text, end)
        if sign in "[(":
            stop = self.text.find("\\]" if sign == "[" else "\\)", end)
            if stop >= 0:
                self._words(self.text[end:stop], end, is_math=True)
                return stop + 2
        elif sign in _ACCENTS:
            letter, end = _letter(self.text, end)
            self._words(unicodedata.normalize("NFC", letter + _ACCENTS[sign]), at)
        elif sign in "-/!@":
            pass
        else:
            self._words(" " if sign in " ,;:\n" else sign, at)
        return end

    def _command(self, found: re.Match[str]) -> int:
        """Report a command, and return where the text behind it begins."""
        name, at, end = found["command"], found.start(), found.end()
        if name in _LEVELS:
            title, after = _group(self.text, _options(self.text, end))
            self._to_line(at)
            self.outline.heading(_LEVELS[name], plain(title), None, self.line)
            return after
        if name in _SAID:
            self._words(_SAID[name], at)
        elif name in _NAMED_ACCENTS and (self.text[end : end + 1] == "{" or len(found[0]) > 2):
            letter, end = _letter(self.text, end)
            self._words(unicodedata.normalize("NFC", letter + _NAMED_ACCENTS[name]), at)
        elif name == "item":
            self.outline.block(mark="- ")
            if self.text[end : end + 1] == "[":
                stop = self.text.find("]", end)
                self._words(f"{plain(self.text[end + 1 : stop])} " if stop > 0 else "", at)
                return stop + 1 if stop > 0 else end
        elif name == "title":  # of a file without a preamble
            return _group(self.text, _options(self.text, end))[1]
        elif name == "footnote":
            self._words(" ", at)
        elif name == "verb" and end < len(self.text):
            stop = self.text.find(self.text[end], end + 1)
            self._words(self.text[end + 1 : stop] if stop > 0 else "", at, is_math=True)
            return stop + 1 if stop > 0 else end
        elif name in _DROPPED:
            self.outline.ledger.add("latex_files_not_included", name in _INCLUDED)
            most = _KEPT.get(name, 9)
            end = _options(self.text, end)
            for _ in range(most):
                if self.text[end : end + 1] != "{":
                    break
                end = _group(self.text, end)[1]
                end = _options(self.text, end) if self.text[end : end + 1] == "[" else end
            return end
        return _options(self.text, end)


def _options(text: str, at: int) -> int:
    """Return the place behind the brackets of options that begin there; the place itself where there are none."""
    while text[at : at + 1] == "[" and 0 <= (stop := text.find("]", at)) < at + 500:
        at = stop + 1
    return at


def _group(text: str, at: int) -> tuple[str, int]:
    """Return what stands in the braces that begin there, and the place behind them; nothing where none begin."""
    begin = at
    if text[at : at + 1] != "{":
        blank = _BLANK.match(text, at)
        begin = blank.end() if blank else at
        if text[begin : begin + 1] != "{":
            return "", at
    depth = 0
    for found in re.compile(r"\\.|[{}]").finditer(text, begin, begin + 20_000):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return text[begin + 1 : found.start()], found.end()
    return text[begin + 1 :], len(text)


def _letter(text: str, at: int) -> tuple[str, int]:
    """Return the letter of an accent, and the place behind the letter."""
    found = re.compile(r"\s*(?:\{\\?([^{}\\]?)[^{}]*\}|\\?(.))").match(text, at)
    return ((found[1] or found[2] or ""), found.end()) if found else ("", at)


def plain(text: str) -> str:
    """Return a short text of LaTeX without commands: a title."""
    from wordpipe.corpus.documents import Ledger

    outline = Outline(Ledger())
    _Walk(text, 1, outline).over()
    outline.finish()
    return " ".join(section.text for section in outline.sections)


MARKUP = Markup("LaTeX", read_latex, re.compile(r"\\(?:part|chapter|(?:sub)*section)\b"), 1 << 20)
