"""Which class of `transformers` a model is saved as, and which one a folder holds."""

from collections.abc import Mapping
from typing import Any

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.bert import BERT
from wordpipe.model.formats.family import CONFIG, Family, integer, refusal, refuse_others, special
from wordpipe.model.formats.gpt2 import GPT2
from wordpipe.model.formats.llama import LLAMA, MISTRAL, WRITTEN_BEFORE
from wordpipe.model.formats.modernbert import MODERNBERT
from wordpipe.model.formats.own import OWN

__all__ = ["FAMILIES", "NOTE", "config_from_hf", "config_to_hf", "family_of", "native_class", "why_not"]

FAMILIES: tuple[Family, ...] = (MODERNBERT, BERT, LLAMA, MISTRAL, GPT2)
"""The classes of `transformers`, the plainer ones first: a model is saved as the first that computes it."""

NOTE = "wordpipe"
"""The key of `config.json` for what a class has no key for; transformers keeps it and does not read it."""

_SINUSOIDAL = {"positions": "sinusoidal"}


def family_of(config: ModelConfig) -> Family:
    """What a model of this shape is saved as."""
    return next((family for family in FAMILIES if not _differences(config, family)), OWN)


def native_class(config: ModelConfig) -> str | None:
    """The class of `transformers` that loads the folder of a model of this shape, or None."""
    return family_of(config).native


def why_not(config: ModelConfig) -> str:
    """One sentence for the user on why there is no such class: what the nearest one lacks.

    Raises:
        ConfigError: there is one.
    """
    found = {family: _differences(config, family) for family in FAMILIES}
    alike = [family for family in FAMILIES if family.architecture == config.architecture]
    near = min(alike, key=lambda family: (len(found[family]), "windows" in found[family]))
    if not found[near]:
        raise ConfigError("transformers has a class for this model", where="config", got=near.native)
    ours = ", ".join(f"{name} = {_shown(getattr(config, name))}" for name in found[near])
    theirs = ", ".join(f"{name} = {' or '.join(map(_shown, allowed))}" for name, allowed in found[near].items())
    return (
        f"transformers has no class for this {config.architecture} with {ours} "
        f"(the nearest, {near.native}, has {theirs}): the folder loads in wordpipe only"
    )


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """The content of `config.json` for a model of this shape."""
    family = family_of(config)
    shared = {"model_type": family.model_type, "torch_dtype": "float32"}
    if family is OWN:
        return family.to_hf(config) | shared
    ids = {f"{role}_token_id": number for role, number in config.special_ids.items()}
    if config.mask_id is None:
        del ids["mask_token_id"]  # a class that has one may refuse null
    note = {NOTE: _SINUSOIDAL} if config.positions == "sinusoidal" else {}
    return {
        **family.to_hf(config),
        **shared,
        **ids,
        **note,
        "architectures": [family.native],
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": config.tied,
        "initializer_range": 0.02,
    }


def config_from_hf(values: Mapping[str, Any]) -> tuple[Family, ModelConfig]:
    """The class and the shape that a `config.json` describes.

    Raises:
        ArtifactError: another class of model, a variant that our blocks do not compute, or sizes that make no sense.
    """
    types = {family.model_type: family for family in (*FAMILIES, OWN)}
    if (
        values.get("torch_dtype") == "float32" and "transformers_version" not in values
    ):  # as we write it, and nobody else
        types |= {family.model_type: family for family in WRITTEN_BEFORE}
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in types:
        raise refusal("model_type", kind, ", ".join(family.model_type for family in (*FAMILIES, OWN)))
    family = types[kind]
    refuse_others(values, {"quantization_config": (None,)})
    fields = family.from_hf(values)
    if family is not OWN:
        fields |= special(values) | {"vocab_size": integer(values, "vocab_size")}
        if fields.get("positions") == "learned":
            fields["positions"] = _noted_positions(values)
    try:
        return family, ModelConfig(**fields)
    except ConfigError as error:
        raise ArtifactError(error.message, where=CONFIG) from None


def _noted_positions(values: Mapping[str, Any]) -> str:
    """What our note says of a table of positions."""
    note = values.get(NOTE)
    if note not in (None, _SINUSOIDAL):
        raise refusal(NOTE, note, f"{_SINUSOIDAL} or no such key")
    return "learned" if note is None else "sinusoidal"


def _differences(config: ModelConfig, family: Family) -> dict[str, tuple[object, ...]]:
    """Fields of the config that the class cannot have as they are → what it can have."""
    if config.architecture != family.architecture:
        return {"architecture": (family.architecture,)}
    parts = family.parts(config).items()
    return {name: allowed for name, allowed in parts if getattr(config, name) not in allowed}


def _shown(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
