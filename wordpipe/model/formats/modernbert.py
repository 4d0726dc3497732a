"""`ModernBertForMaskedLM`: an encoder with LayerNorm before, GeGLU, rotary positions, local layers between global ones.

Names of keys changed between the fourth and fifth release of transformers (`global_attn_every_n_layers` → `layer_types`,
`global_rope_theta` → `rope_parameters`); both are written, as each release ignores the other's.

Source: Warner et al. 2024 (arXiv 2412.13663), section 2.1; transformers/models/modernbert/modeling_modernbert.py.
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
    one_window,
    refusal,
    refuse_others,
    same_flag,
    sizes_from_hf,
    sizes_to_hf,
    theta,
    whole,
)

__all__ = ["MODERNBERT"]

_LOCAL, _GLOBAL = "sliding_attention", "full_attention"
_ACTIVATIONS = {"gelu": "geglu", "silu": "swiglu"}
_EVERY = 3
_BIASES = ("attention_bias", "mlp_bias", "classifier_bias")


def _parts(config: ModelConfig) -> dict[str, tuple[object, ...]]:
    return {
        "positions": ("rope",),
        "attention": ("dot",),
        "windows": (one_window(config),),
        "global_tokens": (0,),
        "n_kv_heads": (config.n_heads,),
        "head_dim": (config.dim // config.n_heads,),
        "norm": ("layer",),
        "norm_place": ("pre",),
        "feedforward": ("geglu", "swiglu"),
        "segments": (0,),
        "embedding_norm": (True,),
        "head": (True,),
    }


def _to_hf(config: ModelConfig) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    local_theta = config.local_rope_theta if any(config.windows) and config.local_rope_theta else config.rope_theta
    keys = {
        **sizes_to_hf(config),
        "hidden_activation": names[config.feedforward],
        "classifier_activation": "gelu",
        "norm_eps": config.norm_eps,
        "norm_bias": config.norm_bias,
        **dict.fromkeys(_BIASES, config.bias),
        "decoder_bias": config.output_bias,
        "layer_types": [_LOCAL if window else _GLOBAL for window in config.windows],
        "global_attn_every_n_layers": _every(config.windows),
        "rope_parameters": {
            _GLOBAL: {"rope_type": "default", "rope_theta": config.rope_theta},
            _LOCAL: {"rope_type": "default", "rope_theta": local_theta},
        },
        "global_rope_theta": config.rope_theta,
        "local_rope_theta": local_theta,
        "attention_dropout": 0.0,
        "embedding_dropout": 0.0,
        "mlp_dropout": 0.0,
        "classifier_dropout": 0.0,
        "classifier_pooling": "mean",
    }
    return keys | ({"local_attention": 2 * max(config.windows)} if any(config.windows) else {})


def _every(windows: tuple[int, ...]) -> int:
    """The old key's number for these layers.

    0 where every so-many-th layer does not describe them: a transformers that does not know `layer_types` then divides
    by zero, which is better than other layers than ours.
    """
    n_layers = len(windows)
    periods = (every for every in range(1, n_layers + 1) if _pattern(n_layers, every) == [w == 0 for w in windows])
    return next(periods, 0)


def _pattern(n_layers: int, every: int) -> list[bool]:
    """Which layers see everything when each `every`-th does, the first included."""
    return [i % every == 0 for i in range(n_layers)]


def _from_hf(values: Mapping[str, Any]) -> dict[str, Any]:
    refuse_others(values, {"classifier_activation": ("gelu",), "rope_scaling": (None,)})
    ropes = values.get("rope_parameters") or {}
    if not isinstance(ropes, Mapping):
        raise refusal("rope_parameters", ropes, "an object")
    windows = _windows(values)
    global_theta = theta(ropes.get(_GLOBAL), number(values, "global_rope_theta", 160_000.0))
    # null means that of the global layers, and is not the same as no key
    named = "local_rope_theta" in values
    local_theta = theta(ropes.get(_LOCAL), number(values, "local_rope_theta", global_theta if named else 10_000.0))
    return {
        "architecture": "encoder",
        **sizes_from_hf(values),
        "windows": windows,
        "rope_theta": global_theta,
        "local_rope_theta": 0.0 if local_theta == global_theta or not any(windows) else local_theta,
        "norm": "layer",
        "norm_bias": flag(values, "norm_bias", default=False),
        "norm_eps": number(values, "norm_eps", 1e-5),
        "feedforward": choice(values, "hidden_activation", _ACTIVATIONS, "gelu"),
        "bias": same_flag(values, _BIASES, default=False),
        "embedding_norm": True,
        "head": True,
        "output_bias": flag(values, "decoder_bias", default=True),
        "tied": flag(values, "tie_word_embeddings", default=True),
    }


def _windows(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Our windows, one per layer: `local_attention` is both sides together."""
    n_layers = integer(values, "num_hidden_layers")
    kinds = values.get("layer_types")
    if kinds is None:
        every = integer(values, "global_attn_every_n_layers", _EVERY)
        kinds = [_GLOBAL if seeing_all else _LOCAL for seeing_all in _pattern(n_layers, every)]
    if not isinstance(kinds, list) or len(kinds) != n_layers or any(kind not in (_LOCAL, _GLOBAL) for kind in kinds):
        raise refusal("layer_types", kinds, f"{_GLOBAL} or {_LOCAL} for each of {n_layers} layers")
    if _LOCAL not in kinds:
        return (0,) * n_layers
    both_sides = integer(values, "local_attention", 128)
    if both_sides < 2:
        raise refusal("local_attention", both_sides, "at least 2: one position to either side")
    return tuple(both_sides // 2 if kind == _LOCAL else 0 for kind in kinds)


def _entries(config: ModelConfig) -> Iterator[Entry]:
    offset = config.norm_bias
    yield Entry("embedding", ("model.embeddings.tok_embeddings.weight",))
    yield from whole("embedding_norm", "model.embeddings.norm", bias=offset)
    for i in range(config.n_layers):
        ours, theirs = f"blocks.{i}", f"model.layers.{i}"
        if i > 0:  # the first block follows the norm of the embeddings
            yield from whole(f"{ours}.attention_norm", f"{theirs}.attn_norm", bias=offset)
        yield from whole(f"{ours}.attention.qkv", f"{theirs}.attn.Wqkv", bias=config.bias)
        yield from whole(f"{ours}.attention.out", f"{theirs}.attn.Wo", bias=config.bias)
        yield from whole(f"{ours}.feedforward_norm", f"{theirs}.mlp_norm", bias=offset)
        yield from whole(f"{ours}.feedforward.up", f"{theirs}.mlp.Wi", bias=config.bias)
        yield from whole(f"{ours}.feedforward.down", f"{theirs}.mlp.Wo", bias=config.bias)
    yield from whole("final_norm", "model.final_norm", bias=offset)
    yield from whole("head.dense", "head.dense", bias=config.bias)
    yield from whole("head.norm", "head.norm", bias=offset)
    if config.output_bias:
        yield Entry("output_bias", ("decoder.bias",))
    if not config.tied:
        yield Entry("output", ("decoder.weight",))


MODERNBERT = Family(
    model_type="modernbert",
    native="ModernBertForMaskedLM",
    architecture="encoder",
    parts=_parts,
    to_hf=_to_hf,
    from_hf=_from_hf,
    entries=_entries,
    prefix="model.",
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
)
