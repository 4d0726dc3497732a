"""What our weights are called in the folders of Hugging Face `transformers`, and how ours are made of theirs.

An encoder is a `ModernBertForMaskedLM`, a decoder a `LlamaForCausalLM`. Llama keeps queries, keys and values, and the two
halves of the feed-forward, in matrices of their own, which are ours stacked.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from wordpipe.model.config import ModelConfig

__all__ = ["Entry", "entries"]


@dataclass(frozen=True)
class Entry:
    """One of our weights.

    Attributes:
        ours: its name in `LanguageModel`.
        theirs: the names of the parts, which stacked along the first axis make it.
        rows: rows of each part.
    """

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...]


def entries(config: ModelConfig) -> Iterator[Entry]:
    """Every weight of a model of this shape."""
    return _modernbert(config) if config.architecture == "encoder" else _llama(config)


def _modernbert(config: ModelConfig) -> Iterator[Entry]:
    dim, vocab = config.dim, config.vocab_size
    yield _whole("embedding", "model.embeddings.tok_embeddings.weight", vocab)
    yield _whole("embedding_norm.weight", "model.embeddings.norm.weight", dim)
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"model.layers.{i}"
        if i > 0:
            yield _whole(f"{ours}.attention_norm.weight", f"{theirs}.attn_norm.weight", dim)
        yield _whole(f"{ours}.attention.qkv.weight", f"{theirs}.attn.Wqkv.weight", 3 * dim)
        yield _whole(f"{ours}.attention.out.weight", f"{theirs}.attn.Wo.weight", dim)
        yield _whole(f"{ours}.feedforward_norm.weight", f"{theirs}.mlp_norm.weight", dim)
        yield _whole(f"{ours}.feedforward.gate_up.weight", f"{theirs}.mlp.Wi.weight", 2 * config.ffn_dim)
        yield _whole(f"{ours}.feedforward.down.weight", f"{theirs}.mlp.Wo.weight", dim)
    yield _whole("final_norm.weight", "model.final_norm.weight", dim)
    yield _whole("head.dense.weight", "head.dense.weight", dim)
    yield _whole("head.norm.weight", "head.norm.weight", dim)
    yield _whole("output_bias", "decoder.bias", vocab)
    if not config.tied:
        yield _whole("output", "decoder.weight", vocab)


def _llama(config: ModelConfig) -> Iterator[Entry]:
    dim, ffn, kv = config.dim, config.ffn_dim, config.n_kv_heads * config.head_dim
    yield _whole("embedding", "model.embed_tokens.weight", config.vocab_size)
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"model.layers.{i}"
        qkv = tuple(f"{theirs}.self_attn.{part}_proj.weight" for part in "qkv")
        gate_up = tuple(f"{theirs}.mlp.{part}_proj.weight" for part in ("gate", "up"))
        yield _whole(f"{ours}.attention_norm.weight", f"{theirs}.input_layernorm.weight", dim)
        yield Entry(f"{ours}.attention.qkv.weight", qkv, (dim, kv, kv))
        yield _whole(f"{ours}.attention.out.weight", f"{theirs}.self_attn.o_proj.weight", dim)
        yield _whole(f"{ours}.feedforward_norm.weight", f"{theirs}.post_attention_layernorm.weight", dim)
        yield Entry(f"{ours}.feedforward.gate_up.weight", gate_up, (ffn, ffn))
        yield _whole(f"{ours}.feedforward.down.weight", f"{theirs}.mlp.down_proj.weight", dim)
    yield _whole("final_norm.weight", "model.norm.weight", dim)
    if not config.tied:
        yield _whole("output", "lm_head.weight", config.vocab_size)


def _whole(ours: str, theirs: str, rows: int) -> Entry:
    return Entry(ours, (theirs,), (rows,))
