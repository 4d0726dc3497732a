"""Latent semantic indexing: texts in the space of the few directions along which their terms vary together.

Shapes: N texts, V terms, K directions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import svds

from wordpipe.metrics.vectors import unit_rows

__all__ = ["LatentSpace"]

_STREAM = 0x151  # separates this draw from every other use of a seed


@dataclass(frozen=True)
class LatentSpace:
    """The K leading right singular vectors of a matrix of texts and terms.

    Attributes:
        directions: (V, K) float32, orthonormal columns, the strongest first.

    Source: Deerwester et al. 1990, "Indexing by Latent Semantic Analysis"; a text is folded in as the projection of its
    terms, query and document alike.
    """

    directions: npt.NDArray[np.float32]

    @classmethod
    def fit(cls, texts_NV: Any, dim: int) -> "LatentSpace":
        """Find the directions.

        Args:
            texts_NV: a scipy sparse array.
            dim: directions wanted; fewer come where the matrix is not so large.

        The same matrix gives the same directions: the iteration (ARPACK) starts at a fixed vector.
        """
        k = min(dim, min(texts_NV.shape) - 1)
        if k < 1:
            return cls(np.zeros((texts_NV.shape[1], 0), dtype=np.float32))
        start = np.random.default_rng(_STREAM).standard_normal(min(texts_NV.shape))
        _, values_K, directions_KV = svds(texts_NV.astype(np.float64), k=k, v0=start, return_singular_vectors="vh")
        order = np.argsort(-values_K, kind="stable")
        return cls(directions_KV[order].T.astype(np.float32))

    def vectors(self, texts_NV: Any) -> npt.NDArray[np.float32]:
        """(N, K) float32 of length 1; zero for a text that has nothing in this space."""
        return unit_rows(np.asarray(texts_NV @ self.directions, dtype=np.float32), least=1e-6)[0]
