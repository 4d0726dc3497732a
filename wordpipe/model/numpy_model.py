"""The transformer in NumPy: for a single query, which is computed in less time than torch takes to be imported.

Same weights, same formulas as `transformer`, hidden states only; a test holds the two together. Sequences are packed as
there: runs of equal length, one matrix for all positions, only attention goes run by run. What `ModelConfig.is_variant`
names is left to torch.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from wordpipe.artifacts import parse_json
from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.config import FeedForwardKind, ModelConfig
from wordpipe.model.hf.families import config_from_hf
from wordpipe.model.hf.mapping import CONFIG, WEIGHTS, Entry, Family

Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[np.float32]]
_BUCKETS, _FARTHEST = 32, 128  # of T5's bias by distance: `positions.t5_buckets`, without torch
_MAX_SCORES = 1 << 22  # numbers of one product of queries and keys: 16 MiB


def read_arrays(read: Callable[[str], bytes]) -> tuple[ModelConfig, Arrays] | None:
    """Return shape and weights of a folder that `save_hf` wrote, for the model in NumPy.

    Args:
        read: gives the bytes of a file of the folder by its name.

    Returns:
        None where this is a model that NumPy does not compute (a variant, shared layers, narrow embeddings, or one whose table
        of positions is not stored), or not a folder as we write it: torch then has to read it, and says what is wrong if
        anything is.
    """
    try:
        values = parse_json(read(CONFIG), CONFIG)
        family, config = config_from_hf(values)
        by_torch = config.is_variant or config.shared_layers or config.embedding_dim
        stored = {} if by_torch else safetensors.numpy.load(read(WEIGHTS))
        weights = {entry.ours: _joined(entry, stored) for entry in _entries(family, config, stored)}
    except (ArtifactError, SafetensorError, ValueError, TypeError, KeyError, AttributeError):
        return None
    has_table = config.positions in ("rope", "t5") or "position_embedding" in weights
    has_positions = has_table and (not config.biases_scores or "position_bias" in weights)
    usable = _fits(config, weights) and has_positions and all(np.isfinite(weight).all() for weight in weights.values())
    return (config, weights) if usable else None


def _fits(config: ModelConfig, weights: Arrays) -> bool:
    """True if the weights for the model in NumPy are those of this shape: a forged folder may have any."""
    D, F, wide = config.dim, config.ffn_dim, config.n_heads * config.head_dim
    pairs = {
        "attention.qkv": (wide + 2 * config.n_kv_heads * config.head_dim, D),
        "attention.out": (D, wide),
        "feedforward.up": (2 * F if config.gated else F, D),
        "feedforward.down": (D, F),
    }
    wanted: dict[str, tuple[int, ...]] = {
        f"blocks.{layer}.{name}.weight": shape for layer in range(config.n_layers) for name, shape in pairs.items()
    }
    norms = [f"blocks.{layer}.feedforward_norm" for layer in range(config.n_layers)]
    norms += [f"blocks.{layer}.attention_norm" for layer in range(int(config.normed_input), config.n_layers)]
    norms += ["embedding_norm"] * config.embedding_norm + ["final_norm"] * (config.norm_place == "pre")
    wanted |= {f"{name}.weight": (D,) for name in norms} | {"embedding": (config.vocab_size, D)}
    biases = {name.removesuffix("weight") + "bias": shape[:1] for name, shape in wanted.items()}
    more = {
        "position_bias": (_BUCKETS, config.n_heads),
        "position_embedding": (config.max_len, D),
        "segment_embedding": (config.segments, D),
        **biases,
    }
    return wanted.keys() <= weights.keys() and all(
        weight.shape == shape for name, weight in weights.items() if (shape := (wanted | more).get(name)) is not None
    )


def _entries(family: Family, config: ModelConfig, stored: Mapping[str, Any]) -> Iterator[Entry]:
    """Return the weights to read from the folder; our own format has our own names."""
    entries = (Entry(name, (name,)) for name in stored) if family.class_name is None else family.entries(config)
    return (entry for entry in entries if not entry.repeats and not entry.of_head)


def _joined(entry: Entry, stored: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
    """Return a weight of the model in NumPy, joined from the parts of a folder of transformers, float32."""
    parts = [stored[name] for name in entry.theirs]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1 if entry.transposed else 0)
    turned: npt.NDArray[np.float32] = (whole.T if entry.transposed else whole).astype(np.float32, copy=False)
    return turned[entry.empty_rows :]


class _Run(NamedTuple):
    """Sequences of one length.

    Attributes:
        B: how many.
        T: their length.
        angles: from `_angles`.
        masked: from `_masked_keys`.
        bias: from `NumpyModel._bias`.
    """

    B: int
    T: int
    angles: tuple[Floats, Floats] | None
    masked: npt.NDArray[np.bool_] | None
    bias: Floats | None


class NumpyModel:
    """A model that `read_arrays` gives.

    Args:
        config: its shape.
        weights: by our names.
    """

    def __init__(self, config: ModelConfig, weights: Arrays) -> None:
        self.config, self._weights = config, weights
        self._table_TD = weights.get("position_embedding")

    def embed(self, ids_N: npt.NDArray[np.int64], lengths_S: npt.NDArray[np.int64]) -> Floats:
        """Return the input of the first block of the model in NumPy, (N, D) float32.

        Args:
            ids_N: of all sequences, one after the other.
            lengths_S: ids of each.

        Raises:
            ConfigError: a sequence is longer than the model's table of positions.
        """
        x_ND = self._weights["embedding"][ids_N]
        if self.config.scale_embedding:
            x_ND = x_ND * np.float32(math.sqrt(self.config.dim))
        if self._table_TD is not None:
            if (longest := int(lengths_S.max(initial=0))) > len(self._table_TD):
                raise ConfigError(
                    "the sequence has more tokens than the model has positions",
                    got=longest,
                    expected=len(self._table_TD),
                )
            x_ND = x_ND + self._table_TD[np.arange(len(ids_N)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)]
        if (segments := self._weights.get("segment_embedding")) is not None:
            x_ND = x_ND + segments[0]
        if self.config.embedding_norm:
            x_ND = _norm(x_ND, self._weights, "embedding_norm", self.config)
        return x_ND

    def encode(self, x_ND: Floats, shapes: Sequence[tuple[int, int]]) -> Floats:
        """Compute the hidden states after the last norm in NumPy, (N, D) float32, from the result of `embed`.

        Args:
            x_ND: packed positions.
            shapes: sequences and positions (B, T) of each run of sequences of one length; the products add up to N.
        """
        config, weights = self.config, self._weights
        biases = {T: self._bias(T) for _, T in shapes}
        views = {  # angles and masks of each run, for all layers with the same window
            window: [
                _Run(B, T, _angles(T, config, layer), _masked_keys(T, config, window), biases[T]) for B, T in shapes
            ]
            for layer, window in enumerate(config.windows)
        }
        for layer in range(config.n_layers):
            runs = views[config.windows[layer]]
            name = f"blocks.{layer}"
            if config.norm_place == "pre":
                is_normed = layer == 0 and config.normed_input
                normed_ND = x_ND if is_normed else _norm(x_ND, weights, f"{name}.attention_norm", config)
                x_ND = x_ND + self._attention(normed_ND, runs, layer)
                normed_ND = _norm(x_ND, weights, f"{name}.feedforward_norm", config)
                x_ND = x_ND + _feedforward(normed_ND, weights, f"{name}.feedforward", config)
            else:
                x_ND = _norm(x_ND + self._attention(x_ND, runs, layer), weights, f"{name}.attention_norm", config)
                inner_ND = _feedforward(x_ND, weights, f"{name}.feedforward", config)
                x_ND = _norm(x_ND + inner_ND, weights, f"{name}.feedforward_norm", config)
        return _norm(x_ND, weights, "final_norm", config) if config.norm_place == "pre" else x_ND

    def _attention(self, x_ND: Floats, runs: Sequence[_Run], layer: int) -> Floats:
        """Compute a layer's attention of all sequences in NumPy, (N, D)."""
        config, name = self.config, f"blocks.{layer}.attention"
        heads_NRE = _linear(x_ND, self._weights, f"{name}.qkv").reshape(len(x_ND), -1, config.head_dim)
        mixed_ND = np.empty((len(x_ND), config.n_heads * config.head_dim), dtype=np.float32)
        first = 0
        for B, T, angles, masked, bias in runs:
            at_once = max(1, _MAX_SCORES // (config.n_heads * T * T))
            for begin in range(0, B, at_once):
                count = min(at_once, B - begin)
                rows = slice(first + begin * T, first + (begin + count) * T)
                run_BTRE = heads_NRE[rows].reshape(count, T, -1, config.head_dim)
                mixed_ND[rows] = self._mixed(run_BTRE, angles, masked, bias).reshape(count * T, -1)
            first += B * T
        return _linear(mixed_ND, self._weights, f"{name}.out")

    def _bias(self, n_positions: int) -> Floats | None:
        """Return T5's bias by distance as a NumPy array, (G, H / G, T, T); None for other models."""
        if (table_KH := self._weights.get("position_bias")) is None:
            return None
        place_T = np.arange(n_positions)
        distance_TT = place_T - place_T[:, None]
        bias_HTT = table_KH[_buckets(distance_TT, causal=self.config.causal)].transpose(2, 0, 1)
        groups = (self.config.n_kv_heads, -1, n_positions, n_positions)
        return np.ascontiguousarray(bias_HTT).reshape(groups)

    def _mixed(
        self,
        heads_BTRE: Floats,
        angles: tuple[Floats, Floats] | None,
        masked: npt.NDArray[np.bool_] | None,
        bias: Floats | None,
    ) -> Floats:
        """Compute softmax(Q Kᵀ / sqrt(E)) V of whole sequences in NumPy, (B, T, H, E) (Vaswani et al. 2017, equation 1)."""
        B, T, _, E = heads_BTRE.shape
        H, G = self.config.n_heads, self.config.n_kv_heads
        turned, v_BTGE = heads_BTRE[:, :, : H + G], heads_BTRE[:, :, H + G :]
        if angles is not None:
            turned = _rotated(turned, angles)
        # the H / G heads that share a key follow one another
        scaled: Floats = turned[:, :, :H] * np.float32(1 / math.sqrt(E))
        q = scaled.reshape(B, T, G, H // G, E).transpose(0, 2, 3, 1, 4)
        k = turned[:, :, H:].transpose(0, 2, 3, 1)[:, :, None]
        scores: Floats = q @ k  # (B, G, H / G, T, T)
        if bias is not None:
            scores += bias
        if masked is not None:
            scores[..., masked] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed_BGHTE = scores @ v_BTGE.transpose(0, 2, 1, 3)[:, :, None]
        mixed_BTHE: Floats = mixed_BGHTE.transpose(0, 3, 1, 2, 4).reshape(B, T, H, E)
        return mixed_BTHE


def _angles(n_positions: int, config: ModelConfig, layer: int) -> tuple[Floats, Floats] | None:
    """Return in NumPy cosines and signed sines (T, E) of a layer's rotary positions; None: nothing is turned."""
    if config.positions != "rope":
        return None
    theta, width = np.float32(config.theta_of(layer)), np.float32(config.head_dim)
    half = np.arange(0, config.head_dim, 2, dtype=np.float32) / width
    angles_TE2 = np.outer(np.arange(n_positions, dtype=np.float32), 1 / theta**half)
    cos, sin = np.cos(angles_TE2), np.sin(angles_TE2)
    return np.concatenate((cos, cos), axis=-1), np.concatenate((-sin, sin), axis=-1)


def _rotated(x_BTRE: Floats, angles: tuple[Floats, Floats]) -> Floats:
    """Return in NumPy every head's vector turned by its position's angles: a new array."""
    cos_TE, sin_TE = angles
    half = x_BTRE.shape[-1] // 2
    turned = x_BTRE * cos_TE[:, None]
    turned[..., :half] += x_BTRE[..., half:] * sin_TE[:, None, :half]
    turned[..., half:] += x_BTRE[..., :half] * sin_TE[:, None, half:]
    return turned


def _buckets(distance_TT: npt.NDArray[np.int64], *, causal: bool) -> npt.NDArray[np.int64]:
    """Return in NumPy the bucket of each distance, as `positions.t5_buckets`."""
    n_buckets = _BUCKETS if causal else _BUCKETS // 2
    side = np.zeros_like(distance_TT) if causal else (distance_TT > 0) * n_buckets
    far = np.maximum(-distance_TT, 0) if causal else np.abs(distance_TT)
    exact = n_buckets // 2
    ratio = np.log(np.maximum(far, 1).astype(np.float32) / np.float32(exact)) / np.float32(math.log(_FARTHEST / exact))
    ranged = np.minimum(exact + (ratio * np.float32(n_buckets - exact)).astype(np.int64), n_buckets - 1)
    return side + np.where(far < exact, far, ranged)


def _masked_keys(n_positions: int, config: ModelConfig, window: int) -> npt.NDArray[np.bool_] | None:
    """Return in NumPy (T, T), true where a query does not see a key; None where each sees all."""
    place_T = np.arange(n_positions)
    distance_TT = place_T - place_T[:, None]
    masked_TT = np.abs(distance_TT) > window if window else np.zeros_like(distance_TT, dtype=np.bool_)
    if config.causal:
        masked_TT |= distance_TT > 0
    return masked_TT if masked_TT.any() else None


def _linear(x_ND: Floats, weights: Arrays, name: str) -> Floats:
    """Compute in NumPy the product x Wᵀ + b, (N, n_out); `name` without `.weight`."""
    out: Floats = x_ND @ weights[f"{name}.weight"].T
    if (bias := weights.get(f"{name}.bias")) is not None:
        out += bias
    return out


def _norm(x_ND: Floats, weights: Arrays, name: str, config: ModelConfig) -> Floats:
    """Compute in NumPy LayerNorm or RMSNorm over the last axis, as `layers.Norm`."""
    if config.norm == "layer":
        x_ND = x_ND - x_ND.mean(axis=-1, keepdims=True)
    square_N1 = np.einsum("...d,...d->...", x_ND, x_ND)[..., None] / np.float32(x_ND.shape[-1])
    normed: Floats = x_ND * (1.0 / np.sqrt(square_N1 + np.float32(config.norm_eps))) * weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias")
    if bias is not None:
        normed += bias
    return normed


def _feedforward(x_ND: Floats, weights: Arrays, name: str, config: ModelConfig) -> Floats:
    """Compute in NumPy the feed-forward of a block, plain or gated, as `layers.FeedForward`."""
    inner, activate = _linear(x_ND, weights, f"{name}.up"), ARRAY_ACTIVATIONS[config.feedforward]
    F = config.ffn_dim
    inner = activate(inner[..., :F]) * inner[..., F:] if config.gated else activate(inner)
    return _linear(inner, weights, f"{name}.down")


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


def _gelu(x: Floats) -> Floats:
    """The Gaussian error linear unit, x Φ(x). Source: Hendrycks and Gimpel 2016, section 2."""
    share: Floats = np.float32(0.5) + np.float32(0.5) * _erf(x * np.float32(np.sqrt(0.5)))
    return x * share


def _erf(x: Floats) -> Floats:
    """Compute in NumPy the error function, to 1.5e-7 and rounding; importing scipy's takes 0.1 s.

    Source: Abramowitz and Stegun 1964, formula 7.1.26.
    """
    far = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * far)
    series = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series *= t
        series += np.float32(coefficient)
    signed: Floats = np.copysign(1 - series * t * np.exp(-far * far), x)
    return signed


def _gelu_tanh(x: Floats) -> Floats:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    active: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return active


def _silu(x: Floats) -> Floats:
    # written with tanh, which does not overflow where exp(-x) does
    active: Floats = np.float32(0.5) * x * (1 + np.tanh(np.float32(0.5) * x))
    return active


ARRAY_ACTIVATIONS: dict[FeedForwardKind, Callable[[Floats], Floats]] = {
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "geglu": _gelu,
    "geglu_tanh": _gelu_tanh,
    "swiglu": _silu,
}
