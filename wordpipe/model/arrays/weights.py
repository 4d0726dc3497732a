"""The weights of a model's folder as numpy arrays under our names."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.families import config_from_hf
from wordpipe.model.formats.family import Entry, Family
from wordpipe.model.formats.values import CONFIG

__all__ = ["Arrays", "computes", "read_arrays"]

WEIGHTS = "model.safetensors"
Arrays = Mapping[str, npt.NDArray[np.float32]]
_OF_THE_OUTPUT = ("head.", "output")  # how the names begin of what stands behind the hidden states


def computes(config: ModelConfig) -> bool:
    """Whether `ArrayModel` computes models of this shape: all but those that compare by a network or by features."""
    return config.attention == "dot"


def read_arrays(read: Callable[[str], bytes]) -> tuple[ModelConfig, Arrays] | None:
    """Shape and weights of a folder that `save_hf` wrote.

    Args:
        read: gives the bytes of a file of the folder by its name.

    Returns:
        None where this is a model that numpy does not compute, or not a folder as we write it: torch then has to read it,
        and says what is wrong if anything is.
    """
    try:
        values: Any = json.loads(read(CONFIG))
        family, config = config_from_hf(values)
        stored = safetensors.numpy.load(read(WEIGHTS)) if computes(config) else {}
        weights = {entry.ours: _joined(entry, stored) for entry in _entries(family, config, stored)}
    except (ArtifactError, SafetensorError, ValueError, TypeError, KeyError, AttributeError):
        return None
    usable = bool(weights) and all(np.isfinite(weight).all() for weight in weights.values())
    return (config, weights) if usable else None


def _entries(family: Family, config: ModelConfig, stored: Mapping[str, Any]) -> Iterator[Entry]:
    """What to fill from the folder; our own format has our own names."""
    entries = (Entry(name, (name,)) for name in stored) if family.native is None else family.entries(config)
    return (entry for entry in entries if not entry.repeats and not entry.ours.startswith(_OF_THE_OUTPUT))


def _joined(entry: Entry, stored: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
    """Our weight of their parts, float32."""
    parts = [stored[name] for name in entry.theirs]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1 if entry.transposed else 0)
    turned: npt.NDArray[np.float32] = (whole.T if entry.transposed else whole).astype(np.float32, copy=False)
    return turned
