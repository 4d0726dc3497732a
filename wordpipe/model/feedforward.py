"""The gated feed-forward: each position on its own, through a wider layer whose one half opens and closes the other.

    FFN(x) = (act(x W₁) ⊙ x W₂) W₃        act = GELU: GeGLU;  act = SiLU: SwiGLU

Source: Shazeer 2020 (GLU Variants Improve Transformer), equation 6.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import ModelConfig
from wordpipe.model.linear import Linear

__all__ = ["FeedForward"]


class FeedForward(nn.Module):
    """Gated feed-forward. `W₁` and `W₂` are stacked in one matrix, the activated half first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activate = F.gelu if config.activation == "gelu" else F.silu
        self.gate_up = Linear(config.dim, 2 * config.ffn_dim)
        self.down = Linear(config.ffn_dim, config.dim)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Feed-forward of the normed residual stream, shape (B, T, D)."""
        gate_BTF, up_BTF = self.gate_up(x_BTD).chunk(2, dim=-1)
        out_BTD: Tensor = self.down(self.activate(gate_BTF) * up_BTF)
        return out_BTD
