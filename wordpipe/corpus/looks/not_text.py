"""Sources without text to read: binary files, UTF-16, and what is written in letters for programs, as mail and RTF are.

Each kind is known by its first bytes, with what to do about it. A text may hold some control characters: a Ctrl-Z at its end,
a NUL, the marks of a printer.
"""

import codecs
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wordpipe.corpus.decode import compression_of
from wordpipe.errors import InputError

_BOM = b"\xef\xbb\xbf"
_CONTROL = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"})
_SNIFFED_BYTES = 1 << 16
_SHOWN_WAYS = 3
_DOCUMENTS = (
    "PDF",
    "Word",
    "old Office",
    "RTF",
    "EPUB",
    "OpenDocument",
    "slides",
    "spreadsheet",
    "notebook",
    "mail",
    "DjVu",
)
_UNPRINTED = "\t\n\r\f\v\x1a\xa0\xad\u200b\u200c\u200d\u200e\u200f\u2028\u3000"  # and yet part of texts
_BINARY = "binary"
_RAW = "or read it as it is by --format txt"
_UNPACKED_BY = {"gz": "gzip -dc", "bz2": "bzip2 -dc", "xz": "xz -dc", "zst": "zstd -dc"}
_FEW_CONTROLS = 3  # of which a short text may have some: Ctrl-Z at its end, a NUL, marks of a printer
_WIDE_BYTES = 4096  # looked at for UTF-16 and UTF-32
_BLANK_END = b"\x1a\r\n"

# what a file is that holds no plain text, and what to do: FILE is its name, STEM that without its ending
_NOT_TEXT = {
    "PDF": "turn it into text first: pdftotext FILE STEM.txt",
    "Word": "turn it into text first: pandoc -f docx -t plain FILE -o STEM.txt",
    "old Office": "save it as plain text, a table as CSV: soffice --headless --convert-to txt:Text FILE --outdir converted",
    "RTF": "turn it into text first: pandoc -f rtf -t plain FILE -o STEM.txt",
    "EPUB": "turn it into text first: pandoc -f epub -t plain FILE -o STEM.txt",
    "OpenDocument": "turn it into text first: pandoc -f odt -t plain FILE -o STEM.txt",
    "slides": "save them as PDF, and turn that into text: soffice --headless --convert-to pdf FILE --outdir converted; "
    "pdftotext converted/NAME.pdf",
    "spreadsheet": "save it as CSV: soffice --headless --convert-to csv FILE --outdir converted",
    "notebook": "turn it into text first: jupyter nbconvert --to markdown FILE --output-dir converted",
    "mail": "save it as text in the program that reads mail; or read it as it is, with its headers, by --format txt",
    "web archive": "save the page as HTML alone, which is read",
    "vCard or iCalendar": "export it as CSV, which is read; or read it as it is by --format txt",
    "XML": "turn it into text first, or read the markup as text with --format txt",
    "SVG": "it is a picture; read its markup as text with --format txt",
    "PostScript": "turn it into text first: ps2ascii FILE STEM.txt",
    "DjVu": "turn it into text first: djvutxt FILE STEM.txt",
    "picture": "read what is written on it first: tesseract FILE STEM",
    "SQLite": "write its tables as CSV first: sqlite3 -header -csv FILE 'SELECT * FROM name_of_a_table' > STEM.csv",
    "pickle": "a pickle is a program, which nobody else should run: write JSON Lines or Parquet from Python instead",
    "Arrow, ORC or Avro": "write Parquet, CSV or JSON Lines with the program that made it",
    "Parquet": "let its name end so: mv FILE STEM.parquet",
    "base64": "decode it first: base64 -d FILE > STEM.decoded",
    "uuencode": "decode it first: uudecode FILE",
    "PEM": "it is a key or a certificate",
    "zip": "unpack it and name the folder: unzip FILE -d STEM",
    "tar": "unpack it and name the folder: mkdir STEM && tar -xf FILE -C STEM",
    "archive": "unpack it and name the folder",
}
BY_ENDING = {
    ".pdf": "PDF", ".docx": "Word", ".doc": "old Office", ".xls": "old Office", ".ppt": "old Office", ".rtf": "RTF",
    ".epub": "EPUB", ".odt": "OpenDocument", ".pptx": "slides", ".odp": "slides", ".xlsx": "spreadsheet",
    ".ods": "spreadsheet", ".ipynb": "notebook", ".eml": "mail", ".mbox": "mail", ".mht": "web archive",
    ".mhtml": "web archive", ".vcf": "vCard or iCalendar", ".ics": "vCard or iCalendar", ".xml": "XML", ".svg": "SVG",
    ".ps": "PostScript", ".eps": "PostScript", ".djvu": "DjVu", ".png": "picture", ".jpg": "picture", ".jpeg": "picture",
    ".gif": "picture", ".tif": "picture", ".tiff": "picture", ".webp": "picture", ".sqlite": "SQLite", ".sqlite3": "SQLite",
    ".pkl": "pickle", ".pickle": "pickle", ".arrow": "Arrow, ORC or Avro", ".feather": "Arrow, ORC or Avro",
    ".orc": "Arrow, ORC or Avro", ".avro": "Arrow, ORC or Avro", ".zip": "zip", ".tar": "tar", ".tgz": "tar",
    ".7z": "archive", ".rar": "archive",
}  # fmt: skip
"""Endings of files that hold no plain text → what they are, as `way_to_read` knows it."""
_SIGNATURES = {
    b"PAR1": "Parquet", b"%PDF": "PDF", b"{\\rtf": "RTF", b"%!PS": "PostScript", b"AT&TFORM": "DjVu",
    b"SQLite format 3\0": "SQLite", b"\xd0\xcf\x11\xe0": "old Office", b"\x89PNG": "picture", b"GIF8": "picture",
    b"\xff\xd8\xff": "picture", b"ARROW1": "Arrow, ORC or Avro", b"FEA1": "Arrow, ORC or Avro",
    b"ORC\x0a": "Arrow, ORC or Avro",
    b"Obj\x01": "Arrow, ORC or Avro", b"7z\xbc\xaf": "archive", b"Rar!\x1a": "archive", b"=ybegin ": "archive",
}  # fmt: skip
_ZIPPED = {  # what stands near the beginning of a zip → what it is
    b"word/": "Word", b"xl/": "spreadsheet", b"ppt/": "slides", b"application/epub+zip": "EPUB",
    b"opendocument.text": "OpenDocument", b"opendocument.spreadsheet": "spreadsheet", b"opendocument.presentation": "slides",
}  # fmt: skip
_HEADERS = re.compile(
    rb"(?:From [^\r\n]{1,200}\r?\n)?(?:[A-Za-z][A-Za-z-]{1,40}:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*){2,200}"
)
_OF_MAIL = re.compile(
    rb"^(?:Message-ID|MIME-Version|Received|Return-Path|Delivered-To|Content-Transfer-Encoding|DKIM-Signature):",
    re.IGNORECASE | re.MULTILINE,
)
_TEXTUAL = {  # what is written in letters, and is no text
    "mail": re.compile(rb"From \S+[^\r\n]*\d{4}\r?\n[A-Za-z-]+:"),
    "vCard or iCalendar": re.compile(rb"BEGIN:V(?:CARD|CALENDAR)\r?\n", re.IGNORECASE),
    "uuencode": re.compile(rb"begin [0-7]{3} [^\r\n]+\r?\n[M -`]"),
    "base64": re.compile(
        rb"(?=[A-Za-z+/]{0,75}[0-9])(?=[A-Z0-9+/]{0,75}[a-z])(?=[a-z0-9+/]{0,75}[A-Z])"
        rb"(?:[A-Za-z0-9+/]{60,76}\r?\n){3}[A-Za-z0-9+/=]+\r?(?:\n|\Z)"
    ),
    "PEM": re.compile(
        rb"-----BEGIN [A-Z0-9 ]{0,40}(?:CERTIFICATE|KEY|REQUEST|PARAMETERS|PGP MESSAGE)[A-Z ]{0,20}-----"
    ),
}
_IN_LETTERS = (*_TEXTUAL, "notebook", "web archive", "SVG", "XML", "RTF")
_NOTEBOOK = re.compile(rb'\{\s*"(?:cells|metadata|nbformat|nbformat_minor)"\s*:')
_SVG = re.compile(rb"(?:<\?xml[^>]{0,300}>\s*)?(?:<!(?:DOCTYPE svg|--)[^>]{0,400}>\s*){0,5}<svg[\s>]", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s|<(?:mediawiki|rss|feed|TEI|kml|gpx)[\s>]")
_PAGE = re.compile(
    rb"\s*(?:<\?xml[^>]{0,300}>\s*|<!--.{0,500}?-->\s*){0,5}(?:<html[\s>]|<!DOCTYPE\s+html)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class NotText:
    """What a source looks like that holds no text to read, and what to do about it."""

    kind: str
    hint: str

    def error(self, name: str) -> InputError:
        """The refusal of a source of this name."""
        if self.kind.startswith("UTF-"):
            what = "is not in UTF-8"
        elif self.kind in _IN_LETTERS:
            what = "holds no plain text"
        else:
            what = "looks like a binary file, not text"
        return InputError(what, where=name, got=None if self.kind == _BINARY else self.kind, hint=self.hint)


def way_to_read(kind: str, name: str) -> str:
    """What to do about a file that holds no plain text, in words and a command.

    >>> way_to_read("PDF", "minutes.pdf")
    'turn it into text first: pdftotext minutes.pdf minutes.txt'
    """
    stem = re.sub(r"(?<=[^/])\.[^./]{1,10}\Z", "", name)
    way = _NOT_TEXT[kind].replace("FILE", shlex.quote(name)).replace("NAME", shlex.quote(stem.rpartition("/")[2]))
    return re.sub(r"STEM(\.\w+)?", lambda found: shlex.quote(_another(name, stem, found[1] or "")), way)


def _another(name: str, stem: str, ending: str) -> str:
    """What a command writes: never the file itself, which may be called .txt whatever it holds."""
    written = stem + ending
    return f"{stem}.converted{ending}" if name in (written, f"{written}.txt") else written


def not_text(head: bytes, name: str, *, is_plain: bool = True, as_it_is: bool = False) -> NotText | None:
    """What a source looks like, by its first block, that holds no text to read; None where it does.

    Args:
        head: the first block, decompressed.
        name: of the source.
        is_plain: nothing says that it is markup or a table; then XML is no text either.
        as_it_is: somebody wants it read whatever it looks like: nothing but UTF-16 and UTF-32 is looked for, of which only
            signs that nobody can read would come.
    """
    if (encoding := _wide_encoding(head)) is not None:
        return NotText(encoding, _conversion(encoding, name))
    if as_it_is:
        return None
    packed = compression_of(head)
    if packed != "none":
        hint = f"let its name end so: mv {shlex.quote(name)} {shlex.quote(f'{name}.{packed}')}"
        return NotText(f"{packed} compression", f"{hint}; {_RAW}")
    head = head[:_SNIFFED_BYTES]
    kind = _signature(head) or _textual(head.removeprefix(_BOM).lstrip(), is_plain=is_plain)
    if kind is not None:
        hint = way_to_read(kind, name)
        return NotText(kind, hint if "--format" in hint else f"{hint}; {_RAW}")
    body = head.rstrip(_BLANK_END)
    controls = len(body) - len(body.translate(None, _CONTROL))
    if controls > max(_FEW_CONTROLS, len(body) // 100) or (controls > 1 and 3 * controls > len(body)):
        return NotText(_BINARY, "name its --format to read it all the same: --format txt")
    return None


def _conversion(encoding: str, name: str) -> str:
    """What makes UTF-8 of a source in another encoding."""
    convert, (stem, dot, ending) = f"iconv -f {encoding} -t UTF-8", name.rpartition(".")
    if name == "-":
        return f"convert it first: … | {convert} | wordpipe ingest -"
    if (unpack := _UNPACKED_BY.get(ending.lower())) is not None:
        stem, dot, ending = stem.rpartition(".")
    if not stem or "/" in ending:
        stem, ending = f"{stem}{dot}{ending}", "txt"
    source, target = shlex.quote(name), shlex.quote(f"{stem}.utf8.{ending}")
    command = f"{convert} {source}" if unpack is None else f"{unpack} {source} | {convert}"
    return f"convert it first: {command} > {target}"


def _wide_encoding(head: bytes) -> str | None:
    """UTF-32 or UTF-16 in the words of iconv; None where bytes are of another encoding."""
    marks = {
        codecs.BOM_UTF32_LE: "UTF-32",
        codecs.BOM_UTF32_BE: "UTF-32",
        codecs.BOM_UTF16_LE: "UTF-16",
        codecs.BOM_UTF16_BE: "UTF-16",
    }
    if (marked := next((name for mark, name in marks.items() if head.startswith(mark)), None)) is not None:
        return marked
    data = head[:_WIDE_BYTES]
    if b"\0" not in data or (len(data) - len(data.translate(None, _CONTROL)) == 1 and _is_utf_8(data)):
        return None
    found: dict[str, int] = {}
    for name in ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE"):
        if len(head) == len(data) and len(data) % (int(name[4:6]) // 8):
            continue
        try:
            text = codecs.getincrementaldecoder(name)().decode(data)
        except UnicodeDecodeError:
            continue
        if len(text) > 1 and _is_likely(text):
            found.setdefault(name, sum(map(str.isascii, text)))
    return max(found, key=found.__getitem__) if found else None


def _is_utf_8(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _is_likely(text: str) -> bool:
    """Whether what was decoded is a text, and not two letters of another text in each character."""
    if not all(one.isprintable() or one in _UNPRINTED for one in text):
        return False
    pairs = far = 0
    for one in text:
        if (code := ord(one)) > 255:
            far += 1
            pairs += code < 0x7F00 and 0x20 <= code >> 8 != 0x30 and 0x20 <= code & 0xFF < 0x7F  # 0x30: kana
    return 2 * pairs < far or not far


def _signature(head: bytes) -> str | None:
    """What the first bytes announce."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return next((kind for mark, kind in _ZIPPED.items() if mark in head), "zip")
    if head[257:262] == b"ustar":
        return "tar"
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return "pickle"
    return next((kind for magic, kind in _SIGNATURES.items() if head.startswith(magic)), None)


def is_page(head: bytes) -> bool:
    """Whether a text begins as a page of HTML does."""
    return _PAGE.match(head[:_SNIFFED_BYTES].removeprefix(_BOM)) is not None


def _textual(head: bytes, *, is_plain: bool) -> str | None:
    """What a beginning in letters is, that is no text for readers."""
    if (found := next((kind for kind, pattern in _TEXTUAL.items() if pattern.match(head)), None)) is not None:
        return found
    if _NOTEBOOK.match(head) and b'"cells"' in head and (b'"cell_type"' in head or b'"nbformat"' in head):
        return "notebook"
    if (headers := _HEADERS.match(head)) and _OF_MAIL.search(headers[0]):
        return "web archive" if b"Snapshot-Content-Location" in headers[0] else "mail"
    if is_plain and _SVG.match(head):
        return "SVG"
    return "XML" if is_plain and _XML.match(head) and not is_page(head) else None


def left_out(skipped: Mapping[str, int], examples: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Lines about the files of folders that were left out: how many of which kind, some names, and how some could be read.

    Args:
        skipped: how many, by the ending of their names, "without ending", or the reason.
        examples: names of some of those that were left out for their ending.
    """
    parts, ways = [], dict[str, str]()
    for kind, number in sorted(skipped.items(), key=lambda item: (-item[1], item[0])):
        names = examples.get(kind, ())
        more = ", …" if len(names) < number else ""
        parts.append(f"{number:,} {kind}" + (f" ({', '.join(names)}{more})" if names else ""))
        if names and BY_ENDING.get(kind) in _DOCUMENTS and len(ways) < _SHOWN_WAYS:
            ways.setdefault(BY_ENDING[kind], way_to_read(BY_ENDING[kind], names[0]))
    if parts:
        yield f"not read: {', '.join(parts)}"
    if unknown := [kind for kind in examples if kind not in BY_ENDING]:
        kind = max(unknown, key=lambda one: skipped[one])
        folder, slash, name = examples[kind][0].rpartition("/")
        pattern = f"{folder.partition('/')[0]}/**/{f'*{kind}' if kind.startswith('.') else name}" if slash else name
        pattern = examples[kind][0] if pattern.startswith("/") else pattern
        yield f"those of them that are text are read where they are named too, for example {shlex.quote(pattern)}"
    yield from (f"{kind}: {way}" for kind, way in ways.items())
