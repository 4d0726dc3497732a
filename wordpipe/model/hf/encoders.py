"""The classes of `transformers` for BERT's relatives, as tables; see `classes`.

RoBERTa      two rows before the table of positions, one segment (XLM-R and CamemBERT are the same class of other texts)
MPNet        likewise; no segments, and a bias by distance beside the table of positions
DistilBERT   no segments
ALBERT       one block for all layers; tables of embeddings that may be narrower than the model
ELECTRA      likewise narrower tables; of each token it is said whether it was replaced, and no token is guessed
FNet         Fourier transforms in the place of attention; a matrix behind tables of the model's width
XLNet        relative attention without offsets, whose matrices have an axis of heads; the embedding of the query stream

Source: Liu et al. 2019 (arXiv 1907.11692); Song et al. 2020 (arXiv 2004.09297); Sanh et al. 2019 (arXiv 1910.01108);
Lan et al. 2020 (arXiv 1909.11942); Clark et al. 2020 (arXiv 2003.10555); Lee-Thorp et al. 2022 (arXiv 2105.03824); Yang et
al. 2019 (arXiv 1906.08237); the files of these names in transformers/models.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.hf.classes import BERT
from wordpipe.model.hf.mapping import Family, refusal

_UNSHARED = {"embedding_dim": (0,), "shared_layers": (False,)}
_NO_DROPOUT = dict.fromkeys(("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"), 0.0)

_FIRST = 2  # the row of the table of positions for the first token: that after the one of padding, whose id is 1


def _shorter(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the positions that texts have in a class of RoBERTa's kind: the first rows of the table are for none."""
    if values.get("pad_token_id", _FIRST - 1) != _FIRST - 1:
        raise refusal("pad_token_id", values["pad_token_id"], _FIRST - 1)
    if fields["max_len"] <= _FIRST:
        raise refusal("max_position_embeddings", fields["max_len"], f"at least {_FIRST + 1}")
    return {"max_len": fields["max_len"] - _FIRST}


def _of_roberta(ours: str, theirs: str) -> str:
    """Return RoBERTa's name of a weight from BERT's."""
    heads = {
        "head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.layer_norm.*", "output": "lm_head.decoder.weight",
        "output_bias": "lm_head.bias",
    }  # fmt: skip
    return heads.get(ours) or theirs.replace("bert.", "roberta.")


ROBERTA = replace(
    BERT,
    model_type="roberta",
    class_name="RobertaForMaskedLM",
    with_pairs="",
    parts={**BERT.parts, "positions": ("learned",), "feedforward": ("gelu",)},
    activation=("hidden_act", "gelu", {"gelu": "gelu"}),
    to_hf=lambda config: {"max_position_embeddings": config.max_len + _FIRST},
    from_hf=_shorter,
    weights={ours: _of_roberta(ours, theirs) for ours, theirs in BERT.weights.items() if not ours.startswith("pair_")},
    untied_bias="lm_head.decoder.bias",
    empty_rows={"position_embedding": _FIRST},
    prefix="roberta.",
    copies={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    unused=(r"(roberta\.)?pooler\..+",),
    renamed={},
)
"""`RobertaForMaskedLM`: BERT whose table of positions has rows before the first; ours is written as a BERT of one segment."""

XLM_ROBERTA = replace(ROBERTA, model_type="xlm-roberta", class_name="XLMRobertaForMaskedLM")
CAMEMBERT = replace(ROBERTA, model_type="camembert", class_name="CamembertForMaskedLM")

_MPNET_LAYER = "mpnet.encoder.layer.#"

MPNET = replace(
    ROBERTA,
    model_type="mpnet",
    class_name="MPNetForMaskedLM",
    parts={**ROBERTA.parts, "positions": ("learned-t5",), "segments": (0,)},
    keys={name: keys for name, keys in BERT.keys.items() if name != "segments"},
    refused={"relative_attention_num_buckets": (32,)},
    constants={"relative_attention_num_buckets": 32, **BERT.constants},
    weights={
        "embedding": "mpnet.embeddings.word_embeddings.weight",
        "position_embedding": "mpnet.embeddings.position_embeddings.weight",
        "position_bias": "mpnet.encoder.relative_attention_bias.weight",
        "embedding_norm.*": "mpnet.embeddings.LayerNorm.*",
        "blocks.#.attention.qkv.*": " ".join(f"{_MPNET_LAYER}.attention.attn.{one}.*" for one in "qkv"),
        "blocks.#.attention.out.*": f"{_MPNET_LAYER}.attention.attn.o.*",
        "blocks.#.attention_norm.*": f"{_MPNET_LAYER}.attention.LayerNorm.*",
        "blocks.#.feedforward.up.*": f"{_MPNET_LAYER}.intermediate.dense.*",
        "blocks.#.feedforward.down.*": f"{_MPNET_LAYER}.output.dense.*",
        "blocks.#.feedforward_norm.*": f"{_MPNET_LAYER}.output.LayerNorm.*",
        **{ours: theirs for ours, theirs in ROBERTA.weights.items() if ours.startswith(("head.", "output"))},
    },
    prefix="mpnet.",
    copies={
        "lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    unused=(r"(mpnet\.)?pooler\..+",),
)
"""`MPNetForMaskedLM`: RoBERTa without segments, with T5's bias by distance beside its table of positions."""

DISTILBERT = Family(
    model_type="distilbert",
    class_name="DistilBertForMaskedLM",
    architecture="encoder",
    parts={**BERT.parts, **_UNSHARED, "segments": (0,), "norm_eps": (1e-12,), "feedforward": ("gelu", "relu")},
    keys={
        "dim": ("dim", None),
        "ffn_dim": ("hidden_dim", None),
        "n_layers": ("n_layers", None),
        "n_heads": ("n_heads", None),
        "max_len": ("max_position_embeddings", None),
        "tied": ("tie_word_embeddings", True),
    },
    activation=("activation", "gelu", {"gelu": "gelu", "relu": "relu"}),
    constants={"sinusoidal_pos_embds": False, **_NO_DROPOUT},
    weights={
        "embedding": "distilbert.embeddings.word_embeddings.weight",
        "position_embedding": "distilbert.embeddings.position_embeddings.weight",
        "embedding_norm.*": "distilbert.embeddings.LayerNorm.*",
        "blocks.#.attention.qkv.*": " ".join(f"distilbert.transformer.layer.#.attention.{one}_lin.*" for one in "qkv"),
        "blocks.#.attention.out.*": "distilbert.transformer.layer.#.attention.out_lin.*",
        "blocks.#.attention_norm.*": "distilbert.transformer.layer.#.sa_layer_norm.*",
        "blocks.#.feedforward.up.*": "distilbert.transformer.layer.#.ffn.lin1.*",
        "blocks.#.feedforward.down.*": "distilbert.transformer.layer.#.ffn.lin2.*",
        "blocks.#.feedforward_norm.*": "distilbert.transformer.layer.#.output_layer_norm.*",
        "head.dense.*": "vocab_transform.*",
        "head.norm.*": "vocab_layer_norm.*",
        "output": "vocab_projector.weight",
        "output_bias": "vocab_projector.bias",
    },
    prefix="distilbert.",
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)
"""`DistilBertForMaskedLM`: BERT without segments, its dimensions by other names, and an epsilon that no key changes."""


_NARROW = {**BERT.keys, "embedding_dim": ("embedding_size", 128)}


_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"

ALBERT = Family(
    model_type="albert",
    class_name="AlbertForMaskedLM",
    with_pairs="AlbertForPreTraining",
    architecture="encoder",
    parts={
        **BERT.parts,
        "feedforward": ("gelu_tanh", "gelu", "relu"),
        "shared_layers": (True,),
        "embedding_dim": lambda config: (config.embedding_dim or config.dim,),
    },
    keys=_NARROW,
    activation=("hidden_act", "gelu_new", BERT.activation[2]),
    refused={"num_hidden_groups": (1,), "inner_group_num": (1,), **BERT.refused},
    constants={
        **BERT.constants,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "classifier_dropout_prob": 0.0,
    },
    weights={
        "embedding": "albert.embeddings.word_embeddings.weight",
        "position_embedding": "albert.embeddings.position_embeddings.weight",
        "segment_embedding": "albert.embeddings.token_type_embeddings.weight",
        "embedding_norm.*": "albert.embeddings.LayerNorm.*",
        "embedding_projection.*": "albert.encoder.embedding_hidden_mapping_in.*",
        "blocks.#.attention.qkv.*": " ".join(f"{_LAYER}.attention.{one}.*" for one in ("query", "key", "value")),
        "blocks.#.attention.out.*": f"{_LAYER}.attention.dense.*",
        "blocks.#.attention_norm.*": f"{_LAYER}.attention.LayerNorm.*",
        "blocks.#.feedforward.up.*": f"{_LAYER}.ffn.*",
        "blocks.#.feedforward.down.*": f"{_LAYER}.ffn_output.*",
        "blocks.#.feedforward_norm.*": f"{_LAYER}.full_layer_layer_norm.*",
        "head.dense.*": "predictions.dense.*",
        "head.norm.*": "predictions.LayerNorm.*",
        "output": "predictions.decoder.weight",
        "output_bias": "predictions.bias",
        "pair_pooler.*": "albert.pooler.*",
        "pair_classifier.*": "sop_classifier.classifier.*",
    },
    untied_bias="predictions.decoder.bias",
    prefix="albert.",
    copies={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    unused=(r"(albert\.)?pooler\..+", r"sop_classifier\..+"),
)
"""`AlbertForMaskedLM`: BERT whose layers are one, and whose tables of embeddings are narrower."""


ELECTRA = Family(
    model_type="electra",
    class_name="ElectraForPreTraining",
    architecture="encoder",
    parts={
        **BERT.parts,
        "embedding_dim": lambda config: (0 if config.embedding_dim == config.dim else config.embedding_dim,),
        "head": (False,),
        "output_bias": (False,),
        "replaced_head": (True,),
    },
    keys=_NARROW,
    activation=BERT.activation,
    refused=BERT.refused,
    constants=BERT.constants,
    to_hf=lambda config: {"embedding_size": config.table_dim},
    from_hf=lambda _, fields: {"embedding_dim": 0} if fields["embedding_dim"] == fields["dim"] else {},
    weights={
        **{
            ours: theirs.replace("bert.", "electra.")
            for ours, theirs in BERT.weights.items()
            if not ours.startswith(("head.", "output", "pair_"))
        },
        "embedding_projection.*": "electra.embeddings_project.*",
        "replaced_head.dense.*": "discriminator_predictions.dense.*",
        "replaced_head.score.*": "discriminator_predictions.dense_prediction.*",
    },
    prefix="electra.",
)
"""`ElectraForPreTraining`, the discriminator; of a folder of the generator (`ElectraForMaskedLM`) nothing is read."""


FNET = Family(
    model_type="fnet",
    class_name="FNetForMaskedLM",
    with_pairs="FNetForPreTraining",
    architecture="encoder",
    parts={
        **BERT.parts,
        "feedforward": ("gelu_tanh", "gelu", "relu"),
        "mixers": lambda config: (("fourier",) * config.n_layers,),
        "embedding_dim": lambda config: (config.dim,),
    },
    keys={**BERT.keys, "n_heads": ("num_attention_heads", 1)},  # they have none, and keep the key
    activation=("hidden_act", "gelu_new", BERT.activation[2]),
    refused={"use_tpu_fourier_optimizations": (False,), "chunk_size_feed_forward": (0,)},
    constants={"use_tpu_fourier_optimizations": False, "hidden_dropout_prob": 0.0},
    from_hf=lambda _, fields: {"mixers": ("fourier",) * fields["n_layers"], "embedding_dim": fields["dim"]},
    weights={
        **{
            ours: theirs.replace("bert.", "fnet.").replace("attention.output", "fourier.output")
            for ours, theirs in BERT.weights.items()
            if not ours.startswith("blocks.#.attention.")
        },
        "embedding_projection.*": "fnet.embeddings.projection.*",
    },
    untied_bias=BERT.untied_bias,
    prefix="fnet.",
    copies={copy: name.replace("bert.", "fnet.") for copy, name in BERT.copies.items()},
    unused=(r"(fnet\.)?pooler\..+", r"cls\.seq_relationship\..+"),
)
"""`FNetForMaskedLM`: BERT with a Fourier transform for its attention.

Its class has a pooler that no guess of a token needs: folders of ours lack it (transformers says so), of theirs it is left
behind. It does not look at the mask of padding; ours transforms each sequence by its own length.
"""


_XLNET_LAYER = "transformer.layer.#.rel_attn"
_XLNET_TURNED = ("blocks.#.attention.qkv.weight", "blocks.#.attention.relative.position.weight")


def _xlnet_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    by_head = (config.dim, config.n_heads, config.head_dim)
    return {
        **dict.fromkeys((*_XLNET_TURNED, "blocks.#.attention.out.weight"), by_head),
        "query_embedding": (1, 1, config.dim),
    }


_XLNET_FIXED = {"attn_type": "bi", "untie_r": True, "clamp_len": -1, "bi_data": False, "same_length": False}
XLNET_SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "tanh"}  # as a BERT is read
_XLNET_UNUSED = {"mem_len": None, "use_mems_eval": False, "dropout": 0.0, "summary_last_dropout": 0.0}

XLNET = Family(
    model_type="xlnet",
    class_name="XLNetLMHeadModel",
    architecture="encoder",
    parts={
        **BERT.parts,
        "positions": ("none",),
        "attention": ("relative",),
        "feedforward": ("gelu", "relu", "gelu_tanh", "silu"),
        "segments": (2,),
        "embedding_norm": (False,),
        "head": (False,),
        "two_streams": (True,),
    },
    keys={
        "dim": ("d_model", None),
        "ffn_dim": ("d_inner", None),
        "n_layers": ("n_layer", None),
        "n_heads": ("n_head", None),
        "max_len": ("n_positions", 512),  # it has no such bound, and passes over the key
        "norm_eps": ("layer_norm_eps", 1e-12),
        "tied": ("tie_word_embeddings", True),
    },
    activation=("ff_activation", "gelu", {**BERT.activation[2], "silu": "silu"}),
    refused={name: (value,) for name, value in _XLNET_FIXED.items()} | {"chunk_size_feed_forward": (0,)},
    constants={**_XLNET_FIXED, **XLNET_SUMMARY, **_XLNET_UNUSED},
    weights={
        "embedding": "transformer.word_embedding.weight",
        "query_embedding": "transformer.mask_emb",
        "blocks.#.attention.qkv.weight": " ".join(f"{_XLNET_LAYER}.{one}" for one in "qkv"),
        "blocks.#.attention.out.weight": f"{_XLNET_LAYER}.o",
        "blocks.#.attention.relative.position.weight": f"{_XLNET_LAYER}.r",
        "blocks.#.attention.relative.content_bias": f"{_XLNET_LAYER}.r_w_bias",
        "blocks.#.attention.relative.position_bias": f"{_XLNET_LAYER}.r_r_bias",
        "blocks.#.attention.relative.segment_bias": f"{_XLNET_LAYER}.r_s_bias",
        "blocks.#.attention.relative.segment_keys": f"{_XLNET_LAYER}.seg_embed",
        "blocks.#.attention_norm.*": f"{_XLNET_LAYER}.layer_norm.*",
        "blocks.#.feedforward.up.*": "transformer.layer.#.ff.layer_1.*",
        "blocks.#.feedforward.down.*": "transformer.layer.#.ff.layer_2.*",
        "blocks.#.feedforward_norm.*": "transformer.layer.#.ff.layer_norm.*",
        "output": "lm_loss.weight",
        "output_bias": "lm_loss.bias",
    },
    transposed=_XLNET_TURNED,
    shapes=_xlnet_shapes,
    prefix="transformer.",
    copies={"lm_loss.weight": "transformer.word_embedding.weight"},
    unused=(r"(sequence_summary\.summary|logits_proj)\..+",),
)
"""`XLNetLMHeadModel`: its content stream sees both sides, its query stream guesses. Its matrices are (in, heads, E).

Memory is of a training that passes through long texts; a model that reads texts from their beginning computes without it.
"""
