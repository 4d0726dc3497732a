"""The whole model: embedding, blocks, final norm, and the head that turns hidden states into logits."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.attention import attention_mask
from wordpipe.model.block import Block
from wordpipe.model.config import ModelConfig
from wordpipe.model.linear import Linear
from wordpipe.model.norms import Norm
from wordpipe.model.positions import Rotary

__all__ = ["LanguageModel", "MaskedHead"]


class MaskedHead(nn.Module):
    """What an encoder does to a hidden state before the output matrix: norm(GELU(dense(h))).

    Source: Devlin et al. 2019 (in their code, `get_masked_lm_output`), without biases as in ModernBERT.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.dim, config.dim)
        self.norm = Norm(kind=config.norm, dim=config.dim, eps=config.norm_eps)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """Transformed hidden states of the same shape."""
        normed_ND: Tensor = self.norm(F.gelu(self.dense(hidden_ND)))
        return normed_ND


class LanguageModel(nn.Module):
    """A bidirectional encoder or a causal decoder, by `config.architecture`.

    The weights are uninitialised memory: fill them with `initialise` or `read_folder`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        is_encoder = config.architecture == "encoder"
        norm = {"kind": config.norm, "dim": config.dim, "eps": config.norm_eps}
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.dim))
        self.embedding_norm = Norm(**norm) if is_encoder else None  # type: ignore[arg-type]
        self.dropout = nn.Dropout(config.dropout)
        self.rotary = Rotary(head_dim=config.head_dim, max_len=config.max_len, theta=config.rope_theta)
        self.blocks = nn.ModuleList(Block(config, norm_input=i > 0 or not is_encoder) for i in range(config.n_layers))
        self.final_norm = Norm(**norm)  # type: ignore[arg-type]
        self.head = MaskedHead(config) if is_encoder else None
        self.output = None if config.tied else nn.Parameter(torch.empty(config.vocab_size, config.dim))
        self.output_bias = nn.Parameter(torch.empty(config.vocab_size)) if is_encoder else None

    def encode(self, ids_BT: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        """Hidden states after the final norm: what `transformers` calls `last_hidden_state`.

        Args:
            ids_BT: token ids, int32 or int64, special tokens included.
            mask_BT: true (or 1) at real tokens, false at padding; None where there is no padding.

        Returns:
            hidden_BTD: float32. At padding the values mean nothing, but are finite.
        """
        x_BTD = F.embedding(ids_BT, self.embedding)
        if self.embedding_norm is not None:
            x_BTD = self.embedding_norm(x_BTD)
        x_BTD = self.dropout(x_BTD)
        angles = self.rotary(ids_BT.shape[1])
        mask = attention_mask(mask_BT, causal=self.config.causal)
        for block in self.blocks:
            x_BTD = block(x_BTD, angles, mask)
        hidden_BTD: Tensor = self.final_norm(x_BTD)
        return hidden_BTD

    def logits_at(self, hidden_ND: Tensor) -> Tensor:
        """Logits over the vocabulary for some hidden states.

        Args:
            hidden_ND: rows of `encode`'s result, any leading shape.

        Returns:
            logits_NV: of the same leading shape.
        """
        return F.linear(self.features_at(hidden_ND), self.output_matrix, self.output_bias)

    def features_at(self, hidden_ND: Tensor) -> Tensor:
        """What the output matrix is applied to: the hidden states themselves in a decoder, transformed in an encoder."""
        if self.head is None:
            return hidden_ND
        features_ND: Tensor = self.head(hidden_ND)
        return features_ND

    @property
    def output_matrix(self) -> Tensor:
        """The output matrix (V, D): the embedding table where the two are tied."""
        return self.embedding if self.output is None else self.output

    def forward(self, ids_BT: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        """Logits at every position, shape (B, T, V); arguments as in `encode`."""
        return self.logits_at(self.encode(ids_BT, mask_BT))
