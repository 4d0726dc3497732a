"""Texts with gaps: a mask written in the text becomes the mask's id, and tokens are put in its place."""

import json
import re

from tokenizers import Tokenizer

from wordpipe.tokens.formats.foreign import Foreign
from wordpipe.tokens.letters import byte_letters
from wordpipe.tokens.vocabulary import is_byte_level

__all__ = ["Gaps"]

_SPACE = "▁"
_NO_CHARACTER = re.compile("[\udc80-\udcff]")  # as "surrogateescape" writes bytes that make none


class Gaps:
    """A tokenizer and its mask.

    Some tokens know whether a space stands before them (" cat" in byte-level and sentencepiece vocabularies). What such a
    model learned to put at a mask begins with that space; so a space before a mask in the text belongs to the gap, and the
    token that fills it says whether it is there. In other vocabularies spaces are as the text has them.

    Args:
        tokenizer: truncation and padding switched off.
        mask: the mask as people write it, the content of `mask_id`.
        mask_id: its id.
    """

    def __init__(self, tokenizer: Tokenizer, mask: str, mask_id: int) -> None:
        self.mask, self._mask_id = mask, mask_id
        self._byte_of = _byte_of_letter() if is_byte_level(tokenizer) else {}
        self._with_space = bool(self._byte_of) or any(
            len(token) > 1 and token.startswith(_SPACE) for token in tokenizer.get_vocab(with_added_tokens=False)
        )
        self._tokenizer = _knowing_mask(tokenizer, mask, mask_id, lstrip=self._with_space)
        self._anchor = tokenizer.encode("a", add_special_tokens=False).ids
        self._anchor_text = self._decode(self._anchor)
        twice = self._decode([*self._anchor, *self._anchor])
        self._parted = not self._with_space and " " in twice.strip()

    def ids(self, text: str) -> list[int]:
        """Ids of a text, with the mask's id wherever the mask is written, whatever the tokenizer does to other text."""
        with Foreign("the tokenizer cannot encode the text", "tokenizer.json"):
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def shown(self, token_id: int) -> str:
        """A token as text, with the space before it if it has one; ##ing as it is, parts of characters as <0x9F>."""
        token = str(self._tokenizer.id_to_token(token_id))
        if self._byte_of and all(letter in self._byte_of for letter in token):
            text = bytes(self._byte_of[letter] for letter in token).decode("utf-8", "surrogateescape")
            return _NO_CHARACTER.sub(lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)
        return self._spelled(token_id) if self._with_space and "\ufffd" not in self._spelled(token_id) else token

    def filled(self, text: str, token_ids: list[int]) -> str:
        """The text with a token in the place of each mask."""
        first, *rest = text.split(self.mask)
        for token_id, after in zip(token_ids, rest, strict=True):
            first = self._joined(first, self._spelled(token_id)) + after
        return first

    def _joined(self, before: str, spelled: str) -> str:
        if self._with_space:
            left = before.rstrip()
            return left + spelled if left else before + spelled.lstrip(" ")
        if self._parted and not spelled.startswith(" "):  # goes on with the word before it
            return before.rstrip() + spelled
        return before + spelled.removeprefix(" ")

    def _spelled(self, token_id: int) -> str:
        """The token's text in the middle of a text."""
        whole = self._decode([*self._anchor, token_id])
        return whole.removeprefix(self._anchor_text)

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text


def _byte_of_letter() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(byte_letters())}


def _knowing_mask(tokenizer: Tokenizer, mask: str, mask_id: int, *, lstrip: bool) -> Tokenizer:
    """A copy that finds the mask in the text as it is written, before anything is done to the text."""
    parts = json.loads(tokenizer.to_str())
    entry = {
        "id": mask_id, "content": mask, "single_word": False, "lstrip": lstrip, "rstrip": False, "normalized": False,
        "special": True,
    }  # fmt: skip
    others = [added for added in parts["added_tokens"] if added["id"] != mask_id]
    parts["added_tokens"] = sorted([*others, entry], key=lambda added: int(added["id"]))
    return Tokenizer.from_str(json.dumps(parts))
