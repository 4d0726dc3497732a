"""The parts of a sentencepiece `.model` file that decide its ids, read from the protobuf wire format.

The format is ModelProto of sentencepiece_model.proto: pieces (1), trainer_spec (2) and normalizer_spec (3). Every length is
checked against what is there, so the work is bounded by the size of the file.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from wordpipe.errors import InputError

__all__ = [
    "BPE", "BYTE", "CONTROL", "NORMAL", "UNIGRAM", "UNKNOWN", "UNUSED", "USER_DEFINED", "Piece", "SentencePieceModel",
    "parse_model",
]  # fmt: skip

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Piece:
    """One piece: its text, its log probability or negative rank, and what kind it is."""

    text: str
    score: float
    kind: int


@dataclass
class SentencePieceModel:
    """What is read of a model; the defaults are those of the format."""

    pieces: list[Piece] = field(default_factory=list)
    algorithm: int = UNIGRAM
    whitespace_as_suffix: bool = False
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True


def parse_model(data: bytes, where: str) -> SentencePieceModel:
    """Read a model.

    Raises:
        InputError: not a protobuf, or not one of sentencepiece.
    """
    model = SentencePieceModel()
    try:
        for number, value in _fields(memoryview(data)):
            if number == 1:
                model.pieces.append(_piece(_bytes(value)))
            elif number == 2:
                _trainer_spec(_bytes(value), model)
            elif number == 3:
                _normalizer_spec(_bytes(value), model)
    except (ValueError, struct.error) as error:
        raise InputError("not a sentencepiece model, or damaged", where=where, got=error) from None
    if not model.pieces:
        raise InputError("not a sentencepiece model: it has no pieces", where=where)
    return model


def _piece(data: memoryview) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in _fields(data):
        if number == 1:
            text = bytes(_bytes(value)).decode()
        elif number == 2:
            (score,) = struct.unpack("<f", _bytes(value))
        elif number == 3:
            kind = _integer(value)
    if not text or not math.isfinite(score):
        raise ValueError(f"piece {text!r} with score {score}")
    return Piece(text, score, kind)


def _trainer_spec(data: memoryview, model: SentencePieceModel) -> None:
    for number, value in _fields(data):
        if number == 3:
            model.algorithm = _integer(value)
        elif number == 24:
            model.whitespace_as_suffix = bool(_integer(value))


def _normalizer_spec(data: memoryview, model: SentencePieceModel) -> None:
    for number, value in _fields(data):
        if number == 2:
            model.charsmap = bytes(_bytes(value))
        elif number == 3:
            model.add_dummy_prefix = bool(_integer(value))
        elif number == 4:
            model.remove_extra_whitespaces = bool(_integer(value))
        elif number == 5:
            model.escape_whitespaces = bool(_integer(value))


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: an integer for a varint, the bytes of everything else."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {kind}")
        if number == 0 or size > len(data) - at:
            raise ValueError(f"field {number} of {size} bytes where {len(data) - at} are left")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("cut off within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError(f"number {value} where bytes are expected")
    return value


def _integer(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number is expected")
    return value
