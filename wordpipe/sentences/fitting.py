"""What a transform of the space is made of: the directions in which a corpus varies, and how much.

Shapes: D numbers per vector, R directions taken away, K directions kept.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, InputError

__all__ = ["Covariance", "check_directions", "leading", "shrinkage", "whitening"]

_FLAT = 1e-6  # a direction that varies by less than this share of the strongest one is rounding error, not meaning


@dataclass(frozen=True, slots=True)
class Covariance:
    """How vectors vary.

    Attributes:
        count: how many were seen, at least 2.
        mean: (D,) float64.
        products: (D, D) float64, the covariance (divided by the count).
    """

    count: int
    mean: npt.NDArray[np.float64]
    products: npt.NDArray[np.float64]

    @classmethod
    def of(cls, count: int, sum_D: npt.NDArray[np.float64], products_DD: npt.NDArray[np.float64]) -> "Covariance":
        """Out of the sums of the vectors and of their products.

        Raises:
            InputError: fewer than two vectors.
        """
        if count < 2:
            raise InputError("too few texts to fit a transform", got=count, hint="give more text or --transform none")
        mean_D = sum_D / count
        return cls(count, mean_D, products_DD / count - np.outer(mean_D, mean_D))


def check_directions(dim: int, *, components: int = 0, dims: int = 0) -> None:
    """Refuse to take away or to keep more directions than there are; to be asked before vectors are made.

    Args:
        dim: numbers of a vector.
        components: directions to take away, 0 = none.
        dims: directions to keep, 0 = all.

    Raises:
        ConfigError: no direction would be left, or there are not so many.
    """
    if components >= dim:
        raise ConfigError("no direction would be left", where="components", got=components, expected=f"below {dim}")
    if dims > dim:
        raise ConfigError("more dims than the vectors have", where="dims", got=dims, expected=f"at most {dim}")


def leading(seen: Covariance, components: int) -> npt.NDArray[np.float32]:
    """The directions of largest variance, (R, D) float32, largest first.

    Raises:
        ConfigError: no direction would be left.
        InputError: no more texts than directions.
    """
    check_directions(len(seen.mean), components=components)
    if components >= seen.count:
        raise InputError("too few texts for so many components", got=seen.count, expected=f"more than {components}")
    directions_RD: npt.NDArray[np.float32] = _spectrum(seen)[1][:components].astype(np.float32)
    return directions_RD


def whitening(seen: Covariance, dims: int = 0) -> npt.NDArray[np.float32]:
    """The matrix after which all directions vary alike, (D, K) float32.

    Few texts say little of the weak directions, which whitening would blow up; so the covariance is first drawn towards
    equal variances, by as much as the number of texts calls for (see `shrinkage`). Directions without any variance are
    left out.

    Args:
        seen: of the vectors to be whitened.
        dims: K; the strongest directions become the coordinates. 0: D, and the vectors are turned as little as possible
            (U L^-1/2 U', which has the same cosines as L^-1/2 U' and no signs to choose).

    Raises:
        ConfigError: more dims than the vectors have numbers.
        InputError: the texts do not vary in so many directions.
    """
    check_directions(len(seen.mean), dims=dims)
    strength_D, directions_DD = _spectrum(seen)
    varied = int((strength_D > _FLAT * max(strength_D[0], 0.0)).sum())
    if varied < max(dims, 1):
        hint = f"--dims {varied}" if varied else "give texts that differ, or --transform none"
        raise InputError("the texts do not vary in so many directions", got=varied, expected=max(dims, 1), hint=hint)
    drawn = shrinkage(strength_D, seen.count)
    shrunk_D = (1 - drawn) * strength_D + drawn * strength_D.mean()
    kept = dims or varied
    scaled_KD = directions_DD[:kept] / np.sqrt(shrunk_D[:kept, None])
    weights_DK = scaled_KD.T if dims else directions_DD[:kept].T @ scaled_KD
    return np.asarray(weights_DK, dtype=np.float32)


def shrinkage(strength_D: npt.NDArray[np.float64], count: int) -> float:
    """How far a covariance should be drawn towards equal variances, 0 to 1.

    Args:
        strength_D: its eigenvalues.
        count: vectors that it was taken from.

    Source: Chen et al. 2010, "Shrinkage Algorithms for MMSE Covariance Estimation", equation 23 (OAS).
    """
    dim, total, squares = len(strength_D), float(strength_D.sum()), float(np.square(strength_D).sum())
    above = (1 - 2 / dim) * squares + total**2
    below = (count + 1 - 2 / dim) * (squares - total**2 / dim)
    return 1.0 if below <= 0 else min(1.0, above / below)


def _spectrum(seen: Covariance) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Variances (D,) and directions (D, D) in rows, strongest first, each signed so that its largest number is positive."""
    strength_D, vectors_DD = np.linalg.eigh(seen.products)
    directions_DD = vectors_DD[:, ::-1].T
    largest_D1 = np.take_along_axis(directions_DD, np.abs(directions_DD).argmax(axis=1)[:, None], axis=1)
    return strength_D[::-1], directions_DD * np.sign(largest_D1)
