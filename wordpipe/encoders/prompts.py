"""Prompts: text that stands before every text and every query of an encoder that was taught with it ("query: ").

A prompt and its text are cut into tokens together, as they are read. The tokens of the prompt are those with which every such
text begins. They stand before each window of a long text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np
from tokenizers import Tokenizer

from wordpipe.encoders.encoder import ENCODER_FILE
from wordpipe.encoders.windows import Ids, gathered
from wordpipe.errors import ArtifactError
from wordpipe.tokens import library_errors

ROLES = ("text", "query")
_FOLLOWING = ("a", "B c", "1 2", "é", "文")  # texts that begin in different ways


@dataclass(frozen=True)
class Prompts:
    """The prompts of an encoder, as it reads texts or queries.

    Attributes:
        texts: role (text, query) → prompt.
        ids_of: role → its ids.
        role: what is read now.
    """

    texts: Mapping[str, str]
    ids_of: Mapping[str, Sequence[int]]
    role: str = "text"

    @classmethod
    def of(cls, texts: Mapping[str, str], tokenizer: Tokenizer) -> "Prompts":
        """Return prompts, cut by the encoder's tokenizer.

        Raises:
            ArtifactError: another role, or a prompt that is no text.
        """
        if not all(role in ROLES and isinstance(text, str) for role, text in texts.items()):
            raise ArtifactError("the prompts of the encoder cannot be read", where=ENCODER_FILE, got=str(texts)[:80])
        return cls(dict(texts), {role: _begins(tokenizer, text) for role, text in texts.items() if text})

    @property
    def of_queries(self) -> "Prompts":
        """Return the same prompts for reading queries."""
        return replace(self, role="query")

    @property
    def text(self) -> str:
        """The prompt of what is read."""
        return self.texts.get(self.role, "")

    @property
    def ids(self) -> Sequence[int]:
        """The ids of the prompt of what is read."""
        return self.ids_of.get(self.role, ())

    @cached_property
    def longest(self) -> int:
        """Ids of the longest prompt: a window has room for them, so that it is as long for queries as for texts."""
        return max(map(len, self.ids_of.values()), default=0)

    def before(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts with the prompt before each; an empty text stays empty."""
        return [text and self.text + text for text in texts] if self.ids else texts

    def cut(self, ids: Ids, offsets: Ids) -> tuple[Ids, Ids]:
        """Return the ids of texts, and where each begins and ends, without the ids of the prompt.

        Where the first letters of a text join the last token of the prompt, that token counts as the prompt's.

        Args:
            ids: of all texts with the prompt before them.
            offsets: (N + 1,).
        """
        if not self.ids:
            return ids, offsets
        cut_N = np.minimum(np.diff(offsets), len(self.ids))
        left_N = np.diff(offsets) - cut_N
        return gathered(ids, offsets[:-1] + cut_N, left_N), np.concatenate([[0], np.cumsum(left_N)])


def _begins(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the ids with which every text after this prompt begins."""
    with library_errors("the tokenizer cannot encode the prompt", "tokenizer.json"):
        found = [tokenizer.encode(prompt + text, add_special_tokens=False).ids for text in _FOLLOWING]
    same = takewhile(lambda ids: len({*ids}) == 1, zip(*found, strict=False))
    return [ids[0] for ids in same]
