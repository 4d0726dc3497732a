"""The bytes of a source to text: decompressed in small steps, brought into UTF-8 if they are not, then decoded.

A compressed stream (gzip, bzip2, xz, zstandard; members one after another) that ends early is an error, never a shorter text;
one that grows beyond all reason is refused while it grows. The standard library's files take garbage after a member for the
end, and know no bound on an xz header's memory.

The text has one kind of line end, no NUL and no lone surrogates; for what is not UTF-8 there is a stated policy. Whatever is
changed or dropped is counted, and the first place of bad bytes is kept with file, line and byte.
"""

import bz2
import codecs
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO, Literal, NamedTuple

from wordpipe.corpus.documents import Ledger, cut_point
from wordpipe.errors import InputError, StorageError

Compression = Literal["none", "gz", "bz2", "xz", "zst"]

BLOCK = 1 << 20  # bytes read or given at a time
_ALWAYS_ALLOWED = 64 << 20  # output that is never called a bomb
_FIRST_ZST = 4 << 10  # bytes of the first block of a zstandard stream
_XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MiB; a crafted header may ask for 4 GiB

_MAGIC: dict[Compression, re.Pattern[bytes]] = {
    "gz": re.compile(rb"\x1f\x8b"),
    "bz2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_DAMAGED = (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError)


def compression_of(head: bytes) -> Compression:
    """Return the compression that the first bytes of a stream announce."""
    return next((kind for kind, magic in _MAGIC.items() if magic.match(head)), "none")


class ExpansionLimit:
    """The bound on decompression: a source may grow to `max_expand` times its size, and to 64 MiB in any case."""

    def __init__(self, name: str, max_expand: int) -> None:
        self.name, self.max_expand = name, max_expand
        self.taken = 0
        self.given = 0

    def add(self, number: int) -> None:
        """Note `number` decompressed bytes. Raises InputError: the ratio is over the bound."""
        self.given += number
        if self.given > _ALWAYS_ALLOWED and self.given > self.max_expand * self.taken:
            raise InputError(
                "this source looks like a decompression bomb",
                where=self.name,
                got=f"{self.given >> 20} MiB after unpacking {self.taken} compressed bytes",
                expected=f"at most {self.max_expand} times the compressed size, or at most {_ALWAYS_ALLOWED >> 20} MiB",
                hint="if you trust this source, raise --max-expand",
            )


_MEMBERS: dict[Compression, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
}


def decompress_blocks(blocks: Iterator[bytes], kind: Compression, limit: ExpansionLimit) -> Iterator[bytes]:
    """Yield decompressed blocks, all members of the stream in order.

    Raises:
        InputError: the stream is damaged, ends early, or grows beyond the bound.
    """
    if kind == "none":
        yield from blocks
        return
    for out in _zst(blocks, limit) if kind == "zst" else _members(blocks, kind, limit):
        limit.add(len(out))
        if out:
            yield out


def _members(blocks: Iterator[bytes], kind: Compression, limit: ExpansionLimit) -> Iterator[bytes]:
    """Yield the decompressed output of the members of a compressed stream."""
    member, members = None, 0
    for block in blocks:
        limit.taken += len(block)
        rest = block
        while True:
            if member is None and members:
                rest = rest.lstrip(b"\0")  # xz and tapes pad with zeros between and after members
            if not rest:
                break
            if member is None:
                member, members = _MEMBERS[kind](), members + 1
            try:
                rest = yield from _output(member, kind, rest)
            except _DAMAGED as error:
                raise _damaged(kind, limit, error) from None
            member = None if member.eof else member
    if member is not None or not members:
        raise _incomplete(kind, limit)


def _output(member: Any, kind: Compression, data: bytes) -> Generator[bytes, None, bytes]:
    """Decompress `data` in blocks of bounded size; return the bytes behind the end of the compressed member."""
    if kind == "gz":
        while data and not member.eof:
            yield member.decompress(data, BLOCK)
            data = member.unconsumed_tail
    else:  # bzip2 and xz keep by themselves what they have not used of the input
        yield member.decompress(data, BLOCK)
        while not member.needs_input and not member.eof:
            yield member.decompress(b"", BLOCK)
    return bytes(member.unused_data)


class _Pulled(io.RawIOBase):
    """A file of the blocks of an iterator; `limit` notes how many bytes of a compressed stream have been taken."""

    def __init__(self, blocks: Iterator[bytes], limit: ExpansionLimit) -> None:
        super().__init__()
        self._blocks, self._limit, self._left = blocks, limit, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._left and (block := next(self._blocks, None)) is not None:
            self._left = memoryview(block)
            self._limit.taken += len(block)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _zst(blocks: Iterator[bytes], limit: ExpansionLimit) -> Iterator[bytes]:
    """Yield the decompressed output of the members of a zstandard stream, by Arrow.

    It takes a window of 128 MiB at most, as the zstd command does, and gives no more than it is asked for. Python has such a
    module since 3.14; the package zstandard takes 24 MB.
    """
    import pyarrow as pa

    size = _FIRST_ZST
    with pa.CompressedInputStream(pa.PythonFile(_Pulled(blocks, limit), mode="r"), "zstd") as stream:
        try:
            while out := stream.read(size):
                yield out
                size = min(
                    2 * size, BLOCK
                )  # Arrow gives all of it or an error, and the head of a file is no whole stream
        except OSError as error:
            raise _incomplete("zst", limit) if "Truncated" in str(error) else _damaged("zst", limit, error) from None
    if not limit.taken:
        raise _incomplete("zst", limit)


def _damaged(kind: Compression, limit: ExpansionLimit, error: Exception) -> InputError:
    return InputError(f"the {kind} stream is damaged", where=limit.name, got=error)


def _incomplete(kind: Compression, limit: ExpansionLimit) -> InputError:
    return InputError(f"the {kind} stream is incomplete", where=limit.name, hint="download or create the file again")


def read_blocks(
    file: BinaryIO, name: str, on_block: Callable[[bytes], None], start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """Read a compressed or plain file in blocks of 1 MiB, calling `on_block` with each, for decoding.

    Args:
        file: which is at the byte `start`.
        name: of the file.
        on_block: called with each block.
        start: the first byte.
        stop: the byte to stop before; None: that is the end of the file.

    Raises:
        StorageError: reading failed; never taken for the end of the file.
    """
    offset = start
    while True:
        try:
            block = file.read(BLOCK if stop is None else min(BLOCK, stop - offset))
        except OSError as error:
            raise StorageError("reading failed", where=f"{name}, byte {offset}", got=error.strerror or error) from None
        if not block:
            if stop is not None and offset < stop:
                raise StorageError(
                    "the file became shorter while it was read", where=name, hint="run the command again"
                )
            return
        on_block(block)
        offset += len(block)
        yield block


BadBytes = Literal["replace", "skip", "fail"]

BOM = b"\xef\xbb\xbf"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_RAW_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ESCAPED = re.compile(r"[\udc80-\udcff]")  # what surrogateescape makes of bytes that are not UTF-8
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, the cursor (ECMA-48: control sequences)
    r"|(?:\x1b[\]PX^_]|\x9d)[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # titles and links: strings, at most a line
    r"|\x1b[ -/]*[0-~]"
)
_OVERSTRIKE = re.compile(r"_\x08(.)|(.)\x08_|(.)(?:\x08\3)+")  # underlined and bold, as man prints
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_END_MARK = b"\x1a"  # Ctrl-Z, which ended a text in CP/M and DOS, and padded it
BLANK_END = b"\x1a\r\n"


def without_end_marks(blocks: Iterator[bytes], ledger: Ledger) -> Iterator[bytes]:
    """Yield the blocks of a text without the Ctrl-Z at its end, which is counted."""
    held = b""
    for block in blocks:
        block = held + block
        end = block[len(block.rstrip(BLANK_END)) :]
        held = end if _END_MARK in end and len(end) < BLOCK else b""
        yield block[: len(block) - len(held)]
    if held:
        ledger.add("end_marks_removed", held.count(_END_MARK))
        yield held.replace(_END_MARK, b"")


_BAD_UNIT = "\udcff"  # becomes a byte that UTF-8 never has, so that the policy for bad bytes decides about it


def in_utf8(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the blocks of a text in another encoding as UTF-8; what the encoding does not have, as a byte that is invalid."""

    def mark(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        return _BAD_UNIT, error.end

    codecs.register_error("wordpipe.bad", mark)
    decoder = codecs.getincrementaldecoder(encoding)("wordpipe.bad")
    for block in blocks:
        if text := decoder.decode(block):
            yield text.encode(errors="surrogateescape")
    if text := decoder.decode(b"", final=True):
        yield text.encode(errors="surrogateescape")


class Decoder:
    """Decodes one source, by what to do with invalid UTF-8, and counts what it had to change.

    Args:
        name: of the source.
        bad_bytes: what to do with invalid UTF-8.
        ledger: that counts.
        start: the byte of the source where it begins to read.
        first_line: the number of the line there.
    """

    def __init__(self, name: str, bad_bytes: BadBytes, ledger: Ledger, *, start: int = 0, first_line: int = 1) -> None:
        self.name, self.bad_bytes, self.ledger = name, bad_bytes, ledger
        self._start, self._first_line = start, first_line

    def lines(self, blocks: Iterator[bytes], *, longest: int, cut_longer: bool = True) -> Iterator[tuple[int, str]]:
        r"""Yield number (from 1) and decoded text of each line, its "\n" included, in bounded memory.

        At most about `longest` bytes are held.

        A longer line comes in parts that share its number, cut at a space where there is one; with
        `cut_longer=False` it is an error.

        Raises:
            InputError: invalid UTF-8 under the policy "fail", or a line that is too long.
        """
        number, offset = self._first_line, self._start
        for chunk, is_cut in _chunks(blocks, max(longest, BLOCK)):
            if is_cut and not cut_longer:
                expected, hint = f"at most {max(longest, BLOCK)} bytes", "raise --max-document-bytes"
                where = f"{self.name}, line {number}"
                raise InputError("the record is too long", where=where, expected=expected, hint=hint)
            for part in self._parts(chunk):
                text = self._decode(part, number, offset)
                offset += len(part)
                number += text is None and part.endswith((b"\n", b"\r"))
                for line in _LINE.findall(self._tidy(text or "")):
                    yield number, line
                    number += line[-1] == "\n"

    def value(self, data: bytes, *, line: int) -> str | None:
        """Return the decoded text of one field of the record at `line`; None if the policy for bad bytes drops the field.

        Raises:
            InputError: invalid UTF-8 under the policy "fail".
        """
        text = self._decode(data, line, None)
        return None if text is None else self._tidy(text)

    def string(self, text: str) -> str:
        """Return a decoded JSON string, which may hold what UTF-8 cannot: half of a surrogate pair becomes U+FFFD."""
        if text.isprintable():  # nearly every string: no surrogate and no control character
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            self.ledger.add("lone_surrogates_replaced", len(_SURROGATE.findall(text)))
            text = _SURROGATE.sub("\ufffd", text)
        return self._tidy(text)

    def _parts(self, chunk: bytes) -> list[bytes]:
        """Return the parts of bytes that are decoded, or dropped, as a whole: the chunk, or its lines."""
        if self.bad_bytes != "skip":
            return [chunk]
        try:
            chunk.decode()
        except UnicodeDecodeError:
            return _RAW_LINE.findall(chunk)
        return [chunk]

    def _decode(self, data: bytes, line: int, offset: int | None) -> str | None:
        """Return the text of `data`, which begins at `line` and byte `offset`; None if the policy drops these bytes."""
        if offset == 0 and data.startswith(BOM):
            self.ledger.add("bom_removed")
            data, offset = data[len(BOM) :], len(BOM)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return self._mend(data, line, offset)

    def _mend(self, data: bytes, line: int, offset: int | None) -> str | None:
        """Return the text of bytes that do not decode as UTF-8, as the policy for bad bytes wants it; None: dropped.

        None if it drops these bytes.
        """
        escaped = data.decode(errors="surrogateescape")  # valid UTF-8 never gives a surrogate: each is a bad byte
        before = escaped[: next(_ESCAPED.finditer(escaped)).start()]
        place = f"{self.name}, line {line}"
        if offset is not None:
            ends = before.count("\n") + before.count("\r") - before.count("\r\n")
            place = f"{self.name}, line {line + ends}, byte {offset + len(before.encode())}"
        if self.bad_bytes == "fail":
            hint = "convert the file to UTF-8 with iconv, or use --bad-bytes replace or --bad-bytes skip"
            raise InputError("invalid UTF-8", where=place, hint=hint)
        if self.bad_bytes == "skip":
            self.ledger.warn("bad_bytes", f"a line with invalid UTF-8 was dropped: {place}")
            self.ledger.add("lines_skipped_bad_bytes")
            self.ledger.add("bytes_skipped", len(data))
            return None
        self.ledger.warn("bad_bytes", f"invalid UTF-8 was replaced by U+FFFD: {place}")
        self.ledger.add("bytes_replaced", len(_ESCAPED.findall(escaped)))
        return data.decode(errors="replace")

    def _tidy(self, text: str) -> str:
        r"""Return decoded text with "\n" for CRLF and CR, U+FFFD for NUL, and without what drives a terminal, all counted."""
        if "\r" in text:
            crlf = text.count("\r\n")
            self.ledger.add("crlf_line_ends", crlf)
            self.ledger.add("cr_line_ends", text.count("\r") - crlf)
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if "\0" in text:
            self.ledger.add("nul_replaced", text.count("\0"))
            text = text.replace("\0", "\ufffd")
        if "\x1b" in text or "\x9b" in text or "\x9d" in text or "\b" in text:
            text, sequences = _TERMINAL.subn("", text)
            text, struck = _OVERSTRIKE.subn(lambda found: found[1] or found[2] or found[3], text)
            self.ledger.add("terminal_sequences_removed", sequences + struck)
        return text


def _chunks(blocks: Iterator[bytes], longest: int) -> Iterator[tuple[bytes, bool]]:
    """Yield whole lines of bytes to decode, a block at a time; parts of lines over `longest` bytes.

    Parts of a line over `longest` bytes, with True where it goes on.
    """
    rest = b""
    for block in blocks:
        first, end = block.find(b"\n") + 1, block.rfind(b"\n") + 1
        rest += block[:first] if first else block
        while len(rest) > longest + rest.endswith(b"\n"):
            cut = cut_point(rest, longest)
            cut -= rest[cut - 1 : cut + 1] == b"\r\n"
            yield rest[:cut], True
            rest = rest[cut:]
        if end:
            yield rest + block[first:end], False
            rest = block[end:]
    if rest:
        yield rest, False


class Inner(NamedTuple):
    """The bytes of a file within another one: of an archive, of a mail."""

    file: BinaryIO  # that seeks
    depth: int  # files that it is in, in each other
    limit: ExpansionLimit  # of all that is unpacked of the outermost file


class Stamp(NamedTuple):
    """The facts of a file by which a change is noticed: bytes, nanoseconds of its last changes, number of its names."""

    size: int
    modified: int
    changed: int
    names: int

    def is_of(self, now: os.stat_result) -> bool:
        """True if the file is as it was; another name alone, as copies of objects are given, is no change."""
        same = (self.size, self.modified) == (now.st_size, now.st_mtime_ns)
        return same and (self.changed == now.st_ctime_ns or self.names != now.st_nlink)


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file, from its `os.stat_result`."""
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink)
