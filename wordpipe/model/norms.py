"""Norms: keep the residual stream's scale in bounds before each half of a block. Always computed in float32."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import NormKind

__all__ = ["Norm"]


class Norm(nn.Module):
    """A norm over the last axis with a weight and no bias.

    `layer`: w · (x - mean) / sqrt(var + eps). Source: Ba et al. 2016, equation 4.
    `rms`: w · x / sqrt(mean(x²) + eps). Source: Zhang & Sennrich 2019, equation 4.
    """

    def __init__(self, *, kind: NormKind, dim: int, eps: float) -> None:
        super().__init__()
        self.kind, self.eps = kind, eps
        self.weight = nn.Parameter(torch.empty(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Norm of `x` of shape (…, D), as float32."""
        x = x.float()
        if self.kind == "layer":
            return F.layer_norm(x, self.weight.shape, self.weight, None, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
