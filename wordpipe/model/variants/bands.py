"""Attention in a window, in blocks: queries in blocks as long as the window, each with the neighbouring blocks of keys.

With T positions and a window of W a masked product costs T² scores per head, of which T · (2W + 1) are used; in blocks it
costs T · 3W (T · 2W in a decoder). Global tokens are further keys of every block, and their own queries a small full product.

    keys      | global | block i-1 | block i | block i+1 |
    queries   |                      block i             |

Source: Beltagy et al. 2020 (Longformer), section 3.1 and appendix A (their chunks overlap, these do not).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from wordpipe.model.positions import DistanceBias, mask_like, visible_keys, with_bias


@dataclass(frozen=True)
class Band:
    """The masks of one kind of local layer, by blocks.

    Attributes:
        window: length of a block, W.
        n_blocks: blocks of queries, the last one filled up.
        n_beside: blocks of keys that a block of queries is compared with: 2 or 3.
        global_tokens: first positions that every block has as keys too, g.
        mask: bool or float, (B or 1, n_blocks, H or 1, W, g + n_beside · W).
        global_mask: of the queries that are global tokens, as in `View`; None: there are none, or they see all.
    """

    window: int
    n_blocks: int
    n_beside: int
    global_tokens: int
    mask: Tensor
    global_mask: Tensor | None


def blocks_are_faster(window: int, n_positions: int) -> bool:
    """True if blocks are less work than one mask, with the copies that blocks need.

    CPU, whole training step of 2 layers, float32, time with a mask over time in blocks: T = 512, window 64: 0.9 (encoder) and
    1.1 (decoder); 1024: 1.2 and 1.4; 2048: 2.2 and 2.2.
    """
    return n_positions >= 16 * window and n_positions >= 512


def make_band(
    n_positions: int, real_BT: Tensor | None, bias_of: DistanceBias, *, window: int, global_tokens: int, causal: bool,
    device: torch.device,
) -> Band:  # fmt: skip
    """Lay out the blocks of a sequence.

    Args:
        n_positions: T.
        real_BT: true at real tokens; None where there is no padding.
        bias_of: the bias on the scores of a distance.
        window: how far a position sees to either side.
        global_tokens: the first positions, for which the window does not hold.
        causal: a position sees only itself and what came before.
        device: where the model is.
    """
    W, beside, global_tokens = window, 2 if causal else 3, min(global_tokens, n_positions)
    n_blocks = -(-n_positions // W)
    query_NW = torch.arange(n_blocks * W, device=device).view(n_blocks, W)
    key_NS = query_NW[:, :1] - W + torch.arange(beside * W, device=device)
    # a global token is a key of every block already
    allowed_NWS = (key_NS[:, None] - query_NW[:, :, None]).abs() <= W
    allowed_NWS &= ((key_NS >= global_tokens) & (key_NS < n_positions))[:, None]
    if global_tokens:
        first_g = torch.arange(global_tokens, device=device).expand(n_blocks, -1)
        key_NS = torch.cat((first_g, key_NS), dim=1)
        allowed_NWS = torch.cat((torch.ones_like(allowed_NWS[:, :, :global_tokens]), allowed_NWS), dim=2)
    distance_NWS = key_NS[:, None] - query_NW[:, :, None]
    if causal:
        allowed_NWS = allowed_NWS & (distance_NWS <= 0)
    seen = allowed_NWS[None]
    if real_BT is not None:
        seen = seen & real_BT.bool()[:, key_NS.clamp(0, n_positions - 1)][:, :, None]
    # a query that sees nothing (padding, or past the end) sees everything: its output is not used, and must not be NaN
    seen = (seen | ~seen.any(dim=-1, keepdim=True))[:, :, None]
    bias = bias_of(distance_NWS)
    mask = seen if bias is None else bias.transpose(1, 2).masked_fill(~seen, -torch.inf)
    global_mask = None
    if global_tokens:
        key_T = torch.arange(n_positions, device=device)
        distance_gT = key_T - key_T[:global_tokens, None]
        global_mask = with_bias(visible_keys(distance_gT, real_BT, causal=causal), bias_of(distance_gT))
    return Band(W, n_blocks, beside, global_tokens, mask, global_mask)


def banded_attention(q_BHTE: Tensor, k_BGTE: Tensor, v_BGTE: Tensor, band: Band) -> Tensor:
    """Compute the mean that each query gathers within its band, shape (B, H, T, E).

    Args:
        q_BHTE: queries.
        k_BGTE: keys; heads that share them are repeated, as the blocks are copies anyway.
        v_BGTE: values.
        band: from `make_band`, for the same sequences.
    """
    B, H, T, E = q_BHTE.shape
    W, shared = band.window, H // k_BGTE.shape[1]
    k, v = (x if shared == 1 else x.repeat_interleave(shared, dim=1) for x in (k_BGTE, v_BGTE))
    q_BNHWE = F.pad(q_BHTE, (0, 0, 0, band.n_blocks * W - T)).view(B, H, band.n_blocks, W, E).transpose(1, 2)
    mixed_BNHWE = F.scaled_dot_product_attention(
        q_BNHWE, _blocks_beside(k, band), _blocks_beside(v, band), attn_mask=mask_like(band.mask, q_BHTE)
    )
    mixed_BHTE = mixed_BNHWE.transpose(1, 2).reshape(B, H, band.n_blocks * W, E)[:, :, :T]
    if not band.global_tokens:
        return mixed_BHTE
    everything_BHgE = F.scaled_dot_product_attention(
        q_BHTE[:, :, : band.global_tokens], k, v, attn_mask=mask_like(band.global_mask, q_BHTE)
    )
    return torch.cat((everything_BHgE, mixed_BHTE[:, :, band.global_tokens :]), dim=2)


def _blocks_beside(x_BHTE: Tensor, band: Band) -> Tensor:
    """Return for every block of queries the keys that it is compared with, (B, n_blocks, H, g + n_beside · W, E)."""
    W, N = band.window, band.n_blocks
    after = N * W - x_BHTE.shape[2] + (W if band.n_beside == 3 else 0)
    padded = F.pad(x_BHTE, (0, 0, W, after))
    windows_BHNES = padded.unfold(2, band.n_beside * W, W)
    blocks_BNHSE = windows_BHNES.permute(0, 2, 1, 4, 3)
    if not band.global_tokens:
        return blocks_BNHSE
    first = x_BHTE[:, None, :, : band.global_tokens].expand(-1, N, -1, -1, -1)
    return torch.cat((first, blocks_BNHSE), dim=3)
