"""The encoder-decoders of `transformers`: T5, BART and Marian, as tables.

T5's embeddings are sqrt(dim) times ours, which are multiplied by it (`scale_embedding`), and its queries 1 / sqrt(head_dim)
times ours, as it does not scale the scores: the same functions of other numbers, and ours are of the size that every
optimiser expects. (T5 was trained by Adafactor, whose steps are relative to the size of a weight.)
"""

import math
from collections.abc import Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.hf.mapping import Family, read_value, refusal, token_id

_BUCKETS, _FARTHEST = 32, 128


def _start_id(values: Mapping[str, Any], otherwise: str) -> int:
    """Return the token that the decoder of an encoder-decoder begins with; in old folders that of another role."""
    value = values.get("decoder_start_token_id")
    if value is None:
        value = values.get(otherwise)
    if type(value) is not int:
        raise refusal("decoder_start_token_id", value, "a token id")
    return value


_PLAIN: dict[str, Any] = {  # parts that all of them have
    "attention": ("dot",),
    "windows": lambda config: ((0,) * config.n_layers,),
    "global_tokens": (0,),
    "n_kv_heads": lambda config: (config.n_heads,),
    "segments": (0,),
    "head": (False,),
}


def _t5_weights(config: ModelConfig) -> dict[str, str]:
    """Return the names of the feed-forward, whose matrices have other names where it is gated."""
    up = "{}.layer.{}.DenseReluDense.wi.*"
    if config.gated:
        up = "{0}.layer.{1}.DenseReluDense.wi_0.* {0}.layer.{1}.DenseReluDense.wi_1.*"
    return {
        "encoder.blocks.#.feedforward.up.*": up.format("encoder.block.#", 1),
        "decoder.blocks.#.feedforward.up.*": up.format("decoder.block.#", 2),
    }


def _t5_factors(config: ModelConfig) -> dict[str, tuple[float, ...]]:
    widen, narrow = math.sqrt(config.dim), 1.0 / math.sqrt(config.head_dim)
    return {
        "encoder.embedding": (widen,),
        **{f"{stack}.blocks.#.attention.qkv.*": (narrow, 1.0, 1.0) for stack in ("encoder", "decoder")},
        "decoder.blocks.#.cross.query.*": (narrow,),
    }


def _of_stack(ours: str, theirs: str, *, feedforward: int) -> dict[str, str]:
    """Return T5's names of one stack; `feedforward`: the number of that layer in a block."""
    return {
        f"{ours}.position_bias": f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        f"{ours}.blocks.#.attention_norm.*": f"{theirs}.block.#.layer.0.layer_norm.*",
        f"{ours}.blocks.#.attention.qkv.*": " ".join(f"{theirs}.block.#.layer.0.SelfAttention.{x}.*" for x in "qkv"),
        f"{ours}.blocks.#.attention.out.*": f"{theirs}.block.#.layer.0.SelfAttention.o.*",
        f"{ours}.blocks.#.feedforward_norm.*": f"{theirs}.block.#.layer.{feedforward}.layer_norm.*",
        f"{ours}.blocks.#.feedforward.down.*": f"{theirs}.block.#.layer.{feedforward}.DenseReluDense.wo.*",
        f"{ours}.final_norm.*": f"{theirs}.final_layer_norm.*",
    }


T5 = Family(
    model_type="t5",
    class_name="T5ForConditionalGeneration",
    architecture="encoder-decoder",
    parts={
        **_PLAIN,
        "positions": ("t5",),
        "norm": ("rms",),
        "norm_place": ("pre",),
        "norm_bias": (False,),
        "feedforward": ("geglu_tanh", "relu", "swiglu"),
        "bias": (False,),
        "embedding_norm": (False,),
        "output_bias": (False,),
        "scale_embedding": (True,),
        "tied": (True,),
        "decoder_vocab_size": (0,),
    },
    keys={
        "dim": ("d_model", None),
        "head_dim": ("d_kv", 64),
        "ffn_dim": ("d_ff", None),
        "n_layers": ("num_layers", None),
        "n_heads": ("num_heads", None),
        "max_len": ("n_positions", 512),
        "norm_eps": ("layer_norm_epsilon", 1e-6),
        "tied": ("tie_word_embeddings", True),
    },
    activation=(
        "feed_forward_proj", "relu", {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu"},
    ),
    refused={
        "relative_attention_num_buckets": (_BUCKETS,),
        "relative_attention_max_distance": (_FARTHEST,),
        "is_encoder_decoder": (True,),
    },
    constants={
        "relative_attention_num_buckets": _BUCKETS,
        "relative_attention_max_distance": _FARTHEST,
        "is_encoder_decoder": True,
        "dropout_rate": 0.0,
        "use_cache": True,
    },
    to_hf=lambda config: {
        "num_decoder_layers": config.n_decoder_layers, "decoder_start_token_id": config.start_id,
    },
    from_hf=lambda values, fields: {
        "n_decoder_layers": read_value(values, "num_decoder_layers", int, fields["n_layers"]),
        "start_id": _start_id(values, "pad_token_id"),
    },
    weights={
        "encoder.embedding": "shared.weight",
        **_of_stack("encoder", "encoder", feedforward=1),
        **_of_stack("decoder", "decoder", feedforward=2),
        "decoder.blocks.#.cross_norm.*": "decoder.block.#.layer.1.layer_norm.*",
        "decoder.blocks.#.cross.query.*": "decoder.block.#.layer.1.EncDecAttention.q.*",
        "decoder.blocks.#.cross.keys_values.*":
            "decoder.block.#.layer.1.EncDecAttention.k.* decoder.block.#.layer.1.EncDecAttention.v.*",
        "decoder.blocks.#.cross.out.*": "decoder.block.#.layer.1.EncDecAttention.o.*",
        "decoder.output": "lm_head.weight",
    },
    more_weights=_t5_weights,
    factors=_t5_factors,
    copies=dict.fromkeys(
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"
    ),
    # one release had a bias in the cross-attention of block 0 that nothing read
    buffers=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)  # fmt: skip
"""`T5ForConditionalGeneration`: RMSNorm before, positions as a bias, no offsets; ReLU as T5 1.0 or gated GELU as T5 1.1.

Source: Raffel et al. 2020 (arXiv 1910.10683); transformers/models/t5/modeling_t5.py.
"""


def _bart_to_hf(config: ModelConfig) -> dict[str, Any]:
    return {
        "encoder_layers": config.n_layers,
        "decoder_layers": config.n_decoder_layers,
        "decoder_start_token_id": config.start_id,
        "forced_eos_token_id": config.eos_id,  # else that of their own vocabulary
        "num_hidden_layers": config.n_layers,
        **({} if config.first_id is None else {"forced_bos_token_id": config.first_id}),
    }


def _bart_fields(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "n_decoder_layers": read_value(values, "decoder_layers", int),
        "start_id": _start_id(values, "eos_token_id"),
        "first_id": token_id(values, "forced_bos_token_id"),
    }


def _bart_stack(stack: str) -> dict[str, str]:
    ours, theirs = f"{stack}.blocks.#", f"model.{stack}.layers.#"
    return {
        f"{ours}.attention.qkv.*": " ".join(f"{theirs}.self_attn.{x}_proj.*" for x in "qkv"),
        f"{ours}.attention.out.*": f"{theirs}.self_attn.out_proj.*",
        f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
        f"{ours}.feedforward.up.*": f"{theirs}.fc1.*",
        f"{ours}.feedforward.down.*": f"{theirs}.fc2.*",
        f"{ours}.feedforward_norm.*": f"{theirs}.final_layer_norm.*",
    }


_BLOCKS = {
    **_bart_stack("encoder"),
    **_bart_stack("decoder"),
    "decoder.blocks.#.cross_norm.*": "model.decoder.layers.#.encoder_attn_layer_norm.*",
    "decoder.blocks.#.cross.query.*": "model.decoder.layers.#.encoder_attn.q_proj.*",
    "decoder.blocks.#.cross.keys_values.*":
        "model.decoder.layers.#.encoder_attn.k_proj.* model.decoder.layers.#.encoder_attn.v_proj.*",
    "decoder.blocks.#.cross.out.*": "model.decoder.layers.#.encoder_attn.out_proj.*",
    "decoder.output": "lm_head.weight",
    "decoder.output_bias": "final_logits_bias",
}  # fmt: skip

BART = Family(
    model_type="bart",
    class_name="BartForConditionalGeneration",
    architecture="encoder-decoder",
    parts={
        **_PLAIN,
        "positions": ("learned",),
        "head_dim": lambda config: (config.dim // config.n_heads,),
        "norm": ("layer",),
        "norm_place": ("post",),
        "norm_bias": (True,),
        "norm_eps": (1e-5,),
        "feedforward": ("gelu", "relu", "gelu_tanh", "silu"),
        "bias": (True,),
        "embedding_norm": (True,),
        "output_bias": (True,),
        "decoder_vocab_size": (0,),
        "tied": (True,),
    },
    keys={
        "dim": ("d_model", None),
        "ffn_dim": ("encoder_ffn_dim decoder_ffn_dim", None),
        "n_layers": ("encoder_layers", None),
        "n_heads": ("encoder_attention_heads decoder_attention_heads", None),
        "max_len": ("max_position_embeddings", None),
        "scale_embedding": ("scale_embedding", False),
        "tied": ("tie_word_embeddings", True),
    },
    activation=(
        "activation_function", "gelu",
        {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "silu": "silu", "swish": "silu"},
    ),
    refused={"is_encoder_decoder": (True,), "normalize_before": (False,), "add_final_layer_norm": (False,)},
    constants={
        "is_encoder_decoder": True,
        "use_cache": True,
        **dict.fromkeys(
            ("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop"), 0.0
        ),
    },
    to_hf=_bart_to_hf,
    from_hf=_bart_fields,
    weights={
        "encoder.embedding": "model.shared.weight",
        **{f"{x}.position_embedding": f"model.{x}.embed_positions.weight" for x in ("encoder", "decoder")},
        **{f"{x}.embedding_norm.*": f"model.{x}.layernorm_embedding.*" for x in ("encoder", "decoder")},
        **_BLOCKS,
    },
    empty_rows={f"{x}.position_embedding": 2 for x in ("encoder", "decoder")},
    shapes=lambda config: {"decoder.output_bias": (1, config.decoder_vocab_size or config.vocab_size)},
    prefix="model.",
    copies=dict.fromkeys(
        ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
        "model.shared.weight",
    ),
)  # fmt: skip
"""`BartForConditionalGeneration`: LayerNorm after each half, GELU, learned positions, offsets everywhere.

Its tables of positions have two rows in front that no position uses.

Source: Lewis et al. 2020 (arXiv 1910.13461); transformers/models/bart/modeling_bart.py.
"""


def _marian_weights(config: ModelConfig) -> dict[str, str]:
    if not config.decoder_vocab_size:
        return {"encoder.embedding": "model.shared.weight"}
    return {
        "encoder.embedding": "model.encoder.embed_tokens.weight",
        "decoder.embedding": "model.decoder.embed_tokens.weight",
    }


def _marian_to_hf(config: ModelConfig) -> dict[str, Any]:
    return _bart_to_hf(config) | {
        "share_encoder_decoder_embeddings": not config.decoder_vocab_size,
        "decoder_vocab_size": config.decoder_vocab_size or config.vocab_size,
    }


def _marian_fields(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    own = read_value(values, "share_encoder_decoder_embeddings", bool, True)
    vocab_size = read_value(values, "vocab_size", int)
    decoder_vocab_size = read_value(values, "decoder_vocab_size", int, vocab_size)
    if own and decoder_vocab_size != vocab_size:
        raise refusal(
            "decoder_vocab_size",
            decoder_vocab_size,
            f"{vocab_size}, because the encoder and the decoder share embeddings",
        )
    return _bart_fields(values, fields) | {
        "decoder_vocab_size": 0 if own else decoder_vocab_size,
        "start_id": _start_id(values, "pad_token_id"),
    }


MARIAN = Family(
    model_type="marian",
    class_name="MarianMTModel",
    architecture="encoder-decoder",
    parts={
        **BART.parts,
        "positions": ("sinusoidal",),
        "embedding_norm": (False,),
        "scale_embedding": (True,),
        "feedforward": ("relu", "gelu", "gelu_tanh", "silu"),
        "decoder_vocab_size": lambda config: (config.decoder_vocab_size,),
    },
    keys={name: keys for name, keys in BART.keys.items() if name != "scale_embedding"},
    activation=BART.activation,
    refused={
        **BART.refused, "scale_embedding": (True,), "normalize_embedding": (False,), "static_position_embeddings": (True,),
    },
    constants={**BART.constants, "scale_embedding": True},
    to_hf=_marian_to_hf,
    from_hf=_marian_fields,
    weights=_BLOCKS,
    more_weights=_marian_weights,
    shapes=BART.shapes,
    prefix="model.",
    copies=BART.copies,
    buffers=(r"(model\.)?(en|de)coder\.embed_positions\.weight",),
)  # fmt: skip
"""`MarianMTModel`, which is Vaswani's: LayerNorm after each half, ReLU, sines and cosines, embeddings times sqrt(dim).

Source: Vaswani et al. 2017; Junczys-Dowmunt et al. 2018; transformers/models/marian/modeling_marian.py.
"""
