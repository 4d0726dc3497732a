"""Structured documents (Markdown, HTML, reStructuredText) as records: one for each section, or one for the file.

A source is parsed in parts of at most 1 MiB of Markdown, 512 KiB of reStructuredText and 4 MiB of HTML (less where the
longest document is shorter), cut before a heading or at a blank line where there is one: so much is held, with what its parser
makes of it. The levels of headings in reStructuredText begin anew in each part. A part that no parser takes (thousands of
things in each other, a line of 100,000 characters) is read as plain text; both are counted.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.markup.outline import Outline, Section
from wordpipe.errors import InputError

MarkupFormat = Literal["md", "html", "rst"]

_PART_BYTES: dict[MarkupFormat, int] = {"md": 1 << 20, "rst": 1 << 19, "html": 4 << 20}
_BEGINS = {
    "md": re.compile(r"#{1,6}[ \t]"),
    "html": re.compile(r"\s*<(?:h[1-6]|section|article|div|p)\b", re.IGNORECASE),
    "rst": re.compile(r"(?!)"),
}  # a line that may begin a part
_HEAD_BYTES = 2048  # in which a page says its encoding; browsers look at 1,024
_CHARSET = re.compile(rb"<meta\b[^<>]{0,300}?\bcharset\s*=\s*[\"']?\s*([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]{0,200}?\bencoding\s*=\s*[\"']\s*([A-Za-z0-9_:.+-]{1,40})")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_NO_TEXT = frozenset(("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"))  # of Python alone
_MEANT = {  # what browsers take them for (the WHATWG's Encoding Standard)
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932", "utf-16": "utf-8", "utf-16-le": "utf-8",
    "utf-16-be": "utf-8", "utf-7": "utf-8", "utf-32": "utf-8",
}  # fmt: skip


def markup_records(
    lines: Iterable[tuple[int, str]],
    *,
    source: str,
    format: MarkupFormat,  # noqa: A002  (the setting's name)
    documents: Literal["section", "file", "block", "line"],
    max_bytes: int,
    ledger: Ledger,
    carry: Callable[[dict[str, Any]], Record | None] = lambda fields: None,
) -> Iterator[Record]:
    """Records of numbered lines, each with its newline, as `Decoder.lines` gives them.

    Args:
        lines: of the source.
        source: value of the `source` column.
        format: of the lines.
        documents: what one record is: a section, the whole file without its markup (of a long one, each part that was parsed),
            or a paragraph or line of a section's text.
        max_bytes: a longer source is parsed in parts.
        ledger: counts headings without text, what is left out, and parts.
        carry: makes a record of the fields of front matter, whose title and columns all records of the source have.
    """
    head: Record | None = None
    outline, parse = Outline(ledger), _parser(format)
    for number, (first, text) in enumerate(_parts(lines, _BEGINS[format], min(max_bytes, _PART_BYTES[format]))):
        ledger.add("files_parsed_in_parts", number == 1)
        try:
            parse(text, first, outline)
        except (ValueError, RecursionError):  # of our parsers and docutils
            outline = Outline(ledger)  # what it was told before it broke is in the text below, too
            ledger.add("parts_read_as_plain_text")
            ledger.warn(
                "markup", f"{format} too deep or too long to be parsed, read as plain text: {source}, line {first}"
            )
            yield Record(text, source, first, newline="space")
            continue
        outline.finish()
        if number == 0 and outline.fields and (head := carry(outline.fields)) is not None:
            outline.title = head.title
        sections = list(outline.take())
        ledger.add("sections_read", len(sections))
        if documents == "file":
            sections = _joined_sections(sections)
        for section in sections:
            record = section.record(source, outline.title)
            if head is not None:
                record.metadata, record.own = dict(head.metadata), {**record.own, **head.own}
                record.width, record.beside = head.width, head.beside
            yield from [record] if documents in ("section", "file") else _pieces(record, documents)


def to_utf8(blocks: Iterator[bytes], *, name: str, bad_bytes: str, ledger: Ledger) -> Iterator[bytes]:
    """Blocks of an HTML page, those of another encoding than UTF-8 that it names in its head as UTF-8.

    A mark at its beginning (BOM) comes first, then a `meta` element, then an XML declaration, as the HTML standard has it.

    Raises:
        InputError: bytes that the encoding does not have, where `bad_bytes` is "fail".
    """
    head = b""
    for block in blocks:
        head += block
        if len(head) >= _HEAD_BYTES:
            break
    blocks = chain([head], blocks)
    label = _declared(head[:_HEAD_BYTES])
    encoding = None if label is None else _encoding_of(label)
    if label is not None and encoding is None:
        ledger.add_named("files_of_unknown_encoding", label)
        ledger.warn("encoding", f"{name} says that its encoding is {label}, which is not known; it was read as UTF-8")
    if encoding in (None, "utf-8"):
        yield from blocks
        return
    assert encoding is not None
    ledger.add_named("files_decoded_from", encoding)
    decoder = codecs.getincrementaldecoder(encoding)("strict" if bad_bytes == "fail" else "replace")
    line = 1
    try:
        for block in chain(blocks, [b""]):
            text = decoder.decode(block, final=not block)
            if bad := text.count("\ufffd"):
                ends = text.count("\n", 0, text.index("\ufffd"))
                done = "replaced" if bad_bytes == "replace" else "left out"
                ledger.warn(
                    "bad_bytes", f"{done} invalid {encoding}, which its head says it is: {name}, line {line + ends}"
                )
                ledger.add("bytes_replaced" if bad_bytes == "replace" else "bytes_skipped", bad)
            line += text.count("\n")
            yield (text if bad_bytes == "replace" else text.replace("\ufffd", "")).encode()
    except UnicodeDecodeError as error:
        hint = "mend the file, or choose another --bad-bytes"
        raise InputError(f"invalid {encoding}, which its head says it is", where=name, got=error, hint=hint) from None


def _declared(head: bytes) -> str | None:
    """What a page calls its encoding."""
    if head.startswith(b"\xef\xbb\xbf"):
        return None
    found = _CHARSET.search(_COMMENT.sub(b"", head)) or _XML.match(head)
    return found and found[1].decode().lower()


def _encoding_of(label: str) -> str | None:
    """Python's name of an encoding of text, "utf-8" too; None where there is none."""
    for name in (label, label.removeprefix("x-"), label.removesuffix("-i"), label.replace("windows-", "cp")):
        try:
            known = codecs.lookup(name)
            encoding = _MEANT.get(known.name, known.name)
            "".encode(encoding)  # hex, rot13 and their like are no encodings of text
        except (LookupError, TypeError):
            continue
        return None if known.name.replace("-", "_") in _NO_TEXT else encoding.replace("utf-8-sig", "utf-8")
    return None


def _parser(format: MarkupFormat) -> Callable[[str, int, Outline], None]:  # noqa: A002
    if format == "md":
        from wordpipe.corpus.markup.markdown import read_markdown

        return read_markdown
    if format == "rst":
        from wordpipe.corpus.markup.rst import read_rst

        return read_rst
    from wordpipe.corpus.markup.html_pages import read_html

    return read_html


def _parts(lines: Iterable[tuple[int, str]], begins: re.Pattern[str], limit: int) -> Iterator[tuple[int, str]]:
    """Number of the first line, and text, of each part; lines that are missing, as they were no UTF-8, are blank."""
    held: list[str] = []
    size, first, after, cut = 0, 1, 1, 0
    for number, line in lines:
        if number > after:
            held.append("\n" * (number - after))
        if size > limit // 2 and (begins.match(line) or not (cut or line.strip())):
            cut = len(held)
        held.append(line)
        size += len(line)
        after = number + line.endswith("\n")
        if size * 4 > limit and size > limit:
            cut = cut or len(held)
            text = "".join(held[:cut])
            yield first, text
            first += text.count("\n")
            held = held[cut:]
            size, cut = sum(map(len, held)), 0
    if held:
        yield first, "".join(held)


def _joined_sections(sections: list[Section]) -> list[Section]:
    """All as one: the headings stand in the text, but for the first where it is the title of all."""
    if not sections:
        return []
    top = sections[0].path[:1] if all(one.path[:1] == sections[0].path[:1] for one in sections) else ()
    whole = Section(top, None, sections[0].line)
    pieces: list[str] = []
    length = 0
    before: tuple[str, ...] = top
    for section in sections:
        new = [name for at, name in enumerate(section.path) if section.path[: at + 1] != before[: at + 1]]
        before = section.path
        for piece, places in [(name, [(0, section.line)]) for name in new] + [(section.text, section.places)]:
            if pieces:
                pieces.append("\n\n")
                length += 2
            whole.places += [(length + at, line) for at, line in places]
            pieces.append(piece)
            length += len(piece)
    whole.text = "".join(pieces)
    return [whole]


def _pieces(record: Record, documents: Literal["section", "file", "block", "line"]) -> Iterator[Record]:
    """The paragraphs of a section's text, or its lines, as records of their own."""
    parts = re.split(r"(\n\n+)" if documents == "block" else r"(\n+)", record.text)
    offset = 0
    lines = record.lines_from(0, record.line, parts)
    for part, line in zip(parts, lines, strict=False):
        if part.strip():
            places = [(max(at - offset, 0), where) for at, where in record.places if at < offset + len(part)]
            yield Record(
                part, record.source, line, title=record.title, newline="space", lines_follow=False,
                own=record.own, places=places, metadata=dict(record.metadata), width=record.width, beside=record.beside,
            )  # fmt: skip
        offset += len(part)
