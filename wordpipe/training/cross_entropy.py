"""Cross-entropy over a large vocabulary without ever holding all logits.

With 16,000 tokens the logits of one step are 260 MB, and a CPU spends more time moving them than computing them. Here they
are made for a few rows at a time, turned into loss and gradient while they are still in the cache, and forgotten: the same
three matrix products, a third to half of the time. One core, N = 4096 rows, D = 128, V = 16000: 0.95 → 0.45 s; rows at once
32: 0.54, 128: 0.45, 512: 0.53.

Under bfloat16 autocast all three products take bfloat16 (a CPU with AMX does them four to eight times as fast) and so does
the softmax: 512 rows on one core 44 ms by way of float32, 6 ms without. What is added up over chunks is float32.

A GPU's memory takes all logits at once, and a compiled program fuses what is done to them: there the plain way is used.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model import filled

_BYTES_AT_ONCE = 1 << 23  # of logits: two buffers of that size stay in a server core's share of the cache
_ROWS = 64
_LABELS_AT_ONCE = 1 << 10  # rows of the output matrix: adding bfloat16 to float32 3.1 → 1.8 ms (V = 16000, D = 256)


def cross_entropy_sum(
    hidden_ND: Tensor, output_VD: Tensor, bias_V: Tensor | None, labels_N: Tensor, weights_N: Tensor,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Return Σ weight · cross-entropy of softmax(hidden · outputᵀ + bias) with the label, in nats, float32.

    The target is 1 - ε + ε/V at the label and ε/V elsewhere. Its even part is linear in the logits, so it takes the mean row
    of the output matrix and no pass over the logits: Σ target · -log p = -log p[label] + ε (logit[label] - mean logit).

    Args:
        hidden_ND: what the output matrix is applied to.
        output_VD: the output matrix.
        bias_V: added to the logits, or None.
        labels_N: ids, int64.
        weights_N: weight of each row, float32; gets no gradient.
        label_smoothing: ε, from 0 up to 1.

    Returns:
        A scalar. On a CPU its gradient can be asked for once, by one `backward`.

    Source: smoothing: Szegedy et al. 2016, section 7.
    """
    if hidden_ND.device.type != "cpu" or torch.compiler.is_compiling():
        logits_NV = F.linear(hidden_ND, output_VD, bias_V).float()
        loss_N = F.cross_entropy(logits_NV, labels_N, reduction="none", label_smoothing=label_smoothing)
        return (loss_N * weights_N).sum()
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden_ND.dtype
    rows = _Rows(hidden_ND, output_VD, bias_V, labels_N, weights_N, label_smoothing)
    with torch.autocast("cpu", enabled=False):  # the products' type is decided
        if not torch.is_grad_enabled():
            return _loss(rows.in_type(dtype))
        total: Tensor = _Chunked.apply(hidden_ND, output_VD, bias_V, rows, dtype)  # type: ignore[no-untyped-call]
        return total


class _Chunked(torch.autograd.Function):
    """Cross-entropy that computes the gradients together with the loss, as the logits are gone afterwards."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, output_VD: Tensor, bias_V: Tensor | None, rows: "_Rows", dtype: torch.dtype
    ) -> Tensor:
        rows = rows.in_type(dtype).filled()
        gradients = _Gradients(rows)
        total = _loss(rows, gradients)
        hidden = gradients.hidden_ND[: len(hidden_ND)].to(hidden_ND.dtype)
        ctx.gradients = hidden, gradients.output_VD, gradients.bias_V
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # handed over, not saved: who is the only owner of 16 MB may keep and change them, else they are copied
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError("the gradients of a cross-entropy can be computed only once")
        scale = float(grads[0])
        if scale != 1.0:
            gradients = tuple(None if gradient is None else gradient.mul_(scale) for gradient in gradients)
        return *gradients, None, None


@dataclass(frozen=True)
class _Rows:
    """The arguments of `cross_entropy_sum`, (N, D), (V, D), (V), (N), (N)."""

    hidden: Tensor
    output: Tensor
    bias: Tensor | None
    labels: Tensor
    weights: Tensor
    smoothing: float

    def in_type(self, dtype: torch.dtype) -> "_Rows":
        """Return a copy in which all factors of the products have the type of the products."""
        bias = None if self.bias is None else self.bias.to(dtype)
        return replace(self, hidden=self.hidden.to(dtype), output=self.output.to(dtype), bias=bias)

    def filled(self) -> "_Rows":
        """Return a copy that is filled up with rows of weight 0, see `model.filled`."""
        hidden = filled(self.hidden)
        labels, weights = (F.pad(one, (0, len(hidden) - len(one))) for one in (self.labels, self.weights))
        return replace(self, hidden=hidden, labels=labels, weights=weights)

    @property
    def at_once(self) -> int:
        """Return the number of rows of a chunk."""
        most = _BYTES_AT_ONCE // (len(self.output) * self.hidden.element_size())
        return max(1, min(len(self.hidden), most // _ROWS * _ROWS or most))

    def logits(self, here: slice, out_CV: Tensor) -> Tensor:
        """Return the logits of a chunk, written to `out_CV`: fresh memory costs more than the softmax."""
        if self.bias is None:
            return torch.mm(self.hidden[here], self.output.T, out=out_CV)
        return torch.addmm(self.bias, self.hidden[here], self.output.T, out=out_CV)


class _Gradients:
    """Gradients of the summed cross-entropy, filled chunk by chunk; float32 where many small terms are added up."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        wide = torch.promote_types(rows.hidden.dtype, torch.float32)
        self.hidden_ND = torch.empty_like(rows.hidden)
        # not zeros, but where there is no row: the first chunk is written, not added
        made = torch.empty_like if len(rows.hidden) else torch.zeros_like
        self.output_VD = made(rows.output, dtype=wide)
        self.bias_V = None if rows.bias is None else torch.zeros_like(rows.bias, dtype=wide)
        self._part_VD = None if wide is rows.hidden.dtype else torch.empty_like(rows.output)

    def add(self, here: slice, error_CV: Tensor) -> None:
        """Add the gradients of the cross-entropy of a chunk, whose `error_CV` is softmax minus target."""
        weights_C = self._rows.weights[here].to(error_CV.dtype)
        torch.mm(error_CV, self._rows.output, out=self.hidden_ND[here])
        self.hidden_ND[here] *= weights_C[:, None]
        self._add_output(error_CV, self._rows.hidden[here] * weights_C[:, None], first=here.start == 0)
        if self.bias_V is not None:
            self.bias_V += torch.mm(weights_C[None], error_CV)[0]

    def _add_output(self, error_CV: Tensor, hidden_CD: Tensor, *, first: bool) -> None:
        """Add the gradients of the cross-entropy of a chunk by the output matrix."""
        if self._part_VD is None:
            torch.addmm(self.output_VD, error_CV.T, hidden_CD, beta=0.0 if first else 1.0, out=self.output_VD)
            return
        torch.mm(error_CV.T, hidden_CD, out=self._part_VD)
        if first:
            self.output_VD.copy_(self._part_VD)
            return
        for begin in range(0, len(self.output_VD), _LABELS_AT_ONCE):
            self.output_VD[begin : begin + _LABELS_AT_ONCE] += self._part_VD[begin : begin + _LABELS_AT_ONCE]

    def add_even_part(self, mean_D: Tensor) -> None:
        """Add the gradients of the even part of every smoothed target of the cross-entropy."""
        rows, V = self._rows, len(self.output_VD)
        weights_N = rows.weights.to(self.output_VD.dtype)
        self.hidden_ND -= (rows.smoothing * weights_N[:, None] * mean_D).to(self.hidden_ND.dtype)
        self.output_VD -= (rows.smoothing / V) * (weights_N @ rows.hidden.to(weights_N.dtype))
        if self.bias_V is not None:
            self.bias_V -= (rows.smoothing / V) * weights_N.sum()


def _loss(rows: _Rows, gradients: _Gradients | None = None) -> Tensor:
    """Return the summed cross-entropy, chunk by chunk, and add up its gradients where they are wanted."""
    # buffers of one chunk, used again for each
    N, V = len(rows.hidden), len(rows.output)
    wide = torch.promote_types(rows.hidden.dtype, torch.float32)
    logits_CV, other_CV = (rows.hidden.new_empty(rows.at_once, V) for _ in range(2))
    total = torch.zeros((), dtype=wide)
    for first in range(0, N, rows.at_once):
        # logits of a chunk, its loss, its gradient
        here = slice(first, min(first + rows.at_once, N))
        labels_C1, weights_C = rows.labels[here, None], rows.weights[here].to(wide)
        z_CV, p_CV = logits_CV[: len(labels_C1)], other_CV[: len(labels_C1)]
        rows.logits(here, z_CV)
        loss_C = _surprise(z_CV, labels_C1, p_CV if gradients else None, wide)
        if rows.smoothing:
            loss_C += rows.smoothing * z_CV.gather(1, labels_C1)[:, 0].to(wide)
        total += (loss_C * weights_C).sum()
        if gradients:
            # one number of each row; scatter_ copies all of a bfloat16 matrix, twice
            at = (torch.arange(len(labels_C1)), labels_C1[:, 0])
            gradients.add(here, p_CV.index_put_(at, p_CV[at] + (rows.smoothing - 1.0)))
    # the even part of the smoothed targets, once for all rows
    if rows.smoothing:
        mean_D = rows.output.mean(dim=0, dtype=wide)
        means_N = rows.hidden.to(wide) @ mean_D
        means_N = means_N if rows.bias is None else means_N + rows.bias.mean(dtype=wide)
        total -= rows.smoothing * means_N.dot(rows.weights.to(wide))
        if gradients:
            gradients.add_even_part(mean_D)
    return total


def _surprise(z_CV: Tensor, labels_C1: Tensor, p_CV: Tensor | None, wide: torch.dtype) -> Tensor:
    """Return the cross-entropy -log softmax(z)[label], (C); the softmax goes to `p_CV` where it is given.

    bfloat16: the probability of the label is rounded once, to 2⁻⁹ of itself: 0.002 nat of one target, either way as often.
    Where too little of it is left (beyond 87 nats) and where no gradient is wanted (validation), by log-probabilities.
    """
    if p_CV is not None:
        p_C = torch.softmax(z_CV, dim=1, out=p_CV).gather(1, labels_C1)[:, 0]
        if bool((p_C >= torch.finfo(p_C.dtype).tiny).all()):
            return -p_C.to(wide).log()
    return -torch.log_softmax(z_CV.to(wide), dim=1).gather(1, labels_C1)[:, 0]
