"""The choice of a class of `transformers` for a model, `config.json` written and read, and our own format.

Models that transformers has no class for have our own format: our fields in `config.json`, our names of the weights. Such a
folder loads in wordpipe only; transformers refuses it by its `model_type`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.config import EMBEDDING_STD, ModelConfig
from wordpipe.model.hf.classes import BERT, GPT2, LLAMA, MISTRAL, MODERNBERT
from wordpipe.model.hf.encoder_decoders import BART, MARIAN, T5
from wordpipe.model.hf.encoders import (
    ALBERT,
    CAMEMBERT,
    DISTILBERT,
    ELECTRA,
    FNET,
    MPNET,
    ROBERTA,
    XLM_ROBERTA,
    XLNET,
)
from wordpipe.model.hf.mapping import CONFIG, Entry, Family, read_value, refusal, refuse_others, special_ids
from wordpipe.runtime import without_memory

FAMILIES: tuple[Family, ...] = (
    MODERNBERT,
    BERT,
    ROBERTA,
    XLM_ROBERTA,
    CAMEMBERT,
    MPNET,
    DISTILBERT,
    ALBERT,
    ELECTRA,
    FNET,
    XLNET,
    LLAMA,
    MISTRAL,
    GPT2,
    T5,
    BART,
    MARIAN,
)
"""The classes of `transformers`, the plainer ones first: a model is saved as the first that computes it."""

NOTE = "wordpipe"
"""The key of `config.json` for what a class has no key for; transformers keeps it and does not read it."""


_SINUSOIDAL = {"positions": "sinusoidal"}
_MOST_NAMED = 3  # parts of an encoder-decoder that no class has
_NOT_KEPT = ("dropout",)  # how one trains, not what the model is
_SHARED = (
    "architectures", "model_type", "torch_dtype", "dtype", "transformers_version",
    "id2label", "label2id", "problem_type", "classifier_pooling", "classifier_dropout",
)  # fmt: skip


class _Own(Family):
    """Our own format, which keeps every model."""

    def written(self, config: ModelConfig) -> dict[str, Any]:
        return {"architectures": ["WordpipeLanguageModel"]} | {name: getattr(config, name) for name in _names()}

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        names, hints = _names(), get_type_hints(ModelConfig)
        for key in values:
            if key not in names and key not in _SHARED:
                expected = "only keys that this version of wordpipe knows (a newer version may have written the file)"
                raise refusal(key, values[key], expected)
        return {name: _checked(name, values.get(name), hints[name]) for name in names}

    def entries(self, config: ModelConfig) -> Iterator[Entry]:
        from wordpipe.model.init import make_transformer  # not above: a query reads `config.json` without torch

        with without_memory():  # names and shapes without memory
            model = make_transformer(config)
        for name, _ in model.named_parameters():
            yield Entry(name, (name,))


OWN = _Own(model_type="wordpipe", class_name=None, architecture=None)


def _names() -> list[str]:
    """Return the fields of `ModelConfig` that our own format keeps."""
    return [field.name for field in fields(ModelConfig) if field.name not in _NOT_KEPT]


def _checked(name: str, value: Any, hint: Any) -> Any:
    """Return a value of `config.json` in the family of our own format, if the type is that of the field.

    Raises:
        ArtifactError: it is not, or is missing.
    """
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise refusal(name, value, " or ".join(get_args(hint)))
    elif get_origin(hint) is tuple:
        kind, *_ = get_args(hint)
        if not isinstance(value, list | tuple):
            raise refusal(name, value, "a list")
        return tuple(_checked(name, item, kind) for item in value)
    elif type(value) not in (get_args(hint) or (hint,)) and not (hint is float and type(value) is int):
        raise refusal(name, value, getattr(hint, "__name__", hint))
    return value


def family_of(config: ModelConfig) -> Family:
    """Return the class that a model of this shape is saved as."""
    return next((family for family in FAMILIES if not family.differences(config)), OWN)


def transformers_class(config: ModelConfig) -> str | None:
    """Return the class of `transformers` that loads the folder of a model of this shape, or None."""
    return family_of(config).class_of(config)


def why_no_class(config: ModelConfig) -> str:
    """Return one sentence for the user on why transformers has no class for the model: what the nearest class lacks.

    Raises:
        ConfigError: there is one.
    """
    found = {family: family.differences(config) for family in FAMILIES}
    alike = [family for family in FAMILIES if family.architecture == config.architecture]
    near = min(alike, key=lambda family: (len(found[family]), bool({"windows", "mixers"} & found[family].keys())))
    if not found[near]:
        raise ConfigError("transformers has a class for this model", where="config", got=near.class_name)
    parts = [f"{name} = {_shown(getattr(config, name))}" for name in found[near]]
    if config.architecture == "encoder-decoder":  # one that began as an encoder may differ in all
        more = f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
        return (
            f"transformers has no class for this encoder-decoder with {', '.join(parts[:_MOST_NAMED])}{more}, so only "
            "wordpipe can load the folder. transformers can load models of `train seq2seq` with an unchanged "
            "--style, or with an --init model made by `train denoising`"
        )
    ours = ", ".join(parts)
    theirs = ", ".join(f"{name} = {' or '.join(map(_shown, allowed))}" for name, allowed in found[near].items())
    return (
        f"transformers has no class for this {config.architecture} with {ours} (the most similar class, "
        f"{near.class_name}, has {theirs}), so only wordpipe can load the folder"
    )


def config_to_hf(config: ModelConfig, family: Family | None = None) -> dict[str, Any]:
    """Return the content of `config.json` for a model of this shape, of the class of the folder unless another is given."""
    family = family or family_of(config)
    shared = {"model_type": family.model_type, "torch_dtype": "float32"}
    if family is OWN:
        return family.written(config) | shared
    ids = {f"{role}_token_id": number for role, number in config.special_ids.items()}
    if config.mask_id is None:
        del ids["mask_token_id"]  # a class that has one may refuse null
    # a class that computes them needs no note; others keep a table
    note = {NOTE: _SINUSOIDAL} if config.positions == "sinusoidal" and family is not MARIAN else {}
    return {
        **family.written(config),
        **shared,
        **ids,
        **note,
        "architectures": [family.class_of(config)],
        "vocab_size": config.vocab_size,
        "initializer_range": EMBEDDING_STD,
    }


_MAX_SIZE, _MAX_LAYERS = 1 << 31, 4_096
_LAYERS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "n_decoder_layers", "encoder_layers",
    "decoder_layers",
)  # fmt: skip


def config_from_hf(values: Mapping[str, Any]) -> tuple[Family, ModelConfig]:
    """Return the class and the shape that a `config.json` describes.

    Raises:
        ArtifactError: another class of model, a variant that our blocks do not compute, or sizes that make no sense.
    """
    types = {family.model_type: family for family in (*FAMILIES, OWN)}
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in types:
        raise refusal("model_type", kind, ", ".join(family.model_type for family in (*FAMILIES, OWN)))
    family = types[kind]
    refuse_others(values, {"quantization_config": (None,)})
    _refuse_giants(values)
    found = family.read(values)
    if family is not OWN:
        found |= special_ids(values) | {"vocab_size": read_value(values, "vocab_size", int)}
        if found["positions"] == "learned":
            found["positions"] = _noted_positions(values)
    try:
        return family, ModelConfig(**found)
    except ConfigError as error:
        raise ArtifactError(error.message, where=CONFIG) from None


def _refuse_giants(values: Mapping[str, Any]) -> None:
    """Refuse sizes that only a forged `config.json` states, before anything is made as large."""
    for name, value in values.items():
        most = _MAX_LAYERS if name in _LAYERS else _MAX_SIZE
        if type(value) is int and value > most:
            raise refusal(name, str(value)[:40], f"at most {most:,}")


def _noted_positions(values: Mapping[str, Any]) -> str:
    """Return the kind of a table of positions (learned or sinusoidal), by wordpipe's note in `config.json`."""
    note = values.get(NOTE)
    if note not in (None, _SINUSOIDAL):
        raise refusal(NOTE, note, f"{_SINUSOIDAL}, or a file without this key")
    return "learned" if note is None else "sinusoidal"


def _shown(value: object) -> str:
    """Return a value of a config as text for a message."""
    if not isinstance(value, tuple):
        return str(value)
    return f"[{', '.join(map(str, value))}]" if value else "none"
