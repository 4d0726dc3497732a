"""Rows in which a tokenizer finds the text of an added token, such as `[MASK]`: these are left to tokenizers itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from wordpipe.compiled import kernel, read_only
from wordpipe.tokens.ragged import offsets_of

__all__ = ["AddedTokens", "added_token_patterns", "mark_rows"]

Bytes = NDArray[np.uint8]
Counts = NDArray[np.int64]


def added_token_patterns(tokenizer: Tokenizer) -> list[bytes] | None:
    """Texts of which a row must hold one, for tokenizers to find an added token in it.

    Returns:
        Sorted; None where that is not known: a token is looked for in text that the normalizer may have changed.
    """
    added = tokenizer.get_added_tokens_decoder().values()
    if tokenizer.normalizer is not None and any(token.normalized for token in added):
        return None
    return sorted({token.content.encode() for token in added if token.content})


class AddedTokens:
    """Finds the rows that hold one of some texts. Threads may share it.

    Args:
        patterns: the texts, none of them empty.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        flat = np.frombuffer(b"".join(patterns), np.uint8)
        offsets = offsets_of([len(pattern) for pattern in patterns])
        first = np.zeros(256, np.uint8)
        first[[pattern[0] for pattern in patterns]] = 1
        self._patterns = (read_only(first), read_only(flat), offsets)

    def marked(self, data: Bytes, offsets: Counts) -> NDArray[np.bool_]:
        """Whether each row holds one of the texts: bool [rows].

        Args:
            data: uint8, the text of all rows.
            offsets: int64 [rows + 1], where each begins and ends.
        """
        marked = np.zeros(len(offsets) - 1, np.uint8)
        mark_rows(read_only(data), offsets, *self._patterns, marked)
        return marked.view(np.bool_)


@kernel
def _stands_at(data: Bytes, at: int, stop: int, flat: Bytes, flat_offsets: Counts) -> bool:
    """Whether one of the patterns stands at `at`."""
    for pattern in range(len(flat_offsets) - 1):
        begin, length = flat_offsets[pattern], flat_offsets[pattern + 1] - flat_offsets[pattern]
        same = 0
        while same < length and at + same < stop and data[at + same] == flat[begin + same]:
            same += 1
        if same == length:
            return True
    return False


@kernel
def mark_rows(
    data: Bytes, offsets: Counts, first_bytes: Bytes, flat: Bytes, flat_offsets: Counts, marked: Bytes
) -> None:
    """Set `marked` (uint8 [rows]) of every row that holds a pattern; `first_bytes`: 1 where one begins with the byte."""
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        found = False
        while at < stop and not found:
            while at < stop and not first_bytes[data[at]]:
                at += 1
            found = at < stop and _stands_at(data, at, stop, flat, flat_offsets)
            at += 1
        marked[row] = found
