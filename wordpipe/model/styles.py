"""The parts that go together in the models of the field. Imports nothing heavy.

          encoder, modern     encoder, classic    decoder, modern     decoder, classic
as in     ModernBERT          BERT                Llama               GPT-2
positions rotary              learned             rotary              learned
norm      LayerNorm, before   LayerNorm, after    RMSNorm, before     LayerNorm, before
inside    GeGLU               GELU                SwiGLU              GELU (by tanh)
offsets   of the logits       everywhere          none                everywhere but the logits
"""

from typing import Any, Literal

from wordpipe.model.config import Architecture

Style = Literal["modern", "classic"]

STYLES: dict[tuple[Architecture, Style], dict[str, Any]] = {
    ("encoder", "modern"): {
        "positions": "rope", "norm": "layer", "norm_place": "pre", "norm_bias": False, "norm_eps": 1e-5,
        "feedforward": "geglu", "bias": False, "segments": 0, "embedding_norm": True, "head": True, "output_bias": True,
    },
    ("encoder", "classic"): {
        "positions": "learned", "norm": "layer", "norm_place": "post", "norm_bias": True, "norm_eps": 1e-12,
        "feedforward": "gelu", "bias": True, "segments": 2, "embedding_norm": True, "head": True, "output_bias": True,
    },
    ("decoder", "modern"): {
        "positions": "rope", "norm": "rms", "norm_place": "pre", "norm_bias": False, "norm_eps": 1e-5,
        "feedforward": "swiglu", "bias": False, "segments": 0, "embedding_norm": False, "head": False, "output_bias": False,
    },
    ("decoder", "classic"): {
        "positions": "learned", "norm": "layer", "norm_place": "pre", "norm_bias": True, "norm_eps": 1e-5,
        "feedforward": "gelu_tanh", "bias": True, "segments": 0, "embedding_norm": False, "head": False, "output_bias": False,
    },
}  # fmt: skip
"""Architecture and style → those fields of `ModelConfig` that the style decides."""
