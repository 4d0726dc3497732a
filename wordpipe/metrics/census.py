"""What a whole table of vectors holds, told while it streams by: lengths, vectors that are none, and those that come again."""

import numpy as np
import numpy.typing as npt

__all__ = ["Census"]


class Census:
    """Counts over vectors that stream by; remembers 8 bytes of each, to find those that are equal.

    Attributes:
        rows: vectors seen.
        not_finite: those with a number that is NaN or infinite.
        zero: those of length 0.
        shortest: the least length of the others; infinite where there is none.
        longest: the largest.
    """

    def __init__(self, dim: int) -> None:
        self.rows = self.not_finite = self.zero = 0
        self.shortest, self.longest = float("inf"), 0.0
        self._factors_D = np.random.default_rng(0).integers(0, 1 << 64, size=dim, dtype=np.uint64) | np.uint64(1)
        self._hashes: list[npt.NDArray[np.uint64]] = []

    def add(self, vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Take vectors (N, D) into account; which of them are finite and not zero, (N,)."""
        lengths_N = np.linalg.norm(vectors_ND.astype(np.float64), axis=1)
        finite_N = np.isfinite(lengths_N)
        good_N: npt.NDArray[np.bool_] = finite_N & (lengths_N > 0)
        self.rows += len(vectors_ND)
        self.not_finite += int((~finite_N).sum())
        self.zero += int((finite_N & ~good_N).sum())
        if good_N.any():
            self.shortest = min(self.shortest, float(lengths_N[good_N].min()))
            self.longest = max(self.longest, float(lengths_N[good_N].max()))
            self._hashes.append(self._hashed(vectors_ND[good_N]))
        return good_N

    @property
    def repeated(self) -> int:
        """Vectors (finite, not zero) that equal an earlier one bit for bit."""
        if not self._hashes:
            return 0
        self._hashes = [np.concatenate(self._hashes)]
        return len(self._hashes[0]) - len(np.unique(self._hashes[0]))

    def _hashed(self, vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
        """64 bits of each: a sum of its numbers' bits times fixed odd factors, modulo 2**64."""
        bits_ND = np.ascontiguousarray(vectors_ND).view(np.uint32)
        hashes_N = np.zeros(len(bits_ND), np.uint64)
        for column_N, factor in zip(bits_ND.T, self._factors_D, strict=True):
            mixed_N = column_N * factor  # a uint32 times a uint64 is a uint64
            hashes_N += mixed_N ^ (mixed_N >> np.uint64(32))
        return hashes_N
