"""Attention with several heads: a mean of the values of all visible positions, weighed by how well query and key match.

    attention(Q, K, V) = softmax(Q Kᵀ / sqrt(E)) V

Source: Vaswani et al. 2017, equation 1 and section 3.2.2; heads that share keys and values: Ainslie et al. 2023. The other
kinds of attention are in `variants`, the masks in `positions`. A decoder caches the keys and values of what it has read, so
that the next token costs one position and not all of them (Shazeer 2019, section 2.4). Short ones on a CPU: `fused_attention`.

Cross-attention (Vaswani et al. 2017, section 3.2.3): the queries come from a decoder, keys and values from what an encoder
made of the source text. These do not change while a text is made: they are computed once for each source (`Source`). The
sequences of a beam search that belong to one source stand as further queries of it, so that nothing is copied for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wordpipe.model.config import SCORED, MixerKind, ModelConfig
from wordpipe.model.fused_attention import attend, attend_step, attends, is_step, kernel
from wordpipe.model.layers import Linear
from wordpipe.model.packing import Group, Packed
from wordpipe.model.positions import DistanceBias, mask_like, rotate, visible_keys, with_bias

if TYPE_CHECKING:
    from wordpipe.model.variants.bands import Band
    from wordpipe.model.variants.relative import Distances, Relative
    from wordpipe.model.variants.similarity import Sums
    from wordpipe.model.variants.state_space import States


@dataclass
class KeysValues:
    """Keys and values of one layer, (B, G, S, E) each, of which the first `length` positions are filled; S grows."""

    keys: Tensor
    values: Tensor
    length: int = 0

    def extend(self, k_BGTE: Tensor, v_BGTE: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions to attention's memory; return those of all positions so far."""
        first, self.length = self.length, self.length + k_BGTE.shape[2]
        if self.length > self.keys.shape[2]:
            self._grow(self.length - self.keys.shape[2])
        self.keys[:, :, first : self.length] = k_BGTE
        self.values[:, :, first : self.length] = v_BGTE
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def _grow(self, missing: int) -> None:
        """Make room for the keys and values of `missing` more positions."""
        # by a quarter at least, so that all copies together are a few times the last one
        more = max(missing, self.keys.shape[2] // 4, 8)
        self.keys, self.values = (F.pad(held, (0, 0, 0, more)) for held in (self.keys, self.values))

    def last(self, n: int) -> tuple[Tensor, Tensor]:
        """Return attention's keys and values of the last n positions; forget those of earlier positions."""
        if n < self.length:
            first, last, self.length = self.length - n, self.length, n
            self.keys, self.values = (held[:, :, first:last].clone() for held in (self.keys, self.values))
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def select(self, index_N: Tensor) -> None:
        """Keep the keys and values of these sequences, in this order; a sequence may be kept several times."""
        self.keys, self.values = (held.index_select(0, index_N) for held in (self.keys, self.values))


Memory = Union[KeysValues, "Sums", "States"]
"""What a layer keeps of the positions before: by its mixer."""


class Cache:
    """Memory of a decoder for sequences that grow together.

    Args:
        config: of the model; causal.
        batch_size: sequences.
        max_len: positions that there is room for.
        device: where the model is.

    Attributes:
        length: positions held.
        layers: one memory per layer.
    """

    def __init__(self, config: ModelConfig, batch_size: int, max_len: int, device: torch.device) -> None:
        self.max_len, self.length = max_len, 0
        self.layers = [_empty_memory(config, kind, batch_size, device) for kind in config.layer_mixers]

    def select(self, index_N: Tensor) -> None:
        """Keep the memory of these sequences, in this order (int64): the sequences that a beam search goes on with."""
        for layer in self.layers:
            assert isinstance(layer, KeysValues)
            layer.select(index_N)


def _empty_memory(config: ModelConfig, kind: MixerKind, batch_size: int, device: torch.device) -> Memory:
    """Return the memory of a decoder's layer before the first position."""
    if kind == "ssm":
        from wordpipe.model.variants.state_space import empty_states

        return empty_states(batch_size, config.dim, config.state_dim, device)
    if kind in ("linear", "performer"):
        from wordpipe.model.variants.approximate import n_features
        from wordpipe.model.variants.similarity import empty_sums

        width = config.head_dim if kind == "linear" else n_features(config.head_dim)
        return empty_sums(batch_size, config.n_heads, width, config.head_dim, device)
    shape = (batch_size, config.n_kv_heads, 0, config.head_dim)
    return KeysValues(*torch.empty(2, *shape, device=device))


@dataclass(frozen=True)
class View:
    """Positions and masks of one layer's attention; of another mixer `causal` and `real` alone.

    Attributes:
        angles: cosines and sines of the queries' positions (and of the new keys'), (T, E) each, or None without rotation.
        mask: bool (true where a query sees a key) or float (added to the scores), broadcasts to (B, H, T, S); None: nothing
            but what `causal` says.
        causal: a query sees its own position and those before it, and `mask` does not say so already.
        real: true at the keys that are no padding, (B, S), or None.
        band: the mask of a window in blocks, in place of `mask`, where that is less work.
        distances: how far keys are from queries, in layers of `relative`.
    """

    angles: tuple[Tensor, Tensor] | None
    mask: Tensor | None
    causal: bool
    real: Tensor | None
    band: "Band | None" = None
    distances: "Distances | None" = None


@dataclass(frozen=True)
class PackedView:
    """The views of several runs of sequences, one after the other (see `Packed`).

    Attributes:
        groups: of each run, or of each group of runs; their rows add up to the N positions of all.
        views: of each.
    """

    groups: tuple[Group, ...]
    views: tuple[View, ...]

    def joined(self, found: Sequence[Tensor], n_rows: int) -> Tensor:
        """Return attention's results of all groups, (B, T, …) each, as rows (N, …); rows that fill up to `n_rows` are zero."""
        rows = [group.rows(one) for group, one in zip(self.groups, found, strict=True)]
        if (missing := n_rows - sum(map(len, rows))) > 0:
            rows.append(rows[0].new_zeros(missing, *rows[0].shape[1:]))
        return torch.cat(rows)


def split_rows(rows: Tensor, groups: Sequence[Group]) -> list[Tensor]:
    """Return rows (N, …) as the padded matrix (B, T, …) of each group that attention takes together."""
    sizes = [group.n_rows for group in groups]
    # one split is one node for the gradient, not one per group
    parts = torch.split(rows, [*sizes, len(rows) - sum(sizes)])
    return [group.padded(part) for part, group in zip(parts, groups, strict=False)]


def make_view(
    config: ModelConfig, kind: MixerKind, window: int, angles: tuple[Tensor, Tensor] | None, bias_of: DistanceBias,
    *, first: int, last: int, real: Tensor | None, device: torch.device, segments: Tensor | None = None,
) -> View:  # fmt: skip
    """Return attention's view (who sees whom) of layers of this kind with this window.

    Args:
        config: of the model.
        kind: their mixer.
        window: how far a position sees, 0 = everything.
        angles: from `Rotary`, or None.
        bias_of: the bias on the scores of a distance.
        first: position of the first query; those before it are in the cache.
        last: one more than the position of the last query and key.
        real: true at the keys that are no padding, (B, S), or None.
        device: where the model is.
        segments: which segment each position belongs to, (B, S), or None; for layers of `relative`.
    """
    if kind not in SCORED:  # causality is in the way they sum, padding in what they sum
        return View(angles, None, config.causal, real)
    # relative layers have distances, long windows are computed in blocks
    window = window if window < last - 1 else 0
    if kind == "relative":
        from wordpipe.model.variants.relative import relative_view

        mask, far = relative_view(config, bias_of, window, first, last, real, segments, device)
        return View(None, mask, causal=False, real=real, distances=far)
    if window and first == 0 and kind == "dot":
        from wordpipe.model.variants.bands import blocks_are_faster, make_band

        # with the same window, bias and global tokens
        if blocks_are_faster(window, last):
            band = make_band(
                last,
                real,
                bias_of,
                window=window,
                global_tokens=config.global_tokens,
                causal=config.causal,
                device=device,
            )
            return View(angles, None, causal=False, real=real, band=band)
    # causality alone needs no mask, all else one mask for all heads
    plain = kind == "dot" and not window and not config.biases_scores
    if config.causal and plain and first == 0 and real is None:
        return View(angles, None, causal=True, real=None)  # the kernel masks by itself
    distance_TS = torch.arange(last, device=device) - torch.arange(first, last, device=device)[:, None]
    causal = config.causal and last - first > 1  # a single new position sees all that came before
    seen = visible_keys(distance_TS, real, causal=causal, window=window, global_tokens=config.global_tokens)
    return View(angles, with_bias(seen, bias_of(distance_TS)), causal=False, real=real)


class Attention(nn.Module):
    """One layer's attention.

    One matrix makes queries, keys and values, stacked in that order: one large product instead of three small ones.
    """

    features: Tensor  # the directions w of a Performer, (M, E)

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.kind = config.layer_mixers[layer]
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        bias = config.bias and self.kind != "relative"  # which has u and v
        self.qkv = Linear(config.dim, (self.n_heads + 2 * self.n_kv_heads) * self.head_dim, bias=bias)
        self.relative: Relative | None = None
        if self.kind == "relative":
            from wordpipe.model.variants import relative

            self.relative = relative.Relative(config)
        self.score = nn.Parameter(torch.empty(self.n_heads, self.head_dim)) if self.kind == "additive" else None
        is_short = self.kind == "linformer"
        self.shorten = nn.Parameter(torch.empty(config.linformer_dim, config.max_len)) if is_short else None
        if self.kind == "performer":
            from wordpipe.model.variants.approximate import random_directions

            # not persistent: a function of the config
            self.register_buffer("features", random_directions(self.head_dim, layer), persistent=False)
        self.out = Linear(self.n_heads * self.head_dim, config.dim, bias=bias)

    def forward(
        self,
        x_BTD: Tensor,
        view: View | PackedView,
        memory: Memory | None = None,
        at_BK: Tensor | None = None,
    ) -> Tensor:
        """Return the mean that each position gathers from those that it sees, shape (B, T, D); with `at_BK` (B, K, D).

        Args:
            x_BTD: residual stream; of packed sequences (1, N, D).
            view: angles, and who sees whom.
            memory: this layer's part of a `Cache`, brought up to date, or None.
            at_BK: the positions whose result is wanted, int64; None: all, in order.
        """
        B, T, _ = x_BTD.shape
        heads = self.qkv(x_BTD).view(B, T, self.n_heads + 2 * self.n_kv_heads, self.head_dim)
        if self.relative is not None:
            heads = self.relative.with_kept(heads, x_BTD, self.qkv.weight, grows=memory is not None)
        if isinstance(view, PackedView):
            parts = split_rows(heads[0], view.groups)
            mixed = [
                self._mixed(part, of_group, None, group.hidden)
                for part, group, of_group in zip(parts, view.groups, view.views, strict=True)
            ]
            mixed_BTD = view.joined(mixed, T)[None]
        else:
            mixed_BTD = self._mixed(heads, view, memory)
        out_BTD: Tensor = self.out(rows_at(mixed_BTD, at_BK))
        return out_BTD

    def _mixed(self, heads: Tensor, view: View, memory: Memory | None, hidden_BT: Tensor | None = None) -> Tensor:
        """Return every position's mean of values, (B, T, H · E), by a softmax of scores or without scores."""
        if self.kind in SCORED:
            assert memory is None or isinstance(memory, KeysValues)
            mixed_BTHE = self._softmax(heads, view, memory, hidden_BT)
        else:
            q, k, v = torch.split(heads, [self.n_heads, self.n_kv_heads, self.n_kv_heads], dim=2)
            mixed_BTHE = self._without_scores(q, k, v, view, memory)
        return mixed_BTHE.reshape(*heads.shape[:2], self.n_heads * self.head_dim)

    def _without_scores(
        self, q_BTHE: Tensor, k_BTGE: Tensor, v_BTGE: Tensor, view: View, memory: Memory | None
    ) -> Tensor:
        """Compute linear attention, a Performer or a Linformer: kinds that form no scores of pairs."""
        from wordpipe.model.variants.approximate import performer_attention, shortened
        from wordpipe.model.variants.similarity import Sums, linear_attention

        if self.shorten is not None:
            if view.angles is not None:
                q_BTHE, k_BTGE = rotate(q_BTHE, *view.angles), rotate(k_BTGE, *view.angles)
            k, v = (shortened(x, self.shorten, view.real).transpose(1, 2) for x in (k_BTGE, v_BTGE))
            return kernel(q_BTHE.transpose(1, 2), k, v).transpose(1, 2)
        assert memory is None or isinstance(memory, Sums)
        if self.kind == "performer":
            return performer_attention(
                q_BTHE, k_BTGE, v_BTGE, self.features, angles=view.angles, real_BT=view.real, causal=view.causal,
                sums=memory,
            )  # fmt: skip
        return linear_attention(
            q_BTHE, k_BTGE, v_BTGE, angles=view.angles, real_BT=view.real, causal=view.causal, sums=memory
        )

    def _softmax(self, heads: Tensor, view: View, memory: KeysValues | None, hidden_BT: Tensor | None) -> Tensor:
        """Compute attention by a softmax of scores, on the fastest path that has the wanted view."""
        if self.relative is not None:
            return self.relative(heads, view, memory)  # type: ignore[no-any-return]
        is_plain = memory is None and self.score is None and view.band is None and not _hides(view.mask)
        if is_plain and attends(heads):
            return attend(
                heads, view.angles, n_heads=self.n_heads, n_kv_heads=self.n_kv_heads, causal=view.causal, bias=view.mask,
                hidden_BS=hidden_BT,
            )  # fmt: skip
        # queries and keys are turned; a decoder adds the keys and values that it has read before
        turned, v_BTGE = torch.split(heads, [self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=2)
        if view.angles is not None:
            turned = rotate(turned, *view.angles)
        q_BTHE, k_BTGE = torch.split(turned, [self.n_heads, self.n_kv_heads], dim=2)
        q, k, v = (part.transpose(1, 2) for part in (q_BTHE, k_BTGE, v_BTGE))
        if memory is not None:
            k, v = memory.extend(k, v)
        # the kind of attention that the layer has, by its fastest way here
        if self.score is not None:
            from wordpipe.model.variants.similarity import additive_attention

            return additive_attention(q, k, v, self.score, view.mask).transpose(1, 2)
        if view.band is not None:
            from wordpipe.model.variants.bands import banded_attention

            return banded_attention(q, k, v, view.band).transpose(1, 2)
        mask = mask_like(view.mask, q)
        if memory is not None and not view.causal and is_step(q):
            return attend_step(q, k, v, mask).transpose(1, 2)
        return kernel(q, k, v, mask, causal=view.causal).transpose(1, 2)


class OtherMixer(nn.Module):
    """A mixer in the place of attention: a Fourier transform, which has no weights, or a state-space layer.

    Args:
        config: of the model.
        kind: `fourier` or `ssm`.
    """

    def __init__(self, config: ModelConfig, kind: MixerKind) -> None:
        super().__init__()
        self.mixer: nn.Module
        self.out: Linear | None = None
        if kind == "fourier":
            from wordpipe.model.variants.fourier import Fourier

            self.mixer = Fourier(unitary=config.norm_place == "pre")
        else:
            from wordpipe.model.variants.state_space import StateSpace

            self.mixer = StateSpace(config.dim, config.state_dim, causal=config.causal)
            self.out = Linear(config.dim, config.dim, bias=config.bias)

    def forward(
        self,
        x_BTD: Tensor,
        view: View | PackedView,
        memory: Memory | None = None,
        at_BK: Tensor | None = None,
    ) -> Tensor:
        """Return attention's mixture of all positions for each position, of the shape of `x_BTD`.

        Arguments as of `Attention`.
        """
        if isinstance(view, PackedView):
            parts = zip(split_rows(x_BTD[0], view.groups), view.views, strict=True)
            mixed_BTD = view.joined([self.mixer(part, one.real) for part, one in parts], x_BTD.shape[1])[None]
        else:
            mixed_BTD = self.mixer(x_BTD, view.real, *(() if memory is None else (memory,)))
        mixed_BTD = rows_at(mixed_BTD, at_BK)
        out_BTD: Tensor = mixed_BTD if self.out is None else self.out(mixed_BTD)
        return out_BTD


def make_mixer(config: ModelConfig, layer: int) -> Attention | OtherMixer:
    """Make the module that mixes the positions in a layer."""
    kind = config.layer_mixers[layer]
    return OtherMixer(config, kind) if kind in ("fourier", "ssm") else Attention(config, layer)


@dataclass(frozen=True)
class SourceLayer:
    """Keys and values of source texts for one block.

    Attributes:
        keys_values: keys and values, (2, B, G, S, E); of packed texts (N, 2G, E), keys first.
        real: of each run, one where the texts are not packed: true at the positions that are no padding, (B, S), or None
            where there is none.
        groups: of packed texts, in the order of the decoder's.
    """

    keys_values: Tensor
    real: tuple[Tensor | None, ...]
    groups: tuple[Group, ...] | None = None


@dataclass(frozen=True)
class Source:
    """Source texts in the form that a decoder reads.

    Attributes:
        layers: one for each block of the decoder.
    """

    layers: tuple[SourceLayer, ...]

    @property
    def size(self) -> int:
        """Return the number of source texts that are not packed."""
        return self.layers[0].keys_values.shape[1]

    def groups_of(self, packed: Packed) -> tuple[Group, ...]:
        """Return the groups of targets that attention takes together: the same sequences as the groups of packed sources."""
        groups = self.layers[0].groups
        assert groups is not None
        return packed.groups(together=len(groups) < len(packed.shapes))

    def rows(self, index_B: Tensor) -> "Source":
        """Return some of the texts, not packed, by their number (int64)."""
        real = tuple(None if mask is None else mask.index_select(0, index_B) for mask in self.layers[0].real)
        return Source(tuple(SourceLayer(layer.keys_values.index_select(1, index_B), real) for layer in self.layers))


class CrossAttention(nn.Module):
    """One layer's attention from the target to the source. Keys and values are stacked in one matrix, in that order."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.query = Linear(config.dim, self.n_heads * self.head_dim, bias=config.bias)
        self.keys_values = Linear(config.dim, 2 * self.n_kv_heads * self.head_dim, bias=config.bias)
        self.out = Linear(self.n_heads * self.head_dim, config.dim, bias=config.bias)

    def read(
        self, hidden_BSD: Tensor, real: tuple[Tensor | None, ...], groups: tuple[Group, ...] | None = None
    ) -> SourceLayer:
        """Make the keys and values of cross-attention from the encoder's hidden states, (B, S, D) or packed (N, D)."""
        heads = self.keys_values(hidden_BSD).unflatten(-1, (2, self.n_kv_heads, self.head_dim))
        if groups is not None:
            return SourceLayer(heads.flatten(1, 2), real, groups)
        return SourceLayer(heads.permute(2, 0, 3, 1, 4).contiguous(), real)

    def forward(self, x_BTD: Tensor, source: SourceLayer, packed: PackedView | None = None) -> Tensor:
        """Return the mean that each position gathers from its source, of the shape of `x_BTD`.

        Args:
            x_BTD: positions of the targets; their number may be a multiple of that of the sources: the first so many belong
                to the first source. Packed: (1, N, D).
            source: the source texts.
            packed: how the targets are packed.
        """
        q_BTHE = self.query(x_BTD).unflatten(-1, (self.n_heads, self.head_dim))
        if packed is None:
            k_CGSE, v_CGSE = source.keys_values
            mixed = self._step(q_BTHE, k_CGSE, v_CGSE, source.real[0]).flatten(2)
        else:
            assert source.groups is not None
            parts = zip(
                split_rows(q_BTHE[0], packed.groups), split_rows(source.keys_values, source.groups), source.real,
                source.groups, strict=True,
            )  # fmt: skip
            found = [self._read(q, keys_values, real, group.hidden) for q, keys_values, real, group in parts]
            mixed = packed.joined(found, x_BTD.shape[1])[None]
        out_BTD: Tensor = self.out(mixed)
        return out_BTD

    def _read(
        self, q_BTHE: Tensor, keys_values_BSRE: Tensor, real_BS: Tensor | None, hidden_BS: Tensor | None
    ) -> Tensor:
        """Return the mean that each target of a group gathers from its source by cross-attention, (B, T, D).

        `hidden_BS` is of training alone.
        """
        H, G = self.n_heads, self.n_kv_heads
        if real_BS is None and attends(keys_values_BSRE):
            return attend(
                q_BTHE, None, n_heads=H, n_kv_heads=G, causal=False, keys_values_BSRE=keys_values_BSRE,
                hidden_BS=hidden_BS,
            )  # fmt: skip
        k, v = (part.transpose(1, 2) for part in keys_values_BSRE.chunk(2, dim=2))
        mask = None if real_BS is None else real_BS[:, None, None]
        return kernel(q_BTHE.transpose(1, 2), k, v, mask).transpose(1, 2).flatten(2)

    def _step(self, q_BTHE: Tensor, k_CGSE: Tensor, v_CGSE: Tensor, real_CS: Tensor | None) -> Tensor:
        """Return the values' weighted mean by cross-attention, (B, T, H, E); B is a multiple of the C sources."""
        B, T, H, E = q_BTHE.shape
        C = len(k_CGSE)
        q = q_BTHE.reshape(C, B // C * T, H, E).transpose(1, 2)
        mask = None if real_CS is None else real_CS[:, None, None]
        mixed = attend_step(q, k_CGSE, v_CGSE, mask) if is_step(q) else kernel(q, k_CGSE, v_CGSE, mask)
        return mixed.transpose(1, 2).reshape(B, T, H, E)


def _hides(mask: Tensor | None) -> bool:
    """True if a mask hides positions of single texts, and is not the bias of all."""
    return mask is not None and (mask.dtype is torch.bool or len(mask) > 1)


def rows_at(x_BTD: Tensor, at_BK: Tensor | None) -> Tensor:
    """Return the positions of every sequence that ask in attention, (B, K, D); all where none are named."""
    if at_BK is None:
        return x_BTD
    B, T, D = x_BTD.shape
    first_B1 = torch.arange(B, device=x_BTD.device)[:, None] * T
    return x_BTD.reshape(B * T, D).index_select(0, (at_BK + first_B1).flatten()).view(B, -1, D)
