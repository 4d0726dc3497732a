"""A model as a Hugging Face folder and back: `config.json` and `model.safetensors`.

Where transformers has a class for the model, the folder needs none of our code: `AutoModelForMaskedLM` or
`AutoModelForCausalLM` loads it and gives the same logits. Nothing here knows of files: bytes go to and come from functions
that the caller gives.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import torch
from safetensors.torch import save
from torch import Tensor

from wordpipe.errors import ArtifactError
from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.families import config_from_hf, config_to_hf, family_of
from wordpipe.model.formats.family import Entry
from wordpipe.model.formats.matching import Matched, match
from wordpipe.model.formats.stored import WEIGHTS, read_object, read_weights
from wordpipe.model.formats.values import CONFIG
from wordpipe.model.initialise import initialise
from wordpipe.model.language_model import LanguageModel
from wordpipe.model.positions import sinusoidal_table

__all__ = ["CONFIG", "WEIGHTS", "Loaded", "load_hf", "save_hf"]

_TABLE = "position_embedding"
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_TABLE_SLACK = 1e-5  # another machine's sines may differ in the last bit; one step of training moves a table by more


@dataclass(frozen=True)
class Loaded:
    """A model out of a folder.

    Attributes:
        model: in evaluation mode, on the CPU, in float32.
        config: its shape.
        notes: what the user should know, one sentence each: weights converted, left behind or freshly made.
    """

    model: LanguageModel
    config: ModelConfig
    notes: tuple[str, ...]


def save_hf(model: LanguageModel, config: ModelConfig, write: Callable[[str, bytes], None]) -> None:
    """Give the files of the model's folder, name by name, to `write`; the weights as float32.

    The tied output matrix is left out, as transformers leaves it out. Whether transformers has a class for the model says
    `families.native_class`.
    """
    ours = {name: weight.detach().to("cpu", torch.float32) for name, weight in model.named_parameters()}
    if config.positions == "sinusoidal":
        ours[_TABLE] = sinusoidal_table(config.max_len, config.dim)
    theirs: dict[str, Tensor] = {}
    for entry in family_of(config).entries(config):
        # clone: parts of one matrix share its memory, which safetensors refuses
        theirs |= {name: part.clone().contiguous() for name, part in _parts(ours[entry.ours], entry)}
    text = json.dumps(config_to_hf(config), indent=2, sort_keys=True)
    write(CONFIG, f"{text}\n".encode())
    write(WEIGHTS, save(theirs, metadata={"format": "pt"}))


def load_hf(
    read: Callable[[str], bytes],
    names: Collection[str] = (CONFIG, WEIGHTS),
    *,
    allow_missing_head: bool = False,
    seed: int = 0,
) -> Loaded:
    """The model in a folder, ready to use.

    Args:
        read: gives the bytes of a file of the folder by its name.
        names: the files that there are; by default those that `save_hf` writes.
        allow_missing_head: take a folder of the class without the output head, as `AutoModel` saves it, too; the head is
            then freshly initialised, and the notes name its weights.
        seed: of such a head.

    Raises:
        ArtifactError: a file is malformed; the model is of a class or a variant that our blocks do not compute; a weight is
            missing, unknown, of the wrong shape or type, or not finite.
    """
    if CONFIG not in names:
        raise ArtifactError(f"no {CONFIG}, so it is no folder of a model", expected=CONFIG)
    values = read_object(read(CONFIG), CONFIG)
    family, config = config_from_hf(values)
    matched = match(read_weights(read, names), family, config, allow_missing_head=allow_missing_head)
    if "auto_map" in values:
        matched.notes.append("the folder names code of its own (auto_map), which is not run")
    if config.positions == "sinusoidal":
        config = _settle_positions(matched, config)
    model = LanguageModel(config)
    if matched.missing:
        initialise(model, seed)
    _fill(dict(model.named_parameters()), matched)
    return Loaded(model.eval(), config, tuple(matched.notes))


def _settle_positions(matched: Matched, config: ModelConfig) -> ModelConfig:
    """Whether the table that once was sinusoidal still is; other programs train it on, and keep our note."""
    entry = next((entry for entry in matched.entries if entry.ours == _TABLE), None)
    if entry is None:  # our own format keeps no table
        return config
    stored, table = matched.weights[entry.theirs[0]], sinusoidal_table(config.max_len, config.dim)
    if stored.shape == table.shape and torch.allclose(stored.float(), table, rtol=0.0, atol=_TABLE_SLACK):
        matched.entries.remove(entry)
        return config
    matched.notes.append("the sinusoidal positions were trained on since; they are read as learned ones")
    return replace(config, positions="learned")


@torch.no_grad()
def _fill(weights: dict[str, Tensor], matched: Matched) -> None:
    """Copy every stored weight to its place; note other types than float32."""
    found = {entry.ours for entry in (*matched.entries, *matched.missing)}
    assert found == weights.keys(), found ^ weights.keys()  # a weight that nothing fills is uninitialised memory
    types = set()
    for entry in matched.entries:
        for name, part in _parts(weights[entry.ours], entry):
            stored = matched.weights[name]
            _check(name, stored, part)
            types.add(stored.dtype)
            part.copy_(stored)
            if not torch.isfinite(part).all():
                raise ArtifactError(f"{name} is not finite", where=WEIGHTS, hint="train the model again")
    others = sorted(str(kind).removeprefix("torch.") for kind in types - {torch.float32})
    if others:
        matched.notes.append(f"weights stored as {' and '.join(others)} were converted to float32")


def _check(name: str, stored: Tensor, part: Tensor) -> None:
    if stored.shape != part.shape or stored.dtype not in _TYPES:
        raise ArtifactError(
            f"{name} does not fit",
            where=WEIGHTS,
            got=f"{tuple(stored.shape)} {stored.dtype}",
            expected=f"{tuple(part.shape)} torch.float32",
        )


def _parts(weight: Tensor, entry: Entry) -> list[tuple[str, Tensor]]:
    """Views of our weight, in the shape of theirs, by their names."""
    turned = weight.T if entry.transposed else weight
    parts = torch.split(turned, list(entry.rows)) if entry.rows else (turned,)
    return list(zip(entry.theirs, parts, strict=True))
