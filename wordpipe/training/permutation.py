"""A shuffled order that need not be stored: element i of a permutation of any size, computed from (seed, i).

A Feistel network is a bijection whatever its round function, here on 2k bits, the least that hold n; what falls outside
0 … n-1 is sent round again until it falls inside. Nothing depends on a library's generator staying the same.

Source: Black & Rogaway 2002, "Ciphers with Arbitrary Finite Domains", sections 3 and 4 (cycle walking).
"""

import numpy as np
import numpy.typing as npt

from wordpipe.model.seeds import seed_of

__all__ = ["mixed_bits", "permute"]

_ROUNDS = 6


def permute(index: npt.NDArray[np.int64], n: int, seed: int) -> npt.NDArray[np.int64]:
    """Where each index goes in a random order of 0 … n-1.

    Args:
        index: numbers from 0 to n-1, int64, any shape.
        n: size of the permutation, at least 1.
        seed: which permutation.

    Returns:
        Numbers from 0 to n-1, different for different indices.
    """
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    keys = [seed_of(seed, "round", i) for i in range(_ROUNDS)]
    out = _feistel(np.asarray(index).astype(np.uint64), half_bits, keys)
    outside = out >= n
    while outside.any():  # fewer than four walks on average, as 2^(2k) is at most 4n
        out[outside] = _feistel(out[outside], half_bits, keys)
        outside = out >= n
    return out.astype(np.int64)


def _feistel(x: npt.NDArray[np.uint64], half_bits: int, keys: list[int]) -> npt.NDArray[np.uint64]:
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = x >> bits, x & mask
    for key in keys:
        left, right = right, left ^ (mixed_bits(right ^ np.uint64(key)) & mask)
    return (left << bits) | right


def mixed_bits(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Finaliser of SplitMix64 (Steele et al. 2014): every input bit changes about half of the output bits.

    Args:
        x: uint64, any shape.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
