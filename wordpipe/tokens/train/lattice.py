"""Segmentations of words into pieces, all at once: expected counts, the best one, and what a piece is worth.

A word's segmentations are the paths through its places along edges, one edge for each piece that fits there. Sums over all
paths are taken with probabilities, not logarithms (an exponential for each edge would cost most of the time); where they get
too small for a float they are lifted by a power of two, which is counted.
"""

import numpy as np
from numpy.typing import NDArray

from wordpipe.compiled import kernel
from wordpipe.tokens.train.seed_pieces import LENGTH_BITS

__all__ = ["best_counts", "expected_counts", "removal_losses"]

_LENGTH = (1 << LENGTH_BITS) - 1
_SMALL = 2.0**-300
_LIFT = 2.0**300
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def expected_counts(
    starts: Longs, counts: Longs, edge_starts: Longs, edges: NDArray[np.uint32], chances: Floats, expected: Floats
) -> float:
    """How often each piece is used on average over all segmentations, and the log likelihood: forward-backward.

    Args:
        starts: int64 [words + 1], places where words begin.
        counts: int64 [words].
        edge_starts: int64 [places + 1]. Every place has the edge of its letter.
        edges: uint32, piece << LENGTH_BITS | length.
        chances: float64 [pieces], probabilities.
        expected: float64 [pieces], zeros; out: expected counts in the text.

    Returns:
        Natural logarithm of the probability of all words together.

    Source: Kudo, Subword Regularization, 2018, section 3.2; Rabiner, A Tutorial on Hidden Markov Models, 1989, section V.A.
    """
    longest = 0
    for word in range(len(counts)):
        longest = max(longest, starts[word + 1] - starts[word])
    forward, backward = np.zeros(longest + 1), np.zeros(longest + 1)
    lifts = np.zeros(longest + 1, np.int32)
    log_likelihood = 0.0
    for word in range(len(counts)):
        begin, size = starts[word], starts[word + 1] - starts[word]
        forward[: size + 1] = 0.0
        forward[0] = 1.0
        lifted = 0
        for i in range(size):
            if forward[i] < _SMALL:
                forward[i : min(i + _LENGTH, size) + 1] *= _LIFT
                lifted += 1
            lifts[i] = lifted
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                end = i + (edge & _LENGTH)
                if end <= size:
                    forward[end] += forward[i] * chances[edge >> LENGTH_BITS]
        whole = forward[size]
        log_likelihood += counts[word] * (np.log(whole) - lifted * np.log(_LIFT))

        backward[size] = 1.0
        back = 0
        for i in range(size - 1, -1, -1):
            if backward[i + 1] < _SMALL:
                backward[i + 1 : min(i + 1 + _LENGTH, size) + 1] *= _LIFT
                back += 1
            share = counts[word] * (forward[i] / whole)
            if lifts[i] + back != lifted:
                share *= _LIFT ** np.float64(lifted - lifts[i] - back)
            total = 0.0
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                piece = edge >> LENGTH_BITS
                onward = chances[piece] * backward[i + (edge & _LENGTH)]
                expected[piece] += share * onward
                total += onward
            backward[i] = total
    return log_likelihood


@kernel
def best_counts(
    starts: Longs, counts: Longs, edge_starts: Longs, edges: NDArray[np.uint32], scores: Floats, used: Longs
) -> None:
    """How often each piece is used when every word is segmented in its most probable way (Viterbi).

    Args:
        starts: int64 [words + 1], places where words begin.
        counts: int64 [words].
        edge_starts: int64 [places + 1].
        edges: uint32, as in `expected_counts`.
        scores: float64 [pieces], logarithms of probabilities.
        used: int64 [pieces], zeros; out: occurrences in the text.
    """
    longest = 0
    for word in range(len(counts)):
        longest = max(longest, starts[word + 1] - starts[word])
    best, last = np.empty(longest + 1), np.empty(longest + 1, np.int64)
    for word in range(len(counts)):
        begin, size = starts[word], starts[word + 1] - starts[word]
        best[: size + 1] = -np.inf
        best[0] = 0.0
        for i in range(size):
            for e in range(edge_starts[begin + i], edge_starts[begin + i + 1]):
                edge = np.int64(edges[e])
                score = best[i] + scores[edge >> LENGTH_BITS]
                end = i + (edge & _LENGTH)
                if score > best[end]:
                    best[end] = score
                    last[end] = edge
        i = size
        while i > 0:
            used[last[i] >> LENGTH_BITS] += counts[word]
            i -= last[i] & _LENGTH


@kernel
def removal_losses(
    places: Ints,
    lengths: Ints,
    edge_starts: Longs,
    edges: NDArray[np.uint32],
    scores: Floats,
    used: Longs,
    losses: Floats,
) -> None:
    """What the log likelihood of the text would lose without each piece, were its uses spelled in the next best way.

    Args:
        places: int32 [pieces], where one occurrence of each piece begins.
        lengths: int32 [pieces], in symbols.
        edge_starts: int64 [places + 1].
        edges: uint32, as in `expected_counts`.
        scores: float64 [pieces], logarithms of probabilities.
        used: int64 [pieces], from `best_counts`.
        losses: float64 [pieces], out: infinite for letters, minus infinity for pieces that no best segmentation uses.

    Source: Kudo 2018, section 3.2, step 3, approximated as in sentencepiece: new counts are the old ones plus those moved.
    """
    total = float(used.sum())
    best, last = np.empty(_LENGTH + 1), np.empty(_LENGTH + 1, np.int64)
    for piece in range(len(lengths)):
        size, place = lengths[piece], places[piece]
        if size == 1 or used[piece] == 0:
            losses[piece] = np.inf if size == 1 else -np.inf
            continue
        best[: size + 1] = -np.inf
        best[0] = 0.0
        for i in range(size):
            for e in range(edge_starts[place + i], edge_starts[place + i + 1]):
                edge = np.int64(edges[e])
                end = i + (edge & _LENGTH)
                score = best[i] + scores[edge >> LENGTH_BITS]
                if end <= size and edge >> LENGTH_BITS != piece and score > best[end]:
                    best[end] = score
                    last[end] = edge
        moved = float(used[piece])
        spelled, parts, i = 0.0, 0, int(size)
        while i > 0:
            spelled += np.log(used[last[i] >> LENGTH_BITS] + moved)
            parts += 1
            i -= int(last[i] & _LENGTH)
        spelled -= parts * np.log(total + moved * (parts - 1))
        losses[piece] = moved * (np.log(moved) - np.log(total) - spelled)
