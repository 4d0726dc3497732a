"""Who sees whom: causality, padding, windows and global tokens, brought together in one mask per kind of layer.

                 causal            window of 2       window of 2, 1 global token
    query 0      x . . . . .       x x x . . .       x x x x x x
    query 1      x x . . . .       x x x x . .       x x x x . .
    query 2      x x x . . .       x x x x x .       x x x x x .
    query 3      x x x x . .       . x x x x x       x x x x x x
    query 4      x x x x x .       . . x x x x       x . x x x x

Sources: window and global tokens: Beltagy et al. 2020 (Longformer), section 3.1; local layers between global ones:
Warner et al. 2024 (ModernBERT), section 2.1.2.
"""

import torch
from torch import Tensor

__all__ = ["visible_keys"]


def visible_keys(
    distance_TS: Tensor, real_BS: Tensor | None, *, causal: bool, window: int = 0, global_tokens: int = 0
) -> Tensor | None:
    """Which keys each query sees.

    A query that would see nothing (all keys are padding) is let see all keys that its place allows: its output is never
    used, but a softmax over nothing is NaN, and NaN spreads through the gradient.

    Args:
        distance_TS: position of the key minus position of the query, int64.
        real_BS: true at real tokens; None where there is no padding.
        causal: a position sees only itself and what came before.
        window: how far a position sees to either side, 0 = any distance.
        global_tokens: the first positions, which a window does not hold for, as query or as key.

    Returns:
        A bool tensor that broadcasts to (B, H, T, S), or None where every query sees every key.
    """
    seen_TS = None
    if window:
        seen_TS = distance_TS.abs() <= window
        if global_tokens:
            key_S = torch.arange(distance_TS.shape[1], device=distance_TS.device)
            query_T = key_S[0] - distance_TS[:, 0]
            seen_TS = seen_TS | (key_S < global_tokens) | (query_T < global_tokens)[:, None]
    if causal:
        before_TS = distance_TS <= 0
        seen_TS = before_TS if seen_TS is None else seen_TS & before_TS
    if real_BS is None:
        return seen_TS
    allowed = torch.ones_like(distance_TS[None, None], dtype=torch.bool) if seen_TS is None else seen_TS[None, None]
    seen = allowed & real_BS.bool()[:, None, None, :]
    return seen | (allowed & ~seen.any(dim=-1, keepdim=True))
