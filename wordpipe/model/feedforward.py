"""The feed-forward: each position on its own, through a wider layer.

    plain   FFN(x) = act(x W₁) W₃                Vaswani et al. 2017, equation 2 (act = ReLU)
    gated   FFN(x) = (act(x W₁) ⊙ x W₂) W₃       Shazeer 2020, equation 6: GELU makes it GeGLU, SiLU SwiGLU

At equal weights the gated one is 2/3 as wide inside.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import FeedForwardKind, ModelConfig
from wordpipe.model.fused import fuses, gated
from wordpipe.model.linear import Linear

__all__ = ["ACTIVATIONS", "FeedForward"]

ACTIVATIONS: dict[FeedForwardKind, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's: tanh stands in for the error function
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
