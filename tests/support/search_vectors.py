"""Vectors to search: random ones, and clusters as texts make them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.search import Built, Parts, build_index
from wordpipe.search.settings import IndexSettings

Vectors = npt.NDArray[np.float32]


def unit(n: int, dim: int, seed: int, *, clusters: int = 0) -> Vectors:
    """Unit vectors, around `clusters` centres where that is not 0."""
    rng = np.random.default_rng(seed)
    vectors_ND = rng.standard_normal((n, dim))
    if clusters:
        vectors_ND += 1.5 * rng.standard_normal((clusters, dim))[rng.integers(clusters, size=n)]
    return (vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)).astype(np.float32)


def built(vectors_ND: Vectors, *, block: int = 700, parts: Parts | None = None, **values: Any) -> Built:
    """An index over the vectors, which come in blocks; also in parts, where they are given."""

    def blocks() -> Iterator[Vectors]:
        for first in range(0, len(vectors_ND), block):
            yield vectors_ND[first : first + block]

    return build_index(blocks, *vectors_ND.shape, IndexSettings(**({"threads": 1} | values)), parts=parts)


def exact(vectors_ND: Vectors, query_D: Vectors, k: int) -> list[int]:
    """Brute force in float64: the k best rows, equal scores in the order of rows."""
    scores = vectors_ND.astype(np.float64) @ query_D.astype(np.float64)
    return np.lexsort((np.arange(len(scores)), -scores))[:k].tolist()
