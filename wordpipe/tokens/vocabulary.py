"""The vocabulary of a tokenizer: its tokens by their ids, special tokens, byte letters; and rows of ids in flat arrays.

A byte-level vocabulary is written in byte letters: 256 printable letters, one for each byte (Radford et al. 2019).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wordpipe.errors import ArtifactError, WordpipeError

if TYPE_CHECKING:
    from tokenizers import Tokenizer, processors

T = TypeVar("T", bound=np.generic)
U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


def offsets_of(lengths: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where rows of these lengths begin and end when they lie one after the other: int64 [rows + 1]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def interleaved(
    marked: Flags, there: tuple[NDArray[T], I64], elsewhere: tuple[NDArray[T], I64]
) -> tuple[NDArray[T], I64]:
    """Return ragged rows of token ids in order again: the marked rows from `there`, the others from `elsewhere`."""
    lengths = np.empty(len(marked), np.int64)
    lengths[marked], lengths[~marked] = np.diff(there[1]), np.diff(elsewhere[1])
    offsets = offsets_of(lengths)
    values: NDArray[T] = np.empty(int(offsets[-1]), there[0].dtype)
    belongs = np.repeat(marked, lengths)
    values[belongs], values[~belongs] = there[0], elsewhere[0]
    return values, offsets


PAD, UNK, CLS, SEP, MASK, BOS, EOS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK, BOS, EOS)
USUAL_NAMES = {  # of special tokens, by the role that they play
    "pad": (PAD, "<pad>", "<|pad|>"),
    "cls": (CLS,),
    "sep": (SEP,),
    "mask": (MASK, "<mask>"),
    "bos": (BOS, "<bos>", "<|startoftext|>", "<|begin_of_text|>"),
    "eos": (EOS, "<eos>", "<|endoftext|>", "<|end_of_text|>"),
    "unk": (UNK, "<unk>"),
}
CONTINUING = "##"  # stands before a WordPiece token that does not begin a word


def byte_letters() -> list[str]:
    """Return the 256 letters, in the order of the bytes.

    Printable bytes of Latin-1 are themselves; the others become U+0100, U+0101, … in the order of the bytes.
    Source: encoder.py of GPT-2 (Radford et al., Language Models are Unsupervised Multitask Learners, 2019).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, shifted = [], 0x100
    for byte in range(256):
        letters.append(chr(byte if byte in printable else shifted))
        shifted += byte not in printable
    return letters


_MAX_GAPS = 1024  # ids that a vocabulary may leave out, beside as many as it has
_LATIN = dict.fromkeys(range(256), "\uffff") | {ord(letter): chr(byte) for byte, letter in enumerate(byte_letters())}
_LETTERS = str.maketrans(dict(enumerate(byte_letters())))


def token_bytes(token: str, *, byte_level: bool) -> bytes | None:
    """Return the text of a token; None if it is not written in byte letters, so that it matches no text."""
    if not byte_level:
        return token.encode()
    try:
        return token.translate(_LATIN).encode("latin-1")
    except UnicodeEncodeError:
        return None


def spelled_bytes(text: bytes) -> str:
    """Return a text written in byte letters."""
    return text.decode("latin-1").translate(_LETTERS)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer by their ids.

    Attributes:
        tokens: token of each id; None where an id is not taken.
        special: bool [ids], special tokens ([PAD], </s>, …), which no text is made of.
        ordinary: bool [ids], all others.
        unknown: uint32 [0 or 1], the id of what the vocabulary cannot spell.
    """

    tokens: list[str | None]
    special: NDArray[np.bool_]
    ordinary: NDArray[np.bool_]
    unknown: NDArray[np.uint32]


def check_ids(ids: Mapping[str, int], where: str | Path, error: type[WordpipeError]) -> None:
    """Raise `error` if the largest id is far beyond the number of tokens: 2^32 - 1 asks for a list of 34 GB."""
    if (top := max(ids.values(), default=-1)) >= 2 * len(ids) + _MAX_GAPS:
        what = "the largest id is much larger than the number of tokens"
        raise error(what, where=where, got=f"{len(ids)} tokens, but the largest id is {top}")


def vocabulary_of(tokenizer: "Tokenizer") -> Vocabulary:
    """Read the vocabulary, added tokens included."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    check_ids(ids, "tokenizer.json", ArtifactError)
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


def text_ids(tokenizer: "Tokenizer", special: Iterable[int], n_rows: int) -> Flags:
    """Return the ids that a text is made of, bool [n_rows]: no special ones, nor rows of a table that are no token.

    Args:
        tokenizer: with at most so many ids.
        special: more ids that no text is made of, whatever the tokenizer says of them.
        n_rows: of the table of embeddings.
    """
    found, known = np.zeros(n_rows, np.bool_), vocabulary_of(tokenizer).ordinary
    found[: len(known)] = known
    found[list(special)] = False
    return found


def unknown_token(tokenizer: "Tokenizer") -> int | None:
    """Return the id of the unknown token; None where the model has none, as byte-level BPE."""
    model = json.loads(tokenizer.to_str())["model"]
    if (number := model.get("unk_id")) is not None:  # Unigram
        return int(number)
    token = model.get("unk_token")
    found: int | None = None if token is None else tokenizer.token_to_id(token)
    return found


def drops_unknown_characters(tokenizer: "Tokenizer") -> bool:
    """True if characters without a token in the vocabulary vanish: a BPE without unknown token."""
    parts = json.loads(tokenizer.to_str())
    model = parts["model"]
    if model.get("type") != "BPE" or model.get("unk_token") is not None:
        return False
    if is_byte_level(tokenizer):
        return not set(byte_letters()) <= set(model["vocab"])
    return not (model.get("byte_fallback") and all(f"<0x{byte:02X}>" in model["vocab"] for byte in range(256)))


def is_byte_level(tokenizer: "Tokenizer") -> bool:
    """True if tokens are written in byte letters."""
    parts = json.loads(tokenizer.to_str())
    return "ByteLevel" in json_texts([parts.get("pre_tokenizer"), parts.get("normalizer")], "type")


def json_texts(part: Any, key: str) -> Iterator[str]:
    """Yield every text with this key in the JSON of a tokenizer with its vocabulary."""
    if isinstance(part, dict):
        if isinstance(part.get(key), str):
            yield part[key]
        part = list(part.values())
    for value in part if isinstance(part, list) else ():
        yield from json_texts(value, key)


def special_names(tokenizer: "Tokenizer") -> dict[str, str]:
    """Return role (pad, cls, sep, mask, bos, eos, unk) → special token, for the usual names of special tokens."""
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    usual = ((role, next((name for name in names if name in added), None)) for role, names in USUAL_NAMES.items())
    found = {role: name for role, name in usual if name is not None}
    unknown = getattr(tokenizer.model, "unk_token", None)
    return found | ({"unk": unknown} if unknown and tokenizer.token_to_id(unknown) is not None else {})


def number_of_ids(tokenizer: "Tokenizer") -> int:
    """Return the rows of a table of all ids: one more than the largest id, as files of others may leave numbers out."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def template_of(tokenizer: "Tokenizer", first: str | None, last: str | None) -> "processors.TemplateProcessing":
    """Return the template that frames texts and pairs with special tokens: [CLS] A [SEP] B [SEP], in segments 0 and 1."""
    from tokenizers import processors  # not above: a vocabulary is read without it

    before, after = [first] if first else [], [last] if last else []
    return processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, "$B:1", *(f"{token}:1" for token in after)],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (*before, *after)],
    )


def frame_of(tokenizer: "Tokenizer") -> tuple[list[int], list[int]]:
    """Return the special ids of the vocabulary that a tokenizer puts before and after a text."""
    encoded = tokenizer.encode("a")
    marks = encoded.special_tokens_mask
    before = marks.index(0) if 0 in marks else len(marks)
    after = marks[::-1].index(0) if 0 in marks else 0
    return encoded.ids[:before], encoded.ids[len(marks) - after :]
