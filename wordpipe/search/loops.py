"""The inner loops of a search by NumPy: for few queries, without the half second that `kernels` takes to be imported.

`kernels` has all of them compiled, by the same names, and gives the same bits.

Shapes: N texts, P postings of one term, C candidates, K hits, M pairs of a term and one of R texts.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from wordpipe.search.hits import Hits, Rows
from wordpipe.search.hits import Vectors as Floats
from wordpipe.search.hits import best_of as best_of
from wordpipe.search.lexical.packed_lists import Counts, Int32s
from wordpipe.search.lexical.packed_lists import unpack as unpack

CANDIDATES = (
    100  # of each side that are fused; with 50, 100, 200 and 400 hybrid search gained 3.5, 3.6, 3.6 and 3.7 points
)


def among(rows_C: Int32s, allowed: npt.NDArray[np.bool_] | None) -> Int32s:
    """Return those of the rows that are allowed; all where None."""
    return rows_C if allowed is None else rows_C[allowed[rows_C]]


def border_of(scores_C: Floats, k: int) -> float:
    """Return the k-th best of some scores, 0 where there are fewer."""
    return float(np.partition(scores_C, len(scores_C) - k)[len(scores_C) - k]) if len(scores_C) >= k else 0.0


def gains_of(counts_P: npt.NDArray[Any], damping_P: Floats, in_field: np.float32) -> Floats:
    """Return tf / (tf + damping) of terms in texts, (P,) float32; of a term that stands in fields alone `in_field`."""
    tf = counts_P.astype(np.float32)
    gains_P: Floats = np.where(counts_P > 0, tf / (tf + damping_P), in_field)
    return gains_P


def add_gains(
    rows_P: Int32s, counts_P: Counts, damping_N: Floats, in_field: np.float32, weight: np.float32, scores_N: Floats,
    new_P: Int32s,
) -> int:  # fmt: skip
    """Add what a term adds to its texts' scores, by NumPy, as `kernels.add_gains`: for one query without importing numba."""
    if len(rows_P) and (rows_P.min() < 0 or rows_P.max() >= len(scores_N)):
        return -1
    before = scores_N[rows_P]
    scores_N[rows_P] = before + weight * gains_of(counts_P, damping_N[rows_P], in_field)
    new = rows_P[before == 0]
    new_P[: len(new)] = new
    return len(new)


def add_looked_up(
    rows_C: Int32s,
    scores_C: Floats,
    least: float,
    rows_P: Int32s,
    counts_P: Counts,
    damping_N: Floats,
    in_field: np.float32,
    weight: np.float32,
) -> int:
    """Add what a term adds to the scores of some texts, by NumPy, as `kernels.add_looked_up`."""
    near = np.flatnonzero(scores_C >= least)
    rows = rows_C[near]
    places = np.minimum(np.searchsorted(rows_P, rows), len(rows_P) - 1)
    own = np.flatnonzero(rows_P[places] == rows)
    gains = np.zeros(len(rows), np.float32)
    gains[own] = weight * gains_of(counts_P[places[own]], damping_N[rows[own]], in_field)
    rows_C[: len(rows)], scores_C[: len(rows)] = rows, scores_C[near] + gains
    return len(rows)


def take_scores(
    rows_T: Int32s, allowed_N: npt.NDArray[np.bool_], least: float, scores_N: Floats, rows_C: Int32s, scores_C: Floats
) -> int:
    """Take the scores of texts that have one, by NumPy, as `kernels.take_scores`, in one run: four times as fast in order."""
    rows_T = np.sort(rows_T)
    scores_T = scores_N[rows_T]
    kept = scores_T >= least
    if len(allowed_N):
        kept &= allowed_N[rows_T]
    scores_N[rows_T] = 0
    n = int(kept.sum())
    rows_C[:n], scores_C[:n] = rows_T[kept], scores_T[kept]
    return n


def distinct(rows_M: Rows) -> Rows:
    """Return the rows, each once."""
    return np.unique(rows_M)


def term_gains(
    at_M: Rows, numbers_M: npt.NDArray[np.integer[Any]], counts_M: Floats, damping_R: Floats
) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.float64]]:
    """Return the T terms of some texts, and what each adds to the scores of all but for its idf, (T,) each.

    The text of rank r counts 1 / r; what stands in fields alone counts nothing, and is none of the T.

    Args:
        at_M: the rank of the text, from 0.
        numbers_M: the term.
        counts_M: how often it stands in the text, 0 in its fields alone.
        damping_R: what stands beside tf in the denominator, of each text.
    """
    is_text = counts_M > 0
    tf, of_texts = counts_M[is_text], at_M[is_text]
    gains = tf / (tf + damping_R[of_texts]) / (of_texts + 1)
    numbers_T, at = np.unique(numbers_M[is_text], return_inverse=True)
    gains_T: Any = np.bincount(at, weights=gains, minlength=len(numbers_T))
    return numbers_T, gains_T


def score_range(hits: Hits, candidates: int = CANDIDATES) -> tuple[float, float]:
    """Return the lowest and the highest score of the first `candidates`, of one at least."""
    return float(hits.scores[:candidates].min()), float(hits.scores[:candidates].max())


def normalised(hits: Hits, candidates: int = CANDIDATES) -> Floats:
    """Return scores to fuse in a hybrid search from 0 to 1 (min-max), (K,); all 1 where they are equal.

    What comes after the first `candidates` has 0: were the line drawn through all, a hit's score would depend on how many
    were wanted.
    """
    if not len(hits.rows):
        return hits.scores
    low, high = (np.float32(end) for end in score_range(hits, candidates))
    if high > low:
        return ((hits.scores - low) / (high - low)).clip(min=0)
    return (hits.scores >= low).astype(np.float32)


def fuse(dense: Hits, lexical: Hits, weight: float, k: int, *, candidates: int = CANDIDATES) -> Hits:
    """Return the k best by weight · dense + (1 - weight) · lexical, each normalised to 0 to 1; a row not found has 0.

    More hits to fuse, and a larger k, make the list longer and leave the order and the scores as they are.

    Args:
        dense: candidates by their vectors.
        lexical: candidates by their words.
        weight: share of the dense score; at 0 and 1 the other's candidates are left out.
        k: hits wanted.
        candidates: the first so many of each side are normalised.

    Returns:
        Scores from 0 to 1; those of 0 in the order of their better rank, all others that are equal in the order of rows.
    """
    shares = [(dense, weight), (lexical, 1 - weight)]
    shares = [(hits, share) for hits, share in shares if share > 0]
    rows, at = np.unique(np.concatenate([hits.rows for hits, _ in shares]), return_inverse=True)
    parts = np.concatenate([share * normalised(hits, candidates) for hits, share in shares])
    scores = np.bincount(at, weights=parts, minlength=len(rows)).astype(np.float32)
    best = best_of(rows, scores, k)
    if not len(best) or best.scores[-1] > 0:
        return best
    ranks = np.full(len(rows), len(at))
    np.minimum.at(ranks, at, np.concatenate([np.arange(len(hits)) for hits, _ in shares]))
    order = np.lexsort((rows, np.where(scores > 0, 0, ranks), -scores))[:k]
    return Hits(rows[order], scores[order])
