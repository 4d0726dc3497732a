"""The layers that treat every position by itself: norm, matrix, feed-forward.

A norm keeps the residual stream's scale in bounds, always in float32. The feed-forward goes through a wider layer:

    plain   FFN(x) = act(x W₁) W₃                Vaswani et al. 2017, equation 2 (act = ReLU)
    gated   FFN(x) = (act(x W₁) ⊙ x W₂) W₃       Shazeer 2020, equation 6: GELU makes it GeGLU, SiLU SwiGLU

At equal weights the gated one is 2/3 as wide inside.

A small model's step on a CPU spends a third of its time not in matrix products but in moving activations: each operation of
torch reads and writes them once, and its gradient does so again, into memory that is fresh and zeroed. `gated` here, and
`attend` in attention.py, do several operations at a time and write their gradients where they are needed. Both have a plain
twin in the tests; a GPU uses the plain operations, which a compiled program fuses by itself.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import FeedForwardKind, ModelConfig
from wordpipe.runtime import multiplies_by_onednn

_ROWS_TO_PACK = 64  # below, the time does not matter
_aten = torch.ops.aten
_gelu_tanh = partial(F.gelu, approximate="tanh")  # GPT-2's: tanh approximates the error function
_ACTIVATION_GRADIENTS = {
    F.gelu: _aten.gelu_backward.grad_input,
    _gelu_tanh: partial(_aten.gelu_backward.grad_input, approximate="tanh"),
    F.silu: _aten.silu_backward.grad_input,
}


class Norm(nn.Module):
    """A norm over the last axis, with a weight and, where `config.norm_bias`, an offset.

    `layer`: w · (x - mean) / sqrt(var + eps) + b. Source: Ba et al. 2016, equation 4.
    `rms`: w · x / sqrt(mean(x²) + eps) + b. Source: Zhang & Sennrich 2019, equation 4.
    """

    def __init__(self, config: ModelConfig, dim: int = 0) -> None:
        super().__init__()
        self.kind, self.eps = config.norm, config.norm_eps
        self.weight = nn.Parameter(torch.empty(dim or config.dim))
        self.bias = nn.Parameter(torch.empty(dim or config.dim)) if config.norm_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm of `x` of shape (…, D), as float32."""
        x = x.float()
        if self.kind == "layer":
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        if fuses(x) and torch.is_grad_enabled():
            normed: Tensor = _RmsNormed.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        else:
            normed = F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return normed if self.bias is None else normed + self.bias


class _RmsNormed(torch.autograd.Function):
    """w · x / sqrt(mean(x²) + eps), whose gradient torch forms operation by operation: 2,600 x 256, ms, 1.3 → 0.45."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        mean = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        scale = mean.add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        normed: Tensor = (x * scale).mul_(weight)
        return normed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight, scale), (grad,) = ctx.saved_tensors, grads
        normed_ND, grad_ND = (x * scale).flatten(0, -2), grad.flatten(0, -2)
        both_ND = grad_ND * normed_ND
        along_N1 = torch.mv(both_ND, weight).div_(-x.shape[-1])[:, None]
        out_ND = (grad_ND * weight).addcmul_(normed_ND, along_N1).mul_(scale.view(-1, 1))
        return out_ND.view(x.shape), both_ND.sum(0), None


class Dropout(nn.Module):
    """Zeroes a share of the values while training, and enlarges the others by as much; adds them to a residual stream.

    Source: Srivastava et al. 2014, section 10 (the scaling while training).

    Args:
        rate: share, a multiple of 2⁻¹⁶ on a CPU, below 1.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, y: Tensor) -> Tensor:
        """Return values of which a share is zeroed."""
        if not self._acts_here(y):
            return F.dropout(y, self.rate, self.training)
        dropped: Tensor = _Dropped.apply(None, y, self.rate)  # type: ignore[no-untyped-call]
        return dropped

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of x, float32, and `forward` of y."""
        if not self._acts_here(y):
            # torch adds numbers of two types many times slower than it turns them into one: 338,000, µs, 750 → 80
            return x + F.dropout(y, self.rate, self.training).to(x.dtype)
        total: Tensor = _Dropped.apply(x, y, self.rate)  # type: ignore[no-untyped-call]
        return total

    def _acts_here(self, y: Tensor) -> bool:
        """True if the fused dropout is used: in training, on a CPU."""
        return self.training and self.rate > 0.0 and fuses(y)


class _Dropped(torch.autograd.Function):
    """x + y · kept / (1 - rate).

    torch draws each value by itself, one after the other: 338,000 take 1.5 ms. 16 bits of a fast generator decide here, whose
    seed is drawn from torch's, and it takes 0.2.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, rate: float) -> Tensor:
        seed, lost = int(torch.randint(0, 2**63 - 1, ())), round(rate * 2**16)
        drawn = np.random.SFC64(seed).random_raw(-(-y.numel() // 4)).view(np.int16)
        kept = torch.from_numpy(drawn)[: y.numel()].ge(lost - 2**15).view(y.shape)
        ctx.save_for_backward(kept)
        ctx.scale, ctx.adds, ctx.dtype = 1.0 / (1.0 - lost / 2**16), x is not None, y.dtype
        factors = kept.to(torch.promote_types(y.dtype, torch.float32))
        wide = y.to(factors.dtype)
        if x is None:
            return factors.mul_(ctx.scale).mul_(wide).to(y.dtype)
        return torch.addcmul(x, wide, factors, value=ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (kept,), (grad,) = ctx.saved_tensors, grads
        factors = kept.to(torch.promote_types(grad.dtype, torch.float32)).mul_(ctx.scale)
        return grad if ctx.adds else None, factors.mul_(grad.to(factors.dtype)).to(ctx.dtype), None


class Linear(nn.Module):
    """x ↦ x Wᵀ + b.

    torch's own fills its weights from the global generator when it is made; this one leaves them to `init.initialise`, which
    costs a large model a second less and uses no random number that the caller did not seed.
    """

    def __init__(self, n_in: int, n_out: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out)) if bias else None
        self._product = Product()

    def forward(self, x: Tensor) -> Tensor:
        """Compute the product over the last axis: (…, n_in) → (…, n_out)."""
        return self._product(x, self.weight, self.bias)


class Product:
    """x Wᵀ + b; where oneDNN multiplies and the weights are never trained, these are kept in the order of its reading.

    1,000 rows by 1,024 x 256 on two cores of an AMD EPYC, GFLOP/s: MKL 197, oneDNN 386, so 473, and the same bits. The weights
    are held twice then.
    """

    def __init__(self) -> None:
        self._packed: tuple[tuple[int, int], Tensor] | None = None

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute the product over the last axis."""
        if weight.requires_grad or not fuses(x) or x.numel() < _ROWS_TO_PACK * x.shape[-1] or not packs(x):
            return F.linear(x, weight, bias)
        now = weight.data_ptr(), 0 if weight.is_inference() else weight._version
        if self._packed is None or self._packed[0] != now:
            self._packed = now, torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS_TO_PACK)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed[1], bias, "none", [], "")
        return product

    def __deepcopy__(self, memo: dict[int, Any]) -> "Product":
        return Product()

    def __reduce__(self) -> tuple[type["Product"], tuple[()]]:
        return Product, ()


def packs(x: Tensor) -> bool:
    """True if oneDNN multiplies numbers of this type here."""
    return x.dtype is torch.float32 and not torch.is_autocast_enabled("cpu") and multiplies_by_onednn()


def filled(rows_ND: Tensor) -> Tensor:
    """Fill the rows that a layer multiplies up to a multiple of 64 with rows of zeros.

    oneDNN makes a program for each new shape of a product, in about 1 ms: as long as 600 rows of 256 by 768 take.
    """
    missing = -len(rows_ND) % 64
    return F.pad(rows_ND, (0, 0, 0, missing)) if missing else rows_ND


ACTIVATIONS: dict[FeedForwardKind, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": F.silu,
    "geglu": F.gelu,
    "geglu_tanh": _gelu_tanh,
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """The feed-forward. `W₁` and `W₂` of a gated one are stacked in one matrix, the activated half first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activate, self.gated = ACTIVATIONS[config.feedforward], config.gated
        self.up = Linear(config.dim, config.ffn_dim * (2 if config.gated else 1), bias=config.bias)
        self.down = Linear(config.ffn_dim, config.dim, bias=config.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the feed-forward of the residual stream, shape (B, T, D)."""
        inner = self.up(x_BTD)
        if self.gated and fuses(inner):
            inner_BTF = gated(inner, self.activate)
        elif self.gated:
            gate_BTF, up_BTF = inner.chunk(2, dim=-1)
            inner_BTF = self.activate(gate_BTF) * up_BTF
        else:
            inner_BTF = self.activate(inner)
        out_BTD: Tensor = self.down(inner_BTF)
        return out_BTD


def fuses(x: Tensor) -> bool:
    """True if fused operations are used here: on a CPU, and in no program that is compiled."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def gated(both_BTF: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
    """Return act(first half) · second half, as in GeGLU and SwiGLU.

    Args:
        both_BTF: (…, 2F), the activated half first.
        activate: `F.gelu` (by erf or by tanh) or `F.silu`.

    Returns:
        A tensor of shape (…, F) and the same type.
    """
    if torch.is_inference_mode_enabled():
        gate, up = both_BTF.chunk(2, dim=-1)
        return activate(gate).mul_(up)
    out_BTF: Tensor = _Gated.apply(both_BTF, activate)  # type: ignore[no-untyped-call]
    return out_BTF


class _Gated(torch.autograd.Function):
    """Writes both halves' gradients into one matrix; kept apart, they would be joined by another pass."""

    @staticmethod
    def forward(ctx: Any, both: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
        gate, up = both.chunk(2, dim=-1)
        active = activate(gate)
        ctx.save_for_backward(both, active)
        ctx.slope = _ACTIVATION_GRADIENTS[activate]
        return active * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        both, active = ctx.saved_tensors
        (grad,) = grads
        gate, up = both.chunk(2, dim=-1)
        out = torch.empty_like(both)
        gate_out, up_out = out.chunk(2, dim=-1)
        torch.mul(grad, active, out=up_out)
        ctx.slope(grad * up, gate, grad_input=gate_out)
        return out, None
