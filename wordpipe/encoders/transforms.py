"""Transforms of the space of vectors: what all texts share says nothing about any of them, and is taken away.

Plain averages crowd into a narrow cone, so that every cosine is near 1. Taking away the mean, and the directions in which
all texts vary together, spreads them out; whitening gives every direction the same weight. Whatever is done is one linear
form, y = (x - mean) W, fitted once on the corpus and applied to every query.

Shapes: N vectors, D numbers before the transform, K after it, R directions taken away.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics import unit_rows

TransformKind = Literal["none", "centre", "remove-components", "whiten"]
MIN_TEXTS = 16  # below this the mean is mostly the text itself
_MIN_LENGTH_SHARE = 1e-4  # a unit vector shortened to this share of what is usual is rounding error
_MIN_VARIANCE_SHARE = 1e-6  # a direction that varies by less than this share of the strongest one is rounding error
MAX_MEAN_COSINE = 0.6
"""Above it `embed` warns, unasked. `doctor` calls 0.3 sick; 20,000 words of text have 0.5 and answer well."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform of vectors, x -> unit((x - mean) W), for unit vectors x.

    W is the identity for none and centre, I - C' C for remove-components, and `weights` for whiten.

    Attributes:
        kind: none, centre, remove-components or whiten.
        mean: (D,) float32.
        components: C, (R, D) float32, orthonormal; R is 0 but for remove-components.
        weights: (D, K) float32; None but for whiten.

    Source: Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings" (the first component);
    Mu and Viswanath 2018, "All-but-the-Top" (mean and several); Su et al. 2021, "Whitening Sentence Representations for
    Better Semantics and Faster Retrieval".
    """

    kind: TransformKind
    mean: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32] | None = None

    @classmethod
    def none(cls, dim: int) -> "Transform":
        """Return the transform that changes nothing."""
        return cls("none", np.zeros(dim, dtype=np.float32), np.zeros((0, dim), dtype=np.float32))

    @property
    def dim(self) -> int:
        """Width of a transformed vector, K."""
        return len(self.mean) if self.weights is None else self.weights.shape[1]

    @property
    def matrix(self) -> npt.NDArray[np.float32]:
        """The matrix W of the transform, (D, K) float32."""
        return self.turn(np.eye(len(self.mean), dtype=np.float32))

    @property
    def offset(self) -> npt.NDArray[np.float32]:
        """The mean of all vectors times W, (K,) float32: what centring takes from every transformed vector."""
        offset_K: npt.NDArray[np.float32] = self.turn(self.mean[None])[0]
        return offset_K

    def turn(self, vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the transform of vectors without their mean, times W, (N, K) float32, not made unit length."""
        if self.weights is not None:
            turned_NK: npt.NDArray[np.float32] = vectors_ND @ self.weights
            return turned_NK
        if not len(self.components):
            return vectors_ND
        left_ND = vectors_ND.copy()
        left_ND -= (vectors_ND @ self.components.T) @ self.components
        return left_ND

    def apply(self, vectors_ND: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Transform unit vectors.

        Returns:
            (N, K) float32 unit vectors, and (N,) which of them have no direction left (they are zero): those that were
            zero before, and those that were nothing but what all texts share.
        """
        if self.kind == "none":
            unit_ND, valid_N = unit_rows(vectors_ND)
            return unit_ND, ~valid_N
        turned_NK = self.turn(vectors_ND - self.mean)
        turned_NK[~vectors_ND.any(axis=1)] = 0
        usual = 1.0  # what W makes of the length of a vector without any preference, at least
        if self.weights is not None:
            usual = float(np.sqrt(np.square(self.weights, dtype=np.float64).sum() / len(self.mean)))
        unit_NK, valid_N = unit_rows(turned_NK, least=_MIN_LENGTH_SHARE * usual)
        return unit_NK, ~valid_N

    def to_bytes(self) -> bytes:
        """Return the transform as a safetensors file."""
        # safetensors writes the memory as it lies: of a transposed array it would save the numbers in another order
        tensors = {"mean": np.ascontiguousarray(self.mean), "components": np.ascontiguousarray(self.components)}
        if self.weights is not None:
            tensors["weights"] = np.ascontiguousarray(self.weights)
        return safetensors.numpy.save(tensors, metadata={"kind": self.kind})

    @classmethod
    def from_bytes(cls, data: bytes, kind: TransformKind, *, where: str | None = None) -> "Transform":
        """Read a transform from a safetensors file.

        Raises:
            ArtifactError: not such a file, or not finite.
        """
        if kind not in get_args(TransformKind):
            raise ArtifactError("unknown kind of transform", where=where, got=f"{kind:.60}")
        try:
            tensors: Mapping[str, npt.NDArray[np.float32]] = safetensors.numpy.load(data)
            mean, components, weights = tensors["mean"], tensors["components"], tensors.get("weights")
        except (KeyError, ValueError, safetensors.SafetensorError) as error:
            raise ArtifactError("the transform cannot be read", where=where, got=error) from None
        if mean.ndim != 1 or components.shape != (len(components), len(mean)):
            raise ArtifactError(
                "the mean and the components have different widths", where=where, got=(mean.shape, components.shape)
            )
        if (weights is None) != (kind != "whiten"):
            raise ArtifactError(
                "a whiten transform must have weights, and other transforms must not have weights",
                where=where,
                got=kind,
            )
        if weights is not None and (weights.ndim != 2 or len(weights) != len(mean) or not weights.size):
            raise ArtifactError(
                "the mean and the weights have different widths", where=where, got=(mean.shape, weights.shape)
            )
        if not all(np.isfinite(part).all() for part in (mean, components, weights) if part is not None):
            raise ArtifactError("the transform contains infinite or NaN numbers", where=where)
        return cls(kind, mean, components, weights)


class Moments:
    """Running mean and covariance of vectors that stream by, in float64.

    Args:
        dim: width of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self.count = 0
        self._sum_D = np.zeros(dim)
        self._products_DD = np.zeros((dim, dim))

    def add(self, vectors_ND: npt.NDArray[np.float32]) -> None:
        """Add vectors to the mean and covariance that a transform is fitted on; zero rows are passed over."""
        wide_ND = vectors_ND[vectors_ND.any(axis=1)].astype(np.float64)
        self.count += len(wide_ND)
        self._sum_D += wide_ND.sum(axis=0)
        self._products_DD += wide_ND.T @ wide_ND

    def fit(self, kind: TransformKind, components: int = 1, *, dims: int = 0) -> Transform:
        """Return the transform fitted on the vectors added so far.

        Args:
            kind: what is done.
            components: how many of the directions of largest variance, for remove-components.
            dims: for whiten, how many of the strongest directions are kept; 0 = all, with as many numbers as before.

        Raises:
            ConfigError: more directions than the vectors have (less one, for remove-components).
            InputError: fewer than two vectors, or no more than directions.
        """
        dim = len(self._sum_D)
        if kind == "none":
            return Transform.none(dim)
        removed = components if kind == "remove-components" else 0
        check_directions(dim, components=removed, dims=dims if kind == "whiten" else 0)
        least = max(removed + 1, 2)
        if self.count < least:
            hint = "add more texts, or use --transform none"
            raise InputError(
                "there are too few texts to fit a transform", got=self.count, expected=f"{least} or more", hint=hint
            )
        wide_D = self._sum_D / self.count
        mean_D, nothing = wide_D.astype(np.float32), np.zeros((0, dim), dtype=np.float32)
        if kind == "centre":
            return Transform(kind, mean_D, nothing)
        strength_D, directions_DD = _spectrum(self._products_DD / self.count - np.outer(wide_D, wide_D))
        if kind == "whiten":
            return Transform(kind, mean_D, nothing, _whitening(strength_D, directions_DD, self.count, dims))
        return Transform(kind, mean_D, directions_DD[:components].astype(np.float32))


def check_directions(dim: int, *, components: int = 0, dims: int = 0) -> None:
    """Refuse a transform that takes away, or keeps, more directions than a vector has (ConfigError)."""
    if components >= dim:
        raise ConfigError(
            "too many directions of the vectors would be removed",
            where="components",
            got=components,
            expected=f"below {dim}",
        )
    if dims > dim:
        raise ConfigError(
            "dims is larger than the width of the vectors", where="dims", got=dims, expected=f"at most {dim}"
        )


def _spectrum(products_DD: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return variances (D,) and directions (D, D) for a transform, strongest first."""
    strength_D, vectors_DD = np.linalg.eigh(products_DD)
    directions_DD = vectors_DD[:, ::-1].T
    largest_D1 = np.take_along_axis(directions_DD, np.abs(directions_DD).argmax(axis=1)[:, None], axis=1)
    return strength_D[::-1], directions_DD * np.sign(largest_D1)


def _whitening(
    strength_D: npt.NDArray[np.float64], directions_DD: npt.NDArray[np.float64], count: int, dims: int
) -> npt.NDArray[np.float32]:
    """Return the matrix of the whitening transform, after which all directions vary alike, (D, K) float32.

    Few texts say little of the weak directions, which whitening would blow up; so the covariance is first drawn towards
    equal variances, by as much as the number of texts calls for (see `shrinkage`). Directions without any variance are
    left out. The strongest `dims` become the coordinates; with 0 the vectors are turned as little as possible (U L^-1/2 U',
    which has the same cosines as L^-1/2 U' and no signs to choose).

    Raises:
        InputError: the texts do not vary in so many directions.
    """
    varied = int((strength_D > _MIN_VARIANCE_SHARE * max(strength_D[0], 0.0)).sum())
    if varied < max(dims, 1):
        hint = f"--dims {varied}" if varied else "use texts that differ from each other, or --transform none"
        raise InputError(
            "the vectors of the texts differ in too few directions", got=varied, expected=max(dims, 1), hint=hint
        )
    drawn = shrinkage(strength_D, count)
    shrunk_D = (1 - drawn) * strength_D + drawn * strength_D.mean()
    kept = dims or varied
    scaled_KD = directions_DD[:kept] / np.sqrt(shrunk_D[:kept, None])
    weights_DK = scaled_KD.T if dims else directions_DD[:kept].T @ scaled_KD
    return np.asarray(weights_DK, dtype=np.float32)


def shrinkage(strength_D: npt.NDArray[np.float64], count: int) -> float:
    """Return how far a transform should draw a covariance towards equal variances, 0 to 1.

    Args:
        strength_D: its eigenvalues.
        count: vectors that it was taken from.

    Source: Chen et al. 2010, "Shrinkage Algorithms for MMSE Covariance Estimation", equation 23 (OAS).
    """
    dim, total, squares = len(strength_D), float(strength_D.sum()), float(np.square(strength_D).sum())
    above = (1 - 2 / dim) * squares + total**2
    below = (count + 1 - 2 / dim) * (squares - total**2 / dim)
    return 1.0 if below <= 0 else min(1.0, above / below)


def mean_cosine_of_sum(sum_D: npt.NDArray[np.float64], count: int) -> float:
    """Return the mean cosine of all pairs of `count` transformed unit vectors that add up to this.

    Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", section 4.1 (there by sampling).
    """
    return (float(sum_D @ sum_D) - count) / (count * (count - 1))
