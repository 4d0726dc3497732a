"""Our own format, for models that transformers has no class for: our fields in `config.json`, our names of the weights.

Such a folder loads in wordpipe only; transformers refuses it by its `model_type`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Entry, Family, refusal

__all__ = ["OWN"]

_ARCHITECTURE = "WordpipeLanguageModel"
_NOT_KEPT = ("dropout",)  # how one trains, not what the model is
_SHARED = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")


def _names() -> list[str]:
    return [field.name for field in fields(ModelConfig) if field.name not in _NOT_KEPT]


def _any(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    """All models can be kept so."""
    return {}


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    return {"architectures": [_ARCHITECTURE]} | {name: getattr(config, name) for name in _names()}


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    names, hints = _names(), get_type_hints(ModelConfig)
    for key in values:
        if key not in names and key not in _SHARED:
            raise refusal(key, values[key], "no such key; a newer wordpipe may have written it")
    return {name: _checked(name, values.get(name), hints[name]) for name in names}


def _checked(name: str, value: Any, hint: Any) -> Any:
    """The value, if it is of the field's type.

    Raises:
        ArtifactError: it is not, or is missing.
    """
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise refusal(name, value, " or ".join(get_args(hint)))
    elif get_origin(hint) is tuple:
        if not isinstance(value, list) or any(type(item) is not int for item in value):
            raise refusal(name, value, "a list of whole numbers")
        return tuple(value)
    elif type(value) not in (get_args(hint) or (hint,)) and not (hint is float and type(value) is int):
        raise refusal(name, value, getattr(hint, "__name__", hint))
    return value


def _entries(config: ModelConfig) -> Iterator[Entry]:
    import torch  # not above: a query reads `config.json` without it

    from wordpipe.model.language_model import LanguageModel

    with torch.device("meta"):  # names and shapes without memory
        model = LanguageModel(config)
    for name, _ in model.named_parameters():
        yield Entry(name, (name,))


OWN = Family(
    model_type="wordpipe", native=None, architecture=None, parts=_any, to_hf=_to_hf, from_hf=_from_hf, entries=_entries
)
