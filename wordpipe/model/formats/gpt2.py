"""`GPT2LMHeadModel`: a decoder with LayerNorm before, GELU by tanh, learned positions, offsets everywhere but the logits.

Its matrices stand as (in, out), which is ours transposed. Sinusoidal positions are written as a learned table, as in `bert`.

Source: Radford et al. 2019, section 2.3; transformers/models/gpt2/modeling_gpt2.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Entry, Family, choice, flag, integer, number, refuse_others, whole

__all__ = ["GPT2"]

_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
_NAMES = {"gelu_tanh": "gelu_new", "gelu": "gelu", "relu": "relu"}
# reorder_and_upcast_attn is not among these: it changes the order of the same operations
_FIXED = {"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,)}


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return {
        "positions": ("learned", "sinusoidal"),
        "attention": ("dot",),
        "windows": ((0,) * config.n_layers,),
        "global_tokens": (0,),
        "n_kv_heads": (config.n_heads,),
        "head_dim": (config.dim // config.n_heads,),
        "norm": ("layer",),
        "norm_place": ("pre",),
        "norm_bias": (True,),
        "feedforward": tuple(_NAMES),
        "bias": (True,),
        "segments": (0,),
        "embedding_norm": (False,),
        "head": (False,),
        "output_bias": (False,),
    }


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    return {
        "n_embd": config.dim,
        "n_inner": config.ffn_dim,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_positions": config.max_len,
        "n_ctx": config.max_len,
        "activation_function": _NAMES[config.feedforward],
        "layer_norm_epsilon": config.norm_eps,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "use_cache": True,
    }


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    refuse_others(values, _FIXED)
    dim = integer(values, "n_embd")
    return {
        "architecture": "decoder",
        "dim": dim,
        "ffn_dim": integer(values, "n_inner", 4 * dim),
        "n_layers": integer(values, "n_layer"),
        "n_heads": integer(values, "n_head"),
        "n_kv_heads": integer(values, "n_head"),
        "max_len": integer(values, "n_positions"),
        "positions": "learned",
        "norm": "layer",
        "norm_bias": True,
        "norm_eps": number(values, "layer_norm_epsilon", 1e-5),
        "feedforward": choice(values, "activation_function", _ACTIVATIONS, "gelu_new"),
        "bias": True,
        "tied": flag(values, "tie_word_embeddings", default=True),
    }


def _entries(config: ModelConfig) -> Iterator[Entry]:
    yield Entry("embedding", ("transformer.wte.weight",))
    yield Entry("position_embedding", ("transformer.wpe.weight",))
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"transformer.h.{i}"
        yield from whole(f"{ours}.attention_norm", f"{theirs}.ln_1", bias=True)
        yield from whole(f"{ours}.attention.qkv", f"{theirs}.attn.c_attn", bias=True, transposed=True)
        yield from whole(f"{ours}.attention.out", f"{theirs}.attn.c_proj", bias=True, transposed=True)
        yield from whole(f"{ours}.feedforward_norm", f"{theirs}.ln_2", bias=True)
        yield from whole(f"{ours}.feedforward.up", f"{theirs}.mlp.c_fc", bias=True, transposed=True)
        yield from whole(f"{ours}.feedforward.down", f"{theirs}.mlp.c_proj", bias=True, transposed=True)
    yield from whole("final_norm", "transformer.ln_f", bias=True)
    if not config.tied:
        yield Entry("output", ("lm_head.weight",))


GPT2 = Family(
    model_type="gpt2",
    native="GPT2LMHeadModel",
    architecture="decoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=_entries,
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.wte.weight"},
)
