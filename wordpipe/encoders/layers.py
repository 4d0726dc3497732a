"""The layers of sentence-transformers between a pooled vector and the finished vector: dense layers, norms, unit length.

A layer is a few tensors of one safetensors file, whose names say what it is: `0.normalize`, `1.dense.tanh.weight`,
`1.dense.tanh.bias`, `2.layer-norm.weight`. The number is the layer's place.

Shapes: N vectors, D numbers of a vector before a layer, K after it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from wordpipe.encoders.pooling import Floats
from wordpipe.errors import ArtifactError
from wordpipe.metrics import unit_rows

Numbers = TypeVar("Numbers", npt.NDArray[np.float32], npt.NDArray[np.float64])
LAYERS_FILE = "layers.safetensors"
_NAME = re.compile(r"(\d+)\.(normalize|layer-norm|dense\.[a-z]+)(?:\.(weight|bias))?")
_NORM_EPS = np.float32(1e-5)  # of torch.nn.LayerNorm, and no file of the module says another


def _identity(x: Floats) -> Floats:
    return x


def _tanh(x: Floats) -> Floats:
    return cast("Floats", np.tanh(x))


def _sigmoid(x: Floats) -> Floats:
    return np.float32(0.5) * (1 + _tanh(np.float32(0.5) * x))  # exp(-x) would overflow


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


def _silu(x: Floats) -> Floats:
    return x * _sigmoid(x)


def _gelu(x: Floats) -> Floats:
    from wordpipe.model import ARRAY_ACTIVATIONS  # not above: few encoders have it

    return ARRAY_ACTIVATIONS["gelu"](x)


ACTIVATIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "identity": _identity,
    "tanh": _tanh,
    "relu": _relu,
    "gelu": _gelu,
    "sigmoid": _sigmoid,
    "silu": _silu,
}
"""Our name of an activation of a dense layer → the function."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer.

    Attributes:
        kind: normalize, layer-norm or dense.
        weight: (K, D) of a dense layer, (D,) of a norm, float32; None of normalize.
        bias: (K,) or (D,); None: no offset.
        activation: of a dense layer, a key of `ACTIVATIONS`.
    """

    kind: str
    weight: Floats | None = None
    bias: Floats | None = None
    activation: str = "identity"

    @property
    def is_linear(self) -> bool:
        """True if the direction of what it gives is a sum over the parts of what it is given."""
        return self.kind == "normalize" or (
            self.kind == "dense" and self.bias is None and self.activation == "identity"
        )

    def apply(self, x_ND: Floats) -> Floats:
        """Return what the layer makes of vectors, (N, K) float32."""
        if self.kind == "normalize":
            return unit_rows(x_ND)[0]
        assert self.weight is not None
        if self.kind == "dense":
            x_NK: Floats = x_ND @ self.weight.T
            return ACTIVATIONS[self.activation](x_NK if self.bias is None else x_NK + self.bias)
        centred_ND = x_ND - x_ND.mean(axis=1, keepdims=True)
        square_N1 = np.square(centred_ND).mean(axis=1, keepdims=True)
        normed_ND: Floats = centred_ND / np.sqrt(square_N1 + _NORM_EPS) * self.weight
        return normed_ND if self.bias is None else normed_ND + self.bias


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of an encoder after its pooling, in order.

    Attributes:
        layers: none of most encoders.
    """

    layers: tuple[Layer, ...] = ()

    @property
    def is_linear(self) -> bool:
        """True if the layers are linear, so that the share of each token in the finished vector is known."""
        return all(layer.is_linear for layer in self.layers)

    def width(self, before: int) -> int:
        """Return the width of vectors after the layers.

        Args:
            before: their width before.

        Raises:
            ArtifactError: a layer is for vectors of another width.
        """
        width = before
        for number, layer in enumerate(self.layers):
            if layer.weight is None:
                continue
            if layer.weight.shape[-1] != width:
                got, where = layer.weight.shape[-1], f"{LAYERS_FILE}: {number}.{layer.kind}"
                raise ArtifactError("the layer is for vectors of another width", where=where, got=got, expected=width)
            width = len(layer.weight)
        return width

    def apply(self, pooled_ND: Floats) -> Floats:
        """Return what the layers make of pooled vectors, (N, K) float32; a zero vector stays one."""
        made_NK = reduce(lambda x, layer: layer.apply(x), self.layers, pooled_ND)
        if self.layers:
            made_NK = np.where(pooled_ND.any(axis=1, keepdims=True), made_NK, np.float32(0))
        return made_NK

    def linear(self, parts_PD: Numbers) -> Numbers:
        """Return the parts of a pooled vector after the dense layers of a chain that is linear, (P, K)."""
        made_PK = parts_PD
        for layer in self.layers:
            if layer.weight is not None:
                made_PK = made_PK @ layer.weight.T.astype(parts_PD.dtype)
        return made_PK

    def to_bytes(self) -> bytes:
        """Return the bytes of `LAYERS_FILE`."""
        tensors: dict[str, Floats] = {}
        for number, layer in enumerate(self.layers):
            if layer.weight is None:
                tensors[f"{number}.{layer.kind}"] = np.zeros(0, np.float32)
                continue
            name = f"{number}.{layer.kind}" + f".{layer.activation}" * (layer.kind == "dense")
            tensors[f"{name}.weight"] = np.ascontiguousarray(layer.weight, np.float32)
            if layer.bias is not None:
                tensors[f"{name}.bias"] = np.ascontiguousarray(layer.bias, np.float32)
        return safetensors.numpy.save(tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Layers":
        """Read layers from the bytes of `LAYERS_FILE`.

        Raises:
            ArtifactError: it is not such a file.
        """
        what = "the layers of the encoder cannot be read"
        try:
            tensors = safetensors.numpy.load(data)
        except (SafetensorError, ValueError, KeyError) as error:
            raise ArtifactError(what, where=LAYERS_FILE, got=error) from None
        # each name says place, kind and part
        parts: dict[int, dict[str, Floats | str]] = {}
        for name, tensor in tensors.items():
            found = _NAME.fullmatch(name)
            if found is None or tensor.dtype != np.float32 or not np.isfinite(tensor).all():
                raise ArtifactError(what, where=LAYERS_FILE, got=f"{name} {tensor.dtype}"[:80])
            layer = parts.setdefault(int(found[1]), {"kind": found[2]})
            if found[3]:
                layer[found[3]] = tensor
        if [*sorted(parts)] != [*range(len(parts))]:
            raise ArtifactError(what, where=LAYERS_FILE, got=f"layers {sorted(parts)}"[:80])
        return cls(tuple(_layer(parts[number], what) for number in range(len(parts))))


def _layer(parts: Mapping[str, "Floats | str"], what: str) -> Layer:
    """Return a layer of an encoder out of its parts, as its file names them. Raises ArtifactError: they do not fit."""
    kind, _, activation = str(parts["kind"]).partition(".")
    weight, bias = (cast("Floats | None", parts.get(name)) for name in ("weight", "bias"))
    axes = {"normalize": None, "layer-norm": 1, "dense": 2}[kind]
    fits = (None if weight is None else weight.ndim) == axes and (activation or "identity") in ACTIVATIONS
    if not fits or (bias is not None and (weight is None or bias.shape != weight.shape[:1])):
        raise ArtifactError(what, where=LAYERS_FILE, got=f"{kind} {activation}".strip())
    return Layer(kind, weight, bias, activation or "identity")


def trimmed(layers: Sequence[Layer]) -> Layers:
    """Return layers without those that an encoder's unit length makes needless: unit length at the end."""
    kept = [*layers]
    while kept and kept[-1].kind == "normalize":
        kept.pop()
    return Layers(tuple(kept))
