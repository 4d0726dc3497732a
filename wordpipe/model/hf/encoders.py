"""The classes of `transformers` for BERT's relatives, as tables; see `classes`.

DistilBERT   no segments
ALBERT       one block for all layers; tables of embeddings that may be narrower than the model
ELECTRA      likewise narrower tables; of each token it is said whether it was replaced, and no token is guessed
FNet         Fourier transforms in the place of attention; a matrix behind tables of the model's width

Source: Sanh et al. 2019 (arXiv 1910.01108); Lan et al. 2020 (arXiv 1909.11942); Clark et al. 2020 (arXiv 2003.10555);
Lee-Thorp et al. 2022 (arXiv 2105.03824); the files of these names in transformers/models.
"""

from collections.abc import Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.hf.classes import BERT
from wordpipe.model.hf.family import Family

_UNSHARED = {"embedding_dim": (0,), "shared_layers": (False,)}
_NO_DROPOUT = dict.fromkeys(("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"), 0.0)

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


def _electra_to_hf(config: ModelConfig) -> dict[str, Any]:
    return {"embedding_size": config.table_dim}


def _electra_from_hf(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"embedding_dim": 0} if fields["embedding_dim"] == fields["dim"] else {}


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
    to_hf=_electra_to_hf,
    from_hf=_electra_from_hf,
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


def _fnet_from_hf(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"mixers": ("fourier",) * fields["n_layers"], "embedding_dim": fields["dim"]}


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
    from_hf=_fnet_from_hf,
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
