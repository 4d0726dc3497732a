"""Where a token stands: rotary angles, and tables that are added to the embeddings.

`rope`        queries and keys are turned by angles that grow with the position; their product then depends on the distance
              alone. Su et al. 2021 (RoFormer), equation 34, with pairs (i, i + E/2) rather than (2i, 2i + 1): the order of
              Hugging Face's Llama and ModernBERT, whose weights would otherwise need a permutation.
`learned`     a table of weights, one row per position. Devlin et al. 2019, figure 2.
`sinusoidal`  a fixed table of sines and cosines. Vaswani et al. 2017, section 3.5.

Positions that are known as distances (ALiBi, T5) are in `distances`.
"""

import math

import torch
from torch import Tensor, nn

from wordpipe.model.config import EMBEDDING_STD

__all__ = ["Rotary", "rotate", "sinusoidal_table"]


class Rotary(nn.Module):
    """Angles for every position, made once in float32 and grown where a longer sequence comes.

    Args:
        head_dim: width E of a head, even.
        max_len: positions prepared for.
        theta: base; pair i turns by position · theta^(-2i/E).
    """

    cos: Tensor  # (T, E), float32
    sin: Tensor

    def __init__(self, *, head_dim: int, max_len: int, theta: float) -> None:
        super().__init__()
        self.head_dim, self.theta = head_dim, theta
        cos_TE, sin_TE = self._table(max_len)
        # not persistent: no weight, and no checkpoint of the field has them
        self.register_buffer("cos", cos_TE, persistent=False)
        self.register_buffer("sin", sin_TE, persistent=False)

    def forward(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of positions `first` to `last` - 1.

        Returns:
            cos_TE, sin_TE: float32. The first half of the sines is negated, which spares the rotation a negation.
        """
        if last > self.cos.shape[0]:
            cos_TE, sin_TE = self._table(last)
            self.cos, self.sin = cos_TE.to(self.cos.device), sin_TE.to(self.sin.device)
        return self.cos[first:last], self.sin[first:last]

    def _table(self, n_positions: int) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        angles_TE2 = torch.outer(torch.arange(n_positions, dtype=torch.float32), 1.0 / self.theta**half)
        cos, sin = angles_TE2.cos(), angles_TE2.sin()
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def rotate(x_BTHE: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
    """Turn every head's vector by its position's angles, in float32 whatever the input's type.

    Args:
        x_BTHE: queries or keys (or both, along H).
        cos_TE: from `Rotary`.
        sin_TE: from `Rotary`, its first half negated.

    Returns:
        A tensor of the input's shape and type.
    """
    x = x_BTHE.float()
    swapped = x.roll(x.shape[-1] // 2, dims=-1)  # (second half, first half)
    return (x * cos_TE[:, None] + swapped * sin_TE[:, None]).to(x_BTHE.dtype)


def sinusoidal_table(max_len: int, dim: int) -> Tensor:
    """Sines of the position in the first half of the columns, cosines in the second, (T, D), float32.

    Vaswani's columns alternate; the halves are the order of Hugging Face's Marian, and no weight can tell the two apart.
    Where Vaswani multiplies the embeddings by sqrt(D), to bring them to the size of the sines, the sines are brought to the
    size of fresh embeddings here: the same proportion, and the output matrix may be the embedding table.
    """
    frequency_D2 = 10_000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angles_TD2 = torch.outer(torch.arange(max_len, dtype=torch.float32), frequency_D2)
    return torch.cat((angles_TD2.sin(), angles_TD2.cos()), dim=-1)[:, :dim] * (math.sqrt(2.0) * EMBEDDING_STD)
