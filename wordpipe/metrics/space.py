"""How a set of vectors fills its space: crowded into a cone, flat, ruled by hubs, or evenly.

Shapes: N vectors, D numbers each, P pairs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.metrics.neighbours import nearest_rows

__all__ = ["Hubs", "dead_dimensions", "effective_rank", "hubs", "mean_cosine", "random_pairs", "told_share"]


def mean_cosine(unit_ND: npt.NDArray[np.float32]) -> float:
    """The mean cosine of all pairs of different vectors, exactly, without forming them: (|sum|² - N) / (N (N - 1)).

    0 where directions are spread evenly; near 1 where all vectors say the same.

    Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", section 4.1 (there by sampling).
    """
    n, sum_D = len(unit_ND), unit_ND.sum(axis=0, dtype=np.float64)
    assert n > 1, n
    own = float(np.square(unit_ND, dtype=np.float64).sum())
    return (float(sum_D @ sum_D) - own) / (n * (n - 1))


def random_pairs(n: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Pairs of different numbers below `n`, (2, P) int64."""
    draw = np.random.default_rng([seed, 2])
    first_P = draw.integers(n, size=count)
    return np.stack([first_P, (first_P + draw.integers(1, n, size=count)) % n])


def effective_rank(vectors_ND: npt.NDArray[np.float32]) -> float:
    """In how many directions the vectors' energy lies, 1 to D: the exponential of the entropy of its shares.

    The mean is not taken away first: cosines see it, and where it is most of every vector the rank is near 1.

    Source: Roy and Vetterli 2007, "The Effective Rank", definition 1, of the matrix of second moments.
    """
    wide_ND = vectors_ND.astype(np.float64)
    energy_D = np.linalg.eigvalsh(wide_ND.T @ wide_ND).clip(0)
    shares_D = energy_D[energy_D > 0] / energy_D.sum()
    return float(np.exp(-(shares_D * np.log(shares_D)).sum()))


def dead_dimensions(vectors_ND: npt.NDArray[np.float32], *, least: float = 1e-4) -> int:
    """How many of the D numbers hardly vary: their deviation is below `least` of the mean one."""
    deviations_D = vectors_ND.std(axis=0, dtype=np.float64)
    return int((deviations_D <= least * deviations_D.mean()).sum())


@dataclass(frozen=True, slots=True)
class Hubs:
    """How unevenly the vectors are among each other's nearest neighbours.

    Attributes:
        skew: of the number of vectors that count one among their K nearest; 0 is even, above 2 a few are near everything.
        orphans: share of vectors that are nobody's neighbour, so that no search finds them.
        twins: share of vectors whose nearest neighbour has a cosine of 0.99 or more.
    """

    skew: float
    orphans: float
    twins: float


def hubs(unit_ND: npt.NDArray[np.float32], k: int = 10) -> Hubs:
    """Count how often each vector is among the `k` nearest (by cosine) of another.

    Source: Radovanović et al. 2010, "Hubs in Space", section 3 (skewness of the k-occurrences).
    """
    rows_NK, cosines_NK = nearest_rows(unit_ND, min(k, len(unit_ND) - 1))
    found_N = np.bincount(rows_NK.ravel(), minlength=len(unit_ND)).astype(np.float64)
    around_N = found_N - found_N.mean()
    deviation = float(np.sqrt(np.square(around_N).mean()))
    skew = float((around_N**3).mean()) / deviation**3 if deviation else 0.0
    return Hubs(skew, float((found_N == 0).mean()), float((cosines_NK[:, 0] >= 0.99).mean()))


def told_share(
    fitted_ND: npt.NDArray[np.float32],
    fitted_N: npt.NDArray[np.float64],
    judged_MD: npt.NDArray[np.float32],
    judged_M: npt.NDArray[np.float64],
) -> float | None:
    """How much of a property vectors tell: the share of its variance that ridge regression foretells on other vectors.

    Args:
        fitted_ND: vectors to fit on.
        fitted_N: their property.
        judged_MD: other vectors.
        judged_M: theirs.

    Returns:
        R², 0 to 1 (0 where it foretells worse than the mean does); None where the property does not vary.

    Source: Hoerl and Kennard 1970, "Ridge Regression"; a penalty of a thousandth of the mean variance.
    """
    if not np.ptp(fitted_N) or not np.ptp(judged_M):
        return None
    mean_D, mean = fitted_ND.mean(axis=0, dtype=np.float64), float(fitted_N.mean())
    centred_ND = fitted_ND - mean_D
    products_DD = centred_ND.T @ centred_ND
    products_DD.flat[:: len(products_DD) + 1] += 1e-3 * products_DD.trace() / len(products_DD) + 1e-12
    weights_D = np.linalg.solve(products_DD, centred_ND.T @ (fitted_N - mean))
    left_M = judged_M - mean - (judged_MD - mean_D) @ weights_D
    return max(0.0, 1 - float(left_M @ left_M) / float(np.square(judged_M - judged_M.mean()).sum()))
