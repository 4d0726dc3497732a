"""The classes of `transformers` that compute what some of our models compute, as tables.

Names of keys changed between the fourth and fifth release of transformers (`global_attn_every_n_layers` → `layer_types`,
`rope_theta` → `rope_parameters`); both are written, as each release ignores the other's. Sinusoidal positions are written
as a learned table: added alike, they compute the same. A note in `config.json` keeps what they were (`families.NOTE`).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.hf.mapping import Allowed, Family, read_value, refusal, rope_theta

_LOCAL, _GLOBAL = "sliding_attention", "full_attention"
_SIZES: dict[str, tuple[str, Any]] = {
    "dim": ("hidden_size", None),
    "ffn_dim": ("intermediate_size", None),
    "n_layers": ("num_hidden_layers", None),
    "n_heads": ("num_attention_heads", None),
    "max_len": ("max_position_embeddings", None),
}


def _parts(name: str, *parts: str) -> str:
    """Return the names of transformers' matrices which, stacked, make one of ours."""
    return " ".join(map(name.format, parts))


_ONE_STACK: dict[str, Allowed] = {  # what most encoders and decoders have
    "scale_embedding": (False,),
    "embedding_dim": (0,),
    "shared_layers": (False,),
    "attention": ("dot",),
    "windows": lambda config: ((0,) * config.n_layers,),
    "global_tokens": (0,),
}
_EXACT, _BY_TANH = {"gelu": "gelu", "relu": "relu"}, {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}

BERT = Family(
    model_type="bert",
    class_name="BertForMaskedLM",
    with_pairs="BertForPreTraining",
    architecture="encoder",
    parts={
        "positions": ("learned", "sinusoidal"),
        **_ONE_STACK,
        "n_kv_heads": lambda config: (config.n_heads,),
        "head_dim": lambda config: (config.dim // config.n_heads,),
        "norm": ("layer",),
        "norm_place": ("post",),
        "norm_bias": (True,),
        "feedforward": ("gelu", "relu", "gelu_tanh"),
        "bias": (True,),
        "segments": lambda config: (config.segments or 2,),
        "embedding_norm": (True,),
        "head": (True,),
        "output_bias": (True,),
    },
    keys={
        **_SIZES,
        "segments": ("type_vocab_size", 2),
        "norm_eps": ("layer_norm_eps", 1e-12),
        "tied": ("tie_word_embeddings", True),
    },
    activation=("hidden_act", "gelu", _EXACT | _BY_TANH),
    refused={
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "chunk_size_feed_forward": (0,),
    },
    constants={
        "position_embedding_type": "absolute",
        **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0),
    },
    weights={
        "embedding": "bert.embeddings.word_embeddings.weight",
        "position_embedding": "bert.embeddings.position_embeddings.weight",
        "segment_embedding": "bert.embeddings.token_type_embeddings.weight",
        "embedding_norm.*": "bert.embeddings.LayerNorm.*",
        "blocks.#.attention.qkv.*": _parts("bert.encoder.layer.#.attention.self.{}.*", "query", "key", "value"),
        "blocks.#.attention.out.*": "bert.encoder.layer.#.attention.output.dense.*",
        "blocks.#.attention_norm.*": "bert.encoder.layer.#.attention.output.LayerNorm.*",
        "blocks.#.feedforward.up.*": "bert.encoder.layer.#.intermediate.dense.*",
        "blocks.#.feedforward.down.*": "bert.encoder.layer.#.output.dense.*",
        "blocks.#.feedforward_norm.*": "bert.encoder.layer.#.output.LayerNorm.*",
        "head.dense.*": "cls.predictions.transform.dense.*",
        "head.norm.*": "cls.predictions.transform.LayerNorm.*",
        "output": "cls.predictions.decoder.weight",
        "output_bias": "cls.predictions.bias",
        "pair_pooler.*": "bert.pooler.dense.*",
        "pair_classifier.*": "cls.seq_relationship.*",
    },
    # untied, transformers adds the one of the matrix, and keeps the other unused
    untied_bias="cls.predictions.decoder.bias",
    prefix="bert.",
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    unused=(r"(bert\.)?pooler\..+", r"cls\.seq_relationship\..+"),
    # folders converted from TensorFlow, Google's own among them
    renamed={r"LayerNorm\.gamma$": "LayerNorm.weight", r"LayerNorm\.beta$": "LayerNorm.bias"},
)
"""`BertForMaskedLM`: an encoder with LayerNorm after each half, GELU, learned positions, segments, offsets everywhere.

Folders of `BertModel` are read too; the pooler that they have more is left behind. `BertForPreTraining` has the guess whether
one sentence follows another.

Source: Devlin et al. 2019 (arXiv 1810.04805); transformers/models/bert/modeling_bert.py.
"""


GPT2 = Family(
    model_type="gpt2",
    class_name="GPT2LMHeadModel",
    architecture="decoder",
    parts={
        **BERT.parts,
        "norm_place": ("pre",),
        "feedforward": ("gelu_tanh", "gelu", "relu"),
        "segments": (0,),
        "embedding_norm": (False,),
        "head": (False,),
        "output_bias": (False,),
    },
    keys={
        "dim": ("n_embd", None),
        "n_layers": ("n_layer", None),
        "n_heads": ("n_head", None),
        "max_len": ("n_positions", None),
        "norm_eps": ("layer_norm_epsilon", 1e-5),
        "tied": ("tie_word_embeddings", True),
    },
    activation=("activation_function", "gelu_new", _BY_TANH | _EXACT),
    # reorder_and_upcast_attn is not among these: it changes the order of the same operations
    refused={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    constants={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "use_cache": True,
        **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
    },
    to_hf=lambda config: {"n_inner": config.ffn_dim, "n_ctx": config.max_len},
    from_hf=lambda values, fields: {"ffn_dim": read_value(values, "n_inner", int, 4 * fields["dim"])},
    weights={
        "embedding": "transformer.wte.weight",
        "position_embedding": "transformer.wpe.weight",
        "blocks.#.attention_norm.*": "transformer.h.#.ln_1.*",
        "blocks.#.attention.qkv.*": "transformer.h.#.attn.c_attn.*",
        "blocks.#.attention.out.*": "transformer.h.#.attn.c_proj.*",
        "blocks.#.feedforward_norm.*": "transformer.h.#.ln_2.*",
        "blocks.#.feedforward.up.*": "transformer.h.#.mlp.c_fc.*",
        "blocks.#.feedforward.down.*": "transformer.h.#.mlp.c_proj.*",
        "final_norm.*": "transformer.ln_f.*",
        "output": "lm_head.weight",
    },
    transposed=True,
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.wte.weight"},
)
"""`GPT2LMHeadModel`: a decoder with LayerNorm before, GELU by tanh, learned positions, offsets everywhere but the logits.

Its matrices are (in, out), which is ours transposed.

Source: Radford et al. 2019, section 2.3; transformers/models/gpt2/modeling_gpt2.py.
"""


def _llama_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Write the fields of the class of Llama."""
    return {
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "rope_theta": config.rope_theta,
    }


def llama_fields(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of the class of Llama: the heads and the rotary angles."""
    # 0: the heads divide the width
    head_dim = 0 if values.get("head_dim") is None else read_value(values, "head_dim", int)
    if head_dim % 2:
        raise refusal("head_dim", head_dim, "an even number, because rotary positions rotate pairs of numbers")
    return {
        "n_kv_heads": read_value(values, "num_key_value_heads", int, fields["n_heads"]),
        "head_dim": head_dim,
        "rope_theta": rope_theta(values.get("rope_parameters"), read_value(values, "rope_theta", float, 10_000.0)),
    }


_LLAMA_KEYS = _SIZES | {"norm_eps": ("rms_norm_eps", 1e-6), "tied": ("tie_word_embeddings", False)}

LLAMA = Family(
    model_type="llama",
    class_name="LlamaForCausalLM",
    architecture="decoder",
    parts={
        "positions": ("rope",),
        **_ONE_STACK,
        "norm": ("rms",),
        "norm_place": ("pre",),
        "norm_bias": (False,),
        "feedforward": ("swiglu", "geglu"),
        "segments": (0,),
        "embedding_norm": (False,),
        "head": (False,),
        # head_dim is free, but transformers refuses a width that the heads do not divide
        "n_heads": lambda config: (math.gcd(config.dim, config.n_heads),),
        "output_bias": (False,),
    },
    keys=_LLAMA_KEYS | {"bias": ("attention_bias mlp_bias", False)},
    activation=("hidden_act", "silu", {"silu": "swiglu", "gelu": "geglu"}),
    refused={"rope_scaling": (None,)},
    constants={"attention_dropout": 0.0, "use_cache": True},
    to_hf=_llama_to_hf,
    from_hf=llama_fields,
    weights={
        "embedding": "model.embed_tokens.weight",
        "blocks.#.attention_norm.*": "model.layers.#.input_layernorm.*",
        "blocks.#.attention.qkv.*": _parts("model.layers.#.self_attn.{}_proj.*", *"qkv"),
        "blocks.#.attention.out.*": "model.layers.#.self_attn.o_proj.*",
        "blocks.#.feedforward_norm.*": "model.layers.#.post_attention_layernorm.*",
        "blocks.#.feedforward.up.*": _parts("model.layers.#.mlp.{}_proj.*", "gate", "up"),
        "blocks.#.feedforward.down.*": "model.layers.#.mlp.down_proj.*",
        "final_norm.*": "model.norm.*",
        "output": "lm_head.weight",
        "output_bias": "lm_head.bias",
    },
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
"""`LlamaForCausalLM`: a decoder with RMSNorm, gated feed-forward, rotary positions and shared keys, every layer global.

Queries, keys and values, and the two halves of the feed-forward, are matrices of their own, which are ours stacked.

Source: Touvron et al. 2023 (arXiv 2302.13971); transformers/models/llama/modeling_llama.py.
"""


def _mistral_to_hf(config: ModelConfig) -> dict[str, Any]:
    widest = max(config.windows)
    return _llama_to_hf(config) | {"sliding_window": widest + 1 if widest else None}


def mistral_fields(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of the class of Mistral: the heads, the rotary angles and the windows."""
    more = llama_fields(values, fields)
    if values.get("sliding_window") is None:
        return more
    width = read_value(values, "sliding_window", int)
    if width < 2:
        raise refusal("sliding_window", width, "at least 2 (the position itself and one position on the left)")
    return more | {"windows": (width - 1,) * fields["n_layers"]}


MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    class_name="MistralForCausalLM",
    parts={
        **LLAMA.parts,
        "n_heads": lambda config: (config.n_heads,),  # need not divide the width, as in Llama
        "windows": lambda config: ((max(config.windows),) * config.n_layers,),
        "local_rope_theta": lambda config: (0.0, config.rope_theta),
        "bias": (False,),
    },
    keys=_LLAMA_KEYS,
    to_hf=_mistral_to_hf,
    from_hf=mistral_fields,
)
"""`MistralForCausalLM`: the blocks of Llama under the same names, and one window for all layers.

Its `sliding_window` of W counts the position itself, which sees W - 1 positions to its left; that is our window.

Source: Jiang et al. 2023 (arXiv 2310.06825), section 2; transformers/masking_utils.py, `sliding_window_overlay`.
"""


def _one_window(config: ModelConfig) -> tuple[object, ...]:
    """Return the windows of the config, if all layers that have one had the widest."""
    return (tuple(max(config.windows) if window else 0 for window in config.windows),)


def _modernbert_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Write the fields of the class of ModernBERT."""
    is_local = any(config.windows)
    local_theta = config.local_rope_theta if is_local and config.local_rope_theta else config.rope_theta
    # 0 where every so-many-th layer does not describe them: a transformers that does not know `layer_types` then divides
    # by zero, which is better than other layers than ours
    kinds = [_LOCAL if window else _GLOBAL for window in config.windows]
    every = next((every for every in range(1, len(kinds) + 1) if _pattern(len(kinds), every) == kinds), 0)
    keys = {
        "layer_types": kinds,
        "global_attn_every_n_layers": every,
        "rope_parameters": {
            _GLOBAL: {"rope_type": "default", "rope_theta": config.rope_theta},
            _LOCAL: {"rope_type": "default", "rope_theta": local_theta},
        },
        "global_rope_theta": config.rope_theta,
        "local_rope_theta": local_theta,
    }
    return keys | ({"local_attention": 2 * max(config.windows)} if is_local else {})


def _pattern(n_layers: int, every: int) -> list[str]:
    """Return the kinds of the layers when each `every`-th sees everything, the first included."""
    return [_LOCAL if i % every else _GLOBAL for i in range(n_layers)]


def _modernbert_from_hf(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of the class of ModernBERT."""
    ropes = values.get("rope_parameters") or {}
    if not isinstance(ropes, Mapping):
        raise refusal("rope_parameters", ropes, "an object")
    windows = _windows(values, fields["n_layers"])
    global_theta = rope_theta(ropes.get(_GLOBAL), read_value(values, "global_rope_theta", float, 160_000.0))
    # null means that of the global layers, and is not the same as no key
    usual = global_theta if "local_rope_theta" in values else 10_000.0
    local_theta = rope_theta(ropes.get(_LOCAL), read_value(values, "local_rope_theta", float, usual))
    return {
        "windows": windows,
        "rope_theta": global_theta,
        "local_rope_theta": 0.0 if local_theta == global_theta or not any(windows) else local_theta,
    }


def _windows(values: Mapping[str, Any], n_layers: int) -> tuple[int, ...]:
    """Return our windows of the class of ModernBERT, one per layer: `local_attention` is both sides together."""
    kinds = values.get("layer_types")
    if kinds is None:
        kinds = _pattern(n_layers, read_value(values, "global_attn_every_n_layers", int, 3))
    if not isinstance(kinds, list) or len(kinds) != n_layers or any(kind not in (_LOCAL, _GLOBAL) for kind in kinds):
        raise refusal("layer_types", kinds, f"a list of {n_layers} layer types, each {_GLOBAL} or {_LOCAL}")
    if _LOCAL not in kinds:
        return (0,) * n_layers
    both_sides = read_value(values, "local_attention", int, 128)
    if both_sides < 2:
        raise refusal("local_attention", both_sides, "at least 2 (one position on each side)")
    return tuple(both_sides // 2 if kind == _LOCAL else 0 for kind in kinds)


MODERNBERT = Family(
    model_type="modernbert",
    class_name="ModernBertForMaskedLM",
    architecture="encoder",
    parts={
        "positions": ("rope",),
        **_ONE_STACK,
        "windows": _one_window,
        "n_kv_heads": BERT.parts["n_kv_heads"],
        "head_dim": BERT.parts["head_dim"],
        "norm": ("layer",),
        "norm_place": ("pre",),
        "feedforward": ("geglu", "swiglu"),
        "segments": (0,),
        "embedding_norm": (True,),
        "head": (True,),
    },
    keys={
        **_SIZES,
        "norm_eps": ("norm_eps", 1e-5),
        "norm_bias": ("norm_bias", False),
        "bias": ("attention_bias mlp_bias classifier_bias", False),
        "output_bias": ("decoder_bias", True),
        "tied": ("tie_word_embeddings", True),
    },
    activation=("hidden_activation", "gelu", {"gelu": "geglu", "silu": "swiglu"}),
    refused={"classifier_activation": ("gelu",), "rope_scaling": (None,)},
    constants={
        "classifier_activation": "gelu",
        "classifier_pooling": "mean",
        **dict.fromkeys(("attention_dropout", "embedding_dropout", "mlp_dropout", "classifier_dropout"), 0.0),
    },
    to_hf=_modernbert_to_hf,
    from_hf=_modernbert_from_hf,
    weights={
        "embedding": "model.embeddings.tok_embeddings.weight",
        "embedding_norm.*": "model.embeddings.norm.*",
        "blocks.#.attention_norm.*": "model.layers.#.attn_norm.*",
        "blocks.#.attention.qkv.*": "model.layers.#.attn.Wqkv.*",
        "blocks.#.attention.out.*": "model.layers.#.attn.Wo.*",
        "blocks.#.feedforward_norm.*": "model.layers.#.mlp_norm.*",
        "blocks.#.feedforward.up.*": "model.layers.#.mlp.Wi.*",
        "blocks.#.feedforward.down.*": "model.layers.#.mlp.Wo.*",
        "final_norm.*": "model.final_norm.*",
        "head.dense.*": "head.dense.*",
        "head.norm.*": "head.norm.*",
        "output_bias": "decoder.bias",
        "output": "decoder.weight",
    },
    prefix="model.",
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
)
"""`ModernBertForMaskedLM`: an encoder with LayerNorm before, GeGLU, rotary positions, local layers between global ones.

Source: Warner et al. 2024 (arXiv 2412.13663), section 2.1; transformers/models/modernbert/modeling_modernbert.py.
"""
