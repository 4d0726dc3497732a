"""Whether a space of vectors is healthy, and what each transform would make of it.

Transforms are fitted on one half of a sample and judged on the other, so that none looks better than it is on new texts.

Shapes: N vectors, D numbers each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError, InputError
from wordpipe.metrics.statistics import spearman
from wordpipe.metrics.vectors import (
    dead_dimensions,
    effective_rank,
    hubs,
    mean_cosine,
    random_pairs,
    told_share,
    unit_rows,
)
from wordpipe.sentences.transforms import MIN_TEXTS, Moments, Transform, TransformKind

__all__ = ["NEIGHBOURS", "Figures", "Sample", "diagnose", "unit_sample"]

NEIGHBOURS = 10
_PAIRS = 20_000
_LEAST = 4 * MIN_TEXTS


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the vectors, in random order, with what they should not tell.

    Attributes:
        vectors: (N, D) float32 of length 1.
        lengths: (N,) float64, the logarithm of the characters of each text or word.
        frequencies: (N,) float64, the logarithm of how common its words are, on average; NaN where nobody counted.
    """

    vectors: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.float64]
    frequencies: npt.NDArray[np.float64]

    def part(self, rows: slice) -> "Sample":
        """Some of the rows."""
        return Sample(self.vectors[rows], self.lengths[rows], self.frequencies[rows])


@dataclass(frozen=True, slots=True)
class Figures:
    """What a space looks like.

    Attributes:
        mean_cosine: of all pairs.
        cosine_deviation: standard deviation of the cosines of random pairs.
        effective_rank: directions in which the vectors lie.
        hub_skew: skewness of how often a vector is among others' 10 nearest.
        orphans: share of vectors that are among nobody's 10 nearest.
        twins: share of vectors with a neighbour at a cosine of 0.99 or more.
        length_told: how much of a text's (log) length its vector tells a linear model, R²; None where lengths do not vary.
        length_in_cosine: Spearman's correlation of the cosine of two texts with how alike their lengths are; None likewise.
        frequency_told: the same of how common the words are; None where nobody counted.
        frequency_in_cosine: likewise.
        dead_dimensions: numbers that hardly vary.
        dim: numbers of a vector.
    """

    mean_cosine: float
    cosine_deviation: float
    effective_rank: float
    hub_skew: float
    orphans: float
    twins: float
    length_told: float | None
    length_in_cosine: float | None
    frequency_told: float | None
    frequency_in_cosine: float | None
    dead_dimensions: int
    dim: int


def diagnose(
    sample: Sample,
    kinds: tuple[TransformKind, ...],
    *,
    components: int = 1,
    dims: int = 0,
    seed: int = 1,
    report: Callable[[str], None] = lambda _: None,
) -> dict[TransformKind, Figures]:
    """The figures of a space as it is (none) and after each transform.

    Args:
        sample: vectors in random order; the first half fits, the second is judged.
        kinds: transforms to try. One that the vectors are too few or too flat for is left out.
        components: that remove-components takes away.
        dims: that whiten keeps, 0 = all.
        seed: of the random pairs.
        report: told which transform is being judged.

    Raises:
        InputError: fewer than 64 vectors.
    """
    if len(sample.vectors) < _LEAST:
        hint = "embed more text" if len(sample.vectors) else None
        raise InputError(
            "too few different vectors to judge a space", got=len(sample.vectors), expected=_LEAST, hint=hint
        )
    half = len(sample.vectors) // 2
    fitted, judged = sample.part(slice(half)), sample.part(slice(half, None))
    found = {}
    for kind, transform in _transforms(fitted, kinds, components, dims):
        report(kind)
        found[kind] = _figures(_through(transform, fitted), _through(transform, judged), seed)
    return found


def _transforms(
    fitted: Sample, kinds: tuple[TransformKind, ...], components: int, dims: int
) -> Iterator[tuple[TransformKind, Transform]]:
    moments = Moments(fitted.vectors.shape[1])
    moments.add(fitted.vectors)
    for kind in kinds:
        try:
            yield kind, moments.fit(kind, components, dims=dims)
        except (ConfigError, InputError):
            if kind == "none":
                raise


def _through(transform: Transform, sample: Sample) -> Sample:
    """The sample after a transform, without what has no direction left."""
    vectors_ND, lost_N = transform.apply(sample.vectors)
    return Sample(vectors_ND[~lost_N], sample.lengths[~lost_N], sample.frequencies[~lost_N])


def _figures(fitted: Sample, judged: Sample, seed: int) -> Figures:
    unit_ND = judged.vectors
    one_P, other_P = random_pairs(len(unit_ND), _PAIRS, seed)
    cosines_P = np.einsum("pd,pd->p", unit_ND[one_P], unit_ND[other_P]).astype(np.float64)
    near = hubs(unit_ND, NEIGHBOURS)

    def told(of_fitted_N: npt.NDArray[np.float64], of_judged_N: npt.NDArray[np.float64]) -> float | None:
        known, seen = np.isfinite(of_fitted_N), np.isfinite(of_judged_N)
        if not known.any() or not seen.any():
            return None
        return told_share(fitted.vectors[known], of_fitted_N[known], unit_ND[seen], of_judged_N[seen])

    def in_cosine(values_N: npt.NDArray[np.float64]) -> float | None:
        alike_P = -np.abs(values_N[one_P] - values_N[other_P])
        known = np.isfinite(alike_P)
        return spearman(cosines_P[known], alike_P[known])

    return Figures(
        mean_cosine=mean_cosine(unit_ND),
        cosine_deviation=float(cosines_P.std()),
        effective_rank=effective_rank(unit_ND),
        hub_skew=near.skew,
        orphans=near.orphans,
        twins=near.twins,
        length_told=told(fitted.lengths, judged.lengths),
        length_in_cosine=in_cosine(judged.lengths),
        frequency_told=told(fitted.frequencies, judged.frequencies),
        frequency_in_cosine=in_cosine(judged.frequencies),
        dead_dimensions=dead_dimensions(unit_ND),
        dim=unit_ND.shape[1],
    )


def unit_sample(
    vectors_ND: npt.NDArray[np.float32],
    lengths_N: npt.NDArray[np.float64],
    frequencies_N: npt.NDArray[np.float64],
    seed: int,
) -> Sample:
    """A sample of what was read: made unit length, without vectors that come again, in random order."""
    unit_ND, valid_N = unit_rows(vectors_ND)
    _, first_N = np.unique(unit_ND, axis=0, return_index=True)
    kept = np.random.default_rng([seed, 1]).permutation(np.sort(first_N[valid_N[first_N]]))
    return Sample(unit_ND[kept], lengths_N[kept], frequencies_N[kept])
