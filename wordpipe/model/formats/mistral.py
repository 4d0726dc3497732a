"""`MistralForCausalLM` and `MinistralForCausalLM`: Llama's blocks with a window in all or in some layers.

Their `sliding_window` of W counts the position itself: it sees W - 1 positions to its left, which is our window. Mistral
has one window for all layers; Ministral says for each layer whether it has it, and turns all by the same angles.

Source: Jiang et al. 2023 (arXiv 2310.06825), section 2; transformers/masking_utils.py, `sliding_window_overlay`.
"""

from collections.abc import Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Family, one_window
from wordpipe.model.formats.llama import block_parts, llama_entries, llama_from_hf, llama_to_hf
from wordpipe.model.formats.values import integer, refusal

__all__ = ["MINISTRAL", "MISTRAL"]

_LOCAL, _GLOBAL = "sliding_attention", "full_attention"


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return block_parts(config) | {
        "n_heads": (config.n_heads,),  # need not divide the width, as in Llama
        "local_rope_theta": (0.0, config.rope_theta),
        "bias": (False,),
        "output_bias": (False,),
    }


def _mistral_parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return _parts(config) | {"windows": ((max(config.windows),) * config.n_layers,)}


def _ministral_parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return _parts(config) | {"windows": (one_window(config),)}


def _mistral_to_hf(config: ModelConfig) -> dict[str, Any]:
    widest = max(config.windows)
    return llama_to_hf(config) | {"sliding_window": widest + 1 if widest else None}


def _ministral_to_hf(config: ModelConfig) -> dict[str, Any]:
    kinds = [_LOCAL if window else _GLOBAL for window in config.windows]
    return _mistral_to_hf(config) | {"layer_types": kinds}


def _mistral_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    fields = llama_from_hf(values)
    kinds = [_GLOBAL if values.get("sliding_window") is None else _LOCAL] * fields["n_layers"]
    return fields | {"architecture": "decoder", "windows": _windows(values, kinds)}


def _ministral_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    if values.get("layer_types") is None:
        return _mistral_from_hf(values)
    fields = llama_from_hf(values)
    kinds = values["layer_types"]
    if (
        not isinstance(kinds, list)
        or len(kinds) != fields["n_layers"]
        or any(k not in (_LOCAL, _GLOBAL) for k in kinds)
    ):
        raise refusal("layer_types", kinds, f"one of {_GLOBAL} and {_LOCAL} for each of {fields['n_layers']} layers")
    return fields | {"architecture": "decoder", "windows": _windows(values, kinds)}


def _windows(values: Mapping[str, Any], kinds: list[str]) -> tuple[int, ...]:
    """Our windows, one per layer."""
    if _LOCAL not in kinds:
        return (0,) * len(kinds)
    width = integer(values, "sliding_window")
    if width < 2:
        raise refusal("sliding_window", width, "at least 2: a position and one to its left")
    return tuple(width - 1 if kind == _LOCAL else 0 for kind in kinds)


MISTRAL = Family(
    model_type="mistral",
    native="MistralForCausalLM",
    architecture="decoder",
    parts=_mistral_parts,
    to_hf=_mistral_to_hf,
    from_hf=_mistral_from_hf,
    entries=llama_entries,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)

MINISTRAL = Family(
    model_type="ministral",
    native="MinistralForCausalLM",
    architecture="decoder",
    parts=_ministral_parts,
    to_hf=_ministral_to_hf,
    from_hf=_ministral_from_hf,
    entries=llama_entries,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
