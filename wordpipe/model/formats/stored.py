"""The weights that a folder keeps: one safetensors file, or several with an index. Weights in pickles are not opened."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from wordpipe.errors import ArtifactError

__all__ = ["INDEX", "WEIGHTS", "read_object", "read_weights"]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_CODE = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_OTHERS = (".safetensors", ".h5", ".msgpack", ".gguf", ".onnx")


def read_weights(read: Callable[[str], bytes], names: Collection[str]) -> dict[str, Tensor]:
    """All weights by their names in the folder.

    Args:
        read: gives the bytes of a file.
        names: the files that there are.

    Raises:
        ArtifactError: there are no safetensors, or they are malformed, or not those of the index.
    """
    if WEIGHTS in names:
        return _load(read(WEIGHTS), WEIGHTS)
    if INDEX in names:
        return _read_shards(read, names)
    pickled = sorted(name for name in names if name.endswith(_CODE))
    if pickled:
        raise ArtifactError(
            "weights in a pickle are code that would run when read; wordpipe does not open them",
            where=pickled[0],
            expected=WEIGHTS,
            hint="convert them where you trust them: transformers' save_pretrained writes safetensors",
        )
    others = sorted(name for name in names if name.endswith(_OTHERS))
    raise ArtifactError("the folder has no weights that we read", got=", ".join(others) or None, expected=WEIGHTS)


def read_object(data: bytes, where: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        ArtifactError: not JSON, or not an object.
    """
    try:
        values = json.loads(data)
    except ValueError as error:
        raise ArtifactError("not JSON", where=where, got=error) from None
    if not isinstance(values, dict):
        raise ArtifactError("not a JSON object", where=where, got=type(values).__name__)
    return values


def _read_shards(read: Callable[[str], bytes], names: Collection[str]) -> dict[str, Tensor]:
    places = read_object(read(INDEX), INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ArtifactError("no weight_map", where=INDEX, got=places)
    weights: dict[str, Tensor] = {}
    for file in sorted({str(file) for file in places.values()}):
        if file not in names:  # a name that leads out of the folder is not among them either
            raise ArtifactError("a file of the weights is missing", where=INDEX, expected=file)
        shard = _load(read(file), file)
        if stray := [name for name in shard if places.get(name) != file]:
            raise ArtifactError(f"{stray[0]} is not where the index says", where=file, expected=places.get(stray[0]))
        weights |= shard
    if absent := sorted(places.keys() - weights.keys()):
        raise ArtifactError(f"{absent[0]} is not where the index says", where=INDEX, expected=places[absent[0]])
    return weights


def _load(data: bytes, where: str) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ArtifactError("not a safetensors file", where=where, got=error) from None
    return weights
