"""The two matrices of word vectors: on the device while they are trained, and as arrays of the host before and after."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wordpipe.errors import BudgetError

__all__ = ["Matrices", "check_memory"]

_BLOCK = 65_536  # rows filled together
_STREAM = 0x70C4  # separates the initial vectors from every other use of the seed


class Matrices:
    """The words' vectors and their output vectors, each (V + 1, D) float32: the last row stays zero and stands for "no word".

    Vectors begin uniform in ±1/(2 D), output vectors at zero, as in word2vec.c.

    Attributes:
        inputs: on the device.
        outputs: on the device.
        slots: (V + 1,) int64, scratch of `climb`.
    """

    def __init__(self, size: int, dim: int, seed: int, device: torch.device) -> None:
        self._host = {name: torch.zeros((size + 1, dim)) for name in ("inputs", "outputs")}
        random = np.random.default_rng([seed, _STREAM])
        for first in range(0, size, _BLOCK):
            some = self._host["inputs"].numpy()[:size][first : first + _BLOCK]
            some[:] = (random.random(some.shape, dtype=np.float32) - np.float32(0.5)) / np.float32(dim)
        self.inputs, self.outputs = (matrix.to(device) for matrix in self._host.values())
        self._away = False  # whether the device may be ahead of the host
        self.slots = torch.zeros(size + 1, dtype=torch.int64, device=device)

    @contextmanager
    def on_device(self) -> Iterator[None]:
        """While this lasts the device has the newest numbers; before and after, the host's arrays do and may be written to."""
        for matrix, host in self._pairs():
            matrix.copy_(host)
        self._away = True
        try:
            yield
        finally:
            self.arrays()
            self._away = False

    def arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """The host's arrays by name, (V, D), with what the device has reached. On a CPU they are the same memory."""
        for matrix, host in self._pairs() if self._away else ():
            host.copy_(matrix)
        return {name: host.numpy()[:-1] for name, host in self._host.items()}

    def finite(self) -> bool:
        """Whether every number is one; waits for the device."""
        return all(bool(torch.isfinite(matrix.sum())) for matrix in (self.inputs, self.outputs))

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Each matrix of the device with its like on the host, where these are two."""
        both = zip((self.inputs, self.outputs), self._host.values(), strict=True)
        return [(matrix, host) for matrix, host in both if matrix is not host]


def check_memory(size: int, dim: int, batch_bytes: int, free: int) -> None:
    """Check that the matrices and a batch fit on the device, before anything is allocated.

    Args:
        size: words of the vocabulary.
        dim: numbers per vector.
        batch_bytes: what a batch needs beside the matrices.
        free: bytes free on the device.

    Raises:
        BudgetError: they do not.
    """
    matrices = 2 * (size + 1) * dim * 4
    if matrices + batch_bytes > free:
        raise BudgetError(
            f"2 matrices of {size:,} words × {dim} numbers × 4 bytes and a batch of {batch_bytes / 1e9:.1f} GB do not fit",
            where="device memory",
            got=f"{free / 1e9:.1f} GB free",
            expected=f"{(matrices + batch_bytes) / 1e9:.1f} GB",
            hint="raise --min-count, lower --dim, or train on the CPU with --backend native",
        )
