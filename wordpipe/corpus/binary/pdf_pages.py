"""The parser of PDF, which runs in a child process: pages as paragraphs below headings. PDFium reads the file.

Of each page PDFium gives the characters in the order in which the page writes them, and where each stands. Asking for the
place of every character would take longer than all else, so only the ends of lines, and both sides of each space, are asked
for.

A document has no size: pages are held only as long as their neighbours are compared with them.
"""

import ctypes
import mmap
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pypdfium2.raw as pdfium

from wordpipe.corpus.binary.bounded import Unreadable
from wordpipe.corpus.binary.pdf_layout import (
    RIGHT_TO_LEFT,
    Gap,
    Line,
    Paragraph,
    Piece,
    Words,
    cut_cells,
    down,
    in_order,
    paragraphs_of,
    rows_of,
)
from wordpipe.corpus.binary.pdf_margins import AROUND, Edge, edge_key, edges_of, running
from wordpipe.corpus.binary.pdf_outline import heading_places, outline_of

_MOST_CHARS = 1_000_000  # of one page
_WIDE_GAP = 0.55  # of the height of a letter, between the cells of a table or two columns; less is a space
_SPACE = 0.05  # of it: more is a space between letters
_WRONG_PASSWORD = 4  # FPDF_ERR_PASSWORD, and of other protection
_OTHER_PROTECTION = 5
_WIDGET, _PICTURE = 20, 3  # kinds of annotations, of objects
_LINE = re.compile("[^\r\n\x02\ufffe]+")
_SPLIT = "\x02\ufffe"  # what PDFium makes of a hyphen at the end of a line
_MARK = re.compile(r"\A(\d{1,3}|[*†‡§¶])(?=\w)")  # of a note, above the line
_HYPHENS = "-\u2010\u00ad"
_LIGATURES = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdfb\ufe70-\ufefc]")
_BULLET = re.compile("\\A[\ue000-\uf8ff](?=\\s|\\Z)")  # of a font of signs
_NOTHING = re.compile("[\0-\x1f\x7f-\x9f\u00ad\ufeff\ufffe\uffff]")
_UNKNOWN = re.compile("[\ue000-\uf8ff\ufffd\U000f0000-\U0010ffff]")
_AFTER_NUMBER = re.compile(r"(?<!\S)([.,;:!?])(\d[\d.,:/-]*)(?!\S)")  # a sign that stands behind it in Hebrew
_TURNED = re.compile(r"(?<!\S)\)([^\W\u0590-\u08ff][^()\u0590-\u08ff]*?)\s*\)\s*")  # Latin words in brackets, likewise
_LAM_ALEF = re.compile("[\u0622\u0623\u0625\u0627]\u0644")  # of one sign, whose letters PDFium gives turned around
_SURROGATES = re.compile("[\ud800-\udfff]")
_OPENS_LOW = re.compile(r"[^A-ZÀ-ÖØ-Þ\d•▪◦(\[„“\"'«]")
_SENTENCE = re.compile(r"[.!?…]['\"”’»)\]]{0,3}(?=\s+\W{0,2}[^a-z\s])|[。！？]|[.!?…]['\"”’»)\]]{0,3}\Z")
_NO_NUMBER = re.compile(r"[^\W\d]{2}")
_MOST_RUNNING = 10_000  # different headers and footers of one file that are remembered
_LONGEST_REST = 1500  # characters of a sentence that goes on on the next page


@dataclass(slots=True)
class _Page:
    """A page that is held until its neighbours are known."""

    number: int
    pieces: list[Piece]
    edges: list[Edge]
    running: tuple[str, ...] = ()  # headers and footers that run from this page on


def read_pages(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield of a PDF what is known of it, its pages in order, and what was counted.

        {"pages": 12, "title": "…"}
        {"page": 1, "parts": [[["Chapter", "Section"], ["a paragraph", …]], …], "is_open": false}
        {"counts": {…}, "without_text": [3, 4], "damaged": []}

    A part has the paragraphs below a heading of the outline. A sentence that goes on on the next page stands on the page where
    it begins.

    Raises:
        Unreadable: it is encrypted, damaged, or no page has text.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if _size(file) else _refuse_empty() as data:
        buffer = (ctypes.c_char * len(data)).from_buffer(data)
        pdfium.FPDF_InitLibrary()
        document = pdfium.FPDF_LoadMemDocument64(buffer, len(data), None)
        try:
            if not document:
                raise _refusal(pdfium.FPDF_GetLastError())
            yield from _Reader(document).values()
        finally:
            if document:
                pdfium.FPDF_CloseDocument(document)
            del buffer


def _size(file: BinaryIO) -> int:
    """Return the bytes of a file."""
    return file.seek(0, 2)


def _refuse_empty() -> Any:
    """Refuse a file without a byte."""
    raise Unreadable("the file is empty")


def _refusal(code: int) -> Unreadable:
    """Return why PDFium does not open a file."""
    if code == _WRONG_PASSWORD:
        hint = "remove the password, if you know it: qpdf --decrypt --password=PASSWORD FILE STEM.pdf"
        return Unreadable("the PDF is encrypted and opens only with a password", hint=hint)
    if code == _OTHER_PROTECTION:
        return Unreadable("the PDF is encrypted in a way that cannot be read")
    hint = "a damaged PDF can often be repaired: qpdf FILE STEM.pdf"
    return Unreadable("the PDF is damaged", f"PDFium error {code}", hint)


class _Reader:
    """The reading of one open PDF."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._pages = pdfium.FPDF_GetPageCount(document)
        self._has_forms = pdfium.FPDF_GetFormType(document) not in (0, -1)
        self._words = Words()
        self._outline = outline_of(document, self._pages)
        self._titles = {
            edge_key(heading.path[-1]): number for number, some in self._outline.items() for heading in some
        }
        self._path: tuple[str, ...] = ()
        self._running = {
            edge_key(said) for said in (_title(document), *self._titles)
        }  # lines that stand somewhere already
        self._waiting: list[str] = []  # of these lines those that no page has yet
        self._counts: Counter[str] = Counter()
        self._without_text: list[int] = []
        self._damaged: list[int] = []

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield what is known of the document, its pages, and what was counted. Raises Unreadable."""
        if self._pages < 1:
            raise Unreadable("the PDF has no pages", hint="a damaged PDF can often be repaired: qpdf FILE STEM.pdf")
        yield {"pages": self._pages, "title": _title(self._document)}
        # a page is given when the next one has said how its last sentence ends
        waiting: dict[str, Any] | None = None
        has_text = False
        for page in self._cleaned():
            value = self._value(page)
            if waiting is not None:
                _take_rest(waiting, value, self._words)
                yield _plain(waiting)
            waiting = value
            has_text = has_text or bool(value["parts"])
        if not has_text:
            raise self._nothing_found()
        if waiting is not None:
            yield _plain(waiting)
        yield {"counts": dict(self._counts), "without_text": self._without_text, "damaged": self._damaged}

    def _nothing_found(self) -> Unreadable:
        """Return the error for a PDF in which no page has text."""
        pages = f"{self._pages:,} page{'s' * (self._pages != 1)}"
        if self._damaged:
            return Unreadable("the PDF is damaged", f"{len(self._damaged):,} of {pages} cannot be read")
        if self._counts["pdf_pages_scanned"]:
            hint = "use OCR to get the text from the pictures first: ocrmypdf FILE STEM.pdf"
            return Unreadable("the PDF contains only pictures of pages and no text", pages, hint)
        return Unreadable("the PDF contains no text", pages)

    def _cleaned(self) -> Iterator[_Page]:
        """Yield the pages without what runs at their edges, but for the first time."""
        around: deque[_Page] = deque()
        ahead = 0  # pages of `around` that have not been given
        for number in range(1, self._pages + 1):
            page = self._page(number)
            around.append(page)
            ahead += 1
            for one in page.pieces:
                self._words.add(one.text)
            if ahead > AROUND:
                yield self._without_running(around, len(around) - ahead)
                ahead -= 1
            if len(around) - ahead > AROUND:
                around.popleft()
        while ahead:
            yield self._without_running(around, len(around) - ahead)
            ahead -= 1

    def _without_running(self, around: deque[_Page], at: int) -> _Page:
        """Return a page without headers, footers and its number, which are counted."""
        page = around[at]
        places, lines, numbers = running([one.edges for one in around], at, page.number, self._pages, self._titles)
        # what runs is kept once, so that it can be found
        first: list[str] = []
        for line in lines:
            if line.key not in self._running and len(self._running) < _MOST_RUNNING:
                self._running.add(line.key)
                texts = (page.pieces[place].text.strip() for place in line.pieces)
                first.append(" ".join(text for text in texts if _NO_NUMBER.search(text)))
        self._counts["pdf_running_lines"] += len(lines) - len(first)
        self._counts["pdf_page_numbers"] += numbers
        pieces = [one for place, one in enumerate(page.pieces) if place not in places]
        return _Page(page.number, pieces, [], tuple(first))

    def _value(self, page: _Page) -> dict[str, Any]:
        """Return a page as paragraphs below headings."""
        rows = rows_of(in_order(page.pieces))
        headings = self._outline.get(page.number, [])
        parts: list[list[Any]] = []
        start = 0
        paragraphs: list[Paragraph] = []
        for place, end, path in [*heading_places(headings, rows), (len(rows), len(rows), None)]:
            found = paragraphs_of(rows[start:place], self._words)
            if found:
                parts.append([list(self._path), found])
                paragraphs += found
            start = end
            if path is not None:
                self._path = path
                self._counts["pdf_headings"] += 1
        self._waiting += page.running
        kept = self._waiting if parts else []  # a page without text of its own gets none by its header
        self._waiting = [] if parts else self._waiting
        return {"page": page.number, "parts": parts, "running": kept}

    def _page(self, number: int) -> _Page:
        """Return a page with its pieces of lines; one that cannot be read is empty, and counted."""
        page = pdfium.FPDF_LoadPage(self._document, number - 1)
        if not page:
            self._damaged.append(number)
            self._counts["pdf_pages_damaged"] += 1
            return _Page(number, [], [])
        try:
            is_form = self._has_forms and _has_fields(page)
            if is_form:  # what is filled in becomes a part of the page
                pdfium.FPDFPage_Flatten(page, 0)
                pdfium.FPDF_ClosePage(page)
                page = pdfium.FPDF_LoadPage(self._document, number - 1)
            pieces = self._pieces(page) if page else []
            pieces = down(pieces) if is_form else pieces  # fields are written last
            if not pieces:
                self._without_text.append(number)
                self._counts["pdf_pages_scanned" if page and _has_picture(page) else "pdf_pages_empty"] += 1
        finally:
            if page:
                pdfium.FPDF_ClosePage(page)
        return _Page(number, pieces, edges_of(pieces))

    def _pieces(self, page: Any) -> list[Piece]:
        """Return the pieces of lines of a page in the order of its content."""
        text_page = pdfium.FPDFText_LoadPage(page)
        if not text_page:
            return []
        try:
            text = _text(text_page)
            boxes = _Boxes(text_page, pdfium.FPDFPage_GetRotation(page))
            lines: list[Line] = []
            for found in _LINE.finditer(text):
                _add_line(lines, text, found.start(), found.end(), boxes)
            cut_cells(lines)
            pieces: list[Piece] = []
            for line in lines:
                self._add_pieces(pieces, line)
            return pieces
        finally:
            pdfium.FPDFText_ClosePage(text_page)

    def _add_pieces(self, pieces: list[Piece], line: Line) -> None:
        """Add the pieces of a line, which its gaps part."""
        text, at, edge = line.text, line.first, line.start
        for stop, next_at, before, after in (*line.cuts, (line.last + 1, 0, line.stop, 0.0)):
            if shown := self._tidy(text[at:stop]):
                if line.is_note and at == line.first:
                    shown = _MARK.sub(r"\1 ", shown)
                left, right = min(edge, before), max(edge, before)
                pieces.append(Piece(left, line.y0, right, line.y1, shown, is_aside=line.is_aside, is_cell=line.is_row))
            at, edge = next_at, after
        # a word that goes on in the next line
        if pieces and not line.is_aside:
            one = pieces[-1]
            one.is_split = line.end < len(text) and text[line.end] in _SPLIT
            if one.text[-1] in _HYPHENS and one.text[-2:-1].isalpha():
                one.is_split, one.text = True, one.text[:-1]

    def _tidy(self, text: str) -> str:
        """Return a text without ligatures, control characters and letters that only its font knows; those are counted."""
        if text.isascii():
            return _NOTHING.sub("", text).strip() if not text.isprintable() else text.strip()
        text = _LIGATURES.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
        text = _BULLET.sub("•", text)
        text, unknown = _UNKNOWN.subn("", text)
        self._counts["pdf_letters_unknown"] += unknown
        text = " ".join(_SURROGATES.sub("", _NOTHING.sub("", text)).split())
        if RIGHT_TO_LEFT.search(text) is None:
            return text
        return _TURNED.sub(r"(\1) ", _AFTER_NUMBER.sub(r"\2\1", text)).rstrip()


def _add_line(lines: list[Line], text: str, start: int, end: int, boxes: "_Boxes") -> None:
    """Add a line of a page with its wide gaps; two, where PDFium takes two for one."""
    line = text[start:end]
    if not (stripped := line.strip()):
        return
    first = start + line.index(stripped[0])
    last = first + len(stripped) - 1
    head, tail = boxes.of(first), boxes.of(last)
    sizes = head[3] - head[1], tail[3] - tail[1]
    is_initial = sizes[0] > 1.6 * sizes[1] and text[last].isalpha()  # the large first letter of a chapter
    size = sizes[1] if is_initial else max(sizes)  # a mark above the line is smaller
    is_aside = abs(head[1] + head[3] - tail[1] - tail[3]) > 3 * max(size, 1.0)
    if is_aside and (cut := boxes.jump(text, first, last, size)) is not None:
        _add_line(lines, text, start, cut, boxes)
        _add_line(lines, text, cut, end, boxes)
        return
    goes_left = head[0] > tail[0]
    # in a line with Hebrew or Arabic numbers go the other way
    is_mixed = not stripped.isascii() and RIGHT_TO_LEFT.search(stripped) is not None
    if is_mixed:
        text = text[:first] + boxes.with_lam_alef(text, first, last) + text[last + 1 :]
    gaps = [] if is_aside or is_mixed else boxes.gaps(text, first, last, _SPACE * size)
    cuts = [gap for gap in gaps if abs(gap[3] - gap[2]) > _WIDE_GAP * size]
    # what the line is as high as: its first or its last letter
    y0, y1 = min(head[1], tail[1]), max(head[3], tail[3])
    if not is_aside:
        y0, y1 = (head[1], head[3]) if sizes[0] == size else (tail[1], tail[3])
    edges = (head[2], tail[0]) if goes_left else (head[0], tail[2])
    lines.append(
        Line(
            text,
            first,
            last,
            end,
            *edges,
            y0,
            y1,
            size,
            gaps,
            cuts,
            is_aside,
            sizes[0] < 0.85 * size,
            is_mixed or goes_left,
        )
    )


def _text(text_page: Any) -> str:
    """Return the text of a page, with each character at the place of PDFium's own numbering."""
    count = min(pdfium.FPDFText_CountChars(text_page), _MOST_CHARS)
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    written = pdfium.FPDFText_GetText(text_page, 0, count, buffer)
    text = bytes(buffer)[: 2 * (written - 1)].decode("utf-16-le", "surrogatepass")
    if len(text) == count:
        return text
    # letters of which PDFium has no or two units: one by one, so that places are right
    codes = (pdfium.FPDFText_GetUnicode(text_page, place) for place in range(count))
    return "".join(chr(code) if code < 0x110000 else "\0" for code in codes)


class _Boxes:
    """The places of the characters of a page, as the page is shown.

    PDFium is called by its address and with plain numbers, which takes a quarter of the time.
    """

    def __init__(self, text_page: Any, rotation: int) -> None:
        address = ctypes.cast(pdfium.FPDFText_GetLooseCharBox, ctypes.c_void_p).value
        self._ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(address or 0)
        self._page = ctypes.cast(text_page, ctypes.c_void_p).value
        self._box = (ctypes.c_float * 4)()  # left, top, right, bottom
        self._into = ctypes.addressof(self._box)
        self._rotation = rotation

    def of(self, place: int) -> tuple[float, float, float, float]:
        """Return left, bottom, right and top of a character."""
        self._ask(self._page, place, self._into)
        left, top, right, bottom = self._box
        if self._rotation == 0:
            return (left, bottom, right, top)
        if self._rotation == 1:
            return (bottom, -right, top, -left)
        if self._rotation == 2:
            return (-right, -top, -left, -bottom)
        return (-top, left, -bottom, right)

    def jump(self, text: str, first: int, last: int, size: float) -> int | None:
        """Return the first space of a line behind which it goes on at another height; None: it is written up the page."""
        at = text.find(" ", first, last)
        while at >= 0:
            before, after = self.of(at - 1), self.of(at + 1)
            if text[at + 1] != " " and abs(before[1] + before[3] - after[1] - after[3]) > 2 * size:
                return at
            at = text.find(" ", at + 1, last)
        return None

    def with_lam_alef(self, text: str, first: int, last: int) -> str:
        """Return a line in which the letters of each Arabic sign for lam and alef stand in their order."""
        line = text[first : last + 1]
        for found in _LAM_ALEF.finditer(line):
            at = found.start()
            if self.of(first + at) == self.of(first + at + 1):  # both stand where their one sign stands
                line = f"{line[:at]}{line[at + 1]}{line[at]}{line[at + 2 :]}"
        return line

    def gaps(self, text: str, first: int, last: int, least: float) -> list[Gap]:
        """Return the gaps of a line that are wider than `least`."""
        found, ask, page, box, into = list[Gap](), self._ask, self._page, self._box, self._into
        at = text.find(" ", first, last) if least > 0 else -1
        while at >= 0:
            end = at + 1
            while text[end] == " ":
                end += 1
            if self._rotation:
                before_left, _, before_right, _ = self.of(at - 1)
                left, _, right, _ = self.of(end)
            else:  # without a call, as most pages stand upright
                ask(page, at - 1, into)
                before_left, before_right = box[0], box[2]
                ask(page, end, into)
                left, right = box[0], box[2]
            if left - before_right > least:
                found.append((at, end, before_right, left))
            elif before_left - right > least:  # from right to left
                found.append((at, end, before_left, right))
            at = text.find(" ", end, last)
        return found


def _has_fields(page: Any) -> bool:
    """True if a page has fields of a form."""
    for place in range(min(pdfium.FPDFPage_GetAnnotCount(page), 10_000)):
        note = pdfium.FPDFPage_GetAnnot(page, place)
        kind = pdfium.FPDFAnnot_GetSubtype(note)
        pdfium.FPDFPage_CloseAnnot(note)
        if kind == _WIDGET:
            return True
    return False


def _has_picture(page: Any) -> bool:
    """True if a page shows a picture."""
    for place in range(min(pdfium.FPDFPage_CountObjects(page), 10_000)):
        if pdfium.FPDFPageObj_GetType(pdfium.FPDFPage_GetObject(page, place)) == _PICTURE:
            return True
    return False


def _title(document: Any) -> str:
    """Return the title that a document says of itself."""
    size = min(pdfium.FPDF_GetMetaText(document, b"Title", None, 0), 4096)
    buffer = (ctypes.c_char * max(size, 2))()
    pdfium.FPDF_GetMetaText(document, b"Title", buffer, size)
    text = " ".join(_NOTHING.sub(" ", bytes(buffer)[:-2].decode("utf-16-le", "ignore")).split())
    return _UNKNOWN.sub("", _SURROGATES.sub("", text))


def _take_rest(page: dict[str, Any], after: dict[str, Any], words: Words) -> None:
    """Move the end of a page's last sentence from the page after it, where it goes on there."""
    last = _last_text(page)
    if last is None or last.is_ended or last.is_table or not after["parts"]:
        return
    path, paragraphs = after["parts"][0]
    first: Paragraph = paragraphs[0]
    is_same = path == page["parts"][-1][0]
    if not is_same or first.is_table or first.is_note or abs(first.size - last.size) > 0.15 * last.size:
        return
    if not last.is_open and not _OPENS_LOW.match(first.text) and len(last.text) < 60:  # a heading
        return
    found = _SENTENCE.search(first.text, 0, _LONGEST_REST)
    stop = found.end() if found else len(first.text)
    if stop > _LONGEST_REST:
        return
    last.text = words.joined(last.text, first.text[:stop], is_split=last.is_open)
    last.is_open = first.is_open and stop == len(first.text)
    first.text = first.text[stop:].lstrip()
    if not first.text:
        del paragraphs[0]
        if not paragraphs:
            del after["parts"][0]


def _last_text(page: dict[str, Any]) -> Paragraph | None:
    """Return the last paragraph of a page that is no note."""
    if not page["parts"]:
        return None
    return next((one for one in reversed(page["parts"][-1][1]) if not one.is_note), None)


def _plain(page: dict[str, Any]) -> dict[str, Any]:
    """Return a page as values of JSON."""
    for part in page["parts"]:
        part[1] = [one.text + "-" * one.is_open for one in part[1]]
    if kept := page.pop("running"):
        parts = page["parts"] = page["parts"] or [[[], []]]
        parts[-1][1] += kept
    return page
