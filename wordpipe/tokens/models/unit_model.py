"""What the compiled models of single pre-tokens share: their interface, and the letters that stand for bytes.

A byte-level vocabulary is written in 256 printable letters, one for each byte (Radford et al. 2019). A model that is
compiled for raw text has its vocabulary turned back into bytes instead, so that no text is ever turned into letters.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import read_only
from wordpipe.tokens.letters import byte_letters

__all__ = ["CODE_POINTS", "Bytes", "UnitModel", "fallback_ids", "letter_codes", "token_bytes"]

CODE_POINTS = 0x110000
_NO_LATIN = "\uffff"


class Bytes(NamedTuple):
    """How the bytes of a unit are read.

    Attributes:
        byte_level: each byte is a letter of its own; otherwise the unit is UTF-8 and a letter is a code point.
        letters: int32 [256], the code point of the letter that stands for a byte; used when `byte_level`.
        fallback: int32 [256], the id of the token `<0xNN>` of each byte or -1; all are -1 without byte fallback.
    """

    byte_level: bool
    letters: NDArray[np.int32]
    fallback: NDArray[np.int32]


class UnitModel:
    """Encodes pre-tokens, each by itself, to the ids that Hugging Face tokenizers gives them. Threads may share it.

    Args:
        kernel: called with data, starts, ends, the parts, and the arrays to fill: ids, offsets and unsure of `encode`.
        parts: the model, as the kernel takes it.

    Attributes:
        ids_per_byte: a unit of n bytes has at most max(1, n * ids_per_byte) ids.
    """

    ids_per_byte = 1

    def __init__(self, kernel: Callable[..., None], *parts: object) -> None:
        self._kernel, self._parts = kernel, parts

    def encode(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.bool_]]:
        """Encode units of a text.

        Args:
            data: uint8, contiguous, holds the units' UTF-8: the text itself, also where the vocabulary is byte-level.
            starts: int64 [units], where each unit begins in `data`.
            ends: int64 [units], where it ends.

        Returns:
            ids: uint32, of all units in order.
            offsets: int64 [units + 1], unit u has `ids[offsets[u]:offsets[u + 1]]`.
            unsure: bool [units], where there is no answer (and no ids): tokenizers raises an error for such a unit.
        """
        units = len(starts)
        capacity = (int(np.sum(ends - starts)) + units) * self.ids_per_byte
        ids = np.empty(capacity, np.uint32)
        offsets = np.zeros(units + 1, np.int64)
        unsure = np.zeros(units, np.bool_)
        self._kernel(read_only(data), read_only(starts), read_only(ends), *self._parts, ids, offsets, unsure)
        return ids[: offsets[units]].copy(), offsets, unsure


def letter_codes() -> NDArray[np.int32]:
    """The code point of the letter that stands for each byte: int32 [256]."""
    return np.array([ord(letter) for letter in byte_letters()], np.int32)


def token_bytes(token: str, *, byte_level: bool) -> bytes | None:
    """The text that a token stands for; None if it is not written in byte letters, so that no text matches it."""
    if not byte_level:
        return token.encode()
    try:
        return token.translate(_LATIN).encode("latin-1")
    except UnicodeEncodeError:
        return None


def fallback_ids(vocabulary: Mapping[str, int], *, wanted: bool) -> NDArray[np.int32]:
    """Ids of `<0x00>` to `<0xFF>`, -1 where the vocabulary has none or byte fallback is not wanted: int32 [256]."""
    names = (f"<0x{byte:02X}>" for byte in range(256))
    return np.fromiter((vocabulary.get(name, -1) if wanted else -1 for name in names), np.int32, 256)


_LATIN = dict.fromkeys(range(256), _NO_LATIN) | {code: chr(byte) for byte, code in enumerate(map(ord, byte_letters()))}
