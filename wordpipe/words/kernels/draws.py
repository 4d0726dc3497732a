"""Random draws that depend on nothing but a key and a counter.

Whether a word is skipped, how far its window reaches and which noise words it meets are functions of (seed, epoch, position in
the text). So the order in which chunks are trained, and where a run was stopped, change no draw.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.compiled import inlined, kernel, scrambled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)


@inlined
def mixed(key: np.uint64, counter: int) -> np.uint64:
    """64 random bits: the `counter`-th number of the stream `key`.

    Source: Steele, Lea, Flood 2014, "Fast Splittable Pseudorandom Number Generators", SplitMix64.
    """
    return scrambled(key + np.uint64(counter) * _STEP)


@kernel
def _mixed(key: np.uint64, counter: int) -> np.uint64:
    return mixed(key, counter)


def key_of(seed: int, epoch: int, purpose: int) -> np.uint64:
    """The key of one epoch's draws for one purpose."""
    key = np.uint64(seed)
    for number in (epoch, purpose):
        key = np.uint64(_mixed(key, number + 1))
    return key


@dataclass(frozen=True, slots=True)
class Noise:
    """A distribution over rows, drawn from in two look-ups.

    Attributes:
        limits: (V,) uint32: a draw that falls into cell i stands for row i below this limit, else for `others[i]`.
        others: (V,) int32.

    Source: Walker 1977, "An Efficient Method for Generating Discrete Random Variables with General Distributions"; Vose 1991.
    """

    limits: npt.NDArray[np.uint32]
    others: npt.NDArray[np.int32]

    @classmethod
    def of(cls, weights: npt.NDArray[np.float64]) -> "Noise":
        """Draw rows with probabilities in proportion to `weights` (V,), which are positive."""
        share = weights * (len(weights) / weights.sum())
        limits = np.empty(len(weights), dtype=np.uint32)
        others = np.empty(len(weights), dtype=np.int32)
        _fill_cells(share, limits, others)
        return cls(limits, others)


@kernel
def _fill_cells(share: npt.NDArray[np.float64], limits: npt.NDArray[np.uint32], others: npt.NDArray[np.int32]) -> None:
    """Fill the rest of every cell that is not full from one that has too much."""
    lacking, abundant = np.empty(len(share), dtype=np.int32), np.empty(len(share), dtype=np.int32)
    n_lacking = n_abundant = 0
    for row in range(len(share)):
        limits[row], others[row] = np.uint32(0xFFFFFFFF), row
        if share[row] < 1:
            lacking[n_lacking] = row
            n_lacking += 1
        else:
            abundant[n_abundant] = row
            n_abundant += 1
    while n_lacking and n_abundant:
        n_lacking -= 1
        row, giver = lacking[n_lacking], abundant[n_abundant - 1]
        limits[row], others[row] = np.uint32(share[row] * 2.0**32), giver
        share[giver] -= 1 - share[row]
        if share[giver] < 1:
            n_abundant -= 1
            lacking[n_lacking] = giver
            n_lacking += 1


@inlined
def draw_noise(bits: np.uint64, limits: npt.NDArray[np.uint32], others: npt.NDArray[np.int32]) -> np.int64:
    """The row that 64 random bits stand for."""
    cell = np.int64(((bits >> np.uint64(32)) * np.uint64(len(limits))) >> np.uint64(32))
    return cell if np.uint32(bits & _LOW) < limits[cell] else np.int64(others[cell])


def keep_limits(keep_V: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """Probabilities as the largest 32-bit draw that keeps a word, (V,) uint32."""
    limits: npt.NDArray[np.uint32] = (np.clip(keep_V, 0, 1) * (2.0**32 - 1)).astype(np.uint32)
    return limits


@kernel
def subsample(
    text: npt.NDArray[np.int32], position: int, keep: npt.NDArray[np.uint32], key: np.uint64,
    rows: npt.NDArray[np.int32], places: npt.NDArray[np.int64], firsts: npt.NDArray[np.bool_],
) -> int:  # fmt: skip
    """The words of a chunk that are left by subsampling, to be trained in this epoch.

    Args:
        text: rows, the first word of a text as `~row`.
        position: where in the whole text the chunk begins.
        keep: for every row the largest draw that keeps it.
        key: of this epoch's skipping.
        rows: room for as many as there are words; filled with the rows of the words left.
        places: the same; filled with their positions in the whole text.
        firsts: the same; whether no word left of the same text comes before in the chunk.

    Returns:
        how many are left.
    """
    kept = 0
    first = True
    for at in range(len(text)):
        row = text[at]
        if row < 0:
            row = ~row
            first = True
        if np.uint32(mixed(key, position + at) & _LOW) <= keep[row]:
            rows[kept], places[kept], firsts[kept] = row, position + at, first
            kept += 1
            first = False
    return kept
