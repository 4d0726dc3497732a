"""Norms: keep the residual stream's scale in bounds in each half of a block. Always computed in float32."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import ModelConfig

__all__ = ["Norm"]


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
