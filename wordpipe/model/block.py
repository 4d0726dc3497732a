"""One block of the transformer: attention, then feed-forward, each added to the residual stream.

pre     x ← x + attention(norm(x))        x ← x + feedforward(norm(x))        Xiong et al. 2020, figure 1b
post    x ← norm(x + attention(x))        x ← norm(x + feedforward(x))        Vaswani et al. 2017, section 3.1
"""

from torch import Tensor, nn

from wordpipe.model.attention import Attention, rows_at
from wordpipe.model.cache import KeysValues, Sums
from wordpipe.model.config import ModelConfig
from wordpipe.model.feedforward import FeedForward
from wordpipe.model.norms import Norm
from wordpipe.model.views import PackedView, View

__all__ = ["Block"]


class Block(nn.Module):
    """A block.

    Args:
        config: the model's shape and parts.
        norm_input: False where the input comes straight from a norm (a pre-norm model's first block, whose input is the
            embedding's norm), so that a second one would only add a weight.
    """

    def __init__(self, config: ModelConfig, *, norm_input: bool = True) -> None:
        super().__init__()
        self.pre = config.norm_place == "pre"
        self.attention_norm = Norm(config) if norm_input else None
        self.attention = Attention(config)
        self.feedforward_norm = Norm(config)
        self.feedforward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x_BTD: Tensor,
        view: View | PackedView,
        memory: KeysValues | Sums | None = None,
        first: int = 0,
        at_BK: Tensor | None = None,
    ) -> Tensor:
        """The residual stream after this block; the arguments are those of `Attention`."""
        if self.pre:
            normed_BTD = x_BTD if self.attention_norm is None else self.attention_norm(x_BTD)
            mixed_BTD = self.dropout(self.attention(normed_BTD, view, memory, first, at_BK))
            x_BTD = rows_at(x_BTD, at_BK) + mixed_BTD
            sum_BTD: Tensor = x_BTD + self.dropout(self.feedforward(self.feedforward_norm(x_BTD)))
            return sum_BTD
        assert self.attention_norm is not None
        mixed_BTD = self.dropout(self.attention(x_BTD, view, memory, first, at_BK))
        x_BTD = self.attention_norm(rows_at(x_BTD, at_BK) + mixed_BTD)
        out_BTD: Tensor = self.feedforward_norm(x_BTD + self.dropout(self.feedforward(x_BTD)))
        return out_BTD
