"""`MptForCausalLM`: a decoder with LayerNorm before, plain GELU of four times the width, ALiBi, no offsets at all.

Its bias of a key is slope · (key - last key) where ALiBi's is slope · (key - query): the difference is the same for all keys
of a query, and the softmax does not see it. transformers builds it whatever `attn_config` says of it.

Source: Press et al. 2022 (arXiv 2108.12409); transformers/models/mpt/modeling_mpt.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Entry, Family, whole
from wordpipe.model.formats.values import flag, integer, number, refusal, refuse_others

__all__ = ["MPT"]

_RATIO = 4
_FIXED: dict[str, tuple[object, ...]] = {
    "expansion_ratio": (_RATIO,),
    "no_bias": (True,),
    "logit_scale": (None,),
    "norm_type": ("low_precision_layernorm", "layernorm"),
}
_FIXED_ATTENTION: dict[str, tuple[object, ...]] = {
    "alibi": (True,),
    "alibi_bias_max": (8,),
    "attn_type": ("multihead_attention",),
    "clip_qkv": (None,),
    "prefix_lm": (False,),
    "qk_ln": (False,),
    "softmax_scale": (None,),
}


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return {
        "positions": ("alibi",),
        "attention": ("dot",),
        "windows": ((0,) * config.n_layers,),
        "global_tokens": (0,),
        "n_kv_heads": (config.n_heads,),
        "head_dim": (config.dim // config.n_heads,),
        "ffn_dim": (_RATIO * config.dim,),
        "norm": ("layer",),
        "norm_place": ("pre",),
        "norm_bias": (False,),
        "feedforward": ("gelu",),
        "bias": (False,),
        "segments": (0,),
        "embedding_norm": (False,),
        "head": (False,),
        "output_bias": (False,),
    }


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    return {
        "d_model": config.dim,
        "n_layers": config.n_layers,
        "n_heads": config.n_heads,
        "max_seq_len": config.max_len,
        "layer_norm_epsilon": config.norm_eps,
        "learned_pos_emb": False,
        "emb_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "use_cache": True,
        "attn_config": {"attn_pdrop": 0} | {key: allowed[0] for key, allowed in _FIXED_ATTENTION.items()},
        **{key: allowed[0] for key, allowed in _FIXED.items()},
    }


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    refuse_others(values, _FIXED)
    attention = values.get("attn_config") or {}
    if not isinstance(attention, Mapping):
        raise refusal("attn_config", attention, "an object")
    refuse_others(attention, _FIXED_ATTENTION)
    dim = integer(values, "d_model")
    return {
        "architecture": "decoder",
        "dim": dim,
        "ffn_dim": _RATIO * dim,
        "n_layers": integer(values, "n_layers"),
        "n_heads": integer(values, "n_heads"),
        "n_kv_heads": integer(values, "n_heads"),
        "max_len": integer(values, "max_seq_len"),
        "positions": "alibi",
        "norm": "layer",
        "norm_eps": number(values, "layer_norm_epsilon", 1e-5),
        "feedforward": "gelu",
        "tied": flag(values, "tie_word_embeddings", default=True),
    }


def _entries(config: ModelConfig) -> Iterator[Entry]:
    yield Entry("embedding", ("transformer.wte.weight",))
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"transformer.blocks.{i}"
        yield from whole(f"{ours}.attention_norm", f"{theirs}.norm_1")
        yield from whole(f"{ours}.attention.qkv", f"{theirs}.attn.Wqkv")
        yield from whole(f"{ours}.attention.out", f"{theirs}.attn.out_proj")
        yield from whole(f"{ours}.feedforward_norm", f"{theirs}.norm_2")
        yield from whole(f"{ours}.feedforward.up", f"{theirs}.ffn.up_proj")
        yield from whole(f"{ours}.feedforward.down", f"{theirs}.ffn.down_proj")
    yield from whole("final_norm", "transformer.norm_f")
    if not config.tied:
        yield Entry("output", ("lm_head.weight",))


MPT = Family(
    model_type="mpt",
    native="MptForCausalLM",
    architecture="decoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=_entries,
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.wte.weight"},
)
