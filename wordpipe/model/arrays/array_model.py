"""The blocks in numpy: ids of packed sequences → hidden states."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordpipe.errors import ConfigError
from wordpipe.model.arrays.layers import feedforward, linear, norm
from wordpipe.model.arrays.positions import angles, position_table, rotated, score_bias
from wordpipe.model.arrays.weights import Arrays
from wordpipe.model.config import ModelConfig

__all__ = ["ArrayModel"]

Floats = npt.NDArray[np.float32]
_SCORES = 1 << 22  # numbers of one product of queries and keys: 16 MiB


class _Run(NamedTuple):
    """Sequences of one length.

    Attributes:
        B: how many.
        T: their length.
        turns: from `angles`.
        bias: from `score_bias`.
    """

    B: int
    T: int
    turns: tuple[Floats, Floats] | None
    bias: Floats | None


class ArrayModel:
    """A model of a shape that `weights.computes`.

    Args:
        config: the shape.
        weights: by our names, from `weights.read_arrays`.
    """

    def __init__(self, config: ModelConfig, weights: Arrays) -> None:
        self.config = config
        self._weights = weights
        self._table_TD = position_table(config, weights)

    def embed(self, ids_N: npt.NDArray[np.int64], lengths_S: npt.NDArray[np.int64]) -> Floats:
        """What goes into the first block, (N, D) float32.

        Args:
            ids_N: of all sequences, one after the other.
            lengths_S: ids of each.

        Raises:
            ConfigError: a sequence is longer than the model's table of positions.
        """
        x_ND = self._weights["embedding"][ids_N]
        if self._table_TD is not None:
            if (longest := int(lengths_S.max(initial=0))) > len(self._table_TD):
                raise ConfigError(
                    "the sequence is longer than the model's positions", got=longest, expected=len(self._table_TD)
                )
            x_ND = x_ND + self._table_TD[np.arange(len(ids_N)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)]
        if (segments := self._weights.get("segment_embedding")) is not None:
            x_ND = x_ND + segments[0]
        if self.config.embedding_norm:
            x_ND = norm(x_ND, self._weights, "embedding_norm", self.config)
        return x_ND

    def encode(self, x_ND: Floats, shapes: Sequence[tuple[int, int]]) -> Floats:
        """Hidden states after the last norm, (N, D) float32, of what `embed` gave.

        Args:
            x_ND: packed positions.
            shapes: sequences and positions (B, T) of each run of sequences of one length; the products add up to N.
        """
        config, weights = self.config, self._weights
        views = {window: self._views(shapes, layer) for layer, window in enumerate(config.windows)}
        for layer in range(config.n_layers):
            runs = views[config.windows[layer]]
            name = f"blocks.{layer}"
            if config.norm_place == "pre":
                is_normed = layer == 0 and config.embedding_norm  # by the embedding's norm
                normed_ND = x_ND if is_normed else norm(x_ND, weights, f"{name}.attention_norm", config)
                x_ND = x_ND + self._attention(normed_ND, runs, layer)
                normed_ND = norm(x_ND, weights, f"{name}.feedforward_norm", config)
                x_ND = x_ND + feedforward(normed_ND, weights, f"{name}.feedforward", config)
            else:
                x_ND = norm(x_ND + self._attention(x_ND, runs, layer), weights, f"{name}.attention_norm", config)
                inner_ND = feedforward(x_ND, weights, f"{name}.feedforward", config)
                x_ND = norm(x_ND + inner_ND, weights, f"{name}.feedforward_norm", config)
        return norm(x_ND, weights, "final_norm", config) if config.norm_place == "pre" else x_ND

    def _views(self, shapes: Sequence[tuple[int, int]], layer: int) -> list[_Run]:
        """What the attention of a layer, and of all with its window, is told of each run."""
        window = self.config.windows[layer]
        return [
            _Run(B, T, angles(T, self.config, layer), score_bias(T, self.config, window, self._weights))
            for B, T in shapes
        ]

    def _attention(self, x_ND: Floats, runs: Sequence[_Run], layer: int) -> Floats:
        config, name = self.config, f"blocks.{layer}.attention"
        heads_NRE = linear(x_ND, self._weights, f"{name}.qkv").reshape(len(x_ND), -1, config.head_dim)
        mixed_ND = np.empty((len(x_ND), config.n_heads * config.head_dim), dtype=np.float32)
        first = 0
        for B, T, turns, bias in runs:
            at_once = max(1, _SCORES // (config.n_heads * T * T))
            for begin in range(0, B, at_once):
                count = min(at_once, B - begin)
                rows = slice(first + begin * T, first + (begin + count) * T)
                run_BTRE = heads_NRE[rows].reshape(count, T, -1, config.head_dim)
                mixed_ND[rows] = self._mixed(run_BTRE, turns, bias).reshape(count * T, -1)
            first += B * T
        return linear(mixed_ND, self._weights, f"{name}.out")

    def _mixed(self, heads_BTRE: Floats, turns: tuple[Floats, Floats] | None, bias: Floats | None) -> Floats:
        """softmax(Q Kᵀ / sqrt(E) + bias) V of whole sequences, (B, T, H, E). Source: Vaswani et al. 2017, equation 1."""
        B, T, _, E = heads_BTRE.shape
        H, G = self.config.n_heads, self.config.n_kv_heads
        turned, v_BTGE = heads_BTRE[:, :, : H + G], heads_BTRE[:, :, H + G :]
        if turns is not None:
            turned = rotated(turned, turns)
        # the H / G heads that share a key stand side by side
        scaled: Floats = turned[:, :, :H] * np.float32(1 / math.sqrt(E))
        q = scaled.reshape(B, T, G, H // G, E).transpose(0, 2, 3, 1, 4)
        k = turned[:, :, H:].transpose(0, 2, 3, 1)[:, :, None]
        scores: Floats = q @ k  # (B, G, H / G, T, T)
        if bias is not None:
            scores += bias.reshape(G, H // G, T, T) if len(bias) == H else bias
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed_BGHTE = scores @ v_BTGE.transpose(0, 2, 1, 3)[:, :, None]
        mixed_BTHE: Floats = mixed_BGHTE.transpose(0, 3, 1, 2, 4).reshape(B, T, H, E)
        return mixed_BTHE
