"""`BertForMaskedLM`: an encoder with LayerNorm after each half, GELU, learned positions, segments, offsets everywhere.

Sinusoidal positions are written as a learned table: added alike, they compute the same. A note in `config.json` keeps
what they were (`families.NOTE`). Folders of `BertModel` and `BertForPreTraining` are read too; what they have more, the pooler
and the guess whether one sentence follows another, is left behind.

Source: Devlin et al. 2019 (arXiv 1810.04805); transformers/models/bert/modeling_bert.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import (
    Entry,
    Family,
    choice,
    flag,
    integer,
    number,
    refuse_others,
    sizes_from_hf,
    sizes_to_hf,
    stacked,
    whole,
)

__all__ = ["BERT"]

_ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_NAMES = {"gelu": "gelu", "relu": "relu", "gelu_tanh": "gelu_new"}
_FIXED = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "chunk_size_feed_forward": (0,),
}


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return {
        "positions": ("learned", "sinusoidal"),
        "attention": ("dot",),
        "windows": ((0,) * config.n_layers,),
        "global_tokens": (0,),
        "n_kv_heads": (config.n_heads,),
        "head_dim": (config.dim // config.n_heads,),
        "norm": ("layer",),
        "norm_place": ("post",),
        "norm_bias": (True,),
        "feedforward": tuple(_NAMES),
        "bias": (True,),
        "segments": (config.segments or 2,),
        "embedding_norm": (True,),
        "head": (True,),
        "output_bias": (True,),
    }


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    return {
        **sizes_to_hf(config),
        "type_vocab_size": config.segments,
        "position_embedding_type": "absolute",
        "hidden_act": _NAMES[config.feedforward],
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    refuse_others(values, _FIXED)
    return {
        "architecture": "encoder",
        **sizes_from_hf(values),
        "positions": "learned",
        "segments": integer(values, "type_vocab_size", 2),
        "norm": "layer",
        "norm_place": "post",
        "norm_bias": True,
        "norm_eps": number(values, "layer_norm_eps", 1e-12),
        "feedforward": choice(values, "hidden_act", _ACTIVATIONS, "gelu"),
        "bias": True,
        "embedding_norm": True,
        "head": True,
        "output_bias": True,
        "tied": flag(values, "tie_word_embeddings", default=True),
    }


def _entries(config: ModelConfig) -> Iterator[Entry]:
    table = "bert.embeddings"
    yield Entry("embedding", (f"{table}.word_embeddings.weight",))
    yield Entry("position_embedding", (f"{table}.position_embeddings.weight",))
    yield Entry("segment_embedding", (f"{table}.token_type_embeddings.weight",))
    yield from whole("embedding_norm", f"{table}.LayerNorm", bias=True)
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"bert.encoder.layer.{i}"
        qkv = tuple(f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
        yield from stacked(f"{ours}.attention.qkv", qkv, (config.dim,) * 3, bias=True)
        yield from whole(f"{ours}.attention.out", f"{theirs}.attention.output.dense", bias=True)
        yield from whole(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", bias=True)
        yield from whole(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense", bias=True)
        yield from whole(f"{ours}.feedforward.down", f"{theirs}.output.dense", bias=True)
        yield from whole(f"{ours}.feedforward_norm", f"{theirs}.output.LayerNorm", bias=True)
    yield from whole("head.dense", "cls.predictions.transform.dense", bias=True)
    yield from whole("head.norm", "cls.predictions.transform.LayerNorm", bias=True)
    if config.tied:
        yield Entry("output_bias", ("cls.predictions.bias",))
        return
    yield Entry("output", ("cls.predictions.decoder.weight",))
    # untied, transformers adds the one of the matrix, and keeps the other unused
    yield Entry("output_bias", ("cls.predictions.decoder.bias",))
    yield Entry("output_bias", ("cls.predictions.bias",), repeats=True)


BERT = Family(
    model_type="bert",
    native="BertForMaskedLM",
    architecture="encoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=_entries,
    prefix="bert.",
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    unused=(r"(bert\.)?pooler\..+", r"cls\.seq_relationship\..+"),
    # folders converted from TensorFlow, Google's own among them
    renamed={r"LayerNorm\.gamma$": "LayerNorm.weight", r"LayerNorm\.beta$": "LayerNorm.bias"},
)
