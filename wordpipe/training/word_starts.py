"""Which tokens begin a word, so that words can be hidden whole.

The tokens artifact lists a sentence's words beside its tokens, but not which token belongs to which word. That is found
again here: the tokens are spelled out, and the same scanner that found the words (`tokens.words`) runs over the result.
Byte-level tokens and those with ▁ spell the text with its spaces, so the words are the same ones. Tokens with ## say
only that something goes on: there a word is what ## holds together, "isn't" three of them, as in BERT.

A token that is no part of a word (punctuation, a space) stands by itself, as does each token of a script without spaces.
"""

import json

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from wordpipe.compiled import read_only
from wordpipe.errors import ArtifactError
from wordpipe.tokens.ragged import offsets_of
from wordpipe.tokens.scan.codepoints import UNSPACED, code_point_classes
from wordpipe.tokens.scan.scanning import SCANNERS
from wordpipe.tokens.vocabulary import is_byte_level, token_bytes, vocabulary_of

__all__ = ["WordStarts"]

_SPACE_MARK = "▁"
_BREAK = b"\n"  # special and unknown tokens: no word goes on across them
_NO_LETTER = b"\x00" * 4  # behind the last row: the scanner may look there if a row ends inside a character


class WordStarts:
    """Finds the tokens that begin a word.

    Args:
        tokenizer: what made the ids.

    Raises:
        ArtifactError: its tokens do not tell where spaces were.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        spelled = _spelled(tokenizer)
        self._bytes = np.frombuffer(b"".join(spelled), np.uint8)
        self._offsets = offsets_of([len(text) for text in spelled])
        self._classes = np.zeros(1 << 21, np.uint8)  # room for what four broken bytes may come to, too
        self._classes[: len(code_point_classes())] = code_point_classes()
        self._classes.flags.writeable = False

    def __call__(self, ids: npt.NDArray[np.unsignedinteger], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each token begins a word or belongs to none.

        Args:
            ids: of all rows, one after the other, (N,).
            lengths: of the rows; no word goes on from one to the next.

        Returns:
            bool, (N,).
        """
        begins_N, text = self._spell(ids)
        rows = begins_N[offsets_of(lengths)]
        starts, ends = (np.empty(len(text) + 1, np.int32) for _ in range(2))
        count = SCANNERS["words"](read_only(text), rows, self._classes, starts, ends, np.empty(len(lengths), np.int64))
        starts, ends = starts[:count], ends[:count]
        at_N = begins_N[:-1]
        word_N = np.searchsorted(starts, at_N, side="left") - 1  # the last word that begins before the token does
        goes_on_N = (word_N >= 0) & (at_N < np.append(ends, 0)[word_N])
        is_letter_start_N = text[at_N] & 0xC0 != 0x80
        unspaced = np.append(self._is_unspaced(text, starts), False)
        is_start_N: npt.NDArray[np.bool_] = ~goes_on_N | (unspaced[word_N] & is_letter_start_N)
        return is_start_N

    def _spell(self, ids: npt.NDArray[np.unsignedinteger]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Where each token begins in the text, and where the last one ends, (N + 1,); the text and some room behind it."""
        first_N = self._offsets[ids]
        begins_N = offsets_of(self._offsets[ids.astype(np.int64) + 1] - first_N)
        text = np.zeros(int(begins_N[-1]) + len(_NO_LETTER), np.uint8)
        places = np.arange(begins_N[-1]) + np.repeat(first_N - begins_N[:-1], np.diff(begins_N))
        text[: begins_N[-1]] = self._bytes[places]
        return begins_N, text

    def _is_unspaced(self, text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Which words begin with a letter of a script without spaces; such letters have three bytes or four."""
        first, second, third, fourth = (text[starts + k].astype(np.int64) & 0x3F for k in range(4))
        three = (first & 0x0F) << 12 | second << 6 | third
        four = (first & 0x07) << 18 | second << 12 | third << 6 | fourth
        lead = text[starts]
        classes = self._classes[np.where(lead >= 0xF0, four, three)]
        is_unspaced: npt.NDArray[np.bool_] = (lead >= 0xE0) & (classes & UNSPACED != 0)
        return is_unspaced


def _spelled(tokenizer: Tokenizer) -> list[bytes]:
    """The text that each id stands for."""
    vocabulary, byte_level = vocabulary_of(tokenizer), is_byte_level(tokenizer)
    tokens = [
        token if ordinary else None for token, ordinary in zip(vocabulary.tokens, vocabulary.ordinary, strict=True)
    ]
    model = json.loads(tokenizer.to_str())["model"]
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    has_spaces = byte_level or any(token and (" " in token or _SPACE_MARK in token) for token in tokens)
    if not (has_spaces or prefix or suffix or model["type"] == "WordLevel"):
        raise ArtifactError(
            "the tokenizer's tokens do not tell where words begin",
            expected="tokens with a mark for spaces (Ġ, ▁) or for what goes on (##)",
            hint="give --mask-unit token, or tokenize with --pretokenizer auto",
        )
    return [_spell(token, prefix, suffix, byte_level=byte_level, has_spaces=has_spaces) for token in tokens]


def _spell(token: str | None, prefix: str, suffix: str, *, byte_level: bool, has_spaces: bool) -> bytes:
    if token is None:
        return _BREAK
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">") and not byte_level:  # byte fallback
        return bytes([int(token[3:5], 16)])
    goes_on = bool(prefix) and token.startswith(prefix) and len(token) > len(prefix)
    token = token[len(prefix) :] if goes_on else token
    ends = bool(suffix) and token.endswith(suffix)
    token = token[: -len(suffix)] if ends else token
    before = b"" if goes_on or has_spaces or suffix else b" "
    text = token_bytes(token if byte_level else token.replace(_SPACE_MARK, " "), byte_level=byte_level)
    return before + (_BREAK if text is None else text) + (b" " if ends else b"")
