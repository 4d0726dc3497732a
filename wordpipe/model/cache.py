"""What a decoder keeps of the positions that it has seen, so that the next token costs one position and not all of them.

Source: Shazeer 2019, section 2.4 (incremental inference).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from wordpipe.errors import ConfigError
from wordpipe.model.config import ModelConfig

__all__ = ["Cache", "KeysValues", "Sums"]


@dataclass
class KeysValues:
    """Keys and values of one layer, (B, G, S, E) each, of which the first `Cache.length` positions are filled."""

    keys: Tensor
    values: Tensor

    def extend(self, first: int, k_BGTE: Tensor, v_BGTE: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions from `first` on; all keys and values so far."""
        last = first + k_BGTE.shape[2]
        self.keys[:, :, first:last] = k_BGTE
        self.values[:, :, first:last] = v_BGTE
        return self.keys[:, :, :last], self.values[:, :, :last]


@dataclass
class Sums:
    """The sums of one layer of linear attention over all positions so far, float32."""

    weighed: Tensor  # (B, H, E, E)
    total: Tensor  # (B, H, E)


class Cache:
    """Memory of a decoder for sequences that grow together.

    Args:
        config: of the model; causal.
        batch_size: sequences.
        max_len: positions that there is room for.
        device: where the model is.
        dtype: of keys and values; what attention is computed in.

    Attributes:
        length: positions held.
        layers: one memory per layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int,
        max_len: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.max_len, self.length = max_len, 0
        shape = (batch_size, config.n_kv_heads, max_len, config.head_dim)
        heads = (batch_size, config.n_heads, config.head_dim)
        self.layers: list[KeysValues | Sums] = [
            Sums(torch.zeros(*heads, config.head_dim, device=device), torch.zeros(heads, device=device))
            if config.attention == "linear"
            else KeysValues(*(torch.zeros(shape, device=device, dtype=dtype) for _ in range(2)))
            for _ in range(config.n_layers)
        ]

    def check_room(self, n_new: int) -> None:
        """Refuse more positions than there is room for.

        Raises:
            ConfigError: there is no room for `n_new` more.
        """
        if self.length + n_new > self.max_len:
            raise ConfigError(
                "the sequence is longer than its cache", got=self.length + n_new, expected=f"at most {self.max_len}"
            )
