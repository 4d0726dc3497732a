"""A model as a Hugging Face folder and back: `config.json` and `model.safetensors`.

The folder needs none of our code: `AutoModelForMaskedLM` or `AutoModelForCausalLM` loads it and gives the same logits.
Nothing here knows of files: bytes go to and come from functions that the caller gives.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.hf_config import config_from_hf, config_to_hf
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.names import Entry, entries

__all__ = ["CONFIG", "WEIGHTS", "load_hf", "save_hf"]

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


def save_hf(model: LanguageModel, config: ModelConfig, write: Callable[[str, bytes], None]) -> None:
    """Give the files of the model's folder, name by name, to `write`.

    The tied output matrix is left out, as `transformers` leaves it out.
    """
    ours = {name: weight.detach().to("cpu", torch.float32) for name, weight in model.named_parameters()}
    theirs: dict[str, Tensor] = {}
    for entry in entries(config):
        parts = torch.split(ours[entry.ours], list(entry.rows))
        # clone: parts of one matrix share its memory, which safetensors refuses
        theirs.update((name, part.clone()) for name, part in zip(entry.theirs, parts, strict=True))
    text = json.dumps(config_to_hf(config), indent=2, sort_keys=True)
    write(CONFIG, f"{text}\n".encode())
    write(WEIGHTS, save(theirs, metadata={"format": "pt"}))


def load_hf(read: Callable[[str], bytes]) -> tuple[LanguageModel, ModelConfig]:
    """The model in a folder, ready to use (in evaluation mode, on the CPU).

    Args:
        read: gives the bytes of a file of the folder by its name.

    Raises:
        ArtifactError: a file is malformed, a weight is missing, unknown, of the wrong shape or type, or not finite.
    """
    config = config_from_hf(_config_values(read(CONFIG)))
    theirs = _weights(read(WEIGHTS))
    wanted = list(entries(config))
    _drop_tied_copy(theirs, config, wanted)
    _check_names(theirs, wanted)
    model = LanguageModel(config)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for entry in wanted:
            _fill(weights[entry.ours], entry, theirs)
    return model.eval(), config


def _config_values(data: bytes) -> Mapping[str, Any]:
    try:
        values = json.loads(data)
    except ValueError as error:
        raise ArtifactError("not JSON", where=CONFIG, got=error) from None
    if not isinstance(values, dict):
        raise ArtifactError("not a JSON object", where=CONFIG, got=type(values).__name__)
    return values


def _weights(data: bytes) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ArtifactError("not a safetensors file", where=WEIGHTS, got=error) from None
    return weights


def _drop_tied_copy(theirs: dict[str, Tensor], config: ModelConfig, wanted: list[Entry]) -> None:
    """Some folders keep the tied output matrix although it is the embedding table."""
    name = "decoder.weight" if config.architecture == "encoder" else "lm_head.weight"
    table = theirs.get(wanted[0].theirs[0])
    if config.tied and name in theirs and table is not None:
        if not torch.equal(theirs[name], table):
            raise ArtifactError(
                f"{name} differs from the embedding table", where=WEIGHTS, expected="the same, as the config ties them"
            )
        del theirs[name]


def _check_names(theirs: Mapping[str, Tensor], wanted: list[Entry]) -> None:
    expected = {name for entry in wanted for name in entry.theirs}
    for problem, names in (("missing", expected - theirs.keys()), ("unknown", theirs.keys() - expected)):
        if names:
            first, n = sorted(names)[0], len(names)
            raise ArtifactError(f"{n} weights are {problem}, {first} first", where=WEIGHTS)


@torch.no_grad()
def _fill(weight: Tensor, entry: Entry, theirs: Mapping[str, Tensor]) -> None:
    for part, name in zip(torch.split(weight, list(entry.rows)), entry.theirs, strict=True):
        found = theirs[name]
        if found.shape != part.shape or found.dtype != part.dtype:
            raise ArtifactError(
                f"{name} does not fit",
                where=WEIGHTS,
                got=f"{tuple(found.shape)} {found.dtype}",
                expected=f"{tuple(part.shape)} {part.dtype}",
            )
        if not torch.isfinite(found).all():
            raise ArtifactError(f"{name} is not finite", where=WEIGHTS, hint="train the model again")
        part.copy_(found)
