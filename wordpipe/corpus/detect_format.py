"""The format of a source, by its first bytes; and what holds no text to read: binary files, UTF-16, letters for programs.

A source whose name does not say its format is looked at. Prose must never be taken for a table: the header has to name the
text field, and all first rows have as many cells as it. A text may hold some control characters: a Ctrl-Z at its end, a NUL,
the marks of a printer.
"""

import codecs
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from wordpipe.corpus.decode import BLANK_END, BOM, ExpansionLimit, compression_of, decompress_blocks
from wordpipe.corpus.formats import COMPRESSIONS, ENDINGS, FORMATS, NOT_READ, READERS, Reader, function_of, kind_of
from wordpipe.errors import InputError

if TYPE_CHECKING:
    from wordpipe.corpus.documents import Ledger
    from wordpipe.corpus.settings import IngestSettings
    from wordpipe.corpus.sources import Source

HEAD_BYTES = 1 << 16  # looked at
_OF_BLOCKS = 1 << 20  # looked at for titles: an article of an encyclopedia may take 100 KB
_LINES = 10  # looked at
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")
_LEAST_BLOCKS, _SENTENCE_ENDS = 4, ".!?:;,…。！？।"
_MARK = "\ufeff"
_CONTROL = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"})
_UNPRINTED = "\t\n\r\f\v\x1a\xa0\xad\u200b\u200c\u200d\u200e\u200f\u2028\u3000"  # and yet part of texts
_BINARY = "binary"
_RAW = "or use --format txt to read the whole file as text"
_UNPACKED_BY = {"gz": "gzip -dc", "bz2": "bzip2 -dc", "xz": "xz -dc", "zst": "zstd -dc"}
_FEW_CONTROLS = 3  # of which a short text may have some: Ctrl-Z at its end, a NUL, marks of a printer
_WIDE_BYTES = 4096  # looked at for UTF-16 and UTF-32

_GUESS_BYTES, _LEAST_FAR = 1 << 14, 8  # looked at for code pages; bytes beyond ASCII without which none is guessed
_SAYS_ENCODING = re.compile(rb"(?:charset|encoding)\s*=", re.IGNORECASE)
_ESCAPED = re.compile(r"[\udc80-\udcff]")  # what surrogateescape makes of bytes that are not UTF-8
_WESTERN = frozenset(
    "àâäáãåæçéèêëíìîïñóòôöõøœúùûüßšžýÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÚÙÛÜŠŽ’‘“”„‚–—…•€£¤§°·«»‹›©®™½¼¾×±²³µ¡¿ªº†\xa0\xad"
)
_FAR_WORD = re.compile(rb"[\x80-\xff]+")
_KOI8_WORD = re.compile(rb"[\xe0-\xff\xb3]?[\xc0-\xdf\xa3]*")  # small letters, and a capital letter at the beginning
_HEBREW_WORD = re.compile(rb"[\xe0-\xfa]+")  # of Cyrillic text the letters above would be there, too
_NOT_WESTERN = re.compile(
    r"[ðþÐÞ]|[^\W\d_][³¹¿¾¼ºª¥£¡¢‚„][^\W\d_]|(?s:ø.*[ìè]|[ìè].*ø)|[õû](?s:.*)[öü](?<![ä])|(?s:[šž].*[ìùè]|[ìùè].*[šž])"
)  # in cp1252: Icelandic, which is asked for; signs within words, and letters that no Western language has together
_ONLY_CP1252 = re.compile(rb"[\x80-\x9f]")
_CODE_PAGES = [
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "cp866", "cp932", "euc_jp",
    "gb18030", "big5", "euc_kr",
]  # fmt: skip

_TEXTS = frozenset({
    "authors", "changelog", "changes", "contributing", "contributors", "copying", "copyright", "credits", "faq", "history",
    "install", "license", "licence", "news", "notice", "readme", "release", "syslog", "thanks", "todo",
})  # fmt: skip
"""Names of files that hold text whatever their ending, but for code."""
_CODE = frozenset({
    ".c", ".cc", ".cfg", ".cpp", ".css", ".go", ".h", ".in", ".ini", ".java", ".js", ".json", ".m4", ".pl", ".pm", ".py",
    ".pyc", ".rb", ".rs", ".sh", ".so", ".toml", ".ts", ".yaml", ".yml",
})  # fmt: skip
_LOG_NAME = re.compile(r"\.log(?:[.-]\d+)?(?:\.(?:gz|bz2|xz|zst))?\Z", re.IGNORECASE)
_PARTS_OF_NAME = re.compile(r"_+|(?<=[a-z]{2})(?=[A-Z][a-z]{2})")  # what parts them
_LOG_LINE = re.compile(
    r"(?:<\d+>|\[|\S+ \S+ \S+ \[)?\s*(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d|\d\d:\d\d:\d\d\b|\d{10}\.\d{3})"
)
_LINES_OF_LOG = 5  # at least
_UNPACKED = 200  # times its size, which the beginning of a file may be at most

_HEADERS = re.compile(
    rb"(?:From [^\r\n]{1,200}\r?\n)?(?:[A-Za-z][A-Za-z-]{1,40}:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*){2,200}"
)
_OF_MAIL = re.compile(
    rb"^(?:Message-ID|MIME-Version|Received|Return-Path|Delivered-To|Content-Transfer-Encoding|DKIM-Signature):",
    re.IGNORECASE | re.MULTILINE,
)
_FROM = re.compile(rb"From \S+[^\r\n]*\d{4}\r?\n[A-Za-z-]+:")
is_calendar = re.compile(rb"BEGIN:V(?:CARD|CALENDAR)\r?\n", re.IGNORECASE).match
is_uuencode = re.compile(rb"begin [0-7]{3} [^\r\n]+\r?\n[M -`]").match
is_base64 = re.compile(
    rb"(?=[A-Za-z+/]{0,75}[0-9])(?=[A-Z0-9+/]{0,75}[a-z])(?=[a-z0-9+/]{0,75}[A-Z])"
    rb"(?:[A-Za-z0-9+/]{60,76}\r?\n){3}[A-Za-z0-9+/=]+\r?(?:\n|\Z)"
).match
is_pem = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}(?:CERTIFICATE|KEY|REQUEST|PARAMETERS|PGP MESSAGE)[A-Z ]{0,20}-----"
).match
is_svg = re.compile(
    rb"(?:<\?xml[^>]{0,300}>\s*)?(?:<!(?:DOCTYPE svg|--)[^>]{0,400}>\s*){0,5}<svg[\s>]", re.IGNORECASE
).match
is_tar = re.compile(rb".{257}ustar", re.DOTALL).match
_NOTEBOOK = re.compile(rb'\{\s*"(?:cells|metadata|nbformat|nbformat_minor)"\s*:')
_XML = re.compile(rb"(?!(?:<\?xml[^>]{0,300}>\s*)?<mediawiki[\s>])(?:<\?xml\s|<(?:rss|feed|TEI|kml|gpx)[\s>])")
_PAGE = re.compile(
    rb"\s*(?:<\?xml[^>]{0,300}>\s*|<!--.{0,500}?-->\s*){0,5}(?:<html[\s>]|<!DOCTYPE\s+html)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class NotText:
    """A source that is not text: what it looks like, and how to turn it into text."""

    kind: str
    hint: str
    in_letters: bool = False  # written in letters, though for programs

    def error(self, name: str) -> InputError:
        """Return the refusal of a source whose first bytes show that its format is not read."""
        if self.kind.startswith("UTF-"):
            what = "the text is not in UTF-8"
        else:
            what = "the file contains no plain text" if self.in_letters else "this looks like a binary file, not text"
        return InputError(what, where=name, got=None if self.kind == _BINARY else self.kind, hint=self.hint)


def form_of(first: bytes, source: "Source", settings: "IngestSettings", ledger: "Ledger") -> str:
    """Detect the format of a source; where its name does not say it, by its first block."""
    if source.format != "txt" or source.start or source.is_meant:
        return source.format
    name = "standard input" if source.name == "-" else source.name
    if source.is_unnamed and (found := looks_like(first, settings)) != "txt":
        ledger.notes[f"{name}: {READERS[found].title}"] = None
        return found
    of_txt = [one for one in _BY_RANK if one.of_txt and function_of(one.looks_like)(first, settings)]
    if settings.format == "auto" and of_txt and of_txt[0].of_txt == "read":
        return of_txt[0].name
    for one in [one for one in of_txt if one.of_txt == "warn"][:1]:
        message = (
            f"{name} looks like {one.title}, but was read as plain text; use --format {one.name} to read {one.title}"
        )
        ledger.warn("looks", message)
    return "txt"


_BY_RANK = sorted((READERS[name] for name in FORMATS if READERS[name].looks_like), key=lambda one: one.rank)


def looks_like(first: bytes, settings: "IngestSettings") -> str:
    """Return the format of a source that begins with these bytes."""
    found = (one.name for one in _BY_RANK if function_of(one.looks_like)(first, settings))
    return next(found, "txt")


def first_lines(first: bytes) -> list[str]:
    """Return the first whole lines of a source that are not blank, to detect its format.

    The last one of a short source needs no line end.
    """
    whole = _LINE_END.split(first.decode(errors="replace").removeprefix(_MARK))
    if len(first) >= HEAD_BYTES:
        whole = whole[:-1]  # which the block may have cut; after a line end it is nothing
    return [line for line in whole if line.strip()][:_LINES]


def unreadable(first: bytes, source: "Source", settings: "IngestSettings") -> NotText | None:
    """Return what a source without readable text looks like, by its first block; None if it holds text."""
    as_it_is = settings.format != "auto" or source.is_meant
    return not_text(first, source.name, is_plain=source.format == "txt" and not as_it_is, as_it_is=as_it_is)


def contains_text(path: Path, suffix: str) -> bool:
    """True if a file of a folder whose ending is not known contains text: by its name, such as README, or by its beginning."""
    stem = path.name.lower().partition(".")[0].partition("-")[0]
    if (stem in _TEXTS and suffix not in ENDINGS and suffix not in _CODE) or _LOG_NAME.search(path.name):
        return True
    return not suffix and begins_as_text(path)


def document_name(source: str) -> str:
    """Return the words of the name of a document's file, without its ending; "" for records, logs, code and what is no file.

    >>> document_name("papers.zip/annual_report.pdf.gz"), document_name("run.log"), document_name("rows.csv")
    ('annual_report annual report', '', '')
    """
    path = PurePath(source)
    kind, ending, compression = kind_of(path)
    is_document = kind is not None and (kind == "txt" or READERS[kind].is_structured)
    if not is_document or _LOG_NAME.search(path.name):
        return ""
    name = (path if compression == "none" else path.with_suffix("")).name[: -len(ending)]
    parted = " ".join(filter(None, _PARTS_OF_NAME.split(name)))
    return name if parted == name else f"{name} {parted}"


def is_log(name: str, first: bytes) -> bool:
    """True if a text is a log, by its name, or if nearly all of its first lines begin with a time."""
    if _LOG_NAME.search(name):
        return True
    lines = first_lines(first[:HEAD_BYTES])
    return len(lines) >= _LINES_OF_LOG and sum(_LOG_LINE.match(line) is not None for line in lines) >= 0.8 * len(lines)


def has_titles(path: Path) -> bool:
    """True if the blocks of a text file, parted by blank lines, begin with a line that is their title, by its first blocks.

    A title is short, at most half as long as the line after it, and does not end like a sentence; nine of ten blocks have one.
    Lines of verse, and of text that was broken at a width, are about as long as each other.
    """
    text = (_beginning(path, _OF_BLOCKS) or b"").decode(errors="replace").removeprefix(_MARK)
    blocks = [
        [line.strip() for line in block.strip().splitlines()] for block in _BLANK_LINES.split(text) if block.strip()
    ]
    seen = blocks[:-1] if len(blocks) > 1 else []  # the last may be cut
    return len(seen) >= _LEAST_BLOCKS and sum(map(_is_titled, seen)) >= 0.9 * len(seen)


def _is_titled(lines: Sequence[str]) -> bool:
    """True if the first line of a block looks like its title."""
    return (
        len(lines) > 1
        and 2 * len(lines[0]) <= len(lines[1])
        and len(lines[0]) <= 80
        and lines[0][-1] not in _SENTENCE_ENDS
    )


def _beginning(path: Path, most: int = HEAD_BYTES) -> bytes | None:
    """Return the first bytes of a file, unpacked where its name says that it is compressed; None: they cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(most)
        kind = COMPRESSIONS.get(path.suffix.lower(), "none")
        found = b""
        try:
            for block in decompress_blocks(iter([head]), kind, ExpansionLimit(str(path), _UNPACKED)):
                if len(found := found + block) >= most:
                    break
        except InputError:  # of a longer stream the head is not whole
            if not found:
                raise
        return found[:most]
    except (OSError, ValueError, InputError):
        return None


def form_by_beginning(path: Path) -> str | None:
    """Return the format of a file whose name says none, where its first bytes do: PDF, office documents, archives."""
    head = _beginning(path)
    kind = _kind_of(head, is_plain=True) if head else None
    return kind.name if kind is not None and kind.takes == "file" and kind.read else None


def begins_as_text(path: Path) -> bool:
    """True if a file contains text, in whatever encoding: it is no binary file, and not in letters for programs."""
    head = _beginning(path)
    if head is None:
        return False
    if (wide := _wide_encoding(head)) is not None:
        head = head.decode(wide, errors="ignore").encode(errors="ignore")
    if b"\0" in head or not_text(head, path.name) is not None:
        return False
    return _is_utf_8(head) or _code_page(head) is not None


def patterns_for(kind: str, examples: Iterable[str]) -> list[str]:
    """Return patterns of `--include` by which text files of a kind that was passed over are read; none of other files.

    Args:
        kind: the ending of their names, as it was counted.
        examples: names of some of them.
    """
    if kind in ENDINGS:
        return []
    texts = [path for path in map(Path, examples) if begins_as_text(path)]
    return sorted({f"*{''.join(path.suffixes[-1 - (path.suffix.lower() in COMPRESSIONS) :])}" for path in texts})


def encoding_of(first: bytes, source: "Source", settings: "IngestSettings") -> str | None:
    """Return the encoding of a source of text by its first block; None for UTF-8, and for a page with a declaration."""
    if settings.encoding != "auto":
        name = codecs.lookup(settings.encoding).name
        return None if name in ("utf-8", "utf-8-sig", "ascii") else name
    if (wide := _wide_encoding(first)) is not None:
        return codecs.lookup(wide).name
    says_itself = source.format == "mail" or is_mail(first[:HEAD_BYTES])
    says_itself |= source.format == "html" and _SAYS_ENCODING.search(first[:_WIDE_BYTES]) is not None
    if says_itself or settings.bad_bytes != "replace" or b"\0" in first or _is_utf_8(first):
        return None
    return _code_page(first)


def _code_page(data: bytes) -> str | None:
    """Return the older encoding in which bytes that are no UTF-8 are most likely written; None if nothing says so.

    Western text has few letters beyond ASCII, too few for charset-normalizer: it is known by these letters. For all other
    encodings charset-normalizer is asked.
    """
    # bytes of UTF-8 among them say that it is UTF-8 with errors
    text = data.decode(errors="surrogateescape")
    bad = len(_ESCAPED.findall(text))
    if bad <= sum(one > "\x7f" for one in text) - bad:
        return None
    lines = [line for line in data.split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:_GUESS_BYTES]
    far = sum(one > 127 for one in sample)
    # nearly all letters are ASCII, and the others are those of Western languages
    near = sum(65 <= one <= 90 or 97 <= one <= 122 for one in sample)
    try:
        western = sample.decode("cp1252")
    except UnicodeDecodeError:
        western = ""
    if western and near > far and not _NOT_WESTERN.search(western):
        likely = sum(map(_WESTERN.__contains__, western))
        if likely >= far * 0.9:
            return "iso8859-15" if "\xa4" in western and not _ONLY_CP1252.search(sample) else "cp1252"
    if far < _LEAST_FAR:
        return None
    # two that charset-normalizer takes for others where the text is short
    words = _FAR_WORD.findall(sample)
    for word, encoding in ((_KOI8_WORD, "koi8-r"), (_HEBREW_WORD, "cp1255")) if far > near else ():
        if sum(word.fullmatch(one) is not None for one in words) >= 0.95 * len(words):
            return encoding
    from charset_normalizer import from_bytes  # 0.1 s, for which UTF-8 need not wait

    best = from_bytes(sample, cp_isolation=_CODE_PAGES).best()
    return None if best is None or best.encoding in ("ascii", "utf_8") else codecs.lookup(best.encoding).name


def way_to_read(reader: Reader, name: str) -> str:
    """Return how to turn a file of a detected format that is not read into text, in words and a command.

    >>> from wordpipe.corpus.formats import ENDINGS
    >>> way_to_read(ENDINGS[".djvu"], "minutes.djvu")
    'convert the file to text first: djvutxt minutes.djvu minutes.txt'
    """
    return filled_hint(reader.hint, name)


def filled_hint(hint: str, name: str) -> str:
    """Return a hint with the name of a file in the place of FILE, STEM and NAME.

    >>> filled_hint("qpdf FILE STEM.pdf", "a b.pdf")
    "qpdf 'a b.pdf' 'a b.converted.pdf'"
    """
    stem = re.sub(r"(?<=[^/])\.[^./]{1,10}\Z", "", name)
    way = hint.replace("FILE", shlex.quote(name)).replace("NAME", shlex.quote(stem.rpartition("/")[2]))
    return re.sub(r"STEM(\.\w+)?", lambda found: shlex.quote(_another(name, stem, found[1] or "")), way)


def _another(name: str, stem: str, ending: str) -> str:
    """Return a name for the file that a conversion writes: never the name of the file that it reads."""
    written = stem + ending
    return f"{stem}.converted{ending}" if name in (written, f"{written}.txt") else written


def not_text(head: bytes, name: str, *, is_plain: bool = True, as_it_is: bool = False) -> NotText | None:
    """Detect what a source without readable text is, by its first block; None if it holds text.

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
        hint = f"rename the file so that it ends in .{packed}: mv {shlex.quote(name)} {shlex.quote(f'{name}.{packed}')}"
        return NotText(f"{packed} compression", f"{hint}; {_RAW}")
    head = head[:HEAD_BYTES]
    if (kind := _kind_of(head, is_plain=is_plain)) is not None:
        hint = way_to_read(kind, name)
        return NotText(kind.title, hint if "--format" in hint else f"{hint}; {_RAW}", kind.in_letters)
    body = head.rstrip(BLANK_END)
    controls = len(body) - len(body.translate(None, _CONTROL))
    if controls > max(_FEW_CONTROLS, len(body) // 100) or (controls > 1 and 3 * controls > len(body)):
        return NotText(_BINARY, "to read the file anyway, use --format txt")
    return None


def _conversion(encoding: str, name: str) -> str:
    """Return a command that converts a source of a detected encoding to UTF-8."""
    convert, (stem, dot, ending) = f"iconv -f {encoding} -t UTF-8", name.rpartition(".")
    if name == "-":
        return f"convert the text to UTF-8 first: … | {convert} | wordpipe ingest -"
    if (unpack := _UNPACKED_BY.get(ending.lower())) is not None:
        stem, dot, ending = stem.rpartition(".")
    if not stem or "/" in ending:
        stem, ending = f"{stem}{dot}{ending}", "txt"
    source, target = shlex.quote(name), shlex.quote(f"{stem}.utf8.{ending}")
    command = f"{convert} {source}" if unpack is None else f"{unpack} {source} | {convert}"
    return f"convert the file to UTF-8 first: {command} > {target}"


def _wide_encoding(head: bytes) -> str | None:
    """Return UTF-32 or UTF-16 in the words of iconv, by a source's first bytes; None where they are of another encoding."""
    marks = {
        codecs.BOM_UTF32_LE: "UTF-32",
        codecs.BOM_UTF32_BE: "UTF-32",
        codecs.BOM_UTF16_LE: "UTF-16",
        codecs.BOM_UTF16_BE: "UTF-16",
    }
    if (marked := next((name for mark, name in marks.items() if head.startswith(mark)), None)) is not None:
        return marked
    # without a mark: a NUL in a text says that characters may be wide
    data = head[:_WIDE_BYTES]
    if b"\0" not in data or (len(data) - len(data.translate(None, _CONTROL)) == 1 and _is_utf_8(data)):
        return None
    # the encoding by which it is a text, with most letters of ASCII
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
    """True if the first bytes of a source are UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _is_likely(text: str) -> bool:
    """True if bytes detected as UTF-16 or UTF-32 decode to a text, not to two letters in each character."""
    if not all(one.isprintable() or one in _UNPRINTED for one in text):
        return False
    pairs = far = 0
    for one in text:
        if (code := ord(one)) > 255:
            far += 1
            pairs += code < 0x7F00 and 0x20 <= code >> 8 != 0x30 and 0x20 <= code & 0xFF < 0x7F  # 0x30: kana
    return 2 * pairs < far or not far


def _kind_of(head: bytes, *, is_plain: bool) -> Reader | None:
    """Detect the kind of a file by its beginning, if files of this kind are not read."""
    if (
        begun := next((one for one in (*READERS.values(), *NOT_READ) if head.startswith(one.begins)), None)
    ) is not None:
        inner = (one for one in (*READERS.values(), *NOT_READ) if any(mark in head for mark in one.inside_zip))
        return next(inner, begun) if begun.name == "zip" else begun
    letters = head.removeprefix(BOM).lstrip()
    looked_for = (one for one in NOT_READ if one.looks_like and (is_plain or one.of_txt != "refuse"))
    return next((one for one in looked_for if function_of(one.looks_like)(letters)), None)


def is_mail(head: bytes) -> bool:
    """True if this is the beginning of a mail, or of several."""
    return _FROM.match(head) is not None or (_mail_headers(head) != b"" and not is_web_archive(head))


def looks_like_mail(first: bytes, settings: "IngestSettings") -> bool:
    """True if a source begins as a mail does."""
    return is_mail(first[:HEAD_BYTES].removeprefix(BOM).lstrip())


def is_web_archive(head: bytes) -> bool:
    """True if this is the beginning of a page that a browser kept with its pictures."""
    return b"Snapshot-Content-Location" in _mail_headers(head)


def _mail_headers(head: bytes) -> bytes:
    """Return the headers of a mail; nothing where it is none."""
    headers = _HEADERS.match(head)
    return headers[0] if headers is not None and _OF_MAIL.search(headers[0]) else b""


def is_notebook(head: bytes) -> bool:
    """True if this is the beginning of a notebook of Jupyter."""
    return bool(_NOTEBOOK.match(head) and b'"cells"' in head and (b'"cell_type"' in head or b'"nbformat"' in head))


def is_xml(head: bytes) -> bool:
    """True if this is the beginning of XML that is no page."""
    return _XML.match(head) is not None and not is_page(head)


def is_page(head: bytes, settings: "IngestSettings | None" = None) -> bool:
    """True if a text begins as a page of HTML does."""
    return _PAGE.match(head[:HEAD_BYTES].removeprefix(BOM)) is not None
