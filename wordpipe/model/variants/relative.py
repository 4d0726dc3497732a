"""Relative attention: a score of what two positions hold, and one of how far they are apart; memory and two streams.

    score(i, j) = (q_i + u) · k_j + (q_i + v) · W_R R(i - j) + (q_i + w) · s_[i and j are of two segments]

    attention = softmax(score / sqrt(E)) V        R(d) = (sin d f, cos d f),  f_n = 10000^(-2n / D)

u, v and w are vectors of each head, the same for all queries; the third term is there where the model has segments. As no
position has a number, what was computed for a text is right wherever it stands, and can be kept.

Memory (Transformer-XL): a sequence is read in segments of M positions. Each position sees its own segment up to itself, and
the whole segment before, whose states are kept as they were: no gradient goes there. All segments of a sequence are computed
at once, as what a layer keeps of a segment comes from the layer below alone.

Two streams (XLNet): a query stream of further rows, each at the place of a token that it must not see. Both streams ask by the
same weights; keys and values are of the content stream.

Source: Dai et al. 2019, "Transformer-XL", sections 3.2 and 3.3; Yang et al. 2019, "XLNet", sections 2.3 to 2.5.

Shapes: S keys, T queries; P = S + T distances; K rows of the query stream; M positions of a segment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import MixerKind, ModelConfig
from wordpipe.model.fused_attention import kernel
from wordpipe.model.layers import Linear
from wordpipe.model.positions import mask_like, visible_keys, with_bias

if TYPE_CHECKING:
    from wordpipe.model.attention import KeysValues, View
    from wordpipe.model.positions import DistanceBias


@dataclass(frozen=True)
class Distances:
    """The distances of keys from queries, for a layer.

    Attributes:
        waves: R of the distances S - 1 to -T, in that order, (P, D), float32.
        n_keys: S, the last ones that there are.
        segment: M where the sequence is read in segments, whose queries and keys (of two segments) the others are of; else 0.
        apart: true where query and key are of two segments of text, (B, 1, T, S); None: all are of one.
        at: places of the query stream's rows, which follow the content's, (B, K), int64; None: there is no such stream.
    """

    waves: Tensor
    n_keys: int
    segment: int = 0
    apart: Tensor | None = None
    at: Tensor | None = None


def distances(
    config: ModelConfig, n_queries: int, n_keys: int, segments_BS: Tensor | None, device: torch.device, segment: int = 0
) -> Distances:
    """Return the relative distances of queries that stand at the last positions of the keys."""
    distance_P = torch.arange(n_keys - 1, -n_queries - 1, -1, device=device, dtype=torch.float32)
    power = torch.arange(0, config.dim, 2, device=device, dtype=torch.float32) / config.dim
    angles = torch.outer(distance_P, 1.0 / 10_000.0**power)
    waves_PD = torch.cat((angles.sin(), angles.cos()), dim=1)[:, : config.dim]
    apart = None
    if segments_BS is not None:
        apart = (segments_BS[:, -n_queries:, None] != segments_BS[:, None])[:, None]
    return Distances(waves_PD, n_keys, segment, apart)


def relative_view(
    config: ModelConfig, bias_of: "DistanceBias", window: int, first: int, last: int, real: Tensor | None,
    segments_BS: Tensor | None, device: torch.device,
) -> tuple[Tensor | None, Distances]:  # fmt: skip
    """Return the mask and the relative distances of a layer; the arguments are those of `make_view`.

    Returns:
        mask: as in `View`; of a sequence in segments (N, 1, M, 2M), of one sequence or of all, a segment after the other.
        distances: as in `View`.
    """
    M = config.mem_len
    if M and first == 0 and last > M:
        distance_TS = torch.arange(-M, M, device=device) - torch.arange(M, device=device)[:, None]
        real_BT = torch.ones(1, last, dtype=torch.bool, device=device) if real is None else real.bool()
        real = _cut(real_BT[:, None, :, None], M)
        seen = visible_keys(distance_TS, _with_before(real, real)[:, 0, :, 0], causal=True)
        return with_bias(seen, bias_of(distance_TS)), distances(config, M, 2 * M, None, device, segment=M)
    n, kept = last - first, max(0, (first // M - 1) * M) if M else 0
    distance_TS = torch.arange(last, device=device) - torch.arange(first, last, device=device)[:, None]
    seen = visible_keys(
        distance_TS, real, causal=config.causal and n > 1, window=window, global_tokens=config.global_tokens, segment=M
    )
    seen = None if seen is None else seen[..., kept:]
    return with_bias(seen, bias_of(distance_TS[:, kept:])), distances(config, n, last - kept, segments_BS, device)


def two_stream_views(
    views: Mapping[tuple[MixerKind, int], "View"], at_BK: Tensor, order_BT: Tensor
) -> dict[tuple[MixerKind, int], "View"]:
    """Return the views of content and query stream of relative attention, made of those of the content."""
    T = order_BT.shape[1]
    asking_BQ1 = torch.cat((order_BT, order_BT.gather(1, at_BK)), dim=1)[..., None]
    seen_BQT = (order_BT < 0)[:, None] | (order_BT[:, None] < asking_BQ1)
    seen_BQT[:, :T] |= torch.eye(T, dtype=torch.bool, device=order_BT.device)
    place_BQ = torch.cat((torch.arange(T, device=at_BK.device).expand(len(at_BK), T), at_BK), dim=1)

    def view(of_content: "View") -> "View":
        here = of_content.distances
        assert here is not None
        apart = here.apart
        if apart is not None:
            apart = apart.gather(2, place_BQ[:, None, :, None].expand(-1, -1, -1, T))
        return replace(of_content, mask=seen_BQT[:, None], distances=replace(here, at=at_BK, apart=apart))

    return {kind: view(of_content) for kind, of_content in views.items()}


class Relative(nn.Module):
    """The parts of a layer of relative attention beside its queries, keys and values."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.mem_len = config.n_heads, config.n_kv_heads, config.mem_len
        shape = (config.n_heads, config.head_dim)
        self.position = Linear(config.dim, config.n_heads * config.head_dim, bias=False)  # W_R
        self.content_bias = nn.Parameter(torch.empty(shape))  # u
        self.position_bias = nn.Parameter(torch.empty(shape))  # v
        self.segment_bias = nn.Parameter(torch.empty(shape)) if config.segments else None  # w
        self.segment_keys = nn.Parameter(torch.empty(2, *shape)) if config.segments else None  # s: of one, of two

    def with_kept(self, heads_BTRE: Tensor, x_BTD: Tensor, weight: Tensor, *, grows: bool) -> Tensor:
        """Return relative attention's heads, made of `x_BTD` by `weight`, with the kept memory of segments.

        For segments also keys and values without a gradient to `x_BTD`.

        A text that `grows` has no gradient.
        """
        (B, T, _, E), M = heads_BTRE.shape, self.mem_len
        if not M or grows or T <= M or not torch.is_grad_enabled():
            return heads_BTRE
        kept = F.linear(x_BTD.detach(), weight[self.n_heads * E :])
        return torch.cat((heads_BTRE, kept.view(B, T, 2 * self.n_kv_heads, E)), dim=2)

    def forward(self, heads_BTRE: Tensor, view: "View", memory: "KeysValues | None") -> Tensor:
        """Compute the mean that each query gathers by relative attention, (B, T, H, E).

        The arguments are those of `Attention`.
        """
        here = view.distances
        assert here is not None
        H, G = self.n_heads, self.n_kv_heads
        q, k, v, *kept = torch.split(heads_BTRE.transpose(1, 2), [H] + [G] * (heads_BTRE.shape[2] // G - H // G), dim=1)
        n = q.shape[2]
        if memory is not None:
            k, v = memory.extend(k, v)
        if here.segment:
            q = _cut(q, here.segment).flatten(0, 1)
            k, v = (
                _with_before(_cut(own, here.segment), _cut(before, here.segment))
                for own, before in zip((k, v), kept or (k, v), strict=True)
            )
        elif memory is not None:
            k, v = memory.last(here.n_keys)
        else:
            k, v = k[:, :, : here.n_keys], v[:, :, : here.n_keys]
        q_u = q + self.content_bias.to(q.dtype)[:, None]
        mixed = kernel(q_u, k, v, mask_like(self.bias(q, here, view.mask), q)).transpose(1, 2)
        return mixed.reshape(len(heads_BTRE), -1, *mixed.shape[2:])[:, :n]

    def bias(self, q_BHTE: Tensor, here: Distances, mask: Tensor | None) -> Tensor:
        """Compute the scores of relative distances and segments, and the mask, as a bias (B, H, T, S).

        Args:
            q_BHTE: queries, those of the query stream behind those of the content.
            here: how far the keys are from them.
            mask: as in `View`, or for each row of a batch of segments.
        """
        scaled, S = q_BHTE / q_BHTE.shape[3] ** 0.5, here.n_keys
        asking = scaled + (self.position_bias / q_BHTE.shape[3] ** 0.5).to(q_BHTE.dtype)[:, None]
        waves = here.waves.to(self.position.weight.dtype)
        of_distance_HEP = self.position(waves).view(len(waves), self.n_heads, -1).permute(1, 2, 0).to(q_BHTE.dtype)
        scores_BHTP = asking @ of_distance_HEP
        T = scores_BHTP.shape[2] - (0 if here.at is None else here.at.shape[1])
        bias = _shifted(scores_BHTP[:, :, :T], S)
        if here.at is not None:
            place_BKS = T - 1 - here.at[..., None] + torch.arange(S, device=here.at.device)
            place = place_BKS[:, None].expand(-1, self.n_heads, -1, -1)
            bias = torch.cat((bias, scores_BHTP[:, :, T:].gather(3, place)), dim=2)
        if here.apart is not None and self.segment_keys is not None and self.segment_bias is not None:
            asking = scaled + (self.segment_bias / q_BHTE.shape[3] ** 0.5).to(q_BHTE.dtype)[:, None]
            both = asking @ self.segment_keys.permute(1, 2, 0).to(q_BHTE.dtype)
            bias = bias + torch.where(here.apart, both[..., 1:], both[..., :1])
        if mask is None:
            return bias
        if mask.dim() == 4 and len(mask) not in (1, len(bias)):  # the same segments of all sequences
            mask = mask.repeat(len(bias) // len(mask), 1, 1, 1)
        return bias.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else bias + mask


def _shifted(scores_BHTP: Tensor, n_keys: int) -> Tensor:
    """Turn scores by relative distance, from S - 1 down to -T, into scores by key, (B, H, T, S).

    In the rows written one after the other that is number i (P - 1) + T - 1 + j: rows of P - 1, which begin T - 1 later.
    """
    B, H, T, P = scores_BHTP.shape
    flat = scores_BHTP.flatten(2)[..., T - 1 : T - 1 + T * (P - 1)]
    return flat.view(B, H, T, P - 1)[..., :n_keys]


def _cut(x_BGTE: Tensor, M: int) -> Tensor:
    """Cut positions into segments, filled up with zeros, (B, T/M, G, M, E)."""
    B, G, T, E = x_BGTE.shape
    return F.pad(x_BGTE, (0, 0, 0, -T % M)).view(B, G, -1, M, E).transpose(1, 2)


def _with_before(own: Tensor, before: Tensor) -> Tensor:
    """Join each segment to its predecessor, zeros before the first: (B, N, G, M, E), twice, → (B · N, G, 2 M, E)."""
    before = torch.cat((torch.zeros_like(before[:, :1]), before[:, :-1]), dim=1)
    return torch.cat((before, own), dim=3).flatten(0, 1)
