"""Labels of texts and tags of words: names, counts, contradictions, what is held out; spans, and legal sequences of tags.

Tags are read in IOB1, IOB2, IOBES and BILOU, as conlleval does:

    word   Angela  Merkel  visited  Rio    de     Janeiro
    IOB2   B-PER   I-PER   O        B-LOC  I-LOC  I-LOC
    BILOU  B-PER   L-PER   O        B-LOC  I-LOC  L-LOC

A tag without a prefix (a part of speech) is a span of its own for each word.

Source: conlleval.pl of the CoNLL-2000 shared task (`startOfChunk`, `endOfChunk`); Ramshaw & Marcus 1995 (IOB).
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.errors import shortened

_DIGEST = 8  # bytes of a hash of a text
_SHOWN = 3  # contradictions that are named
_LONGEST = 40  # characters of a label that are shown: the tags of a text may be many
_NO_SCORES = {
    "", "-", "?", "na", "n/a", "nan", "nat", "null", "none", "<na>", "#n/a", "inf", "infinity", "missing", "unknown",
}  # fmt: skip


def is_no_score(value: Any) -> bool:
    """Return True if a value stands for a missing score: its record is left out, and the others stay scores.

    >>> [value for value in ("4.2", "n/a", " NaN", float("inf"), None, "good") if is_no_score(value)]
    ['n/a', ' NaN', inf, None]
    """
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or (isinstance(value, str) and value.strip().lower().lstrip("+-") in _NO_SCORES)


@dataclass
class LabelCounts:
    """The number of records of each label.

    Attributes:
        counts: by name.
        without: records that have none.
    """

    counts: Counter[str] = field(default_factory=Counter)
    without: int = 0

    def add(self, labels: Sequence[str]) -> None:
        """Count the labels of one more record."""
        self.counts.update(labels)
        self.without += not labels

    @property
    def names(self) -> tuple[str, ...]:
        """All labels, in the order of their names: a model's labels do not depend on the order of its records."""
        return tuple(sorted(self.counts))

    def shown(self, most: int = 12) -> str:
        """Return the most frequent labels with their numbers, as text.

        >>> counts = LabelCounts()
        >>> for label in "bab":
        ...     counts.add([label])
        >>> counts.shown()
        'b 2, a 1'
        """
        ranked = sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0]))
        parts = [f"{name} {count:,}" for name, count in ranked[:most]]
        if len(ranked) > most:
            parts.append(
                f"and {len(ranked) - most:,} more labels ({sum(count for _, count in ranked[most:]):,} in total)"
            )
        return ", ".join(parts)


@dataclass
class Contradictions:
    """Texts that come more than once, with different labels.

    Attributes:
        number: records whose text came before with another label.
        examples: where, and the two labels, of the first few.
    """

    number: int = 0
    examples: list[str] = field(default_factory=list)
    _known: dict[bytes, tuple[str, str]] = field(default_factory=dict)

    def add(self, texts: Sequence[str], label: str, where: str) -> None:
        """Compare the label of one more record with the label of an earlier equal text.

        Args:
            texts: its text, or both of a pair.
            label: what it is labelled as.
            where: its source and line.
        """
        key = _hash("\0".join(texts))
        before, place = self._known.setdefault(key, (label, where))
        if before == label:
            return
        self.number += 1
        if len(self.examples) < _SHOWN:
            before, label = shortened(before, _LONGEST), shortened(label, _LONGEST)
            self.examples.append(f"{place} has the label {before}, but {where} has the label {label}")


def _hash(text: str) -> bytes:
    """Return a digest of a labelled text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def is_held_out(texts: Sequence[str], share: float) -> bool:
    """Return True if a record is held out: a function of its text alone, so that the same text is never on both sides."""
    return int.from_bytes(_hash("held out\0" + "\0".join(texts)), "big") < share * float(1 << 8 * _DIGEST)


def balanced_weights(names: Sequence[str], counts: Mapping[str, int]) -> npt.NDArray[np.float32]:
    """Return weights by which each label counts as much as each other: n / (labels × its number); 1 in the mean over records.

    >>> balanced_weights(["a", "b"], {"a": 1, "b": 3}).tolist()
    [2.0, 0.6666666865348816]
    """
    numbers = np.array([max(1, counts[name]) for name in names], np.float64)
    weights: npt.NDArray[np.float32] = (numbers.sum() / (len(names) * numbers)).astype(np.float32)
    return weights


OUTSIDE = "O"
_PREFIXES = frozenset("BIESLU")
_WORD = re.compile(r"\S+")
_GOES_ON, _ENDS = frozenset("IEL"), frozenset("ESLU")


def words_of(text: str) -> list[tuple[int, int]]:
    """Return the places of the words of a text with labelled words (tags), in characters.

    >>> words_of("New  York!")
    [(0, 3), (5, 10)]
    """
    return [match.span() for match in _WORD.finditer(text)]


class Chunk(NamedTuple):
    """A labelled span of words."""

    label: str
    first: int
    end: int  # the word after the last one


def split_tag(tag: str) -> tuple[str, str]:
    """Return the prefix and the label of a tag; ("", label) of a tag without a prefix, ("O", "") of no span.

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
    """Return the spans that a sequence of tags means, in any of the schemes, legal or not, as conlleval does.

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
    """Return all tags in their order: O first, then by name.

    >>> tag_vocabulary(["I-PER", "O", "B-LOC"])
    ('O', 'B-LOC', 'I-PER')
    """
    return (OUTSIDE, *sorted({*tags} - {OUTSIDE}))


def legal_moves(tags: Sequence[str]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the tags that may begin a text, (V,), follow each other, (V, V) from row to column, and end a text, (V,).

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
    """Return the most probable legal sequence of tags (Viterbi); where the scheme has none, the most probable tags one by one.

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
