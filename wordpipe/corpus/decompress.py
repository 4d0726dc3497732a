"""gzip, bzip2, xz and zstandard streams in small steps: members one after another, never more than a bound at once.

A stream that ends early is an error, never a shorter text; one that grows beyond all reason is refused while it grows.
The standard library's files take garbage after a member for the end, and know no bound on an xz header's memory.
"""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO, Literal

import zstandard

from wordpipe.errors import InputError, StorageError

Compression = Literal["none", "gz", "bz2", "xz", "zst"]

BLOCK = 1 << 20  # bytes read or given at a time
_ALWAYS_ALLOWED = 64 << 20  # output that is never called a bomb
_XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MiB; a crafted header may ask for 4 GiB
_ZST_WINDOW = 128 << 20  # what the zstd command itself accepts by default
_ZST_STEP = 1 << 10  # zstandard has no bound on its output; 1 KiB says at most 32 MiB (256 blocks of 128 KiB)

_MAGIC: dict[Compression, re.Pattern[bytes]] = {
    "gz": re.compile(rb"\x1f\x8b"),
    "bz2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_DAMAGED = (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError, zstandard.ZstdError)


def compression_of(head: bytes) -> Compression:
    """The compression that the first bytes of a stream announce."""
    return next((kind for kind, magic in _MAGIC.items() if magic.match(head)), "none")


class ExpansionLimit:
    """The bound on decompression: a source may grow to `max_expand` times its size, and to 64 MiB in any case."""

    def __init__(self, name: str, max_expand: int) -> None:
        self.name, self.max_expand = name, max_expand
        self.taken = 0
        self.given = 0

    def add(self, number: int) -> None:
        """Note `number` bytes of output. Raises InputError: the ratio is over the bound."""
        self.given += number
        if self.given > _ALWAYS_ALLOWED and self.given > self.max_expand * self.taken:
            raise InputError(
                "looks like a decompression bomb",
                where=self.name,
                got=f"{self.given >> 20} MiB out of {self.taken} bytes",
                expected=f"at most {self.max_expand}:1 after {_ALWAYS_ALLOWED >> 20} MiB",
                hint="if the source is to be trusted, raise --max-expand",
            )


_MEMBERS: dict[Compression, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
    "zst": lambda: zstandard.ZstdDecompressor(max_window_size=_ZST_WINDOW).decompressobj(),
}


def decompress_blocks(blocks: Iterator[bytes], kind: Compression, limit: ExpansionLimit) -> Iterator[bytes]:
    """Decompressed blocks, all members of the stream in order.

    Raises:
        InputError: the stream is damaged, ends early, or grows beyond the bound.
    """
    if kind == "none":
        yield from blocks
        return
    for out in _members(blocks, kind, limit):
        limit.add(len(out))
        if out:
            yield out


def _members(blocks: Iterator[bytes], kind: Compression, limit: ExpansionLimit) -> Iterator[bytes]:
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
                raise InputError(f"the {kind} stream is damaged", where=limit.name, got=error) from None
            member = None if member.eof else member
    if member is not None or not members:
        raise InputError(f"the {kind} stream ends early", where=limit.name, hint="fetch or make the file again")


def _output(member: Any, kind: Compression, data: bytes) -> Generator[bytes, None, bytes]:
    """What a compressed member makes of `data`, in blocks of bounded size; returns what lies behind its end."""
    if kind == "gz":
        while data and not member.eof:
            yield member.decompress(data, BLOCK)
            data = member.unconsumed_tail
    elif kind == "zst":
        for start in range(0, len(data), _ZST_STEP):
            yield member.decompress(data[start : start + _ZST_STEP])
            if member.eof:
                return bytes(member.unused_data + data[start + _ZST_STEP :])
    else:  # bzip2 and xz keep by themselves what they have not used of the input
        yield member.decompress(data, BLOCK)
        while not member.needs_input and not member.eof:
            yield member.decompress(b"", BLOCK)
    return bytes(member.unused_data)


def read_blocks(file: BinaryIO, name: str, on_block: Callable[[bytes], None]) -> Iterator[bytes]:
    """Read a file in blocks of 1 MiB, calling `on_block` with each.

    Raises:
        StorageError: reading failed; never taken for the end of the file.
    """
    offset = 0
    while True:
        try:
            block = file.read(BLOCK)
        except OSError as error:
            raise StorageError("reading failed", where=f"{name}, byte {offset}", got=error.strerror or error) from None
        if not block:
            return
        on_block(block)
        offset += len(block)
        yield block
