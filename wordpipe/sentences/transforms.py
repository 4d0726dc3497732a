"""Mending the space of vectors: what all texts share says nothing about any of them.

Plain averages crowd into a narrow cone, so that every cosine is near 1. Taking away the mean, and the directions in which
all texts vary together, spreads them out. The same transform, fitted once on the corpus, is applied to every query.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from wordpipe.errors import ArtifactError, ConfigError, InputError
from wordpipe.metrics.directions import unit_rows

__all__ = ["Moments", "Transform", "TransformKind"]

TransformKind = Literal["none", "centre", "remove-components"]
MIN_TEXTS = 16  # below this the mean is mostly the text itself
_VANISHED = 1e-4  # a unit vector shortened to this is rounding error


@dataclass(frozen=True, slots=True)
class Transform:
    """x -> unit(y - C' C y) with y = x - mean, for unit vectors x.

    Attributes:
        kind: none, centre or remove-components.
        mean: (D,) float32.
        components: C, (R, D) float32, orthonormal; R is 0 but for remove-components.

    Source: Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings" (the first component);
    Mu and Viswanath 2018, "All-but-the-Top" (mean and several).
    """

    kind: TransformKind
    mean: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]

    @classmethod
    def none(cls, dim: int) -> "Transform":
        """The transform that changes nothing."""
        return cls("none", np.zeros(dim, dtype=np.float32), np.zeros((0, dim), dtype=np.float32))

    def apply(self, vectors_ND: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Transform unit vectors.

        Returns:
            (N, D) float32 unit vectors, and (N,) which of them have no direction left (they are zero): those that were
            zero before, and those that were nothing but what all texts share.
        """
        if self.kind == "none":
            unit_ND, valid_N = unit_rows(vectors_ND)
            return unit_ND, ~valid_N
        centred_ND = vectors_ND - self.mean
        if len(self.components):
            centred_ND -= (centred_ND @ self.components.T) @ self.components
        centred_ND[~vectors_ND.any(axis=1)] = 0
        unit_ND, valid_N = unit_rows(centred_ND, least=_VANISHED)
        return unit_ND, ~valid_N

    def to_bytes(self) -> bytes:
        """As a safetensors file."""
        # safetensors writes the memory as it lies: of a transposed array it would save the numbers in another order
        tensors = {"mean": np.ascontiguousarray(self.mean), "components": np.ascontiguousarray(self.components)}
        return safetensors.numpy.save(tensors, metadata={"kind": self.kind})

    @classmethod
    def from_bytes(cls, data: bytes, kind: TransformKind, *, where: str | None = None) -> "Transform":
        """Read it back.

        Raises:
            ArtifactError: not such a file, or not finite.
        """
        try:
            tensors: Mapping[str, npt.NDArray[np.float32]] = safetensors.numpy.load(data)
            mean, components = tensors["mean"], tensors["components"]
        except (KeyError, ValueError, safetensors.SafetensorError) as error:
            raise ArtifactError("not a readable transform", where=where, got=error) from None
        if mean.ndim != 1 or components.shape != (len(components), len(mean)):
            raise ArtifactError("mean and components differ in width", where=where, got=(mean.shape, components.shape))
        if not (np.isfinite(mean).all() and np.isfinite(components).all()):
            raise ArtifactError("the transform is not finite", where=where)
        return cls(kind, mean, components)


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

    def fit(self, kind: Literal["auto", "none", "centre", "remove-components"], components: int) -> Transform:
        """The transform that these vectors call for.

        Args:
            kind: what is taken away; auto must have been decided before.
            components: how many directions, for remove-components.

        Raises:
            ConfigError: more directions than the vectors have, less one.
            InputError: fewer than two vectors, or no more than directions.
        """
        assert kind != "auto"
        dim = len(self._sum_D)
        if kind == "none":
            return Transform.none(dim)
        if self.count < 2:
            raise InputError(
                "too few texts to fit a transform", got=self.count, hint="give more text or --transform none"
            )
        mean_D = self._sum_D / self.count
        if kind == "centre":
            return Transform("centre", mean_D.astype(np.float32), np.zeros((0, dim), dtype=np.float32))
        if components >= dim:
            raise ConfigError("no direction would be left", where="components", got=components, expected=f"below {dim}")
        if components >= self.count:
            raise InputError("too few texts for so many components", got=self.count, expected=f"more than {components}")
        covariance_DD = self._products_DD / self.count - np.outer(mean_D, mean_D)
        return Transform(kind, mean_D.astype(np.float32), _leading(covariance_DD, components))


def _leading(covariance_DD: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float32]:
    """The `count` directions of largest variance, largest first, each signed so that its largest number is positive."""
    _, vectors_DD = np.linalg.eigh(covariance_DD)
    leading_RD = vectors_DD[:, ::-1][:, :count].T
    largest_R1 = np.take_along_axis(leading_RD, np.abs(leading_RD).argmax(axis=1)[:, None], axis=1)
    signed_RD: npt.NDArray[np.float32] = (leading_RD * np.sign(largest_R1)).astype(np.float32)
    return signed_RD
