"""A linear map behind an encoder whose weights rest: spans of one's own text find the passages that they stand in.

All texts are encoded once. With z(x) = unit(x M) and M the identity at first, span i of passage p(i) is to be found among all
P passages,

    loss = mean over spans of  - log( exp(z(s_i) · z(t_p(i)) / t) / sum_p exp(z(s_i) · z(t_p) / t) )  +  c · | M - I |²

A part of the passages is held out: their spans are never learned from. Every `_EVERY` steps the mean reciprocal rank of the
held-out spans' passages is measured, and the map that is kept is the earliest one that is not below the best by more than a
standard error of the best (Breiman et al. 1984, section 3.4.3). Where that is the identity, nothing has been learned that is
more than noise, and the encoder stays as it is.

Shapes: N spans, P passages, D numbers of a vector.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Matrix = npt.NDArray[np.float32]

STEPS, BATCH = 240, 256
_EVERY = 20
_RATE, _TEMPERATURE, _NEAR_IDENTITY = 1e-3, 0.05, 0.01
_HELD_OUT = 0.15
_MEASURED = 1_000  # held-out spans, at most


@dataclass(frozen=True)
class Learned:
    """A map that was learned.

    Attributes:
        matrix: what vectors are multiplied by, from the right, (D, D); None: the identity, nothing better was found.
        steps: after which it stood.
        before: mean reciprocal rank of held-out spans' passages without it.
        after: with it.
        error: standard error of the best that was measured.
    """

    matrix: Matrix | None
    steps: int
    before: float
    after: float
    error: float


def learned_map(
    spans_ND: Matrix, passage_N: npt.NDArray[np.int64], passages_PD: Matrix, seed: int, steps: int,
    watch: Callable[[int, float], None],
) -> Learned:  # fmt: skip
    """Learn the map of an encoder's vectors by which spans find their passages.

    Args:
        spans_ND: unit vectors.
        passage_N: the passage that each span is of.
        passages_PD: unit vectors.
        seed: of the held-out passages and the order of the spans.
        steps: at most.
        watch: is told the step, and what was measured there.
    """
    rng = np.random.default_rng(seed)
    is_out_N = (rng.random(len(passages_PD)) < _HELD_OUT)[passage_N]
    train, held_out = np.flatnonzero(~is_out_N), np.flatnonzero(is_out_N)
    held_out = rng.permutation(held_out)[:_MEASURED]
    if not len(train) or not len(held_out):
        return Learned(None, 0, 0.0, 0.0, 0.0)
    spans, passages, own_N = torch.from_numpy(spans_ND), torch.from_numpy(passages_PD), torch.from_numpy(passage_N)
    map_DD = torch.eye(spans.shape[1], requires_grad=True)
    identity_DD, optimiser = torch.eye(spans.shape[1]), torch.optim.Adam([map_DD], lr=_RATE)
    found: list[tuple[int, float, float, Matrix]] = []
    for step in range(steps + 1):
        if step % _EVERY == 0 or step == steps:
            with torch.no_grad():
                ranks = _reciprocal_ranks(spans[held_out], own_N[held_out], passages, map_DD)
            error = float(ranks.std(correction=0)) / len(ranks) ** 0.5
            found.append((step, float(ranks.mean()), error, map_DD.detach().numpy().copy()))
            watch(step, found[-1][1])
        if step == steps:
            break
        batch = torch.from_numpy(train[rng.integers(len(train), size=BATCH)])
        logits_BP = F.normalize(spans[batch] @ map_DD, dim=1) @ F.normalize(passages @ map_DD, dim=1).T / _TEMPERATURE
        loss = F.cross_entropy(logits_BP, own_N[batch]) + _NEAR_IDENTITY * (map_DD - identity_DD).square().sum()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    best = max(found, key=lambda one: one[1])
    kept = next(one for one in found if one[1] >= best[1] - best[2])
    return Learned(kept[3] if kept[0] else None, kept[0], found[0][1], kept[1], best[2])


def _reciprocal_ranks(spans_ND: Tensor, own_N: Tensor, passages_PD: Tensor, map_DD: Tensor) -> Tensor:
    """Return for each held-out span 1 / the rank of its passage by the map that learns, (N,); a tie is no success."""
    cosines_NP = F.normalize(spans_ND @ map_DD, dim=1) @ F.normalize(passages_PD @ map_DD, dim=1).T
    own_N1 = cosines_NP.gather(1, own_N[:, None])
    return 1 / (cosines_NP >= own_N1).sum(dim=1).float()
