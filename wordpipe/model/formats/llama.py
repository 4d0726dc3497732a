"""`LlamaForCausalLM`: a decoder with RMSNorm, gated feed-forward, rotary positions and shared keys, every layer global.

Queries, keys and values, and the two halves of the feed-forward, are matrices of their own, which are ours stacked.
`mistral` and `eurobert` have the same blocks under the same names.

Source: Touvron et al. 2023 (arXiv 2302.13971); transformers/models/llama/modeling_llama.py.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Entry, Family, stacked, whole
from wordpipe.model.formats.values import choice, flag, integer, number, refusal, refuse_others, same_flag, theta

__all__ = ["LLAMA", "block_parts", "llama_entries", "llama_from_hf", "llama_to_hf"]

ACTIVATIONS = {"silu": "swiglu", "gelu": "geglu"}
"""Their activation of the gating half → our feed-forward."""


def block_parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    """What all classes with these blocks compute; windows, offsets and the head are for each to say."""
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
    }


def llama_to_hf(config: ModelConfig) -> dict[str, Any]:
    """The keys that all classes with these blocks share."""
    names = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {
        "hidden_size": config.dim,
        "intermediate_size": config.ffn_dim,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_len,
        "hidden_act": names[config.feedforward],
        # transformers 5 reads the first, 4 the second; each ignores the other's
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "attention_dropout": 0.0,
        "use_cache": True,
    }


def llama_from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that all classes with these blocks share."""
    refuse_others(values, {"rope_scaling": (None,)})
    n_heads = integer(values, "num_attention_heads")
    return {
        "dim": integer(values, "hidden_size"),
        "ffn_dim": integer(values, "intermediate_size"),
        "n_layers": integer(values, "num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": integer(values, "num_key_value_heads", n_heads),
        "head_dim": _head_dim(values),
        "max_len": integer(values, "max_position_embeddings"),
        "feedforward": choice(values, "hidden_act", ACTIVATIONS, "silu"),
        "rope_theta": theta(values.get("rope_parameters"), number(values, "rope_theta", 10_000.0)),
        "norm": "rms",
        "norm_eps": number(values, "rms_norm_eps", 1e-6),
        "tied": flag(values, "tie_word_embeddings", False),
    }


def _head_dim(values: Mapping[str, Any]) -> int:
    """Width of a head; 0: the heads divide the width."""
    if values.get("head_dim") is None:
        return 0
    head_dim = integer(values, "head_dim")
    if head_dim % 2:
        raise refusal("head_dim", head_dim, "an even number, as pairs are rotated")
    return head_dim


def llama_entries(config: ModelConfig) -> Iterator[Entry]:
    """Every weight of a model with these blocks."""
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


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return block_parts(config) | {"windows": ((0,) * config.n_layers,), "output_bias": (False,)}


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    return llama_to_hf(config) | {"attention_bias": config.bias, "mlp_bias": config.bias}


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    bias = same_flag(values, ("attention_bias", "mlp_bias"), default=False)
    return llama_from_hf(values) | {"architecture": "decoder", "bias": bias}


LLAMA = Family(
    model_type="llama",
    native="LlamaForCausalLM",
    architecture="decoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=llama_entries,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
