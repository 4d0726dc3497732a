"""An honest loss for word2vec: one fixed sample of targets, scored again after every epoch.

gensim's own figure is a cumulative float32 sum that depends on the number of threads. Here the pairs, their windows and
their noise words are drawn once, from text that is best held out, with the same distributions as in training.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wordpipe.words.lines import Lines
from wordpipe.words.settings import Word2VecSettings
from wordpipe.words.vocabulary import Vocabulary

__all__ = ["Probe", "keep_probabilities", "noise_distribution"]

_MAX_WORDS = 2_000_000  # text looked at
_TARGETS = 50_000  # standard error of the mean about 0.01 nats
_BLOCK = 4_096  # targets scored at a time
_STREAM = 0x9B0E  # separates these draws from every other use of the seed


def keep_probabilities(counts_V: npt.NDArray[np.int64], subsample: float) -> npt.NDArray[np.float64]:
    """The probability that an occurrence of each word survives subsampling.

    Source: word2vec.c, `(sqrt(f / t) + 1) * t / f` with f the word's share of the text and t = `subsample`.
    """
    if subsample == 0:
        return np.ones(len(counts_V))
    ratio = subsample * counts_V.sum() / counts_V
    kept: npt.NDArray[np.float64] = np.minimum(1.0, np.sqrt(ratio) + ratio)
    return kept


def noise_distribution(counts_V: npt.NDArray[np.int64], ns_exponent: float) -> npt.NDArray[np.float64]:
    """The probability of each word as noise: proportional to its count to the power `ns_exponent`."""
    weights: npt.NDArray[np.float64] = counts_V.astype(np.float64) ** ns_exponent
    weights /= weights.sum()
    return weights


@dataclass(frozen=True, slots=True)
class Probe:
    """P targets with their inputs and noise.

    Attributes:
        inputs: rows that predict, (P, C) int32: C is 1 for skip-gram; for CBOW the window, filled up with -1.
        targets: rows to predict, (P,) int32.
        noise: noise rows, (P, K) int32.
        split: where the text came from, train or valid.
    """

    inputs: npt.NDArray[np.int32]
    targets: npt.NDArray[np.int32]
    noise: npt.NDArray[np.int32]
    split: str

    @classmethod
    def sample(
        cls,
        lines: Iterable[Lines],
        vocabulary: Vocabulary,
        settings: Word2VecSettings,
        *,
        split: str,
        targets: int = _TARGETS,
    ) -> "Probe | None":
        """Draw targets from the beginning (two million words) of `lines`; None where the text has no pair."""
        rng = np.random.default_rng([settings.seed, _STREAM])
        rows, line_of = _subsampled(_head(lines), keep_probabilities(vocabulary.counts, settings.subsample), rng)
        draw = _skipgram_pairs if settings.architecture == "skipgram" else _cbow_windows
        inputs_PC, targets_P = draw(rows, line_of, settings.window, targets, rng)
        if not len(targets_P):
            return None
        noise = noise_distribution(vocabulary.counts, settings.ns_exponent)
        noise_PK = _draw(noise, (len(targets_P), settings.negatives), rng)
        return cls(inputs_PC, targets_P, noise_PK, split)

    def loss(self, vectors_VD: npt.NDArray[np.float32], outputs_VD: npt.NDArray[np.float32]) -> float:
        """Mean negative-sampling loss per target, in nats.

        -log s(u_t . h) - sum_k log s(-u_k . h), where h is the mean of the inputs' vectors, u the output vectors, and
        a noise word that is the target itself is left out.

        Source: Mikolov et al. 2013, "Distributed Representations of Words and Phrases", equation 4.
        """
        total = 0.0
        for first in range(0, len(self.targets), _BLOCK):
            part = slice(first, first + _BLOCK)
            inputs_PC, targets_P, noise_PK = self.inputs[part], self.targets[part], self.noise[part]
            known_PC = (inputs_PC >= 0)[..., None]
            hidden_PD = (vectors_VD[inputs_PC] * known_PC).sum(axis=1) / known_PC.sum(axis=1)
            true_P = np.einsum("pd,pd->p", hidden_PD, outputs_VD[targets_P])
            noise_score_PK = np.einsum("pd,pkd->pk", hidden_PD, outputs_VD[noise_PK])
            noise_loss_PK = np.where(noise_PK == targets_P[:, None], 0.0, np.logaddexp(0.0, noise_score_PK))
            total += float(np.logaddexp(0.0, -true_P).sum() + noise_loss_PK.sum())
        return total / len(self.targets)


def _head(lines: Iterable[Lines]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The first words, and the number of each word's line."""
    rows: list[npt.NDArray[np.int32]] = []
    lengths: list[npt.NDArray[np.int64]] = []
    words = 0
    for some in lines:
        rows.append(some.rows)
        lengths.append(some.lengths)
        words += len(some.rows)
        if words >= _MAX_WORDS:
            break
    if not words:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    all_lengths = np.concatenate(lengths)
    return np.concatenate(rows)[:_MAX_WORDS], np.repeat(np.arange(len(all_lengths)), all_lengths)[:_MAX_WORDS]


def _subsampled(
    text: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]],
    keep_V: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The words that survive subsampling, and their lines."""
    rows, line_of = text
    kept = rng.random(len(rows)) < keep_V[rows]
    return rows[kept], line_of[kept]


def _skipgram_pairs(
    rows: npt.NDArray[np.int32],
    line_of: npt.NDArray[np.int64],
    window: int,
    targets: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(P, 1) inputs and (P,) targets, uniform over the pairs of one epoch.

    A centre draws its reach from 1 to `window`, so a distance d occurs in a share (window - d + 1) / window of windows.
    Positions and distances are drawn freely, and pairs that leave their line are thrown away.
    """
    if not len(rows):
        return np.zeros((0, 1), dtype=np.int32), np.zeros(0, dtype=np.int32)
    shares = np.arange(window, 0, -1, dtype=np.float64)
    distance = 1 + _draw(shares / shares.sum(), (2 * targets,), rng)
    centre = rng.integers(len(rows), size=2 * targets)
    other = centre + distance * rng.choice([-1, 1], size=2 * targets)
    inside = (other >= 0) & (other < len(rows))
    inside[inside] = line_of[other[inside]] == line_of[centre[inside]]
    return rows[centre[inside]][:targets, None], rows[other[inside]][:targets]


def _cbow_windows(
    rows: npt.NDArray[np.int32],
    line_of: npt.NDArray[np.int64],
    window: int,
    targets: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(P, 2 * window) inputs, -1 where there is none, and (P,) targets, uniform over positions."""
    if not len(rows):
        return np.zeros((0, 2 * window), dtype=np.int32), np.zeros(0, dtype=np.int32)
    centre = rng.integers(len(rows), size=targets)
    reach = rng.integers(1, window + 1, size=targets)
    offset_C = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
    other_PC = centre[:, None] + offset_C
    inside_PC = (other_PC >= 0) & (other_PC < len(rows)) & (abs(offset_C) <= reach[:, None])
    other_PC = other_PC.clip(0, len(rows) - 1)
    inside_PC &= line_of[other_PC] == line_of[centre][:, None]
    filled = inside_PC.any(axis=1)
    return np.where(inside_PC, rows[other_PC], np.int32(-1))[filled], rows[centre[filled]]


def _draw(
    probabilities: npt.NDArray[np.float64], shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Independent draws from a distribution over 0, 1 and so on."""
    edges = np.cumsum(probabilities)
    drawn = np.searchsorted(edges, rng.random(shape) * edges[-1], side="right")
    rows: npt.NDArray[np.int32] = np.minimum(drawn, len(edges) - 1).astype(np.int32)
    return rows
