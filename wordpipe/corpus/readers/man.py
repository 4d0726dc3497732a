r"""Man pages as an outline: the macros of `man` and `mdoc`, read without a typesetting program.

Sections and subsections are headings, tagged paragraphs are items, examples are code, a row of a table (tbl) is a line. Fonts,
sizes and conditions leave their text; comments and definitions of macros are left out. The title is the name of the page with
its section: `ls(1)`.

Sources: man(7), mdoc(7), tbl(1), groff_char(7).
"""

import re
import shlex
from collections.abc import Iterator

from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.lines import read_text
from wordpipe.corpus.readers.sections import Markup, Outline, names, read_sections
from wordpipe.corpus.reading import Opened

_BEGINS = re.compile(rb"\s*['.].*", re.DOTALL)
_LOOKED_AT = 1 << 14  # bytes before which a page has its title
_HEAD = re.compile(rb"^\.(?:TH|Dd|SH|Sh)\s", re.MULTILINE)
_SIGNS = {
    "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "bu": "•", "em": "—", "en": "–", "hy": "-", "co": "©",
    "ha": "^", "ti": "~", "rs": "\\", "ga": "`", "aa": "´", "mu": "×", "->": "→", "<-": "←", ">=": "≥", "<=": "≤", "+-": "±",
    "rg": "®", "tm": "™", "bv": "|", "br": "|", "ul": "_", "Do": "$", "sh": "#", "sc": "§", "de": "°", "ss": "ß", "at": "@",
    "lB": "[", "rB": "]", "lC": "{", "rC": "}", "sl": "/", "12": "½", "14": "¼", "34": "¾",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:\"(?P<comment>.*)|f(?:\[[^\]]*\]|\(..|.)|s[+-]?(?:\[[^\]]*\]|\(\d\d|'[^']*'|\d{1,2})"
    r"|\((?P<two>..)|\[(?P<named>[^\]]*)\]|\*(?:\[[^\]]*\]|\(..|.)|[hvwnkozLlDbXN]'[^']*'|n(?:\[[^\]]*\]|\(..|.)|m\[[^\]]*\]"
    r"|(?P<sign>.)|\Z)"
)
_PLAIN = {"-": "-", "e": "\\", " ": " ", "~": " ", "0": " ", "'": "'", "`": "`", ".": ".", "\\": "\\", "t": " "}
_SEPARATOR = re.compile(r"\btab\s*\(\s*(.)\s*\)")
_RULE = re.compile(r"[_=]?\s*")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z])[.)]")  # of an item
_FONTS = frozenset(("B", "I", "BR", "BI", "RB", "IR", "RI", "IB", "SB", "SM", "R"))
_TWO_FONTS = frozenset(("BR", "BI", "RB", "IR", "RI", "IB"))
_HEADINGS = frozenset(("SH", "Sh", "SS", "Ss"))
_BLOCKS = frozenset(
    ("PP", "P", "LP", "TP", "TQ", "sp", "Pp", "HP", "br", "RS", "RE", "YS", "SY", "Bl", "El", "Bd", "Ed")
)
_CODE, _NO_CODE = frozenset(("nf", "EX", "DS", "Vb")), frozenset(("fi", "EE", "DE", "Ve"))
_MARKS = {"Fl": "-{}", "Op": "[{}]", "Dq": "“{}”", "Sq": "‘{}’", "Pq": "({})", "Bq": "[{}]", "Aq": "<{}>", "Ql": "‘{}’"}
_WORDS = names("""
    Ar Cm Ic Li Pa Va Em Sy Nm Nd Ev Dv Er Fa Fn Ft In Tn Xr Fl Op Dq Sq Pq Bq Aq Ql An Lk Mt Cd Ns Sm No Ux Bx St Ad Ms
    Vt Rs Re Po Pc Oo Oc Do Dc So Sc Brq Bro Brc UR UE MT ME OP
""")


def looks_like_man(first: bytes, settings: object) -> bool:
    """True if a source begins as a man page does."""
    del settings
    return _BEGINS.match(first[:100]) is not None and _HEAD.search(first[:_LOOKED_AT]) is not None


def read(opened: Opened) -> Iterator[Record]:
    """Yield the sections of a man page; a file `changes.1` without macros is plain text."""
    from itertools import chain

    first = next(opened.blocks, b"")
    opened.blocks = chain([first], opened.blocks)
    if not looks_like_man(first, opened.settings):
        yield from read_text(opened)
        return
    yield from read_sections(opened, MARKUP)


def read_man(text: str, line: int, outline: Outline) -> None:
    """Report the sections of a man page to an outline."""
    page = _Page(outline)
    for number, row in enumerate(text.split("\n"), line):
        page.report(row, number)
    page.end_code()
    outline.line = line + text.count("\n")


class _Page:
    """A man page, as far as it has been read."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._code: list[str] | None = None  # lines of an example
        self._skips = False  # within the definition of a macro
        self._table: _Table | None = None  # that is open
        self._name = ""  # of what the page tells of, in mdoc

    def report(self, row: str, number: int) -> None:
        """Report a line of the page."""
        is_macro = row[:1] in (".", "'")
        macro, _, rest = row[1:].lstrip().partition(" ") if is_macro else ("", "", row)
        macro = macro.strip()
        # definitions and comments
        if self._skips or macro in ("de", "ig", "am"):
            self._skips = not self._skips or row.strip() not in ("..", ".end")
        elif is_macro and (macro[:2] == '\\"' or not macro):
            return
        # a table
        elif macro in ("TS", "TE"):
            self.end_code()
            self._table = _Table() if macro == "TS" else None
            self._outline.block()
        elif self._table is not None:
            self._outline.line = number
            for cells in self._table.rows(row):
                self._outline.row()
                for cell in cells:
                    self._outline.words(f" {_shown(cell)} ")
                    self._outline.cell()
                self._outline.row()
        # code, as it stands
        elif self._code is not None and macro not in _NO_CODE | _HEADINGS:
            self._code.append(" ".join(_arguments(rest)) if macro in _FONTS else "" if is_macro else _shown(row))
        else:
            self.end_code()
            self._outline.line = number
            self._line(macro, rest, number)

    def end_code(self) -> None:
        """Report the lines of an example that has ended."""
        if self._code is not None:
            self._outline.verbatim("\n".join(self._code))
        self._code = None

    def _line(self, macro: str, rest: str, number: int) -> None:
        """Report a line outside of code by its macro."""
        out, words = self._outline, _arguments(rest) if macro else []
        if not macro:
            if rest.strip():
                out.words(_shown(rest) + " ")
            else:
                out.block()
        elif macro in _CODE:
            out.block()
            self._code = []
        elif macro in ("TH", "Dt"):
            name, section, *_ = [*words, "", ""]
            out.title = f"{name.lower()}({section})" if section else name or None
        elif macro in _HEADINGS:
            out.heading(1 if macro in ("SH", "Sh") else 2, " ".join(words).capitalize(), None, number)
        elif macro == "IP":
            counted = words[0] if words and _NUMBER.fullmatch(words[0]) else ""
            out.block(mark=f"{counted} " if counted else "- " if words else "")
            out.words(" ".join(word for word in words[:1] if word not in ("•", counted)) + " ")
        elif macro == "It":
            out.block(mark="- ")
            out.words(" ".join(_of_mdoc(words, self._name)) + " ")
        elif macro in _BLOCKS:
            out.block()
        elif macro in _FONTS:
            out.words(("" if macro in _TWO_FONTS else " ").join(words) + " ")
        elif macro in _WORDS:
            self._name = words[0] if macro == "Nm" and words and not self._name else self._name
            out.words(" ".join(_of_mdoc([macro, *words], self._name)) + " ")


class _Table:
    """A table of `tbl`, which is open: its options and formats end with a line that has a full stop at its end."""

    def __init__(self) -> None:
        self._sign = "\t"  # between cells
        self._in_head = True
        self._block: list[str] | None = None  # lines of a cell that is a block: T{ … T}
        self._cells: list[str] = []

    def rows(self, line: str) -> Iterator[list[str]]:
        """Yield the row that ends with a line of the table, if one does."""
        if self._in_head:
            if (found := _SEPARATOR.search(line)) is not None:
                self._sign = found[1]
            self._in_head = not line.rstrip().endswith(".")
            return
        if self._block is not None:
            if not line.startswith("T}"):
                self._block.append(line)
                return
            self._cells.append(" ".join(self._block))
            self._block, line = None, line[2:].removeprefix(self._sign)
            if not line:
                yield self._taken()
                return
        elif line[:1] in (".", "'") or _RULE.fullmatch(line):
            self._in_head = line.startswith(".T&")
            return
        *cells, last = line.split(self._sign)
        self._cells += cells
        if last.strip() == "T{":
            self._block = []
            return
        self._cells.append(last)
        yield self._taken()

    def _taken(self) -> list[str]:
        """Return the cells of the row, which are forgotten."""
        cells, self._cells = [cell for cell in self._cells if cell.strip() not in ("", "_", "=")], []
        return cells


def _arguments(rest: str) -> list[str]:
    """Return the arguments of a macro: words, or what stands in quotes."""
    rest = re.sub(r'(?<!\\)\\".*', "", rest)
    try:
        words = shlex.split(rest.replace("\\", "\\\\").replace("'", "\\'"), posix=True)
    except ValueError:
        words = rest.split()
    return [_shown(word) for word in words]


def _of_mdoc(words: list[str], name: str) -> list[str]:
    """Return words of a line of `mdoc` without its macros."""
    found: list[str] = []
    mark = ""
    for place, word in enumerate(words):
        if word in _MARKS:
            mark = _MARKS[word]
        elif word == "Nm" and place == len(words) - 1:
            found.append(name)
        elif word in _WORDS and word != name:
            continue
        elif mark:
            found.append(mark.format(word))
            mark = ""
        elif len(word) == 1 and word in ".,:;)" and found:
            found[-1] += word
        else:
            found.append(word)
    return found


def _shown(text: str) -> str:
    """Return text of roff without its escapes."""

    def plain(found: re.Match[str]) -> str:
        sign = found["two"] or found["named"]
        if sign:
            return chr(int(sign[1:], 16)) if re.fullmatch(r"u[0-9A-F]{4,5}", sign) else _SIGNS.get(sign, "")
        return _PLAIN.get(found["sign"] or "", "")

    return _ESCAPE.sub(plain, text)


MARKUP = Markup("man", read_man, re.compile(r"\.(?:SH|Sh|SS|Ss)\b"), 1 << 20)
