"""The table of formats: all that is known of each before one of its files is opened, as data.

A new format is a reader in `corpus/readers/` and an entry here. Beside what is read stands what is not: files that hold no
plain text, with what to do about them.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from wordpipe.corpus.decode import Compression

_READERS = "wordpipe.corpus.readers."
_BINARY = "wordpipe.corpus.binary."
_LOOKS = "wordpipe.corpus.detect_format:"
_RENAME = "rename the file so that it ends in .{0}: mv FILE STEM.{0}"
_CODE = (
    ".py", ".js", ".mjs", ".ts", ".jsx", ".tsx", ".java", ".kt", ".scala", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".go",
    ".rs", ".rb", ".php", ".pl", ".lua", ".swift", ".sh", ".r", ".jl", ".hs", ".el", ".ml", ".sql",
)  # fmt: skip
CONFIGURATION = (
    ".cfg", ".cnf", ".conf", ".config", ".defs", ".desktop", ".env", ".ini", ".list", ".mount", ".policy", ".properties",
    ".rules", ".service", ".socket", ".sources", ".target", ".timer", ".toml", ".yaml", ".yml",
)  # fmt: skip
"""Endings of settings of programs: texts that people look for, and that no corpus is made of."""
_MAN = (
    ".1p",
    ".1ssl",
    ".3p",
    ".3pm",
    ".3perl",
    ".3ssl",
    ".5ssl",
    ".7ssl",
)  # sections of man pages with letters behind them
_LINE, _BLOCK = rb"\n", rb"\n\r?\n"  # what ends a line, and a block between blank lines


class Reader(NamedTuple):
    """One format: how its files are recognised, and the function that reads a file.

    Functions are named "module:function", so that the table is light.
    """

    name: str  # of --format; of what is not read, that of its kind
    title: str  # as messages call it
    endings: tuple[str, ...] = ()  # of the names of its files
    endings_if_named: tuple[str, ...] = ()  # of files that folders hold for other reasons, too: not read from there
    read: str = ""  # (Opened) → iterator of records; "": such files are not read
    takes: Literal["blocks", "file", "source"] = (
        "blocks"  # unpacked bytes; a file that seeks, never a pipe; it opens itself
    )
    begins: tuple[bytes, ...] = ()  # its first bytes
    inside_zip: tuple[bytes, ...] = ()  # what stands near the beginning of a zip that is this
    looks_like: str = ""  # (first block, settings) → whether it looks like this: of what no name and no first bytes say
    rank: int = 0  # a look of a lower rank is asked first
    of_txt: Literal["", "warn", "read", "refuse"] = ""  # what is done with a .txt that looks like this
    is_structured: bool = False  # a document is a section below a heading
    unpacks: bool = False  # it takes a compressed file as it is
    fields: Literal["", "named", "own"] = ""  # records with fields that settings name, or that the format names itself
    piece_ends: Mapping[str, bytes] = {}  # --documents → pattern of a record's end: pieces of a large file end there
    text_share: float = 1.0  # bytes of text out of a byte of a file, for estimates
    mb_per_s: float = 22.0  # of a file, likewise
    needs: str = ""  # the module of a library of the extra `documents`
    hint: str = ""  # what to do about a file that is not read: FILE is its name, STEM that without its ending
    in_letters: bool = False  # of what is not read: it is text, though of no prose
    is_document: bool = False  # of what is not read: people wrote it, so folders with such files are told the way


READERS: dict[str, Reader] = {
    one.name: one
    for one in (
        Reader(
            "txt", "plain text", (".txt", ".text", ".log"), read=_READERS + "lines:read_text",
            piece_ends={"line": _LINE, "block": _BLOCK, "section": _BLOCK},
        ),
        Reader(
            "md", "Markdown", (".md", ".markdown"), read=_READERS + "markdown:read", is_structured=True,
            piece_ends={"line": _LINE, "block": _BLOCK},
        ),
        Reader(
            "html", "HTML", (".html", ".htm", ".xhtml"), read=_READERS + "html_pages:read", is_structured=True,
            looks_like="wordpipe.corpus.detect_format:is_page", rank=2, of_txt="warn",
        ),
        Reader("rst", "reStructuredText", (".rst",), read=_READERS + "rst:read", is_structured=True),
        Reader(
            "jsonl", "JSON Lines", (".jsonl", ".ndjson"), read=_READERS + "lines:read_json_lines", fields="named",
            looks_like=_READERS + "lines:is_json_lines", rank=4, of_txt="warn", text_share=0.8,
            piece_ends=dict.fromkeys(("auto", "section", "file", "block", "line"), _LINE),
        ),
        Reader(
            "csv", "CSV", (".csv",), read=_READERS + "lines:read_csv", fields="named", text_share=0.85,
            looks_like=_READERS + "lines:is_csv", rank=6,
        ),
        Reader(
            "tsv", "TSV", (".tsv",), read=_READERS + "lines:read_tsv", fields="named", text_share=0.9,
            looks_like=_READERS + "lines:is_tsv", rank=5,
            piece_ends=dict.fromkeys(("auto", "section", "file", "block", "line"), _LINE),
        ),
        Reader(
            "parquet", "Parquet", (".parquet",), read=_READERS + "tables:read_parquet", takes="file", fields="named",
            begins=(b"PAR1",), text_share=1.8, hint=_RENAME.format("parquet"),
        ),
        Reader(
            "docx", "Word", (".docx", ".docm"), read=_BINARY + "word:read", takes="file", inside_zip=(b"word/",),
            is_structured=True, text_share=0.3, mb_per_s=1.5, hint=_RENAME.format("docx"),
        ),
        Reader(
            "epub", "EPUB", (".epub",), read=_BINARY + "epub:read", takes="file", inside_zip=(b"application/epub+zip",),
            is_structured=True, text_share=0.8, mb_per_s=1.5, hint=_RENAME.format("epub"),
        ),
        Reader(
            "odt", "OpenDocument", (".odt", ".ott"), read=_BINARY + "opendocument:read", takes="file",
            inside_zip=(b"opendocument.text",), is_structured=True, text_share=0.3, mb_per_s=1.5, hint=_RENAME.format("odt"),
        ),
        Reader(
            "pptx", "PowerPoint", (".pptx", ".pptm", ".ppsx"), read=_BINARY + "slides:read", takes="file",
            inside_zip=(b"ppt/",), is_structured=True, text_share=0.05, mb_per_s=6.0, hint=_RENAME.format("pptx"),
        ),
        Reader(
            "odp", "OpenDocument slides", (".odp",), read=_BINARY + "slides:read_odp", takes="file",
            inside_zip=(b"opendocument.presentation",), is_structured=True, text_share=0.05, mb_per_s=6.0,
            hint=_RENAME.format("odp"),
        ),
        Reader(
            "pdf", "PDF", (".pdf",), read=_BINARY + "pdf:read", takes="file", begins=(b"%PDF",), is_structured=True,
            text_share=0.2, mb_per_s=2.0, needs="pypdfium2", hint=_RENAME.format("pdf"),
        ),
        Reader(
            "spreadsheet", "spreadsheet", (".xlsx", ".ods", ".xlsm", ".xlsb", ".xls"), read=_BINARY + "spreadsheets:read",
            takes="file", inside_zip=(b"xl/", b"opendocument.spreadsheet"), fields="named", text_share=2.0,
            mb_per_s=2.0, needs="python_calamine", hint=_RENAME.format("xlsx"),
        ),
        Reader(
            "mail", "mail", (".eml", ".mbox"), read=_BINARY + "mail:read", looks_like=_LOOKS + "looks_like_mail",
            of_txt="read", text_share=0.5,
        ),
        Reader(
            "rtf", "RTF", (".rtf",), read=_BINARY + "rtf:read", takes="file", begins=(b"{\\rtf",), is_structured=True,
            text_share=0.3, mb_per_s=2.0, hint=_RENAME.format("rtf"),
        ),
        Reader(
            "ipynb", "notebook", (".ipynb",), read=_READERS + "notebooks:read", is_structured=True,
            looks_like=_READERS + "notebooks:looks_like_notebook", rank=0, of_txt="read", text_share=0.2,
        ),
        Reader(
            "man", "man page", (".man", *(f".{number}" for number in range(1, 10)), *_MAN), read=_READERS + "man:read",
            is_structured=True, looks_like=_READERS + "man:looks_like_man", rank=0, of_txt="warn", text_share=0.8,
        ),
        Reader(
            "latex", "LaTeX", (".tex", ".ltx"), read=_READERS + "latex:read", is_structured=True,
            looks_like=_READERS + "latex:looks_like_latex", rank=0, of_txt="warn", text_share=0.8,
        ),
        Reader(
            "code", "source code", endings_if_named=_CODE, read=_READERS + "code:read", is_structured=True, text_share=1.2,
        ),
        Reader(
            "mediawiki", "MediaWiki dump", endings_if_named=(".xml",), read=_READERS + "mediawiki:read", is_structured=True,
            looks_like=_READERS + "mediawiki:looks_like_dump", rank=0, of_txt="read", text_share=0.6,
        ),
        Reader(
            "zip", "zip", (".zip",), read=_BINARY + "archives:read_zip", takes="file", begins=(b"PK\x03\x04", b"PK\x05\x06"),
            text_share=2.0, hint=_RENAME.format("zip"),
        ),
        Reader(
            "tar", "tar", (".tar", ".tgz", ".tbz2", ".txz"), read=_BINARY + "archives:read_tar", takes="file", unpacks=True,
            text_share=0.5, hint=_RENAME.format("tar"),
        ),
        Reader("conll", "CoNLL columns", (".conll", ".bio", ".iob"), read=_READERS + "labelled:read_conll", fields="own"),
        Reader(
            "squad", "SQuAD JSON", endings_if_named=(".json",), read=_READERS + "labelled:read_squad", fields="own",
            looks_like=_READERS + "labelled:is_squad", rank=3,
        ),
        Reader(
            "label-first", "fastText lines", read=_READERS + "labelled:read_label_first", fields="own",
            looks_like=_READERS + "labelled:is_label_first", rank=1, of_txt="read",
        ),
        Reader(
            "python", "docstrings of a package", read=_READERS + "package:read", takes="source", text_share=0.15,
            mb_per_s=1.8,
        ),
        Reader("rows", "records of a program", read=_READERS + "tables:read_rows", takes="source", fields="named"),
    )
}  # fmt: skip
"""Name → what is read; the first ones are the values of --format."""

FORMATS = tuple(one.name for one in READERS.values() if one.takes != "source")
"""Formats of files, as --format calls them."""


def _kind(name: str, *endings: str, hint: str, **more: Any) -> Reader:
    """Return the entry of a kind of file that is not read."""
    return Reader(name, name, endings, hint=hint, **more)


NOT_READ = (
    _kind(
        "old Office", ".doc", ".ppt", begins=(b"\xd0\xcf\x11\xe0",), is_document=True,
        hint="save the file as plain text (a table as CSV): soffice --headless --convert-to txt:Text FILE --outdir converted",
    ),
    _kind(
        "vCard or iCalendar", ".vcf", ".ics", looks_like=_LOOKS + "is_calendar", in_letters=True,
        hint="export the data as CSV, or use --format txt to read the whole file as text",
    ),
    _kind("uuencode", looks_like=_LOOKS + "is_uuencode", in_letters=True, hint="decode the file first: uudecode FILE"),
    _kind(
        "base64", looks_like=_LOOKS + "is_base64", in_letters=True,
        hint="decode the file first: base64 -d FILE > STEM.decoded",
    ),
    _kind("PEM", looks_like=_LOOKS + "is_pem", in_letters=True, hint="the file contains a key or a certificate, not text"),
    _kind(
        "web archive", ".mht", ".mhtml", looks_like=_LOOKS + "is_web_archive", in_letters=True,
        hint="save the page as HTML only, without its pictures",
    ),
    _kind(
        "SVG", ".svg", looks_like=_LOOKS + "is_svg", of_txt="refuse", in_letters=True,
        hint="an SVG file is a picture; use --format txt to read its markup as text",
    ),
    _kind(
        "XML", ".xml", looks_like=_LOOKS + "is_xml", of_txt="refuse", in_letters=True,
        hint="convert the XML to text first, or use --format txt to read the markup as text",
    ),
    _kind("PostScript", ".ps", ".eps", begins=(b"%!PS",), hint="convert the file to text first: ps2ascii FILE STEM.txt"),
    _kind(
        "DjVu", ".djvu", begins=(b"AT&TFORM",), is_document=True,
        hint="convert the file to text first: djvutxt FILE STEM.txt",
    ),
    _kind(
        "picture", ".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".webp", begins=(b"\x89PNG", b"GIF8", b"\xff\xd8\xff"),
        hint="use OCR to get the text from the picture first: tesseract FILE STEM",
    ),
    _kind(
        "SQLite", ".sqlite", ".sqlite3", begins=(b"SQLite format 3\0",),
        hint="export the tables as CSV first: sqlite3 -header -csv FILE 'SELECT * FROM name_of_a_table' > STEM.csv",
    ),
    _kind(
        "pickle", ".pkl", ".pickle", begins=(b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5"),
        hint="a pickle can run any program, so wordpipe never reads pickles; in Python, write JSON Lines or Parquet instead",
    ),
    _kind(
        "Arrow, ORC or Avro", ".arrow", ".feather", ".orc", ".avro", begins=(b"ARROW1", b"FEA1", b"ORC\x0a", b"Obj\x01"),
        hint="use the program that created this file to save the data as Parquet, CSV or JSON Lines",
    ),
    _kind("tar without its ending", looks_like=_LOOKS + "is_tar", hint=_RENAME.format("tar")),
    _kind(
        "archive", ".7z", ".rar", begins=(b"7z\xbc\xaf", b"Rar!\x1a", b"=ybegin "),
        hint="unpack the file and ingest the folder",
    ),
)  # fmt: skip
"""Kinds of files that hold no plain text, in the order in which they are looked for."""

ENDINGS: dict[str, Reader] = {ending: one for one in (*READERS.values(), *NOT_READ) for ending in one.endings}
"""The ending of a name → what such files are."""


COMPRESSIONS: dict[str, "Compression"] = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
"""The ending of a name → how such a file is compressed."""


def kind_of(path: PurePath) -> tuple[str | None, str, "Compression"]:
    """Return a file's format by the ending of its name (None: unknown), that ending, and the compression by the last one."""
    compression = COMPRESSIONS.get(path.suffix.lower(), "none")
    inner = path if compression == "none" else path.with_suffix("")
    suffix = inner.suffix.lower()
    reader = ENDINGS.get(suffix)
    return (reader.name if reader is not None and reader.read else None), suffix, compression


def function_of(named: str) -> Any:
    """Return the function of a reader that "module:function" names."""
    module, _, name = named.partition(":")
    return getattr(import_module(module), name)
