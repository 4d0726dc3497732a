"""Weights of attention in figures: rollout, what a head looks at, tokens joined to words.

Arrays in, arrays out. A matrix of weights is (T, S): T queries, S keys, rows that sum to 1. L layers, H heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]

LOOKS = {
    "previous": "the token before",
    "next": "the token after",
    "same": "the token itself",
    "first": "the first token",
    "separators": "separators and ends",
}
"""What a head may look at → in words."""

_CLEARLY = 0.5  # share of the weight from which on a head is named by where it goes
_BROAD = 0.8  # share of the largest entropy from which on it is called broad
_LEFT_OUT = 2  # first queries, for which the token before is the first one, or is none


def rollout(weights_LHTT: Floats) -> Floats:
    """Return the rollout of attention: the share of each position in each position after each layer, (L, T, T).

    Source: Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", equation 1.
    """
    n_layers, _, n, _ = weights_LHTT.shape
    found, reached = np.empty((n_layers, n, n)), np.eye(n)
    for layer, weights_HTT in enumerate(weights_LHTT):
        reached = 0.5 * (weights_HTT.mean(axis=0) + np.eye(n)) @ reached
        found[layer] = reached
    return found


def join_words(weights_TS: Floats, words_T: Ints, words_S: Ints) -> Floats:
    """Join attention weights of tokens to those of words: what goes to a word's parts is summed, what comes from it averaged.

    Args:
        weights_TS: (…, T, S).
        words_T: number of the word of each query, from 0, all of them there.
        words_S: the same of the keys.

    Source: Clark et al. 2019, "What Does BERT Look At?", section 4.1.
    """
    to_SW = np.eye(int(words_S.max()) + 1)[words_S]
    from_TW = np.eye(int(words_T.max()) + 1)[words_T]
    found: Floats = (from_TW / from_TW.sum(axis=0)).T @ weights_TS @ to_SW
    return found


@dataclass
class HeadLooks:
    """Sums over texts of the weight that every head gives to each kind of token.

    Attributes:
        sums: look → (L, H), the weight that went there.
        spread: (L, H), entropies as shares of the largest that was possible.
        queries: how many were looked at.
    """

    sums: dict[str, Floats] = field(default_factory=dict)
    spread: Floats = field(default_factory=lambda: np.zeros(()))
    queries: int = 0

    def add(self, weights_LHTS: Floats, is_separator_S: npt.NDArray[np.bool_]) -> None:
        """Add the attention weights of one more text.

        The first two queries are left out, of longer texts: the token before them is the first one, or none.

        Args:
            weights_LHTS: of all heads.
            is_separator_S: which keys part or end texts; the first position is counted as the first one alone.
        """
        n_queries, n_keys = weights_LHTS.shape[2:]
        skipped = _LEFT_OUT if n_queries > 2 * _LEFT_OUT else 0
        place_T = np.arange(skipped, n_queries)
        rows = weights_LHTS[:, :, skipped:].astype(np.float64)
        for name, shift in (("previous", -1), ("next", 1), ("same", 0)):
            there = (place_T + shift >= 0) & (place_T + shift < n_keys)
            found = rows[:, :, np.flatnonzero(there), (place_T + shift)[there]]
            self._count(name, found.sum(axis=-1))
        self._count("first", rows[..., 0].sum(axis=-1))
        separators_S = is_separator_S.copy()
        separators_S[0] = False
        self._count("separators", rows[..., separators_S].sum(axis=(-1, -2)))
        # of a causal head the keys that a query can see are counted, others have no weight
        seen_T = np.maximum((rows > 0).any(axis=(0, 1)).sum(axis=-1), 2)
        logs = np.log(np.maximum(rows, 1e-12))
        self.spread = self.spread + (-(rows * logs).sum(axis=-1) / np.log(seen_T)).sum(axis=-1)
        self.queries += len(place_T)

    def _count(self, name: str, sums_LH: Floats) -> None:
        self.sums[name] = self.sums[name] + sums_LH if name in self.sums else sums_LH

    def shares(self) -> dict[str, Floats]:
        """Return look → (L, H), the mean weight of attention that goes there; `spread` is the mean entropy."""
        n = max(1, self.queries)
        found: dict[str, Floats] = {name: sums / n for name, sums in self.sums.items()}
        return found | {"spread": self.spread / n}


def name_head(shares: Mapping[str, float]) -> str:
    """Return an attention head's name by what it does: the look that has half of its weight, else broad, else mixed.

    >>> name_head({"previous": 0.7, "next": 0.1, "spread": 0.3})
    'previous'
    >>> name_head({"previous": 0.1, "next": 0.1, "spread": 0.9}), name_head({"previous": 0.3, "spread": 0.5})
    ('broad', 'mixed')
    """
    best = max(LOOKS, key=lambda name: shares.get(name, 0.0))
    if shares.get(best, 0.0) >= _CLEARLY:
        return best
    return "broad" if shares["spread"] >= _BROAD else "mixed"


def words_of_tokens(places: Sequence[tuple[int, int] | None], words: Sequence[tuple[int, int]]) -> list[int]:
    """Return the number of each token's word, by which weights of attention are joined.

    A token in no word, and one without a place, is its own.

    Args:
        places: first character of each token and the one after its last, without white space; None of a special token.
        words: the same of each word, in order.
    """
    found: list[int] = []
    number, last, place = -1, -1, 0
    for one in places:
        if one is None:
            number, last = number + 1, -1
        else:
            while place < len(words) and words[place][1] <= one[0]:
                place += 1
            inside = place < len(words) and words[place][0] < one[1]
            if not inside or place != last:
                number += 1
            last = place if inside else -1
        found.append(number)
    return found
