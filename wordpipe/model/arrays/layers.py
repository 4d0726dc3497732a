"""What is done to every position by itself: products, norms, activations."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wordpipe.model.arrays.weights import Arrays
from wordpipe.model.config import FeedForwardKind, ModelConfig

__all__ = ["ACTIVATIONS", "feedforward", "linear", "norm"]

Floats = npt.NDArray[np.float32]


def linear(x_ND: Floats, weights: Arrays, name: str) -> Floats:
    """The product x Wᵀ + b, (N, n_out); `name` without `.weight`."""
    out: Floats = x_ND @ weights[f"{name}.weight"].T
    if (bias := weights.get(f"{name}.bias")) is not None:
        out += bias
    return out


def norm(x_ND: Floats, weights: Arrays, name: str, config: ModelConfig) -> Floats:
    """LayerNorm or RMSNorm over the last axis, as `norms.Norm`."""
    if config.norm == "layer":
        x_ND = x_ND - x_ND.mean(axis=-1, keepdims=True)
    square_N1 = np.einsum("...d,...d->...", x_ND, x_ND)[..., None] / np.float32(x_ND.shape[-1])
    normed: Floats = x_ND * (1.0 / np.sqrt(square_N1 + np.float32(config.norm_eps))) * weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias")
    if bias is not None:
        normed += bias
    return normed


def feedforward(x_ND: Floats, weights: Arrays, name: str, config: ModelConfig) -> Floats:
    """The feed-forward of a block, plain or gated, as `feedforward.FeedForward`."""
    inner, activate = linear(x_ND, weights, f"{name}.up"), ACTIVATIONS[config.feedforward]
    F = config.ffn_dim
    inner = activate(inner[..., :F]) * inner[..., F:] if config.gated else activate(inner)
    return linear(inner, weights, f"{name}.down")


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


def _gelu(x: Floats) -> Floats:
    """The Gaussian error linear unit, x Φ(x). Source: Hendrycks and Gimpel 2016, section 2."""
    share: Floats = np.float32(0.5) + np.float32(0.5) * _erf(x * np.float32(np.sqrt(0.5)))
    return x * share


def _erf(x: Floats) -> Floats:
    """The error function, to 1.5e-7 and rounding; numpy has none, and importing scipy's takes 0.1 s.

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


ACTIVATIONS: dict[FeedForwardKind, Callable[[Floats], Floats]] = {
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "geglu": _gelu,
    "swiglu": _silu,
}
