"""Mending the space of vectors: what all texts share says nothing about any of them.

Plain averages crowd into a narrow cone, so that every cosine is near 1. Taking away the mean, and the directions in which
all texts vary together, spreads them out; whitening gives every direction the same weight. Whatever is done is one linear
form, y = (x - mean) W, fitted once on the corpus and applied to every query. How it is fitted stands in fitting.py.

Shapes: N vectors, D numbers before the transform, K after it, R directions taken away.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from wordpipe.errors import ArtifactError
from wordpipe.metrics.vectors import unit_rows
from wordpipe.sentences.fitting import Covariance, leading, whitening

__all__ = ["Moments", "Transform", "TransformKind"]

TransformKind = Literal["none", "centre", "remove-components", "whiten"]
MIN_TEXTS = 16  # below this the mean is mostly the text itself
_VANISHED = 1e-4  # a unit vector shortened to this share of what is usual is rounding error


@dataclass(frozen=True, slots=True)
class Transform:
    """x -> unit((x - mean) W), for unit vectors x.

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
        """The transform that changes nothing."""
        return cls("none", np.zeros(dim, dtype=np.float32), np.zeros((0, dim), dtype=np.float32))

    @property
    def dim(self) -> int:
        """Numbers of a transformed vector, K."""
        return len(self.mean) if self.weights is None else self.weights.shape[1]

    @property
    def matrix(self) -> npt.NDArray[np.float32]:
        """W, (D, K) float32."""
        return self.turn(np.eye(len(self.mean), dtype=np.float32))

    @property
    def offset(self) -> npt.NDArray[np.float32]:
        """The mean times W, (K,) float32: what centring takes from every transformed vector."""
        offset_K: npt.NDArray[np.float32] = self.turn(self.mean[None])[0]
        return offset_K

    def turn(self, vectors_ND: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The vectors times W, (N, K) float32: without the mean, and not made unit length, so that sums stay sums."""
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
        unit_NK, valid_N = unit_rows(turned_NK, least=_VANISHED * self._usual_length())
        return unit_NK, ~valid_N

    def _usual_length(self) -> float:
        """What W makes of the length of a vector without any preference, at least: 1 where it only takes away."""
        if self.weights is None:
            return 1.0
        return float(np.sqrt(np.square(self.weights, dtype=np.float64).sum() / len(self.mean)))

    def to_bytes(self) -> bytes:
        """As a safetensors file."""
        # safetensors writes the memory as it lies: of a transposed array it would save the numbers in another order
        tensors = {"mean": np.ascontiguousarray(self.mean), "components": np.ascontiguousarray(self.components)}
        if self.weights is not None:
            tensors["weights"] = np.ascontiguousarray(self.weights)
        return safetensors.numpy.save(tensors, metadata={"kind": self.kind})

    @classmethod
    def from_bytes(cls, data: bytes, kind: TransformKind, *, where: str | None = None) -> "Transform":
        """Read it back.

        Raises:
            ArtifactError: not such a file, or not finite.
        """
        try:
            tensors: Mapping[str, npt.NDArray[np.float32]] = safetensors.numpy.load(data)
            mean, components, weights = tensors["mean"], tensors["components"], tensors.get("weights")
        except (KeyError, ValueError, safetensors.SafetensorError) as error:
            raise ArtifactError("not a readable transform", where=where, got=error) from None
        if mean.ndim != 1 or components.shape != (len(components), len(mean)):
            raise ArtifactError("mean and components differ in width", where=where, got=(mean.shape, components.shape))
        if (weights is None) != (kind != "whiten"):
            raise ArtifactError("weights belong to whiten, and to nothing else", where=where, got=kind)
        if weights is not None and (weights.ndim != 2 or len(weights) != len(mean) or not weights.size):
            raise ArtifactError("mean and weights differ in width", where=where, got=(mean.shape, weights.shape))
        if not all(np.isfinite(part).all() for part in (mean, components, weights) if part is not None):
            raise ArtifactError("the transform is not finite", where=where)
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
        """Take vectors into account; zero rows are passed over."""
        wide_ND = vectors_ND[vectors_ND.any(axis=1)].astype(np.float64)
        self.count += len(wide_ND)
        self._sum_D += wide_ND.sum(axis=0)
        self._products_DD += wide_ND.T @ wide_ND

    def covariance(self) -> Covariance:
        """What has been seen so far.

        Raises:
            InputError: fewer than two vectors.
        """
        return Covariance.of(self.count, self._sum_D, self._products_DD)

    def fit(self, kind: Literal["auto"] | TransformKind, components: int = 1, *, dims: int = 0) -> Transform:
        """The transform that these vectors call for.

        Args:
            kind: what is done; auto must have been decided before.
            components: how many directions, for remove-components.
            dims: for whiten, how many of the strongest directions are kept; 0 = all, with as many numbers as before.

        Raises:
            ConfigError: more directions than the vectors have (less one, for remove-components).
            InputError: fewer than two vectors, or no more than directions.
        """
        assert kind != "auto"
        dim = len(self._sum_D)
        if kind == "none":
            return Transform.none(dim)
        seen, no_directions = self.covariance(), np.zeros((0, dim), dtype=np.float32)
        mean_D = seen.mean.astype(np.float32)
        if kind == "remove-components":
            return Transform(kind, mean_D, leading(seen, components))
        return Transform(kind, mean_D, no_directions, whitening(seen, dims) if kind == "whiten" else None)
