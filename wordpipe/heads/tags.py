"""Tags of words, and the spans they mean: reading IOB1, IOB2, IOBES and BILOU as conlleval does, and legal sequences.

    word   Angela  Merkel  visited  Rio    de     Janeiro
    IOB2   B-PER   I-PER   O        B-LOC  I-LOC  I-LOC
    BILOU  B-PER   L-PER   O        B-LOC  I-LOC  L-LOC

A tag without a prefix (a part of speech) is a span of its own for each word.

Source: conlleval.pl of the CoNLL-2000 shared task (`startOfChunk`, `endOfChunk`); Ramshaw & Marcus 1995 (IOB).
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

OUTSIDE = "O"
_PREFIXES = frozenset("BIESLU")
_WORD = re.compile(r"\S+")
_GOES_ON, _ENDS = frozenset("IEL"), frozenset("ESLU")


def words_of(text: str) -> list[tuple[int, int]]:
    """Where the words of a tagged text stand, in characters: whatever white space parts.

    >>> words_of("New  York!")
    [(0, 3), (5, 10)]
    """
    return [match.span() for match in _WORD.finditer(text)]


class Chunk(NamedTuple):
    """A span of words."""

    label: str
    first: int
    end: int  # the word after the last one


def split_tag(tag: str) -> tuple[str, str]:
    """Prefix and label; ("", label) of a tag without a prefix, ("O", "") of no span.

    >>> split_tag("B-PER"), split_tag("O"), split_tag("NOUN"), split_tag("I")
    (('B', 'PER'), ('O', ''), ('', 'NOUN'), ('I', ''))
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if tag in _PREFIXES:
        return tag, ""
    prefix, dash, label = tag.partition("-")
    return (prefix, label) if dash and prefix in _PREFIXES else ("", tag)


def chunks_of(tags: Iterable[str]) -> list[Chunk]:
    """The spans that a sequence of tags means, in any of the schemes, legal or not, as conlleval counts them.

    >>> chunks_of(["B-LOC", "I-LOC", "I-PER", "O", "U-LOC"])
    [Chunk(label='LOC', first=0, end=2), Chunk(label='PER', first=2, end=3), Chunk(label='LOC', first=4, end=5)]
    """
    found: list[Chunk] = []
    open_label, first, before, place = None, 0, OUTSIDE, -1
    for place, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        goes_on = open_label is not None and prefix in _GOES_ON and label == open_label and before not in _ENDS
        if open_label is not None and not goes_on:
            found.append(Chunk(open_label, first, place))
            open_label = None
        if prefix != OUTSIDE and not goes_on:
            open_label, first = label, place
        before = prefix if prefix != "" else "S"
    if open_label is not None:
        found.append(Chunk(open_label, first, place + 1))
    return found


def tag_vocabulary(tags: Iterable[str]) -> tuple[str, ...]:
    """All tags in their order: O first, then by name.

    >>> tag_vocabulary(["I-PER", "O", "B-LOC"])
    ('O', 'B-LOC', 'I-PER')
    """
    return (OUTSIDE, *sorted({*tags} - {OUTSIDE}))


def legal_moves(tags: Sequence[str]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which tag may begin a text, follow which, and end it: (V,), (V, V) from row to column, (V,).

    Labels that never have a B are of IOB1: their I begins spans. Where the scheme marks ends (E, L, S, U), a span that is
    open must be ended.
    """
    parts = [split_tag(tag) for tag in tags]
    begun = {label for prefix, label in parts if prefix == "B"}
    marked = {label for prefix, label in parts if prefix in ("E", "L")}
    V = len(tags)
    begin_V, move_VV, end_V = np.ones(V, bool), np.ones((V, V), bool), np.ones(V, bool)
    for column, (prefix, label) in enumerate(parts):
        needs_open = prefix in ("I", "E", "L") and label in begun
        begin_V[column] = not needs_open
        end_V[column] = not (prefix in ("B", "I") and label in marked)
        for row, (before, its_label) in enumerate(parts):
            is_open = before in ("B", "I") and its_label == label
            if needs_open and not is_open:
                move_VV[row, column] = False
            if before in ("B", "I") and its_label in marked:
                move_VV[row, column] = prefix in ("I", "E", "L") and its_label == label
    return begin_V, move_VV, end_V


def best_tags(logprobs_TV: npt.NDArray[np.floating], tags: Sequence[str]) -> list[str]:
    """The most probable legal sequence (Viterbi); where the scheme has none, the most probable tags one by one.

    Args:
        logprobs_TV: natural log-probabilities of each tag at each word.
        tags: their names.
    """
    if not len(logprobs_TV):
        return []
    begin_V, move_VV, end_V = legal_moves(tags)
    blocked_VV = np.where(move_VV, 0.0, -np.inf)
    score_V = np.where(begin_V, logprobs_TV[0].astype(np.float64), -np.inf)
    back = []
    for now_V in logprobs_TV[1:].astype(np.float64):
        by_VV = score_V[:, None] + blocked_VV
        back.append(by_VV.argmax(0))
        score_V = by_VV.max(0) + now_V
    score_V = np.where(end_V, score_V, -np.inf)
    if not np.isfinite(score_V).any():
        return [tags[int(place)] for place in logprobs_TV.argmax(1)]
    path = [int(score_V.argmax())]
    for from_V in reversed(back):
        path.append(int(from_V[path[-1]]))
    return [tags[place] for place in reversed(path)]
