"""The held-out loss of word2vec: one fixed sample of targets, scored again after every epoch.

gensim's own figure is a cumulative float32 sum that depends on the number of threads. Here the pairs, their windows and
their noise words are drawn once, from text that is best held out, with the same distributions as in training.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from wordpipe.words.kernels.draws_and_huffman import Tree
from wordpipe.words.settings import Word2VecPlan
from wordpipe.words.vocabulary import Vocabulary, Words

_MAX_WORDS = 2_000_000  # text looked at
_TARGETS = 50_000  # standard error of the mean about 0.01 nats
_BLOCK = 4_096  # targets scored at a time
_NUMBERS = 4_000_000  # inputs or noise of a sample, and vectors or scores held at a time: 16 MB however wide the window
_STREAM = 0x9B0E  # separates these draws from every other use of the seed

Rows: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]
_Losses: TypeAlias = npt.NDArray[np.floating]  # nats


def keep_probabilities(counts_V: npt.NDArray[np.int64], subsample: float) -> npt.NDArray[np.float64]:
    """Return the probability that subsampling keeps an occurrence of each word, for the held-out loss.

    Source: word2vec.c, `(sqrt(f / t) + 1) * t / f` with f the word's share of the text and t = `subsample`.
    """
    if subsample == 0:
        return np.ones(len(counts_V))
    ratio = subsample * counts_V.sum() / counts_V
    kept: npt.NDArray[np.float64] = np.minimum(1.0, np.sqrt(ratio) + ratio)
    return kept


def noise_distribution(counts_V: npt.NDArray[np.int64], ns_exponent: float) -> npt.NDArray[np.float64]:
    """Return the probability of each word as noise: proportional to its count to the power `ns_exponent`."""
    weights: npt.NDArray[np.float64] = counts_V.astype(np.float64) ** ns_exponent
    weights /= weights.sum()
    return weights


@dataclass(frozen=True, slots=True)
class HeldOutLoss:
    """P targets with their inputs and noise."""

    inputs: Rows  # rows that predict, (P, C) int32: C is 1 for skip-gram; for CBOW the window, filled up with -1
    targets: Rows  # rows to predict, (P,) int32
    noise: Rows  # noise rows, (P, K) int32; K is 0 where the loss is not that of negative sampling
    split: str  # where the text came from, train or valid
    objective: Literal["ns", "hs", "softmax"] = "ns"  # what is scored; ns: negative sampling, hs: the tree

    @classmethod
    def sample(
        cls, blocks: Iterable[Words], vocabulary: Vocabulary, settings: Word2VecPlan, *, split: str, targets: int = _TARGETS
    ) -> "HeldOutLoss | None":  # fmt: skip
        """Draw the held-out sample of targets from the beginning (two million words) of the text; or None.

        None where it has no pair.

        The text comes as rows of the vocabulary, whose counts decide what is skipped and what is noise, and may go on over
        blocks; there are no more than `targets`.
        """
        rng = np.random.default_rng([settings.seed, _STREAM])
        rows, text_of = _head(blocks)
        kept = rng.random(len(rows)) < keep_probabilities(vocabulary.counts, settings.subsample)[rows]
        draw = _skipgram_pairs if settings.architecture == "skipgram" else _cbow_windows
        targets = min(targets, max(1_000, _NUMBERS // _numbers_of(settings)))
        inputs_PC, targets_P = draw(rows[kept], text_of[kept], settings, targets, rng)
        if not len(targets_P):
            return None
        noise_PK = np.zeros((len(targets_P), 0), dtype=np.int32)
        if settings.loss == "ns":
            noise = noise_distribution(vocabulary.counts, settings.ns_exponent)
            noise_PK = _draw(noise, (len(targets_P), settings.negatives), rng)
        return cls(inputs_PC, targets_P, noise_PK, split, settings.loss)

    def loss(self, vectors_VD: Floats, outputs_VD: Floats, tree: Tree | None = None) -> float:
        """Return the mean held-out loss per target, in nats.

        With h the mean of the inputs' vectors, u the output vectors and s the logistic function it is, for a target t,
        -log s(u_t . h) - sum_k log s(-u_k . h) with negative sampling, where a noise word k that is the target itself is left
        out; the sum of -log s(sign * u_n . h) over the nodes n of the target's path with hierarchical softmax; and
        -u_t . h + log sum_v exp(u_v . h) over all words v with the full softmax.

        The vectors of words made of parts are those that were put together; the outputs are the words', or those of the tree's
        nodes, (V - 1, D) or more, for hierarchical softmax.

        Source: Mikolov et al. 2013, "Distributed Representations of Words and Phrases", equations 4, 3 and 2.
        """
        size = self._at_once(*outputs_VD.shape)
        total = 0.0
        for first in range(0, len(self.targets), size):
            part = slice(first, first + size)
            hidden_PD = _hidden(vectors_VD, self.inputs[part])
            if self.objective == "hs":
                assert tree is not None, "hierarchical softmax needs a tree"
                losses = _tree_losses(hidden_PD, outputs_VD, self.targets[part], tree)
            elif self.objective == "softmax":
                losses = _softmax_losses(hidden_PD, outputs_VD, self.targets[part])
            else:
                losses = _sampled_losses(hidden_PD, outputs_VD, self.targets[part], self.noise[part])
            total += float(losses.sum(dtype=np.float64))
        return total / len(self.targets)

    def _at_once(self, n_outputs: int, dim: int) -> int:
        """Return how many targets are scored at a time."""
        noise, inputs = int(self.noise.shape[1]), int(self.inputs.shape[1])
        others = {"ns": noise * dim, "hs": 32 * dim, "softmax": n_outputs}[self.objective]
        return max(1, min(_BLOCK, _NUMBERS // max(others, inputs * dim, 1)))


def _hidden(vectors_VD: Floats, inputs_PC: Rows) -> Floats:
    """Return the mean of the inputs' vectors, (P, D)."""
    known_PC = (inputs_PC >= 0)[..., None]
    hidden_PD: Floats = (vectors_VD[inputs_PC] * known_PC).sum(axis=1) / known_PC.sum(axis=1, dtype=np.float32)
    return hidden_PD


def _sampled_losses(hidden_PD: Floats, outputs_VD: Floats, targets_P: Rows, noise_PK: Rows) -> _Losses:
    true_P = np.einsum("pd,pd->p", hidden_PD, outputs_VD[targets_P])
    noise_score_PK = np.einsum("pd,pkd->pk", hidden_PD, outputs_VD[noise_PK])
    noise_loss_PK = np.where(noise_PK == targets_P[:, None], 0.0, np.logaddexp(0.0, noise_score_PK))
    losses_P: _Losses = np.logaddexp(0.0, -true_P) + noise_loss_PK.sum(axis=1)
    return losses_P


def _tree_losses(hidden_PD: Floats, nodes_ND: Floats, targets_P: Rows, tree: Tree) -> _Losses:
    """Return one held-out loss for every turn of every target (hierarchical softmax)."""
    starts_P = tree.path_starts[targets_P]
    lengths_P = tree.path_starts[targets_P + 1] - starts_P
    of_turn = np.repeat(np.arange(len(targets_P)), lengths_P)
    turns = np.arange(len(of_turn)) + np.repeat(starts_P - (np.cumsum(lengths_P) - lengths_P), lengths_P)
    scores = np.einsum("td,td->t", hidden_PD[of_turn], nodes_ND[tree.path_nodes[turns]])
    turn_losses: _Losses = np.logaddexp(0.0, -tree.path_signs[turns] * scores)
    return turn_losses


def _softmax_losses(hidden_PD: Floats, outputs_VD: Floats, targets_P: Rows) -> _Losses:
    """Return the held-out loss of every target by the whole softmax."""
    scores_PV = hidden_PD @ outputs_VD.T
    true_P = scores_PV[np.arange(len(targets_P)), targets_P]
    largest_P = scores_PV.max(axis=1)
    np.exp(np.subtract(scores_PV, largest_P[:, None], out=scores_PV), out=scores_PV)
    losses_P: _Losses = largest_P - true_P + np.log(scores_PV.sum(axis=1))
    return losses_P


def _numbers_of(settings: Word2VecPlan) -> int:
    """Return the number of inputs, or of noise words, of a target: the larger one."""
    inputs = 1 if settings.architecture == "skipgram" else 2 * settings.window
    return max(inputs, settings.negatives if settings.loss == "ns" else 1)


def _head(blocks: Iterable[Words]) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Return the first words of the held-out text, and the number of the text that each is from."""
    rows = [np.zeros(0, dtype=np.int32)]
    texts = [np.zeros(0, dtype=np.int64)]
    words = begun = 0
    for block in blocks:
        rows.append(block.ids)
        texts.append(begun + np.searchsorted(block.starts, np.arange(len(block.ids)), side="right"))
        words += len(block.ids)
        begun += len(block.starts)
        if words >= _MAX_WORDS:
            break
    return np.concatenate(rows)[:_MAX_WORDS], np.concatenate(texts)[:_MAX_WORDS]


def _skipgram_pairs(
    rows: Rows, text_of: npt.NDArray[np.int64], settings: Word2VecPlan, targets: int, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Draw (P, 1) held-out inputs and (P,) targets, uniform over the pairs of one epoch.

    Where a centre draws its reach from 1 to the window, a distance d occurs in a share (window - d + 1) / window of windows;
    otherwise in all of them. Positions and distances are drawn freely, and pairs that leave their text are thrown away.
    """
    if not len(rows):
        return np.zeros((0, 1), dtype=np.int32), np.zeros(0, dtype=np.int32)
    shares = np.arange(settings.window, 0, -1, dtype=np.float64)
    if not settings.dynamic_window:
        shares[:] = 1
    distance = 1 + _draw(shares / shares.sum(), (2 * targets,), rng)
    centre = rng.integers(len(rows), size=2 * targets)
    other = centre + distance * rng.choice([-1, 1], size=2 * targets)
    inside = (other >= 0) & (other < len(rows))
    inside[inside] = text_of[other[inside]] == text_of[centre[inside]]
    return rows[centre[inside]][:targets, None], rows[other[inside]][:targets]


def _cbow_windows(
    rows: Rows, text_of: npt.NDArray[np.int64], settings: Word2VecPlan, targets: int, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Draw (P, 2 * window) held-out inputs, -1 where there is none, and (P,) targets."""
    window = settings.window
    if not len(rows):
        return np.zeros((0, 2 * window), dtype=np.int32), np.zeros(0, dtype=np.int32)
    centre = rng.integers(len(rows), size=targets)
    reach = rng.integers(1 if settings.dynamic_window else window, window + 1, size=targets)
    offset_C = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
    other_PC = centre[:, None] + offset_C
    inside_PC = (other_PC >= 0) & (other_PC < len(rows)) & (abs(offset_C) <= reach[:, None])
    other_PC = other_PC.clip(0, len(rows) - 1)
    inside_PC &= text_of[other_PC] == text_of[centre][:, None]
    filled = inside_PC.any(axis=1)
    return np.where(inside_PC, rows[other_PC], np.int32(-1))[filled], rows[centre[filled]]


def _draw(probabilities: npt.NDArray[np.float64], shape: tuple[int, ...], rng: np.random.Generator) -> Rows:
    """Return independent draws from a distribution, for the held-out sample."""
    edges = np.cumsum(probabilities)
    drawn = np.searchsorted(edges, rng.random(shape) * edges[-1], side="right")
    rows: Rows = np.minimum(drawn, len(edges) - 1).astype(np.int32)
    return rows
