"""`EuroBertForMaskedLM`: Llama's blocks where every position sees both sides; no dense layer before the output matrix.

Its `mlp_bias` also decides whether the logits have an offset.

Source: Boizard et al. 2025 (arXiv 2503.05500); transformers/models/eurobert/modeling_eurobert.py.
"""

from collections.abc import Mapping
from typing import Any

from wordpipe.model.config import ModelConfig
from wordpipe.model.formats.family import Family
from wordpipe.model.formats.llama import block_parts, llama_entries, llama_from_hf, llama_to_hf
from wordpipe.model.formats.values import same_flag

__all__ = ["EUROBERT"]


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return block_parts(config) | {"windows": ((0,) * config.n_layers,), "output_bias": (config.bias,)}


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    shared = llama_to_hf(config)
    del shared["use_cache"]
    return shared | {"attention_bias": config.bias, "mlp_bias": config.bias, "classifier_pooling": "mean"}


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    bias = same_flag(values, ("attention_bias", "mlp_bias"), default=False)
    return llama_from_hf(values) | {"architecture": "encoder", "bias": bias, "output_bias": bias}


EUROBERT = Family(
    model_type="eurobert",
    native="EuroBertForMaskedLM",
    architecture="encoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=llama_entries,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
