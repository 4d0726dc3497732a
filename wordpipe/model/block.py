"""One block of the transformer: attention, then feed-forward, each added to the residual stream.

    x ← x + attention(norm(x))
    x ← x + feedforward(norm(x))

Source: the norm before each half, not after: Xiong et al. 2020, figure 1b.
"""

from torch import Tensor, nn

from wordpipe.model.attention import Attention
from wordpipe.model.config import ModelConfig
from wordpipe.model.feedforward import FeedForward
from wordpipe.model.norms import Norm

__all__ = ["Block"]


class Block(nn.Module):
    """A pre-norm block.

    Args:
        config: the model's shape.
        norm_input: False where the input comes straight from a norm (an encoder's first block, whose input is the
            embedding's norm), so that a second one would only add a weight.
    """

    def __init__(self, config: ModelConfig, *, norm_input: bool) -> None:
        super().__init__()
        self.attention_norm = Norm(kind=config.norm, dim=config.dim, eps=config.norm_eps) if norm_input else None
        self.attention = Attention(config)
        self.feedforward_norm = Norm(kind=config.norm, dim=config.dim, eps=config.norm_eps)
        self.feedforward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """The residual stream after this block; `angles` and `mask` as in `Attention`."""
        normed_BTD = x_BTD if self.attention_norm is None else self.attention_norm(x_BTD)
        x_BTD = x_BTD + self.dropout(self.attention(normed_BTD, angles, mask))
        out_BTD: Tensor = x_BTD + self.dropout(self.feedforward(self.feedforward_norm(x_BTD)))
        return out_BTD
