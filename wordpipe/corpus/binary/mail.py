"""Mail as records: one message, one record, with its subject as title and typed columns for who wrote to whom, and when.

    from, to, cc     as people read them: "Ada Lovelace <ada@example.org>"
    date             a time in UTC
    message_id       without its brackets; it is also the place of the record within its file
    thread           the id of the first message of the conversation: the first one that is referred to, else its own
    references       the ids of all messages that this one refers to
    attachments      the names of the files that come with it

The text of a message is its plain text; where it has none, its HTML, through the reader of HTML. Quoted lines and signatures
are left out, and counted, so that a text is found once, and with the person who wrote it:

- lines that begin with ">", and the lines of up to three before them that say who wrote them and when, and end with ":";
- in HTML what mail programs mark as quoted; below "-----Original Message-----" all that follows;
- a signature: all that follows the line "-- ".

A message within another one, forwarded as a whole, is a record of its own. Attachments are left out and counted, or read as
the files of an archive are (`--attachments`). A file of several messages (mbox) has a line "From …" before each one; the line
of a record is the one where its message begins.

Sources: RFC 5322 (messages), 2045 to 2047 (MIME), 3676 (format=flowed), 4155 (mbox).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa

from wordpipe.corpus.binary.archives import Inside
from wordpipe.corpus.binary.word import LEFT_OUT
from wordpipe.corpus.documents import Ledger, Record
from wordpipe.corpus.readers.html_pages import encoding_of, parsed, read_parsed
from wordpipe.corpus.readers.sections import Outline, joined_text
from wordpipe.corpus.reading import Opened

_FROM = re.compile(rb"From [^\n]{0,500}\d\d:\d\d[^\n]{0,100}\n")  # the line before a message of a file of several
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_LONGEST = 64 << 20  # bytes of a message that are read; what follows is attachments
_DEEPEST = 20  # messages and parts in each other
_MOST_PARTS = 1000
_LISTED = 100  # addresses, ids, names of files
_FAULTS = (MessageError, ValueError, LookupError, TypeError, AttributeError, AssertionError, OverflowError)
"""What the library `email` raises for headers and parts that are malformed."""

_QUOTED = re.compile(r" {0,3}>")
_SAYS_WHO = re.compile(  # an address, a year, a time, or a word for writing
    r"@|\b(?:19|20)\d\d\b|\d[.:/-]\d|wrote|writes|schrieb|écrit|escribió|scritto|schreef|escreveu|skrev|napisał|писал|写道",
    re.IGNORECASE,
)
_COLON = re.compile(r"[:：]\s*\Z")
_LINES_OF_WHO = 3
_ORIGINAL = re.compile(
    r"\s*-{3,} ?(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original|Messaggio originale) ?-{3,}",
    re.IGNORECASE,
)
_SIGN = "-- "
_BLANKS = re.compile(r"\n\s*\n\s*\n+")  # where quoted lines were
_IDS = re.compile(r"<([^<>\s]{1,500})>")
_QUOTED_IN_HTML = (
    'blockquote[type="cite"], .gmail_quote, .moz-cite-prefix, .yahoo_quoted, #divRplyFwdMsg ~ *, #divRplyFwdMsg'
)
_SIGNED_IN_HTML = ".gmail_signature, .moz-signature"


def read(opened: Opened) -> Iterator[Record]:
    """Yield the messages of a mail, or of a file of mails."""
    line = 1
    for data in _messages(opened.blocks, opened.ledger):
        yield from _records(opened, data, line)
        line += data.count(b"\n")


def _messages(blocks: Iterator[bytes], ledger: Ledger) -> Iterator[bytes]:
    """Yield the bytes of each message of a file, from the line "From …" on."""
    held, seen, is_many, is_long = b"", 0, False, False
    for block in blocks:
        is_many = is_many or (not held and block.startswith(b"From "))
        held += block
        # a message ends where a blank line and such a line follow
        while is_many and (at := held.find(b"\nFrom ", seen)) >= 0:
            if held.find(b"\n", at + 1) < 0 and len(held) - at < _LONGEST:
                break
            seen = at + 1
            if held[:at].endswith((b"\n", b"\n\r")) and _FROM.match(held, seen):
                if not is_long:
                    yield held[:seen]
                held, seen, is_long = held[seen:], 0, False
        else:
            seen = max(0, len(held) - len(b"\nFrom "))
        # of one that is too long the beginning is read
        if len(held) > _LONGEST:
            if not is_long:
                ledger.add("mails_cut")
                yield held[:_LONGEST]
            held, seen, is_long = held[-len(b"\r\n\r\nFrom ") :], 0, True
    if held and not is_long:
        yield held


def _records(opened: Opened, data: bytes, line: int) -> Iterator[Record]:
    """Yield the record of a message, and of the messages inside."""
    if is_of_many := data.startswith(b"From "):
        data = _ESCAPED.sub(rb"\1", data.partition(b"\n")[2])
    try:
        found = _found_in(message_from_bytes(data), opened.ledger, 0)
    except RecursionError:
        opened.fields.bad("too_deep", "the message is nested too deeply", line)
        return
    except _FAULTS as error:
        opened.fields.bad("not_mail", "the message is damaged", line, got=f"{type(error).__name__}: {error}")
        return
    inside = Inside(opened) if opened.settings.attachments else None
    for one in found:
        yield _record(opened, one, line + is_of_many)
        if inside is None:
            opened.ledger.add_named(LEFT_OUT, "attachments", len(one.attachments))
            continue
        for name, part in one.attachments:
            data = _bytes_of(part)
            if (source := inside.source_of(name.rpartition("/")[2], len(data))) is not None:
                yield from inside.records(source, inside.copied(BytesIO(data)))


class _Found(NamedTuple):
    """The content of a message: its subject, its text, whether the text is plain, and its columns."""

    subject: str
    text: str
    is_plain: bool
    columns: dict[str, Any]
    attachments: list[tuple[str, Message]]  # with their names


def _found_in(message: Message, ledger: Ledger, depth: int) -> list[_Found]:
    """Return the content of a message, and of the messages inside."""
    parts, texts, is_plain = _Parts(), [], True
    parts.take(message, depth)
    for kind, part in parts.body:  # in their order
        text = _decoded(part, ledger)
        if kind == "html":
            is_plain = False
            text = _of_html(text, ledger)
        else:
            text = own_lines(_unwrapped(text, part), ledger)
        texts.append(text.strip("\n"))
    columns = _columns(message)
    columns["attachments"] = [name for name, _ in parts.attachments[:_LISTED]] or None
    subject, text = _header(message, "subject"), "\n\n".join(filter(None, texts))
    found = [_Found(subject, text, is_plain, columns, parts.attachments)]
    for inner in parts.messages:
        found += _found_in(inner, ledger, depth + 1)
    return found


def _record(opened: Opened, found: _Found, line: int) -> Record:
    """Return the record of a message. Two messages of one text are two; one message in two files is one."""
    string = opened.decoder.string
    columns = {name: _tidied(value, string) for name, value in found.columns.items() if value is not None}
    anchor = {"anchor": columns["message_id"]} if "message_id" in columns else {}
    return Record(
        string(found.text), opened.source.name, line, string(found.subject) or None,
        opened.fields.metadata_of(columns, line), own=anchor, width=len(str(columns)),
        newline="auto" if found.is_plain else "space", lines_follow=False, beside=str(columns),
    )  # fmt: skip


def _tidied(value: Any, string: Callable[[str], str]) -> Any:
    """Return the value of a column with tidy strings."""
    if isinstance(value, list):
        return [string(one) for one in value]
    return string(value) if isinstance(value, str) else value


@dataclass(slots=True)
class _Parts:
    """The parts of a message: text, attachments, and other messages."""

    body: list[tuple[str, Message]] = field(default_factory=list)  # "plain" or "html", and the part
    attachments: list[tuple[str, Message]] = field(default_factory=list)  # with their names
    messages: list[Message] = field(default_factory=list)
    number: int = 0

    def take(self, part: Message, depth: int) -> None:
        """Take a part, and its inner parts."""
        self.number += 1
        if self.number > _MOST_PARTS or depth > _DEEPEST:
            return
        kind, name = part.get_content_type(), part.get_filename()
        inner: Any = part.get_payload()
        if isinstance(inner, list):
            if kind == "message/rfc822":
                self.messages += inner[:1]
            elif kind == "multipart/alternative":
                self._take_best(inner, depth)
            elif kind.startswith("multipart/"):
                for one in inner:
                    self.take(one, depth + 1)
        elif kind in ("text/plain", "text/html") and part.get_content_disposition() != "attachment" and not name:
            self.body.append((kind.removeprefix("text/"), part))
        else:
            self.attachments.append((_header_text(name) if name else kind, part))

    def _take_best(self, parts: list[Message], depth: int) -> None:
        """Take parts that say the same: the plain text, where it says anything, else the HTML."""
        all_ = _Parts(number=self.number)
        for one in parts:
            all_.take(one, depth + 1)
        plain = [one for one in all_.body if one[0] == "plain" and _bytes_of(one[1]).strip()]
        self.body += plain or [one for one in all_.body if one[0] == "html"]
        self.attachments += all_.attachments
        self.messages += all_.messages
        self.number = all_.number


def _columns(message: Message) -> dict[str, Any]:
    """Return the columns of a message; None where a header is missing or says nothing."""
    ids = {name: _IDS.findall(_header(message, name))[:_LISTED] for name in ("message-id", "references", "in-reply-to")}
    own = ids["message-id"][0] if ids["message-id"] else None
    before = list(dict.fromkeys([*ids["references"], *ids["in-reply-to"]]))
    return {
        "from": _people(message, "from"), "to": _people(message, "to"), "cc": _people(message, "cc"),
        "date": _date(message), "message_id": own, "thread": before[0] if before else own, "references": before or None,
    }  # fmt: skip


def _people(message: Message, name: str) -> str | None:
    """Return the people that a header names."""
    values = [_raw(value) for value in message.get_all(name, [])[:_LISTED]]
    found = []
    for shown, address in getaddresses(values)[:_LISTED]:
        called = _header_text(shown)
        found.append(f"{called} <{address}>" if called and address else called or address)
    return ", ".join(filter(None, found)) or ", ".join(filter(None, map(_header_text, values))) or None


def _date(message: Message) -> pa.Scalar | None:
    """Return the time of a message in UTC; None where its header says none."""
    try:
        found = parsedate_to_datetime(_header(message, "date"))
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (*_FAULTS, IndexError):
        return None
    return pa.scalar(found, pa.timestamp("us", tz="UTC")) if found.year > datetime.min.year else None


def _raw(value: Any) -> str:
    """Return the value of a header as it stands in the message, on one line."""
    return " ".join(str(value).split())


def _header(message: Message, name: str) -> str:
    """Return a header of a message, decoded; "" where it has none."""
    value = message.get(name)
    return "" if value is None else _header_text(value)


def _header_text(value: Any) -> str:
    """Return the value of a header in words: "=?utf-8?q?f=C3=BCr?=" is "für"."""
    try:
        pieces = [
            piece if isinstance(piece, str) else _text_of(piece, charset)[0] for piece, charset in decode_header(value)
        ]
    except _FAULTS:
        return _raw(value)
    return " ".join("".join(pieces).split())


def _text_of(data: bytes, charset: str | None) -> tuple[str, bool]:
    """Return the text of bytes in the encoding that is said, in UTF-8 or in Windows' of the west; True if it was a guess."""
    said = encoding_of(charset.strip().lower()) if charset else None
    for encoding in filter(None, (said, "utf-8")):
        try:
            return data.decode(encoding), encoding != said
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode(said or "cp1252", "replace"), True


def _bytes_of(part: Message) -> bytes:
    """Return the bytes of a part of a message."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _decoded(part: Message, ledger: Ledger) -> str:
    """Return the text of a part of a message."""
    text, is_guess = _text_of(_bytes_of(part), part.get_content_charset("us-ascii"))
    ledger.add("mail_parts_with_a_guessed_encoding", is_guess)
    return text.replace("\r\n", "\n")


def _unwrapped(text: str, part: Message) -> str:
    """Return plain text with the lines joined that `format=flowed` parts."""
    if str(part.get_param("format", "")).lower() != "flowed":
        return text
    keeps_space = str(part.get_param("delsp", "")).lower() != "yes"
    lines: list[str] = []
    is_open = False
    for line in text.split("\n"):
        line = line[1:] if line.startswith(" ") else line  # a space before "From", ">" or a space
        if is_open and not line.startswith(">"):
            lines[-1] += line
        else:
            lines.append(line)
        is_open = line.endswith(" ") and line != _SIGN and not line.startswith(">")
        if is_open and not keeps_space:
            lines[-1] = lines[-1][:-1]
    return "\n".join(lines)


def own_lines(text: str, ledger: Ledger) -> str:
    r"""Return the lines that the author of a message wrote; quoted lines and a signature are counted.

    >>> own_lines("Yes.\n\nOn 3 May Ada wrote:\n> Is it dry?\n-- \nBob", Ledger())
    'Yes.'
    """
    kept: list[str] = []
    lines = text.split("\n")
    quoted, signed, was_quoted = 0, 0, False
    for at, line in enumerate(lines):
        if line.rstrip("\r") == _SIGN:
            signed = sum(bool(one.strip()) for one in lines[at + 1 :])
            break
        if _ORIGINAL.match(line):
            quoted += sum(bool(one.strip()) for one in lines[at:])
            break
        if _QUOTED.match(line):
            if not was_quoted:
                quoted += _without_who(kept)
            quoted, was_quoted = quoted + 1, True
        else:
            was_quoted = was_quoted and not line.strip()
            kept.append(line)
    ledger.add_named(LEFT_OUT, "quoted lines", quoted)
    ledger.add_named(LEFT_OUT, "lines of signatures", signed)
    return _BLANKS.sub("\n\n", "\n".join(kept)).strip("\n")


def _without_who(kept: list[str]) -> int:
    """Take the lines away that say who wrote what follows, if the last ones do; return how many they were."""
    end = len(kept)
    while end and not kept[end - 1].strip():
        end -= 1
    if not end or not _COLON.search(kept[end - 1]):
        return 0
    start = end
    for first in range(end - 1, max(-1, end - 1 - _LINES_OF_WHO), -1):
        if not kept[first].strip():
            break
        start = first if _SAYS_WHO.search(kept[first]) else start
    del kept[start:]
    return end - start


def _of_html(text: str, ledger: Ledger) -> str:
    """Return the text of HTML that the author of a message wrote."""
    page, outline = parsed(text, 1), Outline(ledger)
    for what, marks in (("quoted lines", _QUOTED_IN_HTML), ("lines of signatures", _SIGNED_IN_HTML)):
        number = 0
        for node in page.css(marks):
            number += sum(bool(line.strip()) for line in node.text(separator="\n").split("\n"))
            node.decompose()
        ledger.add_named(LEFT_OUT, what, number)
    read_parsed(page, 1, outline, has_title=True)
    outline.finish()
    return joined_text(outline)
