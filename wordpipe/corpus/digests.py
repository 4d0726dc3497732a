"""Sets of digests, by which documents and ids of records are known: small ones in a dict, large ones in a packed table."""

import numpy as np
import numpy.typing as npt
from blake3 import blake3

DIGEST_BYTES = 10
"""Bytes of a doc_id: 80 bits, which two of a billion different texts share once in a million corpora."""

_FIRST_SLOTS = 1 << 12
_MOST_RECENT = (
    1 << 17
)  # digests that are in a dict, which takes 15 MB: a document takes 0.1 µs there, and 4 µs in the table
_SOURCE_BYTES, _LINE_BYTES = 4, 6
_EMPTY = bytes(DIGEST_BYTES)  # no digest of a text: one in 2**80 would be


class Digests:
    """A set of digests of 10 bytes, by which exact duplicates are known: one table with open addressing, 16 to 32 bytes each.

    A Python set of them takes 120 bytes each: 1.2 GB for a corpus of 10 million lines. The digests added last are in a dict,
    and go to the table many at a time.

    Args:
        note_bytes: of a note that is kept with every digest.
    """

    def __init__(self, note_bytes: int = 0) -> None:
        self._count = 0
        self._width = DIGEST_BYTES + note_bytes
        self._table = bytearray()
        self._recent: dict[bytes, bytes] = {}

    def note(self, digest: bytes) -> bytes | None:
        """Return the note that was kept with a digest; None if the digest is not known."""
        if digest in self._recent:
            return self._recent[digest]
        return self._held(digest) if self._count else None

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._recent or (self._count > 0 and self._held(digest) is not None)

    def add(self, digest: bytes, note: bytes = b"") -> bool:
        """Remember the digest of a document (10 evenly distributed bytes); False where it was known."""
        if digest in self._recent or (self._count and self._held(digest) is not None):
            return False
        self._recent[digest] = note
        if len(self._recent) >= _MOST_RECENT:
            self._pack()
        return True

    def _held(self, digest: bytes) -> bytes | None:
        """Return the note of a digest in the table; None if the table does not have the digest."""
        table, width = self._table, self._width
        mask = len(table) // width - 1
        slot = int.from_bytes(digest, "little") & mask
        while True:
            held = table[slot * width : slot * width + DIGEST_BYTES]
            if held == digest:
                return bytes(table[slot * width + DIGEST_BYTES : (slot + 1) * width])
            if held == _EMPTY:
                return None
            slot = (slot + 1) & mask

    def _pack(self) -> None:
        """Put the digests of the dict into the table, which grows so that at most five eighths of its slots are used."""
        new = self._rows(bytearray(b"".join(digest + note for digest, note in self._recent.items())))
        self._recent.clear()
        self._count += len(new)
        slots = max(_FIRST_SLOTS, len(self._table) // self._width)
        while 8 * self._count > 5 * slots:
            slots *= 2
        if slots * self._width > len(self._table):
            old = self._rows(self._table)
            new = np.concatenate([old[old["digest"] != b""], new])
            self._table = bytearray(slots * self._width)
        self._insert(new)

    def _rows(self, data: bytearray) -> npt.NDArray[np.void]:
        """Return slots of the table as an array: the digest, the number that begins it, and the whole slot."""
        names = {"number": ("<u8", 0), "digest": (f"S{DIGEST_BYTES}", 0), "whole": (f"V{self._width}", 0)}
        kind = np.dtype(
            {
                "names": [*names], "formats": [kind for kind, _ in names.values()],
                "offsets": [at for _, at in names.values()], "itemsize": self._width,
            }
        )  # fmt: skip
        return np.frombuffer(data, dtype=kind)

    def _insert(self, new: npt.NDArray[np.void]) -> None:
        """Insert different digests, none of which is in the table, all together: each round those that find a free slot."""
        table, mask = self._rows(self._table), np.uint64(len(self._table) // self._width - 1)
        slots = new["number"] & mask
        while len(new):
            free = np.flatnonzero(table["digest"][slots] == b"")
            table["whole"][slots[free]] = new["whole"][free]  # of several at one slot the last one stays
            waits = table["digest"][slots] != new["digest"]
            new, slots = new[waits], (slots[waits] + np.uint64(1)) & mask


class RecordIds:
    """The ids of all records that were kept, each with the place of its record: 32 to 64 bytes of memory each."""

    def __init__(self) -> None:
        self._places = Digests(_SOURCE_BYTES + _LINE_BYTES)
        self._sources: list[str] = []
        self._numbers: dict[str, int] = {}

    def claim(self, key: str, source: str, line: int) -> str | None:
        """Give an id to the document of the record at a place; return the place of another record that has the id."""
        digest = _digest_of(key)
        note = self._number(source).to_bytes(_SOURCE_BYTES, "little") + line.to_bytes(_LINE_BYTES, "little")
        if self._places.add(digest, note) or (found := self._places.note(digest)) in (note, None):
            return None  # the parts of a long record share its place
        number = int.from_bytes(found[:_SOURCE_BYTES], "little")
        return f"{self._sources[number]}, line {int.from_bytes(found[_SOURCE_BYTES:], 'little')}"

    def __contains__(self, key: str) -> bool:
        return _digest_of(key) in self._places

    def _number(self, source: str) -> int:
        """Return the number of a source whose records have ids."""
        if source not in self._numbers:
            self._numbers = {source: len(self._sources)}  # asked for again and again, and then never again
            self._sources.append(source)
        return self._numbers[source]


def record_key(own_id: str, digest: bytes) -> bytes:
    """Return the digest that identifies a record: of its id (or of all its other fields) and its text."""
    return _digest_of(f"{own_id}\0{digest.hex()}")


def _digest_of(key: str) -> bytes:
    """Return the digest of a document's key."""
    return blake3(key.encode()).digest(DIGEST_BYTES)
