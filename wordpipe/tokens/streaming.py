"""Tokens to text as they come."""

from collections.abc import Sequence

from tokenizers import Tokenizer

__all__ = ["TextStream"]

_CUT = "\ufffd"  # what decoding puts where bytes make no character (yet)


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
        """The text that became whole and safe with this token; often none."""
        self._new.append(token_id)
        whole = self._decode(self._known + self._new)
        return "" if whole.endswith(_CUT) else self._take(whole)

    def end(self) -> str:
        """What was held back, when no more tokens come."""
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
        """Give out what can be no part of a stop string."""
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
    """How many characters at the end of a text may begin a stop string.

    >>> _possible_stop("to be or", ["or not", "not"])
    2
    """
    longest = 0
    for stop in stops:
        lengths = range(min(len(stop) - 1, len(text)), longest, -1)
        longest = next((length for length in lengths if text.endswith(stop[:length])), longest)
    return longest
