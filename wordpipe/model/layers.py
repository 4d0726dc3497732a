"""The layers of a block: norm, matrix, feed-forward, and attention with several heads.

A norm keeps the residual stream's scale in bounds, always in float32. The feed-forward goes through a wider layer:

    plain   FFN(x) = act(x W₁) W₃                Vaswani et al. 2017, equation 2 (act = ReLU)
    gated   FFN(x) = (act(x W₁) ⊙ x W₂) W₃       Shazeer 2020, equation 6: GELU makes it GeGLU, SiLU SwiGLU

At equal weights the gated one is 2/3 as wide inside.

Attention gives each position a mean of the values of all that it sees, weighed by how well query and key match:

    attention(Q, K, V) = softmax(Q Kᵀ / sqrt(E)) V

Source: Vaswani et al. 2017, equation 1 and section 3.2.2; heads that share keys and values: Ainslie et al. 2023. The other
kinds of attention are in `variants`, loaded by the models that have them, the masks in `positions`. A decoder caches the
keys and values of the positions that it has read, so that the next token costs one position and not all of them (Shazeer
2019, section 2.4).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import FeedForwardKind, ModelConfig
from wordpipe.model.fused import attend, attends, fuses, gated
from wordpipe.model.positions import DistanceBias, mask_like, rotate, visible_keys, with_bias

if TYPE_CHECKING:
    from wordpipe.model.variants.bands import Band
    from wordpipe.model.variants.similarity import Sums


class Norm(nn.Module):
    """A norm over the last axis, with a weight and, where `config.norm_bias`, an offset.

    `layer`: w · (x - mean) / sqrt(var + eps) + b. Source: Ba et al. 2016, equation 4.
    `rms`: w · x / sqrt(mean(x²) + eps) + b. Source: Zhang & Sennrich 2019, equation 4.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind, self.eps = config.norm, config.norm_eps
        self.weight = nn.Parameter(torch.empty(config.dim))
        self.bias = nn.Parameter(torch.empty(config.dim)) if config.norm_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Norm of `x` of shape (…, D), as float32."""
        x = x.float()
        if self.kind == "layer":
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        normed = F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return normed if self.bias is None else normed + self.bias


class Linear(nn.Module):
    """x ↦ x Wᵀ + b.

    torch's own fills its weights from the global generator when it is made; this one leaves them to `init.initialise`, which
    costs a large model a second less and uses no random number that the caller did not seed.
    """

    def __init__(self, n_in: int, n_out: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Product over the last axis: (…, n_in) → (…, n_out)."""
        return F.linear(x, self.weight, self.bias)


ACTIVATIONS: dict[FeedForwardKind, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's: tanh approximates the error function
    "geglu": F.gelu,
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
        """Feed-forward of the residual stream, shape (B, T, D)."""
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


@dataclass
class KeysValues:
    """Keys and values of one layer, (B, G, S, E) each, of which the first `length` positions are filled."""

    keys: Tensor
    values: Tensor
    length: int = 0

    def extend(self, k_BGTE: Tensor, v_BGTE: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions; all keys and values so far."""
        first, self.length = self.length, self.length + k_BGTE.shape[2]
        self.keys[:, :, first : self.length] = k_BGTE
        self.values[:, :, first : self.length] = v_BGTE
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


class Cache:
    """Memory of a decoder for sequences that grow together.

    Args:
        config: of the model; causal.
        batch_size: sequences.
        max_len: positions that there is room for.
        device: where the model is.

    Attributes:
        length: positions held.
        layers: one memory per layer.
    """

    def __init__(self, config: ModelConfig, batch_size: int, max_len: int, device: torch.device) -> None:
        self.max_len, self.length = max_len, 0
        shape = (batch_size, config.n_kv_heads, max_len, config.head_dim)
        self.layers: list[KeysValues | Sums]
        if config.attention == "linear":
            from wordpipe.model.variants.similarity import empty_sums

            self.layers = [
                empty_sums(batch_size, config.n_heads, config.head_dim, device) for _ in range(config.n_layers)
            ]
        else:
            self.layers = [KeysValues(*torch.zeros(2, *shape, device=device)) for _ in range(config.n_layers)]


@dataclass(frozen=True)
class View:
    """Positions and masks of one layer's attention.

    Attributes:
        angles: cosines and sines of the queries' positions (and of the new keys'), (T, E) each, or None without rotation.
        mask: bool (true where a query sees a key) or float (added to the scores), broadcasts to (B, H, T, S); None: nothing
            but what `causal` says.
        causal: a query sees its own position and those before it, and `mask` does not say so already.
        real: true at the keys that are no padding, (B, S), or None.
        band: the mask of a window in blocks, in place of `mask`, where that is less work.
    """

    angles: tuple[Tensor, Tensor] | None
    mask: Tensor | None
    causal: bool
    real: Tensor | None
    band: "Band | None" = None


@dataclass(frozen=True)
class PackedView:
    """The views of several runs of sequences, one after the other (see `Packed`).

    Attributes:
        shapes: sequences and positions (B, T) of each run; the products add up to the N positions of all.
        views: of each run.
    """

    shapes: tuple[tuple[int, int], ...]
    views: tuple[View, ...]


def make_view(
    config: ModelConfig, window: int, angles: tuple[Tensor, Tensor] | None, bias_of: DistanceBias,
    *, first: int, last: int, real: Tensor | None, device: torch.device,
) -> View:  # fmt: skip
    """The view of layers with this window.

    Args:
        config: of the model.
        window: how far a position sees, 0 = everything.
        angles: from `Rotary`, or None.
        bias_of: the bias on the scores of a distance.
        first: position of the first query; those before it are in the cache.
        last: one more than the position of the last query and key.
        real: true at the keys that are no padding, (B, S), or None.
        device: where the model is.
    """
    if config.attention == "linear":  # it forms no scores: causality is in the way it sums, padding in its features
        return View(angles, None, config.causal, real)
    window = window if window < last - 1 else 0
    if window and first == 0 and config.attention == "dot":
        from wordpipe.model.variants.bands import blocks_are_faster, make_band

        if blocks_are_faster(window, last):
            band = make_band(
                last,
                real,
                bias_of,
                window=window,
                global_tokens=config.global_tokens,
                causal=config.causal,
                device=device,
            )
            return View(angles, None, causal=False, real=real, band=band)
    plain = config.attention == "dot" and not window and not config.biases_scores
    if config.causal and plain and first == 0 and real is None:
        return View(angles, None, causal=True, real=None)  # the kernel masks by itself
    distance_TS = torch.arange(last, device=device) - torch.arange(first, last, device=device)[:, None]
    causal = config.causal and last - first > 1  # a single new position sees all that came before
    seen = visible_keys(distance_TS, real, causal=causal, window=window, global_tokens=config.global_tokens)
    return View(angles, with_bias(seen, bias_of(distance_TS)), causal=False, real=real)


class Attention(nn.Module):
    """One layer's attention.

    One matrix makes queries, keys and values, stacked in that order: one large product instead of three small ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.attention
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.qkv = Linear(config.dim, (self.n_heads + 2 * self.n_kv_heads) * self.head_dim, bias=config.bias)
        self.score = nn.Parameter(torch.empty(self.n_heads, self.head_dim)) if self.kind == "additive" else None
        self.out = Linear(self.n_heads * self.head_dim, config.dim, bias=config.bias)

    def forward(
        self,
        x_BTD: Tensor,
        view: View | PackedView,
        memory: "KeysValues | Sums | None" = None,
        at_BK: Tensor | None = None,
    ) -> Tensor:
        """The mean that each position gathers from those that it sees, shape (B, T, D); with `at_BK` (B, K, D).

        Args:
            x_BTD: residual stream; of packed sequences (1, N, D).
            view: angles, and who sees whom.
            memory: this layer's part of a `Cache`, brought up to date, or None.
            at_BK: the positions whose result is wanted, int64; None: all, in order.
        """
        B, T, _ = x_BTD.shape
        heads = self.qkv(x_BTD).view(B, T, self.n_heads + 2 * self.n_kv_heads, self.head_dim)
        if isinstance(view, PackedView):
            # every run by itself; one split is one node for the gradient, not one per run
            parts = torch.split(heads[0], [B * T for B, T in view.shapes])
            mixed = [
                self._mixed(part.view(B, T, *part.shape[1:]), of_run, None).flatten(0, 1)
                for part, (B, T), of_run in zip(parts, view.shapes, view.views, strict=True)
            ]
            mixed_BTD = torch.cat(mixed)[None]
        else:
            mixed_BTD = self._mixed(heads, view, memory)
        out_BTD: Tensor = self.out(rows_at(mixed_BTD, at_BK))
        return out_BTD

    def _mixed(self, heads: Tensor, view: View, memory: "KeysValues | Sums | None") -> Tensor:
        if self.kind == "linear":
            from wordpipe.model.variants.similarity import linear_attention

            assert not isinstance(memory, KeysValues)
            q, k, v = torch.split(heads, [self.n_heads, self.n_kv_heads, self.n_kv_heads], dim=2)
            mixed_BTHE = linear_attention(
                q, k, v, angles=view.angles, real_BT=view.real, causal=view.causal, sums=memory
            )
        else:
            assert memory is None or isinstance(memory, KeysValues)
            mixed_BTHE = self._softmax(heads, view, memory)
        return mixed_BTHE.reshape(*heads.shape[:2], self.n_heads * self.head_dim)

    def _softmax(self, heads: Tensor, view: View, memory: KeysValues | None) -> Tensor:
        is_plain = memory is None and self.score is None and view.mask is None and view.band is None
        if is_plain and attends(heads):
            return attend(heads, view.angles, n_heads=self.n_heads, n_kv_heads=self.n_kv_heads, causal=view.causal)
        turned, v_BTGE = torch.split(heads, [self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=2)
        if view.angles is not None:
            turned = rotate(turned, *view.angles)
        q_BTHE, k_BTGE = torch.split(turned, [self.n_heads, self.n_kv_heads], dim=2)
        q, k, v = (part.transpose(1, 2) for part in (q_BTHE, k_BTGE, v_BTGE))
        if memory is not None:
            k, v = memory.extend(k, v)
        if self.score is not None:
            from wordpipe.model.variants.similarity import additive_attention

            return additive_attention(q, k, v, self.score, view.mask).transpose(1, 2)
        if view.band is not None:
            from wordpipe.model.variants.bands import banded_attention

            return banded_attention(q, k, v, view.band).transpose(1, 2)
        mixed_BHTE = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask_like(view.mask, q),
            is_causal=view.causal,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )
        return mixed_BHTE.transpose(1, 2)


def rows_at(x_BTD: Tensor, at_BK: Tensor | None) -> Tensor:
    """Some positions of every sequence, (B, K, D); all of them where none are named."""
    if at_BK is None:
        return x_BTD
    B, T, D = x_BTD.shape
    first_B1 = torch.arange(B, device=x_BTD.device)[:, None] * T
    return x_BTD.reshape(B * T, D).index_select(0, (at_BK + first_B1).flatten()).view(B, -1, D)
