"""Random draws that depend on nothing but a key and a counter, made on the device.

Whether a word is skipped, how far its window reaches and which noise words it meets are functions of (seed, epoch, position in
the text). So neither the size of a batch nor where a run was stopped changes a draw.
"""

import torch
from torch import Tensor

__all__ = ["DRAWS", "draw", "key_of"]

DRAWS = 1 << 32
"""How many values a draw can have: it is an integer from 0 to this, exclusive."""

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key_of(*numbers: int) -> int:
    """The key of the draws that belong to some numbers, such as (seed, epoch, purpose)."""
    key = 0
    for number in numbers:
        key = int(_mixed(key, torch.tensor([number + 1], dtype=torch.int64)).item())
    return key


def draw(key: int, counter: Tensor) -> Tensor:
    """One uniform draw per counter.

    Args:
        key: of `key_of`.
        counter: int64, any shape: which numbers of the stream.

    Returns:
        int64 of the same shape, from 0 to `DRAWS`, exclusive.
    """
    return _mixed(key, counter) >> 32 & DRAWS - 1


def _mixed(key: int, counter: Tensor) -> Tensor:
    """64 random bits per counter, in int64, whose products wrap around like those of unsigned numbers.

    Source: Steele, Lea, Flood 2014, "Fast Splittable Pseudorandom Number Generators", SplitMix64.
    """
    bits = counter * _signed(_STEP) + key
    bits = (bits ^ _shifted(bits, 30)) * _signed(_FIRST)
    bits = (bits ^ _shifted(bits, 27)) * _signed(_SECOND)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """A shift to the right that fills up with zeros; torch's own repeats the sign."""
    return bits >> by & (1 << 64 - by) - 1


def _signed(number: int) -> int:
    """The int64 with the bits of a uint64."""
    return number - (1 << 64) if number >> 63 else number
