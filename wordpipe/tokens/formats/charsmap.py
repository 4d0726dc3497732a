"""The table of replacements in a sentencepiece model, checked before code that trusts it walks it.

The table is a length in bytes, a double-array trie of 32-bit units, and the replacements one after another, each ended by a
NUL. A unit holds its label in the low byte, the distance to its children in the bits from 10 up, and in bit 8 whether one of
them is a value; a value has bit 31 set and is a position among the replacements.
"""

import numpy as np

__all__ = ["charsmap_fault"]

_VALUE, _LEAF, _FAR = 1 << 31, 1 << 8, 1 << 9


def charsmap_fault(charsmap: bytes) -> str | None:
    """Why a walk through the trie could leave the table; None where it cannot."""
    size = int.from_bytes(charsmap[:4], "little")
    if len(charsmap) < 8 or size % 4 or not 4 <= size <= len(charsmap) - 4:
        return f"a trie of {size} bytes in a table of {len(charsmap)}"
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    texts = charsmap[4 + size :]
    try:
        texts.decode()
    except UnicodeDecodeError:
        return "replacements that are not UTF-8"
    steps = np.flatnonzero((units < _VALUE) | (np.arange(len(units)) == 0))  # from the root, and never on from a value
    children = steps ^ (units[steps] >> 10 << np.where(units[steps] & _FAR, 8, 0))
    if (children | 0xFF).max(initial=0) >= len(units):
        return "a way out of the trie"
    values = units[children[(units[steps] & _LEAF) > 0]] & (_VALUE - 1)
    starts = np.frombuffer(texts + b"\0", np.uint8)
    if values.max(initial=0) >= len(starts) or ((starts[values] & 0xC0) == 0x80).any():
        return "a replacement that begins nowhere"
    return None
