"""The vocabulary of a tokenizer: its tokens, which are special or stand for the unknown; and rows of ids in flat arrays.

A byte-level vocabulary is written in 256 printable letters, one for each byte (Radford et al. 2019).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


def offsets_of(lengths: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [rows + 1]: where rows of these lengths begin and end when they lie one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


PAD, UNK, CLS, SEP, MASK, BOS, EOS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK, BOS, EOS)


def byte_letters() -> list[str]:
    """The 256 letters, in the order of the bytes.

    Printable bytes of Latin-1 are themselves; the others become U+0100, U+0101, … in the order of the bytes.
    Source: encoder.py of GPT-2 (Radford et al., Language Models are Unsupervised Multitask Learners, 2019).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, shifted = [], 0x100
    for byte in range(256):
        letters.append(chr(byte if byte in printable else shifted))
        shifted += byte not in printable
    return letters


_LATIN = dict.fromkeys(range(256), "\uffff") | {ord(letter): chr(byte) for byte, letter in enumerate(byte_letters())}
_LETTERS = str.maketrans(dict(enumerate(byte_letters())))


def token_bytes(token: str, *, byte_level: bool) -> bytes | None:
    """The text that a token stands for; None if it is not written in byte letters, so that no text matches it."""
    if not byte_level:
        return token.encode()
    try:
        return token.translate(_LATIN).encode("latin-1")
    except UnicodeEncodeError:
        return None


def spelled_bytes(text: bytes) -> str:
    """Text in the letters that stand for its bytes."""
    return text.decode("latin-1").translate(_LETTERS)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer by their ids.

    Attributes:
        tokens: token of each id; None where an id is not taken.
        special: bool [ids], special tokens ([PAD], </s>, …), which no text is made of.
        ordinary: bool [ids], all others.
        unknown: uint32 [0 or 1], the id that stands for what the vocabulary cannot spell.
    """

    tokens: list[str | None]
    special: NDArray[np.bool_]
    ordinary: NDArray[np.bool_]
    unknown: NDArray[np.uint32]


def vocabulary_of(tokenizer: "Tokenizer") -> Vocabulary:
    """Read the vocabulary, added tokens included."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens: list[str | None] = [None] * (max(ids.values(), default=-1) + 1)
    for token, number in ids.items():
        tokens[number] = token
    special = np.zeros(len(tokens), np.bool_)
    special[[number for number, added in tokenizer.get_added_tokens_decoder().items() if added.special]] = True
    unknown = unknown_token(tokenizer)
    if unknown is not None:
        special[unknown] = True
    taken = np.array([token is not None for token in tokens], np.bool_)
    return Vocabulary(tokens, special, taken & ~special, np.array([] if unknown is None else [unknown], np.uint32))


def unknown_token(tokenizer: "Tokenizer") -> int | None:
    """The id that stands for the unknown; None where the model has none, as byte-level BPE needs none."""
    model = json.loads(tokenizer.to_str())["model"]
    if (number := model.get("unk_id")) is not None:  # Unigram
        return int(number)
    token = model.get("unk_token")
    found: int | None = None if token is None else tokenizer.token_to_id(token)
    return found


def loses_letters(tokenizer: "Tokenizer") -> bool:
    """Whether letters without a token vanish: a BPE that has no token for the unknown, and not one for every byte."""
    parts = json.loads(tokenizer.to_str())
    model = parts["model"]
    if model.get("type") != "BPE" or model.get("unk_token") is not None:
        return False
    if is_byte_level(tokenizer):
        return not set(byte_letters()) <= set(model["vocab"])
    return not (model.get("byte_fallback") and all(f"<0x{byte:02X}>" in model["vocab"] for byte in range(256)))


def is_byte_level(tokenizer: "Tokenizer") -> bool:
    """Whether tokens are spelled in GPT-2's letters for bytes."""
    parts = json.loads(tokenizer.to_str())
    return any("ByteLevel" in _types(parts.get(name)) for name in ("pre_tokenizer", "normalizer"))


def _types(part: Any) -> set[str]:
    if isinstance(part, dict):
        return {str(part.get("type")), *(kind for value in part.values() for kind in _types(value))}
    return {kind for value in part for kind in _types(value)} if isinstance(part, list) else set()


def number_of_ids(tokenizer: "Tokenizer") -> int:
    """How many rows a table of all ids has: one more than the largest id, as foreign files may leave numbers out."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def frame_of(tokenizer: "Tokenizer") -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text."""
    probe = tokenizer.encode("a")
    marks = probe.special_tokens_mask
    before = marks.index(0) if 0 in marks else len(marks)
    after = marks[::-1].index(0) if 0 in marks else 0
    return probe.ids[:before], probe.ids[len(marks) - after :]
