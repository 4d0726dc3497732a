"""`LlamaForCausalLM`: a decoder with RMSNorm, gated feed-forward, rotary positions and shared keys, every layer global.

Queries, keys and values, and the two halves of the feed-forward, are matrices of their own, which are ours stacked.
`MistralForCausalLM` has the same blocks under the same names, and one window for all layers: its `sliding_window` of W counts
the position itself, which sees W - 1 positions to its left; that is our window.

Source: Touvron et al. 2023 (arXiv 2302.13971); transformers/models/llama/modeling_llama.py. Jiang et al. 2023
(arXiv 2310.06825), section 2; transformers/masking_utils.py, `sliding_window_overlay`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import (
    Entry,
    Family,
    choice,
    flag,
    integer,
    number,
    refusal,
    refuse_others,
    same_flag,
    sizes_from_hf,
    sizes_to_hf,
    stacked,
    theta,
    whole,
)

__all__ = ["LLAMA", "MISTRAL", "WRITTEN_BEFORE"]

_ACTIVATIONS = {"silu": "swiglu", "gelu": "geglu"}  # their activation of the gating half → our feed-forward


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return {
        "positions": ("rope",),
        "attention": ("dot",),
        "global_tokens": (0,),
        "norm": ("rms",),
        "norm_place": ("pre",),
        "norm_bias": (False,),
        "feedforward": ("swiglu", "geglu"),
        "segments": (0,),
        "embedding_norm": (False,),
        "head": (False,),
        # head_dim is free, but transformers refuses a width that the heads do not divide
        "n_heads": (math.gcd(config.dim, config.n_heads),),
        "windows": ((0,) * config.n_layers,),
        "output_bias": (False,),
    }


def _mistral_parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return _parts(config) | {
        "n_heads": (config.n_heads,),  # need not divide the width, as in Llama
        "windows": ((max(config.windows),) * config.n_layers,),
        "local_rope_theta": (0.0, config.rope_theta),
        "bias": (False,),
    }


def _shared_to_hf(config: ModelConfig) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    return {
        **sizes_to_hf(config),
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": names[config.feedforward],
        # transformers 5 reads the first, 4 the second; each ignores the other's
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "attention_dropout": 0.0,
        "use_cache": True,
    }


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    return _shared_to_hf(config) | {"attention_bias": config.bias, "mlp_bias": config.bias}


def _mistral_to_hf(config: ModelConfig) -> dict[str, Any]:
    widest = max(config.windows)
    return _shared_to_hf(config) | {"sliding_window": widest + 1 if widest else None}


def _shared_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    refuse_others(values, {"rope_scaling": (None,)})
    sizes = sizes_from_hf(values)
    return {
        "architecture": "decoder",
        **sizes,
        "n_kv_heads": integer(values, "num_key_value_heads", sizes["n_heads"]),
        "head_dim": _head_dim(values),
        "feedforward": choice(values, "hidden_act", _ACTIVATIONS, "silu"),
        "rope_theta": theta(values.get("rope_parameters"), number(values, "rope_theta", 10_000.0)),
        "norm": "rms",
        "norm_eps": number(values, "rms_norm_eps", 1e-6),
        "tied": flag(values, "tie_word_embeddings", False),
    }


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    return _shared_from_hf(values) | {"bias": same_flag(values, ("attention_bias", "mlp_bias"), default=False)}


def _mistral_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    fields = _shared_from_hf(values)
    if values.get("sliding_window") is None:
        return fields
    width = integer(values, "sliding_window")
    if width < 2:
        raise refusal("sliding_window", width, "at least 2: a position and one to its left")
    return fields | {"windows": (width - 1,) * fields["n_layers"]}


def _eurobert_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    fields = _from_hf(values)
    return fields | {"architecture": "encoder", "output_bias": fields["bias"]}


def _ministral_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    """Mistral's windows, in the layers that `layer_types` names."""
    fields, kinds = _mistral_from_hf(values), values.get("layer_types")
    windows = fields.get("windows", ())
    if not isinstance(kinds, list) or len(kinds) != len(windows):
        raise refusal("layer_types", kinds, f"one for each of {fields['n_layers']} layers, and a sliding_window")
    pairs = zip(windows, kinds, strict=True)
    return fields | {"windows": tuple(window if kind == "sliding_attention" else 0 for window, kind in pairs)}


def _head_dim(values: Mapping[str, Any]) -> int:
    """Width of a head; 0: the heads divide the width."""
    if values.get("head_dim") is None:
        return 0
    head_dim = integer(values, "head_dim")
    if head_dim % 2:
        raise refusal("head_dim", head_dim, "an even number, as pairs are rotated")
    return head_dim


def _entries(config: ModelConfig) -> Iterator[Entry]:
    shared = config.n_kv_heads * config.head_dim
    heads = (config.n_heads * config.head_dim, shared, shared)
    yield Entry("embedding", ("model.embed_tokens.weight",))
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"model.layers.{i}"
        qkv = tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        up = (f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj")
        yield from whole(f"{ours}.attention_norm", f"{theirs}.input_layernorm")
        yield from stacked(f"{ours}.attention.qkv", qkv, heads, bias=config.bias)
        yield from whole(f"{ours}.attention.out", f"{theirs}.self_attn.o_proj", bias=config.bias)
        yield from whole(f"{ours}.feedforward_norm", f"{theirs}.post_attention_layernorm")
        yield from stacked(f"{ours}.feedforward.up", up, (config.ffn_dim,) * 2, bias=config.bias)
        yield from whole(f"{ours}.feedforward.down", f"{theirs}.mlp.down_proj", bias=config.bias)
    yield from whole("final_norm", "model.norm")
    if not config.tied:
        yield Entry("output", ("lm_head.weight",))
    if config.output_bias:
        yield Entry("output_bias", ("lm_head.bias",))


LLAMA = Family(
    model_type="llama",
    native="LlamaForCausalLM",
    architecture="decoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=_entries,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
MISTRAL = replace(
    LLAMA, model_type="mistral", native="MistralForCausalLM", parts=_mistral_parts, to_hf=_mistral_to_hf,
    from_hf=_mistral_from_hf,
)  # fmt: skip

WRITTEN_BEFORE: tuple[Family, ...] = (
    replace(LLAMA, model_type="eurobert", from_hf=_eurobert_from_hf),
    replace(LLAMA, model_type="ministral", from_hf=_ministral_from_hf),
)
"""What earlier versions saved some models as, with the same weights: an encoder of these blocks (EuroBERT), windows in some of
the layers (Ministral). Artifacts of them are read; folders of others are not."""
