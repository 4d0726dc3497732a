"""Cross-attention: a decoder's positions gather what they need from the source text that an encoder has read.

The queries come from the decoder, keys and values from the encoder's last hidden states, which do not change while a text is
made: they are computed once for each source text, whatever is made of it (`Source`). The sequences of a beam search that
belong to one source stand as further queries of it, so that nothing is copied for them.

Source: Vaswani et al. 2017, section 3.2.3, "encoder-decoder attention".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import ModelConfig
from wordpipe.model.layers import Linear


@dataclass(frozen=True)
class SourceLayer:
    """Keys and values of source texts for one block.

    Attributes:
        keys_values: (B, S, 2G, E), keys first; of packed texts (N, 2G, E).
        real: of each run, one where the texts are not packed: true at the positions that are no padding, (B, S), or None
            where there is none.
        shapes: of packed texts, sources and positions (B, S) of each run, in the order of the decoder's runs.
    """

    keys_values: Tensor
    real: tuple[Tensor | None, ...]
    shapes: tuple[tuple[int, int], ...] | None = None

    def runs(self) -> list[tuple[Tensor, Tensor | None]]:
        """Keys and values (B, S, 2G, E) and the mask of each run."""
        if self.shapes is None:
            return [(self.keys_values, self.real[0])]
        parts = torch.split(self.keys_values, [B * S for B, S in self.shapes])
        return [
            (part.view(B, S, *part.shape[1:]), real)
            for part, (B, S), real in zip(parts, self.shapes, self.real, strict=True)
        ]


@dataclass(frozen=True)
class Source:
    """Source texts as a decoder reads them.

    Attributes:
        layers: one for each block of the decoder.
    """

    layers: tuple[SourceLayer, ...]

    @property
    def size(self) -> int:
        """Source texts, where they are not packed."""
        return len(self.layers[0].keys_values)

    def rows(self, index_B: Tensor) -> "Source":
        """Some of the texts, not packed, by their number (int64)."""
        real = tuple(None if mask is None else mask.index_select(0, index_B) for mask in self.layers[0].real)
        return Source(tuple(SourceLayer(layer.keys_values.index_select(0, index_B), real) for layer in self.layers))


class CrossAttention(nn.Module):
    """One layer's attention from the target to the source. Keys and values are stacked in one matrix, in that order."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.query = Linear(config.dim, self.n_heads * self.head_dim, bias=config.bias)
        self.keys_values = Linear(config.dim, 2 * self.n_kv_heads * self.head_dim, bias=config.bias)
        self.out = Linear(self.n_heads * self.head_dim, config.dim, bias=config.bias)

    def read(
        self,
        hidden_BSD: Tensor,
        real: tuple[Tensor | None, ...],
        shapes: tuple[tuple[int, int], ...] | None = None,
    ) -> SourceLayer:
        """Keys and values of the encoder's hidden states, (B, S, D) or packed (N, D); see `SourceLayer`."""
        heads = self.keys_values(hidden_BSD).unflatten(-1, (2 * self.n_kv_heads, self.head_dim))
        return SourceLayer(heads, real, shapes)

    def forward(self, x_BTD: Tensor, source: SourceLayer, shapes: Sequence[tuple[int, int]] | None = None) -> Tensor:
        """What each position gathers from its source, of the shape of `x_BTD`.

        Args:
            x_BTD: positions of the targets; their number may be a multiple of that of the sources: the first so many belong
                to the first source. Packed: (1, N, D).
            source: the source texts.
            shapes: of packed targets, (B, T) of each run.
        """
        q_BTHE = self.query(x_BTD).unflatten(-1, (self.n_heads, self.head_dim))
        if shapes is None:
            ((keys_values, real),) = source.runs()
            mixed = _mixed(q_BTHE, keys_values, real).flatten(2)
        else:
            parts = torch.split(q_BTHE[0], [B * T for B, T in shapes])
            mixed = torch.cat(
                [
                    _mixed(part.view(B, T, *part.shape[1:]), keys_values, real).flatten(2).flatten(0, 1)
                    for part, (B, T), (keys_values, real) in zip(parts, shapes, source.runs(), strict=True)
                ]
            )[None]
        out_BTD: Tensor = self.out(mixed)
        return out_BTD


def _mixed(q_BTHE: Tensor, keys_values_CSGE: Tensor, real_CS: Tensor | None) -> Tensor:
    """The values' weighted mean, (B, T, H, E); B is a multiple of the C sources."""
    B, T, H, E = q_BTHE.shape
    C = len(keys_values_CSGE)
    k, v = (part.transpose(1, 2) for part in keys_values_CSGE.chunk(2, dim=2))
    mixed = F.scaled_dot_product_attention(
        q_BTHE.reshape(C, B // C * T, H, E).transpose(1, 2), k, v,
        attn_mask=None if real_CS is None else real_CS[:, None, None],
        enable_gqa=k.shape[1] != H,
    )  # fmt: skip
    return mixed.transpose(1, 2).reshape(B, T, H, E)
