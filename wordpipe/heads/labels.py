"""Labels of records: their names, how often each comes, texts that contradict each other, which records are held out."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    """Whether this stands among scores where there is none: such records are left out, and make no classes of the others.

    >>> [value for value in ("4.2", "n/a", " NaN", float("inf"), None, "good") if is_no_score(value)]
    ['n/a', ' NaN', inf, None]
    """
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or (isinstance(value, str) and value.strip().lower().lstrip("+-") in _NO_SCORES)


@dataclass
class LabelCounts:
    """How often each label comes.

    Attributes:
        counts: by name.
        without: records that have none.
    """

    counts: Counter[str] = field(default_factory=Counter)
    without: int = 0

    def add(self, labels: Sequence[str]) -> None:
        """One more record."""
        self.counts.update(labels)
        self.without += not labels

    @property
    def names(self) -> tuple[str, ...]:
        """All labels, in the order of their names: a model's labels do not depend on the order of its records."""
        return tuple(sorted(self.counts))

    def shown(self, most: int = 12) -> str:
        """The most frequent ones, with their numbers.

        >>> counts = LabelCounts()
        >>> for label in "bab":
        ...     counts.add([label])
        >>> counts.shown()
        'b 2, a 1'
        """
        ranked = sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0]))
        parts = [f"{name} {count:,}" for name, count in ranked[:most]]
        if len(ranked) > most:
            parts.append(f"and {len(ranked) - most:,} more labels {sum(count for _, count in ranked[most:]):,}")
        return ", ".join(parts)


@dataclass
class Contradictions:
    """Texts that come more than once, with other labels.

    Attributes:
        number: records whose text came before with another label.
        examples: where, and the two labels, of the first few.
    """

    number: int = 0
    examples: list[str] = field(default_factory=list)
    _known: dict[bytes, tuple[str, str]] = field(default_factory=dict)

    def add(self, texts: Sequence[str], label: str, where: str) -> None:
        """One more record.

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
            self.examples.append(f"{place} says {before} and {where} {label}")


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def is_held_out(texts: Sequence[str], share: float) -> bool:
    """Whether a record is held out: a function of its text alone, so that the same text is never on both sides."""
    return int.from_bytes(_hash("held out\0" + "\0".join(texts)), "big") < share * float(1 << 8 * _DIGEST)


def balanced_weights(names: Sequence[str], counts: Mapping[str, int]) -> npt.NDArray[np.float32]:
    """Weights by which each label counts as much as each other: n / (labels × its number); 1 in the mean over records.

    >>> balanced_weights(["a", "b"], {"a": 1, "b": 3}).tolist()
    [2.0, 0.6666666865348816]
    """
    numbers = np.array([max(1, counts[name]) for name in names], np.float64)
    weights: npt.NDArray[np.float32] = (numbers.sum() / (len(names) * numbers)).astype(np.float32)
    return weights
