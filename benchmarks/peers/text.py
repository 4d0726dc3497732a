"""The lines of a text file, as plain Python reads them. Imported in each peer's own environment: standard library only."""

from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20


def chunks(path: Path, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """A file in pieces of whole lines, each without the end of its last line."""
    with path.open("rb") as file:
        rest = b""
        while piece := file.read(size):
            head, newline, tail = piece.rpartition(b"\n")
            if newline:
                yield rest + head
                rest = tail
            else:
                rest += piece
        if rest:
            yield rest


def line_lists(path: Path, size: int = CHUNK_BYTES) -> Iterator[list[str]]:
    """The lines as Python strings, some thousands at a time."""
    for chunk in chunks(path, size):
        yield chunk.decode().split("\n")


def letters_of_bytes() -> dict[str, int]:
    """The printable letters that stand for the 256 bytes in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}
