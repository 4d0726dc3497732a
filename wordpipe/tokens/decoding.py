"""Decoding: tokens to text as they come, one at a time; tokens as people read them; and tokens at masked positions."""

import json
import re
from collections.abc import Mapping, Sequence

from tokenizers import Encoding, Tokenizer

from wordpipe.tokens.read import library_errors
from wordpipe.tokens.vocabulary import is_byte_level, token_bytes, unknown_token

_SPACE = "▁"
_NO_CHARACTER = re.compile("[\udc80-\udcff]")  # as "surrogateescape" writes bytes that make none
_REPLACEMENT = "\ufffd"  # what decoding puts where bytes make no character (yet)


class TextStream:
    """The text of tokens that come one at a time: whole characters only, up to the stop string that is complete first.

    A token may hold a part of a character, and whether a space stands before it depends on the token before; so tokens are
    decoded together with those before them, back to the last place where all characters were whole. (tokenizers' DecodeStream
    does so too, but ends in an exception where a token makes an earlier one unreadable, as byte tokens can.)

    What could be the beginning of a stop string is held back until it is known not to be.

    Args:
        tokenizer: special tokens give no text.
        before: ids that the text follows; their own text is not given again.
        stops: strings that end the text; not part of it.

    Attributes:
        text: all that was given out.
        stopped: whether a stop string came.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = (), stops: Sequence[str] = ()) -> None:
        self._tokenizer, self._stops = tokenizer, tuple(stops)
        self._known, self._new, self._held = list(before), [], ""  # type: tuple[list[int], list[int], str]
        self._known_text = self._decode(self._known)
        self.text, self.stopped = "", False

    def add(self, token_id: int) -> str:
        """Return the text that became whole and safe with this token; often none."""
        self._new.append(token_id)
        whole = self._decode(self._known + self._new)
        return "" if whole.endswith(_REPLACEMENT) else self._take(whole)

    def end(self) -> str:
        """Return the decoded text that was held back; no more tokens come."""
        taken = self._take(self._decode(self._known + self._new)) if self._new else ""
        rest, self._held = self._held, ""
        self.text += rest
        return taken + rest

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def _take(self, whole: str) -> str:
        added = whole.removeprefix(self._known_text) if whole.startswith(self._known_text) else self._decode(self._new)
        self._known, self._new = self._new, []
        self._known_text = self._decode(self._known)
        return self._give(added)

    def _give(self, added: str) -> str:
        """Give out what can be no part of a stop string of the decoded text."""
        if self.stopped:
            return ""
        text = self._held + added
        found = [(place + len(stop), place) for stop in self._stops if (place := text.find(stop)) >= 0]
        self.stopped = bool(found)
        safe = min(found)[1] if found else len(text) - _possible_stop(text, self._stops)
        self._held = "" if self.stopped else text[safe:]
        self.text += text[:safe]
        return text[:safe]


def _possible_stop(text: str, stops: Sequence[str]) -> int:
    """Return how many characters at the end of decoded text may begin a stop string.

    >>> _possible_stop("to be or", ["or not", "not"])
    2
    """
    longest = 0
    for stop in stops:
        lengths = range(min(len(stop) - 1, len(text)), longest, -1)
        longest = next((length for length in lengths if text.endswith(stop[:length])), longest)
    return longest


def readable_tokens(tokenizer: Tokenizer, encoding: Encoding, text: str) -> list[str]:
    """Decode the tokens of a text for readers: with a space where a word begins, bytes as `<E6>`."""
    byte_level, unknown = is_byte_level(tokenizer), unknown_token(tokenizer)
    readable = []
    for number, token, (start, end) in zip(encoding.ids, encoding.tokens, encoding.offsets, strict=True):
        if number == unknown:
            readable.append(text[start:end])
        elif not byte_level:
            readable.append(token.replace(_SPACE, " "))
        elif (data := token_bytes(token, byte_level=True)) is None:  # a special token
            readable.append(token)
        elif _NO_CHARACTER.search(whole := data.decode("utf-8", "surrogateescape")):
            readable.append("".join(f"<{byte:02X}>" if byte > 0x7F else chr(byte) for byte in data))
        else:
            readable.append(whole)
    return readable


class MaskTokenizer:
    """A tokenizer that finds masks in a text, and puts tokens at the masked positions.

    Some tokens know whether a space stands before them (" cat" in byte-level and sentencepiece vocabularies). What such a
    model learned to put at a mask begins with that space; so a space before a mask in the text belongs to the masked position,
    and the token that fills it says whether it is there; but a word is never written on to the one before it where the text
    has a space. In other vocabularies spaces are as the text has them.

    Args:
        tokenizer: truncation and padding switched off.
        mask: the mask as people write it, the content of `mask_id`.
        mask_id: its id.
        others: further tokens that stand for what is missing, as T5's sentinels, and their ids.
    """

    def __init__(self, tokenizer: Tokenizer, mask: str, mask_id: int, others: Mapping[str, int] | None = None) -> None:
        self.mask, self._mask_id = mask, mask_id
        self._byte_level = is_byte_level(tokenizer)
        self._with_space = self._byte_level or any(
            len(token) > 1 and token.startswith(_SPACE) for token in tokenizer.get_vocab(with_added_tokens=False)
        )
        self._tokenizer = _knowing(tokenizer, {mask: mask_id, **(others or {})}, lstrip=self._with_space)
        self._anchor = tokenizer.encode("a", add_special_tokens=False).ids
        self._anchor_text = self._decode(self._anchor)
        twice = self._decode([*self._anchor, *self._anchor])
        self._parted = not self._with_space and " " in twice.strip()

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text; a mask that is written has the mask's id, whatever the tokenizer does to other text."""
        with library_errors("the tokenizer cannot encode the text", "tokenizer.json"):
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def shown(self, token_id: int) -> str:
        """Decode a token for readers, with its leading space if it has one; parts of characters as <0x9F>."""
        token = str(self._tokenizer.id_to_token(token_id))
        if self._byte_level and (data := token_bytes(token, byte_level=True)) is not None:
            text = data.decode("utf-8", "surrogateescape")
            return _NO_CHARACTER.sub(lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)
        spelled = self._spelled([token_id])
        return spelled if self._with_space and _REPLACEMENT not in spelled else token

    def filled(self, text: str, token_ids: list[int]) -> str:
        """Return the text with a token in the place of each mask."""
        return self.joined(text.split(self.mask), [[token_id] for token_id in token_ids])

    def joined(self, parts: Sequence[str], spans: Sequence[Sequence[int]]) -> str:
        """Return the decoded parts of a text as one text, with the text of a span of ids between each two."""
        first, *rest = parts
        for ids, after in zip(spans, rest, strict=True):
            first = self._joined(first, self._spelled(ids)) + after
        return first

    def _joined(self, before: str, spelled: str) -> str:
        if self._with_space:
            left = before.rstrip()
            if left and left != before and spelled[:1].isalnum():  # the text asks for a word of its own
                return before + spelled
            return left + spelled if left else before + spelled.lstrip(" ")
        if self._parted and not spelled.startswith(" "):  # goes on with the word before it
            return before.rstrip() + spelled
        return before + spelled.removeprefix(" ")

    def _spelled(self, ids: Sequence[int]) -> str:
        """Return the text of some tokens as it is in the middle of a text."""
        whole = self._decode([*self._anchor, *ids])
        return whole.removeprefix(self._anchor_text)

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text


def _knowing(tokenizer: Tokenizer, masks: Mapping[str, int], *, lstrip: bool) -> Tokenizer:
    """Return a copy of a tokenizer that finds masks, so that masked texts can be decoded."""
    parts = json.loads(tokenizer.to_str())
    entries = [
        {"id": number, "content": content, "single_word": False, "lstrip": lstrip, "rstrip": False, "normalized": False,
         "special": True}
        for content, number in masks.items()
    ]  # fmt: skip
    others = [added for added in parts["added_tokens"] if added["id"] not in masks.values()]
    parts["added_tokens"] = sorted([*others, *entries], key=lambda added: int(added["id"]))
    return Tokenizer.from_str(json.dumps(parts))
