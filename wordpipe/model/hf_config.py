"""`config.json` of a Hugging Face folder: written for `transformers` 4.48 and later, read as strictly as its meaning asks.

Names changed between the fourth and fifth release (`rope_theta` → `rope_parameters`, `global_attn_every_n_layers` →
`layer_types`); both are written, as each release ignores the other's.
"""

from collections.abc import Mapping
from typing import Any

from wordpipe.errors import ArtifactError, ConfigError
from wordpipe.model.config import ModelConfig

__all__ = ["config_from_hf", "config_to_hf"]

_FILE = "config.json"
_SPECIAL = ("pad", "bos", "eos", "cls", "sep", "mask")
_MODERNBERT = "modernbert"
_LLAMA = "llama"

# What our blocks cannot do: a folder that asks for anything else would load and answer wrongly. (value, transformers' default)
_FIXED: dict[str, dict[str, tuple[Any, Any]]] = {
    _MODERNBERT: {
        "hidden_activation": ("gelu", "gelu"),
        "classifier_activation": ("gelu", "gelu"),
        "norm_bias": (False, False),
        "attention_bias": (False, False),
        "mlp_bias": (False, False),
        "classifier_bias": (False, False),
        "decoder_bias": (True, True),
    },
    _LLAMA: {
        "hidden_act": ("silu", "silu"),
        "attention_bias": (False, False),
        "mlp_bias": (False, False),
        "rope_scaling": (None, None),
    },
}


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """The content of `config.json` for a model of this shape."""
    specific = _to_modernbert(config) if config.architecture == "encoder" else _to_llama(config)
    ids = {f"{name}_token_id": getattr(config, f"{name}_id") for name in _SPECIAL}
    return {
        **specific,
        **{key: value for key, value in ids.items() if value is not None or key in ("pad_token_id", "eos_token_id")},
        "vocab_size": config.vocab_size,
        "hidden_size": config.dim,
        "intermediate_size": config.ffn_dim,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "max_position_embeddings": config.max_len,
        "initializer_range": 0.02,
        "attention_dropout": 0.0,
        "tie_word_embeddings": config.tied,
        "torch_dtype": "float32",
    }


def _to_modernbert(config: ModelConfig) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    return {
        "architectures": ["ModernBertForMaskedLM"],
        "model_type": _MODERNBERT,
        **{key: value for key, (value, _) in _FIXED[_MODERNBERT].items()},
        "layer_types": ["full_attention"] * config.n_layers,
        "global_attn_every_n_layers": 1,
        "rope_parameters": {"full_attention": rope, "sliding_attention": rope},
        "global_rope_theta": config.rope_theta,
        "local_rope_theta": config.rope_theta,
        "norm_eps": config.norm_eps,
        "embedding_dropout": 0.0,
        "mlp_dropout": 0.0,
        "classifier_dropout": 0.0,
        "classifier_pooling": "mean",
    }


def _to_llama(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": _LLAMA,
        **{key: value for key, (value, _) in _FIXED[_LLAMA].items() if value is not None},
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "use_cache": True,
    }


def config_from_hf(values: Mapping[str, Any]) -> ModelConfig:
    """The shape that a `config.json` describes.

    Raises:
        ArtifactError: another class of model, a variant that our blocks do not compute, or sizes that make no sense.
    """
    kind = values.get("model_type")
    if kind not in _FIXED:
        raise _refusal("model_type", kind, f"{_MODERNBERT} or {_LLAMA}")
    for key, (value, default) in _FIXED[kind].items():
        if values.get(key, default) != value:
            raise _refusal(key, values[key], value)
    specific = _from_modernbert(values) if kind == _MODERNBERT else _from_llama(values)
    try:
        return ModelConfig(
            vocab_size=_integer(values, "vocab_size"),
            dim=_integer(values, "hidden_size"),
            n_layers=_integer(values, "num_hidden_layers"),
            n_heads=_integer(values, "num_attention_heads"),
            ffn_dim=_integer(values, "intermediate_size"),
            max_len=_integer(values, "max_position_embeddings"),
            tied=bool(values.get("tie_word_embeddings", kind == _MODERNBERT)),
            **{f"{name}_id": _special(values, f"{name}_token_id") for name in _SPECIAL},  # type: ignore[arg-type]
            **specific,
        )
    except ConfigError as error:
        raise ArtifactError(error.message, where=_FILE) from None


def _from_modernbert(values: Mapping[str, Any]) -> dict[str, Any]:
    n_layers = _integer(values, "num_hidden_layers")
    every = values.get("global_attn_every_n_layers", 3)
    assumed = ["sliding_attention" if i % every else "full_attention" for i in range(n_layers)]
    if set(values.get("layer_types") or assumed) != {"full_attention"}:
        raise _refusal("layer_types", "sliding_attention in some layers", "full_attention in all layers")
    ropes = values.get("rope_parameters") or {}
    return {
        "architecture": "encoder",
        "n_kv_heads": _integer(values, "num_attention_heads"),
        "rope_theta": _theta(ropes.get("full_attention"), values.get("global_rope_theta", 160_000.0)),
        "norm_eps": float(values.get("norm_eps", 1e-5)),
    }


def _from_llama(values: Mapping[str, Any]) -> dict[str, Any]:
    n_heads, dim = _integer(values, "num_attention_heads"), _integer(values, "hidden_size")
    if values.get("head_dim") not in (None, dim // n_heads):
        raise _refusal("head_dim", values["head_dim"], dim // n_heads)
    return {
        "architecture": "decoder",
        "n_kv_heads": n_heads if values.get("num_key_value_heads") is None else _integer(values, "num_key_value_heads"),
        "rope_theta": _theta(values.get("rope_parameters"), values.get("rope_theta", 10_000.0)),
        "norm_eps": float(values.get("rms_norm_eps", 1e-6)),
    }


def _theta(rope: Mapping[str, Any] | None, default: float) -> float:
    rope = rope or {}
    if rope.get("rope_type", "default") != "default":
        raise _refusal("rope_type", rope["rope_type"], "default")
    return float(rope.get("rope_theta", default))


def _integer(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refusal(key, value, "a whole number of at least 1")
    return value


def _special(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    if isinstance(value, list):  # several tokens may end a text; the first one is the usual one
        value = value[0] if value else None
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise _refusal(key, value, "a token id")
    return value


def _refusal(key: str, got: object, expected: object) -> ArtifactError:
    return ArtifactError(f"{key} is not one that this model can compute", where=_FILE, got=repr(got), expected=expected)
