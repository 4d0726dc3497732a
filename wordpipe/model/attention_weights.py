"""The weights of attention, all of them, by an exact path beside the fast one; and heads and layers left out.

The fast kernels never hold the weights. Here every attention forms them, softmax(Q Kᵀ / sqrt(E) + bias), and gives on what
they make of the values: the hidden states are computed *from* the weights that are shown, and equal those of the fast path.
The blocks stay as they are: each attention is called as always, and its result is replaced (hooks of torch).

A head is left out by zeros in its part of what goes into the output matrix: its share of the sum is nothing. A layer is left
out by giving on what came into its block. Both hold for every path: packed texts, beams, heads for labels.

What a head writes into the residual stream is Σ_s α_ts · f(v_s), with f(v) = v W_O of that head; ‖α_ts f(v_s)‖ weighs a
position by what it brings, where a weight on a short vector brings little (Kobayashi et al. 2020, "Attention is Not Only a
Weight", equations 3 to 5).

Shapes: L layers, H heads, T queries, S keys.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wordpipe.errors import ConfigError
from wordpipe.model.attention import Attention, CrossAttention, SourceLayer, View
from wordpipe.model.config import SCORED, MixerKind
from wordpipe.model.encoder_decoder import EncoderDecoder, Transformer
from wordpipe.model.positions import rotate, visible_keys, with_bias
from wordpipe.model.transformer import Block, LanguageModel

Floats = npt.NDArray[np.float32]
_WITHOUT_WEIGHTS: dict[MixerKind, str] = {
    "linear": "linear attention", "performer": "a Performer", "linformer": "a Linformer", "fourier": "a Fourier transform",
    "ssm": "a state-space layer",
}  # fmt: skip


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of one kind of attention of a model in one text.

    Attributes:
        weights: α, (L, H, T, S), float32; the rows sum to 1.
        norms: ‖α f(v)‖, (L, H, T, S), float32, not scaled.
    """

    weights: Floats
    norms: Floats


@dataclass(frozen=True)
class Attended:
    """The attention of a model in one text, or in a source and its target.

    Attributes:
        maps: encoder, decoder, cross → `AttentionMaps`; a single stack has one.
        hidden: hidden states (T, D) after the last norm, float32; of an encoder-decoder those of the decoder.
    """

    maps: Mapping[str, AttentionMaps]
    hidden: Floats


def attention_of(model: "Transformer") -> dict[str, list[Attention | CrossAttention]]:
    """Return the attentions of a model by kind (encoder, decoder, cross), one of each layer that has one."""
    if isinstance(model, EncoderDecoder):
        return {
            "encoder": _attentions(model.encoder),
            "decoder": _attentions(model.decoder),
            "cross": [block.cross for block in _blocks(model.decoder) if block.cross is not None],
        }
    return {model.config.architecture: _attentions(model)}


def _attentions(model: LanguageModel) -> list[Attention | CrossAttention]:
    """Return the attentions of a stack, without mixers of other kinds."""
    return [block.attention for block in _blocks(model) if isinstance(block.attention, Attention)]


@torch.no_grad()
def attend_exactly(
    model: "Transformer", ids_T: npt.NDArray[np.integer[Any]], *, target_ids: npt.NDArray[np.integer[Any]] | None = None,
    segments_T: npt.NDArray[np.integer[Any]] | None = None,
) -> Attended:  # fmt: skip
    """Compute all weights of a text.

    Args:
        model: in evaluation mode, float32.
        ids_T: token ids with their frame; of an encoder-decoder those of the source.
        target_ids: what an encoder-decoder's decoder reads: its start, and the target.
        segments_T: which text of a pair each token belongs to, for a model with segment embeddings.

    Raises:
        ConfigError: linear attention, or another mixer that has no weights; or more positions than the model's table has.
    """
    refuse_without_weights(model)
    model.eval()
    device = model.embedding.device
    taken: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in attention_of(model)}
    ids_1T = torch.as_tensor(np.asarray(ids_T, np.int64), device=device)[None]
    # the text is read, and each attention hands out its weights
    with ExitStack() as stack:
        for name, layers in attention_of(model).items():
            for module in layers:
                stack.enter_context(_exact(module, taken[name].append))
        # a target reads its source, a single stack its text
        if isinstance(model, EncoderDecoder):
            assert target_ids is not None
            target_1T = torch.as_tensor(np.asarray(target_ids, np.int64), device=device)[None]
            read = _encode(model.encoder, ids_1T)
            source = model._source(read, (None,))
            hidden_1TD = _encode(model.decoder, target_1T, source=source)
        else:
            segments = (
                None if segments_T is None else torch.as_tensor(np.asarray(segments_T, np.int64), device=device)[None]
            )
            hidden_1TD = _encode(model, ids_1T, segments)
    # layers of a kind become one array
    maps = {
        name: AttentionMaps(*(torch.cat(parts).cpu().numpy() for parts in zip(*layers, strict=True)))
        for name, layers in taken.items()
    }
    return Attended(maps, hidden_1TD[0].float().cpu().numpy())


def refuse_without_weights(model: "Transformer") -> None:
    """Refuse linear attention, and what else never compares a query with a single key.

    Raises:
        ConfigError: a layer has no weights.
    """
    config = model.config
    for kind, name in _WITHOUT_WEIGHTS.items():
        if kind in config.kinds:
            raise ConfigError(
                f"{name} has no attention weights, because it does not compare pairs of positions",
                where="mixers" if config.mixers else "attention", got=", ".join(config.mixers or (kind,)),
                expected=" or ".join(SCORED),
            )  # fmt: skip


def _blocks(model: LanguageModel) -> list[Block]:
    """Return the blocks of a stack."""
    return [block for block in model.blocks if isinstance(block, Block)]


def _encode(model: LanguageModel, ids_1T: Tensor, segments_1T: Tensor | None = None, source: Any = None) -> Tensor:
    """Encode one text as `LanguageModel.encode`, with one whole mask for each kind of layer, whatever its window."""
    n = ids_1T.shape[1]
    x_1TD = model._embed(ids_1T, segments_1T, 0, n)
    return model._run_blocks(x_1TD, _whole_views(model, n, segments_1T), source=source)


def _whole_views(model: LanguageModel, n: int, segments_1T: Tensor | None = None) -> dict[tuple[MixerKind, int], View]:
    """Return the views of all layers by mixer and window for exact weights, each with its whole mask."""
    config, device, views = model.config, model.embedding.device, dict[tuple[MixerKind, int], View]()
    distance_TS = torch.arange(n, device=device) - torch.arange(n, device=device)[:, None]
    for (kind, window), given in model._views(n, None, 0, segments_1T).items():
        far = given.distances
        if far is not None and far.segment:  # all pairs, and not segment by segment
            from wordpipe.model.variants.relative import distances

            far = distances(config, n, n, None, device)
        seen = visible_keys(
            distance_TS, None, causal=config.causal, window=window if window < n - 1 else 0,
            global_tokens=config.global_tokens, segment=0 if far is None else config.mem_len,
        )  # fmt: skip
        mask = with_bias(seen, model._distance_bias(distance_TS))
        views[kind, window] = View(given.angles, mask, causal=False, real=None, distances=far)
    return views


@contextmanager
def _exact(module: Attention | CrossAttention, take: Callable[[tuple[Tensor, Tensor]], None]) -> Iterator[None]:
    """Compute an attention by its exact weights; hand out weights and norms, (1, H, T, S), of each call."""

    def own(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _: Tensor) -> Tensor:
        """Return the result and the weights of this attention."""
        del kwargs
        assert isinstance(module, Attention | CrossAttention)
        q, k, v, mask = (
            _cross_parts(module, *args[:2]) if isinstance(module, CrossAttention) else _parts(module, *args[:2])
        )
        weights = _weights(module, q, k, mask)
        values = v.repeat_interleave(module.n_heads // module.n_kv_heads, dim=1)
        take((weights, weights * _written_length(module, values)[:, :, None]))
        mixed_1TD: Tensor = module.out((weights @ values).transpose(1, 2).flatten(2))
        return mixed_1TD

    hook = module.register_forward_hook(own, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def _parts(module: Attention, x_1TD: Tensor, view: View) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return queries, keys and values for exact attention weights, (1, heads, T, E), turned; and the mask."""
    H, G = module.n_heads, module.n_kv_heads
    heads = module.qkv(x_1TD).unflatten(-1, (H + 2 * G, module.head_dim)).float()
    turned, v = torch.split(heads, [H + G, G], dim=2)
    if view.angles is not None:
        turned = rotate(turned, *view.angles)
    q, k = torch.split(turned, [H, G], dim=2)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if module.relative is None:
        return q, k, v, view.mask
    assert view.distances is not None
    return q + module.relative.content_bias[:, None], k, v, module.relative.bias(q, view.distances, view.mask)


def _cross_parts(
    module: CrossAttention, x_1TD: Tensor, source: SourceLayer
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return queries, keys and values for exact weights of cross-attention, (1, heads, T, E); it has no mask."""
    q = module.query(x_1TD).unflatten(-1, (module.n_heads, module.head_dim)).float()
    k, v = source.keys_values.float()
    return q.transpose(1, 2), k, v, None


def _weights(module: Attention | CrossAttention, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weights of attention, the softmax of the scores, (1, H, T, S), float32.

    Of additive attention wᵀ tanh(q + k), head by head.
    """
    k = k.repeat_interleave(module.n_heads // module.n_kv_heads, dim=1)
    if isinstance(module, Attention) and module.score is not None:
        score_HE = module.score.float()
        scores = torch.stack(
            [torch.tanh(q[:, h, :, None] + k[:, h, None]) @ score_HE[h] for h in range(module.n_heads)], dim=1
        )
    else:
        scores = (q @ k.transpose(2, 3)) / math.sqrt(module.head_dim)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(dim=-1)


def _written_length(module: Attention | CrossAttention, values: Tensor) -> Tensor:
    """Return ‖v W_O‖ of each head and position, (1, H, S), of values (1, H, S, E)."""
    out_DHE = module.out.weight.float().view(-1, module.n_heads, module.head_dim)
    lengths: Tensor = torch.linalg.vector_norm(torch.einsum("bhse,dhe->bhsd", values, out_DHE), dim=-1)
    return lengths


# ---- heads and layers left out


@contextmanager
def heads_off(model: "Transformer", kept: Mapping[str, npt.NDArray[Any]]) -> Iterator[None]:
    """Switch off single attention heads, or multiply the output of each head by a factor, while the context is open.

    Args:
        model: any.
        kept: encoder, decoder, cross → (L, H), by which the output of each head is multiplied: 0 switches it off. Kinds that
            are not named keep all theirs.

    Raises:
        ConfigError: a kind that the model does not have, or another shape.
    """
    there = attention_of(model)
    with ExitStack() as stack:
        for name, factors in kept.items():
            layers = there.get(name, [])
            if not layers or factors.shape != (len(layers), model.config.n_heads):
                expected = ", ".join(f"{one}: {len(some)} x {model.config.n_heads}" for one, some in there.items())
                raise ConfigError(
                    "the factors do not match the layers and heads of the model",
                    where=name,
                    got=factors.shape,
                    expected=expected,
                )
            for module, factors_H in zip(layers, factors, strict=True):
                if (factors_H != 1).any():
                    stack.enter_context(_scaled(module, np.asarray(factors_H, np.float32)))
        yield


@contextmanager
def _scaled(module: Attention | CrossAttention, factors_H: Floats) -> Iterator[None]:
    """Multiply the output of each head of an attention by its factor, while the context is open."""
    factors = torch.from_numpy(factors_H).repeat_interleave(module.head_dim)

    def scale(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0] * factors.to(args[0]), *args[1:])

    hook = module.out.register_forward_pre_hook(scale)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def feedforwards_observed(model: "Transformer", take: Callable[[str, int, Tensor], None]) -> Iterator[None]:
    """Hand out what goes into the second matrix of each feed-forward, as attention weights are handed out."""
    stacks = (
        {"encoder": model.encoder, "decoder": model.decoder}
        if isinstance(model, EncoderDecoder)
        else {model.config.architecture: model}
    )
    hooks = []
    for name, stack in stacks.items():
        for layer, block in enumerate(_blocks(stack)):

            def hand_out(_: nn.Module, args: tuple[Any, ...], name: str = name, layer: int = layer) -> None:
                take(name, layer, args[0])

            hooks.append(block.feedforward.down.register_forward_pre_hook(hand_out))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
