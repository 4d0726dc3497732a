"""TF-IDF and latent semantic indexing (LSI): texts as sparse rows of weighted terms, or of their strongest directions.

Shapes: N texts, V terms, K directions.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from wordpipe.metrics import unit_rows

_STREAM = 0x151  # separates this draw from every other use of a seed

Analyse = Callable[[Any], list[str]]
"""The terms of a text, or of whatever stands for one, in order, each as often as it stands there."""


@dataclass(frozen=True)
class Tfidf:
    """Terms weighted by (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), for a term tf times in the text and in df of N texts.

    Source: Salton and Buckley 1988, "Term-weighting approaches in automatic text retrieval" (ltc, the df smoothed by one
    text that holds every term).
    """

    analyse: Analyse
    column_of: dict[str, int]  # of a term
    idf: npt.NDArray[np.float32]  # (V,)

    @classmethod
    def fit(cls, texts: Sequence[Any], analyse: Analyse) -> "Tfidf":
        """Learn the terms of N texts and how rare they are; columns are in the order in which terms first come."""
        df: Counter[str] = Counter()  # which keeps the order in which terms first come
        for text in texts:
            df.update(dict.fromkeys(analyse(text), 1))
        idf = 1 + np.log((1 + len(texts)) / (1 + np.array([*df.values()], dtype=np.float64)))
        return cls(analyse, {term: column for column, term in enumerate(df)}, idf.astype(np.float32))

    def vectors(self, texts: Sequence[Any]) -> Any:
        """(N, V) float32 `scipy.sparse.csr_array`, rows of length 1; a text without a known term is an empty row."""
        starts = [0]
        columns: list[int] = []
        counts: list[int] = []
        for text in texts:
            known = Counter(column for term in self.analyse(text) if (column := self.column_of.get(term)) is not None)
            columns += known.keys()
            counts += known.values()
            starts.append(len(columns))
        at = np.array(columns, dtype=np.int64)
        values = (1 + np.log(np.array(counts, dtype=np.float64))) * self.idf[at]
        row_of = np.repeat(np.arange(len(texts)), np.diff(starts))
        lengths_N = np.sqrt(np.bincount(row_of, weights=values * values, minlength=len(texts)))
        shape = (len(texts), len(self.idf))
        return sp.csr_array(((values / lengths_N[row_of]).astype(np.float32), at, np.array(starts)), shape=shape)


@dataclass(frozen=True)
class LatentSpace:
    """Latent semantic indexing: the K leading right singular vectors of a matrix of texts and terms.

    Source: Deerwester et al. 1990, "Indexing by Latent Semantic Analysis"; a text is folded in as the projection of its
    terms, query and document alike.
    """

    directions: npt.NDArray[np.float32]  # (V, K), orthonormal columns, the strongest first

    @classmethod
    def fit(cls, texts_NV: Any, dim: int) -> "LatentSpace":
        """Find `dim` directions of a scipy sparse array; fewer where the matrix is not so large.

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
