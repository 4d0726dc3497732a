"""A compact set of digests, by which exact duplicates are known."""

__all__ = ["Digests"]

_SIZE = 10  # bytes: the 80 bits of a doc_id, which two of a billion different texts share once in a million corpora
_FIRST_SLOTS = 1 << 12
_EMPTY = bytes(_SIZE)  # no digest of a text: one in 2**80 would be


class Digests:
    """Remembers digests of 10 bytes in one table with open addressing: 16 to 32 bytes for each.

    A Python set of them takes 120 bytes each, which a corpus of short documents feels: 10 million lines are 1.2 GB.
    """

    def __init__(self) -> None:
        self._count = 0
        self._slots = _FIRST_SLOTS
        self._table = bytearray(self._slots * _SIZE)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, digest: bytes) -> bool:
        place = self._place(digest)
        return self._table[place : place + _SIZE] == digest

    def add(self, digest: bytes) -> bool:
        """Remember `digest` (10 evenly distributed bytes); False where it was known."""
        if 8 * self._count >= 5 * self._slots:
            self._grow()
        place = self._place(digest)
        if self._table[place : place + _SIZE] == digest:
            return False
        self._table[place : place + _SIZE] = digest
        self._count += 1
        return True

    def _place(self, digest: bytes) -> int:
        """Offset of the slot that holds the digest, or of the free one where it belongs."""
        table, mask = self._table, self._slots - 1
        slot = int.from_bytes(digest, "little") & mask
        while True:
            held = table[slot * _SIZE : slot * _SIZE + _SIZE]
            if held in (digest, _EMPTY):
                return slot * _SIZE
            slot = (slot + 1) & mask

    def _grow(self) -> None:
        old, self._slots = self._table, 2 * self._slots
        self._table = bytearray(self._slots * _SIZE)
        for start in range(0, len(old), _SIZE):
            digest = bytes(old[start : start + _SIZE])
            if digest != _EMPTY:
                place = self._place(digest)
                self._table[place : place + _SIZE] = digest
