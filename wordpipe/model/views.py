"""What each layer's attention is told of positions, made once for all layers that see alike."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from wordpipe.model.bands import Band, make_band, pays
from wordpipe.model.config import ModelConfig
from wordpipe.model.masks import visible_keys

__all__ = ["PackedView", "View", "make_view"]


@dataclass(frozen=True)
class View:
    """What one layer's attention is told of positions.

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
    band: Band | None = None


@dataclass(frozen=True)
class PackedView:
    """The views of several runs of sequences that stand one after the other (see packed.py).

    Attributes:
        shapes: sequences and positions (B, T) of each run; the products add up to the N positions of all.
        views: of each run.
    """

    shapes: tuple[tuple[int, int], ...]
    views: tuple[View, ...]


def make_view(
    config: ModelConfig,
    window: int,
    angles: tuple[Tensor, Tensor] | None,
    bias_of: Callable[[Tensor], Tensor | None],
    *,
    first: int,
    last: int,
    real: Tensor | None,
    device: torch.device,
) -> View:
    """What layers with this window are told.

    Args:
        config: of the model.
        window: how far a position sees, 0 = everything.
        angles: from `Rotary`, or None.
        bias_of: bias on the scores, (1, H, …), for distances of any shape (…) between key and query, or None.
        first: position of the first query; those before it are in the cache.
        last: one more than the position of the last query and key.
        real: true at the keys that are no padding, (B, S), or None.
        device: where the model is.
    """
    if config.attention == "linear":  # it forms no scores: causality is in the way it sums, padding in its features
        return View(angles, None, config.causal, real)
    window = window if window < last - 1 else 0
    if window and first == 0 and config.attention == "dot" and pays(window, last):
        band = make_band(
            last, real, bias_of, window=window, global_tokens=config.global_tokens, causal=config.causal, device=device
        )
        return View(angles, None, causal=False, real=real, band=band)
    plain = config.attention == "dot" and not window and not config.biases_scores
    if config.causal and plain and first == 0 and real is None:
        return View(angles, None, causal=True, real=None)  # the kernel masks by itself
    distance_TS = torch.arange(last, device=device) - torch.arange(first, last, device=device)[:, None]
    causal = config.causal and last - first > 1  # a single new position sees all that came before
    seen = visible_keys(distance_TS, real, causal=causal, window=window, global_tokens=config.global_tokens)
    bias = bias_of(distance_TS)
    mask = seen if bias is None else bias if seen is None else bias.masked_fill(~seen, -torch.inf)
    return View(angles, mask, causal=False, real=real)
