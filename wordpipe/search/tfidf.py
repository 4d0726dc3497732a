"""Texts as sparse vectors of their terms, the plain measure of likeness that anything learned has to beat.

Shapes: N texts, V terms.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

__all__ = ["Analyse", "Tfidf"]

Analyse = Callable[[str], list[str]]
"""A text's terms in order, each as often as it stands there."""


@dataclass(frozen=True)
class Tfidf:
    """Terms weighted by (1 + ln tf) · (1 + ln((1 + N) / (1 + df))), for a term tf times in the text and in df of N texts.

    Attributes:
        analyse: text to terms.
        column_of: term → column.
        idf: (V,) float32.

    Source: Salton and Buckley 1988, "Term-weighting approaches in automatic text retrieval" (ltc, the df smoothed by one
    text that holds every term).
    """

    analyse: Analyse
    column_of: dict[str, int]
    idf: npt.NDArray[np.float32]

    @classmethod
    def fit(cls, texts: Sequence[str], analyse: Analyse) -> "Tfidf":
        """Learn the terms of N texts and how rare they are; columns are in the order in which terms first come."""
        column_of: dict[str, int] = {}
        df: list[int] = []
        for text in texts:
            for term in dict.fromkeys(analyse(text)):
                column = column_of.setdefault(term, len(column_of))
                if column == len(df):
                    df.append(0)
                df[column] += 1
        idf = 1 + np.log((1 + len(texts)) / (1 + np.array(df, dtype=np.float64)))
        return cls(analyse, column_of, idf.astype(np.float32))

    def vectors(self, texts: Sequence[str]) -> Any:
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
