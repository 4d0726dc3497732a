"""RTF as an outline, with all tracked changes accepted.

A paragraph is one line, and its number, counted from the beginning of the document, is its line. Headings are the paragraphs
whose style or level says so; an item of a list has the number that the program wrote before it; a row of a table is a line. A
footnote follows the paragraph or the table that refers to it, with its number in brackets.

Left out, and counted: deleted text, hidden text, comments, tables of contents, headers and footers of pages. Pictures, objects
and what only says how text looks are passed over. Nothing in a file is run: a field is read as the text that it had.

Source: Rich Text Format (RTF) Specification, version 1.9.1 (Microsoft, 2008).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from wordpipe.corpus.binary.word import CONTENTS, LEFT_OUT, add_lines, numeral
from wordpipe.corpus.documents import Record
from wordpipe.corpus.readers.sections import Outline, outline_records, title_of_properties
from wordpipe.corpus.reading import Opened
from wordpipe.errors import InputError

_LONGEST = 256 << 20  # bytes of a file, which is held
_DEEPEST = 500  # groups in each other
_STEP = 20_000  # tokens after which the complete sections are taken away
_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?[0-9]{1,10})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<sign>[^a-zA-Z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\"
)
_PASSED = frozenset(rb"""
    colortbl pict object listtable listoverridetable rsidtbl generator xmlnstbl themedata datastore latentstyles sn sv
    nonshppict shprslt pn pnseclvl datafield mmathPr filetbl bkmkstart bkmkend atnid atnauthor atndate atnref template
    private fontemb colorschememapping revtbl userprops docvar author operator company category manager keywords subject
    doccomm hlinkbase creatim revtim printim buptim comment ftnsep ftnsepc aftnsep aftnsepc tc xe
""".split())  # destinations that hold no text of the document  # fmt: skip
_MARGINS = frozenset(b"header headerl headerr headerf footer footerl footerr footerf".split())
_SIGNS = {
    b"tab": " ", b"line": "\n", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“",
    b"rdblquote": "”", b"bullet": "•", b"emspace": " ", b"enspace": " ", b"qmspace": " ",
}  # fmt: skip
_ENCODINGS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254", 163: "cp1258",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_SYMBOLS = 2  # the set of characters of fonts of signs
_HEADING = re.compile(r"heading ([1-9])\Z", re.IGNORECASE)
_BODY_TEXT = 9  # the level of the outline that is no heading


def read(opened: Opened) -> Iterator[Record]:
    """Yield the sections of an RTF document.

    Raises:
        InputError: it is no RTF, is too long, or is nested too deeply.
    """
    assert opened.file is not None
    data = opened.file.read(_LONGEST + 1)
    name = opened.source.name
    if not data.lstrip().startswith(b"{\\rtf"):
        raise InputError("the file is damaged", where=name, got="no RTF", hint="download or create the file again")
    if len(data) > _LONGEST:
        raise InputError("the file is too long", where=name, expected=f"at most {_LONGEST >> 20} MiB")
    outline = Outline(opened.ledger)
    yield from outline_records(outline, _Document(outline, name).steps(data), opened)


@dataclass(slots=True)
class _Group:
    """The state of a group, from its opening brace to its closing one; inner groups begin with a copy."""

    into: str = "text"  # where text goes: text, fonts, styles, title, note, mark, instruction; "" nowhere
    encoding: str = "cp1252"
    is_symbol: bool = False
    skips: int = 1  # characters after one in Unicode, for old programs
    is_hidden: bool = False
    is_deleted: bool = False
    is_new: bool = True  # nothing has come in it
    is_optional: bool = False  # it began with \*
    is_contents: bool = False  # its field is a table of contents


@dataclass(slots=True)
class _Style:
    """A style of paragraphs."""

    name: str = ""
    level: int | None = None


@dataclass
class _Paragraph:
    """The paragraph that is open."""

    words: list[str] = field(default_factory=list)
    mark: str = ""
    style: int = 0
    level: int | None = None
    in_table: bool = False


@dataclass
class _Note:
    """A note that is open."""

    words: list[str] = field(default_factory=list)
    is_last: bool = False  # it stands at the end of the document


class _Document:
    """The reading of one RTF document, reported to an outline."""

    def __init__(self, outline: Outline, name: str) -> None:
        self.outline, self.ledger, self._name = outline, outline.ledger, name
        self._groups = [_Group()]
        self._fonts: dict[int, tuple[str, bool]] = {}
        self._font, self._default = 0, "cp1252"
        self._styles: dict[int, _Style] = {}
        self._style = _Style()
        self._title = ""  # in the properties
        self._open = _Paragraph()
        self._notes: list[_Note] = []  # that are open
        self._waiting: list[str] = []
        self._instruction = ""
        self._numbers = [0, 0]  # of foot- and of endnotes
        self._line = 0
        self._bytes = b""  # that wait for others to be a character
        self._skipped = 0  # characters that are still to be passed over
        self._in_row = self._in_table = self._is_header = self._is_begun = False

    def steps(self, data: bytes) -> Iterator[None]:
        """Read the document; yield now and then."""
        at, number = 0, 0
        while (token := _TOKEN.match(data, at)) is not None:
            at = token.end()
            number += 1
            kind = token.lastgroup
            if kind == "number" or kind == "word":
                word = token["word"]
                value = int(token["number"]) if token["number"] else None
                if word == b"bin":
                    at += min(max(value or 0, 0), len(data))
                else:
                    self._word(word, value)
            elif kind == "text":
                self._plain(token["text"])
            elif kind == "hex":
                self._plain(bytes.fromhex(token["hex"].decode()))
            elif kind == "brace":
                self._brace(is_open=token["brace"] == b"{")
            elif kind == "sign":
                self._sign(token["sign"])
            if number % _STEP == 0:
                yield
        self._end_paragraph()
        yield

    def _brace(self, *, is_open: bool) -> None:
        """Begin a group, or end one."""
        self._flush()
        self._skipped = 0
        if is_open:
            if len(self._groups) > _DEEPEST:
                raise InputError("the file is nested too deeply", where=self._name)
            self._groups.append(replace(self._groups[-1], is_new=True, is_optional=False))
            return
        if len(self._groups) == 1:
            return
        closed, now = self._groups.pop(), self._groups[-1]
        if closed.into == "note" != now.into and self._notes:
            note = self._notes.pop()
            self._numbers[note.is_last] += 1
            sign = numeral(self._numbers[note.is_last], "lowerRoman" if note.is_last else "decimal")
            self._waiting.append(f"[{sign}] {' '.join(''.join(note.words).split())}")
            self._say(f"[{sign}]")
        elif closed.into == "instruction" != now.into:
            now.is_contents = self._instruction.strip().upper().startswith("TOC")
            self.ledger.add_named(LEFT_OUT, "tables of contents", now.is_contents)

    def _sign(self, sign: bytes) -> None:
        """Take a control sign."""
        now = self._groups[-1]
        if sign == b"*":
            now.is_optional = True
            return
        self._flush()
        now.is_new = False
        if sign == b"~":
            self._say("\xa0")
        elif sign == b"_":
            self._say("\u2011")
        elif sign in b"\\{}":
            self._say(sign.decode())
        elif sign in b"\r\n":
            self._end_paragraph()

    def _plain(self, data: bytes) -> None:
        """Take bytes of text."""
        self._groups[-1].is_new = False
        if self._skipped:
            passed = min(self._skipped, len(data))
            self._skipped -= passed
            data = data[passed:]
        self._bytes += data

    def _flush(self) -> None:
        """Say the bytes of text that have come, which are whole characters."""
        if self._bytes:
            now, data = self._groups[-1], self._bytes
            self._bytes = b""
            self._say("•" if now.is_symbol and now.into != "styles" else data.decode(now.encoding, "replace"))

    def _say(self, text: str) -> None:
        """Add text where the text of the open group goes."""
        now = self._groups[-1]
        if now.into == "text":
            if now.is_hidden or now.is_deleted:
                self.ledger.add_named(LEFT_OUT, "deleted text" if now.is_deleted else "hidden text", bool(text.strip()))
            elif not now.is_contents:
                self._open.words.append(text)
        elif now.into == "note" and self._notes:
            self._notes[-1].words.append(text)
        elif now.into == "mark":
            self._open.mark += text
        elif now.into == "instruction":
            self._instruction += text[:100]
        elif now.into == "title":
            self._title += text
            self.outline.title = title_of_properties(self._title)
        elif now.into == "styles":
            name, end, _ = text.partition(";")
            self._style.name += name
            if end:
                self._style.name = self._style.name.strip()
                self._style = _Style()

    def _word(self, word: bytes, number: int | None) -> None:
        """Take a control word."""
        now = self._groups[-1]
        is_first, now.is_new = now.is_new, False
        if is_first and self._destination(word, now):
            return
        # characters
        if word == b"u" and number is not None:
            self._flush()
            self._unicode(number)
            self._skipped = now.skips
            return
        self._flush()
        if word in _SIGNS:
            self._say(_SIGNS[word])
        elif word == b"uc" and number is not None:
            now.skips = min(max(number, 0), 10)
        # fonts and their sets of characters
        elif word == b"f" and number is not None:
            self._font = number
            now.encoding, now.is_symbol = self._fonts.get(number, (self._default, False))
        elif word == b"fcharset" and now.into == "fonts" and len(self._fonts) < 1 << 16:
            self._fonts[self._font] = (_ENCODINGS.get(number or 0, self._default), number == _SYMBOLS)
        elif word == b"ansicpg" and number is not None:
            self._default = now.encoding = (
                f"cp{number}" if number in range(1250, 1259) or number in (874, 932, 936, 949, 950) else "cp1252"
            )
        else:
            self._look(word, number, now)

    def _unicode(self, number: int) -> None:
        """Say a character by its number in UTF-16: of a pair, the first waits for the second."""
        unit = number % (1 << 16)
        if 0xD800 <= unit < 0xDC00:
            self._high = unit
        elif 0xDC00 <= unit < 0xE000:
            high, self._high = self._high, 0
            self._say(chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00) if high else "\ufffd")
        else:
            self._say(chr(unit))

    _high = 0

    def _destination(self, word: bytes, now: _Group) -> bool:
        """Take the first word of a group, where it says where its text goes; True if it does."""
        if word in _MARGINS:
            self.ledger.add_named(LEFT_OUT, "headers and footers")
        elif word == b"annotation":
            self.ledger.add_named(LEFT_OUT, "comments")
        into = {
            b"fonttbl": "fonts", b"stylesheet": "styles", b"title": "title", b"footnote": "note", b"listtext": "mark",
            b"pntext": "mark", b"fldinst": "instruction",
        }.get(word)  # fmt: skip
        if into is None and (word in _PASSED or word in _MARGINS or word == b"annotation"):
            into = ""
        elif into is None and now.is_optional and word not in (b"shpinst", b"cs", b"ds", b"ts"):
            into = ""  # a destination that need not be known
        if into is None:
            return False
        if now.into == "":
            return True
        now.into = into
        if into == "note":
            self._notes.append(_Note())
        elif into == "instruction":
            self._instruction = ""
        elif into == "mark":
            self._open.mark = ""
        return True

    def _look(self, word: bytes, number: int | None, now: _Group) -> None:
        """Take a word that says how characters or a style look, or one of a note or a paragraph."""
        if word == b"v":
            now.is_hidden = number != 0
        elif word == b"deleted":
            now.is_deleted = number != 0
        elif word == b"plain":
            now.is_hidden = now.is_deleted = False
        elif now.into == "styles":
            if word == b"s" and len(self._styles) < 1 << 16:
                self._style = self._styles[number or 0] = _Style()
            elif word == b"outlinelevel":
                self._style.level = number
        elif now.into == "note" and self._notes:
            self._notes[-1].is_last |= word == b"ftnalt"
            self._say(" " * (word == b"par"))
        elif now.into == "text":
            self._of_paragraph(word, number)
        elif now.into == "mark" and word == b"par":  # AbiWord writes whole items there
            self._open.words, self._open.mark = [self._open.mark], ""
            self._end_paragraph()

    def _of_paragraph(self, word: bytes, number: int | None) -> None:
        """Take a word that says how a paragraph looks, or that ends a paragraph."""
        if word == b"pard":
            self._open.style, self._open.level, self._open.in_table = 0, None, False
        elif word == b"s":
            self._open.style = number or 0
        elif word == b"outlinelevel":
            self._open.level = number
        elif word == b"intbl":
            self._open.in_table = True
        elif word in (b"par", b"sect", b"page"):
            self._end_paragraph()
        elif word in (b"cell", b"nestcell"):
            self._end_cell()
        elif word == b"trowd":
            self._is_header = False
        elif word == b"trhdr":
            self._is_header = True
        elif word in (b"clmgf", b"clvmgf"):
            self.outline.spans()
        elif word == b"row":
            (self.outline.header if self._is_header else self.outline.row)()
            self._in_row = False

    def _end_cell(self) -> None:
        """End a cell of a table's row."""
        self._open.in_table = True
        self._end_paragraph()
        self.outline.cell()

    def _end_paragraph(self) -> None:
        """End the open paragraph; the next one has its look."""
        self._flush()
        found, out = self._open, self.outline
        text, style = "".join(found.words), self._styles.get(found.style, _Style())
        self._open = replace(found, words=[], mark="")
        self._line += 1
        out.line = self._line
        if found.in_table:
            if not self._in_row:
                (out.row if self._in_table else out.table)()
                self._in_row = self._in_table = True
            out.words(" " + text.replace("\n", " ") + " ")
            return
        if self._in_table:
            out.table()
        self._in_row = self._in_table = False
        if not text.strip() or style.name.lower() in CONTENTS:
            return
        # a heading, the title of the document, an item of a list, or another paragraph
        named = _HEADING.match(style.name)
        level = found.level if found.level is not None else style.level
        level = int(named[1]) - 1 if level is None and named else level
        mark = " ".join(found.mark.split())
        mark = "-" if mark and not any(map(str.isalnum, mark)) else mark
        if level is not None and 0 <= level < _BODY_TEXT:
            out.heading(level + 1, f"{mark} {text}" if mark not in ("", "-") else text, None, self._line)
        elif style.name.lower() == "title" and not self._is_begun:
            out.title = " ".join(text.split())
        else:
            add_lines(out, text, f"{mark} " if mark else "")
        self._is_begun = True
        for note in self._waiting:
            add_lines(out, note)
        self._waiting.clear()
